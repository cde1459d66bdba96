"""Functions for every write to disk: whole or not at all, durable on return, and never over a person's edit.

This module knows bytes and names, and nothing of records. A caller passes each write as a pure function of
the file's content, so that the change can be repeated on top of an edit that a person saved meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, BinaryIO

from vademecum.errors import InvalidText, Malformed, StorageFailed, VadeError
from vademecum.named_tuple import NamedTuple
from vademecum.store import folders, view
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


_PATIENCE_OPEN = 2.0  # seconds to wait for an editor to finish the save it has begun
_PATIENCE_GONE = 0.1  # seconds between an editor's delete and its create


class Written(NamedTuple):
    """The content of a file before and after an update; the two are equal when nothing was written."""

    before: bytes | None
    after: bytes

    @property
    def changed(self) -> bool:
        """Whether the content changed."""
        return self.before != self.after


@contextlib.contextmanager
def reported(doing: str) -> Iterator[None]:
    """Turn an error of the operating system into an error that says what could not be done."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        wrong = isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError))
        hint = "check the path" if wrong else None
        named = error.filename
        where = f": {named}" if isinstance(named, str) and named.startswith("/") else ""
        raise StorageFailed(f"cannot {doing}: {reason}{where}", hint=hint) from error


_troubles: ContextVar[list[OSError] | None] = ContextVar("troubles", default=None)


@contextlib.contextmanager
def noticing_trouble() -> Iterator[list[OSError]]:
    """Collect the disk errors that are ignored in the block, for callers that need complete data."""
    found: list[OSError] = []
    token = _troubles.set(found)
    try:
        yield found
    finally:
        _troubles.reset(token)


def note_trouble(error: Exception) -> None:
    """Add an ignored disk error to the list of `noticing_trouble`, but not a missing permission."""
    troubles = _troubles.get()
    if troubles is not None and isinstance(error, OSError) and not isinstance(error, PermissionError):
        troubles.append(error)


def digest(content: bytes) -> str:
    """Return the hash that identifies a version of a file."""
    return hashlib.sha256(content).hexdigest()


def read(folder: Folder, name: str, *, largest: int = LARGEST) -> bytes | None:
    """Return a file's content, or None when there is none; raise Malformed above `largest` bytes."""
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
    """Return a file's content and permissions; for a missing file, None and the default permissions."""
    try:
        fd = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return None, 0o600
    try:
        return _read_all(fd), stat.S_IMODE(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def update(
    folder: Folder,
    name: str,
    change: Callable[[bytes | None], bytes],
    *,
    mode: int = 0o600,
    largest: int = LARGEST,
) -> Written:
    """Replace a file's content by `change(content)`; repeat the change on top of a concurrent save.

    The old and the new file are exchanged in one step, and the old one is then compared with the content that
    was read. If a person saved in between, the change is repeated on their text. The caller holds the lock.
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
    lines = set(after.splitlines())
    for staged, settled, content in unseen:  # synced by now
        # A save that came while an earlier one was displaced may have been made without seeing that one.
        merged = content == base or lines.issuperset(content.splitlines())
        _clear_away(folder, staged, lost=not (settled and merged))
    return Written(before, after)


def create(folder: Folder, name: str, content: bytes, *, mode: int = 0o600) -> None:
    """Write a new file; raise FileExistsError when it exists."""
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
    """Pass a file's content to `keep`, then remove the file; return the content, or None when there is none.

    If a person saves in between, `keep` is called for that content too.
    """
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
    """A group of files that are written to temporary names, synced together, then renamed into place.

    As with `update`, a file in its place is always complete and on disk, and a person's save is never
    overwritten. The caller holds the locks of the files and syncs their folder before closing the group;
    closing deletes replaced contents and unused temporary files.
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
        """Close a temporary file, remove it from the group, and return its folder; the file itself stays."""
        folder, fd = self._waiting.pop(temp)
        with contextlib.suppress(OSError):  # what it wrote is on disk by now, or worth nothing
            os.close(fd)
        return folder

    def write(self, folder: Folder, name: str, content: bytes, *, mode: int = 0o600) -> str:
        """Write a file's new content to a temporary file in the folder, and return the temporary name."""
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
        """Sync all files of the group to disk."""
        sync_all([fd for _, fd in self._waiting.values()])

    def create(self, folder: Folder, temp: str, name: str) -> None:
        """Rename a file into place; raise FileExistsError when the name exists."""
        folder.place(temp, name)
        self._let_go(temp)

    def exchange(self, folder: Folder, temp: str, name: str, *, before: bytes | None, after: bytes) -> bool:
        """Replace a file by a draft if its content is `before`; otherwise leave the file and return False.

        `before` is None for a file that does not exist yet; `after` is the content of the draft.
        """
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
        """Remove a file if its content is `before`; for another content, leave it and return False."""
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
    """Rename a file set aside for removal back to its name, or to a conflict name next to a newer save."""
    try:
        folder.place(aside, name)
    except FileExistsError:
        _rescue(folder, aside)
    except OSError:
        _abandoned.add(aside)


def delete(folder: Folder, name: str) -> None:
    """Delete a file permanently."""
    folder.unlink(name)
    folder.sync()


def append_line(folder: Folder, name: str, line: bytes, *, mode: int = 0o600) -> int:
    """Append one line to a log durably, and return the new end of the log."""
    with contextlib.closing(LogPen(folder, name, mode)) as pen:
        return pen.write(line, sync=True)


class LogPen:
    """An open log for appending; if another file takes its name, `end` closes it, and `write` reopens it."""

    def __init__(self, folder: Folder, name: str, mode: int = 0o600) -> None:
        self._folder, self._name, self._mode = folder, name, mode
        self._fd: int | None = None

    def end(self) -> int:
        """Return the end of the log in bytes; 0 when there is no log."""
        state = self._folder.stat(self._name)
        if self._fd is not None and not (state and os.path.samestat(state, os.fstat(self._fd))):
            self.close()
        return 0 if state is None else state.st_size

    def write(self, line: bytes, *, sync: bool) -> int:
        """Append a line and return the log's new end; with `sync`, the line is on disk when this returns.

        An incomplete last line is ended first. If the line can be written only in part, the part is removed.
        The caller holds the log's lock.
        """
        if self._fd is None:
            self._fd = self._folder.open(self._name, os.O_RDWR | os.O_APPEND | os.O_CREAT, self._mode)
        return _append_to(self._folder, self._fd, line, sync=sync)

    def close(self) -> None:
        """Close the log."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)


def sync_pens(pens: Sequence[LogPen]) -> None:
    """Sync the appended lines of many logs to disk."""
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
    """Overwrite a small file of fixed size in place; a power cut leaves the old or the new content."""
    fd = folder.open(name, os.O_WRONLY | os.O_CREAT)
    try:
        write_all(fd, block)
    finally:
        os.close(fd)


def sweep(folder: Folder) -> list[str]:
    """Remove leftovers of killed writers; return the names of conflict files that rescue a person's save."""
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
    """Remove the leftovers of killed writers in every folder of a home."""
    for path, _, found in os.walk(top):
        if any(name.startswith(PREFIX) for name in found):
            with contextlib.suppress(OSError, VadeError), Folder.at(path) as folder:
                sweep(folder)


def leftovers(folder: Folder) -> list[str]:
    """Return the names of leftovers of killed writers, without removing them."""
    ours = sorted(name for name in folder.names(ordered=False) if name.startswith(PREFIX))
    return [name for name in ours if name.endswith((TEMP, SWAP)) and _orphaned(folder, name)]


class DiskFolder(Folder):
    """A folder with the file operations of this module."""

    __slots__ = ()

    def read(self, name: str, *, largest: int = LARGEST) -> bytes | None:
        """Return the content of a file, or None when there is none."""
        return read(self, name, largest=largest)

    def scan(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the status of each wanted name, in no order."""
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
        """Return values that change when a name is added or removed."""
        own = os.stat(self.path if self.fd is None else self.fd)
        return own.st_mtime_ns, own.st_ctime_ns, own.st_ino

    def reader(self, name: str) -> BinaryIO:
        """Open a long file for reading in parts."""
        return open(self.open(name, os.O_RDONLY), "rb", buffering=1 << 17)

    def update(
        self,
        name: str,
        change: Callable[[bytes | None], bytes],
        *,
        mode: int = 0o600,
        largest: int = LARGEST,
    ) -> Written:
        """Replace a file's content by `change(content)`; repeat the change on top of a concurrent save."""
        return update(self, name, change, mode=mode, largest=largest)

    def create(self, name: str, content: bytes, *, mode: int = 0o600) -> None:
        """Write a new file; raise FileExistsError when the name exists."""
        create(self, name, content, mode=mode)

    def overwrite(self, name: str, block: bytes) -> None:
        """Overwrite a file of small, fixed size in place."""
        overwrite_block(self, name, block)

    def remove(self, name: str, keep: Callable[[bytes], None]) -> bytes | None:
        """Remove a file after `keep` has saved its content."""
        return remove(self, name, keep)

    def delete(self, name: str) -> None:
        """Delete a file permanently."""
        delete(self, name)

    def pen(self, name: str) -> LogPen:
        """Return an open log for appending lines."""
        return LogPen(self, name)

    def append_line(self, name: str, line: bytes) -> int:
        """Append one line to a log durably, and return the log's new end."""
        return append_line(self, name, line)

    def sweep(self) -> list[str]:
        """Remove leftovers of killed writers; return the names of rescued saves."""
        return sweep(self)

    def leftovers(self) -> list[str]:
        """Return the names of leftovers of killed writers, without removing them."""
        return leftovers(self)

    def lock(self, thing: str, *, seconds: float) -> AbstractContextManager[None]:
        """Hold the lock on a thing by a file in this folder; raise `Locked` after waiting for `seconds`."""
        return folders.hold_lock(self, thing, seconds=seconds)


class SharedFolder(DiskFolder):
    """A folder of a repository; files with several hard links are refused."""

    __slots__ = ()
    alone = True


class LeftOut(NamedTuple):
    """The files of an untrusted folder that are not read: their number, and the names of those too large."""

    number: int = 0
    too_long: tuple[str, ...] = ()


class StrangersFolder(SharedFolder):
    """A folder of an untrusted repository; only its first files by name, and none that is large, are read.

    The limits protect a command's time and memory from files that strangers made.
    """

    __slots__ = ("_chosen", "left_out")

    def __init__(self, path: str, fd: int | None) -> None:
        super().__init__(path, fd)
        self._chosen: dict[str, os.stat_result] | None = None
        self.left_out = LeftOut()  # known once its names were asked for

    def read(self, name: str, *, largest: int = LARGEST) -> bytes | None:
        """Return a file's content, or None when there is none; raise Malformed for one above the limits."""
        return super().read(name, largest=min(largest, STRANGE_LARGEST))

    def names(self, *, ordered: bool = True) -> list[str]:
        """Return the names of the Markdown files within the limits, and of all other files."""
        listed = super().names(ordered=ordered)
        chosen = self._choose(listed)
        return [name for name in listed if name in chosen or not _is_note(name)]

    def scan(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the name and status of each wanted Markdown file within the limits."""
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
    """Return a finding about the files of an untrusted folder that are not read."""
    count = "1 file is" if left.number == 1 else f"{left.number:,} files are"
    long = f", among them {left.too_long[0]}" if left.too_long else ""
    many = f" and {len(left.too_long) - 1:,} more" if len(left.too_long) > 1 else ""
    why = (
        f"{count} left out{long}{many}: until this folder is trusted, {STRANGE_FILES:,} files are read, "
        f"none above {STRANGE_LARGEST // 1024} KiB, {STRANGE_BYTES // 1024 // 1024} MiB in all"
    )
    return Finding(LEFT_OUT, where, why, "read it, then run `vade review trust`")


def _is_note(name: str) -> bool:
    return name.endswith(".md") and name[0] != "."


class Disk(NamedTuple):
    """A folder on this machine's disk as the storage of a memory."""

    path: Path
    shared: bool = False
    trusted: bool = True

    @property
    def kind(self) -> type[DiskFolder]:
        """Return the class for folders on this disk."""
        return StrangersFolder if not self.trusted else SharedFolder if self.shared else DiskFolder

    def open(self, *names: str, create: bool = False, mode: int = 0o700) -> DiskFolder:
        """Open a folder below the disk's top without following links; `create` makes missing folders."""
        here = view.current_view()
        if here is not None:
            if not create:
                return here.open(self.kind, self.path, names)
            here.forget_missing()
        with self.kind.at(self.path, create=create and not self.shared) as top:
            return top.enter(*names, create=create, mode=mode)

    def watch(self) -> Watch:
        """Return a watch for changes of files."""
        return Watch()


class _Found(NamedTuple):
    """A replaced file's content, and whether it is settled: no process can still write to it."""

    content: bytes | None
    settled: bool = True


def _stage(folder: Folder, name: str, old: bytes | None, new: bytes, mode: int) -> str:
    """Write and sync the new content to a temporary file next to the file, and return the temporary name."""
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
    """Raise an error for a content that is too large to be read again later."""
    if len(content) > largest:
        raise InvalidText(
            f"{folder.path}/{name} would be {len(content):,} bytes long; at most {largest:,} are read",
            hint="start a new record: save the text under another `--key`",
        )


def _put(folder: Folder, name: str, staged: str, current: bytes | None, after: bytes) -> _Found | None:
    """Rename the staged file into place; return the replaced content, or None if `staged` was discarded.

    The staged file is discarded if the target was created or deleted meanwhile or, on a system that cannot
    exchange two files, was changed. After an exchange, the caller compares the result with `current`.
    """
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
    """Undo an exchange of two files, so that a person's save is in its place again.

    The file that was in its place is deleted if it has the program's content `ours`; if a person saved it
    meanwhile, it becomes a conflict file.
    """
    try:
        if folder.exchange(staged, name):
            content, settled = _settle(folder, staged)
            _clear_away(folder, staged, lost=not settled or content != ours)
            folder.sync()
    except OSError:
        _abandoned.add(staged)


def _clear_away(folder: Folder, staged: str, *, lost: bool) -> None:
    """Remove a replaced file; if a person's text would be `lost`, rename it to a conflict file instead."""
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
    """Wait up to 2 s for writers of a replaced file; return its content, and whether no writer is left."""
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
    """Wait briefly for an editor that saves by deleting a file and creating it again."""
    deadline = time.monotonic() + _PATIENCE_GONE
    while folder.stat(name) is None and time.monotonic() < deadline:
        time.sleep(0.002)


def _orphaned(folder: Folder, name: str) -> bool:
    """Return whether the process that made a temporary file has ended."""
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
    """Return whether a process with this number exists; on Windows always return False."""
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
    """Rename a person's displaced save to a visible conflict name next to its file."""
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
    """Return a temporary file name made of the process number, both content hashes and the target's name."""
    before = "0" * 16 if old is None else digest(old)[:16]
    short = target.encode()[-120:].decode(errors="ignore")
    return f"{PREFIX}{os.getpid()}-{_RUN}{os.urandom(4).hex()}-{before}-{digest(new)[:16]}-{short}{ending}"


def _mode(folder: Folder, name: str, default: int) -> int:
    """Return the permissions of the existing file, else the default ones."""
    state = folder.stat(name)
    return default if state is None else stat.S_IMODE(state.st_mode)


def _discard(folder: Folder, name: str) -> None:
    try:
        folder.unlink(name)
    except OSError:
        _abandoned.add(name)


def write_all(fd: int, content: bytes) -> None:
    """Write all bytes to an open file, also when the system takes only a part at once."""
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
