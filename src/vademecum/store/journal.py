"""The journal: notes of one day, each under its time, appended and never rewritten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import archive, audit, document, scopes, tombstones
from vademecum.store.document import decode
from vademecum.store.files import note_trouble
from vademecum.text import clock, names
from vademecum.types import Audience, Change, ChangeKind, Entry, Finding, Noted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from datetime import datetime

    from vademecum.store.home import Home, Shelf
    from vademecum.types import Place, Scope

_DAY = re.compile(r"\d{4}-\d\d-\d\d(?:-[a-z0-9-]{1,60})?\.md")


@dataclass(frozen=True, slots=True)
class Day:
    """One file of the journal."""

    place: Place
    path: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """The journals a caller can reach; they always lie in the home, also when records lie in a repository."""

    home: Home
    caller: scopes.Caller
    now: Callable[[], datetime]
    announce: Callable[[Change], None]

    def note(self, text: str, *, scope: Scope, slug: str = "") -> Noted:
        """Append a note to the journal of today, by the local date; with a slug, to a file of its own."""
        shelf = self._shelf(scopes.journal_place(self.caller, scope))
        scopes.check_new_folder(shelf)
        at = self.now()
        if self.caller.project is not None and shelf.place.id == self.caller.project.id:
            scopes.remember_project(self.home, self.caller.project, at=clock.stamp(at))
        purged = tombstones.check(self.home, self.caller, text)
        name = f"{at:%Y-%m-%d}{f'-{names.check_key(slug)}' if slug else ''}.md"
        path = shelf.name_of(archive.JOURNAL, name)
        entry = Entry(text, clock.local_stamp(at), self.caller.origin, id=names.new_mark())

        def add(content: bytes | None) -> bytes:
            before = f"# {at:%Y-%m-%d}\n\n" if content is None else decode(content)
            return document.append(before, entry).encode()

        with (
            self.home.lock(f"journal {path}"),
            self.home.folder(*shelf.parts, archive.JOURNAL, create=True) as folder,
        ):
            written = folder.update(name, add)
            by = self.caller
            archive.log_kept(self.home, shelf, archive.JOURNAL, name, entry, record=None, by=by)
            if purged is not None:
                tombstones.lift(self.home, text, at=clock.stamp(at))
            audit.write(
                self.home,
                at=at,
                actor=self.caller.actor,
                client=self.caller.client,
                operation="note",
                scope=shelf.place.scope,
                before=written.before,
                after=written.after,
            )
        self.announce(Change(ChangeKind.WRITTEN, shelf.place, path))
        return Noted(path, entry.time or "", purged=purged.at if purged else "")

    def days(self, places: Iterable[Place], *, only: Container[str] | None = None) -> Iterator[Day | Finding]:
        """The days of these places, all or `only` those files; one that cannot be read is a finding."""
        if self.caller.audience is Audience.GROUP:
            return
        for place in places:
            for shelf in self.shelves(place):
                yield from self._days(shelf, only)

    def shelves(self, place: Place) -> list[Shelf]:
        """Where the journals of a place lie."""
        return [shelf for shelf in scopes.shelves(self.home, self.caller, place) if not shelf.shared]

    def _shelf(self, place: Place) -> Shelf:
        return self.shelves(place)[0]

    def _days(self, shelf: Shelf, only: Container[str] | None) -> Iterator[Day | Finding]:
        try:
            folder = shelf.open(archive.JOURNAL)
        except (OutsideMemory, NotADirectoryError) as error:
            yield Finding(
                "malformed", shelf.name_of(archive.JOURNAL), str(error), "replace it with a folder", "error"
            )
            return
        if folder is None:
            return
        with folder:
            for name in filter(is_day, folder.names()):
                if only is not None and name not in only:
                    continue
                path = shelf.name_of(archive.JOURNAL, name)
                try:
                    content = folder.read(name)
                    if content is not None:
                        yield Day(shelf.place, path, document.parse(decode(content)).entries)
                except (Malformed, OutsideMemory, OSError) as error:
                    note_trouble(error)
                    yield Finding("malformed", path, str(error), "fix it with any text editor", "error")


def is_day(name: str) -> bool:
    """Whether a file name can be a day's: the date, perhaps with a few words after it."""
    return bool(_DAY.fullmatch(name))
