"""What left sight, and how it comes back or goes for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, NotFound, PendingReview
from vademecum.store import Found, archive, document, frontmatter, pinned, reading, requests, scopes
from vademecum.store import purge as purging
from vademecum.store import reading as archived
from vademecum.store import runs as running
from vademecum.store import sources as attached
from vademecum.store.merge import is_guarded
from vademecum.store.records import key_of
from vademecum.types import Finding, Record, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.store import Shelf, Workspace
    from vademecum.types import Entry

_ATTEMPTS = 5  # at clearing a file that somebody keeps saving


class HistoryStep(NamedTuple):
    """One version of a document: its id in the archive, why it was replaced, who wrote it and when."""

    id: str  # empty for how it stands now
    why: str
    at: str
    by: str
    text: str


def _step(content: bytes, id: str, why: str) -> HistoryStep:
    text = content.decode(errors="replace")
    try:
        values = frontmatter.parse(text).values
    except Malformed:
        values = {}
    made = values.get("generated")
    made = made if isinstance(made, dict) else {}
    client = f" ({made['client']})" if made.get("client") else ""
    at = str(made.get("at") or values.get("updated") or "")
    return HistoryStep(id, why, at, f"{made.get('by') or ''}{client}", text)


class Archive:
    """What was forgotten, replaced or cleared, and what is to be deleted for good, as `Memory` offers it."""

    def __init__(self, workspace: Workspace, close: Callable[[], None]) -> None:
        self._work = workspace
        self._close = close

    def forgotten(self, *, scope: str | Scope | None = None) -> Sequence[archived.Version]:
        """The records that are gone from sight and can be brought back, forgotten or deleted by hand."""
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the archive"):
            return [*archived.gone_records(self._work.records, self._work.places(scope))]

    def lost_entries(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[Entry]:
        """Entries of a record that were acknowledged and that an edit has taken out of its file."""
        return self._work.records.lost(self._work.find(name, scope))

    def restore(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Bring back a forgotten record, an archived version by its id, or entries that an edit took out.

        The name of a pinned document brings back its newest other version.
        """
        self._work.may_write()
        with self._work.reported(f"restore {name}"):
            if pinned.is_name(str(name)):
                newest = self._work.documents.newest(str(name), scope=self._work.scope(scope))
                return self._work.documents.restore(*newest).as_record()
            places = self._work.places(scope)
            version = archived.find_version(self._work.records, str(name), places)
            if version is not None:
                return self._work.records.restore(version.shelf, version.name, version.image)
            image = self._work.documents.image(str(name), places)
            if image is not None:
                return self._work.documents.restore(*image).as_record()
            found = self._work.find(name, scope, only=True)
            lost = self._work.records.lost(found)
            if not lost:
                raise self._nothing_to_restore(found)
            return self._work.records.restore_entries(found, lost)

    def _nothing_to_restore(self, found: Found) -> NotFound:
        """That a record is here and whole, with the earlier ones of its name that could take its place."""
        key = found.record.key
        earlier = archived.replaced_versions(self._work.records, found)
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
        if self._work.settings.incognito:
            return []
        if pinned.is_name(str(name)):
            return self._work.documents.images(str(name), scope=self._work.scope(scope))[2]
        found = self._work.find(name, scope)
        return archive.images(self._work.home, found.shelf, archive.RECORDS, found.name)

    def history(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[HistoryStep]:
        """Every version of a record or pinned document, oldest first; the last one is how it stands now."""
        found = []
        for image in self.versions(name, scope=scope):
            content = self._work.home.read(*image.parts)
            if content is not None:
                found.append(_step(content, image.id, image.why))
        if pinned.is_name(str(name)):
            _, _, now = self._work.documents.find(str(name), scope=self._work.scope(scope))
        else:
            record = self._work.find(name, scope)
            now = reading.from_shelf(record.shelf, archive.RECORDS, record.name)
        return [*found, *([] if now is None else [_step(now, "", "now")])]

    def clear(self, *, scope: str | Scope, protected: bool = False) -> Sequence[Record]:
        """Move all records of a scope to the archive as one run, protected ones only when asked to."""
        self._work.may_write()
        if protected:
            self._work.may_decide("forget what is protected", "vade clear")
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        with self._work.reported(f"clear {place}"):
            self._work.records.tidy(place)
            every = [*self._work.records.all([place])]
            for each in every:
                if isinstance(each, Finding):
                    raise Malformed(f"{each.where} cannot be read, so nothing was forgotten: {each.why}")
            chosen = [
                each
                for each in every
                if isinstance(each, Found) and each.shelf.trusted and (protected or not each.record.protected)
            ]
            held = [found for found in chosen if self._work.records.holds(found)]
            if held:
                raise PendingReview(
                    f"{place} is not cleared: {len(held)} of its {len(chosen)} records are a person's, so"
                    " this waits for review",
                    approval=self._put_away_later(chosen, scope=place.scope),
                )
            return self.put_away(chosen)

    def forget_all(
        self, names: Sequence[str | int] = (), *, match: str | None = None, scope: str | Scope | None = None
    ) -> Sequence[Record]:
        """Move records that are named, or that a filter matches, to the archive as one run.

        What is protected goes only when it is named.
        """
        from vademecum.lifecycle.care import select

        self._work.may_write()
        with self._work.reported("forget these"):
            wanted = self._work.scope(scope)
            named = select(self._work, map(str, names), match=None, scope=wanted)
            guarded = [each.record.key for each in named if is_guarded(each.record.fields)]
            if guarded and not self._work.caller.approved:
                self._work.may_decide(f"forget {guarded[0]}, which is protected", "vade forget")
            matched = select(self._work, (), match=match, scope=wanted)
            chosen = [*named, *(each for each in matched if not is_guarded(each.record.fields))]
            held = [each for each in chosen if self._work.records.holds(each)]
            if held:
                raise PendingReview(
                    f"nothing is forgotten: {len(held)} of these {len(chosen)} records are a person's, so"
                    " this waits for review",
                    approval=self._put_away_later(chosen, scope=chosen[0].record.place.scope),
                )
            return self.put_away([self._work.records.standing_alone(each) for each in chosen])

    def _put_away_later(self, chosen: Sequence[Found], *, scope: Scope) -> str:
        """Ask a person whether these records of theirs may go to the archive, as they are now."""
        asked = {
            "records": [{"name": each.record.key, "seen": self._work.content_hash(each)} for each in chosen]
        }
        return self._work.wait_for_a_person("archive", asked, scope=scope).id

    def put_away(self, chosen: Sequence[Found]) -> Sequence[Record]:
        """Move records to the archive as one run, which `undo` brings back; those that were moved.

        One that a person saves in that moment is read again, and goes with what they wrote.
        """
        run = running.Run(
            self._work.home,
            self._work.caller,
            self._work.now,
            self._work.announce,
            "clear",
            retired_as=archive.CLEARED,
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

    def purge(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[purging.Purged]:
        """Delete a record for good, with every version and copy of it."""
        self._work.may_write()
        self._work.may_decide("delete for good", "vade purge")
        with self._work.reported(f"purge {name}"):
            shelf, file, record = self._purgeable(str(name), scope)
            self._work.records.release(shelf, key_of(file))  # what was consolidated with it stays
            with self._work.records.locked(shelf, file):
                found = purging.record(self._work.home, shelf, file)
            self._forget_derived()
            self._work.audit("purge", scope=shelf.place.scope, record=record)
        return found

    def purge_text(self, text: str) -> Sequence[purging.Purged]:
        """Delete a text for good wherever it stands; attached sources are reported, not changed."""
        self._work.may_write()
        self._work.may_decide("delete for good", "vade purge --text")
        wanted = document.accept_text(text, largest=self._work.settings.limits.content_bytes)
        with self._work.reported("purge that text"):
            self._forget_derived()
            shelf = scopes.own_shelf(self._work.home, self._work.caller.project)
            waited = [purging.Purged(path, count) for path, count in requests.purge(self._work.home, wanted)]
            found = waited + purging.text(
                self._work.home, shelf.top / ".vade" if shelf is not None and shelf.trusted else None, wanted
            )
            for source in attached.every(self._work.home):
                for path in source.markdown():
                    count = purging.occurrences(path, wanted)
                    if count:
                        found.append(
                            purging.Purged(
                                str(path), count, gone=False, why="an attached source is not ours to change"
                            )
                        )
            for root in scopes.trusted_folders(self._work.home):
                if shelf is None or root != shelf.top:
                    found += purging.elsewhere(root, wanted)
            self._forget_derived()
            self._work.audit("purge")
        return found

    def _purgeable(self, name: str, scope: str | Scope | None) -> tuple[Shelf, str, str | None]:
        """A record that is here, or one that is only in the archive."""
        try:
            found = self._work.find(name, scope, only=True)
        except NotFound:
            version = archived.find_version(self._work.records, name, self._work.places(scope))
            if version is None:
                raise
            return version.shelf, version.name, None
        if found.part:
            return found.shelf, f"{found.part}.md", found.record.id
        return found.shelf, found.name, found.record.id

    def _forget_derived(self) -> None:
        """Delete what was made from the files: it may hold what was purged, and is made again when needed."""
        self._close()
        purging.derived(self._work.home)
        requests.clear_answers(self._work.home)
