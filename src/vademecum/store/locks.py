"""Locks between processes, owned by the kernel: when a process dies, its lock dies with it.

A lock file is removed by its holder, so the folder stays empty; whoever waited on a removed file
notices and tries again on the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from typing import TYPE_CHECKING

from vademecum.errors import Locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.store.folders import Folder

_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.01


@contextlib.contextmanager
def hold(folder: Folder, thing: str, *, seconds: float) -> Iterator[None]:
    """Hold the lock on a thing (any string); `Locked`, naming the holder, when it takes too long."""
    name = hashlib.sha256(thing.encode()).hexdigest()[:24] + ".lock"
    fd = _acquire(folder, name, thing, seconds)
    try:
        yield
    finally:
        # Removed while held, so that nobody can remove a lock somebody else has just taken.
        with contextlib.suppress(OSError):
            folder.unlink(name)
        os.close(fd)


def _acquire(folder: Folder, name: str, thing: str, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        fd = folder.open(name, os.O_RDWR | os.O_CREAT)
        try:
            if try_lock(fd) and _still_named(folder, name, fd):
                _sign(fd)
                return fd
            holder = _holder(fd)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() >= deadline:
            raise Locked(f"{thing} is locked by {holder} (waited {seconds:g} s)")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _still_named(folder: Folder, name: str, fd: int) -> bool:
    """Whether the file just locked is the one others will find under this name."""
    found = folder.stat(name)
    return found is not None and os.path.samestat(found, os.fstat(fd))


def _sign(fd: int) -> None:
    """Leave word of who holds the lock; only ever read to tell a person whom to wait for."""
    command = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    os.ftruncate(fd, 0)
    os.write(fd, f"process {os.getpid()} ({command})".encode(errors="replace")[:200])


def _holder(fd: int) -> str:
    with contextlib.suppress(OSError):
        os.lseek(fd, 0, os.SEEK_SET)
        return os.read(fd, 200).decode(errors="replace") or "another process"
    return "another process"


if sys.platform == "win32":
    import msvcrt

    def try_lock(fd: int) -> bool:
        """Take the kernel's lock on an open file if it is free."""
        try:
            # Far beyond the signature: a locked range cannot be read by others here.
            os.lseek(fd, 1 << 30, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Take the kernel's lock on an open file if it is free."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
