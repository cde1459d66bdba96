"""OpenClaw, once Clawdbot, and pi: their transcripts, and OpenClaw's workspace of Markdown.

Transcripts: `~/.openclaw/agents/<agent>/sessions/*.jsonl` and `~/.pi/agent/sessions/<folder>/*.jsonl`.
A header line, then entries that form a tree by `id` and `parentId`. The conversation is the branch that
ends at the last entry; messages of the branches that were left come out too, in their place, with `left` in
`extra`. An entry whose parent is missing, because its line is torn, goes on from the entry before it.
Version 1 files have no ids and are read as they stand. Finding the branch takes one more pass, and sixteen
bytes for each line.

Read as messages: `message` entries (a `bashExecution`, which a person ran, as the user's words). Flagged:
`compaction` and `branch_summary` entries, and the same as roles (`summary`), `custom_message` entries,
which an extension wrote (`meta`). Told: the header, and the name in `session_info`. Left out: changes of
model and of thinking level, labels, extensions' own state (`custom`).

Memory: `memory/<day>.md` becomes the journal, `MEMORY.md` the pinned one, who the agent is and how it works
`context.md`, whom it serves `profile.md`; all else below `memory/` becomes records.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent, TranscriptFormat
from vademecum.agents.memories import date_in, fronted, reference, titled
from vademecum.knowledge.intake import NotesPiece, SectionPiece, Skipped
from vademecum.store import pinned
from vademecum.text import fences
from vademecum.transcripts import LEFT, META, SUMMARY, Message, Role, Text, ToolResult
from vademecum.transcripts.reading import (
    FactsSoFar,
    Fragment,
    JsonLine,
    TranscriptUsage,
    Unread,
    amount,
    count,
    first_records,
    joined,
    lines,
    mapping,
    moment,
    parts_of,
    result_parts,
    text,
    unseen,
    without,
)
from vademecum.types import Entry, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memories import FileTree, Importing, TextFile
    from vademecum.knowledge.intake import Piece
    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.reading import Found, Seen, Stream

_SILENT = frozenset(
    {"model_change", "thinking_level_change", "label", "custom", "leaf", "active_tools_change"}
)
_SUMMARIES = frozenset({"compaction", "branch_summary"})
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "toolResult": Role.TOOL}
_KNOWN = ("type", "id", "timestamp", "message", "content", "summary")
_KNOWN_INSIDE = "role content model usage timestamp toolCallId toolName isError details summary".split()

_DOCUMENTS = {
    "memory.md": pinned.MEMORY,
    "soul.md": pinned.CONTEXT,
    "agents.md": pinned.CONTEXT,
    "tools.md": pinned.CONTEXT,
    "identity.md": pinned.CONTEXT,
    "user.md": pinned.PROFILE,
}
_ITS_OWN = {"heartbeat.md", "bootstrap.md", "boot.md", "dreams.md"}
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:-([^/]+))?\.md")
_CUT = re.compile(r"^## ", re.MULTILINE)
# 14:15, 2:15 PM, 9 pm, and the zone behind it; `9:00-10:00` is from one time to another, and no offset.
_TIME = re.compile(
    r"(?<![\d:.+-])(?:(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
    r"(?:\s?(?P<half>[ap])\.?m\b\.?)?|(?P<whole>0?[1-9]|1[0-2])\s?(?P<side>[ap])\.?m\b\.?)"
    r"(?:\s?(?:(?P<zone>UTC|GMT|Z)\b)?(?P<offset>(?:(?<=UTC)|(?<=GMT))[+-]\d\d?(?::?\d\d)?\b|\+\d\d:?\d\d\b)?)",
    re.IGNORECASE,
)


def recognises(head: bytes, path: Path) -> bool:
    """By its header, or by the parents of its entries."""
    return path.suffix == ".jsonl" and any(
        (record.get("type") == "session" and isinstance(record.get("id"), str))
        or (record.get("type") == "message" and "parentId" in record)
        for record in first_records(head)
    )


def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
    """Everything in a file, in order."""
    return joined(_pieces(path, seen))


def _pieces(path: Path, seen: Seen) -> Stream:
    telling = FactsSoFar()
    left = _left(path)
    for line in lines(path, seen):
        if isinstance(line, Unread):
            yield line
            continue
        for each in _entry(line, telling):
            if isinstance(each, Fragment) and line.number < len(left) and left[line.number]:
                extra = {**each.message.extra, LEFT: True}
                yield each._replace(message=each.message._replace(extra=extra))
            else:
                yield each


def _left(path: Path) -> bytearray:
    """For each line, whether it is an entry on a branch that was left."""
    ids, parents = array("q", [0]), array("q", [0])  # by line number, as hashes; 0 is none
    for line in lines(path):
        if isinstance(line, JsonLine) and line.value.get("type") != "session":
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


def _entry(line: JsonLine, telling: FactsSoFar) -> Stream:
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
        yield Fragment(
            _made(value, Role.SYSTEM, parts_of(text(value.get("summary"))), {SUMMARY: kind}), size=line.size
        )
    elif kind == "custom_message":
        flag = {META: text(value.get("customType")) or kind}
        yield Fragment(_made(value, Role.USER, parts_of(value.get("content")), flag), size=line.size)
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


def _message(line: JsonLine, telling: FactsSoFar) -> Stream:
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
    yield Fragment(message, answer, _usage(inner, message), line.size)


def _result(inner: dict[str, Json]) -> ToolResult:
    return ToolResult(
        text(inner.get("toolCallId")),
        result_parts(inner.get("content")),
        text(inner.get("toolName")),
        error=inner.get("isError") is True,
        extra=without({"details": inner.get("details")}, ()),
    )


def _usage(inner: dict[str, Json], message: Message) -> TranscriptUsage | None:
    counted = mapping(inner.get("usage"))
    cached = count(counted.get("cacheRead"))
    given = count(counted.get("input")) + cached + count(counted.get("cacheWrite"))
    output = count(counted.get("output"))
    cost = amount(mapping(counted.get("cost")).get("total"))
    if not (given or output or cost):
        return None
    return TranscriptUsage(
        given,
        output,
        cached,
        count(counted.get("totalTokens")) or given + output,
        cost,
        message.model,
        message.time,
    )


# -------------------------------------------------------------------- what it remembers


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every piece of it, and how much beside it is none."""
    top = _workspace(tree.names())
    if top is None:
        return
    others: dict[str, int] = {}
    for name in tree.names():
        own = name.removeprefix(top)
        wanted = name.startswith(top) and own.endswith((".md", ".markdown"))
        if not wanted:
            continue
        if own.startswith("memory/") or "/" not in own:
            yield from _piece(tree, name, own)
        else:
            folder = own.partition("/")[0]
            others[folder] = others.get(folder, 0) + 1
    for folder, number in sorted(others.items()):
        yield Skipped(f"{folder}/", f"no part of its memory: {number} of its files are Markdown")


def _piece(tree: FileTree, name: str, own: str) -> Iterator[Piece]:
    last = own.lower()
    if "/" not in own and last not in _DOCUMENTS:
        why = "instructions for its own schedule" if last in _ITS_OWN else "no part of its memory"
        yield Skipped(own, why)
        return
    file = tree.read(name)
    if isinstance(file, Skipped):
        yield file
        return
    if last in _DOCUMENTS:
        part = fronted(file)
        yield (
            part
            if isinstance(part, Skipped)
            else SectionPiece(own, _DOCUMENTS[last], part.body, Scope.GLOBAL, part.front)
        )
        return
    day = _DAY.fullmatch(own.removeprefix("memory/"))
    if day:
        yield NotesPiece(own, day[1], tuple(entries_of_day(day[1], file.text)), Scope.GLOBAL, day[2] or "")
    else:
        yield _topic(file, own)


def _topic(file: TextFile, own: str) -> Piece:
    part = fronted(file)
    if isinstance(part, Skipped):
        return part
    key = own.removeprefix("memory/").rpartition(".")[0].replace("/", " ")
    when = date_in(own) or file.changed
    return reference(own, key, part.body, Scope.GLOBAL, when=when, front=part.front)


def _workspace(names: list[str]) -> str | None:
    """The folder of the workspace, with a slash behind it: the nearest one that looks like it."""
    found = []
    for name in names:
        folder, _, last = name.rpartition("/")
        if last.lower() in _DOCUMENTS and not folder.endswith("memory"):
            found.append(f"{folder}/" if folder else "")
        elif _DAY.fullmatch(last) and (folder == "memory" or folder.endswith("/memory")):
            found.append(folder.removesuffix("memory"))
    return min(found, key=lambda each: (each.count("/"), each), default=None)


def entries_of_day(day: str, text: str) -> Iterator[Entry]:
    """The sections of a day, each under the time its heading names, or else that of the one before."""
    cuts = [match.start() for match in _CUT.finditer(fences.blank(text))]
    time = day
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        section = text[start:end]
        if start == 0:
            title, rest = titled(section)
            section = rest if title.strip("# ") == day else section
        if not section.strip():
            continue
        named = _TIME.search(section.split("\n", 1)[0])
        if named:
            time = f"{day}T{_clock(named)}"
        yield Entry(section, time)


def _clock(named: re.Match[str]) -> str:
    """The time of a heading as it stands in a stamp: by twenty-four hours, with the zone it names."""
    half = (named["half"] or named["side"] or "").lower()
    hour = int(named["hour"] or named["whole"])
    if half and hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02}:{named['minute'] or '00'}:{named['second'] or '00'}{_zone(named)}"


def _zone(named: re.Match[str]) -> str:
    if not named["offset"]:
        return "Z" if named["zone"] else ""
    sign, digits = named["offset"][0], named["offset"][1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "00")
    return f"{sign}{int(hours):02}:{minutes}"


AGENT = Agent(
    "openclaw",
    transcripts=TranscriptFormat(
        "openclaw",
        {
            ".openclaw/agents": "*/sessions/*.jsonl",
            ".clawdbot/agents": "*/sessions/*.jsonl",
            ".pi/agent/sessions": "**/*.jsonl",
        },
        recognises,
        read,
        rank=3,
    ),
    memories=memories,
)
