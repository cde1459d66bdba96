"""A session of opencode in the format of `opencode export`: one JSON object with `info` and `messages`.

opencode keeps its sessions in its own database; our plugin exports a session when a turn ends. A message has
parts: text, reasoning, and tools with their results, which become a message of their own. Flagged are texts
that nobody typed (`meta`), and the answer that a compaction put in place of the history (`summary`). Steps,
snapshots and patches are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import META, SUMMARY, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
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

_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch", "compaction", "retry"})
_KNOWN = "id sessionID role time modelID tokens cost parentID path summary".split()
_OVER = ("completed", "error")


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file begins as an exported session, with opencode's ids."""
    begin = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return path.suffix == ".json" and begin.startswith(b"{") and b'"info"' in begin and b'"ses_' in begin


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in an exported session, in order: messages and session facts."""
    value, problems = document(path)
    info = mapping(mapping(value).get("info"))
    facts = NewFacts()
    yield from facts.add(
        id=text(info.get("id")),
        folder=text(info.get("directory")),
        title=_title(text(info.get("title"))),
        created=moment(mapping(info.get("time")).get("created")),
    )
    for each in as_list(mapping(value).get("messages")):
        if isinstance(each, dict):
            about = mapping(each.get("info"))
            yield from facts.add(model=text(about.get("modelID")))
            yield from _message(about, [mapping(part) for part in as_list(each.get("parts"))])
        else:
            yield Unread(0, "a message that is not an object")
    yield from problems


def _title(raw: str) -> str:
    """Return the session's title; empty for opencode's default title."""
    return "" if raw.startswith("New session") else raw


def _message(info: dict[str, Json], parts: list[dict[str, Json]]) -> Iterator[FileItem]:
    role = Role.ASSISTANT if info.get("role") == "assistant" else Role.USER
    spoken_parts = tuple(part for each in parts for part in _part(each))
    results = tuple(_result(each) for each in parts if _is_over(each))
    id, time, model = text(info.get("id")), moment(mapping(info.get("time")).get("created")), ""
    extra = without(info, _KNOWN)
    if role is Role.ASSISTANT:
        model = text(info.get("modelID"))
        extra |= {SUMMARY: True} if info.get("summary") is True else {}
    elif parts and all(each.get("synthetic") is True or each.get("type") in _SILENT for each in parts):
        extra[META] = "synthetic"
    if spoken_parts:
        yield Message(role, spoken_parts, id=id, time=time, model=model, extra=extra)
    yield from _usage(info, model, time)
    if results:
        yield Message(Role.TOOL, results, id=f"{id}:results" if id else "", time=time)


def _part(value: dict[str, Json]) -> Iterator[Part]:
    kind = text(value.get("type"))
    if kind == "text":
        yield Text(text(value.get("text")))
    elif kind == "reasoning":
        yield Thinking(text(value.get("text")))
    elif kind == "tool":
        raw = mapping(value.get("state")).get("input")
        yield ToolCall(text(value.get("callID")), text(value.get("tool")), as_text(raw))
    elif kind not in _SILENT:
        yield Opaque(value)


def _is_over(value: dict[str, Json]) -> bool:
    return value.get("type") == "tool" and mapping(value.get("state")).get("status") in _OVER


def _result(value: dict[str, Json]) -> ToolResult:
    state = mapping(value.get("state"))
    failed = state.get("status") == "error"
    content = result_parts(as_text(state.get("error" if failed else "output")))
    return ToolResult(text(value.get("callID")), content, text(value.get("tool")), failed)


def _usage(info: dict[str, Json], model: str, time: str) -> Iterator[TranscriptUsage]:
    counted = mapping(info.get("tokens"))
    cache = mapping(counted.get("cache"))
    cached = count(cache.get("read"))
    prompt_tokens = count(counted.get("input")) + cached + count(cache.get("write"))
    output = count(counted.get("output")) + count(counted.get("reasoning"))
    if prompt_tokens or output:
        cost = amount(info.get("cost"))
        yield TranscriptUsage(prompt_tokens, output, cached, prompt_tokens + output, cost, model, time)
