"""The sessions of a home: begin one, find one again, or what was said in it, name it, end it with a note.

Knows logs and who is asking; knows no model. What a group may see is its own session alone, and an incognito
session is kept in memory and nowhere else.
"""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from vademecum.config import parse_duration
from vademecum.errors import (
    Ambiguous,
    Collision,
    ConfigError,
    Locked,
    NotFound,
    NotVisible,
    OutsideMemory,
    StorageFailed,
    UnknownName,
    UsageError,
    VadeError,
)
from vademecum.search import relevance
from vademecum.search.legs import PREVIEW, around, lowered
from vademecum.store import Journal, files, scopes
from vademecum.text import clock, is_command, is_silent, names, secrets
from vademecum.text.outgoing import clean_text
from vademecum.transcripts import (
    ASIDE,
    OwnCalls,
    Role,
    is_aside,
    is_own_call,
    name_from,
)
from vademecum.transcripts.events import (
    PROGRESS,
    Checkpoint,
    Ended,
    Event,
    Renamed,
    Said,
    Started,
    Usage,
    Used,
    end_of,
    name_of,
    start_of,
)
from vademecum.transcripts.log import ENDING, FOLDER, InMemory, Line, Log, OnDisk, clean_event
from vademecum.types import Audience, Origin, Scope, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.store import Home
    from vademecum.transcripts import Message
    from vademecum.transcripts.events import Torn
    from vademecum.types import Change

NOTE_MESSAGES = 15
IMPORT = "import"  # what the first and last event of such a session have beside their own fields
IMPORTED = "imported"  # why a session that was copied from another agent's file ended
SLUG_SECONDS = 20.0
_SPOKEN = {Role.USER: "User", Role.ASSISTANT: "Assistant"}
_NOTE_CHARS = 2000  # of one message in a session's note
_LOOK = 20  # messages from the beginning among which a name is looked for
_RECENT = 16  # lines from the end that tell whether a session has ended


class Session(NamedTuple):
    """What is known of a session without reading all of what was said."""

    id: str
    project: str
    path: str
    name: str = ""
    created: str = ""
    updated: str = ""
    messages: int = 0
    agent: str = ""
    audience: str = ""
    cwd: str = ""
    model: str = ""
    ended: bool = False
    trouble: str = ""  # why its file could not be read
    usage: Usage = Usage()  # of all its calls


class Reset(NamedTuple):
    """When a new session begins by itself: each local day, after so many idle seconds, or never."""

    daily: bool = False
    idle: float | None = None

    def due(self, last: datetime | None, now: datetime) -> str:
        """Why a session whose last event is of then is over now; empty when it goes on.

        A clock that went back is no reason: a moment that seems to come counts as just now.
        """
        if last is None:
            return ""
        if self.daily and last.astimezone(now.tzinfo).date() < now.date():
            return "daily"
        if self.idle is not None and (now - last).total_seconds() > self.idle:
            return "idle"
        return ""


def parse_reset(text: str) -> Reset:
    """Read `daily`, `never` or `idle:30m`."""
    kind, _, rest = text.strip().lower().partition(":")
    if kind in ("daily", "never") and not rest:
        return Reset(daily=kind == "daily")
    if kind == "idle":
        try:
            return Reset(idle=parse_duration(rest))
        except ValueError:
            pass
    raise ConfigError(f"{names.shown(text)} is not a session reset: use daily, idle:30m or never")


def _silent(change: Change) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class Sessions:
    """The sessions that a caller can reach; `slug` asks the host's model for a few words about a text."""

    home: Home
    caller: scopes.Caller
    now: Callable[[], datetime] = clock.now
    reset: str = "daily"
    note_messages: int = NOTE_MESSAGES
    incognito: bool = False
    slug: Callable[[str], str] | None = None
    slug_seconds: float = SLUG_SECONDS
    announce: Callable[[Change], None] = _silent
    _own: dict[tuple[str, str], Log] = field(default_factory=dict)  # those begun here, by project and id
    _cards: dict[str, tuple[tuple[int, ...], Session]] = field(default_factory=dict)

    # ---------------------------------------------------------------- begin and find

    def new(self, *, id: str = "", name: str = "", model: str = "", cwd: str = "") -> Log:
        """Begin a session; its first line is on disk when this returns."""
        project = scopes.place_for(self.caller, Scope.PROJECT).id
        session = names.check_id(id or names.new_id(), "a session")
        log = self._log(project, session)
        at = clock.stamp(self.now())
        begun = Started(
            cwd=cwd or (str(self.caller.project.root) if self.caller.project else ""),
            name=one_line(name),
            created=at,
            model=model,
            agent=self.caller.agent or "",
            audience=str(self.caller.audience),
            project=project,
            time=at,
        )
        alone = contextlib.nullcontext() if self.incognito else self.home.lock(f"begin session {session}")
        with alone:
            if next(log.raw(), None) is not None:
                raise Collision(f"the session {session} already exists", hint="choose another id")
            log.append(begun, sync=True)
        self._own[project, session] = log
        return log

    def open(self, which: str, *, all: bool = False) -> Log:
        """The session with this id, beginning of an id, or name, to read or to go on with."""
        found = self._find(which, all=all)
        return self._log(found.project, found.id)

    def card(self, which: str, *, all: bool = False) -> Session:
        """What is known of the session with this id, beginning of an id, or name."""
        return self._find(which, all=all)

    def read(self, session: Session) -> Log:
        """The log of a session that was listed."""
        return self._log(session.project, session.id)

    def current(self, *, model: str = "", cwd: str = "") -> Log:
        """The session to go on with: the newest, unless it ended or is over by the reset policy.

        A session that the caller names is the caller's to end: it is begun when it is not there.
        """
        named = self.caller.session
        if named:
            with contextlib.suppress(NotFound):
                return self.open(named)
            with contextlib.suppress(Collision):  # another process may have begun it in this moment
                return self.new(id=named, model=model, cwd=cwd)
            return self.open(named)
        reset = parse_reset(self.reset)
        live = ""
        newest = self._newest()
        if newest is not None and not newest.ended:
            why = reset.due(clock.parse(newest.updated), self.now())
            if not why:
                return self._log(newest.project, newest.id)
            live = "" if self._ended_by_reset(self._log(newest.project, newest.id), why) else newest.id
        if self.incognito:
            return self.new(model=model, cwd=cwd)
        # Another process may have been here at the same time: one of us begins, the other goes on with it.
        with self.home.lock(f"sessions of {scopes.place_for(self.caller, Scope.PROJECT).id}"):
            newest = self._newest()
            if newest is not None and not newest.ended and newest.id != live:
                return self._log(newest.project, newest.id)
            return self.new(model=model, cwd=cwd)

    def list(self, *, all: bool = False) -> Sequence[Session]:
        """The sessions of this project and agent, newest first; `all`, those of every project and agent."""
        found = [self._card(project, session) for project, session in self._visible(all=all)]
        return _newest_first(each for each in found if all or self._mine(each) or each.trouble)

    def page(
        self, wanted: Callable[[str, str], bool], *, all: bool = False, limit: int, offset: int = 0
    ) -> tuple[Sequence[Session], Sequence[tuple[str, str]]]:
        """Some of the sessions, the one written to last first, and project and id of each that is `wanted`.

        Only the logs of the page are read: whose a session is, is looked at among those alone.
        """
        marks = {each: self._mark(*each) for each in self._visible(all=all)}
        found = sorted(marks, key=lambda each: (marks[each][1:2], each[1]), reverse=True)
        fitting = [each for each in found if wanted(*each)]
        cards = [self._card(*each) for each in fitting[offset : offset + limit]]
        return [each for each in cards if all or self._mine(each) or each.trouble], found

    def ids(self, *, all: bool = False) -> frozenset[str]:
        """The ids of the sessions that may be looked at, without a look into any."""
        return frozenset(session for _, session in self._visible(all=all))

    # ---------------------------------------------------------------- name and end

    def rename(self, which: str, name: str, *, all: bool = False) -> Log:
        """Rename a session."""
        kept = one_line(name)
        if not kept:
            raise UsageError("a session's name needs at least one visible character")
        log = self.open(which, all=all)
        log.append(Renamed(kept), sync=True)
        return log

    def end(self, which: str, *, why: str = "quit") -> Ended:
        """End a session, with a note of its last messages in the journal; one that has ended stays so."""
        return self._end(self.open(which), why)

    def due(self, log: Log) -> str:
        """Why a session is over by the reset policy; empty while it goes on."""
        times = [line.event.time for line in log.tail(_RECENT) if isinstance(line.event, Event)]
        return parse_reset(self.reset).due(clock.parse(times[-1]) if times else None, self.now())

    def hold(self, session: str) -> contextlib.ExitStack:
        """Hold a session that somebody talks in, among all processes of this home; Locked when it is held."""
        held = contextlib.ExitStack()
        held.enter_context(self._talking(session))
        return held

    @contextlib.contextmanager
    def _talking(self, session: str) -> Iterator[None]:
        with (
            self.home.folder("locks", create=True) as folder,
            folder.lock(f"chat {session}", seconds=0),
        ):
            yield

    def _ended_by_reset(self, log: Log, why: str) -> bool:
        """End a session whose time is over, unless somebody talks in it right now; whether it ended."""
        if self.incognito:
            self._end(log, why)
            return True
        try:
            held = self.hold(log.session)
        except Locked:
            return False
        with held:
            self._end(log, why)
        return True

    def _end(self, log: Log, why: str) -> Ended:
        over = self._ended(log)
        if over is not None:
            return over
        said = self._last_said(log)
        # Before the lock is taken: a model's answer takes its time.
        slug = self._slug(log, said) if said and not self._no_note() else ""
        if self.incognito:
            return self._close(log, why, "skipped:incognito")
        with self.home.lock(f"end of session {log.session}"):
            over = self._ended(log)
            return over or self._close(log, why, self._note(log, said, slug))

    def _close(self, log: Log, why: str, note: str) -> Ended:
        event = log.append(Ended(why, note), sync=True)
        return event if isinstance(event, Ended) else Ended(why, note)

    def _no_note(self) -> str:
        if self.incognito:
            return "skipped:incognito"
        if self.caller.audience is Audience.GROUP:  # which cannot read a journal, and must not write one
            return "skipped:group"
        return "skipped:off" if self.note_messages < 1 else ""

    def _note(self, log: Log, said: Sequence[Said], slug: str) -> str:
        """Put the last messages into the journal; returns where, or why not."""
        if self._no_note() or not said:
            return self._no_note() or "nothing"
        text, _ = secrets.gate(_note_text(log, self._name(log), said), SecretPolicy.REDACT)
        # What was said came through many doors, tools among them: it takes the least trusted.
        journal = Journal(self.home, self.caller._replace(origin=Origin.TOOL), self.now, self.announce)
        try:
            return journal.note(text, scope=Scope.PROJECT, slug=slug).path
        except (VadeError, OSError) as error:
            return f"failed:{error}"

    def _last_said(self, log: Log) -> Sequence[Said]:
        """The last messages of user and assistant that say something, commands of the chat left out."""
        count = 4 * self.note_messages
        while count > 0:
            lines = log.tail(count)
            said = [
                line.event
                for line in lines
                if isinstance(line.event, Said) and _is_spoken(line.event.message)
            ]
            if len(said) >= self.note_messages or len(lines) < count:
                return said[-self.note_messages :]
            count *= 4
        return []

    def _slug(self, log: Log, said: Sequence[Said]) -> str:
        """A few words for the name of a note: the host's model's, else from the session's name or text."""
        title = self._name(log) or said[0].message.text
        if self.slug is not None:
            words = _asked(self.slug, _note_text(log, title, said), self.slug_seconds)
            answer = one_line(words) if isinstance(words, str) and len(words) <= 200 else ""
            if any(char.isascii() and char.isalnum() for char in answer):
                return names.key_from(answer)
        return names.key_from(title)

    # ---------------------------------------------------------------- looking

    def _log(self, project: str, session: str) -> Log:
        if (project, session) in self._own:
            return self._own[project, session]
        paper = InMemory() if self.incognito else OnDisk(self.home, project, session)
        return Log(session, paper, now=self.now)

    def _visible(self, *, all: bool = False) -> Iterator[tuple[str, str]]:
        """Project and id of each session that may be looked at."""
        if all and self.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees only its own session")
        if self.incognito:
            yield from self._own
            return
        projects = self.home.names(FOLDER) if all else self._projects()
        for project in dict.fromkeys(projects):
            for name in self.home.names(FOLDER, project):
                session = name.removesuffix(ENDING)
                if not name.endswith(ENDING) or name.startswith(".") or ".conflict-" in name:
                    continue
                if self.caller.audience is Audience.PRIVATE or self._is_own(session):
                    yield project, session

    def _projects(self) -> Sequence[str]:
        """The caller's project, and the ids it had before."""
        place = scopes.place_for(self.caller, Scope.PROJECT)
        shelves = scopes.shelves(self.home, self.caller, place)
        return [place.id, *(shelf.parts[-1] for shelf in shelves if not shelf.shared)]

    def _is_own(self, session: str) -> bool:
        return session == self.caller.session or any(session == own for _, own in self._own)

    def _mine(self, session: Session) -> bool:
        """Whether it is this agent's, and for a group, no private one whose id it happens to have."""
        private = self.caller.audience is Audience.PRIVATE
        return session.agent == (self.caller.agent or "") and (private or session.audience == Audience.GROUP)

    def _find(self, which: str, *, all: bool) -> Session:
        visible = [each for each in self._visible(all=all) if which]
        exact = [each for each in visible if each[1] == which]
        found = [self._card(*each) for each in exact or visible]
        found = [each for each in found if (all or self._mine(each)) and not each.trouble]
        wanted = " ".join(which.split()).casefold()
        for fits in (
            [each for each in found if each.id == which],
            [each for each in found if each.id.startswith(which)],
            [each for each in found if each.name.casefold() == wanted],
        ):
            if len(fits) == 1:
                return fits[0]
            if fits:
                shown = ", ".join(each.id for each in _newest_first(fits)[:5])
                raise Ambiguous(
                    f"{names.shown(which)} matches several sessions: {shown}",
                    hint="use more characters of the id",
                )
        raise NotFound(
            f"no session {names.shown(which)} is visible from here",
            hint="use an id, the beginning of one, or a name",
        )

    def _newest(self) -> Session | None:
        """The newest session of this caller, by a look at the ends of each log only."""
        found = []
        for project, session in self._visible():
            log = self._log(project, session)
            try:
                begun, tail = _begun(log), [line.event for line in log.tail(_RECENT)]
            except (OutsideMemory, StorageFailed):
                continue  # `list` tells of it
            times = [event.time for event in tail if isinstance(event, Event)]
            if begun is not None and begun.audience == str(self.caller.audience):
                over = end_of(tail)
                if IMPORT in begun.extra or (over is not None and over.why == IMPORTED):
                    continue  # somebody else's session, however new, is not the one to go on with
                ended = over is not None
                card = Session(session, project, log.path, agent=begun.agent, audience=begun.audience)
                updated = times[-1] if times else ""
                found.append(card._replace(created=begun.created, updated=updated, ended=ended))
        return next(iter(_newest_first(each for each in found if self._mine(each))), None)

    def _card(self, project: str, session: str) -> Session:
        """What is known of a session; looked at again only when its file has changed."""
        log = self._log(project, session)
        mark = self._mark(project, session)
        known = self._cards.get(log.path)
        if known is None or not mark or known[0] != mark:
            try:
                known = mark, _card(log, project)
            except (OutsideMemory, StorageFailed) as error:
                known = (), Session(session, project, log.path, trouble=str(error))
            self._cards[log.path] = known
        return known[1]

    def _mark(self, project: str, session: str) -> tuple[int, ...]:
        if self.incognito:
            return ()
        with files.reported("look at the transcripts"), self.home.folder(FOLDER, project) as folder:
            state = folder.stat(f"{session}{ENDING}")
        return () if state is None else (state.st_size, state.st_mtime_ns, state.st_ino)

    def _ended(self, log: Log) -> Ended | None:
        return end_of(line.event for line in log.tail(_RECENT))

    def _name(self, log: Log) -> str:
        return _card(log, "").name


def _card(log: Log, project: str) -> Session:
    """Read the few lines that tell of a session as a whole; messages are counted, not read."""
    rare: list[Event] = []
    count = looked = 0
    updated = made = model = ""
    usage = Usage()
    for raw in log.raw():
        updated = raw.time or updated
        if raw.kind == Said.kind:
            count += _SYSTEM not in raw.content[:_HEAD]
            if rare and isinstance(rare[-1], Ended):
                rare.pop()  # somebody spoke since
        if raw.kind == Said.kind and (made or looked >= _LOOK):
            continue
        if raw.kind in ("", Said.kind, *_RARE):
            event = raw.read()
            if isinstance(event, Said) and not made:
                looked += 1
                made = name_from(event.message)
            elif isinstance(event, Used):
                usage, model = usage.add(event), model or event.model
            elif isinstance(event, Started | Renamed | Ended):
                rare.append(event)
    begun = start_of(rare) or Started()
    return Session(
        log.session,
        project,
        log.path,
        name_of(rare) or made,
        begun.created,
        updated,
        count,
        begun.agent,
        begun.audience,
        begun.cwd,
        begun.model or model,
        end_of(rare) is not None,
        usage=usage,
    )


_SYSTEM, _HEAD = b'"role":"system"', 400  # a prompt is nothing that was said, and stands at the beginning
_RARE = (Started.kind, Renamed.kind, Ended.kind, Used.kind)


def _begun(log: Log) -> Started | None:
    """The first line that says how a session began; it is the first of all, unless that one is torn."""
    for number, raw in enumerate(log.raw()):
        if raw.kind in ("", Started.kind):
            event = raw.read()
            if isinstance(event, Started):
                return event
        if number > _LOOK:
            break
    return None


def _newest_first(found: Iterator[Session] | Sequence[Session]) -> list[Session]:
    return sorted(found, key=lambda each: (each.updated, each.created, each.id), reverse=True)


def _is_spoken(message: Message) -> bool:
    text = message.text.replace(ASIDE, "").strip()
    silent = message.role is Role.ASSISTANT and is_silent(text)
    plain = not is_aside(message) and not is_command(text) and not silent
    return message.role in _SPOKEN and bool(text) and plain


def _note_text(log: Log, title: str, said: Sequence[Said]) -> str:
    where = f"{log.path} " if log.path else ""
    lines = [f"Session {title or log.session}: the last {len(said)} messages ({where}{log.session})."]
    for each in said:
        text = each.message.text.strip()
        if len(text) > _NOTE_CHARS:
            text = f"{text[:_NOTE_CHARS]} … [{len(text) - _NOTE_CHARS} more characters]"
        lines.append(f"**{_SPOKEN[each.message.role]}**: {text}")
    return "\n\n".join(lines).replace("\0", "").encode(errors="replace").decode()


def one_line(text: str) -> str:
    """A name as it can be shown on a line."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200].rstrip()


def _asked(ask: Callable[[str], str], text: str, seconds: float) -> object:
    """What the host's model answers, or None when it fails or takes too long."""
    answer: list[object] = []

    def run() -> None:
        try:
            answer.append(ask(text))
        except Exception:  # whatever a host's callback raises, the session ends without its words
            return

    worker = threading.Thread(target=run, name="vade-slug", daemon=True)
    worker.start()
    worker.join(seconds)
    return answer[0] if answer else None


# -------------------------------------------------------------------- what was said, found again
# By the points of the keywords: reads logs, newest session first, a line at a time, and knows no index
# (`search` has one). A result needs a word of the question in it: what a message gains by its role or its
# session's title only orders those that have one.

RANKINGS = ("relevance", "keywords")
MAX_SESSIONS, MOST_SESSIONS = 10, 50
MAX_RESULTS, MOST_RESULTS = 5, 20

_SPLIT = re.compile(r"[\s\-_.,;:!?()\[\]{}'\"/\\]+")
_SHORTEST = 10  # characters; what is no longer says nothing by itself
_CALLING = (b"vade", b"memory_", b"session_")  # of which the line of a call of ours has one
_SAME = 80  # characters by which two messages of a session count as one
_DENSE = 0.7  # of the keywords
_ROLES = {Role.ASSISTANT: 0.3, Role.USER: 0.2}
_STOP = frozenset(
    """a about all also an and any are as at be been but by can could did do does for from get had has have
    he her his how i if in into is it its just like me more my no not of on or our out she should so some
    than that the their them then there these they this to up us was we were what when where which who why
    will with would you your""".split()
)


class Hit(NamedTuple):
    """A message that answers: where it stands, and the part of it around the match."""

    session: str
    project: str
    title: str
    role: str
    turn: int  # of the user's requests, counted from 1; 0 before the first
    line: int  # in the log
    time: str
    preview: str
    score: float
    keyword_hits: int
    exact: bool
    relevance: float = 0.0  # from 0 to 1; the ranking by keywords knows none
    reranked: tuple[float, int] | None = None  # how well it answers by another model, and its place before

    @property
    def match(self) -> str:
        """How likely it answers: `strong`, `likely` or `weak`; empty where only words were counted."""
        return relevance.match(self.relevance) if self.relevance else ""


class Recalled(NamedTuple):
    """What was found, in how many sessions it was looked for, and what was wrong with the others."""

    hits: tuple[Hit, ...] = ()
    sessions: int = 0
    degraded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # how the question was read, and what else was searched
    read: bool = False  # whether a model read the question
    passages_read: int = 0  # of what was said, once that was asked for
    passages_unread: int = 0


class Question(NamedTuple):
    """What is looked for."""

    text: str
    keywords: tuple[str, ...]


def ask(text: str) -> Question:
    """A question's words, lower case, each once, without those that every text has."""
    lower = " ".join(text.lower().split())
    words = (each for each in _SPLIT.split(lower) if len(each) > 1 and each not in _STOP)
    return Question(lower, tuple(dict.fromkeys(words)))


def check_ranking(name: str) -> str:
    """Return the ranking if there is one of that name."""
    if name not in RANKINGS:
        raise UnknownName(
            f"{names.shown(name)} is not a ranking", hint=f"the rankings are {', '.join(RANKINGS)}"
        )
    return name


def bounded(max_sessions: int, max_results: int) -> tuple[int, int]:
    """How many sessions and results may be asked for."""
    return min(max(max_sessions, 0), MOST_SESSIONS), min(max(max_results, 0), MOST_RESULTS)


def session_search(
    query: str,
    sessions: Iterable[Session],
    read: Callable[[Session], Log],
    *,
    max_sessions: int = MAX_SESSIONS,
    max_results: int = MAX_RESULTS,
    own: bool = False,
) -> Recalled:
    """The messages with the most points, among equals the newest first; `sessions` come newest first.

    With `own`, calls of memory's own tools and their results are among them.
    """
    wanted = ask(query)
    many, most = bounded(max_sessions, max_results)
    best: list[Hit] = []
    if not wanted.text:
        return Recalled()
    listed = list(sessions)
    troubles = [f"{each.path}: {each.trouble}" for each in listed if each.trouble]
    looked = 0
    for session in [each for each in listed if not each.trouble][:many]:
        try:
            best += _best(_hits(session, read(session), wanted, own=own), most)
        except (OutsideMemory, StorageFailed) as error:  # gone or unreadable since it was listed
            troubles.append(f"{session.path}: {error}")
            continue
        looked += 1
        best = sorted(best, key=lambda hit: -hit.score)[:most]
    return Recalled(tuple(best), looked, tuple(f"a session could not be read: {each}" for each in troubles))


def _best(hits: Iterable[Hit], most: int) -> list[Hit]:
    """The best of a session, the later before the earlier among equals, without holding all of them."""
    kept: list[Hit] = []
    for hit in hits:
        kept.append(hit)
        if len(kept) > 4 * most:
            kept = sorted(kept, key=_order)[:most]
    return sorted(kept, key=_order)[:most]


def _order(hit: Hit) -> tuple[float, int]:
    return -hit.score, -hit.line


def _hits(session: Session, log: Log, wanted: Question, *, own: bool) -> Iterator[Hit]:
    turn = 0
    seen: set[int] = set()
    marks = _marks(wanted)
    asked = OwnCalls()
    for raw in log.raw():
        if raw.kind not in ("", Said.kind):
            continue
        user = b'"role":"user"' in raw.content
        calls = not own and any(each in raw.content for each in _CALLING)
        if marks and not user and not calls and not _could(raw.content, marks):
            continue
        event = raw.read()
        if not isinstance(event, Said):
            continue
        message = event.message if own else asked.without(event.message)
        turn += message.role is Role.USER and not is_aside(message) and bool(message.text.strip())
        text = _words(message, calls=own)
        if message.role is Role.SYSTEM or len(text) <= _SHORTEST or hash(text[:_SAME]) in seen:
            continue
        found = score(wanted, text, message.role, session.name)
        if found is None:
            continue
        seen.add(hash(text[:_SAME]))
        points, hits, exact = found
        yield Hit(
            session.id,
            session.project,
            clean_text(session.name),
            str(message.role),
            turn,
            raw.number,
            message.time or event.time,
            preview(clean_text(text), wanted),
            points,
            hits,
            exact,
        )


def session_get(log: Log, place: int | str, *, lines: int = 1) -> Sequence[Line]:
    """Lines of a log, from a number on, or from the id of an event, a message, or a tool's call.

    For a call it is the line with its result, which the window may have only in part; `session_progress` is
    the newest checkpoint, which says how the work stood when messages last left the window.
    """
    if place == PROGRESS:
        number = _last_checkpoint(log)
    else:
        number = int(place) if str(place).isdecimal() else _line_of(log, str(place))
    if number < 1 or lines < 1:
        raise UsageError("line numbers start at 1")
    picked = (raw for raw in log.raw() if number <= raw.number)
    return [Line(_clean(raw.read()), raw.number, raw.start, raw.end) for raw in islice(picked, lines)]


def _clean(event: Event | Torn) -> Event | Torn:
    return clean_event(event) if isinstance(event, Event) else event


def _last_checkpoint(log: Log) -> int:
    points = (raw for raw in log.raw() if raw.kind == Checkpoint.kind)
    numbers = [raw.number for raw in points if isinstance(raw.read(), Checkpoint)]
    if not numbers:
        raise NotFound(
            f"session {log.session} has no checkpoint: nothing was trimmed yet",
            hint="the whole session is still there; pass a line number to read it",
        )
    return numbers[-1]


def _line_of(log: Log, id: str) -> int:
    found = 0
    mark = id.encode()
    for raw in log.raw():
        if not id or mark not in raw.content:
            continue
        event = raw.read()
        if isinstance(event, Event) and event.id == id:
            return raw.number
        if isinstance(event, Said):
            if any(part.id == id for part in event.message.results):
                return raw.number
            if event.message.id == id or any(part.id == id for part in event.message.calls):
                found = found or raw.number
    if not found:
        raise NotFound(
            f"nothing in session {log.session} has the id {names.shown(id)}",
            hint="pass a line number, or the id of a message or tool call",
        )
    return found


def score(wanted: Question, text: str, role: Role, title: str) -> tuple[float, int, bool] | None:
    """The points of a message, how many keywords it has, and whether the question as a whole.

    None when it has neither.
    """
    lower, name = " ".join(text.lower().split()), title.lower()
    exact = wanted.text in lower
    hits = sum(each in lower for each in wanted.keywords)
    if not exact and not hits:
        return None
    points = 3.0 * exact + 1.0 * hits + _ROLES.get(role, 0.0)
    if len(wanted.keywords) > 1 and hits >= _DENSE * len(wanted.keywords):
        points += 1.5
    points += 2.0 if wanted.text in name else 0.5 * sum(each in name for each in wanted.keywords)
    return points, hits, exact


def preview(text: str, wanted: Question, size: int = PREVIEW) -> str:
    """The part of a text around the question, or around the middle one of the keywords in it."""
    if len(text) <= size:
        return text
    lower = lowered(text)
    at = lower.find(wanted.text)
    if at >= 0:
        return around(text, at + len(wanted.text) // 2, size)
    places = sorted(place for each in wanted.keywords if (place := lower.find(each)) >= 0)
    return around(text, places[len(places) // 2] if places else 0, size)


def _words(message: Message, *, calls: bool = False) -> str:
    """What a message says, the results of tools included; with `calls`, what memory was asked as well."""
    asked = [f"{call.name} {call.arguments}" for call in message.calls if calls and is_own_call(call)]
    found = (message.text, *asked, *(part.text for part in message.results))
    return "\n".join(each for each in found if each).replace(ASIDE, "")


def _marks(wanted: Question) -> tuple[bytes, ...]:
    """Bytes of which a line must have some: none when a letter may be written in several ways."""
    if wanted.keywords and all(each.isascii() and each.isprintable() for each in wanted.keywords):
        return tuple(each.encode() for each in wanted.keywords)
    return ()


def _could(line: bytes, marks: tuple[bytes, ...]) -> bool:
    lower = line.lower()
    return any(each in lower for each in marks)
