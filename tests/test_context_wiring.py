"""The context window through Memory: where a flush writes, what is learned, and who may not write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.context.silent_turns import JOURNAL_TOOL, RECORD_TOOL
from vademecum.errors import NotFound, NotVisible, UsageError, WindowFull
from vademecum.memory import Memory, connect
from vademecum.tokens import DEFAULT_RATIO
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Ended, Flushed, MessageEvent, Trimmed, Used
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum.context.engine import ContextEngine
    from vademecum.transcripts.log import Log

WINDOW = 8_000
ZONE = timezone(timedelta(hours=2))
FACT = "The staging database moved to db7 on Tuesday."
TASK = "Find out why the nightly import of invoices takes four hours."


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, *when: int) -> None:
        self.time = datetime(*when, tzinfo=ZONE)  # type: ignore[misc,arg-type]  # the zone comes by name

    def __call__(self) -> datetime:
        return self.time


class Model:
    """A model that flushes what it is told to, and remembers what it was asked."""

    def __init__(self, reply: Message | str = f"- {FACT}", then: Callable[[], None] | None = None) -> None:
        self.reply, self.then = reply, then
        self.asked: list[tuple[list[Message], str]] = []

    def __call__(
        self, messages: Sequence[Message], system: str, tools: Sequence[Any], seconds: float
    ) -> Message | str:
        self.asked.append((list(messages), system))
        if self.then is not None:
            self.then()
        return self.reply


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", **given)


def talk(rounds: int = 40) -> Iterator[Message]:
    """A session of so many tool calls, each with a long result."""
    yield Message(Role.SYSTEM, (Text("You are a careful engineer."),))
    yield Message(Role.USER, (Text(TASK),))
    for number in range(rounds):
        arguments = json.dumps({"path": f"src/import/{number}.py"})
        call = ToolCall(f"c{number}", "read_file", arguments)
        yield Message(Role.ASSISTANT, (Text(f"I read part {number}."), call))
        yield Message(Role.TOOL, (ToolResult(f"c{number}", (Text(f"line of {number}\n" * 60),)),))


def overflow(engine: ContextEngine, rounds: int = 40) -> list[Message]:
    """Hand over a session turn by turn; the window overflows at least once."""
    said: list[Message] = []
    for message in talk(rounds):
        said.append(message)
        if message.role is not Role.ASSISTANT:
            engine.prepare(said)
    assert engine.inspect().cycles >= 1
    return said


def outcomes(log: Log) -> list[str]:
    return [event.outcome for event in log.events() if isinstance(event, Flushed)]


def journal(base: Path, day: str) -> str:
    found = list((base / "home/memory/project").glob(f"*/journal/{day}.md"))
    return found[0].read_text() if found else ""


def files(home: Path) -> set[str]:
    return {str(each.relative_to(home)) for each in home.rglob("*") if each.is_file()}


# --- the flush ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [Origin.USER, Origin.AGENT])
def test_a_flush_lands_in_todays_journal_as_the_agents_word_whoever_opened_the_memory(
    tmp_path: Path, origin: Origin
) -> None:
    memory = opened(tmp_path, origin=origin, actor="human:ada", now=Clock(2026, 11, 15, 23, 30))
    log = memory.sessions.new(id="s")
    overflow(memory.sessions.context(log, window=WINDOW, complete=Model(), compaction=False))
    # 23:30 in a zone two hours ahead: the date is the wall clock's, not that of UTC.
    text = journal(tmp_path, "2026-11-15")
    assert text.count(FACT) == 1
    assert "<!-- origin: agent | id: " in text
    assert outcomes(log)[0] == "written"
    assert memory.audit.lines()[-1]["actor"] == "process:main"
    found = memory.search("where is the staging database?").results[0]
    assert FACT in found.snippet
    assert found.source == "journal"


def test_a_flush_that_is_answered_after_midnight_lands_in_the_new_day(tmp_path: Path) -> None:
    clock = Clock(2026, 11, 15, 23, 59)

    def strike() -> None:
        clock.time = datetime(2026, 11, 16, 0, 1, tzinfo=ZONE)

    memory = opened(tmp_path, now=clock)
    memory.note("Said on the fifteenth.")
    overflow(memory.sessions.context(window=WINDOW, complete=Model(then=strike), compaction=False))
    assert FACT not in journal(tmp_path, "2026-11-15")
    assert journal(tmp_path, "2026-11-16").count(FACT) == 1


def test_what_the_journal_already_says_is_not_written_again(tmp_path: Path) -> None:
    memory = opened(tmp_path, now=Clock(2026, 11, 15, 9))
    memory.note(f"* {FACT}")
    log = memory.sessions.new()
    overflow(memory.sessions.context(log, window=WINDOW, complete=Model(), compaction=False))
    assert set(outcomes(log)) == {"nothing"}
    assert journal(tmp_path, "2026-11-15").count(FACT) == 1


def test_a_fact_of_its_own_becomes_a_record_and_a_secret_in_it_does_not_reach_the_disk(
    tmp_path: Path,
) -> None:
    token = "ghp_" + "Zk3v9QmX7rT1bN5cL8wY2pD6sF4gH0jKa1Bc"
    calls = (
        ToolCall("1", RECORD_TOOL, json.dumps({"text": FACT})),
        ToolCall("2", JOURNAL_TOOL, json.dumps({"text": f"The deploy token is {token}."})),
    )
    memory = opened(tmp_path, origin=Origin.USER, now=Clock(2026, 11, 15, 9))
    engine = memory.sessions.context(
        window=WINDOW, complete=Model(Message(Role.ASSISTANT, calls)), compaction=False
    )
    overflow(engine)
    (record,) = memory.list().records
    assert record.text == FACT
    assert record.entries[0].origin is Origin.AGENT
    for path in (tmp_path / "home").rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path


def test_in_a_clone_that_nobody_trusts_a_fact_goes_to_the_journal(tmp_path: Path) -> None:
    (tmp_path / "work/.vade/records").mkdir(parents=True)
    call = ToolCall("1", RECORD_TOOL, json.dumps({"text": FACT}))
    memory = opened(tmp_path, now=Clock(2026, 11, 15, 9))
    log = memory.sessions.new()
    model = Model(Message(Role.ASSISTANT, (call,)))
    overflow(memory.sessions.context(log, window=WINDOW, complete=model, compaction=False))
    assert outcomes(log)[0] == "written"
    assert FACT in journal(tmp_path, "2026-11-15")
    assert not list((tmp_path / "work/.vade/records").iterdir())


def test_flushes_of_several_sessions_at_once_all_survive(tmp_path: Path) -> None:
    opened(tmp_path)
    facts = [f"Fact number {number} of several that are told at once." for number in range(6)]

    def work(number: int) -> None:
        memory = opened(tmp_path, now=Clock(2026, 11, 15, 9))
        log = memory.sessions.new(id=f"s{number}")
        overflow(
            memory.sessions.context(
                log, window=WINDOW, complete=Model(f"- {facts[number]}"), compaction=False
            )
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(facts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = journal(tmp_path, "2026-11-15")
    assert [text.count(fact) for fact in facts] == [1] * len(facts)


def test_the_prompts_of_a_flush_are_the_users_own_where_they_are_set(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.toml").write_text(
        '[flush]\nsystem_prompt = "Be brief."\nprompt = "What of {date} is {worth} keeping?"\n'
    )
    model = Model("NO_REPLY")
    memory = opened(tmp_path, now=Clock(2026, 11, 15, 9))
    overflow(memory.sessions.context(window=WINDOW, complete=model, compaction=False))
    messages, system = model.asked[0]
    assert system == "Be brief."
    assert messages[-1].text == "What of 2026-11-15 is {worth} keeping?"


def test_a_flush_that_is_switched_off_asks_nobody(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, environ={"VADE_FLUSH_ENABLED": "no"})
    log = memory.sessions.new()
    overflow(memory.sessions.context(log, window=WINDOW, complete=model, compaction=False))
    assert model.asked == []
    assert set(outcomes(log)) == {"skipped:disabled"}


# --- who may not write --------------------------------------------------------------------------------------


def test_an_incognito_session_is_kept_in_memory_and_writes_nothing_at_all(tmp_path: Path) -> None:
    memory = opened(tmp_path, incognito=True)
    log = memory.sessions.new(id="s")
    engine = memory.sessions.context(log, window=WINDOW, model="sonnet", complete=Model(), compaction=False)
    overflow(engine)
    engine.observe(Used(input=5000))
    memory.sessions.end("s")
    assert log.path == ""
    assert set(outcomes(log)) == {"skipped:incognito"}
    assert len([each for each in log.events() if isinstance(each, MessageEvent)]) == 82
    assert not (tmp_path / "home").exists()


def test_a_group_session_has_its_transcript_and_flushes_nothing(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, audience="group", session="g")
    overflow(memory.sessions.context(window=WINDOW, complete=model, compaction=False))
    log = memory.sessions.open("g")
    assert set(outcomes(log)) == {"skipped:group"}
    assert model.asked == []
    assert not list((tmp_path / "home").rglob("journal"))
    assert memory.sessions.end("g").note == "skipped:group"


@pytest.mark.skipif(not Path("/proc/mounts").exists(), reason="needs a Linux mount")
def test_a_read_only_memory_serves_a_session_and_keeps_none_of_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    memory = opened(tmp_path)
    memory.store("Here before.", key="before")
    kept = memory.sessions.new(id="kept")
    kept.append(MessageEvent(Message(Role.USER, (Text(TASK),))), sync=True)
    before = files(home)
    mount = ["mount", "--bind", "-o", "ro", str(home), str(home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        model = Model()
        engine = opened(tmp_path).sessions.context(window=WINDOW, complete=model, compaction=False)
        overflow(engine)
        assert engine.inspect().outcome == "skipped:read-only"
        assert model.asked == []
        resumed = opened(tmp_path).sessions.context("kept", window=WINDOW)
        assert [row.role for row in resumed.inspect().rows] == ["user"]
        resumed.prepare([Message(Role.USER, (Text(TASK),)), Message(Role.ASSISTANT, (Text("I look."),))])
        assert files(home) == before
    finally:
        subprocess.run(["umount", str(home)], check=True)


# --- what is learned ----------------------------------------------------------------------------------------

LEARN = """
import sys
from vademecum.memory import connect
from vademecum.transcripts.events import Used
from vademecum.transcripts import Message, Role, Text
with connect(home=sys.argv[1], cwd=sys.argv[2]) as memory:
    engine = memory.sessions.context(window=8000, model="sonnet")
    for _ in range(10):
        sent = engine.prepare([Message(Role.USER, (Text("word " * 400),))])
        engine.observe(Used(input=1000))
    print(engine.inspect().ratio)
"""


def test_the_ratio_of_a_model_is_known_in_the_next_process_and_lost_only_with_state_db(
    tmp_path: Path,
) -> None:
    opened(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LEARN, str(tmp_path / "home"), str(tmp_path / "work")],
        capture_output=True,
        text=True,
        check=True,
    )
    learned = float(done.stdout)
    assert learned < DEFAULT_RATIO - 0.5

    def ratio(model: str) -> float:
        with opened(tmp_path) as memory:
            return memory.sessions.context(window=WINDOW, model=model).inspect().ratio

    assert ratio("sonnet") == learned
    assert ratio("opus") == DEFAULT_RATIO
    before = files(tmp_path / "home/transcripts")
    for path in (tmp_path / "home").glob("state.db*"):
        path.unlink()
    assert ratio("sonnet") == DEFAULT_RATIO
    assert files(tmp_path / "home/transcripts") == before


# --- the window ---------------------------------------------------------------------------------------------


def test_a_session_is_taken_up_by_another_process_with_the_same_window(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.sessions.new(id="s")
    engine = memory.sessions.context("s", window=WINDOW)
    said = overflow(engine)
    sent = engine.prepare(said)
    other = opened(tmp_path)
    again = other.sessions.context("s", window=WINDOW).prepare(other.sessions.messages("s"))
    assert [each.parts for each in other.sessions.messages("s")] == [each.parts for each in said]
    assert [each.parts for each in again.messages] == [each.parts for each in sent.messages]
    assert again.trimmed == ()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_recent_commits_of_the_project_are_in_the_block(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    work = tmp_path / "work"
    made = ["git", "-C", str(work), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*made, "-c", "init.defaultBranch=main", "init", "-q"], check=True)
    subprocess.run([*made, "commit", "-q", "--allow-empty", "-m", "Import in batches"], check=True)
    (work / "notes.txt").write_text("text")
    engine = memory.sessions.context(window=16_000)
    overflow(engine, 80)
    block = engine.inspect().summary
    assert "Recent git activity: (branch main)" in block
    assert "Import in batches" in block
    assert "?? notes.txt" in block


def test_every_message_that_left_can_be_read_back_whole(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.sessions.new(id="s")
    engine = memory.sessions.context("s", window=WINDOW)
    said: list[Message] = []
    left: list[str] = []
    for message in talk():
        said.append(message)
        left += engine.prepare(said).trimmed
    assert left
    whole = [each.parts for each in said]
    for each in left:
        (line,) = memory.sessions.get("s", each)
        assert isinstance(line.event, MessageEvent)
        assert line.event.message.parts in whole


def test_a_window_too_small_for_its_system_prompt_says_so(tmp_path: Path) -> None:
    engine = opened(tmp_path).sessions.context(window=1000)
    with pytest.raises(WindowFull, match="system prompt"):
        engine.prepare([Message(Role.SYSTEM, (Text("word " * 4000),)), Message(Role.USER, (Text("Hi"),))])
    with pytest.raises(UsageError):
        opened(tmp_path).sessions.context(window=0)


# --- sessions -----------------------------------------------------------------------------------------------


def said_in(log: Log, *texts: str) -> None:
    for at, text in enumerate(texts):
        log.append(MessageEvent(Message(Role.ASSISTANT if at % 2 else Role.USER, (Text(text),))))


def test_a_session_goes_on_in_another_process_until_the_day_is_over(tmp_path: Path) -> None:
    clock = Clock(2026, 11, 15, 9)
    first = opened(tmp_path, now=clock).sessions.current()
    said_in(first, *(text for number in range(10) for text in (f"Question {number}?", f"Answer {number}.")))
    clock.time += timedelta(hours=10)
    assert opened(tmp_path, now=clock).sessions.current().session == first.session
    clock.time += timedelta(hours=10)
    memory = opened(tmp_path, now=clock)
    second = memory.sessions.current(slug=lambda text: "Nightly Import")
    assert second.session != first.session
    (note,) = (tmp_path / "home/memory/project").glob("*/journal/2026-11-16-nightly-import.md")
    text = note.read_text()
    assert "Answer 9." in text
    assert "Question 2?" not in text  # fifteen messages, not more
    assert "Answer 2." in text
    ended = [event for event in first.events() if isinstance(event, Ended)]
    assert [each.why for each in ended] == ["daily"]
    assert ended[0].note.endswith("/journal/2026-11-16-nightly-import.md")
    assert memory.search("Answer 9", sources=["journal"]).results


def test_an_idle_session_is_over_and_one_that_is_ended_by_hand_leaves_a_note_too(tmp_path: Path) -> None:
    clock = Clock(2026, 11, 15, 9)
    environ = {"VADE_SESSION_RESET": "idle:30m", "VADE_SESSION_NOTE_MESSAGES": "1"}

    def memory() -> Memory:
        return opened(tmp_path, now=clock, environ=environ)

    first = memory().sessions.current(model="sonnet")
    said_in(first, TASK, "It waits for a lock.")
    clock.time += timedelta(minutes=20)
    assert memory().sessions.current().session == first.session
    clock.time += timedelta(minutes=31)
    second = memory().sessions.current()
    assert second.session != first.session
    said_in(second, "Which lock is it that the import waits for?")
    ended = memory().sessions.end(second.session, why="new")
    text = (tmp_path / "home" / ended.note).read_text()
    assert "Which lock" in text
    names = {path.name for path in (tmp_path / "home/memory/project").glob("*/journal/*")}
    assert len(names) == 2
    assert memory().sessions.end(second.session) == ended
    assert [each.ended for each in memory().sessions.list()] == [True, True]


def test_a_session_that_is_not_there_cannot_be_taken_up(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for act in (
        lambda: memory.sessions.context("nowhere", window=WINDOW),
        lambda: memory.sessions.end("nowhere"),
        lambda: memory.sessions.trim("nowhere", window=WINDOW),
    ):
        with pytest.raises(NotFound):
            act()


def test_trimming_by_hand_only_adds_to_the_log_and_a_resumed_window_is_smaller(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    log = memory.sessions.new(id="s")
    said = list(talk())
    memory.sessions.context(log, window=200_000).prepare(said)
    path = tmp_path / "home" / log.path
    before = path.read_bytes()
    tokens, dry = memory.sessions.trim("s", window=WINDOW, dry=True)
    assert path.read_bytes() == before
    assert dry.trimmed
    again, made = memory.sessions.trim("s", window=WINDOW)
    assert (again, len(made.trimmed)) == (tokens, len(dry.trimmed))
    assert path.read_bytes().startswith(before)
    assert [event.why for event in log.events() if isinstance(event, Trimmed)] == ["compaction"]
    resumed = opened(tmp_path).sessions.context("s", window=200_000).prepare(said)
    assert resumed.tokens.total == made.tokens.total < tokens / 2
    assert TASK in resumed.messages[1].text


def test_a_trial_reads_files_for_a_person_only(tmp_path: Path) -> None:
    with pytest.raises(NotVisible):
        opened(tmp_path).sessions.trial(os.devnull, window=WINDOW)


# --- the window as it is learned ----------------------------------------------------------------------------

TOO_LONG = "prompt is too long: 30000 tokens > 6000 maximum"


def refused(memory: Memory, *, endpoint: str = "http://one", **given: Any) -> ContextEngine:
    """A window that the provider found too large."""
    engine = memory.sessions.context(
        memory.sessions.new(), window=32_000, model="m", endpoint=endpoint, compaction=False, **given
    )
    engine.prepare([Message(Role.USER, (Text(f"Case {at}: " + "word " * 400),)) for at in range(60)])
    engine.overflowed(TOO_LONG)
    assert engine.window == 6_000
    return engine


def known(memory: Memory, endpoint: str = "http://one", **given: Any) -> int:
    """How large the window of a new session is taken to be."""
    log = memory.sessions.new()
    return memory.sessions.context(log, window=32_000, model="m", endpoint=endpoint, **given).window


def test_a_learned_window_is_kept_for_its_model_and_endpoint_and_lost_with_the_file(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    refused(memory)
    memory.close()
    memory = opened(tmp_path)
    assert known(memory) == 6_000
    assert known(memory, "http://two") == 32_000
    assert b"http://one" not in b"".join(path.read_bytes() for path in (tmp_path / "home").glob("state.db*"))
    memory.close()
    for path in (tmp_path / "home").glob("state.db*"):
        path.unlink()
    assert known(opened(tmp_path)) == 32_000


def test_a_learned_window_is_tried_again_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    refused(memory)
    now = memory.workspace.now()
    monkeypatch.setattr(memory.workspace, "now", lambda: now + timedelta(days=6))
    assert known(memory) == 6_000
    monkeypatch.setattr(memory.workspace, "now", lambda: now + timedelta(days=8))
    assert known(memory) == 32_000
    monkeypatch.setattr(memory.workspace, "now", lambda: now)
    assert known(memory) == 32_000


def test_an_answer_to_a_longer_request_forgets_what_was_learned(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    refused(memory).observe(Used(input=7_000))
    assert known(memory) == 32_000


def test_a_learned_window_with_no_room_at_all_is_forgotten(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    engine = refused(memory)
    large = [Message(Role.SYSTEM, (Text("word " * 6_000),)), Message(Role.USER, (Text("Hi"),))]
    assert engine.prepare(large).messages[-1].text == "Hi"
    assert known(memory) == 32_000


def test_a_server_that_says_another_size_than_before_is_believed(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert known(memory, served=16_000) == 16_000
    refused(memory, served=16_000)
    assert known(memory, served=16_000) == 6_000
    assert known(memory, served=20_000) == 20_000
    assert known(memory) == 32_000
