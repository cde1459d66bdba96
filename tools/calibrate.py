"""Fit what each sign of relevance weighs (`src/vademecum/search/relevance.json`), for each kind of embedder.

    python -m tools.calibrate --data FOLDER [--embedder local]... [--spoken] [--held] [--write]

`tools/fit_labels.py` then fits the curves of the package's embedder again, on all shapes and languages.

Fitted on the halves for tuning of the sets in `bench/sets`, on generated notes and on the development part of
LongMemEval (MIT), of which our own questions are asked as questions about nothing; with `--held` told for the
other halves as well, and for LoCoMo and SciFact, which nothing is fitted to. A sign never counts against an
answer, so that more evidence never lowers the relevance.

What somebody says has curves of its own (`--spoken`), fitted on the conversations of our own set and on
LongMemEval. Questions about nothing are few there, so each conversation is asked again without the turns that
answer, half of the questions at a time: names and topics are right, and the answer is not there.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from bench import nothing, own, realistic, retrieval, small_sets
from bench.scoring import auc

from vademecum.search.relevance import BEFORE_READING, CURVES, LIKELY, SPOKEN, STRONG, Signs, is_sure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from vademecum.memory import Memory
    from vademecum.search.base import Passage

    Floats = NDArray[np.float64]

FIELD = "another field"  # what questions about nothing of another world are called
FIRST = 5  # results of a question that are looked at
FITTED = ("realistic tune", "our own", "LongMemEval")
SURE = 9.0
STEPS, RATE, DECAY = 20_000, 0.05, 0.05
# By name of the embedder: what its curve is called. Words alone are asked of any store.
KINDS = {"static": "static", "local": "read", "minilm": "minilm"}
SPOKEN_SIGNS = ("topic", "states", "tells")  # which the curves of what is spoken know alone
TALK, QUARTER = "talk", 0.75  # in conversations, no more than this share of what is about nothing is likely
# What reading is for stands in the set of paraphrases: of a question that was read, words say little.
READ, ONLY_READ = "read", "paraphrases tune"
# A question that was read has no strong match by words, as most questions about nothing have none: on the
# tune half of the realistic store, this much less odds call as few of those likely as without reading.
LESS_SURE = 0.6


class Sample(NamedTuple):
    """What a question got: the signs of its first results, and which of them are right."""

    signs: Floats
    right: NDArray[np.bool_]
    answerable: bool
    spoken: NDArray[np.bool_]  # by somebody


# ---------------------------------------------------------------- what was asked


def gathered(
    data: Path | None, embedder: str, mode: str, *, held: bool = False
) -> Iterator[tuple[str, list[Sample]]]:
    """Every store that is fitted to with all that is asked of it; with `held`, those for measuring too."""
    halves = (small_sets.TUNE, small_sets.HELD) if held else (small_sets.TUNE,)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        (folder / "realistic").mkdir()
        real = realistic.Store(folder / "realistic", embedder)
        stack.enter_context(closing(real.memory.care.searcher))
        for half in halves:
            questions = [(each.text, each.gold) for each in realistic.questions() if each.half == half]
            yield f"realistic {half}", _ask_questions(real.memory, questions, real.entries_of, mode)
        for name in small_sets.SETS:
            notes = small_sets.read(name)
            (folder / name).mkdir()
            memory = small_sets.fill(
                folder / name, [(each.id, each.text) for each in notes], embedder=embedder
            )
            stack.enter_context(closing(memory.care.searcher))
            foreign = [each for each in realistic.questions() if not each.gold]
            for half in halves:
                mine = [each for each in notes if small_sets.half(each.id) == half]
                questions = [(text, frozenset({each.id})) for each in mine for text in each.questions]
                questions += [(each.text, frozenset()) for each in foreign if each.half == half]
                yield f"{name} {half}", _ask_questions(memory, questions, _key, mode)
        settings = [nothing.own(), *([] if data is None else longmemeval(data))]
        if data is not None and held:
            settings += [*nothing.locomo(data), *nothing.scifact(data)]
        for number, setting in enumerate(settings):
            yield setting.name, _setting(setting, folder / str(number), embedder, mode)


def spoken(data: Path | None, embedder: str, mode: str) -> Iterator[tuple[str, list[Sample]]]:
    """Conversations with all that is asked of them, with their answers and without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        texts = [each for each in own.read(small_sets.TUNE) if each.language == "en"]
        for number, (some, missing) in enumerate(
            (some, missing) for _, some in own.stores(texts) for missing in (None, 0, 1)
        ):
            yield TALK, _talk(some, missing, folder / f"talk-{number}", embedder, mode)
        for number, setting in enumerate(longmemeval(data) if data is not None else ()):
            mine = {kind: some for kind, some in setting.nothing.items() if kind != FIELD}
            place = folder / str(number)
            yield setting.name, _setting(setting._replace(nothing=mine), place, embedder, mode)


def longmemeval(data: Path) -> Iterator[nothing.Setting]:
    """LongMemEval's development part, asked about another field by our own half for tuning.

    The benchmark asks it claims of SciFact, to which nothing is fitted.
    """
    ours = [each.text for each in realistic.questions() if each.gold and each.half == small_sets.TUNE]
    for number, setting in enumerate(nothing.longmemeval(data)):
        yield setting._replace(nothing={**setting.nothing, FIELD: ours[number::2]})


def _setting(setting: nothing.Setting, place: Path, embedder: str, mode: str) -> list[Sample]:
    place.mkdir()
    store = nothing.Store(place, setting, embedder)
    questions = [(each.text, each.gold) for some in setting.answerable.values() for each in some]
    questions += [(text, frozenset()) for some in setting.nothing.values() for text in some]

    def ids(passage: Passage) -> frozenset[str]:
        return frozenset({store.note_at(passage.path, passage.key, passage.end)})

    with closing(store.memory.care.searcher):
        return _ask_questions(store.memory, questions, ids, mode)


def _talk(
    texts: Sequence[own.Text], missing: int | None, place: Path, embedder: str, mode: str
) -> list[Sample]:
    """What is asked of conversations; of one half of the questions all answers may be missing."""
    chosen = [
        (each.text, frozenset().union(*each.answers))
        for text in texts
        for number, each in enumerate(text.questions)
        if missing is None or (each.answers and number % 2 == missing)
    ]
    gone = frozenset().union(*(gold for _, gold in chosen)) if missing is not None else frozenset()
    place.mkdir()
    documents = [left for text in texts for each in text.documents if (left := _without(each, gone)).turns]
    product = retrieval.Product(place, documents, environ={"VADE_EMBEDDER": embedder})
    with closing(product.memory.care.searcher):
        questions = [(text, gold - gone) for text, gold in chosen]
        return _ask_questions(product.memory, questions, lambda each: frozenset({product.turn(each)}), mode)


def _without(document: retrieval.Document, gone: frozenset[str]) -> retrieval.Document:
    turns_left = [each for each in zip(document.turns, document.turn_ids, strict=True) if each[1] not in gone]
    return document._replace(turns=[turn for turn, _ in turns_left], turn_ids=[id_ for _, id_ in turns_left])


def _key(passage: Passage) -> frozenset[str]:
    return frozenset({passage.key or ""})


def _ask_questions(
    memory: Memory,
    asked: Sequence[tuple[str, frozenset[str]]],
    ids: Callable[[Passage], frozenset[str]],
    mode: str,
) -> list[Sample]:
    was_read = mode == "hybrid" and str(memory.settings.embedder) == "local"
    found = []
    for text, gold in asked:
        results = memory.search(text, mode=mode, explain=True, max_weak=FIRST).results[:FIRST]
        if was_read and not any((each.arithmetic or {}).get("by_reading") for each in results):
            continue  # it had a strong match without that, and what is said of it another curve says
        signs = [
            [(each.arithmetic or {}).get(f"sign_{name}", 0.0) for name in Signs._fields] for each in results
        ]
        right = [bool(ids(each) & gold) for each in results]
        spoken_flags = [bool((each.arithmetic or {}).get("spoken")) for each in results]
        rows = np.array(signs, float).reshape(-1, len(Signs._fields))
        found.append(Sample(rows, np.array(right, bool), bool(gold), np.array(spoken_flags, bool)))
    return found


def _speak(sample: Sample) -> Sample:
    """What somebody says among the results of a question."""
    at = sample.spoken
    return Sample(sample.signs[at], sample.right[at], sample.answerable, at[at])


# ---------------------------------------------------------------- the fit


def fit(sets: Sequence[Sequence[Sample]], used: Sequence[str]) -> tuple[float, Floats]:
    """Weigh the signs so that right results and the results of questions about nothing part best.

    Each set counts the same, and so do right and wrong in it. A wrong result of an answerable question says
    little: it may tell half of the answer, so it counts a quarter.
    """
    rows, targets, counts = [], [], []
    for samples in sets:
        own_rows = np.concatenate([each.signs for each in samples])
        own = np.concatenate([each.right for each in samples])
        weight = np.concatenate(
            [np.where(each.right, 1.0, 0.25 if each.answerable else 1.0) for each in samples]
        )
        weight[own] /= weight[own].sum() or 1.0
        weight[~own] /= weight[~own].sum() or 1.0
        rows.append(own_rows)
        targets.append(own)
        counts.append(weight)
    x, y, w = np.concatenate(rows), np.concatenate(targets).astype(float), np.concatenate(counts)
    w /= w.sum()
    mask = np.array([name in used for name in Signs._fields], float)
    weights, base = np.zeros(x.shape[1]), 0.0
    for _ in range(STEPS):  # gradient descent that never leaves the weights that are allowed
        p = 1 / (1 + np.exp(-(x @ weights + base)))
        slope = x.T @ (w * (p - y)) + DECAY * weights / len(sets)
        weights = np.maximum(0.0, weights - RATE * 20 * slope) * mask
        base -= RATE * 20 * float((w * (p - y)).sum())
    return base, weights


def settled(
    sets: Sequence[Sequence[Sample]], base: float, weights: Floats, *, talk: bool = False
) -> tuple[float, Floats]:
    """Shift and stretch the scale so that the two limits fall where they should.

    Seven of eight right results are likely on the average over the sets, and in no set has more than one
    question about nothing in twenty-five a strong result. Of talk, in no set has more than a quarter of these
    a likely one, however many right results that costs.
    """
    right = [np.concatenate([_odds(each, base, weights)[each.right] for each in samples]) for samples in sets]
    tops = [
        np.array([_top(each, base, weights) for each in samples if not each.answerable]) for samples in sets
    ]
    likely = float(np.mean([np.quantile(each, 0.12) for each in right]))
    if talk:
        likely = float(np.max([np.quantile(each, QUARTER) for each in tops]))
    # What needs no weighing is strong wherever the limit lies.
    strong = float(np.max([np.quantile(each[each < SURE], 0.96) for each in tops]))
    odds = [float(np.log(p / (1 - p))) for p in (LIKELY, STRONG)]
    stretch = (odds[1] - odds[0]) / max(strong - likely, 1e-3)
    return odds[0] + stretch * (base - likely), weights * stretch


def _odds(sample: Sample, base: float, weights: Floats) -> Floats:
    """The log odds of each result; of one that needs no weighing, as large as they get."""
    odds: Floats = sample.signs @ weights + base
    odds[[is_sure(Signs(*row)) for row in sample.signs]] = SURE
    return odds


def _top(sample: Sample, base: float, weights: Floats) -> float:
    return float(_odds(sample, base, weights).max()) if len(sample.signs) else -SURE


def report(name: str, samples: Sequence[Sample], base: float, weights: Floats) -> str:
    """How well the labels part answers from the rest."""

    def p(sample: Sample) -> Floats:
        made: Floats = 1 / (1 + np.exp(-_odds(sample, base, weights)))
        return made

    right = [value for each in samples if each.answerable for value in p(each)[each.right]]
    tops = {
        kind: [
            float(p(each).max()) if len(each.signs) else 0.0 for each in samples if each.answerable is kind
        ]
        for kind in (True, False)
    }
    # Of the answerable ones those that found their answer: the others are rightly weak.
    lines = [f"{name:18} right {len(right):4}"]
    if right:
        lines.append(f"likely+ {np.mean(np.array(right) >= LIKELY):.2f}")
    if tops[False]:
        tops_ = np.array(tops[False])
        lines.append(f"nothing {len(tops_):4} likely+ {(tops_ >= LIKELY).mean():.2f}")
        lines.append(f"strong {(tops_ >= STRONG).mean():.2f}")
    if right and tops[False]:
        lines.append(f"AUC {auc(tops[True], tops[False]):.3f}")
    return "  ".join(lines)


def main() -> None:
    """Fit, tell, and write when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder with LoCoMo, LongMemEval and SciFact")
    parser.add_argument("--embedder", choices=sorted(KINDS), action="append")
    parser.add_argument("--spoken", action="store_true", help="the curves of what somebody says alone")
    parser.add_argument("--held", action="store_true", help="tell of what nothing is fitted to, as well")
    parser.add_argument("--write", action="store_true", help="keep what was fitted")
    parser.add_argument("--cache", type=Path, help="keep what was asked in this folder, and use it again")
    chosen = parser.parse_args()
    fitted = {}
    meaning, reading = ("alike", "apart", "both"), ("read", "clear")
    everything: dict[str, list[Sample]] = {}
    for embedder in chosen.embedder or KINDS:
        modes = {"hybrid": KINDS[embedder], **({"bm25": "none"} if embedder == "static" else {})}
        for mode, kind in modes.items():
            sets = _sets(chosen, embedder, mode)
            unknown = {"none": (*meaning, *reading), READ: ()}.get(kind, reading)
            used = [name for name in Signs._fields if name not in unknown]
            if not chosen.spoken:
                used = [name for name in used if name not in SPOKEN_SIGNS]
            fitted[kind] = _fitted(kind, sets, used, talk=chosen.spoken)
            if kind not in ("none", READ):
                everything |= {f"{kind} {name}": samples for name, samples in sets.items()}
    # For models that nobody measured: what holds for all of them, without the cosine's own scale.
    if len({kind.split()[0] for kind in everything}) > (0 if chosen.spoken else 1):
        left_out = ("alike", "both", *reading, *(() if chosen.spoken else SPOKEN_SIGNS))
        used = [name for name in Signs._fields if name not in left_out]
        fitted["other"] = _fitted("other", everything, used, talk=chosen.spoken)
    if chosen.write:
        curves = json.loads(CURVES.read_text())
        for kind, made in fitted.items():
            if kind == "static" and not chosen.spoken:
                curves[kind][BEFORE_READING] = made  # what labels say has another curve: tools/fit_labels.py
            else:
                curves[kind] |= {SPOKEN: made} if chosen.spoken else made
        CURVES.write_text(json.dumps(dict(sorted(curves.items())), indent=2) + "\n")


def _fitted(
    kind: str, sets: dict[str, list[Sample]], used: Sequence[str], *, talk: bool
) -> dict[str, object]:
    if talk:
        sets = {name: [_speak(each) for each in some if each.spoken.any()] for name, some in sets.items()}
        return _describe_sets(kind, sets, *settled([*sets.values()], *fit([*sets.values()], used), talk=True))
    fitting = [samples for name, samples in sets.items() if samples and name.endswith(FITTED)]
    more = [samples for name, samples in sets.items() if kind == READ and name.endswith(ONLY_READ)]
    # The limits are those of everyday questions: a paraphrase and a question about nothing look alike.
    base, weights = settled(fitting, *fit([*fitting, *more], used))
    return _describe_sets(kind, sets, base - LESS_SURE if kind == READ else base, weights)


def _describe_sets(
    kind: str, sets: dict[str, list[Sample]], base: float, weights: Floats
) -> dict[str, object]:
    """Say how good a curve is, and how it is kept."""
    print(
        f"\n{kind}: base {base:.2f} "
        + " ".join(f"{n} {w:.2f}" for n, w in zip(Signs._fields, weights, strict=True))
    )
    for name, samples in sets.items():
        print(report(name, samples, base, weights))
    rounded = {name: round(float(weight), 3) for name, weight in zip(Signs._fields, weights, strict=True)}
    return {"base": round(base, 3), "weights": rounded}


def _sets(chosen: argparse.Namespace, embedder: str, mode: str) -> dict[str, list[Sample]]:
    name = f"{embedder}-{mode}{'-spoken' if chosen.spoken else ''}.pickle"
    file = None if chosen.cache is None else chosen.cache / name
    if file is not None and file.exists():
        return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]  # our own file
    sets: dict[str, list[Sample]] = {}
    asked = (
        spoken(chosen.data, embedder, mode)
        if chosen.spoken
        else gathered(chosen.data, embedder, mode, held=chosen.held)
    )
    for name, samples in asked:
        sets.setdefault(name, []).extend(samples)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(sets))
    return sets


if __name__ == "__main__":
    main()
