"""Sync one stream: own changes become facts, and others' facts become files; safe against any crash.

Own changes are facts on disk before others' facts are read, and others' facts are on disk before any file has
them. So every text in a file is in a log, and a half-finished write never counts as a person's edit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vademecum.errors import Malformed, Refused
from vademecum.sync import facts as fact_rules
from vademecum.sync import purge_facts
from vademecum.sync.diff import FactWriter, diff, find_copies, find_leftovers, find_unknown, identify
from vademecum.sync.projection import (
    TYPED,
    FactSet,
    ShownFile,
    Signing,
    find_notices,
    hidden,
    path_of,
    project,
)
from vademecum.sync.stream_window import NO_DIGESTS, Remembered, StreamWindow, Tail
from vademecum.sync.workspace_key import find_covered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from vademecum.sync.facts import FactId, SyncFact
    from vademecum.sync.projection import FileNotice
    from vademecum.sync.stream_window import Logged, OwnFacts
    from vademecum.sync.workspace_key import StreamEnds

TRIES = 5  # to send facts while others purge texts that these are based on
PENDING = "an agent may not change this; a person has to sync it"
FEWEST, SHARE = 20, 0.2  # documents, and share of all documents, that a sync removes without asking


class MassDeletion(Refused):
    """So many documents are missing that a person must confirm their removal everywhere."""

    hint = "`vade sync --accept-deletions` deletes them everywhere, `vade sync --restore` restores them"


class Forked(Refused):
    """Another home uses the same replica name, since this home was copied or restored from a backup."""


class PurgedMeanwhile(Refused):
    """A fact to send replaces a fact that others have purged since the last pull."""


class FactsRefused(Refused):
    """The hub has refused some facts; they are withdrawn, and their texts stay in the files."""

    def __init__(self, why: str, facts: Collection[SyncFact]) -> None:
        super().__init__(why)
        self.facts = facts


class Withheld(NamedTuple):
    """A change of a file that the hub has refused."""

    digest: str  # of the file's text; empty when the file is gone
    why: str
    doc: str = ""
    known: int = 0  # number of known facts of the document; later facts may change the hub's answer


class SyncLog(Protocol):
    """The log of a stream, as a sync uses it; appended facts are on disk before the call returns."""

    replica: str

    def read(self) -> Sequence[Logged]:
        """Return all facts of the log in the order in which they arrived."""

    def append(self, facts: Iterable[SyncFact], *, own: bool) -> None:
        """Append facts to the log, as `own` if this home made them."""

    def applied(self) -> int:
        """Return the number of the log's lines that the files show; own facts always count as shown."""

    def applying(self) -> Collection[str]:
        """Return the paths of the files that an interrupted sync was writing."""

    def begin(self, paths: Iterable[str]) -> None:
        """Note which files are about to be written."""

    def finish(self, applied: int, left: Collection[str] = ()) -> None:
        """Note how many lines of the log the files show; the files in `left` do not show them yet."""

    def remembered(self) -> Remembered | None:
        """Return the last sync's cache; None if there is no cache that fits the beginning of the log."""

    def remember(self, cache: Remembered) -> None:
        """Save the cache that this sync leaves for the next sync."""

    def aside(self) -> Iterable[SyncFact]:
        """Return the facts of replaced logs."""

    def blank(self, fact_ids: Collection[FactId]) -> None:
        """Delete the content of these facts from every copy of the log."""

    def withdraw(self, fact_ids: Collection[FactId]) -> None:
        """Replace these facts, which nobody else has received, by empty facts."""


class FileChange(NamedTuple):
    """A change of a file from one text to another text; None stands for a missing file."""

    path: str
    before: str | None
    after: str | None


class Files(Protocol):
    """The synced files of one place, as a sync uses them."""

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """Return a stamp of each file by path, empty for a file that was changed just now."""

    def read(
        self, paths: Collection[str] | None = None, digests: Mapping[str, str] = NO_DIGESTS
    ) -> dict[str, str]:
        """Return the texts of files by path, without the files that cannot be synced.

        A text whose digest is in `digests` passed the checks before, so it is not checked again.
        """

    def held(self) -> Collection[str]:
        """Return the paths left out of this sync; their files count neither as changed nor as missing."""

    def hold(self, path: str, why: str) -> None:
        """Leave a file out of this sync, and report the reason."""

    def write(self, changes: Sequence[FileChange]) -> Collection[str]:
        """Write files and archive their earlier texts; return the paths that a person has saved meanwhile."""

    def archive(self, path: str, text: str) -> None:
        """Save a text that no file shows to the archive."""

    def archived_automatically(self, texts: Mapping[str, str]) -> Collection[str]:
        """Return the paths of those missing files that memory itself archived with exactly this text."""

    def keep_replaced(self, earlier: str, change: FileChange) -> None:
        """Archive the text that a sync wrote to a file if it was replaced since and nothing else kept it.

        `earlier` is the path of the file when the sync wrote it.
        """

    def purge(self, removed: purge_facts.Removed) -> None:
        """Delete purged content from the files, the archive and everything derived from them."""

    def set_aside(self, name: str, path: str, text: str) -> None:
        """Save a text until a person decides whether to keep it."""


class Transport(Protocol):
    """The place through which replicas exchange their facts, such as a hub or a shared folder."""

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterable[SyncFact]:
        """Yield unknown facts, in order for each replica; `known` has the number of known facts of each."""

    def push(self, stream: str, facts: OwnFacts) -> None:
        """Send this home's facts in order; facts that have arrived before stay as they are."""


@dataclass(slots=True)
class Synced:
    """The counts, files and notices that a sync returns."""

    sent: int = 0
    received: int = 0
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)  # edited texts that others removed meanwhile
    refused: list[str] = field(default_factory=list)
    purged: int = 0  # number of purged facts
    held: list[str] = field(default_factory=list)  # texts that are newer than a purge
    notices: list[FileNotice] = field(default_factory=list)
    withheld: dict[str, Withheld] = field(default_factory=dict)  # refused changes by path
    unsaid: dict[str, str] = field(default_factory=dict)  # refused verifications and purges by path


@dataclass(slots=True)
class SyncStream:
    """One stream of a home, with everything that its sync needs."""

    name: str
    log: SyncLog
    files: Files
    transport: Transport
    signing: Signing = TYPED
    ends: StreamEnds = field(default_factory=dict)  # facts accepted before the key was changed
    accept: Callable[[SyncFact], bool] = lambda fact: True  # whether a received fact is accepted
    make: Callable[[SyncFact], SyncFact] = lambda fact: fact  # changes each own fact, such as to seal it
    moved: Callable[[ShownFile], str] = lambda file: ""  # the stream to which a file was moved, if known
    also: Callable[[FactWriter], None] = lambda writer: None  # writes more facts after the diff
    allowed: Callable[[SyncFact, FactSet], bool] | None = None  # whether a fact may be sent; None allows all
    rules: str = ""  # the state that `signing` depends on; without one there is no cache
    may_purge: bool = True  # whether this home may purge further facts with the same text
    acks: bool = False  # whether carried out purges are acknowledged by facts
    doubts: list[purge_facts.Doubt] = field(default_factory=list)  # doubtful texts of this sync
    replaced: list[tuple[str, FileChange]] = field(default_factory=list)  # own changes, by earlier path
    withheld: Mapping[str, Withheld] = field(default_factory=dict)  # refused changes of earlier syncs

    def sync(self, *, deletions: bool | None = None) -> Synced:
        """Sync the files of this stream with the facts of all replicas, and return what was done.

        `deletions` says whether to remove many missing documents everywhere (True) or to restore them
        (False); None raises MassDeletion in this case.
        """
        done = Synced()
        if not self.log.applied() and (files := self.files.read()):
            # A new home, or one without its log or state: others' facts decide which texts are new.
            self.log.begin({*files, *self.log.applying()})
            self._pull(Tail(self.log.read(), Remembered()), done)
        window = self._read_changes(done, deletions=deletions)
        for _ in range(TRIES):
            self._pull(window.tail, done)
            window = purge_facts.carry_out(self, window, done)
            try:
                window = self._push(window, done)
            except PurgedMeanwhile:
                continue
            break
        self._write_files(window, done)
        return done

    # ------------------------------------------------------------ steps

    def _push(self, window: StreamWindow, done: Synced) -> StreamWindow:
        """Send own facts; after a refusal, withdraw the refused facts and send the others again."""
        while True:
            try:
                self.transport.push(self.name, window.tail.own_facts())
            except FactsRefused as refused:
                window = self._withdraw(window, refused, done)
            else:
                return window

    def _withdraw(self, window: StreamWindow, refused: FactsRefused, done: Synced) -> StreamWindow:
        """Withdraw refused facts, and return a new window.

        The files with the refused texts stay as they are, and this sync leaves them out.
        """
        window.widen(self.signing)  # an unsent fact of an earlier sync may be about a file outside the window
        paths = {fact.doc: path_of(window.every, fact.doc) for fact in refused.facts}
        for fact in refused.facts:
            path = paths[fact.doc] or fact.doc
            if fact.kind in ("vouch", fact_rules.PURGE):
                what = "verification" if fact.kind == "vouch" else "purge"
                done.unsaid[path] = f"your {what} stays on this machine: {refused}"
            else:
                done.withheld[path] = Withheld(_digest(window.files.get(path)), str(refused), fact.doc)
        self.log.withdraw({fact.id for fact in refused.facts})
        done.sent = max(0, done.sent - len(refused.facts))
        files = {path: text for path, text in window.files.items() if path not in done.withheld}
        for path in set(paths.values()) & set(done.withheld):
            self.files.hold(path, done.withheld[path].why)
        fresh = window.renewed(self.log.read(), self.log.applied(), files)
        for path, each in done.withheld.items():
            done.withheld[path] = each._replace(known=_count_known(fresh.every, each.doc))
        return fresh

    def _hold_refused(self, window: StreamWindow) -> None:
        """Leave out files that the hub refused before, as long as nothing about them has changed."""
        for path, each in self.withheld.items():
            same = (_digest(window.files.get(path)), _count_known(window.every, each.doc))
            if path in self.files.held() or same != (each.digest, each.known):
                continue
            self.files.hold(path, each.why)
            window.files.pop(path, None)

    def _read_cache(self) -> Remembered:
        """Return the cache of the last sync; an empty cache if there are new purges or other rules."""
        cache = self.log.remembered()
        if cache is None or (self.signing is not TYPED and not self.rules) or cache.rules != self.rules:
            return Remembered()
        purged = any(each.fact.kind == fact_rules.PURGE for each in self.log.read()[cache.lines :])
        return cache if cache.lines <= self.log.applied() and not purged else Remembered()

    def _open_window(self, cache: Remembered) -> StreamWindow:
        """Return a window with the changed files, the new facts, and all connected files and facts."""
        window = StreamWindow(Tail(self.log.read(), cache), self.files.stamps(), self.log.applied())
        window.open(self.files.read, self.log.applying())
        self._hold_refused(window)
        return window

    def _read_changes(self, done: Synced, *, deletions: bool | None) -> StreamWindow:
        """Make facts from the changes in files, and return a window with the files as they were read.

        Files that an interrupted sync was writing may or may not have its text. `deletions` has the same
        meaning as in `sync`.
        """
        window, unsure = self._open_window(self._read_cache()), set(self.log.applying())
        base = project(window.seen, self.signing)
        if not self.log.applied():  # no fact is known to have been in a file
            unsure |= set(base)
        gone = self._find_missing(base, window.files, {*unsure, *self.files.held()})
        known = len(base) + len(window.outside)
        most = max(FEWEST, SHARE * known)
        if len(gone) > most:  # what memory itself archived, as everybody has it, is in no doubt
            moved = self.files.archived_automatically({path: base[path].text for path in gone})
            gone = [path for path in gone if path not in moved]
        if len(gone) > most:
            if deletions is None:
                raise MassDeletion(f"{len(gone)} of {known} documents of {self.name} are gone")
            if not deletions:
                unsure |= set(gone)
                window = self._open_window(Remembered())
                base = project(window.seen, self.signing)
        if self.allowed is not None:
            base = self._hold_forbidden(window, base, unsure)
        writer = self._make_writer(window)
        self._diff_window(writer, window, base, unsure)
        self.doubts += [self._make_doubt(writer, window.files, *each) for each in writer.doubts]
        self.also(writer)
        for earlier, change in self.replaced:  # before the facts tell that the files show other texts
            self.files.keep_replaced(earlier, change)
        self.replaced.clear()
        self._append(writer, done)
        window.take(self.signing)
        return window

    def _hold_forbidden(
        self, window: StreamWindow, base: Mapping[str, ShownFile], unsure: Collection[str]
    ) -> dict[str, ShownFile]:
        """Leave out and report the files whose changes this home may not send.

        Return the other shown files by path.
        """
        given, moved = identify(base, window.files)
        left = dict(base)
        latest = project(window.every, self.signing) if unsure else {}
        for path in sorted({*base, *window.files}):
            text = window.files.get(path)
            renamed = path in moved.values() and path not in moved
            base_file = None if renamed else base.get(moved.get(path, path))
            if (renamed and text is None) or (base_file is not None and base_file.text == text):
                continue
            trial, known = self._make_writer(window), path in unsure and path in latest
            trial.seen = FactSet((window.every if known else window.seen).facts.values())
            if known:
                own = find_unknown(trial, latest, {path: text} if text is not None else {}).get(path, "")
                diff(trial, latest[path], path, text, doc=own, uncertain=True, older=base_file)
            else:
                diff(trial, base_file, path, text, doc=given.get(path, ""))
            if not all(self.allowed(fact, trial.seen) for fact in trial.made if self.allowed):
                for each in {path, moved.get(path, path)}:
                    self.files.hold(each, PENDING)
                    window.files.pop(each, None)
                    left.pop(each, None)
        return left

    def _diff_window(
        self, writer: FactWriter, window: StreamWindow, base: Mapping[str, ShownFile], unsure: set[str]
    ) -> None:
        files, held_paths = window.files, self.files.held()
        # A renamed file is as uncertain as under its earlier path.
        latest = project(window.every, self.signing) if unsure else {}
        moved = {**identify(base, files)[1], **identify(latest, files)[1]} if unsure else {}
        unsure |= {path for path, home in moved.items() if home in unsure}
        sure = {path: file for path, file in base.items() if path not in unsure and path not in held_paths}
        plain = {path: text for path, text in files.items() if path not in unsure}
        written = {doc for path in unsure & set(files) if path in latest for doc in latest[path].docs}
        self._diff_files(writer, sure, plain, elsewhere=written)
        if unsure:
            for fact in writer.made:
                window.every.add(fact)
            writer.seen = window.every
            # The file may have been renamed: compare it with all documents without a file.
            current = project(window.every, self.signing)
            latest = {path: file for path, file in current.items() if path in unsure or path not in files}
            left = {path: text for path, text in files.items() if path in unsure}
            others = {doc for path, file in current.items() if path not in latest for doc in file.docs}
            older = {path: base.get(path) for path in unsure}
            self._diff_files(writer, latest, left, older=older, elsewhere=others)

    def _make_doubt(
        self, writer: FactWriter, files: Mapping[str, str], doc: str, target: str, raw: str
    ) -> purge_facts.Doubt:
        named = path_of(writer.seen, doc)
        path = named or next((path for path, text in files.items() if raw in text), "")
        return purge_facts.Doubt(path, target, raw, whole=not named)

    def _find_missing(
        self, base: Mapping[str, ShownFile], files: Mapping[str, str], but: Collection[str]
    ) -> list[str]:
        """Return the paths of shown files that are missing, except renamed files and the paths in `but`."""
        moved = identify(base, files)[1].values()
        return [path for path in base if path not in files and path not in but and path not in moved]

    def _diff_files(
        self,
        writer: FactWriter,
        base: Mapping[str, ShownFile],
        files: Mapping[str, str],
        *,
        older: Mapping[str, ShownFile | None] | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        unsure = older is not None
        unknown = find_unknown(writer, base, files) if unsure else {}
        copies = find_copies(writer, base, files) if unsure else ()
        given, moved = identify(base, files, elsewhere, unknown, copies)
        if unsure and self.log.applied():  # in a new home every file is uncertain and may be a copy
            given |= find_leftovers(base, files, self.log.applying())
        for path in sorted({*base, *files}):
            renamed = path in moved.values() and path not in moved
            if renamed and path not in files:
                continue  # it was renamed
            text = files.get(path)
            base_file = None if renamed else base.get(moved.get(path, path))
            if path in moved and path in base:  # another file was renamed to this path
                diff(writer, base[path], path, None, uncertain=unsure)
                self._note_replaced(base[path], path, None, unsure=unsure)
            before = older.get(path) if older is not None else None
            diff(writer, base_file, path, text, doc=given.get(path, ""), uncertain=unsure, older=before)
            self._note_replaced(base_file, path, text, unsure=unsure)

    def _note_replaced(self, base: ShownFile | None, path: str, text: str | None, *, unsure: bool) -> None:
        """Note a file that does not show the text any more that the last sync left in it."""
        if base is not None and base.text != text and not unsure:
            self.replaced.append((base.path, FileChange(path, base.text, text)))

    def _make_writer(self, window: StreamWindow) -> FactWriter:
        last = window.tail.last().get(self.log.replica)
        seen, largest = window.seen, window.tail.largest
        made = FactWriter(
            self.name, self.log.replica, seen, last, largest, signing=self.signing, make=self.make
        )
        made.moved = self.moved
        later = window.tail.logged[self.log.applied() :]
        made.new_ids = {each.fact.id for each in later if each.own}
        return made

    def _append(self, writer: FactWriter, done: Synced) -> None:
        if writer.made:
            self.log.append(writer.made, own=True)
        done.sent += len(writer.made)
        writer.made.clear()

    def _pull(self, tail: Tail, done: Synced) -> None:
        """Receive others' facts, and append those facts to the log that pass all checks.

        A fact must be accepted, follow on the last known fact of its replica, and replace known facts only.
        """
        known: dict[FactId, SyncFact] = {}
        last = tail.last()
        waiting: dict[str, list[SyncFact]] = {}
        for fact in self.transport.pull(self.name, {replica: fact.n for replica, fact in last.items()}):
            waiting.setdefault(fact.replica, []).append(fact)
        covered = find_covered(waiting.values(), last, self.ends)

        def accept(fact: SyncFact) -> bool:
            return fact.id in covered or self.accept(fact)

        named = self._named_by_purges([fact for each in waiting.values() for fact in each], accept)
        new_facts: list[SyncFact] = []
        stuck: dict[str, str] = {}
        while True:
            count = len(new_facts)
            for replica in sorted(waiting):
                while waiting[replica]:
                    first = waiting[replica][0]
                    wrong_seal = (
                        "" if accept(first) else self._describe_wrong_seal(first, waiting[replica][-1])
                    )
                    why = self._refusal_of(first, last.get(replica), wrong_seal) or self._check(
                        first, known, tail
                    )
                    if first.purged and named.isdisjoint({first.id, *first.based_on}):
                        why = why or "it is empty, and no purge says so"
                    if why:
                        stuck[replica] = why
                        break
                    fact = waiting[replica].pop(0)
                    stuck.pop(replica, None)
                    known[fact.id] = last[replica] = fact
                    new_facts.append(fact)
            if len(new_facts) == count:
                break
        if new_facts:
            self.log.append(new_facts, own=False)
        done.received += len(new_facts)
        done.refused = [f"{replica}: {why}" for replica, why in sorted(stuck.items())]

    def _named_by_purges(self, given: Sequence[SyncFact], accept: Callable[[SyncFact], bool]) -> set[FactId]:
        """Return the ids of those empty facts that a purge names, or that replace no other fact.

        The seal of an empty fact covers only its hash. Without this check a transport could empty a fact and
        let it replace any other fact.
        """
        empty = [fact for fact in given if fact.purged]
        harmless = {fact.id for fact in empty if not fact.based_on}
        if len(harmless) == len(empty):
            return harmless
        known = (each.fact for each in self.log.read())
        orders = [fact for fact in (*known, *filter(accept, given)) if fact.kind == fact_rules.PURGE]
        return harmless | FactSet(orders).purged

    def _refusal_of(self, fact: SyncFact, last: SyncFact | None, wrong_seal: str) -> str:
        if fact.stream != self.name or not fact_rules.follows(fact, last):
            return "its facts do not follow on each other"
        return wrong_seal

    def _check(self, fact: SyncFact, known: Mapping[FactId, SyncFact], tail: Tail) -> str:
        """Return why a fact may not replace the facts that it names; an empty text if it may."""
        try:
            fact_rules.check(fact, lambda fact_id: known.get(fact_id) or tail.find(fact_id, fact.doc))
        except Malformed as error:
            return str(error)
        return ""

    def _describe_wrong_seal(self, fact: SyncFact, newest: SyncFact) -> str:
        """Return why a fact is refused whose seal was not made with this key."""
        if newest.n < self.ends.get(fact.replica, (0, ""))[0]:
            return "not all of its changes have arrived yet"
        return "it has another key" if fact.seal else "its changes have no seal"

    def _write_files(self, window: StreamWindow, done: Synced) -> None:
        """Write the files that all facts make, unless a person has saved a file since it was read."""
        window.take(self.signing)
        files, lines, applied = window.files, window.tail.lines, self.log.applied()
        target, held_paths = project(window.every, self.signing), self.files.held()
        texts = {path: file.text for path, file in target.items()}
        changed = [
            path
            for path in sorted({*files, *texts})
            if path not in held_paths and files.get(path) != texts.get(path)
        ]
        self._archive(window.every, window.seen, done)
        done.notices = find_notices(window.seen, window.every, target, changed)
        if changed:
            self.log.begin({*changed, *self.log.applying()})
        left = [
            *self._replace_files(
                [FileChange(path, files.get(path), texts.get(path)) for path in changed], done
            ),
            *self._find_unwritten(window, texts),
        ]
        if changed or applied < lines or self.log.applying():
            self.log.finish(lines, left)
        cache = window.remember(target, left, self.rules)
        done.conflicts = sorted(path for path, each in cache.files.items() if each.conflict)
        if cache != window.cache and (self.signing is TYPED or self.rules):
            self.log.remember(cache)

    def _find_unwritten(self, window: StreamWindow, texts: Mapping[str, str]) -> list[str]:
        """Return the files that were left out of this sync and lack others' changes."""
        held_paths, applying = self.files.held(), self.log.applying()
        current = project(window.seen, self.signing) if held_paths else {}
        return [
            path
            for path in sorted(held_paths)
            if path in texts
            and (path in applying or path not in current or current[path].text != texts[path])
        ]

    def _replace_files(self, changes: Sequence[FileChange], done: Synced) -> Collection[str]:
        """Write files, and return the paths that a person saved meanwhile.

        Those files are left as they are, and the next sync reads them.
        """
        left = self.files.write(changes) if changes else ()
        for path, _, text in changes:
            if path not in left:
                (done.removed if text is None else done.written).append(path)
        return left

    def _archive(self, every: FactSet, seen: FactSet, done: Synced) -> None:
        """Save edited texts to the archive if others removed the texts at the same time."""
        if every is seen:
            return
        for doc in sorted(every.docs):
            if not doc:
                continue
            before = {each.id for each in hidden(seen, doc)} if doc in seen.docs else set()
            for each in hidden(every, doc):
                if each.id not in before:
                    path = path_of(every, doc)
                    self.files.archive(path, each.raw)
                    done.archived.append(path)


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _count_known(state: FactSet, doc: str) -> int:
    listed = (facts for kind in state.docs.get(doc, {}).values() for facts in kind.values())
    return sum(not fact_rules.is_withdrawn(fact) for facts in listed for fact in facts)
