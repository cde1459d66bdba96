"""Pinned documents: small, curated, always in context, each under a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vademecum.errors import Conflict, Malformed, NotFound, OutsideMemory, Untrusted
from vademecum.store import archive, audit, document, frontmatter, people, scopes, tombstones
from vademecum.store.document import decode
from vademecum.store.files import note_trouble
from vademecum.text import clock, names
from vademecum.types import Change, ChangeKind, Finding, Origin, Record, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from vademecum.config import Inject
    from vademecum.store.home import Home, Shelf
    from vademecum.types import Entry, Place

MEMORY = "MEMORY.md"
CONTEXT = "context.md"
PROFILE = "profile.md"
NAMES = (MEMORY, CONTEXT, PROFILE)
VERSION = 1


@dataclass(frozen=True, slots=True)
class Pinned:
    """One pinned document; size and budget are bytes for `context.md` and characters for the rest."""

    place: Place
    name: str
    path: str
    text: str
    updated: str | None
    size: int
    budget: int
    trusted: bool = True
    sections: tuple[Entry, ...] = ()
    sources: object = None  # what it says of where its sections were imported from

    @property
    def over(self) -> bool:
        """Whether it is larger than its budget."""
        return self.size > self.budget

    def as_record(self) -> Record:
        """The document in the form of a record, for whoever brings back either."""
        return Record(self.name, self.place, self.path, archive.PINNED, self.name, self.sections)


@dataclass(frozen=True, slots=True)
class Documents:
    """The pinned documents a caller can reach."""

    home: Home
    caller: scopes.Caller
    budgets: Inject
    now: Callable[[], datetime]
    announce: Callable[[Change], None]

    def all(self, places: Iterable[Place]) -> Iterator[Pinned | Finding]:
        """Every pinned document there is in these places."""
        for place in places:
            for name in place.scope.rule.documents:
                for shelf in self._shelves(place, name):
                    try:
                        found = self._read(shelf, name)
                    except (Malformed, OutsideMemory, OSError) as error:
                        note_trouble(error)
                        path = shelf.name_of(name)
                        yield Finding("malformed", path, str(error), "fix it with any text editor", "error")
                        continue
                    if found is not None:
                        yield found

    def find(self, name: str, *, scope: Scope | None = None) -> tuple[Shelf, str, bytes | None]:
        """The shelf, name and content of a document; without a scope, the nearest one that keeps it."""
        wanted, shelves = self._reach(name, scope)
        for shelf in shelves:
            content = self._content(shelf, wanted)
            if content is not None:
                return shelf, wanted, content
        # None exists yet: MEMORY.md begins in global memory, context.md in the project.
        first = next((s for s in shelves if s.place.scope is Scope.GLOBAL and wanted == MEMORY), shelves[0])
        return first, wanted, None

    def write(self, shelf: Shelf, name: str, text: str, *, seen: bytes | None) -> Pinned:
        """Put a new text in place of the one that was seen; the old one goes to the archive."""
        at = self.now()
        text = frontmatter.edit(text, {"version": VERSION, "updated": clock.stamp(at)})
        content = self._signed(shelf, name, text, seen or b"").encode()

        def put(current: bytes | None) -> bytes:
            if (current or b"") != (seen or b""):
                image = archive.keep(self.home, shelf, archive.PINNED, name, content, why="conflict", at=at)
                changed = f"{shelf.name_of(name)} changed while it was edited"
                raise Conflict(f"{changed}; your version is saved as {image.path}")
            if current is not None:
                archive.keep(self.home, shelf, archive.PINNED, name, current, why="edit", at=at)
            return content

        return self._replace(shelf, name, put, operation="pin", at=at)

    def images(self, name: str, *, scope: Scope | None = None) -> tuple[Shelf, str, list[archive.Image]]:
        """The shelf and name of a document, and its archived versions, oldest first."""
        shelf, file, content = self.find(name, scope=scope)
        found = archive.images(self.home, shelf, archive.PINNED, file)
        if content is None and not found:  # gone from all shelves: the nearest one that ever kept it is meant
            for other in self._reach(name, scope)[1]:
                found = archive.images(self.home, other, archive.PINNED, file)
                if found:
                    return other, file, found
        return shelf, file, found

    def image(self, version: str, places: Iterable[Place]) -> tuple[Shelf, str, archive.Image] | None:
        """The archived version of that id, of any document in these places."""
        for place in places:
            for name in place.scope.rule.documents:
                for shelf in self._shelves(place, name):
                    for image in archive.images(self.home, shelf, archive.PINNED, name):
                        if image.id == version:
                            return shelf, name, image
        return None

    def newest(self, name: str, *, scope: Scope | None = None) -> tuple[Shelf, str, archive.Image]:
        """The newest archived version of a document that differs from what it holds now."""
        shelf, file, found = self.images(name, scope=scope)
        content = self._content(shelf, file)
        for image in reversed(found):
            if self.home.read(*image.parts) != content:
                return shelf, file, image
        raise NotFound(f"{shelf.name_of(file)} has no other version in the archive")

    def restore(self, shelf: Shelf, name: str, image: archive.Image) -> Pinned:
        """Bring an archived version back, byte for byte; the text now in its place is archived first."""
        content = self.home.read(*image.parts)
        if content is None:
            raise NotFound(f"{image.path} is gone from the archive")
        at = self.now()

        def put(current: bytes | None) -> bytes:
            if current is not None and current != content:
                archive.keep(self.home, shelf, archive.PINNED, name, current, why="restore", at=at)
            return content

        return self._replace(shelf, name, put, operation="restore", at=at)

    def _replace(
        self,
        shelf: Shelf,
        name: str,
        put: Callable[[bytes | None], bytes],
        *,
        operation: str,
        at: datetime,
    ) -> Pinned:
        """Make a change to a document under its lock, and tell of it."""
        if not shelf.trusted:
            raise Untrusted(f"{shelf.top / '.vade'} came with the repository and is not trusted yet")
        path = shelf.name_of(name)
        with self.home.lock(f"pinned {path} in {shelf.top}"):

            def checked(current: bytes | None) -> bytes:
                after = put(current)
                people.check_taken(self.home, self.caller, current, after, kind=archive.PINNED)
                strict = operation == "restore"
                kind = archive.PINNED
                tombstones.check_brought(self.home, self.caller, current, after, kind=kind, strict=strict)
                return after

            with shelf.open(create=True) or self.home.folder() as folder:
                written = folder.update(name, checked, mode=shelf.file_mode)
            if operation == "pin":  # what comes back was vouched for when it was written, or never
                self._vouch(shelf, name, written.after, before=written.before)
            audit.write(
                self.home,
                at=at,
                actor=self.caller.actor,
                client=self.caller.client,
                operation=operation,
                scope=shelf.place.scope,
                before=written.before,
                after=written.after,
            )
        self.announce(Change(ChangeKind.WRITTEN, shelf.place, path))
        return self._pinned(shelf, name, written.after)

    def _signed(self, shelf: Shelf, name: str, text: str, seen: bytes) -> str:
        """The text with every section that somebody other than the user wrote signed so, whatever it claims.

        A section that stands there as it stood keeps its origin; a new signature under an old text cannot
        raise it.
        """
        if self.caller.origin is Origin.USER:
            return text
        stood = _standing(seen)
        untouched = {(archive.fingerprint(each), each.origin) for each in stood}
        earlier: dict[str, list[Origin]] = {}
        for section in self._with_origins(shelf, name, stood):
            earlier.setdefault(archive.fingerprint(section), []).append(section.origin or Origin.USER)
        for section in reversed(document.blocks(text)):
            mark = archive.fingerprint(section)
            if (mark, section.origin) not in untouched:
                claimed = section.origin or self.caller.origin
                text = _sign(text, section, _lowest(claimed, self.caller.origin, *earlier.get(mark, ())))
        return text

    def _vouch(self, shelf: Shelf, name: str, content: bytes, *, before: bytes | None) -> None:
        """Log the sections that are new; one that stood there before is not made the caller's by an edit."""
        earlier = {archive.fingerprint(each) for each in _standing(before or b"")}
        for section in document.blocks(decode(content)):
            if archive.fingerprint(section) not in earlier:
                signed = replace(section, origin=section.origin or self.caller.origin)
                by = self.caller
                archive.log_kept(self.home, shelf, archive.PINNED, name, signed, record=None, by=by)

    def _reach(self, name: str, scope: Scope | None) -> tuple[str, list[Shelf]]:
        """A document's name as it is spelled, and the shelves it may lie on, the nearest first."""
        wanted = next((known for known in NAMES if known.lower() == name.lower()), None)
        if wanted is None:
            raise NotFound(f"{names.shown(name)} is not a pinned document")
        places = [scopes.place_for(self.caller, scope)] if scope else scopes.visible(self.caller)
        keeping = [place for place in places if wanted in place.scope.rule.documents]
        if not keeping:
            raise NotFound(f"{scope or 'this audience'} has no {wanted}")
        return wanted, [shelf for place in keeping for shelf in self._shelves(place, wanted)]

    def _shelves(self, place: Place, name: str) -> list[Shelf]:
        """A repository keeps its `context.md`; what else is pinned is the user's own."""
        shelves = scopes.shelves(self.home, self.caller, place)
        return [shelf for shelf in shelves if not shelf.shared or name == CONTEXT]

    def _read(self, shelf: Shelf, name: str) -> Pinned | None:
        content = self._content(shelf, name)
        return None if content is None else self._pinned(shelf, name, content)

    def _content(self, shelf: Shelf, name: str) -> bytes | None:
        folder = shelf.open()
        if folder is None:
            return None
        with folder:
            return folder.read(name)

    def _pinned(self, shelf: Shelf, name: str, content: bytes) -> Pinned:
        text = decode(content)
        front = frontmatter.parse(text)
        body = text[front.body :]
        size, budget = self.measure(shelf.place.scope, name, body)
        updated = front.values.get("updated")
        return Pinned(
            shelf.place,
            name,
            shelf.name_of(name),
            body.strip(),
            None if updated is None else str(updated),
            size,
            budget,
            shelf.trusted,
            self._with_origins(shelf, name, document.blocks(text)),
            front.values.get("sources"),
        )

    def _with_origins(self, shelf: Shelf, name: str, sections: Iterable[Entry]) -> tuple[Entry, ...]:
        """The sections with their origins: what a repository brought along is nobody's word here."""
        known: dict[str, Origin | None] = {}
        if shelf.shared and shelf.trusted:
            for _, entry in archive.kept(self.home, shelf, archive.PINNED, name):
                known[archive.fingerprint(entry)] = entry.origin
        found = []
        for section in sections:
            origin = section.origin or Origin.USER
            if shelf.shared:
                vouched = known.get(archive.fingerprint(section))
                origin = document.least_known(section.origin) if vouched is None else _lowest(origin, vouched)
            found.append(replace(section, origin=origin))
        return tuple(found)

    def measure(self, scope: Scope, name: str, body: str) -> tuple[int, int]:
        """How large a document is and may be, in its own unit."""
        if name == CONTEXT:
            kib = (
                self.budgets.project_context_kib
                if scope is Scope.PROJECT
                else self.budgets.global_context_kib
            )
            return len(body.encode()), kib * 1024
        return len(body), self.budgets.memory_chars if name == MEMORY else self.budgets.profile_chars


def is_name(name: str) -> bool:
    """Whether this names a pinned document."""
    return name.lower() in {known.lower() for known in NAMES}


def _standing(content: bytes) -> list[Entry]:
    """The sections of a document; none when it cannot be read, so that an edit can mend it."""
    try:
        return document.blocks(decode(content))
    except Malformed:
        return []


def _lowest(*origins: Origin) -> Origin:
    """The least trusted of several origins."""
    return max(origins, key=lambda each: each.rank)


def _sign(text: str, section: Entry, origin: Origin) -> str:
    """The text with this origin as the last line of a section."""
    newline = frontmatter.line_ending(text)
    lines = (text if text.endswith("\n") else text + newline).split("\n")
    # A signature alone is no section: that tells one from a last line of text, which must stay.
    signed = not document.blocks(lines[section.end - 1])
    lines[section.end - signed : section.end] = [f"<!-- origin: {origin} -->{newline[:-1]}"]
    return "\n".join(lines)
