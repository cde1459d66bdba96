"""The sessions of a home: begin one, find one again, name it, end it with a note in the journal.

Knows logs and who is asking; knows no model. What a group may see is its own session alone, and an incognito
session is kept in memory and nowhere else.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field, replace
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
    UsageError,
    VadeError,
)
from vademecum.store import Journal, clock, files, names, scopes, secrets
from vademecum.transcripts.events import Ended, Event, Renamed, Said, Started, end_of, name_of, start_of
from vademecum.transcripts.log import ENDING, FOLDER, InMemory, Log, OnDisk
from vademecum.transcripts.messages import Role, is_aside, is_command, name_from
from vademecum.types import Audience, Origin, Scope, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from vademecum.store import Home
    from vademecum.transcripts.messages import Message
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
    raise ConfigError(f"{names.shown(text)} is not a way to begin new sessions: daily, idle:30m or never")


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
                raise Collision(f"there is a session {session} already", hint="choose another id")
            log.append(begun, sync=True)
        self._own[project, session] = log
        return log

    def open(self, which: str, *, all: bool = False) -> Log:
        """The session with this id, beginning of an id, or name, to read or to go on with."""
        found = self._find(which, all=all)
        return self._log(found.project, found.id)

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

    # ---------------------------------------------------------------- name and end

    def rename(self, which: str, name: str, *, all: bool = False) -> Log:
        """Give a session another name."""
        kept = one_line(name)
        if not kept:
            raise UsageError("a session's name has at least one character that can be seen")
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
        journal = Journal(self.home, replace(self.caller, origin=Origin.TOOL), self.now, self.announce)
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
            raise NotVisible("a group session sees its own session only")
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
                    f"{names.shown(which)} fits several sessions: {shown}", hint="give more of the id"
                )
        raise NotFound(
            f"no session {names.shown(which)} is visible from here",
            hint="give an id, the beginning of one, or a name",
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
    updated = made = ""
    for raw in log.raw():
        updated = raw.time or updated
        if raw.kind == Said.kind:
            count += 1
            if rare and isinstance(rare[-1], Ended):
                rare.pop()  # somebody spoke since
        if raw.kind == Said.kind and (made or looked >= _LOOK):
            continue
        if raw.kind in ("", Said.kind, *_RARE):
            event = raw.read()
            if isinstance(event, Said) and not made:
                looked += 1
                made = name_from(event.message)
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
        begun.model,
        end_of(rare) is not None,
    )


_RARE = (Started.kind, Renamed.kind, Ended.kind)


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
    text = message.text.strip()
    plain = not is_aside(message) and not is_command(text)
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
