"""Every write there is: whole or not at all, on disk before it returns, never over a person's edit.

Knows bytes and names; knows nothing of records. A caller describes a write as a pure function of what the
file holds, so that the same change can be made again on top of whatever a person saved meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from vademecum.errors import InvalidText, Malformed, StorageFailed, VadeError
from vademecum.store import folders
from vademecum.store.folders import Folder, Watch, do_all, sync_all, try_lock, unwritten
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Self

PREFIX = ".vade-"
TEMP = ".tmp"  # being written: worth nothing until it is renamed
SWAP = ".swap"  # whole; after the exchange it holds what was there before, perhaps a person's unseen save

LEFT_OUT = "left out"
cut_short: set[str] = set()  # folders of strangers of which this process has seen a part
LARGEST = 32 * 1024 * 1024
# What is looked at in a folder that came with a repository, until somebody has trusted it: within a second
# of the processor's time. A home of one's own has no such limits.
STRANGE_FILES = 500
STRANGE_LARGEST = 256 * 1024  # bytes of one file
STRANGE_BYTES = 2 * 1024 * 1024  # of all

# In the name of every temporary file, since a process id comes back: in a container it is always 1.
_RUN = os.urandom(4).hex()
# Temporary files that this process could not clear when it was done with them: for the next sweep.
_abandoned: set[str] = set()

_CONFLICT = re.compile(r".+\.conflict-\d{8}T\d{6}-[0-9a-f]{16}(?:\.[^.]+)?", re.DOTALL)

_PATIENCE_OPEN = 2.0  # seconds to wait for an editor to finish the save it has begun
_PATIENCE_GONE = 0.1  # seconds between an editor's delete and its create


class Written(NamedTuple):
    """What a file held before and after an update; equal when nothing had to be written."""

    before: bytes | None
    after: bytes

    @property
    def changed(self) -> bool:
        """Whether anything was written at all."""
        return self.before != self.after


@contextlib.contextmanager
def reported(doing: str) -> Iterator[None]:
    """Turn the system's errors into one line that says what could not be done."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        wrong = isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError))
        hint = "check the path" if wrong else None
        raise StorageFailed(f"cannot {doing}: {reason}", hint=hint) from error


_troubles: ContextVar[list[OSError] | None] = ContextVar("troubles", default=None)


@contextlib.contextmanager
def noticing_trouble() -> Iterator[list[OSError]]:
    """Errors of a failing disk that are passed over from now on, for who must not go on with less."""
    found: list[OSError] = []
    token = _troubles.set(found)
    try:
        yield found
    finally:
        _troubles.reset(token)


def note_trouble(error: Exception) -> None:
    """Tell of an error that is passed over; a file that nobody may read is no failing disk."""
    troubles = _troubles.get()
    if troubles is not None and isinstance(error, OSError) and not isinstance(error, PermissionError):
        troubles.append(error)


def digest(content: bytes) -> str:
    """The hash by which two versions of a file are told apart."""
    return hashlib.sha256(content).hexdigest()


def read(folder: Folder, name: str, *, largest: int = LARGEST) -> bytes | None:
    """All of a file, or None when there is none."""
    try:
        fd = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(fd).st_size
        if size > largest:
            raise Malformed(f"{folder.path}/{name} is {size:,} bytes long; at most {largest:,} are read")
        return _read_all(fd)
    finally:
        os.close(fd)


def look(folder: Folder, name: str) -> tuple[bytes | None, int]:
    """All of a file and the permissions that a person gave it, or nothing and our own."""
    try:
        fd = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return None, 0o600
    try:
        return _read_all(fd), stat.S_IMODE(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def is_conflict(name: str) -> bool:
    """Whether a file is a person's displaced save: theirs to look at and to clear away."""
    return bool(_CONFLICT.fullmatch(name))


def update(
    folder: Folder,
    name: str,
    change: Callable[[bytes | None], bytes],
    *,
    mode: int = 0o600,
    largest: int = LARGEST,
) -> Written:
    """Put `change(content)` in place of a file's content, on top of whatever is really there.

    The new file takes the old one's place in one exchange, and what came out is looked at: if a person saved
    in between, the change is made again on top of their text. The caller holds the lock of this file.
    """
    sweep(folder)
    before = current = base = read(folder, name, largest=largest)
    mode = _mode(folder, name, mode)
    unseen: list[tuple[str, bool, bytes]] = []
    ours = b""
    while True:
        try:
            after = change(base)
            _check_size(folder, name, after, largest)
        except BaseException:
            for staged, *_ in unseen[:-1]:
                with contextlib.suppress(OSError):
                    _rescue(folder, staged)
            if unseen:
                _put_back(folder, name, unseen[-1][0], ours)
            raise
        if after == current:
            folder.sync()  # whoever wrote it may have been killed, or told of an error, before it was on disk
            break
        staged = _stage(folder, name, current, after, mode)
        found = _put(folder, name, staged, current, after)
        if found is None:  # the file came, went or changed before our turn: look again
            current = base = read(folder, name, largest=largest)
            continue
        if found.content == current:
            try:
                folder.sync()  # first the new name, then away with the old file
            finally:
                _clear_away(folder, staged, lost=not found.settled)
            break
        unseen.append((staged, found.settled, found.content or b""))
        base, current = found.content, after
        ours = after
    kept = set(after.splitlines())
    for staged, settled, content in unseen:  # synced by now
        # A save that came while an earlier one was displaced may have been made without seeing that one.
        merged = content == base or kept.issuperset(content.splitlines())
        _clear_away(folder, staged, lost=not (settled and merged))
    return Written(before, after)


def create(folder: Folder, name: str, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file that must not exist yet; FileExistsError when it does."""
    _check_size(folder, name, content, LARGEST)
    sweep(folder)
    staged = _stage(folder, name, None, content, mode)
    try:
        folder.place(staged, name)
    except FileExistsError:
        _discard(folder, staged)
        folder.sync()
        raise
    except BaseException:
        _discard(folder, staged)
        raise
    folder.sync()


def remove(folder: Folder, name: str, keep: Callable[[bytes], None]) -> bytes | None:
    """Take a file away after `keep` has put its content elsewhere, a person's last save included."""
    content = read(folder, name)
    if content is None:
        return None
    keep(content)
    aside = _name(name, content, content, SWAP)
    try:
        folder.rename(name, aside)
    except FileNotFoundError:
        return content
    try:
        last, settled = _settle(folder, aside)
        if last != content:
            keep(last)
    except BaseException:
        try:
            folder.place(aside, name)
        except OSError:
            _abandoned.add(aside)
        raise
    try:
        folder.sync()
    finally:
        _clear_away(folder, aside, lost=not settled)
    return last


class Drafts:
    """Files that are written together: beside their places first, on disk by one wait, then brought in.

    As with `update`, nothing stands in a place that is not whole and on disk, and a person's save is never
    written over. The caller holds the locks of the files, and syncs their folder before this is closed: that
    takes away what came out of the places, and what was never brought in.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Folder, int]] = {}  # what was written, by the name it has until then
        self._out: list[tuple[Folder, str, bool]] = []  # what came out, and whether somebody still writes it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        do_all(_clear_staged, self._out)  # a disk that is told of free blocks answers each of them
        for temp in list(self._waiting):
            _discard(self._let_go(temp), temp)

    def _let_go(self, temp: str) -> Folder:
        """Be done with writing: what is brought in must look like a file that nobody can write to."""
        folder, fd = self._waiting.pop(temp)
        with contextlib.suppress(OSError):  # what it wrote is on disk by now, or worth nothing
            os.close(fd)
        return folder

    def write(self, folder: Folder, name: str, content: bytes, *, mode: int = 0o600) -> str:
        """Write what is to stand under a name in a folder, and return the name that it has until then."""
        _check_size(folder, name, content, LARGEST)
        temp = _temporary()
        try:
            fd = folder.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except BaseException:
            _discard(folder, temp)
            raise
        self._waiting[temp] = folder, fd
        try_lock(fd)  # so that a sweeper in another container, blind to our pid, sees a living owner
        write_all(fd, content)
        return temp

    def sync(self) -> None:
        """Wait until everything that was written is on disk."""
        sync_all([fd for _, fd in self._waiting.values()])

    def create(self, folder: Folder, temp: str, name: str) -> None:
        """Bring in a file that must not exist yet; FileExistsError when it does."""
        folder.place(temp, name)
        self._let_go(temp)

    def exchange(self, folder: Folder, temp: str, name: str, *, before: bytes | None, after: bytes) -> bool:
        """Bring in a content where another stands; False when it is not that one, which then stays."""
        staged = _name(name, before, after, SWAP)
        folder.rename(temp, staged)
        self._let_go(temp)
        found = _put(folder, name, staged, before, after)
        if found is not None and found.content != before:
            _put_back(folder, name, staged, after)
            return False
        if found is not None and before is not None:
            self._out.append((folder, staged, not found.settled))
        return found is not None

    def take(self, folder: Folder, name: str, *, before: bytes) -> bool:
        """Take a file away; False when it holds something else, and then it stays."""
        aside = _name(name, before, before, SWAP)
        try:
            folder.rename(name, aside)
        except FileNotFoundError:
            return True
        last, settled = b"", False
        try:
            last, settled = _settle(folder, aside)
        finally:
            if last != before:
                _give_back(folder, aside, name)
        if last == before:
            self._out.append((folder, aside, not settled))
        return last == before


def _give_back(folder: Folder, aside: str, name: str) -> None:
    """Give a file its name again that was to be taken away, or a visible one beside a newer save."""
    try:
        folder.place(aside, name)
    except FileExistsError:
        _rescue(folder, aside)
    except OSError:
        _abandoned.add(aside)


def delete(folder: Folder, name: str) -> None:
    """Take a file away for good."""
    folder.unlink(name)
    folder.sync()


def append_line(folder: Folder, name: str, line: bytes, *, mode: int = 0o600) -> int:
    """Add one line to a log, on disk before it returns, and return where the log ends now."""
    with contextlib.closing(LogPen(folder, name, mode)) as pen:
        return pen.write(line, sync=True)


class LogPen:
    """Adds lines to a log, and keeps it open from line to line as long as it is the one that has the name."""

    def __init__(self, folder: Folder, name: str, mode: int = 0o600) -> None:
        self._folder, self._name, self._mode = folder, name, mode
        self._fd: int | None = None

    def end(self) -> int:
        """Where the log ends; 0 when there is none."""
        state = self._folder.stat(self._name)
        if self._fd is not None and not (state and os.path.samestat(state, os.fstat(self._fd))):
            self.close()
        return 0 if state is None else state.st_size

    def write(self, line: bytes, *, sync: bool) -> int:
        """Add a line and return where the log ends now; a stump left by a crash is closed off first.

        The caller holds the lock of this log, so a line that could not be written whole can be taken back.
        """
        if self._fd is None:
            self._fd = self._folder.open(self._name, os.O_RDWR | os.O_APPEND | os.O_CREAT, self._mode)
        return _append_to(self._folder, self._fd, line, sync=sync)

    def close(self) -> None:
        """Be done."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)


def sync_pens(pens: Sequence[LogPen]) -> None:
    """Wait until what was added to many logs is on disk."""
    sync_all([pen._fd for pen in pens if pen._fd is not None])


def _append_to(folder: Folder, fd: int, line: bytes, *, sync: bool) -> int:
    size = os.fstat(fd).st_size
    if size == 0:
        folder.sync()  # before the first line, so that a log with lines in it has its name on disk
    stump = size > 0 and _byte_at(fd, size - 1) != b"\n"
    try:
        whole = (b"\n" if stump else b"") + line + b"\n"
        write_all(fd, whole)
        if sync:
            os.fsync(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise
    return size + len(whole)


def overwrite_block(folder: Folder, name: str, block: bytes) -> None:
    """Overwrite a file of one small, fixed size in place: one sector, old or new after a power cut."""
    fd = folder.open(name, os.O_WRONLY | os.O_CREAT)
    try:
        write_all(fd, block)
    finally:
        os.close(fd)


def sweep(folder: Folder) -> list[str]:
    """Clear what killed writers left behind; a person's save among it becomes a conflict file, returned."""
    rescued = []
    for name in leftovers(folder):
        if name.endswith(SWAP):
            parts = name.split("-", 5)
            if len(parts) != 6:
                continue  # not one of our names
            content = read(folder, name, largest=sys.maxsize)
            if content is not None and digest(content)[:16] not in parts[3:5]:
                rescued.append(_rescue(folder, name))
                continue
        folder.unlink(name)
    return rescued


def sweep_below(top: Path) -> None:
    """Clear what killed writers left in any folder of a home, those that nobody writes to again as well."""
    for path, _, found in os.walk(top):
        if any(name.startswith(PREFIX) for name in found):
            with contextlib.suppress(OSError, VadeError), Folder.at(path) as folder:
                sweep(folder)


def leftovers(folder: Folder) -> list[str]:
    """Names that killed writers left behind, without touching them."""
    ours = sorted(name for name in folder.names(ordered=False) if name.startswith(PREFIX))
    return [name for name in ours if name.endswith((TEMP, SWAP)) and _orphaned(folder, name)]


class DiskFolder(Folder):
    """A folder as the store sees it: whatever is said of one file is done as above."""

    __slots__ = ()

    def read(self, name: str, *, largest: int = LARGEST) -> bytes | None:
        """All of a file, or None when there is none."""
        return read(self, name, largest=largest)

    def scan(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
        """What the system knows of each name that is wanted, in no order."""
        with os.scandir(self.path if self.fd is None else self.fd) as found:
            for each in found:
                name = each.name
                if wanted(name):
                    try:  # a suppressing block for each of many thousands would cost a tenth more
                        state = each.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone in this moment
                    yield name, state

    def mark(self) -> tuple[int, ...]:
        """What changes when a name comes or goes."""
        own = os.stat(self.path if self.fd is None else self.fd)
        return own.st_mtime_ns, own.st_ctime_ns, own.st_ino

    def reader(self, name: str) -> BinaryIO:
        """A long file, a piece at a time."""
        return open(self.open(name, os.O_RDONLY), "rb", buffering=1 << 17)

    def update(
        self,
        name: str,
        change: Callable[[bytes | None], bytes],
        *,
        mode: int = 0o600,
        largest: int = LARGEST,
    ) -> Written:
        """Put `change(content)` in place of a file's content, on top of whatever is really there."""
        return update(self, name, change, mode=mode, largest=largest)

    def create(self, name: str, content: bytes, *, mode: int = 0o600) -> None:
        """Write a file that must not exist yet."""
        create(self, name, content, mode=mode)

    def overwrite(self, name: str, block: bytes) -> None:
        """Overwrite a file of one small, fixed size in place."""
        overwrite_block(self, name, block)

    def remove(self, name: str, keep: Callable[[bytes], None]) -> bytes | None:
        """Take a file away after `keep` has put its content elsewhere."""
        return remove(self, name, keep)

    def delete(self, name: str) -> None:
        """Take a file away for good."""
        delete(self, name)

    def pen(self, name: str) -> LogPen:
        """What adds lines to a log."""
        return LogPen(self, name)

    def append_line(self, name: str, line: bytes) -> int:
        """Add one line to a log and return where it ends now."""
        return append_line(self, name, line)

    def sweep(self) -> list[str]:
        """Clear what killed writers left behind."""
        return sweep(self)

    def leftovers(self) -> list[str]:
        """Names that killed writers left behind, without touching them."""
        return leftovers(self)

    def lock(self, thing: str, *, seconds: float) -> AbstractContextManager[None]:
        """Hold the lock on a thing, whose file lies here while it is held."""
        return folders.hold_lock(self, thing, seconds=seconds)


class SharedFolder(DiskFolder):
    """A folder of a repository: its files have no other names, under which they could be somebody's."""

    __slots__ = ()
    alone = True


class LeftOut(NamedTuple):
    """What of a stranger's folder is not looked at: how many files, and which were seen to be too long."""

    number: int = 0
    too_long: tuple[str, ...] = ()


class StrangersFolder(SharedFolder):
    """A folder that came with a repository nobody has trusted: a part of it is looked at, whatever it holds.

    The first files by name, none of them long: what strangers made must not take a command's time and memory.
    """

    __slots__ = ("_chosen", "left_out")

    def __init__(self, path: str, fd: int | None) -> None:
        super().__init__(path, fd)
        self._chosen: dict[str, os.stat_result] | None = None
        self.left_out = LeftOut()  # known once its names were asked for

    def read(self, name: str, *, largest: int = LARGEST) -> bytes | None:
        """All of a file that is not too long."""
        return super().read(name, largest=min(largest, STRANGE_LARGEST))

    def names(self, *, ordered: bool = True) -> list[str]:
        """The names of what is looked at."""
        listed = super().names(ordered=ordered)
        chosen = self._choose(listed)
        return [name for name in listed if name in chosen or not _is_note(name)]

    def scan(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
        """What the system knows of what is looked at."""
        chosen = self._choose(super().names(ordered=False))
        yield from ((name, state) for name, state in chosen.items() if wanted(name))

    def _choose(self, listed: list[str]) -> dict[str, os.stat_result]:
        if self._chosen is not None:
            return self._chosen
        notes = sorted(name for name in listed if _is_note(name))
        chosen: dict[str, os.stat_result] = {}
        too_long = []
        total = 0
        for name in notes:
            state = self.stat(name)
            if state is not None and state.st_size > STRANGE_LARGEST:
                too_long.append(name)
            elif state is not None:
                total += state.st_size
                if len(chosen) == STRANGE_FILES or total > STRANGE_BYTES:
                    break
                chosen[name] = state
        self._chosen, self.left_out = chosen, LeftOut(len(notes) - len(chosen), tuple(too_long))
        if self.left_out.number:
            cut_short.add(self.path)
        return chosen


def told_left_out(where: str, left: LeftOut) -> Finding:
    """What to say of what is not looked at."""
    count = "1 file is" if left.number == 1 else f"{left.number:,} files are"
    long = f", among them {left.too_long[0]}" if left.too_long else ""
    many = f" and {len(left.too_long) - 1:,} more" if len(left.too_long) > 1 else ""
    why = (
        f"{count} left out{long}{many}: until this folder is trusted, {STRANGE_FILES:,} files are read, "
        f"none above {STRANGE_LARGEST // 1024} KiB, {STRANGE_BYTES // 1024 // 1024} MiB in all"
    )
    return Finding(LEFT_OUT, where, why, "read it, then run `vade trust`")


def _is_note(name: str) -> bool:
    return name.endswith(".md") and name[0] != "."


class Disk(NamedTuple):
    """A folder of this machine as the place where a memory is kept; a shared one is made by others."""

    path: Path
    shared: bool = False
    trusted: bool = True

    @property
    def kind(self) -> type[DiskFolder]:
        """How its folders are looked at."""
        return StrangersFolder if not self.trusted else SharedFolder if self.shared else DiskFolder

    def open(self, *names: str, create: bool = False, mode: int = 0o700) -> DiskFolder:
        """A folder below it, entered without following a link."""
        with self.kind.at(self.path, create=create and not self.shared) as top:
            return top.enter(*names, create=create, mode=mode)

    def watch(self) -> Watch:
        """What the system tells of changes."""
        return Watch()


class _Found(NamedTuple):
    """What came out when the new file went in; unsettled when somebody may still write to it."""

    content: bytes | None
    settled: bool = True


def _stage(folder: Folder, name: str, old: bytes | None, new: bytes, mode: int) -> str:
    """Write and sync the new content beside the file, under a name that says what it is."""
    temp = _temporary()
    staged = _name(name, old, new, SWAP)
    try:
        fd = folder.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            try_lock(fd)  # so that a sweeper in another container, blind to our pid, sees a living owner
            write_all(fd, new)
            os.fsync(fd)
            folder.rename(temp, staged)
        finally:
            os.close(fd)
    except BaseException:
        _discard(folder, temp)
        _discard(folder, staged)
        raise
    return staged


def _check_size(folder: Folder, name: str, content: bytes, largest: int) -> None:
    """Refuse to write what could not be read again."""
    if len(content) > largest:
        raise InvalidText(
            f"{folder.path}/{name} would be {len(content):,} bytes long; at most {largest:,} are read",
            hint="start a new record: save the text under another `--key`",
        )


def _put(folder: Folder, name: str, staged: str, current: bytes | None, after: bytes) -> _Found | None:
    """Bring the staged file in; returns what was there, or None when the file is not as it was."""
    try:
        if current is None:
            folder.place(staged, name)
            return _Found(None)
        exchanged = folder.exchange(staged, name)
        if not exchanged:  # no exchange on this system: look, then rename
            if read(folder, name) != current:
                _discard(folder, staged)
                return None
            folder.rename(staged, name)
            return _Found(current)
    except FileExistsError:
        _discard(folder, staged)
        return None
    except FileNotFoundError:
        _discard(folder, staged)
        _await(folder, name)
        return None
    except BaseException:
        _discard(folder, staged)
        raise
    try:
        return _Found(*_settle(folder, staged))
    except BaseException:
        _put_back(folder, name, staged, after)
        raise


def _put_back(folder: Folder, name: str, staged: str, ours: bytes) -> None:
    """Undo an exchange: a person's save, which we cannot build upon, goes back in its place.

    What comes out is ours, or a newer save that was made on top of it meanwhile.
    """
    try:
        if folder.exchange(staged, name):
            content, settled = _settle(folder, staged)
            _clear_away(folder, staged, lost=not settled or content != ours)
            folder.sync()
    except OSError:
        _abandoned.add(staged)


def _clear_away(folder: Folder, staged: str, *, lost: bool) -> None:
    """Be done with a file that left its place: visibly, when somebody's text would be lost with it."""
    if lost:
        _rescue(folder, staged)
    else:
        _discard(folder, staged)


def _clear_staged(out: tuple[Folder, str, bool]) -> None:
    folder, staged, lost = out
    try:
        _clear_away(folder, staged, lost=lost)
    except OSError:
        _abandoned.add(staged)


def _settle(folder: Folder, name: str) -> tuple[bytes, bool]:
    """Read a file that has left its place, once nobody can write to it: a save under way goes in first."""
    begun = time.monotonic()
    fd = folder.open(name, os.O_RDONLY)
    try:
        while True:
            settled = unwritten(fd)
            os.lseek(fd, 0, os.SEEK_SET)
            content = _read_all(fd)
            if settled or time.monotonic() - begun > _PATIENCE_OPEN:
                return content, settled
            time.sleep(0.002)
    finally:
        os.close(fd)


def _await(folder: Folder, name: str) -> None:
    """Give an editor that deletes and creates the moment it needs."""
    deadline = time.monotonic() + _PATIENCE_GONE
    while folder.stat(name) is None and time.monotonic() < deadline:
        time.sleep(0.002)


def _orphaned(folder: Folder, name: str) -> bool:
    """Whether the process that made a temporary file is gone."""
    if name in _abandoned:
        return True
    pid, _, token = name[len(PREFIX) :].partition("-")
    if not pid.isdecimal():
        return False
    if token.startswith(_RUN) if int(pid) == os.getpid() else is_running(int(pid)):
        return False
    try:
        fd = folder.open(name, os.O_RDWR)
    except FileNotFoundError:
        return False
    except PermissionError:  # it has the mode of the file it was to replace: one that a person made read-only
        fd = folder.open(name, os.O_RDONLY)
    try:
        return try_lock(fd)
    finally:
        os.close(fd)


def is_running(pid: int) -> bool:
    """Whether there is a process of this number."""
    if sys.platform == "win32":
        return False  # os.kill would end the process there; an open file cannot be removed anyway
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _rescue(folder: Folder, staged: str) -> str:
    """Give a person's displaced save a name they will see, beside the file it belongs to."""
    *_, token, _old, _new, target = staged[: -len(SWAP)].split("-", 5)
    stem, dot, ending = target.rpartition(".")
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    visible = f"{stem or target}.conflict-{stamp}-{token}{dot}{ending if dot else ''}"
    with contextlib.suppress(FileExistsError):
        folder.place(staged, visible)
        folder.sync()
    return visible


def _temporary() -> str:
    return f"{PREFIX}{os.getpid()}-{_RUN}{os.urandom(4).hex()}{TEMP}"


def _name(target: str, old: bytes | None, new: bytes, ending: str) -> str:
    """A temporary name that carries what a sweeper must know: owner, both hashes, whose place it takes."""
    before = "0" * 16 if old is None else digest(old)[:16]
    short = target.encode()[-120:].decode(errors="ignore")
    return f"{PREFIX}{os.getpid()}-{_RUN}{os.urandom(4).hex()}-{before}-{digest(new)[:16]}-{short}{ending}"


def _mode(folder: Folder, name: str, default: int) -> int:
    """The permissions a person gave the file, else our own."""
    state = folder.stat(name)
    return default if state is None else stat.S_IMODE(state.st_mode)


def _discard(folder: Folder, name: str) -> None:
    try:
        folder.unlink(name)
    except OSError:
        _abandoned.add(name)


def write_all(fd: int, content: bytes) -> None:
    """Write a whole content, however little of it the system takes at once."""
    view = memoryview(content)
    while view:
        count = os.write(fd, view)
        if count == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[count:]


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _byte_at(fd: int, position: int) -> bytes:
    os.lseek(fd, position, os.SEEK_SET)
    return os.read(fd, 1)
