"""What each pass puts away and what it leaves; none has anything to do twice, and none loses a word."""

from __future__ import annotations

import random
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bench import lifecycle as bench

from lifecycle.stores import NOW, World, aged
from vademecum.lifecycle import passes
from vademecum.lifecycle.passes import CountCap, Expiry, PruningPass, RetentionPass, fade_confidence
from vademecum.lifecycle.sweep import Duplicates
from vademecum.store import audit
from vademecum.types import Origin, Place, RecordType, Scope

if TYPE_CHECKING:
    from vademecum.lifecycle.passes import Pass
    from vademecum.memory import Memory

PASSES: dict[str, Pass] = {
    "expiry": Expiry(),
    "retention": RetentionPass(),
    "pruning": PruningPass(),
    "duplicates": Duplicates(),
    "cap-summarize": CountCap(max_count=5, percentage=0.3),
    "cap-cut": CountCap(max_count=5, percentage=0.3, strategy="cut"),
}


def proposals(memory: Memory, one: Pass, scope: Scope = Scope.GLOBAL) -> list[str]:
    """The keys that a pass would put away."""
    outcome = passes.propose(memory.workspace.records, memory.workspace.places(scope, all=False), [one])
    retired = [edit for each in outcome.proposals for edit in each.edits if edit.after is None]
    return sorted(edit.name.removesuffix(".md") for edit in retired)


def apply(memory: Memory, one: Pass, scope: Scope = Scope.GLOBAL) -> None:
    outcome = passes.propose(memory.workspace.records, memory.workspace.places(scope, all=False), [one])
    _, told = passes.apply_proposals(memory.workspace.records, outcome.proposals, what=one.name)
    assert all(each.done for each in told), told


# -------------------------------------------------------------------- retention


def test_only_project_and_session_memory_ages(world: World) -> None:
    memory = world.memory(session="s1")
    project = memory.workspace.places("project", all=False)[0].id
    for place in ("global", "federated", "agent/main", f"project/{project}", "session/s1"):
        for days in (13, 15, 89, 91):
            world.write(f"d{days}.md", aged(f"Kept {days} days ago.", days), place=place)
    found = {str(scope): proposals(memory, RetentionPass(), scope) for scope in Scope}
    assert found == {
        "session": ["d15", "d89", "d91"],
        "project": ["d91"],
        "agent": [],
        "global": [],
        "federated": [],
    }
    assert proposals(memory, RetentionPass(project_days=0, session_days=0), Scope.SESSION) == []


def test_what_people_said_what_was_learned_and_what_is_protected_never_ages(world: World) -> None:
    memory = world.memory(session="s1")
    for kind in RecordType:
        world.write(f"{kind}.md", aged("Old.", 900, type=str(kind)), place="session/s1")
    world.write("safe.md", aged("Old.", 900, protected=True), place="session/s1")
    assert proposals(memory, RetentionPass(), Scope.SESSION) == ["project", "reference"]


def test_a_confirmation_renews_a_record(world: World) -> None:
    memory = world.memory()
    place = f"project/{memory.workspace.places('project', all=False)[0].id}"
    fresh = f"{NOW - timedelta(days=10):%Y-%m-%dT%H:%M:%SZ}"
    said = [{"by": "process:main", "session": "", "at": fresh}]
    world.write("renewed.md", aged("Old.", 100, confirmed=said), place=place)
    world.write("stale.md", aged("Old as well.", 100), place=place)
    assert proposals(memory, RetentionPass(), Scope.PROJECT) == ["stale"]


def test_what_has_no_date_has_no_age(world: World) -> None:
    memory = world.memory(session="s1")
    world.write("Notes of mine.md", "Written with an editor.\n", place="session/s1")
    world.write("broken-date.md", "---\ntype: project\nupdated: yesterday\n---\nText.\n", place="session/s1")
    assert proposals(memory, RetentionPass(), Scope.SESSION) == []


# -------------------------------------------------------------------- expiry


@pytest.mark.parametrize(
    ("said", "stale"),
    [
        ("2026-11-15", True),
        ("2026-11-16", False),
        ("2026-11-15T11:59:59Z", True),
        ("2026-11-15T13:00:00+02:00", True),
        ("30d", True),
        ("6 weeks", False),
        ("1mo", True),
        ("2 months", False),
        ("12h", True),
        ("1y", False),
        ("soon", False),
        ("99999y", False),
        ("", False),
        (2026, False),
        (["2020-01-01"], False),
    ],
)
def test_a_record_goes_on_the_day_it_names_itself(world: World, said: object, stale: bool) -> None:
    memory = world.memory()
    world.write("a.md", aged("Holds for a while.", 40, stale_after=said))
    assert proposals(memory, Expiry()) == (["a"] if stale else [])


def test_a_protected_record_does_not_expire(world: World) -> None:
    memory = world.memory()
    world.write("a.md", aged("Holds.", 40, stale_after="2020-01-01", protected=True))
    assert proposals(memory, Expiry()) == []


# -------------------------------------------------------------------- pruning


def test_what_was_learned_goes_when_it_is_old_or_no_longer_believed(world: World) -> None:
    memory = world.memory()
    world.write("sure.md", aged("A.", 60, type="discovery", confidence=0.9))
    world.write("unsure.md", aged("B.", 60, type="solution", confidence=0.5))
    world.write("old.md", aged("C.", 91, type="pattern", confidence=1.0))
    world.write("vouched.md", aged("D.", 200, type="rule", confidence=0.1, verified=[{"by": "human:ada"}]))
    world.write("safe.md", aged("E.", 200, type="rule", confidence=0.1, protected=True))
    world.write("other.md", aged("F.", 200, confidence=0.1))
    assert proposals(memory, PruningPass()) == ["old", "unsure"]
    assert proposals(memory, PruningPass(max_age_days=0)) == ["unsure"]
    assert proposals(memory, PruningPass(min_confidence=0)) == ["old"]
    assert proposals(memory, PruningPass(verified=lambda record: record.key == "old")) == [
        "unsure",
        "vouched",
    ]


def test_confidence_fades_by_half_in_a_half_life_and_nothing_is_written(world: World) -> None:
    memory = world.memory()
    world.write("a.md", aged("A.", 60, type="discovery", confidence=0.8))
    record = memory.show("a")
    before = world.tree()
    assert fade_confidence(record, now=NOW, half_life_days=60) == pytest.approx(0.4)
    assert fade_confidence(record, now=NOW, half_life_days=60) == pytest.approx(0.4)
    assert fade_confidence(record, now=NOW - timedelta(days=500), half_life_days=60) == pytest.approx(0.8)
    assert world.tree() == before


# -------------------------------------------------------------------- the cap


def filled(world: World, count: int, **fields: object) -> Memory:
    for number in range(count):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number, **fields))
    return world.memory()


def test_the_oldest_share_is_consolidated_in_one_record_with_each_text_as_trusted_as_it_was(
    world: World,
) -> None:
    memory = filled(world, 11, tags=["a", "b"])
    world.write("r000.md", aged("Fact 0 of many.", 80).replace("origin: agent", "origin: tool"))
    apply(memory, CountCap(max_count=10))
    new = next(each for each in memory.list().records if each.source == "auto_decay")
    assert [(each.part, each.text) for each in new.entries] == [
        ("r000", "Fact 0 of many."),
        ("r001", "Fact 1 of many."),
    ]
    assert new.title == "Consolidated 2 old memories"
    assert new.tags == ("_consolidated", "_auto_decay")
    assert [each.origin for each in new.entries] == [Origin.TOOL, Origin.AGENT]
    assert new.num is not None
    assert len(memory.list().records) == 10
    assert memory.restore("r000").text == "Fact 0 of many."


def test_a_consolidation_is_never_summed_up_again_and_does_not_count(world: World) -> None:
    memory = filled(world, 20)
    cap = CountCap(max_count=10, percentage=0.2)
    apply(memory, cap)
    first = next(each for each in memory.list().records if each.source == "auto_decay")
    for number in range(20, 25):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number))
    apply(memory, cap)
    summed = [each for each in memory.list().records if each.source == "auto_decay"]
    assert len(summed) == 2
    assert memory.show(first.key).text == first.text
    assert proposals(memory, cap) == []


def test_cut_only_puts_away(world: World) -> None:
    memory = filled(world, 11)
    apply(memory, CountCap(max_count=10, strategy="cut"))
    assert [each.key for each in memory.list().records] == [f"r{number:03}" for number in range(2, 11)]


def test_protected_records_and_what_people_said_neither_count_nor_go(world: World) -> None:
    memory = filled(world, 10)
    for number in range(20):
        kind = ("user", "feedback")[number % 2]
        world.write(f"said{number}.md", aged(f"Said {number}.", 500, type=kind))
        world.write(f"safe{number}.md", aged(f"Safe {number}.", 500, protected=True))
    assert proposals(memory, CountCap(max_count=10)) == []
    world.write("one-more.md", aged("One more.", 1))
    assert proposals(memory, CountCap(max_count=10)) == ["r000", "r001"]


def test_what_was_learned_does_not_age_because_it_was_consolidated_and_is_no_lesson(world: World) -> None:
    memory = world.memory(session="s1")
    for number in range(12):
        kind = "solution" if number == 0 else "project"
        text = aged(f"Fact {number} of many.", 80 - number, type=kind)
        world.write(f"r{number:03}.md", text, place="session/s1")
    apply(memory, CountCap(max_count=10), Scope.SESSION)
    new = next(each for each in memory.list().records if each.source == "auto_decay")
    assert new.type == "project"
    assert memory.show("r000").type == "solution"
    assert memory.knowledge.list() == []
    assert new.key not in proposals(memory, RetentionPass(), Scope.SESSION)


def test_a_half_done_run_does_not_say_everything_twice_the_next_time(world: World) -> None:
    memory = filled(world, 12)
    cap = CountCap(max_count=10)
    [proposal] = passes.propose(memory.workspace.records, [Place(Scope.GLOBAL)], [cap]).proposals
    passes.apply_proposals(
        memory.workspace.records, [proposal._replace(edits=proposal.edits[:1])], what="killed"
    )
    apply(memory, cap)
    texts = [each.text for each in memory.list().records if each.source == "auto_decay"]
    assert "\n".join(texts).count("Fact 0 of many.") <= 1
    held = [entry.text for each in memory.list().records if each.source for entry in each.entries]
    assert held.count("Fact 0 of many.") == 1


def test_a_text_that_looks_like_an_entry_opens_none_in_a_consolidation(world: World) -> None:
    memory = filled(world, 11)
    text = "x\n\n<!-- origin: user | of: r000 -->\nAnd more."
    memory.store(text, key="sly", scope="global")
    apply(memory, CountCap(max_count=2))
    new = next(each for each in memory.list().records if each.source == "auto_decay")
    assert len(new.entries) == len(new.aliases)
    assert "sly" not in new.aliases or memory.show("sly").text == text


# -------------------------------------------------------------------- all of them


def random_store(world: World, chance: random.Random) -> Memory:
    """A store of everything that matters to some pass."""
    texts = [bench.statement(chance) for _ in range(6)]
    for number in range(chance.randint(8, 26)):
        text = chance.choice(texts) if chance.random() < 0.5 else bench.statement(chance)
        text = chance.choice([text, text.lower(), f"By the way, {text}", text.rstrip(".")])
        fields: dict[str, object] = {"type": chance.choice([*RecordType, *[RecordType.PROJECT] * 20])}
        if chance.random() < 0.3:
            fields["stale_after"] = chance.choice(["2026-01-01", "2030-01-01", "20d", "never"])
        if chance.random() < 0.1:
            fields["protected"] = True
        if chance.random() < 0.5:
            fields["tags"] = chance.sample(["x", "y", "z"], 2)
        if chance.random() < 0.4:
            fields["confidence"] = round(chance.random(), 2)
        whole = aged(text, chance.choice([1, 20, 100, 400]), **fields)
        if chance.random() < 0.3:
            whole += f"\n## 2026-10-0{chance.randint(1, 9)}\n{bench.statement(chance)}\n"
        if chance.random() < 0.15:
            whole = text  # made by hand
        if chance.random() < 0.2:
            whole = whole.replace("\n", "\r\n")
        place = chance.choice(["session/s1", "global"])
        world.write(f"r{number}.md", whole, place=place)
    return world.memory(session="s1")


def settled(one: Pass, seed: int) -> None:
    """A pass over a random store: it has nothing to do twice, loses no word, and can be taken back."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        memory = random_store(world, random.Random(seed))
        before = world.tree()
        texts = [entry.text for record in memory.list().records for entry in record.entries]
        places = memory.workspace.places(None, all=False)
        outcome = passes.propose(memory.workspace.records, places, [one])
        assert world.tree() == before
        _, told = passes.apply_proposals(memory.workspace.records, outcome.proposals, what=one.name)
        assert all(each.done for each in told)
        whole = world.everything()
        for text in texts:
            assert " ".join(text.split()) in whole
        again = passes.propose(memory.workspace.records, places, [one])
        assert again.proposals == ()
        assert audit.verify(memory.home).problems == ()
        assert not [each for each in memory.status().findings if each.what in ("edited", "deleted")]
        if outcome.proposals:
            memory.care.undo()
        assert world.tree() == before


@pytest.mark.full(but=2)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_run_twice_proposes_nothing_the_second_time_and_no_word_is_lost(name: str) -> None:
    for seed in range(8):
        settled(PASSES[name], seed)


@pytest.mark.soak
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_run_twice_at_length(name: str) -> None:
    for seed in range(100, 500):
        settled(PASSES[name], seed)


@pytest.mark.parametrize("name", PASSES)
def test_how_often_a_record_was_read_decides_nothing(name: str, world: World) -> None:
    memory = random_store(world, random.Random(3))
    places = memory.workspace.places(None, all=False)
    before = passes.propose(memory.workspace.records, places, [PASSES[name]])
    for _ in range(3):
        world.clock.forward(seconds=90)
        for text in ("service", "script", "backup"):
            memory.search(text)
    world.clock.now = NOW
    assert [
        each.why for each in passes.propose(memory.workspace.records, places, [PASSES[name]]).proposals
    ] == [each.why for each in before.proposals]


def test_the_records_of_a_folder_nobody_trusts_are_left_alone(world: World) -> None:
    records = world.top / "project/.vade/records"
    records.mkdir(parents=True)
    for number in range(12):
        text = aged("Said twice by a stranger.", 500, stale_after="2020-01-01")
        (records / f"r{number}.md").write_text(text)
    memory = world.memory()
    for one in PASSES.values():
        assert proposals(memory, one, Scope.PROJECT) == []


def test_a_file_that_cannot_be_read_is_reported_and_left(world: World) -> None:
    memory = filled(world, 3)
    broken = world.write("broken.md", b"---\ntype: [\n---\n\xff\xfe")
    outcome = passes.propose(memory.workspace.records, [Place(Scope.GLOBAL)], [*PASSES.values()])
    assert [each.where for each in outcome.findings] == ["memory/global/records/broken.md"]
    assert broken.read_bytes().endswith(b"\xff\xfe")


def test_a_record_saved_between_proposing_and_applying_is_skipped_and_nothing_of_it_is_lost(
    world: World,
) -> None:
    memory = filled(world, 12)
    outcome = passes.propose(memory.workspace.records, [Place(Scope.GLOBAL)], [CountCap(max_count=10)])
    path = world.home / "memory/global/records/r001.md"
    path.write_text(path.read_text() + "\nA person was here.\n")
    _, told = passes.apply_proposals(memory.workspace.records, outcome.proposals, what="cap")
    assert [(each.path.rpartition("/")[2], each.done) for each in told][1:] == [
        ("r000.md", True),
        ("r001.md", False),
    ]
    assert "A person was here." in path.read_text()
