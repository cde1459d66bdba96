"""CLIO: `.clio/` in a project, with what it learned, its notes by key, and its sessions.

Transcripts: `.clio/sessions/<session>.json` in each project, or below `~/.clio`.
One JSON object. `history` is the conversation as CLIO last had it in its window; `yarn` is the archive of
everything said, `stm` the short-term memory. The three overlap, so they are laid over one another: what
`history` no longer has comes out before what followed it, with `archived` in `extra`. The messages are
OpenAI's, with ids and times.

Flagged: the `<thread_summary>` that CLIO puts in place of what it trimmed (`summary`). Told: the session
(its file's name), `session_name`, `working_directory`, `created_at`, the model. `billing.requests` are the
usage; they have no place among the messages and come at the end. Left out: settings, quota, the last
request as it was sent.

Memory: `ltm.json` becomes lessons, `memory/<key>.json` and `memory/*.md` records, `profile.md` the profile,
and `sessions/*.json` transcripts.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import Agent, TranscriptFormat
from vademecum.agents.memories import stamp_of, text_of, words_of
from vademecum.errors import VadeError
from vademecum.knowledge import ltm
from vademecum.knowledge.intake import LessonsPiece, SectionPiece, Skipped, TopicPiece, TranscriptPiece
from vademecum.store import pinned
from vademecum.transcripts import SUMMARY, Role
from vademecum.transcripts.reading import (
    FactsSoFar,
    TranscriptUsage,
    Unread,
    chat_message,
    count,
    document,
    listed,
    mapping,
    moment,
    text,
    unseen,
)
from vademecum.types import Entry, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memories import FileTree, Importing
    from vademecum.knowledge.intake import Piece
    from vademecum.transcripts import Json
    from vademecum.transcripts.reading import Found, Seen

_NOTE = ("key", "content", "timestamp", "tags")
_MARKS = (b'"yarn"', b'"stm"', b'"_stateful_markers"', b'"lastGitHubCopilotResponseId"')


def recognises(head: bytes, path: Path) -> bool:
    """By fields that nobody else has, which Perl writes in any order, or by the folder it is in."""
    if path.suffix != ".json" or not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    kept = path.parent.name == "sessions" and ".clio" in path.parts
    return kept or any(mark in head for mark in _MARKS)


def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
    """Everything in a file, in order."""
    value, problems = document(path)
    session = mapping(value)
    billing = mapping(session.get("billing"))
    yield from FactsSoFar().tell(
        id=text(session.get("session_id")) or path.stem,
        title=text(session.get("session_name")),
        folder=text(session.get("working_directory")),
        created=moment(session.get("created_at")),
        model=text(session.get("selected_model")) or text(billing.get("model")),
    )
    for said, archived in _laid_over(listed(session.get("history")), _archive(session)):
        yield (
            _read(said, archived=archived)
            if isinstance(said, dict)
            else Unread(0, "a message that is not an object")
        )
    for request in listed(billing.get("requests")):
        yield from _usage(mapping(request))
    if not problems and not isinstance(value, dict):
        yield Unread(0, "not a session")
    yield from problems


def _archive(session: dict[str, Json]) -> list[Json]:
    """Everything said, from the threads and then whatever only the short-term memory has."""
    said: list[Json] = []
    threads = session.get("yarn")
    threads = mapping(mapping(threads).get("threads")) or threads
    for thread in threads.values() if isinstance(threads, dict) else listed(threads):
        said += listed(thread) or listed(mapping(thread).get("messages"))
    short = session.get("stm")
    short = listed(short) or listed(mapping(short).get("history"))
    known = {_key(each) for each in said}
    return said + [each for each in short if _key(each) not in known]


def _laid_over(history: list[Json], archive: list[Json]) -> Iterator[tuple[Json, bool]]:
    """Both in order, what they share once; with whether only the archive has it."""
    places: defaultdict[str, deque[int]] = defaultdict(deque)
    for at, each in enumerate(archive):
        places[_key(each)].append(at)
    shared = [places[_key(each)].popleft() if places.get(_key(each)) else -1 for each in history]
    met = set(shared)
    done = 0
    for each, at in zip(history, shared, strict=True):
        while done < at:
            if done not in met:
                yield archive[done], True
            done += 1
        yield each, False
    for at in range(done, len(archive)):
        if at not in met:
            yield archive[at], True


def _key(said: Json) -> str:
    """What makes two copies of a message the same; the short-term memory keeps neither ids nor times."""
    value = mapping(said)
    return json.dumps(
        [value.get(name) for name in ("role", "content", "tool_call_id", "tool_calls")], sort_keys=True
    )


def _read(said: dict[str, Json], *, archived: bool) -> Found:
    message = chat_message(said)
    extra = dict(message.extra)
    if archived:
        extra["archived"] = True
    if message.role is Role.SYSTEM and "<thread_summary>" in message.text:
        extra[SUMMARY] = "thread_summary"
    return message._replace(extra=extra)


def _usage(request: dict[str, Json]) -> Iterator[TranscriptUsage]:
    given, output = count(request.get("prompt_tokens")), count(request.get("completion_tokens"))
    total = count(request.get("total_tokens")) or given + output
    model = text(request.get("model"))
    if total:
        model = "" if model == "unknown" else model
        yield TranscriptUsage(given, output, total=total, model=model, time=moment(request.get("timestamp")))


# -------------------------------------------------------------------- what it remembers


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every piece of it."""
    inside = {name: _below(name) for name in tree.names()}
    if not any(inside.values()):  # the folder itself was named, or a file of it
        inside = {name: name for name in tree.names()}
    for name, own in inside.items():
        if own:
            yield from _piece(tree, name, own)


def _below(name: str) -> str:
    """A path from a folder of CLIO's on, wherever that lies; empty when none is on the path."""
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
            else SectionPiece("profile.md", pinned.PROFILE, file.text, Scope.GLOBAL)
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
    """A note under its key; its content may be anything that JSON can say."""
    file = tree.read(name)
    if isinstance(file, Skipped):
        return file
    try:
        value = json.loads(file.text)
    except (ValueError, RecursionError) as error:
        return Skipped(own, f"malformed: not JSON: {error}")
    if not isinstance(value, dict) or value.get("content") in (None, ""):
        return Skipped(own, "malformed: a note has a `key` and a `content`")
    return _noted(value, own, file.changed)


def _noted(value: dict[str, Any], own: str, changed: str) -> Piece:
    content = value["content"]
    text = content if isinstance(content, str) else _pretty(content)
    key = text_of(value.get("key")) or own.rpartition("/")[2].removesuffix(".json")
    said = stamp_of(value.get("timestamp")) or changed
    beside = {name: each for name, each in value.items() if name not in _NOTE}
    return TopicPiece(
        own,
        key,
        (Entry(text, said),),
        Scope.PROJECT,
        title=key,
        tags=words_of(value.get("tags")),
        fields={"note": beside} if beside else {},
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
