"""One sync of one stream: what was done here becomes facts, others' facts become files; safe at every step.

The order is the safety: changes here are facts on disk before anything of others is looked at, and others'
facts are on disk before any file holds them. So a file never holds a text that no log knows, and what a
crash leaves half done is never taken for somebody's edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vademecum.errors import Malformed, Refused
from vademecum.sync import facts as fact_rules
from vademecum.sync.diff import Ledger, diff, identify
from vademecum.sync.project import FactSet, Shows, everything, hidden, path_of, project

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from vademecum.sync.facts import Dot, SyncFact

FEWEST, SHARE = 20, 0.2  # how many documents, and which share of them, may go in one sync unasked


class MassDeletion(Refused):
    """So many documents are gone at once that a person is asked first."""

    hint = "`vade sync --accept-deletions` deletes them everywhere, `vade sync --restore` restores them"


class Forked(Refused):
    """There are other facts under this replica's name: the home was copied, or brought back."""


class Logged(NamedTuple):
    """A fact in this home's log, and whether it was made here and so stands in the files."""

    fact: SyncFact
    own: bool


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


class Files(Protocol):
    """The files of one place that are synced."""

    def read(self) -> dict[str, str]:
        """The text of each, by its path in the place; what cannot be synced is left out."""

    def held(self) -> Collection[str]:
        """Paths that are there and are not synced now: they are neither changed nor missing."""

    def write(self, path: str, change: Callable[[str | None], str | None]) -> None:
        """Put `change(text)` in place of a text, under its lock; the old one goes to the archive."""

    def archive(self, path: str, text: str) -> None:
        """Keep a text that is not shown."""


class Transport(Protocol):
    """Where replicas leave their facts for each other."""

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterable[SyncFact]:
        """Facts of others that are not known, each replica's in their order; `known` counts those of each."""

    def push(self, stream: str, facts: Sequence[SyncFact]) -> None:
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


@dataclass(slots=True)
class SyncStream:
    """One stream of one home, with all that a sync of it needs."""

    name: str
    log: SyncLog
    files: Files
    transport: Transport
    trust: Callable[[SyncFact], bool] = everything
    accept: Callable[[SyncFact], bool] = everything  # whether a fact of others is taken at all
    make: Callable[[SyncFact], SyncFact] = lambda fact: fact  # what is done to a fact of our own: a seal

    def sync(self, *, deletions: bool | None = None) -> Synced:
        """Bring both sides together; `deletions` answers the question about many of them."""
        done = Synced()
        logged = list(self.log.read())
        if not self.log.applied() and not any(each.own for each in logged):
            # A new home, or one that lost its log: what others know decides what is new here.
            self.log.begin({*self.files.read(), *self.log.applying()})
            self._pull(done)
        files = self._look(done, deletions=deletions)
        self._pull(done)
        self.transport.push(self.name, [each.fact for each in self.log.read() if each.own])
        self._apply(files, done)
        return done

    # ------------------------------------------------------------ one step each

    def _look(self, done: Synced, *, deletions: bool | None) -> dict[str, str]:
        """Write down what was done to the files, and return them as they were then.

        Of a file that was being written when a sync was cut short nobody knows what it showed.
        """
        logged, applied, unsure = list(self.log.read()), self.log.applied(), set(self.log.applying())
        seen = FactSet(each.fact for place, each in enumerate(logged) if each.own or place < applied)
        base = project(seen, self.trust)
        files, held = self.files.read(), self.files.held()
        gone = self._gone(base, files, {*unsure, *held})
        if len(gone) > max(FEWEST, SHARE * len(base)):
            if deletions is None:
                raise MassDeletion(f"{len(gone)} of {len(base)} documents of {self.name} are gone")
            unsure |= set() if deletions else set(gone)
        # Under its new name a file that was being written is as uncertain as under the old one.
        latest = project(FactSet(each.fact for each in logged), self.trust) if unsure else {}
        moved = {**identify(base, files)[1], **identify(latest, files)[1]}
        unsure |= {path for path, home in moved.items() if home in unsure}
        ledger = self._ledger(logged, seen)
        sure = {path: shows for path, shows in base.items() if path not in unsure and path not in held}
        self._diff_all(ledger, sure, {path: text for path, text in files.items() if path not in unsure})
        if unsure:
            ledger.seen = every = FactSet([*(each.fact for each in logged), *ledger.made])
            # A file may have another name by now: what it was is looked for among all that no file is.
            shown = project(every, self.trust).items()
            latest = {path: shows for path, shows in shown if path in unsure or path not in files}
            left = {path: text for path, text in files.items() if path in unsure}
            self._diff_all(ledger, latest, left, older={path: base.get(path) for path in unsure})
        self._keep(ledger, done)
        return files

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
    ) -> None:
        given, moved = identify(base, files)
        unsure = older is not None
        for path in sorted({*base, *files}):
            if path in moved.values() and path not in files:
                continue  # it has another name now
            text = files.get(path)
            shown = base.get(moved.get(path, path))
            if path in moved and path in base:  # another document's file was moved over this one
                diff(ledger, base[path], path, None, uncertain=unsure)
            before = older.get(path) if older is not None else None
            diff(ledger, shown, path, text, doc=given.get(path, ""), uncertain=unsure, older=before)

    def _ledger(self, logged: Sequence[Logged], seen: FactSet) -> Ledger:
        mine = [each.fact for each in logged if each.fact.replica == self.log.replica]
        largest = max((each.fact.lam for each in logged), default=0)
        return Ledger(
            self.name, self.log.replica, seen, mine[-1] if mine else None, largest, trust=self.trust
        )

    def _keep(self, ledger: Ledger, done: Synced) -> None:
        made = [self.make(fact) for fact in ledger.made]
        if made:
            self.log.append(made, own=True)
        done.sent += len(made)
        ledger.made.clear()

    def _pull(self, done: Synced) -> None:
        """Take in what others did: what follows, replaces only what is known, and is accepted."""
        logged = list(self.log.read())
        known: dict[Dot, SyncFact] = {each.fact.dot: each.fact for each in logged}
        last = {fact.replica: fact for fact in sorted(known.values(), key=lambda fact: fact.n)}
        waiting: dict[str, list[SyncFact]] = {}
        for fact in self.transport.pull(self.name, {replica: fact.n for replica, fact in last.items()}):
            waiting.setdefault(fact.replica, []).append(fact)
        taken: list[SyncFact] = []
        stuck: dict[str, str] = {}
        while True:
            count = len(taken)
            for replica in sorted(waiting):
                while waiting[replica]:
                    why = self._why_not(waiting[replica][0], last.get(replica), known)
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

    def _why_not(self, fact: SyncFact, last: SyncFact | None, known: Mapping[Dot, SyncFact]) -> str:
        if fact.stream != self.name or not fact_rules.follows(fact, last):
            return "its facts do not follow on each other"
        if not self.accept(fact):
            return "it has another key"
        try:
            fact_rules.check(fact, known.get)
        except Malformed as error:
            return str(error)
        return ""

    def _apply(self, files: Mapping[str, str], done: Synced) -> None:
        """Show all facts in the files, as they were when they were looked at."""
        logged, applied = list(self.log.read()), self.log.applied()
        every = FactSet(each.fact for each in logged)
        seen = FactSet(each.fact for place, each in enumerate(logged) if each.own or place < applied)
        target, held = project(every, self.trust), self.files.held()
        texts = {path: shows.text for path, shows in target.items()}
        changed = [
            path
            for path in sorted({*files, *texts})
            if path not in held and files.get(path) != texts.get(path)
        ]
        self._archive(every, seen, done)
        if changed:
            self.log.begin({*changed, *self.log.applying()})
        left = [path for path in changed if not self._write(path, files.get(path), texts.get(path), done)]
        done.conflicts = sorted(
            path for path, shows in target.items() if any(block.conflict for block in shows.blocks)
        )
        if changed or applied < len(logged) or self.log.applying():
            self.log.finish(len(logged), left)

    def _write(self, path: str, before: str | None, text: str | None, done: Synced) -> bool:
        """Write one file, unless somebody saved it meanwhile: the next sync finds out what they did."""

        def change(current: str | None) -> str | None:
            if current not in (before, text):
                raise _Edited
            return text

        try:
            self.files.write(path, change)
        except _Edited:
            return False
        (done.removed if text is None else done.written).append(path)
        return True

    def _archive(self, every: FactSet, seen: FactSet, done: Synced) -> None:
        """Keep the texts that somebody edited while somebody else removed them."""
        for doc in every.docs:
            if not doc:
                continue
            before = {each.dot for each in hidden(seen, doc)} if doc in seen.docs else set()
            for each in hidden(every, doc):
                if each.dot not in before:
                    path = path_of(every, doc)
                    self.files.archive(path, each.raw)
                    done.archived.append(path)


class _Edited(Exception):
    """Somebody saved a file while a sync was about to write it."""
