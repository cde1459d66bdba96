"""Scopes: who is calling, what they may see, and on which shelves it lies.

The one predicate of visibility lives here; every door goes through it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.config import is_a_home
from vademecum.errors import Collision, NotFound, NotVisible, ScopeUnresolved, UnknownName, UsageError
from vademecum.store import archive, decisions, files, names
from vademecum.store.files import DiskFolder
from vademecum.store.home import Home, Shelf
from vademecum.types import Audience, Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.store.home import Home
    from vademecum.store.identity import Project

WITH_JOURNAL = tuple(scope for scope in Scope if scope.rule.journal)
_UNNAMED = {
    "session": None,
    "agent": "name it with `--agent` or VADE_AGENT",
    "project": "run it inside the project's folder, or name it with VADE_PROJECT_ID",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking, as the runtime knows it; nothing of this comes from the text of a request."""

    agent: str | None = None
    session: str | None = None
    project: Project | None = None
    audience: Audience = Audience.PRIVATE
    origin: Origin = Origin.AGENT
    actor: str = "process:main"
    undecided: str = ""  # why a person may not decide here, as where there is no terminal
    undecided_hint: str = ""
    approved: bool = False  # a person, or a setting of theirs, stands behind what this caller does
    command_line: bool = False  # a shell, which reaches the files of this machine without us
    owners: tuple[tuple[str, str], ...] = ()  # what else the runtime goes by, for scopes that ask for it

    @property
    def decides(self) -> bool:
        """Whether this is a person who can verify, approve, trust, protect and delete."""
        return self.origin is Origin.USER and not self.undecided

    def as_agent(self) -> Caller:
        """The same caller, when an agent speaks in its place."""
        actor = f"process:{self.agent or 'main'}"
        return replace(self, origin=Origin.AGENT, actor=actor, command_line=False, approved=False)

    def place(self, scope: str | Scope) -> Place:
        """The caller's own place in a scope, by its name; an error when there is none."""
        return place_for(self, parse_scope(scope))

    @property
    def identity(self) -> str | None:
        """Which agent in which session; None when either is unknown, as nobody can be told apart then."""
        return f"{self.agent}:{self.session}" if self.agent and self.session else None


def parse_scope(name: str | Scope) -> Scope:
    """The scope of that name."""
    try:
        return Scope(name)
    except ValueError:
        raise UnknownName(
            f"{names.shown(str(name))} is not a scope", hint=f"the scopes are {', '.join(Scope)}"
        ) from None


def place_for(caller: Caller, scope: Scope) -> Place:
    """The caller's own place in a scope; an error when the caller has no id there, never another scope."""
    rule = scope.rule
    if caller.audience is Audience.GROUP and not rule.group:
        raise NotVisible(f"a group session has no access to {scope} memory")
    if not rule.owner:
        return Place(scope)
    own = _owner(caller, rule.owner)
    article = "an" if rule.owner[0] in "aeiou" else "a"
    if not own:
        found = "could be found" if rule.owner == "project" else "is named"
        hint = _UNNAMED.get(rule.owner, f"name it with {rule.variable}")
        raise ScopeUnresolved(f"{scope} memory needs {article} {rule.owner}, and none {found}", hint=hint)
    return Place(scope, own if rule.owner == "project" else names.check_id(own, f"{article} {rule.owner}"))


def _owner(caller: Caller, owner: str) -> str | None:
    if owner == "project":
        return caller.project.id if caller.project is not None else None
    known = {"session": caller.session, "agent": caller.agent, **dict(caller.owners)}
    return known.get(owner)


def owners(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What the environment says a caller goes by, beyond its session, project and agent."""
    asked = {rule.owner: rule.variable for rule in (scope.rule for scope in Scope) if rule.variable}
    return tuple((owner, environ[name]) for owner, name in asked.items() if environ.get(name))


def visible(caller: Caller) -> list[Place]:
    """Every place the caller may read, in order of precedence."""
    places = []
    for scope in Scope:
        try:
            places.append(place_for(caller, scope))
        except (ScopeUnresolved, NotVisible):
            continue
    return places


def journal_place(caller: Caller, scope: Scope) -> Place:
    """The place whose journal a note goes to; sessions and federated memory keep none."""
    if scope not in WITH_JOURNAL:
        raise UnknownName(
            f"{scope} memory has no journal",
            hint=f"notes go to {', '.join(WITH_JOURNAL)}; use `vade store` here",
        )
    return place_for(caller, scope)


def shelves(home: Home, caller: Caller, place: Place) -> list[Shelf]:
    """Where a place's things lie, the nearest first.

    A repository's `.vade/` comes first, or last as long as nobody has trusted it: what strangers wrote must
    not hide what is the user's own. What the home keeps for the same project stays readable, and so does what
    was kept under an id the project had before.
    """
    own = [home.shelf(place)]
    if place.scope is not Scope.PROJECT:
        return own
    if caller.project is not None and place.id == caller.project.id:
        shared = repository_shelf(home, caller.project.root, place)
        own = [*([shared] if shared else []), *own]
        for earlier in _kept_before(home, caller.project):
            own.append(replace(home.shelf(Place(Scope.PROJECT, earlier)), place=place))
    for alias in aliases(home, place.id):
        shelf = replace(home.shelf(Place(Scope.PROJECT, alias)), place=place)
        if shelf not in own:
            own.append(shelf)
    return sorted(own, key=lambda shelf: not shelf.trusted)


def shelf_for_new(shelves: Sequence[Shelf]) -> Shelf:
    """Where new records of a place go: to the repository's `.vade/`, trusted or not, if there is one."""
    return next((shelf for shelf in shelves if shelf.shared), shelves[0])


def _kept_before(home: Home, project: Project) -> list[str]:
    """Under which other ids of this very folder its memory may lie: not under an override, nor another's."""
    if project.overridden:
        return []
    joined = {each: decisions.get(home, "aliases", each) for each in project.earlier}
    return [each for each, known in joined.items() if known is None or known.get("project") == project.id]


def repository_shelf(home: Home, root: Path, place: Place) -> Shelf | None:
    """The `.vade/` folder of a repository, when it has one that is not somebody's home."""
    folder = root / ".vade"
    if not folder.is_dir() or is_a_home(folder, home.path):
        return None
    return Shelf(place, root, (".vade",), ".vade", shared=True, trusted=is_trusted(home, root))


def check_new_folder(shelf: Shelf) -> None:
    """Refuse an id that another system would confuse with one that is already here."""
    if shelf.shared or not shelf.place.id:
        return
    wanted = shelf.parts[-1]
    parent = replace(shelf, parts=shelf.parts[:-1]).open()
    if parent is None:
        return
    with parent:
        siblings = parent.names()
    if wanted not in siblings:
        for name in siblings:
            if names.folded(name) == names.folded(wanted):
                raise Collision(
                    f"{shelf.place.scope} {wanted} differs from {name} only in ways some systems ignore",
                    hint=f"use the name {name}",
                )


def aliases(home: Home, project_id: str) -> list[str]:
    """Ids under which a project was known before, however long the chain."""
    joined: dict[str, list[str]] = {}
    for alias, decision in decisions.every(home, "aliases"):
        joined.setdefault(str(decision.get("project", "")), []).append(alias)
    found, waiting = [], [project_id]
    while waiting:
        for alias in joined.pop(waiting.pop(), []):
            if alias != project_id and alias not in found:
                found.append(alias)
                waiting.append(alias)
    return found


def add_alias(home: Home, alias: str, project_id: str, *, at: str) -> None:
    """Join what was kept under another id to a project."""
    decisions.put(home, "aliases", names.check_id(alias, "a project"), {"project": project_id, "at": at})


def remember_project(home: Home, project: Project, *, at: str) -> None:
    """Note the id of a root; memory from before it had a remote is joined, and no other.

    An override says nothing of the folder, and a path that held another repository yesterday must not hand
    over that one's memory: such an id is remembered as `earlier`, for a person to join.
    """
    known = decisions.get(home, "projects", project.by_path) or {}
    if project.overridden or known.get("id") == project.id:
        return
    join_by_path(home, project, at=at)
    earlier = None if known.get("overridden") else known.get("id")
    decisions.put(
        home,
        "projects",
        project.by_path,
        {"root": str(project.root), "id": project.id, "earlier": earlier, "at": at},
    )


def earlier_id(home: Home, project: Project) -> str | None:
    """The id this root had before, when its memory is still there and joined to nothing of this project."""
    known = decisions.get(home, "projects", project.by_path) or {}
    if project.overridden or known.get("overridden"):
        return None
    earlier = str(known.get("earlier" if known.get("id") == project.id else "id") or "")
    reached = (project.id, *project.earlier, *aliases(home, project.id))
    if not earlier or earlier in reached or not home.names("memory", "project", earlier):
        return None
    return earlier


def join_by_path(home: Home, project: Project, *, at: str) -> None:
    """Join what was kept before the project had a remote, so that its other clones reach it as well."""
    for earlier in () if project.overridden else project.earlier:
        known = decisions.get(home, "aliases", earlier)
        if known is None and home.names("memory", "project", earlier):
            add_alias(home, earlier, project.id, at=at)


def is_trusted(home: Home, root: Path) -> bool:
    """Whether the user has trusted the `.vade/` of this folder."""
    decision = decisions.get(home, "trusted", _path_name(root))
    return decision is not None and decision.get("path") == os.path.realpath(root)


def trusted_folders(home: Home) -> list[Path]:
    """The folders whose `.vade/` the user has trusted."""
    found = (decision.get("path") for _, decision in decisions.every(home, "trusted"))
    return [Path(path) for path in found if isinstance(path, str)]


def trust(home: Home, root: Path, *, at: str, by: str) -> None:
    """Trust the `.vade/` of this folder; kept in the home, by path."""
    decisions.put(home, "trusted", _path_name(root), {"path": os.path.realpath(root), "at": at, "by": by})


def distrust(home: Home, root: Path) -> bool:
    """Take the trust in a folder back."""
    return decisions.drop(home, "trusted", _path_name(root))


def _path_name(root: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]


GITIGNORE = b"# Made by Vademecum, can be made again.\nindex.md\n.vade-*\n"


def own_shelf(home: Home, project: Project | None) -> Shelf | None:
    """The shelf in the project's own folder, when it has one."""
    if project is None:
        return None
    return repository_shelf(home, project.root, Place(Scope.PROJECT, project.id))


def make_repository(home: Home, project: Project, *, at: str, by: str) -> Path:
    """Make and trust `.vade/` in the project's root; one that is trusted already stays as it is."""
    path = project.root / ".vade"
    found = own_shelf(home, project)
    if found is not None and not found.trusted and not _unfinished(found):
        raise UsageError(f"{path} is here already", hint="read it, then run `vade trust`")
    if is_a_home(path, home.path):
        raise UsageError(f"{path} is a memory folder itself", hint="run it in a project's folder")
    with DiskFolder.at(project.root) as root, root.enter(".vade", create=True, mode=0o755) as top:
        top.enter(archive.RECORDS, create=True, mode=0o755).close()
        top.update(".gitignore", lambda now: GITIGNORE if now is None else now, mode=0o644)
    trust_repository(home, project, at=at, by=by)
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


def trust_repository(home: Home, project: Project, *, at: str, by: str) -> None:
    """Trust the `.vade/` of a project."""
    if own_shelf(home, project) is None:
        raise NotFound(f"{project.root} has no `.vade/`", hint="run `vade init` to make one")
    trust(home, project.root, at=at, by=by)
