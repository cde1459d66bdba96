"""Pinned documents: small, curated, always in context, each under a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vademecum.errors import Malformed, NotFound, OutsideMemory, Untrusted
from vademecum.store import archive, audit, clock, document, files, frontmatter, names, scopes
from vademecum.store.texts import decode
from vademecum.types import Change, ChangeKind, Finding, Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from vademecum.config import Inject
    from vademecum.store.home import Home, Shelf
    from vademecum.types import Entry, Place

MEMORY = "MEMORY.md"
CONTEXT = "context.md"
PROFILE = "profile.md"
BY_SCOPE = {
    Scope.GLOBAL: (MEMORY, CONTEXT, PROFILE),
    Scope.PROJECT: (CONTEXT,),
    Scope.AGENT: (MEMORY,),
}
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

    @property
    def over(self) -> bool:
        """Whether it is larger than its budget, so that injection will cut it."""
        return self.size > self.budget


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
            for name in BY_SCOPE.get(place.scope, ()):
                for shelf in self._shelves(place, name):
                    try:
                        found = self._read(shelf, name)
                    except (Malformed, OutsideMemory, OSError) as error:
                        path = shelf.name_of(name)
                        yield Finding("malformed", path, str(error), "mend it with any text editor", "error")
                        continue
                    if found is not None:
                        yield found

    def find(self, name: str, *, scope: Scope | None = None) -> tuple[Shelf, str, bytes | None]:
        """The shelf, name and content of a document; without a scope, the nearest one that keeps it."""
        wanted = next((known for known in (MEMORY, CONTEXT, PROFILE) if known.lower() == name.lower()), None)
        if wanted is None:
            raise NotFound(f"{names.shown(name)} is not a pinned document")
        places = [scopes.place_for(self.caller, scope)] if scope else scopes.visible(self.caller)
        keeping = [place for place in places if wanted in BY_SCOPE.get(place.scope, ())]
        if not keeping:
            raise NotFound(f"{scope or 'this audience'} keeps no {wanted}")
        shelves = [shelf for place in keeping for shelf in self._shelves(place, wanted)]
        for shelf in shelves:
            content = self._content(shelf, wanted)
            if content is not None:
                return shelf, wanted, content
        # None exists yet: MEMORY.md begins in global memory, context.md in the project.
        first = next((s for s in shelves if s.place.scope is Scope.GLOBAL and wanted == MEMORY), shelves[0])
        return first, wanted, None

    def write(self, shelf: Shelf, name: str, text: str, *, seen: bytes | None) -> Pinned:
        """Put a new text in place of the one that was seen; the old one goes to the archive."""
        if not shelf.trusted:
            raise Untrusted(f"{shelf.top / '.vade'} came with the repository and is not trusted yet")
        at = self.now()
        content = frontmatter.edit(text, {"version": VERSION, "updated": clock.stamp(at)}).encode()
        path = shelf.name_of(name)
        with self.home.lock(f"pinned {path} in {shelf.top}"):
            with shelf.open(create=True) or self.home.folder() as folder:
                current = files.read(folder, name)

                def put(now: bytes | None) -> bytes:
                    if now is not None and now != content:
                        why = "edit" if now == seen else "conflict"
                        archive.keep(self.home, shelf, archive.PINNED, name, now, why=why, at=at)
                    return content

                files.update(folder, name, put, mode=shelf.file_mode)
            self._vouch(shelf, name, content, before=current)
            audit.write(
                self.home,
                at=at,
                actor=self.caller.actor,
                operation="pin",
                scope=shelf.place.scope,
                before=current,
                after=content,
            )
        self.announce(Change(ChangeKind.WRITTEN, shelf.place, path))
        return self._pinned(shelf, name, content)

    def _vouch(self, shelf: Shelf, name: str, content: bytes, *, before: bytes | None) -> None:
        """Log the sections that are new; one that stood there before is not made the caller's by an edit."""
        earlier = {archive.fingerprint(each) for each in document.blocks(decode(before or b""))}
        for section in document.blocks(decode(content)):
            if archive.fingerprint(section) not in earlier:
                signed = replace(section, origin=section.origin or self.caller.origin)
                archive.log_kept(self.home, shelf, archive.PINNED, name, signed, record=None)

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
            return files.read(folder, name)

    def _pinned(self, shelf: Shelf, name: str, content: bytes) -> Pinned:
        text = decode(content)
        front = frontmatter.parse(text)
        body = text[front.body :]
        size, budget = self._measure(shelf.place.scope, name, body)
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
            self._sections(shelf, name, text),
        )

    def _sections(self, shelf: Shelf, name: str, text: str) -> tuple[Entry, ...]:
        """The sections with their origins: what a repository brought along is nobody's word here."""
        known: set[str] = set()
        if shelf.shared and shelf.trusted:
            kept = archive.kept(self.home, shelf, archive.PINNED, name)
            known = {archive.fingerprint(entry) for _, entry in kept}
        found = []
        for section in document.blocks(text):
            vouched = not shelf.shared or archive.fingerprint(section) in known
            origin = (section.origin or Origin.USER) if vouched else Origin.EXTERNAL
            found.append(replace(section, origin=origin))
        return tuple(found)

    def _measure(self, scope: Scope, name: str, body: str) -> tuple[int, int]:
        if name == CONTEXT:
            kib = (
                self.budgets.project_context_kib
                if scope is Scope.PROJECT
                else self.budgets.global_context_kib
            )
            return len(body.encode()), kib * 1024
        return len(body), self.budgets.memory_chars if name == MEMORY else self.budgets.profile_chars
