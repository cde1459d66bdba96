"""One sync of one stream: what was done here becomes facts, others' facts become files; safe at every step.

The order is the safety: changes here are facts on disk before anything of others is looked at, and others'
facts are on disk before any file holds them. So a file never holds a text that no log knows, and what a
crash leaves half done is never taken for somebody's edit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vademecum.errors import Malformed, Refused
from vademecum.sync import facts as fact_rules
from vademecum.sync import purges
from vademecum.sync.diff import Ledger, diff, find_copies, find_leftovers, find_unknown, identify
from vademecum.sync.project import TYPED, FactSet, Shows, Signing, find_notices, hidden, path_of, project
from vademecum.sync.window import NO_DIGESTS, Remembered, StreamWindow, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from vademecum.sync.facts import Dot, SyncFact
    from vademecum.sync.project import FileNotice
    from vademecum.sync.window import Logged, OwnFacts

TRIES = 5  # at sending, while others purge what it is about
PENDING = "an agent may not change this; a person has to sync it"
FEWEST, SHARE = 20, 0.2  # how many documents, and which share of them, may go in one sync unasked


class MassDeletion(Refused):
    """So many documents are gone at once that a person is asked first."""

    hint = "`vade sync --accept-deletions` deletes them everywhere, `vade sync --restore` restores them"


class Forked(Refused):
    """There are other facts under this replica's name: the home was copied, or brought back."""


class PurgedMeanwhile(Refused):
    """What is sent is over something that was purged since others' facts were read."""


class FactsRefused(Refused):
    """Some facts are not taken, and everything else would be: they are let go of, and stay in the files."""

    def __init__(self, why: str, facts: Collection[SyncFact]) -> None:
        super().__init__(why)
        self.facts = facts


class Withheld(NamedTuple):
    """What was done to a file and is not sent, because it was refused."""

    digest: str  # of what the file says; nothing when it is gone
    why: str
    doc: str = ""
    known: int = 0  # how much was known of the document: what came since may have changed the reason


class SyncLog(Protocol):
    """What this home knows of one stream; whatever is appended is on disk before the call returns."""

    replica: str

    def read(self) -> Sequence[Logged]:
        """All of it, in the order in which it came."""

    def append(self, facts: Iterable[SyncFact], *, own: bool) -> None:
        """Add facts."""

    def applied(self) -> int:
        """How many lines of it the files show; what was made here counts always."""

    def applying(self) -> Collection[str]:
        """The paths that were being written when a sync was cut short."""

    def begin(self, paths: Iterable[str]) -> None:
        """Write down which files are about to be written."""

    def finish(self, applied: int, left: Collection[str] = ()) -> None:
        """The files show so many lines, but for those that are `left`."""

    def remembered(self) -> Remembered | None:
        """What the last sync left, if the log still begins with what it was made from."""

    def remember(self, kept: Remembered) -> None:
        """Leave something for the next sync; it may be lost."""

    def aside(self) -> Iterable[SyncFact]:
        """The facts of logs that were put aside."""

    def blank(self, dots: Collection[Dot]) -> None:
        """Take the content of these facts away for good, from every copy of the log."""

    def withdraw(self, dots: Collection[Dot]) -> None:
        """Let go of facts that nobody else has: what is left of each says nothing and keeps its place."""


class FileChange(NamedTuple):
    """A file that is to hold another text if it still holds the one that was seen; None for no file."""

    path: str
    before: str | None
    after: str | None


class Files(Protocol):
    """The files of one place that are synced."""

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """What changes with each file; nothing for one that may change once more and keep it."""

    def read(
        self, paths: Collection[str] | None = None, shown: Mapping[str, str] = NO_DIGESTS
    ) -> dict[str, str]:
        """The text of each, by its path in the place; what cannot be synced is left out.

        A text with the digest of what was `shown` under its path was found fit for it then.
        """

    def held(self) -> Collection[str]:
        """Paths that are there and are not synced now: they are neither changed nor missing."""

    def hold(self, path: str, why: str) -> None:
        """Leave a file alone in this sync, and tell why."""

    def write(self, changes: Sequence[FileChange]) -> Collection[str]:
        """Put texts in place of others, which go to the archive; what somebody saved since is returned."""

    def archive(self, path: str, text: str) -> None:
        """Keep a text that is not shown."""

    def purge(self, removed: purges.Removed) -> None:
        """Delete for good, here and in everything that was made from the files or kept of them."""

    def set_aside(self, name: str, path: str, text: str) -> None:
        """Keep a text for a person, who decides whether it stays."""


class Transport(Protocol):
    """Where replicas leave their facts for each other."""

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterable[SyncFact]:
        """Facts of others that are not known, each replica's in their order; `known` counts those of each."""

    def push(self, stream: str, facts: OwnFacts) -> None:
        """Leave this home's facts, all of them in their order; those that are there already stay."""


@dataclass(slots=True)
class Synced:
    """What a sync did."""

    sent: int = 0
    received: int = 0
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    archived: list[str] = field(
        default_factory=list
    )  # texts edited here or there while the other removed them
    refused: list[str] = field(default_factory=list)
    purged: int = 0  # changes whose content is gone for good
    held: list[str] = field(default_factory=list)  # texts that whoever purged had not seen
    notices: list[FileNotice] = field(default_factory=list)
    withheld: dict[str, Withheld] = field(default_factory=dict)  # by path: refused, and kept in the file
    unsaid: dict[str, str] = field(default_factory=dict)  # by path: verifications and purges, refused


@dataclass(slots=True)
class SyncStream:
    """One stream of one home, with all that a sync of it needs."""

    name: str
    log: SyncLog
    files: Files
    transport: Transport
    signing: Signing = TYPED
    accept: Callable[[SyncFact], bool] = lambda fact: True  # whether a fact of others is taken at all
    make: Callable[[SyncFact], SyncFact] = lambda fact: fact  # what is done to a fact of our own: a seal
    moved: Callable[[Shows], str] = lambda shows: ""  # where a file that is gone went, if that is known
    also: Callable[[Ledger], None] = lambda ledger: None  # what else is written down after the diff
    allowed: Callable[[SyncFact, FactSet], bool] | None = None  # what may be sent, if not everything
    rules: str = ""  # what `signing` depends on; where it may change unseen, nothing is remembered
    may_purge: bool = True  # whether this home may order a purge of what holds the same text
    acks: bool = False  # whether a fact says that a purge was carried out
    doubts: list[purges.Doubt] = field(default_factory=list)  # of this sync
    withheld: Mapping[str, Withheld] = field(default_factory=dict)  # what earlier syncs were refused

    def sync(self, *, deletions: bool | None = None) -> Synced:
        """Bring both sides together; `deletions` answers the question about many of them."""
        done = Synced()
        if not self.log.applied() and (files := self.files.read()):
            # A new home, or one that lost its log or how far its files are: what is known says what is new.
            self.log.begin({*files, *self.log.applying()})
            self._pull(Tail(self.log.read(), Remembered()), done)
        window = self._look(done, deletions=deletions)
        for _ in range(TRIES):
            self._pull(window.tail, done)
            window = purges.carry_out(self, window, done)
            try:
                window = self._push(window, done)
            except PurgedMeanwhile:
                continue
            break
        self._apply(window, done)
        return done

    # ------------------------------------------------------------ one step each

    def _push(self, window: StreamWindow, done: Synced) -> StreamWindow:
        """Send what was made here; each time something is refused there is less of it."""
        while True:
            try:
                self.transport.push(self.name, window.tail.own_facts())
            except FactsRefused as refused:
                window = self._let_go(window, refused, done)
            else:
                return window

    def _let_go(self, window: StreamWindow, refused: FactsRefused, done: Synced) -> StreamWindow:
        """Take facts back that were refused: their files stay as they are, and are told and left alone."""
        window.widen(self.signing)  # what an earlier sync could not send may be about a file outside of it
        paths = {fact.doc: path_of(window.every, fact.doc) for fact in refused.facts}
        for fact in refused.facts:
            path = paths[fact.doc] or fact.doc
            if fact.kind in ("vouch", fact_rules.PURGE):
                what = "verification" if fact.kind == "vouch" else "purge"
                done.unsaid[path] = f"your {what} stays on this machine: {refused}"
            else:
                done.withheld[path] = Withheld(_digest(window.files.get(path)), str(refused), fact.doc)
        self.log.withdraw({fact.dot for fact in refused.facts})
        done.sent = max(0, done.sent - len(refused.facts))
        files = {path: text for path, text in window.files.items() if path not in done.withheld}
        for path in set(paths.values()) & set(done.withheld):
            self.files.hold(path, done.withheld[path].why)
        fresh = window.renewed(self.log.read(), self.log.applied(), files)
        for path, each in done.withheld.items():
            done.withheld[path] = each._replace(known=_count_known(fresh.every, each.doc))
        return fresh

    def _hold_refused(self, window: StreamWindow) -> None:
        """Leave files alone that are as they were when the hub refused what was done to them."""
        for path, each in self.withheld.items():
            same = (_digest(window.files.get(path)), _count_known(window.every, each.doc))
            if path in self.files.held() or same != (each.digest, each.known):
                continue
            self.files.hold(path, each.why)
            window.files.pop(path, None)

    def _remembered(self) -> Remembered:
        """What may be relied on of the last whole sync: nothing, where a purge came since."""
        kept = self.log.remembered()
        if kept is None or (self.signing is not TYPED and not self.rules) or kept.rules != self.rules:
            return Remembered()
        purged = any(each.fact.kind == fact_rules.PURGE for each in self.log.read()[kept.lines :])
        return kept if kept.lines <= self.log.applied() and not purged else Remembered()

    def _open(self, kept: Remembered) -> StreamWindow:
        """The files that changed and the facts that came since, with all that these have to do with."""
        window = StreamWindow(Tail(self.log.read(), kept), self.files.stamps(), self.log.applied())
        window.open(self.files.read, self.log.applying())
        self._hold_refused(window)
        return window

    def _look(self, done: Synced, *, deletions: bool | None) -> StreamWindow:
        """Write down what was done to the files, and return them as they were then.

        Of a file that was being written when a sync was cut short nobody knows what it showed.
        """
        window, unsure = self._open(self._remembered()), set(self.log.applying())
        base = project(window.seen, self.signing)
        if not self.log.applied():  # of nothing is it known whether a file ever showed it
            unsure |= set(base)
        gone = self._gone(base, window.files, {*unsure, *self.files.held()})
        known = len(base) + len(window.outside)
        if len(gone) > max(FEWEST, SHARE * known):
            if deletions is None:
                raise MassDeletion(f"{len(gone)} of {known} documents of {self.name} are gone")
            if not deletions:
                unsure |= set(gone)
                window = self._open(Remembered())
                base = project(window.seen, self.signing)
        if self.allowed is not None:
            base = self._hold_back(window, base, unsure)
        ledger = self._ledger(window)
        self._diff_window(ledger, window, base, unsure)
        self.doubts += [self._doubt(ledger, window.files, *each) for each in ledger.doubts]
        self.also(ledger)
        self._keep(ledger, done)
        window.take(self.signing)
        return window

    def _hold_back(
        self, window: StreamWindow, base: Mapping[str, Shows], unsure: Collection[str]
    ) -> dict[str, Shows]:
        """Leave files alone to which something was done that may not be sent: it stays, and is told."""
        given, moved = identify(base, window.files)
        left = dict(base)
        latest = project(window.every, self.signing) if unsure else {}
        for path in sorted({*base, *window.files}):
            text = window.files.get(path)
            renamed = path in moved.values() and path not in moved
            shown = None if renamed else base.get(moved.get(path, path))
            if (renamed and text is None) or (shown is not None and shown.text == text):
                continue
            trial, known = self._ledger(window), path in unsure and path in latest
            trial.seen = FactSet((window.every if known else window.seen).facts.values())
            if known:
                own = find_unknown(trial, latest, {path: text} if text is not None else {}).get(path, "")
                diff(trial, latest[path], path, text, doc=own, uncertain=True, older=shown)
            else:
                diff(trial, shown, path, text, doc=given.get(path, ""))
            if not all(self.allowed(fact, trial.seen) for fact in trial.made if self.allowed):
                for each in {path, moved.get(path, path)}:
                    self.files.hold(each, PENDING)
                    window.files.pop(each, None)
                    left.pop(each, None)
        return left

    def _diff_window(
        self, ledger: Ledger, window: StreamWindow, base: Mapping[str, Shows], unsure: set[str]
    ) -> None:
        files, held = window.files, self.files.held()
        # Under its new name a file that was being written is as uncertain as under the old one.
        latest = project(window.every, self.signing) if unsure else {}
        moved = {**identify(base, files)[1], **identify(latest, files)[1]} if unsure else {}
        unsure |= {path for path, home in moved.items() if home in unsure}
        sure = {path: shows for path, shows in base.items() if path not in unsure and path not in held}
        plain = {path: text for path, text in files.items() if path not in unsure}
        written = {doc for path in unsure & set(files) if path in latest for doc in latest[path].docs}
        self._diff_all(ledger, sure, plain, elsewhere=written)
        if unsure:
            for fact in ledger.made:
                window.every.add(fact)
            ledger.seen = window.every
            # A file may have another name by now: what it was is looked for among all that no file is.
            shown = project(window.every, self.signing)
            latest = {path: shows for path, shows in shown.items() if path in unsure or path not in files}
            left = {path: text for path, text in files.items() if path in unsure}
            others = {doc for path, shows in shown.items() if path not in latest for doc in shows.docs}
            older = {path: base.get(path) for path in unsure}
            self._diff_all(ledger, latest, left, older=older, elsewhere=others)

    def _doubt(
        self, ledger: Ledger, files: Mapping[str, str], doc: str, target: str, raw: str
    ) -> purges.Doubt:
        named = path_of(ledger.seen, doc)
        path = named or next((path for path, text in files.items() if raw in text), "")
        return purges.Doubt(path, target, raw, whole=not named)

    def _gone(self, base: Mapping[str, Shows], files: Mapping[str, str], but: Collection[str]) -> list[str]:
        """The files that were shown and are no longer there under any name."""
        moved = identify(base, files)[1].values()
        return [path for path in base if path not in files and path not in but and path not in moved]

    def _diff_all(
        self,
        ledger: Ledger,
        base: Mapping[str, Shows],
        files: Mapping[str, str],
        *,
        older: Mapping[str, Shows | None] | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        unsure = older is not None
        unknown = find_unknown(ledger, base, files) if unsure else {}
        copies = find_copies(ledger, base, files) if unsure else ()
        given, moved = identify(base, files, elsewhere, unknown, copies)
        if unsure and self.log.applied():  # in a new home every file is uncertain, and may be a copy
            given |= find_leftovers(base, files, self.log.applying())
        for path in sorted({*base, *files}):
            renamed = path in moved.values() and path not in moved
            if renamed and path not in files:
                continue  # it has another name now
            text = files.get(path)
            shown = None if renamed else base.get(moved.get(path, path))
            if path in moved and path in base:  # another document's file was moved over this one
                diff(ledger, base[path], path, None, uncertain=unsure)
            before = older.get(path) if older is not None else None
            diff(ledger, shown, path, text, doc=given.get(path, ""), uncertain=unsure, older=before)

    def _ledger(self, window: StreamWindow) -> Ledger:
        last = window.tail.last().get(self.log.replica)
        seen, largest = window.seen, window.tail.largest
        made = Ledger(self.name, self.log.replica, seen, last, largest, signing=self.signing, make=self.make)
        made.moved = self.moved
        later = window.tail.logged[self.log.applied() :]
        made.unshown = {each.fact.dot for each in later if each.own}
        return made

    def _keep(self, ledger: Ledger, done: Synced) -> None:
        if ledger.made:
            self.log.append(ledger.made, own=True)
        done.sent += len(ledger.made)
        ledger.made.clear()

    def _pull(self, tail: Tail, done: Synced) -> None:
        """Take in what others did: what follows, replaces only what is known, and is accepted."""
        known: dict[Dot, SyncFact] = {}
        last = tail.last()
        waiting: dict[str, list[SyncFact]] = {}
        for fact in self.transport.pull(self.name, {replica: fact.n for replica, fact in last.items()}):
            waiting.setdefault(fact.replica, []).append(fact)
        named = self._named_by_purges(fact for each in waiting.values() for fact in each)
        taken: list[SyncFact] = []
        stuck: dict[str, str] = {}
        while True:
            count = len(taken)
            for replica in sorted(waiting):
                while waiting[replica]:
                    first = waiting[replica][0]
                    why = self._why_not(first, last.get(replica), known, tail)
                    if first.purged and named.isdisjoint({first.dot, *first.over}):
                        why = why or "it is empty, and no purge says so"
                    if why:
                        stuck[replica] = why
                        break
                    fact = waiting[replica].pop(0)
                    stuck.pop(replica, None)
                    known[fact.dot] = last[replica] = fact
                    taken.append(fact)
            if len(taken) == count:
                break
        if taken:
            self.log.append(taken, own=False)
        done.received += len(taken)
        done.refused += [f"{replica}: {why}" for replica, why in sorted(stuck.items())]

    def _named_by_purges(self, coming: Iterable[SyncFact]) -> set[Dot]:
        """What purges name, for empty facts that replace something: their seal covers no more than a hash.

        Whoever carries facts could otherwise empty one, and have it replace whatever they like.
        """
        given = list(coming)
        empty = [fact for fact in given if fact.purged]
        harmless = {fact.dot for fact in empty if not fact.over}
        if len(harmless) == len(empty):
            return harmless
        known = (each.fact for each in self.log.read())
        orders = [fact for fact in (*known, *filter(self.accept, given)) if fact.kind == fact_rules.PURGE]
        return harmless | FactSet(orders).purged

    def _why_not(
        self, fact: SyncFact, last: SyncFact | None, known: Mapping[Dot, SyncFact], tail: Tail
    ) -> str:
        if fact.stream != self.name or not fact_rules.follows(fact, last):
            return "its facts do not follow on each other"
        if not self.accept(fact):
            return "it has another key"
        try:
            fact_rules.check(fact, lambda dot: known.get(dot) or tail.find(dot, fact.doc))
        except Malformed as error:
            return str(error)
        return ""

    def _apply(self, window: StreamWindow, done: Synced) -> None:
        """Show all facts in the files, as they were when they were looked at."""
        window.take(self.signing)
        files, lines, applied = window.files, window.tail.lines, self.log.applied()
        target, held = project(window.every, self.signing), self.files.held()
        texts = {path: shows.text for path, shows in target.items()}
        changed = [
            path
            for path in sorted({*files, *texts})
            if path not in held and files.get(path) != texts.get(path)
        ]
        self._archive(window.every, window.seen, done)
        done.notices = find_notices(window.seen, window.every, target, changed)
        if changed:
            self.log.begin({*changed, *self.log.applying()})
        left = [
            *self._write([FileChange(path, files.get(path), texts.get(path)) for path in changed], done),
            *self._unwritten(window, texts),
        ]
        if changed or applied < lines or self.log.applying():
            self.log.finish(lines, left)
        kept = window.remember(target, left, self.rules)
        done.conflicts = sorted(path for path, each in kept.files.items() if each.conflict)
        if kept != window.kept and (self.signing is TYPED or self.rules):
            self.log.remember(kept)

    def _unwritten(self, window: StreamWindow, texts: Mapping[str, str]) -> list[str]:
        """The files that are left alone and do not show what others did: what they lack was not removed."""
        held, applying = self.files.held(), self.log.applying()
        shown = project(window.seen, self.signing) if held else {}
        return [
            path
            for path in sorted(held)
            if path in texts and (path in applying or path not in shown or shown[path].text != texts[path])
        ]

    def _write(self, changes: Sequence[FileChange], done: Synced) -> Collection[str]:
        """Write files but those that somebody saved meanwhile: the next sync finds out what they did."""
        left = self.files.write(changes) if changes else ()
        for path, _, text in changes:
            if path not in left:
                (done.removed if text is None else done.written).append(path)
        return left

    def _archive(self, every: FactSet, seen: FactSet, done: Synced) -> None:
        """Keep the texts that somebody edited while somebody else removed them."""
        if every is seen:
            return
        for doc in sorted(every.docs):
            if not doc:
                continue
            before = {each.dot for each in hidden(seen, doc)} if doc in seen.docs else set()
            for each in hidden(every, doc):
                if each.dot not in before:
                    path = path_of(every, doc)
                    self.files.archive(path, each.raw)
                    done.archived.append(path)


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _count_known(state: FactSet, doc: str) -> int:
    listed = (facts for kind in state.docs.get(doc, {}).values() for facts in kind.values())
    return sum(not fact_rules.is_withdrawn(fact) for facts in listed for fact in facts)
