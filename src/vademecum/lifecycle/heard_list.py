"""What was heard in sessions, as `Memory.heard` offers it: pending statements, lessons and nudges.

A statement is no record. Only a person's acceptance makes one of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from vademecum.errors import NotFound
from vademecum.store import Brief, Marks, decisions, heard
from vademecum.store.heard import (
    ACCEPTED,
    CONTRADICTED,
    DECLINED,
    HEARD,
    IGNORED,
    REWORDED,
    RUN,
    SAVED,
    SETTLED,
    HeardSession,
    HeardStatement,
    ReadProgress,
)
from vademecum.text import clock, is_command, names, secrets, visible
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.config import Settings
    from vademecum.knowledge import Signal
    from vademecum.lifecycle.distill import Destination
    from vademecum.llm.base import Model
    from vademecum.search import Finder
    from vademecum.store import Workspace
    from vademecum.store.heard import Distilled
    from vademecum.transcripts import Log, MessageEvent

_Lessons: TypeAlias = "Callable[[Sequence[MessageEvent]], Iterable[HeardStatement]]"

_PATIENCE = timedelta(hours=6)  # after which a nudge counts as ignored, if its session did not end before
_CANDIDATES = 8  # records in which the statement of a nudge is looked for
_REWORDED = 0.5  # the share of a statement's words that a record in other words has
_SESSIONS = 10  # newest sessions that are read if no hook has heard them
_MESSAGES = 400  # the user's messages after which `hear_recent` begins no other session


class HeardList:
    """The statements heard in the sessions of this project, as `Memory.heard` offers them."""

    def __init__(
        self, workspace: Workspace, finder: Callable[[], Finder], find_lessons: _Lessons = lambda _: ()
    ) -> None:
        self._work, self._open_finder, self._find_lessons = workspace, finder, find_lessons

    def note_nudge(self, session: HeardSession, signal: Signal) -> None:
        """Save that the agent of a session was told about a statement of its user."""
        if self._is_barred():
            return
        at = self._work.stamp()
        statement = HeardStatement(
            heard.statement_id(signal.text),
            signal.text,
            str(signal.kind),
            at,
            why=signal.why,
            confidence=signal.confidence,
            nudged=at,
            listed=at,
        )
        heard.add(self._work.home, session, [statement])

    def add(self, session: HeardSession, statements: Iterable[HeardStatement]) -> int:
        """Add statements to the list of a session, and return how many are new.

        Statements that are too long, hold a secret or were purged are left out; so are all statements of a
        session that a person took back. Of two statements that contradict each other, the older is marked.
        What a person decided about a statement also holds for its repetitions.
        """
        if self._is_off():
            return 0
        home, purged = self._work.home, Marks.of(self._work.home)
        if heard.is_taken_back(home, session.project, session.session):
            return 0
        chosen = [
            each._replace(id=heard.statement_id(each.text), listed=self._work.stamp())
            for each in statements
            if 0 < len(each.text) <= heard.LONGEST
            and not any(map(_is_secret, (each.text, *each.evidence)))
            and (purged is None or purged.find(each.text) is None)
        ]
        if not chosen:
            return 0
        known = [*heard.read_projects(home, [session.project])]
        decided = [each for each in known if each.outcome in (*SETTLED, DECLINED)]
        for at, new in enumerate(chosen):
            earlier = next((each for each in decided if heard.says_same(each.text, new.text)), None)
            if earlier is not None:
                chosen[at] = new._replace(outcome=earlier.outcome, record=earlier.record)
        added = heard.add(home, session, chosen)
        self._mark_contradicted(session, chosen)
        return added

    def _mark_contradicted(self, session: HeardSession, new: Sequence[HeardStatement]) -> None:
        """Mark the older of two undecided statements that contradict each other, if either is new."""
        from vademecum.text import conflict

        ids = {each.id for each in new}
        known = [each for each in heard.read_projects(self._work.home, [session.project]) if not each.fields]
        open_ones = [each for each in known if each.outcome in heard.UNDECIDED]
        latest = [each for each in open_ones if each.session == session.session and each.id in ids]
        for old in open_ones:
            later = (each for each in (latest if old not in latest else open_ones) if each.at > old.at)
            if any(conflict.contradiction(old.text, each.text) for each in later):
                heard.settle(self._work.home, old, CONTRADICTED, at=self._work.stamp())

    def hear(self, session: HeardSession, log: Log, *, lessons: bool = True) -> int:
        """Add the statements in the unread part of a session's log; return how many are new.

        The judge finds them in the user's messages. With `lessons`, the lessons from the session's failures
        are added too.
        """
        if self._is_off() or heard.is_taken_back(self._work.home, session.project, session.session):
            return 0
        earlier, size = self._progress(session), log.size()
        if earlier.size == size and (not lessons or earlier.lessons == size):
            return 0
        shift = heard.shift_bar(heard.read_counts(self._work.home))
        events = [*_messages(log)]
        turns = [*_user_turns(events)]
        found: list[HeardStatement] = []
        for event, before in turns[earlier.messages :]:
            found += _find_statements(event, before, shift=shift)
        found += self._find_lessons(events) if lessons else ()
        added = self.add(session, _without_repetitions(found))
        lessons_size = size if lessons else earlier.lessons
        progress = ReadProgress(max(len(turns), earlier.messages), size, lessons_size)
        heard.note_read(self._work.home, session, progress)
        return added

    def skip(self, session: HeardSession, log: Log) -> None:
        """Mark a log as read so far, without hearing anything: no person led the session."""
        if not self._is_off():
            turns = sum(1 for _ in _user_turns(_messages(log)))
            heard.note_read(self._work.home, session, ReadProgress(turns, log.size(), log.size()))

    def hear_recent(self) -> None:
        """Hear the newest sessions of this project that no hook has heard, such as imported ones."""
        caller = self._work.caller
        if self._is_off() or self._work.readonly or caller.project is None:
            return
        read = 0
        for log in self._open_finder().newest_logs(_SESSIONS):
            session = _session_of(log, caller.project.id)
            if session.audience == Audience.GROUP:
                continue
            before = self._progress(session).messages
            self.hear(session, log)
            read += self._progress(session).messages - before
            if read > _MESSAGES:
                return

    def _progress(self, session: HeardSession) -> ReadProgress:
        return heard.read_progress(self._work.home, session.project, session.session)

    def waiting(self) -> Sequence[tuple[HeardStatement, int]]:
        """Return the undecided statements of this project, each with the number of sessions that said it.

        Statements of more sessions come first, then those with higher confidence. Faded statements are left
        out; declined ones are not. An agent gets an empty list.
        """
        caller, days = self._work.caller, self._work.settings.capture.fade_days
        if caller.project is None or self._is_off() or caller.origin is not Origin.USER:
            return []
        statements = [
            each
            for each in heard.read_projects(self._work.home, [caller.project.id])
            if not heard.is_faded(each, days=days, now=self._work.now())
            and each.agent in ("", self._work.settings.agent)
        ]
        # A statement that a person declined comes before its repetitions: the refusal names its exact words.
        statements.sort(key=lambda each: (each.outcome != DECLINED or not each.settled, each.at, each.id))
        settled = {each.id for each in statements if each.outcome in SETTLED}
        groups: list[list[HeardStatement]] = []
        for each in statements:
            if each.id in settled:
                continue
            group = next((one for one in groups if heard.says_same(one[0].text, each.text)), None)
            if group is None:
                groups.append([each])
            else:
                group.append(each)
        found = [(group[0], len({each.session for each in group})) for group in groups]
        return sorted(found, key=lambda each: (-each[1], -each[0].confidence, each[0].at, each[0].id))

    def find_destination(self, settings: Settings | None = None) -> Destination | None:
        """Return where `capture.model` sends sessions; None if it is not set."""
        from vademecum.lifecycle.distill import find_destination

        return find_destination(settings or self._work.settings)

    def allow_model(self, name: str) -> None:
        """Save that a person allowed the model at a destination to read sessions; '' allows none."""
        from vademecum.store import capture_model

        capture_model.give_consent(
            self._work.home, name, at=self._work.stamp(), by=str(self._work.caller.actor)
        )

    def distill(self, session: str, *, model: Model | None = None) -> Distilled:
        """Ask the model of `capture.model` what to remember of a session; add the supported proposals.

        Raises ConfigError if no model is set, or if no person confirmed it. A `model` that is passed needs no
        confirmation. The result tells why a model failed, and which proposals were refused.
        """
        from vademecum.lifecycle.distill import Distiller

        return Distiller(self._work, self._open_finder, self).distill(session, model)

    def distilled(self) -> Sequence[tuple[str, Distilled]]:
        """Return the sessions of this project that a model was asked about, each with the last result."""
        caller = self._work.caller
        if caller.project is None or self._is_barred() or caller.origin is not Origin.USER:
            return []
        found = (
            (session, heard.read_distilled(self._work.home, caller.project.id, session))
            for session in heard.sessions(self._work.home, caller.project.id)
        )
        done = [(session, result) for session, result in found if result is not None]
        return sorted(done, key=lambda each: each[1].at, reverse=True)

    def unsaved(
        self, session: str, *, without: Collection[str] = (), most: int = 5
    ) -> Sequence[HeardStatement]:
        """Return statements of a session's user that memory lacks and no person declined.

        The statement with the highest confidence comes first. `without` are ids of statements to skip, and
        `most` is the largest number of statements.
        """
        caller, home = self._work.caller, self._work.home
        if caller.project is None or self._is_off():
            return []
        declined, purged = decisions.declined(home), Marks.of(home)
        found: list[HeardStatement] = []
        statements = heard.read_session(home, caller.project.id, session)
        for each in sorted(statements, key=lambda each: -each.confidence):
            if len(found) == most:
                break
            if any(heard.says_same(each.text.rstrip('"”'), other.text.rstrip('"”')) for other in found):
                continue
            if each.id in without or each.outcome in (*SETTLED, CONTRADICTED, DECLINED):
                continue
            if each.agent not in ("", self._work.settings.agent) or each.found_by != heard.JUDGE:
                continue
            if decisions.mark_of("signal", each.text) in declined:
                continue
            if purged is not None and purged.find(each.text) is not None:
                continue
            if not self._outcome_of(each._replace(outcome=""), earlier=True)[0]:
                found.append(each)
        return found

    def accept(self, statement: HeardStatement, *, record: str) -> None:
        """Save that a person accepted a statement, and the path of the record that was made of it."""
        self._settle(statement, ACCEPTED, record=record)
        heard.count_outcomes(self._work.home, taken=int(not statement.fields), ignored=0)

    def decline(self, statement: HeardStatement) -> None:
        """Save that a person declined a statement."""
        self._settle(statement, DECLINED)
        heard.count_outcomes(self._work.home, taken=0, ignored=int(not statement.fields))

    def reopen(self, id: str) -> None:
        """Make the statement with this id pending again, which a person had declined."""
        caller = self._work.caller
        declined = [
            each
            for each in heard.read_projects(self._work.home, [caller.project.id] if caller.project else [])
            if each.id == id and each.outcome == DECLINED
        ]
        for each in declined[:1]:
            self._settle(each, "")
            heard.count_outcomes(self._work.home, taken=0, ignored=-int(not each.fields))

    def _settle(self, statement: HeardStatement, outcome: str, *, record: str = "") -> None:
        """Save the outcome of a statement and of its repetitions in this project."""
        at = self._work.stamp()
        for each in [*heard.read_projects(self._work.home, [statement.project])]:
            if each.outcome not in SETTLED and heard.says_same(each.text, statement.text):
                heard.settle(self._work.home, each, outcome, at=at, record=record)

    def sessions(self) -> Sequence[Brief]:
        """Return the sessions in which something was heard, as runs that `vade undo` reverts."""
        caller = self._work.caller
        if caller.project is None or self._is_barred():
            return []
        found = []
        for session in heard.sessions(self._work.home, caller.project.id):
            statements = heard.read_session(self._work.home, caller.project.id, session)
            taken_back = heard.is_taken_back(self._work.home, caller.project.id, session)
            if statements or taken_back:
                at = max((each.at for each in statements), default="")
                found.append(Brief(RUN + session, HEARD, at, len(statements), taken_back))
        return found

    def take_back(self, run: str) -> int:
        """Delete the statements heard in a session, and hear none there again; return how many there were."""
        caller = self._work.caller
        self._work.may_write()
        session = run.removeprefix(RUN)
        if caller.project is None or session not in heard.sessions(self._work.home, caller.project.id):
            hint = "`vade undo --list` shows all runs"
            raise NotFound(f"nothing was heard in {names.shown(run)}", hint=hint)
        return heard.take_back(self._work.home, caller.project.id, session)

    def nudges(self, *, since: datetime) -> Sequence[HeardStatement]:
        """Return the statements that agents were told about since a time, with outcomes, newest first."""
        found = []
        for each in self._nudged():
            nudged = clock.parse(each.nudged)
            if nudged is not None and nudged >= since:
                outcome, record = self._outcome_of(each)
                found.append(each._replace(outcome=outcome, record=record))
        return sorted(found, key=lambda each: each.nudged, reverse=True)

    def bar(self) -> str:
        """Return a sentence about how outcomes moved the threshold for proposals; empty if they did not."""
        return "" if self._is_barred() else heard.describe_bar(heard.read_counts(self._work.home))

    def settle_nudges(self, *, ended: str = "") -> None:
        """Save and count the outcomes of this project's nudges that have no saved outcome yet.

        A statement that was not saved counts as ignored when six hours have passed, or when `ended` is its
        session. Lists in which all statements have faded are deleted.
        """
        taken = ignored = 0
        for each in [each for each in self._nudged() if not each.outcome]:
            outcome, record = self._outcome_of(each)
            nudged = clock.parse(each.nudged)
            over = nudged is None or self._work.now() - nudged > _PATIENCE
            if not outcome and (over or each.session == ended):
                outcome = IGNORED
            if outcome:
                heard.settle(self._work.home, each, outcome, at=self._work.stamp(), record=record)
                taken += outcome != IGNORED
                ignored += outcome == IGNORED
        heard.count_outcomes(self._work.home, taken=taken, ignored=ignored)
        project, days = self._work.caller.project, self._work.settings.capture.fade_days
        if project is not None and not self._is_barred():
            heard.forget_faded(self._work.home, project.id, days=days, now=self._work.now())

    def settle_saved(self, session: str) -> None:
        """Settle the statements of a session that were saved later without a nudge."""
        caller = self._work.caller
        if caller.project is None or self._is_off():
            return
        for each in heard.read_session(self._work.home, caller.project.id, session):
            if not (each.outcome or each.nudged or each.fields):
                outcome, record = self._outcome_of(each)
                if outcome == SAVED:
                    heard.settle(self._work.home, each, SAVED, at=self._work.stamp(), record=record)

    def _is_barred(self) -> bool:
        """Whether nothing of this session may be heard."""
        caller = self._work.caller
        return self._work.settings.incognito or caller.audience is Audience.GROUP or caller.project is None

    def _is_off(self) -> bool:
        """Whether nothing is heard: it is switched off, or this session is barred."""
        return self._is_barred() or not self._work.settings.capture.hear

    def _nudged(self) -> Iterator[HeardStatement]:
        caller = self._work.caller
        if caller.project is None or self._is_barred():
            return
        for each in heard.read_projects(self._work.home, [caller.project.id]):
            if each.nudged:
                yield each

    def _outcome_of(self, statement: HeardStatement, *, earlier: bool = False) -> tuple[str, str]:
        """Return the outcome of a statement so far, and the path of the record that has it.

        Both are empty without an outcome. A record that is older than the statement is ignored; with
        `earlier`, it counts if it has the same words.
        """
        if statement.outcome:
            return statement.outcome, statement.record
        from vademecum.search import base as searching

        query = searching.parse(statement.text)._replace(sources=("memory",), phrases=())
        finder = self._open_finder()
        options = finder.options(max_results=_CANDIDATES, mode="bm25")
        found = finder.searcher.search(query, options, seconds=self._work.settings.limits.open)
        wanted, since = _content_words(statement.text), clock.parse(statement.nudged or statement.at)
        reworded = ""
        for each in found.results:
            saved = clock.parse(each.time)
            is_earlier = saved is None or since is None or saved < since
            if is_earlier and not earlier:
                continue
            if any(
                heard.says_same(statement.text, line) for line in each.snippet.split("\n") if line.strip()
            ):
                return SAVED, each.path
            if is_earlier:
                continue  # other words of an earlier record are no rewording
            shared = wanted & _content_words(each.snippet)
            if not reworded and len(shared) >= _REWORDED * len(wanted):
                reworded = each.path
        return (REWORDED, reworded) if reworded else ("", "")


def _messages(log: Log) -> Iterator[MessageEvent]:
    """Yield the messages of a log; incomplete lines are skipped."""
    from vademecum.transcripts import MessageEvent

    return (each for each in log.events() if isinstance(each, MessageEvent))


def _user_turns(messages: Iterable[MessageEvent]) -> Iterator[tuple[MessageEvent, str]]:
    """Yield the user's messages, each with what the agent said before it."""
    from vademecum.transcripts import Role, is_aside

    before = ""
    for event in messages:
        if event.message.role is Role.ASSISTANT:
            before = event.message.text or before
        elif event.message.role is Role.USER and not is_aside(event.message):
            yield event, before


def _session_of(log: Log, project: str) -> HeardSession:
    """Return a session as the first line of its log describes it."""
    from vademecum.transcripts.events import start_of

    start = start_of(log.events())
    if start is None:
        return HeardSession(project, log.session)
    about = start.extra.get("import")
    known = about if isinstance(about, dict) else {}
    own, format, path = (str(known.get(name) or "") for name in ("id", "format", "path"))
    return HeardSession(project, log.session, own, format, path, start.agent, start.audience)


def _without_repetitions(statements: Sequence[HeardStatement]) -> list[HeardStatement]:
    """Return the statements without those whose words a lesson quotes as its evidence."""
    quoted = [(each.place, line) for each in statements if each.fields for line in each.evidence]
    return [
        each
        for each in statements
        if each.fields or not any(each.place == place and each.text in line for place, line in quoted)
    ]


def _find_statements(event: MessageEvent, before: str, *, shift: float) -> Iterator[HeardStatement]:
    """Yield the statements worth saving that a user typed in a message.

    `before` is what the assistant said before the message; `shift` is added to the judge's threshold.
    """
    from vademecum.knowledge import judge, typed

    text = event.message.text
    if is_command(text) or text.lstrip().startswith("<"):  # a command, or a message of the agent's program
        return
    typed_words = " ".join(visible(typed.own_words(text)).split())
    for signal in judge.read_signals(text, before, shift=shift).signals:
        if signal.text in typed_words and not typed.is_planted(signal.text):
            yield HeardStatement(
                heard.statement_id(signal.text),
                signal.text,
                str(signal.kind),
                event.time,
                place=event.id,
                why=signal.why,
                confidence=signal.confidence,
            )


def _is_secret(text: str) -> bool:
    from vademecum.text import similarity

    return similarity.is_redacted(text) or bool(secrets.find(text))


def _content_words(text: str) -> set[str]:
    from vademecum.index import words
    from vademecum.text.vocabulary import stem

    return {stem(word) for word in words.terms(text).words if len(word) > 2 and word not in words.STOP}
