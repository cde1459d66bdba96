"""What a user gets from a realistic memory, beside plain FTS5 and a count of words.

The set is our own (`bench/sets/realistic`): one developer's records and journal, questions that they answer
and questions about nothing in them. Half of the questions are for tuning; of the others only totals are told.
Files are written as a person or an agent leaves them, then everything goes through `Memory`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import retrieval, scoring, small_sets
from bench.small_sets import DEFAULTS, FLOOR, HELD, NO_LIMIT, TUNE
from vademecum.memory import Memory, connect
from vademecum.text import document
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.search.base import Passage

    Rows = list[dict[str, object]]

SET = Path(__file__).parent / "sets" / "realistic"
PLACES = (1, 3, 5)
NOW = datetime(2026, 9, 14, 6, tzinfo=UTC)  # when all of it is asked: the Monday after the last entry
GOOD = ("strong", "likely")
COUNT = "word count"
HOOK = "prompt hook"


class Asked(NamedTuple):
    """A question, and the entries of which any one answers it; none of them for a question about nothing."""

    id: str
    text: str
    kind: str  # natural or keyword
    label: str  # the same or other words than the answer's; near or far for a question about nothing
    gold: frozenset[str]

    @property
    def half(self) -> str:
        """Which half it belongs to, by its id alone."""
        return small_sets.half(self.id)


class Hit(NamedTuple):
    """One result: the entries its lines are of, and how sure the product is of it, where it says so."""

    entries: frozenset[str]
    relevance: float | None = None
    match: str | None = None


class Found(NamedTuple):
    """What one way of asking answered to a question."""

    question: Asked
    hits: Sequence[Hit]
    seconds: float

    @property
    def place(self) -> int:
        """Where the first right result stands, counted from 1; 0 when there is none."""
        right = (at for at, hit in enumerate(self.hits, start=1) if hit.entries & self.question.gold)
        return next(right, 0)

    @property
    def matches(self) -> frozenset[str | None]:
        """The labels of its results."""
        return frozenset(hit.match for hit in self.hits)

    @property
    def top(self) -> float:
        """How relevant the most relevant result is said to be; 0 without one."""
        return max((hit.relevance or 0.0 for hit in self.hits), default=0.0)


# ---------------------------------------------------------------- the set


def records() -> list[dict[str, Any]]:
    """The records, each with its dated entries."""
    return _lines("records.jsonl")


def journal() -> list[dict[str, str]]:
    """The journal's entries, oldest first."""
    return _lines("journal.jsonl")


def entry_ids(record: dict[str, Any]) -> list[str]:
    """The ids of a record's entries, oldest first."""
    return [f"{record['key']}#{number}" for number in range(1, len(record["entries"]) + 1)]


def questions() -> list[Asked]:
    """All questions; a gold that is a record's key becomes the entries of it that still hold."""
    living = {
        record["key"]: [
            id_
            for id_, entry in zip(entry_ids(record), record["entries"], strict=True)
            if not entry.get("superseded")
        ]
        for record in records()
    }
    answerable = [
        Asked(
            each["id"],
            each["text"],
            each["kind"],
            each["wording"],
            frozenset(entry for gold in each["gold"] for entry in living.get(gold, [gold])),
        )
        for each in _lines("questions.jsonl")
    ]
    nothing = [
        Asked(each["id"], each["text"], each["kind"], each["about"], frozenset())
        for each in _lines("nothing.jsonl")
    ]
    return answerable + nothing


def documents() -> list[retrieval.Document]:
    """The same for the floors: records by their keys, journal days by their dates, entries as turns."""
    found = [
        retrieval.Document(
            each["key"], each["key"], None, [entry["text"] for entry in each["entries"]], entry_ids(each)
        )
        for each in records()
    ]
    for day, entries in _days():
        turns = [each["text"] for each in entries]
        found.append(
            retrieval.Document(day, "", datetime.fromisoformat(day), turns, [each["id"] for each in entries])
        )
    for name in ("MEMORY.md", "context.md"):
        found.append(retrieval.Document(name, "", None, [_text(name)], [name]))
    return found


def _days() -> list[tuple[str, list[dict[str, str]]]]:
    return [(day, list(each)) for day, each in groupby(journal(), lambda entry: entry["id"][:10])]


def _text(name: str) -> str:
    return (SET / name).read_text(encoding="utf-8")


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _text(name).splitlines()]


# ---------------------------------------------------------------- the store


class Store:
    """The set as a home of files, and which entry each of their lines is of."""

    def __init__(self, folder: Path, embedder: str = "local") -> None:
        work = folder / "work"
        work.mkdir()
        environ = {"VADE_EMBEDDER": embedder, "VADE_SWEEP": "off"}
        self.memory: Memory = connect(
            home=folder / "home", cwd=work, origin=Origin.USER, now=lambda: NOW, environ=environ
        )
        project = self.memory.status().project
        assert project is not None
        self._places = {"global": "memory/global", "project": f"memory/project/{project.id}"}
        self._entries: dict[str, list[tuple[str, Entry]]] = {}
        for record in records():
            path = f"{self._places[record['scope']]}/records/{record['key']}.md"
            self._write(path, _record(record), entry_ids(record))
        for day, entries in _days():
            text = _body(f"# {day}\n", [(f"{day}T{each['id'][11:]}:00Z", each["text"]) for each in entries])
            path = f"{self._places['project']}/journal/{day}.md"
            self._write(path, text, [each["id"] for each in entries])
        for name, scope in (("MEMORY.md", "global"), ("context.md", "project")):
            (self.memory.home.path / self._places[scope] / name).write_text(_text(name), encoding="utf-8")
        report = self.memory.care.index()
        assert not report.findings, report.findings[0]

    def _write(self, path: str, text: str, ids: Sequence[str]) -> None:
        file = self.memory.home.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
        self._entries[path] = list(zip(ids, document.parse(text).entries, strict=True))

    def find(self, question: str, how: dict[str, str | float]) -> tuple[list[Hit], float]:
        """The results as a user gets them, and the time it took."""
        begun = time.perf_counter()
        answer = self.memory.search(question, **how)  # type: ignore[arg-type]  # each value fits its own name
        seconds = time.perf_counter() - begun
        hits = [
            Hit(self.entries_of(each), each.relevance, getattr(each, "match", None))
            for each in answer.results
        ]
        return hits, seconds

    def remind(self, prompt: str) -> tuple[list[Hit], float]:
        """The records that the prompt hook brings back, with all their entries."""
        begun = time.perf_counter()
        block = self.memory.injection.remind(prompt)
        seconds = time.perf_counter() - begun
        paths = [item.path for section in block.sections for item in section.items]
        return [Hit(frozenset(id_ for id_, _ in self._entries[path])) for path in paths], seconds

    def entries_of(self, passage: Passage) -> frozenset[str]:
        return self.entries_at(passage.path, passage.start, passage.end)

    def entries_at(self, path: str, start: int, end: int) -> frozenset[str]:
        """The entries that lines of a file are of."""
        return frozenset(
            id_ for id_, entry in self._entries.get(path, ()) if entry.start <= end and start <= entry.end
        )


def _record(record: dict[str, Any]) -> str:
    entries = record["entries"]
    times = [each["time"] for each in entries]
    later = [time if each.get("superseded") else None for each, time in zip(entries, times[1:], strict=False)]
    front = (
        f"---\ntype: {record['type']}\nkey: {record['key']}\ntags: [{', '.join(record['tags'])}]\n"
        f"created: {times[0]}\nupdated: {times[-1]}\n---\n# {record['key']}\n"
    )
    dated = [(each["time"], each["text"]) for each in entries]
    return _body(front, dated, origin=Origin(record["origin"]), superseded=[*later, None])


def _body(
    text: str,
    entries: Sequence[tuple[str, str]],
    *,
    origin: Origin = Origin.USER,
    superseded: Sequence[str | None] | None = None,
) -> str:
    """A file with these entries after what it begins with."""
    for (at, entry_lines), later in zip(entries, superseded or [None] * len(entries), strict=True):
        text = document.append(text, Entry(entry_lines, at, origin, later))
    return text


# ---------------------------------------------------------------- the measurement


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--half", choices=(TUNE, HELD, "both"), default="both", help="which questions")
    parser.add_argument("--limit", type=int, help="only so many answerable ones, and as many about nothing")
    parser.add_argument(
        "--mode", choices=retrieval.MODES, action="append", help="beside the defaults; bm25 when left out"
    )
    parser.add_argument("--embedder", default="local", help="local, none, or one that is set up")
    parser.add_argument(
        "--out", type=Path, help="write every ranking of the half to tune on, one JSON a line"
    )


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Fill one home, ask everyone everything, and count."""
    halves = (TUNE, HELD) if chosen.half == "both" else (chosen.half,)
    inside = [each for each in questions() if each.half in halves]
    answerable = [each for each in inside if each.gold][: chosen.limit]
    nothing = [each for each in inside if not each.gold][: chosen.limit]
    asking: dict[str, dict[str, str | float]] = {DEFAULTS: {}, NO_LIMIT: {"min_score": 0.0}}
    asking |= {f"mode={mode}": {"mode": mode} for mode in chosen.mode or ("bm25",)}
    found = _ask(answerable + nothing, asking, chosen.embedder)
    reminded = found.pop(HOOK)
    if chosen.out is not None:
        _write_rankings(chosen.out, found)
    size = f"{len(records())} records and {len(_days())} journal days"
    tables = {
        f"realistic, {size}: answerable questions": _answered(found, halves),
        # Without the count of words, which puts all there is in some order whatever is asked.
        "realistic: questions about nothing": _refused(
            {system: answers for system, answers in found.items() if system != COUNT}, halves
        ),
        "realistic: how far the labels and the relevance can be relied on": _labelled(found, halves, asking),
        "realistic: what the prompt hook brings back": _reminded(reminded, halves),
    }
    return {title: rows for title, rows in tables.items() if rows}


def _ask(
    asked: Sequence[Asked], asking: dict[str, dict[str, str | float]], embedder: str
) -> dict[str, list[Found]]:
    """What each way of asking found."""
    found: dict[str, list[Found]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="vade-realistic-") as name:
        folder = Path(name).resolve()
        store = Store(folder, embedder)
        floor = retrieval.PlainFts(folder, documents())
        count = retrieval.WordCount(documents())
        with closing(store.memory.care.searcher), closing(floor.connection):
            finders: dict[str, Callable[[str], tuple[list[Hit], float]]] = {
                name: lambda text, how=how: store.find(text, how)  # type: ignore[misc]
                for name, how in asking.items()
            }
            finders[HOOK] = store.remind
            finders[FLOOR] = lambda text: floor_hits(floor.find(text))
            finders[COUNT] = lambda text: floor_hits(count.find(text))
            for find in finders.values():
                find(retrieval.WARM)
            for question in asked:  # in turn, so that a noisy moment hits all of them
                for system, find in finders.items():
                    found[system].append(Found(question, *find(question.text)))
    return found


def _reminded(found: Sequence[Found], halves: Iterable[str]) -> Rows:
    """How often the prompt hook brings the right record, and how often one for a question about nothing."""
    keys = {record["key"] for record in records()}
    rows: Rows = []
    for half in halves:
        inside = [each for each in found if each.question.half == half]
        # The hook brings records: what only the journal answers is not asked of it.
        relevant = [
            each for each in inside if any(id_.partition("#")[0] in keys for id_ in each.question.gold)
        ]
        nothing = [each for each in inside if not each.question.gold]
        rows.append(
            {
                "half": half,
                "answered by a record": len(relevant),
                "brought": _share(each.place > 0 for each in relevant),
                "about nothing": len(nothing),
                "brought all the same": _share(bool(each.hits) for each in nothing),
            }
        )
    return rows


def floor_hits(answer: tuple[list[str], list[str], float]) -> tuple[list[Hit], float]:
    _, entries, seconds = answer
    return [Hit(frozenset({each})) for each in entries], seconds


def _answered(found: dict[str, list[Found]], halves: Iterable[str]) -> Rows:
    """Hits by half and kind of question."""
    kinds: dict[str, Callable[[Asked], bool]] = {
        "all": lambda question: True,
        "natural": lambda question: question.kind == "natural",
        "keyword": lambda question: question.kind == "keyword",
        "in other words": lambda question: question.label == "other",
    }
    rows: Rows = []
    for half in halves:
        for kind, wanted in kinds.items():
            for system, answers in found.items():
                own = [
                    each
                    for each in answers
                    if each.question.gold and each.question.half == half and wanted(each.question)
                ]
                if own:
                    rows.append({"half": half, "questions": kind, "asked with": system, **_hits(own)})
    return rows


def _hits(answers: Sequence[Found]) -> dict[str, object]:
    return {
        "n": len(answers),
        **{f"hit@{k}": _share(0 < each.place <= k for each in answers) for k in PLACES},
        "no result": sum(not each.hits for each in answers),
        "p50 ms": round(1000 * statistics.median(each.seconds for each in answers), 2),
    }


def _refused(found: dict[str, list[Found]], halves: Iterable[str]) -> Rows:
    """What questions about nothing got; a way of asking that does not label its results has no labels."""
    rows: Rows = []
    for half in halves:
        for label in ("all", "near", "far"):
            for system, answers in found.items():
                own = [
                    each
                    for each in answers
                    if not each.question.gold
                    and each.question.half == half
                    and label in ("all", each.question.label)
                ]
                if own:
                    labels = _has_labels(answers)
                    rows.append(
                        {
                            "half": half,
                            "about": label,
                            "asked with": system,
                            "n": len(own),
                            "any result": _share(bool(each.hits) for each in own),
                            "likely or strong": _share(bool(each.matches & set(GOOD)) for each in own)
                            if labels
                            else "",
                            "strong": _share("strong" in each.matches for each in own) if labels else "",
                        }
                    )
    return rows


def _labelled(found: dict[str, list[Found]], halves: Iterable[str], ours: Iterable[str]) -> Rows:
    """How many right results are labelled as such, and how well relevance tells the two sorts apart."""
    rows: Rows = []
    for half in halves:
        for system in ours:
            own = [each for each in found[system] if each.question.half == half]
            right = [each for each in own if 0 < each.place <= PLACES[-1]]
            answerable = [each.top for each in own if each.question.gold]
            nothing = [each.top for each in own if not each.question.gold]
            if answerable and nothing:
                good = _share(each.hits[each.place - 1].match in GOOD for each in right)
                rows.append(
                    {
                        "half": half,
                        "asked with": system,
                        "right in five": len(right),
                        "of them likely or strong": good if _has_labels(found[system]) else "",
                        "AUC of relevance": round(scoring.auc(answerable, nothing), 3),
                    }
                )
    return rows


def _has_labels(answers: Iterable[Found]) -> bool:
    return any(each.matches - {None} for each in answers)


def _share(values: Iterable[bool]) -> str:
    found = list(values)
    return f"{sum(found)} ({sum(found) / max(1, len(found)):.2f})"


def _write_rankings(path: Path, found: dict[str, list[Found]]) -> None:
    """The rankings of the half to tune on; those of the other half are for nobody's eyes."""
    with path.open("w", encoding="utf-8") as file:
        for system, answers in found.items():
            for each in answers:
                if each.question.half != TUNE:
                    continue
                line = {
                    "asked with": system,
                    "id": each.question.id,
                    "text": each.question.text,
                    "gold": sorted(each.question.gold),
                    "place": each.place,
                    "results": [
                        {"entries": sorted(hit.entries), "relevance": hit.relevance, "match": hit.match}
                        for hit in each.hits[:10]
                    ],
                }
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
