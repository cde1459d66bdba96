"""How many pairs of different facts are taken for one, and how many rewordings are recognised.

Two labelled sets: `different.jsonl` (two facts that differ in a word or in who does what) and
`rewordings.jsonl` (one fact in other words). Each is split in halves by its id: rules were written from the
development half, the held-out half is only counted. Beside the rule stands the floor: likeness of letters
alone. Rewordings that the likeness filter drops count in neither.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from rapidfuzz import fuzz

from vademecum.text import similarity

SETS = Path(__file__).parent / "sets" / "same"
THRESHOLD = 85


class Pair(NamedTuple):
    """Two texts, and whether they say the same."""

    id: str
    language: str
    kind: str
    one: str
    other: str
    same: bool


def measure() -> list[dict[str, object]]:
    pairs = read()
    rows = []
    for half in (True, False):
        mine = [each for each in pairs if held_out(each) is half]
        name = "held out" if half else "development"
        rows.append(_row(name, "all", mine))
        for language in dict.fromkeys(each.language for each in mine):
            rows.append(_row(name, language, [each for each in mine if each.language == language]))
        for kind in sorted({each.kind for each in mine}):
            rows.append(_row(name, kind, [each for each in mine if each.kind == kind]))
    return rows


def read() -> list[Pair]:
    """Both sets."""
    found = []
    for name, same in (("different", False), ("rewordings", True)):
        for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            found.append(Pair(**json.loads(line), same=same))
    return found


def held_out(pair: Pair) -> bool:
    """Which half a pair is in: by its id, so that adding one moves no other."""
    return int(hashlib.sha256(pair.id.encode()).hexdigest(), 16) % 2 == 0


def likeness(pair: Pair) -> float:
    """How alike two texts are in their letters, out of 100: the filter before any rule."""
    return fuzz.token_sort_ratio(pair.one.strip().lower(), pair.other.strip().lower())


def joined(pair: Pair) -> bool:
    """Whether the rule takes two texts for one."""
    return similarity.same(pair.one, pair.other, threshold=THRESHOLD) is not None


def _row(half: str, group: str, pairs: list[Pair]) -> dict[str, object]:
    different = [each for each in pairs if not each.same]
    reworded = [each for each in pairs if each.same and likeness(each) >= THRESHOLD]
    recognised = sum(map(joined, reworded))
    return {
        "half": half,
        "group": group,
        "different": len(different),
        "merged": sum(map(joined, different)),
        "merged by likeness": sum(likeness(each) >= THRESHOLD for each in different),
        "rewordings": len(reworded),
        "joined": recognised,
        "share": round(recognised / len(reworded), 3) if reworded else "-",
    }
