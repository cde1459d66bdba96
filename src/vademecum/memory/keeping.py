"""Keeping, looking, taking away and bringing back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, NotFound, PendingReview, UnknownName, UsageError
from vademecum.lazy import LazyModule
from vademecum.memory.tidying import Tidying
from vademecum.store import archive, files, labels, names, outgoing, scopes, texts
from vademecum.store.joining import Draft, is_guarded
from vademecum.store.records import Found, key_of, parse_type
from vademecum.types import Finding, Noted, Origin, Record, Scope, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.knowledge import citations
    from vademecum.lifecycle import passes
    from vademecum.store import approvals as approving
    from vademecum.store import editing, pinned, reading, repository, sources, versions
    from vademecum.store import purge as purging
    from vademecum.store import runs as running
    from vademecum.store.home import Shelf
    from vademecum.types import Entry, Place, RecordType
else:
    approving = LazyModule("vademecum.store.approvals")
    editing = LazyModule("vademecum.store.editing")
    passes = LazyModule("vademecum.lifecycle.passes")
    citations = LazyModule("vademecum.knowledge.citations")
    pinned = LazyModule("vademecum.store.pinned")
    purging = LazyModule("vademecum.store.purge")
    reading = LazyModule("vademecum.store.reading")
    running = LazyModule("vademecum.store.runs")
    repository = LazyModule("vademecum.store.repository")
    sources = LazyModule("vademecum.store.sources")
    versions = LazyModule("vademecum.store.versions")

_ATTEMPTS = 5  # at clearing a file that somebody keeps saving


class Listing(NamedTuple):
    """Records, and the files that could not be read as one."""

    records: tuple[Record, ...]
    findings: tuple[Finding, ...]
    limit: int  # how many notes a scope may hold before the cap acts
    counted: Mapping[Place, int]  # how many there are in each scope, whether listed or not


class Keeping(Tidying):
    """Keeping, looking, taking away and bringing back, as a part of `Memory`."""

    def store(
        self,
        text: str | bytes,
        *,
        key: str | None = None,
        scope: str | Scope = Scope.PROJECT,
        type: str | RecordType | None = None,
        tags: Iterable[str] = (),
        mode: str = "append",
        confidence: float | None = None,
        protected: bool | None = None,
        slug: bool = False,
    ) -> Stored:
        """Keep a text; when this returns, it is on disk.

        With `slug`, a key that is not one is made into one; without, it is refused.
        """
        self._may_write()
        scope = scopes.parse_scope(scope)
        if key is not None:
            labels.without_secret(key, "the key")  # before a slug hides it, and after one brought it out
            key = labels.without_secret(names.slug(key) if slug else names.check_key(key), "the key")
        if protected and (self.caller.origin is Origin.USER or self.caller.command_line):
            # A program may keep its own text from age and number; from other hands only a person keeps it.
            self.may_decide("protect a memory", "vade store --protected")
        if mode not in ("append", "replace"):
            raise UnknownName(f"{names.shown(mode)} is not a mode", hint="the modes are append, replace")
        if confidence is not None and not 0 <= confidence <= 1:
            raise UsageError(f"a confidence lies between 0 and 1, not at {confidence:g}")
        kept, found = self._gate(texts.accept(text, largest=self.settings.limits.content_bytes), scope)
        cleaned = labels.tags(tags, self.settings.secrets.in_scope(scope))
        draft = Draft(kept, None if type is None else parse_type(type), cleaned, mode, confidence, protected)
        if scope is Scope.PROJECT:
            draft = replace(draft, cites=self._cited(kept))
        trouble = len(self.index_trouble)
        with self._reported("keep this"):
            stored = self.records.store(draft, scope=scope, key=key, dedup=self.settings.dedup)
            stored = self._proposed(stored, draft)
            swept = self._sweep_after(stored)
        indexed = bool(self.listeners) and len(self.index_trouble) == trouble
        return stored._replace(secrets=found, indexed=indexed, swept=swept)

    def _proposed(self, stored: Stored, draft: Draft) -> Stored:
        """Ask a person whether a text that stands beside theirs may take its place."""
        if stored.beside is None:
            return stored
        labels = {"type": str(draft.type) if draft.type else None, "tags": list(draft.tags) or None}
        asked: dict[str, Any] = {
            "name": stored.key,
            "text": draft.text,
            "instead_of": stored.beside.text,
            **{name: value for name, value in labels.items() if value is not None},
        }
        waiting = self._wait_for_a_person("replace", asked, scope=stored.place.scope)
        return stored._replace(approval=waiting.id)

    def _put_away_later(self, chosen: Sequence[Found], *, scope: Scope) -> str:
        """Ask a person whether these records of theirs may go to the archive, as they are now."""
        asked = {"records": [{"name": each.record.key, "seen": self._content_hash(each)} for each in chosen]}
        return self._wait_for_a_person("archive", asked, scope=scope).id

    def note(self, text: str | bytes, *, scope: str | Scope = Scope.PROJECT) -> Noted:
        """Append a note to today's journal."""
        self._may_write()
        self._not_in_group("write to a journal, which it cannot read")
        scope = scopes.parse_scope(scope)
        kept, found = self._gate(texts.accept(text, largest=self.settings.limits.content_bytes), scope)
        with self._reported("write the note"):
            noted = self.journal.note(kept, scope=scope)
        return Noted(noted.path, noted.time, found)

    def list(
        self,
        *,
        scope: str | Scope | None = None,
        type: str | RecordType | None = None,
        tag: str | None = None,
        all: bool = False,
        reveal: bool = False,
    ) -> Listing:
        """The records in sight, the nearest scope first; with `all`, those of every project and agent.

        What looks like a secret in them is replaced, unless `reveal` asks for the files as they stand.
        """
        kind = None if type is None else str(parse_type(type))
        if all:
            self._only_a_person("look into every project", "vade list --all")
        found: list[Record] = []
        findings: list[Finding] = []
        counted: Counter[Place] = Counter()
        for each in self._everything(self._places(scope, all=all)):
            if isinstance(each, Finding):
                findings.append(each)
                continue
            counted[each.record.place] += passes.is_countable(each)
            if (kind is None or each.record.type == kind) and (tag is None or tag in each.record.tags):
                found.append(each.record if reveal else outgoing.clean_record(each.record))
        found.sort(key=_order)
        return Listing(tuple(found), tuple(findings), self.settings.decay.max_count, dict(counted))

    def show(self, name: str | int, *, scope: str | Scope | None = None, reveal: bool = False) -> Record:
        """One record with all its entries, by key, number or id.

        What looks like a secret in it is replaced, unless `reveal` asks for the file as it stands: for a
        person's eyes, never for a model.
        """
        record = self._find(name, scope).record
        return record if reveal else outgoing.clean_record(record)

    def forgotten(self, *, scope: str | Scope | None = None) -> Sequence[versions.Version]:
        """The records that are gone from sight and can be brought back, forgotten or deleted by hand."""
        if self.settings.incognito:
            return []
        with self._reported("read the archive"):
            return [*versions.gone(self.records, self._places(scope, all=False))]

    def lost_entries(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[Entry]:
        """Entries of a record that were acknowledged and that an edit has taken out of its file."""
        return self.records.lost(self._find(name, scope))

    def _cited(self, text: str) -> str:
        """Fingerprints of the lines of the project's code that a text cites; nothing for most texts."""
        project = self.caller.project
        if project is None or not citations.may_cite_lines(text):
            return ""
        return citations.render_marks(
            citations.mark_lines(text, citations.ProjectTree(project.root, seconds=0.5))
        )

    def forget(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Move a record to the archive; `restore` brings it back."""
        self._may_write()
        found = self._find(name, scope, only=True)
        if self.records.holds(found):
            asked = {"name": found.record.key, "scope": str(found.record.place.scope)}
            waiting = self._wait_for_a_person(
                "forget", asked, scope=found.record.place.scope, seen=self._content_hash(found)
            )
            raise PendingReview(
                f"{found.record.key} is not forgotten: a person wrote, verified or protected it, so this"
                " waits for review",
                approval=waiting.id,
            )
        if is_guarded(found.record.fields) and not self.caller.approved:
            self.may_decide(f"forget {found.record.key}, which is protected", "vade forget")
        with self._reported(f"forget {found.record.key}"):
            self.records.forget(found)
        return found.record

    def restore(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Bring back a forgotten record, an archived version by its id, or entries that an edit took out.

        The name of a pinned document brings back its newest other version.
        """
        self._may_write()
        with self._reported(f"restore {name}"):
            if pinned.is_name(str(name)):
                newest = self.documents.newest(str(name), scope=self._scope(scope))
                return self.documents.restore(*newest).as_record()
            places = self._places(scope, all=False)
            version = versions.find(self.records, str(name), places)
            if version is not None:
                return self.records.restore(version.shelf, version.name, version.image)
            image = self.documents.image(str(name), places)
            if image is not None:
                return self.documents.restore(*image).as_record()
            found = self._find(name, scope, only=True)
            lost = self.records.lost(found)
            if not lost:
                raise self._nothing_to_restore(found)
            return self.records.restore_entries(found, lost)

    def _nothing_to_restore(self, found: Found) -> NotFound:
        """That a record is here and whole, with the earlier ones of its name that could take its place."""
        key = found.record.key
        earlier = versions.replaced(self.records, found)
        if not earlier:
            return NotFound(f"{key} is not forgotten and has lost nothing")
        said = "an earlier record" if len(earlier) == 1 else f"{len(earlier)} earlier records"
        newest = earlier[-1]
        listed = f"; `vade show {key}` lists all versions" if len(earlier) > 1 else ""
        return NotFound(
            f"{key} is here; {said} of that name, forgotten on {newest.day}, can take its place",
            hint=f"run `vade restore {newest.id}`, which archives the one that is here{listed}",
        )

    def versions(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[archive.Image]:
        """The archived versions of a record or pinned document, oldest first."""
        if self.settings.incognito:
            return []
        if pinned.is_name(str(name)):
            return self.documents.images(str(name), scope=self._scope(scope))[2]
        found = self._find(name, scope)
        return archive.images(self.home, found.shelf, archive.RECORDS, found.name)

    def clear(self, *, scope: str | Scope, protected: bool = False) -> Sequence[Record]:
        """Move all records of a scope to the archive as one run, protected ones only when asked to."""
        self._may_write()
        if protected:
            self.may_decide("forget what is protected", "vade clear")
        place = scopes.place_for(self.caller, scopes.parse_scope(scope))
        with self._reported(f"clear {place}"):
            self.records.tidy(place)
            every = [*self.records.all([place])]
            for each in every:
                if isinstance(each, Finding):
                    raise Malformed(f"{each.where} cannot be read, so nothing was forgotten: {each.why}")
            chosen = [
                each
                for each in every
                if isinstance(each, Found) and each.shelf.trusted and (protected or not each.record.protected)
            ]
            held = [found for found in chosen if self.records.holds(found)]
            if held:
                raise PendingReview(
                    f"{place} is not cleared: {len(held)} of its {len(chosen)} records are a person's, so"
                    " this waits for review",
                    approval=self._put_away_later(chosen, scope=place.scope),
                )
            return self._cleared(chosen)

    def _cleared(self, chosen: Sequence[Found]) -> Sequence[Record]:
        """Move records to the archive as one run, which `undo` brings back; those that were moved.

        One that a person saves in that moment is read again, and goes with what they wrote.
        """
        run = running.Run(
            self.home, self.caller, self.now, self._announce, "clear", retired_as=archive.CLEARED
        )
        gone = []
        for found in chosen:
            for _ in range(_ATTEMPTS):
                content = reading.from_shelf(found.shelf, archive.RECORDS, found.name)
                if content is None:
                    break  # somebody else has forgotten it
                edit = running.Edit(found.shelf, archive.RECORDS, found.name, content, None)
                if run.do(edit, "clear").done:
                    gone.append(found.record)
                    break
        return gone

    def protect(self, name: str | int, *, scope: str | Scope | None = None, on: bool = True) -> Record:
        """Keep a record from ever being removed by age or number, or take that back."""
        self._may_write()
        self.may_decide("protect a memory" if on else "take protection away", "vade protect")
        found = self._find(name, scope, only=True)
        with self._reported(f"protect {found.record.key}"):
            found = self.records.standing_alone(found)
            fields: dict[str, Any] = {"protected": True if on else None, "protected_by": None}
            if not found.record.fields.get("type"):
                fields["type"] = found.record.type
            return self.records.change_fields(found, fields, operation="protect" if on else "unprotect")

    def purge(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[purging.Purged]:
        """Delete a record for good, with every version and copy of it."""
        self._may_write()
        self.may_decide("delete for good", "vade purge")
        with self._reported(f"purge {name}"):
            shelf, file, record = self._purgeable(str(name), scope)
            self.records.release(shelf, key_of(file))  # what was consolidated with it stays
            with self.records.locked(shelf, file):
                found = purging.record(self.home, shelf, file)
            self._forget_derived()
            self._audit("purge", scope=shelf.place.scope, record=record)
        return found

    def purge_text(self, text: str) -> Sequence[purging.Purged]:
        """Delete a text for good wherever it stands; attached sources are reported, not changed."""
        self._may_write()
        self.may_decide("delete for good", "vade purge --text")
        wanted = texts.accept(text, largest=self.settings.limits.content_bytes)
        with self._reported("purge that text"):
            self._forget_derived()
            shelf = repository.shelf(self.home, self.caller.project)
            waited = [purging.Purged(path, count) for path, count in approving.purge(self.home, wanted)]
            found = waited + purging.text(
                self.home, shelf.top / ".vade" if shelf is not None and shelf.trusted else None, wanted
            )
            for source in sources.every(self.home):
                for path in source.markdown():
                    count = purging.occurrences(path, wanted)
                    if count:
                        found.append(
                            purging.Purged(
                                str(path), count, gone=False, why="an attached source is not ours to change"
                            )
                        )
            for root in scopes.trusted_folders(self.home):
                if shelf is None or root != shelf.top:
                    found += purging.elsewhere(root, wanted)
            self._forget_derived()
            self._audit("purge")
        return found

    def editable(self, name: str, *, scope: str | Scope | None = None) -> tuple[str, str]:
        """The path and text of a record or pinned document, for an editor."""
        self._may_write()
        with self._reported(f"read {name}"):
            if name.lower().endswith(".md"):
                shelf, file, content = self.documents.find(name, scope=self._scope(scope))
                return shelf.name_of(file), "" if content is None else texts.decode(content)
            found = self._mendable(name, scope)
            content = reading.from_shelf(found.shelf, archive.RECORDS, found.name)
            return found.record.path, texts.decode(content or b"")

    def edited(
        self, name: str, before: str, after: str, *, scope: str | Scope | None = None
    ) -> tuple[str, ...]:
        """Put an edited text in place of the one that was handed out; returns the kinds of secrets in it."""
        self._may_write()
        largest = self.settings.limits.content_bytes
        with self._reported(f"write {name}"):
            if name.lower().endswith(".md"):
                shelf, file, _ = self.documents.find(name, scope=self._scope(scope))
                kept, secret = self._gate(editing.check_text(after, largest=largest), shelf.place.scope)
                self.documents.write(shelf, file, kept, seen=before.encode() if before else None)
                return secret
            found = self._mendable(name, scope)
            whole = editing.check_text(after, largest=files.LARGEST)
            kept, secret = self._gate(whole, found.shelf.place.scope)
            record = self.records.parse(found.shelf, found.name, kept.encode())
            if found.shelf.trusted:  # one that is not cannot be edited at all, which is told first
                editing.check_record(before, record, largest=largest)
            self.records.replace_text(found, before.encode(), kept, operation="edit")
            return secret

    def _purgeable(self, name: str, scope: str | Scope | None) -> tuple[Shelf, str, str | None]:
        """A record that is here, or one that is only in the archive."""
        try:
            found = self._find(name, scope, only=True)
        except NotFound:
            version = versions.find(self.records, name, self._places(scope, all=False))
            if version is None:
                raise
            return version.shelf, version.name, None
        if found.part:
            return found.shelf, f"{found.part}.md", found.record.id
        return found.shelf, found.name, found.record.id


def _order(record: Record) -> tuple[int, str, int, str]:
    return list(Scope).index(record.place.scope), record.place.id, record.num or 0, record.key
