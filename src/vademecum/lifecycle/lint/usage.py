"""Poison: a short text that is shown far more often than all others of its scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lifecycle.lint.base import ERROR, item_of
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum.lifecycle.base import Seen
    from vademecum.lifecycle.lint.base import Material
    from vademecum.types import Place

NAME = "poison_frequency"
LEAST_RECORDS, LEAST_USES, TIMES, SHORT = 20, 50, 5, 200
MEND = "vade heal --apply --aggressive"


def check(material: Material, *, uses: Callable[[list[str]], dict[str, int]]) -> Iterator[Finding]:
    """Records whose counter looks driven up."""
    for seen, count, usual in poisoned(material.seen, uses):
        others = f"95 of 100 records of {seen.record.place} were at most {usual:,} times"
        why = f"it is short and was shown {count:,} times, where {others}"
        mend = f"{MEND} --scope {seen.record.place.scope}"
        yield Finding(NAME, seen.record.path, why, mend, ERROR, seen.record.place)


def poisoned(
    seen: Sequence[Seen], uses: Callable[[list[str]], dict[str, int]]
) -> Iterator[tuple[Seen, int, int]]:
    """The records in question, how often each was shown, and what is usual there."""
    places: dict[Place, list[Seen]] = {}
    for each in seen:
        places.setdefault(each.record.place, []).append(each)
    for here in places.values():
        if len(here) < LEAST_RECORDS:
            continue
        known = uses([item_of(each) for each in here])
        counts = [known.get(item_of(each), 0) for each in here]
        usual = sorted(counts)[-(-95 * len(counts) // 100) - 1]
        for each, count in zip(here, counts, strict=True):
            if count > TIMES * usual and count > LEAST_USES and len(each.record.text) < SHORT:
                yield each, count, usual
