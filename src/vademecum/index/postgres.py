"""The index of a workspace in PostgreSQL: candidates come from its tables, ranking is that of every index.

Works inside a transaction that sees one workspace and no other. Words are found by a table of postings, since
full-text search there has no BM25 and cannot use its index under row-level security. Vectors are compared one
by one; a large workspace has an approximate index of its own, over nobody else's vectors.
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
from vademecum.index import languages, similar
from vademecum.index.base import EVERYTHING, ChunkRow, Filter, KnownFile, Mark, Nearest, SimilarTerm, Stats
from vademecum.index.sqlite import Stems, mark_of, new_stems, stems_version
from vademecum.index.vectors import cosines_of, unpack
from vademecum.index.words import ENGLISH, Speech
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vademecum.index.base import IndexDocument

    Keys = NDArray[np.int64]
    Key = tuple[bool, str, int]  # of a row of postings: wide, stem, block
    Embed = Callable[[Sequence[tuple[str, str]]], Sequence[bytes]]

EXACT = 50_000  # passages up to which every vector is compared
DIMENSIONS = 256  # that there is room for; a shorter vector ends in zeros, which change no cosine
K1, B = 1.2, 0.75  # of BM25, as SQLite has them
LEAST_WEIGHT = 1e-6  # of a word that nearly all passages hold
SPARE = 16  # vectors more than are asked for: those that are compared have rounded numbers
SEARCHED = 200  # neighbours that the approximate index keeps in view
MOST_SCANNED = 40_000  # of its vectors at most
SAMPLED = 5_000  # vectors that stand for all where there are many
_BLOCK, _PLACE = 10, 22  # bits: of a number in a row of postings, and of a place in a text
_MOST_PLACES = (1 << _PLACE) - 1
_LONGEST = 200  # characters of a stem: a key of an index has its limits
_LENGTHS = ""  # the stem whose places are lengths
_SCOPES = ", ".join(f"'{scope}'" for scope in Scope)
_PRECEDENCE = f"array_position(ARRAY[{_SCOPES}], f.scope)"
_JOINED = "hub.passage c JOIN hub.document f ON f.ws = c.ws AND f.id = c.file"
_MARK = "c.file, c.ord, f.source, c.superseded IS NOT NULL, c.alone, c.speaker, c.asks, c.says, c.size"
_STANDS = "ord, start, last, alone"  # what a passage has from its place in its file
_REST = (
    "body, heading, time, moment, origin, superseded, ended, speaker, asks, says, size, stems, place,"
    " language, head, said, text_sha"
)
_here = threading.local()


def stems_here() -> Stems:
    """What cuts texts in this thread: it answers one at a time."""
    made: Stems | None = getattr(_here, "stems", None)
    if made is None:
        made = _here.stems = new_stems()
    return made


class Lengths(NamedTuple):
    """Every passage, or file, with how many terms it has."""

    ids: Keys
    terms: Keys

    @property
    def average(self) -> float:
        """Of all of them."""
        return float(self.terms.sum()) / max(1, len(self.ids))


@dataclass(slots=True)
class Row:
    """What is kept of a whole workspace."""

    settings: dict[str, str]
    languages: dict[str, int]
    last_passage: int
    last_document: int
    version: int


@dataclass(slots=True)
class _Postings:
    """What becomes of postings: numbers that leave their rows, and places that are added to them."""

    gone: dict[Key, set[int]] = field(default_factory=dict)
    added: dict[Key, list[int]] = field(default_factory=dict)
    seen: dict[Key, int] = field(default_factory=dict)

    def change(
        self, id_: int, before: Sequence[str] | None, after: Sequence[str] | None, *, wide: bool
    ) -> None:
        """Let a passage or file be found by other terms, None meaning none; what stays is not touched."""
        block, number = id_ >> _BLOCK, id_ & ((1 << _BLOCK) - 1)
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
    """Where each term of a passage or file stands in it, with how many there are."""
    if terms is None:
        return {}
    first = number << _PLACE
    places: dict[str, list[int]] = {_LENGTHS: [first | min(len(terms), _MOST_PLACES)]}
    for at, term in enumerate(terms):
        places.setdefault(term[:_LONGEST], []).append(first | min(at, _MOST_PLACES))
    return places


class _Cut(NamedTuple):
    """A passage: where it stands in its file, and the rest of its row."""

    stands: tuple[Any, ...]  # columns of _STANDS
    rest: tuple[Any, ...]  # columns of _REST
    id: int = 0

    @property
    def said(self) -> tuple[str, str, str]:
        """What is searched: head, text and language."""
        body, (language, head, said, _) = self.rest[0], self.rest[-4:]
        return head, body if said is None else said, language


@dataclass(slots=True)
class _Passages:
    """What becomes of passages: some leave, some stand elsewhere in their file, some are new."""

    gone: list[int] = field(default_factory=list)
    moved: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    added: list[tuple[Any, ...]] = field(default_factory=list)
    said: list[tuple[int, _Cut | None, _Cut | None]] = field(default_factory=list)  # before and now
    left: list[bytes] = field(default_factory=list)  # texts that are perhaps no passage's any more
    texts: dict[bytes, tuple[str, str]] = field(default_factory=dict)  # of new ones, with their titles

    def replace(
        self, row: Row, file: int, before: Sequence[_Cut], after: Sequence[_Cut], title: str = ""
    ) -> None:
        """Put the passages of a file in the place of those it had.

        One that says something else has the number of one that is gone, so that fewer rows change.
        """
        same: dict[tuple[Any, ...], list[_Cut]] = {}
        for each in reversed(before):
            same.setdefault(each.rest, []).append(each)
        new = []
        for each in after:
            if not same.get(each.rest):
                new.append(each)
            elif (there := same[each.rest].pop()).stands != each.stands:
                self.moved.append((there.id, each.stands))
        gone = sorted((each for some in same.values() for each in some), key=attrgetter("id"))
        for was, now in zip_longest(gone, new):
            if was is None:
                row.last_passage += 1
            id_ = was.id if was else row.last_passage
            self.said.append((id_, was, now))
            for each, by in ((was, -1), (now, 1)):
                if each:
                    row.languages[each.said[2]] = row.languages.get(each.said[2], 0) + by
            if now:
                self.added.append((id_, file, *now.stands, *now.rest))
                self.texts[now.rest[-1]] = title, now.rest[0]
        self.gone += [each.id for each in gone]
        self.left += [each.rest[-1] for each in gone]


class PostgresIndex:
    """Files, passages, postings and vectors of one workspace."""

    patience: float | None = None
    reads = None

    def __init__(self, connection: Any, ws: int) -> None:
        self._connection, self._ws = connection, int(ws)
        self._stems = stems_here()
        self._removed: set[int] = set()  # numbers of passages and files that were taken out
        self._locked = False
        self._forget()

    @property
    def stemming(self) -> str:
        """What makes the stems that are put in now: with those of another version no word is found."""
        return stems_version()

    def _forget(self) -> None:
        """Forget what was read: it is of another state."""
        self._row: Row | None = None
        self._held: dict[tuple[bool, str], Keys] = {}
        self._lengths: dict[bool, Lengths] = {}
        self._rows: dict[int, ChunkRow] = {}
        self._whole: set[int] = set()  # of these, whose text was read
        self._vectors: dict[int, bytes] = {}
        self._cut_before: dict[tuple[str, str], str] = {}
        self._similar: dict[str, list[SimilarTerm]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Nothing is held but what the transaction holds."""

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        found: list[Any] = self._connection.execute(sql, values, binary=True).fetchall()
        return found

    # ---------------------------------------------------------------- the workspace

    @property
    def row(self) -> Row:
        """What is known of all of it."""
        if self._row is None:
            self._row = self._read_row("") or Row({}, {}, 0, 0, 0)
        return self._row

    def _read_row(self, how: str) -> Row | None:
        found = self._ask(
            "SELECT settings, languages, last_passage, last_document, version FROM hub.search"
            f" WHERE ws = %s{how}",
            (self._ws,),
        )
        return Row(*found[0]) if found else None

    def lock(self) -> Row:
        """The same for who changes something: nobody else does until the end of the transaction."""
        if self._locked and self._row is not None:
            return self._row
        found = self._read_row(" FOR UPDATE")
        if found is None:
            self._connection.execute(
                "INSERT INTO hub.search (ws) VALUES (%s) ON CONFLICT DO NOTHING", (self._ws,)
            )
            found = self._read_row(" FOR UPDATE")
        assert found is not None
        self._forget()
        self._row, self._locked = found, True
        return found

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Row]:
        """The row of the workspace while somebody changes it; after a failure it is read again."""
        row = self.lock()
        try:
            yield row
        except BaseException:
            self._forget()
            self._locked = False
            raise

    def _save(self, row: Row, settings: Mapping[str, str]) -> None:
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
        self._forget()
        self._row = row

    # ---------------------------------------------------------------- writing

    def known(self, filter: Filter) -> dict[str, KnownFile]:
        """Each file that it holds, by the id of its item."""
        where, values = _where(filter)
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
        """Take in files, vectors of chunks and settings; False when vectors have another dimension.

        With `embed`, which makes vectors of titles and texts, passages get theirs in the same step.
        """
        with self._changing() as row:
            here, coming = row.settings.get("dimension"), settings.get("dimension")
            if None not in (here, coming) and here != coming:
                return False
            passages, write = self._take_in(row, [*documents])
            made = {} if embed is None else self._embed(passages, embed)
            if made:
                settings = {**settings, "dimension": str(len(next(iter(made.values()))))}
            with self._connection.pipeline():  # nothing of this is waited for before all was sent
                write()
                self._put_texts(made)
                self._put_vectors([*vectors])
                self._save(row, settings)
        return True

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        """Take files out, None means every one; with `vectors`, forget those of all."""
        with self._changing() as row:
            if files is None:
                for table in ("posting", "vector", "passage", "document"):
                    self._connection.execute(f"DELETE FROM hub.{table} WHERE ws = %s", (self._ws,))
                row.languages.clear()
            elif gone := [*files]:
                postings = _Postings()
                self._remove(row, gone, postings)
                self._write(postings, self._rows_of(postings.gone))
            if vectors:
                self._connection.execute("DELETE FROM hub.vector WHERE ws = %s", (self._ws,))
                row.settings.pop("dimension", None)
            self._save(row, settings)

    def scrub(self) -> None:
        """Leave no stem of what this index has taken out, whatever made it: for who purges.

        Numbers are never given twice, so all that is not there now is gone for good.
        """
        living = {wide: {*self._lengths_of(wide=wide).ids.tolist()} for wide in (False, True)}
        rows = self._ask(
            "SELECT wide, stem, block, held FROM hub.posting WHERE ws = %s AND block = ANY(%s)",
            (self._ws, sorted({id_ >> _BLOCK for id_ in self._removed})),
        )
        postings = _Postings()
        for wide, stem, block, held in rows:
            numbers = np.unique(np.frombuffer(held, "<u4") >> _PLACE).tolist()
            gone = {each for each in numbers if (block << _BLOCK) + each not in living[wide]}
            if gone:
                postings.gone[wide, stem, block] = gone
        self._write(postings, self._rows_of(postings.gone))
        self._forget()

    def _take_in(self, row: Row, documents: Sequence[IndexDocument]) -> tuple[_Passages, Callable[[], None]]:
        """What becomes of passages when files take the place of what they were, and how to write it."""
        postings, passages = _Postings(), _Passages()
        if not documents:
            return passages, lambda: None
        rows = self._ask(
            "SELECT id, reason, item, scope, scope_id FROM hub.document WHERE ws = %b AND item = ANY(%b)",
            (self._ws, [each.item.id for each in documents]),
        )
        known = {found[2:]: found[:2] for found in rows}
        changed = {_identity(each): each for each in documents if each.pieces is not None or each.reason}
        held = self._passages_of([known[name][0] for name in changed if name in known])
        files = []
        for name, document in changed.items():
            if name not in known:
                row.last_document += 1
            file, reason = known.get(name, (row.last_document, "new"))
            files.append(self._file(file, document))
            before = None if reason is not None else held.get(file, [])
            after = None if document.reason is not None else self._cut(document)
            passages.replace(row, file, before or [], after or [], document.labels.title)
            postings.change(file, self._wide(before), self._wide(after), wide=True)
        for id_, was, now in passages.said:
            postings.change(id_, was and self._narrow(was), now and self._narrow(now), wide=False)
        rows_of = self._rows_of(postings.gone)

        def write() -> None:
            self._stamp([(known[_identity(each)][0], each) for each in documents if _is_seen(each, known)])
            self._put_files(files)
            self._put_passages(passages)
            self._write(postings, rows_of)

        return passages, write

    def _stamp(self, seen: Sequence[tuple[int, IndexDocument]]) -> None:
        """Note when files were last looked at that hold what they held."""
        for file, document in seen:
            self._connection.execute(
                "UPDATE hub.document SET stamp = %s WHERE ws = %s AND id = %s",
                ([*document.item.stamp], self._ws, file),
            )

    def _file(self, file: int, document: IndexDocument) -> tuple[Any, ...]:
        """The row of a file."""
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

    def _passages_of(self, files: Sequence[int]) -> dict[int, list[_Cut]]:
        """The passages of files as they are, in the order in which they stand there."""
        if not files:
            return {}
        rows = self._ask(
            f"SELECT file, id, {_STANDS}, {_REST} FROM hub.passage WHERE ws = %s AND file = ANY(%s)"
            " ORDER BY file, ord",
            (self._ws, [*files]),
        )
        return {
            file: [_Cut(each[2:6], each[6:], each[1]) for each in group]
            for file, group in groupby(rows, itemgetter(0))
        }

    def _cut(self, document: IndexDocument) -> list[_Cut]:
        """The passages of a file as they are to be."""
        pieces = document.pieces or ()
        return [
            _Cut(
                (order, piece.start, piece.last, len(pieces) == 1),
                (
                    *piece[2:9],
                    *(*piece.speech, *self._stems.sized(piece), piece.place, piece.language, piece.head),
                    *(None if piece.text == piece.body else piece.text,),
                    _hashed(document.labels.title, piece.body),
                ),
            )
            for order, piece in enumerate(pieces)
        ]

    def _put_passages(self, passages: _Passages) -> None:
        """Write what became of passages, and take out vectors that are no other passage's."""
        if passages.gone:
            self._connection.execute(
                "DELETE FROM hub.passage WHERE ws = %s AND id = ANY(%s)", (self._ws, passages.gone)
            )
        with self._connection.cursor() as cursor:
            if passages.moved:
                cursor.executemany(
                    "UPDATE hub.passage SET ord = %s, start = %s, last = %s, alone = %s"
                    " WHERE ws = %s AND id = %s",
                    [(*stands, self._ws, id_) for id_, stands in passages.moved],
                )
            if passages.added:
                names = f"ws, id, file, {_STANDS}, {_REST}"
                held = ", ".join(["%s"] * len(names.split(", ")))
                cursor.executemany(
                    f"INSERT INTO hub.passage ({names}) VALUES ({held})",
                    [(self._ws, *each) for each in passages.added],
                )
        if passages.left:
            self._connection.execute(
                "DELETE FROM hub.vector v WHERE v.ws = %(ws)s AND v.text_sha = ANY(%(gone)s) AND NOT EXISTS"
                " (SELECT FROM hub.passage c WHERE c.ws = %(ws)s AND c.text_sha = v.text_sha)",
                {"ws": self._ws, "gone": passages.left},
            )

    def _narrow(self, passage: _Cut) -> list[str]:
        """The terms of a passage."""
        head, text, language = passage.said
        return self._stems.terms(f"{head}\n{text}", language).split()

    def _terms(self, text: str, language: str) -> str:
        """The terms of a text; most passages of a file are the same before and after an edit."""
        found = self._cut_before.get((text, language))
        if found is None:
            found = self._cut_before[text, language] = self._stems.terms(text, language)
        return found

    def _wide(self, passages: Sequence[_Cut] | None) -> list[str] | None:
        """The terms of a file of several passages; a heading above ten of them counts once."""
        if passages is None or len(passages) == 1:
            return None
        parts = [each.said for each in passages]
        once = " ".join(dict.fromkeys(" ".join(head for head, _, _ in parts).split()))
        whole = [self._stems.terms(once), *(self._terms(text, of) for _, text, of in parts)]
        return " ".join(whole).split()

    def _remove(self, row: Row, files: Sequence[int], postings: _Postings) -> None:
        """Take files out, with their passages and words, and vectors that are no other passage's."""
        held, passages = self._passages_of(files), _Passages()
        whole = self._ask(
            "DELETE FROM hub.document WHERE ws = %s AND id = ANY(%s) RETURNING id, reason", (self._ws, files)
        )
        for file, reason in whole:
            before = None if reason is not None else held.get(file, [])
            passages.replace(row, file, before or [], [])
            postings.change(file, self._wide(before), None, wide=True)
        for id_, was, _ in passages.said:
            postings.change(id_, was and self._narrow(was), None, wide=False)
        self._put_passages(passages)
        self._removed.update(files, passages.gone)

    def _write(self, postings: _Postings, rows: Iterable[tuple[Key, int, bytes]]) -> None:
        """Bring the rows of postings up to date; given are those that something leaves, as they are."""
        both = {key: self._without(key, seen, held, postings) for key, seen, held in rows}
        empty = [key for key, (_, held) in both.items() if not held]
        if empty:
            self._connection.execute(
                "DELETE FROM hub.posting p"
                " USING unnest(%b::boolean[], %b::text[], %b::int[]) AS g (wide, stem, block)"
                " WHERE p.ws = %b AND (p.wide, p.stem, p.block) = (g.wide, g.stem, g.block)",
                (*_columns(empty), self._ws),
            )
        kept = {key: pair for key, pair in both.items() if pair[1]}
        self._upsert(kept, "held = EXCLUDED.held, seen = EXCLUDED.seen")
        new = {
            key: (postings.seen[key], _packed(places))
            for key, places in postings.added.items()
            if key not in both
        }
        self._upsert(new, "held = p.held || EXCLUDED.held, seen = p.seen + EXCLUDED.seen")

    def _rows_of(self, keys: Iterable[Key]) -> list[tuple[Key, int, bytes]]:
        wanted = [*keys]
        if not wanted:
            return []
        rows = self._ask(
            "SELECT p.wide, p.stem, p.block, p.seen, p.held"
            " FROM unnest(%b::boolean[], %b::text[], %b::int[]) AS g (wide, stem, block)"
            " JOIN hub.posting p ON p.ws = %b AND (p.wide, p.stem, p.block) = (g.wide, g.stem, g.block)",
            (*_columns(wanted), self._ws),
        )
        return [(row[:3], row[3], row[4]) for row in rows]

    @staticmethod
    def _without(key: Key, seen: int, held: bytes, postings: _Postings) -> tuple[int, bytes]:
        """A row of postings as it is to be, and how many it is about."""
        places, gone = np.frombuffer(held, "<u4"), [*postings.gone[key]]
        numbers = places >> _PLACE
        leaving = numbers == gone[0] if len(gone) == 1 else np.isin(numbers, gone)
        seen += postings.seen.get(key, 0) - len({*numbers[leaving].tolist()})
        return seen, places[~leaving].tobytes() + _packed(postings.added.get(key, ()))

    def _upsert(self, rows: Mapping[Key, tuple[int, bytes]], renewed: str) -> None:
        if not rows:
            return
        keys = sorted(rows)
        self._connection.execute(
            "INSERT INTO hub.posting AS p (ws, wide, stem, block, seen, held)"
            " SELECT %b, * FROM unnest(%b::boolean[], %b::text[], %b::int[], %b::int[], %b::bytea[])"
            f" ON CONFLICT (ws, wide, stem, block) DO UPDATE SET {renewed}",
            (self._ws, *_columns(keys), [rows[key][0] for key in keys], [rows[key][1] for key in keys]),
        )

    def _put_vectors(self, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Keep the vectors of chunks, each text's once; of a chunk that has left meanwhile, nothing."""
        if not vectors:
            return
        self._connection.execute(
            "INSERT INTO hub.vector (ws, text_sha, vec)"
            " SELECT DISTINCT ON (c.text_sha) c.ws, c.text_sha, g.vec::public.halfvec"
            " FROM unnest(%b::bigint[], %b::text[]) AS g (id, vec)"
            " JOIN hub.passage c ON c.ws = %b AND c.id = g.id"
            " ON CONFLICT (ws, text_sha) DO UPDATE SET vec = EXCLUDED.vec",
            ([id_ for id_, _ in vectors], [_spelled(vector) for _, vector in vectors], self._ws),
        )

    def _embed(self, passages: _Passages, embed: Embed) -> dict[bytes, bytes]:
        """The vectors of new texts that have none."""
        texts = passages.texts
        if not texts:
            return {}
        found = self._ask(
            "SELECT text_sha FROM hub.vector WHERE ws = %b AND text_sha = ANY(%b)", (self._ws, [*texts])
        )
        lacking = [*texts.keys() - {text for (text,) in found}]
        return dict(zip(lacking, embed([texts[each] for each in lacking]), strict=True)) if lacking else {}

    def _put_texts(self, vectors: Mapping[bytes, bytes]) -> None:
        """Keep the vectors of texts."""
        if not vectors:
            return
        self._connection.execute(
            "INSERT INTO hub.vector (ws, text_sha, vec)"
            " SELECT %b, text_sha, vec::public.halfvec"
            " FROM unnest(%b::bytea[], %b::text[]) AS g (text_sha, vec)",
            (self._ws, [*vectors], [*map(_spelled, vectors.values())]),
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
        """Chunks with any of some phrases, or with every one, the best first by their BM25."""
        if not phrases:
            return dict.fromkeys(self._newest(filter, limit), 0.0)
        alike = [[tuple(each)] if terms else self._forms(each) for each in phrases]
        if every and not all(alike):  # a word that is none stands nowhere
            return {}
        self._load({stem for forms in alike for form in forms for stem in form}, wide=wide)
        lengths = self._lengths_of(wide=wide)
        scores = np.zeros(len(lengths.ids))
        held = np.full(len(lengths.ids), every)
        for forms in alike:
            one = np.zeros(len(lengths.ids), np.bool_)
            for words in _as_one(forms):
                rows, weights = self._weighed(words, lengths, wide=wide)
                scores[rows] += weights
                one[rows] = True
            held = held & one if every else held | one
        found = np.flatnonzero(held)
        order = found[np.lexsort((lengths.ids[found], -scores[found]))]
        ids = self._seen(lengths.ids[order].tolist(), filter, wide=wide)
        best = dict(zip(lengths.ids[order].tolist(), scores[order].tolist(), strict=True))
        return {id_: best[id_] for id_ in ids[:limit]}

    def _weighed(self, words: list[set[str]], lengths: Lengths, *, wide: bool) -> tuple[Keys, Any]:
        """The rows of `lengths` in which some words stand together, and what that weighs in each."""
        starts: Keys | None = None
        for at, forms in enumerate(words):
            keys = np.concatenate([self._held[wide, form[:_LONGEST]] for form in sorted(forms)]) - at
            starts = keys if starts is None else np.intersect1d(starts, keys)
        if starts is None or not len(starts) or not len(lengths.ids):
            return np.zeros(0, np.int64), np.zeros(0)
        ids, counts = np.unique(starts >> _PLACE, return_counts=True)
        rows: Keys = np.minimum(np.searchsorted(lengths.ids, ids), len(lengths.ids) - 1)
        living = lengths.ids[rows] == ids
        rows, often = rows[living], counts[living].astype(np.float64)
        total, hits = len(lengths.ids), len(rows)
        weight = max(float(np.log((total - hits + 0.5) / (hits + 0.5))), LEAST_WEIGHT)
        long = K1 * (1 - B + B * lengths.terms[rows] / (lengths.average or 1.0))
        return rows, weight * often * (K1 + 1) / (often + long)

    def _load(self, stems: Iterable[str], *, wide: bool | None = None) -> None:
        """Read the postings of stems, of passages, files or both, that were not read yet."""
        sides = (False, True) if wide is None else (wide,)
        asked = {stem[:_LONGEST] for stem in stems} | {_LENGTHS}
        lacking = [stem for stem in asked if any((side, stem) not in self._held for side in sides)]
        if not lacking:
            return
        parts: dict[tuple[bool, str], list[Keys]] = {
            (side, stem): [] for side in sides for stem in lacking if (side, stem) not in self._held
        }
        for side, stem, block, held in self._ask(
            "SELECT wide, stem, block, held FROM hub.posting"
            " WHERE ws = %s AND wide = ANY(%s) AND stem = ANY(%s) ORDER BY block",
            (self._ws, [*sides], lacking),
        ):
            if (side, stem) in parts:
                keys = np.frombuffer(held, "<u4").astype(np.int64) + (block << (_BLOCK + _PLACE))
                parts[side, stem].append(keys)
        none = np.zeros(0, np.int64)
        self._held |= {key: np.concatenate(some) if some else none for key, some in parts.items()}

    def _lengths_of(self, *, wide: bool) -> Lengths:
        if wide not in self._lengths:
            self._load((), wide=wide)
            keys = np.sort(self._held[wide, _LENGTHS])
            self._lengths[wide] = Lengths(keys >> _PLACE, keys & _MOST_PLACES)
        return self._lengths[wide]

    def _newest(self, filter: Filter, limit: int | None) -> list[int]:
        """Chunks by their labels alone."""
        where, values = _where(filter)
        order = f"coalesce(c.moment, f.updated, '') DESC, {_PRECEDENCE}, f.path COLLATE \"C\", c.ord DESC"
        order = "c.id" if filter.bare else order
        rows = self._ask(
            f"SELECT c.id FROM {_JOINED} WHERE c.ws = %s AND {where} ORDER BY {order} LIMIT %s",
            (self._ws, *values, limit),
        )
        return [row[0] for row in rows]

    def _seen(self, ids: list[int], filter: Filter, *, wide: bool) -> list[int]:
        """Those that a filter lets through, in the order they came."""
        if filter == EVERYTHING or not ids:
            return ids
        where, values = _where(_of_files(filter) if wide else filter)
        column, table = ("f", "hub.document f") if wide else ("c", _JOINED)
        rows = self._ask(
            f"SELECT {column}.id FROM {table} WHERE {column}.ws = %s AND {column}.id = ANY(%s) AND {where}",
            (self._ws, ids, *values),
        )
        seen = {row[0] for row in rows}
        return [id_ for id_ in ids if id_ in seen]

    def _forms(self, phrase: Sequence[str]) -> list[tuple[str, ...]]:
        """What to look for when some words are asked for: their stems in the commonest languages."""
        return self._stems.forms(phrase, languages.asked_in(self.row.languages.items()))

    def similar(self, word: str) -> list[SimilarTerm]:
        """What is held in the place of a word that is not, the nearest first."""
        found = self._similar.get(word)
        if found is None:
            found = self._similar[word] = self._terms_like(word)
            self._load([each.term for each in found], wide=False)
        return found

    def _terms_like(self, word: str) -> list[SimilarTerm]:
        forms = [form[0] for form in self._forms((word,)) if len(form) == 1]
        held = [language for language, count in self.row.languages.items() if count > 0]
        spoken = languages.asked_in(self.row.languages.items())
        others = {languages.stems((word,), each)[0] for each in held if each not in spoken}
        found = similar.terms_like(
            forms,
            self._vocabulary((), [stem for other in sorted(others) for stem in self._stems.of(other)]),
            self._vocabulary,
            compounds=not languages.COMPOUNDING.isdisjoint(held),
            thorough=self._chunks() <= similar.FEW_CHUNKS,
        )
        return [SimilarTerm(*each, mark_of((each[0],))) for each in found]

    def _vocabulary(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = ()) -> dict[str, int]:
        """The terms from each beginning up to the next, and some others that are held, with their chunks."""
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
        """The chunks nearest to a vector, with the true cosines of others too; another model's are none."""
        dimension = int(self.row.settings.get("dimension", 0))
        if not dimension or self.row.settings.get("vectors") != made_by:
            return Nearest({}, {}, 0.0, 1.0, 0, 0, self._vectors_of)
        if dimension != len(query):
            return Nearest({}, {}, 0.0, 1.0, 1, dimension, self._vectors_of)
        near, mean, deviation, total = self._closest(query, filter, limit + SPARE)
        marks = self._read_vectors(near, also)
        wanted = {*also}
        known = [id_ for id_ in marks if id_ in self._vectors]
        exact = dict(zip(known, cosines_of(self._unpacked(known), query), strict=True))
        hashes = {*near}
        chosen = sorted((id_ for id_ in known if marks[id_][1] in hashes), key=lambda id_: (-exact[id_], id_))
        if filter != EVERYTHING:
            chosen = self._seen(chosen, filter, wide=False)
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

    def _closest(self, query: Any, filter: Filter, limit: int) -> tuple[list[bytes], float, float, int]:
        """The texts nearest to a vector, and how near all are: their mean, its deviation, their number."""
        asked = "[" + ",".join(f"{each:.6g}" for each in _padded(np.asarray(query, np.float32))) + "]"
        if filter == EVERYTHING and self.row.settings.get("hnsw") == "yes" and self._chunks() > EXACT:
            return self._approximate(asked, limit)
        where, values = ("true", ()) if filter == EVERYTHING else self._shown(filter)
        rows = self._ask(
            "WITH near AS MATERIALIZED (SELECT v.text_sha,"
            " coalesce(nullif(v.vec::public.vector OPERATOR(public.<=>) %s::public.vector, 'NaN'), 1) AS away"
            " FROM hub.vector v WHERE v.ws = %s)"
            ", mean AS (SELECT avg(1 - away), coalesce(stddev_pop(1 - away), 0), count(*) FROM near)"
            f"SELECT mean.*, (SELECT array_agg(t.text_sha) FROM (SELECT text_sha FROM near WHERE {where}"
            " ORDER BY away LIMIT %s) t) FROM mean",
            (asked, self._ws, *values, limit),
        )
        mean, deviation, total, near = rows[0]
        return near or [], float(mean or 0.0), float(deviation), total

    def _shown(self, filter: Filter) -> tuple[str, tuple[Any, ...]]:
        """That a text is one of a chunk that a filter lets through."""
        where, values = _where(filter)
        return (
            f"text_sha IN (SELECT c.text_sha FROM {_JOINED} WHERE c.ws = %s AND {where})",
            (self._ws, *values),
        )

    def _approximate(self, asked: str, limit: int) -> tuple[list[bytes], float, float, int]:
        """The same by the workspace's own index of neighbours, which goes on until it has found enough."""
        self._connection.execute(
            f"SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = {SEARCHED};"
            f"SET LOCAL hnsw.max_scan_tuples = {MOST_SCANNED}; SET LOCAL enable_sort = off"
        )
        # The number itself stands in the statement: only then the planner knows that the index is of these.
        near = self._ask(
            f"SELECT text_sha FROM hub.vector WHERE ws = {self._ws}"
            " ORDER BY vec OPERATOR(public.<=>) %s::public.halfvec LIMIT %s",
            (asked, limit),
        )
        self._connection.execute("SET LOCAL enable_sort = on")
        # Hashes are as good as random numbers: the first ones are a sample.
        mean, deviation = self._ask(
            "SELECT avg(1 - away), coalesce(stddev_pop(1 - away), 0) FROM ("
            " SELECT coalesce(nullif(vec OPERATOR(public.<=>) %s::public.halfvec, 'NaN'), 1) AS away"
            " FROM (SELECT vec FROM hub.vector WHERE ws = %s ORDER BY text_sha LIMIT %s) s) d",
            (asked, self._ws, SAMPLED),
        )[0]
        return [row[0] for row in near], float(mean or 0.0), float(deviation), self._chunks()

    def _read_vectors(self, near: Sequence[bytes], also: Iterable[int]) -> dict[int, tuple[Mark, bytes]]:
        """The marks of chunks by their texts or numbers, with those texts; their vectors are remembered."""
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
        return known, self._unpacked(known)

    def _unpacked(self, ids: Sequence[int]) -> Any:
        """Unit vectors of chunks, as every index has them."""
        dimension = int(self.row.settings.get("dimension", 0))
        numbers = np.frombuffer(b"".join(self._vectors[id_][4:] for id_ in ids), ">f2")
        return unpack(numbers.reshape(len(ids), DIMENSIONS)[:, :dimension].astype(np.int8))

    # ---------------------------------------------------------------- rows

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        """Chunks with their files' labels, of those only that a filter lets through."""
        wanted = [*dict.fromkeys(ids)]
        lacking = [id_ for id_ in wanted if id_ not in (self._whole if text else self._rows)]
        if lacking:
            shown = "c.body, c.heading" if text else "'', ''"
            rows = self._ask(
                "SELECT c.id, f.id, c.ord, f.item, f.path, f.source, f.kind, f.scope, f.scope_id, f.title,"
                f" f.key, f.num, f.type, f.tags, f.updated, c.start, c.last, {shown}, c.time, c.origin,"
                " c.superseded, c.alone, c.size, c.stems, c.speaker, c.asks, c.says, c.place"
                f" FROM {_JOINED} WHERE c.ws = %s AND c.id = ANY(%s)",
                (self._ws, lacking),
            )
            self._rows |= {row[0]: _row(row) for row in rows}
            self._whole |= {row[0] for row in rows if text}
        found = [id_ for id_ in wanted if id_ in self._rows]
        seen = {*self._seen(found, filter, wide=False)}
        return {id_: self._rows[id_] for id_ in found if id_ in seen}

    def foreign(self, ids: Iterable[int]) -> set[int]:
        """Those of some chunks that are not in English."""
        if not {language for language, count in self.row.languages.items() if count > 0} - {ENGLISH}:
            return set()
        rows = self._ask(
            "SELECT id FROM hub.passage WHERE ws = %s AND id = ANY(%s) AND language <> %s",
            (self._ws, [*ids], ENGLISH),
        )
        return {row[0] for row in rows}

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        """What is known of all, of some words, and of what a filter lets through."""
        asked = {word: self._forms((word,)) for word in words}
        if asked:
            self._load({stem for forms in asked.values() for form in forms for stem in form})
        seen = {word: self._frequency({form[0] for form in forms}) for word, forms in asked.items()}
        marks = {word: tuple(map(mark_of, forms)) for word, forms in asked.items()}
        row = self.row
        found = Stats((0, row.version), {"made": str(self._ws), **row.settings}, self._chunks(), seen, marks)
        if filter is None:
            return found
        where, values = _where(_of_files(filter))
        files, indexed = self._ask(
            "SELECT count(*), count(*) FILTER (WHERE reason IS NULL) FROM hub.document f"
            f" WHERE f.ws = %s AND {where}",
            (self._ws, *values),
        )[0]
        where, values = _where(filter._replace(bare=True))
        waiting = self._ask(
            f"SELECT count(*) FROM {_JOINED} WHERE c.ws = %s AND {where}", (self._ws, *values)
        )[0][0]
        return found._replace(files=files, indexed=indexed, waiting=waiting)

    def count_files(self) -> tuple[int, int]:
        """How many files it holds, and how many of them can be found."""
        counted = "SELECT count(*), count(*) FILTER (WHERE reason IS NULL) FROM hub.document WHERE ws = %s"
        files, indexed = self._ask(counted, (self._ws,))[0]
        return files, indexed

    def places(self) -> list[Place]:
        """The places that its files are of."""
        rows = self._ask("SELECT DISTINCT scope, scope_id FROM hub.document WHERE ws = %s", (self._ws,))
        return [Place(Scope(scope), owner) for scope, owner in rows]

    def _chunks(self) -> int:
        """How many passages there are: they are counted by their languages."""
        return sum(self.row.languages.values())

    @property
    def standing(self) -> tuple[int, bool]:
        """How many passages there are, and whether so many lack an index of their vectors."""
        total = self._chunks()
        return total, total > EXACT and self.row.settings.get("hnsw") != "yes"

    def _frequency(self, stems: Iterable[str]) -> int:
        """In how many chunks any of some stems stands."""
        held = [self._held[False, stem[:_LONGEST]] for stem in sorted(stems)]
        if not held:
            return 0
        ids = np.unique(np.concatenate(held) >> _PLACE)
        return int(np.isin(ids, self._lengths_of(wide=False).ids, assume_unique=True).sum())


def _is_seen(document: IndexDocument, known: Collection[tuple[str, str, str]]) -> bool:
    """Whether a file that is here holds what it held."""
    return document.pieces is None and document.reason is None and _identity(document) in known


def _identity(document: IndexDocument) -> tuple[str, str, str]:
    return document.item.id, str(document.item.place.scope), document.item.place.id


def _columns(keys: Sequence[Key]) -> tuple[list[bool], list[str], list[int]]:
    """Keys of postings, column by column."""
    return [key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys]


def _packed(places: Sequence[int]) -> bytes:
    return np.array(places, "<u4").tobytes()


def _hashed(title: str, body: str) -> bytes:
    """What stands for the text that a vector is made from."""
    return blake2b(f"{title}\0{body}".encode(), digest_size=16).digest()


def _padded(numbers: Any) -> list[float]:
    if len(numbers) > DIMENSIONS:
        raise IndexFailed(f"the hub keeps vectors of at most {DIMENSIONS} dimensions")
    return [*numbers.tolist(), *[0] * (DIMENSIONS - len(numbers))]


def _spelled(vector: bytes) -> str:
    """A packed vector as PostgreSQL reads it: whole numbers, which halves of floats keep exactly."""
    return "[" + ",".join(map(str, _padded(np.frombuffer(vector, np.int8)))) + "]"


def _as_one(forms: Sequence[Sequence[str]]) -> list[list[set[str]]]:
    """The forms of a phrase, each of its words being one word: by how many words they have."""
    sizes = dict.fromkeys(map(len, forms))
    return [
        [{*words} for words in zip(*(form for form in forms if len(form) == size), strict=True)]
        for size in sizes
    ]


def _row(cells: Sequence[Any]) -> ChunkRow:
    speech = Speech(cells[25], cells[26], cells[27])
    return ChunkRow._make((*cells[:13], tuple(cells[13]), *cells[14:25], speech, cells[28]))


def _of_files(filter: Filter) -> Filter:
    """What a filter says of files."""
    return filter._replace(after=None, before=None, as_of=None, only=None, bare=False)


@functools.lru_cache(maxsize=64)
def _where(filter: Filter) -> tuple[str, tuple[Any, ...]]:
    """A filter for passages `c` with their files `f`, as SQL; all values are bound."""
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
        ("c.id = ANY(%s::bigint[])", None if filter.only is None else [*filter.only]),
    ):
        if value is not None:
            add(clause, value)
    return " AND ".join(clauses), tuple(values)
