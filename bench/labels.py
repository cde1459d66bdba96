"""How far the labels strong, likely and weak can be relied on, by shape and by language.

Our own notes in eight languages (`bench/sets/labels`), each as a record, as an entry of a journal, in a file
of an attached folder, and as a turn of an imported session; beside them, notes of the set of languages. A
language and a shape are one store. Everything is asked with the defaults. The half to tune on is what
`tools/fit_labels.py` fits; of the held-out half only totals are told.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import retrieval, shapes, small_sets

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from vademecum.memory import Memory
    from vademecum.search.base import Passage

    Rows = list[dict[str, object]]

FOLDER = Path(__file__).parent / "sets" / "labels"
# Each language, and the group of the set of languages whose notes lie beside its own.
LANGUAGES = {
    "en": "",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "it": "italian",
    "ru": "russian",
    "ja": "japanese",
    "zh": "chinese",
}
SHAPES = ("record", "journal", "folder", "session")
ABOUT = ("near", "far")
FIRST = 5  # results that are looked at
IN_ONE = 5  # notes of one day, file or session
BEGUN = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Fact(NamedTuple):
    """A note, what an assistant would reply to it, and a question that it answers."""

    id: str
    note: str
    reply: str
    question: str


class Asked(NamedTuple):
    """A question, and the id of the note that answers it; none for a question about nothing."""

    id: str
    text: str
    gold: str | None
    about: str = ""  # near or far, if it is about nothing

    @property
    def half(self) -> str:
        """Which half it belongs to, by its id alone."""
        return small_sets.half(self.id)


def read(language: str) -> tuple[list[Fact], list[Asked]]:
    """The facts of a language, and everything that is asked of them."""
    facts, nothing = [], []
    lines = (FOLDER / f"{language}.txt").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        first, *rest = line.split(" | ")
        id_ = f"{language}{number:03}"
        if first in ABOUT:
            nothing.append(Asked(id_, rest[0], None, first))
        else:
            facts.append(Fact(id_, first, *rest))
    return facts, [*(Asked(each.id, each.question, each.id) for each in facts), *nothing]


def fillers(language: str) -> list[str]:
    """Notes of the same language about which nothing is asked."""
    if language == "en":
        return [each.text for each in small_sets.read("paraphrases")][::5]
    return [each.text for each in small_sets.read("languages") if each.group == LANGUAGES[language]]


# ---------------------------------------------------------------- the stores


class Store:
    """The notes of a language in one shape."""

    def __init__(self, folder: Path, language: str, shape: str, embedder: str = "local") -> None:
        facts, _ = read(language)
        environ = {"VADE_EMBEDDER": embedder, "VADE_SWEEP": "off"}
        self._product: retrieval.Product | None = None
        if shape == "record":
            notes = [(each.id, each.note) for each in facts]
            notes += [(f"filler{at}", note) for at, note in enumerate(fillers(language))]
            self.memory: Memory = small_sets.fill(folder, notes, embedder=embedder)
            return
        kinds = {"journal": retrieval.Product, "folder": shapes.Folder, "session": shapes.Imported}
        documents = _documents(facts, fillers(language), spoken=shape == "session")
        self._product = kinds[shape](folder, documents, environ=environ)
        self.memory = self._product.memory

    def ids(self, passage: Passage) -> frozenset[str]:
        """The notes that a passage holds."""
        if self._product is None:
            return frozenset({passage.key or ""})
        return frozenset(shapes.turns_of(self._product, passage))


def day(number: int) -> datetime:
    """The time of a day, by its number."""
    return BEGUN + timedelta(days=number)


def _documents(facts: Sequence[Fact], others: Sequence[str], *, spoken: bool) -> list[retrieval.Document]:
    """Days of a journal, files or conversations with a few notes each."""
    notes = [(each.id, each.note, each.reply) for each in facts]
    notes += [(f"filler{at}", note, "") for at, note in enumerate(others)]
    found = []
    for number, start in enumerate(range(0, len(notes), IN_ONE)):
        turns, ids = [], []
        for id_, note, reply in notes[start : start + IN_ONE]:
            turns.append(f"user: {note}" if spoken else note)
            ids.append(id_)
            if spoken and reply:
                turns.append(f"assistant: {reply}")
                ids.append(f"{id_} reply")
        found.append(retrieval.Document(f"d{number}", "", day(3 * number), turns, ids))
    return found


# ---------------------------------------------------------------- the measurement


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--embedder", default="local", help="local, none, or one that is set up")
    parser.add_argument("--language", choices=LANGUAGES, action="append", help="all when left out")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="all when left out")


@dataclass(slots=True)
class Tally:
    """The labels that some questions got."""

    asked: int = 0
    right: list[str] = field(default_factory=list)  # of right results among the first five
    strong: int = 0  # results that were called strong,
    strong_right: int = 0  # and those of them that were right
    nothing: list[str] = field(default_factory=list)  # the best label for each question about nothing

    def add(self, asked: Asked, labels: Sequence[str], right: Sequence[bool]) -> None:
        if asked.gold is None:
            self.nothing.append(labels[0] if labels else "none")  # no later one is stronger
        else:
            self.asked += 1
            self.right += [label for label, is_right in zip(labels, right, strict=True) if is_right][:1]
        self.strong += labels.count("strong")
        self.strong_right += sum(
            label == "strong" and is_right for label, is_right in zip(labels, right, strict=True)
        )

    def row(self) -> dict[str, object]:
        return {
            "n": self.asked,
            "right in five": len(self.right),
            "of them weak": _share(self.right.count("weak"), len(self.right)),
            "called strong": self.strong,
            "of them right": _share(self.strong_right, self.strong),
            "about nothing": len(self.nothing),
            "likely or strong": _share(
                self.nothing.count("likely") + self.nothing.count("strong"), len(self.nothing)
            ),
            "strong": _share(self.nothing.count("strong"), len(self.nothing)),
        }


def _share(some: int, every: int) -> str:
    return f"{some / every:.2f}" if every else ""


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Ask every store everything, and count labels by half, shape and language."""
    by_shape: dict[tuple[str, str], Tally] = {}
    by_language: dict[tuple[str, str], Tally] = {}
    for language in chosen.language or LANGUAGES:
        for shape in chosen.shape or SHAPES:
            for asked, labels, right in answers(language, shape, chosen.embedder):
                for tallies, name in ((by_shape, shape), (by_language, language)):
                    for each in (name, "all"):
                        tallies.setdefault((asked.half, each), Tally()).add(asked, labels, right)
    return {
        f"labels, by {name}": _rows(found, name)
        for name, found in (("shape", by_shape), ("language", by_language))
    }


def _rows(tallies: dict[tuple[str, str], Tally], name: str) -> Rows:
    return [{"half": half, name: of, **tally.row()} for (half, of), tally in sorted(tallies.items())]


def answers(language: str, shape: str, embedder: str) -> Iterator[tuple[Asked, list[str], list[bool]]]:
    """Each question with the labels of its first results, and which of them are right."""
    _, asked = read(language)
    with tempfile.TemporaryDirectory(prefix="vade-labels-") as name:
        store = Store(Path(name).resolve(), language, shape, embedder)
        with closing(store.memory):
            for each in asked:
                results = store.memory.search(each.text).results[:FIRST]
                yield each, [hit.match for hit in results], [each.gold in store.ids(hit) for hit in results]
