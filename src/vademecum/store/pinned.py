"""Pinned documents: small texts that are always in an agent's context, each with a budget for its size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.errors import Conflict, Malformed, NotFound, OutsideMemory, Untrusted
from vademecum.named_tuple import NamedTuple
from vademecum.store import archive, audit, people, scopes, tombstones
from vademecum.store.files import note_trouble
from vademecum.text import clock, document, filenames, frontmatter, names
from vademecum.text.document import decode
from vademecum.types import Change, ChangeKind, Finding, Origin, Record, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from vademecum.config import Inject
    from vademecum.store.home import Home, ScopeFolder
    from vademecum.types import Entry, Place

VERSION = 1


class Pinned(NamedTuple):
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
        """Return whether the document is larger than its budget."""
        return self.size > self.budget

    def as_record(self) -> Record:
        """Return the document in the form of a record, for code that restores records and documents alike."""
        return Record(self.name, self.place, self.path, filenames.PINNED, self.name, self.sections)


class Documents:
    """The pinned documents a caller can reach."""

    __slots__ = "announce", "budgets", "caller", "home", "now"

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        budgets: Inject,
        now: Callable[[], datetime],
        announce: Callable[[Change], None],
    ) -> None:
        self.home, self.caller, self.budgets = home, caller, budgets
        self.now, self.announce = now, announce

    def all(self, places: Iterable[Place]) -> Iterator[Pinned | Finding]:
        """Yield the pinned documents of these places; for an unreadable document, yield a finding."""
        for place in places:
            for name in place.scope.rule.documents:
                for scope_folder in self._scope_folders(place, name):
                    try:
                        found = self._read(scope_folder, name)
                    except (Malformed, OutsideMemory, OSError) as error:
                        note_trouble(error)
                        path = scope_folder.name_of(name)
                        yield Finding("malformed", path, str(error), "fix it with any text editor", "error")
                        continue
                    if found is not None:
                        yield found

    def find(self, name: str, *, scope: Scope | None = None) -> tuple[ScopeFolder, str, bytes | None]:
        """Return folder, name and content of the nearest existing document, in one scope or any visible one.

        If there is none, the content is None, and the folder is the one for a new document.
        """
        wanted, scope_folders = self._reach(name, scope)
        for scope_folder in scope_folders:
            content = self._content(scope_folder, wanted)
            if content is not None:
                return scope_folder, wanted, content
        # None exists yet: MEMORY.md begins in global memory, context.md in the project.
        first = next(
            (s for s in scope_folders if s.place.scope is Scope.GLOBAL and wanted == filenames.MEMORY),
            scope_folders[0],
        )
        return first, wanted, None

    def write(self, scope_folder: ScopeFolder, name: str, text: str, *, seen: bytes | None) -> Pinned:
        """Replace the text that the caller has `seen` by a new text, and archive the old text.

        If the document has changed since then, the new text is archived instead, and Conflict is raised.
        """
        at = self.now()
        text = frontmatter.edit(text, {"version": VERSION, "updated": clock.stamp(at)})
        content = self._signed(scope_folder, name, text, seen or b"").encode()

        def put(current: bytes | None) -> bytes:
            if (current or b"") != (seen or b""):
                image = archive.keep(
                    self.home, scope_folder, filenames.PINNED, name, content, why="conflict", at=at
                )
                changed = f"{scope_folder.name_of(name)} changed while it was edited"
                raise Conflict(f"{changed}; your version is saved as {image.path}")
            if current is not None:
                archive.keep(self.home, scope_folder, filenames.PINNED, name, current, why="edit", at=at)
            return content

        return self._replace(scope_folder, name, put, operation="pin", at=at)

    def images(
        self, name: str, *, scope: Scope | None = None
    ) -> tuple[ScopeFolder, str, list[archive.ArchivedVersion]]:
        """Return folder and name of a document, and its archived versions, oldest first."""
        scope_folder, file, content = self.find(name, scope=scope)
        found = archive.images(self.home, scope_folder, filenames.PINNED, file)
        if content is None and not found:  # gone from all folders: the nearest one that ever kept it is meant
            for other in self._reach(name, scope)[1]:
                found = archive.images(self.home, other, filenames.PINNED, file)
                if found:
                    return other, file, found
        return scope_folder, file, found

    def image(
        self, version: str, places: Iterable[Place]
    ) -> tuple[ScopeFolder, str, archive.ArchivedVersion] | None:
        """Find an archived version by its id; return its folder, document name and version, or None."""
        for place in places:
            for name in place.scope.rule.documents:
                for scope_folder in self._scope_folders(place, name):
                    for image in archive.images(self.home, scope_folder, filenames.PINNED, name):
                        if image.id == version:
                            return scope_folder, name, image
        return None

    def newest(
        self, name: str, *, scope: Scope | None = None
    ) -> tuple[ScopeFolder, str, archive.ArchivedVersion]:
        """Return folder, name and the newest archived version that differs from the present content."""
        scope_folder, file, found = self.images(name, scope=scope)
        content = self._content(scope_folder, file)
        for image in reversed(found):
            if self.home.read(*image.parts) != content:
                return scope_folder, file, image
        raise NotFound(f"{scope_folder.name_of(file)} has no other version in the archive")

    def restore(self, scope_folder: ScopeFolder, name: str, image: archive.ArchivedVersion) -> Pinned:
        """Restore an archived version, byte for byte; the present text is archived first."""
        content = self.home.read(*image.parts)
        if content is None:
            raise NotFound(f"{image.path} is gone from the archive")
        at = self.now()

        def put(current: bytes | None) -> bytes:
            if current is not None and current != content:
                archive.keep(self.home, scope_folder, filenames.PINNED, name, current, why="restore", at=at)
            return content

        return self._replace(scope_folder, name, put, operation="restore", at=at)

    def _replace(
        self,
        scope_folder: ScopeFolder,
        name: str,
        put: Callable[[bytes | None], bytes],
        *,
        operation: str,
        at: datetime,
    ) -> Pinned:
        """Replace a document's content by the result of `put` under its lock, and audit and announce this."""
        if not scope_folder.trusted:
            raise Untrusted(f"{scope_folder.top / '.vade'} came with the repository and is not trusted yet")
        path = scope_folder.name_of(name)
        with self.home.lock(f"pinned {path} in {scope_folder.top}"):

            def checked(current: bytes | None) -> bytes:
                after = put(current)
                people.check_loss(self.home, self.caller, current, after, kind=filenames.PINNED)
                strict = operation == "restore"
                kind = filenames.PINNED
                tombstones.check_brought(self.home, self.caller, current, after, kind=kind, strict=strict)
                return after

            with scope_folder.open(create=True) or self.home.folder() as folder:
                written = folder.update(name, checked, mode=scope_folder.file_mode)
            if operation == "pin":  # what comes back was vouched for when it was written, or never
                self._vouch(scope_folder, name, written.after, before=written.before)
            audit.write(
                self.home,
                at=at,
                actor=self.caller.actor,
                client=self.caller.client,
                operation=operation,
                scope=scope_folder.place.scope,
                before=written.before,
                after=written.after,
            )
        self.announce(Change(ChangeKind.WRITTEN, scope_folder.place, path))
        return self._pinned(scope_folder, name, written.after)

    def _signed(self, scope_folder: ScopeFolder, name: str, text: str, seen: bytes) -> str:
        """Return the text with an origin signed under each changed section; a person's edit is not signed.

        The origin is the least trusted of the caller's origin, the one that the section claims, and the
        earlier ones of the same section. An unchanged section keeps its origin.
        """
        if self.caller.origin is Origin.USER:
            return text
        stood = _standing(seen)
        untouched = {(archive.fingerprint(each), each.origin) for each in stood}
        earlier: dict[str, list[Origin]] = {}
        for section in self._with_origins(scope_folder, name, stood):
            earlier.setdefault(archive.fingerprint(section), []).append(section.origin or Origin.USER)
        for section in reversed(document.blocks(text)):
            mark = archive.fingerprint(section)
            if (mark, section.origin) not in untouched:
                claimed = section.origin or self.caller.origin
                text = _sign(text, section, _lowest(claimed, self.caller.origin, *earlier.get(mark, ())))
        return text

    def _vouch(self, scope_folder: ScopeFolder, name: str, content: bytes, *, before: bytes | None) -> None:
        """Log the sections that are not in `before`, as written by the caller."""
        earlier = {archive.fingerprint(each) for each in _standing(before or b"")}
        for section in document.blocks(decode(content)):
            if archive.fingerprint(section) not in earlier:
                signed = replace(section, origin=section.origin or self.caller.origin)
                by = self.caller
                archive.log_entry(self.home, scope_folder, filenames.PINNED, name, signed, record=None, by=by)

    def _reach(self, name: str, scope: Scope | None) -> tuple[str, list[ScopeFolder]]:
        """Return the exact name of a document, and its possible folders, the nearest first."""
        wanted = next((known for known in filenames.DOCUMENTS if known.lower() == name.lower()), None)
        if wanted is None:
            raise NotFound(f"{names.shown(name)} is not a pinned document")
        places = [scopes.place_for(self.caller, scope)] if scope else scopes.visible(self.caller)
        keeping = [place for place in places if wanted in place.scope.rule.documents]
        if not keeping:
            raise NotFound(f"{scope or 'this audience'} has no {wanted}")
        return wanted, [
            scope_folder for place in keeping for scope_folder in self._scope_folders(place, wanted)
        ]

    def _scope_folders(self, place: Place, name: str) -> list[ScopeFolder]:
        """Return a document's possible folders; in a shared folder only `context.md` is possible."""
        scope_folders = scopes.scope_folders(self.home, self.caller, place)
        return [
            scope_folder
            for scope_folder in scope_folders
            if not scope_folder.shared or name == filenames.CONTEXT
        ]

    def _read(self, scope_folder: ScopeFolder, name: str) -> Pinned | None:
        content = self._content(scope_folder, name)
        return None if content is None else self._pinned(scope_folder, name, content)

    def _content(self, scope_folder: ScopeFolder, name: str) -> bytes | None:
        folder = scope_folder.open()
        if folder is None:
            return None
        with folder:
            return folder.read(name)

    def _pinned(self, scope_folder: ScopeFolder, name: str, content: bytes) -> Pinned:
        text = decode(content)
        front = frontmatter.parse(text)
        body = text[front.body :]
        size, budget = self.measure(scope_folder.place.scope, name, body)
        updated = front.values.get("updated")
        return Pinned(
            scope_folder.place,
            name,
            scope_folder.name_of(name),
            body.strip(),
            None if updated is None else str(updated),
            size,
            budget,
            scope_folder.trusted,
            self._with_origins(scope_folder, name, document.blocks(text)),
            front.values.get("sources"),
        )

    def _with_origins(
        self, scope_folder: ScopeFolder, name: str, sections: Iterable[Entry]
    ) -> tuple[Entry, ...]:
        """Return the sections with reliable origins; in a shared folder, a signature raises no trust."""
        known: dict[str, Origin | None] = {}
        if scope_folder.shared and scope_folder.trusted:
            for _, entry in archive.kept(self.home, scope_folder, filenames.PINNED, name):
                known[archive.fingerprint(entry)] = entry.origin
        found = []
        for section in sections:
            origin = section.origin or Origin.USER
            if scope_folder.shared:
                vouched = known.get(archive.fingerprint(section))
                origin = document.least_known(section.origin) if vouched is None else _lowest(origin, vouched)
            found.append(replace(section, origin=origin))
        return tuple(found)

    def measure(self, scope: Scope, name: str, body: str) -> tuple[int, int]:
        """Return a document's size and its budget, in the document's unit (bytes or characters)."""
        if name == filenames.CONTEXT:
            kib = (
                self.budgets.project_context_kib
                if scope is Scope.PROJECT
                else self.budgets.global_context_kib
            )
            return len(body.encode()), kib * 1024
        return len(
            body
        ), self.budgets.memory_chars if name == filenames.MEMORY else self.budgets.profile_chars


def _standing(content: bytes) -> list[Entry]:
    """Return the sections of a document; none when it cannot be parsed."""
    try:
        return document.blocks(decode(content))
    except Malformed:
        return []


def _lowest(*origins: Origin) -> Origin:
    """Return the least trusted of several origins."""
    return max(origins, key=lambda each: each.rank)


def _sign(text: str, section: Entry, origin: Origin) -> str:
    """Return the text with this origin as the last line of a section."""
    newline = frontmatter.line_ending(text)
    lines = (text if text.endswith("\n") else text + newline).split("\n")
    # A signature alone is no section: that tells one from a last line of text, which must stay.
    signed = not document.blocks(lines[section.end - 1])
    lines[section.end - signed : section.end] = [f"<!-- origin: {origin} -->{newline[:-1]}"]
    return "\n".join(lines)
