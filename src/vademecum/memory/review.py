"""The inbox of everything that a person has to decide, and the decisions about its items."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import shlex
from collections import Counter
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vademecum.errors import Ambiguous, Conflict, Malformed, NotFound, OutsideMemory, UsageError, VadeError
from vademecum.knowledge import trust as trusting
from vademecum.store import Edit, Found, Listed, decisions, files, heard, hub_rules, scopes
from vademecum.store import pending_writes as approving
from vademecum.store import runs as running
from vademecum.text import filenames, names
from vademecum.types import Audience, Finding, Origin, Outcome, Scope, find_versions, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from vademecum.memory.core import Memory
    from vademecum.store import Pinned
    from vademecum.store.heard import HeardStatement
    from vademecum.sync.purge_orders import HeldText
    from vademecum.types import Entry, Place, Record

KINDS = {  # in the order of display, with the meaning of a yes
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
    "lesson": "What failures and refusals in sessions teach: yes saves it as a lesson",
}
HEARD_KINDS = ("signal", "lesson")  # heard in sessions; one key accepts all items of a session
_KEEPS_ORIGIN = ("store", "note", "learn")  # operations whose text keeps the origin of its requester
_NOTED = 10  # last sessions that a model was asked about, whose problems the inbox shows
_KNOWN = 90.0  # out of 100: a text this similar to one in memory is known already
_WHERE = {"preference": (Scope.GLOBAL, "user"), "correction": (Scope.PROJECT, "feedback")}


class PendingItem(NamedTuple):
    """An item that waits for a decision: its kind, the exact content to decide about, and its place."""

    kind: str
    id: str  # the id of this exact content; a changed text is another item
    name: str  # the name that a person uses
    path: str
    text: str
    why: str
    scope: str = ""
    about: Any = None  # what a decision needs


class Inbox(NamedTuple):
    """All pending items in the order of their kinds, and the files that could not be read."""

    items: tuple[PendingItem, ...]
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # files with changes that a hub refused, and why

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of items of each kind, without kinds that have none."""
        found = {kind: sum(each.kind == kind for each in self.items) for kind in KINDS}
        return {kind: count for kind, count in found.items() if count}


class Decision(NamedTuple):
    """The result of a decision: whether it was made, how to undo it, or why it failed."""

    item: PendingItem
    done: bool
    why: str = ""
    back: str = ""  # the command that undoes it


# A decision, and the line of its sitting by which `undo` takes it back.
_Step: TypeAlias = "tuple[Decision, dict[str, Any] | None]"


class Review:
    """`Memory.review`: the pending items, and a person's decisions about them."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._work = memory.workspace

    def damaged(self) -> list[str]:
        """Return the paths of unreadable files of decisions, which have no effect."""
        return list(decisions.damaged(self._work.home))

    def inbox(
        self,
        kinds: Collection[str] = (),
        *,
        scope: str | Scope | None = None,
        declined: bool = False,
    ) -> Inbox:
        """Return all pending items, or those of some kinds; with `declined`, the declined items instead."""
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
        found: list[PendingItem] = []
        with self._work.reported("read the memory"):
            for kind in KINDS:
                if not kinds or kind in kinds:
                    found += _KINDS[kind].items(self, scope, notes)
        if "signal" in kinds or not kinds:
            notes += self._model_notes()
        items = tuple(item for item in found if (item.id in refused) is declined)
        return Inbox(items, tuple(notes), self._refused_by_hubs(kinds, declined=declined))

    def _refused_by_hubs(self, kinds: Collection[str], *, declined: bool) -> tuple[str, ...]:
        """Return messages about changes that no hub accepts until the file or the member's role changes."""
        if kinds or declined or not self._work.home.names("hub"):
            return ()
        from vademecum.sync.hub_sync import list_refused

        return tuple(list_refused(self._work.home))

    def decide(
        self,
        items: Sequence[PendingItem],
        *,
        yes: bool,
        keep: str | None = None,
        sitting: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> tuple[str, Sequence[Decision]]:
        """Approve or decline pending items exactly as they were shown; items changed since then stay pending.

        Return the id of the sitting, which `undo` reverts as a whole, and the result for each item. With
        `sitting`, the id of an earlier call, the decisions join that sitting. For an entry with two versions,
        `yes=True` keeps the second and `yes=False` the first, unless `keep` names a version or `both`.
        `progress` is called after each decision with a label, the number decided and the total of that kind.
        """
        self._work.may_write()
        self._work.may_decide("decide about pending changes", "vade review")
        with self._work.reported("save the decision"):
            earlier = next((each for each in decisions.sittings(self._work.home) if each.id == sitting), None)
            moment, at = self._work.now(), self._work.stamp()
            current = earlier or decisions.Sitting(
                decisions.new_sitting_id(moment, at), at, self._work.caller.actor
            )
            decided: list[Decision] = []
            lines: list[dict[str, Any]] = []
            for kind in KINDS:
                chosen = [each for each in items if each.kind == kind]
                for done, (result, line) in enumerate(self._decide_kind(kind, chosen, yes=yes, keep=keep), 1):
                    decided.append(result)
                    if line is not None:
                        lines.append(line)
                    if progress is not None:
                        progress("decided", done, len(chosen))
            if lines:
                decisions.put_sitting(self._work.home, current._replace(done=(*current.done, *lines)))
        return current.id, [each._replace(back=each.back or f"vade undo {current.id}") for each in decided]

    def selected(
        self,
        wanted: Collection[str] = (),
        *,
        run: str | None = None,
        source: str | None = None,
        everything: bool = False,
        scope: str | Scope | None = None,
    ) -> Sequence[PendingItem]:
        """Return the unverified texts that match a name or glob, a run or a source; `everything` selects all.

        The store is read only once; a name that matches nothing is an error.
        """
        items = self.inbox(["text"], scope=scope).items
        chosen = list(items) if everything else []
        if run is not None:
            if run not in {each.run for each in self._memory.care.runs()}:
                raise NotFound("there is no such run", hint="`vade undo --list` shows all runs")
            touched = running.paths(self._work.home, run)
            chosen += [each for each in items if each.path in touched]
        if source is not None:
            other_pages = {*self._pages_from(source, scope)}
            known = [
                each
                for each in items
                if _is_from(each.about, source) or (each.path, each.text) in other_pages
            ]
            if not known:
                raise NotFound(
                    f"nothing pending came from {names.shown(source)}",
                    hint="`vade review verify --list` shows it",
                )
            chosen += known
        for name in wanted:
            known = [each for each in items if _matches(each, str(name))]
            if not known:
                raise NotFound(
                    f"nothing pending is called {names.shown(str(name))}",
                    hint="`vade review verify --list` shows it",
                )
            chosen += known
        return [*{each.id: each for each in chosen}.values()]

    def _pages_from(self, source: str, scope: str | Scope | None) -> Iterator[tuple[str, str]]:
        """Yield path and text of all texts in pinned documents and journals that came from another system.

        A journal does not record where its notes came from. The runs of imports do, unless two systems wrote
        to the journal of that day.
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
        """Return the files that imports from this system changed, and the files that other imports
        changed.
        """
        own: frozenset[str] = frozenset()
        others: frozenset[str] = frozenset()
        for each in self._memory.care.runs():
            what, _, name = each.what.partition(" ")
            if what == "import" and not each.undone:
                found = running.paths(self._work.home, each.run)
                own, others = (own | found, others) if name == system else (own, others | found)
        return own, others

    def _list_writes(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        for each in approving.every(self._work.home):
            request = each.request
            if request is None:
                yield PendingItem("write", each.id, each.short, "", "", each.trouble, about=each)
                continue
            details = {
                name: value for name, value in request.arguments.items() if value not in (None, "", [], False)
            }
            words = [
                f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
                for name, value in details.items()
                if name not in ("scope", "slug", "texts")  # their words are in the diff
            ]
            why = f"{request.agent} asked to {request.operation.replace('_', ' ')} through {request.door}"
            short = each.short
            yield PendingItem("write", each.id, short, "", "\n".join(words), why, request.scope, each)

    def _list_folders(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        scope_folder = scopes.own_folder(self._work.home, self._work.caller.project)
        if scope_folder is None or scope_folder.trusted or scope not in (None, Scope.PROJECT):
            return
        records = [each for each in self._work.records.on(scope_folder) if isinstance(each, Found)]
        listed = "\n".join(f"{each.record.key}: {_first(each.record.text)}" for each in records)
        root = str(scope_folder.top)
        why = f"it came with the repository; {len(records)} records, hidden from agents"
        yield PendingItem(
            "folder", decisions.mark_of("folder", root, listed), ".vade", root, listed, why, about=root
        )

    def _list_texts(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        for each, found in self._unverified(scope):
            place = "" if found is None else str(found.record.place.scope)
            mark = decisions.mark_of("text", each.path, each.text)
            yield PendingItem("text", mark, each.name, each.path, each.text, each.why, place, found)

    def _list_contradictions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        from vademecum.lifecycle import contradictions as clashing
        from vademecum.lifecycle import passes

        places = self._work.places(scope)
        seen, _ = passes.read_places(self._work.records, places)
        other_pages = passes.read_pages(self._work.records, places)
        for clash in clashing.find_clashes(seen, other_pages)[: clashing.MOST_CLASHES]:
            if clash.older.seen.scope_folder.trusted:
                newer = f"in {clash.newer.where}" if clash.newer.page_kind else "newer"
                older = "in the record" if clash.newer.page_kind else "older"
                text = f"{older}: {clash.older.text}\n{newer}: {clash.newer.text}"
                mark = decisions.mark_of("contradiction", clash.older.where, clash.newer.where, text)
                key, path = clash.older.seen.record.key, clash.older.seen.record.path
                place = str(clash.older.seen.record.place.scope)
                yield PendingItem("contradiction", mark, key, path, text, clash.rule, place, clash)

    def _list_versions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        from vademecum.lifecycle import versions

        for each in versions.find_two_versions(self._work.records, self._work.places(scope)):
            mark = decisions.mark_of("version", each.path, each.shown)
            name = each.name.removesuffix(".md") if each.kind == filenames.RECORDS else each.path
            why = "changed on two machines before they had met; neither is injected"
            yield PendingItem(
                "version", mark, name, each.path, each.shown, why, str(each.scope_folder.place.scope), each
            )

    def _list_notices(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        places = self._work.places(scope)
        for notice in decisions.sync_notices(self._work.home):
            where = [each for each in places if str(each) == notice.place]
            path = f"{notice.folder}/{notice.path}"
            if where:
                mark = decisions.mark_of("notice", notice.what, path, notice.at)
                name = notice.path.rpartition("/")[2].removesuffix(".md")
                yield PendingItem(
                    "notice", mark, name, path, notice.text, notice.why, str(where[0].scope), notice
                )

    def _list_held(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        if not self._work.home.names("hub"):
            return
        from vademecum.sync import blocks, purge_orders

        places, others = {str(each): each for each in self._work.places(scope)}, Counter[str]()
        for held_text in purge_orders.list_held(self._work.home):
            if held_text.place not in places:
                others[held_text.place] += 1
                continue
            mark = decisions.mark_of("held", held_text.workspace, held_text.id, held_text.text)
            name = held_text.path.rpartition("/")[2].removesuffix(".md")
            why = "edited here while another machine purged what it was made from; it is in no file"
            text = blocks.text_of(held_text.text)
            yield PendingItem(
                "held", mark, name, held_text.path, text, why, str(places[held_text.place].scope), held_text
            )
        if scope is None:
            notes += [_describe_held(place, texts) for place, texts in sorted(others.items())]

    def _list_conflicts(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        from vademecum.lifecycle import copies

        mergings, left = copies.find_mergings(self._work.records, self._work.copies(self._work.places(scope)))
        notes += [f"{each.where}: {each.why}" for each in left]
        for each in mergings:
            first = each.copies[0]
            marks = [files.digest(edit.before or b"") for edit in each.edits]
            mark = decisions.mark_of("conflict", first.path, *marks)
            new_text = "\n\n".join(each.new) or "They contain nothing new."
            name, place = first.original.removesuffix(".md"), str(first.scope_folder.place.scope)
            why = f"{each.proposal.why}; this is only in the copies"
            yield PendingItem("conflict", mark, name, first.path, new_text, why, place, each.edits)

    def _list_promotions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        if scope is not None and scope not in scopes.WITH_JOURNAL:
            return
        for each in self._memory.care.promote(scope=scope).promotions:
            mark = decisions.mark_of("promotion", each.path, each.text)
            why = f"{each.why}; from {', '.join(each.sources[:3])}"
            yield PendingItem(
                "promotion", mark, each.path, each.path, each.text, why, str(each.place.scope), each
            )

    def _list_signals(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        for each, why in self._heard(scope):
            if not each.fields:
                yield self._item_of("signal", each, why)

    def _list_lessons(self, scope: str | Scope | None, notes: list[str]) -> Iterator[PendingItem]:
        for each, why in self._heard(scope):
            if each.fields:
                yield self._item_of("lesson", each, why)

    def _heard(self, scope: str | Scope | None) -> Iterator[tuple[HeardStatement, str]]:
        """Yield the heard statements that memory does not have yet, with the reason to propose each."""
        from vademecum.lifecycle import promote as promoting

        self._memory.heard.hear_recent()
        known: list[str] | None = None
        for each, sessions in self._memory.heard.waiting():
            if scope is not None and _place_of(each) != scope:
                continue
            known = self._known_texts() if known is None else known
            if any(promoting.is_same(each.text, other, threshold=_KNOWN) for other in known):
                continue
            why = each.why if each.fields else f"{each.kind} ({each.confidence:.2f})"
            if each.found_by.startswith(heard.MODEL):
                why = f"{each.kind}, {each.why} on “{' '.join(each.evidence)}”"
            why = f"{why}, heard in {each.log}"
            why += f" and {sessions - 1} more" if sessions > 1 else ""
            yield each, f"{why}; said otherwise later" if each.outcome == heard.CONTRADICTED else why

    def _model_notes(self) -> Iterator[str]:
        """Yield why a model has not read a recent session, and why proposals of a model were refused."""
        for session, result in self._memory.heard.distilled()[:_NOTED]:
            if result.problem:
                again = f"`vade sessions distill {session}` asks again"
                yield f"{result.model} has not read all of {session}: {result.problem}; {again}"
            elif result.refused:
                why = ", ".join(f"{count} × {reason}" for reason, count in result.refused.items())
                refused = sum(result.refused.values())
                yield f"{result.model} proposed {result.proposed} of {session}; {refused} refused: {why}"

    def _item_of(self, kind: str, each: HeardStatement, why: str) -> PendingItem:
        mark, place = decisions.mark_of(kind, each.text), str(_place_of(each))
        return PendingItem(kind, mark, each.kind, each.log, each.text, why, place, each)

    def _known_texts(self) -> list[str]:
        found = [
            each
            for each in self._work.everything(scopes.visible(self._work.caller))
            if isinstance(each, Found)
        ]
        return [entry.text for each in found for entry in each.record.entries]

    # ---------------------------------------------------------------- deciding

    def _decide_kind(
        self, kind: str, items: Sequence[PendingItem], *, yes: bool, keep: str | None
    ) -> Iterator[_Step]:
        """Decide about items of one kind; yield each result with the line that reverts the decision."""
        if not items:
            return
        row = _KINDS[kind]
        fresh = items
        if row.listed_again:
            standing = {each.id: each for each in self._list_again(kind, items)}
            fresh = [standing[each.id] for each in items if each.id in standing]
            for item in items:
                if item.id not in standing:
                    yield Decision(item, False, "changed since it was shown"), None
        if yes:
            yield from row.approve(self, fresh, keep)
            return
        for item in fresh:
            yield row.decline(self, item, keep)

    def _list_again(self, kind: str, items: Sequence[PendingItem]) -> Iterable[PendingItem]:
        """Return the items of a kind as they are now; for a single text, read only its record."""
        if kind == "text" and len(items) == 1 and isinstance(items[0].about, Found):
            return self._find_text_again(items[0])
        return _KINDS[kind].items(self, None, [])

    def _undecline(self, items: Sequence[PendingItem]) -> None:
        """Delete the stored refusals of these items."""
        for item in items:
            decisions.undecline(self._work.home, item.id)

    def _decline(self, item: PendingItem, keep: str | None) -> _Step:
        """Store the refusal of an item, so that the item is not shown again."""
        decisions.decline(
            self._work.home, item.id, kind=item.kind, at=self._work.stamp(), by=self._work.caller.actor
        )
        self._work.audit(f"decline {item.kind}")
        return Decision(item, True), {"what": "declined", "id": item.id, "path": item.path}

    def _find_text_again(self, item: PendingItem) -> list[PendingItem]:
        """Return the text of an item if its record still has the text; no other file is read."""
        try:
            found = self._work.find(item.about.record.id or item.name, item.about.record.place.scope)
        except VadeError:
            return []
        same = found.record.path == item.path and any(each.text == item.text for each in found.record.live)
        return [item._replace(about=found)] if same else []

    def _approve_texts(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Verify the texts of these items."""
        self._undecline(items)
        marked: set[str] = set()
        for item in items:
            decisions.verify(self._work.home, item.text, at=self._work.stamp(), by=self._work.caller.actor)
            found = item.about if isinstance(item.about, Found) else None
            if found is not None and found.scope_folder.trusted and item.path not in marked:
                marked.add(item.path)
                verification = {"by": self._work.caller.actor, "at": self._work.stamp()}
                self._work.records.change_fields(found, {"verified": verification}, operation="verify")
            else:
                self._work.audit("verify", scope=None if found is None else found.record.place.scope)
            line = {"what": "verified", "path": item.path, "text": decisions.exactly(item.text)}
            yield Decision(item, True), line

    def _approve_promotions(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Save the statements of these items as memories, in one run."""
        self._undecline(items)
        done = self._memory.care.promote(apply=True, only={each.text for each in items})
        left = {each.path: each.why for each in done.outcome.results if not each.done}
        for number, item in enumerate(items):
            wrong = left.get(item.path, "")
            first = number == 0 and bool(done.outcome.run)
            line = {"what": "run", "run": done.outcome.run, "path": item.path} if first else None
            yield Decision(item, not wrong, wrong), line

    def _approve_folders(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Trust the project's folder."""
        self._undecline(items)
        for item in items:
            self._memory.projects.trust()
            yield Decision(item, True), {"what": "trusted", "path": item.path}

    def _approve_contradictions(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Replace the first statement of each contradiction by the second."""
        from vademecum.lifecycle import contradictions as clashing

        self._undecline(items)
        for item in items:
            yield self._apply_edits(item, (clashing.settle_clash(item.about, at=self._work.stamp()),))

    def _approve_conflicts(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Merge each conflict copy with the file that it is a copy of."""
        self._undecline(items)
        for item in items:
            yield self._apply_edits(item, item.about)

    def _approve_versions(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Keep the second version of each entry, or the version that `keep` names."""
        for item in items:
            yield self._apply_edits(item, (item.about.settle(keep or "second"),))

    def _decline_version(self, item: PendingItem, keep: str | None) -> _Step:
        """Keep the first version of an entry, or the version that `keep` names."""
        return self._apply_edits(item, (item.about.settle(keep or "first"),))

    def _apply_edits(self, item: PendingItem, edits: tuple[Edit, ...]) -> _Step:
        """Make the edits that follow from a decision, as a run that can be undone."""
        from vademecum.lifecycle import passes

        kind = item.kind
        proposal = passes.Proposal(kind, item.path, item.why, edits)
        run, results = passes.apply_proposals(
            self._work.records,
            [proposal],
            what=f"review {kind}",
            replacing=kind in ("conflict", "version"),
        )
        wrong = next((each.why for each in results if not each.done), "")
        line = {"what": "run", "run": run, "path": item.path} if run else None
        return Decision(item, not wrong, wrong, f"vade undo {run}" if run else ""), line

    def _approve_notices(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Remove the notices that a sync restored or merged records; the records stay."""
        for item in items:
            yield self._drop_notice(item)

    def _decline_notice(self, item: PendingItem, keep: str | None) -> _Step:
        """Archive a record that a sync restored; a record that a sync merged stays."""
        notice: decisions.SyncNotice = item.about
        if notice.what != decisions.REVIVED:
            return self._drop_notice(item)
        found = self._work.find(item.name, item.scope or None, only=True)
        content = found.scope_folder.read(filenames.RECORDS, found.name)
        decided = self._apply_edits(
            item, (Edit(found.scope_folder, filenames.RECORDS, found.name, content, None),)
        )
        if decided[0].done:
            decisions.drop_sync_notice(self._work.home, notice)
        return decided

    def _drop_notice(self, item: PendingItem) -> _Step:
        """Remove a notice from the inbox."""
        notice: decisions.SyncNotice = item.about
        decisions.drop_sync_notice(self._work.home, notice)
        return Decision(item, True), {"what": "noticed", "path": item.path, "notice": notice._asdict()}

    def _approve_held(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Save each text that a sync held back as a new record in its place."""
        for item in items:
            held_text: HeldText = item.about
            shared = held_text.workspace in self._work.team_ids()
            try:
                key, team = self._free_key(item.name, item.scope), held_text.workspace if shared else None
                stored = self._memory.store(item.text, key=key, scope=item.scope, team=team)
            except VadeError as error:
                yield Decision(item, False, str(error)), None
                continue
            decided, line = self._settle_held(item, "approve held")
            yield decided, line | {"path": stored.path, "saved": stored.outcome is Outcome.CREATED}

    def _decline_held(self, item: PendingItem, keep: str | None) -> _Step:
        """Delete a text that a sync held back."""
        return self._settle_held(item, "decline held")

    def _settle_held(self, item: PendingItem, operation: str) -> tuple[Decision, dict[str, Any]]:
        """Remove a text that a sync held back from the inbox; return the result and what reverts it."""
        held_text: HeldText = item.about
        decisions.settle_held(self._work.home, held_text.workspace, held_text.id)
        self._work.audit(operation)
        line = {"what": "held", "path": item.path, "workspace": held_text.workspace, "id": held_text.id}
        return Decision(item, True), line

    def _free_key(self, name: str, scope: str) -> str:
        """Return an unused key for a new record, so that a purged record is not continued under its key."""
        wanted = names.slug(name)
        tried = chain((wanted,), (names.numbered(wanted, number) for number in count(2)))
        return next(key for key in tried if not self._is_taken(key, scope))

    def _is_taken(self, key: str, scope: str) -> bool:
        """Return whether any record has this key, even an unreadable record or several."""
        try:
            self._work.find(key, scope, only=True)
        except NotFound:
            return False
        except (Ambiguous, Malformed):
            return True
        return True

    def _approve_heard(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Save each of these statements as a memory or a lesson, with its place in the session as source."""
        self._undecline(items)
        for item in items:
            statement: HeardStatement = item.about
            place = _place_of(statement)
            fields: dict[str, Any] = dict(statement.fields)
            if fields:
                stored = self._memory.knowledge.learn(statement.kind, **fields)
            else:
                _, kind = _WHERE.get(item.name, (place, "project"))
                stored = self._memory.store(item.text, scope=place, type=kind, tags=[item.name])
            source = {"resource": item.path, **({"id": statement.place} if statement.place else {})}
            found = self._work.find(stored.key, place, only=True)
            if not found.record.fields.get("sources"):
                self._work.records.change_fields(found, {"sources": [source]}, operation="source")
            self._memory.heard.accept(statement, record=stored.path)
            self._work.audit(f"approve {item.kind}", scope=place)
            back = f"vade forget {stored.key} --scope {place}"
            yield Decision(item, True, back=back), {"what": "saved", "path": stored.path, "back": back}

    def _decline_heard(self, item: PendingItem, keep: str | None) -> _Step:
        """Store the refusal of a statement, which raises the bar for later ones."""
        self._memory.heard.decline(item.about)
        decision, line = self._decline(item, keep)
        return decision, None if line is None else line | {"statement": item.about.id}

    def _approve_writes(self, items: Sequence[PendingItem], keep: str | None) -> Iterator[_Step]:
        """Make the writes that agents asked for."""
        for item in items:
            try:
                request, result = self.approve(item.id)
            except VadeError as error:
                yield Decision(item, False, str(error)), None
                continue
            key = getattr(result, "key", "")
            commands = {"store": f"vade forget {key}", "learn": f"vade forget {key}"}
            commands |= {"forget": f"vade restore {key}", "reword": f"vade undo {getattr(result, 'run', '')}"}
            back = commands.get(request.operation, "vade audit")
            yield Decision(item, True, back=back), {"what": "written", "path": item.name, "back": back}

    def _decline_write(self, item: PendingItem, keep: str | None) -> _Step:
        """Decline a write that an agent asked for."""
        try:
            request = self.reject(item.id).request
        except VadeError as error:
            return Decision(item, False, str(error)), None
        if request is None:
            return Decision(item, True), None
        line = {"what": "rejected", "path": item.name, "request": approving.render(request).decode()}
        return Decision(item, True), line

    def to_review(self) -> Iterator[Finding]:
        """Yield a finding for `status` if texts are hidden from agents until a person verifies them."""
        count = 0
        if self._work.caller.audience is Audience.PRIVATE:
            refused = decisions.declined(self._work.home)
            count = sum(mark not in refused for mark in self._unverified_marks())
        if count:
            count_text = "1 text is" if count == 1 else f"{count} texts are"
            yield Finding(
                "review", "memory", f"{count_text} hidden from agents until you verify", "vade review", "info"
            )

    # ---------------------------------------------------------------- writes that wait

    def approvals(self) -> Sequence[approving.PendingRequest]:
        """Return the pending writes, oldest first."""
        self._work.only_a_person("see what is pending", "vade review approve")
        return [] if self._work.settings.incognito else approving.every(self._work.home)

    def approve(self, which: str) -> tuple[approving.Request, Any]:
        """Make the pending write with this id, and remove it from the inbox; raise if its record has changed.

        The person's approval also covers a record of the user that the write replaces. A text in the write
        keeps its origin.
        """
        self._work.may_write()
        self._work.may_decide("approve a write", "vade review approve")
        with self._work.reported(f"approve {which}"), approving.held(self._work.home, which) as waiting:
            request = approving.unchanged(waiting)
            with self._as_requester(request) as requester:
                seen = requester.requests.seen(request.operation, request.arguments, Scope(request.scope))
                if request.seen not in (None, seen):
                    raise _changed_error(str(request.arguments.get("name") or request.arguments.get("key")))
                # A text never replaces a text that the person has not seen.
                result = _perform_request(
                    _approved_memory(requester) if request.seen == seen else requester, request
                )
            self._work.audit("approve", scope=Scope(request.scope))
        return request, result

    def reject(self, which: str) -> approving.PendingRequest:
        """Decline the pending write with this id; it is never made."""
        self._work.may_write()
        self._work.may_decide("reject a write", "vade review approve")
        with self._work.reported(f"reject {which}"), approving.held(self._work.home, which) as waiting:
            self._work.audit("reject", scope=Scope(waiting.request.scope) if waiting.request else None)
        return waiting

    def _as_requester(self, request: approving.Request) -> Memory:
        """Open memory as the agent that asked for a write; raise an error if its project has moved."""
        from vademecum.memory.opening import connect  # `opening` imports `core`, which imports this module

        environ = {
            name: value for name, value in os.environ.items() if name not in ("VADE_SESSION", "VADE_AUDIENCE")
        }
        requester = connect(
            home=self._work.home.path,
            cwd=request.root or self._work.home.path,
            agent=request.agent,
            session=request.session,
            client=request.client if request.operation in _KEEPS_ORIGIN else None,
            conversation=request.conversation or "",
            audience=request.audience,
            origin=parse_origin(request.origin) if request.operation in _KEEPS_ORIGIN else Origin.USER,
            actor=request.actor if request.operation in _KEEPS_ORIGIN else self._work.caller.actor,
            now=self._work.now,
            environ=environ,
        )
        own = requester.caller.project
        if request.scope == Scope.PROJECT and (own.id if own else None) != request.project:
            raise NotFound(
                f"the project {request.project} is not at {request.root} any more",
                hint="nothing was written; reject it, and ask again from the project's new location",
            )
        return requester

    # ---------------------------------------------------------------- a person's word

    def trust_of(
        self,
        thing: Record | Entry,
        *,
        record: Record | None = None,
        document: Pinned | None = None,
        trusted: bool = True,
    ) -> trusting.Trust:
        """Return how far a text is trusted: a record, an entry, a note or a section of a pinned `document`.

        For an entry, `record` is the record that contains it. `trusted` says whether its folder is trusted;
        for a section, the document says so.
        """
        given: dict[str, Any] = {"trusted": trusted}
        if document is not None:
            given = {**_with_position(document), "path": document.path}
        with self._work.reported("read the decisions"):
            return trusting.judge_text(thing, self._work.records, record=record, **given)

    def waiting(self, *, scope: str | Scope | None = None) -> Sequence[trusting.Unverified]:
        """Return the texts that agents do not see until a person verifies them."""
        return [each for each, _ in self._unverified(scope)]

    def _unverified(self, scope: str | Scope | None) -> list[tuple[trusting.Unverified, Found | None]]:
        """Return the unverified texts, each with the record that it belongs to, or None."""
        self._work.not_in_group("see what is pending")
        if self._work.settings.incognito:
            return []
        places = self._work.places(scope)
        with self._work.reported("read the memory"):
            found: list[tuple[trusting.Unverified, Found | None]] = []
            for each in self._doubtful(places):
                record = each.record
                texts = self._unverified_records(record.key, record.path, record.entries, record=record)
                found += [(text, each) for text in texts]
            return [*found, *((text, None) for text in self._unverified_pages(places))]

    def _doubtful(self, places: Iterable[Place]) -> Iterator[Found]:
        """Yield the records that have an unverified text."""
        for each in self._work.records.listed(places, trusting.DOUBTS):
            if isinstance(each, Listed):
                with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # deleted or damaged since
                    yield self._work.records.load(each.scope_folder, each.name)

    def _unverified_pages(self, places: Sequence[Place]) -> Iterator[trusting.Unverified]:
        """Yield the unverified texts of pinned documents and journals."""
        for each in self._work.documents.all(places):
            if not isinstance(each, Finding):
                yield from self._unverified_records(
                    each.path, each.path, each.sections, **_with_position(each)
                )
        for day in self._work.journal.days(places):
            if not isinstance(day, Finding):
                yield from self._unverified_records(day.path, day.path, day.entries, among=day.entries)

    def _unverified_records(
        self, name: str, path: str, entries: Iterable[Entry], **about: Any
    ) -> Iterator[trusting.Unverified]:
        record, listed = about.get("record"), tuple(entries)
        versions = {each for some in find_versions(record.live if record else listed) for each in some}
        for entry in listed:
            judgement = trusting.judge_text(entry, self._work.records, path=path, **about)
            if entry.live and entry.text.strip() and not judgement.injectable and entry not in versions:
                yield trusting.Unverified(name, path, entry.text, judgement.why)

    def _unverified_marks(self) -> Iterator[str]:
        """Yield a hash of every visible unverified text, under which its refusal would be stored."""
        places = self._work.places(None)
        verified = decisions.verdicts(self._work.home)
        for each in self._work.records.listed(places, trusting.DOUBTS):
            if isinstance(each, Listed):
                path = each.scope_folder.name_of(filenames.RECORDS, each.name)
                for decision, mark in each.fact:
                    if not verified(decision) and not hub_rules.vouched_by(self._work.home, path, decision):
                        yield mark
        for text in self._unverified_pages(places):
            yield decisions.mark_of("text", text.path, text.text)

    def verify(
        self, name: str | int, *, scope: str | Scope | None = None, on: bool = True
    ) -> Sequence[Entry]:
        """Mark the present content of a record, pinned document or journal file as verified by a person.

        With `on=False`, remove that mark. Return the texts concerned. A text that is edited afterwards is
        another, unverified text.
        """
        self._work.may_write()
        self._work.may_decide("verify a memory", "vade review verify")
        with self._work.reported(f"verify {name}"):
            found, entries = self._verifiable(str(name), scope)
            for entry in entries:
                if on:
                    decisions.verify(
                        self._work.home, entry.text, at=self._work.stamp(), by=self._work.caller.actor
                    )
                else:
                    decisions.unverify(self._work.home, entry.text)
            if found is not None and found.scope_folder.trusted:
                verification = {"by": self._work.caller.actor, "at": self._work.stamp()} if on else None
                self._work.records.change_fields(found, {"verified": verification}, operation="verify")
            self._work.audit(
                "verify" if on else "unverify",
                scope=None if found is None else found.record.place.scope,
                record=None if found is None else found.record.id,
            )
        return entries

    def verifiable(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[Entry]:
        """Return the texts that `verify` would verify for this name of a record, document or journal file."""
        with self._work.reported(f"read {name}"):
            return self._verifiable(str(name), scope)[1]

    def _verifiable(self, name: str, scope: str | Scope | None) -> tuple[Found | None, Sequence[Entry]]:
        """Return the entries under a name of a record, document or journal file, and the record or None."""
        document = filenames.is_document(name)
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
        """Protect a record from being archived automatically, or with `on=False` end its protection."""
        self._work.may_write()
        self._work.may_decide("protect a memory" if on else "remove protection", "vade protect")
        found = self._work.find(name, scope, only=True)
        with self._work.reported(f"protect {found.record.key}"):
            found = self._work.records.as_own_record(found)
            fields: dict[str, Any] = {"protected": True if on else None, "protected_by": None}
            if not found.record.fields.get("type"):
                fields["type"] = found.record.type
            return self._work.records.change_fields(found, fields, operation="protect" if on else "unprotect")


class _Kind(NamedTuple):
    """The functions that list, approve and decline the items of one kind."""

    items: Callable[[Review, str | Scope | None, list[str]], Iterator[PendingItem]]
    approve: Callable[[Review, Sequence[PendingItem], str | None], Iterator[_Step]]
    decline: Callable[[Review, PendingItem, str | None], _Step] = Review._decline
    listed_again: bool = True  # items are compared with the current ones; a write is checked by `approve`


_KINDS = {
    "write": _Kind(Review._list_writes, Review._approve_writes, Review._decline_write, listed_again=False),
    "folder": _Kind(Review._list_folders, Review._approve_folders),
    "text": _Kind(Review._list_texts, Review._approve_texts),
    "contradiction": _Kind(Review._list_contradictions, Review._approve_contradictions),
    "version": _Kind(Review._list_versions, Review._approve_versions, Review._decline_version),
    "notice": _Kind(Review._list_notices, Review._approve_notices, Review._decline_notice),
    "held": _Kind(Review._list_held, Review._approve_held, Review._decline_held),
    "conflict": _Kind(Review._list_conflicts, Review._approve_conflicts),
    "promotion": _Kind(Review._list_promotions, Review._approve_promotions),
    "signal": _Kind(Review._list_signals, Review._approve_heard, Review._decline_heard),
    "lesson": _Kind(Review._list_lessons, Review._approve_heard, Review._decline_heard),
}


def _perform_request(memory: Memory, request: approving.Request) -> Any:
    """Make the write that an approved request asks for, and return its result."""
    given, scope = request.arguments, Scope(request.scope)
    if request.operation == "replace":
        found = memory.workspace.find(str(given["name"]), scope, only=True)
        labels = {name: given[name] for name in ("type", "tags") if given.get(name)}
        with memory.workspace.reported(f"replace an entry of {found.record.key}"):
            return memory.workspace.records.settle(
                found, old=given["instead_of"], new=given["text"], labels=labels
            )
    if request.operation == "reword":
        return _write_rewording(memory, given, scope)
    if request.operation == "archive":
        chosen = [memory.workspace.find(str(each["name"]), scope, only=True) for each in given["records"]]
        for found, each in zip(chosen, given["records"], strict=True):
            if memory.workspace.content_hash(found) != each["seen"]:
                raise _changed_error(found.record.key)
        with memory.workspace.reported("archive these"):
            return _approved_memory(memory).archive.put_away(chosen)
    return memory.requests.perform(request.operation, given)


def _write_rewording(memory: Memory, given: Mapping[str, Any], scope: Scope) -> Any:
    """Save a rewording of a record exactly as it was shown, with every statement."""
    from vademecum.lifecycle import passes, reword

    work = memory.workspace
    found = work.find(str(given["name"]), scope, only=True)
    content = found.scope_folder.read(filenames.RECORDS, found.name) or b""
    seen = passes.RecordFile(found.record, found.scope_folder, found.name, content)
    texts = {parse_origin(origin): text for origin, text in given["texts"].items()}
    made = reword.pair_texts(seen, texts, model=str(given["model"]))
    if made.refused is not None or reword.show_rows(made.rows) != given["diff"]:
        raise _changed_error(found.record.key)
    proposal = reword.accept_rows(made, made.open, now=work.now())
    run, results = passes.apply_proposals(work.records, [proposal], what=reword.NAME)
    if not run:
        raise _changed_error(found.record.key)
    return passes.RunOutcome((proposal,), run=run, results=results)


def _approved_memory(memory: Memory) -> Memory:
    """Return the same memory, whose writes count as approved by a person."""
    from vademecum.memory.core import Memory

    work = memory.workspace
    return Memory(work.home, work.caller._replace(approved=True), work.loaded, now=work.now)


def _changed_error(name: str) -> Conflict:
    return Conflict(
        f"{name} was changed after it was asked for", hint="nothing was done; reject it, and ask again"
    )


def _with_position(found: Pinned) -> dict[str, Any]:
    """Return what trust in a section depends on: whether its document is trusted, and all the sections."""
    return {"trusted": found.trusted, "among": found.sections}


def _place_of(statement: HeardStatement) -> Scope:
    """Return the scope in which a statement would be saved."""
    return Scope.PROJECT if statement.fields else _WHERE.get(statement.kind, (Scope.PROJECT, ""))[0]


def _first(text: str) -> str:
    return next(iter(text.strip().split("\n")), "")[:100]


def _matches(item: PendingItem, wanted: str) -> bool:
    """Return whether a name or glob fits an item: its key, number, path or file name."""
    number = item.about.record.num if isinstance(item.about, Found) else None
    called = (item.name, item.path, item.path.rpartition("/")[2], "" if number is None else str(number))
    return any(each == wanted or fnmatch.fnmatchcase(each, wanted) for each in called if each)


def _is_from(found: object, source: str) -> bool:
    """Return whether a record came from the other system, or the file of it, that `source` names."""
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
    """Return whether `source` means a file of another system: by the system, its full name, or a glob."""
    return (
        resource in (source, source.removeprefix("import:"))
        or resource.startswith((f"{source}:", f"{source.removeprefix('import:')}:"))
        or fnmatch.fnmatchcase(resource, source)
    )


def _describe_held(place: str, texts: int) -> str:
    """Return a sentence about texts that a sync held back in a place that this caller does not see."""
    scope, _, name = place.partition("/")
    command = "vade review --kind held"
    if scope == Scope.PROJECT:
        command = f"VADE_PROJECT_ID={shlex.quote(name)} {command}"
    elif scope == Scope.AGENT:
        command += f" --agent {shlex.quote(name)}"
    many = "1 text" if texts == 1 else f"{texts} texts"
    return f"a purge on another machine left {many} of {place} open: `{command}` decides"
