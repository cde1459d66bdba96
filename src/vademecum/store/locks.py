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

_PAUSE = 0.001  # between two looks of the one whose turn is next
_LONGER = 0.004  # and of those behind it
_cleared: set[str] = set()  # folders of locks in which this process has looked for what dead ones left


@contextlib.contextmanager
def hold(folder: Folder, thing: str, *, seconds: float) -> Iterator[None]:
    """Hold the lock on a thing (any string); `Locked`, naming the holder, when it takes too long.

    Who has to wait takes a ticket, and the oldest ticket goes first: with many writers nobody starves.
    """
    name = hashlib.sha256(thing.encode()).hexdigest()[:24] + ".lock"
    fd = None if _tickets(folder, name) else _try(folder, name)
    if fd is None:
        fd = _queue(folder, name, thing, seconds)
    try:
        yield
    finally:
        # Removed while held, so that nobody can remove a lock somebody else has just taken.
        try:
            folder.unlink(name)
        except OSError:
            _cleared.discard(folder.path)  # for the next one to try
        os.close(fd)


def _try(folder: Folder, name: str) -> int | None:
    """Take the lock if it is free."""
    while True:
        fd = folder.open(name, os.O_RDWR | os.O_CREAT)
        try:
            if not try_lock(fd):
                os.close(fd)
                return None
            if _still_named(folder, name, fd):
                _sign(fd)
                _clear(folder, name)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # it lost its name while we took it: the next one is another file


def _queue(folder: Folder, name: str, thing: str, seconds: float) -> int:
    """Wait for our turn."""
    begun = time.monotonic()
    ticket = f"{name}-{time.monotonic_ns():020d}-{os.getpid()}.wait"
    own = folder.open(ticket, os.O_RDWR | os.O_CREAT)
    try:
        while not try_lock(own):  # as long as we live: a ticket nobody holds is void
            time.sleep(_PAUSE / 10)  # somebody is just looking whether this one is
        while True:
            first = _next(folder, name, ticket)
            fd = _try(folder, name) if first else None
            if fd is not None:
                return fd
            if time.monotonic() - begun >= seconds:
                raise Locked(f"{thing} is locked by {_holder(folder, name)} (waited {seconds:g} s)")
            time.sleep(_PAUSE if first else _LONGER)
    finally:
        with contextlib.suppress(OSError):
            folder.unlink(ticket)
        os.close(own)


def _tickets(folder: Folder, name: str) -> list[str]:
    """The tickets of those who wait for a lock, oldest first."""
    return [each for each in folder.names() if each.startswith(name) and each.endswith(".wait")]


def _next(folder: Folder, name: str, own: str) -> bool:
    """Whether it is our turn; the tickets of the dead before us are taken away."""
    for each in _tickets(folder, name):
        if each >= own:
            return True
        if not _void(folder, each):
            return False
    return True


def _void(folder: Folder, ticket: str) -> bool:
    """Take a ticket away that nobody holds any more; whether it was one."""
    try:
        fd = folder.open(ticket, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        # One that has just been made is held a moment later: give it that moment.
        if not try_lock(fd) or time.time() - os.fstat(fd).st_mtime < 0.5:
            return False
        folder.unlink(ticket)
    finally:
        os.close(fd)
    return True


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
            if name != own and name.endswith((".lock", ".wait")):
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
    if os.fstat(fd).st_size:  # ext4 waits for the disk when a file that was cut is closed
        os.ftruncate(fd, 0)
    os.write(fd, f"process {os.getpid()} ({command})".encode(errors="replace")[:200])


def _holder(folder: Folder, name: str) -> str:
    """Who holds the lock, as far as they left word."""
    with contextlib.suppress(OSError):
        fd = folder.open(name, os.O_RDONLY)
        try:
            return os.read(fd, 200).decode(errors="replace") or "another process"
        finally:
            os.close(fd)
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

    def unwritten(fd: int) -> bool:
        """Whether nobody can write to this file, opened for reading; others may read it all they like.

        Only then does the kernel grant a read lease; where it has none to give, nobody else is assumed.
        """
        try:
            # Whoever opens the file while we hold the lease makes the kernel send a signal; the default
            # one would end this process.
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return error.errno != errno.EAGAIN
        return True

else:

    def unwritten(fd: int) -> bool:
        """No way to know here: nobody else is assumed."""
        return True
