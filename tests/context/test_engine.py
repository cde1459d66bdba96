"""The engine over whole sessions: what is sent, what the log holds, and that one gives the other."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from context.replaying import replay
from vademecum.context.engine import ContextEngine
from vademecum.context.units import build_units, estimate_request
from vademecum.context.window import Prepared, WindowSettings
from vademecum.errors import WindowFull
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Checkpoint, Flushed, MessageEvent, Summary, Trimmed, Used
from vademecum.transcripts.log import Log, MemoryLog
from vademecum.transcripts.sessions import session_get

from .conversations import orphans
from .hosting import cycles
from .hosts import FACT, Asked, ScriptedHost, is_flush, obedient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TASK = "Please rewrite the tokenizer so that it reads tables from a stream instead of a list."
SYSTEM = Message(Role.SYSTEM, (Text("You are a careful engineer."),), id="system")
NO_MODEL = WindowSettings(compaction=False)


def new_log() -> Log:
    return Log("s", MemoryLog())


def user(text: str, name: str = "") -> Message:
    return Message(Role.USER, (Text(text),), id=name)


def long_talk(count: int, *, chars: int = 600) -> list[Message]:
    found = [SYSTEM, user(TASK, "first")]
    for at in range(count):
        role = Role.USER if at % 2 else Role.ASSISTANT
        found.append(
            Message(role, (Text(f"Please look at case {at}: " + "word " * (chars // 5)),), id=f"t{at}")
        )
    return found


def tool_use(name: str, chars: int) -> list[Message]:
    call = Message(Role.ASSISTANT, (ToolCall(name, "bash", "{}"),), id=f"{name}-call")
    return [call, Message(Role.TOOL, (ToolResult(name, (Text("x" * chars),)),), id=f"{name}-result")]


def check(engine: ContextEngine, log: Log, sent: Prepared, thread: Sequence[Message]) -> None:
    assert not orphans(sent.messages)
    assert sent.tokens.total <= sent.tokens.limit
    assert estimate_request(sent.messages, [], engine.estimator.ratio("")) == sent.tokens.total
    assert replay(log.events()) == sent.messages
    held = [event.message.parts for event in log.events() if isinstance(event, MessageEvent)]
    assert [message.parts for message in thread] == held


@pytest.mark.full
@pytest.mark.parametrize("reply", [None, obedient])
def test_after_fifty_cycles_both_tasks_are_still_there(reply: Callable[[Asked], str] | None) -> None:
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(reply), 4_000)
    talk = [SYSTEM, user(TASK)]
    sizes = []
    for at in range(400):
        talk += [
            user(f"Please inspect module number {at} for leaks now"),
            Message(Role.ASSISTANT, (Text("word " * 200),)),
        ]
        sent = engine.prepare(talk)
        engine.observe(Used(input=sent.tokens.total))
        if sent.tokens.summary:
            block = sent.messages[1].text
            assert f"task: {TASK}" in block
            assert "Current task: Please inspect module number" in block
            sizes.append(len(block))
    assert len(cycles(log)) > 50
    assert max(sizes) < 4_000
    points = [event for event in log.events() if isinstance(event, Checkpoint)]
    assert points[-1].iteration == len(cycles(log)) - 1
    assert points[-1].task.startswith("Please inspect module number")


def test_the_prefix_stays_the_same_while_nothing_is_dropped() -> None:
    engine = ContextEngine(new_log(), ScriptedHost(), 16_000)
    talk = long_talk(120)
    before: tuple[Message, ...] = ()
    for at in range(2, len(talk)):
        sent = engine.prepare(talk[:at])
        engine.observe(Used(input=sent.tokens.total))
        if not (sent.pruned or sent.trimmed or sent.cut):
            assert sent.messages[: len(before)] == before
        before = sent.messages


def test_the_proactive_path_flushes_once_and_then_trims() -> None:
    host, log = ScriptedHost(lambda _: FACT), new_log()
    engine = ContextEngine(log, host, 8_000, NO_MODEL)
    outcomes = [engine.prepare(long_talk(40)[:at]).flushed for at in range(2, 40)]
    assert "written" in outcomes
    assert host.journal() == f"{FACT}\n"
    kinds = [
        type(event) for event in log.events() if isinstance(event, Flushed | Summary | Checkpoint | Trimmed)
    ]
    assert kinds[:4] == [Flushed, Summary, Checkpoint, Trimmed]


def test_the_reactive_path_goes_down_the_ladder_and_ends_with_an_error() -> None:
    host, log = ScriptedHost(lambda _: FACT), new_log()
    engine = ContextEngine(log, host, 32_000)
    totals = [engine.prepare(long_talk(60)).tokens.total]
    for _ in range(3):
        sent = engine.overflowed(RuntimeError("prompt is too long"))
        check(engine, log, sent, long_talk(60))
        totals.append(sent.tokens.total)
    assert totals == sorted(totals, reverse=True)
    assert totals[1] <= totals[0] * 0.55
    assert totals[3] <= 0.12 * 32_000
    with pytest.raises(WindowFull, match="prompt is too long"):
        engine.overflowed(RuntimeError("prompt is too long"))
    assert [len(each) for each in cycles(log)] == [1, 1, 1, 0]
    assert sum(map(is_flush, host.asked)) == 1
    engine.observe(Used(input=1_000))
    assert engine.overflowed("again").messages  # once it was answered, the ladder begins anew


@pytest.mark.parametrize("again", [False, True])
def test_what_a_narrow_block_left_out_is_in_the_next_one_that_has_room(again: bool) -> None:
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(), 16_000, NO_MODEL)
    talk = [*long_talk(60), Message(Role.ASSISTANT, (Text("Decision: keep both readers until spring."),))]
    talk += [user("Please look at the release notes of the parser"), *long_talk(3, chars=100)[2:]]
    engine.prepare(talk)
    for _ in range(3):
        narrow = engine.overflowed("prompt is too long").messages[1].text
        assert f"task: {TASK}" in narrow
    if again:
        engine = ContextEngine(log, ScriptedHost(), 16_000, NO_MODEL)
    engine.observe(Used(input=2_000))
    if not again:
        assert engine.window < 8_000  # it was refused that much
        engine.observe(Used(input=9_000))  # and takes more by now
        engine.observe(Used(input=2_000))
    assert engine.window == 16_000
    for at in range(80):
        talk.append(user(f"Please inspect module number {at}: " + "word " * 100))
        sent = engine.prepare(talk)
    assert f"task: {TASK}" in sent.messages[1].text
    assert "keep both readers until spring" in sent.messages[1].text
    assert "keep both readers until spring" not in narrow


def test_the_manual_path_flushes_and_summarizes_with_the_focus() -> None:
    host, log = ScriptedHost(obedient), new_log()
    engine = ContextEngine(log, host, 32_000)
    before = engine.prepare(long_talk(100)).tokens.total
    sent = engine.compact("the tokenizer")
    assert (sent.compacted, sent.flushed) == ("model", "written")
    assert sent.tokens.total < before
    assert "## Pending user asks" in sent.messages[1].text
    assert TASK in sent.messages[1].text
    assert "the tokenizer" in host.asked[-1].messages[0].text
    check(engine, log, sent, long_talk(100))
    assert engine.prepare(long_talk(100)).messages == sent.messages


def test_a_failed_compaction_falls_back_to_the_extraction_and_after_three_is_not_tried() -> None:
    host, log = ScriptedHost(lambda asked: "NO_REPLY" if is_flush(asked) else "nonsense"), new_log()
    engine = ContextEngine(log, host, 8_000)
    talk = long_talk(200)
    whys = [engine.prepare(talk[:at]).why for at in range(2, len(talk), 2)]
    assert sum("compaction failed" in why for why in whys) == 3
    assert any("compaction skipped: 3 failures in a row" in why for why in whys)
    summaries = [event for event in log.events() if isinstance(event, Summary)]
    assert summaries[0].extra["compaction"].startswith("failed:the heading")
    assert f"task: {TASK}" in summaries[-1].text
    assert engine.prepare(talk).messages == replay(log.events())


def test_a_session_taken_up_again_goes_on_exactly_where_it_was() -> None:
    host, log = ScriptedHost(obedient), new_log()
    talk = long_talk(80)
    sent = ContextEngine(log, host, 8_000).prepare(talk)
    lines = sum(1 for _ in log.events())
    again = ContextEngine(log, host, 8_000)
    assert again.prepare(talk).messages == sent.messages
    assert sum(1 for _ in log.events()) == lines
    nameless = [message._replace(id="", time="") for message in talk]
    assert again.prepare(nameless).messages == sent.messages


@pytest.mark.parametrize(("minutes", "pruned"), [(1, False), (10, True)])
def test_a_session_taken_up_again_is_pruned_only_when_the_cache_is_cold(minutes: int, pruned: bool) -> None:
    host = ScriptedHost()
    log = Log("s", MemoryLog(), now=host.now)
    talk = [SYSTEM, user(TASK), *tool_use("a", 9_000), *(m for at in range(4) for m in tool_use(f"b{at}", 9))]
    engine = ContextEngine(log, host, 32_000)
    engine.prepare(talk[:2])
    engine.observe(Used(input=200))
    sent = engine.prepare(talk)
    engine.observe(Used(input=4_000))
    host.time += timedelta(minutes=minutes)
    again = ContextEngine(log, host, 32_000).prepare(talk)
    assert bool(again.pruned) == pruned
    assert (again.messages == sent.messages) == (not pruned)


class Killed(BaseException):
    """The process is gone."""


class DyingLog(MemoryLog):
    """A log whose writer is killed at one of its writes."""

    left = 10**9

    def write(self, line: bytes, *, sync: bool) -> int:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return super().write(line, sync=sync)


@pytest.mark.full
@pytest.mark.parametrize("reply", [None, obedient])
def test_killed_at_any_write_the_next_process_has_lost_nothing(reply: Callable[[Asked], str] | None) -> None:
    talk = long_talk(60)
    step = 0
    while True:
        storage, host = DyingLog(), ScriptedHost(reply)
        engine = ContextEngine(Log("s", storage), host, 8_000)
        engine.prepare(talk[:12])
        storage.left = step
        try:
            engine.prepare(talk)
            finished = True
        except Killed:
            finished = False
        storage.left = 10**9
        log = Log("s", storage)
        engine = ContextEngine(log, host, 8_000)
        assert not orphans(replay(log.events()))
        sent = engine.prepare(talk)
        check(engine, log, sent, talk)
        assert f"task: {TASK}" in sent.messages[1].text
        assert host.journal().count("db7") <= 1
        assert all(len(each) == 1 for each in cycles(log)[:-1])
        if finished:
            break
        step += 1
    assert step > 50


def test_an_oversize_result_is_cut_and_can_be_read_back_whole() -> None:
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(), 8_000)
    call = Message(Role.ASSISTANT, (ToolCall("c", "bash", "{}"),), id="call")
    result = Message(Role.TOOL, (ToolResult("c", (Text("x y " * 500_000),)),), id="result")
    talk = [SYSTEM, user(TASK), call, result]
    sent = engine.prepare(talk)
    check(engine, log, sent, talk)
    assert "result" in sent.cut
    assert "left out; whole in the transcript" in sent.messages[-1].results[0].text
    (line,) = session_get(log, "result")
    assert isinstance(line.event, MessageEvent)
    assert line.event.message.results == result.results


def test_a_changed_system_prompt_takes_the_place_of_the_old_one() -> None:
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(), 16_000)
    talk = long_talk(6)
    engine.prepare(talk)
    fresh = [Message(Role.SYSTEM, (Text("It is noon."),)), *talk[1:]]
    sent = engine.prepare(fresh)
    assert sent.messages[0].text == "It is noon."
    assert sent.messages[1:] == tuple(talk[1:])
    assert replay(log.events()) == sent.messages


def test_what_the_host_takes_back_leaves_the_window_and_stays_in_the_log() -> None:
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(), 16_000)
    talk = long_talk(6)
    engine.prepare(talk)
    other = [*talk[:-2], user("Rather do something else with the parser")]
    sent = engine.prepare(other)
    assert [message.text for message in sent.messages] == [message.text for message in other]
    assert replay(log.events()) == sent.messages
    assert {message.text for message in talk} <= {
        event.message.text for event in log.events() if isinstance(event, MessageEvent)
    }
    lines = sum(1 for _ in log.events())
    assert ContextEngine(log, ScriptedHost(), 16_000).prepare(other).messages == sent.messages
    assert sum(1 for _ in log.events()) == lines


def test_what_has_vanished_from_the_log_is_written_again_before_it_leaves() -> None:
    storage = MemoryLog()
    log = Log("s", storage)
    engine = ContextEngine(log, ScriptedHost(), 8_000)
    engine.prepare(long_talk(10))
    storage._content.clear()
    talk = long_talk(60)
    sent = engine.prepare(talk)
    held = {event.message.id for event in log.events() if isinstance(event, MessageEvent)}
    assert set(sent.trimmed) <= held


def test_secrets_are_sent_and_not_kept() -> None:
    log = new_log()
    secret = "ghp_" + "a1B2" * 9
    talk = [SYSTEM, user(f"Use the token {secret} for the release of the parser")]
    sent = ContextEngine(log, ScriptedHost(), 8_000).prepare(talk)
    assert secret in sent.messages[1].text
    assert secret not in str(list(log.events()))
    lines = sum(1 for _ in log.events())
    ContextEngine(log, ScriptedHost(), 8_000).prepare(talk)
    assert sum(1 for _ in log.events()) == lines


def test_what_is_told_of_messages_that_left_holds_no_secret_either() -> None:
    log = new_log()
    secret = "ghp_" + "a1B2" * 9
    talk = [SYSTEM, user(f"Use the token {secret} for the release of the parser"), *long_talk(60)[2:]]
    sent = ContextEngine(log, ScriptedHost(lambda _: "nonsense"), 8_000).prepare(talk)
    assert sent.trimmed
    assert "for the release of the parser" in sent.messages[1].text
    assert secret not in sent.messages[1].text
    assert replay(log.events()) == sent.messages


def test_a_prompt_that_can_never_fit_is_an_error_and_drops_nothing() -> None:
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(), 4_000)
    talk = [Message(Role.SYSTEM, (Text("rule " * 20_000),)), *long_talk(5)[1:]]
    with pytest.raises(WindowFull, match="system prompt"):
        engine.prepare(talk)
    assert not [event for event in log.events() if isinstance(event, Trimmed)]


def test_todo_state_survives_in_the_block_and_the_checkpoint() -> None:
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(), 8_000)
    engine.todo({"operation": "write", "items": ["read the stream", "write the tests"]})
    engine.todo({"operation": "done", "id": 1})
    sent = engine.prepare(long_talk(60))
    assert "[x] 1. read the stream\n[ ] 2. write the tests" in sent.messages[1].text
    point = next(event for event in log.events() if isinstance(event, Checkpoint))
    assert [item["title"] for item in point.todo] == ["read the stream", "write the tests"]


def test_inspection_adds_up() -> None:
    engine = ContextEngine(new_log(), ScriptedHost(), 8_000)
    tools = [{"name": "bash", "parameters": {"type": "object"}}]
    sent = engine.prepare(long_talk(60), tools)
    found = engine.inspect()
    assert found.tokens == sent.tokens
    assert found.tokens.schemas > 0
    assert sum(found.tokens[:4]) == found.tokens.total
    assert len(found.rows) == len(sent.messages) - 1
    assert found.cycles == 1


@pytest.mark.full(but=3)
@pytest.mark.parametrize("name", ["complete", "barred", "now", "journal", "note", "git", "remember"])
@pytest.mark.parametrize("how", ["raise", "nonsense"])
def test_no_callback_can_stop_the_engine(name: str, how: str) -> None:
    class Broken(ScriptedHost):
        def __getattribute__(self, asked: str) -> Any:
            if asked != name:
                return super().__getattribute__(asked)
            if how == "raise":
                raise OSError("gone")
            return lambda *_: object()

    log = new_log()
    host = Broken()
    host.reply = obedient
    engine = ContextEngine(log, host, 8_000)
    talk = long_talk(60)
    sent = engine.prepare(talk)
    check(engine, log, sent, talk)
    assert sent.trimmed
    assert [len(each) for each in cycles(log)] == [1, 0]


def test_a_model_that_hangs_costs_its_time_and_nothing_else() -> None:
    done = threading.Event()
    settings = WindowSettings(flush_seconds=0.05, compaction_seconds=0.05)
    log = new_log()
    engine = ContextEngine(log, ScriptedHost(lambda _: str(done.wait(20))), 8_000, settings)
    sent = engine.prepare(long_talk(60))
    done.set()
    check(engine, log, sent, long_talk(60))
    assert sent.flushed == "failed:no answer in 0.05 s"
    assert sent.compacted == "extraction"


def test_the_ratio_is_learned_from_what_the_provider_counts() -> None:
    engine = ContextEngine(new_log(), ScriptedHost(), 100_000, model="m")
    talk = long_talk(40)
    for _ in range(20):
        sent = engine.prepare(talk)
        engine.observe(Used(input=8_000))
    assert abs(engine.prepare(talk).tokens.total - 8_000) < 300
    assert build_units(sent.messages).messages == sent.messages
