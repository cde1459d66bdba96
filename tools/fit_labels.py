"""Fit the curves of labels (`src/vademecum/search/relevance.json`) on all shapes and languages together.

    python -m tools.fit_labels [--data FOLDER] [--cache FOLDER] [--write]

Asked are the halves for tuning of our own sets: notes in eight languages in four shapes, conversations and
journals as journals, attached folders and sessions, the realistic store, paraphrases, languages; and with
`--data` LongMemEval's development part in three shapes. Fitted are the curves of the package's embedder, and
those for languages that it does not know; the curve of questions that were read keeps its weights
(`tools/calibrate.py` fits these, and all other curves). Then each scale is shifted and stretched, so that so
many of the questions about nothing are called likely or strong as `CURVES` says. What is added for attached
folders, for Japanese and for Chinese was set by hand on the same halves, and stays.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import random
import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import numpy as np
from bench import labels, nothing, own, realistic, retrieval, shapes, small_sets

from tools.calibrate import SPOKEN_SIGNS, SURE, longmemeval
from vademecum.search import ranking, relevance
from vademecum.search.relevance import LIKELY, STRONG, Signs, is_sure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vademecum.index import ChunkRow
    from vademecum.memory import Memory
    from vademecum.search.base import Passage

    Floats = NDArray[np.float64]

FIRST = 6  # results of a question that are looked at,
RIGHT = 5  # and those of them among which a right one counts
OTHERS = 20  # questions of other conversations that are asked of one store
STEPS, RATE, DECAY = 3_000, 0.02, 0.002
PRECISE = 0.85  # the share of strong results that are right, of what nobody says
FEWEST = 5  # questions about nothing, without which a set does not count for the scale


class Fitted(NamedTuple):
    """How a curve is fitted, and which shares of questions about nothing may be called likely, and strong."""

    kind: str
    spoken: bool
    likely: float
    strong: float
    weights: bool = True  # whether the weights are fitted too
    decay: float = DECAY


CURVES = (
    Fitted("static", False, 0.12, 0.03),
    Fitted("static", True, 0.12, 0.015),
    Fitted("foreign", False, 0.10, 0.03, decay=0.005),
    Fitted("foreign", True, 0.05, 0.03, decay=0.005),
    Fitted("read", False, 0.12, 0.03, weights=False),
)


class Result(NamedTuple):
    """A result: the curve that judged it, its signs, and whether it is right."""

    kind: str
    spoken: bool
    signs: Signs
    right: bool


class Sample(NamedTuple):
    """A question with its first results, and the set and shape of the store."""

    set: str
    answerable: bool
    results: tuple[Result, ...]


# ---------------------------------------------------------------- what is asked


def gathered(data: Path | None) -> Iterator[Sample]:
    """Every question of the halves for tuning, asked of every shape."""
    for language in labels.LANGUAGES:
        for shape in labels.SHAPES:
            for embedder in ("local", "static") if shape in ("record", "journal") else ("local",):
                with tempfile.TemporaryDirectory() as name:
                    store = labels.Store(Path(name).resolve(), language, shape, embedder)
                    asked = [each for each in labels.read(language)[1] if each.half == small_sets.TUNE]
                    questions = [
                        (each.text, frozenset(() if each.gold is None else {each.gold})) for each in asked
                    ]
                    yield from _ask("labels", store.memory, questions, store.ids)
    for embedder in ("local", "static"):
        with tempfile.TemporaryDirectory() as name:
            real = realistic.Store(Path(name).resolve(), embedder)
            tune = [each for each in realistic.questions() if each.half == small_sets.TUNE]
            yield from _ask(
                "realistic", real.memory, [(each.text, each.gold) for each in tune], real.entries_of
            )
    for each in small_sets.SETS:
        yield from _small(each)
    yield from _own()
    yield from _longmemeval(data) if data is not None else ()


def _small(name: str) -> Iterator[Sample]:
    foreign = [each for each in realistic.questions() if not each.gold and each.half == small_sets.TUNE]
    notes = small_sets.read(name)
    with tempfile.TemporaryDirectory() as folder:
        memory = small_sets.fill(Path(folder).resolve(), [(each.id, each.text) for each in notes])
        mine = [each for each in notes if small_sets.half(each.id) == small_sets.TUNE]
        questions = [(text, frozenset({each.id})) for each in mine for text in each.questions]
        questions += [(each.text, frozenset()) for each in foreign]
        yield from _ask(name, memory, questions, lambda hit: frozenset({hit.key or ""}))


def _own() -> Iterator[Sample]:
    """Each store is also asked what other stores of its language are asked: about nothing here."""
    texts = own.read(small_sets.TUNE)
    for _, some in own.stores(texts):
        others = [
            asked.text
            for text in texts
            if text not in some and text.language == some[0].language
            for asked in text.questions
        ]
        random.Random(1).shuffle(others)
        questions = [
            (asked.text, frozenset[str]().union(*asked.answers)) for text in some for asked in text.questions
        ]
        questions += [(text, frozenset()) for text in others[:OTHERS]]
        yield from _shaped("own", [document for text in some for document in text.documents], questions)


def _longmemeval(data: Path) -> Iterator[Sample]:
    for setting in longmemeval(data):
        documents = [
            retrieval.Document(
                f"s{number}",
                "",
                labels.day(3 * number),
                [text for _, text in session],
                [id_ for id_, _ in session],
            )
            for number, session in enumerate(setting.sessions)
        ]
        yield from _shaped("LongMemEval", documents, _questions(setting))


def _questions(setting: nothing.Setting) -> list[tuple[str, frozenset[str]]]:
    answerable = [(each.text, each.gold) for some in setting.answerable.values() for each in some]
    return answerable + [(text, frozenset()) for some in setting.nothing.values() for text in some]


def _shaped(
    set_: str, documents: Sequence[retrieval.Document], questions: Sequence[tuple[str, frozenset[str]]]
) -> Iterator[Sample]:
    for shape in shapes.UNMIXED:
        kind = shapes.SHAPED[shape]
        with tempfile.TemporaryDirectory() as name:
            product = kind(Path(name).resolve(), documents)

            def ids(hit: Passage, product: retrieval.Product = product) -> frozenset[str]:
                return frozenset(shapes.turns_of(product, hit))

            yield from _ask(f"{set_}, {shape}", product.memory, questions, ids)


def _ask(
    set_: str,
    memory: Memory,
    questions: Iterable[tuple[str, frozenset[str]]],
    ids: Callable[[Passage], frozenset[str]],
) -> Iterator[Sample]:
    """Ask, and note how each result was judged; what a search without a curve found is left out."""
    judged: dict[tuple[str, int], tuple[str, bool, Signs]] = {}
    weigh = ranking.Weighing.__call__

    def noted(
        weighing: ranking.Weighing, chunks: Mapping[int, ChunkRow]
    ) -> dict[int, ranking.ChunkRelevance]:
        found = weigh(weighing, chunks)
        for id_, row in chunks.items():
            how = weighing._kind, row.speech.speaker is not None, found[id_].signs
            judged[row.path, row.start] = how
            judged[f"transcripts/{row.scope_id}/{row.key}.jsonl", row.start] = how
        return found

    with closing(memory), mock.patch.object(ranking.Weighing, "__call__", noted):
        for text, gold in questions:
            judged.clear()
            hits = memory.search(text, max_weak=FIRST).results[:FIRST]
            results = [
                Result(*judged[hit.path, hit.start], not gold.isdisjoint(ids(hit)))
                for hit in hits
                if (hit.path, hit.start) in judged
            ]
            if results:
                yield Sample(set_, bool(gold), tuple(results))


# ---------------------------------------------------------------- the fit


def fit(samples: Sequence[Sample], used: Sequence[str], decay: float) -> tuple[float, Floats]:
    """Weigh the signs so that right results part best from others, and from results about nothing.

    In a set, all answerable questions together count as the root of their number, and so do those about
    nothing. A wrong result of an answerable question may tell half of the answer, so it counts a quarter.
    """
    counts: dict[tuple[str, bool], int] = defaultdict(int)
    for each in samples:
        counts[each.set, each.answerable] += 1
    rows, targets, weights = [], [], []
    for each in samples:
        for result in each.results:
            if not is_sure(result.signs):
                rows.append(result.signs)
                targets.append(result.right)
                weights.append(
                    (1.0 if result.right or not each.answerable else 0.25)
                    / counts[each.set, each.answerable] ** 0.5
                )
    mask = np.array([name in used for name in Signs._fields], float)
    x, y, w = np.array(rows, float) * mask, np.array(targets, float), np.array(weights)
    for value in (0, 1):
        w[y == value] /= 2 * w[y == value].sum()
    own, base = np.zeros(x.shape[1]), 0.0
    mean, square = np.zeros(x.shape[1] + 1), np.zeros(x.shape[1] + 1)
    for step in range(1, STEPS + 1):  # Adam, which never leaves the weights that are allowed
        wrong = w * (1 / (1 + np.exp(-(x @ own + base))) - y)
        slope = np.append(x.T @ wrong + decay * own, wrong.sum())
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        move = RATE * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        own, base = np.maximum(0.0, own - move[:-1]), base - float(move[-1])
    return base, own * mask


def settled(samples: Sequence[Sample], base: float, weights: Floats, how: Fitted) -> tuple[float, Floats]:
    """Shift and stretch the scale, so that the shares of questions about nothing are the wanted ones.

    Likely are as many as wanted on the average over the sets, strong as many as wanted in each set; and of
    what nobody says, strong results are mostly right.
    """
    tops: dict[str, list[float]] = defaultdict(list)
    every: list[tuple[float, bool]] = []
    for each in samples:
        odds = judge(each, lambda result: float(base + weights @ np.array(result.signs)))
        every += [(value, result.right) for value, result in zip(odds, each.results[:RIGHT], strict=False)]
        if not each.answerable:
            tops[each.set].append(odds[0])
    sets = [np.array(some) for some in tops.values() if len(some) >= FEWEST]
    grid = np.linspace(-6, 6, 2401)
    likely = next(at for at in grid if np.mean([(some >= at).mean() for some in sets]) <= how.likely)
    strong = next(at for at in grid if max((some[some < SURE] >= at).mean() for some in sets) <= how.strong)
    if not how.spoken:
        weighed = [(value, right) for value, right in every if value < SURE]

        def precision(limit: float) -> float:
            called = [right for value, right in weighed if value >= limit]
            return (sum(called) + 1) / (len(called) + 1)

        strong = next(at for at in grid if at >= strong and precision(at) >= PRECISE)
    odds_of = [math.log(limit / (1 - limit)) for limit in (LIKELY, STRONG)]
    stretch = (odds_of[1] - odds_of[0]) / max(strong - likely, 0.4)
    return odds_of[0] + stretch * (base - likely), weights * stretch


def judge(sample: Sample, odds: Callable[[Result], float]) -> list[float]:
    """Return the log odds of each result, falling along the rank, as an answer has them."""
    return relevance.falling([SURE if is_sure(result.signs) else odds(result) for result in sample.results])


def report(name: str, samples: Sequence[Sample], kept: Mapping[str, object]) -> None:
    """Print by set how many right results are weak, and how many questions about nothing are not."""
    base, weights = float(kept["base"]), kept["weights"]  # type: ignore[arg-type]
    assert isinstance(weights, dict)
    own = np.array([weights[sign] for sign in Signs._fields])
    likely, strong = (math.log(limit / (1 - limit)) for limit in (LIKELY, STRONG))
    for set_ in sorted({each.set for each in samples}):
        right, tops = [], []
        for each in samples:
            if each.set == set_:
                odds = judge(each, lambda result: float(base + own @ np.array(result.signs)))
                held = [
                    value for value, result in zip(odds, each.results[:RIGHT], strict=False) if result.right
                ]
                right += held[:1]
                tops += [] if each.answerable else odds[:1]
        line = f"{name:16} {set_:22} right {len(right):4}"
        line += f" weak {np.mean(np.array(right) < likely):.2f}" if right else ""
        line += f"  about nothing {len(tops):4}"
        if tops:
            line += f" likely+ {np.mean(np.array(tops) >= likely):.2f}"
            line += f" strong {np.mean(np.array(tops) >= strong):.2f}"
        print(line)


def main() -> None:
    """Fit, tell, and write when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder with LongMemEval")
    parser.add_argument("--cache", type=Path, help="keep what was asked in this folder, and use it again")
    parser.add_argument("--write", action="store_true", help="keep what was fitted")
    chosen = parser.parse_args()
    samples = _samples(chosen.data, chosen.cache)
    curves = json.loads(relevance.CURVES.read_text())
    for how in CURVES:
        mine = [
            each for each in samples if each.results[0][:2] == (how.kind, how.spoken)
        ]  # by the first result: nearly always all are judged alike
        signs = [name for name in Signs._fields if how.spoken or name not in SPOKEN_SIGNS]
        before = curves[how.kind]
        if how.weights:
            base, weights = fit(mine, signs, how.decay)
        else:
            base, weights = before["base"], np.array([before["weights"][name] for name in Signs._fields])
        base, weights = settled(mine, base, weights, how)
        kept = {
            "base": round(float(base), 3),
            "weights": {
                name: round(float(weight), 3) for name, weight in zip(Signs._fields, weights, strict=True)
            },
        }
        report(f"{how.kind}{' spoken' if how.spoken else ''}", mine, kept)
        curves[how.kind] |= {relevance.SPOKEN: kept} if how.spoken else kept
    if chosen.write:
        relevance.CURVES.write_text(json.dumps(dict(sorted(curves.items())), indent=2) + "\n")


def _samples(data: Path | None, cache: Path | None) -> list[Sample]:
    file = None if cache is None else cache / "labels.pickle"
    if file is not None and file.exists():
        return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]  # our own file
    samples = list(gathered(data))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(samples))
    return samples


if __name__ == "__main__":
    main()
