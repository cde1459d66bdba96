"""Interface of a storage: named contents in directories, each replaced as a whole, with logs and locks.

`files.Disk` implements it with files on a disk. Another storage, such as a server with the memory of many
people, implements the same methods and passes the same tests; the code above does not know which is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from vademecum.store.files import Written
    from vademecum.store.folders import Seen


class Appender(Protocol):
    """An open log to which lines are appended; its user holds the log's lock."""

    def end(self) -> int:
        """Return the end of the log in bytes; 0 when there is no log."""

    def write(self, line: bytes, *, sync: bool) -> int:
        """Append a line and return the log's new end; with `sync`, the line is on disk when this returns.

        A line that was written only in part is removed.
        """

    def close(self) -> None:
        """Close the log."""


class Directory(Protocol):
    """An open directory of named contents; whoever changes a content holds its lock."""

    path: str  # as messages show it

    def names(self, *, ordered: bool = True) -> list[str]:
        """Return all names in the directory; unsorted when `ordered` is false."""

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status (size, times) of a content; None when it does not exist."""

    def scan(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the status of each wanted name, in no order."""

    def mark(self) -> tuple[int, ...]:
        """Return numbers that change when a name is added or removed."""

    def read(self, name: str, *, largest: int = ...) -> bytes | None:
        """Return a whole content; None when it does not exist."""

    def reader(self, name: str) -> BinaryIO:
        """Open a long content for reading in parts; raise FileNotFoundError when it does not exist."""

    def update(
        self,
        name: str,
        change: Callable[[bytes | None], bytes],
        *,
        mode: int = 0o600,
        largest: int = ...,
    ) -> Written:
        """Replace a content by `change(content)`; repeat the change on top of a concurrent save."""

    def create(self, name: str, content: bytes, *, mode: int = 0o600) -> None:
        """Write a new content; raise FileExistsError when the name exists."""

    def overwrite(self, name: str, block: bytes) -> None:
        """Overwrite a content of small, fixed size; a power cut leaves the old or the new content."""

    def remove(self, name: str, keep: Callable[[bytes], None]) -> bytes | None:
        """Pass a content to `keep`, then remove it; return the removed content, or None if there is none.

        If a person saves in between, `keep` is called for that version too.
        """

    def delete(self, name: str) -> None:
        """Delete a content permanently."""

    def pen(self, name: str) -> Appender:
        """Return an open log for appending lines."""

    def append_line(self, name: str, line: bytes) -> int:
        """Append one line to a log durably, and return the log's new end."""

    def sweep(self) -> list[str]:
        """Remove leftovers of killed writers; return the names of files with a person's rescued save."""

    def leftovers(self) -> list[str]:
        """Return the names of leftovers of killed writers, without removing them."""

    def lock(self, thing: str, *, seconds: float) -> AbstractContextManager[None]:
        """Hold the lock on a thing among all users of this directory; raise `Locked` after `seconds`."""

    def close(self) -> None:
        """Close the directory."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Watcher(Protocol):
    """A watch on directories; its results are hints, and may miss or overstate changes."""

    def cover(self, directories: Iterable[str]) -> None:
        """Watch the directories with these paths, and no others."""

    def look(self) -> Seen:
        """Return the changes since the last call, without waiting."""


class Backend(Protocol):
    """The storage of one memory; two backends are equal if they keep the same memory."""

    def open(self, *names: str, create: bool = False, mode: int = 0o700) -> Directory:
        """Open the directory at a path of names; raise FileNotFoundError if missing, unless `create`."""

    def watch(self) -> Watcher:
        """Return a watch for the directories of this backend."""
