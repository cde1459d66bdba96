"""Near-duplicates: what is said twice is found, and what only looks like it is left."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from bench import lifecycle as bench

from cases import every_case
from lifecycle.stores import World, aged
from vademecum.lifecycle import passes
from vademecum.lifecycle.sweep import Duplicates
from vademecum.text import similarity
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from vademecum.lifecycle.passes import Proposal
    from vademecum.memory import Memory

BUILD = "The build runs on ninja with eight jobs."


def alike(one: str, other: str) -> bool:
    """Whether two texts are taken for one, in both directions."""
    found = [similarity.same(*pair) for pair in ((one, other), (other, one))]
    assert (found[0] is None) == (found[1] is None)
    return found[0] is not None


def proposed(memory: Memory, one: Duplicates | None = None) -> list[Proposal]:
    outcome = passes.propose(memory.workspace.records, [Place(Scope.GLOBAL)], [one or Duplicates()])
    return [*outcome.proposals]


@every_case(
    "other",
    [
        "the build runs on ninja with eight jobs",
        "THE BUILD RUNS ON NINJA WITH EIGHT JOBS!",
        "Build runs on ninja, with eight jobs.",
        "Please note that the build runs on ninja with eight jobs.",
        "By the way, the build runs on ninja with eight jobs.",
        "The biuld runs on ninja with eight jobs.",
        "With eight jobs the build runs on ninja.",
    ],
)
def test_the_same_is_the_same_in_other_letters(other: str) -> None:
    assert alike(BUILD, other)


@every_case(
    ("one", "other"),
    [
        (BUILD, "The build runs on ninja with nine jobs."),
        (BUILD, "The build never runs on ninja with eight jobs."),
        ("The port of the API is 8080.", "The port of the API is 8081."),
        ("Use version 1.5 of the tool.", "Use version 15 of the tool."),
        ("Alice owns the release of the backend.", "Alicia owns the release of the backend."),
        ("The parser calls the lexer here.", "The lexer calls the parser here."),
        ("Deploy from staging to production.", "Deploy from production to staging."),
        ("The timeout must be > 30 seconds.", "The timeout must be < 30 seconds."),
        ("Compare with `a == b` in tests.", "Compare with `a != b` in tests."),
        ("The gate of release one is ✅", "The gate of release one is ❌"),
        ("Read src/parser.py before you start.", "Read src/parsers.py before you start."),
        ("We write it in C and nothing else.", "We write it in C# and nothing else."),
        ("We deploy on Fridays.", "We deploy on Fridays?"),
        ("You may restart the worker.", "You must restart the worker."),
        ("The offset is -5 hours.", "The offset is 5 hours."),
        ("Data of the east region.", "Data of the west region."),
        ("部署在周一进行", "部署在周二进行"),
        ("😀", "😡"),
        ("Tests need the cache.", "Tests need the cache and a network."),
    ],
)
def test_what_changes_the_meaning_makes_it_another_statement(one: str, other: str) -> None:
    assert not alike(one, other)


@pytest.mark.full
def test_on_a_generated_set_most_are_found_and_nothing_else_is(world: World) -> None:
    for seed in (1, 2):
        found = bench.quality(world.memory(), 600, seed=seed)
        assert isinstance(found["precision"], float)
        assert found["precision"] == 1, found
        assert isinstance(found["recall"], float)
        assert found["recall"] >= 0.85, found


def test_the_generated_set_holds_every_kind_and_as_many_that_are_not_the_same() -> None:
    made = bench.pairs(220)
    assert Counter(pair.same for pair in made) == {True: 110, False: 110}
    assert len({pair.kind for pair in made}) == 11


def test_the_more_trusted_stays_and_takes_the_tags_and_the_freshness_of_the_other(world: World) -> None:
    memory = world.memory()
    world.write("a.md", aged(BUILD, 50, tags=["old"]))
    world.write("b.md", aged(BUILD.lower(), 10, tags=["new"]).replace("origin: agent", "origin: user"))
    [proposal] = proposed(memory)
    assert proposal.why == "a is 100 % the same as b, which stays"
    passes.apply_proposals(memory.workspace.records, [proposal], what="duplicates")
    assert memory.show("b").tags == ("new", "old")
    world.write("c.md", aged(BUILD.upper(), 1).replace("origin: agent", "origin: user"))
    [proposal] = proposed(memory)
    passes.apply_proposals(memory.workspace.records, [proposal], what="duplicates")
    [record] = memory.list().records
    assert record.key == "b"
    assert record.updated == "2026-11-14T12:00:00Z"
    assert record.text == BUILD.lower()


def test_a_protected_record_is_never_put_away_and_never_pushes_out_what_is_more_trusted(world: World) -> None:
    memory = world.memory()
    world.write("a.md", aged(BUILD, 50, protected=True))
    world.write("b.md", aged(BUILD.lower(), 60, protected=True))
    assert proposed(memory) == []
    world.write("b.md", aged(BUILD.lower(), 60).replace("origin: agent", "origin: user"))
    assert proposed(memory) == []
    world.write("b.md", aged(BUILD.lower(), 60))
    assert [edit.name for edit in proposed(memory)[0].edits if edit.after is None] == ["b.md"]


def test_other_types_other_places_and_consolidations_are_not_compared(world: World) -> None:
    memory = world.memory()
    world.write("a.md", aged(BUILD, 50))
    world.write("b.md", aged(BUILD, 50, type="feedback"))
    world.write("c.md", aged(BUILD, 50, source="auto_decay"))
    world.write("d.md", aged(BUILD, 50), place="federated")
    assert memory.care.sweep().proposals == ()


def test_a_record_that_says_more_is_no_duplicate_but_one_that_says_less_is(world: World) -> None:
    memory = world.memory()
    world.write("a.md", aged(BUILD, 50))
    world.write("b.md", aged(BUILD, 40) + "\n## 2026-11-01\nReleases are signed by hand.\n")
    assert proposed(memory) == []
    world.write("a.md", aged(BUILD, 50) + "\n## 2026-11-01\nReleases are signed by hand.\n")
    world.write("b.md", aged(BUILD, 40))
    [proposal] = proposed(memory)
    assert proposal.why.startswith("b is 100 %")


def test_many_copies_become_one(world: World) -> None:
    memory = world.memory()
    for number in range(60):
        world.write(f"r{number:02}.md", aged(BUILD, 100 - number))
    for proposal in proposed(memory):
        passes.apply_proposals(memory.workspace.records, [proposal], what="duplicates")
    assert [record.key for record in memory.list().records] == ["r00"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The internal gateway of the shop is slow.", "The external gateway of the shop is slow."),
        ("The encrypted dump goes to the archive host.", "The decrypted dump goes to the archive host."),
        ("The producer of the topic owns its schema.", "The reducer of the topic owns its schema."),
        (
            "Our pipeline compiles with ninja using eight jobs.",
            "Our pipeline builds with ninja using eight jobs.",
        ),
    ],
)
def test_a_word_that_only_one_of_two_records_has_keeps_both(world: World, one: str, other: str) -> None:
    memory = world.memory()
    world.write("a.md", aged(one, 50))
    world.write("b.md", aged(other, 40))
    assert proposed(memory) == []


def test_a_rewording_in_the_passive_is_a_duplicate(world: World) -> None:
    memory = world.memory()
    world.write("a.md", aged("The scheduler starts the nightly import of the ledger.", 50))
    world.write("b.md", aged("The nightly import of the ledger is started by the scheduler.", 40))
    [proposal] = proposed(memory)
    assert proposal.why.endswith("the same as a, which stays")


def test_a_record_whose_labels_cannot_be_edited_still_stays(world: World) -> None:
    memory = world.memory()
    world.write("a.md", f"---\n? type\n: project\ntags: [x]\n---\n{BUILD}\n")
    world.write("b.md", aged(BUILD, 40, tags=["y"]))
    for proposal in proposed(memory):
        passes.apply_proposals(memory.workspace.records, [proposal], what="duplicates")
    assert len(memory.list().records) == 1
