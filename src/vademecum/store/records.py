"""Records: one topic a file, dated entries inside, and the rules by which a text joins them."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

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
from vademecum.stand_ins import LazyModule
from vademecum.store import (
    archive,
    audit,
    copies,
    decisions,
    document,
    files,
    frontmatter,
    merge,
    people,
    scopes,
    short_numbers,
    teams,
    tombstones,
)
from vademecum.store.catalogue import Catalogue, Digest, Fact, Facts
from vademecum.store.document import decode
from vademecum.store.merge import Draft, Joining, Known, may_supersede, read_tags, saying
from vademecum.text import clock, is_same_text, names
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
    from vademecum.store.home import Home, Shelf
    from vademecum.text import similarity
    from vademecum.types import Place, Scope
else:
    similarity = LazyModule("vademecum.text.similarity")  # word lists that only a text without a key needs

_LISTINGS = ("index.md", "log.md")
_BEGINNING = 80  # characters of a superseded wording that are told


class Found(NamedTuple):
    """A record together with the file it was read from.

    Where a `part` was asked for, the file is a consolidation and the record has the entries of that part.
    """

    record: Record
    shelf: Shelf
    name: str
    part: str = ""


class Listed(NamedTuple):
    """A record's file, and a fact about it."""

    shelf: Shelf
    name: str
    fact: Any


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Records:
    """The records a caller can reach."""

    home: Home
    caller: scopes.Caller
    now: Callable[[], datetime]
    announce: Callable[[Change], None]
    catalogue: Catalogue

    # ---------------------------------------------------------------- reading

    def all(self, places: Iterable[Place]) -> Iterator[Found | Finding]:
        """Every record of these places; a file that cannot be read is a finding, never an end."""
        for place in places:
            for shelf in scopes.shelves(self.home, self.caller, place):
                yield from self.on(shelf)

    def on(self, shelf: Shelf) -> Iterator[Found | Finding]:
        """Every record of one shelf."""
        try:
            folder = shelf.open(archive.RECORDS)
        except (OutsideMemory, NotADirectoryError) as error:
            yield _no_folder(shelf, error)
            return
        if folder is None:
            return
        with folder:
            for name in in_folder(folder):
                try:
                    content = folder.read(name)
                    if content is not None:
                        yield Found(self.parse(shelf, name, content), shelf, name)
                except (Malformed, OutsideMemory, OSError) as error:
                    files.note_trouble(error)
                    yield _unreadable(shelf, name, error)

    def facts(self, shelf: Shelf, fact: Fact, *, only: Collection[str] | None = None) -> Facts:
        """A fact about every record of a shelf, or `only` some; no file is read whose fact is known."""
        folder = shelf.open(archive.RECORDS)
        if folder is None:
            return Facts({}, {}, {})
        with folder:
            make = functools.partial(fact.of, self, shelf)
            return self.catalogue.known(shelf, folder, fact, make, wanted=is_record, only=only)

    def known(self, places: Iterable[Place], fact: Fact) -> Iterator[tuple[Shelf, Facts] | Finding]:
        """A fact about the records of each shelf of these places."""
        for place in places:
            for shelf in scopes.shelves(self.home, self.caller, place):
                try:
                    yield shelf, self.facts(shelf, fact)
                except (OutsideMemory, NotADirectoryError) as error:
                    yield _no_folder(shelf, error)

    def listed(self, places: Iterable[Place], fact: Fact) -> Iterator[Listed | Finding]:
        """Every record of these places of which a fact says anything, in the order of `all`."""
        for each in self.known(places, fact):
            if isinstance(each, Finding):
                yield each
                continue
            shelf, known = each
            telling = [name for name, value in known.facts.items() if value]
            for name in sorted((*telling, *known.failed)):
                if name in known.failed:
                    yield _unreadable(shelf, name, known.failed[name])
                else:
                    yield Listed(shelf, name, known.facts[name])

    def unreadable(self, shelf: Shelf, known: Facts) -> list[Finding]:
        """What is wrong with the files of a shelf of which nothing is known."""
        return [_unreadable(shelf, name, known.failed[name]) for name in sorted(known.failed)]

    def digests(self, places: Iterable[Place]) -> list[tuple[Shelf, Digest]]:
        """What stands for the files of each shelf of these places that has any."""
        found = []
        for place in places:
            for shelf in scopes.shelves(self.home, self.caller, place):
                folder = shelf.open(archive.RECORDS)
                if folder is not None:
                    with folder:
                        found.append((shelf, self.catalogue.digest(folder, is_record)))
        return found

    def parse(self, shelf: Shelf, name: str, content: bytes) -> Record:
        """Read a record from its bytes."""
        parsed = document.parse(decode(content))
        record = _from_front(shelf, name, parsed.front.values)
        entries = self._with_origins(shelf, name, parsed.entries)
        return replace(record, title=record.title or parsed.title or record.key, entries=entries)

    def find(self, name: str, *, scope: Scope | None = None, only: bool = False) -> Found:
        """The record by key, number or id; the nearest scope wins, or with `only` it must be the only one."""
        places = [scopes.place_for(self.caller, scope)] if scope else scopes.visible(self.caller)
        with self.catalogue.one_look():
            found = list(self._named(name.removeprefix("#"), places))
        if not found:
            where = f" in {scope} memory" if scope else ""
            key = name.removesuffix(".md")
            hint = f"it is in the archive; `vade restore {key}` restores it"
            archived = names.is_key(key) and self._is_archived(key, places)
            raise NotFound(f"no record {names.shown(name)}{where}", hint=hint if archived else NotFound.hint)
        # A key is the nearest one's; a number or an id is one record's alone, and never quietly another's.
        shared = len(found) > 1 and found[0].record.key != name.removesuffix(".md")
        if len(found) > 1 and (only or (shared and self._is_number(name))):
            listed = ", ".join(self._sayable(each, found) for each in found)
            raise Ambiguous(
                f"{names.shown(name)} names {len(found)} records: {listed}",
                hint="use one of these names instead; `vade check` shows which are copies",
            )
        return found[0]

    def _is_number(self, name: str) -> bool:
        number = name.removeprefix("#")
        return number.isdecimal() or names.is_id(number)

    def _sayable(self, found: Found, among: Sequence[Found]) -> str:
        """A name that means this record and no other: its key, with its scope if need be, or its path."""
        record = found.record
        alike = [each for each in among if each.record.key == record.key]
        here = [each for each in alike if each.record.place.scope is record.place.scope]
        own = self._file_of(found.shelf, record.key) == found.name if len(here) == 1 else False
        if not own:
            return record.path
        return record.key if len(alike) == 1 else f"{record.key} --scope {record.place.scope}"

    def raw(self, key: str, *, scope: Scope | None = None) -> Found | None:
        """The file of a key that cannot be read as a record, so that a person can mend it."""
        places = [scopes.place_for(self.caller, scope)] if scope else scopes.visible(self.caller)
        for shelf in self._shelves(places):
            name = self._file_of(shelf, key.removesuffix(".md"))
            if name is not None:
                path = shelf.name_of(archive.RECORDS, name)
                blank = Record(key_of(name), shelf.place, path, str(RecordType.PROJECT), key, ())
                return Found(blank, shelf, name)
        return None

    def living(self, places: Iterable[Place]) -> Iterator[tuple[str, str | None]]:
        """The key and id of every record of the user's own in these places."""
        for shelf in self._shelves(places):
            if shelf.trusted:
                yield from ((key_of(name), said[_ID]) for name, said in self._labels(shelf).items())

    def lost(self, found: Found) -> list[Entry]:
        """Entries that were acknowledged for this record and that an edit has taken out of its file."""
        if found.part:
            return []  # its own file is in the archive, whole
        return archive.missing(
            self.home,
            found.shelf,
            archive.RECORDS,
            found.name,
            found.record.entries,
            record=found.record.id,
        )

    # ---------------------------------------------------------------- writing

    def store(self, draft: Draft, *, scope: Scope, key: str | None, dedup: Dedup) -> Stored:
        """Keep a text: under its key, in the record it repeats, or in one of its own."""
        place = scopes.place_for(self.caller, scope)
        shelves = scopes.shelves(self.home, self.caller, place)
        if draft.team:
            shelves = [shelf for shelf in shelves if shelf.workspace == draft.team]
            shelves = [shelf._replace(writes=True) for shelf in shelves]
        if key is not None:
            with self.catalogue.one_look():
                shelf, name, fresh = self._answering(shelves, key)
            return self._write(shelf, name, draft, fresh=fresh)
        shelves = teams.only_own(shelves)  # a text that merely resembles a team's is not told to the team
        # One at a time per place, or two processes would each find no near-duplicate of the other's text.
        with self.home.lock(f"place {place}"):
            with self.catalogue.one_look():
                near = self._near_duplicate(shelves, draft.text, dedup)
                if near is None:
                    draft = draft._replace(wanted=names.key_from(draft.text))
                    shelf, name, fresh = self._free_key(shelves, draft)
            if near is not None:
                found, entry = near
                allowed = may_supersede(found.record, entry, origin=self.caller.origin)
                draft = draft._replace(mode="append")  # what it replaces is decided here
                supersede = entry.text if allowed else None
                return self._write(found.shelf, found.name, draft, supersede=supersede)
            return self._write(shelf, name, draft, fresh=fresh)

    def learn(
        self,
        draft: Draft,
        *,
        scope: Scope,
        likely: Callable[[bytes], bool],
        known: Callable[[Iterable[Record]], Known | None],
    ) -> Stored:
        """Keep a lesson: in the record of its type that teaches it already, or in one of its own.

        `known` picks that record among those whose files are `likely` to hold it.
        """
        place = scopes.place_for(self.caller, scope)
        shelves = teams.only_own(scopes.shelves(self.home, self.caller, place))
        # One at a time per place, or two processes would each find the lesson new.
        with self.home.lock(f"place {place}"):
            of_type = self.typed(shelves, str(draft.type), likely=likely)
            listed = {each.record.path: each for each in of_type}
            match = known(each.record for each in listed.values())
            if match is None:
                return self.begin(shelves, draft)
            found = listed[match.record.path]
            shelf, name = found.shelf, found.name
            if is_same_text(draft.text, match.entry.text):
                return self._write(shelf, name, draft)
            outdone = next((e for e in match.record.entries if is_same_text(e.text, draft.text)), None)
            if outdone is not None:  # said before, in words that others have replaced: those are confirmed
                return self._write(shelf, name, draft._replace(text=match.entry.text), heard=outdone)
            if match.stays or self.holds(listed[match.record.path]):
                return self._write(shelf, name, draft, yields=True)
            return self._write(shelf, name, draft, supersede=match.entry.text)

    def standing_alone(self, found: Found) -> Found:
        """A record that can be changed for itself: a part of a consolidation becomes one again."""
        if not found.part:
            return found
        self._check_writable(found.shelf)
        return self.load(*self._revive(found))

    def join(self, found: Found, draft: Draft) -> Stored:
        """Keep a text in this very record."""
        return self._write(found.shelf, found.name, draft)

    def typed(
        self, shelves: Iterable[Shelf], *types: str, likely: Callable[[bytes], bool] = bool
    ) -> Iterator[Found]:
        """The records of these types on the shelves that may be written; only those are read to the end."""
        for shelf in shelves:
            folder = shelf.open(archive.RECORDS) if shelf.trusted else None
            if folder is None:
                continue
            with folder:
                labels = self._labels(shelf)
                for name in sorted(name for name, said in labels.items() if said[_TYPE] in types):
                    with contextlib.suppress(Malformed, OutsideMemory, OSError):  # told by the listing
                        content = folder.read(name)
                        if content is not None and likely(content):
                            yield Found(self.parse(shelf, name, content), shelf, name)

    def begin(self, shelves: Sequence[Shelf], draft: Draft) -> Stored:
        """Keep a text in a new record, under the first free key made from its words."""
        wanted = names.key_from(draft.name or draft.text)
        draft = draft._replace(wanted=wanted)
        for number in range(1, 10_000):
            shelf, name, _ = self._locate(shelves, wanted if number == 1 else names.numbered(wanted, number))
            folder = shelf.open(archive.RECORDS)
            if folder is None:
                return self._write(shelf, name, draft)
            with folder:
                taken = folder.stat(name) is not None
            if not taken and not self._is_alias(key_of(name), shelves):
                return self._write(shelf, name, draft, fresh=True)
        raise Collision(f"there are too many records called {wanted}", hint="forget some of them")

    def revise(
        self, found: Found, change: Callable[[Mapping[str, Any]], dict[str, Any]], *, operation: str
    ) -> Record:
        """Set frontmatter keys to what follows from those that are there now."""

        def edit(text: str) -> str:
            return frontmatter.edit(text, change(frontmatter.parse(text).values))

        return self._rewrite(found, edit, operation=operation)

    def said(self, record: Record) -> Mapping[str, tuple[str, ...]]:
        """Which sessions said each entry of a record, as this home knows it, by fingerprint."""
        return self._logged(record, archive.said)

    def writers(self, record: Record) -> Mapping[str, Mapping[str, str]]:
        """Who wrote each entry of a record, and through which program, if no person did, by fingerprint."""
        return self._logged(record, archive.writers)

    def _logged(
        self, record: Record, told: Callable[..., Mapping[tuple[str | None, str], Any]]
    ) -> Mapping[str, Any]:
        """What the log of a record's file tells of its entries."""
        for shelf in scopes.shelves(self.home, self.caller, record.place):
            name = record.path.rpartition("/")[2]
            if shelf.name_of(archive.RECORDS, name) == record.path:
                found = told(self.home, shelf, archive.RECORDS, name)
                return {mark: each for (owner, mark), each in found.items() if owner == record.id}
        return {}

    def change_fields(self, found: Found, fields: dict[str, Any], *, operation: str) -> Record:
        """Set frontmatter keys of a record and nothing else."""

        def edit(text: str) -> str:
            return frontmatter.edit(text, fields)

        return self._rewrite(found, edit, operation=operation)

    def replace_text(self, found: Found, seen: bytes, text: str, *, operation: str) -> Record:
        """Put a whole edited file in a record's place; the old one goes to the archive."""
        self._check_writable(found.shelf)
        edited = self._sign_changes(text, seen)

        def put(current: bytes | None) -> str:
            if current != seen:
                image = self._archive(found, edited.encode(), "conflict")
                changed = f"{found.record.path} changed while it was edited"
                raise Conflict(f"{changed}; your version is saved as {image.path}")
            return edited

        with self.locked(found.shelf, found.name):
            with self._folder(found.shelf) as folder:
                put(folder.read(found.name))
            self._archive(found, seen, operation)
            record = self._apply(found, lambda current: put(current.encode()), operation=operation)
            self._log_edit(found, seen, edited, record=record.id)
        return self.parse(found.shelf, found.name, edited.encode())

    def tidy(self, place: Place) -> None:
        """Clear what killed writers left on the shelves of a place."""
        for shelf in scopes.shelves(self.home, self.caller, place):
            folder = shelf.open(archive.RECORDS) if shelf.trusted else None
            if folder is not None:
                with folder:
                    folder.sweep()

    def forget(self, found: Found, *, operation: str = "forget") -> archive.Image:
        """Move a record to the archive; of a consolidation, the part that was named."""
        self._check_writable(found.shelf)
        if found.part:
            return self._forget_part(found, operation)
        image: archive.Image | None = None

        def keep(content: bytes) -> None:
            nonlocal image
            people.check_taken(self.home, self.caller, content, None)
            image = self._archive(found, content, operation)

        with self.locked(found.shelf, found.name), self._folder(found.shelf) as folder:
            folder.sweep()
            holders = self.holding(found.shelf, key_of(found.name))
            content = folder.remove(found.name, keep)
            if content is None or image is None:
                raise NotFound(f"{found.record.path} is already deleted")
            self._audit(operation, found.record, before=content)
        self.announce(Change(ChangeKind.REMOVED, found.shelf.place, found.record.path))
        self.release(holders, key_of(found.name))  # or its earlier text would answer in its place
        return image

    def restore(self, shelf: Shelf, name: str, image: archive.Image) -> Record:
        """Bring an archived version back, byte for byte; a record now in its place is archived first."""
        self._check_writable(shelf)
        with self.locked(shelf, name), self._folder(shelf, create=True) as folder:
            content = (
                self._rebuilt(shelf, name) if image.why == archive.KEPT else self.home.read(*image.parts)
            )
            if content is None:
                raise NotFound(f"{image.path} is gone from the archive")
            record = self.parse(shelf, name, content)
            if folder.stat(name) is None:
                self._check_free(folder, name)

            def put(current: bytes | None) -> bytes:
                people.check_taken(self.home, self.caller, current, content)
                tombstones.check_brought(self.home, self.caller, current, content, strict=True)
                if current is not None and current != content:
                    self._archive(Found(record, shelf, name), current, "restore")
                return content

            holders = self.holding(shelf, record.key)
            written = folder.update(name, put, mode=shelf.file_mode)
            self._audit("restore", record, before=written.before, after=content)
        self.announce(Change(ChangeKind.WRITTEN, shelf.place, record.path))
        self.release(holders, record.key)
        return record

    def restore_entries(self, found: Found, lost: Sequence[Entry]) -> Record:
        """Put entries back that an edit had taken out, where their times belong."""

        def edit(text: str) -> str:
            for entry in lost:
                text = document.insert(text, entry)
            return text

        return self._rewrite(found, edit, operation="restore")

    # ---------------------------------------------------------------- parts

    def _write(
        self,
        shelf: Shelf,
        name: str,
        draft: Draft,
        *,
        supersede: str | None = None,
        yields: bool = False,
        heard: Entry | None = None,
        fresh: bool = False,
    ) -> Stored:
        """Join a text to the record in this file, or begin the record with it.

        A text that `yields` is kept as superseded; `heard` is the entry with the caller's own words, when
        those confirm another one. A record that was consolidated, be it a moment ago, is one of its own
        again first; a `fresh` name is known to be none's.
        """
        self._prepare(shelf)
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
        seen = _no_copies(short_numbers.read_labels(self._numbered_shelves(), wanted=is_record))
        with self.locked(shelf, name), self._folder(shelf, create=True) as folder:
            current = folder.read(name)
            held = None if fresh else self._held_as_part(shelf, name, current)
            holders = self.holding(shelf, held.part) if held is not None else []
            back = self._content_of(held) if held is not None and current is None else None
            if current is None:
                self._check_free(folder, name)
                current = back
            num = self._number(shelf, name, current, above=short_numbers.highest(seen))
            join = Joining(
                draft,
                entry,
                caller=self.caller,
                place=shelf.place,
                key=key_of(name),
                num=num,
                id=names.new_id(),
                supersede=supersede,
                verified=self._verified if people.is_bound(self.caller) else None,
            )
            if current is not None and draft.mode == "replace":
                # The pre-image goes first.
                archive.keep(self.home, shelf, archive.RECORDS, name, current, why="replace", at=at)
            written = folder.update(
                name, lambda found: join(back if found is None else found), mode=shelf.file_mode
            )
            if back is not None and written.before is None:
                self._log_back(shelf, name, back)
                written = written._replace(before=back)
            record = self._labelled(shelf, name, written.after)
            self._log(shelf, name, join, record=record.id, heard=heard)
            if heard is None:
                self._vouch(shelf, join)
            if purged is not None:
                tombstones.lift(self.home, draft.text, at=stamp)
            done = join.outcome if join.beside is None or join.said is not None else Outcome.APPENDED
            self._audit(str(done), record, before=written.before, after=written.after)
        if held is not None and _says_all(written.before, held.record):
            self.release(holders, held.part)
        self.announce(Change(ChangeKind.WRITTEN, shelf.place, record.path))
        merged = _merged(record, join)
        record = self._settled(record, seen)
        told = Stored(
            join.outcome, record.key, record.num, record.id, shelf.place, record.path, team=shelf.team
        )
        return told._replace(beside=join.beside, merged=merged, purged=purged.at if purged else "")

    def _verified(self, text: str) -> bool:
        return decisions.verified(self.home, text)

    def check_purged(self, text: str) -> None:
        """Refuse a text that a person purged, whoever brings it."""
        found = tombstones.find(self.home, text)
        if found is not None:
            raise tombstones.refused(found)

    def holds(self, found: Found) -> bool:
        """Whether a record is a person's, and the caller has to leave it as it is."""
        if not people.is_bound(self.caller):
            return False
        with self._folder(found.shelf) as folder:
            content = folder.read(found.name)
        return content is not None and bool(people.barred(self.home, self.caller, content, None))

    def settle(self, found: Found, *, old: str, new: str, labels: Mapping[str, Any]) -> Record:
        """Let one living entry take the place of another, as a person decided; both must stand there."""
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

        with self.locked(found.shelf, found.name):
            with self._folder(found.shelf) as folder:
                seen = folder.read(found.name)
            if seen is not None:
                self._archive(found, seen, "replace")
            record = self._apply(found, edit, operation=str(Outcome.REPLACED))
            at_file = self.home, found.shelf, archive.RECORDS, found.name
            archive.log_superseded(*at_file, record.entries, record=record.id)
        return record

    def _numbered_shelves(self) -> list[Shelf]:
        """The shelves in sight whose records have numbers of this home; a repository's are settled apart."""
        shelves = self._shelves(scopes.visible(self.caller))
        return [*dict.fromkeys(each for each in shelves if each.trusted and not each.shared)]

    def _settled(self, record: Record, seen: Sequence[short_numbers.Label]) -> Record:
        """Give copies numbers and ids of their own; the record that was written, as it is afterwards."""
        for copy in short_numbers.find_copies(seen):
            # The text is kept: whatever keeps a copy from being told apart now, the next write tries again.
            with contextlib.suppress(VadeError, OSError):
                told = self._told_apart(copy, above=short_numbers.highest(seen))
                record = told if told is not None and told.path == record.path else record
        return record

    def _told_apart(self, copy: short_numbers.Copy, *, above: int) -> Record | None:
        """Give one copy what it lacks; None when its file no longer says what it said."""
        label = copy.label
        if label.shelf is None:
            return None
        found = self.load(label.shelf, label.name)
        if (copy.num and found.record.num != label.num) or (copy.id and found.record.id != label.id):
            return None
        fields: dict[str, Any] = {}
        if copy.num:
            fields["num"] = short_numbers.allocate(self.home, above=above)
        if copy.id:
            fields["id"] = names.new_id()
        return self.change_fields(found, fields, operation="renumber")

    def _log(
        self, shelf: Shelf, name: str, join: Joining, *, record: str | None, heard: Entry | None = None
    ) -> None:
        """Log what was acknowledged, and who said it; a confirmed entry too if it never was.

        Its own store may have failed, or another session may be saying it now.
        """
        entry, by = join.entry, self.caller.speaker
        if join.said is not None:
            # In the home the file says whose it was first. In a shared folder it may say anything: there a
            # person's word makes it theirs, and an agent's repetition does not make it the agent's.
            own = self.caller.origin if self.caller.origin is Origin.USER else Origin.EXTERNAL
            entry = replace(join.said, origin=own if shelf.shared else join.said.origin or Origin.USER)
            words = entry if heard is None else heard
            if archive.log_said(self.home, shelf, archive.RECORDS, name, words, record=record, by=by):
                return
        # The entry goes last: once it is there, nothing of this is logged again.
        archive.log_superseded(self.home, shelf, archive.RECORDS, name, join.superseded, record=record)
        archive.log_kept(self.home, shelf, archive.RECORDS, name, entry, record=record, by=self.caller)

    def _vouch(self, shelf: Shelf, join: Joining) -> None:
        """A person who says what stands there already has verified it."""
        if self.caller.origin is not Origin.USER or join.said is None:
            return
        if shelf.shared or (join.said.origin or Origin.USER) is not Origin.USER:
            at = clock.stamp(self.now())
            decisions.verify(self.home, join.said.text, at=at, by=self.caller.actor)

    def _log_edit(self, found: Found, seen: bytes, edited: str, *, record: str | None) -> None:
        """Log the entries that an edit through us brought, and those it took away."""
        before, after = _entries(seen), document.parse(edited).entries
        earlier = {archive.fingerprint(entry) for entry in before}
        now = {archive.fingerprint(entry) for entry in after}
        at = self.home, found.shelf, archive.RECORDS, found.name
        for entry in after:
            if archive.fingerprint(entry) not in earlier:
                archive.log_kept(*at, entry, record=record)
        gone = [entry for entry in before if archive.fingerprint(entry) not in now]
        archive.log_taken(*at, gone, record=record)
        archive.log_superseded(*at, after, record=record)  # a person may have set or lifted a mark

    def _rebuilt(self, shelf: Shelf, name: str) -> bytes:
        """A record whose file is gone, from its newest archived version and the log of its entries."""
        at = self.home, shelf, archive.RECORDS, name
        log = [*archive.kept(*at)]
        record = log[-1][0] if log else None
        living = self._with_number(record or "", self._shelves(scopes.visible(self.caller)))
        moved = next((each for each in living if each.shelf.trusted), None)
        if moved is not None:
            raise Collision(f"{key_of(name)} was merged into {moved.record.key}", hint="nothing is lost")
        text = self._last_version(shelf, name, record)
        if text is None:
            entries = [entry for owner, entry in log if owner == record]
            text = self._bare(shelf, name, record, entries)
        for entry in archive.missing(*at, document.parse(text).entries, record=record):
            text = document.insert(text, entry)
        return text.encode()

    def _last_version(self, shelf: Shelf, name: str, record: str | None) -> str | None:
        """The newest archived version of that very record that can be read."""
        for image in reversed(archive.images(self.home, shelf, archive.RECORDS, name)):
            content = self.home.read(*image.parts) or b""
            try:
                if self._labelled(shelf, name, content).id == record:
                    return document.parse(decode(content)).source
            except Malformed:
                continue
        return None

    def _bare(self, shelf: Shelf, name: str, record: str | None, entries: Sequence[Entry]) -> str:
        """A record with nothing but what the log of its entries tells."""
        times = sorted(entry.time for entry in entries if entry.time)
        values = {
            "type": str(RecordType.PROJECT),
            "id": record,
            "num": short_numbers.number_of(self.home, record) or self._number(shelf, name, None),
            "key": key_of(name),
            "created": times[0] if times else None,
            "updated": times[-1] if times else None,
        }
        text = frontmatter.edit(f"# {key_of(name)}\n\n", values)
        undated = [entry for entry in entries if entry.time is None]
        if not undated:
            return text
        text += document.escape(undated[-1].text) + "\n"
        return document.sign(document.parse(text), 0, origin=undated[-1].origin)

    def _rewrite(self, found: Found, edit: Callable[[str], str], *, operation: str) -> Record:
        self._check_writable(found.shelf)
        with self.locked(found.shelf, found.name):
            return self._apply(found, edit, operation=operation)

    def _apply(self, found: Found, edit: Callable[[str], str], *, operation: str) -> Record:
        """Edit a record that must still be there; the caller holds its lock."""

        def change(content: bytes | None) -> bytes:
            if content is None:
                raise NotFound(f"{found.record.path} is gone")
            after = edit(decode(content)).encode()
            people.check_taken(self.home, self.caller, content, after)
            strict = operation == "restore"  # who edits a file by hand stores it again
            tombstones.check_brought(self.home, self.caller, content, after, strict=strict)
            return after

        with self._folder(found.shelf) as folder:
            written = folder.update(found.name, change, mode=found.shelf.file_mode)
            record = self.parse(found.shelf, found.name, written.after)
            if written.changed:
                self._audit(operation, record, before=written.before, after=written.after)
        self.announce(Change(ChangeKind.WRITTEN, found.shelf.place, record.path))
        return record

    def _named(self, name: str, places: Iterable[Place]) -> Iterator[Found]:
        """Records of that key; when there is none, those of that number or id; or the one at that path.

        What a stranger's folder calls by that name counts only when nothing of the user's own does.
        """
        shelves = self._shelves(places)
        if "/" in name:
            yield from self._at(name, shelves)
            return
        for trusted in (True, False):
            some = [shelf for shelf in shelves if shelf.trusted is trusted]
            by_key = [*self._with_key(name.removesuffix(".md"), some)]
            here = {each.shelf.place for each in by_key}
            # An earlier key answers where nothing has it now, in its own place.
            others = [shelf for shelf in some if shelf.place not in here]
            by_key += self._with_alias(name.removesuffix(".md"), others)
            by_key.sort(key=lambda each: some.index(each.shelf))
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

    def _at(self, path: str, shelves: Iterable[Shelf]) -> Iterator[Found]:
        """The record in a file, by its path as it is shown."""
        above, _, name = path.rpartition("/")
        for shelf in shelves:
            if shelf.name_of(archive.RECORDS) == above and is_record(name) and self._exists(shelf, name):
                yield self.load(shelf, name)
                return

    def _exists(self, shelf: Shelf, name: str) -> bool:
        folder = shelf.open(archive.RECORDS)
        if folder is None:
            return False
        with folder:
            return folder.stat(name) is not None

    def _with_key(self, key: str, shelves: Iterable[Shelf]) -> Iterator[Found]:
        for shelf in shelves:
            file = self._file_of(shelf, key)
            if file is not None:
                yield self.load(shelf, file)

    def _with_number(self, name: str, shelves: Iterable[Shelf]) -> Iterator[Found]:
        """Records of that number or id."""
        number = int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else None
        if number is None and not names.is_id(name):
            return
        wanted = name if number is None else number
        direct: list[Found] = []
        held: list[Found] = []
        for shelf in shelves:
            labels = self._labels(shelf)
            for file in sorted(
                file
                for file, said in labels.items()
                if wanted in (said[_NUM], said[_ID]) or wanted in said[_PARTS]
            ):
                with contextlib.suppress(NotFound, Malformed, OutsideMemory, OSError):  # told by the listing
                    found = self.load(shelf, file)
                    if wanted in (found.record.num, found.record.id):
                        direct.append(found)
                    elif part := merge.part_named(found.record, str(wanted)):
                        held.append(_narrowed(found, part))
        yield from direct or held

    def _is_archived(self, key: str, places: Iterable[Place]) -> bool:
        """Whether a record of this key was moved to the archive, and can be restored from there."""
        shelves = [shelf for shelf in self._shelves(places) if shelf.trusted]
        images = (archive.images(self.home, shelf, archive.RECORDS, f"{key}.md") for shelf in shelves)
        return any(each.why in archive.FORGOTTEN for some in images for each in some)

    def _with_alias(self, key: str, shelves: Iterable[Shelf]) -> Iterator[Found]:
        """Records that answer to an earlier key, at most one of a place."""
        places: dict[Place, list[Shelf]] = {}
        for shelf in shelves:
            places.setdefault(shelf.place, []).append(shelf)
        for some in places.values():
            found = self._aliased(key, some)
            if found is not None:
                yield found

    def _aliased(self, key: str, shelves: Iterable[Shelf]) -> Found | None:
        """The record of these shelves that answers to an earlier key: of several the last said."""
        if not names.is_key(key):
            return None
        best = max(self._holders(key, shelves), key=lambda each: each.record.updated or "", default=None)
        if best is None:
            return None
        part = merge.part_named(best.record, key)
        return _narrowed(best, part) if part else best

    def _holders(self, key: str, shelves: Iterable[Shelf]) -> Iterator[Found]:
        """The records of these shelves that have a key among their earlier ones."""
        for shelf in shelves:
            labels = self._labels(shelf, strict=True)
            for name in sorted(name for name, said in labels.items() if key in said[_ALIASES]):
                with contextlib.suppress(Malformed, NotFound):  # told by the listing
                    found = self.load(shelf, name)
                    if key in found.record.aliases:  # a part may have been taken out meanwhile
                        yield found

    def _is_alias(self, key: str, shelves: Iterable[Shelf]) -> bool:
        """Whether a key that is free as a file still names something of the caller's own."""
        return self._aliased(key, [shelf for shelf in shelves if shelf.trusted]) is not None

    def _labels(self, shelf: Shelf, *, strict: bool = False) -> dict[str, Any]:
        """The labels of every record of a shelf; what cannot be read is told by the listing.

        Where it is `strict`, a disk that fails is told, or a key would begin twice.
        """
        try:
            known = self.facts(shelf, LABELS)
        except (OutsideMemory, NotADirectoryError):
            return {}
        if strict:
            _raise_failures(known)
        return known.facts

    def _answering(self, shelves: Sequence[Shelf], key: str) -> tuple[Shelf, str, bool]:
        """The file that a text for this key goes to, and whether nothing answers to the key yet.

        It is the key's own, or that of the record it is an alias of. A part of a consolidation has a file of
        its own again: a text that joined the consolidation would stand among topics it has nothing to do
        with.
        """
        shelf, name, there = self._locate(shelves, key)
        if there:
            return shelf, name, False
        found = self._aliased(key, [each for each in shelves if each.trusted])
        if found is None:
            return shelf, name, True
        return found.shelf, f"{found.part}.md" if found.part else found.name, False

    def _revive(self, found: Found) -> tuple[Shelf, str]:
        """Make a part of a consolidation a record of its own again, as it was when it was consolidated."""
        shelf, name = found.shelf, f"{found.part}.md"
        with self.locked(shelf, name), self._folder(shelf, create=True) as folder:
            holders = self.holding(shelf, found.part)
            if folder.read(name) is None:
                self._check_free(folder, name)
                content = self._content_of(found)
                written = folder.update(name, lambda current: current or content, mode=shelf.file_mode)
                self._log_back(shelf, name, written.after)
        self.announce(Change(ChangeKind.WRITTEN, shelf.place, shelf.name_of(archive.RECORDS, name)))
        self.release(holders, found.part)
        return shelf, name

    def _held_as_part(self, shelf: Shelf, name: str, current: bytes | None) -> Found | None:
        """The part of a consolidation that this file was, if it is to be a record of its own again.

        One that is a file already is still a part where a process died before it took it out, and only what
        was archived once can be one.
        """
        if current is not None and not archive.images(self.home, shelf, archive.RECORDS, name):
            return None
        held = self._aliased(key_of(name), [shelf])
        return held if held is not None and held.part else None

    def _log_back(self, shelf: Shelf, name: str, content: bytes) -> None:
        """Say that a part of a consolidation has the file again that it had."""
        record = self.parse(shelf, name, content)
        archive.log_returned(self.home, shelf, archive.RECORDS, name, record.entries, record=record.id)
        self._audit("restore", record, after=content)

    def _content_of(self, found: Found) -> bytes:
        """The file a part had: its archived version if that says all the part says, else made anew."""
        images = archive.images(self.home, found.shelf, archive.RECORDS, f"{found.part}.md")
        for image in reversed([each for each in images if each.why in archive.FORGOTTEN]):
            content = self.home.read(*image.parts) or b""
            if _says_all(content, found.record):
                return content
        return merge.revived(found.record).encode()

    def holding(self, shelf: Shelf, key: str) -> list[Found]:
        """The consolidations that a record is a part of."""
        return [each for each in self._holders(key, [shelf]) if key in merge.parts_of(each.record)]

    def release(self, holders: Iterable[Found], key: str) -> None:
        """Take a part out of consolidations; their versions with it go to the archive.

        They are those that held it when whoever asks read or wrote its file: in one that a sweep has made
        since then it may be the only copy.
        """
        for found in holders:
            self._release_from(found, key)

    def _release_from(self, found: Found, key: str) -> None:
        shelf = found.shelf
        with self.locked(shelf, found.name), self._folder(shelf) as folder:
            current = folder.read(found.name)
            if current is None or key not in merge.parts_of(self.parse(shelf, found.name, current)):
                return
            entries = _entries(current)
            whole = merge.without_part(decode(current), key) is None
            self._archive(found, current, "retire" if whole else "release")
            gone = [entry for entry in entries if whole or entry.part == key]
            at = self.home, shelf, archive.RECORDS, found.name
            archive.log_taken(*at, gone, record=found.record.id)
            if not whole:
                self._apply(found, lambda text: merge.without_part(text, key) or text, operation="release")
                return
            folder.remove(found.name, lambda _: None)
            self._audit("release", found.record, before=current)
        self.announce(Change(ChangeKind.REMOVED, shelf.place, found.record.path))

    def _forget_part(self, found: Found, operation: str) -> archive.Image:
        """Move one part of a consolidation to the archive, as the record that it was."""
        name, content = f"{found.part}.md", self._content_of(found)
        whole, holders = Found(found.record, found.shelf, name), self.holding(found.shelf, found.part)
        image = self._archive(whole, content, operation)
        self.release(holders, found.part)
        self._audit(operation, self.parse(found.shelf, name, content), before=content)
        return image

    def _shelves(self, places: Iterable[Place]) -> list[Shelf]:
        """The shelves of these places, the nearest first, and behind them those nobody has trusted."""
        shelves = [shelf for place in places for shelf in scopes.shelves(self.home, self.caller, place)]
        return sorted(shelves, key=lambda shelf: not shelf.trusted)

    def load(self, shelf: Shelf, name: str) -> Found:
        """The record in a file."""
        with self._folder(shelf) as folder:
            content = folder.read(name)
        if content is None:
            raise NotFound(f"{shelf.name_of(archive.RECORDS, name)} is gone")
        try:
            return Found(self.parse(shelf, name, content), shelf, name)
        except Malformed as error:
            raise Malformed(f"{shelf.name_of(archive.RECORDS, name)}: {error}") from error

    def _file_of(self, shelf: Shelf, key: str) -> str | None:
        """The file that holds a key: `<key>.md`, or a hand-made file whose name makes that key."""
        folder = shelf.open(archive.RECORDS)
        if folder is None:
            return None
        with folder:
            exact = f"{key}.md"
            if names.folded(key) == key and "/" not in key and folder.stat(exact) is not None:
                return exact
            # A name that is a key can only be its own; the others are few and made by hand.
            handmade = names.not_keys(self.catalogue.names(folder, is_record))
            alike = sorted(name for name in handmade if key_of(name) == key)
            if alike:
                hidden = copies.hidden_in(folder, folder.names(ordered=False))
                alike = [name for name in alike if name not in hidden]
        if len(alike) > 1:
            listed = " and ".join(shelf.name_of(archive.RECORDS, name) for name in alike)
            raise Collision(
                f"{listed} have the same key {key}", hint="rename one of these files, or use its path"
            )
        return alike[0] if alike else None

    def _locate(self, shelves: Sequence[Shelf], key: str) -> tuple[Shelf, str, bool]:
        """The file of a key, and whether it is there."""
        names.check_key(key)
        for shelf in shelves:
            name = self._file_of(shelf, key)
            if name is not None:
                return shelf, name, True
        return scopes.shelf_for_new(shelves), f"{key}.md", False

    def _free_key(self, shelves: Sequence[Shelf], draft: Draft) -> tuple[Shelf, str, bool]:
        """A key made from the first words, numbered when that one holds something else; whether it is new."""
        wanted = draft.wanted
        for number in range(1, 10_000):
            shelf, name, _ = self._locate(shelves, wanted if number == 1 else names.numbered(wanted, number))
            folder = shelf.open(archive.RECORDS)
            if folder is None:
                return shelf, name, False
            with folder:
                content = folder.read(name)
            if content is None and self._is_alias(key_of(name), shelves):
                continue  # it names something that was consolidated
            if content is None:
                return shelf, name, True
            # What stood in the place of a redacted secret may be another one this time.
            known = not similarity.is_redacted(draft.text)
            if known and saying(document.parse(decode(content)), draft.text) is not None:
                return shelf, name, False
        raise Collision(f"there are too many records called {wanted}", hint="choose a key with `--key`")

    def _near_duplicate(
        self, shelves: Sequence[Shelf], text: str, dedup: Dedup
    ) -> tuple[Found, Entry] | None:
        """Among the newest records of this place, the entry that says nearly the same."""
        recent = self._recent(shelves, dedup)
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

    def _recent(self, shelves: Sequence[Shelf], dedup: Dedup) -> list[Found]:
        """The newest records updated within the window, by what they say of themselves.

        The time of a file is no measure: a copy, a checkout or a backup that came back has another one.
        """
        since = clock.micro(self.now() - timedelta(days=dedup.window_days))
        candidates: list[tuple[int, int, str, Shelf]] = []
        for shelf in shelves:
            if shelf.trusted:
                known = _raise_failures(self.facts(shelf, LABELS))
                candidates += (
                    (said[_UPDATED], known.stamps[name][1], name, shelf)
                    for name, said in known.facts.items()
                    if said[_UPDATED] is not None and said[_UPDATED] >= since
                )
        # A stamp is cut to the second; within it the file's own time says which is newer.
        candidates.sort(key=lambda each: (each[0], each[1], each[2]), reverse=True)
        found: list[Found] = []
        for _, _, name, shelf in candidates:
            if len(found) >= dedup.newest:
                break
            try:
                found.append(self.load(shelf, name))
            except (Malformed, NotFound, OutsideMemory):
                continue
        return found

    def _labelled(self, shelf: Shelf, name: str, content: bytes) -> Record:
        """A record with its labels alone; a long one need not be read to its end for them."""
        return _from_front(shelf, name, frontmatter.parse(decode(content)).values)

    def _number(self, shelf: Shelf, name: str, current: bytes | None, *, above: int = 0) -> int | None:
        """A number for a record that has none, or that shares its own with an older one; else None."""
        own = None if current is None else self._labelled(shelf, name, current)
        if not shelf.shared:
            return short_numbers.allocate(self.home, above=above) if own is None or own.num is None else None
        others = [said for each, said in self._labels(shelf).items() if each != name]
        highest = max((said[_NUM] or 0 for said in others), default=above)
        if own is not None and own.num is not None:
            # Two clones chose the same number: the later record moves on.
            older = [
                said
                for said in others
                if said[_NUM] == own.num and (said[_CREATED], said[_ID] or "") < _age(own)
            ]
            if not older:
                return None
        return short_numbers.allocate(self.home, above=highest)

    def _with_origins(self, shelf: Shelf, name: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Entries with the origin that can be vouched for, whatever a file of others claims."""
        if shelf.signed:
            return tuple(entry if entry.origin else replace(entry, origin=Origin.USER) for entry in entries)
        known: dict[str, Origin | None] = {}
        if shelf.trusted:
            for _, entry in archive.kept(self.home, shelf, archive.RECORDS, name):
                known[archive.fingerprint(entry)] = entry.origin
        return tuple(
            replace(entry, origin=known.get(archive.fingerprint(entry)) or document.least_known(entry.origin))
            for entry in entries
        )

    def _sign_changes(self, text: str, seen: bytes) -> str:
        """Entries that the caller changed are theirs now; a signature alone raises none above what it was."""
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

    def _prepare(self, shelf: Shelf) -> None:
        """What must hold before a text comes to a shelf."""
        self._check_writable(shelf)
        scopes.check_new_folder(shelf)
        if self.caller.project is not None and shelf.place.id == self.caller.project.id:
            scopes.remember_project(self.home, self.caller.project, at=clock.stamp(self.now()))

    def _check_writable(self, shelf: Shelf) -> None:
        if not shelf.trusted:
            raise Untrusted(f"{shelf.top / '.vade'} came with the repository and is not trusted yet")

    def _check_free(self, folder: Directory, name: str) -> None:
        """Refuse a new name that another system would take for one that is here."""
        wanted = names.folded(name)
        begins = (wanted[:1], wanted[:1].upper())
        # Most of many thousands begin otherwise.
        found = [
            each for each in folder.names(ordered=False) if each.startswith(begins) or not each.isascii()
        ]
        for other in sorted(found):
            if other != name and names.folded(other) == wanted:
                raise Collision(f"{name} differs from {other} only in ways some systems ignore")

    def _folder(self, shelf: Shelf, *, create: bool = False) -> Directory:
        folder = shelf.open(archive.RECORDS, create=create)
        if folder is None:
            raise NotFound(f"{shelf.name_of(archive.RECORDS)} is gone")
        return folder

    def locked(self, shelf: Shelf, name: str) -> AbstractContextManager[None]:
        """Hold the lock of one record's file."""
        return self.home.lock(f"record {shelf.name_of(archive.RECORDS, name)} in {shelf.top}")

    def _archive(self, found: Found, content: bytes, why: str) -> archive.Image:
        return archive.keep(
            self.home, found.shelf, archive.RECORDS, found.name, content, why=why, at=self.now()
        )

    def _audit(
        self, operation: str, record: Record, *, before: bytes | None = None, after: bytes | None = None
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
            before=before,
            after=after,
        )


def _no_folder(shelf: Shelf, error: Exception) -> Finding:
    return Finding(
        "malformed", shelf.name_of(archive.RECORDS), str(error), "replace it with a folder", "error"
    )


def _unreadable(shelf: Shelf, name: str, error: Exception) -> Finding:
    mend = "fix it with any text editor; the file is left unchanged"
    return Finding("malformed", shelf.name_of(archive.RECORDS, name), str(error), mend, "error")


def _narrowed(found: Found, part: str) -> Found:
    """A consolidation as one of its parts."""
    return found._replace(record=merge.narrowed(found.record, part), part=part)


def in_folder(folder: Directory) -> list[str]:
    """The files of a folder that hold records, without second copies of them."""
    listed = [name for name in folder.names() if is_record(name)]
    hidden = copies.hidden_in(folder, listed)
    return [name for name in listed if name not in hidden] if hidden else listed


def is_record(name: str) -> bool:
    """Whether a file name can be a record's; listings are generated, conflict files wait for a person."""
    return (
        name.endswith(".md")
        and name[0] != "."
        and name not in _LISTINGS
        and (".conflict-" not in name or not files.is_conflict(name))
    )


def key_of(name: str) -> str:
    """The key of a record file: its name, or a key made from the name of a hand-made one."""
    stem = name.removesuffix(".md")
    return stem if names.is_key(stem) else names.slug(stem)


def _from_front(shelf: Shelf, name: str, values: Mapping[str, Any]) -> Record:
    """What the frontmatter says of a record."""
    return Record(
        key=key_of(name),
        place=shelf.place,
        path=shelf.name_of(archive.RECORDS, name),
        type=str(values.get("type") or RecordType.PROJECT),
        title=str(values.get("title") or ""),
        entries=(),
        id=_text(values.get("id")),
        num=values["num"] if type(values.get("num")) is int else None,
        tags=read_tags(values.get("tags")),
        created=_text(values.get("created")),
        updated=_text(values.get("updated")),
        category=_text(values.get("category")),
        source=_text(values.get("source")),
        confidence=_number(values.get("confidence")),
        protected=values.get("protected") is True,
        trusted=shelf.trusted,
        team=shelf.team,
        fields=values,
    )


def _says_all(content: bytes | None, record: Record) -> bool:
    """Whether a file has every text of a record, so that none is missed when the record goes."""
    return {entry.text for entry in record.entries} <= {entry.text for entry in _entries(content or b"")}


def _entries(content: bytes) -> tuple[Entry, ...]:
    """The entries of a file; none when it cannot be read."""
    try:
        return document.parse(decode(content)).entries
    except Malformed:
        return ()


def _labels_of(records: Records, shelf: Shelf, name: str, content: bytes) -> tuple[Any, ...]:
    """What a record is found by: its number and id, those of its parts, earlier keys, and its times."""
    record = records.parse(shelf, name, content)
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


def _lost_of(records: Records, shelf: Shelf, name: str, content: bytes) -> int:
    """How many entries were acknowledged and are no longer in the file."""
    return len(records.lost(Found(records.parse(shelf, name, content), shelf, name)))


LOST = Fact("lost", 1, _lost_of, logged=True)


def _raise_failures(known: Facts) -> Facts:
    """Tell of a disk that fails; a file that is no record or that nobody may read is for the listing."""
    for error in known.failed.values():
        if isinstance(error, OSError) and not isinstance(error, PermissionError):
            raise error
    return known


def _no_copies(labels: Sequence[short_numbers.Label]) -> list[short_numbers.Label]:
    """Labels without those of second copies, which wait to be merged and get no names of their own."""
    by_shelf: dict[Shelf | None, dict[str, str | None]] = {}
    for each in labels:
        by_shelf.setdefault(each.shelf, {})[each.name] = each.id
    hidden = {shelf: copies.find(ids, ids.get) for shelf, ids in by_shelf.items()}
    return [each for each in labels if each.name not in hidden[each.shelf]]


def _merged(record: Record, join: Joining) -> Merged | None:
    """What a text was merged with, when it was so without being told to."""
    if join.outcome is not Outcome.CONSOLIDATED:
        return None
    older = " ".join(next(iter(join.superseded), join.entry).text.split())
    begins = older if len(older) <= _BEGINNING else f"{older[:_BEGINNING].rstrip()}…"
    return Merged(record.key, begins, f"vade split {record.key} --scope {record.place.scope}")


def _age(record: Record) -> tuple[str, str]:
    return record.created or "", record.id or ""


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
