"""The part of a stream that a sync reads: changes since the last sync, and everything connected.

`Remembered` is a cache of the last sync: which file shows which documents, and where in the log their facts
are. The cache counts only for a log that begins with the same bytes. A file counts as unchanged only by a
stamp that no later change can have. Without the cache the window is the whole stream, with the same result.
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
from vademecum.sync.projection import FactSet, ShownFile, Signing, fold_path, path_of, project, read_front

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from vademecum.sync.facts import FactId, SyncFact

_FACT = b'"fact": '
_HEADS = (b'{"own": false, ', b'{"own": true, ')  # the beginnings of lines, as this version writes them


class Logged(NamedTuple):
    """A fact in this home's log, and whether this home has made it."""

    fact: SyncFact
    own: bool


class LogLines(Sequence[Logged]):
    """The facts in the lines of a log, each parsed when it is first used."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._read: list[Logged | None] = []
        self.proven = 0  # number of lines that were parsed before, byte for byte

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
        """Add a line of the log, with its parsed fact if that is known already."""
        self._lines.append(line)
        self._read.append(known)

    def clear(self) -> None:
        """Remove all lines."""
        self._lines.clear()
        self._read.clear()
        self.proven = 0

    def holding(self, wanted: bytes) -> list[int]:
        """Return the numbers of the lines that contain these bytes."""
        return [at for at, line in enumerate(self._lines) if wanted in line]

    def fact(self, at: int) -> bytes:
        """Return the rendered fact in a line, without parsing it."""
        line = self._lines[at]
        return line[line.index(_FACT) + len(_FACT) : -1]

    def _parse(self, line: bytes, *, proven: bool) -> Logged:
        first = line.index(_FACT)
        head = line[:first]
        own = json.loads(head + b'"fact": null}')["own"] is True if head not in _HEADS else head == _HEADS[1]
        fact = line[first + len(_FACT) : -1]
        return Logged(fact_rules.read_known(fact) if proven else fact_rules.parse(fact), own)


def render_line(fact: SyncFact, *, own: bool) -> bytes:
    """Return a fact as a line of a log."""
    return _HEADS[own] + _FACT + fact_rules.render(fact) + b"}"


class RememberedFile(NamedTuple):
    """The state of a file after the last sync.

    The stamp is empty if the sync wrote the file, or if the file was changed just before.
    """

    docs: tuple[str, ...]
    id: str
    conflict: bool  # whether a current entry has conflicting versions
    digest: str  # of its text
    stamp: tuple[int, ...]


# Reads files by their paths; a text with the given digest needs no checks.
TextReader: TypeAlias = "Callable[[Collection[str], Mapping[str, str]], dict[str, str]]"
NO_DIGESTS: Mapping[str, str] = MappingProxyType({})
Runs = list[list[int]]  # ranges of lines as [first, end]


@dataclass(frozen=True, slots=True)
class Remembered:
    """The cache that a sync leaves for the next sync."""

    lines: int = 0  # number of lines of the log that the cache covers
    rules: str = ""  # the signing rules that the files depend on
    largest: int = 0
    files: dict[str, RememberedFile] = field(default_factory=dict)
    docs: dict[str, list[int]] = field(default_factory=dict)  # line numbers of the facts of each document
    ends: dict[str, int] = field(default_factory=dict)  # line number of the last fact of each replica
    own: dict[str, Runs] = field(default_factory=dict)  # lines of the facts made here, by replica

    def render(self) -> dict[str, Any]:
        """Return the cache as JSON data."""
        return {name: getattr(self, name) for name in Remembered.__slots__}

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Remembered:
        """Return the cache in JSON data; raise TypeError, ValueError or KeyError for other data."""
        files = {
            path: RememberedFile(tuple(docs), id_, conflict is True, digest, tuple(stamp))
            for path, (docs, id_, conflict, digest, stamp) in given["files"].items()
        }
        return cls(**{**{name: given[name] for name in cls.__slots__}, "files": files})


class OwnFacts(Sequence["SyncFact"]):
    """The facts that this home has made, in order, each parsed when it is first used."""

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
        """Return the facts after the first n facts of each replica; `seen` has n by replica."""
        left = sorted(at for replica, places in self.places.items() for at in places[seen.get(replica, 0) :])
        return [self._logged[at].fact for at in left]

    def rendered(self, replica: str, first: int, behind: int) -> list[bytes]:
        """Return the facts of one replica as rendered lines, from position `first` to before `behind`."""
        listed = self.places[replica][first:behind]
        if isinstance(self._logged, LogLines):
            return [self._logged.fact(at) for at in listed]
        return [fact_rules.render(self._logged[at].fact) for at in listed]


def facts_since(facts: Iterable[SyncFact], seen: Mapping[str, int]) -> list[SyncFact]:
    """Return the facts after the first n facts of each replica; `seen` has n by replica."""
    if isinstance(facts, OwnFacts):
        return facts.since(seen)
    return [each for each in facts if each.n > seen.get(each.replica, 0)]


class Tail:
    """An index of a log's facts: the cache covers its first lines, and `take` adds those after them."""

    def __init__(self, logged: Sequence[Logged], cache: Remembered) -> None:
        self.logged, self.cache = logged, cache
        self.largest, self.ends = cache.largest, dict(cache.ends)
        self.own = {replica: [list(run) for run in runs] for replica, runs in cache.own.items()}
        self.docs: dict[str, list[int]] = {}
        self.lines = cache.lines
        self._by_doc: dict[str, dict[FactId, SyncFact]] = {}
        self._every: dict[FactId, SyncFact] | None = None
        self.take()

    def take(self) -> list[Logged]:
        """Add the log's new lines to the index, and return their facts."""
        new = []
        for at in range(self.lines, len(self.logged)):
            fact, own = each = self.logged[at]
            self.docs.setdefault(fact.doc, []).append(at)
            self.ends[fact.replica] = at
            self.largest = max(self.largest, fact.lamport)
            self._by_doc.setdefault(fact.doc, {})[fact.id] = fact
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
        """Return the last fact of each replica."""
        return {replica: self.logged[at].fact for replica, at in self.ends.items()}

    def find(self, fact_id: FactId, doc: str) -> SyncFact | None:
        """Return the fact with this id, or None; the facts of `doc` are searched first."""
        known = self._by_doc.setdefault(doc, {})
        if fact_id not in known:
            known |= {each.fact.id: each.fact for each in self.of(doc)}
        if fact_id in known:
            return known[fact_id]
        if self._every is None:
            self._every = {each.fact.id: each.fact for each in self.logged}
        return self._every.get(fact_id)

    def of(self, doc: str) -> Iterator[Logged]:
        """Return those facts of a document that are in the cached part of the log."""
        return (self.logged[at] for at in self.cache.docs.get(doc, ()))

    def own_facts(self) -> OwnFacts:
        """Return the facts that this home has made."""
        return OwnFacts(self.logged, self.own)


class StreamWindow:
    """The documents and files that a sync reads, with all documents and files connected to them.

    Documents with the same path are connected, files with the same id, and a file and the document whose id
    it has. Documents and files outside the window neither change nor affect the window.
    """

    def __init__(self, tail: Tail, stamps: Mapping[str, tuple[int, ...]], applied: int) -> None:
        self.tail, self.cache, self.stamps = tail, tail.cache, stamps
        self.seen = self.every = FactSet()  # separate sets from the first fact on that no file shows
        self.files: dict[str, str] = {}
        self.docs: set[str] = set()
        self.paths: set[str] = set()
        self.same: set[str] = set()  # files that were saved with an unchanged text
        self._read: TextReader = lambda paths, digests: {}
        self._names = {fold_path(path): path for path in self.cache.files}
        self._homes = {doc: path for path, each in self.cache.files.items() for doc in each.docs}
        self._ids: dict[str, list[str]] = {}
        for path, each in self.cache.files.items():
            self._ids.setdefault(each.id, []).append(path)
        self._load_facts({"", *tail.docs})
        for at in range(self.cache.lines, tail.lines):
            fact, own = tail.logged[at]
            self._add(fact, seen=own or at < applied)
        self._widen_to({"", *tail.docs}, ())

    @property
    def outside(self) -> list[RememberedFile]:
        """The remembered files that are not in the window."""
        return [each for path, each in self.cache.files.items() if path not in self.paths]

    def open(self, read: TextReader, unsure: Collection[str] = ()) -> None:
        """Read the files that have changed or are `unsure`, and all files connected with them."""
        files, self._read = self.cache.files, read
        self._widen_to((), {*unsure, *(path for path in files if path not in self.stamps)})
        changed = {
            path
            for path, stamp in self.stamps.items()
            if not stamp or path not in files or files[path].stamp != stamp
        }
        found = read(changed, NO_DIGESTS)
        self.same = {
            path for path, text in found.items() if path in files and files[path].digest == digest_text(text)
        }
        self._widen_to((), changed - self.same)
        done: set[str] = set()
        while waiting := {path for path in self.paths if path in self.stamps} - done:
            found |= read(waiting - changed, NO_DIGESTS)
            new = {path: found[path] for path in waiting if path in found}
            self.files |= new
            done |= waiting
            if not self.cache.lines:
                return  # all are looked at
            ids = {path: read_front(text).get("id") for path, text in new.items()}
            docs = {blocks.document_id(path, id_) for path, id_ in ids.items()}
            named = {str(id_) for id_ in ids.values() if id_}
            self._widen_to(docs | named, [path for id_ in named for path in self._ids.get(id_, ())])

    def take(self, signing: Signing) -> None:
        """Add the log's new lines to the window, and the files that they affect with the texts last shown."""
        new = self.tail.take()
        if any(fact.kind == fact_rules.PURGE for fact, _ in new):  # a purge may affect every file
            self.widen(signing)
        docs = {fact.doc for fact, _ in new}
        self._load_facts(docs)
        for fact, own in new:
            self._add(fact, seen=own)
        self._add_files(self._widen_to(docs, ()), signing)

    def widen(self, signing: Signing) -> None:
        """Widen the window to all documents and files of the stream."""
        self._add_files(self._widen_to(self.cache.docs, self.cache.files), signing)

    def renewed(self, logged: Sequence[Logged], applied: int, files: dict[str, str]) -> StreamWindow:
        """Return a window over the whole stream, after the log was rewritten and the files were changed."""
        fresh = StreamWindow(Tail(logged, Remembered()), self.stamps, applied)
        fresh.files, fresh.paths = files, {*self.stamps, *files}
        return fresh

    def _add_files(self, came: Collection[str], signing: Signing) -> None:
        """Add files to the window with the texts last shown, even if a person has saved other texts since."""
        there = {path for path in came if path in self.stamps and path in self.cache.files}
        digests = {path: self.cache.files[path].digest for path in there}
        found = self._read(there, digests) if there else {}
        same = {path for path, text in found.items() if digests[path] == digest_text(text)}
        self.files |= {path: found[path] for path in same}
        left = there - same
        if left:
            docs = [doc for path in left for doc in self.cache.files[path].docs]
            before = project(self.seen, signing, docs)
            self.files |= {path: before[path].text for path in left if path in before}

    def _widen_to(self, docs: Collection[str], paths: Collection[str]) -> set[str]:
        """Widen the window to documents and paths, and to everything connected with them.

        Return the paths that are new in the window.
        """
        before = set(self.paths)
        more, ways = set(docs) - self.docs, set(paths) - self.paths
        while more or ways:
            self.docs |= more
            self.paths |= ways
            near = self._load_facts(more)
            for path in ways:
                near |= {self._names.get(fold_path(path), path), *self._find_same_id(path)}
            known = (self.cache.files[path].docs for path in ways if path in self.cache.files)
            more = {doc for each in known for doc in each} - self.docs
            ways = near - self.paths
        return self.paths - before

    def _load_facts(self, docs: Collection[str]) -> set[str]:
        """Add the cached facts of documents to the window.

        Return the current and earlier paths of their files.
        """
        for doc in docs:
            for fact, _ in self.tail.of(doc):
                self._add(fact, seen=True)
        if not self.cache.lines:
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

    def _find_same_id(self, path: str) -> list[str]:
        """Return the paths of the files that had the same id at the last sync."""
        known = self.cache.files.get(path)
        return self._ids.get(known.id, []) if known is not None and known.id else []

    def remember(self, target: Mapping[str, ShownFile], left: Collection[str], rules: str) -> Remembered:
        """Return the cache for the next sync, after this sync has written the files in `target`.

        The files in `left` were not written.
        """
        files = {path: each for path, each in self.cache.files.items() if path not in self.paths}
        files |= {path: files[path]._replace(stamp=self.stamps[path]) for path in self.same - self.paths}
        for path, file in target.items():
            same = path not in left and self.files.get(path) == file.text
            files[path] = RememberedFile(
                file.docs,
                str(file.values.get("id") or ""),
                any(
                    block.conflict and not blocks.parts(block.raw).get("superseded") for block in file.blocks
                ),
                digest_text(file.text),
                self.stamps.get(path, ()) if same else (),
            )
        docs = dict(self.cache.docs)
        for doc, places in self.tail.docs.items():
            docs[doc] = [*docs.get(doc, ()), *places]
        tail = self.tail
        return replace(Remembered(tail.lines, rules, tail.largest, files, docs), ends=tail.ends, own=tail.own)


def digest_text(text: str) -> str:
    """Return the digest by which a file's text is compared."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
