"""Journal of each scope: a file for each day, with notes under their times, appended and never rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import Malformed, OutsideMemory
from vademecum.named_tuple import NamedTuple
from vademecum.store import archive, audit, scopes, tombstones
from vademecum.store.files import note_trouble
from vademecum.text import clock, document, filenames, names
from vademecum.text.document import decode
from vademecum.types import Audience, Change, ChangeKind, Entry, Finding, Noted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from datetime import datetime

    from vademecum.store.home import Home, ScopeFolder
    from vademecum.types import Place, Scope


class Day(NamedTuple):
    """A file of the journal: the notes of one day."""

    place: Place
    path: str
    entries: tuple[Entry, ...]


class Journal:
    """The journals that a caller can reach. They lie in the home, even if records lie in a repository."""

    __slots__ = "announce", "caller", "home", "now"

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        now: Callable[[], datetime],
        announce: Callable[[Change], None],
    ) -> None:
        self.home, self.caller, self.now, self.announce = home, caller, now, announce

    def note(self, text: str, *, scope: Scope, slug: str = "") -> Noted:
        """Append a note to today's journal (local date), or with a slug to a separate file of today."""
        scope_folder = self._scope_folder(scopes.journal_place(self.caller, scope))
        scopes.check_new_folder(scope_folder)
        at = self.now()
        if self.caller.project is not None and scope_folder.place.id == self.caller.project.id:
            scopes.remember_project(self.home, self.caller.project, at=clock.stamp(at))
        purged = tombstones.check(self.home, self.caller, text)
        name = f"{at:%Y-%m-%d}{f'-{names.check_key(slug)}' if slug else ''}.md"
        path = scope_folder.name_of(filenames.JOURNAL, name)
        entry = Entry(text, clock.local_stamp(at), self.caller.origin, id=names.new_mark())

        def add(content: bytes | None) -> bytes:
            before = f"# {at:%Y-%m-%d}\n\n" if content is None else decode(content)
            return document.append(before, entry).encode()

        with (
            self.home.lock(f"journal {path}"),
            self.home.folder(*scope_folder.parts, filenames.JOURNAL, create=True) as folder,
        ):
            written = folder.update(name, add)
            by = self.caller
            archive.log_entry(self.home, scope_folder, filenames.JOURNAL, name, entry, record=None, by=by)
            if purged is not None:
                tombstones.lift(self.home, text, at=clock.stamp(at))
            audit.write(
                self.home,
                at=at,
                actor=self.caller.actor,
                client=self.caller.client,
                operation="note",
                scope=scope_folder.place.scope,
                before=written.before,
                after=written.after,
            )
        self.announce(Change(ChangeKind.WRITTEN, scope_folder.place, path))
        return Noted(path, entry.time or "", purged=purged.at if purged else "")

    def days(self, places: Iterable[Place], *, only: Container[str] | None = None) -> Iterator[Day | Finding]:
        """Yield the journal days of these places, or those whose file names are in `only`.

        An unreadable day is a finding. A caller in a group gets no days.
        """
        if self.caller.audience is Audience.GROUP:
            return
        for place in places:
            for scope_folder in self.scope_folders(place):
                yield from self._days(scope_folder, only)

    def scope_folders(self, place: Place) -> list[ScopeFolder]:
        """Return the folders of a place that are not shared: those that can have journals."""
        return [
            scope_folder
            for scope_folder in scopes.scope_folders(self.home, self.caller, place)
            if not scope_folder.shared
        ]

    def _scope_folder(self, place: Place) -> ScopeFolder:
        return self.scope_folders(place)[0]

    def _days(self, scope_folder: ScopeFolder, only: Container[str] | None) -> Iterator[Day | Finding]:
        try:
            folder = scope_folder.open(filenames.JOURNAL)
        except (OutsideMemory, NotADirectoryError) as error:
            yield Finding(
                "malformed",
                scope_folder.name_of(filenames.JOURNAL),
                str(error),
                "replace it with a folder",
                "error",
            )
            return
        if folder is None:
            return
        with folder:
            for name in filter(filenames.is_day, folder.names()):
                if only is not None and name not in only:
                    continue
                path = scope_folder.name_of(filenames.JOURNAL, name)
                try:
                    content = folder.read(name)
                    if content is not None:
                        yield Day(scope_folder.place, path, document.parse(decode(content)).entries)
                except (Malformed, OutsideMemory, OSError) as error:
                    note_trouble(error)
                    yield Finding("malformed", path, str(error), "fix it with any text editor", "error")
