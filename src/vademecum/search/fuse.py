"""Merge the evidence of several legs into one score per candidate.

Knows ids and numbers; knows nothing of text, files or databases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Weights(NamedTuple):
    """How much each leg counts; the defaults are the set that won over all benchmarks."""

    vector: float = 0.35
    narrow: float = 0.30
    wide: float = 0.35
    exact: float = 1.0


class Evidence(NamedTuple):
    """What each leg says of one candidate, as it entered the sum."""

    vector: float
    narrow: float
    wide: float
    exact: float
    score: float


# FTS5 gives a word that stands in half of all rows almost no weight; a query of such words must not be blown
# up to a full score.
_LEAST_BM25 = 1.0


def weighted(
    candidates: Iterable[tuple[int, int]],
    *,
    vector: Mapping[int, float],
    narrow: Mapping[int, float],
    wide: Mapping[int, float],
    exact: Mapping[int, float],
    weights: Weights,
) -> dict[int, Evidence]:
    """Sum each leg divided by its best; a candidate is a chunk with its file."""
    best_vector = max(max(vector.values(), default=0.0), 1e-9)
    best_narrow = max(max(narrow.values(), default=0.0), _LEAST_BM25)
    best_wide = max(max(wide.values(), default=0.0), _LEAST_BM25)
    found = {}
    for chunk, file in candidates:
        parts = (
            weights.vector * vector.get(chunk, 0.0) / best_vector,
            weights.narrow * narrow.get(chunk, 0.0) / best_narrow,
            weights.wide * wide.get(file, 0.0) / best_wide,
            weights.exact * exact.get(chunk, 0.0),
        )
        found[chunk] = Evidence(*parts, sum(parts))
    return found


def reciprocal(
    candidates: Iterable[tuple[int, int]],
    *,
    vector: Mapping[int, float],
    narrow: Mapping[int, float],
    wide: Mapping[int, float],
    exact: Mapping[int, float],
    k: int = 60,
) -> dict[int, Evidence]:
    """Sum 1 / (k + rank) over the legs."""
    ranks = [_ranked(leg, k) for leg in (vector, narrow, wide)]
    found = {}
    for chunk, file in candidates:
        parts = (
            ranks[0].get(chunk, 0.0),
            ranks[1].get(chunk, 0.0),
            ranks[2].get(file, 0.0),
            exact.get(chunk, 0.0),
        )
        found[chunk] = Evidence(*parts, sum(parts))
    return found


def _ranked(leg: Mapping[int, float], k: int) -> dict[int, float]:
    ordered = sorted(leg, key=lambda each: (-leg[each], each))
    return {each: 1 / (k + rank) for rank, each in enumerate(ordered, 1)}
