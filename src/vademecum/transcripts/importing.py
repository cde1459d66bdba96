"""Foreign transcripts as logs of our own: a vault that outlives the agents' own clean-up.

Reads through an agent's format and writes through `Log`; the originals are never touched. A session gets its
id from the content of its file, so that the same one is kept once wherever it is found, and each of its
events an id from what it says, so that an import that was cut short, or whose file has grown, adds only what
is missing.
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
from vademecum.store import Marks, files, scopes
from vademecum.text import clock
from vademecum.transcripts import ASIDE, SIDE, SUMMARY, Message, to_json, without_block
from vademecum.transcripts.events import Ended, Event, Renamed, Said, Started, Trimmed, Used
from vademecum.transcripts.log import ENDING, FOLDER, Log, OnDisk
from vademecum.transcripts.reading import SessionFacts, TranscriptUsage, Unread, unseen
from vademecum.transcripts.sessions import IMPORT as FIELD
from vademecum.transcripts.sessions import IMPORTED as WHY
from vademecum.transcripts.sessions import one_line
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.store import Home
    from vademecum.transcripts import Json
    from vademecum.transcripts.reading import Found, Seen

    Progress = Callable[[str, int, int], None]


_LOOK = 50  # things from the beginning of a file that tell whose session it is
_GONE = "no longer in the file"
_READ = 1024 * 1024
_STEP = 2 * 1024 * 1024  # bytes of a file from one word about it to the next


class Readable(Protocol):
    """An agent's format of transcripts, as far as a copy needs it."""

    @property
    def name(self) -> str:
        """What the ids of its sessions begin with."""

    @property
    def read(self) -> Callable[..., Iterator[Found]]:
        """Everything in a file, in order; see `TranscriptFormat`."""


class ImportedSession(NamedTuple):
    """What became of one file: `new`, `grown`, `same`, `empty`, or `failed` or `purged` and why."""

    path: Path
    outcome: str
    session: str = ""
    project: str = ""
    added: int = 0  # messages
    unread: int = 0  # lines and parts that could not be understood
    why: str = ""
    compacted: bool = False  # whether what was added holds the summary of a compaction


class _Head(NamedTuple):
    """What the beginning of a file says of it."""

    told: SessionFacts
    first: Message | None


# -------------------------------------------------------------------- importing


def import_files(
    found: Iterable[tuple[Readable, Path]],
    *,
    home: Home,
    caller: scopes.Caller,
    progress: Progress | None = None,
    now: Callable[[], datetime] = clock.now,
) -> Iterator[ImportedSession]:
    """Keep each file, and say what became of it; trouble with one does not stop the others."""
    with files.reported("look for transcripts"):
        every = [(known, path, _size(path)) for known, path in found]
    total, done = sum(size for _, _, size in every), 0
    for known, path, size in every:
        seen = unseen if progress is None else _within(progress, done, size, total)
        try:
            yield import_file(known, path, home=home, caller=caller, now=now, seen=seen)
        except (VadeError, OSError) as error:
            yield ImportedSession(path, "failed", why=str(error))
        done += size
        if progress is not None:
            progress("import", done, total)


def _within(progress: Progress, done: int, size: int, total: int) -> Seen:
    """Tell of every few megabytes of one file; it may have grown since it was measured."""
    told = 0

    def seen(count: int) -> None:
        nonlocal told
        if told + _STEP <= count < size:
            told = count
            progress("import", done + count, total)

    return seen


def import_file(
    known: Readable,
    path: Path,
    *,
    home: Home,
    caller: scopes.Caller,
    now: Callable[[], datetime] = clock.now,
    seen: Seen = unseen,
) -> ImportedSession:
    """Keep one file as a log, or add to its log what the file has more by now."""
    with files.reported(f"read {path}"):
        state = path.stat()
        head = _head(known, path)
        if head.first is None:
            return ImportedSession(path, "empty")
        session = f"{known.name}-{_identity(known, path, head)}"
    marks = Marks.of(home)
    purged = None if marks is None else marks.session(session, head.told.id)
    if purged is not None:
        why = f"a person purged this session on {purged.at[:10]}"
        return ImportedSession(path, "purged", why=why)
    project = _kept_in(home, session) or _project(home, caller, head.told.folder)
    log = Log(session, OnDisk(home, project, session), now=now)
    with home.lock(f"import {session}"):
        kept = _kept(log)
        mark = [state.st_size, state.st_mtime_ns]
        if kept.closed and kept.mark == mark:
            return ImportedSession(path, "same", session, project, unread=kept.unread)
        copy = _Copy(known, path, session, kept, mark, marks=marks)
        begun = [] if kept.begun else [_started(copy, head, caller, project)]
        events = copy.events(seen)
        first = next(events)
        if kept.closed and isinstance(first, Ended):  # touched, or found again elsewhere
            return ImportedSession(path, "same", session, project, unread=copy.unread)
        log.extend(chain(begun, [first], events), sync=True)
    outcome = "grown" if kept.ended else "new"
    return ImportedSession(path, outcome, session, project, copy.added, copy.unread, compacted=copy.compacted)


def log_of(done: ImportedSession, *, home: Home, now: Callable[[], datetime] = clock.now) -> Log:
    """The log that a file was kept in."""
    return Log(done.session, OnDisk(home, done.project, done.session), now=now)


def is_kept(known: Readable, path: Path, *, home: Home) -> bool:
    """Whether a file's session is here already, whatever has been added to the file since."""
    with files.reported(f"read {path}"):
        head = _head(known, path)
        return head.first is not None and bool(_kept_in(home, f"{known.name}-{_identity(known, path, head)}"))


class _Kept(NamedTuple):
    """What a log has of its file."""

    begun: bool = False
    ended: bool = False  # whether an import came to its end
    closed: bool = False  # whether none was cut short after it
    mark: Sequence[int] = ()  # size and time of the file then
    title: str = ""
    unread: int = 0
    path: str = ""
    paths: Sequence[str] = ()  # of all files that were copied into it
    ids: frozenset[str] = frozenset()  # of messages and costs
    shown: frozenset[str] = frozenset()  # of messages that no later import has put aside


def _kept(log: Log) -> _Kept:
    """What is there, by the ids, since somebody may have gone on with the session here."""
    own = re.compile(rb'"id":"(' + re.escape(log.session).encode() + rb'-[0-9a-f]{16}-\d+)"')
    kept, ids, shown, last = _Kept(), set(), set(), (b"", "")
    for raw in log.raw():
        seq = raw.content[: raw.content.find(b",")]
        if last[1] and seq == last[0]:  # its writer was killed within that line: the number was given again
            ids.discard(last[1])
            shown.discard(last[1])
        last = seq, ""
        if raw.kind in (Said.kind, Used.kind):
            match = own.search(raw.content, 0, 400)
            if match and (raw.ended or isinstance(raw.read(), Event)):
                last = seq, match[1].decode()
                kept = kept._replace(closed=False)
                ids.add(last[1])
                shown |= {last[1]} if raw.kind == Said.kind else set()
        elif raw.kind in (Started.kind, Ended.kind, Trimmed.kind):
            event = raw.read()
            about = event.extra.get(FIELD) if isinstance(event, Ended) else None
            if isinstance(event, Started):
                kept = kept._replace(begun=True)
            elif isinstance(event, Trimmed):
                kept = kept._replace(closed=kept.closed and event.why != _GONE)
                shown -= set(event.ids)
            elif isinstance(about, dict):
                known = {
                    name: about[name]
                    for name in ("mark", "title", "unread", "path", "paths")
                    if name in about
                }
                kept = kept._replace(ended=True, closed=True, **known)
    return kept._replace(ids=frozenset(ids), shown=frozenset(shown))


class _Copy:
    """The events of one file that its log does not have yet, made one at a time.

    A thing is known by what it says and how often that was said before, not by its place: readers join the
    lines of an answer, so that what stands last may change when a file grows, or move.
    """

    def __init__(
        self,
        known: Readable,
        path: Path,
        session: str,
        kept: _Kept,
        mark: list[int],
        *,
        marks: Marks | None = None,
    ) -> None:
        self._purged = marks
        self.known, self.path, self.session, self.kept, self.mark = known, path, session, kept, mark
        self.added = self.unread = 0
        self.compacted = False
        self.time = clock.stamp(datetime.fromtimestamp(mark[1] / 1e9, UTC))  # where the file names none
        self._seen: Counter[str] = Counter()
        earlier = kept.paths or ([kept.path] if kept.path else [])
        # A file that is gone was moved, and this is it.
        there = [each for each in earlier if each != str(path) and os.path.exists(each)]
        self.paths = [*there, str(path)]

    def events(self, seen: Seen) -> Iterator[Event]:
        """What is to be written, in order; the last event says how far it went."""
        told = SessionFacts()
        gone = set(self.kept.shown)
        for each in self.known.read(self.path, seen):
            if isinstance(each, SessionFacts):
                told = _joined(told, each)
            elif isinstance(each, Unread):
                self.unread += 1
            else:
                self.time = each.time or self.time
                id = self._id(each)
                gone.discard(id)
                if id not in self.kept.ids:
                    yield self._event(each, id)
        # Gone is an answer that was still being written, or a turn that was taken back since; of a session
        # that agents have written into several files, none of them has all.
        if gone and set(self.paths) == {str(self.path)}:
            yield Trimmed(tuple(sorted(gone)), _GONE, time=self.time)
        title = one_line(told.title)
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
        said = without_injected(each)
        if self._purged is not None:
            said = _with_texts(said, self._purged.clean)
        return Said(said, time=self.time, id=id)


def _started(copy: _Copy, head: _Head, caller: scopes.Caller, project: str) -> Started:
    told, first = head
    created = told.created or (first.time if first else "") or copy.time
    return Started(
        cwd=told.folder,
        created=created,
        model=told.model or (first.model if first else ""),
        agent=caller.agent or "",
        audience=str(caller.audience),
        project=project,
        time=created,
        extra={FIELD: {"format": copy.known.name, "path": str(copy.path), "id": told.id}},
    )


# -------------------------------------------------------------------- whose session it is


def _head(known: Readable, path: Path) -> _Head:
    told, first = SessionFacts(), None
    for each in islice(known.read(path), _LOOK):
        if isinstance(each, SessionFacts):
            told = _joined(told, each)
        elif isinstance(each, Message) and first is None:
            first = each
        if first is not None and told.id and told.folder:
            break
    return _Head(told, first)


def _identity(known: Readable, path: Path, head: _Head) -> str:
    """What stays the same however often a session is found, and however long it gets.

    Files of subagents have the id of the session they belong to, and are told apart by how they begin. A file
    without an id is known by all that is in it.
    """
    digest = hashlib.sha256(known.name.encode())
    first = head.first
    if head.told.id:
        side = first is not None and first.extra.get(SIDE)
        about = [head.told.id, first.id, first.time, first.text[:1000]] if first and side else [head.told.id]
        digest.update(_marked(about))
    else:
        with path.open("rb") as file:
            while block := file.read(_READ):
                digest.update(block)
    return digest.hexdigest()[:16]


def imported_id(format: str, id: str) -> str:
    """The id under which an agent's session is kept here, by the agent's own id for it."""
    return f"{format}-{hashlib.sha256(format.encode() + _marked([id])).hexdigest()[:16]}"


def _marked(about: Sequence[str]) -> bytes:
    return json.dumps(about).encode()


def _kept_in(home: Home, session: str) -> str:
    """The project that has this session already; a folder may have become another project since."""
    for project in home.names(FOLDER):
        if f"{session}{ENDING}" in home.names(FOLDER, project):
            return project
    return ""


def _project(home: Home, caller: scopes.Caller, folder: str) -> str:
    """The project a session belongs to: that of the folder it ran in, else the caller's."""
    if folder and os.path.isabs(folder) and "\0" not in folder:
        found = scopes.find_project(Path(folder), home=home.path)
        own = caller.project
        return own.id if own is not None and own.root == found.root else found.id
    return scopes.place_for(caller, Scope.PROJECT).id


def _joined(told: SessionFacts, more: SessionFacts) -> SessionFacts:
    return SessionFacts(*(new or old for old, new in zip(told, more, strict=True)))


def _digest(each: Message | TranscriptUsage) -> str:
    """What a message says; its marks may change when a branch is left behind it."""
    said = to_json(each._replace(extra={})) if isinstance(each, Message) else each
    return hashlib.sha256(_encoder.encode(said).encode()).hexdigest()[:16]


_encoder = json.JSONEncoder(sort_keys=True, default=str)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# -------------------------------------------------------------------- our own words


def without_injected(message: Message) -> Message:
    """A message with a note in place of every block of ours, which is not what anybody said.

    A block that was injected comes back with the session it was injected into, in the words of somebody or in
    what the agent noted beside them. It is put aside when that is read: else memory would confirm itself.
    """
    return _with_texts(message, lambda text: without_block(text, ASIDE))


def _with_texts(message: Message, change: Callable[[str], str]) -> Message:
    """A message with every text of it as `change` has it."""
    cleaned = _cleaned(message, change)
    return cleaned if isinstance(cleaned, Message) else message


def _cleaned(value: Json, change: Callable[[str], str]) -> Json:
    """A value with another text in place of each; the very same when none differs."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        new = {name: _cleaned(each, change) for name, each in value.items()}
        return value if all(new[name] is each for name, each in value.items()) else new
    if isinstance(value, list | tuple):
        items = [_cleaned(each, change) for each in value]
        if all(new is each for new, each in zip(items, value, strict=True)):
            return value
        return value._make(items) if hasattr(value, "_make") else type(value)(items)
    return value
