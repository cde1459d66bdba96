"""How well and how fast questions are answered, on public data, beside plain FTS5 and a count of words.

First comes what a user has: the settings' defaults, but for `max_results`, which is what the measure needs.
The same with `min_score` 0 stands beside it. `pooled` is LongMemEval with all sessions in one home.

`--mcp` also asks an agent's way, with `memory_search` of `vade mcp`, and adds a table of sizes.

Everything goes through the public interface: files are written as a person or an agent would leave them, then
`Memory.index()`, then `Memory.search()`. Ids and marks of gold never reach a file; they are joined again to
what was found by its path and lines.
"""

from __future__ import annotations

import functools
import json
import lzma
import re
import statistics
import tarfile
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from bench import mcp, scoring
from bench.scoring import Ranked
from vademecum.memory import Memory, connect
from vademecum.text.document import escape
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.search.base import Passage

DEEP = 30  # passages asked for, of every system: ten sessions need more than ten passages
WARM = "what did we say about it the other day?"  # asked of every store first, and not counted
MODES = ("hybrid", "bm25", "vector")
_WORD = re.compile(r"\w+")


class Document(NamedTuple):
    """A session or an abstract; `id` and `turn_ids` are for scoring alone."""

    id: str
    title: str
    when: datetime | None
    turns: Sequence[str]
    turn_ids: Sequence[str]


class Question(NamedTuple):
    """What is asked, and where the answer stands."""

    id: str
    text: str
    documents: dict[str, int]
    turns: frozenset[str] = frozenset()


class Case(NamedTuple):
    """One store with its questions."""

    documents: Sequence[Document]
    questions: Sequence[Question]


# ---------------------------------------------------------------- the sets


def longmemeval(path: Path) -> Iterator[Case]:
    """The official file, plain or `.xz`; each question has a haystack of its own."""
    for each in _haystacks(path):
        if not each["question_id"].endswith("_abs"):
            yield Case(list(_sessions(each).values()), [_read_question(each)])


def pooled(path: Path, haystacks: int = 1 << 30) -> Iterator[Case]:
    """The same, with every session of so many haystacks once in one store, asked all their questions."""
    every = _haystacks(path)
    for start in range(0, len(every), haystacks):
        documents: dict[str, Document] = {}
        questions: list[Question] = []
        for each in every[start : start + haystacks]:
            # What a question without an answer brings stays as a rival; it has nothing to score itself.
            for id_, session in _sessions(each).items():
                documents.setdefault(id_, session)
            if not each["question_id"].endswith("_abs"):
                questions.append(_read_question(each))
        if questions:
            yield Case(list(documents.values()), questions)


def _haystacks(path: Path) -> list[dict[str, Any]]:
    path = path / "longmemeval/longmemeval_s_dev.json.xz" if path.is_dir() else path
    found: list[dict[str, Any]] = json.loads(
        lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    )
    return found


def _sessions(each: dict[str, Any]) -> dict[str, Document]:
    """The sessions of one haystack by their ids, of which some repeat."""
    documents: dict[str, Document] = {}
    columns = (each["haystack_session_ids"], each["haystack_dates"], each["haystack_sessions"])
    for id_, date, session in zip(*columns, strict=True):
        if id_ not in documents:
            when = datetime.strptime(re.sub(r" \(\w+\)", "", date), "%Y/%m/%d %H:%M")
            turns = [f"{said['role']}: {said['content']}" for said in session]
            documents[id_] = Document(id_, "", when, turns, [f"{id_}/{n}" for n in range(len(session))])
    return documents


def _read_question(each: dict[str, Any]) -> Question:
    """The question of a haystack, with the turns that are marked in it: no other haystack marks them."""
    gold = {
        f"{id_}/{number}"
        for id_, session in zip(each["haystack_session_ids"], each["haystack_sessions"], strict=True)
        for number, said in enumerate(session)
        if said.get("has_answer")
    }
    answers = dict.fromkeys(each["answer_session_ids"], 1)
    return Question(each["question_id"], each["question"], answers, frozenset(gold))


def locomo(path: Path) -> Iterator[Case]:
    """Ten conversations; categories 1 to 4 of the questions, those that have evidence."""
    path = path / "locomo/locomo10_evidence_fixed.json" if path.is_dir() else path
    for number, each in enumerate(json.loads(path.read_bytes())):
        conversation = each["conversation"]
        sessions = sorted(
            int(name[8:])
            for name in conversation
            if re.fullmatch(r"session_\d+", name) and conversation[name]
        )
        documents = []
        for session in sessions:
            turns = conversation[f"session_{session}"]
            when = datetime.strptime(conversation[f"session_{session}_date_time"], "%I:%M %p on %d %B, %Y")
            texts = [_with_picture(turn) for turn in turns]
            documents.append(Document(f"D{session}", "", when, texts, [turn["dia_id"] for turn in turns]))
        known = {turn for document in documents for turn in document.turn_ids}
        questions = []
        for place, asked in enumerate(each["qa"]):
            gold = known.intersection(asked["evidence"])
            if asked["category"] in (1, 2, 3, 4) and gold:
                answers = dict.fromkeys((turn.partition(":")[0] for turn in sorted(gold)), 1)
                questions.append(Question(f"{number}/{place}", asked["question"], answers, frozenset(gold)))
        yield Case(documents, questions)


def scifact(path: Path) -> Iterator[Case]:
    """One store of abstracts, from the archive or the folder it unpacks to."""
    path = path / "scifact.tar.xz" if (path / "scifact.tar.xz").is_file() else path
    if path.is_file():
        with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
            yield _scifact(next(Path(folder).rglob("corpus.jsonl")).parent)
    else:
        yield _scifact(path)


def _scifact(folder: Path) -> Case:
    documents = [
        Document(each["_id"], each["title"], None, [each["text"]], [each["_id"]])
        for each in _lines(folder / "corpus.jsonl")
    ]
    gold: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        question, document, gain = line.split()
        gold.setdefault(question, {})[document] = int(gain)
    queries = [each for each in _lines(folder / "queries.jsonl") if each["_id"] in gold]
    return Case(documents, [Question(each["_id"], each["text"], gold[each["_id"]]) for each in queries])


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _with_picture(turn: dict[str, str]) -> str:
    picture = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{picture}"


SETS: dict[str, tuple[Callable[[Path], Iterator[Case]], Callable[[Sequence[Ranked]], dict[str, object]]]] = {
    "longmemeval": (longmemeval, scoring.longmemeval),
    "pooled": (pooled, scoring.longmemeval),
    "locomo": (locomo, scoring.locomo),
    "scifact": (scifact, scoring.scifact),
}


# ---------------------------------------------------------------- who answers


@dataclass(slots=True)
class System:
    """What one way of answering found, and what it took; `how` is what a search is told besides."""

    name: str
    how: dict[str, Any] = field(default_factory=dict)
    ingest: float = 0.0
    answers: list[Ranked] = field(default_factory=list)

    def ask(self, question: Question, find: Callable[[str], tuple[list[str], list[str], float]]) -> None:
        """Put a question and keep the answer."""
        documents, turns, seconds = find(question.text)
        gold = question.documents, question.turns
        self.answers.append(Ranked(question.id, documents, turns, *gold, seconds))


class Product:
    """Vademecum over files: sessions as journals, abstracts as an attached folder."""

    def __init__(
        self,
        folder: Path,
        documents: Sequence[Document],
        *,
        environ: dict[str, str] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        work = folder / "work"
        work.mkdir()
        # Unread: reading all that these sets say would take hours.
        self.environ = environ or {"VADE_EMBEDDER": "static"}
        self.memory: Memory = connect(
            home=folder / "home",
            cwd=work,
            origin=Origin.USER,
            environ=self.environ,
            now=now or (lambda: datetime.now(UTC)),
        )
        self._files: dict[str, tuple[Document, list[int]]] = {}
        dated = [each for each in documents if each.when is not None]
        plain = [each for each in documents if each.when is None]
        if dated:
            self._write_journals(dated)
        if plain:
            self._write_source(plain, folder / "abstracts")
        begun = time.perf_counter()
        report = self.memory.care.index()
        self.ingest = time.perf_counter() - begun
        assert not report.findings, report.findings

    def _write_journals(self, documents: Sequence[Document]) -> None:
        project = self.memory.status().project
        assert project is not None
        journal = self.memory.home.path / "memory" / "project" / project.id / "journal"
        journal.mkdir(parents=True)
        for number, each in enumerate(documents):
            assert each.when is not None
            text, starts = f"# {each.when:%Y-%m-%d}\n", []
            for turn in each.turns:
                text += "\n"
                starts.append(text.count("\n") + 1)
                text += f"## {each.when:%Y-%m-%dT%H:%M:%SZ}\n{escape(turn)}\n<!-- origin: user -->\n"
            name = f"{each.when:%Y-%m-%d}-s{number:03}.md"
            (journal / name).write_text(text, newline="")
            self._files[f"memory/project/{project.id}/journal/{name}"] = each, starts

    def _write_source(self, documents: Sequence[Document], folder: Path) -> None:
        folder.mkdir()
        for number, each in enumerate(documents):
            path = folder / f"{number:06}.md"
            path.write_text(f"# {each.title}\n\n" + "\n\n".join(each.turns) + "\n")
            self._files[str(path.resolve())] = each, [1]
        self.memory.sources.add(folder, name="abstracts")

    def find(self, question: str, **how: Any) -> tuple[list[str], list[str], float]:
        begun = time.perf_counter()
        answer = self.memory.search(question, max_results=DEEP, **how)
        seconds = time.perf_counter() - begun
        return *self.named([(each.path, each.end) for each in answer.results]), seconds

    def named(self, places: Iterable[tuple[str, int]]) -> tuple[list[str], list[str]]:
        """The documents and the turns of places, each a path and a last line; each once, in their order."""
        documents: dict[str, None] = {}
        turns: dict[str, None] = {}
        for path, line in places:
            documents[self._files[path][0].id] = None
            turns[self.turn_at(path, line)] = None
        return list(documents), list(turns)

    def turn(self, passage: Passage) -> str:
        """Which turn a passage is of."""
        return self.turn_at(passage.path, passage.end)

    def turn_at(self, path: str, line: int) -> str:
        """Which turn a line is of."""
        document, starts = self._files[path]
        return document.turn_ids[max(0, bisect_right(starts, line) - 1)]


class PlainFts:
    """FTS5 as one would write it in an hour: a row a turn, porter, all words joined by OR."""

    def __init__(self, folder: Path, documents: Sequence[Document]) -> None:
        self.connection = apsw.Connection(str(folder / "plain.db"))
        self.connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
        self._turns = [turn for each in documents for turn in each.turn_ids]
        self._documents = [each.id for each in documents]
        rows = [f"{head(each)}\n{turn}" for each in documents for turn in each.turns]
        wholes = ["\n".join([head(each), *each.turns]) for each in documents]
        begun = time.perf_counter()
        self._fill("turns", rows)
        # Sessions as rows rank sessions better than the best of their turns does: the floor has both.
        if wholes != rows:
            self._fill("documents", wholes)
        self.ingest = time.perf_counter() - begun
        self._both = wholes != rows

    def _fill(self, table: str, rows: Iterable[str]) -> None:
        self.connection.execute(f"create virtual table {table} using fts5(body, tokenize='porter unicode61')")
        with self.connection:
            self.connection.executemany(f"insert into {table} values(?)", [(row,) for row in rows])

    def find(self, question: str) -> tuple[list[str], list[str], float]:
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
        begun = time.perf_counter()
        turns = self._match("turns", words)
        documents = self._match("documents", words) if self._both else turns
        seconds = time.perf_counter() - begun
        return [self._documents[at] for at in documents], [self._turns[at] for at in turns], seconds

    def _match(self, table: str, words: str) -> list[int]:
        # With the text, since an answer without it is none.
        sql = f"select rowid, body from {table} where {table} match ? order by rank limit ?"
        return [row[0] - 1 for row in self.connection.execute(sql, (words, DEEP))]


class WordCount:
    """What grep can tell: how many of the words stand there, then how often."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._turns = [
            (turn_id, each.id, Counter(_WORD.findall(f"{head(each)} {turn}".lower())))
            for each in documents
            for turn_id, turn in zip(each.turn_ids, each.turns, strict=True)
        ]
        self._documents: dict[str, Counter[str]] = {}
        for _, id_, counts in self._turns:
            self._documents.setdefault(id_, Counter()).update(counts)

    def find(self, question: str) -> tuple[list[str], list[str], float]:
        begun = time.perf_counter()
        words = set(_WORD.findall(question.lower()))
        turns = _most({turn: counts for turn, _, counts in self._turns}, words)
        seconds = time.perf_counter() - begun
        return _most(self._documents, words), turns, seconds


def head(document: Document) -> str:
    """What stands above a document: its title, or its day as one would ask for it."""
    return document.title if document.when is None else f"{document.when:%Y-%m-%d %A %d %B %Y}"


def _most(texts: dict[str, Counter[str]], words: set[str]) -> list[str]:
    def held(id_: str) -> tuple[int, int]:
        counts = [texts[id_][word] for word in words if word in texts[id_]]
        return len(counts), sum(counts)

    return sorted(texts, key=held, reverse=True)[:DEEP]


# ---------------------------------------------------------------- the measurement


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("set", choices=sorted(SETS), help="which questions")
    parser.add_argument("--data", type=Path, required=True, help="the file of the set, or the folder of all")
    parser.add_argument("--limit", type=int, help="only so many questions")
    parser.add_argument("--out", type=Path, help="write the default's rankings to this file, one JSON a line")
    parser.add_argument("--mode", choices=MODES, action="append", help="the default and bm25 when left out")
    parser.add_argument("--mcp", action="store_true", help="ask through MCP as well")


def systems(modes: Sequence[str] | None) -> list[System]:
    """Every mode as a user has it, and beside it without a lower limit; the default mode needs no word."""
    found = []
    for mode in modes or ("hybrid", "bm25"):
        how = {} if mode == "hybrid" else {"mode": mode}
        name = f"mode={mode}" if how else "defaults"
        found.append(System(name, how))
        found.append(System(f"mode={mode}, min_score=0" if how else "min_score=0", {**how, "min_score": 0.0}))
    return found


def measure(chosen: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    """Ask every question of a set and score the answers."""
    load, score = SETS[chosen.set]
    ours = systems(chosen.mode)
    plain = System("plain FTS5")
    # A count of the words of 66 MB would take the memory of the machine.
    count = None if chosen.set == "pooled" else System("word count")
    agent = Agent() if chosen.mcp else None
    left = chosen.limit if chosen.limit is not None else 1 << 30
    for case in load(chosen.data):
        questions = case.questions[:left]
        left -= len(questions)
        if questions:
            _run(case.documents, questions, ours, plain, count=count, agent=agent)
    if chosen.out is not None:
        _write(chosen.out, ours[0])
    more = [*([] if agent is None else [agent.system]), plain, *([] if count is None else [count])]
    title = f"retrieval {chosen.set}, max_results {DEEP} and all else as said"
    tables = {title: [_row(system, score, plain) for system in (*ours, *more)]}
    return tables if agent is None else {**tables, "the largest store": [agent.sizes]}


class Agent:
    """Whoever asks through MCP, and what the largest store and the process that answered took."""

    def __init__(self) -> None:
        self.system = System("defaults, through MCP")
        self.sizes: dict[str, object] = {"text MB": 0.0}

    def ask(self, product: Product, questions: Sequence[Question], plain: Path, text: int) -> None:
        """Ask all questions of a store, one after the other."""
        folder = product.memory.home.path.parent / "work"
        self.system.ingest += product.ingest
        with mcp.serve(product.memory.home.path, folder, product.environ) as process:
            talk = mcp.Talk(process)
            find = functools.partial(self._find, product, talk)
            find(WARM)
            for question in questions:
                self.system.ask(question, find)
            peak = Path(f"/proc/{process.pid}/status").read_text()
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        if text / 1e6 > float(str(self.sizes["text MB"])):
            index = sum(each.stat().st_size for each in (product.memory.home.path / "index").iterdir())
            self.sizes = {
                "text MB": round(text / 1e6, 1),
                "files of the index, MB": round(index / 1e6, 1),
                "plain FTS5, MB": round(plain.stat().st_size / 1e6, 1),
                "memory of `vade mcp` at most, MB": int(peak.split("VmHWM:")[1].split()[0]) // 1000,
            }

    def _find(self, product: Product, talk: mcp.Talk, question: str) -> tuple[list[str], list[str], float]:
        begun = time.perf_counter()
        found = talk.call("memory_search", query=question, limit=DEEP)["structuredContent"]["results"]
        seconds = time.perf_counter() - begun
        return *product.named([(each["path"], each["endLine"]) for each in found]), seconds


def _run(
    documents: Sequence[Document],
    questions: Sequence[Question],
    ours: Sequence[System],
    plain: System,
    *,
    count: System | None,
    agent: Agent | None,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        floor = PlainFts(folder, documents)
        grep = None if count is None else WordCount(documents)
        product = Product(folder, documents)
        with closing(floor.connection), closing(product.memory.care.searcher):
            plain.ingest += floor.ingest
            floor.find(WARM)
            for system in ours:
                system.ingest += product.ingest
                product.find(WARM, **system.how)
            for question in questions:  # in turn, so that a noisy moment hits all of them
                plain.ask(question, floor.find)
                if count is not None and grep is not None:
                    count.ask(question, grep.find)
                for system in ours:
                    system.ask(question, functools.partial(product.find, **system.how))
        if agent is not None:
            text = sum(len(turn.encode()) for each in documents for turn in each.turns)
            agent.ask(product, questions, folder / "plain.db", text)


def _row(
    system: System, score: Callable[[Sequence[Ranked]], dict[str, object]], floor: System
) -> dict[str, object]:
    times = sorted(each.seconds * 1000 for each in system.answers)
    usual = statistics.median(each.seconds * 1000 for each in floor.answers)
    return {
        "system": system.name,
        **score(system.answers),
        "ingest s": round(system.ingest, 2),
        "query p50 ms": round(statistics.median(times), 2) if times else 0.0,
        "query p95 ms": round(times[len(times) * 95 // 100], 2) if times else 0.0,
        "ingest ×": round(system.ingest / floor.ingest, 1),
        "query ×": round(statistics.median(times) / usual, 1),
    }


def _write(path: Path, system: System) -> None:
    with path.open("w", encoding="utf-8") as file:
        for each in system.answers:
            line = {
                "question_id": each.question,
                "sessions": list(each.documents),
                "turns": list(each.turns),
                "ms": round(each.seconds * 1000, 3),
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
