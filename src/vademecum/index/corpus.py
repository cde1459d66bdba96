"""The providers: records, journals, pinned documents and attached sources as folders for the index."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING

from vademecum.index.base import JOURNAL, MEMORY, PINNED, Filter, Stack
from vademecum.store import archive, pinned, scopes, sources
from vademecum.store.files import DiskFolder
from vademecum.store.journal import is_day
from vademecum.store.records import is_record
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.store import Directory, Home, Shelf


# What people decided about what is seen: a change there means another look at everything.
_DECISIONS = ("aliases", "projects", "sources", "trusted")


class Corpus:
    """All that one caller can see: what is on their shelves, and the sources attached to them."""

    def __init__(self, home: Home, caller: scopes.Caller) -> None:
        self.home, self.caller = home, caller
        self._tops: dict[Path, DiskFolder] | None = None  # while it is looked at

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Open the home and the repository once for all that is looked at meanwhile."""
        if self._tops is not None:
            yield
            return
        self._tops = {}
        try:
            yield
        finally:
            for top in self._tops.values():
                top.close()
            self._tops = None

    @property
    def root(self) -> str:
        """The clone that the caller stands in."""
        return "" if self.caller.project is None else str(self.caller.project.root)

    @property
    def decisions(self) -> tuple[str, ...]:
        """The folders whose content decides what there is to see."""
        decided = [str(self.home.path / "decisions" / kind) for kind in _DECISIONS]
        return (*decided, *([f"{self.root}/.vade"] if self.root else []))

    @property
    def filter(self) -> Filter:
        """What of an index it is."""
        return Filter(tuple(scopes.visible(self.caller)), self.root)

    def stacks(self) -> Iterator[Stack | Finding]:
        """Every folder there is or may come to be; one that cannot be looked at is a finding.

        Records first, then journals, then pinned documents, place by place; then the folders of sources.
        """
        for place in scopes.visible(self.caller):
            for shelf in scopes.shelves(self.home, self.caller, place):
                yield self._on(shelf, (archive.RECORDS,), is_record, MEMORY, "record")
                if not shelf.shared and place.scope in scopes.WITH_JOURNAL:
                    yield self._on(shelf, (archive.JOURNAL,), is_day, JOURNAL, "journal")
                names = place.scope.rule.documents
                documents = {name for name in names if not shelf.shared or name == pinned.CONTEXT}
                if documents:
                    yield self._on(shelf, (), documents.__contains__, PINNED, "pinned")
        yield from self._attached()

    def _attached(self) -> Iterator[Stack | Finding]:
        """The Markdown of each source in sight, folder by folder."""
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

    def _on(
        self, shelf: Shelf, below: tuple[str, ...], wanted: Callable[[str], bool], source: str, kind: str
    ) -> Stack:
        shown = shelf.name_of(*below)
        return Stack(
            str(shelf.top.joinpath(*shelf.parts, *below)),
            f"{shelf.top}/{shown}" if shelf.shared else shown,
            shown,
            source,
            kind,
            shelf.place,
            wanted,
            functools.partial(self._open, shelf, below),
            str(shelf.top) if shelf.shared else "",
        )

    def _open(self, shelf: Shelf, below: tuple[str, ...]) -> Directory | None:
        if self._tops is None or shelf.backend is not None:
            return shelf.open(*below)
        try:
            top = self._tops.get(shelf.top)
            if top is None:
                top = self._tops[shelf.top] = DiskFolder.at(shelf.top)
            return top.enter(*shelf.parts, *below)
        except FileNotFoundError:
            return None


def _below(top: str, parts: tuple[str, ...]) -> Directory | None:
    """A folder of a source, entered from its top without following links."""
    try:
        return sources.entered(top, parts)
    except FileNotFoundError:
        return None
