"""The part of a stream that a sync has to look at: what changed since the last one, and what hangs on it.

`Remembered` is what the last sync left: which file shows which documents, and where in the log their facts
stand. It is a cache. It counts only with a log that begins with the very bytes it was made from, and a file
counts as unchanged only by a stamp that no later change can have; without it, or where anything is uncertain,
the window is the whole stream and the answer is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from vademecum.sync import blocks
from vademecum.sync import facts as fact_rules
from vademecum.sync.project import FactSet, Shows, Signing, folded_path, path_of, project, read_front

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from vademecum.sync.facts import Dot, SyncFact

_FACT = b'"fact": '
_HEADS = (b'{"own": false, ', b'{"own": true, ')  # of a line, as this version writes it


class Logged(NamedTuple):
    """A fact in this home's log, and whether it was made here and so stands in the files."""

    fact: SyncFact
    own: bool


class LogLines(Sequence[Logged]):
    """The facts of a log, each read from its line when somebody asks for it."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._read: list[Logged | None] = []
        self.proven = 0  # so many were read before, byte for byte

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, at: int) -> Logged: ...

    @overload
    def __getitem__(self, at: slice) -> list[Logged]: ...

    def __getitem__(self, at: int | slice) -> Logged | list[Logged]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        known = self._read[at]
        if known is None:
            known = self._read[at] = self._parse(self._lines[at], proven=0 <= at < self.proven)
        return known

    def add(self, line: bytes, known: Logged | None = None) -> None:
        """Add a line, and what it says if that is known."""
        self._lines.append(line)
        self._read.append(known)

    def clear(self) -> None:
        """Take all lines out."""
        self._lines.clear()
        self._read.clear()
        self.proven = 0

    def holding(self, wanted: bytes) -> list[int]:
        """The lines with some bytes anywhere in them."""
        return [at for at, line in enumerate(self._lines) if wanted in line]

    def fact(self, at: int) -> bytes:
        """A fact as it was rendered."""
        line = self._lines[at]
        return line[line.index(_FACT) + len(_FACT) : -1]

    def _parse(self, line: bytes, *, proven: bool) -> Logged:
        first = line.index(_FACT)
        head = line[:first]
        own = json.loads(head + b'"fact": null}')["own"] is True if head not in _HEADS else head == _HEADS[1]
        fact = line[first + len(_FACT) : -1]
        return Logged(fact_rules.read_known(fact) if proven else fact_rules.parse(fact), own)


def render_line(fact: SyncFact, *, own: bool) -> bytes:
    """A fact as a line of a log."""
    return _HEADS[own] + _FACT + fact_rules.render(fact) + b"}"


class ShownFile(NamedTuple):
    """What is remembered of a file: what it shows, and its stamp if it was seen to show just that."""

    docs: tuple[str, ...]
    id: str
    conflict: bool  # whether an entry that was not replaced since has two versions: a person decides
    digest: str  # of its text
    stamp: tuple[int, ...]


# Reads files by their paths; of those with a digest it may be known that they show nothing but that.
TextReader: TypeAlias = "Callable[[Collection[str], Mapping[str, str]], dict[str, str]]"
NO_DIGESTS: Mapping[str, str] = MappingProxyType({})
Runs = list[list[int]]  # places in a log, as [first, behind the last]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a sync left for the next one."""

    lines: int = 0  # of the log: all that it says is of these
    rules: str = ""  # what it depends on beside facts and files
    largest: int = 0
    files: dict[str, ShownFile] = field(default_factory=dict)
    docs: dict[str, list[int]] = field(default_factory=dict)  # where the facts of each document stand
    ends: dict[str, int] = field(default_factory=dict)  # where the last fact of each replica stands
    own: dict[str, Runs] = field(default_factory=dict)  # where those stand that were made here

    def render(self) -> dict[str, Any]:
        """It as plain values."""
        return {name: getattr(self, name) for name in Remembered.__slots__}

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Remembered:
        """It from plain values; TypeError, ValueError or KeyError when they are none of it."""
        files = {
            path: ShownFile(tuple(docs), id_, conflict is True, digest, tuple(stamp))
            for path, (docs, id_, conflict, digest, stamp) in given["files"].items()
        }
        return cls(**{**{name: given[name] for name in cls.__slots__}, "files": files})


class OwnFacts(Sequence["SyncFact"]):
    """The facts that were made here, in their order; read when somebody asks for them."""

    def __init__(self, logged: Sequence[Logged], own: Mapping[str, Runs]) -> None:
        self._logged = logged
        self.places = {
            replica: [at for first, behind in runs for at in range(first, behind)]
            for replica, runs in own.items()
        }
        self._every = sorted(at for places in self.places.values() for at in places)

    def __len__(self) -> int:
        return len(self._every)

    @overload
    def __getitem__(self, at: int) -> SyncFact: ...

    @overload
    def __getitem__(self, at: slice) -> list[SyncFact]: ...

    def __getitem__(self, at: int | slice) -> SyncFact | list[SyncFact]:
        if isinstance(at, slice):
            return [self._logged[each].fact for each in self._every[at]]
        return self._logged[self._every[at]].fact

    def since(self, seen: Mapping[str, int]) -> list[SyncFact]:
        """Those that come after the first so many of each replica."""
        left = sorted(at for replica, places in self.places.items() for at in places[seen.get(replica, 0) :])
        return [self._logged[at].fact for at in left]

    def rendered(self, replica: str, first: int, behind: int) -> list[bytes]:
        """Facts of one replica as their lines."""
        listed = self.places[replica][first:behind]
        if isinstance(self._logged, LogLines):
            return [self._logged.fact(at) for at in listed]
        return [fact_rules.render(self._logged[at].fact) for at in listed]


def facts_since(facts: Iterable[SyncFact], seen: Mapping[str, int]) -> list[SyncFact]:
    """Of facts of this home those that come after the first so many of each replica."""
    if isinstance(facts, OwnFacts):
        return facts.since(seen)
    return [each for each in facts if each.n > seen.get(each.replica, 0)]


class Tail:
    """What a log says as a whole, from what is remembered of its beginning and the lines after that."""

    def __init__(self, logged: Sequence[Logged], kept: Remembered) -> None:
        self.logged, self.kept = logged, kept
        self.largest, self.ends = kept.largest, dict(kept.ends)
        self.own = {replica: [list(run) for run in runs] for replica, runs in kept.own.items()}
        self.docs: dict[str, list[int]] = {}
        self.lines = kept.lines
        self._by_doc: dict[str, dict[Dot, SyncFact]] = {}
        self._every: dict[Dot, SyncFact] | None = None
        self.take()

    def take(self) -> list[Logged]:
        """Read the lines that came since."""
        new = []
        for at in range(self.lines, len(self.logged)):
            fact, own = each = self.logged[at]
            self.docs.setdefault(fact.doc, []).append(at)
            self.ends[fact.replica] = at
            self.largest = max(self.largest, fact.lam)
            self._by_doc.setdefault(fact.doc, {})[fact.dot] = fact
            if own:
                runs = self.own.setdefault(fact.replica, [])
                if runs and runs[-1][1] == at:
                    runs[-1][1] += 1
                else:
                    runs.append([at, at + 1])
            new.append(each)
        self.lines = len(self.logged)
        return new

    def last(self) -> dict[str, SyncFact]:
        """The last fact of each replica."""
        return {replica: self.logged[at].fact for replica, at in self.ends.items()}

    def find(self, dot: Dot, doc: str) -> SyncFact | None:
        """A fact by its name; it is looked for in its document first."""
        known = self._by_doc.setdefault(doc, {})
        if dot not in known:
            known |= {each.fact.dot: each.fact for each in self.of(doc)}
        if dot in known:
            return known[dot]
        if self._every is None:
            self._every = {each.fact.dot: each.fact for each in self.logged}
        return self._every.get(dot)

    def of(self, doc: str) -> Iterator[Logged]:
        """The remembered facts of a document."""
        return (self.logged[at] for at in self.kept.docs.get(doc, ()))

    def own_facts(self) -> OwnFacts:
        """The facts that were made here."""
        return OwnFacts(self.logged, self.own)


class StreamWindow:
    """The documents and files that one sync looks at, closed under what one has to do with another.

    Two documents belong together that have one name; two files that have one id, or of which one says the id
    that the other is known by. What is outside neither changes nor is changed.
    """

    def __init__(self, tail: Tail, stamps: Mapping[str, tuple[int, ...]], applied: int) -> None:
        self.tail, self.kept, self.stamps = tail, tail.kept, stamps
        self.seen = self.every = FactSet()  # two sets from the first fact on that no file shows yet
        self.files: dict[str, str] = {}
        self.docs: set[str] = set()
        self.paths: set[str] = set()
        self.same: set[str] = set()  # files that were written anew with the very text that was shown
        self._read: TextReader = lambda paths, shown: {}
        self._names = {folded_path(path): path for path in self.kept.files}
        self._homes = {doc: path for path, each in self.kept.files.items() for doc in each.docs}
        self._ids: dict[str, list[str]] = {}
        for path, each in self.kept.files.items():
            self._ids.setdefault(each.id, []).append(path)
        self._load({"", *tail.docs})
        for at in range(self.kept.lines, tail.lines):
            fact, own = tail.logged[at]
            self._add(fact, seen=own or at < applied)
        self._reach({"", *tail.docs}, ())

    @property
    def outside(self) -> list[ShownFile]:
        """The files that are not looked at."""
        return [each for path, each in self.kept.files.items() if path not in self.paths]

    def open(self, read: TextReader, unsure: Collection[str] = ()) -> None:
        """Read the files that changed or are `unsure`, and those that have to do with them."""
        files, self._read = self.kept.files, read
        self._reach((), {*unsure, *(path for path in files if path not in self.stamps)})
        changed = {
            path
            for path, stamp in self.stamps.items()
            if not stamp or path not in files or files[path].stamp != stamp
        }
        found = read(changed, NO_DIGESTS)
        self.same = {
            path for path, text in found.items() if path in files and files[path].digest == digest_text(text)
        }
        self._reach((), changed - self.same)
        done: set[str] = set()
        while waiting := {path for path in self.paths if path in self.stamps} - done:
            found |= read(waiting - changed, NO_DIGESTS)
            new = {path: found[path] for path in waiting if path in found}
            self.files |= new
            done |= waiting
            if not self.kept.lines:
                return  # all are looked at
            ids = {path: read_front(text).get("id") for path, text in new.items()}
            docs = {blocks.document_id(path, id_) for path, id_ in ids.items()}
            named = {str(id_) for id_ in ids.values() if id_}
            self._reach(docs | named, [path for id_ in named for path in self._ids.get(id_, ())])

    def take(self, signing: Signing) -> None:
        """Take in the lines that came since, with the files that they concern, as they were shown before."""
        new = self.tail.take()
        if any(fact.kind == fact_rules.PURGE for fact, _ in new):  # it may concern any of them
            self.widen(signing)
        docs = {fact.doc for fact, _ in new}
        self._load(docs)
        for fact, own in new:
            self._add(fact, seen=own)
        self._show(self._reach(docs, ()), signing)

    def widen(self, signing: Signing) -> None:
        """Look at the whole stream."""
        self._show(self._reach(self.kept.docs, self.kept.files), signing)

    def renewed(self, logged: Sequence[Logged], applied: int, files: dict[str, str]) -> StreamWindow:
        """The whole stream once more, after its log was written anew and its files were changed to these."""
        fresh = StreamWindow(Tail(logged, Remembered()), self.stamps, applied)
        fresh.files, fresh.paths = files, {*self.stamps, *files}
        return fresh

    def _show(self, came: Collection[str], signing: Signing) -> None:
        """Files that were not looked at are as they were shown, whatever somebody saves now."""
        there = {path for path in came if path in self.stamps and path in self.kept.files}
        shown = {path: self.kept.files[path].digest for path in there}
        found = self._read(there, shown) if there else {}
        same = {path for path, text in found.items() if shown[path] == digest_text(text)}
        self.files |= {path: found[path] for path in same}
        left = there - same
        if left:
            docs = [doc for path in left for doc in self.kept.files[path].docs]
            before = project(self.seen, signing, docs)
            self.files |= {path: before[path].text for path in left if path in before}

    def _reach(self, docs: Collection[str], paths: Collection[str]) -> set[str]:
        """Widen the window to documents and paths, and to all that these have to do with."""
        before = set(self.paths)
        more, ways = set(docs) - self.docs, set(paths) - self.paths
        while more or ways:
            self.docs |= more
            self.paths |= ways
            near = self._load(more)
            for path in ways:
                near |= {self._names.get(folded_path(path), path), *self._alike(path)}
            known = (self.kept.files[path].docs for path in ways if path in self.kept.files)
            more = {doc for each in known for doc in each} - self.docs
            ways = near - self.paths
        return self.paths - before

    def _load(self, docs: Collection[str]) -> set[str]:
        """Add the remembered facts of documents, and return the names that their files have or had."""
        for doc in docs:
            for fact, _ in self.tail.of(doc):
                self._add(fact, seen=True)
        if not self.kept.lines:
            return set()
        known = {self._homes.get(doc, "") for doc in docs}
        states = (self.every,) if self.every is self.seen else (self.seen, self.every)
        return known | {path_of(state, doc) for doc in docs if doc for state in states}

    def _add(self, fact: SyncFact, *, seen: bool) -> None:
        if not seen and self.every is self.seen:
            self.every = self.seen.fork()
        self.every.add(fact)
        if seen and self.every is not self.seen:
            self.seen.add(fact)

    def _alike(self, path: str) -> list[str]:
        """The files that had the same id."""
        known = self.kept.files.get(path)
        return self._ids.get(known.id, []) if known is not None and known.id else []

    def remember(self, target: Mapping[str, Shows], left: Collection[str], rules: str) -> Remembered:
        """What the next sync may know of the files, after this one showed `target`."""
        files = {path: each for path, each in self.kept.files.items() if path not in self.paths}
        files |= {path: files[path]._replace(stamp=self.stamps[path]) for path in self.same - self.paths}
        for path, shows in target.items():
            same = path not in left and self.files.get(path) == shows.text
            files[path] = ShownFile(
                shows.docs,
                str(shows.values.get("id") or ""),
                any(
                    block.conflict and not blocks.parts(block.raw).get("superseded") for block in shows.blocks
                ),
                digest_text(shows.text),
                self.stamps.get(path, ()) if same else (),
            )
        docs = dict(self.kept.docs)
        for doc, places in self.tail.docs.items():
            docs[doc] = [*docs.get(doc, ()), *places]
        tail = self.tail
        return replace(Remembered(tail.lines, rules, tail.largest, files, docs), ends=tail.ends, own=tail.own)


def digest_text(text: str) -> str:
    """What stands for a text that a file shows."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
