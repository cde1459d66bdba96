"""The providers: records, journals, pinned documents and attached sources as items for the index."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.errors import OutsideMemory
from vademecum.index.base import Item, Stamp
from vademecum.store import archive, files, pinned, scopes, sources
from vademecum.store.journal import is_day
from vademecum.store.records import is_record
from vademecum.types import Audience, Finding

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.store.home import Home, Shelf

MEMORY, JOURNAL, PINNED = "memory", "journal", "pinned"


@dataclass(frozen=True, slots=True)
class Shelves:
    """Everything on the shelves a caller can see."""

    home: Home
    caller: scopes.Caller

    def items(self) -> Iterator[Item | Finding]:
        """Records first, then journals, then pinned documents, place by place."""
        for place in scopes.visible(self.caller):
            for shelf in scopes.shelves(self.home, self.caller, place):
                yield from _folder(shelf, (archive.RECORDS,), is_record, MEMORY, "record")
                if not shelf.shared and self.caller.audience is not Audience.GROUP:
                    yield from _folder(shelf, (archive.JOURNAL,), is_day, JOURNAL, "journal")
                names = pinned.BY_SCOPE.get(place.scope, ())
                wanted = {name for name in names if not shelf.shared or name == pinned.CONTEXT}
                yield from _folder(shelf, (), wanted.__contains__, PINNED, "pinned")


@dataclass(frozen=True, slots=True)
class Attached:
    """The Markdown of attached sources."""

    home: Home
    caller: scopes.Caller

    def items(self) -> Iterator[Item | Finding]:
        """Each file of each source in sight."""
        for source in sources.visible(self.home, self.caller):
            if source.problem:
                yield Finding("source", str(source.path), f"{source.name} {source.problem}", severity="error")
                continue
            for path in source.markdown():
                try:
                    state = path.stat()
                except OSError as error:
                    yield Finding("unreadable", str(path), str(error), severity="error")
                    continue
                load = functools.partial(_load_source, path)
                yield Item(str(path), str(path), source.name, "markdown", source.place, _stamp(state), load)


def _folder(
    shelf: Shelf, below: tuple[str, ...], wanted: Callable[[str], bool], source: str, kind: str
) -> Iterator[Item | Finding]:
    try:
        folder = shelf.open(*below)
    except (OutsideMemory, NotADirectoryError) as error:
        yield Finding("unreadable", shelf.name_of(*below), str(error), severity="error")
        return
    if folder is None:
        return
    with folder:
        for name in filter(wanted, folder.names()):
            state = folder.stat(name)
            if state is None:
                continue
            path = shelf.name_of(*below, name)
            unique = f"{shelf.top}/{path}" if shelf.shared else path
            load = functools.partial(_load, shelf, below, name)
            yield Item(unique, path, source, kind, shelf.place, _stamp(state), load)


def _load(shelf: Shelf, below: tuple[str, ...], name: str) -> bytes | None:
    folder = shelf.open(*below)
    if folder is None:
        return None
    with folder:
        return files.read(folder, name)


def _load_source(path: Path) -> bytes | None:
    from vademecum.store.folders import Folder

    try:
        with Folder.at(path.parent) as folder:
            return files.read(folder, path.name)
    except FileNotFoundError:
        return None


def _stamp(state: os.stat_result) -> Stamp:
    return Stamp(state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
