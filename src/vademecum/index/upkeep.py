"""The file of an index: opened when needed, rebuilt when damaged, replaced while it cannot be used.

The replacement is an empty index in memory. This module knows files and failures, and nothing of an index's
content.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from vademecum.errors import IndexFailed, IndexNewer, VadeError
from vademecum.index.sqlite import SqliteIndex, is_damage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.index.sqlite import IndexKind
    from vademecum.store import Home

ASIDE = ".aside"  # the suffix of an index that a newer version made
WITHOUT = 30.0  # seconds for which an unusable index is left alone


class IndexFile:
    """The file of one index, with the messages about its state."""

    def __init__(self, home: Home, path: Path, kind: IndexKind) -> None:
        self.home, self.path, self.kind = home, path, kind
        self.trouble: list[str] = []  # messages for the next answer alone
        self.scanning = ""  # the message while the file is left alone
        self._failed = ""  # the reason for that
        self.without_until = 0.0  # the moment of the next try
        self._index: SqliteIndex | None = None
        self._opened: object = None  # the inodes of the open file
        self._process = os.getpid()

    def open(self) -> SqliteIndex:
        """Return the index of the file, or an empty index in memory while the file cannot be used.

        A damaged file raises IndexFailed, so that the caller can `discard` it.
        """
        if self._process != os.getpid():  # a connection must not be shared across a fork
            self._index = None
            self._process = os.getpid()
        if self.scanning and time.monotonic() >= self.without_until:
            self.scanning = ""
            self.close()
        if self._index is not None and self._opened is not None and self._opened != self._inodes():
            self._index.abandon()  # the file was deleted or replaced
            self._index = None
        if self._index is None:
            self._opened = None
            try:
                self._folder()
                self._index = SqliteIndex(":memory:" if self.scanning else self.path, self.kind)
                self._opened = None if self.scanning else self._inodes()
            except IndexFailed as error:
                if time.monotonic() >= self.without_until and is_damage(error):
                    raise
                self._index = self._empty_index(error)
            except (OSError, VadeError) as error:
                self._index = self._empty_index(error)
        return self._index

    @property
    def told(self) -> list[str]:
        """The messages about the file that an answer must carry now; reading them clears the errors."""
        trouble, self.trouble = self.trouble, []
        return [*trouble, *([self.scanning] if self.scanning else [])]

    @property
    def unwritten(self) -> str:
        """The reason why nothing is written to the file now; '' when it is written as usual."""
        return self._failed if self.scanning else ""

    def discard(self, error: Exception) -> None:
        """Delete a damaged index, or rename an index that a newer version made.

        Nothing is lost, as the files hold all that is in an index. After an error that is not damage, such as
        a lock or a full disk, or after a second failure, the index stays but is not used for a while.
        """
        self.close()
        damaged = isinstance(error, IndexFailed) and is_damage(error)
        if not damaged or time.monotonic() < self.without_until:
            self._pause(error)
            return
        self.without_until = time.monotonic() + 1.0  # two failures in a row are no damage of the file
        self.trouble.append(f"{self.kind.called} could not be used and will be rebuilt: {error}")
        with contextlib.suppress(OSError, VadeError), self._locked():
            self._clear(error)

    def _clear(self, error: Exception) -> None:
        """Delete the unusable index file, or rename it if a newer version made it and can use it again."""
        if isinstance(error, IndexNewer):
            os.replace(self.path, f"{self.path}{ASIDE}")
        _remove(self.path)

    @contextlib.contextmanager
    def rebuilding(self) -> Iterator[SqliteIndex]:
        """Give a new index to fill; at the end its content replaces the old index in one transaction."""
        with self._locked():
            self._folder()
            stem = self.path.stem
            for left in self.path.parent.glob(f"{stem}.*.new*"):  # left by a killed rebuild
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
        """Close the file; the next question opens it again."""
        if self._index is not None and self._process == os.getpid():
            self._index.close()
        self._index = None

    def _adopt(self, fresh: SqliteIndex) -> None:
        """Copy a finished index over the current one; readers see the old content until the end."""
        self.close()
        try:
            target = SqliteIndex(self.path, self.kind)
        except IndexFailed as error:
            self._clear(error)
            target = SqliteIndex(self.path, self.kind)
        try:
            target.replace_with(fresh)
        except IndexFailed as error:
            if not is_damage(error):
                raise
            target.close()
            _remove(self.path)  # a damaged file holds nothing to keep
            target = SqliteIndex(self.path, self.kind)
            target.replace_with(fresh)
        finally:
            target.close()

    def _empty_index(self, error: Exception) -> SqliteIndex:
        self._pause(error)
        return SqliteIndex(":memory:", self.kind)

    def _pause(self, error: Exception) -> None:
        """Leave the file unused for a while after an error, and report the error during that time."""
        self.scanning = f"{self.kind.scanned}: {error}"
        self._failed = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        self.without_until = time.monotonic() + WITHOUT

    def _inodes(self) -> tuple[int, ...]:
        """Return the inodes of the index file and of SQLite's log beside it."""
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
        """Make the folder of the index files if it is missing."""
        try:
            self.home.folder("index").close()
        except FileNotFoundError:
            self.home.folder("index", create=True).close()


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")
