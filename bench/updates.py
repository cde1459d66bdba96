"""How often a hint "newer" is right, over statements that were labelled before the rule was written."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from vademecum.search.updates import states_another_value

SET = Path(__file__).with_name("sets") / "updates.txt"


class Pair(NamedTuple):
    """Two statements, and whether the second gives another value to what the first is about."""

    earlier: str
    later: str
    updates: bool
    held_out: bool


def read() -> list[Pair]:
    """The labelled pairs: of each line the older statement with the newer one, and with another."""
    pairs = []
    for line in SET.read_text().splitlines():
        if line.startswith("#"):
            continue
        older, newer, other = (part.strip() for part in line.split("|"))
        held_out = hashlib.md5(older.encode(), usedforsecurity=False).digest()[0] % 2 == 1
        pairs += [Pair(older, newer, True, held_out), Pair(older, other, False, held_out)]
    return pairs


def measure() -> list[dict[str, Any]]:
    """Count the hints of each half."""
    rows: list[dict[str, Any]] = []
    for held_out in (False, True):
        pairs = [each for each in read() if each.held_out is held_out]
        told = [each for each in pairs if states_another_value(each.earlier, each.later)]
        right = sum(each.updates for each in told)
        rows.append(
            {
                "half": "held out" if held_out else "tuning",
                "pairs": len(pairs),
                "precision": round(right / max(1, len(told)), 3),
                "recall": round(right / sum(each.updates for each in pairs), 3),
            }
        )
    return rows
