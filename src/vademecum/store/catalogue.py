"""A cache of facts about records, so that only changed files are read again.

A fact is the result of a function on one file. It is valid as long as the file's stamp (size, times) is the
same; a file that changed a moment ago is read again each time, since two changes could share one time. The
cache can always be rebuilt: a damaged, outdated or missing one counts as empty. This module knows names,
stamps and bytes, and not the meaning of the facts.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import struct
import sys
import threading
import time
import zlib
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from vademecum.errors import Malformed, OutsideMemory
from vademecum.named_tuple import NamedTuple
from vademecum.store import archive, copies, files, view
from vademecum.store.view import Look, Stamp, current_view, look_at, no_collection, stamp_of
from vademecum.text import filenames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from vademecum.store.backend import Directory
    from vademecum.store.files import DiskFolder
    from vademecum.store.home import Home, ScopeFolder
    from vademecum.store.records import Records

    Make: TypeAlias = Callable[[str, bytes], Any]

Rows: TypeAlias = dict[str, tuple[Stamp, Any]]

PREFIX = "catalogue-"
FEW = 8  # files that are read about as fast as their cached facts
LARGEST = 1 << 30  # bytes
_MADE_BY = f"vade catalogue 2, marshal {marshal.version}, {sys.hexversion >> 16:x}"
_FRAME = struct.Struct("<QI")  # the length of what follows, and its checksum
_BETWEEN = "\0"  # names: no file has it in its own
_SLACK = 256 * 1024  # bytes that may come to a file before it is written anew
_TIMES = itemgetter(1), itemgetter(2)  # of a stamp
_ABANDONED = 60  # seconds after which a file that nobody finished is cleared away


class Fact(NamedTuple):
    """A value that is computed from each record and cached: its name, its version and its function.

    The function `of` returns plain values that `marshal` can save. A fact with `logged` also depends on the
    log of acknowledged entries.
    """

    name: str
    version: int | str
    of: Callable[[Records, ScopeFolder, str, bytes], Any]
    logged: bool = False


class Facts(NamedTuple):
    """The values of a fact for each readable file, the errors of the other files, and all files' stamps."""

    facts: dict[str, Any]
    failed: dict[str, Exception]
    stamps: dict[str, Stamp]


class Digest(NamedTuple):
    """A hash over the stamps of some files; if `settled`, every later change of a file gives another hash."""

    value: bytes
    stamps: dict[str, Stamp]
    at: int

    @property
    def settled(self) -> bool:
        """Return whether the digest is sure to change with every later change of a file."""
        newest = (max(map(time_of, self.stamps.values()), default=0) for time_of in _TIMES)
        return max(newest) < self.at - view.RACY


class Catalogue:
    """Cached facts about records of a home; with `keep`, they are saved on disk, except for small folders."""

    def __init__(self, home: Home, *, keep: bool = True) -> None:
        self._home, self._keep = home, keep
        self._caches: dict[tuple[str, str], _CacheFile] = {}

    def known(
        self,
        scope_folder: ScopeFolder,
        folder: Directory,
        fact: Fact,
        make: Make,
        *,
        wanted: Callable[[str], bool],
        only: Collection[str] | None = None,
    ) -> Facts:
        """Return a fact about the wanted records, or those in `only`; `make` computes it for changed ones."""
        look = self._look(folder, wanted)
        at, here = (self, _mark(scope_folder), fact.name), current_view()
        seen, earlier = (None, None) if here is None else here.derived.get(at, (None, None))
        if only is None and seen is look:
            return cast("Facts", earlier)
        stamps = look.stamps
        if only is not None:
            stamps = {name: stamps[name] for name in only if name in stamps}
        if fact.logged or not scope_folder.signed:  # who said what is in the log alone
            logs = self._logs(scope_folder, only)
            stamps = {name: (*stamp, *logs.get(name, ())) for name, stamp in stamps.items()}
        cache = self._cache_of(scope_folder, fact, len(look.stamps))
        found = _read_facts(folder, make, cache, stamps, look)
        if only is None and here is not None:
            here.derived[at] = look, found
        return found

    def names(self, folder: Directory, wanted: Callable[[str], bool]) -> Collection[str]:
        """Return the wanted names of a folder, unsorted; within a request, without those of second copies."""
        if current_view() is None:
            return [name for name in folder.names(ordered=False) if wanted(name)]
        return self._look(folder, wanted).stamps

    def digest(self, folder: Directory, wanted: Callable[[str], bool]) -> Digest:
        """Return a digest of the wanted files in a folder, without second copies."""
        look = self._look(folder, wanted)
        return Digest(_digest(look.stamps), look.stamps, look.at)

    def digest_logs(self, scope_folder: ScopeFolder, names: Collection[str]) -> Digest:
        """Return a digest of the logs of acknowledged entries of the records with these file names."""
        at, stamps = time.time_ns(), self._logs(scope_folder, names)
        return Digest(_digest(stamps), stamps, at)

    def recall(self, name: str, version: str) -> Any:
        """Return the value that was saved under this name and version, else None."""
        cache = _CacheFile(self._home if self._keep else None, f"{PREFIX}{name}", version)
        return cache.load().get("", ((), None))[1]

    def remember(self, name: str, version: str, value: Any) -> None:
        """Save a value under a name, replacing an earlier one."""
        cache = _CacheFile(self._home if self._keep else None, f"{PREFIX}{name}", version)
        cache.add({"": ((), value)}, ("",))

    def _look(self, folder: Directory, wanted: Callable[[str], bool]) -> Look:
        """Return the stamps of a folder's wanted files, without second copies."""
        look, here = look_at(folder, wanted), current_view()
        if wanted is _is_log:
            return look
        at = "without copies", folder.path, wanted
        seen, without = (None, look) if here is None else here.derived.get(at, (None, look))
        if seen is look:
            return without
        copied = copies.hidden_in(folder, look.stamps)
        without = look
        if copied:
            left = {name: stamp for name, stamp in look.stamps.items() if name not in copied}
            without = look._replace(stamps=left)
        if here is not None:
            here.derived[at] = look, without
        return without

    def _logs(self, scope_folder: ScopeFolder, only: Collection[str] | None) -> dict[str, Stamp]:
        """Return the stamps of the entry logs in `archive/kept` by record file; `only` these files."""
        try:
            with self._home.folder(
                "archive", "kept", *archive.area(scope_folder), filenames.RECORDS
            ) as folder:
                if only is None:
                    return {name[:-6]: stamp for name, stamp in self._look(folder, _is_log).stamps.items()}
                states = ((name, folder.stat(f"{name}.jsonl")) for name in only)
                return {name: stamp_of(state) for name, state in states if state is not None}
        except (FileNotFoundError, NotADirectoryError, OutsideMemory):
            return {}

    def _cache_of(self, scope_folder: ScopeFolder, fact: Fact, count: int) -> _CacheFile:
        at = _mark(scope_folder), fact.name
        cache = self._caches.get(at)
        home = self._home if self._keep and count >= FEW else None
        if cache is None or (cache.home is None and home is not None):
            rows = {} if cache is None else cache.rows
            cache = self._caches[at] = _CacheFile(
                home, f"{PREFIX}{at[0]}-{fact.name}", f"{fact.name} {fact.version}"
            )
            cache.rows = cache.load()
            cache.rows.update(rows)
        return cache


class _CacheFile:
    """The cache file of one kind of fact about the files of one folder, and its rows.

    The file is a sequence of frames; the row of a later frame replaces an earlier row of the same name.
    """

    def __init__(self, home: Home | None, name: str, fact: str) -> None:
        self.home, self.name = home, name
        self._head = f"{_MADE_BY}, {fact}\n".encode()
        self.rows: Rows = {}
        self._file = 0  # the inode of what was loaded, when all of it could be read
        self._base = self._size = 0  # bytes: of the first frame, and of all

    def load(self) -> Rows:
        """Return the saved rows up to the first damaged frame; none if the file is missing or outdated."""
        rows: Rows = {}
        if self.home is None:
            return rows
        try:
            with self.home.disk("index") as folder:
                state = folder.stat(self.name)
                content = folder.read(self.name, largest=LARGEST) or b""
        except (OSError, OutsideMemory, Malformed):
            return rows
        if state is None or not content.startswith(self._head):
            return rows
        at = self._size = len(self._head)
        while at + _FRAME.size <= len(content):
            length, sum_ = _FRAME.unpack_from(content, at)
            frame = memoryview(content)[at + _FRAME.size : at + _FRAME.size + length]
            if len(frame) != length or zlib.crc32(frame) != sum_:
                return rows  # torn: what was written behind it cannot be found either
            with no_collection():
                rows.update(_unframed(frame))
            at += _FRAME.size + length
            self._base = self._base or length
        if at == len(content):
            self._file, self._size = state.st_ino, at
        return rows

    def add(self, new: Rows, present: Collection[str]) -> None:
        """Add rows, and append them to the file; errors while writing are ignored.

        A missing, damaged or much grown file is rewritten instead, with the rows of the names in `present`.
        """
        self.rows.update(new)
        if self.home is None:
            return
        frame = _framed(new)
        grown = self._size + len(frame) - self._base
        with contextlib.suppress(OSError, OutsideMemory):  # a full disk or a home that is read-only
            if not self._file or grown > max(_SLACK, self._base // 2):
                self._write_anew(present)
            else:
                self._append(frame)

    def _append(self, frame: bytes) -> None:
        assert self.home is not None
        with self.home.disk("index") as folder:
            try:
                fd = folder.open(self.name, os.O_WRONLY | os.O_APPEND)
            except FileNotFoundError:  # it was purged, and begins anew with the next process
                self._file = 0
                return
            try:
                if os.fstat(fd).st_ino == self._file and os.write(fd, frame) == len(frame):
                    self._size += len(frame)
                else:
                    self._file = 0
            finally:
                os.close(fd)

    def _write_anew(self, present: Collection[str]) -> None:
        assert self.home is not None
        if not os.path.isdir(self.home.path):
            return
        self.rows = {name: row for name, row in self.rows.items() if name in present}
        frame = _framed(self.rows)
        staged = f"{self.name}.{os.getpid()}-{threading.get_ident()}.new"
        with self.home.disk("index", create=True) as folder:
            self._clear_abandoned(folder)
            fd = folder.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                try:
                    _write_all(fd, self._head + frame)
                    state = os.fstat(fd)
                finally:
                    os.close(fd)
                folder.rename(staged, self.name)
            except BaseException:
                folder.unlink(staged)
                raise
        self._file, self._base, self._size = state.st_ino, len(frame), state.st_size

    def _clear_abandoned(self, folder: DiskFolder) -> None:
        """Remove the leftovers of killed writers."""
        for name in folder.names():
            if name.startswith(PREFIX) and name.endswith(".new"):
                state = folder.stat(name)
                if state is not None and state.st_mtime < time.time() - _ABANDONED:
                    folder.unlink(name)


def _read_facts(
    folder: Directory, make: Make, cache: _CacheFile, stamps: dict[str, Stamp], look: Look
) -> Facts:
    """Return the facts of a folder: cached ones where the stamps are equal, the others newly made."""
    facts: dict[str, Any] = {}
    failed: dict[str, Exception] = {}
    changed = []
    rows, missing = cache.rows, ((), None)
    for name, stamp in stamps.items():
        known, value = rows.get(name, missing)
        if known == stamp:
            facts[name] = value
        else:
            changed.append(name)
    new: Rows = {}
    for name in changed:
        try:
            content = folder.read(name)
            if content is None:
                continue  # it went just now
            facts[name] = make(name, content)
        except (Malformed, OutsideMemory, OSError) as error:
            failed[name] = error
            files.note_trouble(error)
            continue
        if _is_settled(stamps[name], look.at):
            new[name] = stamps[name], facts[name]
    if new:
        cache.add(new, look.stamps)
    return Facts(facts, failed, look.stamps)


def _framed(rows: Rows) -> bytes:
    """Return rows as bytes, grouped by the width of their stamps: names, a block of numbers, and facts.

    One block loads in half the time of a separate text, tuple and four numbers for each file.
    """
    widths: dict[int, list[str]] = {}
    for name, (stamp, _) in rows.items():
        widths.setdefault(len(stamp), []).append(name)
    payload = marshal.dumps(
        [
            (
                width,
                _BETWEEN.join(names),
                _packed([rows[name][0] for name in names], width),
                [rows[name][1] for name in names],
            )
            for width, names in widths.items()
        ]
    )
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _unframed(frame: memoryview) -> Rows:
    """Return the rows that `_framed` turned into this frame."""
    rows: Rows = {}
    for width, names, block, values in marshal.loads(frame):
        stamps = struct.iter_unpack(f"<{width}q", block) if width and isinstance(block, bytes) else block
        rows.update(zip(names.split(_BETWEEN), zip(stamps or repeat(()), values, strict=False), strict=True))
    return rows


def _packed(stamps: list[Stamp], width: int) -> bytes | list[Stamp]:
    """Return stamps as one block of bytes; as a list where a number does not fit into 64 bits."""
    try:
        return struct.pack(f"<{width * len(stamps)}q", *chain.from_iterable(stamps))
    except struct.error:
        return stamps


def _write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def _digest(stamps: dict[str, Stamp]) -> bytes:
    # The second format of marshal has no references in it: equal values are equal bytes.
    return hashlib.blake2b(marshal.dumps(stamps, 2), digest_size=16).digest()


def _is_settled(stamp: Stamp, at: int) -> bool:
    """Return whether a file's stamp is sure to change with every later change of the file or its log."""
    return max(stamp[1], stamp[2], *stamp[5:7]) < at - view.RACY


def _is_log(name: str) -> bool:
    return name.endswith(".jsonl")


def _mark(scope_folder: ScopeFolder) -> str:
    """Return a hash that names a folder's cache file, made from its path and how far it is trusted."""
    how = (
        str(scope_folder.shared),
        str(scope_folder.trusted),
        *(["signed"] if scope_folder.team and scope_folder.signed else []),
    )
    identity = "\0".join((os.fspath(scope_folder.top), *scope_folder.parts, *how))
    return hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
