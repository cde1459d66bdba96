"""In which order lessons are told: surer, fresher, more useful and better trusted ones first.

Computed from what the files say whenever it is asked, and never written back: looking twice changes nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge.trust import Level
from vademecum.store import clock
from vademecum.types import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from vademecum.knowledge.learned import Lesson
    from vademecum.knowledge.trust import Trust

# A known answer to an error saves more than a fact, and a fact more than an account of what went wrong.
WEIGHTS: Mapping[RecordType, float] = {
    RecordType.SOLUTION: 1.3,
    RecordType.PATTERN: 1.1,
    RecordType.DISCOVERY: 1.0,
    RecordType.RULE: 1.0,
    RecordType.FAILURE: 0.9,
    RecordType.WORKFLOW: 0.8,
}
# One agent's word stands as low as a confirmed lesson that has not been seen for 1.7 half-lives (0.5 ** 1.7):
# a fresh guess does not push out what is known, and is still told where nothing better is.
UNVERIFIED = 0.3
USE = 0.3  # what each doubling or so of the uses adds
_DAY = 86_400


class Score(NamedTuple):
    """A score and what it is the product of."""

    value: float
    confidence: float
    age: float
    type: float
    use: float
    trust: float


class Ranked(NamedTuple):
    """A lesson with its place in the order, and how far it is trusted."""

    lesson: Lesson
    trust: Trust
    score: Score


def score(lesson: Lesson, trust: Trust, *, now: datetime, half_life_days: float) -> Score:
    """Confidence × half-life of its age × type × use × trust."""
    parts = (
        lesson.confidence,
        0.5 ** (age_days(lesson.last, now=now) / half_life_days),
        WEIGHTS[lesson.type],
        1 + USE * math.log1p(lesson.applied),
        UNVERIFIED if trust.level in (Level.UNVERIFIED, Level.WAITING) else 1.0,
    )
    return Score(math.prod(parts), *parts)


def ranked(lessons: Iterable[tuple[Lesson, Trust]], *, now: datetime, half_life_days: float) -> list[Ranked]:
    """Lessons, the best first; equal ones by number and key, so that the order is stable."""
    found = [
        Ranked(lesson, trust, score(lesson, trust, now=now, half_life_days=half_life_days))
        for lesson, trust in lessons
    ]
    return sorted(
        found, key=lambda each: (-each.score.value, each.lesson.record.num or 0, each.lesson.record.path)
    )


def age_days(stamp: str | None, *, now: datetime) -> float:
    """How many days ago that was; what has no readable time, or one to come, is new."""
    moment = clock.parse(stamp)
    return 0.0 if moment is None else max((now - moment).total_seconds() / _DAY, 0.0)
