"""The index in SQLite: chunks, two keyword tables and vectors in one database that can be thrown away.

The narrow keyword table knows chunks, the wide one whole files: the two find more than either. Notes and
sessions each have a file of this kind; of sessions it keeps words and places, never the text. Nothing here is
the truth; every row comes from a file and goes with it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import uuid
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

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
from vademecum.index.reads import Reads
from vademecum.index.words import ENGLISH, Speech
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.index.base import IndexDocument, Labels, Piece
    from vademecum.index.vectors import Matrix

VERSION = 4
UPGRADED = (2, 3)  # versions of a notes' index that are brought up to date in place
_MARK = 4  # bytes that stand for a stem
_MOST_WORDS = 200_000  # words whose stems are remembered
# New chunks from which on the keyword tables are put in order: a number, and a share of all.
_FEW, _MANY = 100, 0.1
# The tables get stems, so that a term of theirs can be asked for as it stands; vowel signs belong to words.
_CATEGORIES = "L* N* Co Mn Mc"
_TOKENIZER = f"unicode61 remove_diacritics 2 categories '{_CATEGORIES}'"
EXTRACTION = "2"  # how much is taken out of files of sources; 2: tags in a text, other names of a note
_EARLIER_TOKENIZER = "porter unicode61 remove_diacritics 2"  # of versions before 4: the same stems in English
_STEMMING = ("porter", ["unicode61", "remove_diacritics", "2", "categories", _CATEGORIES])
_ALIKE = "|"  # between the forms of one word in a query
# What is wrong with the file itself; all else is trouble of the disk, of other processes or of our own.
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SchemaChangeError, apsw.SQLError)


class IndexKind(NamedTuple):
    """What an index is of."""

    called: str
    scanned: str  # what is said while it is done without
    mark: int = 0  # in the header, so that no other database passes for one of these
    grows: bool = False  # whether files grow at their end and keep their text to themselves
    cache: int = 65536  # KiB of pages that are held
    ties: str = ""  # the order of what matches as well as each other


NOTES = IndexKind("the index", "searched by scanning files, without the index")
# The newest session first, then the last line: no order of writing shows.
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
create index chunks_file on chunks(file, ord);
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
# Where a reader goes on, and where it finds a passage again.
_GROWING = """
alter table files add column state text not null default '';
alter table chunks add column place blob not null default x'';
"""
# A row of an earlier version has none of these until its file is looked at again: `language` is null there.
_SPEECH = """
alter table chunks add column speaker text;
alter table chunks add column asks integer;
alter table chunks add column says integer;
"""
_UPGRADE = f"""
alter table chunks add column language text;
create table languages(
    language text primary key,
    chunks integer not null
) without rowid;
pragma writable_schema = on;
update sqlite_schema
set sql = replace(sql, '{_EARLIER_TOKENIZER}', '{_TOKENIZER.replace("'", "''")}')
where name in ('narrow', 'wide');
pragma writable_schema = reset;
insert or replace into meta values('upgrading', '1');
"""

_ORDER = " ".join(f"when '{scope}' then {at}" for at, scope in enumerate(Scope))
_PRECEDENCE = f"case f.scope {_ORDER} end"
_JOINED = "chunks c join files f on f.id = c.file"
_WAITING = "waiting w join chunks c on c.id = w.chunk join files f on f.id = c.file"
_LABELS = "title, key, num, type, tags, updated"
# A group sees records and the project's `context.md`: no journal, no source, no other document.
_FOR_GROUPS = f"(f.source = '{MEMORY}' or (f.source = '{PINNED}' and f.path like '%/context.md'))"


def is_damage(error: BaseException) -> bool:
    """Whether a failure is the file's own, so that a new one mends it."""
    cause = error if isinstance(error, apsw.Error) else error.__cause__
    return cause is None or isinstance(cause, _DAMAGE)


class SqliteIndex:
    """An open index; every failure of it is an `IndexFailed`."""

    def __init__(self, path: Path | str, kind: IndexKind = NOTES) -> None:
        self.path, self.kind = path, kind
        self._file = str(path)
        self._inserted = 0  # chunks put in since the keyword tables were last put in order
        self._matrix: Matrix | None = None
        self._asked_in: tuple[str, ...] | None = None
        self._frequencies: dict[str, int] = {}
        self._frequencies_of: tuple[int, int] | None = None
        self._upgrading = False
        self._frozen = False  # whether several questions see one view
        self._seen: tuple[int, int] | None = None  # the version that the next five are of
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
        self.reads = Reads(self)

    def _opened(self) -> apsw.Connection:
        path = str(self.path)
        if path == ":memory:":
            connection = apsw.Connection(path)
        else:
            pages.damage(path)  # of a file that lay here before
            self._refuse_newer(pages.version_of(path))
            connection = pages.connect(path)
        connection.set_busy_timeout(pages.BUSY_MS)
        if path != ":memory:":
            connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
        connection.execute(
            f"pragma trusted_schema = off; pragma cache_size = -{self.kind.cache}; pragma temp_store = memory"
        ).fetchall()
        self._stems = Stems(connection)
        # In the place of the one that the tables name: they get words that are cut and stemmed already, and
        # only a tokenizer can say that several forms are one word, which is as rare as all of them together.
        connection.register_fts5_tokenizer("unicode61", _tokens_as_given)
        return connection

    def _prepare(self) -> None:
        """Make the tables in a new file; refuse one from a newer version."""
        found = int(self._value("pragma user_version"))
        self._refuse_newer(found)
        if found in UPGRADED and not self.kind.grows:
            with self._writing():
                found = self._value("pragma user_version")
                if found in UPGRADED:
                    self._connection.execute((_SPEECH if found == 2 else "") + _UPGRADE)
                    self._connection.execute(f"pragma user_version = {VERSION}")
            self._have_read_again()
            return
        if found not in (0, VERSION) or (found and self._value("pragma application_id") != self.kind.mark):
            raise IndexFailed(f"{self.kind.called} {self.path} was made by an older version of vade")
        if not found:
            with self._writing():
                if self._value("pragma user_version") == 0:
                    self._connection.execute(_SCHEMA + (_GROWING if self.kind.grows else ""))
                    self._connection.execute(f"pragma application_id = {self.kind.mark}")
                    # Ids of another file mean other chunks.
                    self._remember({"made": uuid.uuid4().hex, "extraction": EXTRACTION})
                    self._connection.execute(f"pragma user_version = {VERSION}")
        self._have_read_again()

    def _have_read_again(self) -> None:
        """Forget the hashes of what an earlier version took less out of: without one, a file is outdated."""
        stamped = "select 1 from meta where key = 'extraction' and value = ?"
        if self.kind.grows or self._value(stamped, (EXTRACTION,)):
            return
        self._connection.set_busy_timeout(1)
        try:
            with self._writing():
                self._connection.execute(
                    f"""update files set hash = ''
                    where kind = 'markdown' and reason is null and not exists ({stamped})""",
                    (EXTRACTION,),
                )
                self._remember({"extraction": EXTRACTION})
        except IndexFailed as error:
            if is_damage(error):
                raise
            # Locked, or not ours to write: it answers as it is, and the next one who opens it does this.
        finally:
            self._connection.set_busy_timeout(pages.BUSY_MS)

    def _refuse_newer(self, version: int) -> None:
        if version > VERSION:
            raise IndexNewer(f"{self.kind.called} {self.path} was made by a newer version of vade")

    def close(self) -> None:
        """Let go of the file; what a disk that is full or may only be read keeps beside it stays there."""
        with contextlib.suppress(apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.FullError):
            self._connection.close()

    def abandon(self) -> None:
        """Let go of a file that lies nowhere any more, and touch nothing that lies in its place by now."""
        with contextlib.suppress(apsw.Error):
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.close()

    # ---------------------------------------------------------------- transactions

    @property
    def patience(self) -> float | None:
        """Seconds that a call may wait for other processes; None: as long as usual."""
        return self._patience

    @patience.setter
    def patience(self, seconds: float | None) -> None:
        self._patience = seconds
        usual = pages.BUSY_MS
        self._connection.set_busy_timeout(
            usual if seconds is None else max(1, min(usual, int(seconds * 1000)))
        )

    _patience: float | None = None
    stemming = ""  # its file says of which version it is

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
        """One transaction that takes the write lock first, so that it never meets "locked" half-way."""
        with self._reported("written"):
            self._connection.execute("begin immediate")
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                self._end()
                raise

    def _end(self) -> None:
        """Leave a transaction; SQLite may have left it already, as on a full disk."""
        if self._connection.in_transaction:
            self._connection.execute("rollback")

    @contextlib.contextmanager
    def _reported(self, done: str) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise IndexFailed(f"{self.kind.called} {self.path} cannot be {done}: {error}") from error

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of an answer; fails when a page was found damaged, whoever kept quiet about it."""
        try:
            found: list[Any] = self._connection.execute(sql, tuple(values)).fetchall()
        except apsw.Error as error:
            raise IndexFailed(f"{self.kind.called} {self.path} cannot be read: {error}") from error
        said = pages.damage(self._file)
        if said is not None:
            raise IndexFailed(said)
        return found

    def _value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self._ask(sql, values)
        return found[0][0] if found else None

    def _look(self) -> tuple[int, int]:
        """The version of what is there; what was remembered of another is forgotten."""
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
        """Each file that it holds, by the id of its item."""
        where, values = _files_where(filter)
        state = "f.state" if self.kind.grows else "''"
        rows = self._ask(
            f"""select item, id, hash, size, mtime, ctime, inode, reason, path, source, kind, root, {state}
            from files f
            where {where}""",
            values,
        )
        outdated: set[int] = set()
        if "upgrading" in self._meta():
            outdated = {
                row[0] for row in self._ask("select distinct file from chunks where language is null")
            }
        none = None if self.kind.grows else ""  # the hash of what is to be read again
        made = functools.partial(tuple.__new__, KnownFile)  # of many thousands, a third quicker than by name
        return {
            row[0]: made(
                (row[1], row[2], row[3:7], row[7], row[8:12], row[2] == none or row[1] in outdated, row[12])
            )
            for row in rows
        }

    def put(
        self,
        documents: Iterable[IndexDocument] = (),
        *,
        vectors: Iterable[tuple[int, bytes]] = (),
        settings: Mapping[str, str] = {},
        last: bool = False,
    ) -> bool:
        """Take in files, vectors of chunks and settings, in one transaction; False when one was outrun."""
        if documents or vectors or settings:
            try:
                with self._vectors.undone_on_failure(), self._writing():
                    self._refuse_other_lengths(settings)
                    self._upgrading = "upgrading" in self._meta()
                    for document in documents:
                        self._put(document)
                    self._vectors.put(vectors)
                    self._remember(settings)
                    self._finish_upgrade()
            except _OutrunError:
                return False
        if last and self._inserted > max(_FEW, self._chunks() * _MANY):
            self._tidy()
        return True

    def _refuse_other_lengths(self, settings: Mapping[str, str]) -> None:
        """Vectors of different lengths cannot be compared: those of whoever came first are kept."""
        here, coming = self._meta().get("dimension"), settings.get("dimension")
        if None not in (here, coming) and here != coming:
            raise _OutrunError

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        """Take files out, None means every one; with `vectors`, forget those of all."""
        with self._vectors.undone_on_failure(), self._writing():
            self._upgrading = "upgrading" in self._meta()
            for file in [row[0] for row in self._ask("select id from files")] if files is None else files:
                self._remove_chunks(file)
                self._connection.execute("delete from files where id = ?", (file,))
            if vectors:
                self._vectors.forget()
            self._remember(settings)
            self._finish_upgrade()

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
                """update files set size = ?, mtime = ?, ctime = ?, inode = ?
                where item = ? and scope = ? and scope_id = ?""",
                (*item.stamp, *identity),
            )
        else:
            self._replace(document, document.pieces, row)

    def _replace(
        self, document: IndexDocument, pieces: Sequence[Piece], known: tuple[Any, ...] | None
    ) -> None:
        """Put a file in the place of what it was before; chunks before the first change stay."""
        kept = 0 if known is None else self._unchanged(known, document, pieces)
        file = self._put_file(document)
        if known is not None:
            if self._upgrading:
                self._put_again(file, pieces[:kept])
            elif kept and kept == len(pieces):
                return
            self._remove_chunks(file, kept)
        self._add(file, pieces[kept:], kept, alone=len(pieces) == 1)
        if len(pieces) == 1:  # a file of one chunk says the same to both tables
            return
        # A heading above ten chunks counts once.
        once = " ".join(dict.fromkeys(" ".join(each.head for each in pieces).split()))
        whole = [self._stems.terms(once), *(self._stems.terms(each.text, each.language) for each in pieces)]
        self._connection.execute("insert into wide(rowid, body) values(?, ?)", (file, " ".join(whole)))

    def _append(self, document: IndexDocument, known: tuple[Any, ...] | None) -> None:
        """Add what a file has grown by, unless another process has been at it."""
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
        self._add(file, document.pieces or (), before)

    def _add(self, file: int, pieces: Sequence[Piece], before: int, *, alone: bool = False) -> None:
        """Put chunks behind those of a file."""
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
        self._put_words(zip(ids, pieces, strict=True))
        self._connection.executemany("insert into waiting values(?)", [(id_,) for id_ in ids])

    def _put_words(self, pieces: Iterable[tuple[int, Piece]]) -> None:
        """Let chunks be found by their words, and count them by their language."""
        rows = []
        counts: dict[str, int] = {}
        for id_, piece in pieces:
            rows.append((id_, self._stems.terms(f"{piece.head}\n{piece.text}", piece.language)))
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
        """Note a file, over what was noted of it before."""
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
        """How many of a file's first chunks can stay as they are: an append leaves all before the last."""
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
        return min(same, len(cut) - 1) if same > 1 else 0  # a first chunk may have been alone, or be so now

    def _put_again(self, file: int, pieces: Sequence[Piece]) -> None:
        """Say again of a file's first chunks what an earlier version did not know, and their words."""
        self._connection.executemany(
            """update chunks set speaker = ?, asks = ?, says = ?, language = ?, size = ?, stems = ?
            where file = ? and ord = ?""",
            [
                (*each.speech, each.language, *self._stems.sized(each), file, order)
                for order, each in enumerate(pieces)
            ],
        )
        ids = [row[0] for row in self._ask("select id from chunks where file = ? order by ord", (file,))]
        ids = ids[: len(pieces)]
        self._connection.executemany("delete from narrow where rowid = ?", [(id_,) for id_ in ids])
        self._put_words(zip(ids, pieces, strict=True))
        self._vectors.count_up("respoken")

    def _finish_upgrade(self) -> None:
        """Note that no row of an earlier version is left, when that is so."""
        if self._upgrading:
            self._connection.execute(
                """delete from meta
                where key = 'upgrading' and not exists (select 1 from chunks where language is null)"""
            )

    def _remove_chunks(self, file: int, kept: int = 0) -> None:
        """Take the chunks of a file out, but for the first ones."""
        rows = self._ask("select id, language from chunks where file = ? and ord >= ?", (file, kept))
        ids = [row[0] for row in rows]
        each = [(id_,) for id_ in ids]
        self._count_languages((language, -1) for _, language in rows if language is not None)
        for table, column in (("narrow", "rowid"), ("waiting", "chunk"), ("chunks", "id")):
            self._connection.executemany(f"delete from {table} where {column} = ?", each)
        self._connection.execute("delete from wide where rowid = ?", (file,))
        self._vectors.remove(ids)

    def _tidy(self) -> None:
        """Merge what many small writes have left: a question then looks in one place for a word."""
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
        """Chunks with any of some phrases, or with every one, the best first by their BM25."""
        # BM25 is asked for by name: sorting by FTS5's own `rank` column prepares a statement for every query.
        most = -1 if limit is None else limit
        if not phrases:
            return dict.fromkeys(self._newest(filter, most), 0.0)
        alike = [[phrase] if terms else self._forms_of(phrase) for phrase in phrases]
        parts = [_as_one(forms) for forms in alike if forms]
        if not parts or (every and len(parts) < len(alike)):  # a word that is none stands nowhere
            return {}
        expression = ") AND (".join(parts).join("()") if every else " OR ".join(parts)
        hiding = self._hides(filter)
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
        """Chunks by their labels alone."""
        where, values = _where(filter)
        table, order = _JOINED, f"coalesce(c.moment, f.updated, '') desc, {_PRECEDENCE}, f.path, c.ord desc"
        if filter.bare:
            table, order = _WAITING, "w.chunk"
        rows = self._ask(f"select c.id from {table} where {where} order by {order} limit ?", (*values, limit))
        return [row[0] for row in rows]

    def _hides(self, filter: Filter) -> bool:
        """Whether there is anything that a filter leaves out: else no row need be asked for its place."""
        if filter == EVERYTHING:
            return False
        self._look()
        found = self._hiding.get(filter)
        if found is None:
            where, values = _where(filter)
            table = "files f" if filter.by_file else _JOINED
            asked = f"select exists (select 1 from {table} where ({where}) is not true)"
            found = self._hiding[filter] = bool(self._value(asked, values))
        return found

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> Nearest:
        """The chunks nearest to a vector, with the true cosines of others too; another model's are none."""
        if self._matrix is None:
            from vademecum.index.vectors import Matrix  # and numpy with it, which words alone do without

            self._matrix = Matrix()
        matrix = self._matrix
        with self._reported("read"):
            matrix.refresh(self._vectors, self._look(), self._meta(), made_by)
        mask = None
        if self._hides(filter):
            mask = self._masks.get(filter)
            if mask is None:
                mask = self._masks[filter] = self._mask(filter, matrix)
        return matrix.search(query, limit, allowed=mask, also=also)

    def _mask(self, filter: Filter, matrix: Matrix) -> Any:
        """Which vectors may be answered."""
        where, values = _where(filter)
        column, table = ("f.id", "files f") if filter.by_file else ("c.id", _JOINED)
        ids = [row[0] for row in self._ask(f"select {column} from {table} where {where}", values)]
        return matrix.mask(files=ids) if filter.by_file else matrix.mask(chunks=ids)

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        """Chunks with their files' labels, of those only that a filter lets through."""
        where, values = _where(filter)
        columns = _RANKED
        if text:
            columns = _WHOLE + (", c.place" if self.kind.grows else ", x''")
        found = self._ask(
            f"""select c.id, f.id, c.ord, {columns}
            from {_JOINED}
            where c.id in (select value from json_each(?)) and {where}""",
            (json.dumps([*ids]), *values),
        )
        make = _row if text else _ranked
        return {row[0]: make(row) for row in found}

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        """What is known of all, of some words, and of what a filter lets through."""
        found = Stats(self._look(), self._meta(), self._chunks())
        asked = [*words]
        if asked:
            seen = {word: self._frequency(word) for word in asked}
            found = found._replace(seen=seen, marks={word: self._marks_of(word) for word in asked})
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
        """A filter for chunks with their files, as SQL."""
        return _where(filter)

    def _chunks(self) -> int:
        """How many chunks there are."""
        self._look()
        if self._count is None:
            self._count = int(self._value("select count(*) from chunks"))
        return self._count

    def _frequency(self, word: str) -> int:
        """In how many chunks a word stands, whatever its ending; at times a little out of date."""
        version = self._look()
        if version != self._frequencies_of:
            count = self._chunks()
            # A count of all occurrences is dear, and a few more or less change no weight that matters.
            if not self._frequencies or abs(count - self._frequencies.get("", 0)) > count // 20:
                self._frequencies = {"": count}
            self._frequencies = {stem: seen for stem, seen in self._frequencies.items() if seen}
            self._frequencies_of = version
        held = [stem for stem in {form[0] for form in self._forms_of((word,))} if self._seen_in(stem)]
        return self._seen_in(*sorted(held)) if held else 0

    def _seen_in(self, *terms: str) -> int:
        """In how many chunks any of some terms stands."""
        key = _ALIKE.join(terms)
        found = self._frequencies.get(key)
        if found is None:
            if len(terms) == 1:
                found = int(self._value("select doc from vocabulary where term = ?", terms) or 0)
            else:
                asked = "select count(*) from narrow where narrow match ?"
                found = int(self._value(asked, (_as_one([(term,) for term in terms]),)))
            if len(self._frequencies) > 100_000:
                self._frequencies = {"": self._frequencies.get("", 0)}
            self._frequencies[key] = found
        return found

    # ---------------------------------------------------------------- words

    def _forms_of(self, phrase: Sequence[str]) -> list[tuple[str, ...]]:
        """What to look for when some words are asked for."""
        return self._stems.forms(phrase, self._spoken())

    def _spoken(self) -> tuple[str, ...]:
        """The languages in which a question is stemmed beside English: the commonest that are held."""
        self._look()
        if self._asked_in is None:
            counts = self._ask("select language, chunks from languages")
            self._foreign = any(count > 0 and language != ENGLISH for language, count in counts)
            self._asked_in = languages.asked_in(counts)
        return self._asked_in

    _foreign = False  # whether anything is not in English

    def similar(self, word: str) -> list[SimilarTerm]:
        """What is held in the place of a word that is not, the nearest first."""
        self._look()
        found = self._similar.get(word)
        if found is None:
            found = self._similar[word] = self._terms_like(word)
        return found

    def _terms_like(self, word: str) -> list[SimilarTerm]:
        forms = [form[0] for form in self._forms_of((word,)) if len(form) == 1]
        held = [row[0] for row in self._ask("select language from languages where chunks > 0")]
        others = {
            languages.stems((word,), language)[0] for language in held if language not in self._spoken()
        }
        known = self._vocabulary((), [stem for other in others for stem in self._stems.of(other)])
        found = similar.terms_like(
            forms,
            known,
            self._vocabulary,
            compounds=not languages.COMPOUNDING.isdisjoint(held),
            thorough=self._chunks() <= similar.FEW_CHUNKS,
        )
        return [SimilarTerm(*each, mark_of((each[0],))) for each in found]

    def _vocabulary(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = ()) -> dict[str, int]:
        """The terms from each beginning up to the next, and some others that are held, with their chunks."""
        found: dict[str, int] = {}
        for low, high in ranges:
            asked = "select term, doc from vocabulary where term >= ? and term < ? limit ?"
            found.update(self._ask(asked, (low, high, similar.MOST_TERMS)))
        if terms:
            asked = "select term, doc from vocabulary where term in (select value from json_each(?))"
            found.update(self._ask(asked, (json.dumps([*terms]),)))
        return found

    def foreign(self, ids: Iterable[int]) -> set[int]:
        """Those of some chunks that are not in English."""
        self._spoken()
        if not self._foreign:
            return set()
        asked = "select id from chunks where id in (select value from json_each(?)) and language != ?"
        return {row[0] for row in self._ask(asked, (json.dumps([*ids]), ENGLISH))}

    def _marks_of(self, word: str) -> tuple[bytes, ...]:
        """What stands for a word in any of the languages that are held."""
        return tuple(mark_of(form) for form in self._forms_of((word,)))

    # ---------------------------------------------------------------- looking after it

    def check(self) -> list[str]:
        """What SQLite and FTS5 find wrong with the file."""
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
        """All that is kept of each chunk but its number: its row, its words, and last its vector.

        Two indexes of the same files agree in it.
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
        narrow, wide = self._said("narrow"), self._said("wide")
        return {(row[2], row[3]): (*row[4:-1], narrow.get(row[0]), wide.get(row[1]), row[-1]) for row in rows}

    def _said(self, table: str) -> dict[int, tuple[bytes, int]]:
        """For each row of a keyword table its length, and a number for all its words at all their places."""
        found: dict[int, int] = {}
        for term, row, place in self._ask(f"select term, doc, offset from {table}_words"):
            found[row] = found.get(row, 0) ^ hash((term, place))
        lengths = self._ask(f"select id, sz from {table}_docsize")
        return {row: (length, found.get(row, 0)) for row, length in lengths}

    def _lost_words(self, table: str) -> str | None:
        """Whether a word that stands in a keyword table is not found when it is asked for."""
        for term, count in self._ask(f"select term, count(*) from {table}_words group by term"):
            if self._value(f"select count(*) from {table}_words where term = ?", (term,)) != count:
                return f"{table}: indexed words are not found"
        return None

    def _sums(self, table: str) -> str | None:
        """What is wrong with the numbers that FTS5 keeps of a whole table: how many rows, how many words."""
        sizes = self._ask(f"select sz from {table}_docsize")
        real = [len(sizes), sum(_number(size, 0)[0] for (size,) in sizes)]
        block = self._value(f"select block from {table}_data where id = 1") or b""
        kept, at = [], 0
        while at < len(block):
            number, at = _number(block, at)
            kept.append(number)
        return None if (kept or [0, 0]) == real else f"{table}: its sums are not those of its rows"

    def replace_with(self, other: SqliteIndex) -> None:
        """Put what another one holds in the place of all in one transaction: readers see either."""
        with (
            self._reported("replaced now"),
            self._connection.backup("main", other._connection, "main") as copying,
        ):
            while not copying.done:
                copying.step(1000)


class Stems:
    """Cuts texts into the terms that a keyword table keeps, and words into what they are asked for by."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._tokenizer = connection.fts5_tokenizer(*_STEMMING)
        self._known: dict[str, tuple[str, ...]] = {}
        self._marked: dict[str, bytes] = {}
        self._forms: dict[str, list[tuple[str, ...]]] = {}
        self._forms_in: tuple[str, ...] = ()  # the languages of the forms that are remembered

    def terms(self, text: str, language: str = ENGLISH) -> str:
        """What a keyword table keeps of a text: the stems of its words, and how long ones end."""
        folded = words.fold(text)
        parts = words.parts_of_names(text)
        if parts:
            folded = f"{folded}\n{' '.join(parts)}"
        if languages.has_stems(language):
            folded = " ".join(languages.stems(words.TOKEN.findall(folded.lower()), language))
        found = self._tokenized(words.bare(folded))
        return " ".join((*found, *similar.endings(found, language)))

    def of(self, word: str) -> tuple[str, ...]:
        """A word as a keyword table keeps it, when it is an English one or a stem."""
        found = self._known.get(word)
        if found is None:
            if len(self._known) > _MOST_WORDS:
                self._known.clear()
            found = self._known[word] = tuple(self._tokenized(words.bare(word)))
        return found

    def forms(self, phrase: Sequence[str], spoken: tuple[str, ...]) -> list[tuple[str, ...]]:
        """What to look for when some words are asked for: their stems in English and in some languages."""
        if spoken != self._forms_in:
            self._forms, self._forms_in = {}, spoken
        key = " ".join(phrase)
        found = self._forms.get(key)
        if found is None:
            if len(self._forms) > _MOST_WORDS:
                self._forms.clear()
            ways = [phrase, *(languages.stems(phrase, language) for language in spoken)]
            forms = (tuple(stem for word in way for stem in self.of(word)) for way in ways)
            found = self._forms[key] = [form for form in dict.fromkeys(forms) if form]
        return found

    def sized(self, piece: Piece) -> tuple[int, bytes]:
        """How many different words of a passage say something, and the marks of all, each once."""
        if not piece.words:
            return piece.size, b""
        known = piece.words
        if languages.has_stems(piece.language):
            known = frozenset(languages.stems(tuple(known), piece.language))
        return len(piece.words - words.LOW), b"".join(sorted({self._mark(word) for word in known}))

    def _mark(self, word: str) -> bytes:
        """What stands for a stem among those of a chunk; empty for a word that is none."""
        found = self._marked.get(word)
        if found is None:
            if len(self._marked) > _MOST_WORDS:
                self._marked.clear()
            found = self._marked[word] = mark_of(self.of(word))
        return found

    def _tokenized(self, text: str) -> list[str]:
        raw: Any = self._tokenizer(
            text.encode(errors="ignore"), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False
        )
        return [str(stem) for group in raw for stem in group]


def stems_version() -> str:
    """What stems depend on, for an index that SQLite does not keep."""
    return f"{VERSION}/{languages.stemmer_version()}"


def new_stems() -> Stems:
    """What cuts texts for an index that SQLite does not keep."""
    return Stems(apsw.Connection(":memory:"))


class VectorTable:
    """The vectors as they are kept, and what has become of them since their reader last looked."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.removed: list[int] = []  # chunks that this process has taken out
        self.lowest_put: int | None = None  # the lowest chunk that got a vector

    def put(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Keep the vectors of chunks; of one that has left meanwhile, nothing."""
        kept = list(rows)
        if not kept:
            return
        lowest = min(id_ for id_, _ in kept)
        self.lowest_put = lowest if self.lowest_put is None else min(lowest, self.lowest_put)
        highest: Any = self._connection.execute("select coalesce(max(chunk), 0) from vectors").fetchone()
        if lowest <= highest[0]:
            self.count_up("disturbed")
        self._connection.executemany(
            """insert or replace into vectors
            select chunk, ? from waiting where chunk = ?""",
            [(vector, id_) for id_, vector in kept],
        )
        self._connection.executemany("delete from waiting where chunk = ?", [(id_,) for id_, _ in kept])

    def remove(self, ids: Sequence[int]) -> None:
        """Take the vectors of chunks out."""
        self._connection.executemany("delete from vectors where chunk = ?", [(id_,) for id_ in ids])
        self.removed += ids
        if ids:
            self.count_up("disturbed")

    def forget(self) -> None:
        """Forget all vectors, as when the model has changed."""
        self.lowest_put = 0  # whatever comes next comes before all that is in anyone's memory
        self._connection.execute("delete from vectors")
        self._connection.execute("delete from meta where key = 'dimension'")
        self._connection.execute("insert or ignore into waiting select id from chunks")

    def count_up(self, name: str) -> None:
        """Note what who keeps vectors in memory has to know.

        `disturbed`: they did not just grow at the end, so they have to be compared. `respoken`: rows say more
        than before, so they have to be read again.
        """
        self._connection.execute(
            """insert into meta values(?, 1)
            on conflict(key) do update set value = value + 1""",
            (name,),
        )

    @contextlib.contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """What was taken out by a transaction that fails is back."""
        mark = len(self.removed)
        try:
            yield
        except BaseException:
            del self.removed[mark:]
            raise

    def after(self, chunk: int) -> list[tuple[Any, ...]]:
        """Of chunks with a greater id: the id, the nine values of its mark, the vector."""
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
        """The chunks that have one."""
        rows: Any = self._connection.execute("select chunk from vectors order by chunk")
        return [row[0] for row in rows]


class _OutrunError(Exception):
    """Another process has been at a file since it was read."""


@functools.lru_cache(maxsize=64)
def _files_where(filter: Filter) -> tuple[str, tuple[Any, ...]]:
    """What of a filter is about files `f`, as SQL; all values are bound."""
    clauses, values = ["1"], list[Any]()

    def add(clause: str, *bound: Any) -> None:
        clauses.append(clause)
        values.extend(bound)

    if filter.places is not None:
        any_of = " or ".join(["(f.scope = ? and f.scope_id = ?)"] * len(filter.places)) or "0"
        add(f"({any_of})", *(value for place in filter.places for value in (str(place.scope), place.id)))
        add("f.root in ('', ?)", filter.root)
    if filter.group:
        add(_FOR_GROUPS)
    if filter.type is not None:
        add("f.type = ?", filter.type)
    if filter.tags:  # however many: one clause
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
    """A whole filter for chunks `c` with their files `f`, as SQL; all values are bound."""
    where, values = _files_where(filter)
    if filter.by_file:
        return where, values
    clauses, more = [where], [*values]
    only = None if filter.only is None else json.dumps(filter.only)
    for clause, value in (
        ("coalesce(c.moment, f.updated, '') >= ?", filter.after),
        ("coalesce(c.moment, f.updated, '9') < ?", filter.before),
        ("(c.moment is null or c.moment <= ?)", filter.as_of),
        ("(c.ended is null or c.ended > ?)", filter.as_of),
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
    tags = () if cells[13] == "[]" else tuple(json.loads(cells[13]))
    speech = Speech(cells[25], cells[26] or 0, cells[27] or 0)
    return ChunkRow._make((*cells[:13], tags, *cells[14:25], speech, cells[28]))


def _ranked(cells: tuple[Any, ...]) -> ChunkRow:
    """A row with what ranking needs, and nothing else: hundreds are read for one question."""
    id_, file, order, path, source, scope, superseded, alone, size, stems, speaker, asks, says = cells
    known = id_, file, order, "", path, source, "", scope, "", "", None, None, None, (), None, 0, 0, "", ""
    said = Speech(speaker, asks or 0, says or 0)
    return ChunkRow._make((*known, None, None, superseded, alone, size, stems, said, b""))


@functools.lru_cache(maxsize=10_000)
def mark_of(stems: tuple[str, ...]) -> bytes:
    """What stands for some stems among those of a chunk."""
    return b"".join(blake2b(stem.encode(), digest_size=_MARK).digest() for stem in stems)


def _tokens_as_given(connection: apsw.Connection, options: list[str]) -> Any:
    """A tokenizer for words that are cut already; in a query, one may stand for all forms of a word."""

    def tokens(utf8: bytes, flags: int, locale: str | None) -> list[Any]:
        given: list[Any] = utf8.decode().split()
        if flags & apsw.FTS5_TOKENIZE_QUERY:
            return [tuple(each.split(_ALIKE)) for each in given]
        return given

    return tokens


def _as_one(forms: Sequence[Sequence[str]]) -> str:
    """What FTS5 takes for the forms of a phrase: each of its words is one word, whatever form it has."""
    lengths: dict[int, list[Sequence[str]]] = {}
    for form in forms:
        lengths.setdefault(len(form), []).append(form)
    phrases = []
    for group in lengths.values():
        alike = (_ALIKE.join(dict.fromkeys(each)) for each in zip(*group, strict=True))
        phrases.append('"' + " ".join(alike).replace('"', '""') + '"')
    return " OR ".join(phrases)


def _tags(labels: Labels) -> str:
    """The tags as they are kept."""
    return json.dumps(labels.tags, ensure_ascii=False) if labels.tags else "[]"


def _number(block: bytes, at: int) -> tuple[int, int]:
    """A number as SQLite writes them, seven bits a byte, and where it ends."""
    number = 0
    for step in range(9):
        byte = block[at + step]
        if step == 8:
            return number << 8 | byte, at + 9
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + step + 1
    raise AssertionError  # the ninth byte always ends it
