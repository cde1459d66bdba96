"""What Claude Code leaves on disk: its transcripts, its instructions, and what it noted itself.

Transcripts: `~/.claude/projects/<folder>/<session>.jsonl`, and its subagents' files below.
Each line is one block of a message. The lines of one answer share `message.id` and repeat its usage, which
only the last of them has in full: they come out as one message, and the usage once. A line with results and
with words of the user comes out as two.

Read as messages: `user` and `assistant` lines. Flagged in `extra`: lines with `isMeta` and the output of
local commands (`meta`), those of subagents, on `isSidechain` lines or inside `progress` lines (`side`,
without usage in the latter: the subagent's own file has it), the summary that follows a compaction
(`summary`), the boundary itself and other `system` lines that have words (`meta`), words typed ahead in
`queue-operation` lines and `attachment` lines (`meta`; what was sent stands in the conversation too). A
`toolUseResult` is carried in the `extra` of its result, without the strings that the result has itself.

Told: the session, its folder, model and first time; `summary`, `custom-title` and `ai-title` lines as the
title, of which a title that a person gave stays. Left out: the other `progress` lines (hooks, running
commands), requests as they were sent, file history, hook summaries, durations and other `system` lines
without words, settings of the session.

Memory: what is always loaded, `CLAUDE.md`, becomes `context.md`; its notes below `projects/<folder>/memory/`
and what is loaded only in some folder become records.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents.memories import fronted, key_of, reference, text_of, titled, unmarked, words_of
from vademecum.knowledge import lessons
from vademecum.knowledge.intake import SectionPiece, Skipped, TopicPiece
from vademecum.store import pinned
from vademecum.transcripts import (
    META,
    NOTHING,
    SIDE,
    SUMMARY,
    Message,
    Opaque,
    Role,
    Text,
    ToolResult,
)
from vademecum.transcripts.reading import (
    FactsSoFar,
    Fragment,
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
    text,
    unseen,
    without,
)
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vademecum.agents.memories import FileTree, Fronted, Importing, TextFile
    from vademecum.knowledge.intake import Piece
    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.reading import Found, JsonLine, Seen, Stream

_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_SPOKEN = frozenset({"user", "assistant"})
_KINDS = _SPOKEN | frozenset(_TITLES) | frozenset({"system", "progress", "queue-operation", "attachment"})
_SILENT = frozenset(
    "file-history-snapshot last-prompt permission-mode agent-name agent-color agent-setting mode tag "
    "pr-link task-summary worktree-state content-replacement attribution-snapshot marble-origami- "
    "commit marble-origami-snapshot bridge-session speculation-accept started result api-request "
    "api-request-shape api-request-blob tools-used cost-state atis-latch".split()
)
_MACHINE = (
    "<local-command-",
    "<command-name>",
    "<command-message>",
    "<bash-stdout>",
    "<bash-stderr>",
    "Caveat: ",
)

# SessionFacts of the session, or kept elsewhere in the message.
_KNOWN = (
    "type uuid timestamp message cwd sessionId session_id version userType gitBranch slug isSidechain "
    "isMeta agentId isCompactSummary isVisibleInTranscriptOnly toolUseResult costUSD entrypoint"
).split()
_KNOWN_INSIDE = ("role", "content", "id", "model", "type", "usage")

_ALWAYS = ("CLAUDE.md", "CLAUDE.local.md")
_TYPES = ("user", "feedback", "project", "reference")
_LINK = re.compile(r"[-*] .*\]\((?:\./)?([^)\s]+\.md)\).*")


def recognises(head: bytes, path: Path) -> bool:
    """By the ids on its lines."""
    return path.suffix == ".jsonl" and any(
        text(record.get("type")) in _KINDS | _SILENT
        and any(isinstance(record.get(name), str) for name in ("sessionId", "uuid", "leafUuid", "messageId"))
        for record in first_records(head)
    )


def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
    """Everything in a file, in order."""
    return joined(_pieces(path, seen))


def _pieces(path: Path, seen: Seen) -> Stream:
    telling = FactsSoFar()
    named = False
    for line in lines(path, seen):
        if isinstance(line, Unread):
            yield line
            continue
        value, kind = line.value, text(line.value.get("type"))
        if kind in _TITLES:
            named = named or kind == "custom-title"
            if kind == "custom-title" or not named:
                yield from telling.tell(title=text(value.get(_TITLES[kind])))
            continue
        yield from telling.tell(
            id=text(value.get("sessionId")),
            folder=text(value.get("cwd")),
            created=moment(value.get("timestamp")),
            model=_model(value),
        )
        if kind in _SPOKEN:
            yield from _spoken(line, telling["folder"])
        elif kind in _KINDS:
            yield from _aside(line, kind)
        elif kind not in _SILENT:
            yield Unread(line.number, f"an unknown kind of line: {kind or 'none'}")


def _model(value: dict[str, Json]) -> str:
    model = text(mapping(value.get("message")).get("model"))
    return "" if model.startswith("<") or value.get("isSidechain") else model


def _spoken(line: JsonLine, folder: str) -> Stream:
    value = line.value
    if not isinstance(value.get("message"), dict):
        yield Unread(line.number, f"a {value.get('type')} line without a message")
        return
    cwd = text(value.get("cwd"))
    moved = {"cwd": cwd} if cwd and cwd != folder else {}
    yield from _read(value, size=line.size, more=moved)


def _read(
    value: dict[str, Json], *, size: int, side: Json = None, more: Mapping[str, Json] = NOTHING
) -> Stream:
    """The pieces of a line: one, or the results it brings and what the user said meanwhile."""
    whole = _piece(value, size=size, side=side, more=more)
    runs = [
        tuple(run) for _, run in groupby(whole.message.parts, key=lambda part: isinstance(part, ToolResult))
    ]
    if whole.message.role is Role.ASSISTANT or len(runs) < 2:
        yield whole
        return
    for number, run in enumerate(runs):
        one = whole.message._replace(role=_role(run, answered=False), parts=run)
        yield Fragment(one._replace(id=f"{one.id}:{number}") if number and one.id else one, size=size)


def _piece(value: dict[str, Json], *, size: int, side: Json, more: Mapping[str, Json]) -> Fragment:
    inner = mapping(value.get("message"))
    answered = value.get("type") == "assistant"
    parts = parts_of(inner.get("content"))
    if not answered:
        parts = _with_more(parts, value.get("toolUseResult"))
    message = Message(
        _role(parts, answered=answered),
        parts,
        id=text(value.get("uuid")),
        time=moment(value.get("timestamp")),
        model=text(inner.get("model")),
        extra={
            **without(inner, _KNOWN_INSIDE),
            **without(value, _KNOWN),
            **_flags(value, inner, parts, side),
            **more,
        },
    )
    if not answered:
        return Fragment(message, size=size)
    return Fragment(message, text(inner.get("id")), None if side else _usage(value, inner), size)


def _role(parts: tuple[Part, ...], *, answered: bool) -> Role:
    if answered:
        return Role.ASSISTANT
    return Role.TOOL if parts and all(isinstance(part, ToolResult) for part in parts) else Role.USER


def _flags(
    value: dict[str, Json], inner: dict[str, Json], parts: tuple[Part, ...], side: Json
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if isinstance(inner.get("id"), str):
        found["message_id"] = inner["id"]
    if side or value.get("isSidechain") is True:
        found[SIDE] = side or text(value.get("agentId")) or True
    if value.get("isCompactSummary") is True:
        found[SUMMARY] = True
    elif value.get("isMeta") is True:
        found[META] = "isMeta"
    elif value.get("type") == "user" and _machine_made(parts):
        found[META] = "command"
    if value.get("isApiErrorMessage") is True:
        found[META] = "error"
    if isinstance(value.get("timestamp"), str) and not moment(value["timestamp"]):
        found["time"] = value["timestamp"]
    return found


def _machine_made(parts: tuple[Part, ...]) -> bool:
    return bool(parts) and isinstance(parts[0], Text) and parts[0].text.lstrip().startswith(_MACHINE)


def _with_more(parts: tuple[Part, ...], more: Json) -> tuple[Part, ...]:
    """The results with what else Claude Code kept of them; only a lone one can be meant."""
    results = [part for part in parts if isinstance(part, ToolResult)]
    if len(results) != 1 or not isinstance(more, dict):
        return parts
    words = results[0].text
    kept = {name: each for name, each in more.items() if not (isinstance(each, str) and each in words)}
    if not kept:
        return parts
    extra = {**results[0].extra, "toolUseResult": kept}
    return tuple(part._replace(extra=extra) if isinstance(part, ToolResult) else part for part in parts)


def _usage(value: dict[str, Json], inner: dict[str, Json]) -> TranscriptUsage | None:
    counted = mapping(inner.get("usage"))
    cached = count(counted.get("cache_read_input_tokens"))
    given = count(counted.get("input_tokens")) + count(counted.get("cache_creation_input_tokens")) + cached
    output = count(counted.get("output_tokens"))
    cost = amount(value.get("costUSD"))
    if not (given or output or cost):
        return None
    return TranscriptUsage(
        given, output, cached, given + output, cost, text(inner.get("model")), moment(value.get("timestamp"))
    )


def _aside(line: JsonLine, kind: str) -> Stream:
    """Lines beside the conversation that hold somebody's words."""
    value = line.value
    if kind == "progress":
        inner = mapping(value.get("data"))
        said = mapping(inner.get("message"))
        if text(said.get("type")) in _SPOKEN and isinstance(said.get("message"), dict):
            yield from _read(said, size=line.size, side=text(inner.get("agentId")) or True)
        return
    parts: tuple[Part, ...] = ()
    role = Role.SYSTEM
    if kind == "system":
        parts = parts_of(text(value.get("content")))
    elif kind == "queue-operation":
        role, parts = Role.USER, parts_of(text(value.get("content")))
    elif kind == "attachment":
        attached = mapping(value.get("attachment"))
        words = text(attached.get("prompt"))
        parts = (Text(words, without(attached, ("prompt",))),) if words else (Opaque(attached),)
    if not parts:
        return
    extra = {**without(value, (*_KNOWN, "content", "attachment")), META: text(value.get("subtype")) or kind}
    if value.get("isSidechain") is True:
        extra[SIDE] = text(value.get("agentId")) or True
    yield Fragment(
        Message(role, parts, id=text(value.get("uuid")), time=moment(value.get("timestamp")), extra=extra),
        size=line.size,
    )


# -------------------------------------------------------------------- what it remembers


class _Noted(NamedTuple):
    project: str  # the folder, as it is written there
    at: int  # where on the path that stands
    own: str  # the path below it


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every piece of it."""
    for name in tree.names():
        parts, given = tree.whole(name)
        noted = _noted(parts)
        if not name.endswith(".md"):
            continue
        if noted is not None:
            yield _note(tree, name, noted, noted.at < given, here)
        elif parts[-1] in _ALWAYS or _is_rule(parts):
            yield _instructions(tree, name)


def _instructions(tree: FileTree, name: str) -> Piece:
    """What is loaded always is context; what is loaded in one folder of a project is a record."""
    file = tree.read(name)
    if isinstance(file, Skipped):
        return file
    part = fronted(file)
    if isinstance(part, Skipped):
        return part
    text = unmarked(part.body)
    if not text.strip():
        return Skipped(name, "it contains only what a memory tool wrote")
    folder = re.sub(r"(^|/)(?:\.claude(?:/rules(?:/.*)?)?|rules(?:/.*)?)$", "", name.rpartition("/")[0])
    scope = Scope.PROJECT if folder or not _is_a_persons(tree, name) else Scope.GLOBAL
    if any(words_of(part.values.get("paths"))):
        return _rule(file, part, text.strip(), scope)
    if not folder:
        return SectionPiece(name.removeprefix(".claude/"), pinned.CONTEXT, text, scope, part.front)
    return reference(name, key_of(name), text, Scope.PROJECT, when=file.changed, front=part.front)


def _rule(file: TextFile, part: Fronted, text: str, scope: Scope) -> Piece:
    """What is loaded for some paths alone is a rule for these, and would be a wrong one for all others."""
    title, _ = titled(text)
    holds_for = ", ".join(" ".join(each.split()) for each in words_of(part.values["paths"]) if each)
    words = lessons.render(RecordType.RULE, {"path": holds_for, "rule": text})
    return TopicPiece(
        file.name,
        key_of(file.name).removeprefix(".claude "),
        (Entry(words, file.changed),),
        scope,
        named=False,
        type=RecordType.RULE,
        title=title,
        front=part.front,
        without=("type",),
    )


def _note(tree: FileTree, name: str, noted: _Noted, asked: bool, here: Importing) -> Piece:
    """A note of one project; those of others are left, unless their folder was named."""
    own = "" if here.root is None else re.sub(r"[^A-Za-z0-9]", "-", str(here.root))
    if not asked and not here.scoped and noted.project != own:
        why = f"it belongs to the project in {noted.project}: import it in that folder, or with --scope"
        return Skipped(name, why)
    file = tree.read(name)
    if isinstance(file, Skipped):
        return file
    return _index(tree, file) if noted.own == "MEMORY.md" else _topic(file, noted.own)


def _index(tree: FileTree, file: TextFile) -> Piece:
    lines = [line.strip() for line in file.text.split("\n") if line.strip()]
    beside = file.name.rpartition("/")[0]
    listed = [_LINK.fullmatch(line) for line in lines if not line.startswith("#")]
    known = set(tree.names())
    if all(each and f"{beside}/{each[1]}".removeprefix("/") in known for each in listed):
        return Skipped(file.name, "a listing of the files next to it")
    return SectionPiece("memory/MEMORY.md", pinned.CONTEXT, unmarked(file.text), Scope.PROJECT)


def _topic(file: TextFile, own: str) -> Piece:
    part = fronted(file)
    if isinstance(part, Skipped):
        return part
    about = part.values.get("metadata")
    told = part.values.get("type") or (about.get("type") if isinstance(about, dict) else None)
    kind = text_of(told)
    return TopicPiece(
        f"memory/{own}",
        text_of(part.values.get("name")) or key_of(own),
        (Entry(part.body, file.changed),),
        Scope.PROJECT,
        named=False,
        type=kind if kind in _TYPES else RecordType.PROJECT,
        title=text_of(part.values.get("name")),
        front=part.front,
        without=() if kind in _TYPES else ("type",),
    )


def _is_rule(parts: list[str]) -> bool:
    """Whether a file lies below `.claude/rules/`, however deep."""
    return any(parts[at : at + 2] == [".claude", "rules"] for at in range(len(parts) - 2))


def _noted(parts: list[str]) -> _Noted | None:
    """Whose note a file is, by its path: `projects/<folder>/memory/…`, or what is left of it."""
    for at in range(len(parts) - 3):
        if parts[at] == "projects" and parts[at + 2] == "memory":
            return _Noted(parts[at + 1], at + 1, "/".join(parts[at + 3 :]))
    return None


def _is_a_persons(tree: FileTree, name: str) -> bool:
    """Whether a `.claude` folder is a person's and not a project's: there the notes of projects are."""
    top = ".claude/" if name.startswith(".claude/") else ""
    inside = bool(top) or tree.top.name == ".claude"
    return inside and (
        any(each.startswith(f"{top}projects/") for each in tree.names())
        or (tree.top / top).resolve() == (Path.home() / ".claude").resolve()
    )
