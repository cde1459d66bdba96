"""Counts and averages over lessons, for `vade knowledge stats`; hooks do without this module."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.knowledge.trust import age_days
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from vademecum.knowledge.trust import RankedLesson


@dataclass(frozen=True, slots=True)
class LessonFigures:
    """Counts and averages over some lessons."""

    count: int
    by_trust: Mapping[str, int]
    confidence: float | None = None  # the average
    oldest_days: float | None = None
    newest_days: float | None = None
    age_days: float | None = None  # the average
    size: int = 0  # bytes of what they say
    applied: int = 0
    learned: int = 0  # how often they were learned, all together


class LessonStats(NamedTuple):
    """The statistics of all lessons, and of each scope and type."""

    total: LessonFigures
    by_scope: Mapping[str, LessonFigures]
    by_type: Mapping[str, LessonFigures]
    by_scope_and_type: Mapping[str, Mapping[str, LessonFigures]]


def count_lessons(lessons: Sequence[RankedLesson], *, now: datetime) -> LessonStats:
    """Return the statistics of lessons; ages count from the last confirmation."""
    scopes: dict[str, list[RankedLesson]] = defaultdict(list)
    types: dict[str, list[RankedLesson]] = defaultdict(list)
    for each in sorted(lessons, key=_order):
        scopes[str(each.lesson.record.place.scope)].append(each)
        types[str(each.lesson.type)].append(each)
    return LessonStats(
        figures_of(lessons, now=now),
        {name: figures_of(some, now=now) for name, some in scopes.items()},
        {name: figures_of(some, now=now) for name, some in types.items()},
        {
            name: {
                kind: figures_of([each for each in some if each.lesson.type == kind], now=now)
                for kind in dict.fromkeys(str(each.lesson.type) for each in some)
            }
            for name, some in scopes.items()
        },
    )


def figures_of(lessons: Sequence[RankedLesson], *, now: datetime) -> LessonFigures:
    """Return the counts and averages of these lessons."""
    if not lessons:
        return LessonFigures(0, {})
    ages = [age_days(each.lesson.last, now=now) for each in lessons]
    trust: dict[str, int] = {}
    for each in lessons:
        trust[str(each.trust.level)] = trust.get(str(each.trust.level), 0) + 1
    return LessonFigures(
        len(lessons),
        trust,
        _average(each.lesson.confidence for each in lessons),
        max(ages),
        min(ages),
        _average(ages),
        sum(len(each.lesson.text.encode()) for each in lessons),
        sum(each.lesson.applied for each in lessons),
        sum(each.lesson.times for each in lessons),
    )


def _average(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return sum(listed) / len(listed)


def _order(each: RankedLesson) -> tuple[str, str]:
    return str(each.lesson.record.place.scope), str(each.lesson.type)
