"""A merge is told with the command that splits it, and splitting gives each statement its own record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from vademecum.errors import NotFound
from vademecum.interfaces.cli.app import cli
from vademecum.types import Outcome

if TYPE_CHECKING:
    from lifecycle.stores import World
    from vademecum.memory import Memory
    from vademecum.types import Stored

LINT = "Run make lint before every commit."
TEST = "Run make test before every commit."
TEXT = "Run make text before every commit."
ONE = "The backup of the ledger runs every night."
OTHER = "The backups of the ledger run every night."


def merged(memory: Memory, *texts: str) -> Stored:
    for text in texts[:-1]:
        memory.store(text)
    found = memory.store(texts[-1])
    assert found.outcome is Outcome.CONSOLIDATED
    return found


def standing(memory: Memory) -> dict[str, list[str]]:
    return {record.key: [entry.text for entry in record.live] for record in memory.list().records}


def test_a_merge_is_told_with_what_was_superseded_and_its_way_back(world: World) -> None:
    memory = world.memory()
    stored = merged(memory, ONE, OTHER)
    assert stored.merged is not None
    assert stored.merged.superseded == ONE
    assert stored.merged.undo == f"vade split {stored.key} --scope project"
    assert memory.store("Something else altogether is said here.").merged is None
    again = memory.store(OTHER)
    assert (again.outcome, again.merged) == (Outcome.CONFIRMED, None)


def test_splitting_gives_each_statement_its_own_record_and_undo_takes_that_back(world: World) -> None:
    memory = world.memory()
    stored = merged(memory, ONE, OTHER)
    before = standing(memory)
    outcome = memory.care.split(stored.key, scope="project")
    now = standing(memory)
    assert now[stored.key] == [ONE]
    assert sorted(text for texts in now.values() for text in texts) == sorted([ONE, OTHER])
    assert len(now) == 2
    [line] = [each for each in memory.audit.lines() if each["op"] == "split"][:1]
    assert line["record"]
    assert [record.num for record in memory.list().records] == [1, 2]
    memory.care.undo(outcome.run)
    assert standing(memory) == before
    assert memory.show(stored.key).entries[0].superseded


def test_what_was_split_is_not_merged_again_by_a_sweep_or_by_storing_it_again(world: World) -> None:
    memory = world.memory()
    for key, text in (("one", ONE), ("other", OTHER)):
        memory.store(text, key=key, scope="global")
    [duplicates] = memory.care.sweep(scope="global").proposals  # what a sweep does with these two by itself
    assert duplicates.what == "duplicates"
    memory.care.split(merged(memory, ONE, OTHER).key, scope="project")
    apart = standing(memory)
    assert memory.care.sweep(scope="project", apply=True).proposals == ()
    assert [memory.store(text).outcome for text in (ONE, OTHER, ONE)] == [Outcome.CONFIRMED] * 3
    assert standing(memory) == apart
    kept = world.home / "decisions" / "distinct"
    assert len([*kept.iterdir()]) == 1
    assert all(text.encode() not in each.read_bytes() for each in kept.iterdir() for text in (ONE, OTHER))
    # Another wording joins the one that it resembles most, and the other one stays as it is.
    memory.store(f"{ONE.rstrip('.')}!")
    assert sorted(text for texts in standing(memory).values() for text in texts) == sorted(
        [f"{ONE.rstrip('.')}!", OTHER, ONE, OTHER]
    )


def test_a_split_that_was_undone_is_no_longer_a_decision(world: World) -> None:
    memory = world.memory()
    stored = merged(memory, ONE, OTHER)
    outcome = memory.care.split(stored.key, scope="project")
    memory.care.undo(outcome.run)
    assert [*(world.home / "decisions" / "distinct").iterdir()] == []
    again = memory.store(ONE)
    assert (again.outcome, again.key) == (Outcome.CONSOLIDATED, stored.key)


def test_lessons_that_were_split_are_not_one_when_they_are_learned_again(world: World) -> None:
    memory = world.memory()
    memory.knowledge.learn("discovery", fact=ONE)
    key = memory.knowledge.learn("discovery", fact=OTHER).key
    assert len(memory.knowledge.list()) == 1
    memory.care.split(key, scope="project")
    apart = standing(memory)
    assert sorted(apart.values()) == [[ONE], [OTHER]]
    for fact in (OTHER, ONE, OTHER):
        memory.knowledge.learn("discovery", fact=fact)
    memory.care.sweep(scope="project", apply=True)
    assert standing(memory) == apart


def test_what_was_never_merged_cannot_be_split(world: World) -> None:
    memory = world.memory()
    stored = memory.store(ONE, key="ledger")
    memory.store("The ledger is written by the broker.", key="ledger", mode="replace")
    with pytest.raises(NotFound, match="nothing was merged into ledger"):
        memory.care.split(stored.key)


def test_the_command_line_tells_a_merge_and_splits_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.top / "project")
    monkeypatch.setenv("VADE_HOME", str(world.home))

    def run(*words: str) -> str:
        result = CliRunner().invoke(cli, [*words])
        assert result.exit_code == 0, result.output
        return result.output

    run("add", ONE)
    told = run("add", OTHER)
    key = world.memory().list().records[0].key
    assert f"superseded: “{ONE}”" in told
    assert f"`vade split {key} --scope project` undoes the merge" in told
    assert json.loads(run("split", key, "--scope", "project", "--json"))["run"]
    assert len(world.memory().list().records) == 2
    run("undo")
    again = json.loads(run("add", OTHER.replace("every", "each and every"), "--json"))
    assert again["merged"] is None
    answer = json.loads(run("add", f"{ONE.rstrip('.')}!", "--json"))
    assert answer["merged"] == {"key": key, "superseded": OTHER, "undo": f"vade split {key} --scope project"}
