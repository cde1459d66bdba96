"""A repository's own `.vade/`: making one, and trusting one that came with a clone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.config import is_a_home
from vademecum.errors import NotFound, UsageError
from vademecum.store import archive, files, scopes
from vademecum.store.files import DiskFolder
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.store.home import Home, Shelf
    from vademecum.store.identity import Project

GITIGNORE = b"# Made by Vademecum, can be made again.\nindex.md\n.vade-*\n"


def shelf(home: Home, project: Project | None) -> Shelf | None:
    """The shelf in the project's own folder, when it has one."""
    if project is None:
        return None
    return scopes.repository_shelf(home, project.root, Place(Scope.PROJECT, project.id))


def make(home: Home, project: Project, *, at: str, by: str) -> Path:
    """Make and trust `.vade/` in the project's root; one that is trusted already stays as it is."""
    path = project.root / ".vade"
    found = shelf(home, project)
    if found is not None and not found.trusted and not _unfinished(found):
        raise UsageError(f"{path} is here already", hint="read it, then run `vade trust`")
    if is_a_home(path, home.path):
        raise UsageError(f"{path} is a memory folder itself", hint="run it in a project's folder")
    with DiskFolder.at(project.root) as root, root.enter(".vade", create=True, mode=0o755) as top:
        top.enter(archive.RECORDS, create=True, mode=0o755).close()
        top.update(".gitignore", lambda now: GITIGNORE if now is None else now, mode=0o644)
    trust(home, project, at=at, by=by)
    return path


def _unfinished(found: Shelf) -> bool:
    """Whether a folder holds no more than what a killed `make` leaves behind."""
    folder = found.open()
    if folder is None:
        return True
    with folder:
        names = {name for name in folder.names() if not name.startswith(files.PREFIX)}
        own = (
            folder.read(".gitignore") in (None, GITIGNORE)
            if names <= {".gitignore", archive.RECORDS}
            else False
        )
    records = found.open(archive.RECORDS)
    if not own or records is None:
        return own
    with records:
        return not records.names()


def trust(home: Home, project: Project, *, at: str, by: str) -> None:
    """Trust the `.vade/` of a project."""
    if shelf(home, project) is None:
        raise NotFound(f"{project.root} has no `.vade/`", hint="run `vade init` to make one")
    scopes.trust(home, project.root, at=at, by=by)
