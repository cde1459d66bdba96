"""Add what was heard in sessions to an answer, marked as heard: no person has confirmed it.

This module knows statements and passages, and no folders: the caller chooses the statements to show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.index import moment, words
from vademecum.search.base import TRANSCRIPT, Answer, Passage
from vademecum.text import normalise
from vademecum.text.outgoing import clean_text
from vademecum.text.vocabulary import stem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vademecum.search.base import Query
    from vademecum.search.engine import Options
    from vademecum.store.heard import HeardStatement
    from vademecum.types import Place

MARK = "not confirmed"
_SHARE = 0.5  # the share of a question's words that a statement has at least
_RELEVANCE = 0.6  # of a statement with all words: below a strong match, since nobody confirmed it
_USER = "user"


def add_heard(
    found: Answer,
    asked: Query,
    options: Options,
    statements: Iterable[HeardStatement],
    *,
    place: Place,
    line_of: Callable[[HeardStatement], int],
) -> Answer:
    """Return an answer with the heard statements that match.

    Each comes after the results that have as many words of the question. A message of a session that is a
    result already is marked as heard, and not added again.
    """
    results = [*found.results]
    added: list[tuple[float, float, HeardStatement]] = []
    wanted = _content(asked.text)
    for each in statements:
        if _mark(results, each) or not wanted or not _passes(each, asked):
            continue
        share = _share(wanted, each.text)
        score = round(share * (1 + _RELEVANCE * share) / 2, 4)
        if share >= _SHARE and score >= options.min_score:
            added.append((share, score, each))
    if options.sort_by is not None or options.mode not in ("hybrid", "bm25"):
        added = []  # in another order, only messages that were found are marked
    most = max(options.max_results, len(results))
    for share, score, each in sorted(added, key=lambda one: (-one[0], one[2].at, one[2].id)):
        better = (one.score >= score or _share(wanted, one.snippet) >= share for one in results)
        at = max((number for number, is_better in enumerate(better, 1) if is_better), default=0)
        if at < most:
            own = min(score, results[at - 1].score) if at else score
            results.insert(at, _passage(each, share, own, place, line_of(each)))
    return replace(found, results=tuple(results[:most]))


def _mark(results: list[Passage], statement: HeardStatement) -> bool:
    """Mark the messages that hold a statement as heard; return whether any result has its words."""
    text, path, has = normalise(statement.text).casefold(), statement.log, False
    for at, each in enumerate(results):
        if text in normalise(each.snippet).casefold():
            has = True
            if each.path == path:
                results[at] = each._replace(heard=MARK)
    return has


def _passes(statement: HeardStatement, asked: Query) -> bool:
    """Whether the filters of a question let a statement through, as those of sessions do."""
    said = moment(statement.at) or ""
    text = normalise(statement.text).casefold()
    return (
        not asked.path
        and (asked.after is None or said >= asked.after)
        and (asked.before is None or said < asked.before)
        and all(limit is None or said <= limit for limit in (asked.as_of, asked.until))
        and (not asked.speakers or (_USER in asked.speakers and not statement.fields))
        and all(normalise(each).casefold() in text for each in asked.phrases)
    )


def _share(wanted: frozenset[str], text: str) -> float:
    """Return the share of the wanted words that a text has."""
    return len(wanted & _content(text)) / len(wanted)


def _content(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words.terms(text).words if word not in words.STOP)


def _passage(statement: HeardStatement, share: float, score: float, place: Place, line: int) -> Passage:
    return Passage(
        statement.log,
        line,
        line,
        clean_text(statement.text),
        score,
        round(_RELEVANCE * share, 4),
        TRANSCRIPT,
        place,
        {"keywords": score},
        time=statement.at or None,
        origin="tool",
        role="" if statement.fields else _USER,
        heard=MARK,
    )
