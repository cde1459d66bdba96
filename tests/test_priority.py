"""Priority, a field that is one row: typed, checked, sorted, shown, synced, purged and imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allowing import allow
from vade_command import Vade
from vademecum.errors import UsageError
from vademecum.interfaces.http.views import memories
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Vade(tmp_path / "home", capsys)


def memory_of(vade: Vade, origin: Origin = Origin.USER) -> Memory:
    return connect(home=vade.home, cwd=vade.home.parent / "project", origin=origin, environ={})


def file_of(vade: Vade, key: str) -> Path:
    return vade.home / str(vade.json("show", key)["path"])


def set_line(path: Path, line: str) -> None:
    """Write a line into the frontmatter, as a person does in an editor."""
    path.write_text(path.read_text().replace("---\n", f"---\n{line}\n", 1))


def keys(vade: Vade, *words: str) -> list[str]:
    return [each["key"] for each in vade.json("list", *words)["records"]]


def test_a_priority_is_saved_shown_and_sorted_by(vade: Vade) -> None:
    vade("add", "The office plant is a fern.", "--key", "plant")
    vade("add", "Backups run at 02:00.", "--key", "backups", "--priority", "3")
    vade("add", "Never deploy on Fridays.", "--key", "deploys", "--priority", "1")
    assert "\npriority: 1\n" in file_of(vade, "deploys").read_text()

    assert vade.json("show", "deploys")["priority"] == 1
    assert "priority" not in vade.json("show", "plant")
    assert "priority: 1" in vade("show", "deploys").splitlines()

    assert keys(vade) == ["plant", "backups", "deploys"]
    assert keys(vade, "--sort", "priority") == ["deploys", "backups", "plant"]
    assert keys(vade, "--sort", "priority", "--limit", "2") == ["deploys", "backups"]
    assert keys(vade, "--sort", "priority", "--limit", "2", "--offset", "2") == ["plant"]
    assert keys(vade, "--sort", "key") == ["backups", "deploys", "plant"]
    assert "priority" in vade("list").splitlines()[0]
    assert "priority" not in vade("list", "--limit", "1").splitlines()[0], "no column where none has one"


@pytest.mark.parametrize("given", ["0", "6", "2.5", "high"])
def test_a_priority_that_is_none_is_refused(vade: Vade, given: str) -> None:
    vade("add", "Never deploy on Fridays.", "--key", "deploys", "--priority", given)
    assert vade.code == 2
    assert "--priority" in vade.err
    assert keys(vade) == []
    with pytest.raises(UsageError, match="priority must be a whole number from 1 to 5, not"):
        memory_of(vade).store("Never deploy on Fridays.", fields={"priority": given})


def test_a_lesson_has_a_priority_too_and_a_later_one_replaces_it(vade: Vade) -> None:
    words = ("add", "--type", "rule", "Never commit to main.", "--priority")
    key = vade.json(*words, "4")["key"]
    assert vade.json("show", key)["priority"] == 4
    vade(*words, "2")
    assert vade.json("show", key)["priority"] == 2


@pytest.mark.parametrize("value", ["9", "urgent", "[1]", "2.0"])
def test_a_bad_priority_in_a_file_is_a_finding_and_has_no_effect(vade: Vade, value: str) -> None:
    vade("add", "Never deploy on Fridays.", "--key", "deploys")
    set_line(file_of(vade, "deploys"), f"priority: {value}")
    assert "priority" not in vade.json("show", "deploys")
    found = [each for each in vade.json("check")["findings"] if each["what"] == "field"]
    assert [(each["start_line"], each["mend"]) for each in found] == [
        (2, "vade edit deploys --scope project")
    ]
    assert found[0]["why"].startswith("priority must be a whole number from 1 to 5, not ")


def test_an_edit_may_set_a_priority_and_not_a_bad_one(vade: Vade) -> None:
    vade("add", "Never deploy on Fridays.", "--key", "deploys")
    care = memory_of(vade).care
    _, text = care.editable("deploys")
    good = text.replace("---\n", "---\npriority: 2\n", 1)
    care.edited("deploys", text, good)
    assert vade.json("show", "deploys")["priority"] == 2
    with pytest.raises(UsageError, match="priority must be a whole number from 1 to 5, not 7"):
        care.edited("deploys", good, good.replace("priority: 2", "priority: 7"))
    assert vade.json("show", "deploys")["priority"] == 2


def test_an_agent_does_not_change_the_priority_of_a_persons_record(vade: Vade) -> None:
    vade("add", "Never deploy on Fridays.", "--key", "deploys", "--priority", "1")
    memory_of(vade, Origin.AGENT).store("Deploys take an hour.", key="deploys", fields={"priority": 5})
    assert vade.json("show", "deploys")["priority"] == 1


def test_the_page_sorts_by_priority_and_shows_it(vade: Vade) -> None:
    memory = memory_of(vade)
    for number in (4, None, 2):
        fields = {} if number is None else {"priority": number}
        memory.store(f"Service {number} listens on a port.", key=f"service-{number or 0}", fields=fields)
    page = memory.browse.table(sort="priority", limit=2)
    assert [each.record.key for each in page.rows] == ["service-2", "service-4"]
    rest = memory.browse.table(sort="priority", limit=2, after=page.next)
    assert [each.record.key for each in rest.rows] == ["service-0"]
    assert [memories._row(each)["labels"] for each in (*page.rows, *rest.rows)] == [
        ["priority 2"],
        ["priority 4"],
        [],
    ]


def test_a_priority_is_synced_and_purged_with_its_record(
    vade: Vade, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = str(tmp_path / "shared")
    (tmp_path / "shared").mkdir()
    vade("add", "Never deploy on Fridays.", "--key", "deploys", "--scope", "global", "--priority", "1")
    told = vade.json("sync", "--folder", shared)
    other = Vade(tmp_path / "other", capsys)
    monkeypatch.setenv("VADE_SYNC_KEY", str(told["key"]))
    other("sync", "--folder", shared)
    assert other.json("show", "deploys")["priority"] == 1
    set_line(file_of(other, "deploys"), "mine: 1")
    path = file_of(other, "deploys")
    path.write_text(path.read_text().replace("priority: 1", "priority: 4"))
    other("sync")
    vade("sync")
    assert vade.json("show", "deploys")["priority"] == 4

    allow(vade.home)
    vade("purge", "deploys", "--yes")
    assert vade.code == 0, vade.err
    vade("sync")
    other("sync")
    for home in (vade.home, other.home):
        files = [each for each in home.rglob("*") if each.is_file() and each.suffix in (".md", ".jsonl")]
        assert not [each for each in files if "priority: " in each.read_text()]


def test_an_import_keeps_a_priority(vade: Vade, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "deploys.md").write_text("---\ntype: rule\npriority: 2\n---\n# Deploys\n\nNot on Fridays.\n")
    vade("import", "okf", str(source))
    assert vade.code == 0
    record: dict[str, Any] = vade.json("list", "--sort", "priority")["records"][0]
    assert record["priority"] == 2
