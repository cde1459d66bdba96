"""Speed and size as ratios to plain FTS5 and to a bare interpreter, all of it measured in one run.

The floor is one table of documents, a row a session, porter, all words joined by OR, ten rows. The product
answers with its defaults and nothing read (`embedder = static`).
Every number is a median: over the questions, or over the stores.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bench import cold, notes, retrieval, scale

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    Rows = list[dict[str, object]]

STORES = 30  # of LongMemEval, unless another limit is given
ASKED = 5  # questions of each store: its own and those of the next ones
NOTES = 20_000
COLD = (cold.BARE, "vade add (keyed)", "vade search --mode bm25", "vade search")
HYBRID, KEYWORD, FLOOR = "hybrid, defaults", "mode=bm25, defaults", "plain FTS5"


@dataclass(slots=True)
class Measured:
    """What each store gave, in seconds and bytes."""

    sessions: list[int] = field(default_factory=list)
    asked: dict[str, list[float]] = field(default_factory=dict)
    ingest: dict[str, list[float]] = field(default_factory=dict)
    disk: dict[str, list[float]] = field(default_factory=dict)  # bytes for each byte of text


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--data", type=Path, required=True, help="LongMemEval's file, or the folder of all")
    parser.add_argument(
        "--limit", type=int, default=STORES, help="so many stores of it (default: %(default)s)"
    )
    parser.add_argument("--notes", type=int, default=NOTES, help="generated notes (default: %(default)s)")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Measure stores of sessions, a folder of notes, and commands from nothing."""
    measured = Measured()
    cases = list(islice(retrieval.longmemeval(chosen.data), chosen.limit))
    texts = [case.questions[0].text for case in cases]
    for number, case in enumerate(cases):
        asked = [texts[(number + step) % len(texts)] for step in range(min(ASKED, len(texts)))]
        with tempfile.TemporaryDirectory(prefix="vade-speed-") as name:
            _measure_store(Path(name).resolve(), case.documents, asked, measured)
    middle = round(statistics.median(measured.sessions))
    return {
        f"speed, {len(cases)} stores of about {middle} sessions, load {os.getloadavg()[0]:.1f}": _rows(
            measured
        ),
        f"speed, {chosen.notes:,} notes, a file each": [_notes(chosen.notes)],
        "speed, from nothing": cold.measure(COLD),
    }


def _measure_store(
    folder: Path, documents: Sequence[retrieval.Document], asked: Sequence[str], measured: Measured
) -> None:
    rows = ["\n".join([retrieval.head(each), *each.turns]) for each in documents]
    text = sum(len(turn.encode()) for each in documents for turn in each.turns)
    product = retrieval.Product(folder, documents)
    memory = product.memory
    begun = time.perf_counter()
    floor = scale.PlainFts(folder / "plain.db", rows)
    ingest = time.perf_counter() - begun
    floor.checkpoint()
    with closing(memory.care.searcher), closing(floor.connection):
        finders = {
            HYBRID: lambda question: memory.search(question).results,
            KEYWORD: lambda question: memory.search(question, mode="bm25").results,
            FLOOR: floor.find_texts,
        }
        for find in finders.values():
            find(retrieval.WARM)
        spent = scale.ask(finders, [notes.Question(question, None) for question in asked])
    measured.sessions.append(len(documents))
    for name, each in spent.items():
        measured.asked.setdefault(name, []).extend(each.times)
    for name, seconds, disk in (
        (HYBRID, product.ingest, scale.bytes_below(folder / "home" / "index")),
        (FLOOR, ingest, scale.bytes_below(folder, "plain.db*")),
    ):
        measured.ingest.setdefault(name, []).append(seconds)
        measured.disk.setdefault(name, []).append(disk / text)


def _rows(measured: Measured) -> Rows:
    usual = statistics.median(measured.asked[FLOOR])
    floors = measured.ingest[FLOOR]
    rows: Rows = []
    for name, times in measured.asked.items():
        built = measured.ingest.get(name)  # the index is one, whatever it is asked with
        ratios = [ours / floor for ours, floor in zip(built, floors, strict=True)] if built else []
        rows.append(
            {
                "system": name,
                "questions": len(times),
                "query p50 ms": round(statistics.median(times) * 1000, 2),
                "query ×": round(statistics.median(times) / usual, 1),
                "ingest s": round(statistics.median(built), 3) if built else "",
                "ingest ×": round(statistics.median(ratios), 1) if ratios else "",
                "index MB per MB": round(statistics.median(measured.disk[name]), 1) if built else "",
            }
        )
    return rows


def _notes(count: int) -> dict[str, object]:
    size = scale.Size(count, 1, 1)
    with tempfile.TemporaryDirectory(prefix="vade-speed-") as name:
        folder = Path(name).resolve()
        _, text = scale.write(folder, size)
        memory = scale.open_memory(folder)
        with closing(memory.care.searcher):
            files, ours = scale.build_product(memory, folder, size)
        floor, seconds = scale.build_floor(folder, size)
        floor.connection.close()
        disk = scale.bytes_below(folder / "home" / "index")
    return {
        "notes": count,
        "files": files,
        "text MB": round(text / 1e6, 1),
        "index s": round(ours, 2),
        "FTS5 s": round(seconds, 2),
        "ingest ×": round(ours / seconds, 1),
        "index MB per MB": round(disk / text, 1),
    }
