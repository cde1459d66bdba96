"""What was archived, and how it is restored or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, NotFound, PendingReview, UsageError
from vademecum.store import (
    Found,
    archive,
    document,
    frontmatter,
    pinned,
    provenance,
    reading,
    requests,
    scopes,
    tombstones,
)
from vademecum.store import purge as purging
from vademecum.store import purge_origin as origins
from vademecum.store import runs as running
from vademecum.store import sources as attached
from vademecum.store.merge import is_guarded
from vademecum.store.records import key_of
from vademecum.text import clock
from vademecum.types import Audience, Finding, Record, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.store import Shelf, Workspace
    from vademecum.store.tombstones import Tombstone
    from vademecum.sync.facts import Dot
    from vademecum.sync.orders import Finder, HeldText, PurgeOrder
    from vademecum.sync.project import FactSet
    from vademecum.sync.purges import Cut
    from vademecum.types import Entry, Origin

_ATTEMPTS = 5  # at clearing a file that somebody keeps saving
_SYNCED = "hub"  # the folder of what is synced
_LOOKS = 3  # at what a session writes while it is purged


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

    def forgotten(self, *, scope: str | Scope | None = None) -> Sequence[reading.Version]:
        """The records that are gone from sight and can be brought back, forgotten or deleted by hand."""
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the archive"):
            return [*reading.gone_records(self._work.records, self._work.places(scope))]

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
            version = reading.find_version(self._work.records, str(name), places)
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
        earlier = reading.replaced_versions(self._work.records, found)
        if not earlier:
            return NotFound(f"{key} is not archived and has lost no entries")
        said = "an earlier record" if len(earlier) == 1 else f"{len(earlier)} earlier records"
        newest = earlier[-1]
        listed = f"; `vade show {key}` lists all versions" if len(earlier) > 1 else ""
        return NotFound(
            f"{key} is here; {said} of that name, forgotten on {newest.day}, can replace it",
            hint=f"run `vade restore {newest.id}`, which archives the current one{listed}",
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
                    f"{place} is not cleared: {len(held)} of its {len(chosen)} records are the user's, so"
                    f" this is pending review",
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
                    f"nothing is forgotten: {len(held)} of these {len(chosen)} records are the user's, so"
                    f" this is pending review",
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

    def purge(
        self,
        name: str | int | None = None,
        *,
        scope: str | Scope | None = None,
        origin: str | Origin | None = None,
        session: str | None = None,
        agent: str | None = None,
        since: str | None = None,
        until: str | None = None,
        source: str | None = None,
        dry_run: bool = False,
        prove: bool = False,
    ) -> purging.Purge:
        """Delete a record for good, or all that came from there: an origin, a session, an agent, a source.

        What came from there goes everywhere: entries, notes, transcripts, the archive and every copy. A
        `dry_run` deletes nothing; with `prove` there is a receipt, and a tombstone keeps it from coming back.
        """
        self._may_purge("vade purge", dry=dry_run)
        wanted = self._wanted(scope, origin, session, agent, since, until, source)
        if (name is None) == (wanted is None):
            raise UsageError(
                "a purge needs a record, or a filter",
                hint="pass a key, or one or more of origin, session, agent, since, until and source",
            )
        if wanted is not None:
            with self._work.reported(f"purge {wanted}"):
                return self._purge_origin(wanted, dry=dry_run, prove=prove)
        with self._work.reported(f"purge {name}"):
            if not dry_run:
                self._finished()
            shelf, file, record = self._purgeable(str(name), scope)
            found = purging.record(self._work.home, shelf, file, dry=True)
            if dry_run:
                synced = self._would_go(_record_finder(file, record), shelf=shelf)
                return purging.Purge((*found, *synced), dry=True)
            proof = self._proof("record", found, prove=prove)
            texts = purging.texts_of(self._work.home, shelf, file) if prove else ()
            proof.put(texts=texts, records=(record,) if record else ())
            records, key = self._work.records, key_of(file)
            orders = self._ordered_record(shelf, file, record)
            records.release(records.holding(shelf, key), key)  # what was consolidated with it stays
            with records.locked(shelf, file):
                found = purging.record(self._work.home, shelf, file)
            found += self._sent_on(orders)
            self._forget_derived()
            return proof.finished(found, scope=shelf.place.scope, record=record)

    def purge_text(self, text: str, *, dry_run: bool = False, prove: bool = False) -> purging.Purge:
        """Delete a text for good wherever it stands; attached sources are reported, not changed."""
        self._may_purge("vade purge --text", dry=dry_run)
        wanted = document.accept_text(text, largest=self._work.settings.limits.content_bytes)
        with self._work.reported("purge that text"):
            if dry_run:
                found = [*self._purged_text(wanted, dry=True), *self._would_go(_text_finder(wanted))]
                return purging.Purge((*found, *self._beyond(wanted)), dry=True)
            self._finished()
            proof = self._proof("a text", self._purged_text(wanted, dry=True) if prove else (), prove=prove)
            proof.put(part=wanted)
            orders = self._ordered_text(wanted)
            self._forget_derived()
            found = [*self._purged_text(wanted, dry=False), *self._beyond(wanted)]
            found += self._sent_on(orders)
            self._forget_derived()
            return proof.finished(found)

    def tombstones(self) -> Sequence[Tombstone]:
        """The purges that left a tombstone, or were cut short, oldest first."""
        self._work.not_in_group("see what was purged")
        return tombstones.every(self._work.home)

    def purge_findings(self) -> Sequence[Finding]:
        """Purges that were cut short, and tombstones that can no longer be asked."""
        if self._work.caller.audience is Audience.GROUP:
            return []
        home, found = self._work.home, []
        for each in tombstones.every(home):
            if not each.done:
                why = f"the purge of {each.what} was interrupted: some of it may still be here"
                where = f"{tombstones.FOLDER}/{each.id}.json"
                found.append(Finding("purge", where, why, "vade purge --finish", "error"))
        found += self._sync_findings()
        for path in tombstones.damaged(home):
            why = "it cannot be read, so what was purged with it may come back"
            found.append(Finding("purge", path, why, "restore it from a backup", "error"))
        return found

    def _sync_findings(self) -> Iterator[Finding]:
        if not self._work.home.names(_SYNCED):
            return
        from vademecum.sync import orders

        for order in orders.list_orders(self._work.home):
            why = "a purge of synced memory was interrupted: some of it may still be here"
            yield Finding("purge", "/".join(order.log.parts), why, "vade purge --finish", "error")
        for held in orders.list_held(self._work.home):
            why = "edited here while another machine purged what it was made from; it is not synced"
            yield Finding("held", f"{held.place}: {held.path}", why, "vade sync held", "warning")

    def finish_purges(self, *, dry_run: bool = False) -> purging.Purge:
        """Finish every purge that was cut short, and take out what came back by a copy of the files."""
        self._may_purge("vade purge --finish", dry=dry_run)
        with self._work.reported("finish what was purged"):
            home, shared = self._work.home, self._shared
            found = [] if dry_run else self._finished()
            back = origins.returned(home, shared)
            if dry_run:
                begun = [each for each in tombstones.every(home) if not each.done]
                named = [purging.Purged(f"{tombstones.FOLDER}/{each.id}.json", 1) for each in begun]
                return purging.Purge((*named, *back.found), dry=True)
            if not back.found:
                return purging.Purge(tuple(found))
            proof = self._proof("what came back", (), prove=False)
            order = self._order(proof, back.entries)
            orders = self._ordered_entries(back.entries)
            found += origins.carry_out(home, shared, order)
            found += self._sent_on(orders)
            for each in back.parts:
                found += purging.text(home, shared, each)
            self._forget_derived()
            return proof.finished(found)

    # ---------------------------------------------------------------- parts of a purge

    def _may_purge(self, command: str, *, dry: bool) -> None:
        if dry:
            self._work.only_a_person("see what a purge would delete", command)
            return
        self._work.may_write()
        self._work.may_decide("delete permanently", command)

    @property
    def _shared(self) -> Path | None:
        shelf = scopes.own_shelf(self._work.home, self._work.caller.project)
        return shelf.top / ".vade" if shelf is not None and shelf.trusted else None

    def _wanted(self, scope: str | Scope | None, *given: str | Origin | None) -> provenance.Wanted | None:
        """What a call asks for by where it came from; None when it asks for none of it."""
        if not any(given):
            return None
        origin, session, agent, since, until, source = given
        return provenance.Wanted(
            None if origin is None else provenance.parse_kind(str(origin)),
            str(session or ""),
            str(agent or ""),
            clock.parse_given(since, "since"),
            clock.parse_given(until, "until", end=True),
            str(source or ""),
            self._work.scope(scope),
        )

    def _purge_origin(self, wanted: provenance.Wanted, *, dry: bool, prove: bool) -> purging.Purge:
        home, shared = self._work.home, self._shared
        if not dry:
            self._finished()
        plan = provenance.plan(home, shared, wanted)
        seen = origins.preview(home, shared, plan)
        elsewhere = self._elsewhere(plan.entries)
        if dry or not (plan.entries or plan.files):
            synced = self._would_go(_entries_finder(plan.entries)) if plan.entries else []
            return purging.Purge((*seen, *synced, *elsewhere), dry=dry)
        proof = self._proof(str(wanted), seen, prove=prove)
        found: list[purging.Purged] = []
        self._forget_derived()
        for _ in range(_LOOKS):  # a session that still goes on writes behind us
            told: dict[str, Any] = {"files": plan.files, "sessions": plan.sessions, "records": plan.records}
            order = self._order(proof, plan.entries, **told)
            orders = self._ordered_entries(plan.entries)
            found += origins.carry_out(home, shared, order, only=plan.where)
            found += self._sent_on(orders)
            plan = provenance.plan(home, shared, wanted)
            if not (plan.entries or plan.files):
                break
        self._forget_derived()
        return proof.finished([*found, *plan.told, *elsewhere])

    def _order(
        self,
        proof: origins.Proof,
        entries: Sequence[Entry],
        *,
        files: Sequence[str] = (),
        sessions: Sequence[str] = (),
        records: Sequence[str] = (),
    ) -> Tombstone:
        """What is to go, written down before anything does."""
        home, stone = self._work.home, proof.stone
        key = tombstones.make_key(home)
        marks = tombstones.marks_of(key, [each.text for each in entries])
        order = stone._replace(
            entries=tuple(sorted({*stone.entries, *marks})),
            sessions=tuple(sorted({*stone.sessions, *sessions})),
            records=tuple(sorted({*stone.records, *records})),
            doomed=tuple(sorted({tombstones.entry_mark(key, each) for each in entries})),
            files=tuple(files),
            done=False,
        )
        proof.stone = order._replace(doomed=(), files=())
        tombstones.put(home, order)
        return order

    def _finished(self) -> list[purging.Purged]:
        """Finish what was cut short, before anything else is purged."""
        home, shared = self._work.home, self._shared
        orders = [each for each in tombstones.every(home) if not each.done]
        every: list[purging.Purged] = []
        if home.names(_SYNCED):
            from vademecum.sync import orders as syncing

            syncing.finish(home, self._work.caller.actor, self._work.now)
        for order in orders:
            found = origins.carry_out(home, shared, order)
            back = origins.returned(home, shared, only=order) if order.prove else None
            if back is not None and back.entries:
                key = tombstones.make_key(home)
                doomed = tuple(sorted({tombstones.entry_mark(key, each) for each in back.entries}))
                found += origins.carry_out(home, shared, order._replace(doomed=doomed))
            for each in back.parts if back is not None else ():
                found += purging.text(home, shared, each)
            self._forget_derived()
            proof = self._proof(order.what, (), prove=order.prove)
            proof.stone = order._replace(doomed=(), files=())
            every += proof.finished(found)
        return every

    # What is synced: an order is written before anything is deleted, and the logs let go of it last.

    def _ordered_text(self, wanted: str) -> Sequence[PurgeOrder]:
        placed = self._ordered(_text_finder(wanted))
        if placed or self._work.home.names(_SYNCED):
            from vademecum.sync import orders

            orders.purge_held(self._work.home, wanted)
        return placed

    def _ordered_record(self, shelf: Shelf, file: str, record: str | None) -> Sequence[PurgeOrder]:
        return self._ordered(_record_finder(file, record), shelf=shelf)

    def _ordered_entries(self, entries: Sequence[Entry]) -> Sequence[PurgeOrder]:
        return self._ordered(_entries_finder(entries)) if entries else ()

    def _ordered(self, find: Finder, shelf: Shelf | None = None) -> Sequence[PurgeOrder]:
        if not self._work.home.names(_SYNCED):
            return ()
        from vademecum.sync import orders

        return orders.place_orders(self._work.home, find, shelf=shelf)

    def _would_go(self, find: Finder, shelf: Shelf | None = None) -> list[purging.Purged]:
        """What a purge would take from the logs of what is synced, and from the folder and the hubs."""
        if not self._work.home.names(_SYNCED):
            return []
        from vademecum.sync import orders

        return [purging.Purged(*each) for each in orders.preview(self._work.home, find, shelf=shelf)]

    def _sent_on(self, placed: Sequence[PurgeOrder]) -> list[purging.Purged]:
        """Take it from the logs of what is synced, and let the next sync tell the other machines."""
        if not placed:
            return []
        from vademecum.sync import orders

        orders.carry_out(self._work.home, placed)
        return [purging.Purged("/".join(each.log.parts), len(each.named)) for each in placed]

    def held_texts(self) -> Sequence[HeldText]:
        """Texts that were edited here while another machine purged what they were made from."""
        self._work.not_in_group("see what was purged")
        from vademecum.sync import orders

        return orders.list_held(self._work.home)

    def drop_held(self, id: str) -> None:
        """Delete one of these for good; to save one again, add it as a new text."""
        self._may_purge("vade sync held --drop", dry=False)
        from vademecum.sync import orders

        orders.drop_held(self._work.home, id)

    def _proof(self, what: str, found: Iterable[purging.Purged], *, prove: bool) -> origins.Proof:
        """A receipt in the making: what the files that will change hold now."""
        return origins.Proof(self._work, what, self._shared, found, prove=prove)

    def _purged_text(self, wanted: str, *, dry: bool) -> Iterator[purging.Purged]:
        home = self._work.home
        for path, count in requests.purge(home, wanted, dry=dry):
            yield purging.Purged(path, count)
        yield from purging.text(home, self._shared, wanted, dry=dry)

    def _beyond(self, wanted: str) -> Iterator[purging.Purged]:
        """Where a text stands that is not ours to change from here."""
        for source in attached.every(self._work.home):
            for path in source.markdown():
                count = purging.occurrences(path, wanted)
                if count:
                    why = "attached sources are never changed"
                    yield purging.Purged(str(path), count, gone=False, why=why)
        for root in scopes.trusted_folders(self._work.home):
            if self._shared is None or root != self._shared.parent:
                yield from purging.elsewhere(root, wanted)
        if self._work.home.names(_SYNCED):
            from vademecum.sync import orders

            for team, count in orders.held_by_teams(self._work.home, _text_finder(wanted)):
                why = "the team's other members keep it: only its owner can purge it for all"
                yield purging.Purged(f"team:{team}", count, gone=False, why=why)

    def _elsewhere(self, entries: Sequence[Entry]) -> list[purging.Purged]:
        """The `.vade/` of other trusted projects that have any of these texts."""
        found: list[purging.Purged] = []
        for root in scopes.trusted_folders(self._work.home):
            if self._shared is None or root != self._shared.parent:
                found += origins.elsewhere(root, entries)
        return found

    def _purgeable(self, name: str, scope: str | Scope | None) -> tuple[Shelf, str, str | None]:
        """A record that is here, or one that is only in the archive, if the caller may purge it."""
        try:
            found = self._work.find(name, scope, only=True)
        except NotFound:
            version = reading.find_version(self._work.records, name, self._work.places(scope))
            if version is None:
                raise
            return version.shelf, version.name, None
        if found.shelf.team:
            from vademecum.sync import orders

            orders.check_role(self._work.home, found.shelf)
        if found.part:
            return found.shelf, f"{found.part}.md", found.record.id
        return found.shelf, found.name, found.record.id

    def _forget_derived(self) -> None:
        """Delete what was made from the files: it may hold what was purged, and is made again when needed."""
        self._close()
        purging.derived(self._work.home)
        requests.clear_answers(self._work.home)


# What a purge is about, as the logs of what is synced are asked; they are read only where there are any.


def _text_finder(wanted: str) -> Finder:
    def find(state: FactSet) -> Mapping[Dot, Cut | None]:
        from vademecum.sync import purges

        return purges.find_text(state.facts.values(), wanted)

    return find


def _record_finder(file: str, record: str | None) -> Finder:
    def find(state: FactSet) -> Mapping[Dot, Cut | None]:
        from vademecum.sync import purges

        return purges.find_record(state, f"{archive.RECORDS}/{file}", record)

    return find


def _entries_finder(entries: Sequence[Entry]) -> Finder:
    def find(state: FactSet) -> Mapping[Dot, Cut | None]:
        from vademecum.sync import purges

        return purges.find_entries(state, entries)

    return find
