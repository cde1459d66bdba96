"""What the store needs of whatever keeps it: named contents in directories, each changed whole; logs; locks.

Files on a disk are the first that do it (`files.Disk`). Another one, such as a server that keeps the memory
of many people, implements the same and passes the same suite of tests; nothing above asks how it is done.
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
    """What adds lines to one log; the lock is held."""

    def end(self) -> int:
        """Where the log ends; 0 when there is none."""

    def write(self, line: bytes, *, sync: bool) -> int:
        """Add a line and return where the log ends now; what could not be written whole is taken back."""

    def close(self) -> None:
        """Be done."""


class Directory(Protocol):
    """Named contents side by side, held open; whatever changes one holds its lock."""

    path: str  # as messages show it

    def names(self, *, ordered: bool = True) -> list[str]:
        """All names, sorted unless the order is no matter."""

    def stat(self, name: str) -> os.stat_result | None:
        """What is known of a name; None when it does not exist."""

    def scan(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
        """What is known of each name that is wanted, in no order."""

    def mark(self) -> tuple[int, ...]:
        """What changes when a name comes or goes: two times in nanoseconds, and a number of its own."""

    def read(self, name: str, *, largest: int = ...) -> bytes | None:
        """All of a content, or None when there is none."""

    def reader(self, name: str) -> BinaryIO:
        """A long content, a piece at a time; FileNotFoundError when there is none."""

    def update(
        self,
        name: str,
        change: Callable[[bytes | None], bytes],
        *,
        mode: int = 0o600,
        largest: int = ...,
    ) -> Written:
        """Put `change(content)` in place of a content; made again on top of what a person saved meanwhile."""

    def create(self, name: str, content: bytes, *, mode: int = 0o600) -> None:
        """Write what must not exist yet; FileExistsError when it does."""

    def overwrite(self, name: str, block: bytes) -> None:
        """Overwrite a content of one small, fixed size: it is the old or the new one after a power cut."""

    def remove(self, name: str, keep: Callable[[bytes], None]) -> bytes | None:
        """Take a content away after `keep` has put it elsewhere, a person's last save included."""

    def delete(self, name: str) -> None:
        """Take a content away for good."""

    def pen(self, name: str) -> Appender:
        """What adds lines to a log."""

    def append_line(self, name: str, line: bytes) -> int:
        """Add one line to a log and return where it ends now; on disk before it returns."""

    def sweep(self) -> list[str]:
        """Clear what killed writers left; the names are returned under which a person's save was rescued."""

    def leftovers(self) -> list[str]:
        """The names of what killed writers left, untouched."""

    def lock(self, thing: str, *, seconds: float) -> AbstractContextManager[None]:
        """Hold the lock on a thing among all who use this directory; `Locked` when it takes too long."""

    def close(self) -> None:
        """Let go of it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Watcher(Protocol):
    """What tells which contents changed, as a hint."""

    def cover(self, directories: Iterable[str]) -> None:
        """Watch these directories, by their paths, and no others."""

    def look(self) -> Seen:
        """What has changed since the last look; never waits."""


class Backend(Protocol):
    """Where everything of one memory is kept; two are equal that keep the same."""

    def open(self, *names: str, create: bool = False, mode: int = 0o700) -> Directory:
        """A directory by the names that lead to it; FileNotFoundError when it does not exist."""

    def watch(self) -> Watcher:
        """A watch over its directories."""
