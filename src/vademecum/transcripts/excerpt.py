"""Read turns of a session as an agent reads them: author, time and words, within a number of characters.

A tool call is one line, and its result stands shortened below it. The raw log is what `session_get` of the
module `sessions` returns; system prompts, reasoning and what an agent's machinery wrote are only there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import UsageError
from vademecum.text import visible
from vademecum.text.fit import cut_to, json_size
from vademecum.transcripts.events import PROGRESS, Checkpoint, Compacted, MessageEvent, Summary, TornLine
from vademecum.transcripts.messages import (
    ASIDE,
    Image,
    Role,
    Text,
    ToolCall,
    ToolResult,
    is_aside,
)
from vademecum.transcripts.sessions import read_event, resolve_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.transcripts.events import Event
    from vademecum.transcripts.log import Log
    from vademecum.transcripts.messages import Message

TURNS = 40  # turns of one answer, when no number is named
_CALL_CHARS = 160  # characters of a call's arguments
_RESULT_CHARS = 300  # characters of a tool's result among several turns
_TURN_SIZE = 80  # characters that a turn takes besides its text
_PLACE = re.compile(r"(\d+):(\d+)")


class ExcerptTurn(NamedTuple):
    """The content of a line of a log, and of the tool results that belong to it."""

    place: int  # its line in the log
    role: str  # user, assistant, tool; or summary, checkpoint, damaged
    time: str
    text: str


class Excerpt(NamedTuple):
    """Turns of a session, and the place to continue at; an empty place means the end."""

    session: str
    title: str
    turns: tuple[ExcerptTurn, ...]
    next: str = ""
    lines: int = TURNS


@dataclass(slots=True)
class _Turn:
    line: int
    role: str
    time: str
    parts: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.parts)


def read_excerpt(log: Log, place: int | str = 1, *, lines: int | None = None, chars: int) -> Excerpt:
    """Return turns of a log from a place on: a line, the id of a message or call, or `LINE:CHARACTER`.

    There are at most `lines` turns, in about `chars` characters. A single turn has its results in full; an id
    means a single turn unless `lines` says otherwise.
    """
    match = _PLACE.fullmatch(str(place).strip())
    skipped = max(0, int(match[2]) - 1) if match else 0
    first = match[1] if match else place
    most = lines or (TURNS if str(first).strip().isdecimal() else 1)
    if most < 1:
        raise UsageError("at least one turn is read")
    start = resolve_place(log, first)
    found = _read_turns(log, start, most=most, chars=chars + skipped, checkpoint=str(first) == PROGRESS)
    return _fit(log, found, most=most, skipped=skipped, chars=chars)


def _fit(log: Log, found: tuple[list[_Turn], int], *, most: int, skipped: int, chars: int) -> Excerpt:
    """Return the turns that fit into `chars` characters, the last possibly cut, and the place to continue.

    `skipped` characters of the first turn are left out; `most` is kept for the next call.
    """
    turns, following = found
    title, left = log.title() or "", chars
    left -= json_size([log.session, title]) + 2 * _TURN_SIZE
    kept: list[ExcerptTurn] = []
    for at, turn in enumerate(turns):
        begin = skipped if at == 0 else 0
        text = turn.text[begin:]
        part = cut_to(text, left - _TURN_SIZE) if left > _TURN_SIZE else ""
        if part != text and kept and len(part) < len(text) // 2:
            return Excerpt(log.session, title, tuple(kept), str(turn.line), most)
        kept.append(ExcerptTurn(turn.line, turn.role, turn.time, part))
        if part != text:
            next_place = f"{turn.line}:{begin + len(part) + 1}"
            return Excerpt(log.session, title, tuple(kept), next_place, most)
        left -= json_size(part) + _TURN_SIZE
    return Excerpt(log.session, title, tuple(kept), str(following) if following else "", most)


def _read_turns(log: Log, start: int, *, most: int, chars: int, checkpoint: bool) -> tuple[list[_Turn], int]:
    """Return up to `most` turns from the line `start` on, and the line of the next turn, or 0 at the end.

    Reading stops when the turns have more than `chars` characters. With `checkpoint`, a checkpoint on the
    first line is a turn too.
    """
    turns: list[_Turn] = []
    calls: dict[str, tuple[_Turn, int]] = {}
    for raw in log.raw():
        if raw.number < start:
            continue
        turn = _read(
            read_event(raw),
            raw.number,
            calls,
            whole=most == 1,
            anything=raw.number == start,
            checkpoint=checkpoint,
        )
        if turn is None:
            continue
        if len(turns) == most or sum(each.size for each in turns) > chars:
            return turns, raw.number
        turns.append(turn)
    return turns, 0


def _read(
    event: Event | TornLine,
    line: int,
    calls: dict[str, tuple[_Turn, int]],
    *,
    whole: bool,
    anything: bool = False,
    checkpoint: bool = False,
) -> _Turn | None:
    """Return the turn of an event; None for an event without words, and for results that join their call.

    Results are in full if `whole`. `anything` marks the first line: there, system prompts and asides count if
    `whole`, and a checkpoint counts if `checkpoint`.
    """
    if isinstance(event, TornLine):
        return _Turn(line, "damaged", "", [f"{event.size:,} bytes cannot be read: {event.why}"])
    if isinstance(event, MessageEvent):
        message = event.message
        if (message.role is Role.SYSTEM or is_aside(message)) and not (whole and anything):
            return None
        turn = _Turn(line, str(message.role), message.time or event.time)
        for part in _parts(message, turn, calls, whole=whole):
            turn.parts.append(part)
            turn.size += len(part)
        return turn if turn.parts else None
    if isinstance(event, Summary | Compacted):
        return _Turn(line, "summary", event.time, [event.text], len(event.text))
    if isinstance(event, Checkpoint) and checkpoint and anything:
        return _Turn(line, "checkpoint", event.time, [*_progress(event)])
    return None


def _parts(
    message: Message, turn: _Turn, calls: dict[str, tuple[_Turn, int]], *, whole: bool
) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, Text):
            text = visible(part.text.replace(ASIDE, "")).strip()
            if text:
                yield text
        elif isinstance(part, Image):
            yield "[image]"
        elif isinstance(part, ToolCall):
            calls[part.id] = (turn, len(turn.parts))
            yield f"→ {part.name or 'a tool'} {_one_line(part.arguments, _CALL_CHARS)}".rstrip()
        elif isinstance(part, ToolResult):
            text = _result(part, whole=whole)
            own = calls.pop(part.id, None)
            if own is None:
                yield text
            else:  # it stands behind its call, and belongs to the turn of the call
                own_turn, at = own
                own_turn.parts[at] += f"\n{text}"
                own_turn.size += len(text)


def _result(part: ToolResult, *, whole: bool) -> str:
    mark = "← error: " if part.error else "← "
    text = visible(part.text).strip() or "[no text]"
    return mark + (text if whole else _shorten(text))


def _shorten(text: str) -> str:
    """Return a result; of a long result, only the beginning and the end."""
    if len(text) <= _RESULT_CHARS:
        return text
    half = _RESULT_CHARS // 2
    return f"{text[:half].rstrip()} … [{len(text) - 2 * half:,} more characters] … {text[-half:].lstrip()}"


def _one_line(text: str, most: int) -> str:
    line = " ".join(visible(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[:most]}…"


def _progress(event: Checkpoint) -> Sequence[str]:
    todo = [f"[{item.get('status', '')}] {item.get('title', '')}" for item in event.todo]
    calls = [f"→ {each}" for each in event.tools]
    return [f"Task: {event.task}", *todo, *calls]
