"""Qwen Code's transcripts, `~/.qwen/projects/<folder>/chats/<session>.jsonl`.

Each line is a message with Google's parts, and with ids and a folder as in Claude Code's lines; tool results
are on lines of their own. Flagged in `extra` are messages not written by a person or model (`meta`, by their
`provenance`), and the summary that a compression put in place of the history (`summary`). The hook context
behind a prompt is moved to `extra` (`systemPayload`). The session facts are its id, folder, model, first time
and the title a person gave it. Telemetry, snapshots and other `system` lines without text are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import META, SIDE, SUMMARY, Message, Role, Text, ToolResult
from vademecum.transcripts.foreign import (
    Fragment,
    NewFacts,
    TranscriptUsage,
    Unread,
    as_list,
    count,
    first_records,
    ignore_progress,
    join_answers,
    lines,
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
    from vademecum.transcripts.foreign import FileItem, JsonLine, OnBytes, Stream

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool_result": Role.TOOL, "system": Role.SYSTEM}
_PERSON = frozenset({"", "real_user"})  # values of `provenance` for a user line that a person wrote
_HOOK_CONTEXT = "<qwen:user-prompt-submit-context>"  # begins the hook context, which is a part of its own
_KNOWN = "uuid timestamp type provenance cwd version sessionId model message usageMetadata gitBranch".split()


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file has ids as in Claude Code's lines, and Google's message parts."""
    return path.suffix == ".jsonl" and any(
        isinstance(record.get("sessionId"), str)
        and "uuid" in record
        and text(record.get("type")) in _ROLES
        and ("parts" in mapping(record.get("message")) or "systemPayload" in record)
        for record in first_records(head)
    )


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a transcript, in order: messages and session facts."""
    return join_answers(_pieces(path, on_bytes))


def _pieces(path: Path, on_bytes: OnBytes) -> Stream:
    facts = NewFacts()
    for line in lines(path, on_bytes):
        if isinstance(line, Unread):
            yield line
            continue
        value, kind = line.value, text(line.value.get("type"))
        payload = mapping(value.get("systemPayload"))
        yield from facts.add(
            id=text(value.get("sessionId")),
            folder=text(value.get("cwd")),
            created=moment(value.get("timestamp")),
            model=text(value.get("model")),
            title=text(payload.get("customTitle")),
        )
        if kind not in _ROLES:
            yield Unread(line.number, f"an unknown kind of line: {kind or 'none'}")
        elif kind == "system":
            yield from _summary(line, payload)
        else:
            yield from _read_message_line(line, _ROLES[kind])


def _summary(line: JsonLine, payload: dict[str, Json]) -> Stream:
    """Yield the summary of a compression: the first text of the new history."""
    if line.value.get("subtype") != "chat_compression":
        return
    for each in as_list(payload.get("compressedHistory"))[:2]:
        parts = tuple(part for part in parts_of(mapping(each).get("parts")) if isinstance(part, Text))
        if parts and mapping(each).get("role") == "user":
            yield Fragment(_message(line, Role.SYSTEM, parts, {SUMMARY: True}), size=line.size)
            return


def _read_message_line(line: JsonLine, role: Role) -> Stream:
    value = line.value
    extra = without(value, _KNOWN)
    who = text(value.get("provenance"))
    if role is Role.USER and who not in _PERSON:
        extra[META] = who
    if value.get("isSidechain") is True:
        extra[SIDE] = text(value.get("agentId")) or True
    parts = tuple(
        part for part in parts_of(mapping(value.get("message")).get("parts")) if _belongs_to(part, role)
    )
    if parts:
        yield Fragment(_message(line, role, parts, extra), usage=_usage(value), size=line.size)


def _belongs_to(part: Part, role: Role) -> bool:
    """Return whether a part fits the line's role: results only for tools, no hook context for a person."""
    if role is Role.TOOL:
        return isinstance(part, ToolResult)
    return not (role is Role.USER and isinstance(part, Text) and part.text.startswith(_HOOK_CONTEXT))


def _message(line: JsonLine, role: Role, parts: tuple[Json, ...], extra: dict[str, Json]) -> Message:
    value = line.value
    return Message(
        role,
        parts,
        id=text(value.get("uuid")),
        time=moment(value.get("timestamp")),
        model=text(value.get("model")),
        extra=extra,
    )


def _usage(value: dict[str, Json]) -> TranscriptUsage | None:
    counted = mapping(value.get("usageMetadata"))
    prompt_tokens = count(counted.get("promptTokenCount"))
    output = count(counted.get("candidatesTokenCount")) + count(counted.get("thoughtsTokenCount"))
    total = count(counted.get("totalTokenCount")) or prompt_tokens + output
    if not total:
        return None
    cached = count(counted.get("cachedContentTokenCount"))
    model, time = text(value.get("model")), moment(value.get("timestamp"))
    return TranscriptUsage(prompt_tokens, output, cached, total, model=model, time=time)
