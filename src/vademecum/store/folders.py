"""Folders held open by handle, so that no path can be swapped under a reader or a writer.

Every step down is taken without following links: nothing reached through a `Folder` lies outside of it.
Where the system has no such handles (Windows), the same calls work on paths.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

from vademecum.errors import OutsideMemory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

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
    """One open folder; use it in a `with` block."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str, fd: int | None) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def at(cls, path: Path | str, *, create: bool = False, mode: int = 0o700) -> Self:
        """Open a top folder; links on the way to it are the user's own and are followed."""
        name = os.fspath(path)
        if create:
            _make(os.path.abspath(name), mode)
        if not _BY_HANDLE:
            if not os.path.isdir(name):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
            return cls(name, None)
        return cls(name, os.open(name, os.O_RDONLY | _DIRECTORY | _CLOEXEC))

    def enter(self, *names: str, create: bool = False, mode: int = 0o700) -> Self:
        """Go down step by step, never through a link; the caller keeps and closes this folder."""
        here = self._duplicate()
        try:
            for name in names:
                above, here = here, here._step(name, create=create, mode=mode)
                above.close()
        except BaseException:
            here.close()
            raise
        return here

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a regular file in this folder; links, pipes and devices are refused."""
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
                raise OutsideMemory(f"{self.path}/{name} is not a file of its own")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def stat(self, name: str) -> os.stat_result | None:
        """What the system knows of a name, without following a link; None when it is not there."""
        try:
            return os.stat(self._target(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """All names in this folder, sorted."""
        return sorted(os.listdir(self.path if self.fd is None else self.fd))

    def unlink(self, name: str) -> None:
        """Take a name away; one that is already gone is fine."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._target(name), dir_fd=self.fd)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what stood there."""
        os.replace(self._target(old), self._target(new), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def place(self, old: str, new: str) -> None:
        """Give a file a name that nobody has; FileExistsError when somebody does."""
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
        """Swap two names in one step; False where the system cannot."""
        return self._rename_with(one, other, _SWAP)

    def sync(self) -> None:
        """Make the names in this folder survive a power cut."""
        if self.fd is not None:
            os.fsync(self.fd)

    def remove_folder(self, name: str) -> None:
        """Take an empty folder away."""
        os.rmdir(self._target(name), dir_fd=self.fd)

    def close(self) -> None:
        """Let go of the handle."""
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


def _make(path: str, mode: int) -> None:
    """Make a folder and those above it, each name on disk before anything is put below it."""
    if os.path.isdir(path):
        return
    parent, name = os.path.split(path)
    _make(parent, mode)
    with Folder.at(parent) as above:
        above.enter(name, create=True, mode=mode).close()


@functools.cache
def renaming_call() -> Callable[[int, bytes, bytes, int], int] | None:
    """The system's rename with flags, as a function that returns 0 or an error number."""
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
