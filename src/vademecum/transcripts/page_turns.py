"""Turn the lines of a session into turns for a web page: author, parts and token usage of each.

This module knows events; cutting, folding and linking are up to the code that draws the page.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vademecum.transcripts.events import (
    Compacted,
    Ended,
    MessageEvent,
    Renamed,
    Started,
    Summary,
    TornLine,
    Used,
)
from vademecum.transcripts.export import content_text, label
from vademecum.transcripts.messages import Image, Text, Thinking, ToolCall, ToolResult, is_aside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.transcripts.log import Line
    from vademecum.transcripts.messages import Message, Part

_KINDS: dict[type, str] = {Thinking: "thinking", ToolCall: "call", ToolResult: "result", Image: "image"}


@dataclass(slots=True)
class TurnPart:
    """A part of a turn; on the page all parts but texts are folded below their labels."""

    kind: str  # text, thinking, call, result, image or other
    text: str
    label: str = ""
    error: bool = False
    result: TurnPart | None = None  # the result of a call
    line: int = 0  # its line in the log; a result stands on another line than its call


@dataclass(slots=True)
class SessionTurn:
    """The content of one line of a log, prepared for display."""

    line: int
    role: str  # user, assistant, tool, system; or started, ended, renamed, summary, damaged
    time: str
    parts: list[TurnPart] = field(default_factory=list)
    model: str = ""
    aside: bool = False  # written by the agent's machinery, not by a person or model
    used: Used | None = None


def read_turns(lines: Iterable[Line]) -> list[SessionTurn]:
    """Return a turn for each line with content; results are put with their calls, usage with its answer."""
    turns: list[SessionTurn] = []
    calls: dict[str, TurnPart] = {}
    for line in lines:
        event = line.event
        if isinstance(event, Used):
            if turns and turns[-1].role == "assistant":
                turns[-1].used = event
            continue
        turn = _read(line, calls)
        if turn is not None and turn.parts:
            turns.append(turn)
    return turns


def _read(line: Line, calls: dict[str, TurnPart]) -> SessionTurn | None:
    event = line.event
    if isinstance(event, TornLine):
        text = f"{event.size:,} bytes cannot be read: {event.why}"
        return SessionTurn(line.number, "damaged", "", [TurnPart("text", text)])
    if isinstance(event, MessageEvent):
        message = event.message
        return SessionTurn(
            line.number,
            str(message.role),
            message.time or event.time,
            [*_parts(message, calls, line.number)],
            message.model,
            is_aside(message),
        )
    if isinstance(event, Started):
        text = f"in {event.cwd or 'a folder that was not named'}"
    elif isinstance(event, Ended):
        text = event.why or "without a reason"
    elif isinstance(event, Renamed):
        text = event.name
    elif isinstance(event, Summary | Compacted):
        text = event.text
    else:
        return None
    role = "summary" if isinstance(event, Summary | Compacted) else event.kind
    return SessionTurn(line.number, role, event.time, [TurnPart("text", text)])


def _parts(message: Message, calls: dict[str, TurnPart], line: int) -> Iterator[TurnPart]:
    for part in message.parts:
        turn_part = _part(part)
        turn_part.line = line
        if isinstance(part, ToolCall):
            calls[part.id] = turn_part
        elif isinstance(part, ToolResult):
            turn_part.error = part.error
            call = calls.get(part.id)
            if call is not None and call.result is None:
                call.result = turn_part
                continue
        if turn_part.text.strip() or turn_part.kind != "text":
            yield turn_part


def _part(part: Part) -> TurnPart:
    if isinstance(part, Text):
        return TurnPart("text", part.text)
    return TurnPart(_KINDS.get(type(part), "other"), content_text(part), label(part))
