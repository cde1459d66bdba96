"""What was heard in sessions, as `Memory.heard` offers it: pending statements of the user, and nudges.

A statement is no record. Only a person's acceptance makes one of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from vademecum.errors import NotFound
from vademecum.store import Brief, Marks, heard
from vademecum.store.heard import (
    CONTRADICTED,
    HEARD,
    IGNORED,
    REWORDED,
    RUN,
    SAVED,
    HeardSession,
    HeardStatement,
)
from vademecum.text import clock, is_command, names, secrets, visible
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.knowledge import Signal
    from vademecum.search import Finder
    from vademecum.store import Workspace
    from vademecum.transcripts import Log, MessageEvent


_PATIENCE = timedelta(hours=6)  # after which a nudge counts as ignored, if its session did not end before
_CANDIDATES = 8  # records in which the statement of a nudge is looked for
_REWORDED = 0.5  # the share of a statement's words that a record in other words has


class HeardList:
    """The statements heard in the sessions of this project, as `Memory.heard` offers them."""

    def __init__(self, workspace: Workspace, finder: Callable[[], Finder]) -> None:
        self._work, self._open_finder = workspace, finder

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
        )
        heard.add(self._work.home, session, [statement])

    def add(self, session: HeardSession, statements: Iterable[HeardStatement]) -> int:
        """Add statements to the list of a session, and return how many are new.

        Statements that are too long, hold a secret or were purged are left out; so are all statements of a
        session that a person took back. A new statement marks the older ones of other sessions that it
        contradicts.
        """
        if self._is_barred():
            return 0
        home, purged = self._work.home, Marks.of(self._work.home)
        if heard.is_taken_back(home, session.project, session.session):
            return 0
        chosen = [
            each._replace(id=heard.statement_id(each.text))
            for each in statements
            if 0 < len(each.text) <= heard.LONGEST
            and not any(map(_is_secret, (each.text, *each.evidence)))
            and (purged is None or purged.find(each.text) is None)
        ]
        if not chosen:
            return 0
        earlier = [
            each
            for each in heard.read_projects(home, [session.project])
            if each.session != session.session and each.outcome not in (*heard.SETTLED, CONTRADICTED)
        ]
        from vademecum.text import conflict

        added = heard.add(home, session, chosen)
        for old in earlier:
            if any(old.at < new.at and conflict.contradiction(old.text, new.text) for new in chosen):
                heard.settle(home, old, CONTRADICTED, at=self._work.stamp())
        return added

    def hear(self, session: HeardSession, log: Log) -> int:
        """Add the statements that the judge finds in unread user messages; return how many are new."""
        if self._is_barred() or heard.is_taken_back(self._work.home, session.project, session.session):
            return 0
        from vademecum.transcripts import MessageEvent, Role, is_aside

        found: list[HeardStatement] = []
        number, read = 0, heard.messages_read(self._work.home, session.project, session.session)
        before = ""
        for event in log.events():
            if not isinstance(event, MessageEvent) or is_aside(event.message):
                continue
            if event.message.role is Role.ASSISTANT:
                before = event.message.text or before
            elif event.message.role is Role.USER:
                number += 1
                if number > read:
                    found += _find_statements(event, before)
        added = self.add(session, found)
        if number > read:
            heard.note_read(self._work.home, session, number)
        return added

    def waiting(self) -> Sequence[tuple[HeardStatement, int]]:
        """Return the undecided statements of this project, each with the number of sessions that said it.

        Statements of more sessions come first, then those with higher confidence. Faded statements are left
        out. An agent gets an empty list.
        """
        caller, days = self._work.caller, self._work.settings.capture.fade_days
        if caller.project is None or self._is_barred() or caller.origin is not Origin.USER:
            return []
        statements = [
            each
            for each in heard.read_projects(self._work.home, [caller.project.id])
            if not heard.is_faded(each, days=days, now=self._work.now())
        ]
        settled = {each.id for each in statements if each.outcome in heard.SETTLED}
        groups: list[list[HeardStatement]] = []
        for each in statements:
            if each.id in settled or each.agent not in ("", self._work.settings.agent):
                continue
            group = next((one for one in groups if heard.says_same(one[0].text, each.text)), None)
            if group is None:
                groups.append([each])
            else:
                group.append(each)
        found = [(group[0], len({each.session for each in group})) for group in groups]
        return sorted(found, key=lambda each: (-each[1], -each[0].confidence, each[0].at, each[0].id))

    def settle(self, statement: HeardStatement, outcome: str, *, record: str = "") -> None:
        """Save what a person decided about a statement, and the path of the record made of it, if any."""
        heard.settle(self._work.home, statement, outcome, at=self._work.stamp(), record=record)

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

    def _is_barred(self) -> bool:
        """Whether nothing of this session may be heard."""
        caller = self._work.caller
        return self._work.settings.incognito or caller.audience is Audience.GROUP or caller.project is None

    def _nudged(self) -> Iterator[HeardStatement]:
        caller = self._work.caller
        if caller.project is None or self._is_barred():
            return
        for each in heard.read_projects(self._work.home, [caller.project.id]):
            if each.nudged:
                yield each

    def _outcome_of(self, statement: HeardStatement) -> tuple[str, str]:
        """Return the outcome of a nudge so far, and the path of the record with its statement.

        Both are empty without an outcome.
        """
        if statement.outcome:
            return statement.outcome, statement.record
        from vademecum.search import base as searching

        query = searching.parse(statement.text)._replace(sources=("memory",), phrases=())
        finder = self._open_finder()
        options = finder.options(max_results=_CANDIDATES, mode="bm25")
        found = finder.searcher.search(query, options, seconds=self._work.settings.limits.open)
        wanted, nudged = _content_words(statement.text), clock.parse(statement.nudged)
        reworded = ""
        for each in found.results:
            saved = clock.parse(each.time)
            if saved is None or nudged is None or saved < nudged:
                continue
            if any(
                heard.says_same(statement.text, line) for line in each.snippet.split("\n") if line.strip()
            ):
                return SAVED, each.path
            shared = wanted & _content_words(each.snippet)
            if not reworded and len(shared) >= _REWORDED * len(wanted):
                reworded = each.path
        return (REWORDED, reworded) if reworded else ("", "")


def _find_statements(event: MessageEvent, before: str) -> Iterator[HeardStatement]:
    """Yield the statements worth saving that a user typed in a message.

    `before` is what the assistant said before the message.
    """
    from vademecum.knowledge import judge, typed

    text = event.message.text
    if is_command(text) or text.lstrip().startswith("<"):  # a command, or a message of the agent's program
        return
    typed_words = " ".join(visible(typed.own_words(text)).split())
    for signal in judge.read_signals(text, before).signals:
        if signal.text in typed_words:
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
