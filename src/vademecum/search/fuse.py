"""Merge the evidence of several legs into one score per candidate.

Knows ids and numbers; knows nothing of text, files or databases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


class MergedLegs(NamedTuple):
    """The scores of all candidates in order, and how to work one out again."""

    scores: list[float]
    parts: Callable[[int], tuple[float, float, float, float]]
    scale: dict[str, float]

    def of(self, chunk: int) -> Evidence:
        """What each leg said of a candidate."""
        parts = self.parts(chunk)
        return Evidence(*parts, sum(parts))


# FTS5 gives a word that stands in half of all rows almost no weight; a query of such words must not be blown
# up to a full score.
_LEAST_BM25 = 1.0


def weighted(
    candidates: Mapping[int, int],
    *,
    vector: Mapping[int, float],
    narrow: Mapping[int, float],
    wide: Mapping[int, float],
    exact: Mapping[int, float],
    weights: Weights,
) -> MergedLegs:
    """Sum each leg divided by its best; a candidate is a chunk with its file."""
    by_vector = weights.vector / max(max(vector.values(), default=0.0), 1e-9)
    by_narrow = weights.narrow / max(max(narrow.values(), default=0.0), _LEAST_BM25)
    by_wide = weights.wide / max(max(wide.values(), default=0.0), _LEAST_BM25)
    by_exact = weights.exact

    def parts(chunk: int) -> tuple[float, float, float, float]:
        return (
            by_vector * vector.get(chunk, 0.0),
            by_narrow * narrow.get(chunk, 0.0),
            by_wide * wide.get(candidates[chunk], 0.0),
            by_exact * exact.get(chunk, 0.0),
        )

    of_vector, of_narrow, of_wide, of_exact = vector.get, narrow.get, wide.get, exact.get
    scores = [
        by_vector * of_vector(chunk, 0.0)
        + by_narrow * of_narrow(chunk, 0.0)
        + by_wide * of_wide(file, 0.0)
        + by_exact * of_exact(chunk, 0.0)
        for chunk, file in candidates.items()
    ]
    scale = {
        "vector_factor": by_vector,
        "narrow_factor": by_narrow,
        "wide_factor": by_wide,
        "exact_factor": by_exact,
    }
    return MergedLegs(scores, parts, scale)


def reciprocal(
    candidates: Mapping[int, int],
    *,
    vector: Mapping[int, float],
    narrow: Mapping[int, float],
    wide: Mapping[int, float],
    exact: Mapping[int, float],
    weights: Weights,
    k: int = 60,
) -> MergedLegs:
    """Sum 1 / (k + rank) over the legs; their weights say nothing here."""
    by_vector, by_narrow, by_wide = (_ranked(leg, k) for leg in (vector, narrow, wide))

    def parts(chunk: int) -> tuple[float, float, float, float]:
        return (
            by_vector.get(chunk, 0.0),
            by_narrow.get(chunk, 0.0),
            by_wide.get(candidates[chunk], 0.0),
            weights.exact * exact.get(chunk, 0.0),
        )

    return MergedLegs([sum(parts(chunk)) for chunk in candidates], parts, {"k": float(k)})


def _ranked(leg: Mapping[int, float], k: int) -> dict[int, float]:
    ordered = sorted(leg, key=lambda each: (-leg[each], each))
    return {each: 1 / (k + rank) for rank, each in enumerate(ordered, 1)}
