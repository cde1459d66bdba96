"""Folders held open by handle, with locks between processes and watches for changes.

A path cannot be swapped under a reader or a writer: every step down is taken without following links, so all
that a `Folder` reaches lies inside of it. Where the system has no such handles (Windows), paths are used.

A lock is a file in a folder, locked by the kernel, so that a lock ends with its process. The holder removes
the file; a process that waited on the removed file notices this and tries again on a new file.

A watch tells which names changed in some folders since the last look, without a thread or waiting. On Linux
the kernel queues every change (inotify), and a look reads the queue. Where there is no queue, or it
overflows, or too many folders are watched, a look says that it cannot tell, and the caller compares the
folders. Events are hints and never the truth.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum.errors import Locked, OutsideMemory
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

_Thing = TypeVar("_Thing")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not hang
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_BY_HANDLE = os.open in os.supports_dir_fd

# Where two spellings of a name can open the same folder, the spelling is checked.
FOLDS_NAMES = sys.platform in ("darwin", "win32")

# renameat2(2) on Linux and renameatx_np(2) on macOS: exclusive and swapping renames.
_SWAP = 2
_EXCLUSIVE = 4 if sys.platform == "darwin" else 1
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


class Folder:
    """An open folder; use it in a `with` block."""

    __slots__ = ("fd", "lent", "path")
    alone = (
        False  # whether a file may have no other name: what two share, one changes behind the other's back
    )

    def __init__(self, path: str, fd: int | None) -> None:
        self.path = path
        self.fd = fd
        self.lent = False  # whether a view keeps it open for its request

    @classmethod
    def at(cls, path: Path | str, *, create: bool = False, mode: int = 0o700) -> Self:
        """Open a top folder (or make it, with `create`); links on the way to it are followed."""
        name = os.fspath(path)
        if create:
            _make(os.path.abspath(name), mode)
        if not _BY_HANDLE:
            if not os.path.isdir(name):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
            return cls(name, None)
        return cls(name, os.open(name, os.O_RDONLY | _DIRECTORY | _CLOEXEC))

    def enter(self, *names: str, create: bool = False, mode: int = 0o700) -> Self:
        """Open a folder below this one, name by name and without following links; this folder stays open.

        Missing folders are created with `create`. Without names, the result is a second handle to this one.
        """
        here = self if names else self._duplicate()
        try:
            for name in names:
                above, here = here, here._step(name, create=create, mode=mode)
                if above is not self:
                    above.close()
        except BaseException:
            if here is not self:
                here.close()
            raise
        return here

    def enter_all(self, names: Iterable[str], *, mode: int = 0o700) -> dict[str, Self]:
        """Open subfolders of this folder; missing ones are created and synced together."""
        found: dict[str, Self] = {}
        made: list[str] = []
        try:
            for name in names:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self._target(name), mode, dir_fd=self.fd)
                    made.append(name)
                found[name] = self._step(name, create=False, mode=mode)
            if made:
                self.sync()
        except BaseException:
            for each in found.values():
                each.close()
            for name in made:
                with contextlib.suppress(OSError):  # or the next one would take it for a folder on disk
                    self.remove_folder(name)
            raise
        return found

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a regular file in this folder; links, pipes and devices are refused.

        A file with several hard links is refused if another user owns it, or if this folder is `alone`.
        """
        target = self._target(name)
        if self.fd is None and os.path.islink(target):
            raise OutsideMemory(f"{self.path}/{name} is a link")
        try:
            fd = os.open(target, flags | _NOFOLLOW | _NONBLOCK | _CLOEXEC | _BINARY, mode, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise OutsideMemory(f"{self.path}/{name} is not a regular file") from error
            raise
        try:
            state = os.fstat(fd)
            foreign = state.st_nlink > 1 and hasattr(os, "geteuid") and state.st_uid != os.geteuid()
            if not stat.S_ISREG(state.st_mode) or foreign:
                raise OutsideMemory(f"{self.path}/{name} is not a regular file")
            if self.alone and state.st_nlink > 1:
                raise OutsideMemory(f"{self.path}/{name} is a hard link and is not read: copy it instead")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of a name without following links; None when it does not exist."""
        try:
            return os.stat(self._target(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self, *, ordered: bool = True) -> list[str]:
        """Return all names in the folder, sorted unless `ordered` is false."""
        found = os.listdir(self.path if self.fd is None else self.fd)
        return sorted(found) if ordered else found

    def unlink(self, name: str) -> None:
        """Remove a name; a missing name is no error."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._target(name), dir_fd=self.fd)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing an existing one."""
        os.replace(self._target(old), self._target(new), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def place(self, old: str, new: str) -> None:
        """Rename a file to a new name; raise FileExistsError when the name exists."""
        if self._rename_with(old, new, _EXCLUSIVE):
            return
        try:
            os.link(self._target(old), self._target(new), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileExistsError:
            raise
        except OSError as error:
            # A file system without hard links: the look before the rename is the best there is.
            if self.stat(new) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from error
            self.rename(old, new)
        else:
            self.unlink(old)

    def exchange(self, one: str, other: str) -> bool:
        """Swap two names in one step; return False where the system cannot do this."""
        return self._rename_with(one, other, _SWAP)

    def sync(self) -> None:
        """Sync the names of the folder to disk."""
        if self.fd is not None:
            os.fsync(self.fd)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._target(name), dir_fd=self.fd)

    def close(self) -> None:
        """Close the folder's handle, unless a request's view keeps it open."""
        if self.lent:
            return
        fd, self.fd = self.fd, None  # gone even when closing fails: the number may be somebody else's by now
        if fd is not None:
            with contextlib.suppress(OSError):  # nothing is written through it that could fail to arrive
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _target(self, name: str) -> str:
        if not name or name in (".", "..") or "/" in name or "\0" in name or os.sep in name:
            raise OutsideMemory(f"{name!r} is not the name of a file")
        try:
            os.fsencode(name)
        except UnicodeEncodeError as error:
            raise OutsideMemory(f"{name!r} is not the name of a file") from error
        return os.path.join(self.path, name) if self.fd is None else name

    def _duplicate(self) -> Self:
        return type(self)(self.path, None if self.fd is None else os.dup(self.fd))

    def _step(self, name: str, *, create: bool, mode: int) -> Self:
        target = self._target(name)
        if create:
            try:
                os.mkdir(target, mode, dir_fd=self.fd)
            except FileExistsError:
                pass
            else:
                try:
                    self.sync()
                except BaseException:
                    with contextlib.suppress(OSError):  # or the next one would take it for a folder on disk
                        os.rmdir(target, dir_fd=self.fd)
                    raise
        path = os.path.join(self.path, name)
        if FOLDS_NAMES and name not in os.listdir(self.path if self.fd is None else self.fd):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if self.fd is None:
            if os.path.islink(path):
                raise OutsideMemory(f"{path} is a link")
            return type(self).at(path)
        try:
            fd = os.open(target, os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC, dir_fd=self.fd)
        except OSError as error:
            state = self.stat(name)
            if state is not None and stat.S_ISLNK(state.st_mode):
                raise OutsideMemory(f"{path} is a link") from error
            raise
        return type(self)(path, fd)

    def _rename_with(self, old: str, new: str, flag: int) -> bool:
        if self.fd is None:
            return False
        call = renaming_call()
        if call is None:
            return False
        code = call(self.fd, os.fsencode(old), os.fsencode(new), flag)
        if code == 0:
            return True
        if code in _UNSUPPORTED:
            return False
        raise OSError(code, os.strerror(code), old, None, new)


_AT_A_GLANCE = 0.001  # seconds in which no disk was waited for
_AT_ONCE = 16  # waits for the disk side by side: a journal takes them in together


def sync_all(descriptors: Sequence[int]) -> None:
    """Sync many files or folders to disk; in parallel threads if the disk is slow."""
    do_all(os.fsync, descriptors)


def do_all(do: Callable[[_Thing], object], things: Sequence[_Thing]) -> None:
    """Apply a function that waits for the disk to many things, in threads, and wait for all.

    Where the disk answers without waiting, threads would only cost time; then all runs in this thread.
    """
    done, begun = 0, time.perf_counter()
    while done < len(things) and (not done or time.perf_counter() - begun < _AT_A_GLANCE):
        do(things[done])
        done += 1
    left, failed = things[done:], list[OSError]()

    def work(part: Sequence[_Thing]) -> None:
        try:
            for thing in part:
                do(thing)
        except OSError as error:
            failed.append(error)

    count = min(_AT_ONCE, len(left))
    threads = [threading.Thread(target=work, args=(left[each::count],)) for each in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if failed:
        raise failed[0]


def _make(path: str, mode: int) -> None:
    """Create a folder and its parents; each name is synced before anything is created below it."""
    if os.path.isdir(path):
        return
    parent, name = os.path.split(path)
    _make(parent, mode)
    with Folder.at(parent) as above:
        above.enter(name, create=True, mode=mode).close()


@functools.cache
def renaming_call() -> Callable[[int, bytes, bytes, int], int] | None:
    """Return the system call for renaming with flags (it returns 0 or an error number), or None."""
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        call = library.renameatx_np if sys.platform == "darwin" else library.renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def rename_with(fd: int, old: bytes, new: bytes, flag: int) -> int:
        return ctypes.get_errno() if call(fd, old, fd, new, flag) else 0

    return rename_with


_PAUSE = 0.001  # between two looks of the one whose turn is next
_LONGER = 0.004  # and of those behind it
_left: set[str] = set()  # folders of locks in which a dead process's was found
_cleared: set[str] = set()  # folders of locks in which this process has looked for what dead ones left


@contextlib.contextmanager
def hold_lock(folder: Folder, thing: str, *, seconds: float) -> Iterator[None]:
    """Hold the lock on a thing (any string); raise `Locked`, naming the holder, after `seconds`.

    A process that has to wait takes a ticket, and the oldest ticket goes first, so that no process starves.
    """
    name = _lock_name(thing)
    fd = None if _tickets(folder, name) else _try(folder, name)
    if fd is None:
        fd = _queue(folder, name, thing, seconds)
    try:
        yield
    finally:
        _let_go(folder, name, fd)


@contextlib.contextmanager
def hold_locks(folder: Folder, things: Iterable[str]) -> Iterator[set[str]]:
    """Hold those of the locks that are free now, and yield their things; skip locks that a process waits for.

    No lock is waited for while others are held, so two processes cannot block each other for ever. Where the
    system has hard links, all locks are one file under many names, since new files are slow to create.
    """
    wanted = {_lock_name(thing): thing for thing in things}
    waiting = {name.partition("-")[0] for name in folder.names(ordered=False) if name.endswith(".wait")}
    held, first = set(), ""
    with contextlib.ExitStack() as stack:  # which lets go of all, the first one last, whatever fails
        for name, thing in wanted.items():
            if name in waiting:
                continue
            if first and _name_also(folder, first, name):
                stack.callback(_let_go, folder, name, None)
            else:
                fd = _try(folder, name)
                if fd is None:
                    continue
                stack.callback(_let_go, folder, name, fd)
                first = first or name
            held.add(thing)
        yield held


def _name_also(folder: Folder, first: str, name: str) -> bool:
    """Link the file of a held lock to another lock's name; return False when that fails."""
    if folder.fd is None:  # a file that is open keeps its names there
        return False
    try:
        os.link(first, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    except FileExistsError:
        return False
    except OSError:
        _cleared.discard(folder.path)  # it may be there all the same
        return False
    return True


def _lock_name(thing: str) -> str:
    return hashlib.sha256(thing.encode()).hexdigest()[:24] + ".lock"


def _let_go(folder: Folder, name: str, fd: int | None) -> None:
    """Remove the lock file before releasing the lock, so that no other process's lock file is removed."""
    try:
        folder.unlink(name)
    except OSError:
        _cleared.discard(folder.path)  # for the next one to try
    if fd is not None:
        os.close(fd)


def _try(folder: Folder, name: str) -> int | None:
    """Lock a lock file if it is free; return its open handle, or None when the lock is taken."""
    while True:
        try:
            fd = folder.open(name, os.O_RDWR | os.O_CREAT)
        except BaseException:
            _cleared.discard(folder.path)  # it may be there all the same: for the next one to clear
            raise
        try:
            if not try_lock(fd):
                os.close(fd)
                return None
            if _still_named(folder, name, fd):
                state = os.fstat(fd)
                if state.st_size:  # signed by somebody who never let go of it
                    _left.add(folder.path)
                if state.st_nlink == 1 or folder.fd is None:
                    _sign(fd)
                    _clear(folder, name)
                    return fd
                folder.unlink(name)  # one of many that were held together: with it we would hold them all
        except BaseException:
            _cleared.discard(folder.path)  # the file that was made stays: for the next one to clear
            os.close(fd)
            raise
        os.close(fd)  # it lost its name while we took it: the next one is another file


def _queue(folder: Folder, name: str, thing: str, seconds: float) -> int:
    """Wait with a ticket for the lock; return the lock file's handle, or raise `Locked` after `seconds`."""
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
    """Return the tickets of the processes that wait for a lock, oldest first."""
    return [each for each in folder.names() if each.startswith(name) and each.endswith(".wait")]


def _next(folder: Folder, name: str, own: str) -> bool:
    """Return whether it is this process's turn; tickets of ended processes are removed."""
    for each in _tickets(folder, name):
        if each >= own:
            return True
        if not _void(folder, each):
            return False
    return True


def _void(folder: Folder, ticket: str) -> bool:
    """Remove a ticket if its process has ended, and return whether it is gone; keep one made just now."""
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
    """Return whether a locked file still has its name, and so is still the lock."""
    found = folder.stat(name)
    return found is not None and os.path.samestat(found, os.fstat(fd))


def _clear(folder: Folder, own: str) -> None:
    """Remove the lock files and tickets of killed processes, unless this process has done so before."""
    if folder.path in _cleared:
        return
    _cleared.add(folder.path)
    with contextlib.suppress(OSError):
        for name in folder.names():
            if name != own and name.endswith((".lock", ".wait")) and _clear_one(folder, name):
                _left.add(folder.path)


def _clear_one(folder: Folder, name: str) -> bool:
    fd = folder.open(name, os.O_RDWR)
    try:
        dead = try_lock(fd) and _still_named(folder, name, fd)
        if dead:
            folder.unlink(name)
        return dead
    finally:
        os.close(fd)


def somebody_died(path: str) -> bool:
    """Return once True if a lock of a killed process was found in this folder; afterwards False."""
    died = path in _left
    _left.discard(path)
    return died


def _sign(fd: int) -> None:
    """Write the holder into the lock file, for messages only."""
    command = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    if os.fstat(fd).st_size:  # ext4 waits for the disk when a file that was cut is closed
        os.ftruncate(fd, 0)
    os.write(fd, f"process {os.getpid()} ({command})".encode(errors="replace")[:200])


def _holder(folder: Folder, name: str) -> str:
    """Return the holder's name from the lock file."""
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
        """Take the kernel's lock on an open file; return False, without waiting, when it is not free."""
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
        """Take the kernel's lock on an open file; return False, without waiting, when it is not free."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


if sys.platform == "linux":
    import fcntl

    def unwritten(fd: int) -> bool:
        """Return whether no process has the file open for writing.

        The kernel grants a read lease only then. Where the file system has no leases, return True.
        """
        import signal

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
        """Return True, because this system cannot tell who writes."""
        return True


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
    """The changed names, as pairs of folder and name; with `anything`, other names may have changed too."""

    anything: bool = False
    names: frozenset[tuple[str, str]] = frozenset()


NOTHING = Seen()
ANYTHING = Seen(anything=True)


class Watch:
    """A watch for changes in folders, missing ones included; it opens nothing before `cover` is called."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._folders: dict[int, list[str]] = {}  # two names can lead to one folder
        self._inodes: dict[str, tuple[int, int] | None] = {}
        self._checked = 0.0
        self._process = os.getpid()
        self.working = False

    def cover(self, folders: Iterable[str]) -> None:
        """Watch these folders and no others; the next look reports the changes from now on."""
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
        """Return the changes since the last look, without waiting; `ANYTHING` if the watch cannot tell."""
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
        """Return whether a watched folder was created or exchanged without an event.

        A missing folder sends no events, and neither does a folder that is moved together with its parents.
        Existing folders are compared at most once a second, and only if they are few.
        """
        now = time.monotonic()
        whole = now - self._checked > _OFTEN and len(self._inodes) <= _FEW
        if whole:
            self._checked = now
        return any(
            (before is None or whole) and _inode(folder) != before for folder, before in self._inodes.items()
        )

    def close(self) -> None:
        """Close the watch's queue."""
        fd, self._fd = self._fd, None
        self.working = False
        self._folders, self._inodes = {}, {}
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def __del__(self) -> None:
        self.close()

    def _take(self, content: bytes, names: set[tuple[str, str]]) -> bool:
        """Add the names from a block of events; return False if the events do not tell what changed."""
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
    """Return the system's calls for watching, or None where there are none."""
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
