"""Which project is this? One id for all clones and worktrees of a repository.

Reads git's own files instead of running git: it is ten times faster, and a repository cannot make it run
anything.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.config import is_a_home
from vademecum.store import names

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCHEME = re.compile(r"^(?:[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LARGEST = 1024 * 1024
# Addresses that no other one of these can be taken for once all marks are dashes: host/a/b, host.tld/a/b/…
_PLAIN = re.compile(r"[a-z0-9]+/[a-z0-9]+/[a-z0-9]+|[a-z0-9]+\.[a-z0-9]+(?:/[a-z0-9]+){2,}")


@dataclass(frozen=True, slots=True)
class Project:
    """A project's root and id; `by_path` is the id its root would have without a remote."""

    root: Path
    id: str
    by_path: str
    overridden: bool = False


def project(cwd: Path, *, home: Path, override: str | None = None) -> Project:
    """Find the project a folder belongs to."""
    root = find_root(cwd, home=home)
    by_path = path_id(_main_worktree(root))
    if override:
        return Project(root, names.check_id(override, "a project"), by_path, overridden=True)
    remote = origin_remote(root)
    if remote and remote.startswith("."):  # beside the repository: the same words elsewhere are another one
        remote = os.path.normpath(_main_worktree(root) / remote)
    return Project(root, (normalise_remote(remote) if remote else "") or by_path, by_path)


def find_root(cwd: Path, *, home: Path) -> Path:
    """The nearest folder upward with `.vade/` or `.git`, else the folder itself; a home is no project."""
    start = Path(os.path.realpath(cwd))
    for folder in (start, *start.parents):
        marker = folder / ".vade"
        if (folder / ".git").exists() or (marker.is_dir() and not is_a_home(marker, home)):
            return folder
    return start


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
    section = ""
    for line in _lines(_common_folder(folder) / "config"):
        head, closed, rest = line.partition("]") if line.startswith("[") else ("", "", line)
        if closed:
            section = re.sub(r"\s+", " ", head.strip("[ "))
        if section.lower().startswith("remote ") and section[7:] == '"origin"':
            key, equals, value = rest.partition("=")
            if equals and key.strip().lower() == "url":
                return _unquoted(value.strip())
    return None


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
