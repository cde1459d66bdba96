"""One inbox for all that waits for a person, and what they decide about it."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import NotFound, UsageError, VadeError
from vademecum.lazy import LazyModule
from vademecum.memory.approving import Approving
from vademecum.memory.moving import Moving
from vademecum.memory.projects import Projects
from vademecum.memory.relating import Relating
from vademecum.store import archive, decisions, document, files, names, scopes
from vademecum.store.joining import saying
from vademecum.store.records import Found
from vademecum.store.texts import decode
from vademecum.types import Audience, Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from vademecum.knowledge import signals as signalling
    from vademecum.lifecycle import contradictions as clashing
    from vademecum.lifecycle import passes, runner
    from vademecum.lifecycle import promote as promoting
    from vademecum.store import approvals as approving
    from vademecum.store import repository, reviews
    from vademecum.store import runs as running
    from vademecum.store.home import Shelf
else:
    approving = LazyModule("vademecum.store.approvals")
    clashing = LazyModule("vademecum.lifecycle.contradictions")
    promoting = LazyModule("vademecum.lifecycle.promote")
    passes = LazyModule("vademecum.lifecycle.passes")
    repository = LazyModule("vademecum.store.repository")
    reviews = LazyModule("vademecum.store.reviews")
    runner = LazyModule("vademecum.lifecycle.runner")
    running = LazyModule("vademecum.store.runs")
    signalling = LazyModule("vademecum.knowledge.signals")

REVIEW = "review"
KINDS = {  # in the order in which they are shown, and what a yes does
    "write": "Writes that agents asked for: yes makes the write",
    "folder": "A .vade folder that is not trusted: yes trusts it",
    "text": "Unverified texts: yes verifies them, and agents are told them",
    "contradiction": "Contradictions: yes lets the newer statement replace the older one",
    "conflict": "Conflict copies left by a sync tool: yes merges them into the record and archives the copy",
    "promotion": "Statements that journals repeat: yes saves them as memories",
    "signal": "Things you said that are worth saving: yes saves them as memories",
}
_SESSIONS = 10  # whose messages are read for signals
_MESSAGES = 400  # of these at most
_KNOWN = 90.0  # out of 100: what is as like as this to something in memory is in it already
# What Syncthing, Dropbox, Nextcloud and their kind call a copy that they could not merge.
_COPY = re.compile(
    r"(?P<stem>.+?)(?:\.sync-conflict-\d{8}-\d{6}(?:-[A-Z0-9]+)?| \([^()]*conflicted copy[^()]*\))"
    r"(?P<ending>\.md)",
    re.IGNORECASE,
)
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


class Reviewing(Relating, Moving, Approving, Projects):
    """One inbox for all that waits for a person, as a part of `Memory`."""

    def review(
        self,
        kinds: Collection[str] = (),
        *,
        scope: str | Scope | None = None,
        declined: bool = False,
    ) -> Inbox:
        """All that waits for a person, or only these kinds; with `declined`, what they said no to instead."""
        self._only_a_person("look at what waits for a person", "vade review")
        for kind in kinds:
            if kind not in KINDS:
                raise UsageError(f"{names.shown(kind)} does not wait here", hint=f"one of {', '.join(KINDS)}")
        if self.settings.incognito:
            return Inbox((), ("this session is incognito: nothing is read",))
        refused = reviews.declined(self.home)
        notes: list[str] = []
        found: list[Item] = []
        with self._reported("read the memory"):
            for kind in KINDS:
                if not kinds or kind in kinds:
                    each: Callable[[str | Scope | None, list[str]], Iterable[Item]] = getattr(
                        self, f"_waiting_{kind}s"
                    )
                    found += each(scope, notes)
        return Inbox(tuple(item for item in found if (item.id in refused) is declined), tuple(notes))

    def decide(
        self,
        items: Sequence[Item],
        *,
        yes: bool,
        sitting: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> tuple[str, Sequence[Decided]]:
        """Decide about things that wait, exactly as they were shown; what changed since then is left alone.

        Returns the name of the sitting, which `undo` takes back as a whole, and what became of each. The name
        of an earlier call goes on with its sitting.
        """
        self._may_write()
        self.may_decide("decide about what waits", "vade review")
        with self._reported("keep the decision"):
            earlier = next((each for each in reviews.every(self.home) if each.id == sitting), None)
            moment, at = self.now(), self._stamp()
            kept = earlier or reviews.Sitting(reviews.new_id(moment, at), at, self.caller.actor)
            decided: list[Decided] = []
            lines: list[dict[str, Any]] = []
            for kind in KINDS:
                chosen = [each for each in items if each.kind == kind]
                for done, (result, line) in enumerate(self._decided(kind, chosen, yes=yes), 1):
                    decided.append(result)
                    if line is not None:
                        lines.append(line)
                    if progress is not None:
                        progress("decided", done, len(chosen))
            if lines:
                reviews.put(self.home, kept._replace(done=(*kept.done, *lines)))
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
        items = self.review(["text"], scope=scope).items
        chosen = list(items) if everything else []
        if run is not None:
            if run not in {each.run for each in self.runs()}:
                raise NotFound("there is no such run", hint="`vade undo --list` shows all runs")
            touched = running.paths(self.home, run)
            chosen += [each for each in items if each.path in touched]
        if source is not None:
            known = [each for each in items if _is_from(each.about, source)]
            if not known:
                raise NotFound(
                    f"nothing that waits came from {names.shown(source)}",
                    hint="`vade verify --list` shows it",
                )
            chosen += known
        for name in wanted:
            known = [each for each in items if _matches(each, str(name))]
            if not known:
                raise NotFound(
                    f"nothing that waits is called {names.shown(str(name))}",
                    hint="`vade verify --list` shows it",
                )
            chosen += known
        return [*{each.id: each for each in chosen}.values()]

    # ---------------------------------------------------------------- taking back

    def runs(self) -> Sequence[running.Brief]:
        """The runs and reviews that changed something in sight, newest first."""
        found = [*super().runs()]
        if self.caller.audience is Audience.PRIVATE and not self.settings.incognito:
            with self._reported("list the reviews"):
                found += [
                    running.Brief(each.id, REVIEW, each.at, len(each.done), each.undone)
                    for each in reviews.every(self.home)
                ]
        return sorted(found, key=lambda each: each.run, reverse=True)

    def undo(self, run: str | None = None) -> tuple[str, Sequence[running.Told]]:
        """Bring back what a run or a review changed, the newest unless named; says what it could not."""
        with self._reported("undo"):
            sittings = {each.id: each for each in reviews.every(self.home)}
        if run is None and sittings:
            # What a review did by runs is taken back with the review.
            inside = {line.get("run") for each in sittings.values() for line in each.done}
            run = next(
                (
                    each.run
                    for each in self.runs()
                    if not each.undone and not each.tried and each.run not in inside
                ),
                None,
            )
        if run not in sittings:
            return super().undo(run)
        self._may_write()
        self.may_decide("take back a decision", f"vade undo {run}")
        sitting = sittings[run]
        if sitting.undone:
            return run, []
        with self._reported("undo"):
            told = [told for line in reversed(sitting.done) for told in self._taken_back(line)]
            reviews.put(self.home, sitting._replace(undone=True))
            self._audit("undo review")
        return run, told

    def _taken_back(self, line: dict[str, Any]) -> Iterator[running.Told]:
        """Take one decision back."""
        what, path = str(line.get("what")), str(line.get("path") or "")
        if what == "declined":
            yield running.Told(
                path, reviews.undecline(self.home, str(line["id"])), "it was taken back already"
            )
        elif what == "verified":
            yield self._unverified_again(line, path)
        elif what == "trusted":
            self.trust(on=False)
            yield running.Told(path, True)
        elif what == "rejected":
            approving.put_back(self.home, str(line["request"]).encode())
            yield running.Told(path, True)
        elif what == "run":
            try:
                yield from super().undo(str(line["run"]))[1]
            except NotFound as error:
                yield running.Told(path, False, str(error))
        else:
            yield running.Told(path, False, f"take it back with `{line.get('back')}`")

    def _unverified_again(self, line: dict[str, Any], path: str) -> running.Told:
        dropped = decisions.drop(self.home, decisions.VERIFIED, str(line["text"]))
        found = self._record_at(path)
        if found is not None and found.shelf.trusted and found.record.fields.get("verified"):
            self.records.change_fields(found, {"verified": None}, operation="verify")
        self._audit("unverify", scope=None if found is None else found.record.place.scope)
        return running.Told(path, dropped, "" if dropped else "it was taken back already")

    def _record_at(self, path: str) -> Found | None:
        """The record in the file at a path; None when that is none."""
        try:
            found = self._find(path.rpartition("/")[2].removesuffix(".md"), None)
        except VadeError:
            return None
        return found if found.record.path == path else None

    # ---------------------------------------------------------------- what waits

    def _waiting_writes(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        for each in approving.every(self.home):
            asked = each.request
            if asked is None:
                yield Item("write", each.id, each.id[: approving.SHOWN], "", "", each.trouble, about=each)
                continue
            told = {
                name: value for name, value in asked.arguments.items() if value not in (None, "", [], False)
            }
            words = [
                f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
                for name, value in told.items()
                if name not in ("scope", "slug")
            ]
            why = f"{asked.agent} asked to {asked.operation.replace('_', ' ')} through {asked.door}"
            short = each.id[: approving.SHOWN]
            yield Item("write", each.id, short, "", "\n".join(words), why, asked.scope, each)

    def _waiting_folders(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        shelf = repository.shelf(self.home, self.caller.project)
        if shelf is None or shelf.trusted or scope not in (None, Scope.PROJECT):
            return
        records = [each for each in self.records.on(shelf) if isinstance(each, Found)]
        listed = "\n".join(f"{each.record.key}: {_first(each.record.text)}" for each in records)
        root = str(shelf.top)
        why = f"it came with the repository; {len(records)} records, none of which agents are told"
        yield Item("folder", reviews.mark("folder", root, listed), ".vade", root, listed, why, about=root)

    def _waiting_texts(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        for each, found in self._unverified(scope):
            place = "" if found is None else str(found.record.place.scope)
            mark = reviews.mark("text", each.path, each.text)
            yield Item("text", mark, each.name, each.path, each.text, each.why, place, found)

    def _waiting_contradictions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        seen, _ = runner.read_places(self.records, self._places(scope, all=False))
        for clash in clashing.find_clashes(seen)[: clashing.MOST]:
            if clash.older.seen.shelf.trusted:
                text = f"older: {clash.older.text}\nnewer: {clash.newer.text}"
                mark = reviews.mark("contradiction", clash.older.where, clash.newer.where, text)
                key, path = clash.older.seen.record.key, clash.older.seen.record.path
                place = str(clash.older.seen.record.place.scope)
                yield Item("contradiction", mark, key, path, text, clash.rule, place, clash)

    def _waiting_conflicts(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        for place in self._places(scope, all=False):
            for shelf in scopes.shelves(self.home, self.caller, place):
                folder = shelf.open(archive.RECORDS) if shelf.trusted else None
                if folder is None:
                    continue
                with folder:
                    for name in folder.names():
                        copy = _COPY.fullmatch(name)
                        content = files.read(folder, name) if copy else None
                        if copy and content is not None:
                            original = f"{copy['stem']}{copy['ending']}"
                            yield _conflict(shelf, name, content, original, files.read(folder, original))

    def _waiting_promotions(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
        if scope is not None and scope not in scopes.WITH_JOURNAL:
            return
        for each in self.promote(scope=scope).promotions:
            mark = reviews.mark("promotion", each.path, each.text)
            why = f"{each.why}; from {', '.join(each.sources[:3])}"
            yield Item("promotion", mark, each.path, each.path, each.text, why, str(each.place.scope), each)

    def _waiting_signals(self, scope: str | Scope | None, notes: list[str]) -> Iterator[Item]:
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
                mark = reviews.mark("signal", each.text)
                why = f"{each.kind} ({each.confidence:.2f}), said in {path}"
                yield Item("signal", mark, str(each.kind), path, each.text, why, str(place), each)

    def _said_lately(self) -> Iterator[tuple[str, str]]:
        """What the user said in the newest sessions, with where it stands."""
        from vademecum.transcripts.events import Said
        from vademecum.transcripts.messages import Role
        from vademecum.transcripts.views import is_aside

        left = _MESSAGES
        for log in self._newest_logs(_SESSIONS):
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
        found = [each for each in self._everything(scopes.visible(self.caller)) if isinstance(each, Found)]
        return [entry.text for each in found for entry in each.record.entries]

    # ---------------------------------------------------------------- deciding

    def _decided(
        self, kind: str, items: Sequence[Item], *, yes: bool
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
        if not yes:
            for item in fresh:
                reviews.decline(self.home, item.id, kind=kind, at=self._stamp(), by=self.caller.actor)
                self._audit(f"decline {kind}")
                yield Decided(item, True), {"what": "declined", "id": item.id, "path": item.path}
            return
        for item in fresh:
            reviews.undecline(self.home, item.id)
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
            found = self._find(item.about.record.id or item.name, item.about.record.place.scope)
        except VadeError:
            return []
        same = found.record.path == item.path and any(each.text == item.text for each in found.record.live)
        return [item._replace(about=found)] if same else []

    def _verified(self, items: Sequence[Item]) -> Iterator[tuple[Decided, dict[str, Any]]]:
        marked: set[str] = set()
        for item in items:
            decisions.verify(self.home, item.text, at=self._stamp(), by=self.caller.actor)
            found = item.about if isinstance(item.about, Found) else None
            if found is not None and found.shelf.trusted and item.path not in marked:
                marked.add(item.path)
                shown = {"by": self.caller.actor, "at": self._stamp()}
                self.records.change_fields(found, {"verified": shown}, operation="verify")
            else:
                self._audit("verify", scope=None if found is None else found.record.place.scope)
            line = {"what": "verified", "path": item.path, "text": decisions.exactly(item.text)}
            yield Decided(item, True), line

    def _promoted(self, items: Sequence[Item]) -> Iterator[tuple[Decided, dict[str, Any] | None]]:
        done = self.promote(apply=True, only={each.text for each in items})
        left = {each.path: each.why for each in done.outcome.told if not each.done}
        for number, item in enumerate(items):
            wrong = left.get(item.path, "")
            first = number == 0 and bool(done.outcome.run)
            line = {"what": "run", "run": done.outcome.run, "path": item.path} if first else None
            yield Decided(item, not wrong, wrong), line

    def _one(self, kind: str, item: Item) -> tuple[Decided, dict[str, Any] | None]:
        if kind == "folder":
            self.trust()
            return Decided(item, True), {"what": "trusted", "path": item.path}
        if kind == "signal":
            return self._saved_signal(item)
        if kind == "contradiction":
            edits: tuple[running.Edit, ...] = (clashing.settle_clash(item.about, at=self._stamp()),)
        else:
            edits = item.about
        proposal = passes.Proposal(kind, item.path, item.why, edits)
        run, told = runner.apply(self.records, [proposal], what=f"{REVIEW} {kind}")
        wrong = next((each.why for each in told if not each.done), "")
        line = {"what": "run", "run": run, "path": item.path} if run else None
        return Decided(item, not wrong, wrong, f"vade undo {run}" if run else ""), line

    def _saved_signal(self, item: Item) -> tuple[Decided, dict[str, Any]]:
        place, kind = _WHERE.get(item.name, (Scope.PROJECT, "project"))
        stored = self.store(item.text, scope=place, type=kind, tags=[item.name])
        back = f"vade forget {stored.key} --scope {place}"
        self._audit("approve signal", scope=place)
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
        told = back.get(request.operation, "vade audit")
        return Decided(item, True, back=told), {"what": "written", "path": item.name, "back": told}

    def _to_review(self) -> Iterator[Finding]:
        """That texts wait for a person, for `status`."""
        count = 0
        if self.caller.audience is Audience.PRIVATE:
            refused = reviews.declined(self.home)
            count = sum(mark not in refused for mark in self._waiting_marks())
        if count:
            said = "1 text is" if count == 1 else f"{count} texts are"
            yield Finding(
                "review", "memory", f"{said} not told to agents before you verify", "vade review", "info"
            )


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
        each == source or each.startswith(f"{source}:") or fnmatch.fnmatchcase(each, source)
        for each in resources
    )


def _conflict(shelf: Shelf, name: str, content: bytes, original: str, current: bytes | None) -> Item:
    """A copy that a sync tool left, and the edits that merge it into the record it is a copy of."""
    path = shelf.name_of(archive.RECORDS, name)
    where = shelf.name_of(archive.RECORDS, original)
    mine = document.parse(decode(content))
    if current is None:
        merged, new = content, [entry.text for entry in mine.entries]
    else:
        text = decode(current)
        parsed = document.parse(text)
        missing = [entry for entry in mine.entries if saying(parsed, entry.text) is None]
        new = [entry.text for entry in missing]
        for entry in missing:
            text = document.insert(text, entry)
        merged = text.encode()
    edits = [running.Edit(shelf, archive.RECORDS, original, current, merged)] if merged != current else []
    edits.append(running.Edit(shelf, archive.RECORDS, name, content, None))
    shown = "\n\n".join(new) if new else "It says nothing that the record does not say."
    mark = reviews.mark("conflict", path, files.digest(content), files.digest(current or b""))
    why = f"a copy of {where}; this is what only the copy says"
    return Item(
        "conflict", mark, original.removesuffix(".md"), path, shown, why, str(shelf.place.scope), tuple(edits)
    )
