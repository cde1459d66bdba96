"""The providers: records, journals, pinned documents and attached sources as folders for the index."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from vademecum.index.base import JOURNAL, MEMORY, PINNED, Stack
from vademecum.store import archive, pinned, scopes, sources
from vademecum.store.journal import is_day
from vademecum.store.records import is_record
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.store.folders import Folder
    from vademecum.store.home import Home, Shelf


class Shelves(NamedTuple):
    """Everything on the shelves a caller can see."""

    home: Home
    caller: scopes.Caller

    def stacks(self) -> Iterator[Stack]:
        """Records first, then journals, then pinned documents, place by place."""
        for place in scopes.visible(self.caller):
            for shelf in scopes.shelves(self.home, self.caller, place):
                yield _on(shelf, (archive.RECORDS,), is_record, MEMORY, "record")
                if not shelf.shared and place.scope in scopes.WITH_JOURNAL:
                    yield _on(shelf, (archive.JOURNAL,), is_day, JOURNAL, "journal")
                names = place.scope.rule.documents
                documents = {name for name in names if not shelf.shared or name == pinned.CONTEXT}
                if documents:
                    yield _on(shelf, (), documents.__contains__, PINNED, "pinned")


class Attached(NamedTuple):
    """The Markdown of attached sources, folder by folder."""

    home: Home
    caller: scopes.Caller

    def stacks(self) -> Iterator[Stack | Finding]:
        """Each folder of each source in sight."""
        for source in sources.visible(self.home, self.caller):
            if source.problem:
                yield Finding("source", str(source.path), f"{source.name} {source.problem}", severity="error")
                continue
            closed: list[OSError] = []
            for top, below, wanted in source.folders(closed.append):
                path = os.path.join(top, *below)
                yield Stack(
                    path,
                    path.rstrip("/"),
                    path.rstrip("/"),
                    source.name,
                    "markdown",
                    source.place,
                    wanted,
                    functools.partial(_below, top, below),
                    plain=True,
                )
            for error in closed:
                where = str(error.filename or source.path)
                yield Finding("unreadable", where, error.strerror or str(error), severity="error")


def _on(shelf: Shelf, below: tuple[str, ...], wanted: Callable[[str], bool], source: str, kind: str) -> Stack:
    shown = shelf.name_of(*below)
    return Stack(
        str(shelf.top.joinpath(*shelf.parts, *below)),
        f"{shelf.top}/{shown}" if shelf.shared else shown,
        shown,
        source,
        kind,
        shelf.place,
        wanted,
        functools.partial(shelf.open, *below),
        str(shelf.top) if shelf.shared else "",
    )


def _below(top: str, parts: tuple[str, ...]) -> Folder | None:
    """A folder of a source, entered from its top without following links."""
    try:
        return sources.entered(top, parts)
    except FileNotFoundError:
        return None
