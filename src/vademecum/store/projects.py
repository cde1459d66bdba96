"""Projects that have memory: their folders, ids and trust, and the size of their memory."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import NotFound, NotVisible, UsageError
from vademecum.store import decisions, scopes
from vademecum.text import clock, filenames, names
from vademecum.text.filenames import is_day, is_record
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
        """Return the project's name for people: its folder's name, or its id."""
        return self.root.name if self.root is not None and self.root.name else self.id

    @property
    def present(self) -> bool:
        """Return whether the project's folder still exists."""
        return self.root is not None and self.root.is_dir()


def known_projects(home: Home) -> list[KnownProject]:
    """Return every project with memory, the most recently written first."""
    roots = _roots(home)
    ids = {*roots, *(name for name in home.names("memory", "project") if name[:1] != ".")}
    joined = {
        alias: str(decision["project"])
        for alias, decision in decisions.every(home, "aliases")
        if decision.get("project")
    }
    found = [_known(home, each, roots.get(each), joined.get(each)) for each in sorted(ids)]
    projects = [each for each in found if each.records or each.days]
    return sorted(projects, key=lambda each: each.updated or "", reverse=True)


def moved_projects(home: Home, project: Project) -> list[KnownProject]:
    """Return unjoined projects without a remote whose folder is gone, those of this folder's name first."""
    own = {project.id, *project.earlier, *scopes.aliases(home, project.id)}
    by_path = {name for name, _ in decisions.every(home, "projects")}
    gone = [
        each
        for each in known_projects(home)
        if each.id in by_path and each.id not in own and each.joined_to is None and not each.present
    ]
    return sorted(gone, key=lambda each: each.name != project.root.name)


def _roots(home: Home) -> dict[str, Path]:
    """Return the folder from which each project was last written, by project id."""
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
    records = [each for top in folders for each in _files(top / filenames.RECORDS) if is_record(each.name)]
    days = [each for each in _files(folders[0] / filenames.JOURNAL) if is_day(each.name)]
    newest = max((each.stat().st_mtime for each in (*records, *days)), default=None)
    updated = None if newest is None else clock.stamp(datetime.fromtimestamp(newest, UTC))
    return KnownProject(id, root, len(records), len(days), updated, joined_to)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the plain files in a folder; none when the folder does not exist."""
    try:
        with os.scandir(folder) as found:
            yield from [each for each in found if each.is_file(follow_symlinks=False)]
    except OSError:
        return


class Projects:
    """Commands on projects: list those with memory, and set up, trust or join the present project."""

    def __init__(self, workspace: Workspace) -> None:
        self._work = workspace

    def init(self) -> Path:
        """Create and trust `.vade/` in the project's root, so that records are versioned with the code."""
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
        """Trust the `.vade/` of this project, or with `on` false withdraw the trust."""
        self._work.may_write()
        self._work.may_decide("trust a folder", "vade review trust")
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
        """Join the memory of another project id to this project."""
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

    def find(self, name: str | os.PathLike[str]) -> str:
        """Return the id of a project, which is given by its id, its name or its folder."""
        self._work.only_a_person("choose another project", "vade project list")
        own, path = self._work.caller.project, Path(name).expanduser()
        if path.is_dir():
            found = scopes.find_project(path, home=self._work.home.path)
            return own.id if own is not None and own.root == found.root else found.id
        known = {each.id: each.name for each in self.list()}
        known.update((id, root.name) for id, root in _roots(self._work.home).items())
        if own is not None:
            known[own.id] = own.root.name
        if str(name) in known:
            return str(name)
        matches = [id for id, each in known.items() if each == str(name)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(
                f"{len(matches)} projects are called {names.shown(str(name))}",
                hint=f"use an id: {', '.join(matches)}",
            )
        raise NotFound(
            f"no project {names.shown(str(name))}", hint="name its folder, or see `vade project list`"
        )

    def list(self) -> Sequence[KnownProject]:
        """Return all projects that have memory here, the most recently written first; none when incognito."""
        if self._work.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees only its own project")
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the projects"):
            return known_projects(self._work.home)

    def moved_here(self) -> Sequence[KnownProject]:
        """Return projects whose folder is gone; this project may be one of them after a move.

        Agents, groups, incognito sessions and projects with an id set by hand get none.
        """
        project = self._work.caller.project
        if project is None or project.overridden or self._work.settings.incognito:
            return []
        if self._work.caller.audience is Audience.GROUP or self._work.caller.origin is not Origin.USER:
            return []
        with self._work.reported("read the projects"):
            return moved_projects(self._work.home, project)

    def elsewhere(self) -> Sequence[Finding]:
        """Return findings about other ids whose memory may be this project's, with the command to join it."""
        found = [*self.earlier()]
        for each in self.moved_here()[:3]:
            count = "1 record" if each.records == 1 else f"{each.records} records"
            why = f"{count} saved for {each.root}, which no longer exists"
            found.append(Finding("project", str(each.root), why, f"vade project alias {each.id}", "info"))
        return found

    def earlier(self) -> Iterator[Finding]:
        """Yield a finding if this folder's project had another id whose memory is not joined yet."""
        project = self._work.caller.project
        if project is None or self._work.caller.audience is Audience.GROUP:
            return
        earlier = scopes.earlier_id(self._work.home, project)
        if earlier:
            why = f"project id changed from {earlier}; its memory is not included"
            yield Finding("project", str(project.root), why, f"vade project alias {earlier}", "info")
