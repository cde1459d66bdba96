"""The files somebody wants imported: a folder, one file, or an archive, read without following anything.

Links, pipes and devices are passed over, hidden folders too but for those in which agents keep their memory.
An archive that names a path outside of itself is refused as a whole: nobody makes one by accident.
"""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path
from typing import NamedTuple, Protocol

from vademecum.errors import Malformed, NotFound, OutsideMemory, VadeError
from vademecum.knowledge.intake import Skipped
from vademecum.store import clock, files
from vademecum.store.folders import Folder
from vademecum.store.texts import decode

LARGEST = 8 * 1024 * 1024  # bytes of one file of text
_LARGEST_ARCHIVE = 256 * 1024 * 1024  # bytes of all files in an archive, unpacked
_MOST = 100_000  # files
_AGENTS = {".clio", ".claude", ".codex", ".co-cli", ".openclaw", ".clawdbot", ".aws", ".config"}
_NEVER = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}
_TEXTS = (".md", ".markdown", ".json")
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


class File(NamedTuple):
    """A file of text: its path below the tree, what it says, and when it was last changed."""

    name: str
    text: str
    changed: str


class Tree(Protocol):
    """Files by their paths below one top, with `/` between the names."""

    @property
    def top(self) -> Path:
        """The folder or archive it is."""
        ...

    def names(self) -> list[str]:
        """The paths of all files that may be read, sorted."""
        ...

    def passed(self) -> list[Skipped]:
        """What is there and may not be read, with the reason."""
        ...

    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """The bytes of a file; refused when there are too many."""
        ...

    def changed(self, name: str) -> str:
        """When a file was last changed."""
        ...


def open_tree(path: Path) -> Tree:
    """The tree at a path, which the user named: links on the way to it are their own."""
    real = Path(os.path.realpath(path))
    if real.is_dir():
        return FolderTree(real)
    if not real.is_file():
        raise NotFound(f"{path} is not there", hint="give a folder, a file or a .tar.gz archive")
    return ArchiveTree(real) if real.name.lower().endswith(_ARCHIVES) else FolderTree(real.parent, real.name)


def read(tree: Tree, name: str) -> File | Skipped:
    """A file of text, or why it is none."""
    try:
        text = decode(tree.content(name)).removeprefix("\ufeff").replace("\r\n", "\n")
        return File(name, text, tree.changed(name))
    except Malformed as error:
        binary = "NUL" in str(error) or "UTF-8" in str(error)
        return Skipped(name, f"not a text: {error}" if binary else str(error))
    except (VadeError, OSError) as error:
        return Skipped(name, f"cannot be read: {error}")


class FolderTree:
    """A folder, or one file of it."""

    def __init__(self, top: Path, only: str = "") -> None:
        self.top = top
        self._names: list[str] = [only] if only else []
        self._passed: list[Skipped] = []
        if not only:
            self._walk()

    def names(self) -> list[str]:
        """The paths of all files that may be read, sorted."""
        return self._names

    def passed(self) -> list[Skipped]:
        """What is there and may not be read, with the reason."""
        return self._passed

    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """The bytes of a file; refused when there are too many."""
        *above, last = name.split("/")
        with Folder.at(self.top) as top, top.enter(*above) as folder:
            state = folder.stat(last)
            if state is not None and state.st_size > largest:
                raise Malformed(f"too large: {state.st_size:,} bytes, and at most {largest:,} are read")
            content = files.read(folder, last, largest=largest)
        if content is None:
            raise NotFound(f"{name} is gone")
        return content

    def changed(self, name: str) -> str:
        """When a file was last changed."""
        return _stamp(self.top.joinpath(name).lstat().st_mtime)

    def _walk(self) -> None:
        def unreadable(error: OSError) -> None:
            where = os.path.relpath(str(error.filename), self.top)
            self._passed.append(Skipped(where, f"cannot be read: {error.strerror}"))

        for above, folders, found in os.walk(self.top, onerror=unreadable):
            inside = os.path.relpath(above, self.top)
            prefix = "" if inside == "." else f"{Path(inside).as_posix()}/"
            kept = []
            for name in sorted(folders):
                if os.path.islink(os.path.join(above, name)):
                    self._passed.append(Skipped(f"{prefix}{name}", "a link, which is not followed"))
                elif name.startswith(".") and name not in _AGENTS | _NEVER:
                    self._passed.append(Skipped(f"{prefix}{name}", "a hidden folder"))
                elif name not in _NEVER:
                    kept.append(name)
            folders[:] = kept
            for name in sorted(found):
                self._file(os.path.join(above, name), f"{prefix}{name}")
            if len(self._names) > _MOST:
                raise Malformed(f"{self.top} has more than {_MOST:,} files", hint="name a folder inside it")
        self._names.sort()

    def _file(self, path: str, name: str) -> None:
        if not name.lower().endswith(_TEXTS):
            return
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            self._passed.append(Skipped(name, "a link, which is not followed"))
        elif not stat.S_ISREG(mode):
            self._passed.append(Skipped(name, "not a regular file"))
        elif name.rpartition("/")[2].startswith("."):
            self._passed.append(Skipped(name, "a hidden file"))
        else:
            self._names.append(name)


class ArchiveTree:
    """An archive, unpacked into memory and nowhere else."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._files: dict[str, tuple[bytes, str]] = {}
        self._passed: list[Skipped] = []
        try:
            with tarfile.open(top) as archive:
                self._unpack(archive)
        except (tarfile.TarError, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Malformed(f"{top} is not an archive that can be read: {error}") from error
        self._drop_common_top()

    def names(self) -> list[str]:
        """The paths of all files that may be read, sorted."""
        return sorted(self._files)

    def passed(self) -> list[Skipped]:
        """What is there and may not be read, with the reason."""
        return self._passed

    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """The bytes of a file; refused when there are too many."""
        return self._files[name][0]

    def changed(self, name: str) -> str:
        """When a file was last changed."""
        return self._files[name][1]

    def _unpack(self, archive: tarfile.TarFile) -> None:
        total = 0
        for number, member in enumerate(archive):
            name = _inside(member)
            total += member.size
            if number >= _MOST or total > _LARGEST_ARCHIVE:
                raise Malformed(f"{self.top} unpacks to more than is read", hint="unpack it, and import it")
            if not member.isreg() or not name.lower().endswith(_TEXTS):
                continue
            parts = name.split("/")
            if any(each in _NEVER or (each.startswith(".") and each not in _AGENTS) for each in parts):
                self._passed.append(Skipped(name, "a hidden file"))
            elif member.size > LARGEST:
                large = f"too large: {member.size:,} bytes, and at most {LARGEST:,} are read"
                self._passed.append(Skipped(name, large))
            else:
                file = archive.extractfile(member)
                self._files[name] = (file.read() if file else b"", _stamp(member.mtime))

    def _drop_common_top(self) -> None:
        tops = {name.partition("/")[0] for name in self._files}
        if len(tops) == 1 and all("/" in name for name in self._files) and not tops & _AGENTS:
            self._files = {name.partition("/")[2]: each for name, each in self._files.items()}


def _inside(member: tarfile.TarInfo) -> str:
    """The path of a member; one that leads out of the archive, or elsewhere, ends the import."""
    name = member.name.replace("\\", "/")
    parts = [each for each in name.split("/") if each not in ("", ".")]
    if name.startswith("/") or ".." in parts or (parts and parts[0].endswith(":")):
        raise OutsideMemory(
            "the archive names a path outside of itself", hint="do not trust it; nothing of it was read"
        )
    if member.issym() or member.islnk():
        raise OutsideMemory("the archive holds a link", hint="pack it again without links")
    if not (member.isreg() or member.isdir()):
        raise OutsideMemory("the archive holds something that is no file", hint="pack it again without it")
    return "/".join(parts)


def _stamp(seconds: float) -> str:
    from datetime import UTC, datetime

    try:
        return clock.stamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""
