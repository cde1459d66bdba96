"""What reading costs: the time for a home of short notes on one core, and a question beside plain FTS5.

The notes are generated (`bench.notes`), short as people leave them. Everything goes through `Memory`:
`vade index` reads, and questions are asked as a user asks them, some with a strong match by words and some
that have to be read.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from bench import notes, scale
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from vademecum.memory import Memory

    Rows = list[dict[str, object]]

ROUNDS = 5
WHOLE = 10_000  # notes, for which the time is told


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--size", type=int, default=2_000, help="how many notes")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Fill a home, have it read, and ask."""
    texts = list(notes.notes(chosen.size, seed=3))
    with tempfile.TemporaryDirectory(prefix="vade-reading-") as name:
        folder = Path(name).resolve()
        (folder / "work").mkdir()
        memory = connect(home=folder / "home", cwd=folder / "work", origin=Origin.USER, environ={})
        records = folder / "home" / "memory" / "global" / "records"
        records.mkdir(parents=True)
        for at, text in enumerate(texts):
            front = f"---\ntype: project\nkey: n-{at}\ncreated: 2026-01-01T00:00:00Z\n---\n# n-{at}\n\n"
            (records / f"n-{at}.md").write_text(f"{front}## 2026-01-01T00:00:00Z\n{text}\n")
        memory.search("anything", mode="bm25")
        memory.care.searcher.sync()
        begun = time.process_time()
        assert memory.care.index().unread == 0
        seconds = time.process_time() - begun
        floor = scale.PlainFts(folder / "plain.db", texts)
        with closing(memory.care.searcher), closing(floor.connection):
            rows = [_time_questions(memory, floor, texts, read) for read in (False, True)]
    reading: dict[str, object] = {
        "notes": len(texts),
        "words a note": round(statistics.mean(len(text.split()) for text in texts), 1),
        "seconds of one core": round(seconds, 1),
        f"minutes for {WHOLE:,}": round(seconds / len(texts) * WHOLE / 60, 2),
        "load": round(os.getloadavg()[0], 1),
    }
    return {"reading": [reading], "a warm question beside plain FTS5": rows}


def _time_questions(memory: Memory, floor: scale.PlainFts, texts: list[str], read: bool) -> dict[str, object]:
    """Questions that are read, or that have a strong match without it, each beside the floor."""
    own, theirs = [], []
    for text in texts[:: max(1, len(texts) // 200)]:
        words = text.split()
        question = f"who told somebody about {words[2]} yesterday evening" if read else " ".join(words[1:8])
        answer = memory.search(question, explain=True)
        was_read = any((each.arithmetic or {}).get("by_reading") for each in answer.results)
        if was_read is not read:
            continue
        own.append(_fastest(memory.search, question))
        theirs.append(_fastest(floor.find_texts, question))
    return {
        "questions": "read" if read else "not read",
        "n": len(own),
        "median ms": round(statistics.median(own) * 1000, 2),
        "plain FTS5 ms": round(statistics.median(theirs) * 1000, 2),
        "ratio": round(statistics.median(own) / statistics.median(theirs), 1),
    }


def _fastest(ask: Callable[[str], object], question: str) -> float:
    """The seconds of the fastest of some rounds."""
    spent = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        ask(question)
        spent.append(time.perf_counter() - begun)
    return min(spent)
