"""How much has been learned: counts, ages, sizes and confidence, per scope and type."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge.ranking import age_days

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from vademecum.knowledge.ranking import Ranked


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is to say of some lessons in numbers."""

    count: int
    confidence: float | None = None  # the average
    oldest_days: float | None = None
    newest_days: float | None = None
    age_days: float | None = None  # the average
    size: int = 0  # bytes of what they say
    applied: int = 0
    learned: int = 0  # how often they were learned, all together
    by_trust: Mapping[str, int] = field(default_factory=dict)


class Stats(NamedTuple):
    """The figures of all lessons, and of each scope and type."""

    total: Figures
    by_scope: Mapping[str, Figures]
    by_type: Mapping[str, Figures]
    by_scope_and_type: Mapping[str, Mapping[str, Figures]]


def of(lessons: Sequence[Ranked], *, now: datetime) -> Stats:
    """The figures of some lessons; ages are counted from when each was last confirmed."""
    scopes: dict[str, list[Ranked]] = defaultdict(list)
    types: dict[str, list[Ranked]] = defaultdict(list)
    for each in sorted(lessons, key=_order):
        scopes[str(each.lesson.record.place.scope)].append(each)
        types[str(each.lesson.type)].append(each)
    return Stats(
        figures(lessons, now=now),
        {name: figures(some, now=now) for name, some in scopes.items()},
        {name: figures(some, now=now) for name, some in types.items()},
        {
            name: {
                kind: figures([each for each in some if each.lesson.type == kind], now=now)
                for kind in dict.fromkeys(str(each.lesson.type) for each in some)
            }
            for name, some in scopes.items()
        },
    )


def figures(lessons: Sequence[Ranked], *, now: datetime) -> Figures:
    """The figures of these lessons alone."""
    if not lessons:
        return Figures(0)
    ages = [age_days(each.lesson.last, now=now) for each in lessons]
    trust: dict[str, int] = {}
    for each in lessons:
        trust[str(each.trust.level)] = trust.get(str(each.trust.level), 0) + 1
    return Figures(
        len(lessons),
        _average(each.lesson.confidence for each in lessons),
        max(ages),
        min(ages),
        _average(ages),
        sum(len(each.lesson.text.encode()) for each in lessons),
        sum(each.lesson.applied for each in lessons),
        sum(each.lesson.times for each in lessons),
        trust,
    )


def _average(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return sum(listed) / len(listed)


def _order(each: Ranked) -> tuple[str, str]:
    return str(each.lesson.record.place.scope), str(each.lesson.type)
