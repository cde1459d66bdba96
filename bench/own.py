"""The set of our own: conversations, journals and bug hunts, asked about as people do months later.

`bench/sets/own` has a file for each, written for this. Odd numbers are for tuning; even ones are held out,
and of those nothing but totals is told. All of a half that are of one language and one kind lie in one store,
as in a memory: conversations as turns with their speakers, journals as their author left them.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import retrieval
from bench.small_sets import DEFAULTS, FLOOR, HELD, TUNE, WORDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Rows = list[dict[str, object]]

FOLDER = Path(__file__).parent / "sets" / "own"
PLACES = (1, 3, 5, 10)
NOTHING = "nothing"
AUTHOR = "me"  # who writes alone, and is not named in every line
GOOD = ("strong", "likely")
ASKING: dict[str, dict[str, str]] = {DEFAULTS: {}, WORDS: {"mode": "bm25"}}


class Asked(NamedTuple):
    """A question, when it is asked, and the turns that answer it: any one of several groups, each whole."""

    id: str
    kind: str
    text: str
    when: datetime
    answers: tuple[frozenset[str], ...]


class Text(NamedTuple):
    """One conversation or collection of notes, and what is asked of it."""

    id: str
    kind: str
    language: str
    documents: tuple[retrieval.Document, ...]
    questions: tuple[Asked, ...]


class Found(NamedTuple):
    """What one way of asking answered: the turns, best first, and how sure it is, where it says so."""

    question: Asked
    turns: Sequence[str]
    match: str | None = None

    def hit(self, k: int) -> bool:
        """Whether one of the first k is part of an answer."""
        return any(not group.isdisjoint(self.turns[:k]) for group in self.question.answers)

    def all(self, k: int) -> bool:
        """Whether a whole answer is among the first k."""
        return any(group <= set(self.turns[:k]) for group in self.question.answers)


# ---------------------------------------------------------------- the set


def read(half: str) -> list[Text]:
    """The texts of a half, by name."""
    return [_text(json.loads(path.read_bytes())) for path in sorted((FOLDER / half).glob("*.json"))]


def _text(kept: dict[str, Any]) -> Text:
    def name(id_: str) -> str:
        return f"{kept['id']}/{id_}"

    documents = tuple(
        retrieval.Document(
            name(each["id"]),
            "",
            datetime.fromisoformat(each["time"]).astimezone(UTC),
            [_format_turn(turn) for turn in each["turns"]],
            [name(turn["id"]) for turn in each["turns"]],
        )
        for each in kept["sessions"]
    )
    questions = tuple(
        Asked(
            each["id"],
            each["kind"],
            each["text"],
            datetime.fromisoformat(each["asked"]).astimezone(UTC),
            tuple(frozenset(map(name, group)) for group in each["answers"]),
        )
        for each in kept["questions"]
    )
    return Text(kept["id"], kept["kind"], kept["language"], documents, questions)


def _format_turn(turn: dict[str, str]) -> str:
    return turn["text"] if turn["speaker"] == AUTHOR else f"{turn['speaker']}: {turn['text']}"


def stores(texts: Iterable[Text]) -> Iterator[tuple[str, list[Text]]]:
    """The texts of one language and kind together, under their name."""

    def kind(text: Text) -> tuple[str, str]:
        return text.language, text.kind

    for (language, name), some in groupby(sorted(texts, key=kind), kind):
        yield f"{language} {name}", list(some)


# ---------------------------------------------------------------- the measurement


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--embedder", default="local", help="local, none, or one that is set up")
    parser.add_argument("--language", help="this one alone, as de")
    parser.add_argument("--half", choices=(TUNE, HELD), action="append", help="both when left out")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Fill the stores of each half, ask everyone everything, and count."""
    found: dict[tuple[str, str, str], list[Found]] = defaultdict(list)
    for half in chosen.half or (TUNE, HELD):
        texts = [each for each in read(half) if chosen.language in (None, each.language)]
        for name, some in stores(texts):
            for system, answers in ask(some, embedder=chosen.embedder).items():
                found[half, name, system] += answers
    tables = {
        "own, by half": _totals(found),
        "own, by kind of question, of the half to tune on": _by(found, lambda _, each: each.question.kind),
        "own, by store, of the half to tune on": _by(found, lambda name, _: name),
    }
    return {title: rows for title, rows in tables.items() if rows}


def ask(texts: Sequence[Text], *, embedder: str = "local") -> dict[str, list[Found]]:
    """What each way of asking answers to the questions of one store."""
    documents = [document for text in texts for document in text.documents]
    now = [datetime.now(UTC)]
    with tempfile.TemporaryDirectory(prefix="vade-own-") as name:
        folder = Path(name).resolve()
        environ = {"VADE_EMBEDDER": embedder}
        product = retrieval.Product(folder, documents, environ=environ, now=lambda: now[0])
        floor = retrieval.PlainFts(folder, documents)
        found: dict[str, list[Found]] = {name: [] for name in (*ASKING, FLOOR)}
        with closing(floor.connection), closing(product.memory.care.searcher):
            for question in (each for text in texts for each in text.questions):
                now[0] = question.when
                for system, how in ASKING.items():
                    answer = product.memory.search(question.text, max_results=max(PLACES), **how)  # type: ignore[arg-type]
                    turns = list(dict.fromkeys(map(product.turn, answer.results)))
                    found[system].append(Found(question, turns, answer.match))
                found[FLOOR].append(Found(question, floor.find(question.text)[1]))
    return found


def _totals(found: dict[tuple[str, str, str], list[Found]]) -> Rows:
    rows: Rows = []
    for half in dict.fromkeys(half for half, _, _ in found):
        for english in (True, False):
            for system in dict.fromkeys(system for _, _, system in found):
                some = [
                    each
                    for (part, name, by), answers in found.items()
                    for each in answers
                    if (part, by) == (half, system) and name.startswith("en ") is english
                ]
                if some:
                    language = "English" if english else "others"
                    rows.append({"half": half, "language": language, "asked with": system, **row(some)})
    return rows


def row(found: Sequence[Found]) -> dict[str, object]:
    """The figures of some answers; questions about nothing are counted by what they are told."""
    answerable = [each for each in found if each.question.answers]
    nothing = [each for each in found if not each.question.answers]
    figures: dict[str, object] = {"n": len(answerable)}
    for k in PLACES:
        figures[f"hit@{k}"] = _share(each.hit(k) for each in answerable)
    for k in (5, 10):
        figures[f"all@{k}"] = _share(each.all(k) for each in answerable)
    matches = [each.match for each in nothing if each.match is not None]
    figures["about nothing"] = len(nothing)
    figures["likely"] = _share(match in GOOD for match in matches)
    figures["strong"] = _share(match == GOOD[0] for match in matches)
    return figures


def _by(found: dict[tuple[str, str, str], list[Found]], group: Callable[[str, Found], str]) -> Rows:
    grouped: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for (half, name, system), answers in found.items():
        for each in answers if half == TUNE else ():
            grouped[group(name, each), system].append(each)
    rows: Rows = []
    for name in sorted({name for name, _ in grouped} - {NOTHING}):
        line: dict[str, object] = {"of": name}
        for system in (*ASKING, FLOOR):
            some = [each for each in grouped[name, system] if each.question.answers]
            line["n"] = len(some)
            line[f"{system}, hit@5 all@5"] = (
                f"{_share(e.hit(5) for e in some)} {_share(e.all(5) for e in some)}"
            )
        rows.append(line)
    return rows


def _share(values: Iterable[bool]) -> str:
    some = list(values)
    return f"{sum(some) / len(some):.3f}" if some else ""
