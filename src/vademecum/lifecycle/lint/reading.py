"""Read everything in sight once; what cannot be read is a finding of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vademecum.errors import Malformed, OutsideMemory
from vademecum.lifecycle.base import Seen
from vademecum.lifecycle.lint.base import (
    ERROR,
    JOURNAL,
    PINNED,
    RECORD,
    SOURCE,
    Material,
    Page,
    Watch,
    at,
    by_hand,
)
from vademecum.store import archive, files, listing, scopes, sources
from vademecum.store.journal import is_day
from vademecum.store.pinned import BY_SCOPE, CONTEXT
from vademecum.store.records import is_record
from vademecum.types import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from vademecum.store.folders import Folder
    from vademecum.store.home import Shelf
    from vademecum.store.records import Records
    from vademecum.types import Place


def read(
    records: Records,
    places: Sequence[Place],
    attached: Iterable[sources.Source] = (),
    *,
    root: Path | None = None,
    watch: Watch | None = None,
) -> Material:
    """All files of these places, and of the sources attached to them."""
    reader = _Reader(records, watch or Watch())
    for place in places:
        for shelf in scopes.shelves(records.home, records.caller, place):
            reader.shelf(shelf)
    for source in attached:
        if source.place in places:
            reader.source(source)
    project = next((place for place in places if place.scope is Scope.PROJECT), None)
    return Material(
        tuple(reader.seen),
        tuple(reader.pages),
        tuple(reader.unreadable),
        tuple(reader.listings),
        reader.shelves,
        root,
        project,
        reader.watch,
    )


class _Reader:
    """Collects while it reads."""

    def __init__(self, records: Records, watch: Watch) -> None:
        self.records, self.watch = records, watch
        self.seen: list[Seen] = []
        self.pages: list[Page] = []
        self.unreadable: list[Finding] = []
        self.listings: list[Page] = []
        self.shelves: dict[str, Shelf] = {}

    def shelf(self, shelf: Shelf) -> None:
        """Records, journals and pinned documents of a shelf."""
        for below in ((archive.RECORDS,), (archive.JOURNAL,), ()):
            if shelf.shared and below == (archive.JOURNAL,):
                continue
            try:
                folder = shelf.open(*below)
            except (OutsideMemory, NotADirectoryError) as error:
                file = str(shelf.top.joinpath(*shelf.parts, *below))
                self._broken("malformed", shelf.name_of(*below), str(error), file, shelf.place)
                continue
            if folder is not None:
                with folder:
                    self._on(shelf, below, folder)

    def _on(self, shelf: Shelf, below: tuple[str, ...], folder: Folder) -> None:
        here = folder.names()
        if below == (archive.RECORDS,):
            kind, names = RECORD, [name for name in here if is_record(name)]
        elif below:
            kind, names = JOURNAL, [name for name in here if is_day(name)]
        else:
            own = BY_SCOPE.get(shelf.place.scope, ())
            kind = PINNED
            names = [name for name in here if name in own and (not shelf.shared or name == CONTEXT)]
        for name in self.watch.each(names, f"{kind}s of {shelf.place}"):
            path = shelf.name_of(*below, name)
            file = str(shelf.top.joinpath(*shelf.parts, *below, name))
            page = self._page(folder, name, Page(path, kind, shelf.place, name, "", file, ours=shelf.trusted))
            if page is not None and kind == RECORD:
                self._record(shelf, page)
        if kind == RECORD and listing.NAME in here:
            path = shelf.name_of(*below, listing.NAME)
            file = str(shelf.top.joinpath(*shelf.parts, *below, listing.NAME))
            content = self._content(folder, listing.NAME, path, file, shelf.place)
            if content is not None:
                text = content.decode(errors="replace")
                self.shelves[path] = shelf
                self.listings.append(Page(path, RECORD, shelf.place, listing.NAME, text, file))

    def _record(self, shelf: Shelf, page: Page) -> None:
        content = page.text.encode()
        try:
            self.seen.append(Seen(self.records.parse(shelf, page.name, content), shelf, page.name, content))
        except Malformed as error:
            self.unreadable.append(page.found("malformed", str(error), severity=ERROR))

    def source(self, source: sources.Source) -> None:
        """The Markdown of an attached folder; its front matter is its own business."""
        if source.problem:
            mend = f"vade sources remove {source.name}"
            why = f"the source {source.name} {source.problem}"
            self.unreadable.append(Finding("orphan", str(source.path), why, mend, ERROR, source.place))
            return
        closed: list[OSError] = []
        folders = list(source.folders(closed.append))
        for top, below, wanted in self.watch.each(folders, f"folders of {source.name}"):
            path = os.path.join(top, *below)
            try:
                with sources.entered(top, below) as folder:
                    for name in filter(wanted, folder.names()):
                        file = os.path.join(path, name)
                        page = Page(file, SOURCE, source.place, name, "", file, top=top, ours=False)
                        self._page(folder, name, page)
            except (OutsideMemory, OSError) as error:
                self._broken("malformed", path, str(error), path, source.place)
        for each in closed:
            where = str(each.filename or source.path)
            self._broken("malformed", where, each.strerror or str(each), where, source.place)

    def _page(self, folder: Folder, name: str, page: Page) -> Page | None:
        content = self._content(folder, name, page.path, page.file, page.place, plain=page.kind == SOURCE)
        if content is None:
            return None
        bad = content.find(b"\0")
        why = "holds NUL bytes"
        if bad < 0:
            try:
                page = page._replace(text=content.decode())
                self.pages.append(page)
                return page
            except UnicodeDecodeError as error:
                bad, why = error.start, f"is not UTF-8 at byte {error.start}"
        line = content.count(b"\n", 0, bad) + 1
        mend = by_hand(page.file)
        self.unreadable.append(Finding("encoding", at(page.path, line), why, mend, ERROR, page.place))
        return None

    def _content(
        self, folder: Folder, name: str, path: str, file: str, place: Place, *, plain: bool = False
    ) -> bytes | None:
        try:
            return files.read(folder, name)
        except (Malformed, OutsideMemory, OSError) as error:
            # In a source, links, pipes and folders with such a name are nobody's concern.
            if not (plain and (os.path.islink(file) or not os.path.isfile(file))):
                self._broken("malformed", path, str(error), file, place)
            return None

    def _broken(self, what: str, where: str, why: str, file: str, place: Place) -> None:
        self.unreadable.append(Finding(what, where, why, by_hand(file), ERROR, place))
