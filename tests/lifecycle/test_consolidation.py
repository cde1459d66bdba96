"""A consolidation holds every record whole, under its key, and each key goes on answering."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import tempfile
import warnings
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.stores import NOW, World, aged
from vademecum.errors import NotFound, StorageFailed
from vademecum.interfaces.cli.app import run
from vademecum.lifecycle import passes
from vademecum.lifecycle.passes import CountCap
from vademecum.store import audit, merge
from vademecum.store.records import Records
from vademecum.store.runs import Run
from vademecum.types import Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vademecum.memory import Memory
    from vademecum.store.home import ScopeFolder
    from vademecum.store.records import Found
    from vademecum.store.runs import Edit, EditResult
    from vademecum.types import Record

PIECES = (
    "Use `make test` before a push.",
    "- one\n- two\n  - nested",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "```sh\nvade list\n\n  indented\n```",
    "Straße, 漢字, ünïcode and  two  spaces.",
    "A line\n\nand another after a gap.",
    "<!-- origin: user -->\nnot a signature",
    "\\## 2026-01-01\nescaped already",
    "**bold** _it_ [link](x.md) [[other]]",
)


def consolidated(memory: Memory) -> list[Record]:
    return [each for each in memory.list().records if each.source == "auto_decay"]


def apply(memory: Memory, cap: CountCap, scope: Scope = Scope.GLOBAL) -> str:
    outcome = passes.propose(memory.workspace.records, memory.workspace.places(scope, all=False), [cap])
    made, told = passes.apply_proposals(memory.workspace.records, outcome.proposals, what="cap")
    assert all(each.done for each in told), told
    return made


def some_records(world: World, chance: random.Random, count: int) -> Memory:
    """Notes with one to four entries of Markdown, some of them superseded, some undated or made by hand."""
    memory = world.memory()
    for number in range(count):
        days = chance.uniform(1, 300)
        text = aged(
            chance.choice(PIECES),
            days,
            type=chance.choice(["project", "project", "discovery", "solution"]),
            tags=chance.sample(["x", "y", "z"], chance.randint(0, 2)),
            num=1000 + number,
            title=chance.choice([f"R{number:03}", "A title of its own"]),
        )
        for extra in range(chance.randint(0, 3)):
            at = f"{NOW - timedelta(days=days / (extra + 2)):%Y-%m-%dT%H:%M:%SZ}"
            mark = f" | superseded: {at}" if chance.random() < 0.2 else ""
            text += f"\n## {at}\n{chance.choice(PIECES[:6])}\n<!-- origin: user{mark} -->\n"
        if chance.random() < 0.15:
            text = text.replace("<!-- origin: agent -->\n", "")
        if chance.random() < 0.15:
            text = text.replace("\n", "\r\n")
        world.write(f"r{number:03}.md", text)
    return memory


def settled(seed: int) -> None:
    """Consolidate a random store: all of it stands there verbatim, every key answers, undo is exact."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        memory = some_records(world, chance, chance.randint(8, 30))
        before, records = world.tree(), {each.key: each for each in memory.list().records}
        # Some of them do not count; a cap that the others do not reach would ask for nothing.
        most = min(chance.randint(2, 7), sum(memory.list().counted.values()) - 1)
        made = apply(memory, CountCap(max_count=most, percentage=0.3))
        held = {alias: each for each in consolidated(memory) for alias in each.aliases}
        assert held
        for key, record in records.items():
            shown = memory.show(key)
            assert [each.text for each in shown.entries] == [each.text for each in record.entries]
            for one, other in zip(shown.entries, record.entries, strict=True):
                assert one.time == other.time if other.time or key not in held else one.time
            assert [each.superseded for each in shown.entries] == [each.superseded for each in record.entries]
            assert [each.origin for each in shown.entries] == [each.origin for each in record.entries]
            assert (shown.type, shown.tags, shown.num) == (record.type, record.tags, record.num)
            assert memory.show(record.num or key).key == key
            text = memory.get(key).text.replace("\r\n", "\n")
            for entry in record.entries:
                assert all(line.rstrip() in text for line in entry.text.split("\n"))
        for each in consolidated(memory):
            assert each.updated is not None
            assert each.updated < f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
            assert each.type == "project"
            lines = (world.home / each.path).read_text().split("\n")
            assert max(len(line) for line in lines) < 250
            assert list(each.aliases) == [part["key"] for part in each.fields["parts"]]
        assert audit.verify(memory.home).problems == ()
        memory.care.undo(made)
        assert world.tree() == before


@pytest.mark.full
def test_everything_is_found_verbatim_every_key_answers_and_undo_gives_back_every_byte() -> None:
    for seed in (*range(12), 327):  # 327: of nine records two do not count
        settled(seed)


@pytest.mark.soak
def test_consolidating_at_length() -> None:
    for seed in range(100, 400):
        settled(seed)


def filled(world: World, count: int = 12) -> Memory:
    for number in range(count):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number, tags=["t"]))
    memory = world.memory()
    apply(memory, CountCap(max_count=10))
    return memory


def test_each_part_stands_under_a_heading_with_its_key_and_under_its_date(world: World) -> None:
    memory = filled(world)
    [new] = consolidated(memory)
    text = (world.home / new.path).read_text()
    at = f"{NOW - timedelta(days=80):%Y-%m-%dT%H:%M:%SZ}"
    text = re.sub(r" \| id: \w{10}", "", text)
    assert f"## {at}\n### r000\n\nFact 0 of many.\n<!-- origin: agent | of: r000 -->\n" in text


# -------------------------------------------------------------------- what neither counts nor goes


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Said by a person.", {"type": "user"}),
        ("A correction.", {"type": "feedback"}),
        ("A page about something.", {"type": "reference"}),
        ("Never push on Fridays.", {"type": "rule"}),
        ("Protected.", {"protected": True}),
        ("From elsewhere.", {"source": "import:openclaw", "imported": "2026-01-01T00:00:00Z"}),
        ("From elsewhere.", {"imported": "2026-01-01T00:00:00Z"}),
        ("w" * 601, {}),
        ("# A heading\nand text.", {}),
        ("Text.\n\n### deeper\nmore.", {}),
        ("Title\n=====\ntext", {}),
        ("Renamed once.", {"aliases": ["earlier"]}),
    ],
)
def test_only_short_notes_of_this_memory_count_and_go(
    world: World, text: str, fields: dict[str, object]
) -> None:
    memory = world.memory()
    for number in range(30):
        world.write(f"r{number}.md", aged(f"{text}", 300 - number, **fields))
    outcome = passes.propose(
        memory.workspace.records, memory.workspace.places("global", all=False), [CountCap(max_count=5)]
    )
    assert outcome.proposals == ()


def test_of_a_labelled_store_the_cap_moves_old_short_notes_and_nothing_else(world: World) -> None:
    chance = random.Random(11)
    memory = world.memory()
    may: set[str] = set()
    must_not: set[str] = set()
    for number in range(300):
        name, days = f"r{number:03}", 400 - number
        kind = chance.choice(["note", "note", "note", "lesson", "long", "headed", "import", "said", "rule"])
        text = f"Note {number} about {number * 7919}."
        fields: dict[str, object] = {}
        if kind == "lesson":
            fields["type"] = chance.choice(["discovery", "solution", "pattern", "workflow", "failure"])
        elif kind == "long":
            text += " More." * 120
        elif kind == "headed":
            text += "\n\n## A part\nof a document."
        elif kind == "import":
            fields |= {"source": "import:cao", "imported": "2026-11-14T00:00:00Z"}
        elif kind == "said":
            fields["type"] = chance.choice(["user", "feedback", "reference"])
        elif kind == "rule":
            fields["type"] = "rule"
        (may if kind in ("note", "lesson") else must_not).add(name)
        world.write(f"{name}.md", aged(text, days, **fields))
    cap = CountCap(max_count=100)
    outcome = passes.propose(memory.workspace.records, memory.workspace.places("global", all=False), [cap])
    moved = {e.name.removesuffix(".md") for p in outcome.proposals for e in p.edits if e.after is None}
    wanted = set(sorted(may)[: max(len(may) - 100, len(may) // 5)])  # the oldest, in the order of writing
    assert moved & must_not == set()
    assert moved == wanted


# -------------------------------------------------------------------- keys that go on answering


def test_a_text_for_a_consolidated_key_makes_it_a_record_again_and_joins_it(world: World) -> None:
    memory = filled(world)
    stored = memory.store("Fact 0 changed.", key="r000", scope="global", mode="replace")
    assert (stored.key, str(stored.outcome)) == ("r000", "replaced")
    record = memory.show("r000")
    assert record.path == "memory/global/records/r000.md"
    assert [(each.text, each.live) for each in record.entries] == [
        ("Fact 0 of many.", False),
        ("Fact 0 changed.", True),
    ]
    assert record.tags == ("t",)
    [rest] = consolidated(memory)
    assert rest.aliases == ("r001",)
    assert rest.title == "Consolidated 1 old memory"
    memory.store("Fact 1 changed.", key="r001", scope="global")
    assert consolidated(memory) == []  # nothing is left in it, and it is in the archive
    assert not [each for each in memory.status().findings if each.what in ("edited", "deleted")]
    assert audit.verify(memory.home).problems == ()


def test_a_return_that_a_dead_process_left_half_done_is_finished_by_the_next_text(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(world)
    with monkeypatch.context() as dying:
        dying.setattr(type(memory.workspace.records), "release", lambda *given: None)
        memory.store("Fact 0 changed.", key="r000", scope="global", mode="replace")
    assert consolidated(memory)[0].aliases == ("r000", "r001")
    memory.store("Fact 0 goes on.", key="r000", scope="global")
    assert consolidated(memory)[0].aliases == ("r001",)
    live = [each.text for each in memory.show("r000").live]
    assert live == ["Fact 0 changed.", "Fact 0 goes on."]


def test_what_only_the_consolidation_says_stays_in_it_when_the_key_has_a_file_again(world: World) -> None:
    memory = filled(world)
    world.write("r000.md", aged("Typed by hand.", 1))
    memory.store("Fact 0 goes on.", key="r000", scope="global")
    assert "Fact 0 of many." in [each.text for each in consolidated(memory)[0].entries]


def test_a_text_that_cannot_be_written_leaves_the_consolidation_and_its_part_as_they_were(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(world)
    before = world.tree()

    def full(*given: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(merge.Joining, "__call__", full)
        with pytest.raises(StorageFailed):
            memory.store("Fact 0 goes on.", key="r000", scope="global")
    assert world.tree() == before


def test_without_the_archive_a_part_comes_back_from_the_consolidation(world: World) -> None:
    import shutil

    memory = filled(world)
    shutil.rmtree(world.home / "archive")
    memory.store("Fact 0 goes on.", key="r000", scope="global")
    record = memory.show("r000")
    assert [each.text for each in record.entries] == ["Fact 0 of many.", "Fact 0 goes on."]
    assert (record.tags, record.entries[0].origin) == (("t",), Origin.AGENT)


def test_forgetting_a_consolidated_key_takes_that_part_away_and_restore_brings_it_back(world: World) -> None:
    memory = filled(world)
    assert memory.forget("r000").key == "r000"
    with pytest.raises(Exception, match="no record 'r000'"):
        memory.show("r000")
    assert memory.show("r001").text == "Fact 1 of many."
    assert "Fact 0" not in (world.home / consolidated(memory)[0].path).read_text()
    assert memory.restore("r000").text == "Fact 0 of many."
    assert memory.show("r000").path.endswith("r000.md")


def test_a_restored_part_leaves_the_consolidation_so_that_forgetting_it_holds(world: World) -> None:
    memory = filled(world)
    memory.restore("r000")
    assert consolidated(memory)[0].aliases == ("r001",)
    memory.forget("r000")
    with pytest.raises(Exception, match="no record"):
        memory.show("r000")


def test_a_new_text_never_takes_the_key_of_something_consolidated(world: World) -> None:
    for number in range(12):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number))
    world.write("the-build-runs-on-linux.md", aged("The build runs on Linux 5.", 300))
    memory = world.memory()
    apply(memory, CountCap(max_count=10))
    stored = memory.store("The build runs on Linux", scope="global")
    assert stored.key == "the-build-runs-on-linux-2"
    assert memory.show("the-build-runs-on-linux").text == "The build runs on Linux 5."


def test_protecting_or_applying_a_consolidated_record_makes_it_one_of_its_own(world: World) -> None:
    for number in range(12):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number, type="discovery"))
    memory = world.memory()
    apply(memory, CountCap(max_count=10))
    assert memory.review.protect("r000").protected
    assert memory.knowledge.applied("r001").fields["applied"] == 1
    assert consolidated(memory) == []


@pytest.mark.parametrize("first", ["", "restore", "store"])
def test_a_consolidated_key_is_purged_everywhere_and_its_neighbours_stay(world: World, first: str) -> None:
    memory = filled(world)
    if first == "restore":
        memory.restore("r000")
    elif first == "store":
        memory.store("Fact 0 goes on.", key="r000", scope="global")
    memory.archive.purge("r000")
    everywhere = [path for path in world.home.rglob("*") if path.is_file()]
    assert not [path for path in everywhere if b"Fact 0 of many." in path.read_bytes()]
    assert memory.show("r001").text == "Fact 1 of many."
    assert memory.restore("r001").text == "Fact 1 of many."
    assert not [each for each in memory.status().findings if each.what in ("edited", "deleted")]


def test_an_alias_in_a_record_answers_for_all_of_it(world: World) -> None:
    world.write("deploy.md", aged("Deploy on Tuesdays.", 3, aliases=["release-day"]))
    memory = world.memory()
    assert memory.show("release-day").key == "deploy"
    assert memory.store("And on Thursdays.", key="release-day", scope="global").key == "deploy"
    memory.store("Another thing.", key="release", scope="global")
    world.write("links.md", aged("See [[release-day]].", 1))
    assert [each.target for each in memory.graph.read().edges if each.source.endswith("links.md")] == [
        "memory/global/records/deploy.md"
    ]


def test_recall_finds_a_consolidated_record_by_its_key_and_by_its_words(world: World) -> None:
    memory = world.memory()
    for number in range(12):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number))
    world.write("harbour-crane.md", aged("The yellow one lifts forty tonnes.", 300))
    apply(memory, CountCap(max_count=10))
    [new] = [each for each in consolidated(memory) if "harbour-crane" in each.aliases]
    for query in ("harbour-crane", "harbour crane", "lifts forty tonnes"):
        first = memory.recall(query).results[0]
        assert (first.path, first.snippet) == (new.path, "The yellow one lifts forty tonnes."), query


def test_a_key_of_the_nearest_place_answers_before_one_further_away(world: World) -> None:
    memory = world.memory()
    memory.store("Global words.", key="r000", scope="global")
    place = f"project/{memory.workspace.places('project', all=False)[0].id}"
    for number in range(12):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number), place=place)
    apply(memory, CountCap(max_count=10), Scope.PROJECT)
    assert memory.show("r000").text == "Fact 0 of many."
    assert memory.show("r000", scope="global").text == "Global words."


def test_what_an_earlier_version_consolidated_is_read_as_it_stands(world: World) -> None:
    text = "Consolidated 2 old memories:\n- Fact 0 of many.\n- Fact 1 of many. [tags: a, b]"
    fields = {"source": "auto_decay", "tags": ["_consolidated", "_auto_decay"], "type": "discovery"}
    world.write("consolidated-2026-11-01.md", aged(text, 14, **fields))
    memory = world.memory()
    memory.store("Newer, but said long ago.", key="plain", scope="global")
    assert memory.show("consolidated-2026-11-01").text == text
    assert memory.knowledge.list() == []
    told = memory.injection.block().text
    assert "## Learned" not in told
    assert told.index("Newer, but") < told.index("Consolidated 2 old")
    assert [each.key for each in memory.search("Fact 1").results][:1] == ["consolidated-2026-11-01"]


# -------------------------------------------------------------------- in the block


def test_consolidated_words_keep_their_place_in_the_block(world: World) -> None:
    memory = world.memory()
    for number in range(12):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number))
    world.write("old-rule.md", aged("An older rule.", 200, type="rule"))
    first = memory.injection.block().text
    apply(memory, CountCap(max_count=10))
    assert (
        memory.injection.block().text == first
    )  # byte for byte: a consolidation changes nothing an agent is told
    told = memory.injection.block(query="fact 0 of many").text
    assert told.index("r000 [unverified]: Fact 0") < told.index("Fact 9")


def test_consolidated_lessons_are_left_out_where_what_was_learned_is(world: World) -> None:
    memory = world.memory()
    for number in range(12):
        kind = RecordType.DISCOVERY if number == 0 else RecordType.PROJECT
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number, type=str(kind)))
    apply(memory, CountCap(max_count=2))
    assert "Fact 0 of many." in memory.injection.block(query="fact 0").text
    assert "Fact 0 of many." not in memory.injection.block(query="fact 0", knowledge=False).text


def test_a_record_that_somebody_wrote_on_meanwhile_stays_and_is_not_in_the_consolidation(
    world: World,
) -> None:
    for number in range(12):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number))
    memory = world.memory()
    outcome = passes.propose(
        memory.workspace.records, memory.workspace.places("global", all=False), [CountCap(max_count=10)]
    )
    memory.store("Written on.", key="r000", scope="global")
    made, told = passes.apply_proposals(memory.workspace.records, outcome.proposals, what="cap")
    assert [each.done for each in told] == [True, False, True]
    assert [each.text for each in memory.show("r000").entries] == ["Fact 0 of many.", "Written on."]
    assert [each.aliases for each in consolidated(memory)] == [("r001",)]
    assert all(each.done for each in memory.care.undo(made)[1])
    assert consolidated(memory) == []


def test_what_is_in_the_archive_is_said_to_be_there(world: World) -> None:
    memory = filled(world)
    memory.forget("r000")
    with pytest.raises(NotFound) as error:
        memory.show("r000")
    assert "vade restore r000" in error.value.hint
    with pytest.raises(NotFound) as error:
        memory.show("never-there")
    assert "restore" not in error.value.hint


# -------------------------------------------------------------------- undo, after somebody wrote on


def test_undo_brings_back_what_a_writer_began_again_as_earlier_entries(world: World) -> None:
    for number in range(12):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 80 - number))
    memory = world.memory()
    swept = apply(memory, CountCap(max_count=10, strategy="cut"))
    memory.store("Begun again by a writer.", key="r000", scope="global")
    undone, told = memory.care.undo(swept)
    assert undone == swept
    assert all(each.done for each in told)
    assert [each.why for each in told if each.why] == ["changed since then; restored its earlier 1 entry"]
    assert [each.text for each in memory.show("r000").entries] == [
        "Fact 0 of many.",
        "Begun again by a writer.",
    ]
    assert memory.show("r001").text == "Fact 1 of many."
    assert next(each for each in memory.care.runs() if each.run == swept).undone
    assert not [each for each in memory.status().findings if each.what in ("edited", "deleted")]
    assert audit.verify(memory.home).problems == ()


def test_undo_of_a_consolidation_whose_part_was_written_on_leaves_nothing_twice(world: World) -> None:
    memory = filled(world)
    [swept] = [each.run for each in memory.care.runs()]
    memory.store("Fact 0 goes on.", key="r000", scope="global")
    _, told = memory.care.undo(swept)
    assert all(each.done for each in told)
    assert consolidated(memory) == []
    assert [each.text for each in memory.show("r000").entries] == ["Fact 0 of many.", "Fact 0 goes on."]
    assert memory.show("r001").text == "Fact 1 of many."


def test_undo_leaves_a_consolidation_that_somebody_added_to(world: World) -> None:
    memory = filled(world)
    [swept] = [each.run for each in memory.care.runs()]
    [new] = consolidated(memory)
    memory.store("More words.", key=new.key, scope="global")
    _, told = memory.care.undo(swept)
    assert [(each.done, each.why) for each in told if each.why] == [(False, "it was changed since then")]
    assert "More words." in (world.home / new.path).read_text()
    assert memory.show("r000").path.endswith("r000.md")


def test_undo_leaves_a_consolidation_that_a_person_edited(world: World) -> None:
    memory = filled(world)
    [swept] = [each.run for each in memory.care.runs()]
    path = world.home / consolidated(memory)[0].path
    path.write_text(path.read_text().replace("Fact 0 of many.", "Fact 0 as I know it."))
    _, told = memory.care.undo(swept)
    assert [each.done for each in told].count(False) == 1
    assert "Fact 0 as I know it." in path.read_text()


# -------------------------------------------------------------------- told until it was seen


def over_the_cap(world: World, count: int) -> Memory:
    """A store that a sweep by itself would move so many records of."""
    world.settings |= {"VADE_SWEEP": "auto", "VADE_DECAY_MAX_COUNT": "20"}
    for number in range(20 + count):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 780 - number))
    world.age_files(days=700)
    return world.memory()


def test_a_store_says_what_it_moved_and_how_to_undo_it(world: World) -> None:
    memory = over_the_cap(world, 12)
    stored = memory.store("One too many.", key="last", scope="global")
    assert stored.swept is not None
    assert (stored.swept.moved, stored.swept.into) == (12, ("consolidated-2026-11-15",))
    assert f"undo with `vade undo {stored.swept.run}`" in stored.swept.message
    memory.care.undo(stored.swept.run)
    assert memory.care.notices() == []
    assert memory.store("Another one.", key="other", scope="global").swept is None


def test_what_moved_many_is_told_in_status_at_session_start_and_until_a_person_saw_it(world: World) -> None:
    memory = over_the_cap(world, 15)
    agent = world.memory(origin=Origin.AGENT)
    swept = agent.store("One too many.", key="last", scope="global").swept
    assert swept is not None
    [notice] = memory.care.notices()
    assert (notice.run, notice.moved) == (swept.run, 15)
    [finding] = [each for each in memory.status().findings if each.what == "swept"]
    assert (finding.why, finding.mend) == (notice.message, f"vade undo {swept.run}")
    block = memory.injection.block(notices=True).text
    assert f"- Tell the user: {notice.message}" in block
    assert notice.run not in memory.injection.block().text
    assert notice.run not in memory.injection.block(notices=True, audience="group").text
    agent.care.saw_notices()
    assert memory.care.notices() == [notice]  # an agent's having seen it is not a person's
    assert world.memory(audience="group").care.notices() == []
    memory.care.saw_notices()
    assert memory.care.notices() == []


def test_ten_records_are_not_many(world: World) -> None:
    memory = over_the_cap(world, 10)
    swept = memory.store("One too many.", key="last", scope="global").swept
    assert swept is not None
    assert swept.moved == 10
    assert memory.care.notices() == []


def test_the_command_line_tells_it_on_stderr_until_status_has_shown_it(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = over_the_cap(world, 15)
    monkeypatch.chdir(world.top / "project")
    swept = world.memory(origin=Origin.AGENT).store("One too many.", key="last", scope="global").swept
    assert swept is not None
    for command in (["list"], ["list", "--json"], ["search", "fact"]):
        assert run([*command, "--home", str(world.home)]) == 0
        told = capsys.readouterr()
        assert swept.message in told.err
        assert swept.run not in told.out
    assert run(["status", "--home", str(world.home)]) == 0
    assert swept.message in capsys.readouterr().out
    assert memory.care.notices() == []
    assert run(["list", "--home", str(world.home)]) == 0
    assert "vade undo" not in capsys.readouterr().err


def test_a_store_on_the_command_line_says_what_moved(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = over_the_cap(world, 15)
    monkeypatch.chdir(world.top / "project")
    for name in ("VADE_SWEEP", "VADE_DECAY_MAX_COUNT"):
        monkeypatch.setenv(name, world.settings[name])
    words = ["add", "One too many.", "--key", "last", "--scope", "global", "--home", str(world.home)]
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["swept"]["moved"] == 15
    assert told["swept"]["into"] == [each.key for each in consolidated(memory)]
    assert f"vade undo {told['swept']['run']}" in told["swept"]["message"]


# -------------------------------------------------------------------- against writers


def written_on(world: World, who: int, times: int) -> None:
    """A writer of keys that may be consolidated at any moment; what was acknowledged is in a file."""
    chance = random.Random(who)
    memory = world.memory()
    with (world.top / f"acknowledged-{who}").open("a") as told:
        for number in range(times):
            key, text = f"r{chance.randrange(60):03}", f"Writer {who} said {number}."
            memory.store(text, key=key, scope="global", mode=chance.choice(["append", "replace"]))
            told.write(f"{text}\n")
            told.flush()


def raced(world: World, *, writers: int, times: int, sweeps: int) -> None:
    """Writers against sweeps, one of them killed: no text is lost, and after an undo none stands twice."""
    facts = [f"Fact {number} of many." for number in range(60)]
    for number, fact in enumerate(facts):
        world.write(f"r{number:03}.md", aged(fact, 200 - number))
    children = []
    for who in range(writers):
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # xdist has threads; the child never meets them
            child = os.fork()
        if child == 0:
            written_on(world, who, times)
            os._exit(0)
        children.append(child)
    memory = world.memory()
    made = []
    for number in range(sweeps):
        cap = CountCap(max_count=max(10, 50 - number * 10))
        outcome = passes.propose(
            memory.workspace.records, memory.workspace.places("global", all=False), [cap]
        )
        made.append(passes.apply_proposals(memory.workspace.records, outcome.proposals, what="cap")[0])
        if number == 1:
            os.kill(children[0], signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    said = [
        line for who in range(writers) for line in (world.top / f"acknowledged-{who}").read_text().split("\n")
    ]
    wanted = {*facts, *filter(None, said)}
    for stage in ("swept", "undone"):
        records = memory.list().records
        texts = [(entry.part or each.key, entry.text) for each in records for entry in each.entries]
        assert wanted <= {text for _, text in texts}
        twice = {key for key, text in texts if texts.count((key, text)) > 1}
        assert len(twice) <= (stage == "swept")  # the writer may have been killed between two files
        for number, fact in enumerate(facts):
            assert fact in [entry.text for entry in memory.show(f"r{number:03}").entries]
        for swept in reversed([each for each in made if each]):
            assert all(each.done for each in memory.care.undo(swept)[1])
        made.clear()
    assert consolidated(memory) == []
    assert audit.verify(memory.home).problems == ()


def swept_at_once(world: World, most: int) -> str:
    """Consolidate all but the newest records now; returns the run."""
    memory = world.memory()
    places = memory.workspace.places("global", all=False)
    outcome = passes.propose(memory.workspace.records, places, [CountCap(max_count=most)])
    return passes.apply_proposals(memory.workspace.records, outcome.proposals, what="cap")[0]


def test_a_sweep_between_a_write_and_its_tidying_up_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(15):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 200 - number))
    swept_at_once(world, 10)
    release = Records.release

    def late(records: Records, holders: Iterable[Found], key: str) -> None:
        monkeypatch.setattr(Records, "release", release)
        swept_at_once(world, 0)  # it moves the record that was written just now
        records.release(holders, key)

    monkeypatch.setattr(Records, "release", late)
    world.memory().store("Said again.", key="r000", scope="global")
    texts = [entry.text for each in world.memory().list().records for entry in each.entries]
    assert texts.count("Said again.") == 1
    assert texts.count("Fact 0 of many.") == 1
    assert [entry.text for entry in world.memory().show("r000").entries][-1] == "Said again."


def test_a_text_for_a_part_that_another_writer_takes_out_meanwhile_joins_its_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(15):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 200 - number))
    swept_at_once(world, 10)
    labels = Records._labels

    def overtaken(records: Records, scope_folder: ScopeFolder, *, strict: bool = False) -> dict[str, Any]:
        read = dict(labels(records, scope_folder, strict=strict))
        if strict:
            monkeypatch.setattr(Records, "_labels", labels)
            world.memory().store("By the other writer.", key="r000", scope="global")
        return read

    monkeypatch.setattr(Records, "_labels", overtaken)
    world.memory().store("By this one.", key="r000", scope="global")
    assert Records._labels is labels
    said = {entry.text for entry in world.memory().show("r000").entries}
    assert said == {"Fact 0 of many.", "By the other writer.", "By this one."}
    assert all(entry.part for each in consolidated(world.memory()) for entry in each.entries)


def test_two_sweeps_of_the_same_records_leave_each_in_one_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(15):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 200 - number))
    do, begun = Run.do, list[bool]()

    def slow(run: Run, edit: Edit, *given: object, **more: bool) -> EditResult:
        if edit.after is None and not begun:
            begun.append(True)
            swept_at_once(world, 10)  # another session sweeps what this one is about to remove
        return do(run, edit, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "do", slow)
    swept_at_once(world, 10)
    texts = [entry.text for each in world.memory().list().records for entry in each.entries]
    assert sorted(texts) == sorted(f"Fact {number} of many." for number in range(15))


def test_an_undo_removes_a_consolidation_whose_entries_are_all_back(world: World) -> None:
    for number in range(15):
        world.write(f"r{number:03}.md", aged(f"Fact {number} of many.", 200 - number))
    world.memory().store("Said in the second of the sweep.", key="r000", scope="global")
    run = swept_at_once(world, 0)
    world.memory().store("More.", key="r001", scope="global")  # the consolidation is changed by that
    assert all(each.done for each in world.memory().care.undo(run)[1])
    assert consolidated(world.memory()) == []
    texts = [entry.text for each in world.memory().list().records for entry in each.entries]
    assert len(texts) == len(set(texts)) == 17


@pytest.mark.full
def test_writers_of_keys_that_are_being_consolidated_lose_nothing_and_undo_leaves_nothing_twice(
    world: World,
) -> None:
    raced(world, writers=3, times=15, sweeps=4)


@pytest.mark.soak
def test_writers_and_sweeps_at_length(tmp_path: Path) -> None:
    for number in range(20):
        raced(World(tmp_path / str(number)), writers=4, times=100, sweeps=12)
