"""A session of goose in the format of `goose session export --format json`: one JSON object.

The object has the session's facts and `conversation`, a list of messages with a role and a list of contents:
text, thinking, tool requests and tool responses. Flagged are messages that goose adds for the model alone,
such as the time and the folder of each turn (`meta`), and the summary that a compaction put in place of
earlier messages (`summary`). Messages that a compaction hid from the model are still in the list, in their
place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import META, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.foreign import (
    NewFacts,
    TranscriptUsage,
    Unread,
    amount,
    as_list,
    as_text,
    count,
    document,
    ignore_progress,
    image_of,
    mapping,
    moment,
    result_parts,
    text,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, OnBytes

_KNOWN = ("id", "role", "created", "content", "metadata")
_KNOWN_ABOUT = ("userVisible", "agentVisible", "usage", "inference")
_REQUESTS = ("toolRequest", "frontendToolRequest")


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file begins as an exported session, with the folder and the kind of a session."""
    begin = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    known = b'"working_dir"' in begin and b'"session_type"' in begin
    return path.suffix == ".json" and begin.startswith(b"{") and known


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in an exported session, in order: messages and session facts."""
    value, problems = document(path)
    session = mapping(value)
    facts = NewFacts()
    yield from facts.add(
        id=text(session.get("id")),
        folder=text(session.get("working_dir")),
        title=text(session.get("name")),
        created=moment(session.get("created_at")),
    )
    for each in as_list(session.get("conversation")):
        if isinstance(each, dict):
            yield from facts.add(model=_model(mapping(each.get("metadata"))))
            yield from _message(each)
        else:
            yield Unread(0, "a message that is not an object")
    yield from problems


def _message(value: dict[str, Json]) -> Iterator[FileItem]:
    about = mapping(value.get("metadata"))
    contents = [mapping(each) for each in as_list(value.get("content"))]
    results = tuple(_result(each) for each in contents if each.get("type") == "toolResponse")
    parts = tuple(_part(each) for each in contents if each.get("type") != "toolResponse")
    role = Role.ASSISTANT if value.get("role") == "assistant" else Role.USER
    id, time, model = text(value.get("id")), moment(value.get("created")), _model(about)
    extra = without(value, _KNOWN) | without(about, _KNOWN_ABOUT)
    if about.get("userVisible") is False:
        extra[META] = "for the model"
    if parts:
        yield Message(
            role, parts, id=id, time=time, model=model if role is Role.ASSISTANT else "", extra=extra
        )
    yield from _usage(mapping(about.get("usage")), model, time)
    if results:
        yield Message(Role.TOOL, results, id=f"{id}:results" if parts and id else id, time=time)


def _model(about: dict[str, Json]) -> str:
    return text(mapping(about.get("inference")).get("requestedModel"))


def _part(value: dict[str, Json]) -> Part:
    kind = text(value.get("type"))
    if kind == "text":
        return Text(text(value.get("text")))
    if kind == "thinking":
        return Thinking(text(value.get("thinking")))
    if kind in _REQUESTS:
        call = mapping(mapping(value.get("toolCall")).get("value"))
        return ToolCall(text(value.get("id")), text(call.get("name")), as_text(call.get("arguments")))
    return (image_of(value) if kind == "image" else None) or Opaque(value)


def _result(value: dict[str, Json]) -> ToolResult:
    outcome = mapping(value.get("toolResult"))
    result = mapping(outcome.get("value"))
    failed = outcome.get("status") == "error" or result.get("isError") is True
    content = result_parts(result.get("content") or as_text(outcome.get("error")))
    return ToolResult(text(value.get("id")), content, "", failed)


def _usage(counted: dict[str, Json], model: str, time: str) -> Iterator[TranscriptUsage]:
    prompt_tokens, output = count(counted.get("inputTokens")), count(counted.get("outputTokens"))
    if prompt_tokens or output:
        total = count(counted.get("totalTokens")) or prompt_tokens + output
        cached, cost = count(counted.get("cacheReadInputTokens")), amount(counted.get("cost"))
        yield TranscriptUsage(prompt_tokens, output, cached, total, cost, model, time)
