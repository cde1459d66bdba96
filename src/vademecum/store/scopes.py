"""Scopes: who is calling, in which project, which places the caller may see, and in which folders they lie.

The only rule of visibility is here; every interface uses it.

A project has one id for all clones and worktrees of its repository. Git's files are read without running
git: this is ten times faster, and a repository cannot cause any program to run. A folder without git belongs
to the nearest folder above that this home knows as a project.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.config import is_a_home
from vademecum.errors import Collision, NotFound, NotVisible, ScopeUnresolved, UnknownName, UsageError
from vademecum.named_tuple import NamedTuple
from vademecum.store import decisions, files, teams
from vademecum.store.files import DiskFolder
from vademecum.store.home import Home, ScopeFolder
from vademecum.text import filenames, names
from vademecum.types import Audience, Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vademecum.store.home import Home

WITH_JOURNAL = tuple(scope for scope in Scope if scope.rule.journal)
_UNNAMED = {
    "session": None,
    "agent": "name it with `--agent` or VADE_AGENT",
    "project": "run it inside the project's folder, or name it with VADE_PROJECT_ID",
}


class Caller(NamedTuple):
    """The caller of an operation, as the runtime knows it; no text of a request sets its fields."""

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
    client: str = (
        ""  # the program it came through, as `names.client_label` writes it; says who, decides nothing
    )
    conversation: str = ""  # the agent's own session, where a hook has told it
    connection: bool = False  # whether `session` ends with a connection, and so cannot be continued

    @property
    def decides(self) -> bool:
        """Return whether the caller is a person who may verify, approve, trust, protect and delete."""
        return self.origin is Origin.USER and not self.undecided

    def as_agent(self) -> Caller:
        """Return a copy of the caller in which an agent speaks."""
        actor = f"process:{self.agent or 'main'}"
        return self._replace(origin=Origin.AGENT, actor=actor, command_line=False, approved=False)

    def place(self, scope: str | Scope) -> Place:
        """Return the caller's own place in a scope, by the scope's name; raise an error if there is none."""
        return place_for(self, parse_scope(scope))

    @property
    def identity(self) -> str | None:
        """Return which agent calls in which session; None when agent or session is unknown."""
        session = self.conversation or self.session
        return f"{self.agent}:{session}" if self.agent and session else None

    @property
    def speaker(self) -> str | None:
        """Return the caller's `identity` for a person or an agent; None for a tool or an imported file."""
        return self.identity if self.origin in (Origin.USER, Origin.AGENT) else None

    @property
    def provenance(self) -> dict[str, str]:
        """Return actor and program of the caller, in the form of the frontmatter field `generated`."""
        return {"by": self.actor, **({"client": self.client} if self.client else {})}


def parse_scope(name: str | Scope) -> Scope:
    """Return the scope with this name."""
    try:
        return Scope(name)
    except ValueError:
        raise UnknownName(
            f"{names.shown(str(name))} is not a scope", hint=f"the scopes are {', '.join(Scope)}"
        ) from None


def place_for(caller: Caller, scope: Scope) -> Place:
    """Return the caller's own place in a scope; raise an error when the caller has no id for the scope."""
    rule = scope.rule
    if caller.audience is Audience.GROUP and not rule.group:
        raise NotVisible(f"a group session has no access to {scope} memory")
    if not rule.owner:
        return Place(scope)
    own = _owner(caller, rule.owner)
    article = "an" if rule.owner[0] in "aeiou" else "a"
    if not own:
        found = "was found" if rule.owner == "project" else "is named"
        hint = _UNNAMED.get(rule.owner, f"name it with {rule.variable}")
        raise ScopeUnresolved(f"{scope} memory needs {article} {rule.owner}, and none {found}", hint=hint)
    return Place(scope, own if rule.owner == "project" else names.check_id(own, f"{article} {rule.owner}"))


def _owner(caller: Caller, owner: str) -> str | None:
    if owner == "project":
        return caller.project.id if caller.project is not None else None
    known = {"session": caller.session, "agent": caller.agent, **dict(caller.owners)}
    return known.get(owner)


def owners(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the caller's ids from the environment for scopes other than session, project and agent."""
    variables = {rule.owner: rule.variable for rule in (scope.rule for scope in Scope) if rule.variable}
    return tuple((owner, environ[name]) for owner, name in variables.items() if environ.get(name))


def visible(caller: Caller) -> list[Place]:
    """Return every place that the caller may read, in order of precedence."""
    places = []
    for scope in Scope:
        try:
            places.append(place_for(caller, scope))
        except (ScopeUnresolved, NotVisible):
            continue
    return places


def journal_place(caller: Caller, scope: Scope) -> Place:
    """Return the place for a journal note; raise an error for scopes without a journal."""
    if scope not in WITH_JOURNAL:
        raise UnknownName(
            f"{scope} memory has no journal",
            hint=f"notes go to {', '.join(WITH_JOURNAL)}; use `vade add` here",
        )
    return place_for(caller, scope)


def scope_folders(home: Home, caller: Caller, place: Place) -> list[ScopeFolder]:
    """Return the folders of a place, the nearest first.

    A repository's `.vade/` comes first if the user trusts it, else last, so strangers' files hide nothing
    of the user's. The home's folders for the same project follow, also those under the project's earlier ids.
    The folders of teams come after the user's own.
    """
    own, shared_by_teams = [home.scope_folder(place)], teams.team_folders(home, place)
    if place.scope is not Scope.PROJECT:
        return [*own, *shared_by_teams]
    if caller.project is not None and place.id == caller.project.id:
        shared = repository_folder(home, caller.project.root, place)
        own = [*([shared] if shared else []), *own]
        for earlier in _kept_before(home, caller.project):
            own.append(home.scope_folder(Place(Scope.PROJECT, earlier))._replace(place=place))
    for alias in aliases(home, place.id):
        scope_folder = home.scope_folder(Place(Scope.PROJECT, alias))._replace(place=place)
        if scope_folder not in own:
            own.append(scope_folder)
    return sorted([*own, *shared_by_teams], key=lambda scope_folder: not scope_folder.trusted)


def folder_for_new(scope_folders: Sequence[ScopeFolder]) -> ScopeFolder:
    """Return the folder for new records: the chosen team's, else the repository's, else the first."""
    chosen = (scope_folder for scope_folder in scope_folders if scope_folder.writes)
    return next(chosen, None) or next(
        (scope_folder for scope_folder in scope_folders if scope_folder.outside), scope_folders[0]
    )


def _kept_before(home: Home, project: Project) -> list[str]:
    """Return the project's earlier ids that are not joined to another project; none for an id set by hand."""
    if project.overridden:
        return []
    joined = {each: decisions.get(home, "aliases", each) for each in project.earlier}
    return [each for each, known in joined.items() if known is None or known.get("project") == project.id]


def repository_folder(home: Home, root: Path, place: Place) -> ScopeFolder | None:
    """Return a repository's `.vade/` folder; None when it has none, or when the folder is a home."""
    folder = root / ".vade"
    if not folder.is_dir() or is_a_home(folder, home.path):
        return None
    return ScopeFolder(
        place, root, (".vade",), ".vade", shared=True, trusted=is_trusted(home, root), signed=False
    )


def check_new_folder(scope_folder: ScopeFolder) -> None:
    """Raise an error for an id that another system would confuse with an existing one."""
    if scope_folder.shared or not scope_folder.place.id:
        return
    wanted = scope_folder.parts[-1]
    parent = scope_folder._replace(parts=scope_folder.parts[:-1]).open()
    if parent is None:
        return
    with parent:
        siblings = parent.names()
    if wanted not in siblings:
        for name in siblings:
            if names.folded(name) == names.folded(wanted):
                scope = scope_folder.place.scope
                raise Collision(
                    f"{scope} {wanted} differs from {name} only in ways some systems ignore",
                    hint=f"use the name {name}",
                )


def aliases(home: Home, project_id: str) -> list[str]:
    """Return all earlier ids of a project, including earlier ids of those ids."""
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
    """Join the memory of another id to a project."""
    decisions.put(home, "aliases", names.check_id(alias, "a project"), {"project": project_id, "at": at})


def drop_alias(home: Home, alias: str, project_id: str) -> bool:
    """Separate the memory of an id from the project it was joined to; return False when it was not."""
    known = decisions.get(home, "aliases", alias)
    if known is None or known.get("project") != project_id:
        return False
    return decisions.drop(home, "aliases", alias)


def remember_project(home: Home, project: Project, *, at: str) -> None:
    """Save the id of a project's root, and join memory from before the project had a remote.

    Nothing is saved for an id set by hand. Memory of a different repository earlier at the same path is not
    joined: its id is saved as `earlier`, and a person may join it.
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
    """Return the id that this root had before, if its memory exists and is not joined to this project."""
    known = decisions.get(home, "projects", project.by_path) or {}
    if project.overridden or known.get("overridden"):
        return None
    earlier = str(known.get("earlier" if known.get("id") == project.id else "id") or "")
    reached = (project.id, *project.earlier, *aliases(home, project.id))
    if not earlier or earlier in reached or not home.names("memory", "project", earlier):
        return None
    return earlier


def join_by_path(home: Home, project: Project, *, at: str) -> None:
    """Join memory saved under the project's earlier ids, so that other clones find it, too."""
    for earlier in () if project.overridden else project.earlier:
        known = decisions.get(home, "aliases", earlier)
        if known is None and home.names("memory", "project", earlier):
            add_alias(home, earlier, project.id, at=at)


def is_trusted(home: Home, root: Path) -> bool:
    """Return whether the user has trusted the `.vade/` of this folder."""
    decision = decisions.get(home, "trusted", _path_name(root))
    return decision is not None and decision.get("path") == os.path.realpath(root)


def trusted_folders(home: Home) -> list[Path]:
    """Return the folders whose `.vade/` the user has trusted."""
    found = (decision.get("path") for _, decision in decisions.every(home, "trusted"))
    return [Path(path) for path in found if isinstance(path, str)]


def trust(home: Home, root: Path, *, at: str, by: str) -> None:
    """Save in the home that the user trusts the `.vade/` of this folder, by its path."""
    decisions.put(home, "trusted", _path_name(root), {"path": os.path.realpath(root), "at": at, "by": by})


def distrust(home: Home, root: Path) -> bool:
    """Withdraw the trust in a folder; return False when it was not trusted."""
    return decisions.drop(home, "trusted", _path_name(root))


def _path_name(root: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]


GITIGNORE = b"# Made by Vademecum, can be made again.\nindex.md\n.vade-*\n"


def own_folder(home: Home, project: Project | None) -> ScopeFolder | None:
    """Return the `.vade/` folder in the project's root; None when it has none."""
    if project is None:
        return None
    return repository_folder(home, project.root, Place(Scope.PROJECT, project.id))


def make_repository(home: Home, project: Project, *, at: str, by: str) -> Path:
    """Create and trust `.vade/` in the project's root; leave one that is already trusted as it is."""
    path = project.root / ".vade"
    found = own_folder(home, project)
    if found is not None and not found.trusted and not _unfinished(found):
        raise UsageError(f"{path} already exists", hint="read it, then run `vade review trust`")
    if is_a_home(path, home.path):
        raise UsageError(f"{path} is a memory folder itself", hint="run it in a project's folder")
    with DiskFolder.at(project.root) as root, root.enter(".vade", create=True, mode=0o755) as top:
        top.enter(filenames.RECORDS, create=True, mode=0o755).close()
        top.update(".gitignore", lambda now: GITIGNORE if now is None else now, mode=0o644)
    trust_repository(home, project, at=at, by=by)
    return path


def _unfinished(found: ScopeFolder) -> bool:
    """Return whether a folder holds only what a killed `make_repository` left."""
    folder = found.open()
    if folder is None:
        return True
    with folder:
        names = {name for name in folder.names() if not name.startswith(files.PREFIX)}
        own = (
            folder.read(".gitignore") in (None, GITIGNORE)
            if names <= {".gitignore", filenames.RECORDS}
            else False
        )
    records = found.open(filenames.RECORDS)
    if not own or records is None:
        return own
    with records:
        return not records.names()


def trust_repository(home: Home, project: Project, *, at: str, by: str) -> None:
    """Trust the `.vade/` of a project."""
    if own_folder(home, project) is None:
        raise NotFound(f"{project.root} has no `.vade/`", hint="run `vade init` to make one")
    trust(home, project.root, at=at, by=by)


_SCHEME = r"(?i)[a-z][a-z0-9+.-]*://"  # texts, compiled when a remote is read
_LARGEST = 1024 * 1024
_INCLUDES = 5  # files of git that include one another, one below the other
_HEADER = r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]'
# Addresses that no other one of these can be taken for once all marks are dashes: host/a/b, host.tld/a/b/…
_PLAIN = r"[a-z0-9]+/[a-z0-9]+/[a-z0-9]+|[a-z0-9]+\.[a-z0-9]+(?:/[a-z0-9]+){2,}"


class Project(NamedTuple):
    """A project's root and id; `by_path` is the id that its root would have without a remote.

    `as_written` is the id of the remote as git's file spells it, before `url.<base>.insteadOf` replaces its
    beginning: memory may have been saved under that id.
    """

    root: Path
    id: str
    by_path: str
    overridden: bool = False
    as_written: str = ""

    @property
    def earlier(self) -> tuple[str, ...]:
        """Return the other ids of this folder."""
        return tuple(each for each in (self.by_path, self.as_written) if each and each != self.id)


def find_project(cwd: Path, *, home: Path, override: str | None = None) -> Project:
    """Return the project to which a folder belongs; `override` replaces its id."""
    root = find_root(cwd, home=home)
    by_path = path_id(_main_worktree(root))
    if override:
        return Project(root, names.check_id(override, "a project"), by_path, overridden=True)
    remote = origin_remote(root)
    if not remote:
        return Project(root, by_path, by_path)
    ids = []
    for url in (rewritten(remote, root=root), remote):
        # Beside the repository: the same words elsewhere are another one.
        found = os.path.normpath(_main_worktree(root) / url) if url.startswith(".") else url
        ids.append(normalise_remote(found) or by_path)
    return Project(root, ids[0], by_path, as_written=ids[1] if ids[1] != ids[0] else "")


def find_root(cwd: Path, *, home: Path) -> Path:
    """Return the nearest folder upward with `.vade/` or `.git`, else the nearest known project, else `cwd`.

    A home is never a project's root.
    """
    start = Path(os.path.realpath(cwd))
    for folder in (start, *start.parents):
        marker = folder / ".vade"
        if (folder / ".git").exists() or (marker.is_dir() and not is_a_home(marker, home)):
            return folder
    if is_known(start, home=home):
        return start
    return next((folder for folder in _narrow(start) if is_known(folder, home=home)), start)


def is_known(folder: Path, *, home: Path) -> bool:
    """Return whether this home knows the folder as a project's root."""
    own = path_id(folder)
    return (home / "decisions" / "projects" / f"{own}.json").is_file() or (
        home / "memory" / "project" / own
    ).is_dir()


def _narrow(start: Path) -> Iterator[Path]:
    """Yield the folders above, until one that is or contains the user's home or the temporary folder."""
    import tempfile  # it loads archives and random numbers, for a folder that nobody wrote in yet

    user, shared = os.path.realpath(os.path.expanduser("~")), os.path.realpath(tempfile.gettempdir())
    for folder in start.parents:
        if any(os.path.commonpath([folder, wide]) == str(folder) for wide in (user, shared)):
            return
        yield folder


def path_id(root: Path) -> str:
    """Return the id of a project that has no remote: a hash of its path."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:12]


def normalise_remote(url: str) -> str:
    """Return the same id for every spelling of a remote, without scheme, user, token, port and `.git`."""
    text = url.strip()
    schemed = re.match(_SCHEME, text)
    text = text[schemed.end() :] if schemed else text
    if schemed and re.match(r"[^/@:]*:(?!\d*/)[^@]*/.*@", text):  # a password with a slash in it
        text = text.rpartition("@")[2]
    host, slash, path = text.partition("/")
    host = host.rpartition("@")[2]
    if host.startswith("["):  # an IPv6 address, its port behind the bracket
        host = host.partition("]")[0]
    elif ":" in host:
        host, _, after = host.partition(":")
        # Behind a scheme the colon begins a port; without one it is git's short form host:path.
        if not (schemed and after.isdecimal()):
            path = f"{after}/{path}" if slash else after
    path = path.split("?")[0].split("#")[0].rstrip("/").lower().removesuffix(".git")
    path = "/".join(part for part in path.split("/") if part)
    found = "-".join(re.findall(r"[a-z0-9]+", f"{host.lower()}/{path}"))
    if len(found) > 100 or not re.fullmatch(_PLAIN, f"{host.lower()}/{path}"):
        # acme/api-core and acme-api/core are two projects, a.b/c and a/b/c too: a mark tells them apart.
        mark = hashlib.sha256(f"{host.lower()}/{path}".encode()).hexdigest()[:6]
        found = f"{found[:90].rstrip('-')}-{mark}"
    return found.strip("-")


def origin_remote(root: Path) -> str | None:
    """Return the URL of the remote `origin` from the repository's own git configuration."""
    folder = _git_folder(root)
    if folder is None:
        return None
    for section, name, key, value in _settings(_common_folder(folder) / "config"):
        if (section, name, key) == ("remote", "origin", "url"):
            return value
    return None


def rewritten(url: str, *, root: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Return a remote's URL as git uses it, after replacing the longest matching `url.<base>.insteadOf`."""
    longest, best = "", url
    for path in _git_files(root, environ):
        for section, base, key, prefix in _settings(path, includes=_INCLUDES):
            fits = section == "url" and key == "insteadof" and prefix and url.startswith(prefix)
            if fits and len(prefix) > len(longest):
                longest, best = prefix, base + url[len(prefix) :]
    return best


def _git_files(root: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files of git's configuration, from the system's to the repository's own."""
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() not in ("1", "true", "yes", "on"):
        yield Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")
    user = Path(os.path.expanduser("~"))
    if environ.get("GIT_CONFIG_GLOBAL"):
        yield Path(environ["GIT_CONFIG_GLOBAL"])
    else:
        yield Path(environ.get("XDG_CONFIG_HOME") or user / ".config") / "git" / "config"
        yield user / ".gitconfig"
    folder = _git_folder(root)
    if folder is not None:
        yield _common_folder(folder) / "config"


def _settings(path: Path, *, includes: int = 0) -> Iterator[tuple[str, str, str, str]]:
    """Yield each setting in a git configuration file and in the files that it includes.

    Files are included to a depth of `includes`. A setting is a tuple: section, name in quotes, key, value.
    """
    section, name = "", ""
    for line in _lines(path):
        head = re.match(_HEADER, line)
        if head:
            section, name = head[1].lower(), re.sub(r"\\(.)", r"\1", head[2] or "")
        key, equals, value = (line[head.end() :] if head else line).partition("=")
        if not equals:
            continue
        found = _unquoted(value.strip())
        yield section, name, key.strip().lower(), found
        if includes and (section, name, key.strip().lower()) == ("include", "", "path") and found:
            included = Path(os.path.expanduser(found))
            yield from _settings(path.parent / included, includes=includes - 1)


def _git_folder(root: Path) -> Path | None:
    """Return the repository's git folder; in a worktree or submodule the file `.git` names it."""
    marker = root / ".git"
    if marker.is_dir():
        return marker
    for line in _lines(marker):
        if line.startswith("gitdir:") and "\0" not in line:
            return root / line.removeprefix("gitdir:").strip()
    return None


def _common_folder(folder: Path) -> Path:
    """Return the git folder that all worktrees of a repository share."""
    for line in _lines(folder / "commondir"):
        return folder / line
    return folder


def _main_worktree(root: Path) -> Path:
    """Return the root of the main worktree, if the folder is another worktree of it; else the folder."""
    folder = _git_folder(root)
    if folder is None or folder == root / ".git":
        return root
    common = Path(os.path.realpath(_common_folder(folder)))
    return common.parent if common.name == ".git" else root


def _lines(path: Path) -> Iterator[str]:
    """Yield a small text file's lines without comments and blank lines; none when it is unreadable."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return
        content = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in content.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#;":
            yield stripped


def _unquoted(value: str) -> str:
    if value.startswith('"') and value.find('"', 1) > 0:
        return value[1 : value.find('"', 1)]
    return re.split(r"\s[#;]", value)[0].strip()
