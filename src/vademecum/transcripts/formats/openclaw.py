"""OpenClaw and pi: `~/.openclaw/agents/<agent>/sessions/*.jsonl` and `~/.pi/agent/sessions/<folder>/*.jsonl`.

A header line, then entries that form a tree by `id` and `parentId`. The conversation is the branch that
ends at the last entry; messages of the branches that were left come out too, in their place, with `left` in
`extra`. An entry whose parent is missing, because its line is torn, goes on from the entry before it.
Version 1 files have no ids and are read as they stand. Finding the branch takes one more pass, and sixteen
bytes for each line.

Read as messages: `message` entries (a `bashExecution`, which a person ran, as the user's words). Flagged:
`compaction` and `branch_summary` entries, and the same as roles (`summary`), `custom_message` entries,
which an extension wrote (`meta`). Told: the header, and the name in `session_info`. Left out: changes of
model and of thinking level, labels, extensions' own state (`custom`).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from vademecum.transcripts.formats.answers import Piece, joined
from vademecum.transcripts.formats.base import LEFT, META, SUMMARY, Told, Unread, Usage, unseen
from vademecum.transcripts.formats.blocks import parts_of, result_parts
from vademecum.transcripts.formats.lines import Line, first_records, lines
from vademecum.transcripts.formats.values import Telling, amount, count, mapping, moment, text, without
from vademecum.transcripts.messages import Message, Role, Text, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts.formats.base import Seen
    from vademecum.transcripts.formats.values import Found
    from vademecum.transcripts.messages import Json, Part

    Stream = Iterator[Piece | Usage | Told | Unread]

_SILENT = frozenset(
    {"model_change", "thinking_level_change", "label", "custom", "leaf", "active_tools_change"}
)
_SUMMARIES = frozenset({"compaction", "branch_summary"})
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "toolResult": Role.TOOL}
_KNOWN = ("type", "id", "timestamp", "message", "content", "summary")
_KNOWN_INSIDE = (
    "role",
    "content",
    "model",
    "usage",
    "timestamp",
    "toolCallId",
    "toolName",
    "isError",
    "details",
    "summary",
)


class OpenClaw:
    """OpenClaw's and pi's transcripts."""

    name = "openclaw"

    def folders(self, home: Path) -> Iterator[Path]:
        """Where they are kept; Clawdbot is OpenClaw's older name."""
        for name in (".openclaw", ".clawdbot"):
            yield home / name / "agents"
        yield home / ".pi" / "agent" / "sessions"

    def files(self, folder: Path) -> Iterator[Path]:
        """Every session of every agent."""
        yield from sorted(folder.glob("*/sessions/*.jsonl" if folder.name == "agents" else "**/*.jsonl"))

    def recognises(self, head: bytes, path: Path) -> bool:
        """By its header, or by the parents of its entries."""
        return path.suffix == ".jsonl" and any(
            (record.get("type") == "session" and isinstance(record.get("id"), str))
            or (record.get("type") == "message" and "parentId" in record)
            for record in first_records(head)
        )

    def read(self, path: Path, seen: Seen = unseen) -> Iterator[Found]:
        """Everything in a file, in order."""
        return joined(_pieces(path, seen))


def _pieces(path: Path, seen: Seen) -> Stream:
    telling = Telling()
    left = _left(path)
    for line in lines(path, seen):
        if isinstance(line, Unread):
            yield line
            continue
        for each in _entry(line, telling):
            if isinstance(each, Piece) and line.number < len(left) and left[line.number]:
                extra = {**each.message.extra, LEFT: True}
                yield each._replace(message=each.message._replace(extra=extra))
            else:
                yield each


def _left(path: Path) -> bytearray:
    """For each line, whether it is an entry on a branch that was left."""
    ids, parents = array("q", [0]), array("q", [0])  # by line number, as hashes; 0 is none
    for line in lines(path):
        if isinstance(line, Line) and line.value.get("type") != "session":
            missing = line.number - len(ids)
            ids.extend([0] * missing + [_hashed(line.value.get("id"))])
            parents.extend([0] * missing + [_hashed(line.value.get("parentId"))])
    left = bytearray(1 if each else 0 for each in ids)
    where: dict[int, int] = {}
    at = next((number for number in range(len(ids) - 1, 0, -1) if ids[number]), 0)
    while at:
        left[at] = 0
        parent, before = parents[at], at - 1
        while before and not ids[before]:
            before -= 1
        if not parent:
            break
        found = before
        if ids[before] != parent:
            where = where or {each: number for number, each in enumerate(ids) if each}
            found = where.get(parent, before)
        at = found if left[found] else 0  # what was passed already would lead in a circle
    return left


def _hashed(value: Json) -> int:
    return (hash(value) or 1) if isinstance(value, str) and value else 0


def _entry(line: Line, telling: Telling) -> Stream:
    value, kind = line.value, text(line.value.get("type"))
    if kind == "session":
        yield from telling.tell(
            id=text(value.get("id")),
            folder=text(value.get("cwd")),
            created=moment(value.get("timestamp")),
            model=text(value.get("modelId")),
        )
    elif kind == "message":
        yield from _message(line, telling)
    elif kind == "session_info":
        yield from telling.tell(title=text(value.get("name")))
    elif kind in _SUMMARIES:
        yield Piece(
            _made(value, Role.SYSTEM, parts_of(text(value.get("summary"))), {SUMMARY: kind}), size=line.size
        )
    elif kind == "custom_message":
        flag = {META: text(value.get("customType")) or kind}
        yield Piece(_made(value, Role.USER, parts_of(value.get("content")), flag), size=line.size)
    elif kind not in _SILENT:
        yield Unread(line.number, f"an unknown kind of line: {kind or 'none'}")


def _made(value: dict[str, Json], role: Role, parts: tuple[Part, ...], extra: dict[str, Json]) -> Message:
    return Message(
        role,
        parts,
        id=text(value.get("id")),
        time=moment(value.get("timestamp")),
        extra={**without(value, _KNOWN), **extra},
    )


def _message(line: Line, telling: Telling) -> Stream:
    value, inner = line.value, line.value.get("message")
    if not isinstance(inner, dict):
        yield Unread(line.number, "a message line without a message")
        return
    spoken = text(inner.get("role"))
    parts = parts_of(inner.get("content"))
    extra = without(inner, _KNOWN_INSIDE)
    role = _ROLES.get(spoken, Role.USER)
    if spoken == "toolResult":
        parts = (_result(inner),)
    elif spoken == "bashExecution":
        parts = (Text(f"! {text(inner.get('command'))}\n\n{text(inner.get('output'))}"),)
        extra = {**without(extra, ("command", "output")), "bash": True}
    elif spoken in ("branchSummary", "compactionSummary"):
        role, parts, extra = Role.SYSTEM, parts_of(text(inner.get("summary"))), {**extra, SUMMARY: spoken}
    elif spoken not in _ROLES:
        extra[META] = text(inner.get("customType")) or spoken or "unknown"
    message = _made(value, role, parts, extra)
    message = message._replace(
        time=message.time or moment(inner.get("timestamp")), model=text(inner.get("model"))
    )
    yield from telling.tell(model=message.model)
    # Each answer is whole on one line: its own id as the answer keeps it apart from its neighbours.
    answer = (message.id or f"line {line.number}") if role is Role.ASSISTANT else ""
    yield Piece(message, answer, _usage(inner, message), line.size)


def _result(inner: dict[str, Json]) -> ToolResult:
    return ToolResult(
        text(inner.get("toolCallId")),
        result_parts(inner.get("content")),
        text(inner.get("toolName")),
        error=inner.get("isError") is True,
        extra=without({"details": inner.get("details")}, ()),
    )


def _usage(inner: dict[str, Json], message: Message) -> Usage | None:
    counted = mapping(inner.get("usage"))
    cached = count(counted.get("cacheRead"))
    given = count(counted.get("input")) + cached + count(counted.get("cacheWrite"))
    output = count(counted.get("output"))
    cost = amount(mapping(counted.get("cost")).get("total"))
    if not (given or output or cost):
        return None
    return Usage(
        given,
        output,
        cached,
        count(counted.get("totalTokens")) or given + output,
        cost,
        message.model,
        message.time,
    )
