"""Heal mends what takes no person, tells it first, removes no text, and can be taken back."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import IncognitoWrite, NotVisible
from vademecum.interfaces.cli.app import run
from vademecum.lifecycle import passes
from vademecum.store import audit
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.stores import World

CODE = "def connect():\n    pool = open_pool()\n    return pool\n"
OLD, NEW = "The API timeout is 30 seconds.", "The API timeout is 60 seconds."


@pytest.fixture
def project(world: World) -> Path:
    """A project with a little code."""
    top = world.top / "project"
    (top / "src" / "db").mkdir(parents=True)
    (top / "src" / "db" / "pool.py").write_text(CODE)
    return top


def contradicted(world: World, *origins: Origin, key: str = "timeout") -> None:
    older, newer = origins or (Origin.USER, Origin.USER)
    world.memory(origin=older).store(OLD, key=key)
    world.clock.forward(hours=1)
    world.memory(origin=newer).store(NEW, key=key)


def texts(world: World) -> set[str]:
    return {entry.text for record in world.memory().list().records for entry in record.entries}


# -------------------------------------------------------------------- contradictions


def test_the_older_entry_is_marked_superseded_by_the_newer_and_stays(world: World) -> None:
    contradicted(world)
    outcome = world.memory().care.heal(apply=True)
    older, newer = world.memory().show("timeout").entries
    assert (older.text, older.superseded) == (OLD, newer.time)
    assert newer.live
    assert outcome.run
    assert [each.done for each in outcome.results] == [True]
    assert not [each for each in world.memory().care.lint() if each.what == "contradiction"]


def test_without_apply_it_is_only_told(world: World) -> None:
    contradicted(world)
    before = world.tree()
    outcome = world.memory().care.heal()
    assert [proposal.what for proposal in outcome.proposals] == ["contradiction"]
    assert outcome.run == ""
    assert world.tree() == before


def test_of_two_entries_of_one_second_the_later_one_holds(world: World) -> None:
    memory = world.memory()
    memory.store(OLD, key="timeout")
    memory.store(NEW, key="timeout")
    memory.care.heal(apply=True)
    assert [entry.text for entry in memory.show("timeout").live] == [NEW]


def test_of_two_records_of_one_second_nobody_knows(world: World) -> None:
    memory = world.memory()
    memory.store(OLD, key="first", tags=["api"])
    memory.store(NEW, key="second", tags=["api"])
    assert not memory.care.heal(apply=True).run


def test_of_three_values_each_gives_way_to_the_next(world: World) -> None:
    for number in (10, 20, 30):
        world.clock.forward(hours=1)
        world.memory().store(f"The API timeout is {number} seconds.", key="timeout")
    world.memory().care.heal(apply=True)
    first, second, third = world.memory().show("timeout").entries
    assert (first.superseded, second.superseded, third.superseded) == (second.time, third.time, None)


def test_an_entry_of_another_record_gives_way_too(world: World) -> None:
    memory = world.memory()
    memory.store(OLD, key="first", tags=["api"])
    world.clock.forward(hours=1)
    memory.store(NEW, key="second", tags=["api"])
    memory.care.heal(apply=True)
    assert memory.show("first").entries[0].superseded == memory.show("second").entries[0].time


def test_as_of_still_answers_with_what_held_then(world: World) -> None:
    contradicted(world)
    memory = world.memory()
    memory.care.heal(apply=True)
    at = memory.show("timeout").entries[0].time
    assert memory.search("API timeout", as_of=at).results[0].snippet == OLD


@pytest.mark.parametrize(
    ("older", "newer", "healed"),
    [
        (Origin.USER, Origin.AGENT, False),
        (Origin.USER, Origin.TOOL, False),
        (Origin.AGENT, Origin.AGENT, True),
        (Origin.AGENT, Origin.USER, True),
        (Origin.TOOL, Origin.AGENT, True),
    ],
)
def test_what_is_trusted_less_never_supersedes_what_is_trusted_more(
    older: Origin, newer: Origin, healed: bool, world: World
) -> None:
    contradicted(world, older, newer)
    outcome = world.memory().care.heal(apply=True)
    assert bool(outcome.run) is healed
    assert (world.memory().show("timeout").entries[0].superseded is not None) is healed
    assert any("is more trusted" in finding.why for finding in outcome.findings) is not healed


def test_what_a_person_verified_is_left_to_a_person(world: World) -> None:
    world.memory(origin=Origin.AGENT).store(OLD, key="timeout")
    world.memory().review.verify("timeout")
    world.clock.forward(hours=1)
    world.memory(origin=Origin.AGENT).store(NEW, key="timeout")
    outcome = world.memory().care.heal(apply=True)
    assert not outcome.run
    assert any("verified the older" in finding.why for finding in outcome.findings)


def test_a_protected_record_is_left_to_a_person(world: World) -> None:
    contradicted(world)
    world.memory().review.protect("timeout")
    assert not world.memory().care.heal(apply=True).run


def test_an_entry_that_says_much_more_is_left_to_a_person(world: World) -> None:
    memory = world.memory()
    memory.store(f"{OLD} It answers in JSON. It lives behind a proxy. Its logs go to disk.", key="timeout")
    world.clock.forward(hours=1)
    memory.store(NEW, key="timeout")
    outcome = memory.care.heal(apply=True)
    assert not outcome.run
    assert any("says much more" in finding.why for finding in outcome.findings)


def test_undated_entries_are_left_to_a_person(world: World) -> None:
    world.write("a.md", f"---\ntags: [api]\n---\n{OLD}\n")
    world.write("b.md", f"---\ntags: [api]\n---\n{NEW}\n")
    outcome = world.memory().care.heal(apply=True)
    assert not outcome.run
    assert any("which one is newer" in finding.why for finding in outcome.findings)


# -------------------------------------------------------------------- stale claims


def test_an_entry_is_marked_with_what_is_gone_and_its_text_stays(world: World, project: Path) -> None:
    text = "The rest is in src/db/old.py, and `drain_pool()` empties it."
    (project / "src" / "db" / "old.py").write_text("def drain_pool():\n    pass\n")
    world.memory().store(text, key="pool")
    (project / "src" / "db" / "old.py").unlink()
    outcome = world.memory().care.heal(apply=True)
    entry = world.memory().show("pool").entries[0]
    assert entry.text == text
    assert entry.stale == "src/db/old.py gone; drain_pool() gone (2026-11-15)"
    assert "src/db/old.py does not exist" in outcome.proposals[0].why
    assert {(each.what, each.severity) for each in world.memory().care.lint()} == {("stale_claim", "info")}


def test_the_mark_goes_when_the_file_is_back(world: World, project: Path) -> None:
    world.memory().store("The rest is in src/db/old.py.", key="pool")
    before = world.memory().get("pool").text
    world.memory().care.heal(apply=True)
    (project / "src" / "db" / "old.py").write_text("")
    world.memory().care.heal(apply=True)
    assert world.memory().get("pool").text == before


def test_lines_that_changed_are_marked_and_lines_that_moved_are_not(world: World, project: Path) -> None:
    memory = world.memory()
    memory.store("src/db/pool.py#L1-L3 opens the pool.", key="pool")
    (project / "src" / "db" / "pool.py").write_text(f"import os\n\n{CODE}")
    assert not memory.care.heal(apply=True).run
    (project / "src" / "db" / "pool.py").write_text(CODE.replace("open_pool", "make_pool"))
    assert memory.care.heal(apply=True).run
    assert memory.show("pool").entries[0].stale == "src/db/pool.py#L1-L3 changed (2026-11-15)"


def test_a_mark_cannot_end_the_signature_it_stands_in(world: World, project: Path) -> None:
    world.memory().store("It is in src/a--b.py and src/c|d.py and src/gone.py.", key="pool")
    world.memory().care.heal(apply=True)
    entries = world.memory().show("pool").entries
    assert len(entries) == 1
    assert entries[0].origin is Origin.USER
    assert "src/gone.py gone" in (entries[0].stale or "")


def test_records_of_another_project_are_never_held_against_this_tree(world: World, project: Path) -> None:
    other = world.top / "other"
    (other / "src" / "db").mkdir(parents=True)
    (other / "src" / "db" / "old.py").write_text("")
    world.memory(cwd=other).store("The rest is in src/db/old.py.", key="pool")
    before = world.tree()
    assert not world.memory().care.heal(apply=True).proposals
    assert world.tree() == before


def test_a_stranger_s_folder_is_not_touched(world: World, project: Path) -> None:
    folder = project / ".vade" / "records"
    folder.mkdir(parents=True)
    (folder / "pool.md").write_text("The rest is in src/db/old.py.\n")
    assert not world.memory().care.heal(apply=True).proposals


def test_in_a_trusted_folder_a_mark_lends_no_trust(world: World, project: Path) -> None:
    memory = world.memory()
    memory.projects.init()
    path = project / ".vade" / "records" / "pool.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("The rest is in src/db/old.py.\n")
    before = memory.show("pool").entries[0].origin
    assert memory.care.heal(apply=True).run
    entry = memory.show("pool").entries[0]
    assert entry.stale
    assert entry.origin is before is Origin.EXTERNAL


# -------------------------------------------------------------------- orphans and counters


def test_a_listing_is_written_anew_and_rows_are_dropped(world: World) -> None:
    memory = world.memory()
    memory.store("One.", key="one")
    memory.store("Two.", key="two")
    memory.care.write_listing()
    memory.care.index()
    memory.close()
    next(world.home.glob("memory/project/*/records/two.md")).unlink()
    memory = world.memory()
    outcome = memory.care.heal(apply=True)
    assert [proposal.what for proposal in outcome.proposals] == ["orphan", "orphan"]
    assert all(each.done for each in outcome.results)
    listing = next(world.home.glob("memory/project/*/records/index.md"))
    assert "two.md" not in listing.read_text()
    assert list(memory.care.lint()) == []
    assert not memory.care.heal().proposals


def test_the_last_record_may_leave_an_empty_listing(world: World) -> None:
    memory = world.memory()
    memory.store("One.", key="one")
    memory.care.write_listing()
    next(world.home.glob("memory/project/*/records/one.md")).unlink()
    assert memory.care.heal(apply=True).proposals
    assert list(memory.care.lint()) == []


def test_a_broken_link_is_reported_and_no_text_is_changed_for_it(world: World) -> None:
    world.memory().store("See [[nowhere]].", key="links")
    before = world.tree()
    outcome = world.memory().care.heal(apply=True)
    assert not outcome.proposals
    assert "no text is changed" in outcome.findings[0].why
    assert world.tree() == before


def test_counters_are_set_back_only_when_asked_for_with_force(world: World) -> None:
    for number in range(20):
        world.write(f"r{number:02}.md", f"Number {number}.\n")
    memory = world.memory()
    poisoned = ["memory/global/records/r00.md"]
    for minute in range(60):
        memory.workspace.state.used(poisoned, at=world.clock().replace(hour=1, minute=minute))
    outcome = memory.care.heal(apply=True)
    assert not outcome.proposals
    assert "only --aggressive" in outcome.findings[0].why
    assert memory.care.heal(apply=True, aggressive=True).results[0].done
    assert memory.workspace.state.uses(poisoned) == {}
    assert list(memory.care.lint()) == []
    assert any(line["op"] == "heal poison_frequency" for line in memory.audit.lines())


# -------------------------------------------------------------------- what every mend has in common


def everything(world: World, project: Path) -> None:
    contradicted(world)
    memory = world.memory()
    memory.store("The rest is in src/db/old.py.", key="pool")
    memory.store("Use unittest for new tests.", key="testing")
    world.clock.forward(hours=1)
    memory.store("Always use pytest. Do not use unittest.", key="testing")


def test_a_second_run_proposes_nothing(world: World, project: Path) -> None:
    everything(world, project)
    assert len(world.memory().care.heal(apply=True).proposals) == 3
    again = world.memory().care.heal(apply=True)
    assert again.proposals == ()
    assert again.run == ""


def test_undo_brings_back_every_byte(world: World, project: Path) -> None:
    everything(world, project)
    before = world.tree()
    run_ = world.memory().care.heal(apply=True).run
    assert world.tree() != before
    undone, told = world.memory().care.undo()
    assert undone == run_
    assert all(each.done for each in told)
    assert world.tree() == before


def test_no_text_is_ever_removed(world: World, project: Path) -> None:
    everything(world, project)
    before = texts(world)
    world.memory().care.heal(apply=True, aggressive=True)
    assert texts(world) == before


def test_a_file_that_changes_meanwhile_is_left_and_told(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contradicted(world)
    memory = world.memory()
    path = next(world.home.glob("memory/project/*/records/timeout.md"))
    apply = passes.apply_proposals

    def while_somebody_edits(*given: Any, **named: Any) -> object:
        path.write_text(path.read_text() + "\nA word of a person.\n")
        return apply(*given, **named)

    monkeypatch.setattr(passes, "apply_proposals", while_somebody_edits)
    outcome = memory.care.heal(apply=True)
    assert [(each.done, each.why) for each in outcome.results] == [(False, "changed meanwhile")]
    assert "A word of a person." in path.read_text()
    assert OLD in path.read_text()


def test_each_mend_is_in_the_audit(world: World, project: Path) -> None:
    everything(world, project)
    world.memory().care.heal(apply=True)
    operations = [line["op"] for line in world.memory().audit.lines()]
    assert operations.count("contradiction") == 2
    assert operations.count("stale_claim") == 1
    assert not audit.verify(world.memory().home).problems


def test_neither_runs_by_itself(world: World, project: Path) -> None:
    world.settings["VADE_SWEEP"] = "auto"
    everything(world, project)
    before = world.tree()
    memory = world.memory()
    memory.care.sweep_if_due()
    memory.search("timeout")
    assert world.tree() == before


def test_who_may_not_write_may_not_heal(world: World) -> None:
    with pytest.raises(NotVisible):
        world.memory(audience="group").care.heal()
    world.settings["VADE_INCOGNITO"] = "true"
    assert world.memory().care.heal().proposals == ()
    with pytest.raises(IncognitoWrite):
        world.memory().care.heal(apply=True)


def test_the_command_tells_mends_and_says_how_to_take_it_back(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    everything(world, project)
    monkeypatch.chdir(project)
    monkeypatch.setenv("VADE_HOME", str(world.home))
    assert run(["tidy", "--only", "heal"]) == 0
    assert "nothing was changed; `vade tidy --only heal --apply` makes the changes" in capsys.readouterr().out
    assert run(["tidy", "--only", "heal", "--apply", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["heal"]
    assert said["applied"] is True
    assert len(said["files"]) == 3
    assert run(["undo", said["run"]]) == 0
    assert run(["tidy", "--only", "heal", "--scope", "agent"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_killed_at_any_moment_nothing_is_lost_and_the_next_run_ends_it(world: World, project: Path) -> None:
    """A few kills at moments of a fixed seed; every point of every call is tried by the fault harness."""
    everything(world, project)
    before = texts(world)
    code = (
        "import sys, os, threading, time\n"
        "from vademecum.memory import connect\n"
        "from vademecum.types import Origin\n"
        "memory = connect(home=sys.argv[1], cwd=sys.argv[2], origin=Origin.USER, environ={})\n"
        "threading.Timer(float(sys.argv[3]), lambda: os.kill(os.getpid(), 9)).start()\n"
        "while True:\n"
        "    memory.heal(apply=True)\n"
        "    memory.undo()\n"
    )
    chance = random.Random(7)
    for _ in range(6):
        after = str(chance.uniform(0.0, 0.15))
        killed = subprocess.run(
            [sys.executable, "-c", code, str(world.home), str(project), after],
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert killed.returncode == -9, killed.stderr.decode()
        assert texts(world) == before
    world.memory().care.heal(apply=True)
    assert not world.memory().care.heal().proposals
    assert texts(world) == before
