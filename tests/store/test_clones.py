"""What came with a clone: a part is looked at until it is trusted, the rest is told of, links are refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import Malformed
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.store import files
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test can reach."""
    monkeypatch.setattr(files, "STRANGE_FILES", 5)
    monkeypatch.setattr(files, "STRANGE_LARGEST", 2_000)
    monkeypatch.setattr(files, "STRANGE_BYTES", 6_000)


def opened(base: Path, **given: Any) -> Memory:
    return connect(home=base / "home", cwd=base / "work", **{"origin": Origin.USER, "environ": {}, **given})


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose `.vade/` a stranger filled."""
    records = tmp_path / "work/.vade/records"
    records.mkdir(parents=True)
    (tmp_path / "work/.git").mkdir()
    for number in range(8):
        (records / f"note-{number}.md").write_text(
            f"# note\n\nService {number} listens on port 80{number}.\n"
        )
    (records / "a-huge.md").write_text("# huge\n\n" + "Words. " * 1_000)
    return records


def left_out(found: Any) -> list[str]:
    return [each.why for each in found if each.what == files.LEFT_OUT]


def test_a_part_of_a_strangers_folder_is_looked_at_and_every_door_says_so(
    tmp_path: Path, clone: Path
) -> None:
    memory = opened(tmp_path)
    assert [each.key for each in memory.list().records] == [f"note-{number}" for number in range(5)]
    assert memory.care.survey().files == 5
    for found in (
        memory.list().findings,
        memory.list(limit=2).findings,
        memory.status().findings,
        memory.care.lint(),
    ):
        (why,) = left_out(found)
        assert why.startswith(
            "4 files are left out, among them a-huge.md: until this folder is trusted, 5 files"
        )
    assert any("4 files are left out" in each for each in memory.search("port of a service").degraded)
    assert any("4 files are left out" in each for each in memory.injection.block().warnings)


def test_what_is_looked_at_is_no_more_than_so_many_bytes(tmp_path: Path, clone: Path) -> None:
    for number in range(5):
        (clone / f"note-{number}.md").write_text(f"# note\n\n{'Long. ' * 300}\n")
    memory = opened(tmp_path)
    assert len(memory.list().records) == 3
    assert left_out(memory.list().findings)[0].startswith("6 files are left out")


def test_a_long_record_of_a_stranger_is_not_read_by_its_name_either(tmp_path: Path, clone: Path) -> None:
    memory = opened(tmp_path)
    with pytest.raises(Malformed, match="at most 2,000 are read"):
        memory.show(".vade/records/a-huge.md")


def test_trust_lifts_the_limits(tmp_path: Path, clone: Path) -> None:
    opened(tmp_path).projects.trust()
    memory = opened(tmp_path)
    assert len(memory.list().records) == 9
    assert left_out(memory.list().findings) == []
    assert memory.care.survey().files == 9


def test_a_home_of_ones_own_is_not_cut(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    memory = opened(tmp_path)
    for number in range(9):
        memory.store(f"Fact {number} " + "of many words " * 200, key=f"fact-{number}")
    memory.store("For everyone", key="all", scope="global")
    assert len(memory.list().records) == 10
    assert left_out(memory.status().findings) == []


def test_what_a_stranger_brought_is_read_by_no_model(tmp_path: Path, clone: Path) -> None:
    memory = opened(tmp_path)
    memory.store("The deployment runs on Fridays.", key="mine", scope="global")
    memory.search("deployment")
    corpus = memory.care.searcher._corpus
    assert (corpus.curated.root, corpus.filter.root) == ("", str(tmp_path / "work"))
    memory.projects.trust()
    assert opened(tmp_path).care.searcher._corpus.curated.root == str(tmp_path / "work")


@pytest.mark.parametrize("trusted", [False, True])
def test_a_hard_link_in_a_repository_is_refused_in_one_sentence(tmp_path: Path, trusted: bool) -> None:
    records = tmp_path / "work/.vade/records"
    records.mkdir(parents=True)
    (records / "own.md").write_text("# own\n\nOwn words.\n")
    (tmp_path / "outside.md").write_text("# secret\n\nOf somebody else.\n")
    os.link(tmp_path / "outside.md", records / "linked.md")
    if trusted:
        opened(tmp_path).projects.trust()
    memory = opened(tmp_path)
    assert [each.key for each in memory.list().records] == ["own"]
    (finding,) = memory.list().findings
    assert finding.where.endswith("linked.md")
    assert finding.why.endswith("is a hard link and is not read: copy it instead")
    assert "somebody" not in "".join(each.snippet for each in memory.search("somebody else").results)
    assert "somebody" not in memory.injection.block().text
    (records / "linked.md").unlink()
    (records / "linked.md").write_bytes((tmp_path / "outside.md").read_bytes())
    assert len(opened(tmp_path).list().records) == 2


def test_a_hard_link_in_ones_own_home_is_ones_own_business(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    memory = opened(tmp_path)
    path = memory.home.path / memory.store("Kept twice.", key="kept").path
    os.link(path, tmp_path / "backup.md")
    assert memory.show("kept").text == "Kept twice."


def test_the_command_line_tells_what_was_left_out(
    tmp_path: Path, clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    told = (["list"], ["status"], ["check"], ["search", "service"], ["inject"])
    quiet = (
        ["review"],
        ["graph"],
        ["index"],
        ["tidy", "--only", "heal"],
        ["review", "verify", "--list"],
        ["export", "okf", "../out"],
    )
    for words in (*told, *quiet):
        files.cut_short.clear()  # as in a process of its own
        run(words)
        said = capsys.readouterr()
        assert (said.out + said.err).count("4 files are left out") == 1, words
    files.cut_short.clear()
    run(["config"])
    assert "left out" not in capsys.readouterr().err
