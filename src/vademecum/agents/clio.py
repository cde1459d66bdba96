"""CLIO: `.clio/` in a project, with its lessons, its notes by key, and its sessions.

Transcripts are in `.clio/sessions/<session>.json` of each project, or below `~/.clio`. A file is one JSON
object. `history` is the conversation as CLIO last had it in its window; `yarn` is the archive of all
messages, `stm` the short-term memory. The three overlap and are merged: messages that `history` has lost come
before those that followed them, with `archived` in `extra`. The messages are in OpenAI's format, with ids and
times.

The `<thread_summary>` that replaces trimmed messages is flagged (`summary`). The session facts are the file's
name, `session_name`, `working_directory`, `created_at` and the model. `billing.requests` are the usage; they
have no position among the messages and come at the end. Settings, quota and the last request are left out.

Memory: `ltm.json` becomes lessons, `memory/<key>.json` and `memory/*.md` become records, `profile.md` the
profile, and `sessions/*.json` transcripts.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import Agent, TranscriptFormat
from vademecum.agents.memory_files import stamp_of, text_of, word_list
from vademecum.errors import VadeError
from vademecum.knowledge import LessonsPiece, SectionPiece, Skipped, TopicPiece, TranscriptPiece, ltm
from vademecum.text import filenames
from vademecum.transcripts import SUMMARY, Role
from vademecum.transcripts.foreign import (
    NewFacts,
    TranscriptUsage,
    Unread,
    as_list,
    chat_message,
    count,
    document,
    ignore_progress,
    mapping,
    moment,
    text,
)
from vademecum.types import Entry, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memory_files import FileTree, Importing
    from vademecum.knowledge import Piece
    from vademecum.transcripts import Json
    from vademecum.transcripts.foreign import FileItem, OnBytes

_NOTE = ("key", "content", "timestamp", "tags")
_MARKS = (b'"yarn"', b'"stm"', b'"_stateful_markers"', b'"lastGitHubCopilotResponseId"')


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file has fields that only CLIO writes, in any order, or lies in CLIO's folder."""
    if path.suffix != ".json" or not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    in_folder = path.parent.name == "sessions" and ".clio" in path.parts
    return in_folder or any(mark in head for mark in _MARKS)


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a session file, in order: messages and session facts."""
    value, problems = document(path)
    session = mapping(value)
    billing = mapping(session.get("billing"))
    yield from NewFacts().add(
        id=text(session.get("session_id")) or path.stem,
        title=text(session.get("session_name")),
        folder=text(session.get("working_directory")),
        created=moment(session.get("created_at")),
        model=text(session.get("selected_model")) or text(billing.get("model")),
    )
    for message, archived in _merge_histories(as_list(session.get("history")), _archive(session)):
        yield (
            _read(message, archived=archived)
            if isinstance(message, dict)
            else Unread(0, "a message that is not an object")
        )
    for request in as_list(billing.get("requests")):
        yield from _usage(mapping(request))
    if not problems and not isinstance(value, dict):
        yield Unread(0, "not a session")
    yield from problems


def _archive(session: dict[str, Json]) -> list[Json]:
    """Return all messages of the archived threads, then those that only the short-term memory has."""
    messages: list[Json] = []
    threads = session.get("yarn")
    threads = mapping(mapping(threads).get("threads")) or threads
    for thread in threads.values() if isinstance(threads, dict) else as_list(threads):
        messages += as_list(thread) or as_list(mapping(thread).get("messages"))
    short = session.get("stm")
    short = as_list(short) or as_list(mapping(short).get("history"))
    known = {_key(each) for each in messages}
    return messages + [each for each in short if _key(each) not in known]


def _merge_histories(history: list[Json], archive: list[Json]) -> Iterator[tuple[Json, bool]]:
    """Yield each message of both lists in order, and whether only the archive has the message.

    A message that is in both lists is yielded once.
    """
    places: defaultdict[str, deque[int]] = defaultdict(deque)
    for at, message in enumerate(archive):
        places[_key(message)].append(at)
    shared = [places[_key(message)].popleft() if places.get(_key(message)) else -1 for message in history]
    shared_places = set(shared)
    next_archived = 0
    for message, at in zip(history, shared, strict=True):
        while next_archived < at:
            if next_archived not in shared_places:
                yield archive[next_archived], True
            next_archived += 1
        yield message, False
    for at in range(next_archived, len(archive)):
        if at not in shared_places:
            yield archive[at], True


def _key(message: Json) -> str:
    """Return a message's role, content and tool calls as a key, equal for copies of the same message.

    Ids and times are no part of the key, because the short-term memory lacks them.
    """
    value = mapping(message)
    return json.dumps(
        [value.get(name) for name in ("role", "content", "tool_call_id", "tool_calls")], sort_keys=True
    )


def _read(raw: dict[str, Json], *, archived: bool) -> FileItem:
    message = chat_message(raw)
    extra = dict(message.extra)
    if archived:
        extra["archived"] = True
    if message.role is Role.SYSTEM and "<thread_summary>" in message.text:
        extra[SUMMARY] = "thread_summary"
    return message._replace(extra=extra)


def _usage(request: dict[str, Json]) -> Iterator[TranscriptUsage]:
    prompt_tokens, output = count(request.get("prompt_tokens")), count(request.get("completion_tokens"))
    total = count(request.get("total_tokens")) or prompt_tokens + output
    model = text(request.get("model"))
    if total:
        model = "" if model == "unknown" else model
        yield TranscriptUsage(
            prompt_tokens, output, total=total, model=model, time=moment(request.get("timestamp"))
        )


# -------------------------------------------------------------------- memories


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every piece of CLIO's memory: lessons, records, profile and sessions."""
    inside = {name: _path_in_clio(name) for name in tree.names()}
    if not any(inside.values()):  # the user named the folder itself, or a file in it
        inside = {name: name for name in tree.names()}
    for name, own in inside.items():
        if own:
            yield from _piece(tree, name, own)


def _path_in_clio(name: str) -> str:
    """Return the part of a path from the `.clio` folder on; empty if the path has no such folder."""
    _, found, own = f"/{name}".partition("/.clio/")
    return own if found else ""


def _piece(tree: FileTree, name: str, own: str) -> Iterator[Piece]:
    folder, _, last = own.rpartition("/")
    if own == "ltm.json":
        yield _lessons(tree, name)
    elif own == "profile.md":
        file = tree.read(name)
        yield (
            file
            if isinstance(file, Skipped)
            else SectionPiece("profile.md", filenames.PROFILE, file.text, Scope.GLOBAL)
        )
    elif folder == "memory" and last.endswith(".json"):
        yield _note(tree, name, own)
    elif folder == "memory":
        file = tree.read(name)
        if isinstance(file, Skipped):
            yield file
        else:
            yield TopicPiece(own, last.removesuffix(".md"), (Entry(file.text, file.changed),), Scope.PROJECT)
    elif folder == "sessions":
        path = tree.top / name
        yield (
            TranscriptPiece(own, path)
            if path.is_file()
            else Skipped(own, "a session in an archive: unpack it, and import the folder")
        )
    else:
        yield Skipped(own, "not a file of CLIO's memory")


def _lessons(tree: FileTree, name: str) -> Piece:
    try:
        content = tree.content(name, largest=ltm.LARGEST)
        if not ltm.holds_anything(ltm.parse(content)):
            return Skipped(name, "it contains no lessons")
    except (VadeError, OSError) as error:
        return Skipped(name, f"malformed: {error}")
    return LessonsPiece("ltm.json", content, Scope.PROJECT)


def _note(tree: FileTree, name: str, own: str) -> Piece:
    """Return a note as a record under the note's key; its content may be any JSON value."""
    file = tree.read(name)
    if isinstance(file, Skipped):
        return file
    try:
        value = json.loads(file.text)
    except (ValueError, RecursionError) as error:
        return Skipped(own, f"malformed: not JSON: {error}")
    if not isinstance(value, dict) or value.get("content") in (None, ""):
        return Skipped(own, "malformed: a note has a `key` and a `content`")
    return _note_piece(value, own, file.changed)


def _note_piece(value: dict[str, Any], own: str, changed: str) -> Piece:
    content = value["content"]
    text = content if isinstance(content, str) else _pretty(content)
    key = text_of(value.get("key")) or own.rpartition("/")[2].removesuffix(".json")
    time = stamp_of(value.get("timestamp")) or changed
    other_fields = {name: each for name, each in value.items() if name not in _NOTE}
    return TopicPiece(
        own,
        key,
        (Entry(text, time),),
        Scope.PROJECT,
        title=key,
        tags=word_list(value.get("tags")),
        fields={"note": other_fields} if other_fields else {},
    )


def _pretty(content: object) -> str:
    return f"```json\n{json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True)}\n```"


AGENT = Agent(
    "clio",
    transcripts=TranscriptFormat(
        "clio", {".clio/sessions": "*.json", ".clio/projects": "*/sessions/*.json"}, recognises, read, rank=5
    ),
    memories=memories,
)
