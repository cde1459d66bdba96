"""Commands for every day: what is new, a record's history, records put in order, and backups."""

from __future__ import annotations

import gzip
import os
import re
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from vade_command import Vade
from vademecum.errors import Collision, Conflict, Malformed, NotVisible, UsageError
from vademecum.memory.opening import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory
    from vademecum.types import Record


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Vade(tmp_path / "home", capsys)


def opened(tmp_path: Path, **given: object) -> Memory:
    (tmp_path / "project").mkdir(exist_ok=True)
    place = {"home": tmp_path / "home", "project": tmp_path / "project"}
    return connect(**{"origin": Origin.USER, "terminal": True, **place, **given})  # type: ignore[arg-type]


def keys(memory: Memory, **given: object) -> set[str]:
    return {each.key for each in memory.list(**given).records}  # type: ignore[arg-type]


def test_today_shows_notes_records_and_what_to_do_when_there_are_none(vade: Vade) -> None:
    assert "Nothing was added today." in vade("today")
    vade("add", "--journal", "talked to Ann")
    vade("add", "Ann owns billing", "--key", "billing")
    shown = vade("today")
    assert "talked to Ann" in shown
    assert "<!--" not in shown
    assert "billing" in shown
    told = vade.json("today")
    assert [each["key"] for each in told["records"]] == ["billing"]
    assert len(told["journal"]) == 1


def test_review_says_why_a_write_that_was_changed_after_the_request_cannot_be_approved(
    vade: Vade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vade("add", "Deploys on Friday", "--key", "deploys")
    with monkeypatch.context() as patched:
        patched.setenv("AI_AGENT", "owl")
        vade("forget", "deploys", "--yes")
    assert vade.err.count("pending") == 1
    (request,) = (tmp_path / "home" / "decisions" / "approvals").glob("*.json")
    request.write_text(request.read_text().replace('"owl"', '"fox"').replace("forget", "archive"))
    assert f"write: {request.name[:12]}: was changed after it was asked for" in vade("review")


def test_the_log_shows_each_change_with_who_made_it_and_the_id_that_restores_it(vade: Vade) -> None:
    vade("add", "Deploys on Friday", "--key", "deploys")
    vade("add", "Deploys on Thursday", "--key", "deploys", "--mode", "replace")
    vade("tag", "deploys", "--add", "ops")
    changes = vade.json("log", "deploys")["changes"]
    assert [each["what"] for each in changes] == ["tag", "replaced", "created"]
    assert "+Deploys on Thursday" in changes[1]["diff"]
    assert "+tags: [ops]" in changes[0]["diff"]
    assert all(each["by"] for each in changes)
    shown = vade("log", "deploys")
    assert f"vade restore {changes[1]['replaced']}" in shown
    vade("restore", changes[1]["replaced"])
    assert vade.json("show", "deploys")["entries"][-1]["text"] == "Deploys on Friday"


def test_a_diff_is_with_the_version_before_or_the_one_named(vade: Vade) -> None:
    for text in ("one", "two", "three"):
        vade("add", text, "--key", "count", "--mode", "replace")
    first = vade.json("show", "count")["versions"][0]["id"]
    assert "+two" not in vade("diff", "count")
    assert "+three" in vade("diff", "count")
    assert "+two" in vade("diff", "count", first)
    vade("diff", "count", "nonsense")
    assert (vade.code, "vade log count" in vade.err) == (1, True)
    vade("add", "alone", "--key", "alone")
    assert vade("diff", "alone") == "alone has not changed\n"


def test_a_renamed_record_is_found_by_both_keys_and_undone_byte_for_byte(vade: Vade) -> None:
    vade("add", "Deploys on Friday", "--key", "deploys")
    path = vade.home / vade.json("show", "deploys")["path"]
    before = path.read_bytes()
    assert "renamed deploys to shipping" in vade("rename", "deploys", "shipping")
    assert not path.exists()
    assert vade.json("show", "deploys")["key"] == vade.json("show", "shipping")["key"] == "shipping"
    assert vade("list", "--forgotten") == "nothing is archived\n"
    vade("add", "And on Monday", "--key", "deploys")
    assert len(vade.json("show", "shipping")["entries"]) == 2
    vade("undo")
    assert vade.code == 1, "what was added since then is not taken away"
    vade("add", "Ann owns billing", "--key", "billing")
    before = (vade.home / vade.json("show", "billing")["path"]).read_bytes()
    vade("rename", "billing", "invoices")
    vade("undo")
    assert (vade.home / vade.json("show", "billing")["path"]).read_bytes() == before
    for command in ("show", "restore"):  # the record is here, so the archive is no way to it
        vade(command, "invoices")
        assert "it is called billing now; `vade show billing` shows it" in vade.err
    vade("forget", "billing", "--yes")
    vade("show", "billing")
    assert "`vade restore billing` restores it" in vade.err


def test_a_restored_version_has_lost_nothing_by_hand(
    vade: Vade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/Friday/Monday/ "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    vade("add", "Deploys on Friday", "--key", "deploys")
    vade("edit", "deploys")
    [version] = re.findall(r"\d{8}T\d{12}Z-[0-9a-f]+", vade("show", "deploys"))
    vade("restore", version)
    shown = vade("show", "deploys")
    assert "Deploys on Friday" in shown
    assert "by hand" not in shown
    vade("restore", "deploys")
    assert vade.code == 1, "both texts in one record would be a contradiction"
    assert len(re.findall(r"\d{8}T\d{12}Z-[0-9a-f]+", shown)) == 2  # and the edit can come back, too


def test_a_file_that_cannot_be_read_is_named_when_a_text_is_added_to_it(vade: Vade) -> None:
    vade("add", "Deploys on Friday", "--key", "deploys")
    path = vade.json("show", "deploys")["path"]
    (vade.home / path).write_text("---\nkey: [open\n---\n")
    vade("add", "And on Monday", "--key", "deploys")
    assert f"vade: {path}: " in vade.err


def test_a_key_that_is_taken_or_no_key_is_refused_and_nothing_changes(vade: Vade) -> None:
    vade("add", "one", "--key", "one")
    vade("add", "two", "--key", "two")
    for new in ("two", "A B", "../x", "one"):
        vade("rename", "one", new)
        assert vade.code in (1, 2), new
    assert {each["key"] for each in vade.json("list")["records"]} == {"one", "two"}


def test_a_record_moves_to_another_scope_with_its_number_and_history(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Ann prefers tabs", key="tabs", tags=["style"])
    before = memory.show("tabs")
    done = memory.care.move(["tabs"], to="global")
    after = memory.show("tabs", scope="global")
    assert (after.id, after.num, after.text, after.tags) == (before.id, before.num, before.text, before.tags)
    assert keys(memory, scope="project") == set()
    assert not memory.archive.forgotten()
    assert memory.search("tabs").results[0].place.scope == "global"
    memory.care.undo(done.run)
    assert memory.show("tabs").place == before.place
    memory.close()


def test_moving_onto_a_record_of_the_same_key_is_refused(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("one", key="k")
    memory.store("two", key="k", scope="global")
    with pytest.raises(Conflict):
        memory.care.move(["k"], to="global", scope="project")
    assert memory.show("k", scope="global").text == "two"
    memory.close()


def test_an_agent_does_not_move_or_rename_what_a_person_wrote(tmp_path: Path) -> None:
    person = opened(tmp_path)
    person.store("Ann prefers tabs", key="tabs")
    agent = opened(tmp_path, origin=Origin.AGENT)
    with pytest.raises(NotVisible):
        agent.care.move(["tabs"], to="global")
    with pytest.raises(NotVisible):
        agent.care.rename("tabs", "spaces")
    agent.store("Builds take long", key="builds")
    agent.care.rename("builds", "slow-builds")
    assert keys(person) == {"tabs", "slow-builds"}
    person.close()
    agent.close()


def test_many_records_are_tagged_forgotten_and_brought_back_by_a_filter(vade: Vade) -> None:
    for name in ("deploy-a", "deploy-b", "billing"):
        vade("add", f"About {name} only", "--key", name)
    assert "2 records" in vade("tag", "--match", "deploy-*", "--add", "old", "--yes")
    assert {each["key"] for each in vade.json("list", "--tag", "old")["records"]} == {"deploy-a", "deploy-b"}
    vade("forget", "--match", "tag:old")
    assert (vade.code, "pass --yes" in vade.err) == (2, True)
    assert "deploy-a (project): About deploy-a only" in vade.err
    assert vade.json("forget", "--match", "tag:old", "--yes")["cleared"][0]["key"] == "deploy-a"
    assert {each["key"] for each in vade.json("list")["records"]} == {"billing"}
    vade("undo")
    assert vade.json("list")["count"] == 3


@pytest.mark.parametrize("match", ["", "deploy", "tag:", "after:lunch", "type:bogus"])
def test_a_filter_that_is_none_matches_nothing(tmp_path: Path, match: str) -> None:
    memory = opened(tmp_path)
    memory.store("x", key="deploy")
    with pytest.raises(UsageError):
        memory.care.select(match=match)
    memory.close()


def test_a_filter_spares_what_is_protected(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("x", key="one", tags=["old"], protected=True)
    memory.store("y", key="two", tags=["old"])
    gone: list[Record] = list(memory.archive.forget_all(match="tag:old"))
    assert [each.key for each in gone] == ["two"]
    memory.close()


def test_a_backup_holds_everything_and_is_restored_into_an_empty_home(vade: Vade, tmp_path: Path) -> None:
    vade("add", "Deploys on Friday", "--key", "deploys")
    vade("add", "Deploys on Thursday", "--key", "deploys", "--mode", "replace")
    vade("add", "--journal", "a note")
    vade("forget", "deploys", "--yes")
    file = tmp_path / "b.tar.gz"
    assert "wrote" in vade("backup", str(file))
    assert oct(file.stat().st_mode)[-3:] == "600"
    assert vade.json("backup", str(file), "--verify")["problems"] == []
    other = Vade(tmp_path / "other", vade.capsys)
    assert "restored" in other("backup", str(file), "--restore")
    other("restore", "deploys")
    assert len(other.json("show", "deploys")["entries"]) == 2
    assert other("audit", "verify").endswith("chain intact\n")
    other("backup", str(file), "--restore")
    assert (other.code, "is not empty" in other.err) == (1, True)
    vade("backup", str(file))
    assert (vade.code, "--force" in vade.err) == (1, True)


def test_a_damaged_cut_or_foreign_backup_is_told_and_restores_nothing(vade: Vade, tmp_path: Path) -> None:
    for number in range(20):
        vade("add", f"Fact {number} about {os.urandom(8).hex()}", "--key", f"k{number}")
    file = tmp_path / "b.tar.gz"
    vade("backup", str(file))
    whole = file.read_bytes()
    plain = gzip.decompress(whole)
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    changed = plain.replace(b"Fact 7 about", b"Fact 8 about")
    (tmp_path / "changed.tar.gz").write_bytes(gzip.compress(changed))
    (tmp_path / "none.tar.gz").write_bytes(b"hello")
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as bundle:
        bundle.addfile(tarfile.TarInfo("../../evil.md"))
    for name in ("cut", "changed", "none", "evil", "missing"):
        vade("backup", str(tmp_path / f"{name}.tar.gz"), "--verify")
        assert vade.code == 1, name
        other = Vade(tmp_path / f"home-{name}", vade.capsys)
        other("backup", str(tmp_path / f"{name}.tar.gz"), "--restore")
        assert other.code == 1, name
        assert other.json("list")["count"] == 0
    assert not (tmp_path.parent / "evil.md").exists()


def test_a_backup_is_not_written_into_the_home_nor_by_an_agent(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("x", key="x")
    with pytest.raises(UsageError):
        memory.transfer.backup(tmp_path / "home" / "b.tar.gz")
    memory.transfer.backup(tmp_path / "b.tar.gz")
    with pytest.raises(Collision):
        memory.transfer.backup(tmp_path / "b.tar.gz")
    (tmp_path / "b.tar.gz").write_bytes(b"")
    with pytest.raises(Malformed):
        memory.transfer.verify_backup(tmp_path / "b.tar.gz")
    agent = opened(tmp_path, origin=Origin.AGENT)
    with pytest.raises(NotVisible):
        agent.transfer.backup(tmp_path / "c.tar.gz")
    memory.close()
    agent.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other openers")
@pytest.mark.parametrize(("code", "said"), [(0, "opened "), (3, "vade edit heron")])
def test_open_says_whether_a_program_has_the_file(
    vade: Vade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f"#!/bin/sh\nexit {code}\n")
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", str(opener.parent), prepend=":")
    vade("add", "The heron nests.", "--key", "heron")
    shown = vade("open", "heron")
    assert vade.code == (1 if code else 0)
    assert said in shown + vade.err
