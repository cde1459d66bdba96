"""A session killed beside any system call of a flush or a compaction has lost nothing when it goes on."""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import traceback
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import tiers
from context.conversations import orphans
from context.hosting import cycles, says
from context.hosts import Asked, is_flush, obedient
from context.replaying import replay
from faults import operations
from faults.operations import FOLLOW, LAST, PREPARE, RETRY, RUN, Ground
from faults.syscalls import Tap
from faults.test_kill import Countdown
from vademecum.context.engine import ContextEngine, WindowTrimmer
from vademecum.context.silent_turns import JOURNAL_TOOL, RECORD_TOOL
from vademecum.context.units import estimate_request
from vademecum.context.window import WindowSettings
from vademecum.store import folders
from vademecum.store.home import Home
from vademecum.tokens import Estimator
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Checkpoint, Compacted, Flushed, MessageEvent, Summary, Trimmed, Used
from vademecum.transcripts.log import Log, LogFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from vademecum.context.host import Complete, GitActivity
    from vademecum.context.window import PrepareReport
    from vademecum.memory import Memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts the calls of Linux")

SHARE = tiers.few(6, 40)  # kill points of each script in an ordinary run
WINDOW = 4_000
JOURNAL = "memory/global/journal/2024-03-01.md"
NOTED = "The staging database moved to db7 on Monday."
STORED = "Releases of the parser are signed by Ada."
TASK = "Please rewrite the tokenizer so that it reads tables from a stream instead of a list."
_SEED = 20261

NOTES = Message(
    Role.ASSISTANT,
    (
        ToolCall("j", JOURNAL_TOOL, json.dumps({"text": NOTED})),
        ToolCall("r", RECORD_TOOL, json.dumps({"text": STORED})),
    ),
)


class MemoryHost:
    """A host whose journal and records are real files."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.barred = ""
        self.flushes = 0
        self.pipe: int | None = None

    @property
    def complete(self) -> Complete:
        def answer(messages: Any, system: str, tools: Any, seconds: float) -> Message | str:
            asked = Asked(list(messages), system, list(tools))
            if is_flush(asked):
                self.flushes += 1
                return NOTES
            return obedient(asked)

        return answer

    def now(self) -> datetime:
        return self._memory.workspace.now()

    def journal(self) -> str:
        path = self._memory.home.path / JOURNAL
        return path.read_text() if path.exists() else ""

    def note(self, text: str) -> None:
        self._memory.note(text, scope="global")
        self._acknowledge(b"noted\n")

    def remember(self, text: str) -> None:
        self._memory.store(text, scope="global")
        self._acknowledge(b"stored\n")

    def git(self) -> GitActivity | None:
        return None

    def _acknowledge(self, word: bytes) -> None:
        if self.pipe is not None:
            os.write(self.pipe, word)


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def talk(count: int, chars: int = 300) -> list[Message]:
    found = [Message(Role.SYSTEM, (Text("You are a careful engineer."),)), user(TASK)]
    for at in range(count):
        words = "word " * (chars // 5)
        if at % 3 == 2:
            found.append(Message(Role.ASSISTANT, (ToolCall(f"c{at}", "bash", '{"command": "make"}'),)))
            found.append(Message(Role.TOOL, (ToolResult(f"c{at}", (Text(words),)),)))
        else:
            role = Role.USER if at % 3 else Role.ASSISTANT
            found.append(Message(role, (Text(f"Please look at case {at}: {words}"),)))
    return found


LONG = talk(40)


def full(share: float) -> list[Message]:
    """The beginning of a long talk that fills so much of the window."""
    ratio = Estimator().ratio("")
    sizes = (estimate_request(LONG[:at], [], ratio) for at in range(len(LONG)))
    found = LONG[: next(at for at, size in enumerate(sizes) if size >= share * WINDOW)]
    return found[:-1] if found[-1].calls else found


RESULT = [
    Message(Role.ASSISTANT, (ToolCall("big", "bash", "{}"),)),
    Message(Role.TOOL, (ToolResult("big", (Text("x y " * 20_000),)),)),
]


@dataclass(frozen=True, slots=True)
class Script:
    """What a session had said before, what it then goes through, and what must have come of it."""

    name: str
    before: list[Message]
    after: list[Message]
    run: Callable[[ContextEngine, list[Message]], object]
    ends_with: type
    settings: WindowSettings = field(default_factory=WindowSettings)


def _overflow(engine: ContextEngine, thread: list[Message]) -> None:
    engine.prepare(thread)
    engine.overflowed("prompt is too long")


def _compact(engine: ContextEngine, thread: list[Message]) -> None:
    engine.prepare(thread)
    engine.compact("the tokenizer")


EXTRACTION = WindowSettings(compaction=False)
SCRIPTS = (
    Script("flush-and-trim", full(0.65), full(0.8), ContextEngine.prepare, Trimmed, EXTRACTION),
    Script("flush-and-compaction", full(0.65), full(0.8), ContextEngine.prepare, Compacted),
    Script("manual-compaction", full(0.6), full(0.65), _compact, Compacted),
    Script("overflow", full(0.5), full(0.55), _overflow, Trimmed),
    Script("oversize-result", full(0.3), [*full(0.3), *RESULT], ContextEngine.prepare, Trimmed, EXTRACTION),
)


@dataclass(slots=True)
class Kills:
    points: int = 0
    killed: int = 0
    problems: list[str] = field(default_factory=list)
    looked_at: set[int] = field(default_factory=set)  # trees from which the session was taken up


class Session:
    """A session on disk, as one process sees it."""

    def __init__(self, here: Ground, script: Script, phase: int) -> None:
        self.memory = here.memory(phase)
        self.host = MemoryHost(self.memory)
        self.log = Log(
            "session", LogFile(Home(here.home), "project", "session"), now=self.memory.workspace.now
        )
        self.engine = ContextEngine(self.log, self.host, WINDOW, script.settings)


def prepare(here: Ground, script: Script) -> operations.Tree:
    here.lay()
    session = Session(here, script, PREPARE)
    session.memory.note(operations.NEIGHBOUR, scope="global")
    session.engine.prepare(script.before)
    session.engine.observe(Used(input=2_000))
    assert not [event for event in session.log.events() if isinstance(event, Flushed)]
    return here.tree()


def points_of(here: Ground, script: Script, start: operations.Tree) -> int:
    """The number of kill points: before and after each call, and after the last one returned."""
    here.put(start)
    session = Session(here, script, RUN)
    with Tap(root=os.fspath(here.top)) as tap:
        script.run(session.engine, script.after)
    assert session.host.flushes == 1
    assert any(isinstance(event, script.ends_with) for event in session.log.events())
    return 2 * len(tap.trace) + 1


def fork_and_run(here: Ground, script: Script, point: int) -> tuple[set[str], bool]:
    """Run a script in a child that is killed at a point: what was acknowledged to it, and whether it died."""
    reading, writing = os.pipe()
    session = Session(here, script, RUN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has threads; the child never meets them
        child = os.fork()
    if child == 0:
        code = 1
        try:
            gc.disable()
            session.host.pipe = writing
            countdown = Countdown(point)
            with Tap(countdown, root=os.fspath(here.top)):
                script.run(session.engine, script.after)
            os.write(writing, b"done\n")
            countdown.tick()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        acknowledged = set(pipe.read().split())
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"{script.name} failed at {point}"
    return acknowledged, os.WIFSIGNALED(status)


def kill_at(here: Ground, script: Script, start: operations.Tree, point: int, kills: Kills) -> None:
    """Kill a script at a point, look at what is left, take it up again, and look once more."""
    here.put(start)
    acknowledged, killed = fork_and_run(here, script, point)
    kills.points += 1
    kills.killed += killed
    folders._cleared.clear()  # as a fresh process, which looks once for what dead ones left
    problems = [*left_behind(here, script, acknowledged)]
    left = operations.likeness(here.tree())
    if left not in kills.looked_at:  # most calls read: many kills leave the same
        kills.looked_at.add(left)
        problems += goes_on(here, script)
    kills.problems += [f"{script.name} killed at {point}: {problem}" for problem in problems]


def held(log: Log) -> list[Any]:
    return [event.message.parts for event in log.events() if isinstance(event, MessageEvent)]


def left_behind(here: Ground, script: Script, acknowledged: set[str]) -> Iterator[str]:
    """What is wrong before anybody has touched it."""
    session = Session(here, script, RETRY)
    parts = [message.parts for message in script.after]
    found = held(session.log)
    known = len(script.after) if "done" in acknowledged else len(script.before)
    if found != parts[: len(found)] or len(found) < known:
        yield f"the log holds {len(found)} messages, of {known} that it must hold"
    if orphans(replay(session.log.events())):
        yield "the window has calls without results"
    if "noted" in acknowledged and NOTED not in session.host.journal():
        yield "an acknowledged note is gone"
    events = list(session.log.events())
    flushed = [event for event in events if isinstance(event, Flushed)]
    if flushed and flushed[0].outcome == "written" and "stored" not in acknowledged:
        yield "a flush is called written that was not"
    if any(isinstance(event, Trimmed) and event.ids for event in events) and not any(
        isinstance(event, Summary) for event in events
    ):
        yield "something left without a summary"
    if any(isinstance(event, Trimmed | Compacted) for event in events):
        if not flushed:
            yield "something left before the flush"
        if not any(isinstance(event, Checkpoint) for event in events):
            yield "something left without a checkpoint"
    yield from operations.alarms(here)


def goes_on(here: Ground, script: Script) -> Iterator[str]:
    """What is wrong after a new process has taken the session up."""
    session = Session(here, script, FOLLOW)
    flushed = [event for event in session.log.events() if isinstance(event, Flushed)]
    dropped = any(isinstance(event, Trimmed | Compacted) for event in session.log.events())
    if not dropped:
        script.run(session.engine, script.after)
        if bool(flushed) == bool(session.host.flushes):
            yield f"{session.host.flushes} flushes after {len(flushed)} before the kill"
    sent = session.engine.prepare(script.after)
    again = Session(here, script, LAST)
    if again.engine.prepare(script.after).messages != sent.messages:
        yield "a third process sees another window"
    log = again.log
    if held(log) != [message.parts for message in script.after]:
        yield "the log is not the thread"
    if replay(log.events()) != sent.messages or orphans(sent.messages):
        yield "the window is not what the log says"
    if sent.tokens.total > sent.tokens.limit:
        yield "the window is too large"
    if not says(sent.messages, TASK):
        yield "the first task is gone"
    if not all(len(each) == 1 for each in cycles(log)[:-1]):
        yield f"flushes of the cycles: {cycles(log)}"
    journal = session.host.journal()
    if journal.count(NOTED) != 1 or operations.NEIGHBOUR not in journal:
        yield f"the journal has the note {journal.count(NOTED)} times"
    entries = [
        entry.text
        for record in again.memory.list().records
        for entry in again.memory.show(record.key).entries
    ]
    if entries.count(STORED) != 1:
        yield f"the fact is kept {entries.count(STORED)} times"
    again.memory.note(operations.AFTER, scope="global")  # the next to write there clears what a dead one left
    yield from operations.alarms(here)
    yield from operations.litter(here.tree())


def run(script: Script, choose: Callable[[int], list[int]]) -> Kills:
    kills = Kills()
    with operations.ground() as here:
        start = prepare(here, script)
        points = choose(points_of(here, script, start))
        gc.freeze()  # so that a child's collector does not copy all of this process's memory
        for point in points:
            kill_at(here, script, start, point, kills)
    return kills


def sampled(total: int) -> list[int]:
    """Points spread over the whole script, the same in every run; always the very last one."""
    chance = random.Random(_SEED + total)
    step = (total - 1) / (SHARE - 1)
    spread = {int(chance.uniform(each * step, (each + 1) * step)) for each in range(SHARE - 1)}
    return sorted({*spread, total - 1})


@pytest.mark.full(but=1)
@pytest.mark.scaled
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.name)
def test_a_session_killed_in_a_flush_or_compaction_goes_on_as_if_nothing_had_happened(script: Script) -> None:
    kills = run(script, sampled)
    assert kills.problems == []
    assert kills.points == kills.killed >= SHARE - 3


@pytest.mark.full
def test_a_flush_that_is_written_down_before_it_ran_is_caught() -> None:
    def hasty(self: WindowTrimmer, report: PrepareReport) -> None:
        if not self._past.flushed:
            self._write(Flushed(outcome="nothing"), sync=True)
            assert self._flush is not None
            report.flushed = self._flush()

    with mock.patch.object(WindowTrimmer, "flush", hasty):
        problems = run(SCRIPTS[0], lambda total: list(range(0, total, 25))).problems
    assert any("the journal has the note 0 times" in each for each in problems)


@pytest.mark.soak
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.name)
def test_every_kill_point_of_flush_and_compaction(script: Script) -> None:
    kills = run(script, lambda total: list(range(total)))
    assert kills.problems == []
    assert kills.points == kills.killed > 200
