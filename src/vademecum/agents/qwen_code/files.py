"""What Qwen Code leaves on disk: its transcripts, `~/.qwen/projects/<folder>/chats/<session>.jsonl`.

Each line is a message in Google's parts, with ids and a folder as Claude Code's lines have them; a tool's
results stand on lines of their own. Flagged in `extra`: what nobody said (`meta`, by its `provenance`), what
a compression left in place of the history (`summary`). What hooks told the agent behind a prompt is kept in
`extra` (`systemPayload`), out of what the person said. Told: the session, its folder, model, first time and
the title somebody gave it. Left out: telemetry, snapshots and other `system` lines without words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import META, SIDE, SUMMARY, Message, Role, Text, ToolResult
from vademecum.transcripts.reading import (
    FactsSoFar,
    Fragment,
    TranscriptUsage,
    Unread,
    count,
    first_records,
    joined,
    lines,
    listed,
    mapping,
    moment,
    parts_of,
    text,
    unseen,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.reading import Found, JsonLine, Seen, Stream

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool_result": Role.TOOL, "system": Role.SYSTEM}
_PERSON = frozenset({"", "real_user"})  # of a line of the user's, who else may have written it is told
_TOLD = "<qwen:user-prompt-submit-context>"  # a part of its own
_KNOWN = "uuid timestamp type provenance cwd version sessionId model message usageMetadata gitBranch".split()


def recognises(head: bytes, path: Path) -> bool:
    """By the ids of Claude Code's lines and the parts of Google's messages."""
    return path.suffix == ".jsonl" and any(
        isinstance(record.get("sessionId"), str)
        and "uuid" in record
        and text(record.get("type")) in _ROLES
        and ("parts" in mapping(record.get("message")) or "systemPayload" in record)
        for record in first_records(head)
    )


def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
    """Everything in a file, in order."""
    return joined(_pieces(path, seen))


def _pieces(path: Path, seen: Seen) -> Stream:
    telling = FactsSoFar()
    for line in lines(path, seen):
        if isinstance(line, Unread):
            yield line
            continue
        value, kind = line.value, text(line.value.get("type"))
        payload = mapping(value.get("systemPayload"))
        yield from telling.tell(
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
            yield from _spoken(line, _ROLES[kind])


def _summary(line: JsonLine, payload: dict[str, Json]) -> Stream:
    """What a compression put in place of the history: the first words of it are the summary."""
    if line.value.get("subtype") != "chat_compression":
        return
    for each in listed(payload.get("compressedHistory"))[:2]:
        parts = tuple(part for part in parts_of(mapping(each).get("parts")) if isinstance(part, Text))
        if parts and mapping(each).get("role") == "user":
            yield Fragment(_message(line, Role.SYSTEM, parts, {SUMMARY: True}), size=line.size)
            return


def _spoken(line: JsonLine, role: Role) -> Stream:
    value = line.value
    extra = without(value, _KNOWN)
    who = text(value.get("provenance"))
    if role is Role.USER and who not in _PERSON:
        extra[META] = who
    if value.get("isSidechain") is True:
        extra[SIDE] = text(value.get("agentId")) or True
    parts = tuple(part for part in parts_of(mapping(value.get("message")).get("parts")) if _is_of(part, role))
    if parts:
        yield Fragment(_message(line, role, parts, extra), usage=_usage(value), size=line.size)


def _is_of(part: Part, role: Role) -> bool:
    """Whether a part is a tool's where a tool speaks, and a person's own where a person does."""
    if role is Role.TOOL:
        return isinstance(part, ToolResult)
    return not (role is Role.USER and isinstance(part, Text) and part.text.startswith(_TOLD))


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
    given = count(counted.get("promptTokenCount"))
    output = count(counted.get("candidatesTokenCount")) + count(counted.get("thoughtsTokenCount"))
    total = count(counted.get("totalTokenCount")) or given + output
    if not total:
        return None
    cached = count(counted.get("cachedContentTokenCount"))
    model, time = text(value.get("model")), moment(value.get("timestamp"))
    return TranscriptUsage(given, output, cached, total, model=model, time=time)
