"""Projects, trust, attached folders and the audit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound, NotVisible, UsageError
from vademecum.lazy import LazyModule
from vademecum.memory.base import Base
from vademecum.store import audit, names, scopes
from vademecum.types import Audience, Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.store import known, repository, sources
else:
    known = LazyModule("vademecum.store.known")
    repository = LazyModule("vademecum.store.repository")
    sources = LazyModule("vademecum.store.sources")


class Projects(Base):
    """Projects, trust, attached folders and the audit, as a part of `Memory`."""

    def init(self) -> Path:
        """Make and trust `.vade/` in the project's root, so that its records are versioned with the code."""
        self._may_write()
        self._only_a_person("trust a folder", "vade init")
        project = self._project()
        with self._reported(f"make {project.root / '.vade'}"):
            made = repository.make(self.home, project, at=self._stamp(), by=self.caller.actor)
            self._audit("trust")
        return made

    def trust(self, *, on: bool = True) -> Path:
        """Trust the `.vade/` of this project, or take that back."""
        self._may_write()
        self.may_decide("trust a folder", "vade trust")
        project = self._project()
        with self._reported(f"trust {project.root}"):
            if on:
                repository.trust(self.home, project, at=self._stamp(), by=self.caller.actor)
            else:
                scopes.distrust(self.home, project.root)
            self._audit("trust" if on else "distrust")
        return project.root

    def alias(self, old: str) -> str:
        """Join what was kept under another project id to this project."""
        self._may_write()
        self._only_a_person("join another project's memory", "vade project alias")
        project = self._project()
        names.check_id(old, "a project")
        if old == project.id:
            raise UsageError(f"{old} is this project's own id")
        with self._reported(f"join {old}"):
            if not self.home.names("memory", "project", old):
                raise NotFound(f"nothing is kept for a project {old}", hint="run `vade project list`")
            scopes.add_alias(self.home, old, project.id, at=self._stamp())
            self._audit("alias")
        return project.id

    def projects(self) -> Sequence[known.KnownProject]:
        """All projects that have memory here, the one written to last first."""
        if self.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees its own project only")
        if self.settings.incognito:
            return []
        with self._reported("read the projects"):
            return known.projects(self.home)

    def moved_here(self) -> Sequence[known.KnownProject]:
        """Projects with memory whose folder is gone and which may be this one under its old path."""
        project = self.caller.project
        if project is None or project.overridden or self.settings.incognito:
            return []
        if self.caller.audience is Audience.GROUP or self.caller.origin is not Origin.USER:
            return []
        with self._reported("read the projects"):
            return known.moved(self.home, project)

    def add_source(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        inject: bool = False,
        scope: str | Scope = Scope.GLOBAL,
    ) -> sources.Source:
        """Attach a folder of Markdown, to be read in place."""
        self._may_write()
        self._only_a_person("attach a folder of this machine", "vade sources add")
        with self._reported(f"attach {os.fspath(path)}"):
            source = sources.add(
                self.home,
                self.caller,
                Path(path),
                name=name,
                inject=inject,
                scope=scopes.parse_scope(scope),
                at=self._stamp(),
            )
            self._audit("source")
        return source

    def sources(self) -> Sequence[sources.Source]:
        """The attached folders in sight."""
        return [] if self.settings.incognito else sources.visible(self.home, self.caller)

    def remove_source(self, name: str) -> None:
        """Detach a folder; its files stay as they are."""
        self._may_write()
        self._only_a_person("detach a folder", "vade sources remove")
        with self._reported(f"detach {name}"):
            sources.remove(self.home, self.caller, name)
            self._audit("source")

    def audit_lines(self) -> Sequence[dict[str, Any]]:
        """The audit, oldest line first."""
        self._not_in_group("read the audit")
        return [] if self.settings.incognito else list(audit.lines(self.home))

    def verify_audit(self) -> audit.Report:
        """Check the audit for edits, deletions and a cut-off end."""
        return audit.Report(0, ()) if self.settings.incognito else audit.verify(self.home)
