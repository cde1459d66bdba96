"""The second stage of ranking: small decision trees order the best candidates again.

Sums of a few values choose the candidates. Trees then add to each sum or take away, by the value from each
way to search, by the speaker, by the neighbours of a passage and by its file; `tools/fit_stage.py` fitted
them. Without trees, or with a damaged file, the sum alone decides. This module knows numbers and marks, and
no texts or databases.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vademecum.index import words
from vademecum.search.ranking import held_by_stems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vademecum.index import Mark, QuestionCues, Speech
    from vademecum.search.legs import Legs

    Floats = NDArray[np.float32]
    _Values = Mapping[tuple[int, int], float]  # values of passages, by file and place

MOST = 60  # candidates that are ordered again; more changed nothing
# In a large store other passages resemble the right one as well, ranks and counts look different, and more
# candidates deserve a second look: trees of their own order them.
LARGE = 8_000  # passages
LARGE_MOST = 100
LEAVES = 8  # one bit of a byte for each
LEAST = 0.02  # the share of the best score that every candidate keeps
SHORT = 40  # different words, above which a passage's neighbours say less about it
TREES = Path(__file__).with_name("second_stage.json")
LARGE_TREES = Path(__file__).with_name("second_stage_large.json")
# Messages of sessions are cut otherwise than notes, and no leg knows their whole file.
SESSION_TREES = Path(__file__).with_name("second_stage_sessions.json")

FEATURES = (
    "sum",  # the sum of the legs and the constants, without identifiers
    "vector",
    "narrow",  # narrow leg with neighbours
    "wide",
    "own",  # the narrow leg of the passage alone
    "before",  # the narrow leg of the passage before
    "after",
    "before_2",
    "after_2",
    "before_short",  # the same, less for a longer passage
    "after_short",
    "beside_short_2",
    "vector_before",
    "vector_after",
    "person",  # who asks about themselves: 1 for words of a person, -1 for those of another speaker
    "role",
    "named",  # said by a person whom the question names, or by another
    "speaks",
    "asks",
    "asks_before",
    "size",
    "when",
    "how_many",
    "time",
    "number",
    "file_best",
    "file_rank",
    "file_count",
    "alone",
    "words",
)

# What the trees for large stores see besides.
LARGE_FEATURES = (
    *FEATURES,
    "store",  # how many passages there are
    "held_idf",  # the share of the question that the passage holds, each word by its rarity
    "held",  # the share of the question's words
    "around_idf",  # the same as `held_idf`, with the passages before and after,
    "file_idf",  # and with all candidates of the file
    "cosine",
    "apart",  # how far the cosine is above those of the store
    "narrow_idf",  # the legs by the rarity of the question's words
    "own_idf",
    "wide_idf",
    "narrow_rank",  # one divided by the place in each leg
    "vector_rank",
    "wide_rank",
    "file_vector",  # the best of the file in each leg
    "file_narrow",
    "file_sum_3",  # the sums of the best three candidates of the file,
    "file_rest",  # and of those behind the first
    "rank",  # the place by the sum
    "idf_max",  # the rarity of the question's rarest word
)


class Trees(NamedTuple):
    """All decision trees as arrays; each tree is a column of seven splits and eight leaves."""

    feature: NDArray[np.intp]  # the feature of each split, split by split
    threshold: Floats
    closed: NDArray[np.uint8]  # the leaves that a value above the threshold cannot reach, a bit each
    leaves: Floats  # the values of all leaves
    first: NDArray[np.intp]  # the first leaf of each tree
    step: float  # the factor from the trees' scale to that of a score
    source: tuple[Mapping[str, Any], ...]  # the trees as in the file, for explanations
    names: tuple[str, ...] = FEATURES

    def __call__(self, rows: Floats) -> Floats:
        """Return for each row of features the sum of the trees' values.

        All splits are evaluated at once. A row that goes to the right at a split cannot reach the leaves on
        its left; the first leaf that stays reachable gives the tree's value.
        """
        above = _rounded(rows).T.take(self.feature, axis=0) > self.threshold[:, None]
        closed = above.view(np.uint8) * self.closed[:, None]
        reached = _FIRST_OPEN[np.bitwise_or.reduce(closed.reshape(LEAVES - 1, len(self.first), -1), axis=0)]
        total: Floats = self.leaves.take(reached + self.first[:, None]).sum(axis=0)
        return total

    def shares(self, row: Floats) -> dict[str, float]:
        """Return how much each feature contributes to one row's value; with the base they sum to that
        value.
        """
        found = dict.fromkeys(self.names, 0.0)
        row = _rounded(row)
        for tree in self.source:
            at, value = 0, tree["value"][0]
            while at >= 0:
                feature = tree["feature"][at]
                at, before = tree["right" if row[feature] > tree["threshold"][at] else "left"][at], value
                value = tree["value"][at] if at >= 0 else tree["leaf"][~at]
                found[self.names[feature]] += value - before
        return found


def _rounded(values: Floats) -> Floats:
    """Return features rounded, so that the last digits of a float do not decide a split."""
    rounded: Floats = np.round(values, 4)
    return rounded


_FIRST_OPEN = np.array([next((bit for bit in range(8) if not closed >> bit & 1), 7) for closed in range(256)])


class Damaged(ValueError):
    """The error that the file of the trees differs from the trees that were fitted."""


def digest(kept: Mapping[str, Any]) -> str:
    """Return the checksum over the trees in the form in which they were fitted."""
    told = json.dumps([kept["features"], kept["step"], kept["trees"]], separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()


def parse(text: bytes, names: tuple[str, ...] = FEATURES) -> Trees:
    """Read the trees that see these features from the text of their file; raise Damaged for other text."""
    try:
        kept = json.loads(text)
        if tuple(kept["features"]) != names:
            raise Damaged("its features do not match")
        if digest(kept) != kept["digest"]:
            raise Damaged("its digest does not match")
        return _arranged(kept["trees"], float(kept["step"]), names)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise Damaged(str(error)) from error


def _arranged(trees: Sequence[Mapping[str, Any]], step: float, names: tuple[str, ...]) -> Trees:
    feature = np.zeros((LEAVES - 1, len(trees)), np.intp)
    threshold = np.full((LEAVES - 1, len(trees)), np.inf, np.float32)
    closed = np.zeros((LEAVES - 1, len(trees)), np.uint8)
    leaves = np.zeros((len(trees), LEAVES), np.float32)
    for number, tree in enumerate(trees):
        splits = len(tree["feature"])
        feature[:splits, number] = tree["feature"]
        threshold[:splits, number] = tree["threshold"]
        order: list[int] = []
        _number_leaves(tree, 0, order, closed[:, number])
        leaves[number, : len(order)] = [tree["leaf"][leaf] for leaf in order]
    if feature.max(initial=0) >= len(names) or not np.isfinite(leaves).all():
        raise Damaged("a tree is invalid")
    first = np.arange(len(trees)) * LEAVES
    flat = feature.ravel(), threshold.ravel(), closed.ravel(), leaves.ravel()
    return Trees(*flat, first, step, tuple(trees), names)


def _number_leaves(tree: Mapping[str, Any], at: int, order: list[int], closed: NDArray[np.uint8]) -> int:
    """Number the leaves below a split from left to right, and return them as bits.

    Store for each split the leaves on its left.
    """
    if at < 0:
        order.append(~at)
        return 1 << (len(order) - 1)
    closed[at] = left = _number_leaves(tree, tree["left"][at], order, closed)
    return left | _number_leaves(tree, tree["right"][at], order, closed)


@functools.cache
def fitted(*, large: bool = False, sessions: bool = False) -> tuple[Trees | None, str]:
    """Return the trees of the package, or None with the reason why they cannot be used.

    With `large`, return those for large stores, and with `sessions`, those for messages of sessions.
    """
    path = LARGE_TREES if large else SESSION_TREES if sessions else TREES
    try:
        return parse(path.read_bytes(), LARGE_FEATURES if large else FEATURES), ""
    except (OSError, Damaged) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        return None, f"ranked without the second stage: {path.name} cannot be used ({why})"


class StageResult(NamedTuple):
    """The result of the second stage for one question."""

    added: dict[int, float]  # what is added to the score of each candidate
    ids: Sequence[int] = ()  # candidates that were ordered again
    rows: Floats | None = None
    step: float = 0.0
    trees: Trees | None = None

    def explained(self, id_: int) -> dict[str, float]:
        """Return how much each feature added to a candidate's score."""
        if self.trees is None or self.rows is None or id_ not in self.ids:
            return {}
        shares = self.trees.shares(self.rows[self.ids.index(id_)])
        return {f"stage_{name}": self.step * share for name, share in shares.items()}


def refine(scores: Mapping[int, float], legs: Legs, asked: QuestionCues) -> None:
    """Store in `legs` what the second stage adds to the scores of a question, or why it cannot be used."""
    # Only the index of sessions stores no stems, so the words of its candidates are not known here.
    trees, legs.unstaged = fitted(large=legs.count >= LARGE and legs.has_stems, sessions=not legs.has_stems)
    if trees is not None:
        legs.stage = staged(scores, legs, asked, trees)
        legs.added["stage"] = legs.stage.added


def staged(scores: Mapping[int, float], legs: Legs, asked: QuestionCues, trees: Trees) -> StageResult:
    """Return what the trees add to the scores, so that the best candidates are ordered again.

    The best score stays the same. Scores for identifiers are added on top as before. Candidates that are not
    ordered again stay below the others.
    """
    large = trees.names == LARGE_FEATURES
    ids, rest, sums = candidates(scores, legs, most=LARGE_MOST if large else MOST)
    best = sums[ids[0]] if ids else 0.0
    if best <= 0:
        return StageResult({})
    rows = (large_features if large else features)(ids, sums, legs, asked)
    made, step = summed(rows, trees)
    made = np.maximum(made - (made.max() - best), LEAST * best)
    added = {id_: new - sums[id_] for id_, new in zip(ids, made.tolist(), strict=True)}
    if rest:
        lowest, highest = float(made.min()), max(map(sums.__getitem__, rest))
        if highest > lowest:
            added.update((id_, sums[id_] * (lowest / highest - 1)) for id_ in rest if sums[id_] > 0)
    return StageResult(added, ids, rows, step, trees)


def summed(rows: Floats, trees: Trees) -> tuple[Floats, float]:
    """Return each row's sum plus the trees' value times a factor, and that factor.

    The factor is the step of the trees, reduced by the share of passages that are alone in their file and
    have no speaker: for these the trees were no better than the sum.
    """
    unknown = (rows[:, _TELLING] == _NOTHING_TOLD).all(axis=1)
    step = trees.step * (1 - float(unknown.mean()))
    return rows[:, 0] + step * trees(rows), step


_TELLING = [FEATURES.index(name) for name in ("role", "speaks", "alone")]
_NOTHING_TOLD = np.array([0.0, 0.0, 1.0], np.float32)


def candidates(
    scores: Mapping[int, float], legs: Legs, *, most: int = MOST
) -> tuple[list[int], list[int], Mapping[int, float]]:
    """Return the candidates to order again, best first; the other candidates; and the scores used.

    The scores used leave out the part for identifiers.
    """
    order = sorted(scores, key=lambda id_: (-scores[id_], id_))
    if not legs.exact:
        return order[:most], order[most:], scores
    sums = {id_: score - legs.exact.get(id_, 0.0) for id_, score in scores.items()}
    return sorted(order[:most], key=lambda id_: (-sums[id_], id_)), order[most:], sums


def speech_features(said: Speech, asked: QuestionCues) -> tuple[float, ...]:
    """Return the features of a passage that come from its speaker, its questions and its mentions."""
    speaker, asks, says = said
    person = speaker in words.PERSON
    role = 1.0 if person else -1.0 if speaker in words.ROLES else 0.0
    named = speaker is not None and words.is_named(speaker, asked)
    time, number = bool(says & words.TIME), bool(says & words.NUMBER)
    return (
        (1.0 if person else -1.0 if speaker else 0.0) if asked.personal else 0.0,
        role,
        1.0 if named else 0.0,
        float(speaker is not None and not role),
        asks / 100,
        (1.0 if time else -1.0) if asked.when else 0.0,
        (1.0 if number else -1.0) if asked.how_many else 0.0,
        float(time),
        float(number),
    )


def features(ids: Sequence[int], sums: Mapping[int, float], legs: Legs, asked: QuestionCues) -> Floats:
    """Return one row of features for each candidate; the candidates come best first, at least one."""
    marks: Mapping[int, Mark] = legs.marks
    narrow, wide, vector, own = legs.narrow.get, legs.wide.get, legs.vector.get, legs.own
    meaning = {(mark.file, mark.order): vector(id_, 0.0) for id_, mark in marks.items()}
    asking = {(mark.file, mark.order): mark.speech.asks for mark in marks.values() if mark.speech.asks}
    speech = {said: speech_features(said, asked) for said in {marks[id_].speech for id_ in ids}}
    others = -1.0 if any(each[2] for each in speech.values()) else 0.0  # where the question names a speaker
    files = [marks[id_].file for id_ in ids]
    counts = Counter(files)
    seen: dict[int, int] = {}
    first: dict[int, float] = {}
    asked_for = min(len(legs.asked.words), 20)
    flat: list[float] = []
    for id_, file in zip(ids, files, strict=True):
        _, order, _, _, alone, said, size = marks[id_]
        beside = _ALONE if alone else _neighbour_features(file, order, own, meaning, asking)
        short = math.exp(-size / SHORT)
        person, role, named, speaks, asks, *told = speech[said]
        rank = seen[file] = seen.get(file, -1) + 1
        flat += (
            sums[id_],
            vector(id_, 0.0),
            narrow(id_, 0.0),
            wide(file, 0.0),
            own.get((file, order), 0.0),
            *beside[:4],
            beside[0] * short,
            beside[1] * short,
            (beside[2] + beside[3]) * short,
            *beside[4:6],
            person,
            role,
            named or others,
            speaks,
            asks,
            beside[6],
            math.log1p(size),
            *told,
            first.setdefault(file, sums[id_]),
            rank,
            counts[file],
            alone,
            asked_for,
        )
    rows: Floats = np.fromiter(flat, np.float32, len(flat)).reshape(-1, len(FEATURES))
    return rows * _factors(legs, sums[ids[0]])


_ALONE = (0.0,) * 7
_WORDS = [FEATURES.index("own"), *range(FEATURES.index("before"), FEATURES.index("vector_before"))]
_MEANING = [FEATURES.index(name) for name in ("vector", "vector_before", "vector_after")]
_NARROW, _WIDE = FEATURES.index("narrow"), FEATURES.index("wide")
_FILE_BEST, _ASKS_BEFORE = FEATURES.index("file_best"), FEATURES.index("asks_before")


def _factors(legs: Legs, best: float) -> Floats:
    """Return the factor of each column, which turns values into shares of the best value.

    Small values that FTS5 gives to frequent words are not scaled up.
    """
    factors = np.ones(len(FEATURES), np.float32)
    factors[_NARROW] = 1 / max(1.0, *legs.narrow.values(), 0.0)
    factors[_WIDE] = 1 / max(1.0, *legs.wide.values(), 0.0)
    factors[_WORDS] = 1 / max(1.0, *legs.own.values(), 0.0)
    factors[_MEANING] = 1 / max(1e-9, *legs.vector.values(), 0.0)
    factors[_FILE_BEST] = 1 / (best or 1e-9)
    factors[_ASKS_BEFORE] = 0.01
    return factors


def large_features(ids: Sequence[int], sums: Mapping[int, float], legs: Legs, asked: QuestionCues) -> Floats:
    """Return one row of features for each candidate of a large store; the candidates come best first."""
    marks = [legs.marks[id_] for id_ in ids]
    rarity = np.array([_rarity(legs.frequency.get(word, 0), legs.count) for word in legs.asked.words])
    total, rarest = max(float(rarity.sum()), 1e-9), float(rarity.max(initial=0.0))
    rows = legs.index.rows(ids, text=False)
    holding = held_by_stems(legs)({id_: rows[id_] for id_ in ids})
    held = np.array([holding[id_] for id_ in ids], bool).reshape(len(ids), len(rarity))
    places = {(mark.file, mark.order): at for at, mark in enumerate(marks)}
    around, whole = held.copy(), held.copy()
    of_file: dict[int, list[int]] = {}
    for at, mark in enumerate(marks):
        of_file.setdefault(mark.file, []).append(at)
        for beside in (places.get((mark.file, mark.order - 1)), places.get((mark.file, mark.order + 1))):
            if beside is not None:
                around[at] |= held[beside]
    narrow = np.array([legs.narrow.get(id_, 0.0) for id_ in ids])
    vector = np.array([legs.vector.get(id_, 0.0) for id_ in ids])
    wide = np.array([legs.wide.get(mark.file, 0.0) for mark in marks])
    own = np.array([legs.own.get((mark.file, mark.order), 0.0) for mark in marks])
    score = np.array([sums[id_] for id_ in ids])
    best = np.zeros((len(ids), 4))  # of each file: meaning, words, and the sums of its best candidates
    for some in of_file.values():
        whole[some] = held[some].any(axis=0)
        sums_of = score[some]  # in order, the best first
        best[some] = vector[some].max(), own[some].max(), sums_of[:3].sum(), sums_of[1:4].sum()
    best /= max(float(vector.max()), 1e-9), max(float(own.max()), 1.0), *([max(float(score[0]), 1e-9)] * 2)
    columns = (
        np.full(len(ids), math.log10(max(legs.count, 1))),
        held @ rarity / total,
        held.mean(axis=1) if len(rarity) else np.zeros(len(ids)),
        around @ rarity / total,
        whole @ rarity / total,
        [legs.cosine.get(id_, 0.0) for id_ in ids],
        [legs.apart(id_) for id_ in ids],
        narrow / total,
        own / total,
        wide / total,
        _by_place(narrow),
        _by_place(vector),
        _by_place(wide),
        *best.T,
        np.arange(len(ids)),
        np.full(len(ids), rarest),
    )
    more = np.array(columns, np.float32).T
    return np.concatenate([features(ids, sums, legs, asked), more], axis=1)


def _rarity(seen: int, count: int) -> float:
    """Return how rare a word is among all passages, as BM25 has it; 0 for a word that is nowhere."""
    return math.log(1 + (max(count, 1) - seen + 0.5) / (seen + 0.5)) if seen else 0.0


def _by_place(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one divided by the place of each value, the highest first; 0 for a value of 0."""
    places = np.empty(len(values))
    places[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return np.where(values > 0, 1 / places, 0.0)


def _neighbour_features(
    file: int, order: int, own: _Values, meaning: _Values, asking: _Values
) -> tuple[float, ...]:
    """Return the features of the passages before and after: words, meaning, and share of questions."""
    before, after = (file, order - 1), (file, order + 1)
    return (
        own.get(before, 0.0),
        own.get(after, 0.0),
        own.get((file, order - 2), 0.0),
        own.get((file, order + 2), 0.0),
        meaning.get(before, 0.0),
        meaning.get(after, 0.0),
        asking.get(before, 0.0),
    )
