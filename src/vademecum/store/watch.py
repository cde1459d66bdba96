"""What has changed in some folders since the last look, as the system tells it, without a thread or a wait.

On Linux the kernel queues every change the moment it is made (inotify), so a look is one read that comes back
at once. Where there is no such queue, where it overflows or where no more folders can be watched, a look says
that it cannot tell, and the caller goes and compares. Events are hints here, never the truth.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16
# modify, attrib, close after writing, moved from and to, create, delete, delete self, move self
_CHANGES = 0x002 | 0x004 | 0x008 | 0x040 | 0x080 | 0x100 | 0x200 | 0x400 | 0x800
_ONLY_FOLDERS = 0x0100_0000
_OVERFLOW, _IGNORED, _UNMOUNTED, _SELF = 0x4000, 0x8000, 0x2000, 0x400 | 0x800
_A_FOLDER = 0x4000_0000
_OFTEN = 1.0  # seconds between two looks at the folders themselves
# Above this the folders themselves are not looked at each time: it would cost more than it tells.
_FEW = 64


class Seen(NamedTuple):
    """What a look saw: names by their folder, or that anything may have changed."""

    anything: bool = False
    names: frozenset[tuple[str, str]] = frozenset()


NOTHING = Seen()
ANYTHING = Seen(anything=True)


class Watch:
    """A watch over folders, those that are not there yet included; it opens nothing until it covers some."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._folders: dict[int, list[str]] = {}  # two names can lead to one folder
        self._inodes: dict[str, tuple[int, int] | None] = {}
        self._checked = 0.0
        self._process = os.getpid()
        self.working = False

    def cover(self, folders: Iterable[str]) -> None:
        """Watch these folders and no others; whatever changes from now on is seen by the next look."""
        if self._process != os.getpid():
            self._fd, self._folders, self._process = None, {}, os.getpid()
        wanted = dict.fromkeys(folders)
        if self._fd is None and _calls() is not None:
            self._fd = _open()
        for watched_by, names in [*self._folders.items()]:
            # A folder that was replaced has the old path and another inode: it is watched anew.
            if any(name not in wanted or _inode(name) != self._inodes.get(name) for name in names):
                del self._folders[watched_by]
                _forget(self._fd, watched_by)
        watched = {name for names in self._folders.values() for name in names}
        self._inodes = {folder: _inode(folder) for folder in wanted}
        self.working = self._fd is not None
        for folder in wanted:
            if self._fd is not None and folder not in watched and self._inodes[folder] is not None:
                number = _add(self._fd, folder)
                if number is None:
                    self.working = False
                else:
                    self._folders.setdefault(number, []).append(folder)

    def look(self) -> Seen:
        """What has changed since the last look; never waits."""
        if not self.working or self._fd is None or self._process != os.getpid():
            return ANYTHING  # after a fork, the queue is the parent's
        names: set[tuple[str, str]] = set()
        anything = False
        while True:  # to the end, also when it is clear already: what is told of a folder has to be heard
            try:
                content = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                break
            except OSError:
                return ANYTHING
            anything = not self._take(content, names) or anything
        if anything or self._moved():
            return ANYTHING
        return Seen(names=frozenset(names)) if names else NOTHING

    def _moved(self) -> bool:
        """Whether a folder has come or was exchanged, of which nothing is told.

        What is not there sends no events, and neither does a folder that is moved with those above it.
        """
        now = time.monotonic()
        whole = now - self._checked > _OFTEN and len(self._inodes) <= _FEW
        if whole:
            self._checked = now
        return any(
            (before is None or whole) and _inode(folder) != before for folder, before in self._inodes.items()
        )

    def close(self) -> None:
        """Let go of the queue."""
        fd, self._fd = self._fd, None
        self.working = False
        self._folders, self._inodes = {}, {}
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def __del__(self) -> None:
        self.close()

    def _take(self, content: bytes, names: set[tuple[str, str]]) -> bool:
        """Read events; False when they do not tell what changed."""
        at, anything = 0, False
        while at < len(content):
            number, mask, _, length = _EVENT.unpack_from(content, at)
            at += _EVENT.size
            name = content[at : at + length].rstrip(b"\0")
            at += length
            folders = self._folders.get(number, ())
            if mask & (_OVERFLOW | _UNMOUNTED):
                anything = True
            if not folders:  # no longer watched
                continue
            if mask & _IGNORED:  # it is gone, and one of the same inode may have come
                for folder in self._folders.pop(number):
                    self._inodes.pop(folder, None)
            if mask & (_IGNORED | _SELF | _A_FOLDER):
                anything = True
            if name:
                names.update((folder, os.fsdecode(name)) for folder in folders)
        return not anything


def _inode(folder: str) -> tuple[int, int] | None:
    try:
        state = os.stat(folder)
    except OSError:
        return None
    return state.st_dev, state.st_ino


@functools.cache
def _calls() -> Any:
    """The system's own calls, or None where there are none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        library.inotify_rm_watch.argtypes = (ctypes.c_int, ctypes.c_int)
        library.inotify_init1.argtypes = (ctypes.c_int,)
    except (OSError, AttributeError):
        return None
    return library


def _open() -> int | None:
    fd = int(_calls().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    return None if fd < 0 else fd


def _add(fd: int, folder: str) -> int | None:
    number = int(_calls().inotify_add_watch(fd, os.fsencode(folder), _CHANGES | _ONLY_FOLDERS))
    return None if number < 0 else number


def _forget(fd: int | None, number: int) -> None:
    if fd is not None:
        _calls().inotify_rm_watch(fd, number)  # one that is gone already gives an error that says only that
