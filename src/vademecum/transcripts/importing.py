"""Import other agents' transcripts as logs of our own, which stay when the agents delete their files.

The original files are never changed. A session's id is made from the content of its file, so that a session
is stored once wherever its file is found. An event's id is made from its content, so that an import that was
cut short, or whose file has grown, adds only the missing events.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vademecum.errors import VadeError
from vademecum.store import Marks, reported, scopes
from vademecum.text import clock
from vademecum.transcripts.events import Ended, Event, MessageEvent, Renamed, Started, Trimmed, Used
from vademecum.transcripts.foreign import SessionFacts, TranscriptUsage, Unread, ignore_progress
from vademecum.transcripts.log import Log, LogFile
from vademecum.transcripts.messages import (
    ASIDE,
    OWN_REQUEST,
    SIDE,
    SUMMARY,
    Message,
    replace_memory_blocks,
    to_json,
)
from vademecum.transcripts.paths import ENDING, FOLDER
from vademecum.transcripts.sessions import IMPORT as FIELD
from vademecum.transcripts.sessions import IMPORTED as WHY
from vademecum.transcripts.sessions import one_line
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.store import Home
    from vademecum.transcripts.foreign import FileItem, OnBytes
    from vademecum.transcripts.messages import Json

    Progress = Callable[[str, int, int], None]


_LOOK = 50  # items from the beginning of a file that show which session it belongs to
_GONE = "no longer in the file"
_READ = 1024 * 1024
_STEP = 2 * 1024 * 1024  # bytes of a file between two progress reports


class TranscriptReader(Protocol):
    """The format of an agent's transcripts, as far as an import needs it."""

    @property
    def name(self) -> str:
        """The name of the format, which is the prefix of its sessions' ids."""

    @property
    def read(self) -> Callable[..., Iterator[FileItem]]:
        """The function that yields everything in a file, in order; see `TranscriptFormat`."""


class ImportedSession(NamedTuple):
    """The result of importing one file: `new`, `grown`, `same`, `empty`, or `failed` or `purged` with a
    reason.
    """

    path: Path
    outcome: str
    session: str = ""
    project: str = ""
    added: int = 0  # messages
    unread: int = 0  # lines and parts that could not be understood
    why: str = ""
    compacted: bool = False  # whether the added messages include a compaction's summary
    format: str = ""  # the name of the transcript's format
    folder: str = ""  # where the session ran


class _Head(NamedTuple):
    """The facts about a session that the beginning of its file states."""

    facts: SessionFacts
    first: Message | None


# -------------------------------------------------------------------- importing


def import_files(
    found: Iterable[tuple[TranscriptReader, Path]],
    *,
    home: Home,
    caller: scopes.Caller,
    progress: Progress | None = None,
    now: Callable[[], datetime] = clock.now,
) -> Iterator[ImportedSession]:
    """Import each file and yield its result; a failure does not stop the others."""
    with reported("look for transcripts"):
        every = [(known, path, _size(path)) for known, path in found]
    total, done = sum(size for _, _, size in every), 0
    for known, path, size in every:
        on_bytes = ignore_progress if progress is None else _file_progress(progress, done, size, total)
        try:
            yield import_file(known, path, home=home, caller=caller, now=now, on_bytes=on_bytes)
        except (VadeError, OSError) as error:
            yield ImportedSession(path, "failed", why=str(error))
        done += size
        if progress is not None:
            progress("import", done, total)


def _file_progress(progress: Progress, done: int, size: int, total: int) -> OnBytes:
    """Return a callback that reports progress every few megabytes; the file may have grown since it was
    measured.
    """
    reported = 0

    def on_bytes(count: int) -> None:
        nonlocal reported
        if reported + _STEP <= count < size:
            reported = count
            progress("import", done + count, total)

    return on_bytes


def import_file(
    known: TranscriptReader,
    path: Path,
    *,
    home: Home,
    caller: scopes.Caller,
    now: Callable[[], datetime] = clock.now,
    on_bytes: OnBytes = ignore_progress,
) -> ImportedSession:
    """Copy a transcript file into a log, or add the new part of the file to the log of an earlier import."""
    with reported(f"read {path}"):
        stat = path.stat()
        head = _head(known, path)
        if head.first is None:
            return ImportedSession(path, "empty")
        session = f"{known.name}-{_identity(known, path, head)}"
    imported = _project_of(home, session)
    if not imported and _is_own_request(known, path):
        return ImportedSession(path, "empty", why="memory itself began this session")
    marks = Marks.of(home)
    purged = None if marks is None else marks.session(session, head.facts.id)
    if purged is not None:
        why = f"a person purged this session on {purged.at[:10]}"
        return ImportedSession(path, "purged", why=why)
    project = imported or _project(home, caller, head.facts.folder)
    done = ImportedSession(path, "same", session, project, format=known.name, folder=head.facts.folder)
    log = Log(session, LogFile(home, project, session), now=now)
    with home.lock(f"import {session}"):
        state = _read_state(log)
        mark = [stat.st_size, stat.st_mtime_ns]
        if state.closed and state.mark == mark:
            return done._replace(unread=state.unread)
        copy = _Copy(known, path, session, state, mark, marks=marks)
        start_events = [] if state.begun else [_start_event(copy, head, caller, project)]
        events = copy.events(on_bytes)
        first = next(events)
        if state.closed and isinstance(first, Ended):  # the file was only touched, or found again elsewhere
            return done._replace(unread=copy.unread)
        log.extend(chain(start_events, [first], events), sync=True)
    outcome = "grown" if state.ended else "new"
    return done._replace(outcome=outcome, added=copy.added, unread=copy.unread, compacted=copy.compacted)


def imported_log(done: ImportedSession, *, home: Home, now: Callable[[], datetime] = clock.now) -> Log:
    """Return the log that a file was imported into."""
    return Log(done.session, LogFile(home, done.project, done.session), now=now)


def is_imported(known: TranscriptReader, path: Path, *, home: Home) -> bool:
    """Whether a file's session was imported already, even if the file has grown since."""
    with reported(f"read {path}"):
        head = _head(known, path)
        return head.first is not None and bool(
            _project_of(home, f"{known.name}-{_identity(known, path, head)}")
        )


class _ImportState(NamedTuple):
    """How much of an agent's file was imported by earlier imports."""

    begun: bool = False
    ended: bool = False  # whether an import finished
    closed: bool = False  # whether the last import finished
    mark: Sequence[int] = ()  # size and time of the file at that import
    title: str = ""
    unread: int = 0
    path: str = ""
    paths: Sequence[str] = ()  # all files that were imported into this log
    ids: frozenset[str] = frozenset()  # ids of messages and usage
    shown: frozenset[str] = frozenset()  # ids of messages that no later import has removed


def _read_state(log: Log) -> _ImportState:
    """Return how much of a file its log holds, by event ids: the session may have been continued here."""
    own = re.compile(rb'"id":"(' + re.escape(log.session).encode() + rb'-[0-9a-f]{16}-\d+)"')
    state, ids, active_ids, last_seq = _ImportState(), set(), set(), (b"", "")
    for raw in log.raw():
        seq = raw.content[: raw.content.find(b",")]
        # the writer was killed within that line, and its number was used again
        if last_seq[1] and seq == last_seq[0]:
            ids.discard(last_seq[1])
            active_ids.discard(last_seq[1])
        last_seq = seq, ""
        if raw.kind in (MessageEvent.kind, Used.kind):
            match = own.search(raw.content, 0, 400)
            if match and (raw.ended or isinstance(raw.read(), Event)):
                last_seq = seq, match[1].decode()
                state = state._replace(closed=False)
                ids.add(last_seq[1])
                active_ids |= {last_seq[1]} if raw.kind == MessageEvent.kind else set()
        elif raw.kind in (Started.kind, Ended.kind, Trimmed.kind):
            event = raw.read()
            about = event.extra.get(FIELD) if isinstance(event, Ended) else None
            if isinstance(event, Started):
                state = state._replace(begun=True)
            elif isinstance(event, Trimmed):
                state = state._replace(closed=state.closed and event.why != _GONE)
                active_ids -= set(event.ids)
            elif isinstance(about, dict):
                known = {
                    name: about[name]
                    for name in ("mark", "title", "unread", "path", "paths")
                    if name in about
                }
                state = state._replace(ended=True, closed=True, **known)
    return state._replace(ids=frozenset(ids), shown=frozenset(active_ids))


class _Copy:
    """The events that a file has and its log lacks, made one at a time.

    An item is recognised by its content and by how often the same content came before, not by its position:
    readers join the lines of an answer, so the last item may change or move when a file grows.
    """

    def __init__(
        self,
        known: TranscriptReader,
        path: Path,
        session: str,
        kept: _ImportState,
        mark: list[int],
        *,
        marks: Marks | None = None,
    ) -> None:
        self._purged = marks
        self.known, self.path, self.session, self.kept, self.mark = known, path, session, kept, mark
        self.added = self.unread = 0
        self.compacted = False
        # used where the file names no time
        self.time = clock.stamp(datetime.fromtimestamp(mark[1] / 1e9, UTC))
        self._seen: Counter[str] = Counter()
        earlier = kept.paths or ([kept.path] if kept.path else [])
        # An earlier file that no longer exists was moved to this path.
        there = [each for each in earlier if each != str(path) and os.path.exists(each)]
        self.paths = [*there, str(path)]

    def events(self, on_bytes: OnBytes) -> Iterator[Event]:
        """Yield the events to write, in order; the last event records how far the import came."""
        facts = SessionFacts()
        gone = set(self.kept.shown)
        for each in self.known.read(self.path, on_bytes):
            if isinstance(each, SessionFacts):
                facts = _merge_facts(facts, each)
            elif isinstance(each, Unread):
                self.unread += 1
            else:
                self.time = each.time or self.time
                id = self._id(each)
                gone.discard(id)
                if id not in self.kept.ids:
                    yield self._event(each, id)
        # A message that is gone was an answer still being written, or a turn that was taken back. A session
        # that agents have written to several files is complete in none of them.
        if gone and set(self.paths) == {str(self.path)}:
            yield Trimmed(tuple(sorted(gone)), _GONE, time=self.time)
        title = one_line(facts.title)
        if title and title != self.kept.title:
            yield Renamed(title, time=self.time)
        about = {
            "format": self.known.name,
            "path": str(self.path),
            **({"paths": self.paths} if len(self.paths) > 1 else {}),
            "mark": self.mark,
            "title": title,
            "unread": self.unread,
        }
        yield Ended(WHY, "nothing", time=self.time, extra={FIELD: about})

    def _id(self, each: Message | TranscriptUsage) -> str:
        digest = _digest(each)
        self._seen[digest] += 1
        return f"{self.session}-{digest}-{self._seen[digest]}"

    def _event(self, each: Message | TranscriptUsage, id: str) -> Event:
        if isinstance(each, TranscriptUsage):
            return Used(*each[:6], time=self.time, id=id)
        self.added += 1
        self.compacted = self.compacted or bool(each.extra.get(SUMMARY))
        message = without_injected_blocks(each)
        if self._purged is not None:
            message = _map_message(message, self._purged.clean)
        return MessageEvent(message, time=self.time, id=id)


def _start_event(copy: _Copy, head: _Head, caller: scopes.Caller, project: str) -> Started:
    facts, first_message = head
    created = facts.created or (first_message.time if first_message else "") or copy.time
    return Started(
        cwd=facts.folder,
        created=created,
        model=facts.model or (first_message.model if first_message else ""),
        agent=caller.agent or "",
        audience=str(caller.audience),
        project=project,
        time=created,
        extra={FIELD: {"format": copy.known.name, "path": str(copy.path), "id": facts.id}},
    )


# -------------------------------------------------------------------- whose session it is


def _head(known: TranscriptReader, path: Path) -> _Head:
    facts, first = SessionFacts(), None
    for each in islice(known.read(path), _LOOK):
        if isinstance(each, SessionFacts):
            facts = _merge_facts(facts, each)
        elif isinstance(each, Message) and first is None:
            first = each
        if first is not None and facts.id and facts.folder:
            break
    return _Head(facts, first)


def _is_own_request(known: TranscriptReader, path: Path) -> bool:
    """Whether memory itself began a session, to ask the agent as a model."""
    items = islice(known.read(path), _LOOK)
    return any(isinstance(each, Message) and OWN_REQUEST in each.text for each in items)


def _identity(known: TranscriptReader, path: Path, head: _Head) -> str:
    """Return a hash of a session that stays the same when its file is moved or grows.

    The files of subagents carry the id of their main session, so their first message is hashed too. A file
    without an id is identified by its whole content.
    """
    digest = hashlib.sha256(known.name.encode())
    first = head.first
    if head.facts.id:
        side = first is not None and first.extra.get(SIDE)
        about = (
            [head.facts.id, first.id, first.time, first.text[:1000]] if first and side else [head.facts.id]
        )
        digest.update(_encode_ids(about))
    else:
        with path.open("rb") as file:
            while block := file.read(_READ):
                digest.update(block)
    return digest.hexdigest()[:16]


def _encode_ids(about: Sequence[str]) -> bytes:
    return json.dumps(about).encode()


def _project_of(home: Home, session: str) -> str:
    """Return the project that already holds a session; else an empty text.

    The session's folder may belong to another project now.
    """
    for project in home.names(FOLDER):
        if f"{session}{ENDING}" in home.names(FOLDER, project):
            return project
    return ""


def _project(home: Home, caller: scopes.Caller, folder: str) -> str:
    """Return the project of the folder that a session ran in; the caller's project if there is none."""
    if folder and os.path.isabs(folder) and "\0" not in folder:
        found = scopes.find_project(Path(folder), home=home.path)
        own = caller.project
        return own.id if own is not None and own.root == found.root else found.id
    return scopes.place_for(caller, Scope.PROJECT).id


def _merge_facts(facts: SessionFacts, more: SessionFacts) -> SessionFacts:
    return SessionFacts(*(new or old for old, new in zip(facts, more, strict=True)))


def _digest(each: Message | TranscriptUsage) -> str:
    """Return a hash of a message's content, but not of `extra`, which changes when a branch is abandoned."""
    content = to_json(each._replace(extra={})) if isinstance(each, Message) else each
    return hashlib.sha256(_encoder.encode(content).encode()).hexdigest()[:16]


_encoder = json.JSONEncoder(sort_keys=True, default=str)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# -------------------------------------------------------------------- removing injected blocks


def without_injected_blocks(message: Message) -> Message:
    """Return the message with a placeholder for every block that memory injected.

    An injected block comes back with the transcript of its session, in a message or in the agent's notes on
    it. It is removed, because memory would otherwise confirm itself.
    """
    return _map_message(message, lambda text: replace_memory_blocks(text, ASIDE))


def _map_message(message: Message, change: Callable[[str], str]) -> Message:
    """Return the message with `change` applied to each of its texts."""
    cleaned = _map_strings(message, change)
    return cleaned if isinstance(cleaned, Message) else message


def _map_strings(value: Json, change: Callable[[str], str]) -> Json:
    """Return a value with `change` applied to each string in it; the same object when nothing differs."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        new = {name: _map_strings(each, change) for name, each in value.items()}
        return value if all(new[name] is each for name, each in value.items()) else new
    if isinstance(value, list | tuple):
        items = [_map_strings(each, change) for each in value]
        if all(new is each for new, each in zip(items, value, strict=True)):
            return value
        return value._make(items) if hasattr(value, "_make") else type(value)(items)
    return value
