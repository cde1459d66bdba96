"""What the index takes in: folders of files from small providers, and what tells that a file has changed."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vademecum.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.store.folders import Folder
    from vademecum.types import Finding, Place

MEMORY, JOURNAL, PINNED = "memory", "journal", "pinned"


class Stamp(NamedTuple):
    """What the system says of a file; while all of it stays the same, the file need not be read."""

    size: int
    mtime: int
    ctime: int
    inode: int


class Item(NamedTuple):
    """One file on its way into the index."""

    id: str  # unique among all projects: the path from the home, or an absolute one
    path: str  # as shown, and accepted by `get`
    source: str  # memory, journal, pinned, or the name of an attached source
    kind: str  # how it is cut: record, journal, pinned, markdown
    place: Place
    root: str  # the clone whose `.vade/` it lies in; empty for all else
    stamp: Stamp
    load: Callable[[], bytes | None]

    @property
    def labels(self) -> tuple[str, str, str, str]:
        """What the index keeps of it beside its content."""
        return self.path, self.source, self.kind, self.root


class Stack(NamedTuple):
    """One folder whose files go into the index."""

    path: str  # where it lies: what a watch is put on
    prefix: str  # what stands before a name in an item's id
    shown: str  # what stands before a name as shown
    source: str
    kind: str
    place: Place
    wanted: Callable[[str], bool]
    open: Callable[[], Folder | None]
    root: str = ""
    plain: bool = False  # whether links, pipes and folders with such a name are nobody's concern

    def states(self) -> Iterator[tuple[str, Stamp]]:
        """Each file that is here now, with its stamp, by name."""
        folder = self.open()
        if folder is None:
            return
        with folder, os.scandir(folder.path if folder.fd is None else folder.fd) as found:
            for each in sorted((each for each in found if self.wanted(each.name)), key=_name):
                try:
                    if self.plain and not each.is_file(follow_symlinks=False):
                        continue
                    state = each.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                yield each.name, stamp(state)

    def state(self, name: str) -> Stamp | None:
        """The stamp of one file; None when it is not here or not wanted."""
        if not self.wanted(name):
            return None
        folder = self.open()
        if folder is None:
            return None
        with folder:
            state = folder.stat(name)
        return None if state is None or (self.plain and not _is_file(state)) else stamp(state)

    def item(self, name: str, state: Stamp) -> Item:
        """A file of this folder on its way into the index."""
        load = functools.partial(self._load, name)
        path = f"{self.shown}/{name}"
        return Item(f"{self.prefix}/{name}", path, self.source, self.kind, self.place, self.root, state, load)

    def _load(self, name: str) -> bytes | None:
        folder = self.open()
        if folder is None:
            return None
        with folder:
            return files.read(folder, name)


class Corpus(Protocol):
    """Provides the folders of one kind of thing."""

    def stacks(self) -> Iterator[Stack | Finding]:
        """Every folder there is or may come to be; one that cannot be looked at is a finding."""
        ...


def stamp(state: os.stat_result) -> Stamp:
    """What is compared of a file's state."""
    return Stamp(state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_file(state: os.stat_result) -> bool:
    import stat

    return stat.S_ISREG(state.st_mode)
