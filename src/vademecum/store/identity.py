"""Which project is this? One id for all clones and worktrees of a repository.

Reads git's own files instead of running git: it is ten times faster, and a repository cannot make it run
anything. A folder without git belongs to the nearest folder above it that this home knows as a project.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.config import is_a_home
from vademecum.store import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCHEME = re.compile(r"^(?:[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LARGEST = 1024 * 1024
_INCLUDES = 5  # files of git that include one another, one below the other
_HEADER = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
# Addresses that no other one of these can be taken for once all marks are dashes: host/a/b, host.tld/a/b/…
_PLAIN = re.compile(r"[a-z0-9]+/[a-z0-9]+/[a-z0-9]+|[a-z0-9]+\.[a-z0-9]+(?:/[a-z0-9]+){2,}")


@dataclass(frozen=True, slots=True)
class Project:
    """A project's root and id; `by_path` is the id its root would have without a remote.

    `as_written` is the id of the remote as it stands in git's file, where `url.<base>.insteadOf` makes
    another one of it: memory may have been kept under that one.
    """

    root: Path
    id: str
    by_path: str
    overridden: bool = False
    as_written: str = ""

    @property
    def earlier(self) -> tuple[str, ...]:
        """The other ids of the very same folder."""
        return tuple(each for each in (self.by_path, self.as_written) if each and each != self.id)


def project(cwd: Path, *, home: Path, override: str | None = None) -> Project:
    """Find the project a folder belongs to."""
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
    """The nearest folder upward with `.vade/` or `.git`, else the nearest that this home knows, else itself.

    A home is no project.
    """
    start = Path(os.path.realpath(cwd))
    for folder in (start, *start.parents):
        marker = folder / ".vade"
        if (folder / ".git").exists() or (marker.is_dir() and not is_a_home(marker, home)):
            return folder
    return next((folder for folder in (start, *_narrow(start)) if is_known(folder, home=home)), start)


def is_known(folder: Path, *, home: Path) -> bool:
    """Whether something was kept for this folder as a project without a remote."""
    own = path_id(folder)
    return (home / "decisions" / "projects" / f"{own}.json").is_file() or (
        home / "memory" / "project" / own
    ).is_dir()


def _narrow(start: Path) -> Iterator[Path]:
    """The folders above one, without those that hold everything a person has: they are no project of it."""
    user, shared = os.path.realpath(os.path.expanduser("~")), os.path.realpath(tempfile.gettempdir())
    for folder in start.parents:
        if any(os.path.commonpath([folder, wide]) == str(folder) for wide in (user, shared)):
            return
        yield folder


def path_id(root: Path) -> str:
    """The id of a project that has no remote."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:12]


def normalise_remote(url: str) -> str:
    """One id for every way to write a remote: scheme, user, token, port and `.git` do not count."""
    text = url.strip()
    schemed = _SCHEME.match(text)
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
    if len(found) > 100 or not _PLAIN.fullmatch(f"{host.lower()}/{path}"):
        # acme/api-core and acme-api/core are two projects, a.b/c and a/b/c too: a mark tells them apart.
        mark = hashlib.sha256(f"{host.lower()}/{path}".encode()).hexdigest()[:6]
        found = f"{found[:90].rstrip('-')}-{mark}"
    return found.strip("-")


def origin_remote(root: Path) -> str | None:
    """The url of the remote `origin`, as the repository's own configuration has it."""
    folder = _git_folder(root)
    if folder is None:
        return None
    for section, name, key, value in _settings(_common_folder(folder) / "config"):
        if (section, name, key) == ("remote", "origin", "url"):
            return value
    return None


def rewritten(url: str, *, root: Path, environ: Mapping[str, str] = os.environ) -> str:
    """A remote's url as git uses it: with the longest `url.<base>.insteadOf` that it begins with replaced."""
    longest, best = "", url
    for path in _git_files(root, environ):
        for section, base, key, prefix in _settings(path, includes=_INCLUDES):
            fits = section == "url" and key == "insteadof" and prefix and url.startswith(prefix)
            if fits and len(prefix) > len(longest):
                longest, best = prefix, base + url[len(prefix) :]
    return best


def _git_files(root: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """The files of git's configuration, from the system's to the repository's own."""
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
    """Each setting of a file of git's: section, name in quotes, key and value; and of those it includes."""
    section, name = "", ""
    for line in _lines(path):
        head = _HEADER.match(line)
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
    """The repository's git folder; in a worktree or submodule `.git` is a file that names it."""
    marker = root / ".git"
    if marker.is_dir():
        return marker
    for line in _lines(marker):
        if line.startswith("gitdir:") and "\0" not in line:
            return root / line.removeprefix("gitdir:").strip()
    return None


def _common_folder(folder: Path) -> Path:
    """The git folder that all worktrees of a repository share."""
    for line in _lines(folder / "commondir"):
        return folder / line
    return folder


def _main_worktree(root: Path) -> Path:
    """The root that all worktrees of a repository without a remote agree upon."""
    folder = _git_folder(root)
    if folder is None or folder == root / ".git":
        return root
    common = Path(os.path.realpath(_common_folder(folder)))
    return common.parent if common.name == ".git" else root


def _lines(path: Path) -> Iterator[str]:
    """The lines of a small text file without comments and blanks; nothing when it cannot be read."""
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
