"""How often a default search shows the evidence, for each shape in which people's text lies.

One table: sessions as journals, as files of an attached folder, as imported conversations, and half as
journals and half imported; abstracts in an attached folder; real coding sessions; records of our own;
conversations of our own. Each row has the product as a user asks it, the same with more results, and two
floors: plain FTS5 over turns, and over whole files or sessions. A second table has the characters of default
answers. `--sample` takes so many questions of each set, evenly spread, so that all of it runs in minutes.
Sessions and journals are not read by the reader model, as right after an import; records are.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import apsw

from bench import own, realistic, retrieval, scoring, small_sets
from bench.retrieval import Document, PlainFts, Product, Question, head
from bench.small_sets import FOLDER
from vademecum.agents import registry
from vademecum.interfaces.present.to_text import show_answer
from vademecum.interfaces.present.tool_json import search_answer
from vademecum.memory import connect
from vademecum.search.session_index import searchable_text
from vademecum.transcripts import MessageEvent, Role
from vademecum.transcripts.importing import import_files
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.memory import Memory
    from vademecum.search.base import Answer, Passage

    Rows = list[dict[str, object]]

_Thing = TypeVar("_Thing")
SHAPES = ("journal", "folder", "sessions", "mixed", "abstracts", "coding", "records", "own")
DEFAULTS, MORE, TURNS, WHOLE = "defaults", "60 results", "FTS5 turns", "FTS5 whole files"
SYSTEMS = (DEFAULTS, MORE, TURNS, WHOLE)
MANY = 60
_WORD = re.compile(r"\w+")


class Measured(NamedTuple):
    """A measure over some questions: for each system, whether or how far each question was answered."""

    shape: str
    set: str
    measure: str
    shares: dict[str, list[float]]
    sizes: Sequence[tuple[int, int]] = ()  # characters of each default answer, as text and through MCP


# ---------------------------------------------------------------- conversations in three shapes


class Folder(Product):
    """A file for each session, in an attached folder; each turn is a paragraph that names its speaker."""

    def _write_journals(self, documents: Sequence[Document]) -> None:
        folder = self.memory.home.path.parent / "notes"
        folder.mkdir()
        for number, each in enumerate(documents):
            text, starts = f"# {head(each)}\n", []
            for turn in each.turns:
                text += "\n"
                starts.append(text.count("\n") + 1)
                text += f"{turn.strip()}\n"
            path = folder / f"{number:06}.md"
            path.write_text(text, newline="")
            self._files[str(path.resolve())] = each, starts
        self.memory.sources.add(folder, name="notes")


class Imported(Product):
    """The sessions as Claude Code leaves them, imported."""

    def _write_journals(self, documents: Sequence[Document]) -> None:
        top = self.memory.home.path.parent
        logs = top / "logs"
        logs.mkdir()
        for number, each in enumerate(documents):
            assert each.when is not None
            lines = [_message(number, at, each, top / "work") for at in range(len(each.turns))]
            (logs / f"{number:06}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        for (session, project), each in zip(_import(self.memory, logs), documents, strict=True):
            log = self.memory.sessions.open(session)
            starts = [line.number for line in log.lines() if isinstance(line.event, MessageEvent)]
            self._files[f"transcripts/{project}/{session}.jsonl"] = each, starts


class Mixed(Imported):
    """Every other session as a journal, the others imported."""

    def _write_journals(self, documents: Sequence[Document]) -> None:
        Product._write_journals(self, documents[::2])
        super()._write_journals(documents[1::2])


def _message(number: int, at: int, document: Document, folder: Path) -> dict[str, object]:
    assert document.when is not None
    said = document.turns[at]
    role = "assistant" if said.startswith("assistant: ") else "user"
    text = said.removeprefix(f"{role}: ")  # people with names keep them: their session knows a user alone
    content: object = [{"type": "text", "text": text}] if role == "assistant" else text
    return {
        "type": role,
        "uuid": f"{number}-{at}",
        "sessionId": f"session-{number}",
        "timestamp": f"{document.when:%Y-%m-%dT%H:%M}:{at % 60:02}Z",
        "cwd": str(folder),
        "message": {"role": role, "content": content},
    }


def _import(memory: Memory, folder: Path) -> list[tuple[str, str]]:
    """Import the transcripts of a folder; return session and project of each file, in the files' order."""
    found = registry.find_transcripts_in(folder, without=memory.home.path)
    done = import_files(
        found, home=memory.home, caller=memory.caller, progress=None, now=memory.workspace.now
    )
    every = sorted(done, key=lambda each: each.path)
    assert all(each.outcome != "failed" for each in every), every
    return [(each.session, each.project) for each in every if each.session]


SHAPED: dict[str, type[Product]] = {
    "journal": Product,
    "folder": Folder,
    "sessions": Imported,
    "mixed": Mixed,
}
UNMIXED = ("journal", "folder", "sessions")


def conversations(shape: str, data: Path, sample: int) -> Iterator[Measured]:
    """LongMemEval and LoCoMo in one shape."""
    answers = _ask_cases(SHAPED[shape], _sampled(retrieval.longmemeval(data), sample))
    sizes = [each.size for each in answers[DEFAULTS]]
    for what, measure in (
        ("sessions within 5", _all_documents),
        ("turns within 5", _all_turns),
        ("turns shown, with those beside the hits", _all_shown),
    ):
        own = sizes if measure is _all_shown else ()
        yield Measured(shape, "LongMemEval", f"all {what}", _scored(answers, measure), own)
    answers = _ask_cases(SHAPED[shape], _sampled(retrieval.locomo(data), sample))
    yield Measured(shape, "LoCoMo", "turn recall@10", _scored(answers, _turn_recall))


def abstracts(data: Path, sample: int) -> Iterator[Measured]:
    """SciFact: abstracts in an attached folder."""
    answers = _ask_cases(Product, _sampled(retrieval.scifact(data), sample))
    yield Measured("abstracts", "SciFact", "ndcg@10", _scored(answers, _ndcg))


def _sampled(cases: Iterable[retrieval.Case], sample: int) -> list[retrieval.Case]:
    """Return the cases with so many questions in all, evenly spread over all questions."""
    every = list(cases)
    wanted = {each.id for each in _spread([each for case in every for each in case.questions], sample)}
    kept = [[each for each in case.questions if each.id in wanted] for case in every]
    return [case._replace(questions=some) for case, some in zip(every, kept, strict=True) if some]


def _spread(things: Sequence[_Thing], most: int) -> list[_Thing]:
    """Return at most so many things, evenly spread."""
    step = max(1.0, len(things) / most)
    return [things[int(step * at)] for at in range(min(most, len(things)))]


class _Answer(NamedTuple):
    question: Question
    documents: Sequence[str]
    turns: Sequence[str] | None  # None from a floor that knows whole files alone
    beside: frozenset[str] = frozenset()  # turns that are shown beside the hits
    size: tuple[int, int] = (0, 0)  # characters as text and through MCP


def _ask_cases(kind: type[Product], cases: Iterable[retrieval.Case]) -> dict[str, list[_Answer]]:
    answers: dict[str, list[_Answer]] = {system: [] for system in SYSTEMS}
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="vade-shapes-") as name:
            folder = Path(name).resolve()
            product, floor = kind(folder, case.documents), PlainFts(folder, case.documents)
            whole_of = {turn: each.id for each in case.documents for turn in each.turn_ids}
            with closing(floor.connection), closing(product.memory):
                for question in case.questions:
                    for system, how in ((DEFAULTS, {}), (MORE, {"max_results": MANY})):
                        answers[system].append(_Answer(question, *_shown(product, question.text, how)))
                    documents, turns, _ = floor.find(question.text)
                    by_turns = list(dict.fromkeys(whole_of[turn] for turn in turns))
                    answers[TURNS].append(_Answer(question, by_turns, turns))
                    answers[WHOLE].append(_Answer(question, documents, None))
    return answers


def _shown(
    product: Product, question: str, how: dict[str, Any]
) -> tuple[list[str], list[str], frozenset[str], tuple[int, int]]:
    """Return the documents and the turns that a search shows, each once, in their order; and its characters.

    The third value has the turns beside the hits.
    """
    documents: dict[str, None] = {}
    turns: dict[str, None] = {}
    answer = product.memory.search(question, **how)
    for passage in answer.results:
        documents[product._files[passage.path][0].id] = None
        turns.update(dict.fromkeys(turns_of(product, passage)))
    beside = [(each.path, turn.line) for each in answer.conversations for turn in each.turns]
    return (
        list(documents),
        list(turns),
        frozenset(product.named(beside)[1]),
        _size(answer, question, product.memory),
    )


def _size(answer: Answer, question: str, memory: Memory) -> tuple[int, int]:
    """Return the characters of an answer as `vade search` prints it, and as the text that an agent gets."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        show_answer(answer, question, explain=False, as_json=False)
    made = search_answer(answer, memory.settings.limits.answer_chars)
    return len(printed.getvalue()), len(json.dumps(made, ensure_ascii=False, separators=(",", ":")))


def turns_of(product: Product, passage: Passage) -> list[str]:
    """Return all turns that stand in a passage: a passage of a file may hold several."""
    return turns_at(product, passage.path, passage.start, passage.end)


def turns_at(product: Product, path: str, first: int, last: int) -> list[str]:
    """Return all turns that stand in these lines."""
    document, starts = product._files[path]
    ends = [*starts[1:], last + 1]
    return [
        turn
        for turn, start, end in zip(document.turn_ids, starts, ends, strict=True)
        if start <= last and first < end
    ]


def _scored(
    answers: dict[str, list[_Answer]], measure: Callable[[_Answer], float | None]
) -> dict[str, list[float]]:
    scored = {system: [measure(each) for each in found] for system, found in answers.items()}
    return {system: [each for each in found if each is not None] for system, found in scored.items()}


def _all_documents(answer: _Answer) -> float:
    return float(scoring.recall(answer.documents, answer.question.documents, 5) == 1)


def _all_turns(answer: _Answer) -> float | None:
    gold = answer.question.turns
    return float(scoring.recall(answer.turns, gold, 5) == 1) if gold and answer.turns is not None else None


def _all_shown(answer: _Answer) -> float | None:
    if not answer.question.turns or answer.turns is None:
        return None
    return float(answer.question.turns <= {*answer.turns, *answer.beside})


def _ndcg(answer: _Answer) -> float:
    return scoring.ndcg(answer.documents, answer.question.documents, 10)


def _turn_recall(answer: _Answer) -> float | None:
    return None if answer.turns is None else scoring.recall(answer.turns, answer.question.turns, 10)


# ---------------------------------------------------------------- real coding sessions


class Said(NamedTuple):
    """A message of a session, as search has it."""

    role: str
    text: str


def coding(data: Path, sample: int) -> Iterator[Measured]:
    """Real coding sessions: whether the message is shown that a statement of the user or an output is in."""
    lines = (data / "vault" / "statements.jsonl").read_text(encoding="utf-8").splitlines()
    asked = _spread([json.loads(line) for line in lines], sample)
    ours: dict[str, list[float]] = {DEFAULTS: [], MORE: []}
    floors: dict[str, list[float]] = {"everything": [], "what the user said": []}
    printed: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="vade-shapes-") as name:
        folder = Path(name).resolve()
        (folder / "work").mkdir()
        with tarfile.open(data / "vault" / "sessions.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        environ = {"VADE_EMBEDDER": "static", "VADE_LIMITS_OPEN": "1h"}
        memory = connect(home=folder / "home", cwd=folder / "work", origin=Origin.USER, environ=environ)
        with closing(memory):
            _import(memory, folder / "sessions")
            said = {each.id: _said(memory, each.id) for each in memory.sessions.list(all=True)}
            flat = [each for messages in said.values() for each in messages.values()]
            plain = {
                "everything": _Floor(folder / "all.db", flat),
                "what the user said": _Floor(
                    folder / "user.db", [each for each in flat if each.role == Role.USER]
                ),
            }
            for each in asked:
                quote = _bare(each["quote"])
                for system, most in ((DEFAULTS, 5), (MORE, 20)):
                    hits = memory.sessions.search(each["say"], all=True, max_results=most).hits
                    texts = [said[hit.session][hit.line].text for hit in hits]
                    ours[system].append(_holds(texts, quote))
                for system, floor in plain.items():
                    floors[system].append(_holds(floor.find(each["say"]), quote))
            printed = [
                _printed(memory, said, folder, sample, asked_for=asked_for) for asked_for in (False, True)
            ]
            for floor in plain.values():
                floor.connection.close()
    for system, shares in floors.items():
        measure = f"the message within 5 (more: 20); FTS5 over {system}"
        yield Measured("coding", "vault", measure, {**ours, TURNS: shares})
    yield from printed


def _printed(
    memory: Memory, said: dict[str, dict[int, Said]], folder: Path, sample: int, *, asked_for: bool
) -> Measured:
    """Questions of our own about what tools printed in these sessions; with `asked_for`, by `by:tool`.

    An output is right if it has all the words of the label.
    """
    every = (FOLDER / "printed.jsonl").read_text(encoding="utf-8").splitlines()
    asked = _spread([json.loads(line) for line in every], sample)
    flat = [each for messages in said.values() for each in messages.values()]
    floor = _Floor(
        folder / f"printed-{asked_for}.db",
        [each for each in flat if not asked_for or each.role == Role.TOOL],
    )
    shares: dict[str, list[float]] = {DEFAULTS: [], MORE: [], TURNS: []}

    def is_right(texts: Iterable[str], words: Sequence[str]) -> float:
        return float(any(all(word in text for word in words) for text in texts))

    for each in asked:
        question = f"by:tool {each['ask']}" if asked_for else each["ask"]
        for system, most in ((DEFAULTS, 5), (MORE, 20)):
            hits = memory.sessions.search(question, all=True, max_results=most).hits
            found = [said[hit.session][hit.line] for hit in hits]
            texts = [one.text for one in found if one.role == Role.TOOL]
            shares[system].append(is_right(texts, each["holds"]))
        shares[TURNS].append(is_right(floor.find(each["ask"], role=Role.TOOL), each["holds"]))
    floor.connection.close()
    what = "with by:tool; FTS5 over output" if asked_for else "FTS5 over everything"
    return Measured("coding", "printed", f"the output within 5 (more: 20); {what}", shares)


def _said(memory: Memory, session: str) -> dict[int, Said]:
    """Return the messages of a session by their lines."""
    return {
        line.number: Said(line.event.message.role, searchable_text(line.event.message))
        for line in memory.sessions.open(session, all=True).lines()
        if isinstance(line.event, MessageEvent)
    }


def _holds(texts: Iterable[str], quote: str) -> float:
    return float(any(quote in _bare(text) for text in texts))


def _bare(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


class _Floor:
    """Plain FTS5 over messages: porter, all words joined by OR."""

    def __init__(self, path: Path, said: Sequence[Said]) -> None:
        self.connection = apsw.Connection(str(path))
        table = "create virtual table said using fts5(body, role unindexed, tokenize='porter unicode61')"
        self.connection.execute(table)
        with self.connection:
            rows = [(each.text, str(each.role)) for each in said]
            self.connection.executemany("insert into said values(?, ?)", rows)

    def find(self, question: str, *, role: str | None = None) -> list[str]:
        """Return the texts of the best five messages; with `role`, those of them that have it."""
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
        sql = "select body, role from said where said match ? order by rank limit 5"
        found = self.connection.execute(sql, (words,))
        return [text for text, own in found if role is None or own == role]


# ---------------------------------------------------------------- sets of our own


def records(_: Path, sample: int) -> Iterator[Measured]:
    """Records and a journal of our own, all of them read by the reader model."""
    asked = _spread([each for each in realistic.questions() if each.gold], sample)
    with tempfile.TemporaryDirectory(prefix="vade-shapes-") as name:
        folder = Path(name).resolve()
        store, floor = realistic.Store(folder), PlainFts(folder, realistic.documents())
        with closing(floor.connection), closing(store.memory):
            finders: dict[str, Callable[[str], Sequence[realistic.Hit]]] = {
                DEFAULTS: lambda text: store.find(text, {})[0],
                MORE: lambda text: store.find(text, {"max_results": MANY})[0],
                TURNS: lambda text: realistic.floor_hits(floor.find(text))[0],
            }
            shares = {
                system: [float(any(hit.entries & each.gold for hit in find(each.text)[:5])) for each in asked]
                for system, find in finders.items()
            }
    yield Measured("records", "realistic", "a right entry within 5", shares)


def own_texts(_: Path, sample: int) -> Iterator[Measured]:
    """Conversations and journals of our own, in several languages, as journals."""
    shares: dict[str, list[float]] = {DEFAULTS: [], TURNS: []}
    every = own.read(small_sets.TUNE) + own.read(small_sets.HELD)
    wanted = {each.id for each in _spread([each for text in every for each in text.questions], sample)}
    for _name, texts in own.stores(every):
        chosen = [tuple(each for each in text.questions if each.id in wanted) for text in texts]
        few = [text._replace(questions=some) for text, some in zip(texts, chosen, strict=True)]
        found = own.ask(few, embedder="static")
        for system, answers in ((DEFAULTS, found[small_sets.DEFAULTS]), (TURNS, found[small_sets.FLOOR])):
            shares[system] += [float(each.hit(5)) for each in answers if each.question.answers]
    yield Measured("own", "own", "a right turn within 5", shares)


# ---------------------------------------------------------------- the table

MEASURES: dict[str, Callable[[Path, int], Iterator[Measured]]] = {
    **{shape: functools.partial(conversations, shape) for shape in SHAPED},
    "abstracts": abstracts,
    "coding": coding,
    "records": records,
    "own": own_texts,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--data", type=Path, required=True, help="the folder of the public sets")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="all when left out")
    parser.add_argument("--sample", type=int, default=40, help="questions of each set")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Ask so many questions of each set in each shape, and count."""
    found = [each for shape in chosen.shape or SHAPES for each in MEASURES[shape](chosen.data, chosen.sample)]
    tables = {f"shapes, at most {chosen.sample} questions of each set": [_row(each) for each in found]}
    if sized := [_sizes(each) for each in found if each.sizes]:
        tables["characters of a default answer"] = sized
    return tables


def _sizes(measured: Measured) -> dict[str, object]:
    """The mean length of an answer, and how many characters were printed for each question answered."""
    texts, through_mcp = zip(*measured.sizes, strict=True)
    right = max(sum(measured.shares[DEFAULTS]) / len(measured.shares[DEFAULTS]), 0.01)
    row: dict[str, object] = {"shape": measured.shape, "set": measured.set, "n": len(texts)}
    for name, sizes in (("text", texts), ("MCP", through_mcp)):
        mean = sum(sizes) / len(sizes)
        row |= {name: round(mean), f"{name}, for each right answer": round(mean / right)}
    return {**row, "right": measured.measure}


def _row(measured: Measured) -> dict[str, object]:
    shares = measured.shares
    means = {system: f"{sum(each) / len(each):.2f}" if each else "-" for system, each in shares.items()}
    return {
        "shape": measured.shape,
        "set": measured.set,
        "n": len(shares[DEFAULTS]),
        **{system: means.get(system, "-") for system in SYSTEMS},
        "what is counted": measured.measure,
    }
