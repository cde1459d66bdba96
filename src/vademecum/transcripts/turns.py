"""Lines of a session as a page shows them: who said what, each result with its call, and what a call took.

Knows events; what is cut, folded or linked is for whoever draws them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vademecum.transcripts import Image, Text, Thinking, ToolCall, ToolResult, is_aside
from vademecum.transcripts.events import Compacted, Ended, Renamed, Said, Started, Summary, Torn, Used
from vademecum.transcripts.export import inside, label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.transcripts import Message, Part
    from vademecum.transcripts.log import Line

_KINDS: dict[type, str] = {Thinking: "thinking", ToolCall: "call", ToolResult: "result", Image: "image"}


@dataclass(slots=True)
class TurnPart:
    """A piece of a turn; all but a text is folded below its label."""

    kind: str  # text, thinking, call, result, image or other
    text: str
    label: str = ""
    error: bool = False
    result: TurnPart | None = None  # of a call
    line: int = 0  # where it stands: a result on another than its call


@dataclass(slots=True)
class SessionTurn:
    """What one line of a log says."""

    line: int
    role: str  # user, assistant, tool, system; or started, ended, renamed, summary, damaged
    time: str
    parts: list[TurnPart] = field(default_factory=list)
    model: str = ""
    aside: bool = False  # nobody said it: the agent's machinery did
    used: Used | None = None


def read_turns(lines: Iterable[Line]) -> list[SessionTurn]:
    """The lines that say something; a result is put with its call, and usage with the answer before it."""
    found: list[SessionTurn] = []
    calls: dict[str, TurnPart] = {}
    for line in lines:
        event = line.event
        if isinstance(event, Used):
            if found and found[-1].role == "assistant":
                found[-1].used = event
            continue
        turn = _read(line, calls)
        if turn is not None and turn.parts:
            found.append(turn)
    return found


def _read(line: Line, calls: dict[str, TurnPart]) -> SessionTurn | None:
    event = line.event
    if isinstance(event, Torn):
        said = f"{event.size:,} bytes cannot be read: {event.why}"
        return SessionTurn(line.number, "damaged", "", [TurnPart("text", said)])
    if isinstance(event, Said):
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
        made = _part(part)
        made.line = line
        if isinstance(part, ToolCall):
            calls[part.id] = made
        elif isinstance(part, ToolResult):
            made.error = part.error
            call = calls.get(part.id)
            if call is not None and call.result is None:
                call.result = made
                continue
        if made.text.strip() or made.kind != "text":
            yield made


def _part(part: Part) -> TurnPart:
    if isinstance(part, Text):
        return TurnPart("text", part.text)
    return TurnPart(_KINDS.get(type(part), "other"), inside(part), label(part))
