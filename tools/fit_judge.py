"""Fit the judge of what is worth saving (`src/vademecum/knowledge/judge.model`), with numpy alone.

    VADE_DATA=FOLDER python -m tools.fit_judge [--write | --held-out]

Reads `heard/messages.jsonl` of `$VADE_DATA`, the tuned half of `bench/sets/pasted.jsonl` and the development
halves of the English sets `bench/signals*.jsonl`. Without an option it fits on two thirds of the sessions of
each project and crosses them by session and by project. `--held-out` tries that fit on the last third.
`--write` fits on all sessions and writes the model. No text and no word leaves this tool: words are hashed.
Nothing is drawn, so the same messages give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from bench import signals as old_sets

from vademecum.knowledge import judge, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("VADE_DATA", "."))
MODEL = ROOT / "src/vademecum/knowledge" / judge.FILE
PASTED = ROOT / "bench/sets/pasted.jsonl"
KINDS = ("preference", "rule", "correction", "decision", "fact")
FOLDS = 8
# What a message counts as worth: by the surest statement in it, or by the label that it may be proposed.
WORTH, NUDGE = {1: 0.4, 2: 0.8, 3: 1.0}, 0.3
# How far the weights may grow (the larger, the farther), and how much the numbers and the hashed words count.
LOOSE, NUMBERS, WORDS = 0.05, 0.4, 0.9
SHARE = 0.145  # of the messages, which the bar lets through
SENTENCE = 0.5  # how much the best sentence counts beside the whole message
OLD_WEIGHT = 0.05  # of a message of the old sets beside a real one
# Messages of LongMemEval that ask for help: how many at most, of how many turns of a session, and the weight
# of each.
PLAIN, MOST_TURNS, PLAIN_WEIGHT = 5000, 6, 0.2
PASTED_BAR = 0.7
PASTED_WEIGHT = 4.0  # of a pasted text of our own beside a turn of an agent
KIND_LOOSE, PASTED_LOOSE = 0.02, 0.1
LENGTHS = (
    "#words",
    "#words squared",
    "#some words",
    "#many words",
    "#few words",
    "#sentences",
    "#statements",
    "#lines",
)
WORD_ROWS, PAIR_ROWS = (1 << judge.SIZES[name] for name in ("word", "pair"))
SESSION, PROJECT = "session", "project"


class Heard(NamedTuple):
    """A labelled message."""

    project: str
    session: str
    before: str
    text: str
    nudge: bool
    statements: tuple[tuple[str, str, int], ...]  # quote, kind, sure

    @property
    def sure(self) -> int:
        """How sure the surest statement is; 0 without one."""
        return max((sure for _, _, sure in self.statements), default=0)

    @property
    def worth(self) -> float:
        """What the message counts as."""
        return WORTH.get(self.sure, NUDGE if self.nudge else 0.0)


def read_heard(folder: Path) -> list[Heard]:
    """Return all labelled messages."""
    lines = (folder / "heard/messages.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Heard(
            row["source"],
            row["session"],
            row["before"],
            row["text"],
            bool(row["nudge"]),
            tuple((each["quote"], each["kind"], each["sure"]) for each in row["durable"]),
        )
        for row in map(json.loads, lines)
    ]


def part_of(message: Heard, salt: str, parts: int) -> int:
    """Return to which part of the sessions a message belongs."""
    name = f"{salt}{message.project}/{message.session}"
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % parts


def is_held_out(message: Heard) -> bool:
    """Whether a message is in the last third of its project's sessions."""
    return part_of(message, "", 3) == 0


def read_pasted(half: str) -> list[dict[str, Any]]:
    """Return one half of the messages with pasted parts."""
    rows = map(json.loads, PASTED.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["half"] == half]


def read_old() -> list[tuple[str, bool]]:
    """Return the English messages of the old sets that are not held out, and whether each is worth saving."""
    found = []
    for path in old_sets.SETS.values():
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if row.get("language", "en") == "en" and not old_sets.held_out(row["text"]):
                found.append((row["text"], row["label"] in old_sets.KINDS))
    return found


@cache
def read_plain(folder: Path) -> list[Heard]:
    """Return messages of LongMemEval that ask for help with nothing lasting, of one half of it."""
    questions = json.loads(lzma.decompress((folder / "longmemeval/longmemeval_s_dev.json.xz").read_bytes()))
    sessions = {
        name: turns
        for question in questions
        for name, turns in zip(question["haystack_session_ids"], question["haystack_sessions"], strict=True)
        if name.startswith(("sharegpt", "ultrachat"))
    }
    found = []
    for name in sorted(sessions, key=_hashed):
        before = ""
        for turn in [] if is_plain_held_out(name) else sessions[name][:MOST_TURNS]:
            if turn["role"] == "user" and turn["content"].strip():
                found.append(Heard("plain", name, before[-300:], turn["content"][:2000], False, ()))
            before = turn["content"]
    return found[:PLAIN]


def is_plain_held_out(session: str) -> bool:
    """Whether nothing is fitted on a session of LongMemEval."""
    return _hashed(session) % 2 == 0


def _hashed(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


# ---------------------------------------------------------------- a sum of weights


class Rows(NamedTuple):
    """Texts as numbers: which row has which hashed word or pair, and the named numbers of each row."""

    row: Numbers
    column: Numbers
    numbers: Floats
    names: tuple[str, ...]

    def take(self, chosen: Numbers) -> Rows:
        """Return some of the rows."""
        places = np.full(len(self.numbers), -1)
        places[chosen] = np.arange(len(chosen))
        inside = places[self.row] >= 0
        return Rows(places[self.row[inside]], self.column[inside], self.numbers[chosen], self.names)


def make_rows(features: Sequence[judge.Features], names: Sequence[str] = ()) -> Rows:
    """Return the features of texts as arrays."""
    names = tuple(names) or tuple(sorted({name for each in features for name in each.numbers}))
    places = {name: number for number, name in enumerate(names)}
    numbers = np.zeros((len(features), len(names)))
    row: list[int] = []
    column: list[int] = []
    for number, each in enumerate(features):
        hashed = [*sorted(each.words), *(WORD_ROWS + pair for pair in sorted(each.pairs))]
        row += [number] * len(hashed)
        column += hashed
        for name, value in each.numbers.items():
            if name in places:
                numbers[number, places[name]] = value
    return Rows(np.array(row, dtype=np.int64), np.array(column, dtype=np.int64), numbers, names)


class Sum(NamedTuple):
    """Fitted weights of hashed words and pairs, of numbers, and the bias."""

    hashed: Floats
    numbers: Floats
    names: tuple[str, ...]
    bias: float

    def weigh(self, rows: Rows) -> Floats:
        """Return the logit of each row."""
        summed = np.bincount(rows.row, weights=self.hashed[rows.column], minlength=len(rows.numbers))
        return np.asarray(summed + rows.numbers @ self.numbers + self.bias)


def fit_sum(
    rows: Rows,
    worth: Floats,
    weights: Floats | None = None,
    *,
    loose: float = LOOSE,
    words: float = WORDS,
    flags: Floats | None = None,
) -> Sum:
    """Fit a logistic regression with a penalty on squared weights; the worth of a row is its probability.

    A flag is a number that is known while fitting and zero afterwards, such as the set of a row.
    """
    count = len(rows.numbers)
    weights = np.ones(count) if weights is None else weights
    mean = np.average(rows.numbers, axis=0, weights=weights)
    spread = np.sqrt(np.average((rows.numbers - mean) ** 2, axis=0, weights=weights))
    spread[spread < 1e-3] = 1.0
    flags = np.zeros((count, 1)) if flags is None else flags[:, None]
    dense = np.hstack([(rows.numbers - mean) / spread * NUMBERS, flags, np.ones((count, 1))])
    columns, place = np.unique(rows.column, return_inverse=True)
    used = len(columns)
    penalty = np.ones(used + dense.shape[1])
    penalty[-2:] = 0.01, 0.0

    def loss(values: Floats) -> tuple[float, Floats]:
        logits = np.bincount(rows.row, weights=words * values[place], minlength=count) + dense @ values[used:]
        error = loose * weights * (1 / (1 + np.exp(-np.clip(logits, -30, 30))) - worth)
        slope = np.concatenate(
            [words * np.bincount(place, weights=error[rows.row], minlength=used), dense.T @ error]
        )
        total = loose * float((weights * (np.logaddexp(0, logits) - worth * logits)).sum())
        return total + 0.5 * float((penalty * values * values).sum()), slope + penalty * values

    values = minimize(loss, np.zeros(used + dense.shape[1]))
    hashed = np.zeros(WORD_ROWS + PAIR_ROWS)
    hashed[columns] = words * values[:used]
    numbers = values[used:-2] * NUMBERS / spread
    return Sum(hashed, numbers, rows.names, float(values[-1] - numbers @ mean))


def minimize(loss: Callable[[Floats], tuple[float, Floats]], values: Floats) -> Floats:
    """Return where a smooth function is least, by the limited-memory method of Broyden and others."""
    total, slope = loss(values)
    steps: list[tuple[Floats, Floats]] = []
    for _ in range(200):
        direction = -slope
        shares = []
        for step, change in reversed(steps):
            share = (step @ direction) / (step @ change)
            shares.append(share)
            direction = direction - share * change
        if steps:
            step, change = steps[-1]
            direction = direction * ((step @ change) / (change @ change))
        for (step, change), share in zip(steps, reversed(shares), strict=True):
            direction = direction + step * (share - (change @ direction) / (step @ change))
        length = 1.0 if steps else 1 / max(1.0, float(np.abs(slope).sum()))
        while True:
            new = values + length * direction
            new_total, new_slope = loss(new)
            if new_total <= total + 1e-4 * length * float(slope @ direction) or length < 1e-10:
                break
            length /= 2
        if (new - values) @ (new_slope - slope) > 1e-12:
            steps = [*steps, (new - values, new_slope - slope)][-10:]
        done = total - new_total < 1e-7 * max(1.0, abs(total))
        values, total, slope = new, new_total, new_slope
        if done:
            break
    return values


# ---------------------------------------------------------------- what is fitted


def fit_pasted(messages: Sequence[Heard]) -> Sum:
    """Fit what tells pasted prose: the agent's turns and pasted texts against what is quoted from people."""
    texts: list[tuple[str, float]] = []
    for message in messages:
        if len(message.before) >= judge.PARAGRAPH + 20:
            texts.append((message.before.partition(" ")[2], 1.0))
        texts += [(quote, 0.0) for quote, _, _ in message.statements if len(quote) >= 60]
        own = message.text
        if 60 <= len(own) <= 400 and "\n" not in own and "`" not in own:
            texts.append((own, 0.0))
    for row in read_pasted("tuned"):
        for part in row["parts"]:
            texts += [(text, float(kind == "pasted")) for kind, text in part.items()]
    texts = list(dict.fromkeys(texts))
    ours = {text for row in read_pasted("tuned") for part in row["parts"] for text in part.values()}
    weights = np.array([PASTED_WEIGHT if text in ours else 1.0 for text, _ in texts])
    rows = make_rows([judge.text_features(typed.own_words(text)) for text, _ in texts])
    # The length says only which texts were at hand.
    lengths = [number for number, name in enumerate(rows.names) if name in LENGTHS]
    rows.numbers[:, lengths] = 0.0
    return fit_sum(rows, np.array([worth for _, worth in texts]), weights, loose=PASTED_LOOSE)


class Material(NamedTuple):
    """Messages with their features: of each message, and of each sentence with its message."""

    messages: Sequence[Heard]
    whole: Rows
    worth: Floats
    sentences: Rows
    owner: Numbers
    sentence_worth: Floats


def make_material(
    messages: Sequence[Heard], model: judge.JudgeModel, like: Material | None = None
) -> Material:
    """Read messages as the shipped code reads them, and give each sentence the worth of what is quoted."""
    whole: list[judge.Features] = []
    sentences: list[judge.Features] = []
    owner: list[int] = []
    worth: list[float] = []
    for number, message in enumerate(messages):
        seen = judge.read_message(message.text, message.before, model)
        whole.append(seen.features)
        places = [(message.text.find(quote), len(quote), sure) for quote, _, sure in message.statements]
        for sentence in seen.sentences:
            length = sentence.end - sentence.start
            worths = [
                WORTH[sure]
                for start, quoted, sure in places
                if min(sentence.end, start + quoted) - max(sentence.start, start) >= 0.3 * min(length, quoted)
            ]
            sentences.append(sentence.features)
            owner.append(number)
            worth.append(max(worths, default=0.0))
    return Material(
        messages,
        make_rows(whole, like.whole.names if like else ()),
        np.array([each.worth for each in messages]),
        make_rows(sentences, like.sentences.names if like else ()),
        np.array(owner),
        np.array(worth),
    )


class Fitted(NamedTuple):
    """The two sums over a message."""

    whole: Sum
    sentence: Sum

    def scores(self, material: Material) -> tuple[Floats, Floats]:
        """Return the logit of each message, and of its best sentence."""
        best = np.full(len(material.messages), -8.0)
        np.maximum.at(best, material.owner, self.sentence.weigh(material.sentences))
        return self.whole.weigh(material.whole), best


class Beside(NamedTuple):
    """Other messages that are fitted on with little weight; `flag` marks a set of their own."""

    material: Material
    weight: float
    flag: float


def fit(material: Material, chosen: Numbers, beside: Sequence[Beside]) -> Fitted:
    """Fit on some of the messages, and on others beside them."""
    lines = np.flatnonzero(np.isin(material.owner, chosen))
    return Fitted(
        _fit_beside(
            material.whole.take(chosen),
            material.worth[chosen],
            [(each.material.whole, each.material.worth, each.weight, each.flag) for each in beside],
        ),
        _fit_beside(
            material.sentences.take(lines),
            material.sentence_worth[lines],
            [
                (each.material.sentences, each.material.sentence_worth, each.weight, each.flag)
                for each in beside
            ],
        ),
    )


def _fit_beside(rows: Rows, worth: Floats, beside: Sequence[tuple[Rows, Floats, float, float]]) -> Sum:
    parts = [(rows, worth, 1.0, 0.0), *beside]
    sizes = [len(part.numbers) for part, *_ in parts]
    first = np.cumsum([0, *sizes])
    joined = Rows(
        np.concatenate([part.row + start for (part, *_), start in zip(parts, first, strict=False)]),
        np.concatenate([part.column for part, *_ in parts]),
        np.vstack([part.numbers for part, *_ in parts]),
        rows.names,
    )
    weights, flags = (np.repeat([part[n] for part in parts], sizes) for n in (2, 3))
    return fit_sum(joined, np.concatenate([part[1] for part in parts]), weights, flags=flags)


def cross(
    material: Material, groups: Sequence[object], beside: Sequence[Beside], tried: Material | None = None
) -> tuple[Floats, Floats]:
    """Return the logits of each message by sums that were fitted without its group."""
    whole = np.zeros(len(material.messages))
    best = np.zeros(len(material.messages))
    for group in sorted(set(groups), key=str):
        inside = np.array([each == group for each in groups])
        fitted = fit(material, np.flatnonzero(~inside), beside)
        one, other = fitted.scores(tried or material)
        whole[inside], best[inside] = one[inside], other[inside]
    return whole, best


def read_beside(model: judge.JudgeModel, like: Material) -> list[Beside]:
    """Return the old sets, whose statements are whole messages, and messages that ask for help."""
    old = [
        Heard("old", "", "", text, worth, ((text, "fact", 3),) if worth else ()) for text, worth in read_old()
    ]
    return [
        Beside(make_material(old, model, like), OLD_WEIGHT, 1.0),
        Beside(make_material(read_plain(DATA), model, like), PLAIN_WEIGHT, 0.0),
    ]


# ---------------------------------------------------------------- the model's file


def empty_model(pasted: Sum) -> judge.JudgeModel:
    """Return a model that tells pasted prose and nothing else."""
    zero = Sum(np.zeros(WORD_ROWS + PAIR_ROWS), np.zeros(0), (), 0.0)
    return judge.parse_model(render({"message": zero, "sentence": zero, "pasted": pasted}, {}))


def render(sums: dict[str, Sum], about: dict[str, Any]) -> bytes:
    """Return the bytes of a model: weights of words in whole numbers of 8 bits, one scale for each sum."""
    head: dict[str, Any] = {
        "pasted_bar": PASTED_BAR,
        "shares": [1.0, 1.0],
        "bar": 0.0,
        "calibration": [1.0, 0.0],
        "kinds": {},
    } | about
    body = b""
    for name in judge.TABLES:
        each = sums[name]
        scale = float(np.abs(each.hashed).max()) / 127 or 1.0
        body += np.round(each.hashed / scale).astype(np.int8).tobytes()
        head[name] = {
            "scale": float(f"{scale:.6g}"),
            "bias": round(each.bias, 5),
            "numbers": _rounded(each.names, each.numbers),
        }
    return json.dumps(head, sort_keys=True, separators=(",", ":")).encode() + b"\n" + body


def _rounded(names: Iterable[str], values: Floats) -> dict[str, float]:
    return {
        name: round(float(value), 4) for name, value in zip(names, values, strict=True) if abs(value) >= 5e-5
    }


def fit_kinds(messages: Sequence[Heard]) -> dict[str, Any]:
    """Fit which kind a statement is, one kind against the others, by its phrases and its shape alone."""
    quotes = [(quote, kind, sure) for message in messages for quote, kind, sure in message.statements]
    rows = make_rows([judge.text_features(quote) for quote, _, _ in quotes])
    weights = np.array([sure / 3 for _, _, sure in quotes])
    found = {}
    for kind in KINDS:
        worth = np.array([float(each == kind) for _, each, _ in quotes])
        made = fit_sum(rows, worth, weights, loose=KIND_LOOSE, words=0.0)
        found[kind] = (_rounded(made.names, made.numbers), round(made.bias, 5))
    return found


def fit_line(scores: Floats, right: Floats) -> tuple[float, float]:
    """Return slope and intercept of the probability that a score is right."""
    made = fit_sum(
        Rows(np.zeros(0, np.int64), np.zeros(0, np.int64), scores[:, None], ("score",)), right, loose=1.0
    )
    return round(float(made.numbers[0]), 4), round(made.bias, 4)


class Bar(NamedTuple):
    """How the two logits become a score, and the score from which on a message is proposed."""

    shares: tuple[float, float]
    bar: float
    calibration: tuple[float, float]


def set_bar(material: Material, whole: Floats, best: Floats) -> Bar:
    """Return the bar of crossed logits that lets the wanted share through."""
    shares = round(1 / float(whole.std()), 4), round(SENTENCE / float(best.std()), 4)
    scores = shares[0] * whole + shares[1] * best
    bar = float(np.sort(scores)[::-1][int(SHARE * len(scores))])
    right = np.array([float(each.nudge) for each in material.messages])
    return Bar(shares, round(bar, 4), fit_line(scores, right))


def fit_model(messages: Sequence[Heard]) -> tuple[bytes, Material, Bar]:
    """Fit everything on some messages; return the bytes of the model."""
    pasted = fit_pasted(messages)
    reader = empty_model(pasted)
    material = make_material(messages, reader)
    beside = read_beside(reader, material)
    bar = set_bar(material, *cross(material, [part_of(each, "fold", FOLDS) for each in messages], beside))
    fitted = fit(material, np.arange(len(messages)), beside)
    about = bar._asdict() | {"kinds": fit_kinds(messages)}
    sums = {"message": fitted.whole, "sentence": fitted.sentence, "pasted": pasted}
    return render(sums, about), material, bar


# ---------------------------------------------------------------- what it is worth


def wilson(part: int, of: int) -> str:
    """Return a share with its interval of Wilson at 95 %."""
    if not of:
        return "-"
    z, share = 1.96, part / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return f"{share:.2f} ({middle - half:.2f}–{middle + half:.2f}, n {of})"


def report(title: str, messages: Sequence[Heard], chosen: Sequence[bool]) -> None:
    """Print one row for all messages and one for each project."""
    names = sorted({each.project for each in messages})
    for name in [None, *names]:
        pairs = [(m, c) for m, c in zip(messages, chosen, strict=True) if name in (None, m.project)]
        nudged = [m for m, c in pairs if c]
        sure2, sure3 = ([c for m, c in pairs if m.sure >= sure] for sure in (2, 3))
        print(
            f"| {title} | {name or 'all'} | {len(pairs)} | {len(nudged) / len(pairs):.3f} "
            f"| {wilson(sum(m.nudge for m in nudged), len(nudged))} "
            f"| {wilson(sum(m.sure >= 2 for m in nudged), len(nudged))} "
            f"| {wilson(sum(sure2), len(sure2))} | {wilson(sum(sure3), len(sure3))} |"
        )


def _top(scores: Floats, share: float = 0.15) -> list[bool]:
    bar = np.sort(scores)[::-1][int(share * len(scores))]
    return [bool(each > bar) for each in scores]


def crossed(messages: Sequence[Heard]) -> None:
    """Print how well messages are judged by sums that have not seen their session, or their project."""
    reader = empty_model(fit_pasted(messages))
    material = make_material(messages, reader)
    beside = read_beside(reader, material)
    alone = make_material([each._replace(before="") for each in messages], reader, material)
    groups: dict[str, Sequence[object]] = {
        SESSION: [part_of(each, "fold", FOLDS) for each in messages],
        PROJECT: [each.project for each in messages],
    }
    for by, group in groups.items():
        for title, tried in (("with the turn before", None), ("without", alone)):
            whole, best = cross(material, group, beside, tried)
            report(f"{by}, {title}", messages, _top(whole / whole.std() + SENTENCE * best / best.std()))


def main() -> None:
    """Fit, and print how well; or write the model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="fit on all sessions and write the model")
    parser.add_argument("--held-out", action="store_true", help="try the fit on the sessions held out")
    chosen = parser.parse_args()
    messages = read_heard(DATA)
    if chosen.write:
        content, _, _ = fit_model(messages)
        MODEL.write_bytes(content)
        print(f"{MODEL.name}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")
        return
    tuned = [each for each in messages if not is_held_out(each)]
    print("| by | project | messages | nudged | right | surely worth it | sure ≥ 2 found | sure 3 found |")
    print("|---|---|---|---|---|---|---|---|")
    if not chosen.held_out:
        crossed(tuned)
        return
    held = [each for each in messages if is_held_out(each)]
    model = judge.parse_model(fit_model(tuned)[0])
    for title, kept in (
        ("held out", held),
        ("held out, without", [each._replace(before="") for each in held]),
    ):
        report(title, kept, [judge.score_message(m.text, m.before, model=model).nudge for m in kept])


if __name__ == "__main__":
    main()
