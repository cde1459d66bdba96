"""Find the project of sessions whose folder no longer exists, by what their transcripts show.

A session belongs to the project of the folder that it ran in. A folder that is gone, as a deleted worktree or
one of another machine, would be a project by itself. Its repository is looked for in the transcripts: the
checkout that a worktree was made from, the URL of the remote, and the name of the folder. Doubtful cases get
no project.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import VadeError
from vademecum.store import decisions, scopes
from vademecum.transcripts.foreign import SessionFacts
from vademecum.transcripts.log import Log, LogFile
from vademecum.transcripts.messages import Message, Text, ToolResult
from vademecum.transcripts.paths import ENDING, FOLDER
from vademecum.transcripts.sessions import first_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.store import Home
    from vademecum.transcripts.importing import ImportedSession, TranscriptReader

JOIN = "join"  # what the joins of one import are called among the runs
JOINED = "joined"  # one of these joins
CHOSEN = "you chose it"
_FILES = 20  # transcripts of a folder that are read for evidence
_LOGS = 20  # earlier sessions of a project that are asked for a folder
_ORIGIN = re.compile(r"^origin\t(\S{4,300}) \(fetch\)", re.MULTILINE)  # as `git remote -v` prints it
_MENTIONED = re.compile(
    r"(?:https?://|ssh://git@|git@|(?<![\w./@-])(?=(?:github|gitlab)\.com|bitbucket\.org))"
    r"([\w-]+(?:\.[\w-]+)+[:/][\w.-]+/[\w.-]*\w)"
)
_ADDRESS = re.compile(r"(?i)(?:https?|ssh|git)://|[\w.-]+@[\w.-]+:")
_WORKTREES = re.compile(r"(.*?)[.-]?worktrees", re.IGNORECASE)


class GoneFolder(NamedTuple):
    """A folder that no longer exists, with the imported sessions that ran in it."""

    id: str  # the project that its sessions are kept under
    folder: str
    sessions: tuple[ImportedSession, ...]

    def result(self, project: str = "", why: str = "") -> JoinedFolder:
        """Return the folder for the report: joined to `project` because of `why`, or left without one."""
        is_new = any(each.outcome == "new" for each in self.sessions)
        return JoinedFolder(self.folder, len(self.sessions), project, why, is_new)


class JoinedFolder(NamedTuple):
    """A folder that no longer exists, the number of its sessions, and the project they were joined to."""

    folder: str
    sessions: int
    project: str = ""  # empty: it is left
    why: str = ""
    new: bool = False  # whether a session of it came with this import


class JoinedFolders(NamedTuple):
    """The folders that were joined to projects, those that are left, and the run that undoes the joins."""

    joined: Sequence[JoinedFolder] = ()
    left: Sequence[JoinedFolder] = ()
    run: str = ""


class KnownRepository(NamedTuple):
    """A project that exists, and the names of its folders and of its remote."""

    id: str
    names: frozenset[str]


class RepositoryEvidence(NamedTuple):
    """What the transcripts of a folder show about its repository."""

    is_repository: bool = False
    checkouts: frozenset[str] = frozenset()  # the folders that worktrees were made from
    remotes: frozenset[str] = frozenset()  # URLs that the agent recorded
    printed: frozenset[str] = frozenset()  # URLs that git printed in the session
    mentioned: frozenset[str] = frozenset()  # addresses of repositories in messages and results


def find_gone_folders(imported: Iterable[ImportedSession], *, home: Home) -> list[GoneFolder]:
    """Return the folders of imported sessions that do not exist and belong to no project yet, the
    uppermost first.
    """
    found: dict[str, list[ImportedSession]] = defaultdict(list)
    roots: dict[str, str] = {}
    projects: dict[str, scopes.Project | None] = {}
    for each in imported:
        if each.folder not in projects:
            projects[each.folder] = _gone_project(each.folder, home)
        project = projects[each.folder]
        if project is not None and each.session and each.project == project.id:
            found[project.id].append(each)
            roots[project.id] = str(project.root)
    aliased = {alias for alias, _ in decisions.every(home, "aliases")}
    gone = [GoneFolder(id, roots[id], tuple(found[id])) for id in found if id not in aliased]
    return sorted(gone, key=lambda each: (len(PurePath(each.folder).parts), each.folder))


def _gone_project(folder: str, home: Home) -> scopes.Project | None:
    if not os.path.isabs(folder) or "\0" in folder or not _is_gone(folder):
        return None
    project = scopes.find_project(Path(folder), home=home.path)
    return project if _is_gone(project.root) else None


def noted_project(home: Home, by_path: str) -> str:
    """Return the project that memory was saved for in a folder while it existed; else an empty text.

    `by_path` is the id of the folder's path. The project had another id if the folder had a remote.
    """
    noted = decisions.get(home, "projects", by_path) or {}
    id = str(noted.get("id") or "")
    return "" if noted.get("overridden") or id == by_path else id


def _is_gone(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder does not exist; a folder that cannot be looked at may exist."""
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def known_repositories(
    home: Home, caller: scopes.Caller, imported: Iterable[ImportedSession]
) -> dict[str, KnownRepository]:
    """Return the projects of this machine whose folders exist, by their ids."""
    own = caller.project
    noted = (str(decision.get("root") or "") for _, decision in decisions.every(home, "projects"))
    folders = dict.fromkeys(chain(noted, (each.folder for each in imported), _logged_folders(home)))
    found: dict[str, set[str]] = defaultdict(set)
    if own is not None:
        found[own.id] |= _names(own.root)
    for folder in folders:
        if os.path.isabs(folder) and "\0" not in folder and os.path.isdir(folder):
            project = scopes.find_project(Path(folder), home=home.path)
            id = own.id if own is not None and own.root == project.root else project.id
            found[id] |= _names(project.root)
    return {id: KnownRepository(id, frozenset(names)) for id, names in found.items()}


def _names(root: Path) -> set[str]:
    """Return the names of a repository: of its folder and of its remote; none for a plain folder."""
    if not (root / ".git").exists():
        return set()
    remote = scopes.origin_remote(root) or ""
    return {root.name.lower(), _repository_name(remote)} - {""}


def _repository_name(remote: str) -> str:
    return re.split(r"[/:\\]", remote.rstrip("/"))[-1].lower().removesuffix(".git")


def _logged_folders(home: Home) -> Iterator[str]:
    """Yield, for each project, one existing folder in which one of its sessions ran."""
    for project in home.names(FOLDER):
        logs = [name.removesuffix(ENDING) for name in home.names(FOLDER, project) if name.endswith(ENDING)]
        for session in logs[:_LOGS]:
            try:
                started = first_event(Log(session, LogFile(home, project, session)))
            except VadeError:
                continue
            if started is not None and started.cwd and os.path.isdir(started.cwd):
                yield started.cwd
                break


def read_evidence(gone: GoneFolder, reader: Callable[[str], TranscriptReader]) -> RepositoryEvidence:
    """Return what the first transcripts of a folder show about its repository."""
    branches: set[str] = set()
    checkouts: set[str] = set()
    remotes: set[str] = set()
    printed: set[str] = set()
    mentioned: set[str] = set()
    for session in gone.sessions[:_FILES]:
        try:
            for item in reader(session.format).read(session.path):
                if isinstance(item, SessionFacts):
                    branches.add(item.branch)
                    checkouts.add(item.checkout)
                    remotes.add(item.repository)
                elif isinstance(item, Message):
                    for part in item.parts:
                        if isinstance(part, ToolResult) and "origin\t" in part.text:
                            printed.update(_ORIGIN.findall(part.text))
                        if isinstance(part, Text | ToolResult):
                            mentioned.update(_MENTIONED.findall(part.text))
        except (VadeError, OSError):
            continue  # the import has reported this file
    checkouts, remotes = checkouts - {""}, remotes - {""}
    # "HEAD" stands where no branch is checked out, which may be outside of any repository.
    in_repository = bool(branches - {"", "HEAD"})
    shown = (frozenset(each) for each in (checkouts, remotes, printed, mentioned))
    return RepositoryEvidence(in_repository, *shown)


def find_repository(
    folder: str,
    evidence: RepositoryEvidence,
    known: Mapping[str, KnownRepository],
    *,
    project_at: Callable[[str], str],
) -> tuple[str, str]:
    """Return the project that a folder surely belonged to, and what shows it; empty texts in doubt.

    `project_at` returns the project of a folder, or an empty text for a folder that no project is known for.
    """
    by_checkout = {project_at(each) for each in evidence.checkouts}
    if len(by_checkout) == 1 and "" not in by_checkout:
        return by_checkout.pop(), f"a worktree of {next(iter(evidence.checkouts))}"
    recorded = {scopes.normalise_remote(each): each for each in evidence.remotes if _ADDRESS.match(each)}
    if by_checkout or len(recorded) > 1:
        return "", ""
    if recorded:
        ((id, remote),) = recorded.items()
        return id, f"its remote is {remote.rpartition('@')[2] if '://' in remote else remote}"
    if not evidence.is_repository:
        return "", ""
    names = _names_in(folder)
    printed = {scopes.normalise_remote(each) for each in evidence.printed}
    if len(printed) == 1 and printed <= known.keys():
        # A session may ask another repository for its remote, so the folder's name has to agree.
        (id,) = printed
        named = names & {*known[id].names, *map(_repository_name, evidence.printed)}
        return (id, f"git printed the remote {id}") if named else ("", "")
    return _find_by_name(folder, names, evidence, known)


def _find_by_name(
    folder: str, names: set[str], evidence: RepositoryEvidence, known: Mapping[str, KnownRepository]
) -> tuple[str, str]:
    """Return the only known repository with one of `names`, and what shows it; empty texts in doubt.

    In doubt are folders for which git printed a remote, whose path names another known repository, or whose
    transcripts mention only other repositories of this name.
    """
    every = {part.lower() for part in PurePath(folder).parts}
    mentioned = {id for id, each in known.items() if each.names & (every | names)}
    named_so = {id for id, each in known.items() if each.names & names}
    if evidence.printed or len(named_so) != 1 or mentioned != named_so:
        return "", ""
    (id,) = named_so
    # The address of another repository of this name, without that of the known one.
    same_name = {each for each in evidence.mentioned if _repository_name(each) in known[id].names}
    if same_name and id not in map(scopes.normalise_remote, same_name):
        return "", ""
    return id, f"the only known repository called {next(iter(known[id].names & names))}"


def _names_in(folder: str) -> set[str]:
    """Return the names that a folder's path gives its repository.

    They are the last part, and what stands beside `worktrees`, as in `api/.claude/worktrees/fix`,
    `worktrees/api/fix` and `api-worktrees/fix`.
    """
    parts = PurePath(folder).parts
    found = {parts[-1]}
    for at, part in enumerate(parts[:-1]):
        match = _WORKTREES.fullmatch(part)
        if match:
            above = [each for each in parts[:at] if not each.startswith(".")]
            found |= {match[1], *above[-1:], parts[at + 1]}
    return {each.lower() for each in found} - {""}
