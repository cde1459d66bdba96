"""The search index of a workspace in PostgreSQL; it finds candidates, and the core's engine ranks them.

It works inside a transaction that sees one workspace. Words are found by a table of postings, since
PostgreSQL's full-text search has no BM25 and cannot use its index under row-level security. Vectors are
compared one by one; a large workspace has an approximate index over its own vectors. In names and queries,
`wide` stands for whole files instead of passages, and a chunk is a passage.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby, zip_longest
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from vademecum.errors import IndexFailed
from vademecum.index import (
    ENGLISH,
    EVERYTHING,
    ChunkRow,
    Filter,
    KnownFile,
    Mark,
    Nearest,
    SimilarTerm,
    Speech,
    Stats,
    Stems,
    cosines_of,
    languages,
    mark_of,
    new_stems,
    similar,
    stems_version,
    unpack,
)
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vademecum.index import IndexDocument

    Keys = NDArray[np.int64]
    Key = tuple[bool, str, int]  # of a row of postings: wide, stem, block
    Embed = Callable[[Sequence[tuple[str, str]]], Sequence[bytes]]

EXACT = 50_000  # passages up to which every vector is compared
DIMENSIONS = 256  # of the column; a shorter vector is padded with zeros, which change no cosine
K1, B = 1.2, 0.75  # of BM25, as SQLite has them
LEAST_WEIGHT = 1e-6  # of a word in nearly every passage
SPARE = 16  # extra vectors to fetch, since PostgreSQL compares rounded numbers
SEARCHED = 200  # pgvector's hnsw.ef_search
MOST_SCANNED = 40_000  # pgvector's hnsw.max_scan_tuples
SAMPLED = 5_000  # vectors from which mean and deviation are estimated
_BLOCK_BITS, _PLACE_BITS = 10, 22  # bits of a number in a row of postings, and of a position in a text
_MOST_PLACES = (1 << _PLACE_BITS) - 1
_LONGEST = 200  # characters of a stem: PostgreSQL limits the size of an index key
_LENGTHS = ""  # the stem whose positions are the lengths of texts
_SCOPES = ", ".join(f"'{scope}'" for scope in Scope)
_PRECEDENCE = f"array_position(ARRAY[{_SCOPES}], f.scope)"
_JOINED = "hub.passage c JOIN hub.document f ON f.ws = c.ws AND f.id = c.file"
_MARK = "c.file, c.ord, f.source, c.superseded IS NOT NULL, c.alone, c.speaker, c.asks, c.says, c.size"
_PLACE_COLUMNS = "ord, start, last, alone"  # the columns that change when a passage moves in its file
_TEXT_COLUMNS = (
    "body, heading, time, moment, origin, superseded, ended, speaker, asks, says, size, stems, place,"
    " language, head, said, text_sha"
)
_thread = threading.local()


def thread_stems() -> Stems:
    """Return the stemmer of this thread, since several threads cannot share a stemmer safely."""
    made: Stems | None = getattr(_thread, "stems", None)
    if made is None:
        made = _thread.stems = new_stems()
    return made


class TermCounts(NamedTuple):
    """The ids of all passages or files, and the number of terms in each."""

    ids: Keys
    terms: Keys

    @property
    def average(self) -> float:
        """The average number of terms in a passage or file."""
        return float(self.terms.sum()) / max(1, len(self.ids))


@dataclass(slots=True)
class WorkspaceRow:
    """The row of `hub.search`: the settings and counters of a workspace."""

    settings: dict[str, str]
    languages: dict[str, int]
    last_passage: int
    last_document: int
    version: int


@dataclass(slots=True)
class _PostingChanges:
    """Changes to the rows of postings: passages to remove from rows, and positions to add."""

    gone: dict[Key, set[int]] = field(default_factory=dict)
    added: dict[Key, list[int]] = field(default_factory=dict)
    seen: dict[Key, int] = field(default_factory=dict)

    def change(
        self, id_: int, before: Sequence[str] | None, after: Sequence[str] | None, *, wide: bool
    ) -> None:
        """Replace the terms of a passage or file; None stands for no terms.

        Terms at unchanged positions are not touched.
        """
        block, number = id_ >> _BLOCK_BITS, id_ & ((1 << _BLOCK_BITS) - 1)
        old, new = _places(number, before), _places(number, after)
        for term, places in old.items():
            if new.get(term) != places:
                self.gone.setdefault((wide, term, block), set()).add(number)
        for term, places in new.items():
            if old.get(term) != places:
                key = wide, term, block
                self.added.setdefault(key, []).extend(places)
                self.seen[key] = self.seen.get(key, 0) + 1


def _places(number: int, terms: Sequence[str] | None) -> dict[str, list[int]]:
    """Return the positions of each term in a passage or file; the key `_LENGTHS` has the number of terms."""
    if terms is None:
        return {}
    first = number << _PLACE_BITS
    places: dict[str, list[int]] = {_LENGTHS: [first | min(len(terms), _MOST_PLACES)]}
    for at, term in enumerate(terms):
        places.setdefault(term[:_LONGEST], []).append(first | min(at, _MOST_PLACES))
    return places


class _PassageRow(NamedTuple):
    """A row of `hub.passage`: the columns about the place in the file, and the columns about the text."""

    place_columns: tuple[Any, ...]  # columns of _STANDS
    text_columns: tuple[Any, ...]  # columns of _REST
    id: int = 0

    @property
    def speech(self) -> tuple[str, str, str]:
        """The heading, the text and the language of the passage, as search uses them."""
        body, (language, head, text, _) = self.text_columns[0], self.text_columns[-4:]
        return head, body if text is None else text, language


@dataclass(slots=True)
class _PassageChanges:
    """The passages to delete, to move within their file, and to add."""

    gone: list[int] = field(default_factory=list)
    moved: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    added: list[tuple[Any, ...]] = field(default_factory=list)
    # The id of each changed passage, with its earlier and its new row.
    changes: list[tuple[int, _PassageRow | None, _PassageRow | None]] = field(default_factory=list)
    left: list[bytes] = field(default_factory=list)  # hashes of texts that may have lost their last passage
    texts: dict[bytes, tuple[str, str]] = field(default_factory=dict)  # new texts with their titles, by hash

    def replace(
        self,
        row: WorkspaceRow,
        file: int,
        before: Sequence[_PassageRow],
        after: Sequence[_PassageRow],
        title: str = "",
    ) -> None:
        """Work out the changes that give a file its new passages.

        A passage with unchanged text stays, or is moved. Other new passages take the ids of deleted passages
        as far as possible, so that fewer rows change.
        """
        same: dict[tuple[Any, ...], list[_PassageRow]] = {}
        for each in reversed(before):
            same.setdefault(each.text_columns, []).append(each)
        new = []
        for each in after:
            if not same.get(each.text_columns):
                new.append(each)
            elif (there := same[each.text_columns].pop()).place_columns != each.place_columns:
                self.moved.append((there.id, each.place_columns))
        gone = sorted((each for some in same.values() for each in some), key=attrgetter("id"))
        for was, now in zip_longest(gone, new):
            if was is None:
                row.last_passage += 1
            id_ = was.id if was else row.last_passage
            self.changes.append((id_, was, now))
            for each, by in ((was, -1), (now, 1)):
                if each:
                    row.languages[each.speech[2]] = row.languages.get(each.speech[2], 0) + by
            if now:
                self.added.append((id_, file, *now.place_columns, *now.text_columns))
                self.texts[now.text_columns[-1]] = title, now.text_columns[0]
        self.gone += [each.id for each in gone]
        self.left += [each.text_columns[-1] for each in gone]


class PostgresIndex:
    """The search index of one workspace: its files, passages, postings and vectors."""

    patience: float | None = None
    reads = None

    def __init__(self, connection: Any, ws: int) -> None:
        self._connection, self._ws = connection, int(ws)
        self._stems = thread_stems()
        self._removed: set[int] = set()  # ids of deleted passages and files
        self._locked = False
        self._clear_cache()

    @property
    def stemming(self) -> str:
        """The version of the stemmer; words are not found in an index made with another version."""
        return stems_version()

    def _clear_cache(self) -> None:
        """Drop all cached values, which were read before a change."""
        self._row: WorkspaceRow | None = None
        self._loaded: dict[tuple[bool, str], Keys] = {}
        self._lengths: dict[bool, TermCounts] = {}
        self._rows: dict[int, ChunkRow] = {}
        self._whole: set[int] = set()  # ids of the rows that were read with their text
        self._vectors: dict[int, bytes] = {}
        self._term_cache: dict[tuple[str, str], str] = {}
        self._similar: dict[str, list[SimilarTerm]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Do nothing, since the connection belongs to the caller."""

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        found: list[Any] = self._connection.execute(sql, values, binary=True).fetchall()
        return found

    # ---------------------------------------------------------------- the workspace

    @property
    def row(self) -> WorkspaceRow:
        """The settings and counters of the workspace's index."""
        if self._row is None:
            self._row = self._read_row("") or WorkspaceRow({}, {}, 0, 0, 0)
        return self._row

    def _read_row(self, how: str) -> WorkspaceRow | None:
        found = self._ask(
            "SELECT settings, languages, last_passage, last_document, version FROM hub.search"
            f" WHERE ws = %s{how}",
            (self._ws,),
        )
        return WorkspaceRow(*found[0]) if found else None

    def lock(self) -> WorkspaceRow:
        """Lock and return the row of the workspace's index until the end of the transaction."""
        if self._locked and self._row is not None:
            return self._row
        found = self._read_row(" FOR UPDATE")
        if found is None:
            self._connection.execute(
                "INSERT INTO hub.search (ws) VALUES (%s) ON CONFLICT DO NOTHING", (self._ws,)
            )
            found = self._read_row(" FOR UPDATE")
        assert found is not None
        self._clear_cache()
        self._row, self._locked = found, True
        return found

    @contextlib.contextmanager
    def _changing(self) -> Iterator[WorkspaceRow]:
        """Lock the row of the workspace's index for a change; after a failure drop all cached values."""
        row = self.lock()
        try:
            yield row
        except BaseException:
            self._clear_cache()
            self._locked = False
            raise

    def _save(self, row: WorkspaceRow, settings: Mapping[str, str]) -> None:
        row.settings.update(settings)
        row.version += 1
        row.languages = {language: count for language, count in row.languages.items() if count > 0}
        self._connection.execute(
            "UPDATE hub.search SET settings = %s::jsonb, languages = %s::jsonb, last_passage = %s,"
            " last_document = %s, version = %s WHERE ws = %s",
            (
                json.dumps(row.settings),
                json.dumps(row.languages),
                row.last_passage,
                row.last_document,
                row.version,
                self._ws,
            ),
        )
        self._clear_cache()
        self._row = row

    # ---------------------------------------------------------------- writing

    def known(self, filter: Filter) -> dict[str, KnownFile]:
        """Return the indexed files by their items' ids, as far as the filter allows them."""
        where, values = _make_where(filter)
        rows = self._ask(
            "SELECT f.item, f.id, f.hash, f.stamp, f.reason, f.path, f.source, f.kind, f.root"
            f" FROM hub.document f WHERE f.ws = %s AND {where}",
            (self._ws, *values),
        )
        return {row[0]: KnownFile(row[1], row[2], tuple(row[3]), row[4], row[5:9]) for row in rows}

    def put(
        self,
        documents: Iterable[IndexDocument] = (),
        *,
        vectors: Iterable[tuple[int, bytes]] = (),
        settings: Mapping[str, str] = {},
        last: bool = False,
        embed: Embed | None = None,
    ) -> bool:
        """Add or replace files, vectors of passages and settings.

        Return False, and change nothing, if the vectors' dimension differs from that of the index. `embed`
        makes vectors from titles and texts; with this function, new passages get their vectors in the same
        step.
        """
        with self._changing() as row:
            here, coming = row.settings.get("dimension"), settings.get("dimension")
            if None not in (here, coming) and here != coming:
                return False
            passages, write = self._plan_update(row, [*documents])
            made = {} if embed is None else self._embed(passages, embed)
            if made:
                settings = {**settings, "dimension": str(len(next(iter(made.values()))))}
            with self._connection.pipeline():  # all statements are sent before the first answer is awaited
                write()
                self._put_text_vectors(made)
                self._put_vectors([*vectors])
                self._save(row, settings)
        return True

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        """Delete these files, or all files for None; with `vectors`, delete all vectors, too."""
        with self._changing() as row:
            if files is None:
                for table in ("posting", "vector", "passage", "document"):
                    self._connection.execute(f"DELETE FROM hub.{table} WHERE ws = %s", (self._ws,))
                row.languages.clear()
            elif gone := [*files]:
                postings = _PostingChanges()
                self._remove(row, gone, postings)
                self._write_postings(postings, self._read_posting_rows(postings.gone))
            if vectors:
                self._connection.execute("DELETE FROM hub.vector WHERE ws = %s", (self._ws,))
                row.settings.pop("dimension", None)
            self._save(row, settings)

    def scrub(self) -> None:
        """Delete all postings of the passages and files that this object has deleted, as a purge requires.

        Another version of the stemmer may have written postings under other stems. An id is never used
        twice, so an id without a passage or file is gone for good.
        """
        living = {wide: {*self._read_lengths(wide=wide).ids.tolist()} for wide in (False, True)}
        rows = self._ask(
            "SELECT wide, stem, block, held FROM hub.posting WHERE ws = %s AND block = ANY(%s)",
            (self._ws, sorted({id_ >> _BLOCK_BITS for id_ in self._removed})),
        )
        postings = _PostingChanges()
        for wide, stem, block, blob in rows:
            numbers = np.unique(np.frombuffer(blob, "<u4") >> _PLACE_BITS).tolist()
            gone = {each for each in numbers if (block << _BLOCK_BITS) + each not in living[wide]}
            if gone:
                postings.gone[wide, stem, block] = gone
        self._write_postings(postings, self._read_posting_rows(postings.gone))
        self._clear_cache()

    def _plan_update(
        self, row: WorkspaceRow, documents: Sequence[IndexDocument]
    ) -> tuple[_PassageChanges, Callable[[], None]]:
        """Work out the changes for new versions of files.

        Return the changes of passages, and a function that writes all changes.
        """
        postings, passages = _PostingChanges(), _PassageChanges()
        if not documents:
            return passages, lambda: None
        rows = self._ask(
            "SELECT id, reason, item, scope, scope_id FROM hub.document WHERE ws = %b AND item = ANY(%b)",
            (self._ws, [each.item.id for each in documents]),
        )
        known = {found[2:]: found[:2] for found in rows}
        changed = {_identity(each): each for each in documents if each.pieces is not None or each.reason}
        passages_by_file = self._read_passages([known[name][0] for name in changed if name in known])
        files = []
        for name, document in changed.items():
            if name not in known:
                row.last_document += 1
            file, reason = known.get(name, (row.last_document, "new"))
            files.append(self._make_file_row(file, document))
            before = None if reason is not None else passages_by_file.get(file, [])
            after = None if document.reason is not None else self._make_passages(document)
            passages.replace(row, file, before or [], after or [], document.labels.title)
            postings.change(file, self._file_terms(before), self._file_terms(after), wide=True)
        for id_, was, now in passages.changes:
            postings.change(
                id_, was and self._passage_terms(was), now and self._passage_terms(now), wide=False
            )
        rows_of = self._read_posting_rows(postings.gone)

        def write() -> None:
            self._update_stamps(
                [(known[_identity(each)][0], each) for each in documents if _is_unchanged(each, known)]
            )
            self._put_files(files)
            self._put_passages(passages)
            self._write_postings(postings, rows_of)

        return passages, write

    def _update_stamps(self, seen: Sequence[tuple[int, IndexDocument]]) -> None:
        """Save the new stamps of files whose content has not changed."""
        for file, document in seen:
            self._connection.execute(
                "UPDATE hub.document SET stamp = %s WHERE ws = %s AND id = %s",
                ([*document.item.stamp], self._ws, file),
            )

    def _make_file_row(self, file: int, document: IndexDocument) -> tuple[Any, ...]:
        """Return the column values of a file's row."""
        item, labels = document.item, document.labels
        num = labels.num if labels.num is not None and abs(labels.num) < 1 << 62 else None
        return (
            *(self._ws, file, item.id, *item.labels[:3], str(item.place.scope), item.place.id, item.root),
            *(document.hash, [*item.stamp], document.reason, labels.title, labels.key),
            *(num, labels.type, [*labels.tags], labels.updated),
        )

    def _put_files(self, files: Sequence[tuple[Any, ...]]) -> None:
        if not files:
            return
        names = (
            "ws, id, item, path, source, kind, scope, scope_id, root, hash, stamp, reason, title, key, num,"
            " type, tags, updated"
        ).split(", ")
        renewed = ", ".join(f"{name} = EXCLUDED.{name}" for name in names[3:])
        with self._connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO hub.document ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
                f" ON CONFLICT (ws, id) DO UPDATE SET {renewed}",
                files,
            )

    def _read_passages(self, files: Sequence[int]) -> dict[int, list[_PassageRow]]:
        """Return the stored passages of these files, by file, in the order in which the file has them."""
        if not files:
            return {}
        rows = self._ask(
            f"SELECT file, id, {_PLACE_COLUMNS}, {_TEXT_COLUMNS} FROM hub.passage"
            " WHERE ws = %s AND file = ANY(%s) ORDER BY file, ord",
            (self._ws, [*files]),
        )
        return {
            file: [_PassageRow(each[2:6], each[6:], each[1]) for each in group]
            for file, group in groupby(rows, itemgetter(0))
        }

    def _make_passages(self, document: IndexDocument) -> list[_PassageRow]:
        """Return the passages of a new version of a file, as rows."""
        pieces = document.pieces or ()
        return [
            _PassageRow(
                (order, piece.start, piece.last, len(pieces) == 1),
                (
                    *piece[2:9],
                    *(*piece.speech, *self._stems.sized(piece), piece.place, piece.language, piece.head),
                    *(None if piece.text == piece.body else piece.text,),
                    _hash_text(document.labels.title, piece.body),
                ),
            )
            for order, piece in enumerate(pieces)
        ]

    def _put_passages(self, passages: _PassageChanges) -> None:
        """Write changes to passages, and delete the vectors of texts that no passage has any more."""
        if passages.gone:
            self._connection.execute(
                "DELETE FROM hub.passage WHERE ws = %s AND id = ANY(%s)", (self._ws, passages.gone)
            )
        with self._connection.cursor() as cursor:
            if passages.moved:
                cursor.executemany(
                    "UPDATE hub.passage SET ord = %s, start = %s, last = %s, alone = %s"
                    " WHERE ws = %s AND id = %s",
                    [(*place_columns, self._ws, id_) for id_, place_columns in passages.moved],
                )
            if passages.added:
                names = f"ws, id, file, {_PLACE_COLUMNS}, {_TEXT_COLUMNS}"
                placeholders = ", ".join(["%s"] * len(names.split(", ")))
                cursor.executemany(
                    f"INSERT INTO hub.passage ({names}) VALUES ({placeholders})",
                    [(self._ws, *each) for each in passages.added],
                )
        if passages.left:
            self._connection.execute(
                "DELETE FROM hub.vector v WHERE v.ws = %(ws)s AND v.text_sha = ANY(%(gone)s) AND NOT EXISTS"
                " (SELECT FROM hub.passage c WHERE c.ws = %(ws)s AND c.text_sha = v.text_sha)",
                {"ws": self._ws, "gone": passages.left},
            )

    def _passage_terms(self, passage: _PassageRow) -> list[str]:
        """Return the terms of a passage and its heading, in order."""
        head, text, language = passage.speech
        return self._stems.terms(f"{head}\n{text}", language).split()

    def _cached_terms(self, text: str, language: str) -> str:
        """Return the terms of a text from a cache, since most passages of an edited file stay the same."""
        found = self._term_cache.get((text, language))
        if found is None:
            found = self._term_cache[text, language] = self._stems.terms(text, language)
        return found

    def _file_terms(self, passages: Sequence[_PassageRow] | None) -> list[str] | None:
        """Return the terms of a file with several passages.

        Return None for a file with a single passage, or if `passages` is None. Words in the headings of
        passages count once for the whole file.
        """
        if passages is None or len(passages) == 1:
            return None
        parts = [each.speech for each in passages]
        once = " ".join(dict.fromkeys(" ".join(head for head, _, _ in parts).split()))
        whole = [self._stems.terms(once), *(self._cached_terms(text, of) for _, text, of in parts)]
        return " ".join(whole).split()

    def _remove(self, row: WorkspaceRow, files: Sequence[int], postings: _PostingChanges) -> None:
        """Delete files with their passages and postings, and vectors whose text no passage has any more."""
        passages_by_file, passages = self._read_passages(files), _PassageChanges()
        whole = self._ask(
            "DELETE FROM hub.document WHERE ws = %s AND id = ANY(%s) RETURNING id, reason", (self._ws, files)
        )
        for file, reason in whole:
            before = None if reason is not None else passages_by_file.get(file, [])
            passages.replace(row, file, before or [], [])
            postings.change(file, self._file_terms(before), None, wide=True)
        for id_, was, _ in passages.changes:
            postings.change(id_, was and self._passage_terms(was), None, wide=False)
        self._put_passages(passages)
        self._removed.update(files, passages.gone)

    def _write_postings(self, postings: _PostingChanges, rows: Iterable[tuple[Key, int, bytes]]) -> None:
        """Write changes to postings; `rows` are the stored rows from which positions are removed."""
        both = {key: self._update_posting_row(key, seen, blob, postings) for key, seen, blob in rows}
        empty = [key for key, (_, blob) in both.items() if not blob]
        if empty:
            self._connection.execute(
                "DELETE FROM hub.posting p"
                " USING unnest(%b::boolean[], %b::text[], %b::int[]) AS g (wide, stem, block)"
                " WHERE p.ws = %b AND (p.wide, p.stem, p.block) = (g.wide, g.stem, g.block)",
                (*_key_columns(empty), self._ws),
            )
        rows_left = {key: pair for key, pair in both.items() if pair[1]}
        self._upsert(rows_left, "held = EXCLUDED.held, seen = EXCLUDED.seen")
        new = {
            key: (postings.seen[key], _pack(places))
            for key, places in postings.added.items()
            if key not in both
        }
        self._upsert(new, "held = p.held || EXCLUDED.held, seen = p.seen + EXCLUDED.seen")

    def _read_posting_rows(self, keys: Iterable[Key]) -> list[tuple[Key, int, bytes]]:
        wanted = [*keys]
        if not wanted:
            return []
        rows = self._ask(
            "SELECT p.wide, p.stem, p.block, p.seen, p.held"
            " FROM unnest(%b::boolean[], %b::text[], %b::int[]) AS g (wide, stem, block)"
            " JOIN hub.posting p ON p.ws = %b AND (p.wide, p.stem, p.block) = (g.wide, g.stem, g.block)",
            (*_key_columns(wanted), self._ws),
        )
        return [(row[:3], row[3], row[4]) for row in rows]

    @staticmethod
    def _update_posting_row(key: Key, seen: int, blob: bytes, postings: _PostingChanges) -> tuple[int, bytes]:
        """Return the new count and the new content of a stored row of postings."""
        places, gone = np.frombuffer(blob, "<u4"), [*postings.gone[key]]
        numbers = places >> _PLACE_BITS
        leaving = numbers == gone[0] if len(gone) == 1 else np.isin(numbers, gone)
        seen += postings.seen.get(key, 0) - len({*numbers[leaving].tolist()})
        return seen, places[~leaving].tobytes() + _pack(postings.added.get(key, ()))

    def _upsert(self, rows: Mapping[Key, tuple[int, bytes]], renewed: str) -> None:
        if not rows:
            return
        keys = sorted(rows)
        self._connection.execute(
            "INSERT INTO hub.posting AS p (ws, wide, stem, block, seen, held)"
            " SELECT %b, * FROM unnest(%b::boolean[], %b::text[], %b::int[], %b::int[], %b::bytea[])"
            f" ON CONFLICT (ws, wide, stem, block) DO UPDATE SET {renewed}",
            (self._ws, *_key_columns(keys), [rows[key][0] for key in keys], [rows[key][1] for key in keys]),
        )

    def _put_vectors(self, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Store the vectors of passages, once for each text; skip passages that were deleted meanwhile."""
        if not vectors:
            return
        self._connection.execute(
            "INSERT INTO hub.vector (ws, text_sha, vec)"
            " SELECT DISTINCT ON (c.text_sha) c.ws, c.text_sha, g.vec::public.halfvec"
            " FROM unnest(%b::bigint[], %b::text[]) AS g (id, vec)"
            " JOIN hub.passage c ON c.ws = %b AND c.id = g.id"
            " ON CONFLICT (ws, text_sha) DO UPDATE SET vec = EXCLUDED.vec",
            ([id_ for id_, _ in vectors], [_spell_vector(vector) for _, vector in vectors], self._ws),
        )

    def _embed(self, passages: _PassageChanges, embed: Embed) -> dict[bytes, bytes]:
        """Return vectors for those new texts that have none yet, by the hash of the text."""
        texts = passages.texts
        if not texts:
            return {}
        found = self._ask(
            "SELECT text_sha FROM hub.vector WHERE ws = %b AND text_sha = ANY(%b)", (self._ws, [*texts])
        )
        lacking = [*texts.keys() - {text for (text,) in found}]
        return dict(zip(lacking, embed([texts[each] for each in lacking]), strict=True)) if lacking else {}

    def _put_text_vectors(self, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors by the hashes of their texts."""
        if not vectors:
            return
        self._connection.execute(
            "INSERT INTO hub.vector (ws, text_sha, vec)"
            " SELECT %b, text_sha, vec::public.halfvec"
            " FROM unnest(%b::bytea[], %b::text[]) AS g (text_sha, vec)",
            (self._ws, [*vectors], [*map(_spell_vector, vectors.values())]),
        )

    # ---------------------------------------------------------------- words

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
        """Return passages with any of the phrases, each with its BM25 weight, best first.

        With `every`, each result has all phrases; with `wide`, results are whole files. `terms` means that
        the phrases are stems already. Without phrases, return the newest passages that the filter allows.
        """
        if not phrases:
            return dict.fromkeys(self._list_newest(filter, limit), 0.0)
        alike = [[tuple(each)] if terms else self._stem_forms(each) for each in phrases]
        if every and not all(alike):  # a phrase without a stem matches nothing
            return {}
        self._load_postings({stem for forms in alike for form in forms for stem in form}, wide=wide)
        lengths = self._read_lengths(wide=wide)
        scores = np.zeros(len(lengths.ids))
        matches = np.full(len(lengths.ids), every)
        for forms in alike:
            one = np.zeros(len(lengths.ids), np.bool_)
            for words in _group_by_length(forms):
                rows, weights = self._weigh_phrase(words, lengths, wide=wide)
                scores[rows] += weights
                one[rows] = True
            matches = matches & one if every else matches | one
        found = np.flatnonzero(matches)
        order = found[np.lexsort((lengths.ids[found], -scores[found]))]
        ids = self._filter_ids(lengths.ids[order].tolist(), filter, wide=wide)
        best = dict(zip(lengths.ids[order].tolist(), scores[order].tolist(), strict=True))
        return {id_: best[id_] for id_ in ids[:limit]}

    def _weigh_phrase(self, words: list[set[str]], lengths: TermCounts, *, wide: bool) -> tuple[Keys, Any]:
        """Return where in `lengths` the passages with this phrase are, and the BM25 weight of each."""
        starts: Keys | None = None
        for at, forms in enumerate(words):
            keys = np.concatenate([self._loaded[wide, form[:_LONGEST]] for form in sorted(forms)]) - at
            starts = keys if starts is None else np.intersect1d(starts, keys)
        if starts is None or not len(starts) or not len(lengths.ids):
            return np.zeros(0, np.int64), np.zeros(0)
        ids, counts = np.unique(starts >> _PLACE_BITS, return_counts=True)
        rows: Keys = np.minimum(np.searchsorted(lengths.ids, ids), len(lengths.ids) - 1)
        living = lengths.ids[rows] == ids
        rows, often = rows[living], counts[living].astype(np.float64)
        total, hits = len(lengths.ids), len(rows)
        weight = max(float(np.log((total - hits + 0.5) / (hits + 0.5))), LEAST_WEIGHT)
        long = K1 * (1 - B + B * lengths.terms[rows] / (lengths.average or 1.0))
        return rows, weight * often * (K1 + 1) / (often + long)

    def _load_postings(self, stems: Iterable[str], *, wide: bool | None = None) -> None:
        """Load the postings of stems that were not loaded yet.

        `wide` chooses those of passages (False), of files (True) or both (None).
        """
        sides = (False, True) if wide is None else (wide,)
        stem_keys = {stem[:_LONGEST] for stem in stems} | {_LENGTHS}
        lacking = [stem for stem in stem_keys if any((side, stem) not in self._loaded for side in sides)]
        if not lacking:
            return
        parts: dict[tuple[bool, str], list[Keys]] = {
            (side, stem): [] for side in sides for stem in lacking if (side, stem) not in self._loaded
        }
        for side, stem, block, blob in self._ask(
            "SELECT wide, stem, block, held FROM hub.posting"
            " WHERE ws = %s AND wide = ANY(%s) AND stem = ANY(%s) ORDER BY block",
            (self._ws, [*sides], lacking),
        ):
            if (side, stem) in parts:
                keys = np.frombuffer(blob, "<u4").astype(np.int64) + (block << (_BLOCK_BITS + _PLACE_BITS))
                parts[side, stem].append(keys)
        none = np.zeros(0, np.int64)
        self._loaded |= {key: np.concatenate(some) if some else none for key, some in parts.items()}

    def _read_lengths(self, *, wide: bool) -> TermCounts:
        if wide not in self._lengths:
            self._load_postings((), wide=wide)
            keys = np.sort(self._loaded[wide, _LENGTHS])
            self._lengths[wide] = TermCounts(keys >> _PLACE_BITS, keys & _MOST_PLACES)
        return self._lengths[wide]

    def _list_newest(self, filter: Filter, limit: int | None) -> list[int]:
        """Return the ids of the passages that a filter allows, newest first; by id for a bare filter."""
        where, values = _make_where(filter)
        order = f"coalesce(c.moment, f.updated, '') DESC, {_PRECEDENCE}, f.path COLLATE \"C\", c.ord DESC"
        order = "c.id" if filter.bare else order
        rows = self._ask(
            f"SELECT c.id FROM {_JOINED} WHERE c.ws = %s AND {where} ORDER BY {order} LIMIT %s",
            (self._ws, *values, limit),
        )
        return [row[0] for row in rows]

    def _filter_ids(self, ids: list[int], filter: Filter, *, wide: bool) -> list[int]:
        """Return those of the ids that a filter allows, in the same order."""
        if filter == EVERYTHING or not ids:
            return ids
        where, values = _make_where(_filter_of_files(filter) if wide else filter)
        column, table = ("f", "hub.document f") if wide else ("c", _JOINED)
        rows = self._ask(
            f"SELECT {column}.id FROM {table} WHERE {column}.ws = %s AND {column}.id = ANY(%s) AND {where}",
            (self._ws, ids, *values),
        )
        seen = {row[0] for row in rows}
        return [id_ for id_ in ids if id_ in seen]

    def _stem_forms(self, phrase: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the stemmed forms of a phrase in the languages that the workspace uses most."""
        return self._stems.forms(phrase, languages.asked_in(self.row.languages.items()))

    def similar(self, word: str) -> list[SimilarTerm]:
        """Return the indexed terms that are similar to a word without matches, most similar first."""
        found = self._similar.get(word)
        if found is None:
            found = self._similar[word] = self._find_similar_terms(word)
            self._load_postings([each.term for each in found], wide=False)
        return found

    def _find_similar_terms(self, word: str) -> list[SimilarTerm]:
        forms = [form[0] for form in self._stem_forms((word,)) if len(form) == 1]
        in_use = [language for language, count in self.row.languages.items() if count > 0]
        likely = languages.asked_in(self.row.languages.items())
        others = {languages.stems((word,), each)[0] for each in in_use if each not in likely}
        found = similar.terms_like(
            forms,
            self._vocabulary((), [stem for other in sorted(others) for stem in self._stems.of(other)]),
            self._vocabulary,
            compounds=not languages.COMPOUNDING.isdisjoint(in_use),
            thorough=self._count_passages() <= similar.FEW_CHUNKS,
        )
        return [SimilarTerm(*each, mark_of((each[0],))) for each in found]

    def _vocabulary(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = ()) -> dict[str, int]:
        """Return the indexed terms in these ranges or among `terms`, each with its number of passages."""
        found: dict[str, int] = {}
        if ranges:
            found |= dict(
                self._ask(
                    "SELECT t.stem, t.seen FROM unnest(%s::text[], %s::text[]) AS r (low, high), LATERAL ("
                    "  SELECT p.stem, sum(p.seen)::int AS seen FROM hub.posting p"
                    "  WHERE p.ws = %s AND NOT p.wide AND p.stem >= r.low AND p.stem < r.high"
                    "  GROUP BY p.stem ORDER BY p.stem LIMIT %s) AS t",
                    ([low for low, _ in ranges], [high for _, high in ranges], self._ws, similar.MOST_TERMS),
                )
            )
        if terms:
            found |= dict(
                self._ask(
                    "SELECT stem, sum(seen)::int FROM hub.posting"
                    " WHERE ws = %s AND NOT wide AND stem = ANY(%s) GROUP BY stem",
                    (self._ws, [term for term in terms if term]),
                )
            )
        return found

    # ---------------------------------------------------------------- vectors

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> Nearest:
        """Return the passages nearest to a vector and the passages in `also`, with their cosines.

        The result is empty unless the model `made_by` made the vectors, with as many dimensions as the query.
        """
        dimension = int(self.row.settings.get("dimension", 0))
        if not dimension or self.row.settings.get("vectors") != made_by:
            return Nearest({}, {}, 0.0, 1.0, 0, 0, self._vectors_of)
        if dimension != len(query):
            return Nearest({}, {}, 0.0, 1.0, 1, dimension, self._vectors_of)
        near, mean, deviation, total = self._find_closest(query, filter, limit + SPARE)
        marks = self._read_vectors(near, also)
        wanted = {*also}
        known = [id_ for id_ in marks if id_ in self._vectors]
        exact = dict(zip(known, cosines_of(self._unpack_vectors(known), query), strict=True))
        hashes = {*near}
        chosen = sorted((id_ for id_ in known if marks[id_][1] in hashes), key=lambda id_: (-exact[id_], id_))
        if filter != EVERYTHING:
            chosen = self._filter_ids(chosen, filter, wide=False)
        ids = dict.fromkeys((*chosen[:limit], *(id_ for id_ in known if id_ in wanted)))
        return Nearest(
            {id_: exact[id_] for id_ in ids},
            {id_: marks[id_][0] for id_ in ids},
            mean,
            max(deviation, 1e-3),
            total,
            dimension,
            self._vectors_of,
        )

    def _find_closest(self, query: Any, filter: Filter, limit: int) -> tuple[list[bytes], float, float, int]:
        """Return the hashes of the nearest texts that the filter allows.

        Also return mean, standard deviation and number of the cosines of all texts. In a large workspace
        without a filter all of this is approximate.
        """
        vector = "[" + ",".join(f"{each:.6g}" for each in _pad(np.asarray(query, np.float32))) + "]"
        if filter == EVERYTHING and self.row.settings.get("hnsw") == "yes" and self._count_passages() > EXACT:
            return self._find_closest_approximately(vector, limit)
        where, values = ("true", ()) if filter == EVERYTHING else self._filter_texts(filter)
        rows = self._ask(
            "WITH near AS MATERIALIZED (SELECT v.text_sha,"
            " coalesce(nullif(v.vec::public.vector OPERATOR(public.<=>) %s::public.vector, 'NaN'), 1) AS away"
            " FROM hub.vector v WHERE v.ws = %s)"
            ", mean AS (SELECT avg(1 - away), coalesce(stddev_pop(1 - away), 0), count(*) FROM near)"
            f"SELECT mean.*, (SELECT array_agg(t.text_sha) FROM (SELECT text_sha FROM near WHERE {where}"
            " ORDER BY away LIMIT %s) t) FROM mean",
            (vector, self._ws, *values, limit),
        )
        mean, deviation, total, near = rows[0]
        return near or [], float(mean or 0.0), float(deviation), total

    def _filter_texts(self, filter: Filter) -> tuple[str, tuple[Any, ...]]:
        """Return an SQL condition for the texts of passages that a filter allows, and its values."""
        where, values = _make_where(filter)
        return (
            f"text_sha IN (SELECT c.text_sha FROM {_JOINED} WHERE c.ws = %s AND {where})",
            (self._ws, *values),
        )

    def _find_closest_approximately(self, vector: str, limit: int) -> tuple[list[bytes], float, float, int]:
        """Return the same as `_find_closest`, approximately, by the workspace's HNSW index."""
        self._connection.execute(
            f"SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = {SEARCHED};"
            f"SET LOCAL hnsw.max_scan_tuples = {MOST_SCANNED}; SET LOCAL enable_sort = off"
        )
        # The workspace's number is a literal: only then the planner uses the partial index of this workspace.
        near = self._ask(
            f"SELECT text_sha FROM hub.vector WHERE ws = {self._ws}"
            " ORDER BY vec OPERATOR(public.<=>) %s::public.halfvec LIMIT %s",
            (vector, limit),
        )
        self._connection.execute("SET LOCAL enable_sort = on")
        # Hashes are as good as random numbers, so the first rows in their order are a random sample.
        mean, deviation = self._ask(
            "SELECT avg(1 - away), coalesce(stddev_pop(1 - away), 0) FROM ("
            " SELECT coalesce(nullif(vec OPERATOR(public.<=>) %s::public.halfvec, 'NaN'), 1) AS away"
            " FROM (SELECT vec FROM hub.vector WHERE ws = %s ORDER BY text_sha LIMIT %s) s) d",
            (vector, self._ws, SAMPLED),
        )[0]
        return [row[0] for row in near], float(mean or 0.0), float(deviation), self._count_passages()

    def _read_vectors(self, near: Sequence[bytes], also: Iterable[int]) -> dict[int, tuple[Mark, bytes]]:
        """Return mark and text hash of each passage whose text hash is in `near` or whose id is in `also`.

        Their vectors are cached.
        """
        rows = self._ask(
            f"SELECT c.id, c.text_sha, {_MARK}, public.halfvec_send(v.vec)"
            f" FROM {_JOINED} LEFT JOIN hub.vector v ON v.ws = c.ws AND v.text_sha = c.text_sha"
            " WHERE c.ws = %s AND (c.text_sha = ANY(%s) OR c.id = ANY(%s))",
            (self._ws, [*near], [*also]),
        )
        self._vectors |= {row[0]: row[-1] for row in rows if row[-1] is not None}
        return {row[0]: (Mark._make((*row[2:7], Speech(*row[7:10]), row[10])), row[1]) for row in rows}

    def _vectors_of(self, ids: Sequence[int]) -> tuple[list[int], Any]:
        lacking = [id_ for id_ in ids if id_ not in self._vectors]
        if lacking:
            self._read_vectors((), lacking)
        known = [id_ for id_ in ids if id_ in self._vectors]
        return known, self._unpack_vectors(known)

    def _unpack_vectors(self, ids: Sequence[int]) -> Any:
        """Return the cached vectors of passages as an array of unit vectors."""
        dimension = int(self.row.settings.get("dimension", 0))
        numbers = np.frombuffer(b"".join(self._vectors[id_][4:] for id_ in ids), ">f2")
        return unpack(numbers.reshape(len(ids), DIMENSIONS)[:, :dimension].astype(np.int8))

    # ---------------------------------------------------------------- rows

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        """Return passages with the labels of their files by id, as far as the filter allows them.

        Without `text`, texts and headings may be empty.
        """
        wanted = [*dict.fromkeys(ids)]
        lacking = [id_ for id_ in wanted if id_ not in (self._whole if text else self._rows)]
        if lacking:
            columns = "c.body, c.heading" if text else "'', ''"
            rows = self._ask(
                "SELECT c.id, f.id, c.ord, f.item, f.path, f.source, f.kind, f.scope, f.scope_id, f.title,"
                f" f.key, f.num, f.type, f.tags, f.updated, c.start, c.last, {columns}, c.time, c.origin,"
                " c.superseded, c.alone, c.size, c.stems, c.speaker, c.asks, c.says, c.place"
                f" FROM {_JOINED} WHERE c.ws = %s AND c.id = ANY(%s)",
                (self._ws, lacking),
            )
            self._rows |= {row[0]: _row(row) for row in rows}
            self._whole |= {row[0] for row in rows if text}
        found = [id_ for id_ in wanted if id_ in self._rows]
        seen = {*self._filter_ids(found, filter, wide=False)}
        return {id_: self._rows[id_] for id_ in found if id_ in seen}

    def foreign(self, ids: Iterable[int]) -> set[int]:
        """Return those of the passages that are not in English."""
        if not {language for language, count in self.row.languages.items() if count > 0} - {ENGLISH}:
            return set()
        rows = self._ask(
            "SELECT id FROM hub.passage WHERE ws = %s AND id = ANY(%s) AND language <> %s",
            (self._ws, [*ids], ENGLISH),
        )
        return {row[0] for row in rows}

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        """Return the number of passages, and the number of passages with each word.

        With a filter, also count the files that it allows, and their passages without a vector.
        """
        forms_by_word = {word: self._stem_forms((word,)) for word in words}
        if forms_by_word:
            self._load_postings({stem for forms in forms_by_word.values() for form in forms for stem in form})
        seen = {word: self._frequency({form[0] for form in forms}) for word, forms in forms_by_word.items()}
        marks = {word: tuple(map(mark_of, forms)) for word, forms in forms_by_word.items()}
        row = self.row
        found = Stats(
            (0, row.version), {"made": str(self._ws), **row.settings}, self._count_passages(), seen, marks
        )
        if filter is None:
            return found
        where, values = _make_where(_filter_of_files(filter))
        files, indexed = self._ask(
            "SELECT count(*), count(*) FILTER (WHERE reason IS NULL) FROM hub.document f"
            f" WHERE f.ws = %s AND {where}",
            (self._ws, *values),
        )[0]
        where, values = _make_where(filter._replace(bare=True))
        waiting = self._ask(
            f"SELECT count(*) FROM {_JOINED} WHERE c.ws = %s AND {where}", (self._ws, *values)
        )[0][0]
        return found._replace(files=files, indexed=indexed, waiting=waiting)

    def count_files(self) -> tuple[int, int]:
        """Return the number of files, and the number of those that can be searched."""
        counted = "SELECT count(*), count(*) FILTER (WHERE reason IS NULL) FROM hub.document WHERE ws = %s"
        files, indexed = self._ask(counted, (self._ws,))[0]
        return files, indexed

    def places(self) -> list[Place]:
        """Return the places to which the indexed files belong."""
        rows = self._ask("SELECT DISTINCT scope, scope_id FROM hub.document WHERE ws = %s", (self._ws,))
        return [Place(Scope(scope), owner) for scope, owner in rows]

    def _count_passages(self) -> int:
        """Return the number of passages, which is the sum of the counts by language."""
        return sum(self.row.languages.values())

    @property
    def size(self) -> tuple[int, bool]:
        """The number of passages, and whether search is slow since a large workspace has no HNSW index."""
        total = self._count_passages()
        return total, total > EXACT and self.row.settings.get("hnsw") != "yes"

    def _frequency(self, stems: Iterable[str]) -> int:
        """Return the number of passages with any of the stems."""
        postings = [self._loaded[False, stem[:_LONGEST]] for stem in sorted(stems)]
        if not postings:
            return 0
        ids = np.unique(np.concatenate(postings) >> _PLACE_BITS)
        return int(np.isin(ids, self._read_lengths(wide=False).ids, assume_unique=True).sum())


def _is_unchanged(document: IndexDocument, known: Collection[tuple[str, str, str]]) -> bool:
    """Return whether the index has a document already, with the same content."""
    return document.pieces is None and document.reason is None and _identity(document) in known


def _identity(document: IndexDocument) -> tuple[str, str, str]:
    return document.item.id, str(document.item.place.scope), document.item.place.id


def _key_columns(keys: Sequence[Key]) -> tuple[list[bool], list[str], list[int]]:
    """Return the keys of rows of postings as three columns, for `unnest`."""
    return [key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys]


def _pack(places: Sequence[int]) -> bytes:
    return np.array(places, "<u4").tobytes()


def _hash_text(title: str, body: str) -> bytes:
    """Return the hash of a title and a text, under which their vector is stored."""
    return blake2b(f"{title}\0{body}".encode(), digest_size=16).digest()


def _pad(numbers: Any) -> list[float]:
    if len(numbers) > DIMENSIONS:
        raise IndexFailed(f"the hub keeps vectors of at most {DIMENSIONS} dimensions")
    return [*numbers.tolist(), *[0] * (DIMENSIONS - len(numbers))]


def _spell_vector(vector: bytes) -> str:
    """Return a packed vector as text for PostgreSQL; its whole numbers fit half floats exactly."""
    return "[" + ",".join(map(str, _pad(np.frombuffer(vector, np.int8)))) + "]"


def _group_by_length(forms: Sequence[Sequence[str]]) -> list[list[set[str]]]:
    """Group the forms of a phrase by their number of words; merge the words at each position."""
    sizes = dict.fromkeys(map(len, forms))
    return [
        [{*words} for words in zip(*(form for form in forms if len(form) == size), strict=True)]
        for size in sizes
    ]


def _row(cells: Sequence[Any]) -> ChunkRow:
    speech = Speech(cells[25], cells[26], cells[27])
    return ChunkRow._make((*cells[:13], tuple(cells[13]), *cells[14:25], speech, cells[28]))


def _filter_of_files(filter: Filter) -> Filter:
    """Return a filter without the conditions that only passages can meet."""
    return filter._replace(
        after=None, before=None, as_of=None, until=None, speakers=(), only=None, bare=False
    )


@functools.lru_cache(maxsize=64)
def _make_where(filter: Filter) -> tuple[str, tuple[Any, ...]]:
    """Return a filter as an SQL condition on passages `c` and their files `f`, with the values to bind."""
    clauses, values = ["true"], list[Any]()

    def add(clause: str, *bound: Any) -> None:
        clauses.append(clause)
        values.extend(bound)

    if filter.places is not None:
        scopes, ids = [str(place.scope) for place in filter.places], [place.id for place in filter.places]
        add("(f.scope, f.scope_id) IN (SELECT * FROM unnest(%s::text[], %s::text[]))", scopes, ids)
        add("f.root IN ('', %s)", filter.root)
    if filter.group:
        add("(f.source = 'memory' OR (f.source = 'pinned' AND right(f.path, 11) = '/context.md'))")
    if filter.bare:
        add("NOT EXISTS (SELECT FROM hub.vector v WHERE v.ws = c.ws AND v.text_sha = c.text_sha)")
    for clause, value in (
        ("f.tags @> %s::text[]", [*filter.tags] or None),
        ("strpos(f.path, %s) > 0", filter.path),
        ("f.type = %s", filter.type),
        ("f.key = ANY(%s::text[])", None if filter.keys is None else [*filter.keys]),
        ("f.source = ANY(%s::text[])", [*filter.sources] or None),
        ("f.item = ANY(%s::text[])", None if filter.items is None else [*filter.items]),
        ("coalesce(c.moment, f.updated, '') >= %s", filter.after),
        ("coalesce(c.moment, f.updated, '9') < %s", filter.before),
        ("(c.moment IS NULL OR c.moment <= %s)", filter.as_of),
        ("(c.ended IS NULL OR c.ended > %s)", filter.as_of),
        ("(c.moment IS NULL OR c.moment <= %s)", filter.until),
        ("coalesce(c.speaker, c.origin) = ANY(%s::text[])", [*filter.speakers] or None),
        ("c.id = ANY(%s::bigint[])", None if filter.only is None else [*filter.only]),
    ):
        if value is not None:
            add(clause, value)
    return " AND ".join(clauses), tuple(values)
