"""How well sentences are read, and how well contradictions are told from what merely reads alike.

Labelled sets of our own (`sets/statements.jsonl`, `sets/contradictions.jsonl`, and `sets/reworded.jsonl` of
contradictions in other words), written before the rules and split in halves by id: rules were written from
the development half, the held-out half is only counted.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lint import markdown_folder
from vademecum.lifecycle import contradictions, passes
from vademecum.lifecycle.passes import RecordFile
from vademecum.memory import connect
from vademecum.store import scopes
from vademecum.text import document, meaning, statement
from vademecum.text.vocabulary import stem
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from vademecum.lifecycle.contradictions import Clash
    from vademecum.memory import Memory
    from vademecum.types import Place

SETS = Path(__file__).parent / "sets"
FIELDS = ("subject", "attribute", "value", "polarity", "modality", "condition", "tense", "said")


def read(name: str) -> list[dict[str, Any]]:
    """The rows of a set."""
    return [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text("utf-8").splitlines()]


def held_out(row: dict[str, Any]) -> bool:
    """Which half a row is in: by its id, so that adding one moves no other."""
    return int(hashlib.sha256(row["id"].encode()).hexdigest(), 16) % 2 == 0


def right_fields(row: dict[str, Any]) -> dict[str, bool]:
    """Which fields of a labelled sentence are read right."""
    found = meaning.read(row["text"])
    value = found.value.plain if found.value else ""
    return {
        "subject": _stems(found.subject) == _stems(row["subject"]),
        "attribute": stem(found.attribute) == stem(row["attribute"]),
        "value": _stems(value) == _stems(row["value"]),
        "polarity": found.polarity == row["polarity"],
        "modality": found.modality == row["modality"],
        "condition": _stems(found.condition) == _stems(row["condition"]),
        "tense": found.tense == row["tense"],
        "said": found.stated == row["said"],
    }


def _stems(text: str) -> set[str]:
    left = {"the", "a", "an", "my", "our", "der", "die", "das", "dem", "den", "to", "of", "over"}
    return {stem(word.strip(".,")) for word in text.lower().split()} - left


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, help="also a tar or folder of Markdown: contradictions in real text"
    )


def measure(chosen: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    found = {
        "sentences, share read right": sentences(),
        "contradictions": pairs("contradictions"),
        "contradictions in other words": pairs("reworded"),
        "a record, and a page or a later day": other_pages(),
    }
    if chosen.data is not None:
        found["contradictions in real text"] = real(chosen.data)
    return found


def sentences() -> list[dict[str, object]]:
    """How many sentences are read right, field by field."""
    rows: list[dict[str, object]] = []
    for half in (True, False):
        mine = [right_fields(row) for row in read("statements") if held_out(row) is half]
        shares = {name: round(sum(each[name] for each in mine) / len(mine), 3) for name in FIELDS}
        rows.append({"half": _half(held=half), "n": len(mine), **shares})
    return rows


def pairs(name: str) -> list[dict[str, object]]:
    """What is found of two entries of one record and of two records, and what heal would do."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        clashes_of = finder(Path(scratch))
        for half in (True, False):
            mine = [row for row in read(name) if held_out(row) is half]
            for where, together in (("one record", True), ("two records", False)):
                found = [(row, clashes_of(row["one"], row["other"], together)) for row in mine]
                rows.append({"half": _half(held=half), "where": where, **scored(found)})
    return rows


def other_pages() -> list[dict[str, object]]:
    """What is found of a record and a pinned document or a day of the journal, of which heal does nothing."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        seen, page = maker(Path(scratch)), pager(Path(scratch))
        for half in (True, False):
            for where in ("pinned", "journal"):
                mine = [row for row in read("beside") if held_out(row) is half and row["where"] == where]
                found = [
                    (row, contradictions.find_clashes([seen("topic", row["record"], day=10)], [page(row)]))
                    for row in mine
                ]
                rows.append({"half": _half(held=half), "where": where, **scored(found)})
    return rows


def pager(folder: Path) -> Callable[..., RecordFile]:
    """What makes a pinned document, or a day of the journal, of a row, without writing it."""
    memory = connect(home=folder / "home", cwd=folder, origin=Origin.USER, environ={})
    scope_folder = next(
        iter(scopes.scope_folders(memory.workspace.records.home, memory.caller, _project(memory)))
    )

    def made(row: dict[str, Any], name: str = "context.md") -> RecordFile:
        text = row["page"]
        if row["where"] == "journal":
            at = f"2026-01-{row['day']:02}T09:00:00Z"
            text = f"# {at[:10]}\n\n## {at}\n{document.escape(text)}\n<!-- origin: user -->\n"
        return passes.page_as_record(scope_folder, name, name, text.encode(), kind=row["where"])

    return made


def scored(found: list[tuple[dict[str, Any], list[Clash]]]) -> dict[str, object]:
    """Recall and precision, of what is told and of what heal does by itself."""
    found_rows = [row["contradicts"] for row, clashes in found if clashes]
    healed = [
        row["contradicts"]
        for row, clashes in found
        if any(not contradictions.needs_person(each) for each in clashes)
    ]
    real_ones = sum(row["contradicts"] for row, _ in found)
    return {
        "contradictory": real_ones,
        "innocent": len(found) - real_ones,
        "recall": round(sum(found_rows) / real_ones, 3),
        "precision": round(sum(found_rows) / len(found_rows), 3) if found_rows else 1.0,
        "healed": len(healed),
        "heal precision": round(sum(healed) / len(healed), 3) if healed else 1.0,
    }


def maker(folder: Path) -> Callable[..., RecordFile]:
    """What makes a record of texts, a day apart, without writing it."""
    memory = connect(home=folder / "home", cwd=folder, origin=Origin.USER, environ={})
    records = memory.workspace.records
    scope_folder = next(iter(scopes.scope_folders(records.home, memory.caller, _project(memory))))

    def seen(key: str, *texts: str, day: int = 1) -> RecordFile:
        entries = "".join(
            f"\n## {date(2026, 1, day) + timedelta(days=n)}T00:00:00Z\n{text}\n<!-- origin: user -->\n"
            for n, text in enumerate(texts)
        )
        content = f"---\ntype: project\n---\n# {key}\n{entries}".encode()
        return RecordFile(
            records.parse(scope_folder, f"{key}.md", content), scope_folder, f"{key}.md", content
        )

    return seen


def _project(memory: Memory) -> Place:
    return scopes.visible(memory.caller)[0]


def finder(folder: Path) -> Callable[[str, str, bool], list[Clash]]:
    """What finds the contradictions of two texts, as entries of one record or as two records."""
    seen = maker(folder)

    def clashes_of(one: str, other: str, together: bool) -> list[Clash]:
        made = [seen("topic", one, other)] if together else [seen("amber", one), seen("basalt", other, day=2)]
        return contradictions.find_clashes(made)

    return clashes_of


def real(data: Path) -> list[dict[str, object]]:
    """What is told of a workspace in which nobody planted anything, its sentences as records in three ways.

    Rules were mended on what was told of one half of its files, by path; the other half is only counted.
    """
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = markdown_folder(data, Path(scratch))
        seen = maker(Path(scratch))
        paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.md"))}
        for half in (True, False):
            files = [_sentences(paths[name]) for name in paths if held_out({"id": name}) is half]
            texts = [*dict.fromkeys(text for file in files for text in file)]
            thousands = _in_thousands(texts)
            ways = {
                "one for each sentence": [
                    [seen(f"r{n}", text) for n, text in enumerate(block)] for block in thousands
                ],
                "one for each file": [[seen("r", *part)] for file in files for part in _in_thousands(file)],
                "one for 1,000 in a row": [[seen("r", *block)] for block in thousands],
            }
            rows += [
                {"half": _half(held=half), "records": way, **_describe_clashes(stores)}
                for way, stores in ways.items()
            ]
            mine = [paths[name] for name in paths if held_out({"id": name}) is half]
            rows += [
                {"half": _half(held=half), "records": f"every other file, the rest as {where}s", **told}
                for where in ("pinned", "journal")
                for told in [_describe_neighbours(mine, where, seen, pager(Path(scratch)))]
            ]
    return rows


def _describe_neighbours(
    files: list[Path], where: str, seen: Callable[..., RecordFile], page: Callable[..., RecordFile]
) -> dict[str, object]:
    """What is told when every other file is records, a sentence each, and the rest pages or later days."""
    texts = [*dict.fromkeys(text for file in files[::2] for text in _sentences(file))]
    others = [
        page({"where": where, "day": 20, "page": file.read_text("utf-8", errors="replace")}, name=file.name)
        for file in files[1::2]
    ]
    count = len(texts) + sum(len(_sentences(file)) for file in files[1::2])
    clashes = [
        clash
        for clash in contradictions.find_clashes(
            [seen(f"r{n}", text) for n, text in enumerate(texts)], others
        )
        if clash.newer.page_kind
    ]
    row = {"sentences": count, "told": len(clashes), "told per 1,000": round(len(clashes) * 1000 / count, 2)}
    return {**row, "heal would mark": sum(not contradictions.needs_person(each) for each in clashes)}


def _sentences(path: Path) -> list[str]:
    """The sentences of a file in their order, each once."""
    split = statement.split(path.read_text("utf-8", errors="replace"))
    return [*dict.fromkeys(" ".join(each.text.split()) for each in split if each.kind == statement.SENTENCE)]


def _in_thousands(texts: list[str]) -> list[list[str]]:
    return [texts[at : at + 1000] for at in range(0, len(texts), 1000)]


def _describe_clashes(stores: list[list[RecordFile]]) -> dict[str, object]:
    """What is told of some memories, for each 1,000 entries."""
    count = sum(len(each.record.entries) for records in stores for each in records)
    clashes = [clash for records in stores for clash in contradictions.find_clashes(records)]
    healed = sum(not contradictions.needs_person(each) for each in clashes)
    row = {"sentences": count, "told": len(clashes), "told per 1,000": round(len(clashes) * 1000 / count, 2)}
    return {**row, "heal would mark": healed}


def _half(*, held: bool) -> str:
    return "held out" if held else "development"
