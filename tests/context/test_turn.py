"""One turn, whole: whatever happens in its block or is forgotten there, the log holds what was said."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cases import every_case
from vademecum import Memory
from vademecum.context.engine import ContextEngine
from vademecum.context.window import Inspection, Prepared, WindowRow, WindowSettings
from vademecum.errors import InvalidText, UsageError, WindowFull
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Flushed, MessageEvent, Trimmed, Used
from vademecum.transcripts.log import Log, MemoryLog

from .hosts import ScriptedHost, is_flush, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from .hosts import Asked

PAGE = Path(__file__).parents[2] / "docs" / "context.md"
SYSTEM = Message(Role.SYSTEM, (Text("You are a careful engineer."),))
TOO_LONG = "prompt is too long: 9000 tokens > 8192 maximum"


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def new_engine(
    window: int = 4_000,
    reply: Callable[[Asked], str] | None = None,
    settings: WindowSettings | None = None,
) -> tuple[ContextEngine, Log]:
    log = Log("s", MemoryLog())
    return ContextEngine(log, ScriptedHost(reply), window, settings), log


def words(messages: list[Message] | tuple[Message, ...]) -> list[tuple[str, object]]:
    return [(str(each.role), each.parts) for each in messages]


def logged(log: Log) -> list[tuple[str, object]]:
    """What a host that goes on with the session is given."""
    return words([event.message for event in log.thread()])


def answering(text: str) -> Callable[[object], Message]:
    return lambda _: said(text)


# ------------------------------------------------------------ the page


def test_the_loop_of_the_page_leaves_a_log_that_holds_all_that_was_said(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[0]
    code += "\nimport json; rows = [[m.role, m.text, len(m.calls)] for m in thread]"
    code += "\nprint(json.dumps([[session.session], *rows]))"
    environment = {**os.environ, "VADE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    (name,), *told = json.loads(done.stdout)
    memory = Memory.open(tmp_path / "home", project=tmp_path)
    kept = [[str(m.role), m.text, len(m.calls)] for m in memory.sessions.messages(name)]
    assert kept == told
    assert [row[0] for row in kept] == ["system", *["user", "assistant", "tool", "assistant"] * 60]
    events = [*memory.sessions.open(name).events()]
    assert any(isinstance(each, Trimmed) and each.why == "half" for each in events)  # it was refused
    note = "".join(path.read_text() for path in (tmp_path / "home").rglob("journal/**/*.md"))
    assert str(kept[-1][1]) in note


@every_case("field", [*Inspection._fields, *Prepared._fields, *WindowRow._fields])
def test_every_field_that_a_host_is_given_is_on_the_page(field: str) -> None:
    assert f"`{field}`" in PAGE.read_text()


# ------------------------------------------------------------ what is said is kept


def test_an_answer_is_in_the_log_and_in_the_thread_before_the_host_sees_it() -> None:
    engine, log = new_engine()
    thread = [SYSTEM, user("What is slow?")]
    with engine.turn(thread) as turn:
        answer = turn.send(lambda messages: (f"The parser, of {len(messages)} things.", Used(input=40)))
        assert answer.text == "The parser, of 2 things."
        assert thread[-1] is answer
        assert logged(log) == words(thread)
    assert [event.input for event in log.events() if isinstance(event, Used)] == [40]
    assert logged(log) == words(thread)


def test_a_process_that_is_killed_after_an_answer_has_kept_it(tmp_path: Path) -> None:
    code = """
import os
from vademecum import Memory, Message, Role, Text
memory = Memory.open(project=os.getcwd())
log = memory.sessions.new(id="killed")
with memory.sessions.context(log, window=4000).turn([Message(Role.USER, (Text("Why?"),))]) as turn:
    turn.send(lambda messages: "Because.")
    os._exit(9)
"""
    environment = {**os.environ, "VADE_HOME": str(tmp_path / "home")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 9
    memory = Memory.open(tmp_path / "home", project=tmp_path)
    assert [each.text for each in memory.sessions.messages("killed")] == ["Why?", "Because."]


def test_calls_and_results_of_tools_are_kept_in_order() -> None:
    engine, log = new_engine()
    thread = [SYSTEM, user("Read a.txt")]
    with engine.turn(thread) as turn:
        asks = turn.send(lambda _: [Message(Role.ASSISTANT, (ToolCall("c1", "read_file", "{}"),))])
        turn.add(Message(Role.TOOL, tuple(ToolResult(each.id, (Text("abc"),)) for each in asks.calls)))
        assert logged(log) == words(thread)
        seen: list[Message] = []
        turn.send(lambda messages: seen.extend(messages) or "It says abc.")  # type: ignore[func-returns-value]
    assert words(seen) == words(thread[:-1])
    assert [each.text for each in turn.answers] == ["", "It says abc."]
    assert logged(log) == words(thread)


def test_what_the_host_puts_into_its_list_inside_the_block_is_kept_when_it_is_left() -> None:
    engine, log = new_engine()
    thread = [user("Read a.txt")]
    with engine.turn(thread) as turn:
        turn.send(lambda _: Message(Role.ASSISTANT, (ToolCall("c1", "read_file", "{}"),)))
        thread.append(Message(Role.TOOL, (ToolResult("c1", (Text("abc"),)),)))
    assert logged(log) == words(thread)
    assert len(thread) == 3


# ------------------------------------------------------------ what goes wrong


def test_a_refused_request_is_made_smaller_until_the_provider_takes_it() -> None:
    engine, log = new_engine(window=20_000)
    thread = [SYSTEM]
    for at in range(30):
        thread += [user(f"Case {at}: " + "word " * 200), said(f"Answer {at}")]
    thread.append(user("And now?"))
    sizes: list[int] = []

    def call(messages: tuple[Message, ...]) -> str:
        sizes.append(sum(len(each.text) for each in messages))
        if sizes[-1] > 9_000:
            raise RuntimeError(TOO_LONG)
        return "Now it fits."

    with engine.turn(thread) as turn:
        assert turn.send(call).text == "Now it fits."
    assert len(sizes) > 1
    assert sizes == sorted(sizes, reverse=True)
    assert logged(log) == words(thread)


def test_a_provider_that_refuses_everything_ends_in_one_error_and_the_question_is_kept() -> None:
    engine, log = new_engine()
    thread = [SYSTEM, user("Why?")]

    def call(messages: object) -> str:
        raise RuntimeError(TOO_LONG)

    with pytest.raises(WindowFull), engine.turn(thread) as turn:
        turn.send(call)
    assert logged(log) == words(thread)
    with engine.turn(thread) as turn:
        turn.send(answering("Now I can."))
    assert [each.text for each in thread[1:]] == ["Why?", "Now I can."]
    assert logged(log) == words(thread)


@pytest.mark.parametrize("error", [ConnectionError("it is down"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_call_raises_goes_on_as_it_is_and_the_turn_can_be_made_again(error: BaseException) -> None:
    engine, log = new_engine()
    thread = [SYSTEM, user("Why?")]

    def call(messages: object) -> str:
        raise error

    with pytest.raises(type(error)) as caught, engine.turn(thread) as turn:
        turn.send(call)
    assert caught.value is error
    assert logged(log) == words([SYSTEM, user("Why?")])
    with engine.turn(thread) as turn:
        turn.send(answering("Because."))
    assert logged(log) == words([SYSTEM, user("Why?"), said("Because.")])


def test_an_error_of_the_host_behind_an_answer_loses_nothing_of_it() -> None:
    engine, log = new_engine()
    thread: list[Any] = [user("Why?")]

    def stumbles(text: str) -> None:
        thread.append({"role": "tool", "content": text})  # and the list is broken, too
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), engine.turn(thread) as turn:
        stumbles(turn.send(answering("Because.")).text)
    assert logged(log) == words([user("Why?"), said("Because.")])


def test_a_block_that_is_left_without_an_answer_says_so_and_the_question_is_kept() -> None:
    engine, log = new_engine()
    thread = [user("Why?")]
    with pytest.raises(UsageError, match="without an answer"), engine.turn(thread):
        pass
    assert logged(log) == words([user("Why?")])
    with engine.turn(thread) as turn:
        turn.send(answering("Because."))
    assert logged(log) == words([user("Why?"), said("Because.")])


@every_case(
    ("given", "told"),
    [
        (None, "NoneType"),
        ({"role": "assistant", "content": "Hi"}, "dict"),
        ([], "a list of nothing"),
        ([{"role": "assistant"}], "a list of dict"),
        (user("Hi"), "a message of the user"),
        (([user("Hi")], Used()), "a list of user messages"),
        (("Hi", 40), "a tuple of str, int"),
    ],
)
def test_a_call_that_gives_no_answer_is_told_what_to_give(given: object, told: str) -> None:
    engine, log = new_engine()
    thread = [user("Why?")]
    with pytest.raises(UsageError, match=re.escape(told)) as caught, engine.turn(thread) as turn:
        turn.send(lambda _: given)  # type: ignore[arg-type, return-value]
    assert "shape(...).read" in caught.value.hint
    assert logged(log) == words(thread) == words([user("Why?")])


# ------------------------------------------------------------ what is forgotten, or done twice


def test_a_host_that_puts_the_answer_into_its_list_itself_has_it_once() -> None:
    engine, log = new_engine()
    thread = [user("Why?")]
    with engine.turn(thread) as turn:
        thread.append(turn.send(answering("Because."))._replace(id="mine"))
    assert [each.text for each in thread] == ["Why?", "Because."]
    thread.append(said("Because."))  # behind the block
    thread.append(user("Really?"))
    with engine.turn(thread) as turn:
        turn.send(answering("Because."))  # the model may say the same again
    assert [each.text for each in thread] == ["Why?", "Because.", "Really?", "Because."]
    assert logged(log) == words(thread)


def test_a_thread_that_goes_on_without_the_answer_is_refused_before_anything_is_taken_back() -> None:
    engine, log = new_engine()
    first = (SYSTEM, user("Why?"))
    with engine.turn(first) as turn:
        turn.send(answering("Because."))
    before = [*log.events()]
    with (
        pytest.raises(UsageError, match="the thread continues without") as caught,
        engine.turn([*first, user("And?")]),
    ):
        raise AssertionError
    assert "turn.thread" in caught.value.hint
    assert [*log.events()] == before
    with engine.turn([*turn.thread, user("And?")]) as turn:
        turn.send(answering("Also."))
    assert [each.text for each in turn.thread[1:]] == ["Why?", "Because.", "And?", "Also."]
    assert logged(log) == words(turn.thread)


def test_a_thread_that_ends_with_the_question_asks_for_another_answer() -> None:
    engine, log = new_engine()
    first = (SYSTEM, user("Why?"))
    for text in ("Because.", "Since it must."):
        with engine.turn(first) as turn:
            turn.send(answering(text))
    assert logged(log) == words([*first, said("Since it must.")])
    edited = [SYSTEM, user("Why not?")]
    with engine.turn(edited) as turn:
        turn.send(answering("Well."))
    assert logged(log) == words(edited)


def test_a_changed_system_prompt_hides_no_forgotten_answer() -> None:
    engine, _ = new_engine()
    with engine.turn((SYSTEM, user("Why?"))) as turn:
        turn.send(answering("Because."))
    other = Message(Role.SYSTEM, (Text("You are quick."),))
    with (
        pytest.raises(UsageError, match="the thread continues without"),
        engine.turn([other, user("Why?"), user("?")]),
    ):
        raise AssertionError


def test_one_turn_at_a_time_and_only_in_its_block() -> None:
    engine, log = new_engine()
    turn = engine.turn([user("Why?")])
    with pytest.raises(UsageError, match="not in progress"):
        turn.send(answering("Too early."))
    with turn:
        with pytest.raises(UsageError, match="another turn"), engine.turn([user("And?")]):
            raise AssertionError
        with pytest.raises(UsageError, match="this turn"), turn:
            raise AssertionError
        turn.send(answering("Because."))
    for late in (lambda: turn.send(answering("Late.")), lambda: turn.add(user("Late."))):
        with pytest.raises(UsageError, match="not in progress"):
            late()
    assert logged(log) == words([user("Why?"), said("Because.")])


@pytest.mark.parametrize(
    ("thread", "error"),
    [
        ([Message(Role.SYSTEM, (Text("word " * 9_000),)), user("Hi")], WindowFull),
        ([{"role": "user"}], InvalidText),
    ],
)
def test_a_turn_that_cannot_begin_leaves_room_for_the_next(thread: list[Any], error: type[Exception]) -> None:
    engine, _ = new_engine()
    with pytest.raises(error), engine.turn(thread):
        raise AssertionError
    with engine.turn([SYSTEM, user("Hi")]) as turn:
        assert turn.send(answering("Hello.")).text == "Hello."


# ------------------------------------------------------------ callbacks


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_a_model_callback_that_raises_or_hangs_stops_no_turn(how: str) -> None:
    never = threading.Event()

    def reply(asked: Asked) -> str:
        if how == "hangs":
            never.wait(60)
        raise ValueError("out of order")

    settings = WindowSettings(flush_seconds=0.2, compaction_seconds=0.2)
    engine, log = new_engine(4_000, reply, settings)
    thread = [SYSTEM]
    for at in range(20):
        thread.append(user(f"Case {at}: " + "word " * 200))
        with engine.turn(thread) as turn:
            turn.send(answering(f"Answer {at}"))
    never.set()
    assert engine.inspect().cycles >= 1
    outcomes = {event.outcome for event in log.events() if isinstance(event, Flushed)}
    assert outcomes == {"failed:no answer in 0.2 s" if how == "hangs" else "failed:ValueError: out of order"}
    assert [event.message.text for event in log.thread() if event.message.role is Role.ASSISTANT] == [
        f"Answer {at}" for at in range(20)
    ]


@every_case("name", ["now", "journal", "note", "remember", "git", "barred", "complete"])
def test_any_callback_that_raises_stops_no_turn_and_loses_nothing(name: str) -> None:
    class Broken(ScriptedHost):
        def __getattribute__(self, asked: str) -> Any:
            if asked == name:
                raise RuntimeError("out of order")
            return super().__getattribute__(asked)

    log = Log("s", MemoryLog())
    engine = ContextEngine(log, Broken(lambda _: "- One fact, worth a line."), 4_000)
    thread = [SYSTEM]
    for at in range(20):
        thread.append(user(f"Case {at}: " + "word " * 200))
        with engine.turn(thread) as turn:
            turn.send(answering(f"Answer {at}"))
    assert engine.inspect().cycles >= 1
    assert logged(log) == words(thread)


@pytest.mark.full(but=2)
@pytest.mark.parametrize("name", ["now", "journal", "note", "remember", "git", "barred", "complete"])
def test_any_callback_that_hangs_is_left_alone_after_its_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    hung: list[str] = []

    class Hanging(ScriptedHost):
        def __getattribute__(self, asked: str) -> Any:
            if asked == name:
                hung.append(asked)
                never.wait(600)
            return super().__getattribute__(asked)

    for limit in ("vademecum.context.engine._SECONDS", "vademecum.context.silent_turns._WRITE_SECONDS"):
        monkeypatch.setattr(limit, 0.05)
    log = Log("s", MemoryLog())
    notes = (
        ToolCall("c1", "memory_store", '{"text": "One fact."}'),
        ToolCall("c2", "journal_append", '{"text": "Another."}'),
    )
    host = Hanging(lambda asked: Message(Role.ASSISTANT, notes) if is_flush(asked) else "no summary")
    engine = ContextEngine(log, host, 4_000, WindowSettings(compaction_seconds=0.05))
    thread = [SYSTEM]
    for at in range(20):
        thread.append(user(f"Case {at}: " + "word " * 200))
        with engine.turn(thread) as turn:
            turn.send(answering(f"Answer {at}"))
    cycles = engine.inspect().cycles
    never.set()
    assert hung
    assert cycles >= 1
    outcomes = {event.outcome for event in log.events() if isinstance(event, Flushed)}
    assert outcomes <= {"written", "nothing"} if name == "git" else outcomes == {"failed:no answer in 0.05 s"}
    assert logged(log) == words(thread)


HANGING = """
import json, sys, time
from vademecum import Memory, Message, Role, Text
from vademecum.transcripts import ToolCall

where, folder = sys.argv[1:]
memory = Memory.open(folder + "/home", project=folder)
log = memory.sessions.new(id="hung")
thread = [Message(Role.SYSTEM, (Text("You are a careful engineer."),))]


def hang():
    print(json.dumps([[str(each.role), each.text] for each in thread]), flush=True)
    time.sleep(600)


def model(messages, system, tools, seconds):
    flush = "memory flush" in system
    if where == ("flush" if flush else "compaction"):
        hang()
    calls = [ToolCall("c1", "memory_store", '{"text": "A fact."}')]
    calls += [ToolCall("c2", "journal_append", '{"text": "A line."}')]
    return Message(Role.ASSISTANT, tuple(calls)) if flush else "no summary"


engine = memory.sessions.context(log, window=4_000, complete=model)
usual = engine._host


class Host:
    def __getattr__(self, name):
        if name == where and len(thread) > 4:
            hang()
        return getattr(usual, name)


engine._host = Host()


def tools():
    if where == "tools" and len(thread) > 4 or where == "tools-later" and thread[-1].text == "Appended.":
        hang()
    return []


def call(messages):
    if where == "call" and len(thread) > 4:
        hang()
    return f"Answer {len(thread)}."


def slug(text):
    hang()


for at in range(30):
    thread.append(Message(Role.USER, (Text(f"Case {at}: " + "word " * 200),)))
    with engine.turn(thread, tools) as turn:
        turn.send(call)
        thread.append(Message(Role.USER, (Text("Appended."),)))
        turn.send(call)
memory.sessions.end("hung", slug=slug)
"""
CALLBACKS = ["now", "journal", "note", "remember", "git", "barred", "complete", "flush", "compaction"]
OWN_THREAD = ["tools", "tools-later", "call", "slug"]


@pytest.mark.full(but=2)
@pytest.mark.parametrize("where", [*CALLBACKS, *OWN_THREAD])
def test_nothing_said_is_lost_when_a_process_is_killed_while_a_callback_hangs(
    where: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "VADE_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        [sys.executable, "-c", HANGING, where, str(tmp_path)], env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        process.kill()
    memory = Memory.open(tmp_path / "home", project=tmp_path)
    thread = [*memory.sessions.messages("hung")]
    assert [[str(each.role), each.text] for each in thread] == told
    assert len(told) >= 4
    engine = memory.sessions.context("hung", window=4_000)
    if thread[-1].role is not Role.USER:
        thread.append(user("Where were we?"))
    with engine.turn(thread) as turn:
        turn.send(answering("At that case."))
    assert words([*memory.sessions.messages("hung")]) == words(thread)


def test_a_function_of_tools_that_raises_leaves_the_question_in_the_log_and_the_next_turn_goes_on() -> None:
    engine, log = new_engine()
    thread = [SYSTEM, user("How long is it?")]

    def tools() -> list[Any]:
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"), engine.turn(thread, tools):
        raise AssertionError("nothing was prepared")
    assert logged(log) == words(thread)
    with engine.turn(thread, lambda: [{"name": "bash"}]) as turn:
        assert turn.send(answering("Four metres.")).text == "Four metres."
    assert logged(log) == words(thread)


def test_tools_may_become_fewer_when_a_refusal_shows_a_smaller_window() -> None:
    engine, _ = new_engine(16_000)
    offered: list[int] = []

    def tools() -> list[Any]:
        many = 8 if engine.window > 9_000 else 1
        return [{"name": f"tool-{at}", "description": "word " * 200} for at in range(many)]

    def call(messages: tuple[Message, ...]) -> Message:
        offered.append(len(tools()))
        if len(offered) == 1:
            raise ValueError("prompt is too long: 9000 tokens > 3000 maximum")
        return said("Yes.")

    with engine.turn([SYSTEM, user("Well? " + "word " * 9_000)], tools) as turn:
        turn.send(call)
        assert turn.prepared.tokens.schemas < 1_000
    assert offered == [8, 1]
    assert engine.window == 3_000


def test_a_framework_that_makes_the_call_itself_has_the_same_steps() -> None:
    engine, log = new_engine(16_000)
    thread = [SYSTEM, user("Well? " + "word " * 9_000)]
    with engine.turn(thread) as turn:
        first = turn.prepared
        smaller = turn.refused(ValueError(TOO_LONG))
        assert smaller.tokens.total < first.tokens.total
        assert turn.prepared is smaller
        turn.keep(("Yes.", Used(input=5_000)))
    assert thread[-1].text == "Yes."
    assert logged(log) == words(thread)
    for step in (lambda: turn.keep("No."), lambda: turn.refused(ValueError(TOO_LONG))):
        with pytest.raises(UsageError, match="not in progress"):
            step()


def test_a_host_that_takes_the_steps_itself_and_forgets_some_loses_nothing_but_what_it_never_gave() -> None:
    engine, log = new_engine()
    thread = [SYSTEM]
    for at in range(20):
        thread.append(user(f"Case {at}: " + "word " * 200))
        engine.prepare(thread)
        thread.append(said(f"Answer {at}"))  # neither observed nor recorded
    assert logged(log) == words(thread[:-1])
    again = ContextEngine(log, ScriptedHost(), 4_000)
    again.record(thread)
    assert logged(log) == words(thread)


# ------------------------------------------------------------ with an event loop


def test_a_turn_can_be_awaited_with_a_home_on_disk(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "home", project=tmp_path)
    log = memory.sessions.new(id="awaited", model="m")
    engine = memory.sessions.context(log, window=20_000, model="m")
    thread = [SYSTEM, *(user(f"Case {at}: " + "word " * 200) for at in range(40))]
    refused = 0

    async def call(messages: tuple[Message, ...]) -> tuple[str, Used]:
        nonlocal refused
        await asyncio.sleep(0)
        if sum(len(each.text) for each in messages) > 20_000:
            refused += 1
            raise RuntimeError(TOO_LONG)
        return "Here.", Used(input=4_000)

    async def main() -> None:
        for text in ("first", "second"):
            thread.append(user(text))
            async with engine.turn(thread) as turn:
                assert (await turn.asend(call)).text == "Here."

    asyncio.run(main())
    assert refused
    assert words([*memory.sessions.messages("awaited")]) == words(thread)
    assert [each.text for each in thread[-4:]] == ["first", "Here.", "second", "Here."]


def test_a_turn_that_is_cancelled_while_the_model_is_asked_keeps_the_question() -> None:
    engine, log = new_engine()
    thread = [user("Why?")]

    async def main() -> None:
        asked = asyncio.Event()

        async def call(messages: object) -> str:
            asked.set()
            await asyncio.Event().wait()
            return "never"

        async def turn() -> None:
            async with engine.turn(thread) as turn:
                await turn.asend(call)

        task = asyncio.ensure_future(turn())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with engine.turn(thread) as again:
            await again.asend(later)

    async def later(messages: object) -> str:
        return "Because."

    asyncio.run(main())
    assert logged(log) == words([user("Why?"), said("Because.")])


def test_a_step_that_has_begun_is_finished_before_a_cancellation_and_the_loop_runs_on() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def reply(asked: Asked) -> str:
        begun.set()
        assert go_on.wait(60)
        return "- The staging database moved to db7."

    engine, log = new_engine(4_000, reply, WindowSettings(compaction=False))
    thread = [SYSTEM, *(user(f"Case {at}: " + "word " * 200) for at in range(20))]

    async def turn() -> None:
        async with engine.turn(thread):
            raise AssertionError("it was cancelled before")

    async def main() -> None:
        task = asyncio.ensure_future(turn())
        while not begun.is_set():  # the flush is under way in a thread, and the loop is free
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    kinds = [type(event) for event in log.events()]
    assert [event.outcome for event in log.events() if isinstance(event, Flushed)] == ["written"]
    assert kinds.count(MessageEvent) == len(thread)
    assert kinds[-1] is Trimmed  # the step went to its end
