"""What a user gets from a realistic memory, beside plain FTS5 and a count of words.

The set is our own (`bench/sets/realistic`): one developer's records and journal, questions that they answer
and questions about nothing in them. Half of the questions are for tuning; of the others only totals are told.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

SET = Path(__file__).parent / "sets" / "realistic"
HALVES = ("tune", "held")


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
        return HALVES[int(hashlib.sha256(self.id.encode()).hexdigest()[0], 16) >= 8]


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


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SET / name).read_text(encoding="utf-8").splitlines()]
