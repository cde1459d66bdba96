"""How time, memory and recall grow with the number of notes, beside floors over the same texts and questions.

The product is used through its public interface: files as a person would leave them, then `Memory.index()`
and `Memory.search()`. Up to 20,000 notes are a file each in an attached folder; more are journal entries.
The floors are what one would write in an hour: grep, FTS5 with all words joined by OR, a matrix of the same
vectors multiplied with the question's, and tantivy where it is installed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import numpy as np

import vademecum
from bench import notes
from vademecum.index.embed.select import select_embedder
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Rows = list[dict[str, object]]

SEPARATE = 20_000  # notes up to which each is a file of its own
TOP = 10  # what the floors return
DEEP = 100  # passages from which the nearest are chosen again, for recall
WARM_UP = 5
TURN = 10  # questions a system answers before the next has its turn: warm, and noise hits all of them
STORES = 7
COLD_ROUNDS, GREPS = 5, 5
ROUNDS = 3
HYBRID, KEYWORD, VECTOR = "hybrid", "keyword", "vector"
FTS5, NUMPY, TANTIVY, GREP = "plain FTS5", "numpy dot", "tantivy", "grep"
BARE = "python -c pass"
MODES = {HYBRID: None, KEYWORD: "bm25", VECTOR: "vector"}  # None: the default, as a caller leaves it
_WORD = re.compile(r"\w+")


class Size(NamedTuple):
    """One store to measure: how many notes, how many questions, and the seed of both."""

    notes: int
    queries: int
    seed: int

    @property
    def separate(self) -> bool:
        """Whether each note is a file of its own."""
        return self.notes <= SEPARATE

    @property
    def a_day(self) -> int:
        """How many entries a journal has."""
        return max(100, self.notes // 1000)


class Spent(NamedTuple):
    """What one way of answering took and found, question by question."""

    times: list[float]
    found: list[bool]


@dataclass(slots=True)
class Measured:
    """All numbers of one size; times in seconds."""

    size: Size
    files: int = 0
    text: int = 0
    ingest: dict[str, float] = field(default_factory=dict)
    again: float = 0.0
    disk: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    load: float = 0.0  # of the machine, just after the questions: a high one makes ratios worth little
    spent: dict[str, Spent] = field(default_factory=dict)
    recall: tuple[float, float] = (0.0, 0.0)  # of the product, and of rounding the vectors alone
    lag: dict[str, float] = field(default_factory=dict)
    cold: dict[str, float] = field(default_factory=dict)


# ---------------------------------------------------------------- the texts


def write(folder: Path, size: Size) -> tuple[list[notes.Question], int]:
    """Leave the notes as a person would, and line by line for the floors; how many bytes they have, too."""
    about = notes.subjects(size.notes, size.queries, seed=size.seed)
    wanted = set(about)
    notes_by_name: dict[int, str] = {}
    length = 0
    journal: list[str] = []
    with (folder / "notes.txt").open("w", encoding="utf-8") as lines:
        for number, note in enumerate(notes.notes(size.notes, seed=size.seed)):
            lines.write(note + "\n")
            length += len(note.encode())
            if number in wanted:
                notes_by_name[number] = note
            if size.separate:
                path = folder / "files" / f"{number // 1000:03}" / f"{number:06}.md"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(as_passage(note, size) + "\n", encoding="utf-8")
                continue
            journal.append(note)
            if len(journal) == size.a_day or number == size.notes - 1:
                _write_journal(_journals(folder), number // size.a_day, journal)
                journal.clear()
    return notes.questions(about, notes_by_name, seed=size.seed), length


def as_passage(note: str, size: Size) -> str:
    """A note as it stands in its file, which is what all systems index: a file of its own has a title."""
    return f"# {' '.join(note.split()[:4])}\n\n{note}" if size.separate else note


def passages(folder: Path, size: Size) -> Iterator[str]:
    """What all systems index, note by note and never all at once."""
    with (folder / "notes.txt").open(encoding="utf-8") as lines:
        for line in lines:
            yield as_passage(line.rstrip("\n"), size)


def note_at(path: str, start: int, size: Size) -> int | None:
    """Which note stands at a line of a file; None for what is no note of ours."""
    stem = path.rpartition("/")[2].removesuffix(".md")
    if size.separate:
        return int(stem) if stem.isdigit() else None
    day, mark, number = stem.rpartition("-n")
    # The first line is a title; each entry then has four: a blank one, its time, its text, its origin.
    return int(number) * size.a_day + max(0, (start - 3) // 4) if mark and len(day) == 10 else None


def file_of(note: int, size: Size) -> str:
    """How the path of a note's file ends."""
    return f"/{note:06}.md" if size.separate else f"-n{note // size.a_day}.md"


def _write_journal(folder: Path, number: int, entries: Iterable[str]) -> None:
    day = date(2019, 1, 1) + timedelta(days=number)
    text = [f"# {day}\n"]
    for count, entry in enumerate(entries):
        at = datetime(day.year, day.month, day.day) + timedelta(seconds=80 * count)
        text.append(f"\n## {at:%Y-%m-%dT%H:%M:%SZ}\n{entry}\n<!-- origin: user -->\n")
    (folder / f"{day}-n{number}.md").write_text("".join(text), encoding="utf-8")


def open_memory(folder: Path) -> Memory:
    """The home of a measurement, made when there is none."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    # Reading a million passages takes hours, and is measured by itself (`bench reading`).
    environ = {"VADE_EMBEDDER": "static"}
    return connect(home=folder / "home", cwd=work, origin=Origin.USER, environ=environ)


@functools.cache
def _journals(folder: Path) -> Path:
    """Where journals go; asked once, while there are none, since a status reads them all."""
    project = open_memory(folder).status().project
    assert project is not None
    journals = folder / "home" / "memory" / "project" / project.id / "journal"
    journals.mkdir(parents=True, exist_ok=True)
    return journals


# ---------------------------------------------------------------- the floors


class PlainFts:
    """FTS5 as one would write it in an hour: porter, all words joined by OR."""

    def __init__(self, path: Path, texts: Iterable[str]) -> None:
        self.path = path
        self.connection = apsw.Connection(str(self.path))
        self.connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
        self.connection.execute("create virtual table notes using fts5(body, tokenize='porter unicode61')")
        with self.connection:
            self.connection.executemany("insert into notes values(?)", ((text,) for text in texts))

    def add(self, text: str) -> None:
        """Take in one more."""
        self.connection.execute("insert into notes values(?)", (text,))

    def find(self, question: str) -> list[int]:
        """The best notes."""
        return [row[0] - 1 for row in self._match(question, "rowid")]

    def find_texts(self, question: str) -> list[str]:
        """The best notes as they were written, which is what an answer needs."""
        return [row[0] for row in self._match(question, "body")]

    def checkpoint(self) -> None:
        """Bring what waits in the log into the file, or it would be counted twice."""
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _match(self, question: str, column: str) -> Iterable[tuple[Any, ...]]:
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
        if not words:
            return []  # an emoji alone, for one
        sql = f"select {column} from notes where notes match ? order by rank limit ?"
        return self.connection.execute(sql, (words, TOP))


class NumpyDot:
    """All vectors in one matrix, every one of them looked at; the question's vector is there already."""

    def __init__(self, texts: Iterable[str], count: int, questions: Sequence[notes.Question]) -> None:
        embedder = select_embedder("local")
        assert embedder is not None
        questions_vectors = embedder.embed([question.text for question in questions], query=True)
        self._asked = {question.text: row for question, row in zip(questions, questions_vectors, strict=True)}
        self.matrix: NDArray[np.float32] = np.zeros((count, questions_vectors.shape[1]), np.float32)
        waiting, at = iter(texts), 0
        while batch := list(islice(waiting, 2_000)):
            self.matrix[at : at + len(batch)] = embedder.embed(batch)
            at += len(batch)

    def find(self, question: str) -> list[int]:
        """The nearest notes."""
        scores = self.matrix @ self._asked[question]
        top = np.argpartition(scores, -TOP)[-TOP:]
        return [int(at) for at in top[np.argsort(-scores[top])]]

    def round_to_bytes(self) -> None:
        """Keep of each number what a byte can tell, in place: a second matrix may not fit."""
        for start in range(0, len(self.matrix), 10_000):
            rows = self.matrix[start : start + 10_000]
            largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9)
            rounded = np.rint(rows * (127 / largest))
            lengths = np.maximum(np.linalg.norm(rounded, axis=1, keepdims=True), 1e-9)
            self.matrix[start : start + 10_000] = rounded / lengths


class Tantivy:
    """The Rust engine with its English stemmer; any word may match."""

    def __init__(self, folder: Path, texts: Iterable[str]) -> None:
        # Not a dependency: whoever wants this floor installs it.
        tantivy: Any = importlib.import_module("tantivy")
        (folder / "tantivy").mkdir()
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("body", stored=False, tokenizer_name="en_stem")
        schema.add_unsigned_field("number", stored=True)
        self._index = tantivy.Index(schema.build(), path=str(folder / "tantivy"))
        writer = self._index.writer(heap_size=128_000_000)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(body=text, number=number))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def find(self, question: str) -> list[int]:
        """The best notes."""
        query = self._index.parse_query(" ".join(_WORD.findall(question)).lower(), ["body"])
        hits = self._searcher.search(query, TOP).hits
        return [self._searcher.doc(address)["number"][0] for _, address in hits]


def grep(folder: Path, question: str, size: Size) -> set[str]:
    """The files that hold a longer word or a number of the question; in journals every line is looked at."""
    words = "|".join(word for word in _WORD.findall(question) if len(word) > 3 or word.isdigit())
    where = str(folder / "files" if size.separate else _journals(folder))
    # `-l` leaves a file at its first match: right for a note, and no search at all for a hundred of them.
    how = "l" if size.separate else "c"
    if rg := shutil.which("rg"):
        command = [rg, f"-i{how}", "-e", words, where]
    else:
        command = ["grep", f"-ri{how}E", "-e", words, where]
    # Bytes are compared faster than letters: the floor may have that.
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    lines = done.stdout.splitlines()
    return set(lines) if size.separate else {line.rpartition(":")[0] for line in lines if line[-2:] != ":0"}


# ---------------------------------------------------------------- the measurement


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument(
        "--sizes", type=sizes, default=sizes("10k,20k,100k"), help="how many notes, as in 10k,100k,1m"
    )
    parser.add_argument("--queries", type=int, default=50, help="how many questions")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other texts")


def sizes(text: str) -> list[int]:
    """Read `10k,1m`."""
    units = {"k": 1_000, "m": 1_000_000}
    return [int(part.rstrip("km")) * units.get(part[-1:], 1) for part in text.lower().split(",")]


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Measure each size from nothing and return the tables."""
    done = []
    for count in chosen.sizes:
        size = Size(count, chosen.queries, chosen.seed)
        with tempfile.TemporaryDirectory(prefix="vade-scale-") as name:
            done.append(_measure(Path(name).resolve(), size))
    return {
        "scale, building": [_building(each) for each in done],
        "scale, questions": [row for each in done for row in _answering(each)],
        "scale, ratios": [_ratios(each) for each in done],
    }


def _measure(folder: Path, size: Size) -> Measured:
    questions, length = write(folder, size)
    # A process for each size: the peak of memory is a process's, and never falls.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        measured = pool.submit(_inside, folder, size, questions).result()
    measured.text = length
    measured.cold = _cold(folder, size, questions)
    measured.spent[GREP] = _grepping(folder, size, questions)
    return measured


def _inside(folder: Path, size: Size, questions: Sequence[notes.Question]) -> Measured:
    """All that one process measures: the product first, so that its peak of memory is its own."""
    measured = Measured(size)
    memory = open_memory(folder)
    with contextlib.closing(memory.care.searcher):
        measured.files, measured.ingest[HYBRID] = build_product(memory, folder, size)
        begun = time.perf_counter()
        memory.care.index()
        measured.again = time.perf_counter() - begun
        finders = {name: _product(memory, mode, size) for name, mode in MODES.items()}
        for find in finders.values():
            for question in questions[:WARM_UP]:
                find(question.text)
        measured.peak = _peak()
        measured.disk[HYBRID] = bytes_below(folder / "home" / "index")
        fts, dot = _add_floors(measured, folder, questions, finders)
        measured.spent = ask(finders, questions)
        measured.load = os.getloadavg()[0]
        measured.recall = _recall(memory, dot, questions, size)
        measured.lag = _lags(memory, fts, size)
        fts.connection.close()
    return measured


def build_product(memory: Memory, folder: Path, size: Size) -> tuple[int, float]:
    """Index what was written: how many files, and the seconds it took."""
    if size.separate:
        memory.sources.add(folder / "files", name="notes")
    begun = time.perf_counter()
    report = memory.care.index()
    seconds = time.perf_counter() - begun
    assert not report.findings, report.findings[0]
    return report.files, seconds


def build_floor(folder: Path, size: Size) -> tuple[PlainFts, float]:
    """FTS5 over the same, open, and the seconds it took."""
    builds: dict[str, float] = {}
    for round_ in range(ROUNDS):  # the best counts: it is short, and one moment of noise would double it
        with _timed(builds, str(round_)):
            fts = PlainFts(folder / f"plain-{round_}.db", passages(folder, size))
        if round_ < ROUNDS - 1:
            fts.connection.close()
    return fts, min(builds.values())


def _product(memory: Memory, mode: str | None, size: Size) -> Callable[[str], list[int]]:
    def find(question: str) -> list[int]:
        answer = memory.search(question, mode=mode)
        assert not answer.degraded, answer.degraded
        found = (note_at(each.path, each.start, size) for each in answer.results)
        return [note for note in found if note is not None]

    return find


def _add_floors(
    measured: Measured,
    folder: Path,
    questions: Sequence[notes.Question],
    finders: dict[str, Callable[[str], list[int]]],
) -> tuple[PlainFts, NumpyDot]:
    size = measured.size
    fts, measured.ingest[FTS5] = build_floor(folder, size)
    fts.checkpoint()
    measured.disk[FTS5] = bytes_below(folder, f"{fts.path.name}*")
    with _timed(measured.ingest, NUMPY):
        dot = NumpyDot(passages(folder, size), size.notes, questions)
    finders |= {FTS5: fts.find, NUMPY: dot.find}
    with contextlib.suppress(ImportError), _timed(measured.ingest, TANTIVY):
        finders[TANTIVY] = Tantivy(folder, passages(folder, size)).find
    return fts, dot


def ask(
    finders: Mapping[str, Callable[[str], Collection[object]]], questions: Sequence[notes.Question]
) -> dict[str, Spent]:
    """Ask everyone everything, several times, and keep of each question the best time.

    What else the machine does adds milliseconds, which are nothing to a slow system and many times the whole
    of a fast one: a single round on a busy machine made the floors ten times slower and us look better.
    """
    spent = {name: Spent([float("inf")] * len(questions), []) for name in finders}
    for find in finders.values():  # once unmeasured, for those who were not asked before
        find(questions[0].text)
    for round_ in range(ROUNDS):
        for start in range(0, len(questions), TURN):
            for name, find in finders.items():
                for number, question in islice(enumerate(questions), start, start + TURN):
                    begun = time.perf_counter()
                    found = find(question.text)
                    seconds = time.perf_counter() - begun
                    spent[name].times[number] = min(spent[name].times[number], seconds)
                    if round_ == 0 and question.note is not None:
                        spent[name].found.append(question.note in found)
    return spent


def _recall(
    memory: Memory, dot: NumpyDot, questions: Sequence[notes.Question], size: Size
) -> tuple[float, float]:
    """How many of the ten nearest notes the vector mode has among its ten nearest, and rounding alone would.

    A large store may be searched by half of the dimensions first, and vectors are kept in a byte a dimension.
    The truth is the same embedder's whole vectors of the same passages, made here from the texts and not
    read from the index: its tables are nobody's interface. The order of an answer is more than nearness (a
    file does not fill the page), so more is asked for and the nearest of it are taken.
    """
    truth = [set(dot.find(question.text)) for question in questions]
    found = []
    for question in questions:
        answer = memory.search(question.text, mode="vector", max_results=DEEP, max_weak=DEEP)
        near = sorted(answer.results, key=lambda each: -each.components["vector"])[:TOP]
        found.append({note_at(each.path, each.start, size) for each in near})
    dot.round_to_bytes()
    rounded = [set(dot.find(question.text)) for question in questions]
    whole = sum(map(len, truth))
    return (
        sum(len(right & each) for right, each in zip(truth, found, strict=True)) / whole,
        sum(len(right & each) for right, each in zip(truth, rounded, strict=True)) / whole,
    )


def _lags(memory: Memory, fts: PlainFts, size: Size) -> dict[str, float]:
    """From the call that keeps a note to the answer that has it."""
    lags: dict[str, list[float]] = {HYBRID: [], FTS5: []}
    fresh = islice(notes.notes(size.notes + STORES + 1, seed=size.seed + 1), size.notes % 1000, None)
    # The first is not counted: a home without records has everything to make.
    for number, text in enumerate(islice(fresh, STORES + 1)):
        word = f"quokka{number}x{size.seed}"
        begun = time.perf_counter()
        memory.store(f"{text} {word}")
        while not any(word in each.snippet for each in memory.search(word).results):
            assert time.perf_counter() - begun < 60, f"{word} is never found"
        lags[HYBRID].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        fts.add(f"{text} {word}")
        assert fts.find(word)
        lags[FTS5].append(time.perf_counter() - begun)
    return {name: statistics.median(times[1:]) for name, times in lags.items()}


def _cold(folder: Path, size: Size, questions: Sequence[notes.Question]) -> dict[str, float]:
    """What a command takes from nothing; each must show the right note, or a crash would pass for speed."""
    vade = [str(Path(sys.executable).with_name("vade")), "search", "--home", str(folder / "home")]
    commands = {BARE: [sys.executable, "-c", "pass"], KEYWORD: [*vade, "--mode", "bm25"], HYBRID: vade}
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("VADE_") and key != "PYTHONDONTWRITEBYTECODE"
    }
    # The package that was measured so far, and not another that the command would find from its own folder.
    environment["PYTHONPATH"] = str(Path(vademecum.__file__).resolve().parents[1])
    answered = [each for each in questions if each.note is not None]
    times: dict[str, list[float]] = {name: [] for name in commands}
    measured: dict[str, list[bool]] = {KEYWORD: [], HYBRID: []}
    for round_ in range(COLD_ROUNDS + 1):  # in turn, and the first is to warm up
        question = answered[round_ % len(answered)]
        assert question.note is not None
        for name, command in commands.items():
            words = command if name == BARE else [*command, question.text]
            begun = time.perf_counter()
            done = subprocess.run(
                words, env=environment, cwd=folder / "work", capture_output=True, text=True, check=False
            )
            times[name].append(time.perf_counter() - begun)
            assert done.returncode == 0, done.stderr
            if name != BARE:
                measured[name].append(file_of(question.note, size) in "".join(done.stdout.split()))
    for name, right in measured.items():
        assert sum(right) > len(right) / 2, f"vade search ({name}) showed the right note in {right}"
    return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}


def _grepping(folder: Path, size: Size, questions: Sequence[notes.Question]) -> Spent:
    """A few questions: reading everything takes the same time for each."""
    spent = Spent([], [])
    for question in questions[:GREPS]:
        begun = time.perf_counter()
        found = grep(folder, question.text, size)
        spent.times.append(time.perf_counter() - begun)
        if question.note is not None:
            name = file_of(question.note, size)
            spent.found.append(any(path.endswith(name) for path in found))
    return spent


@contextlib.contextmanager
def _timed(into: dict[str, float], name: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    into[name] = time.perf_counter() - begun


def _peak() -> int:
    """The most memory this process has had, in bytes."""
    # What `getrusage` says begins, on Linux, with the size of the process that started this one.
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def bytes_below(folder: Path, pattern: str = "**/*") -> int:
    """How much the files of a folder hold."""
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


# ---------------------------------------------------------------- the tables


def _building(each: Measured) -> dict[str, object]:
    ours, fts = each.ingest[HYBRID], each.ingest[FTS5]
    megabytes = each.text / 1e6
    return {
        "notes": each.size.notes,
        "files": each.files,
        "text MB": round(megabytes, 1),
        "index s": round(ours, 2),
        "notes/s": round(each.size.notes / ours),
        "unchanged s": round(each.again, 3),
        "FTS5 s": round(fts, 2),
        "embed s": round(each.ingest[NUMPY], 2),
        "tantivy s": round(each.ingest[TANTIVY], 2) if TANTIVY in each.ingest else "",
        "index / FTS5": round(ours / fts, 1),
        "peak MB": round(each.peak / 1e6),
        "index MB per MB": round(each.disk[HYBRID] / 1e6 / megabytes, 2),
        "FTS5 MB per MB": round(each.disk[FTS5] / 1e6 / megabytes, 2),
    }


def _answering(each: Measured) -> Rows:
    return [
        {
            "notes": each.size.notes,
            "system": name,
            "p50 ms": round(_p50(spent) * 1000, 2),
            "p95 ms": round(sorted(spent.times)[len(spent.times) * 95 // 100] * 1000, 2),
            "right note found": f"{sum(spent.found)}/{len(spent.found)}",
        }
        for name, spent in each.spent.items()
    ]


def _ratios(each: Measured) -> dict[str, object]:
    hybrid, keyword, fts, dot = (_p50(each.spent[name]) for name in (HYBRID, KEYWORD, FTS5, NUMPY))
    return {
        "notes": each.size.notes,
        "load": round(each.load, 1),
        "hybrid / numpy": round(hybrid / dot, 2),
        "hybrid / FTS5": round(hybrid / fts, 2),
        "keyword / FTS5": round(keyword / fts, 2),
        "index / FTS5": round(each.ingest[HYBRID] / each.ingest[FTS5], 1),
        "vector recall@10": round(each.recall[0], 3),
        "rounding alone": round(each.recall[1], 3),
        "store to found ms": round(each.lag[HYBRID] * 1000, 1),
        "FTS5 ms": round(each.lag[FTS5] * 1000, 1),
        "cold keyword ms": round(each.cold[KEYWORD] * 1000),
        "x bare": round(each.cold[KEYWORD] / each.cold[BARE], 1),
        "cold hybrid ms": round(each.cold[HYBRID] * 1000),
        "x bare python": round(each.cold[HYBRID] / each.cold[BARE], 1),
    }


def _p50(spent: Spent) -> float:
    return statistics.median(spent.times)
