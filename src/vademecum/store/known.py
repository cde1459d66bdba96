"""The projects a home knows: where they are, how much is kept for each, and which of them have moved."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.store import archive, clock, decisions, scopes
from vademecum.store.journal import is_day
from vademecum.store.records import is_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.store.home import Home
    from vademecum.store.identity import Project


class KnownProject(NamedTuple):
    """A project that has memory in a home."""

    id: str
    root: Path | None  # where it was last written from; None when nobody noted that
    records: int
    days: int  # files of its journal
    updated: str | None  # when a file of it last changed
    joined_to: str | None = None  # the project that has taken it over

    @property
    def name(self) -> str:
        """What a person calls it: its folder, or its id."""
        return self.root.name if self.root is not None and self.root.name else self.id

    @property
    def present(self) -> bool:
        """Whether its folder is still there."""
        return self.root is not None and self.root.is_dir()


def projects(home: Home) -> list[KnownProject]:
    """Every project with memory, the one written to last first."""
    roots = _roots(home)
    ids = {*roots, *(name for name in home.names("memory", "project") if name[:1] != ".")}
    joined = {
        alias: str(decision.get("project") or "") for alias, decision in decisions.every(home, "aliases")
    }
    found = [_known(home, each, roots.get(each), joined.get(each)) for each in sorted(ids)]
    kept = [each for each in found if each.records or each.days]
    return sorted(kept, key=lambda each: each.updated or "", reverse=True)


def moved(home: Home, project: Project) -> list[KnownProject]:
    """Projects without a remote whose folder is gone; those of this folder's name first."""
    own = {project.id, *project.earlier, *scopes.aliases(home, project.id)}
    by_path = {name for name, _ in decisions.every(home, "projects")}
    gone = [
        each
        for each in projects(home)
        if each.id in by_path and each.id not in own and each.joined_to is None and not each.present
    ]
    return sorted(gone, key=lambda each: each.name != project.root.name)


def _roots(home: Home) -> dict[str, Path]:
    """Where each project was last written from, by its id."""
    noted = sorted(decisions.every(home, "projects"), key=lambda each: str(each[1].get("at") or ""))
    found = {}
    for name, decision in noted:
        if isinstance(decision.get("root"), str):
            found[str(decision.get("id") or name)] = Path(decision["root"])
    return found


def _known(home: Home, id: str, root: Path | None, joined_to: str | None) -> KnownProject:
    folders = [home.path / "memory" / "project" / id]
    if root is not None and scopes.is_trusted(home, root):
        folders.append(root / ".vade")
    records = [each for top in folders for each in _files(top / archive.RECORDS) if is_record(each.name)]
    days = [each for each in _files(folders[0] / archive.JOURNAL) if is_day(each.name)]
    newest = max((each.stat().st_mtime for each in (*records, *days)), default=None)
    updated = None if newest is None else clock.stamp(datetime.fromtimestamp(newest, UTC))
    return KnownProject(id, root, len(records), len(days), updated, joined_to)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The plain files in a folder; none when it is not there."""
    try:
        with os.scandir(folder) as found:
            yield from [each for each in found if each.is_file(follow_symlinks=False)]
    except OSError:
        return
