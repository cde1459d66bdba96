"""OpenClaw, formerly Clawdbot, and pi: their transcripts, and OpenClaw's workspace of Markdown.

Transcripts are `~/.openclaw/agents/<agent>/sessions/*.jsonl` and `~/.pi/agent/sessions/<folder>/*.jsonl`: a
header line, then entries that form a tree by `id` and `parentId`. The conversation is the branch that ends at
the last entry. Messages of abandoned branches are yielded in their place too, with `left` in `extra`. An
entry whose parent is missing, because its line is damaged, follows the entry before it. Version 1 files have
no ids and are read line by line. Finding the branch takes another pass, and sixteen bytes for each line.

`message` entries are messages; a `bashExecution`, which a person ran, becomes a user message. Flagged are
`compaction` and `branch_summary` entries and roles (`summary`), and `custom_message` entries, which an
extension wrote (`meta`). The session facts are those of the header, and the name in `session_info`. Changes
of model and thinking level, labels, and extensions' own state (`custom`) are left out.

Memory: `memory/<day>.md` becomes the journal, `MEMORY.md` the pinned document, the files about the agent
`context.md`, and the file about its user `profile.md`; other files below `memory/` become records.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent, Environment, TranscriptFormat
from vademecum.agents.memory_files import date_in, reference, split_frontmatter, split_title
from vademecum.knowledge import NotesPiece, SectionPiece, Skipped
from vademecum.text import fences, filenames
from vademecum.transcripts import LEFT, META, SUMMARY, Message, Role, Text, ToolResult
from vademecum.transcripts.foreign import (
    Fragment,
    JsonLine,
    NewFacts,
    TranscriptUsage,
    Unread,
    amount,
    count,
    first_records,
    ignore_progress,
    join_answers,
    lines,
    mapping,
    moment,
    parts_of,
    result_parts,
    text,
    without,
)
from vademecum.types import Entry, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memory_files import FileTree, Importing, TextFile
    from vademecum.knowledge import Piece
    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, OnBytes, Stream

_SILENT = frozenset(
    {"model_change", "thinking_level_change", "label", "custom", "leaf", "active_tools_change"}
)
_SUMMARIES = frozenset({"compaction", "branch_summary"})
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "toolResult": Role.TOOL}
_KNOWN = ("type", "id", "timestamp", "message", "content", "summary")
_KNOWN_INSIDE = "role content model usage timestamp toolCallId toolName isError details summary".split()

_DOCUMENTS = {
    "memory.md": filenames.MEMORY,
    "soul.md": filenames.CONTEXT,
    "agents.md": filenames.CONTEXT,
    "tools.md": filenames.CONTEXT,
    "identity.md": filenames.CONTEXT,
    "user.md": filenames.PROFILE,
}
_SCHEDULE_FILES = {"heartbeat.md", "bootstrap.md", "boot.md", "dreams.md"}
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:-([^/]+))?\.md")
_CUT = re.compile(r"^## ", re.MULTILINE)
# 14:15, 2:15 PM, 9 pm, and a zone behind it; in `9:00-10:00` the second part is a time, not an offset.
_TIME = re.compile(
    r"(?<![\d:.+-])(?:(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
    r"(?:\s?(?P<half>[ap])\.?m\b\.?)?|(?P<whole>0?[1-9]|1[0-2])\s?(?P<side>[ap])\.?m\b\.?)"
    r"(?:\s?(?:(?P<zone>UTC|GMT|Z)\b)?(?P<offset>(?:(?<=UTC)|(?<=GMT))[+-]\d\d?(?::?\d\d)?\b|\+\d\d:?\d\d\b)?)",
    re.IGNORECASE,
)


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file has OpenClaw's header, or entries with parents."""
    return path.suffix == ".jsonl" and any(
        (record.get("type") == "session" and isinstance(record.get("id"), str))
        or (record.get("type") == "message" and "parentId" in record)
        for record in first_records(head)
    )


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a transcript, in order: messages and session facts."""
    return join_answers(_pieces(path, on_bytes))


def _pieces(path: Path, on_bytes: OnBytes) -> Stream:
    facts = NewFacts()
    abandoned = _abandoned_lines(path)
    for line in lines(path, on_bytes):
        if isinstance(line, Unread):
            yield line
            continue
        for each in _entry(line, facts):
            if isinstance(each, Fragment) and line.number < len(abandoned) and abandoned[line.number]:
                extra = {**each.message.extra, LEFT: True}
                yield each._replace(message=each.message._replace(extra=extra))
            else:
                yield each


def _abandoned_lines(path: Path) -> bytearray:
    """Return for each line whether it holds an entry on an abandoned branch."""
    ids, parents = array("q", [0]), array("q", [0])  # by line number, as hashes; 0 means none
    for line in lines(path):
        if isinstance(line, JsonLine) and line.value.get("type") != "session":
            missing = line.number - len(ids)
            ids.extend([0] * missing + [_hashed(line.value.get("id"))])
            parents.extend([0] * missing + [_hashed(line.value.get("parentId"))])
    abandoned = bytearray(1 if each else 0 for each in ids)
    line_of_id: dict[int, int] = {}
    at = next((number for number in range(len(ids) - 1, 0, -1) if ids[number]), 0)
    while at:
        abandoned[at] = 0
        parent, before = parents[at], at - 1
        while before and not ids[before]:
            before -= 1
        if not parent:
            break
        found = before
        if ids[before] != parent:
            line_of_id = line_of_id or {each: number for number, each in enumerate(ids) if each}
            found = line_of_id.get(parent, before)
        at = found if abandoned[found] else 0  # an entry that was visited already would lead in a circle
    return abandoned


def _hashed(value: Json) -> int:
    return (hash(value) or 1) if isinstance(value, str) and value else 0


def _entry(line: JsonLine, facts: NewFacts) -> Stream:
    value, kind = line.value, text(line.value.get("type"))
    if kind == "session":
        yield from facts.add(
            id=text(value.get("id")),
            folder=text(value.get("cwd")),
            created=moment(value.get("timestamp")),
            model=text(value.get("modelId")),
        )
    elif kind == "message":
        yield from _message(line, facts)
    elif kind == "session_info":
        yield from facts.add(title=text(value.get("name")))
    elif kind in _SUMMARIES:
        yield Fragment(
            _make_message(value, Role.SYSTEM, parts_of(text(value.get("summary"))), {SUMMARY: kind}),
            size=line.size,
        )
    elif kind == "custom_message":
        flag = {META: text(value.get("customType")) or kind}
        yield Fragment(_make_message(value, Role.USER, parts_of(value.get("content")), flag), size=line.size)
    elif kind not in _SILENT:
        yield Unread(line.number, f"an unknown kind of line: {kind or 'none'}")


def _make_message(
    value: dict[str, Json], role: Role, parts: tuple[Part, ...], extra: dict[str, Json]
) -> Message:
    return Message(
        role,
        parts,
        id=text(value.get("id")),
        time=moment(value.get("timestamp")),
        extra={**without(value, _KNOWN), **extra},
    )


def _message(line: JsonLine, facts: NewFacts) -> Stream:
    value, inner = line.value, line.value.get("message")
    if not isinstance(inner, dict):
        yield Unread(line.number, "a message line without a message")
        return
    raw_role = text(inner.get("role"))
    parts = parts_of(inner.get("content"))
    extra = without(inner, _KNOWN_INSIDE)
    role = _ROLES.get(raw_role, Role.USER)
    if raw_role == "toolResult":
        parts = (_result(inner),)
    elif raw_role == "bashExecution":
        parts = (Text(f"! {text(inner.get('command'))}\n\n{text(inner.get('output'))}"),)
        extra = {**without(extra, ("command", "output")), "bash": True}
    elif raw_role in ("branchSummary", "compactionSummary"):
        role, parts, extra = Role.SYSTEM, parts_of(text(inner.get("summary"))), {**extra, SUMMARY: raw_role}
    elif raw_role not in _ROLES:
        extra[META] = text(inner.get("customType")) or raw_role or "unknown"
    message = _make_message(value, role, parts, extra)
    message = message._replace(
        time=message.time or moment(inner.get("timestamp")), model=text(inner.get("model"))
    )
    yield from facts.add(model=message.model)
    # An answer is on one line, so its own id separates it from its neighbours.
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
    prompt_tokens = count(counted.get("input")) + cached + count(counted.get("cacheWrite"))
    output = count(counted.get("output"))
    cost = amount(mapping(counted.get("cost")).get("total"))
    if not (prompt_tokens or output or cost):
        return None
    return TranscriptUsage(
        prompt_tokens,
        output,
        cached,
        count(counted.get("totalTokens")) or prompt_tokens + output,
        cost,
        message.model,
        message.time,
    )


# -------------------------------------------------------------------- memories


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every piece of OpenClaw's memory, and the number of files that are not read."""
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
        why = "instructions for its own schedule" if last in _SCHEDULE_FILES else "no part of its memory"
        yield Skipped(own, why)
        return
    file = tree.read(name)
    if isinstance(file, Skipped):
        yield file
        return
    if last in _DOCUMENTS:
        part = split_frontmatter(file)
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
    part = split_frontmatter(file)
    if isinstance(part, Skipped):
        return part
    key = own.removeprefix("memory/").rpartition(".")[0].replace("/", " ")
    when = date_in(own) or file.changed
    return reference(own, key, part.body, Scope.GLOBAL, when=when, front=part.front)


def _workspace(names: list[str]) -> str | None:
    """Return the workspace folder with a trailing slash: the topmost folder that looks like a workspace."""
    found = []
    for name in names:
        folder, _, last = name.rpartition("/")
        if last.lower() in _DOCUMENTS and not folder.endswith("memory"):
            found.append(f"{folder}/" if folder else "")
        elif _DAY.fullmatch(last) and (folder == "memory" or folder.endswith("/memory")):
            found.append(folder.removesuffix("memory"))
    return min(found, key=lambda each: (each.count("/"), each), default=None)


def entries_of_day(day: str, text: str) -> Iterator[Entry]:
    """Yield the sections of a day, each with its heading's time, else the previous section's time."""
    cuts = [match.start() for match in _CUT.finditer(fences.blank(text))]
    time = day
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        section = text[start:end]
        if start == 0:
            title, rest = split_title(section)
            section = rest if title.strip("# ") == day else section
        if not section.strip():
            continue
        heading_time = _TIME.search(section.split("\n", 1)[0])
        if heading_time:
            time = f"{day}T{_clock(heading_time)}"
        yield Entry(section, time)


def _clock(heading_time: re.Match[str]) -> str:
    """Return the time in a heading as part of a stamp: with 24 hours, and with its zone."""
    half = (heading_time["half"] or heading_time["side"] or "").lower()
    hour = int(heading_time["hour"] or heading_time["whole"])
    if half and hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02}:{heading_time['minute'] or '00'}:{heading_time['second'] or '00'}{_zone(heading_time)}"


def _zone(heading_time: re.Match[str]) -> str:
    if not heading_time["offset"]:
        return "Z" if heading_time["zone"] else ""
    sign, digits = heading_time["offset"][0], heading_time["offset"][1:].replace(":", "")
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
    environment=Environment("OpenClaw", ("OPENCLAW_SHELL",)),
)
