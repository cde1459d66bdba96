"""Earlier sessions of a project in a line each, so that the next one can go on where they stopped.

A pointer is made from a log and says nothing that anybody but the person said: the title is the person's own
first words. What was read of a log is kept with its stamp; only the ends of a long one are looked at.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import OutsideMemory, StorageFailed
from vademecum.text import clock
from vademecum.transcripts import Role, name_from
from vademecum.transcripts.events import Said
from vademecum.transcripts.importing import imported_id
from vademecum.transcripts.log import ENDING, FOLDER, Log, OnDisk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Catalogue, Home
    from vademecum.store.scopes import Project
    from vademecum.transcripts import Message, ToolCall
    from vademecum.transcripts.log import Raw

LOOKED_AT = 8  # sessions, of which the newest are told
FILES = 3  # that are named
_ENDS = 4 * 1024 * 1024  # bytes of a log's beginning and of its end
_VERSION = "pointers 1"
_PATH = re.compile(
    r'(?<!\\)"(?:new_path|file_path|filePath|notebook_path|absolute_path|path)"\s*:\s*("[^"\\\n]{1,300}")'
)
_PATCHED = re.compile(r"\*\*\* (?:Add|Update|Delete) File: ([^\n\\\"]{1,300})")
_WRITES = re.compile(r"edit|write|replace|patch|create|insert|notebook", re.IGNORECASE)
_LISTS = ("todos", "plan", "items", "tasks")
_FILE = re.compile(r"(?=[^ ]*[./])[\w./@+~-]+(?: [\w./@+~-]+){0,2}")  # no sentence
_OPEN = frozenset({"pending", "in_progress", "in-progress", "open"})


class Pointer(NamedTuple):
    """What one line tells of a session."""

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
    """The newest of the recorded sessions of a project that anybody said anything in, the newest first.

    `recorded` are ids with the agents' names, the last recorded last; `without` is the agent's own id of the
    session that asks.
    """
    kept: dict[str, Any] = catalogue.recall(f"{project.id}-pointers", _VERSION) or {}
    rows: dict[str, Any] = {}
    for id, agent in list(dict(recorded).items())[-LOOKED_AT:]:
        stamp = _stamp(home, project.id, id)
        if stamp is not None:
            known = kept.get(id)
            rows[id] = known if known and known[0] == stamp else (stamp, _looked(home, project, id, agent))
    if rows != kept:
        catalogue.remember(f"{project.id}-pointers", _VERSION, rows)
    found = [Pointer(*told) for id, (_, told) in rows.items() if told is not None and not _is(id, without)]
    newest = sorted(found, key=lambda each: (each.updated, each.session), reverse=True)
    return [each for each in newest if each.title][:most]


def _is(id: str, own: str) -> bool:
    """Whether a kept session is the one that an agent knows by an id of its own."""
    return bool(own) and imported_id(id.rpartition("-")[0], own) == id


def _stamp(home: Home, project: str, id: str) -> tuple[int, int, int] | None:
    try:
        with home.folder(FOLDER, project) as folder:
            state = folder.stat(f"{id}{ENDING}")
    except (FileNotFoundError, NotADirectoryError, OutsideMemory):
        return None
    return None if state is None else (state.st_size, state.st_mtime_ns, state.st_ino)


def _looked(home: Home, project: Project, id: str, agent: str) -> tuple[Any, ...] | None:
    """What there is to tell of a log, as plain values; None when it cannot be read."""
    try:
        said = list(_said(Log(id, OnDisk(home, project.id, id))))
    except (OutsideMemory, StorageFailed):
        return None
    if not said:
        return None
    title = next(filter(None, (name_from(each.message) for each in said)), "")
    files = _files_of([call for each in said for call in each.message.calls], project)
    moment = clock.parse(said[-1].message.time or said[-1].time)
    time = f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if moment is not None else ""
    more = max(0, len(files) - FILES)
    unfinished = _is_unfinished([each.message for each in said])
    return tuple(Pointer(id, agent, title, time, tuple(files[:FILES]), more, unfinished))


def _files_of(calls: Iterable[ToolCall], project: Project) -> list[str]:
    """The files that calls wrote, those of the project by their place in it, but no sentences."""
    root = f"{project.root}{os.sep}"
    written = (path.removeprefix(root) for call in calls for path in _written(call))
    return list(dict.fromkeys(path for path in written if _FILE.fullmatch(path)))


def _said(log: Log) -> Iterator[Said]:
    """What was said at the beginning and at the end of a log."""
    last = size = 0
    for raw in log.raw():
        if raw.end > _ENDS:
            size = log.size()
            break
        last = raw.end
        yield from _event(raw)
    start = max(last, size - _ENDS)
    for number, raw in enumerate(log.raw(start)) if start < size else ():
        if number or start == last:  # else it may be the end of a line that began before
            yield from _event(raw)


def _event(raw: Raw) -> Iterator[Said]:
    if raw.kind == Said.kind:
        event = raw.read()
        if isinstance(event, Said):
            yield event


def _written(call: ToolCall) -> Iterator[str]:
    """The files that a call writes, as far as its arguments name them."""
    if _WRITES.search(call.name):
        for match in _PATH.finditer(call.arguments):
            yield json.loads(match[1])
    yield from (match[1].strip() for match in _PATCHED.finditer(call.arguments))


def _is_unfinished(messages: Sequence[Message]) -> bool:
    """Whether a session stopped before it was done: no answer, no result of a call, open things to do."""
    last = next((each for each in reversed(messages) if each.role is not Role.SYSTEM), None)
    if last is None or last.role is not Role.ASSISTANT or last.calls:
        return True
    for message in reversed(messages):
        for call in reversed(message.calls):
            listed = _things_to_do(call.arguments)
            if listed is not None:
                return any(each in _OPEN for each in listed)
    return False


def _things_to_do(arguments: str) -> list[str] | None:
    """The states of a list of things to do, where a call writes one."""
    if '"status"' not in arguments:
        return None
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    for name in _LISTS:
        listed = given.get(name) if isinstance(given, dict) else None
        states = [str(each.get("status")) for each in listed or () if isinstance(each, dict)]
        if isinstance(listed, list) and states:
            return states
    return None
