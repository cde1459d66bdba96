"""The contract of an index: what it holds, what may be seen, and the verbs every implementation answers to.

Knows values only. How rows are kept and found is the business of an implementation; how they are ranked is
that of `search`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vademecum.index.words import ENGLISH, SILENT, Speech
from vademecum.text import names

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from vademecum.index.reads import Reads
    from vademecum.store import Directory
    from vademecum.types import Place

MEMORY, JOURNAL, PINNED = "memory", "journal", "pinned"


class Stamp(NamedTuple):
    """What the system says of a file; while all of it stays the same, the file need not be read."""

    size: int
    mtime: int
    ctime: int
    inode: int


class IndexItem(NamedTuple):
    """One file on its way into the index."""

    id: str  # unique among all projects: the path from the home, or an absolute one
    path: str  # as shown, and accepted by `get`
    source: str  # memory, journal, pinned, or the name of an attached source
    kind: str  # how it is cut: record, journal, pinned, markdown
    place: Place
    root: str  # the clone whose `.vade/` it lies in; empty for all else
    stamp: Stamp
    load: Callable[[], bytes | None]

    @property
    def labels(self) -> tuple[str, str, str, str]:
        """What the index keeps of it beside its content."""
        return self.path, self.source, self.kind, self.root


class Stack(NamedTuple):
    """One folder whose files go into the index."""

    path: str  # where it lies: what a watch is put on
    prefix: str  # what stands before a name in an item's id
    shown: str  # what stands before a name as shown
    source: str
    kind: str
    place: Place
    wanted: Callable[[str], bool]
    open: Callable[[], Directory | None]
    root: str = ""
    plain: bool = False  # whether links, pipes and folders with such a name are nobody's concern
    hidden: Callable[[Directory, Collection[str]], Collection[str]] | None = None  # second copies among names

    def states(self) -> Iterator[tuple[str, Stamp]]:
        """Each file that is here now, with its stamp, in no order."""
        folder = self.open()
        if folder is None:
            return
        with folder:
            found = folder.scan(self.wanted)
            if self.hidden is not None:
                here = dict(found)
                hidden = self.hidden(folder, here)
                found = ((name, state) for name, state in here.items() if name not in hidden)
            for name, state in found:
                if not self.plain or _is_file(state):
                    yield name, stamp(state)

    def state(self, name: str) -> Stamp | None:
        """The stamp of one file; None when it is not here or not wanted."""
        if not self.wanted(name):
            return None
        folder = self.open()
        if folder is None:
            return None
        with folder:
            state = folder.stat(name)
            if self._is_hidden(folder, name):
                return None
        return None if state is None or (self.plain and not _is_file(state)) else stamp(state)

    def _is_hidden(self, folder: Directory, name: str) -> bool:
        """Whether a file is a second copy; the name of a record is never one's."""
        if self.hidden is None or not names.not_keys([name]):
            return False
        return name in self.hidden(folder, [*filter(self.wanted, folder.names(ordered=False))])

    def item(self, name: str, state: Stamp) -> IndexItem:
        """A file of this folder on its way into the index."""
        load = functools.partial(self._load, name)
        path = f"{self.shown}/{name}"
        return IndexItem(
            f"{self.prefix}/{name}", path, self.source, self.kind, self.place, self.root, state, load
        )

    def _load(self, name: str) -> bytes | None:
        folder = self.open()
        if folder is None:
            return None
        with folder:
            return folder.read(name)


class Filter(NamedTuple):
    """What may be answered: who is looking comes first, then what was asked for.

    Of a session the labels are these: `key` is its id, `type` the agent it is of, `tags` its audience.
    """

    places: tuple[Place, ...] | None = None  # None: every one; no place at all sees nothing
    root: str = ""  # of `.vade/` folders, those of this clone alone
    group: bool = False  # records and the project's `context.md`: no journal, no source, no other document
    type: str | None = None
    tags: tuple[str, ...] = ()  # all of them
    keys: tuple[str, ...] | None = None
    path: str | None = None  # a part of it
    sources: tuple[str, ...] = ()
    items: tuple[str, ...] | None = None
    after: str | None = None
    before: str | None = None
    as_of: str | None = None  # what held at this moment
    only: tuple[int, ...] | None = None  # chunks
    bare: bool = False  # what has no vector yet

    @property
    def by_file(self) -> bool:
        """Whether files alone decide."""
        times = self.after is None and self.before is None and self.as_of is None
        return times and self.only is None and not self.bare


EVERYTHING = Filter()


class KnownFile(NamedTuple):
    """What the index holds of a file."""

    id: int
    hash: str
    stamp: tuple[int, int, int, int]
    reason: str | None  # why it could not be taken in
    labels: tuple[str, ...]  # path, source, kind, root: a source can be attached again under another name
    outdated: bool = False  # whether an earlier version made its rows
    state: str = ""  # what its reader wants to know again


class Labels(NamedTuple):
    """What a file says of itself."""

    title: str = ""
    key: str | None = None
    num: int | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    updated: str | None = None


class Piece(NamedTuple):
    """A passage on its way into the index."""

    start: int
    last: int
    body: str  # what is kept and shown; empty where the file itself is read for that
    heading: str = ""
    time: str | None = None
    moment: str | None = None  # the same as it is compared
    origin: str | None = None
    superseded: str | None = None
    ended: str | None = None
    speech: Speech = SILENT
    text: str = ""  # what is looked for
    head: str = ""  # what is looked for beside it
    size: int = 0  # how many different words say something, where `words` are not given
    words: frozenset[str] = frozenset()  # that it holds
    place: bytes = b""  # where its reader finds it again
    language: str = ENGLISH  # that its words are of


class IndexDocument(NamedTuple):
    """One file as it is now; without pieces it holds what it held, and only its stamp is noted."""

    item: IndexItem
    hash: str
    labels: Labels = Labels()
    pieces: Sequence[Piece] | None = None
    reason: str | None = None  # why it cannot be taken in
    state: str = ""
    grown: str | None = None  # the state that its pieces are added behind; else they take the place of all


class Mark(NamedTuple):
    """What ranking needs of a chunk: its place, and what counts for or against it."""

    file: int
    order: int
    source: str
    superseded: bool
    alone: bool  # whether its file has no other chunk
    speech: Speech = SILENT
    size: int = 0  # how many different words say something


class ChunkRow(NamedTuple):
    """A chunk with what its file says of it."""

    id: int
    file: int
    order: int
    item: str
    path: str
    source: str
    kind: str
    scope: str
    scope_id: str
    title: str
    key: str | None
    num: int | None
    type: str | None
    tags: tuple[str, ...]
    updated: str | None
    start: int
    last: int
    body: str
    heading: str
    time: str | None
    origin: str | None
    superseded: str | None
    alone: bool
    size: int  # how many different words say something
    stems: bytes  # the marks of all its words; empty where they are not kept
    speech: Speech
    place: bytes

    @property
    def mark(self) -> Mark:
        """What ranking needs of it."""
        superseded = self.superseded is not None
        return Mark(self.file, self.order, self.source, superseded, self.alone, self.speech, self.size)


class Nearest(NamedTuple):
    """The chunks nearest to a question with their cosines, and how near the whole store is."""

    cosines: dict[int, float]
    marks: dict[int, Mark]
    mean: float
    deviation: float  # of the cosines of the store from that
    total: int  # vectors there are
    dimension: int
    vectors: Callable[[Sequence[int]], tuple[list[int], Any]]  # of some chunks: those that have one, and it


class SimilarTerm(NamedTuple):
    """What an index holds in the place of a word that it does not hold."""

    term: str  # as the index keeps it
    nearness: float  # to the word, from 0 to 1
    chunks: int  # in which it stands
    mark: bytes  # that stands for it in the `stems` of a row


class ReadNear(NamedTuple):
    """How near passages are to a question by reading, and how near all are that were read."""

    cosines: dict[int, float]
    mean: float
    deviation: float
    total: int  # vectors there are


class Stats(NamedTuple):
    """What is known of the whole index."""

    version: tuple[int, int]  # changed by others, and by ourselves
    settings: Mapping[str, str]  # what it was made with
    chunks: int
    seen: Mapping[str, int] = {}  # in how many chunks each word stands that was asked about
    marks: Mapping[str, tuple[bytes, ...]] = {}  # what stands for each in the `stems` of a row
    files: int = 0  # that a filter lets through
    indexed: int = 0  # of these
    waiting: int = 0  # chunks that a filter lets through and that have no vector


class Index(Protocol):
    """What can be asked of an index; every failure is an `IndexFailed`.

    `with index:` gives one view of it to several questions, whatever others write meanwhile.
    """

    patience: float | None  # seconds that a call may wait for other processes; None: as long as usual

    @property
    def stemming(self) -> str:
        """What made its stems, in an index that does not refuse those of another version by itself."""

    @property
    def reads(self) -> Reads | None:
        """What was read of it, in an index that keeps that."""

    def __enter__(self) -> object: ...
    def __exit__(self, *error: object) -> None: ...

    def known(self, filter: Filter) -> dict[str, KnownFile]:
        """Each file that it holds, by the id of its item."""
        ...

    def put(
        self,
        documents: Iterable[IndexDocument] = (),
        *,
        vectors: Iterable[tuple[int, bytes]] = (),
        settings: Mapping[str, str] = {},
        last: bool = False,
    ) -> bool:
        """Take in files, vectors of chunks and settings, in one transaction.

        The answer is False, and nothing was written, when somebody else was quicker: a document has grown
        from another state than the one that is kept, or the vectors that are kept have another `dimension`.
        With the last of many, the words are put in order.
        """
        ...

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        """Take files out, None means every one; with `vectors`, forget those of all."""
        ...

    def match(
        self,
        phrases: Sequence[Sequence[str]],
        filter: Filter,
        limit: int | None,
        *,
        every: bool = False,
        wide: bool = False,
        terms: bool = False,
    ) -> dict[int, float]:
        """Chunks with any of some phrases, or with every one, the best first by their BM25.

        A phrase is some words that stand together, whatever their endings; with `terms`, as `similar` names
        them. `wide` asks whole files that have several chunks, by what
        the filter says of files. Without phrases, the newest first; what has no vector in the order it came.
        """
        ...

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> Nearest:
        """The chunks nearest to a vector, with the true cosines of others too; another model's are none."""
        ...

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        """Chunks with their files' labels, of those only that a filter lets through.

        Without `text`, what ranking needs may be all that is told: place, source, words and who speaks.
        """
        ...

    def similar(self, word: str) -> list[SimilarTerm]:
        """What the index holds in the place of a word that it does not hold, the nearest first.

        Longer words that it begins or ends, parts of which it is made, other endings, slips of the keyboard.
        """
        ...

    def foreign(self, ids: Iterable[int]) -> set[int]:
        """Those of some chunks that are not in English."""
        ...

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        """What is known of all, of some words, and of what a filter lets through."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def stamp(state: os.stat_result) -> Stamp:
    """What is compared of a file's state."""
    return Stamp(state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


def _is_file(state: os.stat_result) -> bool:
    import stat

    return stat.S_ISREG(state.st_mode)
