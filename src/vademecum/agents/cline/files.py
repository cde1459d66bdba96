"""Cline's sessions: `~/.cline/data/sessions/ID/ID.messages.json`, one JSON object with a list of messages.

A message has an id, a role, a time and content in the format of Anthropic's API. `ID.json` beside the file
has the session's folder, title and first time. Flagged are messages that Cline adds for the model alone, such
as the text of hooks (`meta`). The tag around a prompt is removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.transcripts import META, Message, Role, Text, ToolResult
from vademecum.transcripts.foreign import (
    NewFacts,
    TranscriptUsage,
    Unread,
    amount,
    as_list,
    count,
    document,
    ignore_progress,
    mapping,
    moment,
    parts_of,
    text,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, OnBytes

ENDING = ".messages.json"
_KNOWN = ("id", "role", "content", "ts", "modelInfo", "metrics", "metadata")
_PROMPT = re.compile(r"<user_input[^>]*>(.*)</user_input>", re.DOTALL)


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file has the name of a session's messages, and begins as such a file."""
    begin = head[:4096]
    return path.name.endswith(ENDING) and b'"sessionId"' in begin and b'"messages"' in begin


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a session, in order: messages and session facts."""
    value, problems = document(path)
    session, facts = mapping(value), NewFacts()
    manifest = _manifest(path)
    yield from facts.add(
        id=text(session.get("sessionId")),
        folder=text(manifest.get("cwd")) or text(manifest.get("workspace_root")),
        title=text(mapping(manifest.get("metadata")).get("title")),
        created=moment(manifest.get("started_at")),
    )
    for each in as_list(session.get("messages")):
        if isinstance(each, dict):
            yield from facts.add(model=_model(each))
            yield from _message(each)
        else:
            yield Unread(0, "a message that is not an object")
    yield from problems


def _manifest(path: Path) -> dict[str, Json]:
    """Return the facts in the file beside the messages; empty if it cannot be read."""
    try:
        return mapping(document(path.with_name(f"{path.name.removesuffix(ENDING)}.json"))[0])
    except OSError:
        return {}


def _model(value: dict[str, Json]) -> str:
    return text(mapping(value.get("modelInfo")).get("id"))


def _message(value: dict[str, Json]) -> Iterator[FileItem]:
    role = Role.ASSISTANT if value.get("role") == "assistant" else Role.USER
    content = parts_of(value.get("content"))
    results = tuple(_named(part) for part in content if isinstance(part, ToolResult))
    parts = tuple(_unwrapped(part) for part in content if not isinstance(part, ToolResult))
    id, time, model = text(value.get("id")), moment(value.get("ts")), _model(value)
    about, extra = mapping(value.get("metadata")), without(value, _KNOWN)
    if about.get("displayRole") == "system":
        extra[META] = "for the model"
    if parts or not results:
        yield Message(role, parts, id=id, time=time, model=model, extra=extra)
    yield from _usage(mapping(value.get("metrics")), model, time)
    if results:
        yield Message(Role.TOOL, results, id=f"{id}:results" if parts and id else id, time=time)


def _named(result: ToolResult) -> ToolResult:
    """Return a tool's result with the tool's name, which Cline adds to Anthropic's format."""
    return result._replace(name=text(result.extra.get("name")), extra=without(result.extra, ("name",)))


def _unwrapped(part: Part) -> Part:
    found = _PROMPT.fullmatch(part.text.strip()) if isinstance(part, Text) else None
    return part._replace(text=found[1]) if found and isinstance(part, Text) else part


def _usage(counted: dict[str, Json], model: str, time: str) -> Iterator[TranscriptUsage]:
    cached = count(counted.get("cacheReadTokens"))
    prompt_tokens, output = count(counted.get("inputTokens")), count(counted.get("outputTokens"))
    if prompt_tokens or output:
        cost = amount(counted.get("cost"))
        yield TranscriptUsage(prompt_tokens, output, cached, prompt_tokens + output, cost, model, time)
