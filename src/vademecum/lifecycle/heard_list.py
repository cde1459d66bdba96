"""What was heard in sessions, as `Memory.heard` offers it: nudges, and what came of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from vademecum.index import words
from vademecum.store import heard
from vademecum.store.heard import IGNORED, REWORDED, SAVED, HeardSession, HeardStatement
from vademecum.text import clock
from vademecum.text.vocabulary import stem
from vademecum.types import Audience

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vademecum.knowledge import Signal
    from vademecum.search import Finder
    from vademecum.store import Workspace

_PATIENCE = timedelta(hours=6)  # after which a nudge counts as ignored, if its session did not end before
_CANDIDATES = 8  # records in which the statement of a nudge is looked for
_REWORDED = 0.5  # the share of a statement's words that a record in other words has


class HeardList:
    """The statements heard in the sessions of this project, as `Memory.heard` offers them."""

    def __init__(self, workspace: Workspace, finder: Finder) -> None:
        self._work, self._finder = workspace, finder

    def note_nudge(self, session: HeardSession, signal: Signal) -> None:
        """Note that an agent was told of a statement."""
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

    def nudges(self, *, since: datetime) -> Sequence[HeardStatement]:
        """Return what agents were told of since a moment, with what came of it so far, the newest first."""
        found = []
        for each in self._nudged():
            nudged = clock.parse(each.nudged)
            if nudged is not None and nudged >= since:
                outcome, record = self._outcome_of(each)
                found.append(each._replace(outcome=outcome, record=record))
        return sorted(found, key=lambda each: each.nudged, reverse=True)

    def settle_nudges(self, *, ended: str = "") -> None:
        """Note what came of the nudges of this project, of which it is not noted yet; this moves the bar.

        `ended` is a session that has ended: what its agent has not saved by now was ignored.
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
        """Return what came of a nudge so far, and the path of the record that was saved."""
        if statement.outcome:
            return statement.outcome, statement.record
        from vademecum.search import base as searching

        query = searching.parse(statement.text)._replace(sources=("memory",), phrases=())
        options = self._finder.options(max_results=_CANDIDATES, mode="bm25")
        found = self._finder.searcher.search(query, options, seconds=self._work.settings.limits.open)
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


def _content_words(text: str) -> set[str]:
    return {stem(word) for word in words.terms(text).words if len(word) > 2 and word not in words.STOP}
