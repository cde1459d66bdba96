"""Describe earlier sessions of a project in one line each, so that the next session can continue them.

A pointer describes one session, and its title is the person's own first words. The pointer of a log is cached
until the log changes; of a long log only the beginning and the end are read.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC
from typing import TYPE_CHECKING, Any

from vademecum.errors import OutsideMemory, StorageFailed
from vademecum.lazy import LazyModule, lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import clock
from vademecum.transcripts.paths import ENDING, FOLDER, imported_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Catalogue, Home, Project
    from vademecum.transcripts import events, log, messages
    from vademecum.transcripts.events import MessageEvent
    from vademecum.transcripts.log import Log, Raw
    from vademecum.transcripts.messages import Message, ToolCall
else:  # a session start finds the pointers in the cache, and reads no log
    events = LazyModule("vademecum.transcripts.events")
    log = LazyModule("vademecum.transcripts.log")
    messages = LazyModule("vademecum.transcripts.messages")

RECENT_SESSIONS = 8  # sessions that are read; the newest of them get a pointer
FILES = 3  # file names in a pointer
_ENDS = 4 * 1024 * 1024  # bytes that are read at the beginning and at the end of a log
_VERSION = "pointers 1"
_PATH = lazy_pattern(
    r'(?<!\\)"(?:new_path|file_path|filePath|notebook_path|absolute_path|path)"\s*:\s*("[^"\\\n]{1,300}")'
)
_PATCHED = lazy_pattern(r"\*\*\* (?:Add|Update|Delete) File: ([^\n\\\"]{1,300})")
_WRITES = lazy_pattern(r"edit|write|replace|patch|create|insert|notebook", re.IGNORECASE)
_LISTS = ("todos", "plan", "items", "tasks")
_FILE = lazy_pattern(r"(?=[^ ]*[./])[\w./@+~-]+(?: [\w./@+~-]+){0,2}")  # a path, not a sentence
_OPEN = frozenset({"pending", "in_progress", "in-progress", "open"})


class Pointer(NamedTuple):
    """An earlier session in one line: its title, time, files, and whether it was unfinished."""

    session: str
    agent: str
    title: str
    updated: str
    files: tuple[str, ...] = ()
    more_files: int = 0
    unfinished: bool = False


def recent(
    home: Home,
    catalogue: Catalogue,
    project: Project,
    recorded: Iterable[tuple[str, str]],
    *,
    most: int,
    without: str = "",
) -> list[Pointer]:
    """Return pointers to at most `most` sessions of a project in which a person wrote, the newest first.

    `recorded` are session ids with agent names, the last recorded last; only the last eight are considered.
    `without` is the agent's own id of a session to leave out.
    """
    cache: dict[str, Any] = catalogue.recall(f"{project.id}-pointers", _VERSION) or {}
    rows: dict[str, Any] = {}
    for id, agent in list(dict(recorded).items())[-RECENT_SESSIONS:]:
        stamp = _stamp(home, project.id, id)
        if stamp is not None:
            known = cache.get(id)
            rows[id] = (
                known if known and known[0] == stamp else (stamp, _read_pointer(home, project, id, agent))
            )
    if rows != cache:
        catalogue.remember(f"{project.id}-pointers", _VERSION, rows)
    found = [
        Pointer(*values)
        for id, (_, values) in rows.items()
        if values is not None and not is_agent_session(id, without)
    ]
    newest = sorted(found, key=lambda pointer: (pointer.updated, pointer.session), reverse=True)
    return [pointer for pointer in newest if pointer.title][:most]


def is_agent_session(id: str, own: str) -> bool:
    """Whether a stored session is the one that its agent knows by the id `own`."""
    return bool(own) and imported_id(id.rpartition("-")[0], own) == id


def _stamp(home: Home, project: str, id: str) -> tuple[int, int, int] | None:
    try:
        with home.folder(FOLDER, project) as folder:
            state = folder.stat(f"{id}{ENDING}")
    except (FileNotFoundError, NotADirectoryError, OutsideMemory):
        return None
    return None if state is None else (state.st_size, state.st_mtime_ns, state.st_ino)


def _read_pointer(home: Home, project: Project, id: str, agent: str) -> tuple[Any, ...] | None:
    """Return the pointer of a log as plain values for the cache; None if it is unreadable or
    has no message.
    """
    try:
        found = list(_messages_at_ends(log.Log(id, log.LogFile(home, project.id, id))))
    except (OutsideMemory, StorageFailed):
        return None
    if not found:
        return None
    title = next(filter(None, (messages.name_from(each.message) for each in found)), "")
    files = _files_of([call for each in found for call in each.message.calls], project)
    moment = clock.parse(found[-1].message.time or found[-1].time)
    time = f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if moment is not None else ""
    more = max(0, len(files) - FILES)
    unfinished = _is_unfinished([each.message for each in found])
    return tuple(Pointer(id, agent, title, time, tuple(files[:FILES]), more, unfinished))


def _files_of(calls: Iterable[ToolCall], project: Project) -> list[str]:
    """Return the files that calls wrote, with paths relative to the project; values that look like sentences
    are left out.
    """
    root = f"{project.root}{os.sep}"
    written = (path.removeprefix(root) for call in calls for path in _written_paths(call))
    return list(dict.fromkeys(path for path in written if _FILE.fullmatch(path)))


def _messages_at_ends(whole: Log) -> Iterator[MessageEvent]:
    """Yield the messages at the beginning and at the end of a log."""
    last = size = 0
    for raw in whole.raw():
        if raw.end > _ENDS:
            size = whole.size()
            break
        last = raw.end
        yield from _message_event(raw)
    start = max(last, size - _ENDS)
    for number, raw in enumerate(whole.raw(start)) if start < size else ():
        if number or start == last:  # the first line may be the end of a line that began earlier
            yield from _message_event(raw)


def _message_event(raw: Raw) -> Iterator[MessageEvent]:
    if raw.kind == events.MessageEvent.kind:
        event = raw.read()
        if isinstance(event, events.MessageEvent):
            yield event


def _written_paths(call: ToolCall) -> Iterator[str]:
    """Yield the paths of the files that a tool call writes, as far as its arguments name them."""
    if _WRITES.search(call.name):
        for match in _PATH.finditer(call.arguments):
            yield json.loads(match[1])
    yield from (match[1].strip() for match in _PATCHED.finditer(call.arguments))


def _is_unfinished(thread: Sequence[Message]) -> bool:
    """Whether a session stopped early: without an answer, before a tool's result, or with open
    to-do items.
    """
    role = messages.Role
    last = next((message for message in reversed(thread) if message.role is not role.SYSTEM), None)
    if last is None or last.role is not role.ASSISTANT or last.calls:
        return True
    for message in reversed(thread):
        for call in reversed(message.calls):
            states = _todo_states(call.arguments)
            if states is not None:
                return any(message in _OPEN for message in states)
    return False


def _todo_states(arguments: str) -> list[str] | None:
    """Return the states of the to-do list that a call writes; None when it writes none."""
    if '"status"' not in arguments:
        return None
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    for name in _LISTS:
        items = value.get(name) if isinstance(value, dict) else None
        states = [str(each.get("status")) for each in items or () if isinstance(each, dict)]
        if isinstance(items, list) and states:
            return states
    return None
