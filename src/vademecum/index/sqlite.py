"""The index in SQLite: chunks, two keyword tables and vectors in one database that may be deleted.

The narrow keyword table holds chunks, the wide one whole files; together they find more than one alone. Notes
and sessions each have such a database; for sessions it holds words and positions, never text. Every row comes
from a file and is removed with that file.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import apsw

from vademecum.errors import IndexFailed, IndexNewer
from vademecum.index import languages, pages, similar, words
from vademecum.index.base import (
    EVERYTHING,
    MEMORY,
    PINNED,
    ChunkRow,
    Filter,
    KnownFile,
    Nearest,
    SimilarTerm,
    Stats,
)
from vademecum.index.reads import ReaderVectors
from vademecum.index.words import ENGLISH, Speech
from vademecum.named_tuple import NamedTuple
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.index.base import IndexDocument, Labels, Piece
    from vademecum.index.vectors import Matrix

VERSION = 5  # of the tables and of what they take out of files; an index of another version is made anew
_MARK = 4  # bytes of a stem's mark
_MOST_WORDS = 200_000  # words whose stems are cached
_MOST_HEADS = 1_000  # heads whose terms are cached
# New chunks after which the keyword tables are optimized: a number, and a share of all.
_FEW, _MANY = 100, 0.1
# The tables store stems, so that queries name terms as stored; vowel signs belong to words.
_CATEGORIES = "L* N* Co Mn Mc"
_TOKENIZER = f"unicode61 remove_diacritics 2 categories '{_CATEGORIES}'"
_STEMMING = ("porter", ["unicode61", "remove_diacritics", "2", "categories", _CATEGORIES])
_ALIKE = "|"  # between the forms of one word in a query
# Errors of the file itself; all others come from the disk, other processes or this program.
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SchemaChangeError, apsw.SQLError)


class IndexKind(NamedTuple):
    """The kind of content that an index has: notes or sessions."""

    called: str
    scanned: str  # the message while the index is left alone
    mark: int = 0  # in the header, so that no other database is taken for an index
    grows: bool = False  # files grow at their end, and no text is stored
    cache: int = 65536  # KiB of cached pages
    ties: str = ""  # the order of equal matches


NOTES = IndexKind("the index", "searched by scanning files, without the index")
# The newest session first, then the last line, whatever the order of writing.
SESSIONS = IndexKind(
    "the sessions' index",
    "sessions were searched by scanning files, without their index",
    0x76616466,
    grows=True,
    cache=32768,
    ties=", f.updated desc, f.scope_id, f.key, c.start desc, c.ord",
)

_SCHEMA = f"""
create table meta(
    key text primary key,
    value text
) without rowid;
create table files(
    id integer primary key autoincrement,
    item text not null,
    path text not null,
    source text not null,
    kind text not null,
    scope text not null,
    scope_id text not null,
    root text not null,
    hash text not null,
    size integer not null,
    mtime integer not null,
    ctime integer not null,
    inode integer not null,
    reason text,
    title text not null default '',
    key text,
    num integer,
    type text,
    tags text not null default '[]',
    updated text,
    unique(item, scope, scope_id)
);
create index files_place on files(scope, scope_id);
create table chunks(
    id integer primary key autoincrement,
    file integer not null,
    ord integer not null,
    start integer not null,
    last integer not null,
    body text not null,
    heading text not null,
    time text,
    moment text,
    origin text,
    superseded text,
    ended text,
    alone integer not null,
    size integer not null,
    stems blob not null,
    speaker text,
    asks integer,
    says integer,
    language text
);
create index chunks_file on chunks(file, ord, moment, ended);
create table languages(
    language text primary key,
    chunks integer not null
) without rowid;
create table vectors(
    chunk integer primary key,
    vector blob not null
);
create table waiting(
    chunk integer primary key
);
create virtual table narrow using fts5(
    body,
    content='', contentless_delete=1, tokenize="{_TOKENIZER}"
);
create virtual table wide using fts5(
    body,
    content='', contentless_delete=1, tokenize="{_TOKENIZER}"
);
create virtual table vocabulary using fts5vocab('narrow', 'row');
create virtual table narrow_words using fts5vocab('narrow', 'instance');
create virtual table wide_words using fts5vocab('wide', 'instance');
"""
# Columns of sessions: where indexing continues, and where a passage stands in its file.
_GROWING = """
alter table files add column state text not null default '';
alter table chunks add column place blob not null default x'';
"""

_ORDER = " ".join(f"when '{scope}' then {at}" for at, scope in enumerate(Scope))
_PRECEDENCE = f"case f.scope {_ORDER} end"
_JOINED = "chunks c join files f on f.id = c.file"
_WAITING = "waiting w join chunks c on c.id = w.chunk join files f on f.id = c.file"
_LABELS = "title, key, num, type, tags, updated"
# A group sees records and the project's `context.md`: no journal, no source, no other document.
_FOR_GROUPS = f"(f.source = '{MEMORY}' or (f.source = '{PINNED}' and f.path like '%/context.md'))"


def is_damage(error: BaseException) -> bool:
    """Return whether a failure comes from a damaged index file, so that making the file anew repairs it."""
    cause = error if isinstance(error, apsw.Error) else error.__cause__
    return cause is None or isinstance(cause, _DAMAGE)


class SqliteIndex:
    """An index in an open SQLite database; every failure raises `IndexFailed`."""

    def __init__(self, path: Path | str, kind: IndexKind = NOTES) -> None:
        self.path, self.kind = path, kind
        self._file = str(path)
        self._inserted = 0  # chunks added since the keyword tables were optimized
        self._matrix: Matrix | None = None
        self._asked_in: tuple[str, ...] | None = None
        self._frequencies: dict[str, int] = {}
        self._frequencies_of: tuple[int, int] | None = None
        self._frozen = False  # inside `with index:` several questions see one state
        self._seen: tuple[int, int] | None = None  # the version that the next five fields belong to
        self._count: int | None = None
        self._settings: dict[str, str] | None = None
        self._hiding: dict[Filter, bool] = {}
        self._masks: dict[Filter, Any] = {}
        self._similar: dict[str, list[SimilarTerm]] = {}
        with self._reported("opened"):
            self._connection = self._opened()
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        self._vectors = VectorTable(self._connection)
        self.reads = ReaderVectors(self)

    def _opened(self) -> apsw.Connection:
        path = str(self.path)
        if path == ":memory:":
            connection = apsw.Connection(path)
        else:
            pages.damage(path)  # forget damage of an earlier file
            self._refuse_newer(pages.version_of(path))
            connection = pages.connect(path)
        connection.set_busy_timeout(pages.BUSY_MS)
        if path != ":memory:":
            connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
        connection.execute(
            f"pragma trusted_schema = off; pragma cache_size = -{self.kind.cache}; pragma temp_store = memory"
        ).fetchall()
        self._stems = Stems(connection)
        # This replaces the tokenizer that the tables name: they get words that are stemmed already, and
        # only a tokenizer can declare several forms one word, as rare as all of them together.
        connection.register_fts5_tokenizer("unicode61", _tokens_as_given)
        return connection

    def _prepare(self) -> None:
        """Make the tables in a new file; raise an error when another version made the file."""
        found = int(self._value("pragma user_version"))
        self._refuse_newer(found)
        if found not in (0, VERSION) or (found and self._value("pragma application_id") != self.kind.mark):
            raise IndexFailed(f"{self.kind.called} {self.path} was made by an older version of vade")
        if not found:
            with self._writing():
                if self._value("pragma user_version") == 0:
                    self._connection.execute(_SCHEMA + (_GROWING if self.kind.grows else ""))
                    self._connection.execute(f"pragma application_id = {self.kind.mark}")
                    # Ids of another file are other chunks.
                    self._remember({"made": os.urandom(16).hex()})
                    self._connection.execute(f"pragma user_version = {VERSION}")

    def _refuse_newer(self, version: int) -> None:
        if version > VERSION:
            raise IndexNewer(f"{self.kind.called} {self.path} was made by a newer version of vade")

    def close(self) -> None:
        """Close the file; on a full or read-only disk, SQLite's log stays beside the file."""
        with contextlib.suppress(apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.FullError):
            self._connection.close()

    def abandon(self) -> None:
        """Close a file that was deleted or replaced, without touching the file that replaced it."""
        with contextlib.suppress(apsw.Error):
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.close()

    # ---------------------------------------------------------------- transactions

    @property
    def patience(self) -> float | None:
        """The seconds that a call may wait for other processes; None is the default."""
        return self._patience

    @patience.setter
    def patience(self, seconds: float | None) -> None:
        self._patience = seconds
        usual = pages.BUSY_MS
        self._connection.set_busy_timeout(
            usual if seconds is None else max(1, min(usual, int(seconds * 1000)))
        )

    _patience: float | None = None
    stemming = ""  # the file carries its version

    def __enter__(self) -> SqliteIndex:
        with self._reported("read"):
            self._connection.execute("begin")
        self._look()
        self._frozen = True
        return self

    def __exit__(self, *error: object) -> None:
        self._frozen = False
        self._end()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Run the block in one transaction, which is rolled back if the block fails.

        The transaction takes the write lock at once, so that it cannot fail half-way because of a lock.
        """
        with self._reported("written"):
            self._connection.execute("begin immediate")
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                self._end()
                raise

    def _end(self) -> None:
        """Roll the transaction back, unless SQLite has ended it already, as on a full disk."""
        if self._connection.in_transaction:
            self._connection.execute("rollback")

    @contextlib.contextmanager
    def _reported(self, done: str) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise IndexFailed(f"{self.kind.called} {self.path} cannot be {done}: {error}") from error

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query; raise IndexFailed for an error or for damage that SQLite hides."""
        try:
            found: list[Any] = self._connection.execute(sql, tuple(values)).fetchall()
        except apsw.Error as error:
            raise IndexFailed(f"{self.kind.called} {self.path} cannot be read: {error}") from error
        damage = pages.damage(self._file)
        if damage is not None:
            raise IndexFailed(damage)
        return found

    def _value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first column of a query's first row; None without rows."""
        found = self._ask(sql, values)
        return found[0][0] if found else None

    def _look(self) -> tuple[int, int]:
        """Return the version of the content, and clear the caches if the version has changed."""
        if self._frozen and self._seen is not None:
            return self._seen
        version = (int(self._value("pragma data_version")), self._connection.total_changes())
        if version != self._seen:
            self._seen, self._count, self._settings = version, None, None
            self._asked_in = None
            self._hiding.clear()
            self._masks.clear()
            self._similar.clear()
        return version

    def _meta(self) -> dict[str, str]:
        self._look()
        if self._settings is None:
            self._settings = {key: str(value) for key, value in self._ask("select key, value from meta")}
        return self._settings

    def _remember(self, settings: Mapping[str, str]) -> None:
        self._connection.executemany("insert or replace into meta values(?, ?)", settings.items())

    # ---------------------------------------------------------------- writing

    def known(self, filter: Filter) -> dict[str, KnownFile]:
        """Return the stored files that a filter allows, by the ids of their items."""
        where, values = _files_where(filter)
        state = "f.state" if self.kind.grows else "''"
        rows = self._ask(
            f"""select item, id, hash, size, mtime, ctime, inode, reason, path, source, kind, root, {state}
            from files f
            where {where}""",
            values,
        )
        made = functools.partial(tuple.__new__, KnownFile)  # a third faster for many thousands of files
        return {row[0]: made((row[1], row[2], row[3:7], row[7], row[8:12], row[12])) for row in rows}

    def put(
        self,
        documents: Iterable[IndexDocument] = (),
        *,
        vectors: Iterable[tuple[int, bytes]] = (),
        settings: Mapping[str, str] = {},
        last: bool = False,
    ) -> bool:
        """Store files, vectors and settings in one transaction; return False if another process wrote first.

        With `last`, the keyword tables are optimized if many chunks were added.
        """
        if documents or vectors or settings:
            try:
                with self._vectors.undone_on_failure(), self._writing():
                    self._refuse_other_lengths(settings)
                    for document in documents:
                        self._put(document)
                    self._vectors.put(vectors)
                    self._remember(settings)
            except _OutrunError:
                return False
        if last and self._inserted > max(_FEW, self._chunks() * _MANY):
            self._tidy()
        return True

    def _refuse_other_lengths(self, settings: Mapping[str, str]) -> None:
        """Raise an error if new vectors have another length than the stored ones: they cannot be compared."""
        here, coming = self._meta().get("dimension"), settings.get("dimension")
        if None not in (here, coming) and here != coming:
            raise _OutrunError

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        """Remove some files from the index (None: all files); with `vectors`, remove all vectors as well.

        The `settings` are stored in the same transaction.
        """
        with self._vectors.undone_on_failure(), self._writing():
            for file in [row[0] for row in self._ask("select id from files")] if files is None else files:
                self._remove_chunks(file)
                self._connection.execute("delete from files where id = ?", (file,))
            if vectors:
                self._vectors.forget()
            self._remember(settings)

    def _put(self, document: IndexDocument) -> None:
        item = document.item
        identity = (item.id, str(item.place.scope), item.place.id)
        row = self._connection.execute(
            "select id, title, tags, source, kind from files where item = ? and scope = ? and scope_id = ?",
            identity,
        ).fetchone()
        if document.grown is not None:
            self._append(document, row)
        elif document.reason is not None:
            self._remove_chunks(self._put_file(document))
        elif document.pieces is None:
            self._connection.execute(
                """update files set hash = ?, size = ?, mtime = ?, ctime = ?, inode = ?
                where item = ? and scope = ? and scope_id = ?""",
                (document.hash, *item.stamp, *identity),
            )
        else:
            self._replace(document, document.pieces, row)

    def _replace(
        self, document: IndexDocument, pieces: Sequence[Piece], known: tuple[Any, ...] | None
    ) -> None:
        """Store a file and its chunks in place of the earlier ones; unchanged first chunks stay."""
        same_count = 0 if known is None else self._unchanged(known, document, pieces)
        file = self._put_file(document)
        if known is not None:
            if same_count and same_count == len(pieces):
                return
            self._remove_chunks(file, same_count)
        cuts = [self._stems.cut(each.text, each.language) for each in pieces]
        self._add(file, pieces[same_count:], same_count, cuts[same_count:], alone=len(pieces) == 1)
        if len(pieces) == 1:  # the only chunk of a file stands in both tables
            return
        # A heading above ten chunks counts once.
        once = " ".join(dict.fromkeys(" ".join(each.head for each in pieces).split()))
        whole = [self._stems.terms(once), *(self._stems.joined(each) for each in cuts)]
        self._connection.execute("insert into wide(rowid, body) values(?, ?)", (file, " ".join(whole)))

    def _append(self, document: IndexDocument, known: tuple[Any, ...] | None) -> None:
        """Append the new chunks of a file; raise an error if another process has changed the file's rows."""
        if known is None:
            before, state = 0, ""
        else:
            before = int(
                self._value("select coalesce(max(ord) + 1, 0) from chunks where file = ?", known[:1])
            )
            state = str(self._value("select state from files where id = ?", known[:1]))
        if state != document.grown:
            raise _OutrunError
        file = self._put_file(document)
        self._connection.execute("update files set state = ? where id = ?", (document.state, file))
        pieces = document.pieces or ()
        self._add(file, pieces, before, [self._stems.cut(each.text, each.language) for each in pieces])

    def _add(
        self,
        file: int,
        pieces: Sequence[Piece],
        before: int,
        cuts: Sequence[TermsCut],
        *,
        alone: bool = False,
    ) -> None:
        """Add chunks, whose texts were cut into terms, after the first `before` chunks of a file.

        `alone` says that the added chunk is the only one of its file.
        """
        self._inserted += len(pieces)
        first = 1 + int(self._value("select seq from sqlite_sequence where name = 'chunks'") or 0)
        ids = range(first, first + len(pieces))
        place = ", place" if self.kind.grows else ""
        self._connection.executemany(
            f"""insert into chunks(id, file, ord, start, last, body, heading, time, moment, origin,
            superseded, ended, speaker, asks, says, language, alone, size, stems{place})
            values({", ".join("?" * (20 if place else 19))})""",
            [
                (
                    id_,
                    file,
                    before + at,
                    *piece[:9],
                    *piece.speech,
                    piece.language,
                    alone,
                    *self._stems.sized(piece),
                    *((piece.place,) if place else ()),
                )
                for at, (id_, piece) in enumerate(zip(ids, pieces, strict=True))
            ],
        )
        self._put_words(zip(ids, pieces, cuts, strict=True))
        self._connection.executemany("insert into waiting values(?)", [(id_,) for id_ in ids])

    def _put_words(self, pieces: Iterable[tuple[int, Piece, TermsCut]]) -> None:
        """Store the words of chunks, and count the chunks of each language."""
        rows = []
        counts: dict[str, int] = {}
        for id_, piece, cut in pieces:
            rows.append((id_, self._stems.joined(self._stems.cut_head(piece.head, piece.language), cut)))
            counts[piece.language] = counts.get(piece.language, 0) + 1
        self._connection.executemany("insert into narrow(rowid, body) values(?, ?)", rows)
        self._count_languages(counts.items())

    def _count_languages(self, counts: Iterable[tuple[str, int]]) -> None:
        self._connection.executemany(
            """insert into languages values(?, ?)
            on conflict(language) do update set chunks = chunks + excluded.chunks""",
            counts,
        )

    def _put_file(self, document: IndexDocument) -> int:
        """Store the row of a file in place of its earlier row, and return the id of the row."""
        item, labels = document.item, document.labels
        made = self._value(
            f"""insert into files(item, scope, scope_id, path, source, kind, root, hash, size, mtime, ctime,
            inode, reason, {_LABELS})
            values({", ".join("?" * 19)})
            on conflict(item, scope, scope_id) do update set
            path = excluded.path, source = excluded.source, kind = excluded.kind, root = excluded.root,
            hash = excluded.hash, size = excluded.size, mtime = excluded.mtime, ctime = excluded.ctime,
            inode = excluded.inode, reason = excluded.reason, title = excluded.title, key = excluded.key,
            num = excluded.num, type = excluded.type, tags = excluded.tags, updated = excluded.updated
            returning id""",
            (
                item.id,
                str(item.place.scope),
                item.place.id,
                *item.labels,
                document.hash,
                *item.stamp,
                document.reason,
                *labels[:4],
                _tags(labels),
                labels.updated,
            ),
        )
        return int(made)

    def _unchanged(self, known: tuple[Any, ...], document: IndexDocument, cut: Sequence[Piece]) -> int:
        """Return how many of a file's first chunks can stay; none if the file's labels have changed."""
        item, labels = document.item, document.labels
        if known[1:] != (labels.title, _tags(labels), item.source, item.kind):
            return 0
        before = self._ask(
            """select start, last, body, heading, time, origin, superseded from chunks
            where file = ?
            order by ord""",
            known[:1],
        )
        same = 0
        for row, now in zip(before, cut, strict=False):
            if row != (*now[:5], now.origin, now.superseded):
                break
            same += 1
        if same == len(cut) == len(before):
            return same
        return (
            min(same, len(cut) - 1) if same > 1 else 0
        )  # the first chunk may have been the only one, or is so now

    def _remove_chunks(self, file: int, first: int = 0) -> None:
        """Remove the chunks of a file except for the first `first`, and remove its row in the wide table."""
        rows = self._ask("select id, language from chunks where file = ? and ord >= ?", (file, first))
        ids = [row[0] for row in rows]
        each = [(id_,) for id_ in ids]
        self._count_languages((language, -1) for _, language in rows if language is not None)
        for table, column in (("narrow", "rowid"), ("waiting", "chunk"), ("chunks", "id")):
            self._connection.executemany(f"delete from {table} where {column} = ?", each)
        self._connection.execute("delete from wide where rowid = ?", (file,))
        self._vectors.remove(ids)

    def _tidy(self) -> None:
        """Merge the parts of the keyword tables that many small writes left, so that lookups are fast."""
        with self._writing():
            for table in ("narrow", "wide"):
                self._connection.execute(f"insert into {table}({table}) values('optimize')")
        self._inserted = 0

    # ---------------------------------------------------------------- reading

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

        With `wide`, return files instead of chunks. With `terms`, the phrases consist of stored terms.
        Without phrases, return the newest chunks.
        """
        # BM25 is called by name: sorting by FTS5's `rank` column prepares a statement for every query.
        most = -1 if limit is None else limit
        if not phrases:
            return dict.fromkeys(self._newest(filter, most), 0.0)
        alike = [[phrase] if terms else self._forms_of(phrase) for phrase in phrases]
        parts = [_as_one(forms) for forms in alike if forms]
        if not parts or (every and len(parts) < len(alike)):  # an empty word matches nothing
            return {}
        expression = ") AND (".join(parts).join("()") if every else " OR ".join(parts)
        hiding = self._leaves_out(filter)
        if wide:
            where, values = _files_where(filter) if hiding else ("", ())
            seen = f"and exists (select 1 from files f where f.id = wide.rowid and {where})" if where else ""
            sql = f"select rowid, -bm25(wide) from wide where wide match ? {seen} order by 2 desc limit ?"
        elif hiding or self.kind.ties:
            where, values = _where(filter)
            sql = f"""select narrow.rowid, -bm25(narrow) from narrow
                join chunks c on c.id = narrow.rowid
                join files f on f.id = c.file
                where narrow match ? and {where}
                order by 2 desc{self.kind.ties}
                limit ?"""
        else:
            sql = "select rowid, -bm25(narrow) from narrow where narrow match ? order by 2 desc limit ?"
            values = ()
        return dict(self._ask(sql, (expression, *values, most)))

    def _newest(self, filter: Filter, limit: int) -> list[int]:
        """Return the newest chunks that a filter allows; with a `bare` filter, the chunks indexed first."""
        where, values = _where(filter)
        table, order = _JOINED, f"coalesce(c.moment, f.updated, '') desc, {_PRECEDENCE}, f.path, c.ord desc"
        if filter.bare:
            table, order = _WAITING, "w.chunk"
        rows = self._ask(f"select c.id from {table} where {where} order by {order} limit ?", (*values, limit))
        return [row[0] for row in rows]

    def _leaves_out(self, filter: Filter) -> bool:
        """Return whether a filter leaves out any row; if it does not, no row has to be checked."""
        if filter == EVERYTHING:
            return False
        if filter.only is not None:
            return True  # nearly always; each question has others, so no answer would be used again
        self._look()
        found = self._hiding.get(filter)
        if found is None:
            where, values = _where(filter)
            table = "files f" if filter.by_file else _JOINED
            sql = f"select exists (select 1 from {table} where ({where}) is not true)"
            found = self._hiding[filter] = bool(self._value(sql, values))
        return found

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> Nearest:
        """Return the chunks nearest to a query vector, and the exact cosines of the chunks `also`.

        Vectors that another model made never match.
        """
        if self._matrix is None:
            from vademecum.index.vectors import Matrix  # loads numpy, which a search by words does not need

            self._matrix = Matrix()
        matrix = self._matrix
        with self._reported("read"):
            matrix.refresh(self._vectors, self._look(), self._meta(), made_by)
        mask = None
        if self._leaves_out(filter):
            mask = self._masks.get(filter)
            if mask is None:
                mask = self._masks[filter] = self._mask(filter, matrix)
        return matrix.search(query, limit, allowed=mask, also=also)

    def _mask(self, filter: Filter, matrix: Matrix) -> Any:
        """Return which rows of the matrix a filter allows as answers."""
        where, values = _where(filter)
        column, table = ("f.id", "files f") if filter.by_file else ("c.id", _JOINED)
        ids = [row[0] for row in self._ask(f"select {column} from {table} where {where}", values)]
        return matrix.mask(files=ids) if filter.by_file else matrix.mask(chunks=ids)

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        """Return the chunks with these ids that a filter allows; without `text`, only what ranking needs."""
        where, values = _where(filter)
        columns = _RANKED
        if text:
            columns = _WHOLE + (", c.place" if self.kind.grows else ", x''")
        # The cross join makes SQLite begin with the ids, and not with all chunks of the places.
        found = self._ask(
            f"""select c.id, f.id, c.ord, {columns}
            from chunks c cross join files f on f.id = c.file
            where c.id in (select value from json_each(?)) and {where}""",
            (json.dumps([*ids]), *values),
        )
        make = _row if text else _ranked
        return {row[0]: make(row) for row in found}

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        """Return the index's settings and number of chunks, and how many chunks contain each of `words`.

        With a `filter`, also count the files that it allows; with a `bare` filter, count the allowed chunks
        that have no vector instead.
        """
        found = Stats(self._look(), self._meta(), self._chunks())
        word_list = [*words]
        if word_list:
            seen = {word: self._frequency(word) for word in word_list}
            found = found._replace(seen=seen, marks={word: self._marks_of(word) for word in word_list})
        if filter is None:
            return found
        if filter.bare:
            where, values = _where(filter)
            waiting = self._value(f"select count(*) from {_WAITING} where {where}", values)
            return found._replace(waiting=waiting)
        where, values = _files_where(filter)
        counted = f"select count(*), count(*) filter (where reason is null) from files f where {where}"
        files, indexed = self._ask(counted, values)[0]
        return found._replace(files=files, indexed=indexed)

    def _where(self, filter: Filter) -> tuple[str, tuple[Any, ...]]:
        """Return a filter on chunks and their files as an SQL condition with its values."""
        return _where(filter)

    def _chunks(self) -> int:
        """Return the number of chunks in the index."""
        self._look()
        if self._count is None:
            self._count = int(self._value("select count(*) from chunks"))
        return self._count

    def _frequency(self, word: str) -> int:
        """Return how many chunks contain a word in any inflection; the number may be slightly outdated."""
        version = self._look()
        if version != self._frequencies_of:
            count = self._chunks()
            # Counting all occurrences is slow, and a few more or less change no weight much.
            if not self._frequencies or abs(count - self._frequencies.get("", 0)) > count // 20:
                self._frequencies = {"": count}
            self._frequencies = {stem: seen for stem, seen in self._frequencies.items() if seen}
            self._frequencies_of = version
        stems = [stem for stem in {form[0] for form in self._forms_of((word,))} if self._seen_in(stem)]
        return self._seen_in(*sorted(stems)) if stems else 0

    def _seen_in(self, *terms: str) -> int:
        """Return how many chunks contain any of these terms."""
        key = _ALIKE.join(terms)
        found = self._frequencies.get(key)
        if found is None:
            if len(terms) == 1:
                found = int(self._value("select doc from vocabulary where term = ?", terms) or 0)
            else:
                sql = "select count(*) from narrow where narrow match ?"
                found = int(self._value(sql, (_as_one([(term,) for term in terms]),)))
            if len(self._frequencies) > 100_000:
                self._frequencies = {"": self._frequencies.get("", 0)}
            self._frequencies[key] = found
        return found

    # ---------------------------------------------------------------- words

    def _forms_of(self, phrase: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the terms to look for when a question contains this sequence of words."""
        return self._stems.forms(phrase, self._question_languages())

    def _question_languages(self) -> tuple[str, ...]:
        """Return the languages beside English in which a question is stemmed: the most frequent ones."""
        self._look()
        if self._asked_in is None:
            counts = self._ask("select language, chunks from languages")
            self._foreign = any(count > 0 and language != ENGLISH for language, count in counts)
            self._asked_in = languages.asked_in(counts)
        return self._asked_in

    _foreign = False  # some text is not in English

    def similar(self, word: str) -> list[SimilarTerm]:
        """Return the terms that can replace a word which the index does not contain, the nearest first."""
        self._look()
        found = self._similar.get(word)
        if found is None:
            found = self._similar[word] = self._terms_like(word)
        return found

    def _terms_like(self, word: str) -> list[SimilarTerm]:
        forms = [form[0] for form in self._forms_of((word,)) if len(form) == 1]
        in_use = [row[0] for row in self._ask("select language from languages where chunks > 0")]
        others = {
            languages.stems((word,), language)[0]
            for language in in_use
            if language not in self._question_languages()
        }
        known = self._vocabulary((), [stem for other in others for stem in self._stems.of(other)])
        found = similar.terms_like(
            forms,
            known,
            self._vocabulary,
            compounds=not languages.COMPOUNDING.isdisjoint(in_use),
            thorough=self._chunks() <= similar.FEW_CHUNKS,
        )
        return [SimilarTerm(*each, mark_of((each[0],))) for each in found]

    def _vocabulary(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = ()) -> dict[str, int]:
        """Return terms in the ranges (not all, if very many) or in `terms`, with their numbers of chunks."""
        found: dict[str, int] = {}
        for low, high in ranges:
            sql = "select term, doc from vocabulary where term >= ? and term < ? limit ?"
            found.update(self._ask(sql, (low, high, similar.MOST_TERMS)))
        if terms:
            sql = "select term, doc from vocabulary where term in (select value from json_each(?))"
            found.update(self._ask(sql, (json.dumps([*terms]),)))
        return found

    def foreign(self, ids: Iterable[int]) -> set[int]:
        """Return those of the chunks with these ids whose language is not English."""
        self._question_languages()
        if not self._foreign:
            return set()
        sql = "select id from chunks where id in (select value from json_each(?)) and language != ?"
        return {row[0] for row in self._ask(sql, (json.dumps([*ids]), ENGLISH))}

    def _marks_of(self, word: str) -> tuple[bytes, ...]:
        """Return the hashes of a word's stems in the languages of questions, as rows of chunks store them."""
        return tuple(mark_of(form) for form in self._forms_of((word,)))

    # ---------------------------------------------------------------- looking after it

    def check(self) -> list[str]:
        """Return messages about all errors that SQLite, FTS5 and our own checks find in the file."""
        problems = [str(row[0]) for row in self._ask("pragma integrity_check") if row[0] != "ok"]
        for table in ("narrow", "wide"):
            try:
                self._connection.execute(f"insert into {table}({table}) values('integrity-check')")
                wrong = self._sums(table) or self._lost_words(table)
            except (apsw.Error, IndexFailed) as error:
                wrong = f"{table}: {error}"
            problems += [wrong] if wrong else []
        if self._value("select count(*) from narrow_docsize") != self._value("select count(*) from chunks"):
            problems.append("narrow: its rows are not those of the chunks")
        return problems

    def contents(self, filter: Filter = EVERYTHING) -> dict[tuple[str, int], tuple[Any, ...]]:
        """Return what is stored about each chunk: its row, checksums of its words, and last its vector.

        Ids and stamps of files are left out, so two indexes of the same files have equal contents. `filter`
        leaves out whole files.
        """
        where, values = _files_where(filter)
        grown = "f.state, c.place" if self.kind.grows else "'', x''"
        rows = self._ask(
            f"""select c.id, f.id, f.item, c.ord, f.path, f.source, f.kind, f.hash, f.reason, f.title, f.key,
            f.num, f.type, f.tags, f.updated, c.start, c.last, c.body, c.heading, c.time, c.moment, c.origin,
            c.superseded, c.ended, c.alone, c.size, c.stems, c.speaker, c.asks, c.says, c.language, {grown},
            v.vector
            from {_JOINED}
            left join vectors v on v.chunk = c.id
            where {where}""",
            values,
        )
        narrow, wide = self._word_sums("narrow"), self._word_sums("wide")
        return {(row[2], row[3]): (*row[4:-1], narrow.get(row[0]), wide.get(row[1]), row[-1]) for row in rows}

    def _word_sums(self, table: str) -> dict[int, tuple[bytes, int]]:
        """Return for each row of a keyword table its length, and a checksum of its words and positions."""
        found: dict[int, int] = {}
        for term, row, place in self._ask(f"select term, doc, offset from {table}_words"):
            found[row] = found.get(row, 0) ^ hash((term, place))
        lengths = self._ask(f"select id, sz from {table}_docsize")
        return {row: (length, found.get(row, 0)) for row, length in lengths}

    def _lost_words(self, table: str) -> str | None:
        """Return a message when queries do not find a word that a keyword table stores; else None."""
        for term, count in self._ask(f"select term, count(*) from {table}_words group by term"):
            if self._value(f"select count(*) from {table}_words where term = ?", (term,)) != count:
                return f"{table}: indexed words are not found"
        return None

    def _sums(self, table: str) -> str | None:
        """Return a message when FTS5's stored totals for a keyword table are wrong; else None."""
        sizes = self._ask(f"select sz from {table}_docsize")
        real = [len(sizes), sum(_number(size, 0)[0] for (size,) in sizes)]
        block = self._value(f"select block from {table}_data where id = 1") or b""
        numbers, at = [], 0
        while at < len(block):
            number, at = _number(block, at)
            numbers.append(number)
        return None if (numbers or [0, 0]) == real else f"{table}: its sums are not those of its rows"

    def replace_with(self, other: SqliteIndex) -> None:
        """Replace the whole content by another index's in one transaction; readers see the old or the new."""
        with (
            self._reported("replaced now"),
            self._connection.backup("main", other._connection, "main") as copying,
        ):
            while not copying.done:
                copying.step(1000)


class TermsCut(NamedTuple):
    """The terms of a text, and its names such as `parseInvoiceLines`, which also count as their parts."""

    language: str
    terms: list[str]
    names: tuple[str, ...]


class Stems:
    """A cutter of texts into the terms of a keyword table, and of questions into the terms to look for."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._tokenizer = connection.fts5_tokenizer(*_STEMMING)
        self._known: dict[str, tuple[str, ...]] = {}
        self._marked: dict[str, bytes] = {}
        self._heads: dict[tuple[str, str], TermsCut] = {}
        self._forms: dict[str, list[tuple[str, ...]]] = {}
        self._forms_in: tuple[str, ...] = ()  # the languages of the cached forms

    def terms(self, text: str, language: str = ENGLISH) -> str:
        """Return the terms that a keyword table stores for a text: stems, and some long words in reverse."""
        return self.joined(self.cut(text, language))

    def cut(self, text: str, language: str = ENGLISH) -> TermsCut:
        """Cut a text into its terms and names, which `joined` can make part of several rows."""
        return TermsCut(language, self._terms(words.fold(text), language), words.names_in(text))

    def cut_head(self, head: str, language: str) -> TermsCut:
        """Cut the head of a passage into terms, which are cached, as all entries of a day have the same."""
        known = self._heads.get((head, language))
        if known is None:
            if len(self._heads) > _MOST_HEADS:
                self._heads.clear()
            known = self._heads[head, language] = self.cut(head, language)
        return known

    def joined(self, *cuts: TermsCut) -> str:
        """Return the terms of consecutive texts of one language as one row of a keyword table."""
        language = cuts[0].language
        found = [term for each in cuts for term in each.terms]
        names = dict.fromkeys(name for each in cuts for name in each.names)
        if names:
            found += self._terms(" ".join(words.parts_of(names)), language)
        return " ".join((*found, *similar.endings(found, language)))

    def _terms(self, folded: str, language: str) -> list[str]:
        if languages.has_stems(language):
            folded = " ".join(languages.stems(words.TOKEN.findall(folded.lower()), language))
        return self._tokenized(words.bare(folded))

    def of(self, word: str) -> tuple[str, ...]:
        """Return the terms of a word that is English, or that is a stem already."""
        found = self._known.get(word)
        if found is None:
            if len(self._known) > _MOST_WORDS:
                self._known.clear()
            found = self._known[word] = tuple(self._tokenized(words.bare(word)))
        return found

    def forms(self, phrase: Sequence[str], in_languages: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the ways to look for a phrase: its stems in English, and `in_languages`."""
        if in_languages != self._forms_in:
            self._forms, self._forms_in = {}, in_languages
        key = " ".join(phrase)
        found = self._forms.get(key)
        if found is None:
            if len(self._forms) > _MOST_WORDS:
                self._forms.clear()
            ways = [phrase, *(languages.stems(phrase, language) for language in in_languages)]
            forms = (tuple(stem for word in way for stem in self.of(word)) for way in ways)
            found = self._forms[key] = [form for form in dict.fromkeys(forms) if form]
        return found

    def sized(self, piece: Piece) -> tuple[int, bytes]:
        """Return how many different content words a passage has, and the hashes of all its stems.

        For a passage without `words`, return its given `size` and no hashes.
        """
        if not piece.words:
            return piece.size, b""
        known = piece.words
        if languages.has_stems(piece.language):
            known = frozenset(languages.stems(tuple(known), piece.language))
        self._mark(known)
        return len(piece.words - words.LOW), b"".join(sorted({*map(self._marked.__getitem__, known)}))

    def _mark(self, known: frozenset[str]) -> None:
        """Cache the hash of each word's stem, as the row of a chunk stores it; b"" for no stem."""
        if len(self._marked) > _MOST_WORDS:
            self._marked.clear()
        new = [word for word in known if word not in self._marked]
        # Each of these words is one token, so all of them are cut in one call.
        plain = [word for word in new if word.isascii() and word.isalnum()]
        stems = self._tokenized(" ".join(plain)) if plain else []
        self._marked.update((word, mark_of((stem,))) for word, stem in zip(plain, stems, strict=True))
        self._marked.update((word, mark_of(self.of(word))) for word in new if word not in self._marked)

    def _tokenized(self, text: str) -> list[str]:
        found: Any = self._tokenizer(
            text.encode(errors="ignore"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return list(found)


def stems_version() -> str:
    """Return the version of the stemming, for an index that is not in SQLite."""
    return f"{VERSION}/{languages.stemmer_version()}"


def new_stems() -> Stems:
    """Return a new `Stems`, for an index that is not in SQLite."""
    return Stems(apsw.Connection(":memory:"))


class VectorTable:
    """The table of stored vectors, and this process's changes to it since a matrix last read it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.removed: list[int] = []  # chunks that this process has removed
        self.lowest_put: int | None = None  # the lowest id that got a vector

    def put(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Store the vectors of those chunks that still exist and have no vector."""
        pairs = list(rows)
        if not pairs:
            return
        lowest = min(id_ for id_, _ in pairs)
        self.lowest_put = lowest if self.lowest_put is None else min(lowest, self.lowest_put)
        highest: Any = self._connection.execute("select coalesce(max(chunk), 0) from vectors").fetchone()
        if lowest <= highest[0]:
            self._count_disturbance()
        self._connection.executemany(
            """insert or replace into vectors
            select chunk, ? from waiting where chunk = ?""",
            [(vector, id_) for id_, vector in pairs],
        )
        self._connection.executemany("delete from waiting where chunk = ?", [(id_,) for id_, _ in pairs])

    def remove(self, ids: Sequence[int]) -> None:
        """Remove the vectors of chunks."""
        self._connection.executemany("delete from vectors where chunk = ?", [(id_,) for id_ in ids])
        self.removed += ids
        if ids:
            self._count_disturbance()

    def forget(self) -> None:
        """Remove all vectors and their stored dimension, for example after a change of the model."""
        self.lowest_put = 0  # the next vectors come before all that processes hold in memory
        self._connection.execute("delete from vectors")
        self._connection.execute("delete from meta where key = 'dimension'")
        self._connection.execute("insert or ignore into waiting select id from chunks")

    def _count_disturbance(self) -> None:
        """Record that vectors were removed or came out of order, so that other processes compare theirs."""
        self._connection.execute(
            """insert into meta values('disturbed', 1)
            on conflict(key) do update set value = value + 1"""
        )

    @contextlib.contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """Forget which vectors the block removed, if its transaction fails."""
        mark = len(self.removed)
        try:
            yield
        except BaseException:
            del self.removed[mark:]
            raise

    def after(self, chunk: int) -> list[tuple[Any, ...]]:
        """Return the vectors of chunks with a greater id, each with the fields that ranking needs."""
        return list(
            self._connection.execute(
                """select v.chunk, c.file, c.ord, f.source, c.superseded is not null, c.alone, c.speaker,
                coalesce(c.asks, 0), coalesce(c.says, 0), c.size, v.vector
                from vectors v
                join chunks c on c.id = v.chunk
                join files f on f.id = c.file
                where v.chunk > ?
                order by v.chunk""",
                (chunk,),
            )
        )

    def ids(self) -> list[int]:
        """Return the ids of the chunks that have a vector."""
        rows: Any = self._connection.execute("select chunk from vectors order by chunk")
        return [row[0] for row in rows]


class _OutrunError(Exception):
    """The error that another process wrote first: rows of the same file, or vectors of another length."""


@functools.lru_cache(maxsize=64)
def _files_where(filter: Filter) -> tuple[str, tuple[Any, ...]]:
    """Return the part of a filter about files `f` as an SQL condition, with the values to bind."""
    clauses, values = ["1"], list[Any]()

    def add(clause: str, *bound: Any) -> None:
        clauses.append(clause)
        values.extend(bound)

    if filter.places is not None:
        # Items find their files at once; the plus keeps SQLite from reading all files of the places instead.
        scope = "f.scope" if filter.items is None else "+f.scope"
        any_of = " or ".join([f"({scope} = ? and f.scope_id = ?)"] * len(filter.places)) or "0"
        add(f"({any_of})", *(value for place in filter.places for value in (str(place.scope), place.id)))
        add("f.root in ('', ?)", filter.root)
    if filter.group:
        add(_FOR_GROUPS)
    if filter.type is not None:
        add("f.type = ?", filter.type)
    if filter.tags:  # one clause for any number of tags
        lacking = "w.value not in (select value from json_each(f.tags))"
        add(f"not exists (select 1 from json_each(?) w where {lacking})", json.dumps(filter.tags))
    if filter.path is not None:
        add("instr(f.path, ?) > 0", filter.path)
    for column, wanted in (
        ("key", filter.keys),
        ("source", filter.sources or None),
        ("item", filter.items),
    ):
        if wanted is not None:
            add(f"f.{column} in (select value from json_each(?))", json.dumps(wanted))
    return " and ".join(clauses), tuple(values)


def _where(filter: Filter) -> tuple[str, tuple[Any, ...]]:
    """Return a filter on chunks `c` and their files `f` as an SQL condition, with the values to bind."""
    where, values = _files_where(filter)
    if filter.by_file:
        return where, values
    clauses, more = [where], [*values]
    only = None if filter.only is None else json.dumps(filter.only)
    speakers = json.dumps(filter.speakers) if filter.speakers else None
    for clause, value in (
        ("coalesce(c.moment, f.updated, '') >= ?", filter.after),
        ("coalesce(c.moment, f.updated, '9') < ?", filter.before),
        ("(c.moment is null or c.moment <= ?)", filter.as_of),
        ("(c.ended is null or c.ended > ?)", filter.as_of),
        ("(c.moment is null or c.moment <= ?)", filter.until),
        ("coalesce(c.speaker, c.origin) in (select value from json_each(?))", speakers),
        ("c.id in (select value from json_each(?))", only),
    ):
        if value is not None:
            clauses.append(clause)
            more.append(value)
    if filter.bare:
        clauses.append("exists (select 1 from waiting w where w.chunk = c.id)")
    return " and ".join(clauses), tuple(more)


_RANKED = "f.path, f.source, f.scope, c.superseded, c.alone, c.size, c.stems, c.speaker, c.asks, c.says"
_WHOLE = """f.item, f.path, f.source, f.kind, f.scope, f.scope_id, f.title, f.key, f.num, f.type, f.tags,
    f.updated, c.start, c.last, c.body, c.heading, c.time, c.origin, c.superseded, c.alone, c.size, c.stems,
    c.speaker, c.asks, c.says"""


def _row(cells: tuple[Any, ...]) -> ChunkRow:
    tags = () if cells[13] == "[]" else _tags_in(cells[13])
    speech = Speech(cells[25], cells[26] or 0, cells[27] or 0)
    return ChunkRow._make((*cells[:13], tags, *cells[14:25], speech, cells[28]))


def _ranked(cells: tuple[Any, ...]) -> ChunkRow:
    """Return a row with only the fields that ranking needs, because one question reads hundreds of rows."""
    id_, file, order, path, source, scope, superseded, alone, size, stems, speaker, asks, says = cells
    known = id_, file, order, "", path, source, "", scope, "", "", None, None, None, (), None, 0, 0, "", ""
    speech = Speech(speaker, asks or 0, says or 0)
    return ChunkRow._make((*known, None, None, superseded, alone, size, stems, speech, b""))


@functools.lru_cache(maxsize=10_000)
def mark_of(stems: tuple[str, ...]) -> bytes:
    """Return the hashes of some stems, joined into one value."""
    return b"".join(blake2b(stem.encode(), digest_size=_MARK).digest() for stem in stems)


def _tokens_as_given(connection: apsw.Connection, options: list[str]) -> Any:
    """Make a tokenizer for words that are cut already; in a query, it takes several forms as one token."""

    def tokens(utf8: bytes, flags: int, locale: str | None) -> list[Any]:
        given: list[Any] = utf8.decode().split()
        if flags & apsw.FTS5_TOKENIZE_QUERY:
            return [tuple(each.split(_ALIKE)) for each in given]
        return given

    return tokens


def _as_one(forms: Sequence[Sequence[str]]) -> str:
    """Return the FTS5 query for a phrase in which each word may have any of several forms."""
    lengths: dict[int, list[Sequence[str]]] = {}
    for form in forms:
        lengths.setdefault(len(form), []).append(form)
    phrases = []
    for group in lengths.values():
        alike = (_ALIKE.join(dict.fromkeys(each)) for each in zip(*group, strict=True))
        phrases.append('"' + " ".join(alike).replace('"', '""') + '"')
    return " OR ".join(phrases)


def _tags(labels: Labels) -> str:
    """Return the tags of a file as the JSON text in which the index stores them."""
    return json.dumps(labels.tags, ensure_ascii=False) if labels.tags else "[]"


@functools.lru_cache(maxsize=1_000)
def _tags_in(text: str) -> tuple[str, ...]:
    """Return the tags from the JSON text of a file, which all passages of the file share."""
    return tuple(json.loads(text))


def _number(block: bytes, at: int) -> tuple[int, int]:
    """Read a number in SQLite's format of seven bits a byte; return the number and the position after it."""
    number = 0
    for step in range(9):
        byte = block[at + step]
        if step == 8:
            return number << 8 | byte, at + 9
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + step + 1
    raise AssertionError  # the ninth byte always ends it
