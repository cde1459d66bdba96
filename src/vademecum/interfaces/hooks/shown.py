"""What a session has been told already, so that a prompt brings nothing twice.

Marks alone, no text; a small file for each session below the home. It may be deleted at any time: something
is then told a second time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FOLDER = "hooks"
_DAYS = 7  # after which a session that never ended is over
_MOST = 2_000  # marks


class Shown:
    """The marks of one session."""

    def __init__(self, home: Path, session: str) -> None:
        self._home = home
        name = hashlib.sha256(session.encode(errors="replace")).hexdigest()[:24]
        self._path = os.path.join(home, FOLDER, name) if session else ""

    @property
    def begun(self) -> bool:
        """Whether the session got its block."""
        return not self._path or os.path.isfile(self._path)

    @property
    def marks(self) -> frozenset[str]:
        """What it has been told."""
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                return frozenset(file.read().split())
        except OSError:
            return frozenset()

    def begin(self, marks: Iterable[str]) -> None:
        """A session begins, or begins again with an empty window."""
        self._write(sorted(set(marks)), os.O_TRUNC)
        self._clear()

    def add(self, marks: Iterable[str]) -> None:
        """It has been told more."""
        new = sorted(set(marks))
        if new and len(self.marks) < _MOST:
            self._write(new, os.O_APPEND)

    def forget(self) -> None:
        """It is over."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _write(self, marks: list[str], how: int) -> None:
        """Nothing depends on it: no lock, no fsync, and no home is made for it."""
        if not self._path or not os.path.isdir(self._home):
            return
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | how | getattr(os, "O_NOFOLLOW", 0)
            fd = os.open(self._path, flags, 0o600)
            try:
                os.write(fd, "".join(f"{mark}\n" for mark in marks[:_MOST]).encode())
            finally:
                os.close(fd)

    def _clear(self) -> None:
        old = time.time() - _DAYS * 86_400
        with contextlib.suppress(OSError), os.scandir(os.path.dirname(self._path)) as found:
            for each in found:
                if each.is_file(follow_symlinks=False) and each.stat().st_mtime < old:
                    os.unlink(each.path)
