"""A backend that keeps everything in this process: what a second implementation has to do, and no more."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import stat
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from vademecum.errors import InvalidText, Locked, Malformed, OutsideMemory
from vademecum.store.files import LARGEST, Written
from vademecum.store.folders import Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self


@dataclass(eq=False)
class InMemoryBackend:
    """Contents by their path; one who writes past the store is a person who saves."""

    contents: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    folders: set[tuple[str, ...]] = field(default_factory=set)
    stamps: dict[tuple[str, ...], os.stat_result] = field(default_factory=dict)
    changed: list[tuple[str, str]] = field(default_factory=list)
    guard: threading.RLock = field(default_factory=threading.RLock)
    locks: dict[str, threading.Lock] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def open(self, *names: str, create: bool = False, mode: int = 0o700) -> InMemoryDirectory:
        for name in names:
            _check(name)
        if create:
            self.folders |= {names[:at] for at in range(len(names) + 1)}
        if names not in self.folders:
            raise FileNotFoundError("/".join(names))
        return InMemoryDirectory(self, names)

    def watch(self) -> InMemoryWatch:
        return InMemoryWatch(self)

    def save(self, path: tuple[str, ...], content: bytes | None) -> None:
        """Put a content in its place, or take it away, whoever does it."""
        with self.guard:
            if content is None:
                self.contents.pop(path, None)
            else:
                self.contents[path] = content
                now, number = time.time_ns(), next(self.numbers)
                seconds = now // 10**9
                fields = (stat.S_IFREG | 0o600, number, 0, 1, 0, 0, len(content), seconds, seconds, seconds)
                exact = {"st_mtime_ns": now, "st_ctime_ns": now, "st_mtime": now / 1e9}
                self.stamps[path] = os.stat_result(fields, exact)
            self.changed.append(("/".join(path[:-1]), path[-1]))


class InMemoryDirectory:
    """One directory of it."""

    def __init__(self, backend: InMemoryBackend, names: tuple[str, ...]) -> None:
        self._backend, self._names = backend, names
        self.path = "/".join(names)

    def names(self, *, ordered: bool = True) -> list[str]:
        depth = len(self._names)
        known = [*self._backend.contents, *self._backend.folders]
        return sorted({path[depth] for path in known if path[:depth] == self._names and len(path) > depth})

    def stat(self, name: str) -> os.stat_result | None:
        path = self._path(name)
        return self._backend.stamps[path] if path in self._backend.contents else None

    def scan(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
        for name in filter(wanted, self.names()):
            state = self.stat(name)
            if state is not None:
                yield name, state

    def mark(self) -> tuple[int, ...]:
        return time.time_ns(), time.time_ns(), hash(self._names)

    def read(self, name: str, *, largest: int = LARGEST) -> bytes | None:
        content = self._backend.contents.get(self._path(name))
        if content is not None and len(content) > largest:
            raise Malformed(f"{self.path}/{name} is too long")
        return content

    def reader(self, name: str) -> BinaryIO:
        content = self.read(name)
        if content is None:
            raise FileNotFoundError(name)
        return io.BytesIO(content)

    def update(
        self,
        name: str,
        change: Callable[[bytes | None], bytes],
        *,
        mode: int = 0o600,
        largest: int = LARGEST,
    ) -> Written:
        first = self.read(name, largest=largest)
        while True:
            base = self.read(name, largest=largest)
            after = change(base)
            if len(after) > largest:
                raise InvalidText(f"{self.path}/{name} would be too long")
            with self._backend.guard:
                if self.read(name, largest=largest) == base:
                    self._backend.save(self._path(name), after)
                    return Written(first, after)

    def create(self, name: str, content: bytes, *, mode: int = 0o600) -> None:
        with self._backend.guard:
            if self.stat(name) is not None:
                raise FileExistsError(name)
            self._backend.save(self._path(name), content)

    def overwrite(self, name: str, block: bytes) -> None:
        self._backend.save(self._path(name), block)

    def remove(self, name: str, keep: Callable[[bytes], None]) -> bytes | None:
        while (content := self.read(name)) is not None:
            keep(content)
            with self._backend.guard:
                if self.read(name) == content:
                    self.delete(name)
                    return content
        return None

    def delete(self, name: str) -> None:
        self._backend.save(self._path(name), None)

    def pen(self, name: str) -> InMemoryAppender:
        return InMemoryAppender(self, name)

    def append_line(self, name: str, line: bytes) -> int:
        return self.pen(name).write(line, sync=True)

    def sweep(self) -> list[str]:
        return []

    def leftovers(self) -> list[str]:
        return []

    @contextlib.contextmanager
    def lock(self, thing: str, *, seconds: float) -> Iterator[None]:
        lock_of_thing = self._backend.locks.setdefault(thing, threading.Lock())
        if not lock_of_thing.acquire(timeout=seconds):
            raise Locked(f"{thing} is in use")
        try:
            yield
        finally:
            lock_of_thing.release()

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _path(self, name: str) -> tuple[str, ...]:
        return (*self._names, _check(name))


class InMemoryAppender:
    """Adds lines to one log."""

    def __init__(self, directory: InMemoryDirectory, name: str) -> None:
        self._directory, self._name = directory, name

    def end(self) -> int:
        return len(self._directory.read(self._name) or b"")

    def write(self, line: bytes, *, sync: bool) -> int:
        content = self._directory.read(self._name) or b""
        stump = b"\n" if content and not content.endswith(b"\n") else b""
        self._directory.overwrite(self._name, content + stump + line + b"\n")
        return self.end()

    def close(self) -> None:
        pass


class InMemoryWatch:
    """What was saved since the last look."""

    def __init__(self, backend: InMemoryBackend) -> None:
        self._backend, self._seen = backend, len(backend.changed)
        self._covered: set[str] = set()

    def cover(self, directories: Iterable[str]) -> None:
        self._covered = set(directories)

    def look(self) -> Seen:
        new = self._backend.changed[self._seen :]
        self._seen += len(new)
        return Seen(names=frozenset(each for each in new if each[0] in self._covered))


def _check(name: str) -> str:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise OutsideMemory(f"{name!r} is not the name of a file")
    return name
