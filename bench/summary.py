"""What the summary without a model still says after twelve cycles, on scripted sessions with planted facts.

Each session of `sets/sessions` is played through the engine at a small and at a middling window, with the
files, logs and commits that fill real sessions between what the user says. A fact counts as kept when all
its words stand on one line of what is sent at the end. Of the held half only these totals are printed.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.context.engine import ContextEngine
from vademecum.context.host import HostFunctions
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Used
from vademecum.transcripts.log import Log, MemoryLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SETS = Path(__file__).parent / "sets" / "sessions"
WINDOWS = (4_000, 32_000)
CYCLES = 12
LATE = 3  # cycles after the last request that asks for something
KINDS = ("decision", "prohibition", "preference", "answer", "replaced", "finding", "task")
_SHARE = 0.13  # of a window that a turn fills
_SMALL = "Please add endpoint number {} to the list and run the checks."


class Played(NamedTuple):
    """A session at its end: the messages sent, its block, and the commits it made and only saw."""

    sent: tuple[str, ...]
    block: str
    made: tuple[str, ...]
    seen: tuple[str, ...]
    cycles: int


class Judged(NamedTuple):
    """One thing that was planted, and whether it is still there."""

    kind: str
    text: str
    kept: bool


def measure() -> list[dict[str, object]]:
    return [_row(half, window) for half in ("held", "tune") for window in WINDOWS]


def _row(half: str, window: int) -> dict[str, object]:
    sessions = read(half)
    judged: list[Judged] = []
    foreign = own = made = noise = laid = 0
    for session in sessions:
        played = play(session, window)
        judged += judge(session, played)
        foreign += sum(name in played.block for name in played.seen)
        own += sum(name in played.block for name in played.made)
        made += len(played.made)
        lines = laid_down(played.block)
        laid += len(lines)
        noise += sum(any(_bare(line) in _bare(said) for said in _nothing(session)) for line in lines)
    row: dict[str, object] = {"half": half, "window": window, "sessions": len(sessions)}
    for kind in KINDS:
        kept = [each.kept for each in judged if each.kind == kind]
        row[kind] = f"{sum(kept)}/{len(kept)}"
    return {**row, "own commits": f"{own}/{made}", "others' commits": foreign, "noise": f"{noise}/{laid}"}


def read(half: str) -> list[dict[str, Any]]:
    """The sessions of one half."""
    return list(tomllib.loads((SETS / f"{half}.toml").read_text(encoding="utf-8"))["session"])


# ------------------------------------------------------------ playing


class _Player:
    """A user, an agent and its tools in one window."""

    def __init__(self, session: dict[str, Any], window: int) -> None:
        self.window = window
        self.random = random.Random(session["id"])
        self.thread = [Message(Role.SYSTEM, (Text("You are a careful engineer."),))]
        host = HostFunctions(lambda: datetime(2026, 11, 16, tzinfo=UTC))
        self.engine = ContextEngine(Log("played", MemoryLog()), host, window)
        self.made: list[str] = []
        self.seen: list[str] = []
        self.calls = 0

    def turn(self, text: str, answer: str = "") -> None:
        """The user says something, the agent works and answers."""
        self.thread.append(Message(Role.USER, (Text(text),)))
        left = int(self.window * _SHARE * 3)
        while left > 0:
            left -= self._step()
        self._send()
        words = answer or self.random.choice(_ANSWERS).format(self.calls)
        self.thread.append(Message(Role.ASSISTANT, (Text(words),)))

    def _send(self) -> None:
        self.engine.prepare(self.thread)
        self.engine.observe(Used())

    def _step(self) -> int:
        self.calls += 1
        size = self.random.randrange(300, min(max(self.window // 4, 700), 4_000))
        kind = self.random.choice([self._reads, self._writes, self._tests, self._git])
        name, arguments, result, failed = kind(size)
        key = f"call-{self.calls}"
        self._send()
        self.thread.append(Message(Role.ASSISTANT, (ToolCall(key, name, json.dumps(arguments)),)))
        self.thread.append(Message(Role.TOOL, (ToolResult(key, (Text(result),), error=failed),)))
        return len(result) + 60

    def _reads(self, size: int) -> tuple[str, dict[str, str], str, bool]:
        words = " ".join(self.random.choices(_CODE, k=size // 7))
        return "read_file", {"path": f"src/part_{self.random.randrange(40)}.py"}, words, False

    def _writes(self, size: int) -> tuple[str, dict[str, str], str, bool]:
        path = f"src/part_{self.random.randrange(12)}.py"
        return (
            "write_file",
            {"path": path, "content": "x = 1\n" * (size // 12)},
            "written " * (size // 16),
            False,
        )

    def _tests(self, size: int) -> tuple[str, dict[str, str], str, bool]:
        failed = self.random.random() < 0.4
        end = "E   AssertionError: 3 != 4\n1 failed" if failed else "31 passed"
        return "bash", {"command": "pytest -q"}, "." * (size // 2) + f"\n{end}", failed

    def _git(self, size: int) -> tuple[str, dict[str, str], str, bool]:
        if self.random.random() < 0.25:
            name = f"{self.random.getrandbits(28):07x}"
            self.made.append(name)
            result = f"[main {name}] Step {self.calls} of it\n 2 files changed, 14 insertions(+)"
            return "bash", {"command": f"git commit -am 'Step {self.calls} of it'"}, result, False
        names = [f"{self.random.getrandbits(28):07x}" for _ in range(size // 40)]
        self.seen += names
        listed = "\n".join(f"{name} We decided to change the {self.random.choice(_CODE)}" for name in names)
        return "bash", {"command": "git log --oneline -40"}, listed, False


_CODE = """return value index parser table window lease retry never always import class default port handler
  reader stream buffer token query result error limit cache schema column""".split()
_ANSWERS = (
    "Step {} is in, and the checks are green.",
    "I changed it as you said. It took {} calls in all.",
    "Done. Nothing else was affected.",
    "That works now; I ran the part again to be sure.",
)


def play(session: dict[str, Any], window: int) -> Played:
    """Live through a session until its window was trimmed often enough."""
    player = _Player(session, window)
    for text, answer in _script(session, player.random):
        player.turn(text, answer)
    before = player.engine.inspect().cycles
    chatter = [each for each in session["chatter"] if "\n" not in each and "?" not in each]
    while player.engine.inspect().cycles < max(CYCLES, before + LATE):
        player.turn(player.random.choice(chatter))
    ready = player.engine.prepare(player.thread)
    player.thread.append(Message(Role.ASSISTANT, (Text("Going on."),)))
    found = player.engine.inspect()
    return Played(
        tuple(each.text for each in ready.messages),
        found.summary,
        tuple(player.made),
        tuple(player.seen),
        found.cycles,
    )


def _script(session: dict[str, Any], chance: random.Random) -> list[tuple[str, str]]:
    """What the user says, and what the agent answers where that matters: facts mixed with everything else."""
    first, *between, last = session["tasks"]
    middle: list[list[tuple[str, str]]] = [[(said, "")] for _, said, _ in session["facts"]]
    middle += [
        [("what is open?", f"One thing is. {question}"), (answer, "")]
        for question, answer, _ in session["asked"]
    ]
    middle += [[(chance.choice(session["chatter"]), text)] for text, _ in session["found"]]
    middle += [[(said, "")] for said in (*between, *session["chatter"])]
    middle += [[(_SMALL.format(number), "")] for number in range(1, 9)]
    chance.shuffle(middle)
    for old, new, *_ in session["replaced"]:
        at, later = sorted(chance.sample(range(len(middle) + 1), 2))
        middle.insert(later, [(new, "")])
        middle.insert(at, [(old, "")])
    end = [(last, ""), *([(session["then"], "")] if session["then"] else [])]
    return [(first, ""), *(each for group in middle for each in group), *end]


# ------------------------------------------------------------ judging


def judge(session: dict[str, Any], played: Played) -> list[Judged]:
    """What was planted, and whether it is still sent."""
    lines = [line for text in played.sent for line in text.splitlines()]
    pairs = [*lines, *(f"{one} {other}" for one, other in pairwise(lines))]
    found = [Judged(kind, said, _together(words, lines)) for kind, said, words in session["facts"]]
    found += [Judged("answer", question, _together(words, pairs)) for question, _, words in session["asked"]]
    for old, new, words, gone in session["replaced"]:
        kept = _together(words, lines) and not any(_bare(gone) in _bare(line) for line in lines)
        found.append(Judged("replaced", f"{old} / {new}", kept))
    found += [Judged("finding", said, _together(words, lines)) for said, words in session["found"]]
    task = [line for line in played.block.splitlines() if line.startswith("Current task: ")]
    wanted = [session["tasks"][-1], *([session["then"]] if session["then"] else [])]
    found.append(Judged("task", wanted[0], len(task) == 1 and all(each in task[0] for each in wanted)))
    return found


def _together(words: Sequence[str], lines: Sequence[str]) -> bool:
    return any(all(word.lower() in line.lower() for word in words) for line in lines)


def laid_down(block: str) -> list[str]:
    """The lines of a block that say what the user laid down."""
    lines = block.splitlines()
    start = next((at for at, line in enumerate(lines) if line in _LAID_DOWN), None)
    found: list[str] = []
    for line in lines[start + 1 :] if start is not None else ():
        if not line.startswith("- "):
            break
        found.append(line[2:])
    return found


_LAID_DOWN = ("Key decisions:", "Laid down by the user:", "Rules from the user:")


def _nothing(session: dict[str, Any]) -> Iterator[str]:
    """What the user said that lays nothing down."""
    yield from session["chatter"]
    yield from session["tasks"]
    yield from (_SMALL.format(number) for number in range(1, 9))


def _bare(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .!?…")


def missing(half: str, window: int) -> Counter[str]:
    """What is not there any more, for whoever works on the half that may be looked at."""
    assert half == "tune", "nobody looks at single facts of the held half"
    found: Counter[str] = Counter()
    for session in read(half):
        for each in judge(session, play(session, window)):
            if not each.kept:
                found[f"{session['id']}: {each.kind}: {each.text}"] += 1
    return found
