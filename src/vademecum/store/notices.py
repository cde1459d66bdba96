"""Notices of what memory did by itself and no person has seen yet, one small file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.store import decisions
from vademecum.types import Swept

if TYPE_CHECKING:
    from vademecum.store.home import Home

KIND = "notices"
MANY = 10  # records that may be moved without a notice


def remember(home: Home, done: Swept) -> None:
    """Keep a notice of a sweep that moved many records, until a person has seen it."""
    if done.moved > MANY:
        fields = {"moved": done.moved, "into": list(done.into), "at": done.at, "where": done.where}
        decisions.put(home, KIND, done.run, fields)


def every(home: Home) -> list[Swept]:
    """The sweeps that moved many records and that nobody has seen yet, oldest first."""
    found = []
    for run, told in decisions.every(home, KIND):
        into, moved = told.get("into"), told.get("moved")
        listed = tuple(map(str, into)) if isinstance(into, list) else ()
        count = moved if isinstance(moved, int) else MANY
        found.append(Swept(run, count, listed, str(told.get("at", "")), str(told.get("where", ""))))
    return sorted(found)


def drop(home: Home, run: str) -> None:
    """Take a notice away: it was seen, or what it tells of was undone."""
    decisions.drop(home, KIND, run)
