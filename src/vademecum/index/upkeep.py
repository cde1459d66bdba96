"""The file of an index: opened when needed, rebuilt when damaged, done without when of no use now.

Knows files and failures; knows nothing of what is in an index or how it is asked.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from vademecum.errors import IndexFailed, IndexNewer, VadeError
from vademecum.index.sqlite import SqliteIndex, is_damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.index.sqlite import IndexKind
    from vademecum.store import Home

WITHOUT = 30.0  # seconds for which an index that cannot be used just now is done without

P = ParamSpec("P")
S = TypeVar("S", bound=Any)
T = TypeVar("T")


def in_turn(call: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Let threads that share a connection wait for each other, by the lock `_turn` of its owner."""

    @functools.wraps(call)
    def waiting(self: S, /, *args: P.args, **given: P.kwargs) -> T:
        with self._turn:
            return call(self, *args, **given)

    return waiting


class IndexFile:
    """One index of a home, and what is to be told of it."""

    def __init__(self, home: Home, path: Path, kind: IndexKind) -> None:
        self.home, self.path, self.kind = home, path, kind
        self.trouble: list[str] = []  # to be told once
        self.scanning = ""  # what to tell while the file is done without
        self._failed = ""  # why it is
        self.without_until = 0.0  # when it may be tried again
        self._index: SqliteIndex | None = None
        self._opened: object = None  # which file that is
        self._process = os.getpid()

    def open(self) -> SqliteIndex:
        """The index, or while it cannot be used an empty one that is nobody else's."""
        if self._process != os.getpid():  # a connection must not be used on both sides of a fork
            self._index = None
            self._process = os.getpid()
        if self.scanning and time.monotonic() >= self.without_until:
            self.scanning = ""
            self.close()
        if self._index is not None and self._opened is not None and self._opened != self._lying():
            self._index.abandon()  # it was deleted, or another lies in its place
            self._index = None
        if self._index is None:
            self._opened = None
            try:
                self._folder()
                self._index = SqliteIndex(":memory:" if self.scanning else self.path, self.kind)
                self._opened = None if self.scanning else self._lying()
            except IndexNewer as error:
                self._index = self._without(error)
            except IndexFailed as error:
                if time.monotonic() >= self.without_until and is_damage(error):
                    raise
                self._index = self._without(error)
            except (OSError, VadeError) as error:
                self._index = self._without(error)
        return self._index

    @property
    def told(self) -> list[str]:
        """What an answer has to say of it now."""
        said, self.trouble = self.trouble, []
        return [*said, *([self.scanning] if self.scanning else [])]

    @property
    def unwritten(self) -> str:
        """Why nothing is written to the file just now; empty when it is."""
        return self._failed if self.scanning else ""

    def mended(self, call: Callable[[], T]) -> T:
        """What a call gives, made again with a new index when the first one failed."""
        try:
            return call()
        except IndexFailed as error:
            self.begin_anew(error)
            return call()

    def begin_anew(self, error: Exception) -> None:
        """Throw a damaged index away: it held nothing that the files do not hold.

        One that others are using, or that the disk has no room for, is left alone and done without for a
        while.
        """
        self.close()
        damaged = isinstance(error, IndexFailed) and is_damage(error)
        if not damaged or time.monotonic() < self.without_until:
            self._do_without(error)
            return
        self.without_until = time.monotonic() + 1.0  # a second failure in a row is no damage to the file
        self.trouble.append(f"{self.kind.called} could not be used and will be rebuilt: {error}")
        with contextlib.suppress(OSError, VadeError), self._locked():
            _remove(self.path)

    @contextlib.contextmanager
    def rebuilding(self) -> Iterator[SqliteIndex]:
        """A new index to be filled, which then takes the place of the old one in one transaction."""
        with self._locked():
            self._folder()
            stem = self.path.stem
            for left in self.path.parent.glob(f"{stem}.*.new*"):  # of a rebuild that was killed
                left.unlink(missing_ok=True)
            aside = self.path.with_name(f"{stem}.{os.getpid()}.new")
            fresh = SqliteIndex(aside, self.kind)
            try:
                yield fresh
                self._adopt(fresh)
            finally:
                fresh.close()
                _remove(aside)

    def close(self) -> None:
        """Let go of the file; it is opened again when needed."""
        if self._index is not None and self._process == os.getpid():
            self._index.close()
        self._index = None

    def _adopt(self, fresh: SqliteIndex) -> None:
        """Copy a finished index over the one in use: readers see the old one until it is whole."""
        self.close()
        try:
            target = SqliteIndex(self.path, self.kind)
        except IndexFailed:
            _remove(self.path)
            target = SqliteIndex(self.path, self.kind)
        try:
            target.replace_with(fresh)
        except IndexFailed as error:
            if not is_damage(error):
                raise
            target.close()
            _remove(self.path)  # what is there is damaged: nothing to keep
            target = SqliteIndex(self.path, self.kind)
            target.replace_with(fresh)
        finally:
            target.close()

    def _without(self, error: Exception) -> SqliteIndex:
        self._do_without(error)
        return SqliteIndex(":memory:", self.kind)

    def _do_without(self, error: Exception) -> None:
        """Do without the file for a while, and say so as long as that lasts."""
        self.scanning = f"{self.kind.scanned}: {error}"
        self._failed = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        self.without_until = time.monotonic() + WITHOUT

    def _lying(self) -> tuple[int, ...]:
        """Which files lie where the index belongs: its own, and the log of what was written last."""
        found = []
        for ending in ("", "-wal"):
            try:
                found.append(os.stat(f"{self.path}{ending}").st_ino)
            except OSError:
                found.append(0)
        return tuple(found)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return self.home.lock(f"index {self.path.stem}", derived=True)

    def _folder(self) -> None:
        self.home.folder("index", create=True).close()


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")
