"""Sweeps: asked for or by themselves, told or done, and never more than the person would expect."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from lifecycle.stores import NOW, World, aged
from vademecum import config
from vademecum.errors import NotVisible
from vademecum.interfaces.cli.app import cli, run
from vademecum.lifecycle import sweep
from vademecum.store import archive, audit
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory


def old_ones(world: World, count: int, *, days: float = 100) -> Memory:
    """Project records of different things, all of them too old."""
    memory = world.memory()
    place = f"project/{memory.workspace.places('project', all=False)[0].id}"
    for number in range(count):
        world.write(f"r{number:03}.md", aged(f"Fact {number} about nothing.", days), place=place)
    return memory


def auto(world: World) -> Memory:
    world.settings["VADE_SWEEP"] = "auto"
    return world.memory(origin=Origin.AGENT)


# -------------------------------------------------------------------- asked for


def test_nothing_is_changed_unless_it_is_asked_for(world: World) -> None:
    memory = old_ones(world, 3)
    before = world.tree()
    outcome = memory.care.sweep()
    assert len(outcome.proposals) == 3
    assert outcome.run == ""
    assert world.tree() == before
    outcome = memory.care.sweep(apply=True)
    assert outcome.run
    assert memory.list().records == ()
    assert memory.care.sweep(apply=True).run == ""


def test_a_large_run_is_done_only_when_that_is_said(world: World) -> None:
    memory = old_ones(world, 21)
    outcome = memory.care.sweep(apply=True)
    assert outcome.large == "21 of 21 records would be archived"
    assert len(memory.list().records) == 21
    memory.care.sweep(apply=True, large=True)
    assert memory.list().records == ()


def test_twenty_at_once_or_a_twentieth_of_many_are_not_much(world: World) -> None:
    memory = old_ones(world, 20)
    assert memory.care.sweep().large == ""
    place = f"project/{memory.workspace.places('project', all=False)[0].id}"
    world.write("one-more.md", aged("One more fact.", 100), place=place)
    for number in range(400):
        world.write(f"new{number:03}.md", aged(f"Recent thing {number}.", 1, type="user"), place=place)
    assert len(memory.care.sweep().proposals) == 21
    assert memory.care.sweep().large == ""


def test_a_scope_can_be_chosen_and_sessions_that_are_over_are_swept_too(world: World) -> None:
    memory = old_ones(world, 1)
    world.write("a.md", aged("Of a session.", 20), place="session/long-ago")
    assert [each.where for each in memory.care.sweep(scope="session").proposals] == [
        "memory/session/long-ago/records/a.md"
    ]
    assert len(memory.care.sweep().proposals) == 2
    assert len(world.memory(origin=Origin.AGENT).care.sweep().proposals) == 1
    memory.care.sweep(apply=True)
    before = world.tree()
    memory.care.undo()
    assert len(world.tree()) == len(before) + 2
    with pytest.raises(NotVisible):
        world.memory(audience="group").care.sweep()


def test_passes_one_after_the_other_leave_nothing_for_a_second_sweep(world: World) -> None:
    world.settings |= {"VADE_DECAY_MAX_COUNT": "10"}
    memory = world.memory()
    chance = random.Random(5)
    for number in range(30):
        text = f"Fact {number % 12} of the {'abc'[number % 3]} team."
        fields: dict[str, object] = {"stale_after": "2026-01-01"} if number % 7 == 0 else {}
        world.write(f"r{number:02}.md", aged(text, chance.randint(1, 80), **fields))
    memory.care.sweep(apply=True, large=True)
    assert memory.care.sweep().proposals == ()


# -------------------------------------------------------------------- by itself


def test_it_runs_by_itself_once_a_day_and_status_says_so(world: World) -> None:
    old_ones(world, 3)
    memory = auto(world)
    outcome = memory.care.sweep_if_due()
    assert outcome is not None
    assert outcome.run
    assert memory.list().records == ()
    [finding] = memory.status().findings
    assert (finding.what, finding.mend) == ("swept", f"vade undo {outcome.run}")
    old_ones(world, 5, days=200)
    assert memory.care.sweep_if_due() is None
    world.clock.forward(hours=25)
    outcome = memory.care.sweep_if_due()
    assert outcome is not None
    assert outcome.run


def test_off_incognito_and_groups_are_never_swept(world: World) -> None:
    old_ones(world, 3)
    assert world.memory().care.sweep_if_due() is None
    world.settings["VADE_SWEEP"] = "auto"
    assert world.memory(audience="group").care.sweep_if_due() is None
    world.settings["VADE_INCOGNITO"] = "true"
    assert world.memory().care.sweep_if_due() is None
    assert len(world.tree()) == 3


def test_a_large_run_by_itself_does_nothing_and_status_says_so(world: World) -> None:
    old_ones(world, 30)
    memory = auto(world)
    before = world.tree()
    outcome = memory.care.sweep_if_due()
    assert outcome is not None
    assert outcome.large
    assert outcome.run == ""
    assert world.tree() == before
    assert [(each.what, each.mend) for each in memory.status().findings] == [
        ("sweep", "vade tidy --only sweep")
    ]


def test_what_a_person_brought_back_stays(world: World) -> None:
    old_ones(world, 3)
    memory = auto(world)
    memory.care.sweep_if_due()
    memory.care.undo()
    world.clock.forward(days=2)
    outcome = memory.care.sweep_if_due()
    assert outcome is not None
    assert outcome.proposals == ()
    assert len(memory.list().records) == 3


def test_only_retention_and_the_cap_run_by_themselves_and_never_in_a_shared_folder(world: World) -> None:
    person = world.memory()
    person.projects.init()
    records = world.top / "project/.vade/records"
    records.mkdir(exist_ok=True)
    (records / "old.md").write_text(aged("Very old.", 500))
    world.write("a.md", aged("Said twice.", 5))
    world.write("b.md", aged("Said twice.", 4))
    world.write("c.md", aged("Expired.", 5, stale_after="2020-01-01"))
    outcome = auto(world).care.sweep_if_due()
    assert outcome is not None
    assert outcome.proposals == ()
    assert len(world.memory().care.sweep().proposals) == 3


def test_a_store_that_exceeds_the_cap_sweeps_and_one_that_does_not_looks_no_further(world: World) -> None:
    world.settings |= {"VADE_DECAY_MAX_COUNT": "10"}
    memory = auto(world)
    for number in range(10):
        memory.store(f"Number {number} is {number * 7919}.", key=f"k{number}", scope="global")
        world.clock.forward(seconds=1)
    assert not (world.home / "state.db").exists()
    world.clock.forward(days=1)
    world.age_files(days=1)
    memory.store("One too many.", key="last", scope="global")
    assert len(memory.list().records) == 11  # what is new does not count before it is a day old
    world.clock.forward(days=1)
    world.age_files(days=1)
    memory.store("One more.", key="newest", scope="global")
    keys = {record.key for record in memory.list().records}
    assert {"k2", "last", "newest"} <= keys
    assert keys.isdisjoint({"k0", "k1"})
    assert memory.show("k0").text == "Number 0 is 0."


def test_the_cap_leaves_what_arrived_lately_and_moves_twenty_a_day_and_place(world: World) -> None:
    world.settings |= {"VADE_DECAY_MAX_COUNT": "10"}
    for number in range(60):
        world.write(f"r{number:02}.md", aged(f"Fact {number} of many.", 80))
    world.age_files(days=30)
    late = world.home / "memory/global/records/r00.md"
    at = (world.clock.now - timedelta(hours=23)).timestamp()
    os.utime(late, (at, at))
    moved = []
    for project in ("project", "other"):  # global memory is swept from each project
        (world.top / project).mkdir(exist_ok=True)
        world.settings["VADE_SWEEP"] = "auto"
        swept = world.memory(cwd=world.top / project, origin=Origin.AGENT).care.moved_if_due()
        moved.append(swept.moved if swept else 0)
    assert moved == [20, 0]
    assert late.exists()
    world.clock.forward(days=1)
    swept = auto(world).care.moved_if_due()
    assert swept is not None
    assert swept.moved == 20
    assert late.exists()  # it arrived last


def test_a_consolidation_is_signed_by_the_sweep_whoever_asked_for_it(world: World) -> None:
    world.settings |= {"VADE_DECAY_MAX_COUNT": "10"}
    memory = world.memory()
    for number in range(12):
        memory.store(f"Number {number} is {number * 7919}.", key=f"k{number}", scope="global")
        world.clock.forward(seconds=1)
    memory.care.sweep(apply=True, large=True)
    made = [each for each in memory.list().records if each.source == "auto_decay"]
    assert made
    assert {each.fields["generated"]["by"] for each in made} == {"process:sweep"}


def test_no_record_of_the_last_sweep_is_needed(world: World) -> None:
    old_ones(world, 3)
    memory = auto(world)
    (world.home / "state.db").mkdir(parents=True)
    outcome = memory.care.sweep_if_due()
    assert outcome is not None
    assert outcome.run


def test_a_sweep_that_fails_fails_no_store(world: World) -> None:
    world.settings |= {"VADE_DECAY_MAX_COUNT": "3"}
    memory = auto(world)
    (world.home / "archive").mkdir(parents=True)
    (world.home / "archive/runs").write_text("not a folder")
    for number in range(6):
        memory.store(f"Number {number} is {number * 7919}.", key=f"k{number}", scope="global")
    assert len(memory.list().records) == 6
    world.clock.forward(days=2)
    outcome = memory.care.sweep_if_due()
    assert outcome is not None
    assert [each.what for each in outcome.findings] == ["sweep"]


def test_a_clock_that_was_wrong_once_does_not_stop_it_for_ever() -> None:
    assert sweep.is_due(None, now=NOW)
    assert not sweep.is_due(int(NOW.timestamp()) - 80_000, now=NOW)
    assert sweep.is_due(int(NOW.timestamp()) - 90_000, now=NOW)
    assert sweep.is_due(int(NOW.timestamp()) + 10**8, now=NOW)


# -------------------------------------------------------------------- deleting for good


def test_nothing_is_ever_deleted_unless_days_are_set(world: World) -> None:
    memory = old_ones(world, 3)
    memory.care.sweep(apply=True)
    world.clock.forward(days=3000)
    assert memory.care.sweep(apply=True).deleted == ()
    assert (
        len(
            archive.names(
                memory.home,
                memory.home.scope_folder(memory.workspace.places("project", all=False)[0]),
                "records",
            )
        )
        == 3
    )


def test_archived_versions_are_deleted_after_their_days_and_nobody_misses_them(world: World) -> None:
    memory = world.memory()
    memory.store("Forgotten long ago.", key="gone", scope="global")
    memory.forget("gone")
    memory.store("Lives on.", key="lives", scope="global")
    memory.store("Lives on differently.", key="lives", scope="global", mode="replace")
    world.clock.forward(days=40)
    memory.store("Forgotten now.", key="fresh", scope="global")
    memory.forget("fresh")
    world.settings["VADE_RETENTION_ARCHIVE_DAYS"] = "30"
    memory = world.memory()
    told = memory.care.sweep()
    assert len(told.deleted) == 2
    assert "Forgotten long ago." in world.everything()
    assert memory.care.sweep(apply=True).deleted == told.deleted
    assert "Forgotten long ago." not in world.everything()
    assert not list((world.home / "archive/kept").rglob("gone.md.jsonl"))
    assert [entry.text for entry in memory.show("lives").entries] == ["Lives on.", "Lives on differently."]
    assert [version.name for version in memory.archive.forgotten()] == ["fresh.md"]
    assert memory.status().findings == ()
    assert audit.verify(memory.home).problems == ()
    assert memory.care.sweep(apply=True).deleted == ()


def written_over_days(world: World, days: int) -> Memory:
    memory = world.memory()
    for number in range(days):
        memory.store(f"Fact {number}.", key=f"k{number}", scope="global")
        world.clock.forward(days=1)
    return memory


def test_days_of_the_audit_are_cut_off_and_the_rest_still_verifies(world: World) -> None:
    written_over_days(world, 10)
    world.settings["VADE_RETENTION_AUDIT_DAYS"] = "5"
    memory = world.memory()
    outcome = memory.care.sweep(apply=True)
    assert len(outcome.deleted) == 5
    report = audit.verify(memory.home)
    assert report.problems == ()
    assert report.lines == len(memory.audit.lines())
    world.clock.forward(days=3)
    memory.store("After the cut.", key="after", scope="global")
    assert audit.verify(memory.home).problems == ()
    assert memory.care.sweep(apply=True).deleted
    assert audit.verify(memory.home).problems == ()


def test_a_beginning_that_was_cut_off_by_somebody_else_is_an_alarm(world: World) -> None:
    memory = written_over_days(world, 6)
    first = sorted((world.home / "audit").glob("*.jsonl"))[0]
    line = json.loads(first.read_text())
    first.unlink()
    assert audit.verify(memory.home).problems
    (world.home / "audit/start").write_text(json.dumps({"seq": line["seq"], "hash": line["hash"]}))
    assert [each.why for each in audit.verify(memory.home).problems] == [
        "the beginning of the chain was cut off without a record"
    ]


def test_an_audit_that_was_tampered_with_is_not_cut(world: World) -> None:
    written_over_days(world, 10)
    first = sorted((world.home / "audit").glob("*.jsonl"))[0]
    first.write_text(first.read_text().replace("created", "changed"))
    world.settings["VADE_RETENTION_AUDIT_DAYS"] = "5"
    assert world.memory().care.sweep(apply=True).deleted == ()
    assert first.exists()


def test_a_cut_that_was_killed_before_it_deleted_verifies_and_is_finished_by_the_next(world: World) -> None:
    memory = written_over_days(world, 10)
    days = {path: path.read_bytes() for path in (world.home / "audit").glob("*.jsonl")}
    gone = audit.cut(memory.home, world.clock.now - timedelta(days=5), at=world.clock(), actor="x")
    for path, content in days.items():
        if path.name in gone[2:]:
            path.write_bytes(content)
    assert audit.verify(memory.home).problems == ()
    assert (
        audit.cut(memory.home, world.clock.now - timedelta(days=5), at=world.clock(), actor="x") == gone[2:]
    )
    assert audit.verify(memory.home).problems == ()


# -------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "line",
    [
        "decay.percentage = 0",
        "decay.percentage = 1.5",
        "decay.percentage = -0.2",
        "decay.max_count = 0",
        'decay.strategy = "shred"',
        "retention.project_days = -1",
        "retention.session_days = 1.5",
        'retention.archive_days = "forever"',
        "retention.audit_days = -5",
        'sweep = "always"',
        "sweep = true",
    ],
)
def test_settings_that_make_no_sense_are_told_with_their_line_and_the_default_holds(
    line: str, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(f"{line}\n")
    found = config.load(home=tmp_path, environ={})
    assert found.settings == config.Settings()
    assert re.search(r"config\.toml:1: .* must be", str(found.problems[0]))


@pytest.mark.parametrize("line", ["retention.project_days = 1", "decay.percentage = 1.0", 'sweep = "off"'])
def test_a_repository_has_no_say_in_what_is_put_away(line: str, tmp_path: Path) -> None:
    (tmp_path / "project/.vade").mkdir(parents=True)
    (tmp_path / "project/.vade/config.toml").write_text(f"{line}\n")
    root = tmp_path / "project"
    found = config.load(home=tmp_path / "home", project_root=root, trusted=True, environ={})
    assert found.settings == config.Settings()
    assert found.shared is not None
    assert "may not set" in str(found.shared.problems[0])


# -------------------------------------------------------------------- the command line


def vade(world: World, *words: str) -> tuple[int, Any]:
    """Run a command; its exit code and what it answered."""
    result = CliRunner().invoke(
        cli, [*words, "--home", str(world.home), "--json"], standalone_mode=False, catch_exceptions=False
    )
    code = result.return_value if isinstance(result.return_value, int) else 0
    return code, json.loads(result.stdout)


def test_a_sweep_and_its_undo_on_the_command_line(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.top / "project")
    world.write("a.md", aged("Said twice.", 5))
    world.write("b.md", aged("Said twice.", 4))
    told = vade(world, "tidy", "--only", "sweep")[1]["sweep"]
    assert (told["applied"], told["run"]) == (False, None)
    assert told["proposals"][0]["retires"] == ["memory/global/records/b.md"]
    assert run(["tidy", "--only", "sweep", "--home", str(world.home)]) == 0
    said = capsys.readouterr().out
    assert "b is 100 % the same as a, which stays" in said
    assert "nothing was changed; `vade tidy --only sweep --apply` makes the changes" in said
    told = vade(world, "tidy", "--only", "sweep", "--apply", "--scope", "global")[1]["sweep"]
    assert told["applied"]
    assert all(each["done"] for each in told["files"])
    _, listed = vade(world, "undo", "--list")
    assert [(each["run"], each["undone"]) for each in listed["runs"]] == [(told["run"], False)]
    code, undone = vade(world, "undo", told["run"])
    assert code == 0
    assert undone["run"] == told["run"]
    assert run(["undo", told["run"], "--home", str(world.home)]) == 0
    assert "already undone" in capsys.readouterr().out
    assert run(["undo", "nonsense", "--home", str(world.home)]) == 1
    assert run(["undo", told["run"], "--list", "--home", str(world.home)]) == 2
    assert run(["tidy", "--only", "sweep", "--scope", "nowhere", "--home", str(world.home)]) == 2


def test_a_large_sweep_asks_first(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.top / "project")
    for number in range(25):
        world.write(f"r{number}.md", aged(f"Fact {number}.", 3, stale_after="2020-01-01"))
    assert run(["tidy", "--only", "sweep", "--apply", "--home", str(world.home)]) == 2
    assert "pass --yes" in capsys.readouterr().err
    assert len(world.tree()) == 25
    assert run(["tidy", "--only", "sweep", "--apply", "--yes", "--home", str(world.home)]) == 0
    assert len(world.tree()) == 0


def test_what_could_not_be_undone_is_told_and_makes_it_fail(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.top / "project")
    world.write("a.md", aged("Old.", 5, stale_after="2020-01-01"))
    assert run(["tidy", "--only", "sweep", "--apply", "--home", str(world.home)]) == 0
    world.write("a.md", "---\ntype: [\n---\nNo record any more.\n")
    assert run(["undo", "--home", str(world.home)]) == 1
    assert "left: memory/global/records/a.md: it was changed since then" in capsys.readouterr().out
    assert "No record any more." in (world.home / "memory/global/records/a.md").read_text()


def test_a_record_written_again_by_hand_keeps_its_words_and_gets_the_earlier_ones_back(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.top / "project")
    world.write("a.md", aged("Old.", 5, stale_after="2020-01-01"))
    assert run(["tidy", "--only", "sweep", "--apply", "--home", str(world.home)]) == 0
    path = world.write("a.md", "Written again by hand.\n")
    assert run(["undo", "--home", str(world.home)]) == 0
    assert "a.md: changed since then; restored its earlier 1 entry" in capsys.readouterr().out
    assert [each.text for each in world.memory().show("a").entries] == ["Written again by hand.", "Old."]
    assert path.read_text().startswith("Written again by hand.\n")


# -------------------------------------------------------------------- killed at random


def fork_and_kill(memory: Memory, what: str, seconds: float) -> None:
    """Do something in a child of this process that is killed after a while."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has threads; the child never meets them
        child = os.fork()
    if child == 0:
        try:
            memory.care.sweep(apply=True, large=True) if what == "sweep" else memory.care.undo()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def killed_at_random(top: Path, seed: int) -> None:
    """Kill a sweep or an undo at a random moment, and see that no word is lost and all can go on."""
    from lifecycle.test_passes import random_store

    chance = random.Random(seed)
    world = World(top)
    random_store(world, chance)
    world.settings["VADE_DECAY_MAX_COUNT"] = "6"
    memory = world.memory(session="s1")
    before = world.tree()
    texts = [entry.text for record in memory.list().records for entry in record.entries]
    what = chance.choice(["sweep", "undo"])
    if what == "undo" and not memory.care.sweep(apply=True, large=True).run:
        return
    fork_and_kill(memory, what, chance.uniform(0, 0.12))
    whole = world.everything()
    for text in texts:
        assert " ".join(text.split()) in whole, (seed, text)
    assert audit.verify(memory.home).problems == ()
    for made in memory.care.runs():
        if not made.undone:
            _, told = memory.care.undo(made.run)
            assert all(each.done for each in told), (seed, told)
    assert world.tree() == before, seed
    assert not [each for each in memory.status().findings if each.what in ("edited", "deleted", "malformed")]


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.full(but=6)
@pytest.mark.parametrize("seed", range(25))
def test_a_sweep_killed_at_a_random_moment_loses_nothing_and_can_be_taken_back(
    seed: int, tmp_path: Path
) -> None:
    killed_at_random(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_five_hundred_sweeps_killed_at_random(seed: int, tmp_path: Path) -> None:
    killed_at_random(tmp_path, seed)
