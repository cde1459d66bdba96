"""Turn candidates into an order by score, in which no single file or source fills the page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vademecum.index import words
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from vademecum.index import ChunkRow, Mark, QuestionCues, Speech

CROWDING = 0.93  # the share of its score that a further chunk of the same file keeps
SUPERSEDED = 0.85  # the share that a superseded entry keeps
ABOVE = 1e-6  # the least difference that puts one before another
# What a passage gains or loses by its speaker, its questions and its mentions. Set by hand, on
# scores whose best is about 1; docs/retrieval.md has the effect of each.
OWN = 0.30  # said by the asker, when they ask about themselves
NAMED = 0.20  # said by a person whom the question names
ASKING = -0.10  # times the share of its sentences that are questions
WHEN, HOW_MANY = 0.10, 0.05  # a time or a number, when the question asks for it
# The share of places that one source beside memory may take while others have candidates.
OTHERS_SHARE = 2 / 3
LEAST_OF_ONE = 2  # passages of one file that come before those of others, in an answer with few places


class SpeechGain(NamedTuple):
    """The gains in score of a passage for its speaker, questions, times and numbers."""

    own: float = 0.0
    named: float = 0.0
    asking: float = 0.0
    when: float = 0.0
    how_many: float = 0.0


def speech_gain(said: Speech, asked: QuestionCues) -> SpeechGain:
    """Return what a passage gains or loses by its speaker, questions and mentions, for a question's cues."""
    speaker, asks, says = said
    return SpeechGain(
        OWN if asked.personal and speaker in words.PERSON else 0.0,
        NAMED if speaker is not None and words.is_named(speaker, asked) else 0.0,
        ASKING * asks / 100,
        WHEN if asked.when and says & words.TIME else 0.0,
        HOW_MANY if asked.how_many and says & words.NUMBER else 0.0,
    )


def spread(scores: Mapping[int, float], marks: Mapping[int, Mark]) -> list[tuple[int, float]]:
    """Return the chunks in order; each further chunk of the same file has its score lowered a little.

    Equal scores are ordered as in the file. Ids cannot decide, because a chunk that is indexed again has
    another id.
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
    """Lower the scores of superseded entries, and lift the current entry of each record just above.

    An entry without words of the question is not lifted above one that has some (`worded`). Return what was
    added to the score of each lifted chunk.
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
    """Return the order with the first current entry of a record moved before its superseded entries."""
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


def take_turns(
    ordered: Sequence[int], marks: Mapping[int, Mark], places: int, *, free: frozenset[str]
) -> list[int]:
    """Return the first passages that fill `places`, in their order.

    The passages of one conversation take one place together. Before other files have had a turn, one file
    gives only `most_of_one(places)` passages; before other sources, one source only two thirds of the places,
    unless it is in `free`.
    """
    each_file, each_source = most_of_one(places), math.ceil(places * OTHERS_SHARE)
    files: dict[int, int] = {}
    sources: dict[str, int] = {}
    first, later, taken = [], [], 0
    for chunk in ordered:
        mark = marks[chunk]
        seen = files.get(mark.file, 0)
        shares = mark.in_conversation and seen > 0
        full = not shares and mark.source not in free and sources.get(mark.source, 0) >= each_source
        if full or seen >= each_file:
            later.append(chunk)
            continue
        if not shares and taken >= places:
            break
        if not shares:
            taken += 1
            sources[mark.source] = sources.get(mark.source, 0) + 1
        files[mark.file] = seen + 1
        first.append(chunk)
    chosen = {*first, *later[: max(0, places - taken)]}
    return [chunk for chunk in ordered if chunk in chosen]


def most_of_one(places: int) -> int:
    """Return how many passages of one file come before those of others, in an answer with these places."""
    return max(LEAST_OF_ONE, places // 6)


def three_factors(*, keywords: float, days: float, uses: int) -> float:
    """Return one number for relevance, recency and use, with the weights 0.5, 0.3 and 0.2."""
    recency = 1 / (1 + max(days, 0.0) / 30)
    usage = min(1.0, math.log1p(max(uses, 0)) / math.log(101))
    return 0.5 * min(max(keywords, 0.0), 1.0) + 0.3 * recency + 0.2 * usage


class Weights(NamedTuple):
    """The weights of the ways to search (legs); the defaults were the best over all benchmarks."""

    vector: float = 0.35
    narrow: float = 0.30
    wide: float = 0.35
    exact: float = 1.0


class Evidence(NamedTuple):
    """The values of one candidate from each way to search, as they entered the sum."""

    vector: float
    narrow: float
    wide: float
    exact: float
    score: float


class MergedLegs(NamedTuple):
    """The scores of all candidates in order, and the evidence that each score was made from."""

    scores: list[float]
    parts: Callable[[int], tuple[float, float, float, float]]
    scale: dict[str, float]

    def of(self, chunk: int) -> Evidence:
        """Return the evidence of a candidate."""
        parts = self.parts(chunk)
        return Evidence(*parts, sum(parts))


# FTS5 gives a word in half of all rows almost no weight; a query of such words must not be scaled
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
    """Return for each candidate the weighted sum of its values from each way to search.

    Values are divided by the best of their kind; `candidates` gives the file of each chunk.
    """
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
    """Return for each candidate the sum of 1 / (k + rank) over the ways to search.

    Exact matches add their weighted value; the other weights are not used.
    """
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
