"""Bringing the sessions' index up to date with the logs: what was said, a row for each piece of it.

A log is followed: of one that has grown only the new whole lines are read, and one that was rewritten is read
anew. Whatever state the index is in, a look makes it what a rebuild would make it.
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
from vademecum.index import words
from vademecum.index.base import Filter, IndexDocument, IndexItem, Labels, Piece, Stamp
from vademecum.index.base import stamp as stamp_of
from vademecum.index.corpus import head, moment
from vademecum.index.languages import language_of
from vademecum.index.words import Speech
from vademecum.store import files
from vademecum.text import names
from vademecum.transcripts import ASIDE, OwnCalls, Role, Text, ToolCall, ToolResult, is_aside, name_from
from vademecum.transcripts.events import Renamed, Said, Started
from vademecum.transcripts.log import ENDING, FOLDER, Log, OnDisk
from vademecum.types import Audience, Finding, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.index.base import ChunkRow, Index
    from vademecum.index.sync import Survey, SyncReport
    from vademecum.store import Home
    from vademecum.transcripts import Message
    from vademecum.transcripts.log import Raw

    Key = tuple[str, str]  # a project and a session
    Progress = Callable[[str, int, int], None]

LONGEST = 200_000  # characters of one text, call or result that are looked at, most from its beginning
PIECE, OVERLAP = 2_000, 200  # characters: a page of output would hold every word of any question
_WEIGHED = 1_000  # characters in which different words are counted: a few dozen are as many as count
_SHORTEST = 10  # characters; what is no longer says nothing by itself,
_SHORTEST_OTHER = 4  # unless it is of a script that needs few
_LOOK = 20  # messages from the beginning among which a name is looked for
_BATCH = 2_000_000  # characters taken in by one transaction
_TURN = 0.5  # seconds that are read for one
_MARK = 4_096  # bytes at the beginning and before the end that must not have changed
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{500,}")  # a picture or a key: nobody asks for one
_SPOKEN = (Role.USER, Role.ASSISTANT, Role.TOOL)
_SPOT = struct.Struct(">QQIII12s")
SOURCE = "transcript"


class FollowedLog(NamedTuple):
    """How far a log was taken in, and what is known of its session by then."""

    project: str
    session: str
    agent: str = ""
    audience: str = ""
    begun: bool = False  # whether the line that says whose it is was met
    given: str = ""  # the name somebody gave it last
    made: str = ""  # the name made from the first real request
    looked: int = 0  # messages in which such a request was looked for
    updated: str = ""
    stamp: tuple[int, ...] = (0, 0, 0, 0)  # what the system said of the file
    done: bool = False  # whether everything was taken in that was there by that stamp
    upto: int = 0
    lines: int = 0
    turns: int = 0
    mark: str = ""  # of the bytes at the beginning, and of those before `upto`
    asked: tuple[str, ...] = ()  # calls of memory's own tools whose results have not been met
    id: int = 0

    @property
    def name(self) -> str:
        """What the session is called."""
        return self.given or self.made

    @property
    def key(self) -> Key:
        """Its project and its id."""
        return self.project, self.session

    @property
    def state(self) -> str:
        """The same as it is kept in an index."""
        return json.dumps(self[:-1], separators=(",", ":"))

    def document(self, pieces: list[Piece], grown: str) -> IndexDocument:
        """The log for an index, with what it has grown by."""
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
def _kept(state: str, id_: int) -> FollowedLog:
    kept = FollowedLog._make((*json.loads(state), id_))
    return kept._replace(stamp=tuple(kept.stamp), asked=tuple(kept.asked))


class Spot(NamedTuple):
    """Where a piece of a message stands in its log."""

    start: int  # of the line, in bytes
    last: int
    turn: int
    at: int  # where the piece begins in what the message says, in characters
    length: int
    digest: bytes

    @classmethod
    def of(cls, row: ChunkRow) -> Spot:
        """That of a row of the index."""
        return cls(*_SPOT.unpack(row.place))


def logs_in(index: Index, projects: Iterable[str] | None) -> dict[Key, FollowedLog]:
    """The logs of some projects that an index holds, or of all."""
    known = index.known(Filter(_places(projects)))
    logs = (_kept(each.state, each.id) for each in known.values())
    return {log.key: log for log in logs}


def _places(projects: Iterable[str] | None) -> tuple[Place, ...] | None:
    return None if projects is None else tuple(Place(Scope.PROJECT, each) for each in projects)


class View(NamedTuple):
    """What may be seen: logs of these projects and this agent, and of these sessions when a group listens."""

    projects: tuple[str, ...] | None = None  # None: of every one
    agent: str | None = None
    sessions: tuple[str, ...] | None = None

    def shows(self, log: FollowedLog) -> bool:
        """Whether a log is in sight, by what is known of it so far."""
        return (
            (self.projects is None or log.project in self.projects)
            and (self.agent is None or log.agent == self.agent)
            and (self.sessions is None or (log.session in self.sessions and log.audience == Audience.GROUP))
        )

    @property
    def filter(self) -> Filter:
        """The same for what is asked of an index."""
        group = () if self.sessions is None else (str(Audience.GROUP),)
        return Filter(_places(self.projects), type=self.agent, keys=self.sessions, tags=group)


class Followed(NamedTuple):
    """What a look at the logs found and did."""

    sessions: int = 0  # in sight
    changed: int = 0
    removed: int = 0
    pending: int = 0
    unreadable: tuple[tuple[str, str], ...] = ()  # path and why
    degraded: tuple[str, ...] = ()
    unwritten: str = ""  # why nothing of this is in a file

    @property
    def searched(self) -> int:
        """How many were taken in whole."""
        return self.sessions - self.pending - len(self.unreadable)

    @property
    def said(self) -> tuple[str, ...]:
        """What an answer has to tell of it."""
        told = list(self.degraded)
        if self.pending:
            which = "session is" if self.pending == 1 else "sessions are"
            told.append(f"{self.pending} {which} not indexed yet; run `vade index`")
        if self.unreadable:
            which = "session" if len(self.unreadable) == 1 else "sessions"
            where, why = self.unreadable[0]
            told.append(f"{len(self.unreadable)} {which} could not be read, first {where}: {why}")
        return tuple(told)

    def beside(self, report: SyncReport) -> SyncReport:
        """What became of the notes' index, with the sessions counted among the files."""
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


def bring(
    home: Home,
    index: Index,
    view: View,
    there: dict[Key, Stamp],
    wrong: dict[Key, str],
    *,
    until: float | None,
    progress: Progress | None,
) -> Followed:
    """Take in what is new in the logs that are there, the newest first, and take out those that are gone."""
    unreadable = dict(wrong)
    known = logs_in(index, view.projects)
    missing = [
        log
        for key, log in known.items()
        if key not in there and (view.sessions is None or log.session in view.sessions)
    ]
    # One may have come, and have been taken in by somebody else, since the folder was listed.
    gone = [log for log in missing if _stamp_now(home, log.key) is None]
    if gone:
        index.drop([log.id for log in gone])
    # And one may have grown and been taken in since: its old stamp would look like a log written anew.
    for key in [key for key in known.keys() & there.keys() if behind(known[key], there[key], view)]:
        there[key] = _stamp_now(home, key) or there[key]
    newest = sorted(there, key=lambda key: (there[key][1], key), reverse=True)
    waiting = [key for key in newest if behind(known.get(key), there[key], view)]
    changed, logs = 0, dict(known)
    for at, key in enumerate(waiting):
        before = known.get(key)
        try:
            now = follow(home, index, key, there[key], before=before, view=view, until=until)
        except (OutsideMemory, StorageFailed) as error:
            unreadable[key] = str(error)
            continue
        changed += before is None or now.upto != before.upto
        logs[key] = now
        if progress is not None:
            progress("sessions", at + 1, len(waiting))
        if until is not None and time.monotonic() >= until:
            break
    seen = _in_sight(view, there, logs)
    pending = [
        key
        for key in seen
        if key not in unreadable and ((log := logs.get(key)) is None or behind(log, there[key], view))
    ]
    told = [(path_of(key), why) for key, why in unreadable.items()]
    beside = sum(key not in there for key in unreadable)
    return Followed(len(seen) + beside, changed, len(gone), len(pending), tuple(told))


def survey(
    view: View, there: dict[Key, Stamp], wrong: dict[Key, str], *, known: dict[Key, FollowedLog], into: Survey
) -> None:
    """Count how far the logs that are there were taken in, and leave all as it is."""
    seen = _in_sight(view, there, known)
    into.files += len(seen) + len(wrong)
    into.failed += [Finding("a session cannot be read", path_of(key), why) for key, why in wrong.items()]
    for key in seen:
        log = known.get(key)
        if log is None:
            into.pending += 1
        elif behind(log, there[key], view):
            into.stale += 1
        else:
            into.indexed += 1
    into.gone += sum(key not in there for key in known)


def _in_sight(view: View, there: Iterable[Key], known: Mapping[Key, FollowedLog]) -> list[Key]:
    """The logs that count: whose one is, is not known before its beginning was read."""
    return [key for key in there if (log := known.get(key)) is None or not log.begun or view.shows(log)]


def _stamp_now(home: Home, key: Key) -> Stamp | None:
    try:
        with home.folder(FOLDER, key[0]) as folder:
            state = folder.stat(f"{key[1]}{ENDING}")
            return None if state is None else stamp_of(state)
    except (FileNotFoundError, NotADirectoryError, OutsideMemory):
        return None


def path_of(key: Key) -> str:
    """Where a log lies, as it is shown and asked for."""
    return f"{FOLDER}/{key[0]}/{key[1]}{ENDING}"


def follow(
    home: Home,
    index: Index,
    key: Key,
    state: Stamp,
    *,
    before: FollowedLog | None,
    view: View,
    until: float | None,
) -> FollowedLog:
    """Take in what is new in one log."""
    paper = OnDisk(home, *key)
    if before is not None and _rewritten(before, state, paper):
        index.drop([before.id])
        before = None
    while True:
        batch = Batch(before or FollowedLog(*key), state)
        for raw in Log(key[1], paper).raw(batch.log.upto, batch.log.lines + 1):
            if not raw.ended:  # whoever writes it is not done
                batch.finish()
                break
            batch.take(raw)
            if batch.log.begun and not view.shows(batch.log):
                break  # another agent's: what it says is not for this file
            if batch.full or (until is not None and time.monotonic() >= until):
                break
        else:
            batch.finish()
        now = batch.log._replace(mark=_mark(paper, batch.log.upto))
        if now == before:
            return now
        grown = "" if before is None else before.state
        taken = index.put([now.document(batch.pieces, grown)])
        if not taken:  # another process was quicker: go on from there
            before = _log_in(index, key)
            continue
        before = now
        if before.done or (before.begun and not view.shows(before)):
            return before
        if until is not None and time.monotonic() >= until:
            return before


def _log_in(index: Index, key: Key) -> FollowedLog | None:
    found = index.known(Filter(_places(key[:1]), items=(path_of(key),)))
    return next((_kept(each.state, each.id) for each in found.values()), None)


def listed(home: Home, view: View) -> tuple[dict[Key, Stamp], dict[Key, str]]:
    """The stamps of all logs that may be in sight, and those whose name or kind is none of ours."""
    found: dict[Key, Stamp] = {}
    wrong: dict[Key, str] = {}
    projects = home.names(FOLDER) if view.projects is None else view.projects
    for project in projects:
        try:
            folder = home.folder(FOLDER, names.check_id(project, "a project"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (InvalidKey, OutsideMemory) as error:
            wrong[project, ""] = str(error)
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
                    wrong[project, session] = str(error)
    return found, wrong


def _is_log(name: str) -> bool:
    return name.endswith(ENDING) and not name.startswith(".") and ".conflict-" not in name


def right(home: Home, index: Index, log: FollowedLog) -> bool:
    """Whether a log, read again up to where it was taken in, gives what the index holds of it."""
    batch = Batch(FollowedLog(log.project, log.session), log.stamp)
    ids = index.match((), Filter(items=(path_of(log.key),)), None)
    held = iter(sorted(index.rows(ids).values(), key=lambda row: row.order))
    fits = True
    try:
        for raw in Log(log.session, OnDisk(home, log.project, log.session)).raw():
            if raw.end > log.upto or not fits:
                break
            batch.take(raw)
            fits = all(_is(piece, next(held, None)) for piece in batch.pieces)
            batch.pieces.clear()
    except (OutsideMemory, StorageFailed):
        return False
    same = batch.log._replace(id=log.id, mark=log.mark, done=log.done) == log
    return fits and same and next(held, None) is None


def _is(piece: Piece, row: ChunkRow | None) -> bool:
    now = piece.start, piece.time, piece.speech, piece.size, piece.place
    return row is not None and now == (row.start, row.time, row.speech, row.size, row.place)


# -------------------------------------------------------------------- from lines to rows


class Batch:
    """Lines of a log, taken in one after the other."""

    def __init__(self, log: FollowedLog, stamp: tuple[int, ...]) -> None:
        self.log = log._replace(stamp=tuple(stamp), done=False)
        self.pieces: list[Piece] = []
        self._chars = 0
        self._until = time.monotonic() + _TURN

    @property
    def full(self) -> bool:
        """Whether it is time to write it down."""
        return self._chars > _BATCH or time.monotonic() > self._until

    def finish(self) -> None:
        """Note that everything that was there is in."""
        self.log = self.log._replace(done=True)

    def take(self, raw: Raw) -> None:
        """Take in one line."""
        log = self.log._replace(upto=raw.end, lines=raw.number, updated=raw.time or self.log.updated)
        if raw.kind in ("", *_TELLING):
            event = raw.read()
            if isinstance(event, Started | Renamed):
                log = log._replace(given=event.name or log.given)
            if isinstance(event, Started) and not log.begun:
                log = log._replace(begun=True, agent=event.agent, audience=event.audience)
            if isinstance(event, Said):
                log = self._said(log, event, raw)
        self.log = log

    def _said(self, log: FollowedLog, event: Said, raw: Raw) -> FollowedLog:
        message, own = event.message, OwnCalls(log.asked)
        said = own.without(message)
        log = log._replace(asked=own.open)
        if not log.made and log.looked < _LOOK:
            log = log._replace(made=name_from(message), looked=log.looked + 1)
        aside = is_aside(message)
        spoken = message.role is Role.USER and not aside and bool(message.text.strip())
        log = log._replace(turns=log.turns + spoken)
        if aside or message.role not in _SPOKEN:
            return log
        text = told(said)
        if len(text.strip()) <= (_SHORTEST if text.isascii() else _SHORTEST_OTHER):
            return log
        when = message.time or event.time
        day = head("", "", when, (), "")
        for at, length in pieces(text):
            piece = text[at : at + length]
            used = words.all_in(piece[:_WEIGHED])
            speech = words.speech_of(piece[:_WEIGHED], used)
            spot = Spot(raw.start, raw.end, log.turns, at, length, digest(piece))
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
                    place=_SPOT.pack(*spot),
                    language=language_of(piece[:_WEIGHED], used),
                )
            )
        self._chars += len(text)
        return log


_TELLING = (Started.kind, Renamed.kind, Said.kind)


def told(message: Message) -> str:
    """What a message says: its words, what tools were asked for and with what, and what they gave back.

    Of very long ones most of the beginning and some of the end; neither thoughts nor pictures.
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


def own_calls(log: Log, upto: int) -> OwnCalls:
    """The calls of memory's own tools that wait for their results at a place of a log, in bytes."""
    own = OwnCalls()
    for raw in log.raw():
        if raw.start >= upto:
            break
        if raw.kind in ("", Said.kind) and isinstance(event := raw.read(), Said):
            own.without(event.message)
    return own


def _bounded(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST * 3 // 4]}\n…\n{text[-LONGEST // 4 :]}"


def _arguments(text: str) -> str:
    """The values a tool was given, without the marks of JSON, in which a line's end is a letter."""
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
    """A text that can be written as UTF-8."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where to cut a long text: between words where there is a space, each piece a little into the next."""
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
    """What tells one text from another."""
    return blake2b(text.encode(), digest_size=12).digest()


def behind(log: FollowedLog | None, state: Stamp, view: View) -> bool:
    """Whether there is something in a log that should be taken in and is not."""
    if log is None:
        return True
    grown = state[3] == log.stamp[3] and state[0] >= log.stamp[0]
    if log.begun and not view.shows(log) and grown:
        return False  # somebody else's, as it was
    return not log.done or log.stamp != state


def _rewritten(log: FollowedLog, state: Stamp, paper: OnDisk) -> bool:
    """Whether a log did not just grow: then nothing of what was taken in counts any more."""
    if state == log.stamp:
        return False
    size, _, _, inode = log.stamp
    # Of the same size, and yet of another time, it was written over in place.
    return state[3] != inode or state[0] <= size or _mark(paper, log.upto) != log.mark


def _mark(paper: OnDisk, upto: int) -> str:
    """A number for the bytes that a log begins with, and for those before a place in it."""
    with files.reported(f"read the transcript {paper.path}"):
        file = paper.opened()
        if file is None:
            return ""
        with file:
            first = file.read(min(_MARK, upto))
            file.seek(max(0, upto - _MARK))
            return blake2b(first + file.read(min(_MARK, upto)), digest_size=12).hexdigest()


def beginnings(log: Log) -> Iterator[Started]:
    """The lines that say how a session began; the first of them counts."""
    for raw in log.raw():
        if raw.kind in ("", Started.kind) and isinstance(event := raw.read(), Started):
            yield event
