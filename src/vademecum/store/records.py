"""Records: one file for each topic, with dated entries inside, and the rules for adding a text to them."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from vademecum import fields
from vademecum.errors import (
    Ambiguous,
    Collision,
    Conflict,
    Malformed,
    NotFound,
    OutsideMemory,
    Untrusted,
    VadeError,
)
from vademecum.lazy import LazyModule
from vademecum.named_tuple import NamedTuple
from vademecum.store import (
    archive,
    audit,
    copies,
    decisions,
    files,
    merge,
    people,
    scopes,
    short_numbers,
    teams,
    tombstones,
)
from vademecum.store.catalogue import Catalogue, Digest, Fact, Facts
from vademecum.store.merge import Draft, Joining, Known, may_supersede, saying
from vademecum.store.view import request_view
from vademecum.text import clock, document, filenames, frontmatter, is_same_text, names
from vademecum.text.document import decode
from vademecum.types import (
    Change,
    ChangeKind,
    Entry,
    Finding,
    Merged,
    Origin,
    Outcome,
    Record,
    RecordType,
    Stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from vademecum.config import Dedup
    from vademecum.store.backend import Directory
    from vademecum.store.home import Home, ScopeFolder
    from vademecum.text import similarity
    from vademecum.types import Place, Scope
else:
    similarity = LazyModule("vademecum.text.similarity")  # word lists that only a text without a key needs

_WHERE = ("key", "num", "scope", "scope_id", "aliases")  # fields that tell where a record is
_AT_ONCE = timedelta(seconds=10)  # the most time between `updated` in a record and the end of its write
_BEGINNING = 80  # characters of a superseded wording that are told


class Found(NamedTuple):
    """A record and the file from which it was read.

    If `part` is set, the file is a consolidation, and the record has only the entries of that part.
    """

    record: Record
    scope_folder: ScopeFolder
    name: str
    part: str = ""


class Listed(NamedTuple):
    """A record's file, and the value of one fact about the record."""

    scope_folder: ScopeFolder
    name: str
    fact: Any


class Records:
    """The records that a caller can reach."""

    __slots__ = "announce", "caller", "catalogue", "home", "now"

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        now: Callable[[], datetime],
        announce: Callable[[Change], None],
        catalogue: Catalogue,
    ) -> None:
        self.home, self.caller, self.catalogue = home, caller, catalogue
        self.now, self.announce = now, announce

    def for_caller(self, caller: scopes.Caller) -> Records:
        """Return the records that another caller can reach."""
        return Records(self.home, caller, self.now, self.announce, self.catalogue)

    # ---------------------------------------------------------------- reading

    def all(self, places: Iterable[Place]) -> Iterator[Found | Finding]:
        """Yield every record of these places; an unreadable file yields a finding, and the others follow."""
        for place in places:
            for scope_folder in scopes.scope_folders(self.home, self.caller, place):
                yield from self.on(scope_folder)

    def on(self, scope_folder: ScopeFolder) -> Iterator[Found | Finding]:
        """Yield every record of one folder; an unreadable file yields a finding."""
        try:
            folder = scope_folder.open(filenames.RECORDS)
        except (OutsideMemory, NotADirectoryError) as error:
            yield _no_folder(scope_folder, error)
            return
        if folder is None:
            return
        with folder:
            for name in in_folder(folder):
                try:
                    content = folder.read(name)
                    if content is not None:
                        yield Found(self.parse(scope_folder, name, content), scope_folder, name)
                except (Malformed, OutsideMemory, OSError) as error:
                    files.note_trouble(error)
                    yield _unreadable(scope_folder, name, error)

    def facts(self, scope_folder: ScopeFolder, fact: Fact, *, only: Collection[str] | None = None) -> Facts:
        """Return the values of a fact for the records of a folder; with `only`, just for these file names.

        Records whose values are cached are not read.
        """
        folder = scope_folder.open(filenames.RECORDS)
        if folder is None:
            return Facts({}, {}, {})
        with folder:
            make = functools.partial(fact.of, self, scope_folder)
            return self.catalogue.known(
                scope_folder, folder, fact, make, wanted=filenames.is_record, only=only
            )

    def known(self, places: Iterable[Place], fact: Fact) -> Iterator[tuple[ScopeFolder, Facts] | Finding]:
        """Yield each folder of these places with a fact's values for its records; a finding if unreadable."""
        for place in places:
            for scope_folder in scopes.scope_folders(self.home, self.caller, place):
                try:
                    yield scope_folder, self.facts(scope_folder, fact)
                except (OutsideMemory, NotADirectoryError) as error:
                    yield _no_folder(scope_folder, error)

    def listed(self, places: Iterable[Place], fact: Fact) -> Iterator[Listed | Finding]:
        """Yield the records of these places for which a fact has a value, sorted as `all` yields them.

        Unreadable files and folders yield findings.
        """
        for each in self.known(places, fact):
            if isinstance(each, Finding):
                yield each
                continue
            scope_folder, known = each
            telling = [name for name, value in known.facts.items() if value]
            for name in sorted((*telling, *known.failed)):
                if name in known.failed:
                    yield _unreadable(scope_folder, name, known.failed[name])
                else:
                    yield Listed(scope_folder, name, known.facts[name])

    def unreadable(self, scope_folder: ScopeFolder, known: Facts) -> list[Finding]:
        """Return findings for the files of a folder that could not be read."""
        return [_unreadable(scope_folder, name, known.failed[name]) for name in sorted(known.failed)]

    def digests(self, places: Iterable[Place]) -> list[tuple[ScopeFolder, Digest]]:
        """Return a digest of the records for each folder of these places that has any."""
        found = []
        for place in places:
            for scope_folder in scopes.scope_folders(self.home, self.caller, place):
                folder = scope_folder.open(filenames.RECORDS)
                if folder is not None:
                    with folder:
                        found.append((scope_folder, self.catalogue.digest(folder, filenames.is_record)))
        return found

    def parse(self, scope_folder: ScopeFolder, name: str, content: bytes) -> Record:
        """Parse a record from its bytes."""
        parsed = document.parse(decode(content))
        record = _from_front(scope_folder, name, parsed.front.values)
        entries = self._with_origins(scope_folder, name, parsed.entries)
        return replace(record, title=record.title or parsed.title or record.key, entries=entries)

    def dated(self, found: Found) -> Record:
        """Return a record with the time of its file as `updated`, if somebody changed it by hand since then.

        After a write of the program, the file is about as old as `updated`, or the audit has the hash of its
        text. Files of a repository are left out, since a checkout changes their times.
        """
        record, updated = found.record, clock.parse(found.record.updated)
        if updated is None or record.id is None or found.scope_folder.shared or found.part:
            return record
        folder = found.scope_folder.open(filenames.RECORDS)
        if folder is None:
            return record
        with folder:
            state = folder.stat(found.name)
            saved = None if state is None else clock.from_seconds(state.st_mtime)
            if saved is None or saved - updated <= _AT_ONCE:
                return record
            content = folder.read(found.name)
        if content is None or not audit.is_changed_by_hand(self.home, record.id, content):
            return record
        return replace(record, updated=clock.stamp(saved))

    def find(self, name: str, *, scope: Scope | None = None, only: bool = False) -> Found:
        """Return the record with this key, number, id or path, in one scope or in all visible ones.

        Of several records with the key, return the nearest; with `only`, raise Ambiguous. Several records
        with the number or id always raise Ambiguous.
        """
        places = [scopes.place_for(self.caller, scope)] if scope else scopes.visible(self.caller)
        with request_view():
            found = list(self._named(name.removeprefix("#"), places))
        if not found:
            where = f" in {scope} memory" if scope else ""
            key = name.removesuffix(".md")
            hint = self._hint_of_archive(key, places) if names.is_key(key) else ""
            raise NotFound(f"no record {names.shown(name)}{where}", hint=hint or NotFound.hint)
        # A key is the nearest one's; a number or an id is one record's alone, and never quietly another's.
        shared = len(found) > 1 and found[0].record.key != name.removesuffix(".md")
        if len(found) > 1 and (only or (shared and self._is_number(name))):
            listed = ", ".join(self._unique_name(each, found) for each in found)
            raise Ambiguous(
                f"{names.shown(name)} names {len(found)} records: {listed}",
                hint="use one of these names instead; `vade check` shows which are copies",
            )
        return found[0]

    def _is_number(self, name: str) -> bool:
        number = name.removeprefix("#")
        return number.isdecimal() or names.is_id(number)

    def _unique_name(self, found: Found, among: Sequence[Found]) -> str:
        """Return a name that only this record has: its key, if needed with its scope, else its path."""
        record = found.record
        alike = [each for each in among if each.record.key == record.key]
        here = [each for each in alike if each.record.place.scope is record.place.scope]
        own = self._file_of(found.scope_folder, record.key) == found.name if len(here) == 1 else False
        if not own:
            return record.path
        return record.key if len(alike) == 1 else f"{record.key} --scope {record.place.scope}"

    def raw(self, key: str, *, scope: Scope | None = None) -> Found | None:
        """Return the file of a key without reading it, so that a person can repair it; None if missing."""
        places = [scopes.place_for(self.caller, scope)] if scope else scopes.visible(self.caller)
        for scope_folder in self._scope_folders(places):
            name = self._file_of(scope_folder, key.removesuffix(".md"))
            if name is not None:
                path = scope_folder.name_of(filenames.RECORDS, name)
                blank = Record(
                    filenames.key_of(name), scope_folder.place, path, str(RecordType.PROJECT), key, ()
                )
                return Found(blank, scope_folder, name)
        return None

    def living(self, places: Iterable[Place]) -> Iterator[tuple[str, str | None]]:
        """Yield the key and id of every record in trusted folders of these places."""
        for scope_folder in self._scope_folders(places):
            if scope_folder.trusted:
                yield from (
                    (filenames.key_of(name), label[_ID]) for name, label in self._labels(scope_folder).items()
                )

    def lost(self, found: Found) -> list[Entry]:
        """Return the acknowledged entries of a record that an edit has removed from its file."""
        if found.part:
            return []  # its own file is in the archive, whole
        return archive.missing(
            self.home,
            found.scope_folder,
            filenames.RECORDS,
            found.name,
            found.record.entries,
            record=found.record.id,
        )

    # ---------------------------------------------------------------- writing

    def store(self, draft: Draft, *, scope: Scope, key: str | None, dedup: Dedup) -> Stored:
        """Save a text under a key.

        Without a key, save it in a recent record that says nearly the same, or in a new record.
        """
        place = scopes.place_for(self.caller, scope)
        scope_folders = scopes.scope_folders(self.home, self.caller, place)
        if draft.team:
            scope_folders = [
                scope_folder for scope_folder in scope_folders if scope_folder.workspace == draft.team
            ]
            scope_folders = [scope_folder._replace(writes=True) for scope_folder in scope_folders]
        if key is not None:
            with request_view():
                scope_folder, name, fresh = self._answering(scope_folders, key)
            return self._write(scope_folder, name, draft, fresh=fresh)
        scope_folders = teams.only_own(
            scope_folders
        )  # a text that merely resembles a team's is not told to the team
        # One at a time per place, or two processes would each find no near-duplicate of the other's text.
        with self.home.lock(f"place {place}"):
            with request_view():
                near = self._near_duplicate(scope_folders, draft.text, dedup)
                if near is None:
                    draft = draft._replace(wanted=names.key_from(draft.text))
                    scope_folder, name, fresh = self._free_key(scope_folders, draft)
            if near is not None:
                found, entry = near
                allowed = may_supersede(found.record, entry, origin=self.caller.origin)
                draft = draft._replace(mode="append")  # what it replaces is decided here
                supersede = entry.text if allowed else None
                return self._write(found.scope_folder, found.name, draft, supersede=supersede)
            return self._write(scope_folder, name, draft, fresh=fresh)

    def learn(
        self,
        draft: Draft,
        *,
        scope: Scope,
        likely: Callable[[bytes], bool],
        known: Callable[[Iterable[Record]], Known | None],
    ) -> Stored:
        """Save a lesson in the record of its type that already has it, or in a new record.

        `known` picks that record from the records whose files are `likely` to hold the lesson.
        """
        place = scopes.place_for(self.caller, scope)
        scope_folders = teams.only_own(scopes.scope_folders(self.home, self.caller, place))
        # One at a time per place, or two processes would each find the lesson new.
        with self.home.lock(f"place {place}"):
            of_type = self.typed(scope_folders, str(draft.type), likely=likely)
            listed = {each.record.path: each for each in of_type}
            match = known(each.record for each in listed.values())
            if match is None:
                return self.begin(scope_folders, draft)
            found = listed[match.record.path]
            scope_folder, name = found.scope_folder, found.name
            if is_same_text(draft.text, match.entry.text):
                return self._write(scope_folder, name, draft)
            outdone = next((e for e in match.record.entries if is_same_text(e.text, draft.text)), None)
            if outdone is not None:  # said before, in words that others have replaced: those are confirmed
                return self._write(scope_folder, name, draft._replace(text=match.entry.text), heard=outdone)
            if match.stays or self.holds(listed[match.record.path]):
                return self._write(scope_folder, name, draft, yields=True)
            return self._write(scope_folder, name, draft, supersede=match.entry.text)

    def as_own_record(self, found: Found) -> Found:
        """Return a record that can be changed separately; a part of a consolidation is restored first."""
        if not found.part:
            return found
        self._check_writable(found.scope_folder)
        return self.load(*self._revive(found))

    def join(self, found: Found, draft: Draft) -> Stored:
        """Add a text to the given record."""
        return self._write(found.scope_folder, found.name, draft)

    def typed(
        self, scope_folders: Iterable[ScopeFolder], *types: str, likely: Callable[[bytes], bool] = bool
    ) -> Iterator[Found]:
        """Yield the records of these types in trusted folders for whose content `likely` is true."""
        for scope_folder in scope_folders:
            folder = scope_folder.open(filenames.RECORDS) if scope_folder.trusted else None
            if folder is None:
                continue
            with folder:
                labels = self._labels(scope_folder)
                for name in sorted(name for name, label in labels.items() if label[_TYPE] in types):
                    with contextlib.suppress(Malformed, OutsideMemory, OSError):  # told by the listing
                        content = folder.read(name)
                        if content is not None and likely(content):
                            yield Found(self.parse(scope_folder, name, content), scope_folder, name)

    def begin(self, scope_folders: Sequence[ScopeFolder], draft: Draft) -> Stored:
        """Save a text in a new record, under the first free key made from its words."""
        wanted = names.key_from(draft.name or draft.text)
        draft = draft._replace(wanted=wanted)
        for number in range(1, 10_000):
            scope_folder, name, _ = self._locate(
                scope_folders, wanted if number == 1 else names.numbered(wanted, number)
            )
            folder = scope_folder.open(filenames.RECORDS)
            if folder is None:
                return self._write(scope_folder, name, draft)
            with folder:
                exists = folder.stat(name) is not None
            if not exists and not self._is_alias(filenames.key_of(name), scope_folders):
                return self._write(scope_folder, name, draft, fresh=True)
        raise Collision(f"there are too many records called {wanted}", hint="forget some of them")

    def revise(
        self, found: Found, change: Callable[[Mapping[str, Any]], dict[str, Any]], *, operation: str
    ) -> Record:
        """Set frontmatter fields to values computed by `change` from the current ones."""

        def edit(text: str) -> str:
            return frontmatter.edit(text, change(frontmatter.parse(text).values))

        return self._rewrite(found, edit, operation=operation)

    def said(self, record: Record) -> Mapping[str, tuple[str, ...]]:
        """Return the sessions that said each entry of a record, by fingerprint."""
        return self._logged(record, archive.said)

    def writers(self, record: Record) -> Mapping[str, Mapping[str, str]]:
        """Return the writer and program of each entry that no person wrote, by fingerprint."""
        return self._logged(record, archive.writers)

    def _logged(
        self, record: Record, read_log: Callable[..., Mapping[tuple[str | None, str], Any]]
    ) -> Mapping[str, Any]:
        """Return the log's values for the entries of a record, by fingerprint."""
        for scope_folder in scopes.scope_folders(self.home, self.caller, record.place):
            name = record.path.rpartition("/")[2]
            if scope_folder.name_of(filenames.RECORDS, name) == record.path:
                found = read_log(self.home, scope_folder, filenames.RECORDS, name)
                return {mark: each for (owner, mark), each in found.items() if owner == record.id}
        return {}

    def change_fields(self, found: Found, fields: dict[str, Any], *, operation: str) -> Record:
        """Set frontmatter fields of a record, and change nothing else."""

        def edit(text: str) -> str:
            return frontmatter.edit(text, fields)

        return self._rewrite(found, edit, operation=operation)

    def replace_text(self, found: Found, seen: bytes, text: str, *, operation: str) -> Record:
        """Replace a record's text, as the caller has `seen` it, by an edited text; archive the old text.

        If the file has changed since then, the edited text is archived instead, and Conflict is raised.
        """
        self._check_writable(found.scope_folder)
        edited = self._stamped(self._sign_changes(text, seen), seen)

        def put(current: bytes | None) -> str:
            if current != seen:
                image = self._archive(found, edited.encode(), "conflict")
                changed = f"{found.record.path} changed while it was edited"
                raise Conflict(f"{changed}; your version is saved as {image.path}")
            return edited

        with self.locked(found.scope_folder, found.name):
            with self._folder(found.scope_folder) as folder:
                put(folder.read(found.name))
            reworded = self._reworded(found, seen, edited)
            self._archive(found, seen, operation)
            record = self._apply(found, lambda current: put(current.encode()), operation=operation)
            self._log_edit(found, seen, edited, record=record.id)
            at_file = self.home, found.scope_folder, filenames.RECORDS, found.name
            archive.log_removed(*at_file, reworded, record=record.id)
        return self.parse(found.scope_folder, found.name, edited.encode())

    def _stamped(self, text: str, seen: bytes) -> str:
        """Return an edited record with the edit's time and writer in its frontmatter.

        A record without an id, and a time or writer that the edit itself changed, stay as they are.
        """
        try:
            before, after = frontmatter.parse(decode(seen)).values, frontmatter.parse(text).values
        except Malformed:
            return text
        typed = any(before.get(each) != after.get(each) for each in ("updated", "generated"))
        if text.encode() == seen or typed or not after.get("id"):
            return text
        at = clock.stamp(self.now())
        return frontmatter.edit(text, {"updated": at, "generated": {**self.caller.provenance, "at": at}})

    def _reworded(self, found: Found, seen: bytes, edited: str) -> list[Entry]:
        """Return the entries that were reworded by hand before an edit of a person.

        The person saves the new wording, so these entries are not reported as lost. Entries that are no
        longer in the file at all are not among them.
        """
        if self.caller.origin is not Origin.USER:
            return []
        entries, after = _entries(seen), document.parse(edited).entries
        at_file = self.home, found.scope_folder, filenames.RECORDS, found.name
        lost = archive.missing(*at_file, entries, record=found.record.id)
        marks = {each.id for each in after if each.id}
        times = {each.time for each in after}
        return [each for each in lost if (each.id in marks if each.id else each.time in times)]

    def tidy(self, place: Place) -> None:
        """Remove the leftovers of killed writers in the trusted folders of a place."""
        for scope_folder in scopes.scope_folders(self.home, self.caller, place):
            folder = scope_folder.open(filenames.RECORDS) if scope_folder.trusted else None
            if folder is not None:
                with folder:
                    folder.sweep()

    def forget(self, found: Found, *, operation: str = "forget") -> archive.ArchivedVersion:
        """Move a record to the archive; if it was found as part of a consolidation, only that part."""
        self._check_writable(found.scope_folder)
        if found.part:
            return self._forget_part(found, operation)
        image: archive.ArchivedVersion | None = None

        def keep(content: bytes) -> None:
            nonlocal image
            people.check_loss(self.home, self.caller, content, None)
            image = self._archive(found, content, operation)

        with self.locked(found.scope_folder, found.name), self._folder(found.scope_folder) as folder:
            folder.sweep()
            since = archive.changed_by_hand(self.home, found.scope_folder, folder, found.name)
            holders = self.holding(found.scope_folder, filenames.key_of(found.name))
            content = folder.remove(found.name, keep)
            if content is None or image is None:
                raise NotFound(f"{found.record.path} is already deleted")
            self._audit(operation, found.record, before=content, since=since)
        self.announce(Change(ChangeKind.REMOVED, found.scope_folder.place, found.record.path))
        self.release(holders, filenames.key_of(found.name))  # or its earlier text would answer in its place
        return image

    def restore(
        self, scope_folder: ScopeFolder, name: str, image: archive.ArchivedVersion, *, follow: bool = False
    ) -> Record:
        """Restore an archived version, byte for byte; a record now in its place is archived first.

        With `follow`, the version of a record that was renamed or moved since then is written to the
        record's present file, and the record's key, number and scope stay.
        """
        self._check_writable(scope_folder)
        content = (
            self._rebuilt(scope_folder, name) if image.why == archive.KEPT else self.home.read(*image.parts)
        )
        if content is None:
            raise NotFound(f"{image.path} is gone from the archive")
        there = self._elsewhere(scope_folder, name, document.record_id(content)) if follow else None
        if there is not None:
            self._check_writable(there.scope_folder)
            scope_folder, name = there.scope_folder, there.name
            labels = {each: there.record.fields.get(each) for each in _WHERE}
            content = frontmatter.edit(decode(content), labels).encode()
        with self.locked(scope_folder, name), self._folder(scope_folder, create=True) as folder:
            record = self.parse(scope_folder, name, content)
            after, _ = self._without_claims(scope_folder, name, content, record.id)
            if folder.stat(name) is None:
                self._check_free(folder, name)

            def put(current: bytes | None) -> bytes:
                people.check_loss(self.home, self.caller, current, after)
                tombstones.check_brought(self.home, self.caller, current, after, strict=True)
                if current is not None and current != after:
                    same = document.record_id(current) == record.id
                    why = "restore" if same else "retire"  # another record is archived, and can be restored
                    self._archive(Found(record, scope_folder, name), current, why)
                return after

            since = archive.changed_by_hand(self.home, scope_folder, folder, name)
            holders = self.holding(scope_folder, record.key)
            written = folder.update(name, put, mode=scope_folder.file_mode)
            record = self.parse(scope_folder, name, after)
            self._audit_restored(record, written, since=since)
            before = written.before
            if before is not None and document.record_id(before) == record.id:
                self._log_edit(Found(record, scope_folder, name), before, decode(after), record=record.id)
        self.announce(Change(ChangeKind.WRITTEN, scope_folder.place, record.path))
        self.release(holders, record.key)
        return record

    def _without_claims(
        self, scope_folder: ScopeFolder, name: str, content: bytes, record: str | None
    ) -> tuple[bytes, tuple[str, ...]]:
        """Return an archived version without decisions of a person that were undone since then."""
        if self.caller.decides:
            return content, ()
        found = scope_folder.read(filenames.RECORDS, name)
        last = self._last_version(scope_folder, name, record) if found is None else None
        before = found if last is None else last.encode()
        text, dropped = people.without_claims(self.caller, before, decode(content))
        return text.encode(), dropped

    def _elsewhere(self, scope_folder: ScopeFolder, name: str, record: str | None) -> Found | None:
        """Return the record with this id if it is now in another file, else None."""
        if record is None:
            return None
        folders = [each for each in self._scope_folders(scopes.visible(self.caller)) if each.trusted]
        found = [each for each in self._with_number(record, folders) if not each.part]
        here = [each for each in found if (each.scope_folder, each.name) == (scope_folder, name)]
        return found[0] if len(found) == 1 and not here else None

    def _audit_restored(self, record: Record, written: files.Written, *, since: datetime | None) -> None:
        """Audit that a version is restored and, if another record was in its place, that it is archived."""
        before = written.before
        other = None if before is None else document.record_id(before)
        if before is not None and other != record.id:
            with contextlib.suppress(Malformed):
                gone = self._labelled_as(record, before)
                self._audit("retire", gone, before=before, since=since)
            before = None
        self._audit("restore", record, before=before, after=written.after, since=since)

    def _labelled_as(self, record: Record, content: bytes) -> Record:
        """Return a record with the id and number of the content that was in its file."""
        values = frontmatter.parse(decode(content)).values
        typed = fields.read_typed(values)
        return replace(record, id=typed["id"], num=typed["num"])

    def restore_entries(self, found: Found, lost: Sequence[Entry]) -> Record:
        """Insert entries that an edit had removed into the record, in order of time."""

        def edit(text: str) -> str:
            for entry in lost:
                text = document.insert(text, entry)
            return text

        return self._rewrite(found, edit, operation="restore")

    # ---------------------------------------------------------------- parts

    def _write(
        self,
        scope_folder: ScopeFolder,
        name: str,
        draft: Draft,
        *,
        supersede: str | None = None,
        yields: bool = False,
        heard: Entry | None = None,
        fresh: bool = False,
    ) -> Stored:
        """Add a text to the record in this file, or create the record with the text.

        `supersede` is the text of an entry that the new one supersedes. With `yields`, the new entry is saved
        as already superseded. `heard` is an entry with the caller's own words, if these confirm a different
        entry. `fresh` states that no record has this key. A record that was consolidated is first restored as
        a separate record.
        """
        self._prepare(scope_folder)
        at = self.now()
        stamp = clock.stamp(at)
        purged = tombstones.check(self.home, self.caller, draft.text)
        entry = Entry(
            draft.text,
            stamp,
            self.caller.origin,
            stamp if yields else None,
            cites=draft.cites or None,
            id=names.new_mark(),
        )
        seen = _no_copies(short_numbers.read_labels(self._numbered_folders(), wanted=filenames.is_record))
        with self.locked(scope_folder, name), self._folder(scope_folder, create=True) as folder:
            current = folder.read(name)
            since = archive.changed_by_hand(self.home, scope_folder, folder, name)
            part_record = None if fresh else self._consolidated_part(scope_folder, name, current)
            holders = self.holding(scope_folder, part_record.part) if part_record is not None else []
            back = self._content_of(part_record) if part_record is not None and current is None else None
            if current is None:
                self._check_free(folder, name)
                current = back
            num = self._number(scope_folder, name, current, above=short_numbers.highest(seen))
            join = Joining(
                draft,
                entry,
                caller=self.caller,
                place=scope_folder.place,
                key=filenames.key_of(name),
                num=num,
                id=names.new_id(),
                supersede=supersede,
                verified=self._verified if people.is_bound(self.caller) else None,
            )
            if current is not None and (draft.mode == "replace" or since is not None):
                # The earlier version is saved first: an edit by hand is in no other file.
                archive.keep(self.home, scope_folder, filenames.RECORDS, name, current, why=draft.mode, at=at)
            written = folder.update(
                name, lambda found: join(back if found is None else found), mode=scope_folder.file_mode
            )
            if back is not None and written.before is None:
                self._log_back(scope_folder, name, back)
                written = written._replace(before=back)
            record = self._labelled(scope_folder, name, written.after)
            self._log(scope_folder, name, join, record=record.id, heard=heard)
            if heard is None:
                self._vouch(scope_folder, join)
            if purged is not None:
                tombstones.lift(self.home, draft.text, at=stamp)
            done = join.outcome if join.beside is None or join.said is not None else Outcome.APPENDED
            self._audit(str(done), record, before=written.before, after=written.after, since=since)
        if part_record is not None and _says_all(written.before, part_record.record):
            self.release(holders, part_record.part)
        self.announce(Change(ChangeKind.WRITTEN, scope_folder.place, record.path))
        merged = _merged(record, join)
        record = self._settled(record, seen)
        result = Stored(
            join.outcome,
            record.key,
            record.num,
            record.id,
            scope_folder.place,
            record.path,
            team=scope_folder.team,
        )
        return result._replace(beside=join.beside, merged=merged, purged=purged.at if purged else "")

    def _verified(self, text: str) -> bool:
        return decisions.verified(self.home, text)

    def check_purged(self, text: str) -> None:
        """Raise an error for a text that a person has purged."""
        found = tombstones.find(self.home, text)
        if found is not None:
            raise tombstones.refused(found)

    def holds(self, found: Found) -> bool:
        """Return whether the caller must not change the record, because it has texts of a person."""
        if not people.is_bound(self.caller):
            return False
        with self._folder(found.scope_folder) as folder:
            content = folder.read(found.name)
        return content is not None and bool(people.barred(self.home, self.caller, content, None))

    def settle(self, found: Found, *, old: str, new: str, labels: Mapping[str, Any]) -> Record:
        """Mark the entry with the text `old` as superseded by the entry `new`, as a person decided.

        `labels` are frontmatter fields to set. If one of the entries no longer holds, Conflict is raised.
        """
        at = clock.stamp(self.now())

        def edit(text: str) -> str:
            parsed = document.parse(text)
            living = {parsed.text_of(each): index for index, each in enumerate(parsed.sections) if each.live}
            if old not in living or new not in living:
                raise Conflict(
                    f"{found.record.key} was changed after it was asked for",
                    hint="nothing was done; reject it, and ask again",
                )
            parsed = document.parse(document.sign(parsed, living[new], contradicts=""))
            text = document.sign(parsed, living[old], superseded=at)
            return frontmatter.edit(text, dict(labels)) if labels else text

        with self.locked(found.scope_folder, found.name):
            with self._folder(found.scope_folder) as folder:
                seen = folder.read(found.name)
            if seen is not None:
                self._archive(found, seen, "replace")
            record = self._apply(found, edit, operation=str(Outcome.REPLACED))
            at_file = self.home, found.scope_folder, filenames.RECORDS, found.name
            archive.log_superseded(*at_file, record.entries, record=record.id)
        return record

    def _numbered_folders(self) -> list[ScopeFolder]:
        """Return the visible folders whose records this home numbers: trusted ones that are not shared."""
        scope_folders = self._scope_folders(scopes.visible(self.caller))
        return [*dict.fromkeys(each for each in scope_folders if each.trusted and not each.shared)]

    def _settled(self, record: Record, seen: Sequence[short_numbers.Label]) -> Record:
        """Give duplicate records new numbers and ids; return `record`, renumbered if it is one of them."""
        for copy in short_numbers.find_copies(seen):
            # The text is kept: whatever keeps a copy from being told apart now, the next write tries again.
            with contextlib.suppress(VadeError, OSError):
                result = self._renumber_copy(copy, above=short_numbers.highest(seen))
                record = result if result is not None and result.path == record.path else record
        return record

    def _renumber_copy(self, copy: short_numbers.Copy, *, above: int) -> Record | None:
        """Give a duplicate record a new number or id; return None when its file has changed meanwhile."""
        label = copy.label
        if label.scope_folder is None:
            return None
        found = self.load(label.scope_folder, label.name)
        if (copy.num and found.record.num != label.num) or (copy.id and found.record.id != label.id):
            return None
        changes: dict[str, Any] = {}
        if copy.num:
            changes["num"] = short_numbers.allocate(self.home, above=above)
        if copy.id:
            changes["id"] = names.new_id()
        return self.change_fields(found, changes, operation="renumber")

    def _log(
        self,
        scope_folder: ScopeFolder,
        name: str,
        join: Joining,
        *,
        record: str | None,
        heard: Entry | None = None,
    ) -> None:
        """Log the new entry; of a confirmed entry log the session, and the entry if it has no line yet.

        A confirmed entry has no line if logging failed earlier, or while another session is saving the entry.
        """
        entry, by = join.entry, self.caller.speaker
        if join.said is not None:
            # In the home the file says whose it was first. In a shared folder it may say anything: there a
            # person's word makes it theirs, and an agent's repetition does not make it the agent's.
            own = self.caller.origin if self.caller.origin is Origin.USER else Origin.EXTERNAL
            entry = replace(join.said, origin=own if scope_folder.shared else join.said.origin or Origin.USER)
            words = entry if heard is None else heard
            if archive.log_session(
                self.home, scope_folder, filenames.RECORDS, name, words, record=record, by=by
            ):
                return
        # The entry goes last: once it is there, nothing of this is logged again.
        archive.log_superseded(
            self.home, scope_folder, filenames.RECORDS, name, join.superseded, record=record
        )
        archive.log_entry(
            self.home, scope_folder, filenames.RECORDS, name, entry, record=record, by=self.caller
        )

    def _vouch(self, scope_folder: ScopeFolder, join: Joining) -> None:
        """Record a verification when a person repeats an entry that may not be a person's."""
        if self.caller.origin is not Origin.USER or join.said is None:
            return
        if scope_folder.shared or (join.said.origin or Origin.USER) is not Origin.USER:
            at = clock.stamp(self.now())
            decisions.verify(self.home, join.said.text, at=at, by=self.caller.actor)

    def _log_edit(self, found: Found, seen: bytes, edited: str, *, record: str | None) -> None:
        """Log the entries that an edit through this program added, and the entries it removed."""
        before, after = _entries(seen), document.parse(edited).entries
        earlier = {archive.fingerprint(entry) for entry in before}
        now = {archive.fingerprint(entry) for entry in after}
        at = self.home, found.scope_folder, filenames.RECORDS, found.name
        for entry in after:
            if archive.fingerprint(entry) not in earlier:
                archive.log_entry(*at, entry, record=record)
        gone = [entry for entry in before if archive.fingerprint(entry) not in now]
        archive.log_removed(*at, gone, record=record)
        archive.log_superseded(*at, after, record=record)  # a person may have set or lifted a mark

    def _rebuilt(self, scope_folder: ScopeFolder, name: str) -> bytes:
        """Rebuild a deleted record from its newest archived version and the log of its entries."""
        at = self.home, scope_folder, filenames.RECORDS, name
        log = [*archive.kept(*at)]
        record = log[-1][0] if log else None
        living = self._with_number(record or "", self._scope_folders(scopes.visible(self.caller)))
        moved = next((each for each in living if each.scope_folder.trusted), None)
        if moved is not None:
            raise Collision(
                f"{filenames.key_of(name)} was merged into {moved.record.key}", hint="nothing is lost"
            )
        text = self._last_version(scope_folder, name, record)
        if text is None:
            entries = [entry for owner, entry in log if owner == record]
            text = self._bare(scope_folder, name, record, entries)
        for entry in archive.missing(*at, document.parse(text).entries, record=record):
            text = document.insert(text, entry)
        return text.encode()

    def _last_version(self, scope_folder: ScopeFolder, name: str, record: str | None) -> str | None:
        """Return the newest readable archived version with this record id; None if there is none."""
        for image in reversed(archive.images(self.home, scope_folder, filenames.RECORDS, name)):
            content = self.home.read(*image.parts) or b""
            try:
                if self._labelled(scope_folder, name, content).id == record:
                    return document.parse(decode(content)).source
            except Malformed:
                continue
        return None

    def _bare(
        self, scope_folder: ScopeFolder, name: str, record: str | None, entries: Sequence[Entry]
    ) -> str:
        """Return a record's text made only from the log of its entries."""
        times = sorted(entry.time for entry in entries if entry.time)
        values = {
            "type": str(RecordType.PROJECT),
            "id": record,
            "num": short_numbers.number_of(self.home, record) or self._number(scope_folder, name, None),
            "key": filenames.key_of(name),
            "created": times[0] if times else None,
            "updated": times[-1] if times else None,
        }
        text = frontmatter.edit(f"# {filenames.key_of(name)}\n\n", values)
        undated = [entry for entry in entries if entry.time is None]
        if not undated:
            return text
        text += document.escape(undated[-1].text) + "\n"
        return document.sign(document.parse(text), 0, origin=undated[-1].origin)

    def _rewrite(self, found: Found, edit: Callable[[str], str], *, operation: str) -> Record:
        self._check_writable(found.scope_folder)
        with self.locked(found.scope_folder, found.name):
            return self._apply(found, edit, operation=operation)

    def _apply(self, found: Found, edit: Callable[[str], str], *, operation: str) -> Record:
        """Edit an existing record; the caller holds the record's lock."""

        def change(content: bytes | None) -> bytes:
            if content is None:
                raise NotFound(f"{found.record.path} is gone")
            after = edit(decode(content)).encode()
            people.check_loss(self.home, self.caller, content, after)
            strict = operation == "restore"  # who edits a file by hand stores it again
            tombstones.check_brought(self.home, self.caller, content, after, strict=strict)
            return after

        with self._folder(found.scope_folder) as folder:
            since = archive.changed_by_hand(self.home, found.scope_folder, folder, found.name)
            written = folder.update(found.name, change, mode=found.scope_folder.file_mode)
            record = self.parse(found.scope_folder, found.name, written.after)
            if written.changed:
                self._audit(operation, record, before=written.before, after=written.after, since=since)
        self.announce(Change(ChangeKind.WRITTEN, found.scope_folder.place, record.path))
        return record

    def _named(self, name: str, places: Iterable[Place]) -> Iterator[Found]:
        """Yield the records with this key or earlier key; if there are none, those with this number or id.

        A name with a slash is a path. A key of digits can also be a number, then both are yielded. Records in
        untrusted folders are yielded only if no other record has the name.
        """
        scope_folders = self._scope_folders(places)
        if "/" in name:
            yield from self._at(name, scope_folders)
            return
        for trusted in (True, False):
            some = [scope_folder for scope_folder in scope_folders if scope_folder.trusted is trusted]
            by_key = [*self._with_key(name.removesuffix(".md"), some)]
            here = {each.scope_folder.place for each in by_key}
            # An earlier key answers where nothing has it now, in its own place.
            others = [scope_folder for scope_folder in some if scope_folder.place not in here]
            by_key += self._with_alias(name.removesuffix(".md"), others)
            by_key.sort(key=lambda each: some.index(each.scope_folder))
            # A key of digits may be another record's number: then both answer, and a person has to choose.
            digits = name.isdecimal() and bool(by_key)
            found = by_key + [
                each
                for each in (self._with_number(name, some) if digits or not by_key else ())
                if each.record.path not in {known.record.path for known in by_key}
            ]
            if found:
                yield from found
                return

    def _at(self, path: str, scope_folders: Iterable[ScopeFolder]) -> Iterator[Found]:
        """Yield the record at a path, as users see paths, if there is one."""
        above, _, name = path.rpartition("/")
        for scope_folder in scope_folders:
            if (
                scope_folder.name_of(filenames.RECORDS) == above
                and filenames.is_record(name)
                and self._exists(scope_folder, name)
            ):
                yield self.load(scope_folder, name)
                return

    def _exists(self, scope_folder: ScopeFolder, name: str) -> bool:
        folder = scope_folder.open(filenames.RECORDS)
        if folder is None:
            return False
        with folder:
            return folder.stat(name) is not None

    def _with_key(self, key: str, scope_folders: Iterable[ScopeFolder]) -> Iterator[Found]:
        for scope_folder in scope_folders:
            file = self._file_of(scope_folder, key)
            if file is not None:
                yield self.load(scope_folder, file)

    def _with_number(self, name: str, scope_folders: Iterable[ScopeFolder]) -> Iterator[Found]:
        """Yield the records with this number or id."""
        number = int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else None
        if number is None and not names.is_id(name):
            return
        wanted = name if number is None else number
        direct: list[Found] = []
        parts: list[Found] = []
        for scope_folder in scope_folders:
            labels = self._labels(scope_folder)
            for file in sorted(
                file
                for file, label in labels.items()
                if wanted in (label[_NUM], label[_ID]) or wanted in label[_PARTS]
            ):
                with contextlib.suppress(
                    NotFound, Malformed, OutsideMemory, OSError
                ):  # the listing reports it
                    found = self.load(scope_folder, file)
                    if wanted in (found.record.num, found.record.id):
                        direct.append(found)
                    elif part := merge.find_part_key(found.record, str(wanted)):
                        parts.append(_narrowed(found, part))
        yield from direct or parts

    def _hint_of_archive(self, key: str, places: Sequence[Place]) -> str:
        """Return how to reach the record that had this key: by the key it has now, or from the archive; ''
        if the archive has no version of a removed record with this key.
        """
        name, living = f"{key}.md", {own: here for here, own in self.living(places) if own}
        hint = ""
        for scope_folder in filter(lambda each: each.trusted, self._scope_folders(places)):
            for image in archive.images(self.home, scope_folder, filenames.RECORDS, name):
                if image.why not in archive.FORGOTTEN:
                    continue
                with contextlib.suppress(Malformed):
                    content = self.home.read(*image.parts) or b""
                    if here := living.get(self.parse(scope_folder, name, content).id or ""):
                        hint = hint or f"it is called {here} now; `vade show {here}` shows it"
                        continue
                return f"it is in the archive; `vade restore {key}` restores it"
        return hint

    def _with_alias(self, key: str, scope_folders: Iterable[ScopeFolder]) -> Iterator[Found]:
        """Yield the records that had this key earlier, at most one for each place."""
        places: dict[Place, list[ScopeFolder]] = {}
        for scope_folder in scope_folders:
            places.setdefault(scope_folder.place, []).append(scope_folder)
        for some in places.values():
            found = self._aliased(key, some)
            if found is not None:
                yield found

    def _aliased(self, key: str, scope_folders: Iterable[ScopeFolder]) -> Found | None:
        """Return the record of these folders that had this key earlier; of several, the last updated one."""
        if not names.is_key(key):
            return None
        best = max(
            self._holders(key, scope_folders), key=lambda each: each.record.updated or "", default=None
        )
        if best is None:
            return None
        part = merge.find_part_key(best.record, key)
        return _narrowed(best, part) if part else best

    def _holders(self, key: str, scope_folders: Iterable[ScopeFolder]) -> Iterator[Found]:
        """Yield the records of these folders that have this key among their aliases."""
        for scope_folder in scope_folders:
            labels = self._labels(scope_folder, strict=True)
            for name in sorted(name for name, label in labels.items() if key in label[_ALIASES]):
                with contextlib.suppress(Malformed, NotFound):  # told by the listing
                    found = self.load(scope_folder, name)
                    if key in found.record.aliases:  # a part may have been taken out meanwhile
                        yield found

    def _is_alias(self, key: str, scope_folders: Iterable[ScopeFolder]) -> bool:
        """Return whether a key is an alias of a record in a trusted folder."""
        return (
            self._aliased(key, [scope_folder for scope_folder in scope_folders if scope_folder.trusted])
            is not None
        )

    def _labels(self, scope_folder: ScopeFolder, *, strict: bool = False) -> dict[str, Any]:
        """Return the fields by which each readable record of a folder is found, by file name.

        With `strict`, raise a disk error, since a missed record would let a second one begin under its key.
        """
        try:
            known = self.facts(scope_folder, LABELS)
        except (OutsideMemory, NotADirectoryError):
            return {}
        if strict:
            _raise_failures(known)
        return known.facts

    def _answering(self, scope_folders: Sequence[ScopeFolder], key: str) -> tuple[ScopeFolder, str, bool]:
        """Return the folder and file for a text under this key, and whether the key is new.

        The file is the one of the key, or of the record with this alias. A part of a consolidation gets a
        separate file, so that the text is not added among foreign topics.
        """
        scope_folder, name, there = self._locate(scope_folders, key)
        if there:
            return scope_folder, name, False
        found = self._aliased(key, [each for each in scope_folders if each.trusted])
        if found is None:
            return scope_folder, name, True
        return found.scope_folder, f"{found.part}.md" if found.part else found.name, False

    def _revive(self, found: Found) -> tuple[ScopeFolder, str]:
        """Restore a part of a consolidation as a separate record; return its folder and file name."""
        scope_folder, name = found.scope_folder, f"{found.part}.md"
        with self.locked(scope_folder, name), self._folder(scope_folder, create=True) as folder:
            holders = self.holding(scope_folder, found.part)
            if folder.read(name) is None:
                self._check_free(folder, name)
                content = self._content_of(found)
                written = folder.update(name, lambda current: current or content, mode=scope_folder.file_mode)
                self._log_back(scope_folder, name, written.after)
        self.announce(
            Change(ChangeKind.WRITTEN, scope_folder.place, scope_folder.name_of(filenames.RECORDS, name))
        )
        self.release(holders, found.part)
        return scope_folder, name

    def _consolidated_part(self, scope_folder: ScopeFolder, name: str, current: bytes | None) -> Found | None:
        """Return the consolidated part that must be restored before a text joins this file; else None.

        After a crash a part can have its own file and still be in the consolidation. Only a file with
        archived versions can be such a part.
        """
        if current is not None and not archive.images(self.home, scope_folder, filenames.RECORDS, name):
            return None
        found = self._aliased(filenames.key_of(name), [scope_folder])
        return found if found is not None and found.part else None

    def _log_back(self, scope_folder: ScopeFolder, name: str, content: bytes) -> None:
        """Log and audit that a part of a consolidation has a separate file again."""
        record = self.parse(scope_folder, name, content)
        archive.log_returned(
            self.home, scope_folder, filenames.RECORDS, name, record.entries, record=record.id
        )
        self._audit("restore", record, after=content)

    def _content_of(self, found: Found) -> bytes:
        """Return the file content for a part: its archived version if complete, else made from the part."""
        images = archive.images(self.home, found.scope_folder, filenames.RECORDS, f"{found.part}.md")
        for image in reversed([each for each in images if each.why in archive.FORGOTTEN]):
            content = self.home.read(*image.parts) or b""
            if _says_all(content, found.record):
                return content
        return merge.render_part(found.record).encode()

    def holding(self, scope_folder: ScopeFolder, key: str) -> list[Found]:
        """Return the consolidations in a folder that contain the record with this key."""
        return [each for each in self._holders(key, [scope_folder]) if key in merge.parts_of(each.record)]

    def release(self, holders: Iterable[Found], key: str) -> None:
        """Remove a part from consolidations; their earlier versions go to the archive.

        `holders` are the consolidations read together with the part's file. A consolidation made later stays
        as it is, because it may hold the only copy of the part.
        """
        for found in holders:
            self._release_from(found, key)

    def _release_from(self, found: Found, key: str) -> None:
        scope_folder = found.scope_folder
        with self.locked(scope_folder, found.name), self._folder(scope_folder) as folder:
            current = folder.read(found.name)
            if current is None or key not in merge.parts_of(self.parse(scope_folder, found.name, current)):
                return
            entries = _entries(current)
            whole = merge.without_part(decode(current), key) is None
            self._archive(found, current, "retire" if whole else "release")
            gone = [entry for entry in entries if whole or entry.part == key]
            at = self.home, scope_folder, filenames.RECORDS, found.name
            archive.log_removed(*at, gone, record=found.record.id)
            if not whole:
                self._apply(found, lambda text: merge.without_part(text, key) or text, operation="release")
                return
            folder.remove(found.name, lambda _: None)
            self._audit("release", found.record, before=current)
        self.announce(Change(ChangeKind.REMOVED, scope_folder.place, found.record.path))

    def _forget_part(self, found: Found, operation: str) -> archive.ArchivedVersion:
        """Archive a part of a consolidation as a separate record, and remove it from the consolidation."""
        name, content = f"{found.part}.md", self._content_of(found)
        whole, holders = (
            Found(found.record, found.scope_folder, name),
            self.holding(found.scope_folder, found.part),
        )
        image = self._archive(whole, content, operation)
        self.release(holders, found.part)
        self._audit(operation, self.parse(found.scope_folder, name, content), before=content)
        return image

    def _scope_folders(self, places: Iterable[Place]) -> list[ScopeFolder]:
        """Return the folders of these places, the nearest first and untrusted ones last."""
        scope_folders = [
            scope_folder
            for place in places
            for scope_folder in scopes.scope_folders(self.home, self.caller, place)
        ]
        return sorted(scope_folders, key=lambda scope_folder: not scope_folder.trusted)

    def load(self, scope_folder: ScopeFolder, name: str) -> Found:
        """Return the record in a file; raise an error when the file cannot be read."""
        with self._folder(scope_folder) as folder:
            content = folder.read(name)
        if content is None:
            raise NotFound(f"{scope_folder.name_of(filenames.RECORDS, name)} is gone")
        try:
            return Found(self.parse(scope_folder, name, content), scope_folder, name)
        except Malformed as error:
            raise Malformed(f"{scope_folder.name_of(filenames.RECORDS, name)}: {error}") from error

    def _file_of(self, scope_folder: ScopeFolder, key: str) -> str | None:
        """Return the file of a key: `<key>.md`, or a hand-made file whose name converts to the key."""
        folder = scope_folder.open(filenames.RECORDS)
        if folder is None:
            return None
        with folder:
            exact = f"{key}.md"
            if names.folded(key) == key and "/" not in key and folder.stat(exact) is not None:
                return exact
            # A name that is a key can only be its own; the others are few and made by hand.
            handmade = names.not_keys(self.catalogue.names(folder, filenames.is_record))
            alike = sorted(name for name in handmade if filenames.key_of(name) == key)
            if alike:
                hidden = copies.hidden_in(folder, folder.names(ordered=False))
                alike = [name for name in alike if name not in hidden]
        if len(alike) > 1:
            listed = " and ".join(scope_folder.name_of(filenames.RECORDS, name) for name in alike)
            raise Collision(
                f"{listed} have the same key {key}", hint="rename one of these files, or use its path"
            )
        return alike[0] if alike else None

    def _locate(self, scope_folders: Sequence[ScopeFolder], key: str) -> tuple[ScopeFolder, str, bool]:
        """Return the folder and file name of a key, and whether the file exists."""
        names.check_key(key)
        for scope_folder in scope_folders:
            name = self._file_of(scope_folder, key)
            if name is not None:
                return scope_folder, name, True
        return scopes.folder_for_new(scope_folders), f"{key}.md", False

    def _free_key(self, scope_folders: Sequence[ScopeFolder], draft: Draft) -> tuple[ScopeFolder, str, bool]:
        """Return folder, file and whether the file is new, for a key from the draft's first words.

        If the key is taken, a number is added to it, unless the record under the key already says the text.
        """
        wanted = draft.wanted
        for number in range(1, 10_000):
            scope_folder, name, _ = self._locate(
                scope_folders, wanted if number == 1 else names.numbered(wanted, number)
            )
            folder = scope_folder.open(filenames.RECORDS)
            if folder is None:
                return scope_folder, name, False
            with folder:
                content = folder.read(name)
            if content is None and self._is_alias(filenames.key_of(name), scope_folders):
                continue  # it names something that was consolidated
            if content is None:
                return scope_folder, name, True
            # What stood in the place of a redacted secret may be another one this time.
            known = not similarity.is_redacted(draft.text)
            if known and saying(document.parse(decode(content)), draft.text) is not None:
                return scope_folder, name, False
        raise Collision(f"there are too many records called {wanted}", hint="choose a key with `--key`")

    def _near_duplicate(
        self, scope_folders: Sequence[ScopeFolder], text: str, dedup: Dedup
    ) -> tuple[Found, Entry] | None:
        """Return a recent record and its entry that says nearly the same as a text; else None."""
        recent = self._recent(scope_folders, dedup)
        if not recent:
            return None
        best: tuple[float, Found, Entry] | None = None
        for found in recent:
            for entry in found.record.live:
                likeness = similarity.same(text, entry.text, threshold=dedup.threshold)
                if likeness is None or decisions.are_distinct(self.home, text, entry.text):
                    continue
                if best is None or likeness > best[0]:
                    best = likeness, found, entry
        return None if best is None else best[1:]

    def _recent(self, scope_folders: Sequence[ScopeFolder], dedup: Dedup) -> list[Found]:
        """Return the most recently updated records within the window, by their field `updated`.

        File times are not used, because a copy, a checkout or a restored backup changes them.
        """
        since = clock.micro(self.now() - timedelta(days=dedup.window_days))
        candidates: list[tuple[int, int, str, ScopeFolder]] = []
        for scope_folder in scope_folders:
            if scope_folder.trusted:
                known = _raise_failures(self.facts(scope_folder, LABELS))
                candidates += (
                    (label[_UPDATED], known.stamps[name][1], name, scope_folder)
                    for name, label in known.facts.items()
                    if label[_UPDATED] is not None and label[_UPDATED] >= since
                )
        # A stamp is cut to the second; within it the file's own time says which is newer.
        candidates.sort(key=lambda each: (each[0], each[1], each[2]), reverse=True)
        found: list[Found] = []
        for _, _, name, scope_folder in candidates:
            if len(found) >= dedup.newest:
                break
            try:
                found.append(self.load(scope_folder, name))
            except (Malformed, NotFound, OutsideMemory):
                continue
        return found

    def _labelled(self, scope_folder: ScopeFolder, name: str, content: bytes) -> Record:
        """Return a record parsed from its frontmatter alone."""
        try:
            return _from_front(scope_folder, name, frontmatter.parse(decode(content)).values)
        except Malformed as error:
            raise Malformed(f"{scope_folder.name_of(filenames.RECORDS, name)}: {error}") from error

    def _number(
        self, scope_folder: ScopeFolder, name: str, current: bytes | None, *, above: int = 0
    ) -> int | None:
        """Return a new number for a record without one, else None.

        In a shared folder, a record with the number of an older record gets a new number as well.
        """
        own = None if current is None else self._labelled(scope_folder, name, current)
        if not scope_folder.shared:
            return short_numbers.allocate(self.home, above=above) if own is None or own.num is None else None
        others = [label for each, label in self._labels(scope_folder).items() if each != name]
        highest = max((label[_NUM] or 0 for label in others), default=above)
        if own is not None and own.num is not None:
            # Two clones chose the same number: the later record moves on.
            older = [
                label
                for label in others
                if label[_NUM] == own.num and (label[_CREATED], label[_ID] or "") < _age(own)
            ]
            if not older:
                return None
        return short_numbers.allocate(self.home, above=highest)

    def _with_origins(
        self, scope_folder: ScopeFolder, name: str, entries: tuple[Entry, ...]
    ) -> tuple[Entry, ...]:
        """Return the entries with reliable origins, whatever the signatures in a shared file claim."""
        if scope_folder.signed:
            return tuple(entry if entry.origin else replace(entry, origin=Origin.USER) for entry in entries)
        known: dict[str, Origin | None] = {}
        if scope_folder.trusted:
            for _, entry in archive.kept(self.home, scope_folder, filenames.RECORDS, name):
                known[archive.fingerprint(entry)] = entry.origin
        return tuple(
            replace(entry, origin=known.get(archive.fingerprint(entry)) or document.least_known(entry.origin))
            for entry in entries
        )

    def _sign_changes(self, text: str, seen: bytes) -> str:
        """Sign changed entries of a text as the caller's; changing only a signature raises no trust."""
        known: dict[str, list[Origin]] = {}
        for entry in _entries(seen):
            known.setdefault(archive.fingerprint(entry), []).append(entry.origin or Origin.USER)
        for index, entry in enumerate(document.parse(text).entries):
            claimed, earlier = entry.origin or Origin.USER, known.get(archive.fingerprint(entry))
            if earlier is None:
                text = document.sign(document.parse(text), index, origin=self.caller.origin)
            elif claimed not in earlier:
                least = max([claimed, *earlier], key=lambda each: each.rank)
                text = document.sign(document.parse(text), index, origin=least)
        return text

    def _prepare(self, scope_folder: ScopeFolder) -> None:
        """Check that a text may be saved in a folder; remember the caller's project if it is saved there."""
        self._check_writable(scope_folder)
        scopes.check_new_folder(scope_folder)
        if self.caller.project is not None and scope_folder.place.id == self.caller.project.id:
            scopes.remember_project(self.home, self.caller.project, at=clock.stamp(self.now()))

    def _check_writable(self, scope_folder: ScopeFolder) -> None:
        if not scope_folder.trusted:
            raise Untrusted(f"{scope_folder.top / '.vade'} came with the repository and is not trusted yet")

    def _check_free(self, folder: Directory, name: str) -> None:
        """Raise an error for a new name that some systems cannot tell from an existing name."""
        wanted = names.folded(name)
        begins = (wanted[:1], wanted[:1].upper())
        # Most of many thousands begin otherwise.
        found = [
            each for each in folder.names(ordered=False) if each.startswith(begins) or not each.isascii()
        ]
        for other in sorted(found):
            if other != name and names.folded(other) == wanted:
                raise Collision(f"{name} differs from {other} only in ways some systems ignore")

    def _folder(self, scope_folder: ScopeFolder, *, create: bool = False) -> Directory:
        folder = scope_folder.open(filenames.RECORDS, create=create)
        if folder is None:
            raise NotFound(f"{scope_folder.name_of(filenames.RECORDS)} is gone")
        return folder

    def locked(self, scope_folder: ScopeFolder, name: str) -> AbstractContextManager[None]:
        """Return the lock of a record's file, for a `with` block."""
        return self.home.lock(f"record {scope_folder.name_of(filenames.RECORDS, name)} in {scope_folder.top}")

    def _archive(self, found: Found, content: bytes, why: str) -> archive.ArchivedVersion:
        return archive.keep(
            self.home, found.scope_folder, filenames.RECORDS, found.name, content, why=why, at=self.now()
        )

    def _audit(
        self,
        operation: str,
        record: Record,
        *,
        before: bytes | None = None,
        after: bytes | None = None,
        since: datetime | None = None,
    ) -> None:
        audit.write(
            self.home,
            at=self.now(),
            actor=self.caller.actor,
            client=self.caller.client,
            operation=operation,
            scope=record.place.scope,
            record=record.id,
            num=record.num,
            since=since,
            before=before,
            after=after,
        )


def _no_folder(scope_folder: ScopeFolder, error: Exception) -> Finding:
    return Finding(
        "malformed", scope_folder.name_of(filenames.RECORDS), str(error), "replace it with a folder", "error"
    )


def _unreadable(scope_folder: ScopeFolder, name: str, error: Exception) -> Finding:
    mend = "fix it with any text editor; the file is left unchanged"
    return Finding("malformed", scope_folder.name_of(filenames.RECORDS, name), str(error), mend, "error")


def _narrowed(found: Found, part: str) -> Found:
    """Return a found consolidation narrowed to one of its parts."""
    return found._replace(record=merge.narrowed(found.record, part), part=part)


def in_folder(folder: Directory) -> list[str]:
    """Return the names of a folder's record files, without second copies."""
    listed = [name for name in folder.names() if filenames.is_record(name)]
    hidden = copies.hidden_in(folder, listed)
    return [name for name in listed if name not in hidden] if hidden else listed


def _from_front(scope_folder: ScopeFolder, name: str, values: Mapping[str, Any]) -> Record:
    """Make a record from its frontmatter, without entries."""
    return Record(
        key=filenames.key_of(name),
        place=scope_folder.place,
        path=scope_folder.name_of(filenames.RECORDS, name),
        entries=(),
        trusted=scope_folder.trusted,
        team=scope_folder.team,
        fields=values,
        **fields.read_typed(values),
    )


def _says_all(content: bytes | None, record: Record) -> bool:
    """Return whether a file has every text of a record."""
    return {entry.text for entry in record.entries} <= {entry.text for entry in _entries(content or b"")}


def _entries(content: bytes) -> tuple[Entry, ...]:
    """Return the entries of a file; none when it cannot be parsed."""
    try:
        return document.parse(decode(content)).entries
    except Malformed:
        return ()


def _labels_of(records: Records, scope_folder: ScopeFolder, name: str, content: bytes) -> tuple[Any, ...]:
    """Return the fields by which a record is found: number, id, aliases, times and type."""
    record = records.parse(scope_folder, name, content)
    moment = clock.parse(record.updated if record.fields.get("updated") else record.created)
    parts = merge.parts_of(record).values()
    return (
        record.num,
        record.id,
        tuple({each for part in parts for each in (part.num, part.id) if each is not None}),
        record.aliases,
        None if moment is None else clock.micro(moment),
        record.type,
        record.created or "",
    )


_NUM, _ID, _PARTS, _ALIASES, _UPDATED, _TYPE, _CREATED = range(7)
LABELS = Fact("labels", 2, _labels_of)


def _lost_of(records: Records, scope_folder: ScopeFolder, name: str, content: bytes) -> int:
    """Return the number of acknowledged entries that are no longer in the file."""
    return len(records.lost(Found(records.parse(scope_folder, name, content), scope_folder, name)))


LOST = Fact("lost", 1, _lost_of, logged=True)


def _raise_failures(known: Facts) -> Facts:
    """Return the facts, unless a disk error kept a file from being read: then raise that error.

    Missing permissions and malformed files are reported elsewhere.
    """
    for error in known.failed.values():
        if isinstance(error, OSError) and not isinstance(error, PermissionError):
            raise error
    return known


def _no_copies(labels: Sequence[short_numbers.Label]) -> list[short_numbers.Label]:
    """Return the labels (fields for finding a record) without those of second copies."""
    by_folder: dict[ScopeFolder | None, dict[str, str | None]] = {}
    for each in labels:
        by_folder.setdefault(each.scope_folder, {})[each.name] = each.id
    hidden = {scope_folder: copies.find(ids, ids.get) for scope_folder, ids in by_folder.items()}
    return [each for each in labels if each.name not in hidden[each.scope_folder]]


def _merged(record: Record, join: Joining) -> Merged | None:
    """Return a description of an automatic merge with a similar text; None when there was none."""
    if join.outcome is not Outcome.CONSOLIDATED:
        return None
    older = " ".join(next(iter(join.superseded), join.entry).text.split())
    begins = older if len(older) <= _BEGINNING else f"{older[:_BEGINNING].rstrip()}…"
    return Merged(record.key, begins, f"vade split {record.key} --scope {record.place.scope}")


def _age(record: Record) -> tuple[str, str]:
    return record.created or "", record.id or ""
