"""The contract of an index: its rows, its filters, and the methods that every implementation has.

This module holds values alone. An implementation decides how rows are stored and found; the package `search`
ranks the rows that were found.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Protocol

from vademecum.index.words import ENGLISH, SILENT, Speech
from vademecum.named_tuple import NamedTuple
from vademecum.store import look_at
from vademecum.store.view import NO_FILE, stamp_of
from vademecum.text import names

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from vademecum.index.reads import ReaderVectors
    from vademecum.store import Directory
    from vademecum.types import Place

MEMORY, JOURNAL, PINNED = "memory", "journal", "pinned"


class Stamp(NamedTuple):
    """The size, times and inode of a file. While they stay the same, the file need not be read again."""

    size: int
    mtime: int
    ctime: int
    inode: int


class IndexItem(NamedTuple):
    """A file that goes into the index."""

    id: str  # unique among all projects: a path below the home, or an absolute path
    path: str  # as shown, and accepted by `get`
    source: str  # memory, journal, pinned, or the name of an attached source
    kind: str  # the way to cut it: record, journal, pinned, markdown
    place: Place
    root: str  # the clone of its `.vade/`; empty for files of the home
    stamp: Stamp
    load: Callable[[], bytes | None]

    @property
    def labels(self) -> tuple[str, str, str, str]:
        """The item's path, source, kind and root, which the index stores beside the content."""
        return self.path, self.source, self.kind, self.root


class IndexedFolder(NamedTuple):
    """A folder whose files go into the index."""

    path: str  # the folder to watch
    prefix: str  # the prefix of an item's id
    shown: str  # the prefix of a path as shown
    source: str
    kind: str
    place: Place
    wanted: Callable[[str], bool]
    open: Callable[[], Directory | None]
    root: str = ""
    plain: bool = False  # links, pipes and folders are skipped without a finding
    hidden: Callable[[Directory, Collection[str]], Collection[str]] | None = (
        None  # returns the second copies among names
    )

    def states(self) -> Iterator[tuple[str, Stamp]]:
        """Yield the name and stamp of each wanted file of the folder, in no particular order.

        Hidden second copies are left out; with `plain`, so are links, pipes and folders.
        """
        folder = self.open()
        if folder is None:
            return
        with folder:
            here = look_at(folder, self.wanted).stamps
            hidden = () if self.hidden is None else self.hidden(folder, here)
        for name, stamp in here.items():
            if name not in hidden and not (self.plain and stamp == NO_FILE):
                yield name, Stamp(*stamp)

    def state(self, name: str) -> Stamp | None:
        """Return the stamp of the file with this name; None if it is absent or `states` leaves it out."""
        if not self.wanted(name):
            return None
        folder = self.open()
        if folder is None:
            return None
        with folder:
            state = folder.stat(name)
            if self._is_hidden(folder, name):
                return None
        found = None if state is None else stamp_of(state)
        return None if found is None or (self.plain and found == NO_FILE) else Stamp(*found)

    def _is_hidden(self, folder: Directory, name: str) -> bool:
        """Return whether a file is a second copy of a record; a file named like a record never is one."""
        if self.hidden is None or not names.not_keys([name]):
            return False
        return name in self.hidden(folder, [*filter(self.wanted, folder.names(ordered=False))])

    def item(self, name: str, state: Stamp) -> IndexItem:
        """Return the file with this name and stamp as an item for the index."""
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
    """A filter for rows: what the caller may see, narrowed by the conditions of the question.

    For a session, `key` is the session's id, `type` its agent, and `tags` its audience.
    """

    places: tuple[Place, ...] | None = None  # None allows every place; an empty tuple allows none
    root: str = ""  # only the `.vade/` folder of this clone
    group: bool = False  # records and the project's `context.md`: no journal, no source, no other document
    type: str | None = None
    tags: tuple[str, ...] = ()  # a row needs all of these tags
    keys: tuple[str, ...] | None = None
    path: str | None = None  # a part of the path
    sources: tuple[str, ...] = ()
    items: tuple[str, ...] | None = None
    after: str | None = None
    before: str | None = None
    as_of: str | None = None  # entries that were valid at this moment
    speakers: tuple[str, ...] = ()  # who said or wrote it, in lower case
    until: str | None = None  # the moment after which nothing was said; what has no time is allowed
    only: tuple[int, ...] | None = None  # ids of chunks
    bare: bool = False  # only chunks without a vector

    @property
    def by_file(self) -> bool:
        """Whether the filter has conditions on whole files only, and none on single passages."""
        times = (self.after, self.before, self.as_of, self.until) == (None, None, None, None)
        return times and self.only is None and not self.bare and not self.speakers


EVERYTHING = Filter()


class KnownFile(NamedTuple):
    """What the index has stored about a file: its hash, stamp and labels, or why it has no rows."""

    id: int
    hash: str
    stamp: tuple[int, int, int, int]
    reason: str | None  # the reason why it has no rows
    labels: tuple[str, ...]  # path, source, kind, root: a source can be attached again under another name
    state: str = ""  # what the indexer of a session stores for the next time


class Labels(NamedTuple):
    """The fields of a file that are used by filters, or that are indexed with its text."""

    title: str = ""
    key: str | None = None
    num: int | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    updated: str | None = None


class Piece(NamedTuple):
    """A passage that goes into the index."""

    start: int
    last: int
    body: str  # the text to show; empty where the file is read for it
    heading: str = ""
    time: str | None = None
    moment: str | None = None  # the same time in UTC, for comparisons
    origin: str | None = None
    superseded: str | None = None
    ended: str | None = None
    speech: Speech = SILENT
    text: str = ""  # the indexed text
    head: str = ""  # indexed text beside the passage: title, heading, day, tags
    size: int = 0  # the number of different content words, where `words` is empty
    words: frozenset[str] = frozenset()  # all words of the passage
    place: bytes = b""  # where to find it again in the file
    language: str = ENGLISH  # the language of its words


class IndexDocument(NamedTuple):
    """A file with its passages, to be stored in the index.

    Without `pieces`, only the hash and the stamp of the file are updated. With a `reason`, the file's rows
    are removed. With `grown`, the pieces are added to the stored ones.
    """

    item: IndexItem
    hash: str
    labels: Labels = Labels()
    pieces: Sequence[Piece] | None = None
    reason: str | None = None  # the reason why it cannot be indexed
    state: str = ""
    grown: str | None = None  # pieces are appended after this state; else they replace all rows


class Mark(NamedTuple):
    """The fields of a chunk that ranking needs."""

    file: int
    order: int
    source: str
    superseded: bool
    alone: bool  # it is the only chunk of its file
    speech: Speech = SILENT
    size: int = 0  # the number of different content words

    @property
    def in_conversation(self) -> bool:
        """Whether the chunk is a turn of a conversation; records and files of one chunk never are."""
        return self.speech.speaker is not None and not self.alone and self.source != MEMORY


class ChunkRow(NamedTuple):
    """A chunk as the index stores it, with the labels of its file."""

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
    stems: bytes  # the marks of all its stems; empty where none are stored
    speech: Speech
    place: bytes

    @property
    def mark(self) -> Mark:
        """The fields of this chunk that ranking needs."""
        superseded = self.superseded is not None
        return Mark(self.file, self.order, self.source, superseded, self.alone, self.speech, self.size)


class Nearest(NamedTuple):
    """The chunks nearest to a question with their cosines, and the distribution of all chunks' cosines."""

    cosines: dict[int, float]
    marks: dict[int, Mark]
    mean: float
    deviation: float  # the standard deviation of the cosines of the store
    total: int  # the number of vectors
    dimension: int
    vectors: Callable[
        [Sequence[int]], tuple[list[int], Any]
    ]  # returns the chunks that have a vector, and the vectors


class SimilarTerm(NamedTuple):
    """A term of the index that replaces a word of the question which the index does not contain."""

    term: str  # as the index stores it
    nearness: float  # nearness to the word, from 0 to 1
    chunks: int  # the number of chunks that contain it
    mark: bytes  # its mark in the `stems` of a row


class ReadNear(NamedTuple):
    """The similarity of passages to a question by the reader model, and the distribution of all values."""

    cosines: dict[int, float]
    mean: float
    deviation: float
    total: int  # vectors there are


class Stats(NamedTuple):
    """Counts of the index and the settings it was made with."""

    version: tuple[int, int]  # changes with writes of other processes, and with our own
    settings: Mapping[str, str]  # the settings it was made with
    chunks: int
    seen: Mapping[str, int] = {}  # for each word of the question, the number of chunks with it
    marks: Mapping[str, tuple[bytes, ...]] = {}  # the marks of each word in the `stems` of a row
    files: int = 0  # files that the filter allows
    indexed: int = 0  # indexed files among them
    waiting: int = 0  # allowed chunks that have no vector


class Index(Protocol):
    """The methods of an index; every failure raises `IndexFailed`.

    Inside `with index:` several questions see the same state, whatever other processes write meanwhile.
    """

    patience: float | None  # seconds that a call may wait for other processes; None is the default

    @property
    def stemming(self) -> str:
        """The version of the stemmer; empty for an index whose file stores the version itself."""

    @property
    def reads(self) -> ReaderVectors | None:
        """The table of the reader model's vectors; None in an index without such a table."""

    def __enter__(self) -> object: ...
    def __exit__(self, *error: object) -> None: ...

    def known(self, filter: Filter) -> dict[str, KnownFile]:
        """Return the stored files that a filter allows, by the ids of their items."""
        ...

    def put(
        self,
        documents: Iterable[IndexDocument] = (),
        *,
        vectors: Iterable[tuple[int, bytes]] = (),
        settings: Mapping[str, str] = {},
        last: bool = False,
    ) -> bool:
        """Store files, vectors and settings in one transaction, and return whether they were stored.

        Return False, and write nothing, if another process wrote first: a document was to be added to another
        state than the stored one, or the stored vectors have another `dimension`. With `last`, the keyword
        tables are optimized if many chunks were added.
        """
        ...

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        """Remove some files from the index (None: all files); with `vectors`, remove all vectors as well.

        The `settings` are stored in the same transaction.
        """
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
        """Return the chunks with any (with `every`: all) of the phrases, the best by BM25 first.

        A phrase is a sequence of words in any inflection; with `terms`, its words are terms as `similar`
        returns them. With `wide`, return the ids of files that have several chunks and match as a whole.
        Without phrases, return the newest chunks, or, with a `bare` filter, chunks in the order in which they
        were indexed.
        """
        ...

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> Nearest:
        """Return the chunks nearest to a query vector, and the exact cosines of the chunks `also`.

        Vectors that another model made never match.
        """
        ...

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        """Return those chunks with these ids that a filter allows, each with the labels of its file.

        Without `text`, a row may hold only the fields that ranking needs: place, source, words and speaker.
        """
        ...

    def similar(self, word: str) -> list[SimilarTerm]:
        """Return the terms that can replace a word which the index does not contain, the nearest first.

        Such terms are longer words that begin or end with the word, parts of the word, other inflections, and
        words that differ by a typing error.
        """
        ...

    def foreign(self, ids: Iterable[int]) -> set[int]:
        """Return those of the chunks with these ids whose language is not English."""
        ...

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        """Return the index's settings and number of chunks, and how many chunks contain each of `words`.

        With a `filter`, also count the files that it allows; with a `bare` filter, count the allowed chunks
        that have no vector instead.
        """
        ...

    def close(self) -> None:
        """Close the index and its file."""
        ...


def stamp(state: os.stat_result) -> Stamp:
    """Return a file's stamp: the fields of its `stat` result that tell whether the file changed."""
    return Stamp(state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
