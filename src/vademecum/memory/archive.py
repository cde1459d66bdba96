"""The archive: list what is in it, restore from it, and delete texts permanently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, NotFound, PendingReview, UsageError
from vademecum.store import (
    Edit,
    Found,
    HistorySubject,
    Purge,
    Purged,
    Run,
    Version,
    archive,
    history,
    is_guarded,
    lookup,
    pending_writes,
    provenance,
    scopes,
    tombstones,
)
from vademecum.store import purge as purging
from vademecum.store import purge_origin as origins
from vademecum.store import sources as attached
from vademecum.text import clock, document, filenames
from vademecum.text.filenames import key_of
from vademecum.types import Audience, Finding, Record, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.store import HistoryEvent, ScopeFolder, Tombstone, Workspace
    from vademecum.store.history import OwnVersion
    from vademecum.sync.facts import FactId
    from vademecum.sync.projection import FactSet
    from vademecum.sync.purge_facts import Cut
    from vademecum.sync.purge_orders import Finder, HeldText, PurgeOrder
    from vademecum.types import Entry, Origin

_ATTEMPTS = 5  # attempts to archive a file that somebody keeps saving
_SYNCED = "hub"  # the folder of synced workspaces
_LOOKS = 3  # passes over what a session writes during its purge


class HistoryStep(NamedTuple):
    """A version of a document: its id in the archive, why it was replaced, by whom and when, and its text."""

    id: str  # empty for the current version
    why: str
    at: str
    by: str
    text: str


def _step(event: HistoryEvent | None, id: str, why: str, text: str) -> HistoryStep:
    """Return a version; `event` is the change that made its text."""
    if event is None:
        return HistoryStep(id, why, "", "", text)
    return HistoryStep(id, why, event.made or event.at, event.writer, text)


def _subject(scope_folder: ScopeFolder, kind: str, name: str, record: str | None) -> HistorySubject:
    """Return a file with its content and the time at which it was saved as the subject of a history."""
    below = () if kind == filenames.PINNED else (kind,)
    folder = scope_folder.open(*below)
    if folder is None:
        return HistorySubject(scope_folder, kind, name, record)
    with folder:
        state, content = folder.stat(name), folder.read(name)
    changed = None if state is None else clock.from_seconds(state.st_mtime)
    return HistorySubject(scope_folder, kind, name, record, content, changed)


class Archive:
    """`Memory.archive`: forgotten, replaced and cleared records, and permanent deletion."""

    def __init__(self, workspace: Workspace, close: Callable[[], None]) -> None:
        self._work = workspace
        self._close = close

    def forgotten(self, *, scope: str | Scope | None = None) -> Sequence[Version]:
        """Return the records that can be restored: those forgotten, and those whose file somebody deleted."""
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the archive"):
            return [*lookup.gone_records(self._work.records, self._work.places(scope))]

    def lost_entries(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[Entry]:
        """Return the saved entries of a record that an edit by hand has removed from its file."""
        return self._work.records.lost(self._work.find(name, scope))

    def restore(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Restore a forgotten record, an archived version by its id, or entries that an edit has removed.

        The name of a pinned document restores the newest version of it that differs from the current one.
        """
        self._work.may_write()
        with self._work.reported(f"restore {name}"):
            if filenames.is_document(str(name)):
                newest = self._work.documents.newest(str(name), scope=self._work.scope(scope))
                return self._work.documents.restore(*newest).as_record()
            places = self._work.places(scope)
            version = lookup.find_version(self._work.records, str(name), places)
            if version is not None:
                follow = version.image.id == str(name)
                return self._work.records.restore(
                    version.scope_folder, version.name, version.image, follow=follow
                )
            image = self._work.documents.image(str(name), places)
            if image is not None:
                return self._work.documents.restore(*image).as_record()
            found = self._work.find(name, scope, only=True)
            lost = self._work.records.lost(found)
            if not lost:
                raise self._nothing_to_restore(found)
            return self._work.records.restore_entries(found, lost)

    def _nothing_to_restore(self, found: Found) -> NotFound:
        """Return the error that a record has lost nothing, with a hint at earlier versions to replace it
        with.
        """
        key = found.record.key
        earlier = lookup.replaced_versions(self._work.records, found)
        if not earlier:
            return NotFound(f"{key} is not archived and has lost no entries")
        count_text = "an earlier record" if len(earlier) == 1 else f"{len(earlier)} earlier records"
        newest = earlier[-1]
        others = ", ".join(each.id for each in reversed(earlier[:-1]))
        listed = f"; the others are {others}" if others else ""
        return NotFound(
            f"{key} is here; {count_text} of that name, forgotten on {newest.day}, can replace it",
            hint=f"run `vade restore {newest.id}`, which archives the current one{listed}",
        )

    def versions(
        self, name: str | int, *, scope: str | Scope | None = None
    ) -> Sequence[archive.ArchivedVersion]:
        """Return the archived versions of a record or pinned document, oldest first.

        A record's versions from before a rename or move are among them.
        """
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the archive"):
            found = history.own_versions(self._work.home, *self._history_of(name, scope))
        return [each.image for each in found]

    def events(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[HistoryEvent]:
        """Return what happened to a record, forgotten or not, or to a pinned document, oldest event first."""
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the history"):
            return history.read(self._work.home, *self._history_of(name, scope))[0]

    def history(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[HistoryStep]:
        """Return every archived version of a record or pinned document, oldest first, and the current one.

        Each has the time and the writer of the change that made it.
        """
        if self._work.settings.incognito:
            return []
        with self._work.reported("read the history"):
            events, others = history.read(self._work.home, *self._history_of(name, scope))
        found = []
        for image in others:
            content = self._work.home.read(*image.parts)
            if content is not None:
                found.append(_step(None, image.id, image.why, content.decode(errors="replace")))
        made: HistoryEvent | None = None  # the change that made the text
        for each in events:
            if each.version and each.before is not None:
                found.append(_step(made, each.version, each.what, each.before))
            made = each if each.after is not None else made
        last = next((each for each in reversed(events) if (each.before, each.after) != (None, None)), None)
        if last is not None and last.after is not None:
            found.append(_step(last, "", "now", last.after))
        return found

    def _history_of(
        self, name: str | int, scope: str | Scope | None
    ) -> tuple[HistorySubject, Sequence[ScopeFolder]]:
        """Return the subject of a history, and the visible folders in which it may have been before."""
        work = self._work
        if filenames.is_document(str(name)):
            scope_folder, file, _ = work.documents.images(str(name), scope=work.scope(scope))
            return _subject(scope_folder, filenames.PINNED, file, None), ()
        places = scopes.visible(work.caller)
        folders = [each for place in places for each in scopes.scope_folders(work.home, work.caller, place)]
        try:
            found = work.find(name, scope)
        except NotFound:
            version = lookup.find_version(work.records, str(name), work.places(scope))
            if version is None:
                raise
            id = lookup.id_of(work.records, version)  # its file name may be another record's by now
            return HistorySubject(version.scope_folder, filenames.RECORDS, version.name, id), folders
        if found.part:
            part = _subject(found.scope_folder, filenames.RECORDS, f"{found.part}.md", found.record.id)
            return part._replace(part=True), folders
        subject = _subject(found.scope_folder, filenames.RECORDS, found.name, found.record.id)
        return subject._replace(lost=tuple(work.records.lost(found))), folders

    def clear(self, *, scope: str | Scope, protected: bool = False) -> Sequence[Record]:
        """Move the records of a scope to the archive as one run; protected records only with `protected`.

        If the caller may not change one of these records, nothing is moved and the user is asked to approve.
        """
        self._work.may_write()
        if protected:
            self._work.may_decide("forget what is protected", "vade forget --all")
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
                if isinstance(each, Found)
                and each.scope_folder.trusted
                and (protected or not each.record.protected)
            ]
            user_records = [found for found in chosen if self._work.records.holds(found)]
            if user_records:
                raise PendingReview(
                    f"{place} is not cleared: {len(user_records)} of its {len(chosen)} records are the"
                    " user's, so this is pending review",
                    approval=self._ask_to_archive(chosen, scope=place.scope),
                )
            return self.put_away(chosen)

    def forget_all(
        self, names: Sequence[str | int] = (), *, match: str | None = None, scope: str | Scope | None = None
    ) -> Sequence[Record]:
        """Move the named records, and those that match a filter, to the archive as one run.

        A protected record must be named. If the caller may not change one of the records, nothing is moved
        and the user is asked to approve.
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
            user_records = [each for each in chosen if self._work.records.holds(each)]
            if user_records:
                raise PendingReview(
                    f"nothing is forgotten: {len(user_records)} of these {len(chosen)} records are the"
                    " user's, so this is pending review",
                    approval=self._ask_to_archive(chosen, scope=chosen[0].record.place.scope),
                )
            return self.put_away([self._work.records.as_own_record(each) for each in chosen])

    def _ask_to_archive(self, chosen: Sequence[Found], *, scope: Scope) -> str:
        """Ask the user to approve that these records of theirs are archived; return the id of the request."""
        arguments = {
            "records": [{"name": each.record.key, "seen": self._work.content_hash(each)} for each in chosen]
        }
        return self._work.wait_for_a_person("archive", arguments, scope=scope).id

    def put_away(self, chosen: Sequence[Found]) -> Sequence[Record]:
        """Move records to the archive as one run, which `undo` reverts; return the moved records.

        A record that a person saves meanwhile is read again, and archived with the person's change.
        """
        run = Run(
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
                content = found.scope_folder.read(filenames.RECORDS, found.name)
                if content is None:
                    break  # another process has archived it
                edit = Edit(found.scope_folder, filenames.RECORDS, found.name, content, None)
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
    ) -> Purge:
        """Delete a record permanently, or all texts of an origin, a session, an agent or a source.

        Give either `name` or filters. Filters delete entries, notes, transcripts and archived versions;
        copies in the `.vade/` folders of other projects are only reported. A `dry_run` deletes nothing.
        `prove` returns a receipt and leaves a tombstone, so that `finish_purges` finds the text if it comes
        back.
        """
        self._may_purge("vade purge", dry=dry_run)
        wanted = self._origin_filter(scope, origin, session, agent, since, until, source)
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
                self._finish_interrupted()
            scope_folder, file, record = self._purgeable(str(name), scope)
            earlier = self._earlier_versions(str(name), scope, scope_folder, file) if record else []
            found = [
                *purging.earlier(self._work.home, earlier, record or "", dry=True),
                *purging.record(self._work.home, scope_folder, file, dry=True),
            ]
            if dry_run:
                synced = self._preview_logs(_record_finder(file, record), scope_folder=scope_folder)
                return Purge((*found, *synced), dry=True)
            proof = self._proof("record", found, prove=prove)
            texts = purging.texts_of(self._work.home, scope_folder, file) if prove else []
            texts += purging.texts_of_versions(self._work.home, earlier) if prove else []
            proof.put(texts=texts, records=(record,) if record else ())
            records, key = self._work.records, key_of(file)
            orders = self._ordered_record(scope_folder, file, record)
            records.release(
                records.holding(scope_folder, key), key
            )  # records that were consolidated with it stay
            found = purging.earlier(self._work.home, earlier, record or "")
            with records.locked(scope_folder, file):
                found += purging.record(self._work.home, scope_folder, file)
            found += self._spread_purge(orders)
            self._forget_derived()
            return proof.finished(found, scope=scope_folder.place.scope, record=record)

    def _earlier_versions(
        self, name: str, scope: str | Scope | None, scope_folder: ScopeFolder, file: str
    ) -> list[OwnVersion]:
        """Return the versions of a record from when it had another name or was in another scope."""
        found = history.own_versions(self._work.home, *self._history_of(name, scope))
        return [each for each in found if (each.scope_folder, each.name) != (scope_folder, file)]

    def purge_text(self, text: str, *, dry_run: bool = False, prove: bool = False) -> Purge:
        """Delete a text permanently wherever it occurs; occurrences in attached sources are only reported."""
        self._may_purge("vade purge --text", dry=dry_run)
        wanted = document.accept_text(text, largest=self._work.settings.limits.content_bytes)
        with self._work.reported("purge that text"):
            if dry_run:
                found = [*self._purged_text(wanted, dry=True), *self._preview_logs(_text_finder(wanted))]
                return Purge((*found, *self._find_unreachable(wanted)), dry=True)
            self._finish_interrupted()
            proof = self._proof("a text", self._purged_text(wanted, dry=True) if prove else (), prove=prove)
            proof.put(part=wanted)
            orders = self._ordered_text(wanted)
            self._forget_derived()
            found = [*self._purged_text(wanted, dry=False), *self._find_unreachable(wanted)]
            found += self._spread_purge(orders)
            self._forget_derived()
            if prove:  # whatever is known of each file, its bytes are looked at as well
                told = {each.where for each in found if not each.gone}
                left = purging.remaining(self._work.home, self._shared, wanted)
                found += [each for each in left if each.where not in told]
            return proof.finished(found)

    def tombstones(self) -> Sequence[Tombstone]:
        """Return the purges that left a tombstone or were interrupted, oldest first."""
        self._work.not_in_group("see what was purged")
        return tombstones.every(self._work.home)

    def purge_findings(self) -> Sequence[Finding]:
        """Return findings about interrupted purges, and about tombstones that can no longer be checked."""
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
        from vademecum.sync import purge_orders

        for order in purge_orders.list_orders(self._work.home):
            why = "a purge of synced memory was interrupted: some of it may still be here"
            yield Finding("purge", "/".join(order.log.parts), why, "vade purge --finish", "error")
        for held_text in purge_orders.list_held(self._work.home):
            why = "edited here while another machine purged what it was made from; it is not synced"
            yield Finding("held", f"{held_text.place}: {held_text.path}", why, "vade sync held", "warning")

    def finish_purges(self, *, dry_run: bool = False) -> Purge:
        """Finish every interrupted purge, and delete purged texts that came back with a copy of files.

        A `dry_run` deletes nothing; it returns the interrupted purges and the texts that came back.
        """
        self._may_purge("vade purge --finish", dry=dry_run)
        with self._work.reported("finish what was purged"):
            home, shared = self._work.home, self._shared
            found = [] if dry_run else self._finish_interrupted()
            back = origins.returned(home, shared)
            if dry_run:
                begun = [each for each in tombstones.every(home) if not each.done]
                named = [Purged(f"{tombstones.FOLDER}/{each.id}.json", 1) for each in begun]
                return Purge((*named, *back.found), dry=True)
            if not back.found:
                return Purge(tuple(found))
            proof = self._proof("what came back", (), prove=False)
            order = self._order(proof, back.entries)
            orders = self._ordered_entries(back.entries)
            found += origins.carry_out(home, shared, order)
            found += self._spread_purge(orders)
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
        scope_folder = scopes.own_folder(self._work.home, self._work.caller.project)
        return scope_folder.top / ".vade" if scope_folder is not None and scope_folder.trusted else None

    def _origin_filter(
        self, scope: str | Scope | None, *given: str | Origin | None
    ) -> provenance.Wanted | None:
        """Return the filter of a purge by origin, session, agent or source; None when the call has none."""
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

    def _purge_origin(self, wanted: provenance.Wanted, *, dry: bool, prove: bool) -> Purge:
        home, shared = self._work.home, self._shared
        if not dry:
            self._finish_interrupted()
        plan = provenance.plan(home, shared, wanted)
        seen = origins.preview(home, shared, plan)
        elsewhere = self._elsewhere(plan.entries)
        if dry or not (plan.entries or plan.files):
            synced = self._preview_logs(_entries_finder(plan.entries)) if plan.entries else []
            return Purge((*seen, *synced, *elsewhere), dry=dry)
        proof = self._proof(str(wanted), seen, prove=prove)
        found: list[Purged] = []
        self._forget_derived()
        for _ in range(_LOOKS):  # a running session may write again
            counts: dict[str, Any] = {"files": plan.files, "sessions": plan.sessions, "records": plan.records}
            order = self._order(proof, plan.entries, **counts)
            orders = self._ordered_entries(plan.entries)
            found += origins.carry_out(home, shared, order, only=plan.where)
            found += self._spread_purge(orders)
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
        """Save the list of what a purge will delete before it deletes anything, so that an interrupted purge
        can be finished.
        """
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

    def _finish_interrupted(self) -> list[Purged]:
        """Finish interrupted purges before another purge begins; return what was deleted."""
        home, shared = self._work.home, self._shared
        orders = [each for each in tombstones.every(home) if not each.done]
        every: list[Purged] = []
        if home.names(_SYNCED):
            from vademecum.sync import purge_orders as syncing

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

    # Sync: an order is written before anything is deleted, and the logs are cleared last.

    def _ordered_text(self, wanted: str) -> Sequence[PurgeOrder]:
        placed = self._ordered(_text_finder(wanted))
        if placed or self._work.home.names(_SYNCED):
            from vademecum.sync import purge_orders

            purge_orders.purge_held(self._work.home, wanted)
        return placed

    def _ordered_record(
        self, scope_folder: ScopeFolder, file: str, record: str | None
    ) -> Sequence[PurgeOrder]:
        return self._ordered(_record_finder(file, record), scope_folder=scope_folder)

    def _ordered_entries(self, entries: Sequence[Entry]) -> Sequence[PurgeOrder]:
        return self._ordered(_entries_finder(entries)) if entries else ()

    def _ordered(self, find: Finder, scope_folder: ScopeFolder | None = None) -> Sequence[PurgeOrder]:
        if not self._work.home.names(_SYNCED):
            return ()
        from vademecum.sync import purge_orders

        return purge_orders.place_orders(self._work.home, find, scope_folder=scope_folder)

    def _preview_logs(self, find: Finder, scope_folder: ScopeFolder | None = None) -> list[Purged]:
        """Return what a purge would delete from the logs of sync, the shared folder and the hubs."""
        if not self._work.home.names(_SYNCED):
            return []
        from vademecum.sync import purge_orders

        return [
            Purged(*each) for each in purge_orders.preview(self._work.home, find, scope_folder=scope_folder)
        ]

    def _spread_purge(self, placed: Sequence[PurgeOrder]) -> list[Purged]:
        """Delete purged texts from the logs of sync; the next sync tells the other machines to do the
        same.
        """
        if not placed:
            return []
        from vademecum.sync import purge_orders

        purge_orders.carry_out(self._work.home, placed)
        return [Purged("/".join(each.log.parts), len(each.named)) for each in placed]

    def held_texts(self) -> Sequence[HeldText]:
        """Return the texts that were edited on this machine while another machine purged their original."""
        self._work.not_in_group("see what was purged")
        from vademecum.sync import purge_orders

        return purge_orders.list_held(self._work.home)

    def drop_held(self, id: str) -> None:
        """Delete permanently a text that `held_texts` lists; to keep the text, add it as a new record."""
        self._may_purge("vade sync held --drop", dry=False)
        from vademecum.sync import purge_orders

        purge_orders.drop_held(self._work.home, id)

    def _proof(self, what: str, found: Iterable[Purged], *, prove: bool) -> origins.Proof:
        """Return the beginning of a purge's receipt: the content of the files that the purge will change."""
        return origins.Proof(self._work, what, self._shared, found, prove=prove)

    def _purged_text(self, wanted: str, *, dry: bool) -> Iterator[Purged]:
        home = self._work.home
        for path, count in pending_writes.purge(home, wanted, dry=dry):
            yield Purged(path, count)
        yield from purging.text(home, self._shared, wanted, dry=dry)

    def _find_unreachable(self, wanted: str) -> Iterator[Purged]:
        """Yield the files that contain a text but cannot be changed from here, such as attached sources."""
        for source in attached.every(self._work.home):
            for path in source.markdown():
                count = purging.occurrences(path, wanted)
                if count:
                    why = "attached sources are never changed"
                    yield Purged(str(path), count, gone=False, why=why, reachable=False)
        for root in scopes.trusted_folders(self._work.home):
            if self._shared is None or root != self._shared.parent:
                yield from purging.elsewhere(root, wanted)
        if self._work.home.names(_SYNCED):
            from vademecum.sync import purge_orders

            for team, count in purge_orders.held_by_teams(self._work.home, _text_finder(wanted)):
                why = "the team's other members keep it: only its owner can purge it for all"
                yield Purged(f"team:{team}", count, gone=False, why=why, reachable=False)

    def _elsewhere(self, entries: Sequence[Entry]) -> list[Purged]:
        """Return the `.vade/` folders of other trusted projects that contain any of these entries."""
        found: list[Purged] = []
        for root in scopes.trusted_folders(self._work.home):
            if self._shared is None or root != self._shared.parent:
                found += origins.elsewhere(root, entries)
        return found

    def _purgeable(self, name: str, scope: str | Scope | None) -> tuple[ScopeFolder, str, str | None]:
        """Return place, file and id of a record that the caller may purge; no id if it is in the archive."""
        try:
            found = self._work.find(name, scope, only=True)
        except NotFound:
            version = lookup.find_version(self._work.records, name, self._work.places(scope))
            if version is None:
                raise
            return version.scope_folder, version.name, None
        if found.scope_folder.team:
            from vademecum.sync import purge_orders

            purge_orders.check_role(self._work.home, found.scope_folder)
        if found.part:
            return found.scope_folder, f"{found.part}.md", found.record.id
        return found.scope_folder, found.name, found.record.id

    def _forget_derived(self) -> None:
        """Close memory and delete derived files, which may contain purged text; they are rebuilt later."""
        self._close()
        purging.derived(self._work.home)
        pending_writes.clear_answers(self._work.home)


# Which texts a purge concerns, as a question to the sync logs; these are read only where they exist.


def _text_finder(wanted: str) -> Finder:
    def find(state: FactSet) -> Mapping[FactId, Cut | None]:
        from vademecum.sync import purge_facts

        return purge_facts.find_text(state.facts.values(), wanted)

    return find


def _record_finder(file: str, record: str | None) -> Finder:
    def find(state: FactSet) -> Mapping[FactId, Cut | None]:
        from vademecum.sync import purge_facts

        return purge_facts.find_record(state, f"{filenames.RECORDS}/{file}", record)

    return find


def _entries_finder(entries: Sequence[Entry]) -> Finder:
    def find(state: FactSet) -> Mapping[FactId, Cut | None]:
        from vademecum.sync import purge_facts

        return purge_facts.find_entries(state, entries)

    return find
