"""The memory folder of a user: where each kind of file lies, and the locks around them."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from vademecum.errors import Malformed, NewerFormat, OutsideMemory, StorageFailed
from vademecum.named_tuple import NamedTuple
from vademecum.store import files
from vademecum.store.folders import hold_locks, somebody_died
from vademecum.store.view import outside_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vademecum.store.backend import Backend, Directory
    from vademecum.types import Place

FORMAT = 2  # how this version keeps things; raised when an older version could no longer write beside it
FORMAT_FILE = "format"
AUDIT_STARTED = "audit-started"  # that there is an audit, known outside of its folder
_RENUMBER = f"write {FORMAT} into it if this version wrote this home, and the newer number if a newer one did"


def _render_format(number: bytes | None) -> bytes:
    """Return the content of the format file; a format number newer than this version's stays."""
    return f"{max(int(number or 1), FORMAT)}\n".encode()


class ScopeFolder(NamedTuple):
    """A folder with the memory of one place: in the home, in a team's memory, or a repository's `.vade/`."""

    place: Place
    top: Path
    parts: tuple[str, ...]
    label: str
    shared: bool = False
    trusted: bool = True
    backend: Backend | None = None  # where its home is kept, if that is no folder
    team: str = ""  # the team that shares it, by name
    signed: bool = True  # whether the last lines of entries say whose they are: not where anybody writes them
    writes: bool = False  # whether new records of the place go there, of a team

    @property
    def workspace(self) -> str:
        """The id of the team's workspace; empty outside of teams."""
        return self.parts[2] if self.team else ""

    @property
    def outside(self) -> bool:
        """Whether the folder is in a repository, and not in the home."""
        return self.shared and not self.team

    @property
    def folder_mode(self) -> int:
        """The mode of new folders: private in a home, readable for everybody in a repository."""
        return 0o755 if self.outside else 0o700

    @property
    def file_mode(self) -> int:
        """Return the mode of new files: private in a home, readable for everybody in a repository."""
        return 0o644 if self.outside else 0o600

    def name_of(self, *names: str) -> str:
        """Return a path below this folder as it is shown to users."""
        return "/".join((self.label, *names))

    def open(self, *names: str, create: bool = False) -> Directory | None:
        """Open this folder or one below it; return None when it does not exist and `create` is false."""
        backend = self.backend or files.Disk(self.top, self.outside, self.trusted)
        try:
            return backend.open(*self.parts, *names, create=create, mode=self.folder_mode)
        except FileNotFoundError:
            if create:
                raise
            return None

    def read(self, *names: str) -> bytes | None:
        """Return the content of a file below this folder; None where there is none."""
        try:
            folder = self.open(*names[:-1])
        except NotADirectoryError:
            return None
        if folder is None:
            return None
        with folder:
            return folder.read(names[-1])


class Home(NamedTuple):
    """The folder of all memory, `~/.vade` by default."""

    path: Path
    lock_seconds: float = 10.0
    backend: Backend | None = None  # where it is kept, if that is no folder

    def check(self) -> None:
        """Raise an error if the home's path exists and is not a folder."""
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            raise StorageFailed(
                f"the memory folder {self.path} is not a folder",
                hint="move that file away, or name another folder with `--home` or VADE_HOME",
            )

    @property
    def format(self) -> int:
        """The number of the home's format; 1 when the file is missing."""
        try:
            with files.reported(f"read {self.path / FORMAT_FILE}"):  # a disk that fails says nothing of it
                content = (self.read(FORMAT_FILE) or b"").strip()
        except OutsideMemory as error:
            raise Malformed(f"{self.path / FORMAT_FILE} cannot be read: {error}", hint=_RENUMBER) from error
        if not content:
            return 1
        if not content.isdigit() or not 0 < len(content) < 10 or int(content) < 1:
            raise Malformed(f"{self.path / FORMAT_FILE} does not contain a number", hint=_RENUMBER)
        return int(content)

    def check_format(self) -> None:
        """Refuse to write to a home of a newer format."""
        found = self.format
        if found > FORMAT:
            raise NewerFormat(
                f"{self.path} was written by a newer vade (format {found}; this one writes {FORMAT})"
            )

    def _mark_format(self) -> None:
        """Write this version's format number into the format file, unless its number is as high or higher.

        A home with numbered records, but without format file and audit, gets a note that an audit existed.
        """
        with self.folder() as top:
            if top.stat(FORMAT_FILE) is not None:
                if self.format < FORMAT:
                    with self.folder("locks") as locks, locks.lock(FORMAT_FILE, seconds=self.lock_seconds):
                        top.update(FORMAT_FILE, _render_format)
                return
            # Looked at before the number is there: whoever writes for the first time has put it there first.
            without_audit = top.stat("last-number") is not None and top.stat("audit") is None
            with contextlib.suppress(FileExistsError):
                top.create(FORMAT_FILE, f"{FORMAT}\n".encode())
                if without_audit and top.stat(AUDIT_STARTED) is None:
                    top.create(AUDIT_STARTED, b"begun before\n")

    def folder(self, *names: str, create: bool = False) -> Directory:
        """Open a folder below the home; `create` makes missing folders."""
        return (self.backend or files.Disk(self.path)).open(*names, create=create)

    def disk(self, *names: str, create: bool = False) -> files.DiskFolder:
        """Open a folder on this machine's disk, for files that are no memory, such as tokens."""
        return files.Disk(self.path).open(*names, create=create)

    def scope_folder(self, place: Place) -> ScopeFolder:
        """Return the folder of a place in the home."""
        parts = ("memory", str(place.scope), *((place.id,) if place.id else ()))
        return ScopeFolder(place, self.path, parts, "/".join(parts), backend=self.backend)

    @contextlib.contextmanager
    def lock(self, thing: str, *, derived: bool = False) -> Iterator[None]:
        """Hold the lock on a thing among all processes that use this home.

        Every write takes a lock, so here a home of a newer format is refused, except for `derived` files:
        any version can rebuild them. A writer leaves its request's view and reads from the disk.
        """
        with outside_view():
            if not derived:
                self.check_format()
            with self.folder("locks", create=True) as folder:
                if not derived:
                    self._mark_format()
                with folder.lock(thing, seconds=self.lock_seconds):
                    if isinstance(folder, files.DiskFolder) and somebody_died(folder.path):
                        files.sweep_below(self.path)
                    yield

    @contextlib.contextmanager
    def locks(self, things: Iterable[str]) -> Iterator[set[str]]:
        """Take the given locks, except those that are in use now; yield the names of the taken locks."""
        with outside_view():
            self.check_format()
            with self.disk("locks", create=True) as folder:
                self._mark_format()
                with hold_locks(folder, things) as held:
                    if somebody_died(folder.path):
                        files.sweep_below(self.path)
                    yield held

    def read(self, *names: str) -> bytes | None:
        """Return the content of a file below the home, or None."""
        try:
            with self.folder(*names[:-1]) as folder:
                # A log grows for ever and is no larger than what was let into it.
                largest = sys.maxsize if names[-1].endswith(".jsonl") else files.LARGEST
                return folder.read(names[-1], largest=largest)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def lines(self, *names: str) -> Iterator[bytes]:
        """Yield the lines of a log below the home; none when the log does not exist."""
        try:
            with self.folder(*names[:-1]) as folder, folder.reader(names[-1]) as log:
                yield from log
        except (FileNotFoundError, NotADirectoryError):
            return

    def names(self, *parts: str, ordered: bool = True) -> list[str]:
        """Return the names in a folder below the home; none when the folder does not exist."""
        try:
            with self.folder(*parts) as folder:
                return folder.names(ordered=ordered)
        except (FileNotFoundError, NotADirectoryError, OutsideMemory):
            return []
