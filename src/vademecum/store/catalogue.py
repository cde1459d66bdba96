"""The catalogue: facts about records, kept from when each file was last read, so that few are read again.

A fact is what a function makes of one file. It holds as long as the file's stamp does: an edit, a checkout, a
file that comes or goes changes a stamp, and one too young for the system's clock to tell two changes of it
apart is read each time. Nothing here is the truth: what is damaged, of another version, lost or cannot be
written is as if it were not there. Knows names, stamps and bytes, and nothing of what the facts mean.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import marshal
import os
import stat
import struct
import sys
import threading
import time
import zlib
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import archive, copies, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from vademecum.store.backend import Directory
    from vademecum.store.files import DiskFolder
    from vademecum.store.home import Home, Shelf
    from vademecum.store.records import Records

    Make: TypeAlias = Callable[[str, bytes], Any]

Stamp: TypeAlias = tuple[int, ...]
Rows: TypeAlias = dict[str, tuple[Stamp, Any]]

PREFIX = "catalogue-"
RACY = 1_000_000_000  # nanoseconds in which a file may change twice and keep its stamp
FEW = 150  # files that are read about as fast as what was kept of them
LARGEST = 1 << 30  # bytes
_MADE_BY = f"vade catalogue 2, marshal {marshal.version}, {sys.hexversion >> 16:x}"
_FRAME = struct.Struct("<QI")  # the length of what follows, and its checksum
_BETWEEN = "\0"  # names: no file has it in its own
_SLACK = 256 * 1024  # bytes that may come to a file before it is written anew
_NO_FILE = 0, 0, sys.maxsize, 0
_TIMES = itemgetter(1), itemgetter(2)  # of a stamp
_ABANDONED = 60  # seconds after which a file that nobody finished is cleared away


class Fact(NamedTuple):
    """Something to know of every record: its name, the version of what makes it, and what makes it.

    It is made of plain values, which `marshal` can keep. What is `logged` depends on the log of acknowledged
    entries as well.
    """

    name: str
    version: int
    of: Callable[[Records, Shelf, str, bytes], Any]
    logged: bool = False


class Facts(NamedTuple):
    """A fact about each file that can be read, why the others cannot be, and the stamps of all."""

    facts: dict[str, Any]
    failed: dict[str, Exception]
    stamps: dict[str, Stamp]


class Digest(NamedTuple):
    """What stands for some files: it changes with any of them, for sure once all are settled."""

    value: bytes
    stamps: dict[str, Stamp]
    at: int

    @property
    def settled(self) -> bool:
        """Whether any change to come must change it."""
        newest = (max(map(time_of, self.stamps.values()), default=0) for time_of in _TIMES)
        return max(newest) < self.at - RACY


class _Look(NamedTuple):
    """The files of a folder with their stamps."""

    stamps: dict[str, Stamp]
    at: int  # nanoseconds, before the first was looked at
    folder: Stamp


class _Looks(threading.local):
    """What one thread has looked at in its block, if it is in one."""

    depth = 0

    def __init__(self) -> None:
        self.folders: dict[str, _Look] = {}
        self.known: dict[tuple[str, str], tuple[_Look, Facts]] = {}


class Catalogue:
    """Facts about the records that a home reaches; `keep` says whether they may be written down."""

    def __init__(self, home: Home, *, keep: bool = True) -> None:
        self._home, self._keep = home, keep
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._looks = _Looks()

    @contextlib.contextmanager
    def one_look(self) -> Iterator[None]:
        """Look at each folder once in this block, and again only when a file has come to it or gone."""
        self._looks.depth += 1
        try:
            yield
        finally:
            self._looks.depth -= 1
            if not self._looks.depth:
                self._looks.folders, self._looks.known = {}, {}

    def known(
        self,
        shelf: Shelf,
        folder: Directory,
        fact: Fact,
        make: Make,
        *,
        wanted: Callable[[str], bool],
        only: Collection[str] | None = None,
    ) -> Facts:
        """A fact about the wanted records of a shelf, or `only` some of them; those that changed are read."""
        look = self._look(folder, wanted)
        at = _mark(shelf), fact.name
        earlier = self._looks.known.get(at)
        if only is None and earlier is not None and earlier[0] is look:
            return earlier[1]
        stamps = look.stamps
        if only is not None:
            stamps = {name: stamps[name] for name in only if name in stamps}
        if fact.logged or not shelf.signed:  # who said what is in the log alone
            logs = self._logs(shelf, only)
            stamps = {name: (*stamp, *logs.get(name, ())) for name, stamp in stamps.items()}
        kept = self._kept_of(shelf, fact, len(look.stamps))
        found = _taken(folder, make, kept, stamps, look)
        if only is None and self._looks.depth:
            self._looks.known[at] = look, found
        return found

    def names(self, folder: Directory, wanted: Callable[[str], bool]) -> Collection[str]:
        """The wanted names of a folder, in no order; in a block of one look from that."""
        if not self._looks.depth:
            return [name for name in folder.names(ordered=False) if wanted(name)]
        return self._look(folder, wanted).stamps

    def digest(self, folder: Directory, wanted: Callable[[str], bool]) -> Digest:
        """What stands for all wanted files of a folder as they are."""
        look = self._look(folder, wanted)
        return Digest(_digest(look.stamps), look.stamps, look.at)

    def digest_logs(self, shelf: Shelf, names: Collection[str]) -> Digest:
        """What stands for the logs of some records as they are."""
        at, stamps = time.time_ns(), self._logs(shelf, names)
        return Digest(_digest(stamps), stamps, at)

    def recall(self, name: str, version: str) -> Any:
        """Something that was made of many facts and kept under a name; None when there is nothing."""
        kept = _Kept(self._home if self._keep else None, f"{PREFIX}{name}", version)
        return kept.load().get("", ((), None))[1]

    def remember(self, name: str, version: str, value: Any) -> None:
        """Keep something under a name, in place of what was kept under it."""
        kept = _Kept(self._home if self._keep else None, f"{PREFIX}{name}", version)
        kept.add({"": ((), value)}, ("",))

    def _look(self, folder: Directory, wanted: Callable[[str], bool]) -> _Look:
        stamp = folder.mark()
        earlier = self._looks.folders.get(folder.path)
        # A file that came in the moment of the last look may not have changed the folder's stamp again.
        if earlier is not None and earlier.folder == stamp and max(stamp[:2]) < earlier.at - RACY:
            return earlier
        at = time.time_ns()
        stamps = _stamps(folder, wanted)
        for name in () if wanted is _is_log else copies.hidden_in(folder, stamps):
            del stamps[name]  # it stands for a file that is here
        look = _Look(stamps, at, stamp)
        if self._looks.depth:
            self._looks.folders[folder.path] = look
        return look

    def _logs(self, shelf: Shelf, only: Collection[str] | None) -> dict[str, Stamp]:
        """The stamps of the logs of acknowledged entries, by the name of the file they are about."""
        try:
            with self._home.folder("archive", "kept", *archive.area(shelf), archive.RECORDS) as folder:
                if only is None:
                    return {name[:-6]: stamp for name, stamp in self._look(folder, _is_log).stamps.items()}
                states = ((name, folder.stat(f"{name}.jsonl")) for name in only)
                return {name: _stamp(state) for name, state in states if state is not None}
        except (FileNotFoundError, NotADirectoryError, OutsideMemory):
            return {}

    def _kept_of(self, shelf: Shelf, fact: Fact, count: int) -> _Kept:
        at = _mark(shelf), fact.name
        kept = self._kept.get(at)
        home = self._home if self._keep and count >= FEW else None
        if kept is None or (kept.home is None and home is not None):
            rows = {} if kept is None else kept.rows
            kept = self._kept[at] = _Kept(home, f"{PREFIX}{at[0]}-{fact.name}", f"{fact.name} {fact.version}")
            kept.rows = kept.load()
            kept.rows.update(rows)
        return kept


class _Kept:
    """The rows of one fact about one shelf, and the file they are in: frames, of which later ones count."""

    def __init__(self, home: Home | None, name: str, fact: str) -> None:
        self.home, self.name = home, name
        self._head = f"{_MADE_BY}, {fact}\n".encode()
        self.rows: Rows = {}
        self._file = 0  # the inode of what was loaded, when all of it could be read
        self._base = self._size = 0  # bytes: of the first frame, and of all

    def load(self) -> Rows:
        """What is kept; nothing where that is damaged, of another version or not there."""
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
        """Keep new rows; all of them are written anew when much has changed, and nothing waits for it."""
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
        """Clear away what killed writers left."""
        for name in folder.names():
            if name.startswith(PREFIX) and name.endswith(".new"):
                state = folder.stat(name)
                if state is not None and state.st_mtime < time.time() - _ABANDONED:
                    folder.unlink(name)


def _taken(folder: Directory, make: Make, kept: _Kept, stamps: dict[str, Stamp], look: _Look) -> Facts:
    """What is kept of the files whose stamps still hold, and what is made of the others."""
    facts: dict[str, Any] = {}
    failed: dict[str, Exception] = {}
    changed = []
    rows, missing = kept.rows, ((), None)
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
        kept.add(new, look.stamps)
    return Facts(facts, failed, look.stamps)


def _framed(rows: Rows) -> bytes:
    """Rows by the width of their stamps: one text of names, one block of numbers, and the facts.

    A string, a tuple and four numbers of its own for each of many thousands would take twice as long to load.
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
    """The rows of a frame."""
    rows: Rows = {}
    for width, names, block, values in marshal.loads(frame):
        stamps = struct.iter_unpack(f"<{width}q", block) if width and isinstance(block, bytes) else block
        rows.update(zip(names.split(_BETWEEN), zip(stamps or repeat(()), values, strict=False), strict=True))
    return rows


def _packed(stamps: list[Stamp], width: int) -> bytes | list[Stamp]:
    """Stamps as one block; as they are where a system has numbers wider than 64 bits with their sign."""
    try:
        return struct.pack(f"<{width * len(stamps)}q", *chain.from_iterable(stamps))
    except struct.error:
        return stamps


def _write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def _stamps(folder: Directory, wanted: Callable[[str], bool]) -> dict[str, Stamp]:
    """The wanted names of a folder, each with its stamp."""
    # As `_stamp` makes it; calling that for many thousands would take a tenth of the time.
    regular = stat.S_ISREG
    with no_collection():
        return {
            name: (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
            if regular(state.st_mode)
            else _NO_FILE
            for name, state in folder.scan(wanted)
        }


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Make many small things without looking for garbage among them, of which there is none."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _stamp(state: os.stat_result) -> Stamp:
    """What changes with a file; of what is none, a time to come, so that no fact about it is kept."""
    if not stat.S_ISREG(state.st_mode):
        return _NO_FILE
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def _digest(stamps: dict[str, Stamp]) -> bytes:
    # The second format of marshal has no references in it: equal values are equal bytes.
    return hashlib.blake2b(marshal.dumps(stamps, 2), digest_size=16).digest()


def _is_settled(stamp: Stamp, at: int) -> bool:
    """Whether any later change must change the stamp, of a file and of its log."""
    return max(stamp[1], stamp[2], *stamp[5:7]) < at - RACY


def _is_log(name: str) -> bool:
    return name.endswith(".jsonl")


def _mark(shelf: Shelf) -> str:
    """What tells the facts of one shelf from another's: where it is, and how far it is trusted."""
    how = (str(shelf.shared), str(shelf.trusted), *(["signed"] if shelf.team and shelf.signed else []))
    said = "\0".join((os.fspath(shelf.top), *shelf.parts, *how))
    return hashlib.sha256(os.fsencode(said)).hexdigest()[:16]
