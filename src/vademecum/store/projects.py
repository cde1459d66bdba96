"""Projects: where each is and how much is kept for it, whether it is trusted, what else may be its memory."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import NotFound, NotVisible, UsageError
from vademecum.stand_ins import renamed
from vademecum.store import archive, decisions, scopes
from vademecum.store.journal import is_day
from vademecum.store.records import is_record
from vademecum.text import clock, names
from vademecum.types import Audience, Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.store.home import Home
    from vademecum.store.scopes import Project
    from vademecum.store.workspace import Workspace


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


def known_projects(home: Home) -> list[KnownProject]:
    """Every project with memory, the one written to last first."""
    roots = _roots(home)
    ids = {*roots, *(name for name in home.names("memory", "project") if name[:1] != ".")}
    joined = {
        alias: str(decision.get("project") or "") for alias, decision in decisions.every(home, "aliases")
    }
    found = [_known(home, each, roots.get(each), joined.get(each)) for each in sorted(ids)]
    kept = [each for each in found if each.records or each.days]
    return sorted(kept, key=lambda each: each.updated or "", reverse=True)


def moved_projects(home: Home, project: Project) -> list[KnownProject]:
    """Projects without a remote whose folder is gone; those of this folder's name first."""
    own = {project.id, *project.earlier, *scopes.aliases(home, project.id)}
    by_path = {name for name, _ in decisions.every(home, "projects")}
    gone = [
        each
        for each in known_projects(home)
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
    """The plain files in a folder; none when it does not exist."""
    try:
        with os.scandir(folder) as found:
            yield from [each for each in found if each.is_file(follow_symlinks=False)]
    except OSError:
        return


class Projects:
    """The projects that have memory, and what a person says of this one."""

    def __init__(self, workspace: Workspace) -> None:
        self._work = workspace

    def init(self) -> Path:
        """Make and trust `.vade/` in the project's root, so that its records are versioned with the code."""
        self._work.may_write()
        self._work.only_a_person("trust a folder", "vade init")
        project = self._work.project()
        with self._work.reported(f"make {project.root / '.vade'}"):
            made = scopes.make_repository(
                self._work.home, project, at=self._work.stamp(), by=self._work.caller.actor
            )
            self._work.audit("trust")
        return made

    def trust(self, *, on: bool = True) -> Path:
        """Trust the `.vade/` of this project, or take that back."""
        self._work.may_write()
        self._work.may_decide("trust a folder", "vade trust")
        project = self._work.project()
        with self._work.reported(f"trust {project.root}"):
            if on:
                scopes.trust_repository(
                    self._work.home, project, at=self._work.stamp(), by=self._work.caller.actor
                )
            else:
                scopes.distrust(self._work.home, project.root)
            self._work.audit("trust" if on else "distrust")
        return project.root

    def alias(self, old: str) -> str:
        """Join what was kept under another project id to this project."""
        self._work.may_write()
        self._work.only_a_person("join another project's memory", "vade project alias")
        project = self._work.project()
        names.check_id(old, "a project")
        if old == project.id:
            raise UsageError(f"{old} is this project's own id")
        with self._work.reported(f"join {old}"):
            if not self._work.home.names("memory", "project", old):
                raise NotFound(f"no memory for a project {old}", hint="run `vade project list`")
            scopes.add_alias(self._work.home, old, project.id, at=self._work.stamp())
            self._work.audit("alias")
        return project.id

    def list(self) -> Sequence[KnownProject]:
        """All projects that have memory here, the one written to last first."""
        if self._work.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees only its own project")
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the projects"):
            return known_projects(self._work.home)

    if not TYPE_CHECKING:
        __call__ = renamed("projects()", "projects.list()", list)

    def moved_here(self) -> Sequence[KnownProject]:
        """Projects with memory whose folder is gone and which may be this one under its old path."""
        project = self._work.caller.project
        if project is None or project.overridden or self._work.settings.incognito:
            return []
        if self._work.caller.audience is Audience.GROUP or self._work.caller.origin is not Origin.USER:
            return []
        with self._work.reported("read the projects"):
            return moved_projects(self._work.home, project)

    def elsewhere(self) -> Sequence[Finding]:
        """What is kept for a project that may be this one, with the command that joins it."""
        found = [*self.earlier()]
        for each in self.moved_here()[:3]:
            count = "1 record" if each.records == 1 else f"{each.records} records"
            why = f"{count} saved for {each.root}, which no longer exists"
            found.append(Finding("project", str(each.root), why, f"vade project alias {each.id}", "info"))
        return found

    def earlier(self) -> Iterator[Finding]:
        """That the project had another id here, whose memory only a person can join."""
        project = self._work.caller.project
        if project is None or self._work.caller.audience is Audience.GROUP:
            return
        earlier = scopes.earlier_id(self._work.home, project)
        if earlier:
            why = f"project id changed from {earlier}; its memory is not included"
            yield Finding("project", str(project.root), why, f"vade project alias {earlier}", "info")
