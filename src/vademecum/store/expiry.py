"""Deleting for good what the user said to keep only so long: archived versions, logs of runs, audit days.

Beside a purge this is the only place that deletes, and nothing here happens unless `archive_days` or
`audit_days` is set.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.store import archive, audit, clock, decisions
from vademecum.store.home import Shelf
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from vademecum.store.home import Home

_LOGS = (archive.KEPT, "runs")


def old_versions(home: Home, *, before: datetime) -> Iterator[tuple[str, ...]]:
    """Archived versions and logs of runs from before a moment, each as the parts of its path."""
    limit = clock.stamp(before).replace("-", "").replace(":", "")[:-1]
    for area in _areas(home):
        for kind in home.names("archive", *area):
            for name in home.names("archive", *area, kind):
                parts = ("archive", *area, kind, name)
                for version in home.names(*parts):
                    if version.endswith(".md") and version[: len(limit)] < limit:
                        yield (*parts, version)
    for log in home.names("archive", "runs"):
        if log.endswith(".jsonl") and log[: len(limit)] < limit:
            yield "archive", "runs", log


def delete_version(home: Home, parts: tuple[str, ...]) -> None:
    """Delete one of these; with the last version of a record that is gone, its log of entries goes too."""
    with contextlib.suppress(FileNotFoundError), home.folder(*parts[:-1]) as folder:
        folder.delete(parts[-1])
    if parts[1] in _LOGS or parts[3] != archive.RECORDS or home.names(*parts[:-1]):
        return
    shelf, name = _shelf(home, parts[1], parts[2]), parts[4]
    if shelf is None:
        return
    with home.lock(f"record {shelf.name_of(archive.RECORDS, name)} in {shelf.top}"):
        records = shelf.open(archive.RECORDS)
        here = False
        if records is not None:
            with records:
                here = records.stat(name) is not None
        if not here and not home.names(*parts[:-1]):
            kept = ("archive", archive.KEPT, *archive.area(shelf), archive.RECORDS)
            with contextlib.suppress(FileNotFoundError), home.folder(*kept) as folder:
                folder.delete(f"{name}.jsonl")


def old_days(home: Home, *, before: datetime) -> list[str]:
    """Days of the audit from before a moment; the newest day always stays."""
    return audit.days_before(home, before)


def _areas(home: Home) -> Iterator[tuple[str, str]]:
    for scope in home.names("archive"):
        if scope not in _LOGS and not scope.startswith("."):
            for place in home.names("archive", scope):
                yield scope, place


def _shelf(home: Home, scope: str, place: str) -> Shelf | None:
    """The shelf that a part of the archive belongs to; None when nobody knows it any more."""
    if scope in list(Scope):
        return home.shelf(Place(Scope(scope), "" if place == "_" else place))
    for _, decision in decisions.every(home, "trusted"):
        top = Path(str(decision.get("path")))
        shelf = Shelf(Place(Scope.PROJECT, ""), top, (".vade",), ".vade", shared=True)
        if archive.area(shelf) == (scope, place):
            return shelf
    return None
