"""From what the rankings found to an order: one score each, and no file or source fills the page alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from vademecum.index import words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from vademecum.index.base import ChunkRow, Mark
    from vademecum.index.words import QuestionCues, Speech

CROWDING = 0.93  # what a further chunk of the same file keeps of its score
SUPERSEDED = 0.85  # what an entry keeps that a later one has replaced
ABOVE = 1e-6  # what lies this far above another is before it
# What a passage gains or loses by who speaks in it, whether it asks, and what it tells of. Hand-set, on
# scores whose best is about 1; docs/retrieval.md has what each does alone.
OWN = 0.30  # said by the person themselves, when they ask about themselves
NAMED = 0.20  # said by who is named in the question
ASKING = -0.10  # times the share of its sentences that are questions
WHEN, HOW_MANY = 0.10, 0.05  # a time or a number, when that is asked for
# The share of places that one source beside memory may take while others have something to say.
OTHERS_SHARE = 2 / 3


class Heard(NamedTuple):
    """What is added to a passage's score for who speaks, whether it asks, and times and numbers."""

    own: float = 0.0
    named: float = 0.0
    asking: float = 0.0
    when: float = 0.0
    how_many: float = 0.0


def heard(said: Speech, asked: QuestionCues) -> Heard:
    """What is added to a passage's score, by what is known of it and what is asked."""
    speaker, asks, says = said
    return Heard(
        OWN if asked.personal and speaker in words.PERSON else 0.0,
        NAMED if speaker is not None and words.is_named(speaker, asked) else 0.0,
        ASKING * asks / 100,
        WHEN if asked.when and says & words.TIME else 0.0,
        HOW_MANY if asked.how_many and says & words.NUMBER else 0.0,
    )


def spread(scores: Mapping[int, float], marks: Mapping[int, Mark]) -> list[tuple[int, float]]:
    """Order chunks, each further one of a file a little lower; equals stand as they do in their file.

    Ids tell nothing: a chunk that was indexed again has another one.
    """

    def best_first(scored: tuple[int, float]) -> tuple[float, int, int]:
        return -scored[1], marks[scored[0]].order, scored[0]

    seen: dict[int, int] = {}
    out = []
    for chunk, score in sorted(scores.items(), key=best_first):
        file = marks[chunk].file
        before = seen.get(file, 0)
        seen[file] = before + 1
        out.append((chunk, score * CROWDING**before if before else score))
    out.sort(key=best_first)
    return out


def behind_living(
    scores: dict[int, float], marks: Mapping[int, Mark], worded: Container[int]
) -> dict[int, float]:
    """Lower what a later entry has replaced, and lift the living one of its record just above it.

    A question whose words stand in the old entry alone gets that one first. Returns what was added to whom.
    """
    replaced = [id_ for id_, mark in marks.items() if mark.superseded]
    if not replaced:
        return {}
    files = {marks[id_].file for id_ in replaced}

    def rank(id_: int) -> tuple[bool, float, int]:
        return id_ in worded, scores[id_], marks[id_].order

    living: dict[int, int] = {}
    for id_, mark in marks.items():
        if mark.file in files and not mark.superseded:
            best = living.get(mark.file)
            if best is None or rank(id_) > rank(best):
                living[mark.file] = id_
    lifted: dict[int, float] = {}
    for id_ in replaced:
        scores[id_] *= SUPERSEDED
        first = living.get(marks[id_].file)
        if first is None or (id_ in worded and first not in worded) or scores[first] > scores[id_]:
            continue
        more = scores[id_] - scores[first] + ABOVE
        lifted[first] = lifted.get(first, 0.0) + more
        scores[first] += more
    return lifted


def living_first(order: Sequence[int], rows: Mapping[int, ChunkRow]) -> list[int]:
    """The same order, in which an entry of a record that was replaced follows the first living one."""
    living: dict[int, int] = {}
    for id_ in order:
        if rows[id_].superseded is None:
            living.setdefault(rows[id_].file, id_)
    out: dict[int, None] = {}
    for id_ in order:
        if rows[id_].superseded is not None and rows[id_].file in living:
            out[living[rows[id_].file]] = None
        out[id_] = None
    return list(out)


def with_quota(
    ordered: Sequence[int], source_of: Callable[[int], str], limit: int, *, free: frozenset[str]
) -> tuple[list[int], set[str]]:
    """The first `limit`, where a source that is not free makes room for others; no place stays empty.

    The second value names the sources of which more would change nothing.
    """
    most = math.ceil(limit * OTHERS_SHARE)
    taken: dict[str, int] = {}
    first, later = [], []
    for chunk in ordered:
        source = source_of(chunk)
        if source in free or taken.get(source, 0) < most:
            taken[source] = taken.get(source, 0) + 1
            first.append(chunk)
        else:
            later.append(chunk)
    full = {source for source, count in taken.items() if source not in free and count >= most}
    full |= free if len(first) >= limit else set()
    chosen = set([*first, *later][:limit])
    return [chunk for chunk in ordered if chunk in chosen], full


def three_factors(*, keywords: float, days: float, uses: int) -> float:
    """Relevance, recency and use in one number: 0.5, 0.3 and 0.2."""
    recency = 1 / (1 + max(days, 0.0) / 30)
    usage = min(1.0, math.log1p(max(uses, 0)) / math.log(101))
    return 0.5 * min(max(keywords, 0.0), 1.0) + 0.3 * recency + 0.2 * usage


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
