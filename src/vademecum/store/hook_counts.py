"""Count the calls of hooks: how many of the last day were answered, were missed, and were made up.

Each call adds one letter to the file of its hour. Appending a letter needs no lock, however many hooks run at
once, and the files of two days are all that is kept.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FOLDER = ("hooks", "calls")
TOLERATED = 0.01  # the share of a day's hooks that may be late
_HOUR, _DAY = 3600, 24
_LARGEST = 64 * 1024  # bytes, and so calls, of an hour
# For each event: answered in time, missed, and made up afterwards.
_LETTERS = {"session-start": "SsU", "user-prompt": "PpV"}


class HookCounts(NamedTuple):
    """The calls of one hook in the last day."""

    calls: int = 0
    missed: int = 0  # not answered in time
    made_up: int = 0  # answered with a later prompt, or there was nothing to answer

    @property
    def lost(self) -> int:
        """The number of calls that were missed and not made up."""
        return max(0, self.missed - self.made_up)


def answered(event: str) -> str:
    """Return the letter that counts a call of this hook that was answered in time."""
    return _LETTERS[event][0]


def missed(event: str) -> str:
    """Return the letter that counts a call of this hook that was not answered in time."""
    return _LETTERS[event][1]


def made_up(event: str) -> str:
    """Return the letter that counts a missed answer that came with a later prompt, or that was empty."""
    return _LETTERS[event][2]


def add(home: Path | str, letters: Iterable[str]) -> None:
    """Append letters of hooks to the file of this hour, if a memory exists and the file is below its limit.

    Errors while writing are ignored.
    """
    content = "".join(letters).encode()
    if not content or not os.path.isdir(home):
        return
    folder = os.path.join(home, *FOLDER)
    path = os.path.join(folder, str(int(time.time()) // _HOUR))
    with contextlib.suppress(OSError):
        try:
            fd = _open(path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _forget_old(folder)
            fd = _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            if os.fstat(fd).st_size < _LARGEST:
                os.write(fd, content)
        finally:
            os.close(fd)


def last_day(home: Path | str) -> dict[str, HookCounts]:
    """Return the counts of each hook, by its event, in the current hour and the 24 hours before."""
    now = int(time.time()) // _HOUR
    letters = b""
    for hour in range(now - _DAY, now + 1):
        with contextlib.suppress(OSError):
            fd = _open(os.path.join(home, *FOLDER, str(hour)), os.O_RDONLY)
            try:
                letters += os.read(fd, _LARGEST + 4096)
            finally:
                os.close(fd)
    found = {}
    for event, names in _LETTERS.items():
        in_time, missed, made_up = (letters.count(each.encode()) for each in names)
        found[event] = HookCounts(in_time + missed, missed, made_up)
    return found


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)


def _forget_old(folder: str) -> None:
    """Delete files of hours more than two days ago or ahead (a clock may have been wrong) and other files."""
    now = int(time.time()) // _HOUR
    with os.scandir(folder) as found:
        for each in found:
            if not each.name.isdigit() or abs(int(each.name) - now) > 2 * _DAY:
                os.unlink(each.path)
