"""The sessions of a home: begin, find, search, name and end them, with a note in the journal at the end.

This module knows logs and the caller; it knows no model. A group caller sees its own session only, and an
incognito session is kept in memory only.
"""

from __future__ import annotations

import contextlib
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
    UsageError,
    VadeError,
)
from vademecum.store import Journal, reported, scopes
from vademecum.text import clock, is_command, is_silent, names, secrets
from vademecum.transcripts.events import (
    PROGRESS,
    Checkpoint,
    Ended,
    Event,
    MessageEvent,
    Renamed,
    Started,
    Usage,
    Used,
    end_of,
    name_of,
    start_of,
)
from vademecum.transcripts.log import Line, Log, LogFile, MemoryLog, clean_event
from vademecum.transcripts.messages import ASIDE, Role, is_aside, name_from
from vademecum.transcripts.paths import ENDING, FOLDER
from vademecum.types import Audience, Origin, Scope, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from vademecum.store import Home
    from vademecum.transcripts.events import TornLine
    from vademecum.transcripts.log import Raw
    from vademecum.transcripts.messages import Message
    from vademecum.types import Change

NOTE_MESSAGES = 15
IMPORT = "import"  # the `extra` key of the first and last event of an imported session
IMPORTED = "imported"  # why an imported session ended: it was copied from another agent's file
SLUG_SECONDS = 20.0
_SPOKEN = {Role.USER: "User", Role.ASSISTANT: "Assistant"}
_NOTE_CHARS = 2000  # characters of one message in a session's note
_LOOK = 20  # messages from the beginning that are tried as the session's name
_RECENT = 16  # lines from the end that show whether a session has ended


class Session(NamedTuple):
    """Facts about a session, collected without parsing all its messages."""

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
    usage: Usage = Usage()  # the usage of all its calls


class Reset(NamedTuple):
    """The rule when a new session begins: each local day, after some idle seconds, or never."""

    daily: bool = False
    idle: float | None = None

    def due(self, last: datetime | None, now: datetime) -> str:
        """Return why a session is over, given the time of its last event; empty while the session goes on.

        A clock that was set back does not end a session: a last event in the future counts as just now.
        """
        if last is None:
            return ""
        if self.daily and last.astimezone(now.tzinfo).date() < now.date():
            return "daily"
        if self.idle is not None and (now - last).total_seconds() > self.idle:
            return "idle"
        return ""


def parse_reset(text: str) -> Reset:
    """Return the reset rule in a text: `daily`, `never`, or an idle time such as `idle:30m`."""
    kind, _, rest = text.strip().lower().partition(":")
    if kind in ("daily", "never") and not rest:
        return Reset(daily=kind == "daily")
    if kind == "idle":
        try:
            return Reset(idle=parse_duration(rest))
        except ValueError:
            pass
    raise ConfigError(f"{names.shown(text)} is not a session reset: use daily, idle:30m or never")


def _ignore_change(change: Change) -> None:
    """Do nothing with a change; the default callback."""


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
    announce: Callable[[Change], None] = _ignore_change
    _own: dict[tuple[str, str], Log] = field(default_factory=dict)  # sessions begun here, by project and id
    _cards: dict[str, tuple[tuple[int, ...], Session]] = field(default_factory=dict)

    # ---------------------------------------------------------------- begin and find

    def new(self, *, id: str = "", name: str = "", model: str = "", cwd: str = "") -> Log:
        """Begin a session and return its log.

        The first line is on disk by then, except in an incognito session.
        """
        project = scopes.place_for(self.caller, Scope.PROJECT).id
        session = names.check_id(id or names.new_id(), "a session")
        log = self._log(project, session)
        at = clock.stamp(self.now())
        started = Started(
            cwd=cwd or (str(self.caller.project.root) if self.caller.project else ""),
            name=one_line(name),
            created=at,
            model=model,
            agent=self.caller.agent or "",
            audience=str(self.caller.audience),
            project=project,
            time=at,
        )
        lock = contextlib.nullcontext() if self.incognito else self.home.lock(f"begin session {session}")
        with lock:
            if next(log.raw(), None) is not None:
                raise Collision(f"the session {session} already exists", hint="choose another id")
            log.append(started, sync=True)
        self._own[project, session] = log
        return log

    def open(self, which: str, *, all: bool = False) -> Log:
        """Return the log of the session with this id, start of an id, or name."""
        found = self._find(which, all=all)
        return self._log(found.project, found.id)

    def card(self, which: str, *, all: bool = False) -> Session:
        """Return the facts about the session with this id, start of an id, or name."""
        return self._find(which, all=all)

    def read(self, session: Session) -> Log:
        """Return the log of a session from a list of sessions."""
        return self._log(session.project, session.id)

    def current(self, *, model: str = "", cwd: str = "") -> Log:
        """Return the session to continue: the newest, unless it has ended or is over by the reset rule.

        Otherwise a new session is begun, and a session that is over is ended unless somebody talks in it. A
        caller that was opened with a session always gets that session; it is begun if it does not exist.
        """
        named = self.caller.session
        if named:
            with contextlib.suppress(NotFound):
                return self.open(named)
            with contextlib.suppress(Collision):  # another process may have begun it at this moment
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
        # Another process may be here at the same time: one process begins the session, the other continues
        # it.
        with self.home.lock(f"sessions of {scopes.place_for(self.caller, Scope.PROJECT).id}"):
            newest = self._newest()
            if newest is not None and not newest.ended and newest.id != live:
                return self._log(newest.project, newest.id)
            return self.new(model=model, cwd=cwd)

    def list(self, *, all: bool = False) -> Sequence[Session]:
        """Return the sessions of this project and agent, newest first; with `all`, of every project and
        agent.
        """
        found = [self._card(project, session) for project, session in self._visible(all=all)]
        return _newest_first(each for each in found if self._listed(each, all=all))

    def page(
        self, wanted: Callable[[str, str], bool], *, all: bool = False, limit: int, offset: int = 0
    ) -> tuple[Sequence[Session], Sequence[tuple[str, str]]]:
        """Return a page of the `wanted` sessions, last written first, and all projects and ids.

        `wanted` gets a project and a session's id. Only the logs of this page are read; sessions of other
        agents are removed afterwards, so a page can be shorter than `limit`.
        """
        marks = {each: self._mark(*each) for each in self._visible(all=all)}
        found = sorted(marks, key=lambda each: (marks[each][1:2], each[1]), reverse=True)
        fitting = [each for each in found if wanted(*each)]
        cards = [self._card(*each) for each in fitting[offset : offset + limit]]
        return [each for each in cards if self._listed(each, all=all)], found

    def copy_of(self, project: str, session: str) -> Log:
        """Return the log of a session that was or will be imported into a project."""
        return self._log(project, session)

    def ids(self, *, all: bool = False) -> frozenset[str]:
        """Return the ids of the sessions that the caller may see, without reading any log."""
        return frozenset(session for _, session in self._visible(all=all))

    # ---------------------------------------------------------------- name and end

    def rename(self, which: str, name: str, *, all: bool = False) -> Log:
        """Rename a session."""
        new_name = one_line(name)
        if not new_name:
            raise UsageError("a session's name needs at least one visible character")
        log = self.open(which, all=all)
        log.append(Renamed(new_name), sync=True)
        return log

    def end(self, which: str, *, why: str = "quit") -> Ended:
        """End a session, and write its last messages to the journal if notes are on and allowed.

        A session that has ended already stays as it is.
        """
        return self._end(self.open(which), why)

    def due(self, log: Log) -> str:
        """Return why a session is over by the reset rule; empty while the session goes on."""
        times = [line.event.time for line in log.tail(_RECENT) if isinstance(line.event, Event)]
        return parse_reset(self.reset).due(clock.parse(times[-1]) if times else None, self.now())

    def hold(self, session: str) -> contextlib.ExitStack:
        """Return a lock on a session while somebody talks in it; raise Locked if it is taken."""
        stack = contextlib.ExitStack()
        stack.enter_context(self._chat_lock(session))
        return stack

    @contextlib.contextmanager
    def _chat_lock(self, session: str) -> Iterator[None]:
        with (
            self.home.folder("locks", create=True) as folder,
            folder.lock(f"chat {session}", seconds=0),
        ):
            yield

    def _ended_by_reset(self, log: Log, why: str) -> bool:
        """End a session that is over by the reset rule unless somebody talks in it now; return whether it
        ended.
        """
        if self.incognito:
            self._end(log, why)
            return True
        try:
            session_lock = self.hold(log.session)
        except Locked:
            return False
        with session_lock:
            self._end(log, why)
        return True

    def _end(self, log: Log, why: str) -> Ended:
        ended = self._ended(log)
        if ended is not None:
            return ended
        messages = self._last_messages(log)
        # The model is asked before the lock is taken, because an answer takes time.
        slug = self._slug(log, messages) if messages and not self._no_note() else ""
        if self.incognito:
            return self._close(log, why, "skipped:incognito")
        with self.home.lock(f"end of session {log.session}"):
            ended = self._ended(log)
            return ended or self._close(log, why, self._note(log, messages, slug))

    def _close(self, log: Log, why: str, note: str) -> Ended:
        event = log.append(Ended(why, note), sync=True)
        return event if isinstance(event, Ended) else Ended(why, note)

    def _no_note(self) -> str:
        if self.incognito:
            return "skipped:incognito"
        if self.caller.audience is Audience.GROUP:  # a group cannot read a journal, so it must not write one
            return "skipped:group"
        return "skipped:off" if self.note_messages < 1 else ""

    def _note(self, log: Log, messages: Sequence[MessageEvent], slug: str) -> str:
        """Write the last messages to the journal; return the note's path, or why there is none."""
        if self._no_note() or not messages:
            return self._no_note() or "nothing"
        text, _ = secrets.gate(_note_text(log, self._name(log), messages), SecretPolicy.REDACT)
        # The messages have several origins, tools among them, so the note gets the least trusted origin.
        journal = Journal(self.home, self.caller._replace(origin=Origin.TOOL), self.now, self.announce)
        try:
            return journal.note(text, scope=Scope.PROJECT, slug=slug).path
        except (VadeError, OSError) as error:
            return f"failed:{error}"

    def _last_messages(self, log: Log) -> Sequence[MessageEvent]:
        """Return the last `note_messages` messages of user and assistant with text, without chat commands."""
        count = 4 * self.note_messages
        while count > 0:
            lines = log.tail(count)
            messages = [
                line.event
                for line in lines
                if isinstance(line.event, MessageEvent) and _is_spoken(line.event.message)
            ]
            if len(messages) >= self.note_messages or len(lines) < count:
                return messages[-self.note_messages :]
            count *= 4
        return []

    def _slug(self, log: Log, messages: Sequence[MessageEvent]) -> str:
        """Return a few words for a note's file name: the host model's, else from the session's
        name or text.
        """
        title = self._name(log) or messages[0].message.text
        if self.slug is not None:
            words = _ask_with_timeout(self.slug, _note_text(log, title, messages), self.slug_seconds)
            answer = one_line(words) if isinstance(words, str) and len(words) <= 200 else ""
            if any(char.isascii() and char.isalnum() for char in answer):
                return names.key_from(answer)
        return names.key_from(title)

    # ---------------------------------------------------------------- looking

    def _log(self, project: str, session: str) -> Log:
        if (project, session) in self._own:
            return self._own[project, session]
        storage = MemoryLog() if self.incognito else LogFile(self.home, project, session)
        return Log(session, storage, now=self.now)

    def _visible(self, *, all: bool = False) -> Iterator[tuple[str, str]]:
        """Yield the project and id of each session that the caller may see."""
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
        """Return the id of the caller's project, and its earlier ids."""
        place = scopes.place_for(self.caller, Scope.PROJECT)
        scope_folders = scopes.scope_folders(self.home, self.caller, place)
        return [
            place.id,
            *(scope_folder.parts[-1] for scope_folder in scope_folders if not scope_folder.shared),
        ]

    def _is_own(self, session: str) -> bool:
        return session == self.caller.session or any(session == own for _, own in self._own)

    def _mine(self, session: Session) -> bool:
        """Whether a session belongs to the caller's agent and, for a group caller, to a group."""
        private = self.caller.audience is Audience.PRIVATE
        return session.agent == (self.caller.agent or "") and (private or session.audience == Audience.GROUP)

    def _listed(self, session: Session, *, all: bool) -> bool:
        """Whether a list shows a session.

        A log with only a to-do list is hidden until its session is imported. Without `all`, sessions of other
        agents are hidden too, unless they cannot be read.
        """
        waits = bool(session.updated) and not (session.created or session.messages)
        return not waits and (all or self._mine(session) or bool(session.trouble))

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
        """Return the caller's newest session, reading only the first and last lines of each log."""
        found = []
        for project, session in self._visible():
            log = self._log(project, session)
            try:
                started, tail = first_event(log), [line.event for line in log.tail(_RECENT)]
            except (OutsideMemory, StorageFailed):
                continue  # `list` reports this log
            times = [event.time for event in tail if isinstance(event, Event)]
            if started is not None and started.audience == str(self.caller.audience):
                ended_event = end_of(tail)
                if IMPORT in started.extra or (ended_event is not None and ended_event.why == IMPORTED):
                    continue  # an imported session is never the one to continue, however new
                has_ended = ended_event is not None
                card = Session(session, project, log.path, agent=started.agent, audience=started.audience)
                updated = times[-1] if times else ""
                found.append(card._replace(created=started.created, updated=updated, ended=has_ended))
        return next(iter(_newest_first(each for each in found if self._mine(each))), None)

    def _card(self, project: str, session: str) -> Session:
        """Return the facts about a session, from the cache while its file is unchanged."""
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
        with reported("look at the transcripts"), self.home.folder(FOLDER, project) as folder:
            state = folder.stat(f"{session}{ENDING}")
        return () if state is None else (state.st_size, state.st_mtime_ns, state.st_ino)

    def _ended(self, log: Log) -> Ended | None:
        return end_of(line.event for line in log.tail(_RECENT))

    def _name(self, log: Log) -> str:
        return _card(log, "").name


def _card(log: Log, project: str) -> Session:
    """Return the facts about a session from a few kinds of log lines; messages are counted but not parsed."""
    rare: list[Event] = []
    count = tried_names = 0
    updated = derived_name = model = ""
    usage = Usage()
    for raw in log.raw():
        updated = raw.time or updated
        if raw.kind == MessageEvent.kind:
            count += _SYSTEM not in raw.content[:_HEAD]
            if rare and isinstance(rare[-1], Ended):
                rare.pop()  # a later message reopens the session
        if raw.kind == MessageEvent.kind and (derived_name or tried_names >= _LOOK):
            continue
        if raw.kind in ("", MessageEvent.kind, *_RARE):
            event = raw.read()
            if isinstance(event, MessageEvent) and not derived_name:
                tried_names += 1
                derived_name = name_from(event.message)
            elif isinstance(event, Used):
                usage, model = usage.add(event), model or event.model
            elif isinstance(event, Started | Renamed | Ended):
                rare.append(event)
    started = start_of(rare) or Started()
    return Session(
        log.session,
        project,
        log.path,
        name_of(rare) or derived_name,
        started.created,
        updated,
        count,
        started.agent,
        started.audience,
        started.cwd,
        started.model or model,
        end_of(rare) is not None,
        usage=usage,
    )


# a system prompt is not counted as a message; its role stands in the first bytes of a line
_SYSTEM, _HEAD = b'"role":"system"', 400
_RARE = (Started.kind, Renamed.kind, Ended.kind, Used.kind)


def first_event(log: Log) -> Started | None:
    """Return the event that began a session; None if it is not among the first lines."""
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


def _note_text(log: Log, title: str, messages: Sequence[MessageEvent]) -> str:
    where = f"{log.path} " if log.path else ""
    lines = [f"Session {title or log.session}: the last {len(messages)} messages ({where}{log.session})."]
    for event in messages:
        text = event.message.text.strip()
        if len(text) > _NOTE_CHARS:
            text = f"{text[:_NOTE_CHARS]} … [{len(text) - _NOTE_CHARS} more characters]"
        lines.append(f"**{_SPOKEN[event.message.role]}**: {text}")
    return "\n\n".join(lines).replace("\0", "").encode(errors="replace").decode()


def one_line(text: str) -> str:
    """Return a text as one line of at most 200 characters, without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200].rstrip()


def _ask_with_timeout(ask: Callable[[str], str], text: str, seconds: float) -> object:
    """Return the host model's answer to a question, or None when it fails or takes too long."""
    answer: list[object] = []

    def run() -> None:
        try:
            answer.append(ask(text))
        except Exception:  # the session must end whatever the host's callback raises
            return

    worker = threading.Thread(target=run, name="vade-slug", daemon=True)
    worker.start()
    worker.join(seconds)
    return answer[0] if answer else None


def session_get(log: Log, place: int | str, *, lines: int = 1) -> Sequence[Line]:
    """Return `lines` lines of a log, from a line number or the id of an event, message or tool call on.

    For a tool call this is the line with its result, because the window may hold only part of the result.
    `session_progress` names the newest checkpoint, which describes the work when messages last left the
    window.
    """
    number = resolve_place(log, place)
    if lines < 1:
        raise UsageError("line numbers start at 1")
    picked = (raw for raw in log.raw() if number <= raw.number)
    return [Line(read_event(raw), raw.number, raw.start, raw.end) for raw in islice(picked, lines)]


def resolve_place(log: Log, place: int | str) -> int:
    """Return the line of a place: a line number, `session_progress`, or the id of an event, message or
    call.
    """
    if place == PROGRESS:
        return _last_checkpoint(log)
    number = int(place) if str(place).isdecimal() else _line_of(log, str(place))
    if number < 1:
        raise UsageError("line numbers start at 1")
    return number


def read_event(raw: Raw) -> Event | TornLine:
    """Return the event on a line without secrets."""
    event = raw.read()
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
        if isinstance(event, MessageEvent):
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
