"""Small sets of our own: short notes in one store, and questions that one note each should answer first.

`paraphrases` asks for everyday notes in other words; `languages` asks in many languages and scripts, by
inflected forms, parts of compounds, identifiers, paths and typos. The questions were written before anything
was run, and are split by a hash of the note's id: who tunes looks at one half, and of the other only totals
are ever printed.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import scale
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.memory import Memory

    Rows = list[dict[str, object]]

SETS = ("paraphrases", "languages")
FOLDER = Path(__file__).with_name("sets")
TUNE, HELD = "tune", "held"
PLACES = (1, 3, 5)
DEFAULTS, NO_LIMIT, WORDS, FLOOR = "defaults", "min_score=0", "mode=bm25", "plain FTS5"
# How the product is asked: first as a user has it, with nothing but the question.
ASKING: dict[str, dict[str, str | float]] = {
    DEFAULTS: {},
    NO_LIMIT: {"min_score": 0.0},
    WORDS: {"mode": "bm25"},
}


class Note(NamedTuple):
    """A note, what kind or language it is of, and the questions it should answer first: often none."""

    id: str
    group: str
    text: str
    questions: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """Where the right notes stood, counted from 1; 0 when an answer did not have it."""

    places: list[int] = field(default_factory=list)
    empty: int = 0
    seconds: list[float] = field(default_factory=list)

    def hits(self, within: int) -> str:
        """How many were among the first so many, and which share that is."""
        right = sum(0 < place <= within for place in self.places)
        return f"{right} ({right / len(self.places):.2f})"


# ---------------------------------------------------------------- the sets


def read(name: str) -> list[Note]:
    """The notes of a set in the order of its file."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Note(each["id"], each["group"], each["note"], tuple(each.get("questions", ())))
        for each in map(json.loads, lines)
    ]


def half(id_: str) -> str:
    """Which half an id belongs to, for good: nothing but the id decides."""
    return TUNE if int(hashlib.sha256(id_.encode()).hexdigest()[0], 16) < 8 else HELD


# ---------------------------------------------------------------- the measurement


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--limit", type=int, help="ask only so many questions; the store stays whole")
    parser.add_argument("--embedder", default="local", help="local, none, or one that is set up")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Fill one store with all notes of a set, ask everyone everything, and count."""
    notes = read(chosen.name)
    questions = [(note, question) for note in notes for question in note.questions][: chosen.limit]
    with tempfile.TemporaryDirectory(prefix="vade-sets-") as name:
        folder = Path(name).resolve()
        memory = fill(folder, [(note.id, note.text) for note in notes], embedder=chosen.embedder)
        floor = scale.PlainFts(folder / "plain.db", [note.text for note in notes])
        with closing(memory.care.searcher), closing(floor.connection):
            finders = {name: _asking(memory, how) for name, how in ASKING.items()}
            finders[FLOOR] = lambda question: [notes[at].id for at in floor.find(question)]
            tallies = _ask(finders, questions)
    tables = {
        f"{chosen.name}, {len(notes)} notes in one store": _by_half(tallies),
        f"{chosen.name}, hits at 1 and 3 by group, of the half to tune on": _by_group(tallies),
    }
    return {title: rows for title, rows in tables.items() if rows}


def fill(folder: Path, notes: Iterable[tuple[str, str]], *, embedder: str = "local") -> Memory:
    """A home with a record for each note; its key says nothing, so that only the text can be found."""
    work = folder / "work"
    work.mkdir()
    # Without a sweep: notes that are much alike are meant to be there.
    environ = {"VADE_EMBEDDER": embedder, "VADE_SWEEP": "off"}
    memory = connect(home=folder / "home", cwd=work, origin=Origin.USER, environ=environ)
    for id_, text in notes:
        memory.store(text, key=id_)
    report = memory.care.index()
    assert not report.findings, report.findings[0]
    return memory


def _asking(memory: Memory, how: dict[str, str | float]) -> Callable[[str], list[str]]:
    def find(question: str) -> list[str]:
        answer = memory.search(question, **how)  # type: ignore[arg-type]  # each value fits its own name
        return list(dict.fromkeys(each.key for each in answer.results if each.key is not None))

    return find


def _ask(
    finders: dict[str, Callable[[str], list[str]]], asked: Sequence[tuple[Note, str]]
) -> dict[tuple[str, str, str], Tally]:
    """What each way of asking found, by half and group."""
    tallies: dict[tuple[str, str, str], Tally] = {}
    for find in finders.values():
        find("something to warm up with")
    for note, question in asked:
        for system, find in finders.items():
            begun = time.perf_counter()
            found = find(question)
            seconds = time.perf_counter() - begun
            tally = tallies.setdefault((system, half(note.id), note.group), Tally())
            tally.places.append(found.index(note.id) + 1 if note.id in found else 0)
            tally.empty += not found
            tally.seconds.append(seconds)
    return tallies


def _by_half(tallies: dict[tuple[str, str, str], Tally]) -> Rows:
    rows: Rows = []
    for part in (TUNE, HELD):
        for system in dict.fromkeys(system for system, _, _ in tallies):
            total = Tally()
            for each in (tally for at, tally in tallies.items() if at[:2] == (system, part)):
                total.places += each.places
                total.empty += each.empty
                total.seconds += each.seconds
            if total.places:
                rows.append({"half": part, "asked with": system, **_row(total, PLACES)})
    return rows


def _row(tally: Tally, places: Iterable[int]) -> dict[str, object]:
    return {
        "n": len(tally.places),
        **{f"hit@{place}": tally.hits(place) for place in places},
        "nothing": tally.empty,
        "p50 ms": round(statistics.median(tally.seconds) * 1000, 2),
    }


def _by_group(tallies: dict[tuple[str, str, str], Tally]) -> Rows:
    rows: Rows = []
    for group in dict.fromkeys(group for _, part, group in tallies if part == TUNE):
        row: dict[str, object] = {"group": group}
        for system in dict.fromkeys(system for system, _, _ in tallies):
            tally = tallies[system, TUNE, group]
            row["n"] = len(tally.places)
            counts = (sum(0 < place <= within for place in tally.places) for within in (1, 3))
            row[system] = " / ".join(map(str, counts))
        rows.append(row)
    return rows
