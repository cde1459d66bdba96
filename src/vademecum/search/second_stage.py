"""The second stage: small trees that put the best candidates in order again, by what is known of each.

What the legs and a few constants add up to chooses the candidates. Trees then add to that sum, or take away,
by each leg for itself, by who speaks, by what stands beside a passage and by its file; they were fitted by
`tools/fit_stage.py`. Without them, or with a file that is not whole, the sum alone decides.
Knows numbers and marks; knows nothing of texts or databases.
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vademecum.index.base import Mark
    from vademecum.index.words import QuestionCues, Speech
    from vademecum.search.legs import Legs

    Floats = NDArray[np.float32]
    _Values = Mapping[tuple[int, int], float]  # of passages, by file and place

MOST = 60  # candidates that are put in order again; more changed nothing
LEAVES = 8  # a byte has a bit for each
LEAST = 0.02  # of the best score, that every candidate keeps
SHORT = 40  # different words, over which what stands beside a passage says less and less of it
TREES = Path(__file__).with_name("second_stage.json")

FEATURES = (
    "sum",  # of the legs and the constants, but for identifiers
    "vector",
    "narrow",  # with what stands beside it
    "wide",
    "own",  # the words of the passage alone
    "before",  # those of the passage before it
    "after",
    "before_2",
    "after_2",
    "before_short",  # the same, the less the longer the passage is
    "after_short",
    "beside_short_2",
    "vector_before",
    "vector_after",
    "person",  # said by the person who asks of themselves, or by another
    "role",
    "named",  # said by who is named in the question, or by another
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


class Trees(NamedTuple):
    """All trees as arrays, a column of seven splits and eight leaves for each."""

    feature: NDArray[np.intp]  # of each split, split by split
    threshold: Floats
    closed: NDArray[np.uint8]  # the leaves that a passage above the threshold cannot reach, a bit each
    leaves: Floats  # one after the other
    first: NDArray[np.intp]  # the first leaf of each tree
    step: float  # from the trees' own scale to that of a score
    source: tuple[Mapping[str, Any], ...]  # as they stand in the file, to explain by

    def __call__(self, rows: Floats) -> Floats:
        """What the trees say of each row of features.

        Every split of every tree is looked at, at once: a split that is passed on the right closes the leaves
        on its left, and the first leaf still open is the one that is reached.
        """
        above = _rounded(rows).T.take(self.feature, axis=0) > self.threshold[:, None]
        closed = above.view(np.uint8) * self.closed[:, None]
        reached = _FIRST_OPEN[np.bitwise_or.reduce(closed.reshape(LEAVES - 1, len(self.first), -1), axis=0)]
        total: Floats = self.leaves.take(reached + self.first[:, None]).sum(axis=0)
        return total

    def shares(self, row: Floats) -> dict[str, float]:
        """What each feature adds for one row; with what all rows begin with, that is what the trees say."""
        found = dict.fromkeys(FEATURES, 0.0)
        row = _rounded(row)
        for tree in self.source:
            at, value = 0, tree["value"][0]
            while at >= 0:
                feature = tree["feature"][at]
                at, before = tree["right" if row[feature] > tree["threshold"][at] else "left"][at], value
                value = tree["value"][at] if at >= 0 else tree["leaf"][~at]
                found[FEATURES[feature]] += value - before
        return found


def _rounded(values: Floats) -> Floats:
    """Features as a split looks at them: the last digits of a float must not decide which way it goes."""
    rounded: Floats = np.round(values, 4)
    return rounded


_FIRST_OPEN = np.array([next((bit for bit in range(8) if not closed >> bit & 1), 7) for closed in range(256)])


class Damaged(ValueError):
    """The file of the trees is not what was fitted."""


def digest(kept: Mapping[str, Any]) -> str:
    """What tells whether the trees are those that were fitted."""
    told = json.dumps([kept["features"], kept["step"], kept["trees"]], separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()


def parse(text: bytes) -> Trees:
    """The trees of a file."""
    try:
        kept = json.loads(text)
        if tuple(kept["features"]) != FEATURES:
            raise Damaged("its features do not match")
        if digest(kept) != kept["digest"]:
            raise Damaged("its digest does not match")
        return _arranged(kept["trees"], float(kept["step"]))
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise Damaged(str(error)) from error


def _arranged(trees: Sequence[Mapping[str, Any]], step: float) -> Trees:
    feature = np.zeros((LEAVES - 1, len(trees)), np.intp)
    threshold = np.full((LEAVES - 1, len(trees)), np.inf, np.float32)
    closed = np.zeros((LEAVES - 1, len(trees)), np.uint8)
    leaves = np.zeros((len(trees), LEAVES), np.float32)
    for number, tree in enumerate(trees):
        splits = len(tree["feature"])
        feature[:splits, number] = tree["feature"]
        threshold[:splits, number] = tree["threshold"]
        order: list[int] = []
        _close(tree, 0, order, closed[:, number])
        leaves[number, : len(order)] = [tree["leaf"][leaf] for leaf in order]
    if feature.max(initial=0) >= len(FEATURES) or not np.isfinite(leaves).all():
        raise Damaged("a tree is invalid")
    first = np.arange(len(trees)) * LEAVES
    flat = feature.ravel(), threshold.ravel(), closed.ravel(), leaves.ravel()
    return Trees(*flat, first, step, tuple(trees))


def _close(tree: Mapping[str, Any], at: int, order: list[int], closed: NDArray[np.uint8]) -> int:
    """Number the leaves below a split from left to right, and note of each split those on its left."""
    if at < 0:
        order.append(~at)
        return 1 << (len(order) - 1)
    closed[at] = left = _close(tree, tree["left"][at], order, closed)
    return left | _close(tree, tree["right"][at], order, closed)


@functools.cache
def fitted() -> tuple[Trees | None, str]:
    """The trees of the package, or why there are none."""
    try:
        return parse(TREES.read_bytes()), ""
    except (OSError, Damaged) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        return None, f"ranked without the second stage: {TREES.name} cannot be used ({why})"


class StageResult(NamedTuple):
    """What the second stage did for one question."""

    added: dict[int, float]  # to the score of each candidate
    ids: Sequence[int] = ()  # that were put in order again
    rows: Floats | None = None
    step: float = 0.0
    trees: Trees | None = None

    def explained(self, id_: int) -> dict[str, float]:
        """The share of each feature in what the trees say of a candidate, on the scale of scores."""
        if self.trees is None or self.rows is None or id_ not in self.ids:
            return {}
        shares = self.trees.shares(self.rows[self.ids.index(id_)])
        return {f"stage_{name}": self.step * share for name, share in shares.items()}


def refine(scores: Mapping[int, float], legs: Legs, asked: QuestionCues) -> None:
    """Say what the second stage adds to the scores of one question's candidates, or why it is not there."""
    trees, legs.unstaged = fitted()
    if trees is not None:
        legs.stage = staged(scores, legs, asked, trees)
        legs.added["stage"] = legs.stage.added


def staged(scores: Mapping[int, float], legs: Legs, asked: QuestionCues, trees: Trees) -> StageResult:
    """Put the best candidates in order again, on the scale of the scores they have.

    The best score stays what it is. Identifiers count as before, on top. What was not looked at stays below.
    """
    ids, rest, sums = candidates(scores, legs)
    best = sums[ids[0]] if ids else 0.0
    if best <= 0:
        return StageResult({})
    rows = features(ids, sums, legs, asked)
    made, step = summed(rows, trees)
    made = np.maximum(made - (made.max() - best), LEAST * best)
    added = {id_: new - sums[id_] for id_, new in zip(ids, made.tolist(), strict=True)}
    if rest:
        lowest, highest = float(made.min()), max(map(sums.__getitem__, rest))
        if highest > lowest:
            added.update((id_, sums[id_] * (lowest / highest - 1)) for id_ in rest if sums[id_] > 0)
    return StageResult(added, ids, rows, step, trees)


def summed(rows: Floats, trees: Trees) -> tuple[Floats, float]:
    """The sums with what the trees add, and how much of what they say that is.

    Of a file of one passage in which nobody speaks the trees know no more than the legs, and on such files
    they were no better than the sum: they count by the share of candidates of which there is more to know.
    """
    unknown = (rows[:, _TELLING] == _NOTHING_TOLD).all(axis=1)
    step = trees.step * (1 - float(unknown.mean()))
    return rows[:, 0] + step * trees(rows), step


_TELLING = [FEATURES.index(name) for name in ("role", "speaks", "alone")]
_NOTHING_TOLD = np.array([0.0, 0.0, 1.0], np.float32)


def candidates(scores: Mapping[int, float], legs: Legs) -> tuple[list[int], list[int], Mapping[int, float]]:
    """Those that are looked at, best first by their sums without identifiers; the rest; and these sums."""
    order = sorted(scores, key=lambda id_: (-scores[id_], id_))
    if not legs.exact:
        return order[:MOST], order[MOST:], scores
    sums = {id_: score - legs.exact.get(id_, 0.0) for id_, score in scores.items()}
    return sorted(order[:MOST], key=lambda id_: (-sums[id_], id_)), order[MOST:], sums


def speech_features(said: Speech, asked: QuestionCues) -> tuple[float, ...]:
    """What who speaks, and what of, says for or against a passage, whichever it is."""
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
    """A row for each candidate; they come best first, and there is one at least."""
    marks: Mapping[int, Mark] = legs.marks
    narrow, wide, vector, own = legs.narrow.get, legs.wide.get, legs.vector.get, legs.own
    meaning = {(mark.file, mark.order): vector(id_, 0.0) for id_, mark in marks.items()}
    asking = {(mark.file, mark.order): mark.speech.asks for mark in marks.values() if mark.speech.asks}
    speech = {said: speech_features(said, asked) for said in {marks[id_].speech for id_ in ids}}
    others = -1.0 if any(each[2] for each in speech.values()) else 0.0  # where somebody is named
    files = [marks[id_].file for id_ in ids]
    counts = Counter(files)
    seen: dict[int, int] = {}
    first: dict[int, float] = {}
    asked_for = min(len(legs.asked.words), 20)
    flat: list[float] = []
    for id_, file in zip(ids, files, strict=True):
        _, order, _, _, alone, said, size = marks[id_]
        beside = _ALONE if alone else _beside(file, order, own, meaning, asking)
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
    """What each column is multiplied with: legs become shares of their best.

    What FTS5 gives to words that stand everywhere is not blown up.
    """
    factors = np.ones(len(FEATURES), np.float32)
    factors[_NARROW] = 1 / max(1.0, *legs.narrow.values(), 0.0)
    factors[_WIDE] = 1 / max(1.0, *legs.wide.values(), 0.0)
    factors[_WORDS] = 1 / max(1.0, *legs.own.values(), 0.0)
    factors[_MEANING] = 1 / max(1e-9, *legs.vector.values(), 0.0)
    factors[_FILE_BEST] = 1 / (best or 1e-9)
    factors[_ASKS_BEFORE] = 0.01
    return factors


def _beside(file: int, order: int, own: _Values, meaning: _Values, asking: _Values) -> tuple[float, ...]:
    """What stands before and after a passage: its words, its meaning, and whether what is before it asks."""
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
