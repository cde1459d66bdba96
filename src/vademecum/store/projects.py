"""Projects: where a project's records lie, whether its folder is trusted, and what else may be its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import NotFound, NotVisible, UsageError
from vademecum.stand_ins import renamed
from vademecum.store import known, names, scopes
from vademecum.types import Audience, Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vademecum.store.workspace import Workspace


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
                raise NotFound(f"nothing is kept for a project {old}", hint="run `vade project list`")
            scopes.add_alias(self._work.home, old, project.id, at=self._work.stamp())
            self._work.audit("alias")
        return project.id

    def list(self) -> Sequence[known.KnownProject]:
        """All projects that have memory here, the one written to last first."""
        if self._work.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees its own project only")
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the projects"):
            return known.projects(self._work.home)

    if not TYPE_CHECKING:
        __call__ = renamed("projects()", "projects.list()", list)

    def moved_here(self) -> Sequence[known.KnownProject]:
        """Projects with memory whose folder is gone and which may be this one under its old path."""
        project = self._work.caller.project
        if project is None or project.overridden or self._work.settings.incognito:
            return []
        if self._work.caller.audience is Audience.GROUP or self._work.caller.origin is not Origin.USER:
            return []
        with self._work.reported("read the projects"):
            return known.moved(self._work.home, project)

    def elsewhere(self) -> Sequence[Finding]:
        """What is kept for a project that may be this one, with the command that joins it."""
        found = [*self.earlier()]
        for each in self.moved_here()[:3]:
            count = "1 record" if each.records == 1 else f"{each.records} records"
            why = f"{count} kept for {each.root}, which is gone"
            found.append(Finding("project", str(each.root), why, f"vade project alias {each.id}", "info"))
        return found

    def earlier(self) -> Iterator[Finding]:
        """That the project had another id here, whose memory only a person can join."""
        project = self._work.caller.project
        if project is None or self._work.caller.audience is Audience.GROUP:
            return
        earlier = scopes.earlier_id(self._work.home, project)
        if earlier:
            why = f"project id changed from {earlier}; its memory is not joined"
            yield Finding("project", str(project.root), why, f"vade project alias {earlier}", "info")
