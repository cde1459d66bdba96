"""Windsurf's transcripts: `~/.windsurf/transcripts/ID.jsonl`, a step of the conversation on each line.

A step has a `type`, and its content under a key of this name: `user_input` has the prompt, `planner_response`
the model's text, and any other step, such as `code_action`, is a tool that the model used, with its result.
Windsurf says that the content of a step may change, so an unknown step becomes a tool call with the whole
content. A line has no time, and the file's name is the session's id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import Message, Opaque, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.foreign import (
    NewFacts,
    Unread,
    as_text,
    first_records,
    ignore_progress,
    lines,
    mapping,
    result_parts,
    text,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json
    from vademecum.transcripts.foreign import FileItem, OnBytes

_SPOKEN = {
    "user_input": (Role.USER, "user_response"),
    "planner_response": (Role.ASSISTANT, "response"),
}
# the names that Windsurf's hooks and transcripts have for the parts of a tool call
_NAMES, _ARGUMENTS = ("tool_name", "mcp_tool_name"), ("arguments", "mcp_tool_arguments")
_RESULTS = ("result", "mcp_result")


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file's first line is a step: a type, with content under a key of this name."""
    first = next(iter(first_records(head, most=1)), {})
    kind = text(first.get("type"))
    return path.suffix == ".jsonl" and bool(kind) and isinstance(first.get(kind), dict) and "status" in first


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a transcript, in order: messages and session facts."""
    yield from NewFacts().add(id=path.stem)
    for line in lines(path, on_bytes):
        if isinstance(line, Unread):
            yield line
        elif text(line.value.get("type")):
            yield from _step(line.value, line.number)
        else:
            yield Unread(line.number, "not a step of a conversation")


def _step(value: dict[str, Json], number: int) -> Iterator[Message]:
    kind = text(value.get("type"))
    content = mapping(value.get(kind))
    extra = without(value, ("type", "status", kind))
    if kind in _SPOKEN:
        role, name = _SPOKEN[kind]
        words, more = text(content.get(name)), without(content, (name,))
        if words or more:
            yield Message(role, (Text(words),) if words else (Opaque(more),), extra={**extra, **more})
        return
    name = _first(content, _NAMES) or kind
    arguments = _first(content, _ARGUMENTS) or without(content, (*_NAMES, *_RESULTS))
    call = ToolCall(f"step-{number}", text(name), as_text(arguments), extra)
    yield Message(Role.ASSISTANT, (call,))
    yield Message(Role.TOOL, (ToolResult(call.id, result_parts(_first(content, _RESULTS)), call.name),))


def _first(content: dict[str, Json], names: tuple[str, ...]) -> Json:
    return next((content[name] for name in names if content.get(name)), None)
