"""Whether the block at session start has the records that an agent must know, however old they are.

The stores are our own (`bench/sets/block`): what agents and people save in months, most of it of no use to
the next session, and among it the records that every session must begin with. Of the held-out half only
totals are printed.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.small_sets import HELD, TUNE
from vademecum.memory import Memory, connect
from vademecum.text import document
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    import argparse

Rows = list[dict[str, object]]

FOLDER = Path(__file__).parent / "sets" / "block"
NOW = datetime(2026, 9, 14, 6, tzinfo=UTC)  # the Monday after the last record


class SavedRecord(NamedTuple):
    """A record of a store, as it was saved, and whether every session must begin with it."""

    key: str
    scope: str
    type: str
    origin: str
    time: str
    text: str
    must: bool = False


class Outcome(NamedTuple):
    """The block of one store: how many records it must have, which of them it lacks, and its size."""

    store: str
    records: int
    must: int
    lacking: tuple[str, ...]
    tokens: int


def read(half: str) -> dict[str, list[SavedRecord]]:
    """Return the stores of a half by name, each with its records, the oldest first."""
    return {
        path.stem: [SavedRecord(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        for path in sorted((FOLDER / half).glob("*.jsonl"))
    }


def fill(folder: Path, records: list[SavedRecord], *, environ: dict[str, str] | None = None) -> Memory:
    """Return a memory in a folder that holds these records as files."""
    work = folder / "work"
    work.mkdir()
    memory = connect(
        home=folder / "home", cwd=work, origin=Origin.AGENT, now=lambda: NOW, environ=environ or {}
    )
    project = memory.status().project
    assert project is not None
    places = {"global": "memory/global", "project": f"memory/project/{project.id}"}
    for each in records:
        path = memory.home.path / places[each.scope] / "records" / f"{each.key}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        front = (
            f"---\ntype: {each.type}\nkey: {each.key}\n"
            f"created: {each.time}\nupdated: {each.time}\n---\n# {each.key}\n"
        )
        entry = Entry(each.text, each.time, Origin(each.origin), None)
        path.write_text(document.append(front, entry), encoding="utf-8", newline="")
    return memory


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--half", choices=(TUNE, HELD), action="append", help="both when left out")
    parser.add_argument("--topics", help="records of a scope that are shown, instead of the default")
    parser.add_argument("--chars", help="characters of a scope, instead of the default")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Build the block of each store, and count what it has of the records that it must have."""
    given = {"VADE_INJECT_MAX_PER_SCOPE": chosen.topics, "VADE_INJECT_SCOPE_CHARS": chosen.chars}
    environ = {name: value for name, value in given.items() if value}
    outcomes = {
        half: [outcome(name, records, environ=environ) for name, records in read(half).items()]
        for half in chosen.half or (TUNE, HELD)
    }
    tables: dict[str, Rows] = {"block, by half": [_total(half, some) for half, some in outcomes.items()]}
    if TUNE in outcomes:
        tables["block, stores to tune on"] = [_row(each) for each in outcomes[TUNE]]
    return tables


def outcome(name: str, records: list[SavedRecord], *, environ: dict[str, str] | None = None) -> Outcome:
    """Return how many of the records that must be in the block of a store are in it."""
    with tempfile.TemporaryDirectory(prefix="vade-block-") as folder:
        block = fill(Path(folder).resolve(), records, environ=environ).injection.block()
    shown = {item.key for section in block.sections for item in section.items}
    must = [each.key for each in records if each.must]
    lacking = tuple(key for key in must if key not in shown)
    return Outcome(name, len(records), len(must), lacking, block.tokens)


def _row(each: Outcome) -> dict[str, object]:
    return {
        "store": each.store,
        "records": each.records,
        "must": each.must,
        "in the block": each.must - len(each.lacking),
        "tokens": each.tokens,
        "lacking": " ".join(each.lacking),
    }


def _total(half: str, some: list[Outcome]) -> dict[str, object]:
    must, lacking = sum(each.must for each in some), sum(len(each.lacking) for each in some)
    return {
        "half": half,
        "stores": len(some),
        "must": must,
        "in the block": must - lacking,
        "share": round(1 - lacking / must, 3),
        "tokens, largest": max(each.tokens for each in some),
    }
