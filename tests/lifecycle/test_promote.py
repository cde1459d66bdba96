"""What the journal repeats becomes curated memory, with its sources and no more trust than they had."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import NotVisible, UnknownName
from vademecum.interfaces.cli.app import run
from vademecum.lifecycle import journal_statements
from vademecum.text import frontmatter
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.stores import World

FACT = "The staging database is restored from the nightly dump before each release"
WISH = "I prefer tabs over spaces in all of my Python files"


def noted(world: World, *texts: str, scope: str = "project", origin: Origin = Origin.USER) -> None:
    """Each text on a day of its own."""
    for text in texts:
        world.memory(origin=origin).note(text, scope=scope)
        world.clock.forward(days=1)


def lines_of(world: World, source: str) -> str:
    path, _, lines = source.partition("#L")
    first, _, last = lines.partition("-L")
    return "\n".join((world.home / path).read_text().split("\n")[int(first) - 1 : int(last)])


def test_what_is_noted_on_two_days_becomes_a_record_with_its_sources(world: World) -> None:
    noted(
        world,
        f"{FACT}.",
        "Lunch was late today, sadly enough.",
        f"- {FACT.replace('from the nightly dump', 'from nightly dumps')}\n- x y z",
    )
    memory = world.memory()
    before = world.tree()
    found = memory.care.promote()
    assert [each.text for each in found.promotions] == [
        FACT.replace("from the nightly dump", "from nightly dumps")
    ]  # the newest wording
    assert world.tree() == before
    done = memory.care.promote(apply=True)
    record = memory.show(memory.list(scope="project").records[0].key)
    assert record.text == FACT.replace("from the nightly dump", "from nightly dumps")
    assert record.live[0].origin is Origin.USER
    assert record.num is not None
    sources = record.fields["sources"]
    assert [FACT[:20] in lines_of(world, each) for each in sources] == [True, True]
    assert memory.care.promote().promotions == ()
    memory.care.undo(done.outcome.run)
    after = {path: content for path, content in world.tree().items() if not path.endswith("index.md")}
    assert after == before


def test_twice_on_one_day_is_once(world: World) -> None:
    memory = world.memory()
    memory.note(FACT)
    memory.note(FACT)
    assert memory.care.promote().promotions == ()


def test_a_number_or_a_not_makes_it_another_statement(world: World) -> None:
    noted(world, "The worker pool has 8 threads at most", "The worker pool has 9 threads at most")
    noted(world, "Deploys on Fridays are fine with us", "Deploys on Fridays are not fine with us")
    assert world.memory().care.promote().promotions == ()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("User prefers short answers without bullet points", True),
        ("The deploy script needs AWS_PROFILE set first", True),
        ("Remember to run make lint before pushing", True),
        ("Alice owns the billing service here", True),
        ("Set TZ=UTC before running the tests", True),
        ("Is the staging database restored each night?", False),
        ("Everything is green and quiet today", False),
        ("Maybe the cache is to blame for it", False),
        ("Fixed the flaky login test once more", False),
        ("**nightly**: POSTFLIGHT: World model: context updated", False),
        ("Running the self-report assessment now...", False),
        ("Weekly audit completed. See the queue for the report.", False),
    ],
)
def test_what_is_said_again_must_last(text: str, kept: bool, world: World) -> None:
    noted(world, text, text)
    assert bool(world.memory().care.promote().promotions) is kept


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploys of the shop run on Fridays", "Deploys of the shop never run on Fridays"),
        ("The worker pool has 8 threads at most", "The worker pool has 9 threads at most"),
        ("I prefer tabs in my Python files", "I prefer spaces in my Python files"),
        ("The handbook of the team is written in German", "The handbook of the team is written in English"),
        ("Alice owns the billing service now", "Bob owns the billing service now"),
        ("Our headquarters are in Hamburg now", "The office is in Berlin now"),
        ("Logs are kept for 30 days", "We retain log files for 90 days"),
    ],
)
@pytest.mark.parametrize("scope", ["project", "global"])
def test_two_opposite_statements_are_told_and_neither_is_promoted(
    one: str, other: str, scope: str, world: World
) -> None:
    noted(world, one, one, other, other, FACT, FACT, scope=scope)
    found = world.memory().care.promote(scope=scope)
    assert [each.text for each in found.promotions] == [FACT]
    assert f"left out “{one}”: “{other}” says the opposite" in found.notes
    assert f"left out “{other}”: “{one}” says the opposite" in found.notes


def test_what_memory_md_denies_is_told_and_not_promoted(world: World) -> None:
    memory = world.memory()
    noted(world, "I prefer tabs in my Python files", "I prefer tabs in my Python files", scope="global")
    memory.care.promote(scope="global", apply=True)
    other = "I prefer spaces in my Python files"
    noted(world, other, other, scope="global")
    found = world.memory().care.promote(scope="global")
    assert found.promotions == ()
    assert any(other in note and "says the opposite" in note for note in found.notes)


def test_a_form_that_a_program_fills_in_is_no_statement(world: World) -> None:
    for seconds in (91, 92, 93, 94, 91):
        noted(world, f"The nightly build always takes {seconds} s on the build host")
    assert world.memory().care.promote().promotions == ()


def test_what_an_agent_notes_of_its_user_is_a_preference(world: World) -> None:
    text = "User prefers short answers without bullet points"
    noted(world, text, text, scope="global", origin=Origin.AGENT)
    (promotion,) = world.memory().care.promote().promotions
    assert promotion.path.endswith("MEMORY.md")


def test_a_sentence_out_of_a_longer_note_counts(world: World) -> None:
    noted(world, f"{FACT}.", f"A long day of meetings. {FACT}. Then home.")
    assert [each.text for each in world.memory().care.promote().promotions] == [f"{FACT}."]


@pytest.mark.parametrize("scope", ["global", "agent"])
def test_a_short_preference_goes_to_memory_md_of_its_scope(scope: str, world: World) -> None:
    world.memory().workspace.documents  # noqa: B018  # made before anything is pinned
    noted(world, WISH, WISH, scope=scope)
    memory = world.memory()
    done = memory.care.promote(apply=True)
    path = next((world.home / "memory" / scope).rglob("MEMORY.md"))
    text = path.read_text()
    assert f"- {WISH}\n<!-- origin: user -->" in text
    assert frontmatter.parse(text).values["sources"] == list(done.promotions[0].sources)
    assert memory.list().records == ()
    assert memory.care.promote().promotions == ()
    memory.care.undo()
    assert not path.exists()


def test_memory_md_keeps_what_is_there_byte_for_byte_and_comes_back_so(world: World) -> None:
    noted(world, WISH, WISH, scope="global")
    path = world.home / "memory" / "global" / "MEMORY.md"
    path.write_bytes(b"# Me\r\n\r\nBorn in May.\r\n\r\n## Work\r\nAt home.")
    before = path.read_bytes()
    memory = world.memory()
    memory.care.promote(apply=True)
    assert path.read_bytes().split(b"---\r\n")[-1].startswith(before + b"\r\n\r\n## From the journal")
    memory.care.undo()
    assert path.read_bytes() == before


def test_a_memory_md_that_cannot_be_read_is_left_alone(world: World) -> None:
    noted(world, WISH, WISH, scope="global")
    path = world.home / "memory" / "global" / "MEMORY.md"
    path.write_text("---\na: [1\n---\nx\n")
    found = world.memory().care.promote(apply=True)
    assert ["records/" in each.path for each in found.promotions] == [True]
    assert path.read_text() == "---\na: [1\n---\nx\n"


def test_a_full_memory_md_is_not_filled_further(world: World) -> None:
    noted(world, WISH, WISH, scope="global")
    (world.home / "memory" / "global" / "MEMORY.md").write_text("x" * 3990)
    found = world.memory().care.promote()
    assert [each.path.endswith(".md") and "records/" in each.path for each in found.promotions] == [True]


def test_a_preference_in_a_project_is_a_record_that_does_not_expire(world: World) -> None:
    noted(world, WISH, WISH)
    memory = world.memory()
    memory.care.promote(apply=True)
    assert memory.list().records[0].type == "feedback"


@pytest.mark.parametrize("low", [Origin.AGENT, Origin.TOOL, Origin.IMPORT])
def test_a_promoted_text_is_trusted_as_far_as_the_least_of_its_sources(low: Origin, world: World) -> None:
    noted(world, WISH, scope="global")
    noted(world, WISH, scope="global", origin=low)
    memory = world.memory()
    (promotion,) = memory.care.promote(apply=True).promotions
    assert promotion.origin is low
    if low is Origin.AGENT:
        assert "MEMORY.md" in promotion.path
    else:  # what a tool said is not put into every prompt
        assert memory.review.trust_of(memory.list().records[0]).injectable is False


def test_what_is_generated_is_no_source(world: World) -> None:
    for block in ("vade-memory", "thread_summary", "compacted_history"):
        text = f"Noted here.\n<{block}>\n{FACT} ({block.replace('_', ' ')})\n</{block}>"
        noted(world, text, text.replace("Noted", "Kept"))
    noted(world, f"```\n{FACT}\n```", f"> {FACT}", f"```\n{FACT}\n```")
    assert world.memory().care.promote().promotions == ()


def session(world: World, *messages: tuple[Role, str]) -> str:
    memory = world.memory(origin=Origin.AGENT)
    log = memory.sessions.new()
    for role, text in messages:
        log.append(MessageEvent(Message(role, (Text(text),))))
    memory.sessions.end(log.session)
    world.clock.forward(hours=1)
    return log.session


def test_in_notes_of_sessions_the_user_is_heard_and_the_assistant_is_not(world: World) -> None:
    for answer in (
        "Understood, I keep that in mind for later.",
        "Understood, I keep that in mind for later.",
    ):
        session(world, (Role.USER, f"{FACT}."), (Role.ASSISTANT, answer))
    found = world.memory().care.promote()
    assert [each.text for each in found.promotions] == [f"{FACT}."]
    assert found.promotions[0].origin is Origin.TOOL
    assert found.promotions[0].why == "said in 2 sessions"


def test_what_memory_says_already_or_a_person_forgot_is_not_proposed(world: World) -> None:
    noted(world, FACT, FACT)
    memory = world.memory()
    memory.store(f"A few words before. {FACT}.", key="known", scope="global")
    assert memory.care.promote().promotions == ()
    memory.forget("known")
    assert memory.care.promote().promotions == ()


def test_a_run_that_was_taken_back_is_proposed_again(world: World) -> None:
    noted(world, FACT, FACT)
    memory = world.memory()
    memory.care.promote(apply=True)
    memory.care.undo()
    assert len(memory.care.promote().promotions) == 1


def test_a_secret_is_not_promoted(world: World) -> None:
    world.settings["VADE_SECRETS_POLICY"] = "warn"
    text = "The key of the bucket is AKIAZ5GMXQ3TTP7WYKDN for now"
    noted(world, text, text)
    assert world.memory().care.promote().promotions == ()


def recall_in(world: World, name: str, passage: dict[str, Any], *, tool: str = "memory_search") -> None:
    memory = world.memory(origin=Origin.AGENT)
    log = memory.sessions.new(id=name)
    log.append(MessageEvent(Message(Role.USER, (Text("what do we know?"),))))
    log.append(MessageEvent(Message(Role.ASSISTANT, (ToolCall("c1", tool, "{}"),))))
    result = Text(json.dumps({"results": [passage]}))
    log.append(MessageEvent(Message(Role.TOOL, (ToolResult("c1", (result,)),))))


def test_a_note_that_several_sessions_recalled_is_promoted(world: World) -> None:
    noted(world, FACT, "Lunch was late today, sadly enough.")
    memory = world.memory()
    hit = memory.search(FACT, sources=("journal",)).results[0]
    passage = {"path": hit.path, "startLine": hit.start, "endLine": hit.end, "snippet": hit.snippet}
    assert "recalls are unknown" in memory.care.promote().notes[0]
    recall_in(world, "one", passage)
    assert memory.care.promote().promotions == ()
    recall_in(world, "two", passage, tool="mcp__vade__memory_recall")
    found = world.memory().care.promote()
    assert [(each.text, each.why) for each in found.promotions] == [(FACT, "recalled in 2 sessions")]
    assert found.notes == ()


def test_another_tool_with_the_same_words_counts_for_nothing(world: World) -> None:
    noted(world, FACT)
    hit = world.memory().search(FACT, sources=("journal",)).results[0]
    for name in ("one", "two"):
        recall_in(world, name, {"path": hit.path, "startLine": hit.start, "endLine": hit.end}, tool="grep")
    assert world.memory().care.promote().promotions == ()


def test_a_journal_edited_by_hand_is_read_with_its_lines(world: World) -> None:
    folder = world.home / "memory" / "global" / "journal"
    folder.mkdir(parents=True)
    (folder / "2026-11-01.md").write_bytes(f"no heading\r\n\r\n\r\n* {FACT}\r\n".encode())
    (folder / "2026-11-02.md").write_text(f"## 2026-11-02\n\n\n\nFirst words here.\n\n{FACT}\n")
    (folder / "2026-11-03.md").write_bytes(b"\xff\xfe\x00broken\x00")
    found = world.memory().care.promote()
    assert [FACT in lines_of(world, each) for each in found.promotions[0].sources] == [True, True]
    assert found.promotions[0].sources[0].endswith("2026-11-02.md#L7-L7")


def test_places_without_a_journal_and_groups_are_refused(world: World) -> None:
    with pytest.raises(UnknownName):
        world.memory().care.promote(scope="federated")
    with pytest.raises(NotVisible):
        world.memory(audience="group", session="s").care.promote()


def test_a_store_edited_in_between_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(world, WISH, WISH, scope="global")
    memory = world.memory()
    path = world.home / "memory" / "global" / "MEMORY.md"
    path.write_text("# Me\n")
    from vademecum.lifecycle import passes

    real = passes.apply_proposals

    def late(*given: Any, **named: Any) -> Any:
        path.write_text("# Me, edited\n")
        return real(*given, **named)

    monkeypatch.setattr(passes, "apply_proposals", late)
    found = memory.care.promote(apply=True)
    assert [each.why for each in found.outcome.skipped] == ["changed meanwhile"]
    assert path.read_text() == "# Me, edited\n"


@pytest.mark.parametrize("seed", range(12))
def test_a_second_run_proposes_nothing_and_undo_is_exact(seed: int, world: World) -> None:
    dice = random.Random(seed)
    words = "retry queue worker deploy lint cache host never always prefer use the of on error: - ## `x` 7 8"
    pool = [" ".join(dice.choices(words.split(), k=dice.randint(4, 12))) for _ in range(8)]
    for _ in range(10):
        text = dice.choice(["\n", "\n\n", ". ", "\n- "]).join(dice.choices(pool, k=dice.randint(1, 4)))
        origin = dice.choice([Origin.USER, Origin.AGENT, Origin.TOOL])
        noted(world, text, scope=dice.choice(["project", "global"]), origin=origin)
    memory = world.memory()
    before = world.tree()
    done = memory.care.promote(apply=True)
    assert memory.care.promote().promotions == ()
    if done.outcome.run:
        memory.care.undo(done.outcome.run)
    assert world.tree() == before


def test_a_block_has_its_own_lines() -> None:
    text = (
        "# d\n\n## 2026-11-01T10:00:00Z\n\none two three four\nfive\n- six seven eight nine ten\n\n"
        "<!-- origin: agent -->\n"
    )
    found = [*journal_statements.split_day(text, place=Place(Scope.GLOBAL), path="p", day="2026-11-01")]
    assert [(each.text, each.start, each.end) for each in found] == [
        ("one two three four five", 5, 6),
        ("six seven eight nine ten", 7, 7),
    ]
    assert {each.origin for each in found} == {Origin.AGENT}


def test_the_command_tells_then_does(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    noted(world, FACT, FACT)
    monkeypatch.chdir(world.top / "project")
    monkeypatch.setenv("VADE_HOME", str(world.home))
    assert run(["tidy", "--only", "promote"]) == 0
    said_ = capsys.readouterr().out
    assert FACT in said_
    assert "#L" in said_
    assert "nothing was changed; `vade tidy --only promote --apply` makes the changes" in said_
    assert run(["tidy", "--only", "promote", "--apply", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["promote"]
    assert told["applied"] is True
    assert len(told["promotions"][0]["sources"]) == 2
    assert run(["tidy", "--only", "promote"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_in_a_repository_that_shares_its_memory_it_goes_where_a_store_goes(world: World) -> None:
    memory = world.memory()
    memory.projects.init()
    noted(world, FACT, FACT)
    (promotion,) = memory.care.promote(apply=True).promotions
    assert promotion.path.startswith(".vade/records/")
    record = memory.list().records[0]
    assert record.live[0].origin is Origin.USER  # not a stranger's edit
    assert memory.care.promote().promotions == ()
    memory.care.undo()
    assert memory.list().records == ()
    memory.projects.trust(on=False)
    (promotion,) = memory.care.promote(apply=True).promotions
    assert promotion.path.startswith("memory/project/")
