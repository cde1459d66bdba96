"""Claude Code's files: transcripts, instructions, and its own notes.

Transcripts are `~/.claude/projects/<folder>/<session>.jsonl`, and subagents' files below. Each line is one
block of a message. The lines of one answer share `message.id` and repeat its usage, which is complete only on
the last line: they become one message, with its usage once. A line with results and user text becomes two
messages.

`user` and `assistant` lines are messages. Flagged in `extra` are: lines with `isMeta` and output of local
commands (`meta`); lines of subagents, on `isSidechain` lines or inside `progress` lines (`side`, the latter
without usage, which the subagent's own file has); the summary after a compaction (`summary`); the boundary
itself and other `system` lines with text (`meta`); text typed ahead in `queue-operation` lines, and
`attachment` lines (`meta`; the sent text is in the conversation too). A `toolUseResult` is stored in the
`extra` of its result, without strings that the result holds already.

The session facts are its id, folder, branch, the checkout of its worktree, model and first time, and its
title from `summary`, `custom-title` and `ai-title` lines; a title that a person gave is never replaced. Left
out are the other `progress` lines (hooks, running commands), raw requests, file history, hook summaries,
durations, other `system` lines without text, and settings.

Memory: `CLAUDE.md`, which is always loaded, becomes `context.md`; notes below `projects/<folder>/memory/` and
files that are loaded only in some folder become records.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents.memory_files import (
    key_of,
    reference,
    remove_memory_blocks,
    split_frontmatter,
    split_title,
    text_of,
    word_list,
)
from vademecum.knowledge import SectionPiece, Skipped, TopicPiece, lessons
from vademecum.text import filenames
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
from vademecum.transcripts.foreign import (
    Fragment,
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
    text,
    without,
)
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vademecum.agents.memory_files import FileTree, FrontmatterFile, Importing, TextFile
    from vademecum.knowledge import Piece
    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, JsonLine, OnBytes, Stream

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

# Facts about the session, and fields that the message holds elsewhere.
_KNOWN = (
    "type uuid timestamp message cwd sessionId session_id version userType gitBranch slug isSidechain "
    "isMeta agentId isCompactSummary isVisibleInTranscriptOnly toolUseResult costUSD entrypoint"
).split()
_KNOWN_INSIDE = ("role", "content", "id", "model", "type", "usage")

_ALWAYS = ("CLAUDE.md", "CLAUDE.local.md")
_TYPES = ("user", "feedback", "project", "reference")
_LINK = re.compile(r"[-*] .*\]\((?:\./)?([^)\s]+\.md)\).*")


def recognises(head: bytes, path: Path) -> bool:
    """Return whether the beginning of a file has the ids of Claude Code's lines."""
    return path.suffix == ".jsonl" and any(
        text(record.get("type")) in _KINDS | _SILENT
        and any(isinstance(record.get(name), str) for name in ("sessionId", "uuid", "leafUuid", "messageId"))
        for record in first_records(head)
    )


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a transcript, in order: messages and session facts."""
    return join_answers(_pieces(path, on_bytes))


def _pieces(path: Path, on_bytes: OnBytes) -> Stream:
    facts = NewFacts()
    has_custom_title = False
    for line in lines(path, on_bytes):
        if isinstance(line, Unread):
            yield line
            continue
        value, kind = line.value, text(line.value.get("type"))
        if kind in _TITLES:
            has_custom_title = has_custom_title or kind == "custom-title"
            if kind == "custom-title" or not has_custom_title:
                yield from facts.add(title=text(value.get(_TITLES[kind])))
            continue
        yield from facts.add(
            id=text(value.get("sessionId")),
            folder=text(value.get("cwd")),
            created=moment(value.get("timestamp")),
            model=_model(value),
            branch=text(value.get("gitBranch")),
            checkout=text(mapping(value.get("worktreeSession")).get("originalCwd")),
        )
        if kind in _SPOKEN:
            yield from _read_message_line(line, facts["folder"])
        elif kind in _KINDS:
            yield from _read_other_line(line, kind)
        elif kind not in _SILENT:
            yield Unread(line.number, f"an unknown kind of line: {kind or 'none'}")


def _model(value: dict[str, Json]) -> str:
    model = text(mapping(value.get("message")).get("model"))
    return "" if model.startswith("<") or value.get("isSidechain") else model


def _read_message_line(line: JsonLine, folder: str) -> Stream:
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
    """Yield the messages in a line: one, or separate ones for tool results and for the user's text."""
    whole = _piece(value, size=size, side=side, more=more)
    runs = [
        tuple(run) for _, run in groupby(whole.message.parts, key=lambda part: isinstance(part, ToolResult))
    ]
    if whole.message.role is Role.ASSISTANT or len(runs) < 2:
        yield whole
        return
    for number, run in enumerate(runs):
        one = whole.message._replace(role=_role(run, is_answer=False), parts=run)
        yield Fragment(one._replace(id=f"{one.id}:{number}") if number and one.id else one, size=size)


def _piece(value: dict[str, Json], *, size: int, side: Json, more: Mapping[str, Json]) -> Fragment:
    inner = mapping(value.get("message"))
    is_answer = value.get("type") == "assistant"
    parts = parts_of(inner.get("content"))
    if not is_answer:
        parts = _with_tool_data(parts, value.get("toolUseResult"))
    message = Message(
        _role(parts, is_answer=is_answer),
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
    if not is_answer:
        return Fragment(message, size=size)
    return Fragment(message, text(inner.get("id")), None if side else _usage(value, inner), size)


def _role(parts: tuple[Part, ...], *, is_answer: bool) -> Role:
    if is_answer:
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


def _with_tool_data(parts: tuple[Part, ...], more: Json) -> tuple[Part, ...]:
    """Return the parts with a line's `toolUseResult` added to the result.

    Without a result, or with several, the parts stay unchanged.
    """
    results = [part for part in parts if isinstance(part, ToolResult)]
    if len(results) != 1 or not isinstance(more, dict):
        return parts
    words = results[0].text
    other_data = {name: each for name, each in more.items() if not (isinstance(each, str) and each in words)}
    if not other_data:
        return parts
    extra = {**results[0].extra, "toolUseResult": other_data}
    return tuple(part._replace(extra=extra) if isinstance(part, ToolResult) else part for part in parts)


def _usage(value: dict[str, Json], inner: dict[str, Json]) -> TranscriptUsage | None:
    counted = mapping(inner.get("usage"))
    cached = count(counted.get("cache_read_input_tokens"))
    prompt_tokens = (
        count(counted.get("input_tokens")) + count(counted.get("cache_creation_input_tokens")) + cached
    )
    output = count(counted.get("output_tokens"))
    cost = amount(value.get("costUSD"))
    if not (prompt_tokens or output or cost):
        return None
    return TranscriptUsage(
        prompt_tokens,
        output,
        cached,
        prompt_tokens + output,
        cost,
        text(inner.get("model")),
        moment(value.get("timestamp")),
    )


def _read_other_line(line: JsonLine, kind: str) -> Stream:
    """Yield messages from lines outside the conversation."""
    value = line.value
    if kind == "progress":
        inner = mapping(value.get("data"))
        progress_message = mapping(inner.get("message"))
        if text(progress_message.get("type")) in _SPOKEN and isinstance(
            progress_message.get("message"), dict
        ):
            yield from _read(progress_message, size=line.size, side=text(inner.get("agentId")) or True)
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


# -------------------------------------------------------------------- memories


class _NotePath(NamedTuple):
    project: str  # the name of the project's folder below `projects`
    at: int  # the index of that name in the path
    own: str  # the path below it


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every piece of Claude Code's memory: instructions and notes."""
    for name in tree.names():
        parts, depth = tree.full_path(name)
        note_path = _note_path(parts)
        if not name.endswith(".md"):
            continue
        if note_path is not None:
            yield _note(tree, name, note_path, note_path.at < depth, here)
        elif parts[-1] in _ALWAYS or _is_rule(parts):
            yield _instructions(tree, name)


def _instructions(tree: FileTree, name: str) -> Piece:
    """Return an instruction file as `context.md` if it is always loaded, else as a record for its folder."""
    file = tree.read(name)
    if isinstance(file, Skipped):
        return file
    part = split_frontmatter(file)
    if isinstance(part, Skipped):
        return part
    text = remove_memory_blocks(part.body)
    if not text.strip():
        return Skipped(name, "it contains only what a memory tool wrote")
    folder = re.sub(r"(^|/)(?:\.claude(?:/rules(?:/.*)?)?|rules(?:/.*)?)$", "", name.rpartition("/")[0])
    scope = Scope.PROJECT if folder or not _is_personal(tree, name) else Scope.GLOBAL
    if any(word_list(part.values.get("paths"))):
        return _rule(file, part, text.strip(), scope)
    if not folder:
        return SectionPiece(name.removeprefix(".claude/"), filenames.CONTEXT, text, scope, part.front)
    return reference(name, key_of(name), text, Scope.PROJECT, when=file.changed, front=part.front)


def _rule(file: TextFile, part: FrontmatterFile, text: str, scope: Scope) -> Piece:
    """Return instructions for certain paths as a rule record that applies only to these paths."""
    title, _ = split_title(text)
    holds_for = ", ".join(" ".join(each.split()) for each in word_list(part.values["paths"]) if each)
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


def _note(tree: FileTree, name: str, note_path: _NotePath, was_named: bool, here: Importing) -> Piece:
    """Return a note of this project as a record; skip notes of other projects that the user did not name."""
    own = "" if here.root is None else re.sub(r"[^A-Za-z0-9]", "-", str(here.root))
    if not was_named and not here.scoped and note_path.project != own:
        why = f"it belongs to the project in {note_path.project}: import it in that folder, or with --scope"
        return Skipped(name, why)
    file = tree.read(name)
    if isinstance(file, Skipped):
        return file
    return _index(tree, file) if note_path.own == "MEMORY.md" else _topic(file, note_path.own)


def _index(tree: FileTree, file: TextFile) -> Piece:
    lines = [line.strip() for line in file.text.split("\n") if line.strip()]
    folder = file.name.rpartition("/")[0]
    links = [_LINK.fullmatch(line) for line in lines if not line.startswith("#")]
    known = set(tree.names())
    if all(each and f"{folder}/{each[1]}".removeprefix("/") in known for each in links):
        return Skipped(file.name, "a listing of the files next to it")
    return SectionPiece("memory/MEMORY.md", filenames.CONTEXT, remove_memory_blocks(file.text), Scope.PROJECT)


def _topic(file: TextFile, own: str) -> Piece:
    part = split_frontmatter(file)
    if isinstance(part, Skipped):
        return part
    about = part.values.get("metadata")
    type_name = part.values.get("type") or (about.get("type") if isinstance(about, dict) else None)
    kind = text_of(type_name)
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
    """Return whether a file lies below `.claude/rules/`, at any depth."""
    return any(parts[at : at + 2] == [".claude", "rules"] for at in range(len(parts) - 2))


def _note_path(parts: list[str]) -> _NotePath | None:
    """Return project and name of a note at `projects/<folder>/memory/…`; None for other files."""
    for at in range(len(parts) - 3):
        if parts[at] == "projects" and parts[at + 2] == "memory":
            return _NotePath(parts[at + 1], at + 1, "/".join(parts[at + 3 :]))
    return None


def _is_personal(tree: FileTree, name: str) -> bool:
    """Return whether a `.claude` folder is a person's (with notes on projects) rather than a project's."""
    top = ".claude/" if name.startswith(".claude/") else ""
    inside = bool(top) or tree.top.name == ".claude"
    return inside and (
        any(each.startswith(f"{top}projects/") for each in tree.names())
        or (tree.top / top).resolve() == (Path.home() / ".claude").resolve()
    )
