"""Fit the trees of the second stage (`src/vademecum/search/second_stage.json`), or those of other files.

    python -m tools.fit_stage --data FOLDER [--large | --sessions] [--cache FOLDER] [--cross] [--write]

Needs LightGBM, which the product does not (`pip install lightgbm`). Fitted on the development part of
LongMemEval (MIT) and on the halves for tuning of the sets in `bench/sets`, and on nothing else. The trees
start from the sum that they are added to, so that what they know nothing of stays as it is. `--cross` asks
LongMemEval's questions through the public door, each by trees that were fitted without it, beside those that
have seen it. `--large` fits `second_stage_large.json` on the same questions, asked of stores of one haystack,
of sixteen, and of all. `--sessions` fits `second_stage_sessions.json` on every shape together: LongMemEval's
questions and our own, asked of journals, of attached folders and of sessions.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import pickle
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
from bench import own, realistic, retrieval, scoring, shapes, small_sets

from vademecum.search import second_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from vademecum.index.base import ChunkRow, Index
    from vademecum.index.words import QuestionCues
    from vademecum.memory import Memory
    from vademecum.search.legs import Legs

TREES, FOLDS = 120, 4
SESSION_TREES = 200  # more shapes bear more trees
# The scale on which the trees start from the sum, and the share of what they say added to it. With all
# of it they are a little better on what they were fitted to, and worse on the rest.
SCALE, SHARE = 8.0, 0.7
SETTINGS = {
    "objective": "lambdarank",
    "num_leaves": second_stage.LEAVES,
    "learning_rate": 0.06,
    "min_data_in_leaf": 60,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 5,
    "lambdarank_truncation_level": 20,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
LONGMEMEVAL = 3.0  # what a question of it counts: there are few, and they are long
HAYSTACKS = {1: 1.0, 16: 2.0, 1_000: 2.0}  # haystacks in a store, and what a question of it counts


class Sample(NamedTuple):
    """The candidates of a question as the second stage sees them, and which of them answer."""

    group: str  # what must not stand on both sides of a fit: a question, or all of a conversation
    rows: NDArray[np.float32]
    right: NDArray[np.bool_]
    weight: float = 1.0


# ---------------------------------------------------------------- what is asked


def recorded(
    memory: Memory, question: str, is_right: Callable[[ChunkRow], bool], group: str, *, large: bool = False
) -> Iterator[Sample]:
    """What the second stage would look at; nothing where words alone answer, or nothing right is found."""
    seen: list[tuple[Index, Sequence[int], NDArray[np.float32]]] = []

    def refine(scores: dict[int, float], legs: Legs, asked: QuestionCues) -> None:
        most = second_stage.LARGE_MOST if large else second_stage.MOST
        features = second_stage.large_features if large else second_stage.features
        ids, _, sums = second_stage.candidates(scores, legs, most=most)
        seen.append((legs.index, ids, features(ids, sums, legs, asked)))

    with mock.patch.object(second_stage, "refine", refine):
        memory.search(question, max_results=retrieval.DEEP)
    for index, ids, rows in seen:
        found = index.rows(ids)
        right = np.array([is_right(found[id_]) for id_ in ids])
        if right.any():
            yield Sample(group, rows, right)


def gathered(data: Path | None) -> Iterator[tuple[str, list[Sample]]]:
    """Every set with its samples."""
    if data is not None:
        yield "LongMemEval", list(_longmemeval(data))
    texts = own.read(small_sets.TUNE)
    yield "own", [each for _, some in own.stores(texts) for each in _own(some)]
    # As whole sessions in files, and each alone in its store: chats are one of many or the only one.
    yield (
        "own, files",
        [
            each
            for language in sorted({text.language for text in texts})
            for each in _own([text for text in texts if text.language == language], whole=True)
        ],
    )
    yield "own, one by one", [each for text in texts for each in _own([text])]
    for name in small_sets.SETS:
        yield name, list(_small(name))
    yield "realistic", list(_realistic())


def _longmemeval(data: Path) -> Iterator[Sample]:
    for case in retrieval.longmemeval(data):
        with tempfile.TemporaryDirectory() as name:
            product = retrieval.Product(Path(name).resolve(), case.documents)
            with closing(product.memory.care.searcher):
                for asked in case.questions:
                    for each in _turns(product, asked.text, asked.turns, asked.id):
                        yield each._replace(weight=LONGMEMEVAL)


def gathered_large(data: Path) -> Iterator[tuple[str, list[Sample]]]:
    """LongMemEval's questions, asked of stores of several sizes."""
    for haystacks, weight in HAYSTACKS.items():
        samples: list[Sample] = []
        for case in retrieval.pooled(data, haystacks):
            with tempfile.TemporaryDirectory() as name:
                product = retrieval.Product(Path(name).resolve(), case.documents)
                with closing(product.memory.care.searcher):
                    for asked in case.questions:
                        found = _turns(product, asked.text, asked.turns, asked.id, large=True)
                        samples += [each._replace(weight=weight) for each in found]
        yield f"{haystacks} haystacks", samples


def gathered_shapes(data: Path) -> Iterator[tuple[str, list[Sample]]]:
    """LongMemEval's questions and our own, asked of every shape; and small notes, which have one."""
    texts = own.read(small_sets.TUNE)
    stores = [*(some for _, some in own.stores(texts)), *([text] for text in texts)]
    for shape in shapes.UNMIXED:
        kind = shapes.SHAPED[shape]
        yield (
            f"LongMemEval, {shape}",
            [
                each._replace(weight=LONGMEMEVAL)
                for case in retrieval.longmemeval(data)
                for each in _shaped(
                    kind, case.documents, [(asked.text, asked.turns, asked.id) for asked in case.questions]
                )
            ],
        )
        yield (
            f"own, {shape}",
            [
                each
                for some in stores
                for each in _shaped(
                    kind,
                    [document for text in some for document in text.documents],
                    [
                        (asked.text, frozenset[str]().union(*asked.answers), text.id)
                        for text in some
                        for asked in text.questions
                    ],
                )
            ],
        )
    for name in small_sets.SETS:
        yield name, list(_small(name))
    yield "realistic", list(_realistic())


def _shaped(
    kind: type[retrieval.Product],
    documents: Sequence[retrieval.Document],
    questions: Sequence[tuple[str, frozenset[str], str]],
) -> Iterator[Sample]:
    with tempfile.TemporaryDirectory() as name:
        product = kind(Path(name).resolve(), documents)
        with closing(product.memory):
            for text, gold, group in questions:

                def is_right(row: ChunkRow, gold: frozenset[str] = gold) -> bool:
                    path = row.path or f"transcripts/{row.scope_id}/{row.key}.jsonl"
                    # A row of a session's index has the bytes of its message in the place of lines.
                    last = row.last if row.path else row.start
                    return not gold.isdisjoint(shapes.turns_at(product, path, row.start, last))

                yield from recorded(product.memory, text, is_right, group)


def _own(texts: Sequence[own.Text], *, whole: bool = False) -> Iterator[Sample]:
    documents = [document for text in texts for document in text.documents]
    session = {turn: document.id for document in documents for turn in document.turn_ids}
    if whole:
        documents = [each._replace(when=None, turn_ids=[each.id]) for each in documents]
    with tempfile.TemporaryDirectory() as name:
        product = retrieval.Product(Path(name).resolve(), documents)
        with closing(product.memory.care.searcher):
            for text in texts:
                for asked in text.questions:
                    gold = frozenset().union(*asked.answers)
                    gold = frozenset(map(session.__getitem__, gold)) if whole else gold
                    yield from _turns(product, asked.text, gold, text.id)


def _turns(
    product: retrieval.Product, question: str, gold: frozenset[str], group: str, *, large: bool = False
) -> Iterator[Sample]:
    def is_right(row: ChunkRow) -> bool:
        return product.turn_at(row.path, row.last) in gold

    return recorded(product.memory, question, is_right, group, large=large)


def _small(name: str) -> Iterator[Sample]:
    notes = small_sets.read(name)
    with tempfile.TemporaryDirectory() as folder:
        memory = small_sets.fill(Path(folder).resolve(), [(each.id, each.text) for each in notes])
        with closing(memory.care.searcher):
            for note in notes:
                if small_sets.half(note.id) == small_sets.TUNE:
                    for question in note.questions:

                        def is_right(row: ChunkRow, id_: str = note.id) -> bool:
                            return row.key == id_

                        yield from recorded(memory, question, is_right, note.id)


def _realistic() -> Iterator[Sample]:
    with tempfile.TemporaryDirectory() as folder:
        store = realistic.Store(Path(folder).resolve())
        with closing(store.memory.care.searcher):
            for asked in realistic.questions():
                if asked.half == small_sets.TUNE and asked.gold:

                    def is_right(row: ChunkRow, gold: frozenset[str] = asked.gold) -> bool:
                        return not store.entries_at(row.path, row.start, row.last).isdisjoint(gold)

                    yield from recorded(store.memory, asked.text, is_right, asked.id)


# ---------------------------------------------------------------- the fit


def fit(samples: Sequence[Sample], trees: int = TREES) -> dict[str, Any]:
    """The trees that put what is right first, as they are kept."""
    lightgbm = importlib.import_module("lightgbm")
    rows = np.concatenate([each.rows for each in samples])
    data = lightgbm.Dataset(
        rows,
        np.concatenate([each.right for each in samples]).astype(float),
        group=[len(each.rows) for each in samples],
        weight=np.concatenate([np.full(len(each.rows), each.weight) for each in samples]),
        init_score=SCALE * rows[:, second_stage.FEATURES.index("sum")],
    )
    model = lightgbm.train(SETTINGS, data, trees).dump_model()
    kept: dict[str, Any] = {
        "features": list(_names(samples)),
        "step": SHARE / SCALE,
        "trees": [_flat(each["tree_structure"]) for each in model["tree_info"]],
    }
    return {"digest": second_stage.digest(kept), **kept}


def _flat(root: dict[str, Any]) -> dict[str, list[float]]:
    """A tree as lists: children are places in them, those of leaves counted down from -1."""
    tree: dict[str, list[Any]] = {
        name: [] for name in ("feature", "threshold", "left", "right", "value", "leaf")
    }

    def add(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            tree["leaf"].append(_short(node["leaf_value"]))
            return ~(len(tree["leaf"]) - 1)
        at = len(tree["feature"])
        tree["feature"].append(node["split_feature"])
        tree["threshold"].append(_short(node["threshold"]))
        tree["value"].append(_short(node["internal_value"]))
        tree["left"].append(0)
        tree["right"].append(0)
        tree["left"][at] = add(node["left_child"])
        tree["right"][at] = add(node["right_child"])
        return at

    add(root)
    return tree


def _short(number: float) -> float:
    return float(f"{number:.5g}")


def fold(group: str) -> int:
    """Which part a group belongs to, by its name alone."""
    return int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) % FOLDS


def crossed(samples: Sequence[Sample], part: int, trees: int = TREES) -> second_stage.Trees:
    """The trees fitted without one part."""
    return _read(fit([each for each in samples if fold(each.group) != part], trees))


def _read(kept: dict[str, Any]) -> second_stage.Trees:
    return second_stage.parse(json.dumps(kept).encode(), tuple(kept["features"]))


def _names(samples: Sequence[Sample]) -> tuple[str, ...]:
    """The features that were recorded: the trees for large stores see more of them."""
    every = (second_stage.FEATURES, second_stage.LARGE_FEATURES)
    return next(names for names in every if len(names) == samples[0].rows.shape[1])


# ---------------------------------------------------------------- what it is worth


def describe(
    sets: dict[str, list[Sample]], seen: second_stage.Trees, parts: Sequence[second_stage.Trees]
) -> None:
    """How often something right is first, and among the first five, by the sum, crossed, and seen."""
    for name, samples in sets.items():
        ways = {
            "sum": [each.rows[:, 0] for each in samples],
            "crossed": [_score(each, parts[fold(each.group)]) for each in samples],
            "seen": [_score(each, seen) for each in samples],
        }
        line = [f"{name:16} n {len(samples):4}"]
        for way, scores in ways.items():
            places = [_place(score, each.right) for score, each in zip(scores, samples, strict=True)]
            line.append(
                f"{way} @1 {np.mean(np.array(places) < 1):.3f} @5 {np.mean(np.array(places) < 5):.3f}"
            )
        print("  ".join(line))


def _score(sample: Sample, trees: second_stage.Trees) -> NDArray[np.float32]:
    return second_stage.summed(sample.rows, trees)[0]


def _place(scores: NDArray[np.float32], right: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(right[np.argsort(-scores, kind="stable")])[0])


def ask_crossed(
    data: Path, seen: second_stage.Trees, parts: Sequence[second_stage.Trees]
) -> dict[str, dict[str, object]]:
    """LongMemEval through the public door: by the sum alone, by trees that know nothing of it, and seen."""
    answers: dict[str, list[scoring.Ranked]] = {"sum": [], "crossed": [], "seen": []}
    for case in retrieval.longmemeval(data):
        with tempfile.TemporaryDirectory() as name:
            product = retrieval.Product(Path(name).resolve(), case.documents)
            with closing(product.memory.care.searcher):
                for asked in case.questions:
                    ways = {"sum": None, "crossed": parts[fold(asked.id)], "seen": seen}
                    for way, trees in ways.items():
                        with mock.patch.object(second_stage, "fitted", lambda trees=trees: (trees, "")):
                            found = product.find(asked.text)
                        answers[way].append(
                            scoring.Ranked(asked.id, *found[:2], asked.documents, asked.turns, found[2])
                        )
    return {way: scoring.longmemeval(found) for way, found in answers.items()}


def main() -> None:
    """Fit, tell, and write when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder with LongMemEval")
    parser.add_argument("--cache", type=Path, help="keep what was asked in this folder, and use it again")
    parser.add_argument("--large", action="store_true", help="fit the trees for large stores")
    parser.add_argument("--sessions", action="store_true", help="fit the trees for messages of sessions")
    parser.add_argument("--cross", action="store_true", help="ask LongMemEval by trees fitted without it")
    parser.add_argument("--write", action="store_true", help="keep what was fitted")
    chosen = parser.parse_args()
    sets = _sets(chosen)
    samples = [each for some in sets.values() for each in some]
    trees = SESSION_TREES if chosen.sessions else TREES
    kept = fit(samples, trees)
    parts = [crossed(samples, part, trees) for part in range(FOLDS)]
    describe(sets, _read(kept), parts)
    if chosen.cross and not chosen.large and not chosen.sessions:
        for way, figures in ask_crossed(chosen.data, _read(kept), parts).items():
            print(way, figures)
    if chosen.write:
        file = second_stage.SESSION_TREES if chosen.sessions else second_stage.TREES
        file = second_stage.LARGE_TREES if chosen.large else file
        file.write_text(json.dumps(kept, separators=(",", ":")) + "\n")


def _sets(chosen: argparse.Namespace) -> dict[str, list[Sample]]:
    gather: Callable[[Path], Iterator[tuple[str, list[Sample]]]]
    name, gather = "stage.pickle", gathered
    if chosen.large:
        name, gather = "stage_large.pickle", gathered_large
    elif chosen.sessions:
        name, gather = "stage_sessions.pickle", gathered_shapes
    file = None if chosen.cache is None else chosen.cache / name
    if file is not None and file.exists():
        return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]  # our own file
    sets = dict(gather(chosen.data))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(sets))
    return sets


if __name__ == "__main__":
    main()
