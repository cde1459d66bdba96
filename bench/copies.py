"""Names of files beside another one: which are second copies that a sync tool left, and which a person chose.

Real names of each tool, and names that only look like one. The set was written before anything was run, and
is split by a hash: who tunes looks at one half, and of the other only totals are ever printed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from vademecum.store import copies

SET = Path(__file__).with_name("sets") / "copies.jsonl"
TUNE, HELD = HALVES = "tune", "held"
_IDS = {"same": "one", "other": "two", "none": None}


class Counted(NamedTuple):
    """How many names were told rightly."""

    copies: int
    found: int
    innocent: int
    wrong: int

    @property
    def precision(self) -> float:
        """Of those taken for copies, the share that is one."""
        return self.found / (self.found + self.wrong) if self.found + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Of the copies, the share that was found."""
        return self.found / self.copies if self.copies else 1.0


def count(half: str) -> Counted:
    """Ask about every name of one half, each in a folder with the file beside it."""
    copied = found = innocent = wrong = 0
    for line in SET.read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        if _half(each) != half:
            continue
        ids = {each["beside"]: "one", each["name"]: _IDS[each["id"]]}
        is_copy = each["name"] in copies.find([*ids], ids.get)
        copied, innocent = copied + each["copy"], innocent + (not each["copy"])
        found, wrong = found + (is_copy and each["copy"]), wrong + (is_copy and not each["copy"])
    return Counted(copied, found, innocent, wrong)


def _half(each: dict[str, str]) -> str:
    identity = f"{each['name']}{each['beside']}{each['id']}"
    return TUNE if int(hashlib.sha256(identity.encode()).hexdigest()[0], 16) < 8 else HELD


def measure() -> list[dict[str, object]]:
    """Both halves in numbers."""
    rows: list[dict[str, object]] = []
    for half in HALVES:
        counted = count(half)
        rows.append(
            {
                "half": half,
                "second copies": counted.copies,
                "found": counted.found,
                "other names": counted.innocent,
                "taken for copies": counted.wrong,
                "precision": round(counted.precision, 3),
                "recall": round(counted.recall, 3),
            }
        )
    return rows
