"""Keep the index of sessions up to date with their logs; it has a row for each piece of a message.

Of a log that has grown, only the new complete lines are read; a log that was rewritten is read again from its
beginning. Whatever state the index is in, an update makes it equal to a rebuilt index.
"""

from __future__ import annotations

import functools
import json
import re
import struct
import time
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import InvalidKey, OutsideMemory, StorageFailed
from vademecum.index import (
    Filter,
    IndexDocument,
    IndexItem,
    Labels,
    Piece,
    Speech,
    Stamp,
    language_of,
    moment,
    words,
)
from vademecum.index.base import stamp as stamp_of
from vademecum.index.corpus import head
from vademecum.store import reported
from vademecum.text import names
from vademecum.transcripts import (
    ASIDE,
    Log,
    LogFile,
    MessageEvent,
    OpenMemoryCalls,
    Role,
    Text,
    ToolCall,
    ToolResult,
    is_aside,
    name_from,
)
from vademecum.transcripts.events import Renamed, Started
from vademecum.transcripts.paths import ENDING, FOLDER
from vademecum.types import Audience, Finding, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.index import ChunkRow, Index, Survey, SyncReport
    from vademecum.store import Home
    from vademecum.transcripts import Message
    from vademecum.transcripts.log import Raw

    Key = tuple[str, str]  # a project and a session
    Progress = Callable[[str, int, int], None]

LONGEST = 200_000  # characters of one text, call or result that are indexed, most from its beginning
PIECE, OVERLAP = 2_000, 200  # characters; a longer piece, such as a page of output, would match any query
_WEIGHED = 1_000  # characters in which different words are counted; more words would not change a score
_SHORTEST = 10  # characters; a text of at most so many says nothing by itself,
_SHORTEST_OTHER = 4  # except in scripts that need fewer characters
_LOOK = 20  # messages from the beginning that are tried as the session's name
_BATCH = 2_000_000  # characters indexed in one transaction
_TURN = 0.5  # seconds of reading in one transaction
_MARK = 4_096  # bytes at the beginning and before the end that must not have changed
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{500,}")  # a picture or a key: nobody searches for one
_SPOKEN = (Role.USER, Role.ASSISTANT, Role.TOOL)
_MB = 1_000_000
_LOCATION = struct.Struct(">QQIII12s")
SOURCE = "transcript"


class IndexedLog(NamedTuple):
    """A log as the index holds it: how far it is indexed, and what is known of its session up to there."""

    project: str
    session: str
    agent: str = ""
    audience: str = ""
    started: bool = False  # whether the event that names its agent was read
    given_name: str = ""  # the name it was given last
    derived_name: str = ""  # the name made from the first real request
    tried_names: int = 0  # messages that were tried as that request
    updated: str = ""
    stamp: tuple[int, ...] = (0, 0, 0, 0)  # the file's stamp: size, times and inode
    complete: bool = False  # whether the whole file was indexed as of that stamp
    indexed_bytes: int = 0
    lines: int = 0
    turns: int = 0
    mark: str = ""  # a hash of the first bytes and of the bytes before `indexed_bytes`
    open_calls: tuple[str, ...] = ()  # calls of memory's own tools that have no result yet
    id: int = 0

    @property
    def name(self) -> str:
        """The name of the session."""
        return self.given_name or self.derived_name

    @property
    def key(self) -> Key:
        """The project of the session, with the session's id."""
        return self.project, self.session

    @property
    def state(self) -> str:
        """The state of the log as one text, as the index stores it."""
        return json.dumps(self[:-1], separators=(",", ":"))

    def document(self, pieces: list[Piece], grown: str) -> IndexDocument:
        """Return the log as a document, whose pieces the index adds to the earlier state `grown`."""
        labels = Labels(
            self.name,
            self.session,
            None,
            self.agent,
            (str(self.audience),),
            moment(self.updated) or self.updated,
        )
        path = path_of(self.key)
        place = Place(Scope.PROJECT, self.project)
        item = IndexItem(path, path, SOURCE, "session", place, "", Stamp(*self.stamp), lambda: None)
        return IndexDocument(item, "", labels, pieces, state=self.state, grown=grown)


@functools.lru_cache(maxsize=65_536)
def _parse_state(state: str, id_: int) -> IndexedLog:
    log = IndexedLog._make((*json.loads(state), id_))
    return log._replace(stamp=tuple(log.stamp), open_calls=tuple(log.open_calls))


class PieceLocation(NamedTuple):
    """The position of a piece of a message in its log."""

    start: int  # of the line, in bytes
    last: int
    turn: int
    at: int  # where the piece begins in the message's text, in characters
    length: int
    digest: bytes

    @classmethod
    def of(cls, row: ChunkRow) -> PieceLocation:
        """Return the position that is stored in a row of the index."""
        return cls(*_LOCATION.unpack(row.place))


def logs_in(index: Index, projects: Iterable[str] | None) -> dict[Key, IndexedLog]:
    """Return the logs of some projects (None: of all) that an index holds, by project and session."""
    known = index.known(Filter(_project_places(projects)))
    logs = (_parse_state(each.state, each.id) for each in known.values())
    return {log.key: log for log in logs}


def _project_places(projects: Iterable[str] | None) -> tuple[Place, ...] | None:
    return None if projects is None else tuple(Place(Scope.PROJECT, each) for each in projects)


class LogFilter(NamedTuple):
    """A filter for logs: those of some projects and one agent; for a group, only those of some sessions."""

    projects: tuple[str, ...] | None = None  # None means every project
    agent: str | None = None
    sessions: tuple[str, ...] | None = None

    def allows(self, log: IndexedLog) -> bool:
        """Whether the caller may see a log, as far as its session is known."""
        return (
            (self.projects is None or log.project in self.projects)
            and (self.agent is None or log.agent == self.agent)
            and (self.sessions is None or (log.session in self.sessions and log.audience == Audience.GROUP))
        )

    @property
    def filter(self) -> Filter:
        """The same condition as a filter for the index."""
        group = () if self.sessions is None else (str(Audience.GROUP),)
        return Filter(_project_places(self.projects), type=self.agent, keys=self.sessions, tags=group)


class SessionIndexReport(NamedTuple):
    """The result of an update of the index of sessions."""

    sessions: int = 0  # visible sessions
    changed: int = 0
    removed: int = 0
    pending: int = 0
    unreadable: tuple[tuple[str, str], ...] = ()  # path and reason
    degraded: tuple[str, ...] = ()
    unwritten: str = ""  # why the index was not written to a file

    @property
    def searched(self) -> int:
        """The number of sessions that are indexed completely."""
        return self.sessions - self.pending - len(self.unreadable)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The messages about sessions that are not searched completely."""
        messages = list(self.degraded)
        if self.pending:
            which = "session is" if self.pending == 1 else "sessions are"
            messages.append(f"{self.pending} {which} not indexed yet; run `vade index`")
        if self.unreadable:
            which = "session" if len(self.unreadable) == 1 else "sessions"
            where, why = self.unreadable[0]
            messages.append(f"{len(self.unreadable)} {which} could not be read, first {where}: {why}")
        return tuple(messages)

    def add_to(self, report: SyncReport) -> SyncReport:
        """Return the report on the index of notes, with the sessions added to the numbers of files."""
        findings = [Finding("a session cannot be read", *each) for each in self.unreadable]
        return replace(
            report,
            files=report.files + self.sessions,
            indexed=report.indexed + self.searched,
            changed=report.changed + self.changed,
            removed=report.removed + self.removed,
            pending=report.pending + self.pending,
            findings=[*report.findings, *findings],
            degraded=[*report.degraded, *self.degraded],
            unwritten=report.unwritten or self.unwritten,
        )


def update_index(
    home: Home,
    index: Index,
    view: LogFilter,
    stamps: dict[Key, Stamp],
    refused: dict[Key, str],
    *,
    until: float | None,
    progress: Progress | None,
) -> SessionIndexReport:
    """Index the new lines of logs, the newest log first, and remove logs that no longer exist.

    `stamps` has the existing logs, `refused` those that cannot be read, with the reasons. After the moment
    `until`, the remaining logs stay pending. `view` tells which logs the caller may see.
    """
    unreadable = dict(refused)
    known = logs_in(index, view.projects)
    missing = [
        log
        for key, log in known.items()
        if key not in stamps and (view.sessions is None or log.session in view.sessions)
    ]
    # A log may have been created, and indexed by another process, since the folder was listed.
    removed = [log for log in missing if _stamp_now(home, log.key) is None]
    if removed:
        index.drop([log.id for log in removed])
    # A log may have grown and been indexed since then: its old stamp would look like a rewritten log.
    for key in [key for key in known.keys() & stamps.keys() if is_outdated(known[key], stamps[key], view)]:
        stamps[key] = _stamp_now(home, key) or stamps[key]
    newest = sorted(stamps, key=lambda key: (stamps[key][1], key), reverse=True)
    outdated = [key for key in newest if is_outdated(known.get(key), stamps[key], view)]
    changed, logs = 0, dict(known)
    far = _IndexProgress(progress, sum(stamps[key][0] for key in outdated))
    for key in outdated:
        before = known.get(key)
        try:
            now = index_log(home, index, key, stamps[key], before=before, view=view, until=until, far=far.at)
        except (OutsideMemory, StorageFailed) as error:
            unreadable[key] = str(error)
            continue
        changed += before is None or now.indexed_bytes != before.indexed_bytes
        logs[key] = now
        far.add(stamps[key][0])
        if until is not None and time.monotonic() >= until:
            break
    seen = _visible_keys(view, stamps, logs)
    pending = [
        key
        for key in seen
        if key not in unreadable and ((log := logs.get(key)) is None or is_outdated(log, stamps[key], view))
    ]
    problems = [(path_of(key), why) for key, why in unreadable.items()]
    refused_count = sum(key not in stamps for key in unreadable)
    return SessionIndexReport(len(seen) + refused_count, changed, len(removed), len(pending), tuple(problems))


class _IndexProgress:
    """How far the indexing of logs is, by their bytes, since one log may be longer than all others."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, size: int) -> None:
        """Report that a log of this size is indexed."""
        self._done += size
        self.at(0)

    def at(self, indexed_bytes: int) -> None:
        """Report how much of the present log is indexed."""
        if self._progress is not None:
            done, total = self._done + indexed_bytes, max(self._total, 1)
            self._progress("MB of sessions", min(done, total) // _MB, -(-total // _MB))


def survey(
    view: LogFilter,
    stamps: dict[Key, Stamp],
    refused: dict[Key, str],
    *,
    known: dict[Key, IndexedLog],
    into: Survey,
) -> None:
    """Count in `into` how far the existing logs are indexed, without changing the index."""
    seen = _visible_keys(view, stamps, known)
    into.files += len(seen) + len(refused)
    into.failed += [Finding("a session cannot be read", path_of(key), why) for key, why in refused.items()]
    for key in seen:
        log = known.get(key)
        if log is None:
            into.pending += 1
        elif is_outdated(log, stamps[key], view):
            into.stale += 1
        else:
            into.indexed += 1
    into.gone += sum(key not in stamps for key in known)


def _visible_keys(view: LogFilter, keys: Iterable[Key], known: Mapping[Key, IndexedLog]) -> list[Key]:
    """Return the logs that the caller may see, and logs whose agent is not known yet."""
    return [key for key in keys if (log := known.get(key)) is None or not log.started or view.allows(log)]


def _stamp_now(home: Home, key: Key) -> Stamp | None:
    try:
        with home.folder(FOLDER, key[0]) as folder:
            state = folder.stat(f"{key[1]}{ENDING}")
            return None if state is None else stamp_of(state)
    except (FileNotFoundError, NotADirectoryError, OutsideMemory):
        return None


def path_of(key: Key) -> str:
    """Return the path of a session's log, relative to the home."""
    return f"{FOLDER}/{key[0]}/{key[1]}{ENDING}"


def index_log(
    home: Home,
    index: Index,
    key: Key,
    state: Stamp,
    *,
    before: IndexedLog | None,
    view: LogFilter,
    until: float | None,
    far: Callable[[int], None] = lambda indexed_bytes: None,
) -> IndexedLog:
    """Index the new lines of one log until the moment `until`, and return how far the log is indexed then.

    A rewritten log is indexed from its beginning. Of a log that `view` does not allow, only the start is
    read. `far` is called with the number of bytes that are indexed so far.
    """
    log_file = LogFile(home, *key)
    if before is not None and _was_rewritten(before, state, log_file):
        index.drop([before.id])
        before = None
    while True:
        batch = Batch(before or IndexedLog(*key), state)
        for raw in Log(key[1], log_file).raw(batch.log.indexed_bytes, batch.log.lines + 1):
            if not raw.ended:  # its writer is not done
                batch.finish()
                break
            batch.add(raw)
            if batch.log.started and not view.allows(batch.log):
                break  # another agent's log does not belong into this index
            if batch.full or (until is not None and time.monotonic() >= until):
                break
        else:
            batch.finish()
        now = batch.log._replace(mark=_mark(log_file, batch.log.indexed_bytes))
        if now == before:
            return now
        grown = "" if before is None else before.state
        written = index.put([now.document(batch.pieces, grown)])
        if not written:  # another process was faster: continue from its state
            before = _log_in(index, key)
            continue
        before = now
        far(before.indexed_bytes)
        if before.complete or (before.started and not view.allows(before)):
            return before
        if until is not None and time.monotonic() >= until:
            return before


def _log_in(index: Index, key: Key) -> IndexedLog | None:
    found = index.known(Filter(_project_places(key[:1]), items=(path_of(key),)))
    return next((_parse_state(each.state, each.id) for each in found.values()), None)


def list_logs(home: Home, view: LogFilter) -> tuple[dict[Key, Stamp], dict[Key, str]]:
    """Return the stamps of the logs in a view's projects and sessions, and why other logs are refused."""
    found: dict[Key, Stamp] = {}
    refused: dict[Key, str] = {}
    projects = home.names(FOLDER) if view.projects is None else view.projects
    for project in projects:
        try:
            folder = home.folder(FOLDER, names.check_id(project, "a project"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (InvalidKey, OutsideMemory) as error:
            refused[project, ""] = str(error)
            continue
        with folder:
            for name, state in folder.scan(_is_log):
                session = name.removesuffix(ENDING)
                if view.sessions is not None and session not in view.sessions:
                    continue
                try:
                    names.check_id(session, "a session")
                    found[project, session] = stamp_of(state)
                except InvalidKey as error:
                    refused[project, session] = str(error)
    return found, refused


def _is_log(name: str) -> bool:
    return name.endswith(ENDING) and not name.startswith(".") and ".conflict-" not in name


def is_indexed_correctly(home: Home, index: Index, log: IndexedLog) -> bool:
    """Whether the index holds the rows that its log gives when read again up to where it was indexed."""
    batch = Batch(IndexedLog(log.project, log.session), log.stamp)
    ids = index.match((), Filter(items=(path_of(log.key),)), None)
    rows = iter(sorted(index.rows(ids).values(), key=lambda row: row.order))
    fits = True
    try:
        for raw in Log(log.session, LogFile(home, log.project, log.session)).raw():
            if raw.end > log.indexed_bytes or not fits:
                break
            batch.add(raw)
            fits = all(_equals_row(piece, next(rows, None)) for piece in batch.pieces)
            batch.pieces.clear()
    except (OutsideMemory, StorageFailed):
        return False
    same = batch.log._replace(id=log.id, mark=log.mark, complete=log.complete) == log
    return fits and same and next(rows, None) is None


def _equals_row(piece: Piece, row: ChunkRow | None) -> bool:
    now = piece.start, piece.time, piece.speech, piece.size, piece.place
    return row is not None and now == (row.start, row.time, row.speech, row.size, row.place)


# -------------------------------------------------------------------- from lines to rows


class Batch:
    """Lines of a log that are indexed together in one transaction."""

    def __init__(self, log: IndexedLog, stamp: tuple[int, ...]) -> None:
        self.log = log._replace(stamp=tuple(stamp), complete=False)
        self.pieces: list[Piece] = []
        self._chars = 0
        self._until = time.monotonic() + _TURN

    @property
    def full(self) -> bool:
        """Whether the batch has enough text, or has taken enough time, to be written."""
        return self._chars > _BATCH or time.monotonic() > self._until

    def finish(self) -> None:
        """Record that the log is indexed completely."""
        self.log = self.log._replace(complete=True)

    def add(self, raw: Raw) -> None:
        """Add one line of the log to the batch."""
        log = self.log._replace(indexed_bytes=raw.end, lines=raw.number, updated=raw.time or self.log.updated)
        if raw.kind in ("", *_INDEXED_KINDS):
            event = raw.read()
            if isinstance(event, Started | Renamed):
                log = log._replace(given_name=event.name or log.given_name)
            if isinstance(event, Started) and not log.started:
                log = log._replace(started=True, agent=event.agent, audience=event.audience)
            if isinstance(event, MessageEvent):
                log = self._add_message(log, event, raw)
        self.log = log

    def _add_message(self, log: IndexedLog, event: MessageEvent, raw: Raw) -> IndexedLog:
        message, own = event.message, OpenMemoryCalls(log.open_calls)
        cleaned = own.without(message)
        log = log._replace(open_calls=own.open)
        if not log.derived_name and log.tried_names < _LOOK:
            log = log._replace(derived_name=name_from(message), tried_names=log.tried_names + 1)
        aside = is_aside(message)
        spoken = message.role is Role.USER and not aside and bool(message.text.strip())
        log = log._replace(turns=log.turns + spoken)
        if aside or message.role not in _SPOKEN:
            return log
        text = searchable_text(cleaned)
        if len(text.strip()) <= (_SHORTEST if text.isascii() else _SHORTEST_OTHER):
            return log
        when = message.time or event.time
        day = head("", "", when, (), "")
        for at, length in split_text(text):
            piece = text[at : at + length]
            used = words.all_in(piece[:_WEIGHED])
            speech = words.speech_of(piece[:_WEIGHED], used)
            spot = PieceLocation(raw.start, raw.end, log.turns, at, length, digest(piece))
            self.pieces.append(
                Piece(
                    raw.number,
                    raw.number,
                    "",
                    time=when,
                    moment=moment(when),
                    speech=Speech(str(message.role), speech.asks, speech.says),
                    text=_BLOB.sub(" ", piece),
                    head=day,
                    size=len(used - words.LOW),
                    place=_LOCATION.pack(*spot),
                    language=language_of(piece[:_WEIGHED], used),
                )
            )
        self._chars += len(text)
        return log


_INDEXED_KINDS = (Started.kind, Renamed.kind, MessageEvent.kind)


def searchable_text(message: Message) -> str:
    """Return the text of a message that is indexed: its words, its tool calls with arguments, and results.

    Reasoning and pictures are left out; a very long text is cut to much of its beginning and a little of its
    end.
    """
    found: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            found.append(_bounded(part.text))
        elif isinstance(part, ToolCall):
            found.append(f"{part.name} {_arguments(_bounded(part.arguments))}".strip())
        elif isinstance(part, ToolResult):
            found.append(_bounded(part.text))
    return _clean("\n".join(each for each in found if each).replace(ASIDE, ""))


def open_memory_calls(log: Log, indexed_bytes: int) -> OpenMemoryCalls:
    """Return the calls of memory's own tools that have no result before this offset of a log."""
    own = OpenMemoryCalls()
    for raw in log.raw():
        if raw.start >= indexed_bytes:
            break
        if raw.kind in ("", MessageEvent.kind) and isinstance(event := raw.read(), MessageEvent):
            own.without(event.message)
    return own


def _bounded(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST * 3 // 4]}\n…\n{text[-LONGEST // 4 :]}"


def _arguments(text: str) -> str:
    """Return the names and values in a tool's arguments as plain text, without the syntax of JSON.

    In JSON, a line break would be indexed as the letter n. Other text than JSON is returned unchanged.
    """
    try:
        return " ".join(_values(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _values(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _values(each)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each)
    elif value not in (None, ""):
        yield str(value)


def _clean(text: str) -> str:
    """Return a text with characters that cannot be encoded as UTF-8 replaced by question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def split_text(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each piece of a long text; neighbouring pieces overlap.

    A text is cut between words if it has a space near.
    """
    start = 0
    while len(text) - start > PIECE:
        end = start + PIECE
        space = max(text.rfind(" ", start + PIECE // 2, end), text.rfind("\n", start + PIECE // 2, end))
        end = space if space > 0 else end
        yield start, end - start
        start = end - OVERLAP
        space = text.find(" ", start, end)
        start = space + 1 if space >= 0 else start
    yield start, len(text) - start


def digest(text: str) -> bytes:
    """Return a short hash of a text, by which a change of the text is noticed."""
    return blake2b(text.encode(), digest_size=12).digest()


def is_outdated(log: IndexedLog | None, state: Stamp, view: LogFilter) -> bool:
    """Return whether a log must be indexed: it is new, has changed, or was not indexed completely."""
    if log is None:
        return True
    grown = state[3] == log.stamp[3] and state[0] >= log.stamp[0]
    if log.started and not view.allows(log) and grown:
        return False  # another agent's log that only grew
    return not log.complete or log.stamp != state


def _was_rewritten(log: IndexedLog, state: Stamp, log_file: LogFile) -> bool:
    """Whether a log changed in any other way than by growing, which makes its rows worthless."""
    if state == log.stamp:
        return False
    size, _, _, inode = log.stamp
    # A file with the same size and another time was overwritten in place.
    return state[3] != inode or state[0] <= size or _mark(log_file, log.indexed_bytes) != log.mark


def _mark(log_file: LogFile, indexed_bytes: int) -> str:
    """Return a hash over the first bytes of a log and the bytes before an offset."""
    with reported(f"read the transcript {log_file.path}"):
        file = log_file.open()
        if file is None:
            return ""
        with file:
            first = file.read(min(_MARK, indexed_bytes))
            file.seek(max(0, indexed_bytes - _MARK))
            return blake2b(first + file.read(min(_MARK, indexed_bytes)), digest_size=12).hexdigest()


def start_events(log: Log) -> Iterator[Started]:
    """Yield the events in a log that start its session; only the first of them counts."""
    for raw in log.raw():
        if raw.kind in ("", Started.kind) and isinstance(event := raw.read(), Started):
            yield event
