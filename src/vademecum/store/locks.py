"""Locks between processes, owned by the kernel: when a process dies, its lock dies with it.

A lock file is removed by its holder, so the folder stays empty; whoever waited on a removed file
notices and tries again on the new one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
import time
from typing import TYPE_CHECKING

from vademecum.errors import Locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.store.folders import Folder

_PAUSE = 0.005  # between two tries, while the wait is short
_LONG_PAUSE = 0.01  # and once it is long
_LONG = 1.0
_cleared: set[str] = set()  # folders of locks in which this process has looked for what dead ones left
_COURTESY = 0.005  # for those who wait, before the one who let go may come back


@contextlib.contextmanager
def hold(folder: Folder, thing: str, *, seconds: float) -> Iterator[None]:
    """Hold the lock on a thing (any string); `Locked`, naming the holder, when it takes too long."""
    name = hashlib.sha256(thing.encode()).hexdigest()[:24] + ".lock"
    fd = _acquire(folder, name, thing, seconds)
    try:
        yield
    finally:
        awaited = not alone(fd)
        # Removed while held, so that nobody can remove a lock somebody else has just taken.
        try:
            folder.unlink(name)
        except OSError:
            _cleared.discard(folder.path)  # for the next one to try
        os.close(fd)
        if awaited:  # or a busy writer would take its own lock again and again, and the others starve
            time.sleep(_COURTESY)


def _acquire(folder: Folder, name: str, thing: str, seconds: float) -> int:
    begun = time.monotonic()
    fd = folder.open(name, os.O_RDWR | os.O_CREAT)
    try:
        while True:
            if try_lock(fd):
                if _still_named(folder, name, fd):
                    _sign(fd)
                    _clear(folder, name)
                    return fd
                stale, fd = fd, folder.open(name, os.O_RDWR | os.O_CREAT)
                os.close(stale)
                continue
            waited = time.monotonic() - begun
            if waited >= seconds:
                raise Locked(f"{thing} is locked by {_holder(fd)} (waited {seconds:g} s)")
            # The longer one has waited, the sooner one looks again: the oldest gets it first, more or less.
            pause = _LONG_PAUSE if waited > _LONG else _PAUSE / (1 + 20 * waited)
            time.sleep(pause * (0.5 + os.urandom(1)[0] / 512))
    except BaseException:
        os.close(fd)
        raise


def _still_named(folder: Folder, name: str, fd: int) -> bool:
    """Whether the file just locked is the one others will find under this name."""
    found = folder.stat(name)
    return found is not None and os.path.samestat(found, os.fstat(fd))


def _clear(folder: Folder, own: str) -> None:
    """Remove the lock files of killed processes, once; whoever waits on one notices and tries again."""
    if folder.path in _cleared:
        return
    _cleared.add(folder.path)
    with contextlib.suppress(OSError):
        for name in folder.names():
            if name != own and name.endswith(".lock"):
                _clear_one(folder, name)


def _clear_one(folder: Folder, name: str) -> None:
    fd = folder.open(name, os.O_RDWR)
    try:
        if try_lock(fd) and _still_named(folder, name, fd):
            folder.unlink(name)
    finally:
        os.close(fd)


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


if sys.platform == "linux":
    import fcntl
    import signal

    def alone(fd: int) -> bool:
        """Whether nobody else has this file open: only then does the kernel grant a write lease."""
        try:
            # Whoever opens the file while we hold the lease makes the kernel send a signal; the default
            # one would end this process.
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return error.errno not in (errno.EAGAIN, errno.EACCES)
        return True

else:

    def alone(fd: int) -> bool:
        """No way to know here: nobody else is assumed."""
        return True
