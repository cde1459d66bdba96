"""One inbox for everything pending, and what a person decides about it."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import shlex
from collections import Counter
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Ambiguous, Conflict, Malformed, NotFound, OutsideMemory, UsageError, VadeError
from vademecum.knowledge import trust as trusting
from vademecum.stand_ins import renamed
from vademecum.store import (
    Found,
    Listed,
    archive,
    decisions,
    files,
    hub_rules,
    pinned,
    reading,
    scopes,
)
from vademecum.store import requests as approving
from vademecum.store import runs as running
from vademecum.text import names
from vademecum.types import Audience, Finding, Origin, Outcome, Scope, find_versions, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from vademecum.memory.core import Memory
    from vademecum.store import Pinned
    from vademecum.sync.orders import HeldText
    from vademecum.types import Entry, Place, Record

KINDS = {  # in the order in which they are shown, and what a yes does
    "write": "Writes that agents asked for: yes makes the write",
    "folder": "A .vade folder that is not trusted: yes trusts it",
    "text": "Unverified texts: yes verifies them, so agents see them",
    "contradiction": "Contradictions: yes replaces the first statement with the second",
    "version": "Entries with two versions after a sync: yes keeps the second, no the first",
    "notice": "Records that a sync restored or joined: yes keeps them, no archives a restored one",
    "held": "Texts you edited while another machine purged their source: yes saves them as new, no discards",
    "conflict": "Conflict copies left by a sync tool: yes merges them into the record and archives the copy",
    "promotion": "Statements that journals repeat: yes saves them as memories",
    "signal": "Things you said that are worth saving: yes saves them as memories",
}
_SESSIONS = 10  # whose messages are read for signals
_MESSAGES = 400  # of these at most
_BRINGS = ("store", "note", "learn")  # whose text stays that of who asked for it
_KNOWN = 90.0  # out of 100: what is as like as this to something in memory is in it already
_WHERE = {"preference": (Scope.GLOBAL, "user"), "correction": (Scope.PROJECT, "feedback")}


class Item(NamedTuple):
    """One thing that waits: what it is, what exactly is decided about, and where it stands."""

    kind: str
    id: str  # of exactly these bytes; a text that changes is another item
    name: str  # what a person calls it by
    path: str
    text: str
    why: str
    scope: str = ""
    about: Any = None  # what deciding needs


class Inbox(NamedTuple):
    """All that waits, in the order of the kinds, and what could not be looked at."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # files with changes that a hub did not take, and why

    @property
    def counts(self) -> Mapping[str, int]:
        """How many of each kind; kinds without any are left out."""
        found = {kind: sum(each.kind == kind for each in self.items) for kind in KINDS}
        return {kind: count for kind, count in found.items() if count}


class Decided(NamedTuple):
    """What became of a decision: done, and how it is taken back, or why it was not done."""

    item: Item
    done: bool
    why: str = ""
    back: str = ""  # the command that takes it back


class Review:
    """What waits for a person, and what they decide, as `Memory` offers it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._work = memory.workspace

    def damaged(self) -> list[str]:
        """Decisions that cannot be read, and so decide nothing: their paths in the home."""
        return list(decisions.damaged(self._work.home))

    def inbox(
        self,
        kinds: Collection[str] = (),
        *,
        scope: str | Scope | None = None,
        declined: bool = False,
    ) -> Inbox:
        """All that waits for a person, or only these kinds; with `declined`, what they said no to instead."""
        self._work.only_a_person("see what is pending", "vade review")
        for kind in kinds:
            if kind not in KINDS:
                raise UsageError(
                    f"{names.shown(kind)} is not a kind of pending item", hint=f"one of {', '.join(KINDS)}"
                )
        if self._work.settings.incognito:
            return Inbox((), ("this session is incognito: nothing is read",))
        refused = decisions.declined(self._work.home)
        notes: list[str] = []
        found: list[Item] = []
        with self._work.reported("read the memory"):
            for kind in KINDS:
                if not kinds or kind in kinds:
                    each: Callable[[str | Scope | None, list[str]], Iterable[Item]] = getattr(
                        self, f"_waiting_{kind}s"
                    )
                    found += each(scope, notes)
        shown = tuple(item for item in found if (item.id in refused) is declined)
        return Inbox(shown, tuple(notes), self._refused_by_hubs(kinds, declined=declined))

    def _refused_by_hubs(self, kinds: Collection[str], *, declined: bool) -> tuple[str, ...]:
        """What was done here and is sent to nobody until the file, or the member's role, is another one."""
        if kinds or declined or not self._work.home.names("hub"):
            return ()
        from vademecum.sync.hub import list_refused

        return tuple(list_refused(self._work.home))

    if not TYPE_CHECKING:
        __call__ = renamed("review()", "review.inbox()", inbox)

    def decide(
        self,
        items: Sequence[Item],
        *,
        yes: bool,
        keep: str | None = None,
        sitting: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> tuple[str, Sequence[Decided]]:
        """Decide about things that wait, exactly as they were shown; what changed since then is left alone.

        Returns the name of the sitting, which `undo` takes back as a whole, and what became of each. The name
        of an earlier call goes on with its sitting. Of an entry with two versions a yes keeps the second and
        a no the first, unless `keep` names one or `both`.
        """
        self._work.may_write()
        self._work.may_decide("decide about pending changes", "vade review")
        with self._work.reported("save the decision"):
            earlier = next((each for each in decisions.sittings(self._work.home) if each.id == sitting), None)
            moment, at = self._work.now(), self._work.stamp()
            kept = earlier or decisions.Sitting(
                decisions.new_sitting_id(moment, at), at, self._work.caller.actor
            )
            decided: list[Decided] = []
            lines: list[dict[str, Any]] = []
            for kind in KINDS:
                chosen = [each for each in items if each.kind == kind]
                for done, (result, line) in enumerate(self._decided(kind, chosen, yes=yes, keep=keep), 1):
                    decided.append(result)
                    if line is not None:
                        lines.append(line)
                    if progress is not None:
                        progress("decided", done, len(chosen))
            if lines:
                decisions.put_sitting(self._work.home, kept._replace(done=(*kept.done, *lines)))
        return kept.id, [each._replace(back=each.back or f"vade undo {kept.id}") for each in decided]

    def selected(
        self,
        wanted: Collection[str] = (),
        *,
        run: str | None = None,
        source: str | None = None,
        everything: bool = False,
        scope: str | Scope | None = None,
    ) -> Sequence[Item]:
        """The unverified texts that are named, match a glob, came with a run or from a source.

        One look at the store, whatever the number; a name that nothing answers to is an error.
        """
        items = self.inbox(["text"], scope=scope).items
        chosen = list(items) if everything else []
        if run is not None:
            if run not in {each.run for each in self._memory.care.runs()}:
                raise NotFound("there is no such run", hint="`vade undo --list` shows all runs")
            touched = running.paths(self._work.home, run)
            chosen += [each for each in items if each.path in touched]
        if source is not None:
            beside = {*self._beside_from(source, scope)}
            known = [
                each for each in items if _is_from(each.about, source) or (each.path, each.text) in beside
            ]
            if not known:
                raise NotFound(
                    f"nothing pending came from {names.shown(source)}",
                    hint="`vade verify --list` shows it",
                )
            chosen += known
        for name in wanted:
            known = [each for each in items if _matches(each, str(name))]
            if not known:
                raise NotFound(
                    f"nothing pending is called {names.shown(str(name))}",
                    hint="`vade verify --list` shows it",
                )
            chosen += known
        return [*{each.id: each for each in chosen}.values()]

    def _beside_from(self, source: str, scope: str | Scope | None) -> Iterator[tuple[str, str]]:
        """The texts of pinned documents and journals that came from a system, with the paths of their files.

        A journal does not say where its notes came from; the runs do, unless two systems wrote to that day.
        """
        from vademecum.knowledge import intake

        places = self._work.places(scope)
        matches = functools.partial(_names_resource, source)
        for each in self._work.documents.all(places):
            if isinstance(each, Finding):
                continue
            for section in each.sections:
                if intake.is_section_from(each.sources, section.text, matches):
                    yield each.path, section.text
        own, others = self._imported_paths(source.removeprefix("import:"))
        for day in self._work.journal.days(places) if own else ():
            if not isinstance(day, Finding) and day.path in own - others:
                yield from ((day.path, each.text) for each in day.entries if each.origin is Origin.IMPORT)

    def _imported_paths(self, system: str) -> tuple[frozenset[str], frozenset[str]]:
        """The files that imports from a system changed, and those that any other import did."""
        own: frozenset[str] = frozenset()
        others: frozenset[str] = frozenset()
        for each in self._memory.care.runs():
            what, _, name = each.what.partition(" ")
            if what == "import" and not each.undone:
                found = running.paths(self._work.home, each.run)
                own, others = (own | found, others) if name == system else (own, others | found)
        return own, others

    def _waiting_writes(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        for each in approving.every(self._work.home):
            asked = each.request
            if asked is None:
                yield Item("write", each.id, each.short, "", "", each.trouble, about=each)
                continue
            told = {
                name: value for name, value in asked.arguments.items() if value not in (None, "", [], False)
            }
            words = [
                f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
                for name, value in told.items()
                if name not in ("scope", "slug", "texts")  # whose every word stands in the diff
            ]
            why = f"{asked.agent} asked to {asked.operation.replace('_', ' ')} through {asked.door}"
            short = each.short
            yield Item("write", each.id, short, "", "\n".join(words), why, asked.scope, each)

    def _waiting_folders(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        shelf = scopes.own_shelf(self._work.home, self._work.caller.project)
        if shelf is None or shelf.trusted or scope not in (None, Scope.PROJECT):
            return
        records = [each for each in self._work.records.on(shelf) if isinstance(each, Found)]
        listed = "\n".join(f"{each.record.key}: {_first(each.record.text)}" for each in records)
        root = str(shelf.top)
        why = f"it came with the repository; {len(records)} records, hidden from agents"
        yield Item(
            "folder", decisions.mark_of("folder", root, listed), ".vade", root, listed, why, about=root
        )

    def _waiting_texts(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        for each, found in self._unverified(scope):
            place = "" if found is None else str(found.record.place.scope)
            mark = decisions.mark_of("text", each.path, each.text)
            yield Item("text", mark, each.name, each.path, each.text, each.why, place, found)

    def _waiting_contradictions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        from vademecum.lifecycle import contradictions as clashing
        from vademecum.lifecycle import passes

        places = self._work.places(scope)
        seen, _ = passes.read_places(self._work.records, places)
        beside = passes.read_beside(self._work.records, places)
        for clash in clashing.find_clashes(seen, beside)[: clashing.MOST_CLASHES]:
            if clash.older.seen.shelf.trusted:
                newer = f"in {clash.newer.where}" if clash.newer.beside else "newer"
                older = "in the record" if clash.newer.beside else "older"
                text = f"{older}: {clash.older.text}\n{newer}: {clash.newer.text}"
                mark = decisions.mark_of("contradiction", clash.older.where, clash.newer.where, text)
                key, path = clash.older.seen.record.key, clash.older.seen.record.path
                place = str(clash.older.seen.record.place.scope)
                yield Item("contradiction", mark, key, path, text, clash.rule, place, clash)

    def _waiting_versions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        from vademecum.lifecycle import versions

        for each in versions.find_two_versions(self._work.records, self._work.places(scope)):
            mark = decisions.mark_of("version", each.path, each.shown)
            name = each.name.removesuffix(".md") if each.kind == archive.RECORDS else each.path
            why = "changed on two machines before they had met; neither is injected"
            yield Item("version", mark, name, each.path, each.shown, why, str(each.shelf.place.scope), each)

    def _waiting_notices(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        places = self._work.places(scope)
        for notice in decisions.sync_notices(self._work.home):
            where = [each for each in places if str(each) == notice.place]
            path = f"{notice.folder}/{notice.path}"
            if where:
                mark = decisions.mark_of("notice", notice.what, path, notice.at)
                name = notice.path.rpartition("/")[2].removesuffix(".md")
                yield Item("notice", mark, name, path, notice.text, notice.why, str(where[0].scope), notice)

    def _waiting_helds(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        if not self._work.home.names("hub"):
            return
        from vademecum.sync import blocks, orders

        places, others = {str(each): each for each in self._work.places(scope)}, Counter[str]()
        for held in orders.list_held(self._work.home):
            if held.place not in places:
                others[held.place] += 1
                continue
            mark = decisions.mark_of("held", held.workspace, held.id, held.text)
            name = held.path.rpartition("/")[2].removesuffix(".md")
            why = "edited here while another machine purged what it was made from; it is in no file"
            text = blocks.text_of(held.text)
            yield Item("held", mark, name, held.path, text, why, str(places[held.place].scope), held)
        if scope is None:
            notes += [_tell_held(place, texts) for place, texts in sorted(others.items())]

    def _waiting_conflicts(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        from vademecum.lifecycle import copies

        mergings, left = copies.find_mergings(self._work.records, self._work.copies(self._work.places(scope)))
        notes += [f"{each.where}: {each.why}" for each in left]
        for each in mergings:
            first = each.copies[0]
            marks = [files.digest(edit.before or b"") for edit in each.edits]
            mark = decisions.mark_of("conflict", first.path, *marks)
            shown = "\n\n".join(each.new) or "They contain nothing new."
            name, place = first.original.removesuffix(".md"), str(first.shelf.place.scope)
            why = f"{each.proposal.why}; this is only in the copies"
            yield Item("conflict", mark, name, first.path, shown, why, place, each.edits)

    def _waiting_promotions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        if scope is not None and scope not in scopes.WITH_JOURNAL:
            return
        for each in self._memory.care.promote(scope=scope).promotions:
            mark = decisions.mark_of("promotion", each.path, each.text)
            why = f"{each.why}; from {', '.join(each.sources[:3])}"
            yield Item("promotion", mark, each.path, each.path, each.text, why, str(each.place.scope), each)

    def _waiting_signals(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        from vademecum.knowledge import signals as signalling
        from vademecum.lifecycle import promote as promoting

        known: list[str] | None = None
        seen: set[str] = set()
        for path, text in self._said_lately():
            for each in signalling.read_signals(text).signals:
                place, _ = _WHERE.get(str(each.kind), (Scope.PROJECT, "project"))
                if each.text in seen or (scope is not None and place != scope):
                    continue
                seen.add(each.text)
                known = self._known_texts() if known is None else known
                if any(promoting.is_same(each.text, other, threshold=_KNOWN) for other in known):
                    continue
                mark = decisions.mark_of("signal", each.text)
                why = f"{each.kind} ({each.confidence:.2f}), said in {path}"
                yield Item("signal", mark, str(each.kind), path, each.text, why, str(place), each)

    def _said_lately(self) -> Iterator[tuple[str, str]]:
        """What the user said in the newest sessions, with where it stands."""
        from vademecum.transcripts import Role, is_aside
        from vademecum.transcripts.events import Said

        left = _MESSAGES
        for log in self._memory.sessions.newest_logs(_SESSIONS):
            for event in log.events():
                if (
                    isinstance(event, Said)
                    and event.message.role is Role.USER
                    and not is_aside(event.message)
                ):
                    left -= 1
                    if left < 0:
                        return
                    yield log.path, event.message.text

    def _known_texts(self) -> list[str]:
        found = [
            each
            for each in self._work.everything(scopes.visible(self._work.caller))
            if isinstance(each, Found)
        ]
        return [entry.text for each in found for entry in each.record.entries]

    # ---------------------------------------------------------------- deciding

    def _decided(
        self, kind: str, items: Sequence[Item], *, yes: bool, keep: str | None
    ) -> Iterator[tuple[Decided, dict[str, Any] | None]]:
        """Decide about items of one kind; each comes with the line that takes it back."""
        if not items:
            return
        if kind == "write":
            for item in items:
                yield self._decided_write(item, yes=yes)
            return
        standing = {each.id: each for each in self._again(kind, items)}
        fresh = [standing[each.id] for each in items if each.id in standing]
        for item in items:
            if item.id not in standing:
                yield Decided(item, False, "changed since it was shown"), None
        if kind == "held":
            for item in fresh:
                yield self._decided_held(item, yes=yes)
        elif kind in ("version", "notice"):
            kept = keep or ("second" if yes else "first")
            for item in fresh:
                two = kind == "version"
                yield self._applied(item, (item.about.settle(kept),)) if two else self._noticed(item, yes=yes)
        elif yes:
            yield from self._approved(kind, fresh)
        else:
            for item in fresh:
                decisions.decline(
                    self._work.home, item.id, kind=kind, at=self._work.stamp(), by=self._work.caller.actor
                )
                self._work.audit(f"decline {kind}")
                yield Decided(item, True), {"what": "declined", "id": item.id, "path": item.path}

    def _approved(self, kind: str, fresh: Sequence[Item]) -> Iterator[tuple[Decided, dict[str, Any] | None]]:
        """Do what a yes to items of one kind means."""
        for item in fresh:
            decisions.undecline(self._work.home, item.id)
        if kind == "text":
            yield from self._verified(fresh)
        elif kind == "promotion":
            yield from self._promoted(fresh)
        else:
            for item in fresh:
                yield self._one(kind, item)

    def _again(self, kind: str, items: Sequence[Item]) -> Iterable[Item]:
        """The same items as they stand now: one look, whatever their number."""
        if kind == "text" and len(items) == 1 and isinstance(items[0].about, Found):
            return self._text_again(items[0])
        each: Callable[[str | Scope | None, list[str]], Iterable[Item]] = getattr(self, f"_waiting_{kind}s")
        return each(None, [])

    def _text_again(self, item: Item) -> list[Item]:
        """One text of a record, if it still says it; no other file is read for that."""
        try:
            found = self._work.find(item.about.record.id or item.name, item.about.record.place.scope)
        except VadeError:
            return []
        same = found.record.path == item.path and any(each.text == item.text for each in found.record.live)
        return [item._replace(about=found)] if same else []

    def _verified(self, items: Sequence[Item]) -> Iterator[tuple[Decided, dict[str, Any]]]:
        marked: set[str] = set()
        for item in items:
            decisions.verify(self._work.home, item.text, at=self._work.stamp(), by=self._work.caller.actor)
            found = item.about if isinstance(item.about, Found) else None
            if found is not None and found.shelf.trusted and item.path not in marked:
                marked.add(item.path)
                shown = {"by": self._work.caller.actor, "at": self._work.stamp()}
                self._work.records.change_fields(found, {"verified": shown}, operation="verify")
            else:
                self._work.audit("verify", scope=None if found is None else found.record.place.scope)
            line = {"what": "verified", "path": item.path, "text": decisions.exactly(item.text)}
            yield Decided(item, True), line

    def _promoted(self, items: Sequence[Item]) -> Iterator[tuple[Decided, dict[str, Any] | None]]:
        done = self._memory.care.promote(apply=True, only={each.text for each in items})
        left = {each.path: each.why for each in done.outcome.told if not each.done}
        for number, item in enumerate(items):
            wrong = left.get(item.path, "")
            first = number == 0 and bool(done.outcome.run)
            line = {"what": "run", "run": done.outcome.run, "path": item.path} if first else None
            yield Decided(item, not wrong, wrong), line

    def _one(self, kind: str, item: Item) -> tuple[Decided, dict[str, Any] | None]:
        from vademecum.lifecycle import contradictions as clashing

        if kind == "folder":
            self._memory.projects.trust()
            return Decided(item, True), {"what": "trusted", "path": item.path}
        if kind == "signal":
            return self._saved_signal(item)
        if kind == "contradiction":
            edits: tuple[running.Edit, ...] = (clashing.settle_clash(item.about, at=self._work.stamp()),)
        else:
            edits = item.about
        return self._applied(item, edits)

    def _applied(self, item: Item, edits: tuple[running.Edit, ...]) -> tuple[Decided, dict[str, Any] | None]:
        """Make the edits that a decision means, as a run that can be undone."""
        from vademecum.lifecycle import passes

        kind = item.kind
        proposal = passes.Proposal(kind, item.path, item.why, edits)
        run, told = passes.apply_proposals(
            self._work.records,
            [proposal],
            what=f"review {kind}",
            replacing=kind in ("conflict", "version"),
        )
        wrong = next((each.why for each in told if not each.done), "")
        line = {"what": "run", "run": run, "path": item.path} if run else None
        return Decided(item, not wrong, wrong, f"vade undo {run}" if run else ""), line

    def _noticed(self, item: Item, *, yes: bool) -> tuple[Decided, dict[str, Any] | None]:
        """Take note of what a sync did; a no archives a record that it brought back."""
        notice: decisions.SyncNotice = item.about
        if yes or notice.what != decisions.REVIVED:
            decisions.drop_sync_notice(self._work.home, notice)
            return Decided(item, True), {"what": "noticed", "path": item.path, "notice": notice._asdict()}
        found = self._work.find(item.name, item.scope or None, only=True)
        content = reading.from_shelf(found.shelf, archive.RECORDS, found.name)
        decided = self._applied(
            item, (running.Edit(found.shelf, archive.RECORDS, found.name, content, None),)
        )
        if decided[0].done:
            decisions.drop_sync_notice(self._work.home, notice)
        return decided

    def _decided_held(self, item: Item, *, yes: bool) -> tuple[Decided, dict[str, Any] | None]:
        """Save a text that a sync holds as a new record of its place, or discard it; it waits no longer."""
        held: HeldText = item.about
        line: dict[str, Any] = {"what": "held", "path": item.path, "workspace": held.workspace, "id": held.id}
        if yes:
            shared = held.workspace in self._work.team_ids()
            try:
                key, team = self._free_key(item.name, item.scope), held.workspace if shared else None
                stored = self._memory.store(item.text, key=key, scope=item.scope, team=team)
            except VadeError as error:
                return Decided(item, False, str(error)), None
            line |= {"path": stored.path, "saved": stored.outcome is Outcome.CREATED}
        decisions.settle_held(self._work.home, held.workspace, held.id)
        self._work.audit("approve held" if yes else "decline held")
        return Decided(item, True), line

    def _free_key(self, name: str, scope: str) -> str:
        """A key for a new record that no other has: what was purged is not continued."""
        wanted = names.slug(name)
        tried = chain((wanted,), (names.numbered(wanted, number) for number in count(2)))
        return next(key for key in tried if not self._is_taken(key, scope))

    def _is_taken(self, key: str, scope: str) -> bool:
        """Whether a record answers to a key, be it one that cannot be read, or more than one."""
        try:
            self._work.find(key, scope, only=True)
        except NotFound:
            return False
        except (Ambiguous, Malformed):
            return True
        return True

    def _saved_signal(self, item: Item) -> tuple[Decided, dict[str, Any]]:
        place, kind = _WHERE.get(item.name, (Scope.PROJECT, "project"))
        stored = self._memory.store(item.text, scope=place, type=kind, tags=[item.name])
        back = f"vade forget {stored.key} --scope {place}"
        self._work.audit("approve signal", scope=place)
        return Decided(item, True, back=back), {"what": "saved", "path": stored.path, "back": back}

    def _decided_write(self, item: Item, *, yes: bool) -> tuple[Decided, dict[str, Any] | None]:
        try:
            if not yes:
                request = self.reject(item.id).request
                if request is None:
                    return Decided(item, True), None
                line = {"what": "rejected", "path": item.name, "request": approving.render(request).decode()}
                return Decided(item, True), line
            request, result = self.approve(item.id)
        except VadeError as error:
            return Decided(item, False, str(error)), None
        key = getattr(result, "key", "")
        back = {"store": f"vade forget {key}", "learn": f"vade forget {key}", "forget": f"vade restore {key}"}
        back["reword"] = f"vade undo {getattr(result, 'run', '')}"
        told = back.get(request.operation, "vade audit")
        return Decided(item, True, back=told), {"what": "written", "path": item.name, "back": told}

    def to_review(self) -> Iterator[Finding]:
        """That texts wait for a person, for `status`."""
        count = 0
        if self._work.caller.audience is Audience.PRIVATE:
            refused = decisions.declined(self._work.home)
            count = sum(mark not in refused for mark in self._waiting_marks())
        if count:
            said = "1 text is" if count == 1 else f"{count} texts are"
            yield Finding(
                "review", "memory", f"{said} hidden from agents until you verify", "vade review", "info"
            )

    # ---------------------------------------------------------------- writes that wait

    def approvals(self) -> Sequence[approving.Waiting]:
        """The writes that wait for a person, oldest first."""
        self._work.only_a_person("see what is pending", "vade approve")
        return [] if self._work.settings.incognito else approving.every(self._work.home)

    def approve(self, which: str) -> tuple[approving.Request, Any]:
        """Do what waits, by its id; it is used up by this.

        The act is the person's, whatever it takes away. A text that it brings keeps the origin it came with.
        """
        self._work.may_write()
        self._work.may_decide("approve a write", "vade approve")
        with self._work.reported(f"approve {which}"), approving.held(self._work.home, which) as waiting:
            request = approving.unchanged(waiting)
            with self._as_asked(request) as asked:
                seen = asked.requests.seen(request.operation, request.arguments, Scope(request.scope))
                if request.seen not in (None, seen):
                    raise _changed(str(request.arguments.get("name") or request.arguments.get("key")))
                # A text never takes the place of what the person was not shown.
                result = _make(_backed(asked) if request.seen == seen else asked, request)
            self._work.audit("approve", scope=Scope(request.scope))
        return request, result

    def reject(self, which: str) -> approving.Waiting:
        """Say no to a write that waits; it is never made."""
        self._work.may_write()
        self._work.may_decide("reject a write", "vade approve")
        with self._work.reported(f"reject {which}"), approving.held(self._work.home, which) as waiting:
            self._work.audit("reject", scope=Scope(waiting.request.scope) if waiting.request else None)
        return waiting

    def _as_asked(self, request: approving.Request) -> Memory:
        """Memory as the one who asked for a write has it; refuses when that project is no longer here."""
        from vademecum.memory.opening import connect  # which makes what this is a part of

        environ = {
            name: value for name, value in os.environ.items() if name not in ("VADE_SESSION", "VADE_AUDIENCE")
        }
        asked = connect(
            home=self._work.home.path,
            cwd=request.root or self._work.home.path,
            agent=request.agent,
            session=request.session,
            client=request.client if request.operation in _BRINGS else None,
            conversation=request.conversation or "",
            audience=request.audience,
            origin=parse_origin(request.origin) if request.operation in _BRINGS else Origin.USER,
            actor=request.actor if request.operation in _BRINGS else self._work.caller.actor,
            now=self._work.now,
            environ=environ,
        )
        own = asked.caller.project
        if request.scope == Scope.PROJECT and (own.id if own else None) != request.project:
            raise NotFound(
                f"the project {request.project} is not at {request.root} any more",
                hint="nothing was written; reject it, and ask again from the project's new location",
            )
        return asked

    # ---------------------------------------------------------------- a person's word

    def trust_of(
        self,
        thing: Record | Entry,
        *,
        record: Record | None = None,
        document: Pinned | None = None,
        trusted: bool = True,
    ) -> trusting.Trust:
        """How far a record, an entry of a `record`, a note or a section of a pinned `document` is trusted."""
        given: dict[str, Any] = {"trusted": trusted}
        if document is not None:
            given = {**_beside(document), "path": document.path}
        with self._work.reported("read the decisions"):
            return trusting.judge_text(thing, self._work.records, record=record, **given)

    def waiting(self, *, scope: str | Scope | None = None) -> Sequence[trusting.Unverified]:
        """The texts that agents are not told until a person has verified them."""
        return [each for each, _ in self._unverified(scope)]

    def _unverified(self, scope: str | Scope | None) -> list[tuple[trusting.Unverified, Found | None]]:
        """The texts that wait for a person, each with its record if it is one's."""
        self._work.not_in_group("see what is pending")
        if self._work.settings.incognito:
            return []
        places = self._work.places(scope)
        with self._work.reported("read the memory"):
            found: list[tuple[trusting.Unverified, Found | None]] = []
            for each in self._doubtful(places):
                record = each.record
                texts = self._waiting(record.key, record.path, record.entries, record=record)
                found += [(text, each) for text in texts]
            return [*found, *((text, None) for text in self._waiting_beside(places))]

    def _doubtful(self, places: Iterable[Place]) -> Iterator[Found]:
        """The records of which something waits for a person, unless one has verified it."""
        for each in self._work.records.listed(places, trusting.DOUBTS):
            if isinstance(each, Listed):
                with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # gone or spoiled since
                    yield self._work.records.load(each.shelf, each.name)

    def _waiting_beside(self, places: Sequence[Place]) -> Iterator[trusting.Unverified]:
        """The texts of pinned documents and journals that wait for a person."""
        for each in self._work.documents.all(places):
            if not isinstance(each, Finding):
                yield from self._waiting(each.path, each.path, each.sections, **_beside(each))
        for day in self._work.journal.days(places):
            if not isinstance(day, Finding):
                yield from self._waiting(day.path, day.path, day.entries, among=day.entries)

    def _waiting(
        self, name: str, path: str, entries: Iterable[Entry], **about: Any
    ) -> Iterator[trusting.Unverified]:
        record, listed = about.get("record"), tuple(entries)
        versions = {each for some in find_versions(record.live if record else listed) for each in some}
        for entry in listed:
            told = trusting.judge_text(entry, self._work.records, path=path, **about)
            if entry.live and entry.text.strip() and not told.injectable and entry not in versions:
                yield trusting.Unverified(name, path, entry.text, told.why)

    def _waiting_marks(self) -> Iterator[str]:
        """Of every text in sight that waits for a person, the mark of their no."""
        places = self._work.places(None)
        verified = decisions.verdicts(self._work.home)
        for each in self._work.records.listed(places, trusting.DOUBTS):
            if isinstance(each, Listed):
                path = each.shelf.name_of(archive.RECORDS, each.name)
                for decision, mark in each.fact:
                    if not verified(decision) and not hub_rules.vouched_by(self._work.home, path, decision):
                        yield mark
        for text in self._waiting_beside(places):
            yield decisions.mark_of("text", text.path, text.text)

    def verify(
        self, name: str | int, *, scope: str | Scope | None = None, on: bool = True
    ) -> Sequence[Entry]:
        """A person's word that what a record, a pinned document or a journal file says is true, as it stands.

        Returns what it was given for. A text that is edited afterwards is another text.
        """
        self._work.may_write()
        self._work.may_decide("verify a memory", "vade verify")
        with self._work.reported(f"verify {name}"):
            found, entries = self._verifiable(str(name), scope)
            for entry in entries:
                if on:
                    decisions.verify(
                        self._work.home, entry.text, at=self._work.stamp(), by=self._work.caller.actor
                    )
                else:
                    decisions.unverify(self._work.home, entry.text)
            if found is not None and found.shelf.trusted:
                shown = {"by": self._work.caller.actor, "at": self._work.stamp()} if on else None
                self._work.records.change_fields(found, {"verified": shown}, operation="verify")
            self._work.audit(
                "verify" if on else "unverify",
                scope=None if found is None else found.record.place.scope,
                record=None if found is None else found.record.id,
            )
        return entries

    def verifiable(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[Entry]:
        """What `verify` would be given for, by the name of a record, a pinned document or a journal file."""
        with self._work.reported(f"read {name}"):
            return self._verifiable(str(name), scope)[1]

    def _verifiable(self, name: str, scope: str | Scope | None) -> tuple[Found | None, Sequence[Entry]]:
        """The entries of what a name stands for, and its record if it is one."""
        document = pinned.is_name(name)
        if document or "/" in name:
            places = self._work.places(scope)
            documents, _ = self._work.pinned(places)
            for each in documents:
                if each.path == name or (document and each.name.lower() == name.lower()):
                    return None, each.sections
            for day in self._work.journal.days(places):
                if not isinstance(day, Finding) and day.path == name:
                    return None, day.entries
            if document:
                raise NotFound(f"{names.shown(name)} is not a visible pinned document")
        found = self._work.find(name, scope, only=True)
        return found, found.record.live

    def protect(self, name: str | int, *, scope: str | Scope | None = None, on: bool = True) -> Record:
        """Keep a record from ever being removed by age or number, or take that back."""
        self._work.may_write()
        self._work.may_decide("protect a memory" if on else "remove protection", "vade protect")
        found = self._work.find(name, scope, only=True)
        with self._work.reported(f"protect {found.record.key}"):
            found = self._work.records.standing_alone(found)
            fields: dict[str, Any] = {"protected": True if on else None, "protected_by": None}
            if not found.record.fields.get("type"):
                fields["type"] = found.record.type
            return self._work.records.change_fields(found, fields, operation="protect" if on else "unprotect")


def _make(memory: Memory, request: approving.Request) -> Any:
    """What a request asks for, once a person has approved it."""
    given, scope = request.arguments, Scope(request.scope)
    if request.operation == "replace":
        found = memory.workspace.find(str(given["name"]), scope, only=True)
        labels = {name: given[name] for name in ("type", "tags") if given.get(name)}
        with memory.workspace.reported(f"replace an entry of {found.record.key}"):
            return memory.workspace.records.settle(
                found, old=given["instead_of"], new=given["text"], labels=labels
            )
    if request.operation == "reword":
        return _reworded(memory, given, scope)
    if request.operation == "archive":
        chosen = [memory.workspace.find(str(each["name"]), scope, only=True) for each in given["records"]]
        for found, each in zip(chosen, given["records"], strict=True):
            if memory.workspace.content_hash(found) != each["seen"]:
                raise _changed(found.record.key)
        with memory.workspace.reported("archive these"):
            return _backed(memory).archive.put_away(chosen)
    return memory.requests.perform(request.operation, given)


def _reworded(memory: Memory, given: Mapping[str, Any], scope: Scope) -> Any:
    """Write a rewording as it was shown, every statement of it."""
    from vademecum.lifecycle import passes, reword

    work = memory.workspace
    found = work.find(str(given["name"]), scope, only=True)
    content = reading.from_shelf(found.shelf, archive.RECORDS, found.name) or b""
    seen = passes.SeenRecord(found.record, found.shelf, found.name, content)
    texts = {parse_origin(origin): text for origin, text in given["texts"].items()}
    made = reword.pair_texts(seen, texts, model=str(given["model"]))
    if made.refused is not None or reword.show_rows(made.rows) != given["diff"]:
        raise _changed(found.record.key)
    proposal = reword.accept_rows(made, made.open, now=work.now())
    run, told = passes.apply_proposals(work.records, [proposal], what=reword.NAME)
    if not run:
        raise _changed(found.record.key)
    return passes.RunOutcome((proposal,), run=run, told=told)


def _backed(memory: Memory) -> Memory:
    """The same memory, in which a person stands behind what is done."""
    from vademecum.memory.core import Memory

    work = memory.workspace
    return Memory(work.home, work.caller._replace(approved=True), work.loaded, now=work.now)


def _changed(name: str) -> Conflict:
    return Conflict(
        f"{name} was changed after it was asked for", hint="nothing was done; reject it, and ask again"
    )


def _beside(found: Pinned) -> dict[str, Any]:
    """What is known of a section of a pinned document by where it stands."""
    return {"trusted": found.trusted, "among": found.sections}


def _first(text: str) -> str:
    return next(iter(text.strip().split("\n")), "")[:100]


def _matches(item: Item, wanted: str) -> bool:
    """Whether a name or a glob means an item: by key, number, path or the file's name."""
    number = item.about.record.num if isinstance(item.about, Found) else None
    called = (item.name, item.path, item.path.rpartition("/")[2], "" if number is None else str(number))
    return any(each == wanted or fnmatch.fnmatchcase(each, wanted) for each in called if each)


def _is_from(found: object, source: str) -> bool:
    """Whether a record came from another system, or from a file of it."""
    if not isinstance(found, Found):
        return False
    listed = found.record.fields.get("sources")
    resources = (
        [str(each.get("resource")) for each in listed if isinstance(each, dict)]
        if isinstance(listed, list)
        else []
    )
    own = str(found.record.source or "")
    return source in (own, own.removeprefix("import:")) or any(
        _names_resource(source, each) for each in resources
    )


def _names_resource(source: str, resource: str) -> bool:
    """Whether a source means a file of a system: by the system, the file's whole name, or a glob."""
    return (
        resource in (source, source.removeprefix("import:"))
        or resource.startswith((f"{source}:", f"{source.removeprefix('import:')}:"))
        or fnmatch.fnmatchcase(resource, source)
    )


def _tell_held(place: str, texts: int) -> str:
    """A sentence for texts that a purge left open where this folder and agent do not look."""
    scope, _, name = place.partition("/")
    command = "vade review --kind held"
    if scope == Scope.PROJECT:
        command = f"VADE_PROJECT_ID={shlex.quote(name)} {command}"
    elif scope == Scope.AGENT:
        command += f" --agent {shlex.quote(name)}"
    many = "1 text" if texts == 1 else f"{texts} texts"
    return f"a purge on another machine left {many} of {place} open: `{command}` decides"
