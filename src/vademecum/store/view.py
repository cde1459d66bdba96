"""View of the memory folders during a request: each folder is opened once, and each stamp read once.

Inside `with request_view():`, a thread that opens a folder again gets the first handle, and an unchanged
folder is not listed again. The view ends with the request, so each request sees the edits that people made
before it began. Only readers use a view: `Home.lock` leaves it (`outside_view`), so a writer reads the disk,
and a read after the write sees the new content.

This module knows folders, names and stamps, and nothing of the files' meaning.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.store.backend import Directory
    from vademecum.store.folders import Folder

    _Kind = TypeVar("_Kind", bound=Folder)

Stamp: TypeAlias = tuple[int, ...]  # size, two times in nanoseconds, inode

NO_FILE: Stamp = (
    0,
    0,
    sys.maxsize,
    0,
)  # of no regular file: a time to come, so it never counts as settled
RACY = 1_000_000_000  # nanoseconds in which a file may change twice and keep its stamp


class Look(NamedTuple):
    """The wanted files of a folder with their stamps at one moment."""

    stamps: dict[str, Stamp]
    at: int  # nanoseconds, before the first stamp was read
    mark: Stamp  # of the folder


class RequestView:
    """The folders that a request has opened, and the names and stamps read in them."""

    def __init__(self) -> None:
        self._folders: dict[tuple[object, ...], Folder] = {}
        self._missing: set[tuple[object, ...]] = set()
        self.looks: dict[tuple[str, object], Look] = {}
        self.derived: dict[object, Any] = {}  # what callers made of looks, under their own keys

    def open(self, kind: type[_Kind], top: Path, names: tuple[str, ...]) -> _Kind:
        """Open a folder at a path of names, or return the handle opened before.

        The view keeps the handle open: closing the folder does nothing until the view ends.
        """
        place = (kind, os.fspath(top), *names)
        found = self._folders.get(place)
        if found is not None:
            return cast("_Kind", found)
        if place in self._missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.path.join(top, *names))
        try:
            opened = self.open(kind, top, names[:-1]).enter(names[-1]) if names else kind.at(top)
        except FileNotFoundError:
            self._missing.add(place)
            raise
        opened.lent = True
        self._folders[place] = opened
        return opened

    def forget_missing(self) -> None:
        """Forget which folders were missing, since they may be created now."""
        self._missing.clear()

    def end(self) -> None:
        """Close every folder and forget what was seen."""
        for folder in self._folders.values():
            folder.lent = False
            folder.close()
        for seen in (self._folders, self._missing, self.looks, self.derived):
            seen.clear()


class _Thread(threading.local):
    """The request view of each thread."""

    view: RequestView | None = None


_thread = _Thread()


def current_view() -> RequestView | None:
    """Return the view of the request that this thread serves; None outside of requests."""
    return _thread.view


@contextlib.contextmanager
def request_view() -> Iterator[RequestView]:
    """Run a block with a view for one request; inside another request, with that request's view."""
    if _thread.view is not None:
        yield _thread.view
        return
    view = _thread.view = RequestView()
    try:
        yield view
    finally:
        _thread.view = None
        view.end()


@contextlib.contextmanager
def outside_view() -> Iterator[None]:
    """Run a block on the disk itself, as a writer must; afterwards, the request's view is empty."""
    view, _thread.view = _thread.view, None
    if view is not None:
        view.end()
    try:
        yield
    finally:
        _thread.view = view


def look_at(folder: Directory, wanted: Callable[[str], bool]) -> Look:
    """Return the wanted files of a folder with their stamps.

    Within a request the first result is used again, unless files were added to the folder or removed from it
    since then, or in the second before.
    """
    view, mark = _thread.view, folder.mark()
    earlier = None if view is None else view.looks.get((folder.path, wanted))
    # A file that came in the moment of the earlier look may not have changed the folder's mark again.
    if earlier is not None and earlier.mark == mark and max(mark[:2]) < earlier.at - RACY:
        return earlier
    at = time.time_ns()
    look = Look(_read_stamps(folder, wanted), at, mark)
    if view is not None:
        view.looks[folder.path, wanted] = look
    return look


def _read_stamps(folder: Directory, wanted: Callable[[str], bool]) -> dict[str, Stamp]:
    # As `stamp_of` makes it; calling that for many thousands of files would take a tenth of the time.
    regular = stat.S_ISREG
    with no_collection():
        return {
            name: (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
            if regular(state.st_mode)
            else NO_FILE
            for name, state in folder.scan(wanted)
        }


def stamp_of(state: os.stat_result) -> Stamp:
    """Return a file's stamp (size, times and inode); `NO_FILE` for anything but a regular file."""
    if not stat.S_ISREG(state.st_mode):
        return NO_FILE
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Run a block that makes many small objects without garbage collection, since none becomes garbage."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
