"""What a request costs to prepare, beside a deep copy of the same messages, and how well tokens are guessed.

Prepared through the public engine, on a log on disk and on one in memory, in a window that holds everything
and in one that holds a part. Guesses are held against the differences between consecutive calls of real
transcripts, since their system prompts and tool schemas are not in the files.
"""

from __future__ import annotations

import copy
import json
import statistics
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import notes
from vademecum.agents import registry
from vademecum.context.engine import ContextEngine
from vademecum.context.units import measure_all
from vademecum.context.window import WindowSettings
from vademecum.store.home import Home
from vademecum.tokens import Estimator
from vademecum.transcripts import LEFT, SIDE, Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.foreign import TranscriptUsage
from vademecum.transcripts.log import Log, LogFile, MemoryLog

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    Rows = list[dict[str, object]]

SIZES = (500, 1000, 2000, 4000)
ROUNDS = 5
WIDE, NARROW = 10_000_000, 64_000  # tokens: all of it fits, a part of it does
LEARNING = 20  # calls after which an estimator should know its model
LEAST = 20  # tokens: what is added by less says nothing about a ratio


class Quiet:
    """A host without a model, a journal in memory and no repository."""

    complete = None
    barred = ""

    def __init__(self) -> None:
        self.written = ""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def journal(self) -> str:
        return self.written

    def note(self, text: str) -> None:
        self.written += text

    remember = note

    def git(self) -> None:
        return None


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--data", type=Path, help="a folder of transcripts, for the guesses of tokens")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="messages of a conversation")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """The tables: prepare, and tokens where there are transcripts."""
    rows = [row for size in chosen.sizes for row in _prepare(size)]
    tables = {"context, prepare": rows}
    if chosen.data is not None:
        tables["context, tokens guessed"] = _guesses(chosen.data)
    return tables


# ---------------------------------------------------------------- prepare


def conversation(count: int) -> list[Message]:
    """A session of that many messages as agents have them: a request, then tools, then an answer."""
    texts = iter(notes.notes(count * 8, seed=4))
    found = [Message(Role.SYSTEM, (Text("You are a careful engineer."),), id="system")]
    for at in range(count - 1):
        words = "\n".join(islice(texts, 8))
        turn, call = at % 8, f"call-{at // 2}"
        if turn == 0:
            message = Message(Role.USER, (Text(words[:400]),), id=f"m{at}")
        elif turn == 7:
            message = Message(Role.ASSISTANT, (Text(words),), id=f"m{at}")
        elif turn % 2:
            tool_call = ToolCall(call, "bash", json.dumps({"command": words[:80]}))
            message = Message(Role.ASSISTANT, (Text(words[:120]), tool_call), id=f"m{at}")
        else:
            message = Message(
                Role.TOOL, (ToolResult(f"call-{(at - 1) // 2}", (Text(words),), "bash"),), id=f"m{at}"
            )
        found.append(message)
    return found


def _prepare(count: int) -> Iterator[dict[str, object]]:
    talk = conversation(count)
    copied = _best(lambda: copy.deepcopy(talk))
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder), 5)
        places: dict[str, Callable[[int], Any]] = {
            "disk": lambda at: LogFile(home, "p", f"s{count}-{at}"),
            "memory": lambda _at: MemoryLog(),
        }
        for window, (place, paper) in ((w, each) for w in (WIDE, NARROW) for each in places.items()):
            rounds = [_round(paper(at + ROUNDS * (window == NARROW)), window, talk) for at in range(ROUNDS)]
            best = {name: min(each[name] for each in rounds) for name in rounds[0]}
            yield {
                "messages": count,
                "window": window,
                "log": place,
                "deepcopy ms": round(copied * 1000, 1),
                **{f"{name} ms": round(seconds * 1000, 1) for name, seconds in best.items()},
                **{f"{name} x": round(seconds / copied, 2) for name, seconds in best.items()},
                "first us/message": round(best["first"] / count * 1e6, 1),
            }


def _round(paper: LogFile | MemoryLog, window: int, talk: list[Message]) -> dict[str, float]:
    """Seconds of the first call, of the same again, of one more message, and of opening the session again."""
    log = Log("s", paper)
    engine = ContextEngine(log, Quiet(), window, WindowSettings(compaction=False))
    more = [*talk, Message(Role.USER, (Text("And one thing more, please."),))]
    return {
        "first": _timed(lambda: engine.prepare(talk)),
        "again": _timed(lambda: engine.prepare(talk)),
        "one more": _timed(lambda: engine.prepare(more)),
        "open": _timed(lambda: ContextEngine(log, Quiet(), window, WindowSettings(compaction=False))),
    }


def _timed(call: Callable[[], object]) -> float:
    begun = time.process_time()  # of a processor, whatever else the machine did
    call()
    return time.process_time() - begun


def _best(call: Callable[[], object]) -> float:
    return min(_timed(call) for _ in range(ROUNDS))


# ---------------------------------------------------------------- tokens


class Call(NamedTuple):
    """What was added to a prompt since the call before, and by how many tokens the provider says it grew."""

    model: str
    added: list[Message]
    tokens: int


def calls(path: Path) -> Iterator[Call]:
    """The calls of one transcript whose prompt only grew."""
    known = registry.recognise_transcript(path)
    if known is None:
        return
    added: list[Message] = []
    answer: list[Message] = []
    last: TranscriptUsage | None = None
    for each in known.read(path):
        if isinstance(each, Message) and not each.extra.get(SIDE) and not each.extra.get(LEFT):
            # An answer is no part of the prompt it answers, but of the next one.
            if each.role is Role.ASSISTANT:
                answer.append(each)
            else:
                added, answer = [*added, *answer, each], []
        elif isinstance(each, TranscriptUsage) and each.input:
            if last is not None and added and last.model == each.model and each.input - last.input >= LEAST:
                yield Call(each.model, added, each.input - last.input)
            last, added = each, []


def _guesses(data: Path) -> Rows:
    errors: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    estimators: dict[str, Estimator] = defaultdict(Estimator)
    for path in sorted(data.rglob("*.json*")):
        form = registry.recognise_transcript(path)
        for call in calls(path):
            if form is None:
                continue
            size = measure_all(call.added)
            known = errors[form.name, call.model]
            guess = estimators[form.name].tokens(size, call.model)
            known.append((len(known), abs(guess - call.tokens) / call.tokens))
            estimators[form.name] = estimators[form.name].learned(call.model, size, call.tokens)
    every = [error for found in errors.values() for at, error in found if at >= LEARNING]
    rows = [
        _row(form, model, found, estimators[form].ratio(model))
        for (form, model), found in sorted(errors.items())
    ]
    return [*rows, {**_row("all", "", [(LEARNING, each) for each in every], 0.0), "bytes per token": ""}]


def _row(form: str, model: str, found: list[tuple[int, float]], ratio: float) -> dict[str, object]:
    late = [error for at, error in found if at >= LEARNING]
    return {
        "format": form,
        "model": model,
        "calls": len(found),
        f"after {LEARNING}": len(late),
        "median error": f"{statistics.median(late):.1%}" if late else "",
        "median, all calls": f"{statistics.median(error for _, error in found):.1%}" if found else "",
        "bytes per token": round(ratio, 2),
    }
