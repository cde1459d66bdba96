"""A session of opencode as `opencode export` writes it: one JSON object with `info` and `messages`.

opencode keeps its sessions in a database of its own; our plugin writes each one out like this when a turn
ends. A message has parts: words, thoughts, and tools with their results, which come out as a message of
their own. Flagged: words that nobody typed (`meta`), and the answer that a compaction put in place of the
history (`summary`). Left out: steps, snapshots and patches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import META, SUMMARY, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.reading import (
    FactsSoFar,
    TranscriptUsage,
    Unread,
    amount,
    count,
    document,
    listed,
    mapping,
    moment,
    result_parts,
    text,
    unseen,
    without,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.reading import Found, Seen

_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch", "compaction", "retry"})
_KNOWN = "id sessionID role time modelID tokens cost parentID path summary".split()
_OVER = ("completed", "error")


def recognises(head: bytes, path: Path) -> bool:
    """By how the object begins, and the ids that sessions have."""
    begin = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return path.suffix == ".json" and begin.startswith(b"{") and b'"info"' in begin and b'"ses_' in begin


def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
    """Everything in a file, in order."""
    value, problems = document(path)
    info = mapping(mapping(value).get("info"))
    telling = FactsSoFar()
    yield from telling.tell(
        id=text(info.get("id")),
        folder=text(info.get("directory")),
        title=_title(text(info.get("title"))),
        created=moment(mapping(info.get("time")).get("created")),
    )
    for each in listed(mapping(value).get("messages")):
        if isinstance(each, dict):
            about = mapping(each.get("info"))
            yield from telling.tell(model=text(about.get("modelID")))
            yield from _message(about, [mapping(part) for part in listed(each.get("parts"))])
        else:
            yield Unread(0, "a message that is not an object")
    yield from problems


def _title(given: str) -> str:
    """What the session is called; until it has a name, it is called new."""
    return "" if given.startswith("New session") else given


def _message(info: dict[str, Json], parts: list[dict[str, Json]]) -> Iterator[Found]:
    role = Role.ASSISTANT if info.get("role") == "assistant" else Role.USER
    said = tuple(part for each in parts for part in _part(each))
    results = tuple(_result(each) for each in parts if _is_over(each))
    id, time, model = text(info.get("id")), moment(mapping(info.get("time")).get("created")), ""
    extra = without(info, _KNOWN)
    if role is Role.ASSISTANT:
        model = text(info.get("modelID"))
        extra |= {SUMMARY: True} if info.get("summary") is True else {}
    elif parts and all(each.get("synthetic") is True or each.get("type") in _SILENT for each in parts):
        extra[META] = "synthetic"
    if said:
        yield Message(role, said, id=id, time=time, model=model, extra=extra)
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
        given = mapping(value.get("state")).get("input")
        yield ToolCall(text(value.get("callID")), text(value.get("tool")), written(given))
    elif kind not in _SILENT:
        yield Opaque(value)


def _is_over(value: dict[str, Json]) -> bool:
    return value.get("type") == "tool" and mapping(value.get("state")).get("status") in _OVER


def _result(value: dict[str, Json]) -> ToolResult:
    state = mapping(value.get("state"))
    failed = state.get("status") == "error"
    content = result_parts(written(state.get("error" if failed else "output")))
    return ToolResult(text(value.get("callID")), content, text(value.get("tool")), failed)


def _usage(info: dict[str, Json], model: str, time: str) -> Iterator[TranscriptUsage]:
    counted = mapping(info.get("tokens"))
    cache = mapping(counted.get("cache"))
    cached = count(cache.get("read"))
    given = count(counted.get("input")) + cached + count(cache.get("write"))
    output = count(counted.get("output")) + count(counted.get("reasoning"))
    if given or output:
        cost = amount(info.get("cost"))
        yield TranscriptUsage(given, output, cached, given + output, cost, model, time)
