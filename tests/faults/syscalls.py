"""One tap over every system call the store makes: see it, count it, fail it, or die beside it.

Knows descriptors and paths; knows nothing of memory. What happens at a call is decided by one function, which
gets the call and may run it, replace it, raise or end the process.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from vademecum.store import folders

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

BY_DESCRIPTOR = ("write", "fsync", "ftruncate", "close", "read", "lseek", "fstat", "dup")
BY_PATH = ("unlink", "mkdir", "rmdir", "stat", "lstat", "listdir", "scandir")
BY_TWO_PATHS = ("replace", "rename", "link")
LOCKING = ("flock", "fcntl")
RENAMING = ("place", "exchange")  # the two uses of renameat2

# Calls after which a power cut could find something else on the disk.
CHANGING = {"open", "write", "ftruncate", "unlink", "mkdir", "rmdir", "fsync", *BY_TWO_PATHS, *RENAMING}


@dataclass(slots=True)
class Call:
    """One system call with its descriptors resolved to paths, and how it ended."""

    name: str
    path: str
    other: str = ""  # where a rename or link leads
    fd: int = -1
    flags: int = 0
    data: bytes = b""
    size: int = 0  # of a truncation
    result: int = 0  # a descriptor or a count
    error: int = 0
    run: Callable[..., Any] = field(default=bool, repr=False, compare=False)

    def bare(self) -> Call:
        """The call as a plain value that can be sent to another process."""
        plain = Call(self.name, self.path, self.other, self.fd, self.flags, self.data, self.size)
        plain.result, plain.error = self.result, self.error
        return plain


def pass_through(call: Call) -> Any:
    """Let a call happen."""
    return call.run()


class Tap:
    """Patches the calls in this process while it is open; `trace` holds what was called."""

    def __init__(self, around: Callable[[Call], Any] = pass_through, *, root: str = "/") -> None:
        self.around = around
        self.root = root
        self.trace: list[Call] = []
        self._paths: dict[int, str] = {}
        self._flags: dict[int, int] = {}
        self._real: list[tuple[Any, str, Any]] = []
        self._at = threading.local()  # which thread is in the middle of a call

    def __enter__(self) -> Self:
        wrapped: list[tuple[Any, str, Any]] = [(os, "open", self._open(os.open))]
        wrapped += [(os, name, self._by_descriptor(name, getattr(os, name))) for name in BY_DESCRIPTOR]
        wrapped += [(os, name, self._by_path(name, getattr(os, name))) for name in BY_PATH]
        wrapped += [(os, name, self._by_two_paths(name, getattr(os, name))) for name in BY_TWO_PATHS]
        wrapped += [(fcntl, name, self._by_descriptor(name, getattr(fcntl, name))) for name in LOCKING]
        wrapped += [(folders, "renaming_call", self._renaming(folders.renaming_call()))]
        for owner, name, replacement in wrapped:  # by hand: `mock.patch` takes as long as a whole write
            self._real.append((owner, name, getattr(owner, name)))
            setattr(owner, name, replacement)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._real:
            setattr(*self._real.pop())

    def _happen(self, call: Call) -> Any:
        """Hand a call to `around` and write down how it ended."""
        if getattr(self._at, "busy", False) or not call.path.startswith(self.root):
            return call.run()
        self.trace.append(call)
        self._at.busy = True
        try:
            outcome = self.around(call)
        except OSError as failure:
            call.error = failure.errno or errno.EIO
            raise
        finally:
            self._at.busy = False
        if isinstance(outcome, int):
            call.result = outcome
        return outcome

    def _path(self, path: Any, folder: int | None) -> str:
        if isinstance(path, int):
            return self._paths.get(path, "")
        text = os.fsdecode(path)
        return os.path.join(self._paths.get(folder, "") if folder is not None else os.getcwd(), text)

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            call = Call("open", self._path(path, dir_fd), flags=flags)
            call.run = functools.partial(real, path, flags, mode, dir_fd=dir_fd)
            fd = cast("int", self._happen(call))
            self._paths[fd], self._flags[fd] = call.path, flags
            return fd

        return opened

    def _by_descriptor(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(fd: int, *rest: Any) -> Any:
            call = Call(name, self._paths.get(fd, ""), fd=fd, flags=self._flags.get(fd, 0))
            if name == "write":
                call.data = bytes(rest[0])
            elif name == "ftruncate":
                call.size = rest[0]
            elif name == "close":
                call.path = self._paths.pop(fd, "")  # gone, whatever close says: so it is on Linux
            call.run = functools.partial(real, fd, *rest)
            outcome = self._happen(call)
            if name == "dup":
                self._paths[outcome], self._flags[outcome] = call.path, call.flags
            return outcome

        return called

    def _by_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any = ".", *rest: Any, dir_fd: int | None = None, **options: Any) -> Any:
            if dir_fd is not None:
                options["dir_fd"] = dir_fd
            call = Call(name, self._path(path, dir_fd))
            call.run = functools.partial(real, path, *rest, **options)
            return self._happen(call)

        return called

    def _by_two_paths(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(
            one: Any, other: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None, **more: Any
        ) -> Any:
            call = Call(name, self._path(one, src_dir_fd), self._path(other, dst_dir_fd))
            call.run = functools.partial(
                real, one, other, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **more
            )
            return self._happen(call)

        return called

    def _renaming(self, real: Callable[[int, bytes, bytes, int], int] | None) -> Callable[[], Any]:
        def renamed(fd: int, old: bytes, new: bytes, flag: int) -> int:
            name = "exchange" if flag == 2 else "place"
            call = Call(name, self._path(old, fd), self._path(new, fd), flags=flag)
            call.run = functools.partial(cast("Callable[..., int]", real), fd, old, new, flag)
            try:
                call.error = cast("int", self._happen(call))
            except OSError as failure:  # this call reports by number, as the system does
                call.error = failure.errno or errno.EIO
            return call.error

        return lambda: None if real is None else renamed
