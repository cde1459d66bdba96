"""Times in questions, in six languages, and what only looks like one: how many are understood as labelled.

The questions were written before the grammar, and are split by a hash: who tunes looks at one half, and of
the other only totals are ever printed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.text import time_phrases

if TYPE_CHECKING:
    from vademecum.text.calendar_spans import TimeSpan

TUNE, HELD = "tune", "held"


class Labelled(NamedTuple):
    """A question, the moment it is asked at, and the times it speaks of: often none."""

    language: str
    now: datetime
    question: str
    times: tuple[str, ...]

    @property
    def half(self) -> str:
        """Who tunes looks at one half."""
        return TUNE if hashlib.sha256(self.question.encode()).digest()[0] % 2 else HELD


def read() -> list[Labelled]:
    """Every labelled question."""
    lines = (Path(__file__).with_name("sets") / "times.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Labelled(each["lang"], datetime.fromisoformat(each["now"]), each["question"], tuple(each["times"]))
        for each in map(json.loads, lines)
    ]


def understood(labelled: Labelled) -> tuple[str, ...]:
    """The times that are found in a question, written as the labels are."""
    return tuple(
        written(span) for found in time_phrases.find(labelled.question, labelled.now) for span in found.spans
    )


def written(span: TimeSpan) -> str:
    """A span as labels have it: the first and the last day, or moments."""
    whole = all(each is None or (each.hour, each.minute) == (0, 0) for each in span[:2])
    if not whole:
        return f"{span.start:%Y-%m-%dT%H:%M}..{span.end:%Y-%m-%dT%H:%M}"
    first = "" if span.start is None else f"{span.start:%Y-%m-%d}"
    last = "" if span.end is None else f"{datetime.fromordinal(span.end.toordinal() - 1):%Y-%m-%d}"
    return first if first == last else f"{first}..{last}"


def measure() -> list[dict[str, object]]:
    """How many are right, by half and language, and of those that are no time."""
    right: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for each in read():
        for group in (each.language, "all", "times" if each.times else "no time"):
            total[each.half, group] += 1
            right[each.half, group] += understood(each) == each.times
    return [
        {"half": half, "group": group, "questions": count, "right": round(right[half, group] / count, 4)}
        for (half, group), count in sorted(total.items())
    ]
