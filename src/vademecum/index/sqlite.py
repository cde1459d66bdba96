"""The index file: chunks, two keyword tables and vectors in one SQLite database that can be thrown away.

The narrow keyword table knows chunks, the wide one whole files: the two find more than either. Nothing here
is the truth; every row comes from a file and goes with it.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from vademecum.errors import IndexFailed, IndexNewer, Malformed
from vademecum.index import pages, speech, words
from vademecum.index.speech import SILENT, Speech
from vademecum.store import clock, document, outgoing, texts
from vademecum.store.joining import read_tags
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from vademecum.index.base import Item, Stamp
    from vademecum.index.chunk import Chunk
    from vademecum.types import Place

VERSION = 3
UPGRADED = 2  # the version that is brought up to date in place
_MARK = 4  # bytes that stand for a stem
_MOST_ALIASES, _LONGEST_ALIAS = 20, 100  # names that a note goes by beside its title, and their characters
_MOST_WORDS = 200_000  # words whose stems are remembered
_TOKENIZER = "porter unicode61 remove_diacritics 2"
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
    says integer
);
create index chunks_file on chunks(file, ord);
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


# A row of an earlier version has none of these until its file is looked at again: `asks` is null there.
_UPGRADE = """
alter table chunks add column speaker text;
alter table chunks add column asks integer;
alter table chunks add column says integer;
insert or replace into meta values('upgrading', '1');
"""

_ORDER = " ".join(f"when '{scope}' then {at}" for at, scope in enumerate(Scope))
_PRECEDENCE = f"case f.scope {_ORDER} end"
# Asked for by name: sorting by FTS5's own `rank` column prepares another statement for every query.
_SCORE = "-bm25(narrow)"


class Known(NamedTuple):
    """What the index holds of a file."""

    id: int
    hash: str
    stamp: tuple[int, int, int, int]
    reason: str | None
    labels: tuple[str, ...]  # path, source, kind, root: a source can be attached again under another name


class Labels(NamedTuple):
    """What a file says of itself."""

    title: str = ""
    key: str | None = None
    num: int | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    updated: str | None = None

    @property
    def tags_json(self) -> str:
        """The tags as they are kept."""
        return json.dumps(self.tags, ensure_ascii=False) if self.tags else "[]"


_NO_LABELS = Labels()


class Mark(NamedTuple):
    """What ranking needs of a chunk: its place, and what counts for or against it."""

    file: int
    order: int
    source: str
    superseded: bool
    alone: bool  # whether its file has no other chunk
    speech: Speech = SILENT


class Row(NamedTuple):
    """A chunk with what its file says of it."""

    id: int
    file: int
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
    size: int  # how many different words say something
    stems: bytes  # the marks of all its words


class Index:
    """An open index."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.removed: list[int] = []  # ids that this process has taken out, for who keeps them in memory
        self.inserted = 0  # chunks put in since the keyword tables were last put in order
        self.lowest_put: int | None = None  # the lowest id that got a vector since they last looked
        self._counts: tuple[Any, int] = (None, 0)
        self._stems: dict[str, tuple[str, ...]] = {}
        self._marked: dict[str, bytes] = {}
        self._frequencies: dict[str, int] = {}
        self._seen: Any = None
        try:
            file = str(path) != ":memory:"
            if file:
                pages.damage(str(path))  # of a file that lay here before
                _refuse_newer(pages.version_of(str(path)), path)
            self.connection = pages.connect(str(path)) if file else apsw.Connection(":memory:")
            self.connection.set_busy_timeout(pages.BUSY_MS)
            if file:
                self.connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
            self.connection.execute(
                "pragma trusted_schema = off; pragma cache_size = -65536; pragma temp_store = memory"
            ).fetchall()
            self._prepare()
        except apsw.Error as error:
            raise IndexFailed(f"the index {path} cannot be opened: {error}") from error
        self._tokenizer = self.connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.connection.execute(sql, tuple(values)).fetchone()
        return None if row is None else row[0]

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction that takes the write lock first, so that it never meets "locked" half-way."""
        mark = len(self.removed)
        try:
            self.connection.execute("begin immediate")
            try:
                yield
                self.connection.execute("commit")
            except BaseException:
                del self.removed[mark:]  # what was taken out is back
                self._end()
                raise
        except apsw.Error as error:
            raise IndexFailed(f"the index {self.path} cannot be written: {error}") from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """One view of the index for several questions to it, whatever others write meanwhile."""
        self.connection.execute("begin")
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        """Leave a transaction; SQLite may have left it already, as on a full disk."""
        if self.connection.in_transaction:
            self.connection.execute("rollback")

    def raise_damage(self) -> None:
        """Fail when a page was found damaged since the last time, whoever kept quiet about it."""
        said = pages.damage(str(self.path))
        if said is not None:
            raise IndexFailed(said)

    # ---------------------------------------------------------------- meta

    def meta(self, key: str) -> str | None:
        """A remembered value."""
        found = self.value("select value from meta where key = ?", (key,))
        return None if found is None else str(found)

    def remember(self, key: str, value: str) -> None:
        """Remember a value, inside a transaction of the caller's."""
        self.connection.execute("insert or replace into meta values(?, ?)", (key, value))

    def wait_at_most(self, seconds: float | None) -> None:
        """Wait no longer than this for another process; as long as usual when nothing is said."""
        usual = pages.BUSY_MS
        self.connection.set_busy_timeout(
            usual if seconds is None else max(1, min(usual, int(seconds * 1000)))
        )

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever anyone has changed the index."""
        return int(self.value("pragma data_version")), self.connection.total_changes()

    # ---------------------------------------------------------------- writing

    def known(self, places: Sequence[Place], root: str) -> dict[str, Known]:
        """Every file the index holds of some places, as seen from one clone of a project."""
        clause, values = places_where(places, root)
        rows = self.connection.execute(
            f"""select item, id, hash, size, mtime, ctime, inode, reason, path, source, kind, root
            from files f
            where {clause}""",
            values,
        )
        return {row[0]: Known(row[1], row[2], row[3:7], row[7], row[8:]) for row in rows}

    def known_one(self, item: str, place: Place) -> Known | None:
        """What the index holds of one file in a place."""
        row = self.connection.execute(
            """select id, hash, size, mtime, ctime, inode, reason, path, source, kind, root from files
            where item = ? and scope = ? and scope_id = ?""",
            (item, str(place.scope), place.id),
        ).fetchone()
        return None if row is None else Known(row[0], row[1], row[2:6], row[6], row[7:])

    @property
    def upgrading(self) -> bool:
        """Whether some rows are still those of an earlier version."""
        return self.meta("upgrading") is not None

    def outdated(self) -> set[int]:
        """The files with rows of an earlier version; none are left when the upgrade is done."""
        if not self.upgrading:
            return set()
        return {row[0] for row in self.connection.execute("select file from chunks where asks is null")}

    def finish_upgrade(self) -> None:
        """Note that no row of an earlier version is left, when that is so."""
        with self.writing():
            self.connection.execute(
                """delete from meta
                where key = 'upgrading' and not exists (select 1 from chunks where asks is null)"""
            )

    def every_file(self) -> list[int]:
        """The ids of all files."""
        return [row[0] for row in self.connection.execute("select id from files")]

    def touch(self, file: int, stamp: Stamp) -> None:
        """Note that a file was looked at and holds what it held."""
        self.connection.execute(
            "update files set size = ?, mtime = ?, ctime = ?, inode = ? where id = ?", (*stamp, file)
        )

    def remove(self, file: int) -> None:
        """Take a file with all its chunks out."""
        self._remove_chunks(file)
        self.connection.execute("delete from files where id = ?", (file,))

    def fail(self, item: Item, reason: str) -> None:
        """Note a file that cannot be indexed, and why."""
        self._remove_chunks(self._put_file(item, "", reason, _NO_LABELS))

    def add(self, item: Item, content: bytes, digest: str, *, tokens: int, overlap: int) -> None:
        """Take a file in, in place of what it was before; chunks before the first change stay."""
        from vademecum.index.chunk import chunks  # not needed to ask

        # What is found is handed to agents, and a passage may begin or end in the middle of a secret.
        text = texts.decode(content)
        clean = outgoing.clean_lines(text)
        cut = [
            each for each in chunks(clean, kind=item.kind, tokens=tokens, overlap=overlap) if not each.hidden
        ]
        labels = _labels(item, text)
        known = self.connection.execute(
            """select id, title, tags, source, kind from files
            where item = ? and scope = ? and scope_id = ?""",
            (item.id, str(item.place.scope), item.place.id),
        ).fetchone()
        kept = 0 if known is None else self._unchanged(known, item, labels, cut)
        file = self._put_file(item, digest, None, labels)
        said = [words.all_in(each.text) for each in cut]
        speeches = _speeches(cut, said)
        if known is not None and kept == len(cut):
            self._put_speech(file, speeches)
            return
        if known is not None:
            self._remove_chunks(file, kept)
            self._put_speech(file, speeches[:kept])
        heads = [head(labels.title, each.heading, each.time, labels.tags, each.text) for each in cut]
        folded = [words.fold(f"{top}\n{each.text}") for top, each in zip(heads, cut, strict=True)]
        alone = len(cut) == 1
        self.inserted += len(cut) - kept
        first = 1 + int(self.value("select seq from sqlite_sequence where name = 'chunks'") or 0) - kept
        self.connection.executemany(
            """insert into chunks(id, file, ord, start, last, body, heading, time, moment, origin, superseded,
            ended, alone, size, stems, speaker, asks, says)
            values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            [
                (
                    *_chunk_row(first + order, file, order, cut[order]),
                    alone,
                    *self._marks(said[order] | words.all_in(heads[order])),
                    *speeches[order],
                )
                for order in range(kept, len(cut))
            ],
        )
        self.connection.executemany(
            "insert into narrow(rowid, body) values(?, ?)",
            [(first + order, folded[order]) for order in range(kept, len(cut))],
        )
        self.connection.executemany(
            "insert into waiting values(?)", [(first + order,) for order in range(kept, len(cut))]
        )
        if alone:  # a file of one chunk says the same to both tables
            return
        once = " ".join(dict.fromkeys(" ".join(heads).split()))  # a heading above ten chunks counts once
        whole = words.fold("\n".join([once, *(each.text for each in cut)]))
        self.connection.execute("insert into wide(rowid, body) values(?, ?)", (file, whole))

    def put_vectors(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Keep the vectors of chunks; of one that has left meanwhile, nothing."""
        kept = list(rows)
        if kept:
            lowest = min(id_ for id_, _ in kept)
            self.lowest_put = lowest if self.lowest_put is None else min(lowest, self.lowest_put)
            if lowest <= int(self.value("select coalesce(max(chunk), 0) from vectors")):
                self._disturb()
        self.connection.executemany(
            """insert or replace into vectors
            select chunk, ? from waiting where chunk = ?""",
            [(vector, id_) for id_, vector in kept],
        )
        self.connection.executemany("delete from waiting where chunk = ?", [(id_,) for id_, _ in kept])

    def without_vectors(
        self, limit: int, places: Sequence[Place] | None = None, root: str = ""
    ) -> list[tuple[int, str]]:
        """Chunks that have no vector yet, with the text to make it from.

        Of some places alone: another project's text may be meant for another embedder.
        """
        clause, values = ("1", []) if places is None else places_where(places, root)
        rows = self.connection.execute(
            f"""select c.id, f.title, c.body from waiting w
            join chunks c on c.id = w.chunk
            join files f on f.id = c.file
            where {clause}
            order by w.chunk
            limit ?""",
            (*values, limit),
        )
        return [(id_, _to_embed(title, body)) for id_, title, body in rows]

    def count_without_vectors(self, places: Sequence[Place] | None = None, root: str = "") -> int:
        """How many chunks have no vector yet."""
        clause, values = ("1", []) if places is None else places_where(places, root)
        return int(
            self.value(
                f"""select count(*) from waiting w
                join chunks c on c.id = w.chunk
                join files f on f.id = c.file
                where {clause}""",
                values,
            )
        )

    def drop_vectors(self) -> None:
        """Forget all vectors, as when the model has changed."""
        self.lowest_put = 0  # whatever comes next comes before all that is in anyone's memory
        self.connection.execute("delete from vectors")
        self.connection.execute("delete from meta where key = 'dimension'")
        self.connection.execute("insert or ignore into waiting select id from chunks")

    # ---------------------------------------------------------------- reading

    def count(self) -> int:
        """How many chunks there are."""
        version = self.version
        if self._counts[0] != version:
            self._counts = version, int(self.value("select count(*) from chunks"))
        return self._counts[1]

    def match(self, expression: str, limit: int) -> list[tuple[int, float]]:
        """The chunks of all there are that match best, with their BM25 and nothing else."""
        return list(
            self.connection.execute(
                f"select rowid, {_SCORE} from narrow where narrow match ? order by 2 desc limit ?",
                (expression, limit),
            )
        )

    def marks(self, ids: Sequence[int]) -> dict[int, Mark]:
        """What ranking needs of chunks."""
        found: dict[int, Mark] = {}
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            rows: Any = self.connection.execute(
                f"""select c.id, c.file, c.ord, f.source, c.superseded is not null, c.alone, c.speaker,
                c.asks, c.says
                from chunks c join files f on f.id = c.file
                where c.id in ({",".join("?" * len(part))})""",
                tuple(part),
            )
            for row in rows:
                said = Speech(row[6], row[7] or 0, row[8] or 0)
                found[row[0]] = Mark(row[1], row[2], row[3], row[4], row[5], said)
        return found

    def tidy(self) -> None:
        """Merge what many small writes have left: a question then looks in one place for a word."""
        with self.writing():
            for table in ("narrow", "wide"):
                self.connection.execute(f"insert into {table}({table}) values('optimize')")
        self.inserted = 0

    def places(self, ids: Sequence[int]) -> dict[int, tuple[str, str, int]]:
        """The scope, the path and the place in the file of chunks."""
        found: dict[int, tuple[str, str, int]] = {}
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            rows = self.connection.execute(
                f"""select c.id, f.scope, f.path, c.ord from chunks c
                join files f on f.id = c.file
                where c.id in ({",".join("?" * len(part))})""",
                tuple(part),
            )
            found.update((row[0], row[1:]) for row in rows)
        return found

    def words_of(self, ids: Sequence[int]) -> dict[int, tuple[int, bytes]]:
        """How many words chunks have, and the marks of these."""
        found: dict[int, tuple[int, bytes]] = {}
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            rows = self.connection.execute(
                f"select id, size, stems from chunks where id in ({','.join('?' * len(part))})", tuple(part)
            )
            found.update((row[0], row[1:]) for row in rows)
        return found

    def match_where(
        self, expression: str, where: str, values: Sequence[Any], limit: int
    ) -> list[tuple[int, float]]:
        """The chunks that match best among those that a condition lets through."""
        rows = self.connection.execute(
            f"""select narrow.rowid, {_SCORE} from narrow
            join chunks c on c.id = narrow.rowid
            join files f on f.id = c.file
            where narrow match ? and {where}
            order by 2 desc
            limit ?""",
            (expression, *values, limit),
        )
        return list(rows)

    def match_wide(
        self, expression: str, where: str | None, values: Sequence[Any], limit: int
    ) -> dict[int, float]:
        """The files that match best."""
        condition = (
            "" if where is None else f"and exists (select 1 from files f where f.id = wide.rowid and {where})"
        )
        rows = self.connection.execute(
            f"select rowid, -bm25(wide) from wide where wide match ? {condition} order by 2 desc limit ?",
            (expression, *(() if where is None else values), limit),
        )
        return dict(rows)

    def holding(self, phrases: Sequence[str], where: str, values: Sequence[Any]) -> list[int]:
        """The chunks that hold each of some phrases word for word, with what stands above them."""
        rows: Any = self.connection.execute(
            f"""select c.id, f.title, c.heading, c.time, f.tags, c.body from narrow
            join chunks c on c.id = narrow.rowid
            join files f on f.id = c.file
            where narrow match ? and {where}""",
            (words.whole(phrases), *values),
        )
        return [
            id_
            for id_, title, heading, time, tags, body in rows
            if words.holds(f"{head(title, heading, time, json.loads(tags), body)}\n{body}", phrases)
        ]

    def labels(self, ids: Sequence[int], most: int) -> list[tuple[int, str]]:
        """What chunks are labelled with and how each begins, in the order asked for."""
        found: dict[int, str] = {}
        for row in self.connection.execute(
            """select c.id, coalesce(f.key, ''), f.title, coalesce(f.type, ''), f.tags, c.heading,
            substr(c.body, 1, ?)
            from chunks c join files f on f.id = c.file
            where c.id in (select value from json_each(?))""",
            (most, json.dumps(ids)),
        ):
            id_, *parts = row
            parts[3] = " ".join(json.loads(str(parts[3])))
            found[int(str(id_))] = "\n".join(map(str, parts))
        return [(id_, found[id_]) for id_ in ids if id_ in found]

    def count_files(self, where: str, values: Sequence[Any]) -> tuple[int, int]:
        """How many files a condition lets through, and how many of them were taken in."""
        row: Any = self.connection.execute(
            f"select count(*), count(*) filter (where reason is null) from files f where {where}",
            tuple(values),
        ).fetchone()
        return int(row[0]), int(row[1])

    def select(self, where: str, values: Sequence[Any], limit: int) -> list[int]:
        """Chunks by their labels alone, the newest first."""
        rows = self.connection.execute(
            f"""select c.id from chunks c
            join files f on f.id = c.file
            where {where}
            order by coalesce(c.moment, f.updated, '') desc, {_PRECEDENCE}, f.path, c.ord desc
            limit ?""",
            (*values, limit),
        )
        return [row[0] for row in rows]

    def hides(self, where: str, values: Sequence[Any], *, chunks: bool) -> bool:
        """Whether there is anything that a condition leaves out."""
        table = "chunks c join files f on f.id = c.file" if chunks else "files f"
        return bool(self.value(f"select exists (select 1 from {table} where not ({where}))", values))

    def allowed_files(self, where: str, values: Sequence[Any]) -> list[int]:
        """The files that a condition lets through."""
        rows = self.connection.execute(f"select f.id from files f where {where}", tuple(values))
        return [row[0] for row in rows]

    def allowed_chunks(self, where: str, values: Sequence[Any]) -> list[int]:
        """The chunks that a condition lets through."""
        rows = self.connection.execute(
            f"select c.id from chunks c join files f on f.id = c.file where {where}", tuple(values)
        )
        return [row[0] for row in rows]

    def rows(self, ids: Sequence[int], where: str = "1", values: Sequence[Any] = ()) -> dict[int, Row]:
        """Chunks with their files' labels; of those only that a condition lets through."""
        found = {}
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            marks = ",".join("?" * len(part))
            for row in self.connection.execute(
                f"""select c.id, f.id, f.item, f.path, f.source, f.kind, f.scope, f.scope_id, f.title, f.key,
                f.num, f.type, f.tags, f.updated, c.start, c.last, c.body, c.heading, c.time, c.origin,
                c.superseded, c.size, c.stems
                from chunks c join files f on f.id = c.file
                where c.id in ({marks}) and {where}""",
                (*part, *values),
            ):
                cells: list[Any] = list(row)
                cells[12] = () if row[12] == "[]" else tuple(json.loads(cells[12]))
                found[cells[0]] = Row(*cells)
        return found

    def vectors(self, after: int) -> list[tuple[Any, ...]]:
        """Of chunks with a greater id: the id, the eight values of its mark, the vector."""
        return list(
            self.connection.execute(
                """select v.chunk, c.file, c.ord, f.source, c.superseded is not null, c.alone, c.speaker,
                coalesce(c.asks, 0), coalesce(c.says, 0), v.vector
                from vectors v
                join chunks c on c.id = v.chunk
                join files f on f.id = c.file
                where v.chunk > ?
                order by v.chunk""",
                (after,),
            )
        )

    def vector_ids(self) -> list[int]:
        """The chunks that have a vector."""
        return [row[0] for row in self.connection.execute("select chunk from vectors order by chunk")]

    def frequency(self, word: str) -> int:
        """In how many chunks a word stands, whatever its ending; at times a little out of date."""
        stems = self.stems(word)
        if not stems:
            return 0
        version = self.version
        if version != self._seen:
            count = self.count()
            # A count of all occurrences is dear, and a few more or less change no weight that matters.
            if not self._frequencies or abs(count - self._frequencies.get("", 0)) > count // 20:
                self._frequencies = {"": count}
            self._frequencies = {stem: seen for stem, seen in self._frequencies.items() if seen}
            self._seen = version
        found = self._frequencies.get(stems[0])
        if found is None:
            found = int(self.value("select doc from vocabulary where term = ?", (stems[0],)) or 0)
            if len(self._frequencies) > 100_000:
                self._frequencies = {"": self._frequencies.get("", 0)}
            self._frequencies[stems[0]] = found
        return found

    def stems(self, word: str) -> tuple[str, ...]:
        """A word as the keyword tables keep it."""
        found = self._stems.get(word)
        if found is None:
            raw: Any = self._tokenizer(
                word.encode(errors="ignore"), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False
            )
            if len(self._stems) > _MOST_WORDS:
                self._stems.clear()
            found = self._stems[word] = tuple(str(stem) for group in raw for stem in group)
        return found

    def mark(self, word: str) -> bytes:
        """What stands for a word and all its endings among a chunk's stems; empty for a word that is none."""
        found = self._marked.get(word)
        if found is None:
            if len(self._marked) > _MOST_WORDS:
                self._marked.clear()
            found = self._marked[word] = b"".join(
                blake2b(stem.encode(), digest_size=_MARK).digest() for stem in self.stems(word)
            )
        return found

    def check(self) -> list[str]:
        """What SQLite and FTS5 find wrong with the file."""
        problems = []
        for row in self.connection.execute("pragma integrity_check"):
            if row[0] != "ok":
                problems.append(str(row[0]))
        for table in ("narrow", "wide"):
            try:
                self.connection.execute(f"insert into {table}({table}) values('integrity-check')")
                wrong = self._sums(table) or self._lost_words(table)
            except apsw.Error as error:
                wrong = f"{table}: {error}"
            problems += [wrong] if wrong else []
        return problems

    def fingerprints(self, places: Sequence[Place], root: str) -> dict[tuple[str, int], tuple[Any, ...]]:
        """All that is kept of each chunk of some places, its words in the keyword tables included."""
        clause, values = places_where(places, root)
        rows: Any = self.connection.execute(
            f"""select c.id, f.id, f.item, c.ord, f.path, f.source, f.kind, f.hash, f.reason, f.title, f.key,
            f.num, f.type, f.tags, f.updated, c.start, c.last, c.body, c.heading, c.time, c.moment, c.origin,
            c.superseded, c.ended, c.alone, c.size, c.stems, c.speaker, c.asks, c.says, v.vector
            from chunks c join files f on f.id = c.file
            left join vectors v on v.chunk = c.id
            where {clause}""",
            values,
        )
        narrow, wide = self._said("narrow"), self._said("wide")
        return {(row[2], row[3]): (*row[4:], narrow.get(row[0]), wide.get(row[1])) for row in rows}

    def _said(self, table: str) -> dict[int, tuple[bytes, int]]:
        """For each row of a keyword table its length, and a number for all its words at all their places."""
        found: dict[int, int] = {}
        words_at: Any = self.connection.execute(f"select term, doc, offset from {table}_words")
        for term, row, place in words_at:
            found[row] = found.get(row, 0) ^ hash((term, place))
        lengths: Any = self.connection.execute(f"select id, sz from {table}_docsize")
        return {row: (length, found.get(row, 0)) for row, length in lengths}

    def _lost_words(self, table: str) -> str | None:
        """Whether a word that stands in a keyword table is not found when it is asked for."""
        rows: Any = self.connection.execute(
            f"select term, count(*) from {table}_words group by term"
        ).fetchall()
        for term, count in rows:
            if self.value(f"select count(*) from {table}_words where term = ?", (term,)) != count:
                return f"{table}: words that stand there are not found"
        return None

    def _sums(self, table: str) -> str | None:
        """What is wrong with the numbers that FTS5 keeps of a whole table: how many rows, how many words."""
        sizes: Any = self.connection.execute(f"select sz from {table}_docsize").fetchall()
        real = [len(sizes), sum(_number(size, 0)[0] for (size,) in sizes)]
        block = self.value(f"select block from {table}_data where id = 1") or b""
        kept, at = [], 0
        while at < len(block):
            number, at = _number(block, at)
            kept.append(number)
        return None if (kept or [0, 0]) == real else f"{table}: its sums are not those of its rows"

    # ---------------------------------------------------------------- parts

    def _prepare(self) -> None:
        """Make the tables in a new file; refuse one from a newer version."""
        found = int(self.value("pragma user_version"))
        _refuse_newer(found, self.path)
        if found == VERSION:
            return
        if found == UPGRADED:
            with self.writing():
                if self.value("pragma user_version") == UPGRADED:
                    self.connection.execute(_UPGRADE)
                    self.connection.execute(f"pragma user_version = {VERSION}")
            return
        if found:
            raise IndexFailed(f"the index {self.path} was made by an older version of vade")
        with self.writing():
            if self.value("pragma user_version") == 0:
                self.connection.execute(_SCHEMA)
                self.remember("made", uuid.uuid4().hex)  # ids of another file mean other chunks
                self.connection.execute(f"pragma user_version = {VERSION}")

    def _put_file(self, item: Item, digest: str, reason: str | None, labels: Labels) -> int:
        """Note a file, over what was noted of it before."""
        made = self.value(
            """insert into files(item, path, source, kind, scope, scope_id, root, hash, size, mtime, ctime,
            inode, reason, title, key, num, type, tags, updated)
            values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            on conflict(item, scope, scope_id) do update set
            path = excluded.path, source = excluded.source, kind = excluded.kind, root = excluded.root,
            hash = excluded.hash, size = excluded.size, mtime = excluded.mtime, ctime = excluded.ctime,
            inode = excluded.inode, reason = excluded.reason, title = excluded.title, key = excluded.key,
            num = excluded.num, type = excluded.type, tags = excluded.tags, updated = excluded.updated
            returning id""",
            (
                item.id,
                item.path,
                item.source,
                item.kind,
                str(item.place.scope),
                item.place.id,
                item.root,
                digest,
                *item.stamp,
                reason,
                labels.title,
                labels.key,
                labels.num,
                labels.type,
                labels.tags_json,
                labels.updated,
            ),
        )
        return int(made)

    def _put_speech(self, file: int, speeches: Sequence[Speech]) -> None:
        """Say again of a file's first chunks what an earlier version did not know."""
        if self.upgrading:
            self.connection.executemany(
                "update chunks set speaker = ?, asks = ?, says = ? where file = ? and ord = ?",
                [(*each, file, order) for order, each in enumerate(speeches)],
            )
            self._disturb_all()

    def _marks(self, found: set[str]) -> tuple[int, bytes]:
        """How many different words say something, and the marks of all, each once."""
        return len(found - words.LOW), b"".join(sorted({self.mark(word) for word in found}))

    def _unchanged(self, known: tuple[Any, ...], item: Item, labels: Labels, cut: Sequence[Chunk]) -> int:
        """How many of a file's first chunks can stay as they are: an append leaves all before the last."""
        if known[1:] != (labels.title, labels.tags_json, item.source, item.kind):
            return 0
        old = self.connection.execute(
            """select start, last, body, heading, time, origin, superseded from chunks
            where file = ?
            order by ord""",
            (known[0],),
        )
        before = old.fetchall()
        same = 0
        for row, now in zip(before, cut, strict=False):
            origin = None if now.origin is None else str(now.origin)
            if row != (now.start, now.end, now.text, now.heading, now.time, origin, now.superseded):
                break
            same += 1
        if same == len(cut) == len(before):
            return same
        return min(same, len(cut) - 1) if same > 1 else 0  # a first chunk may have been alone, or be so now

    def _remove_chunks(self, file: int, kept: int = 0) -> None:
        """Take the chunks of a file out, but for the first ones."""
        rows = self.connection.execute("select id from chunks where file = ? and ord >= ?", (file, kept))
        ids = [row[0] for row in rows]
        each = [(id_,) for id_ in ids]
        for table, column in (
            ("narrow", "rowid"),
            ("vectors", "chunk"),
            ("waiting", "chunk"),
            ("chunks", "id"),
        ):
            self.connection.executemany(f"delete from {table} where {column} = ?", each)
        self.connection.execute("delete from wide where rowid = ?", (file,))
        self.removed += ids
        if ids:
            self._disturb()

    def _disturb_all(self) -> None:
        """Note that rows say more than before: who keeps them in memory has to read them again."""
        self.connection.execute(
            """insert into meta values('respoken', 1)
            on conflict(key) do update set value = value + 1"""
        )

    def _disturb(self) -> None:
        """Note that vectors did not just grow at the end: who keeps them in memory has to compare."""
        self.connection.execute(
            """insert into meta values('disturbed', 1)
            on conflict(key) do update set value = value + 1"""
        )


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


def _refuse_newer(version: int, path: Path | str) -> None:
    if version > VERSION:
        raise IndexNewer(f"the index {path} was made by a newer version of vade")


def _chunk_row(id_: int, file: int, order: int, chunk: Chunk) -> tuple[Any, ...]:
    return (
        id_,
        file,
        order,
        chunk.start,
        chunk.end,
        chunk.text,
        chunk.heading,
        chunk.time,
        moment(chunk.time),
        None if chunk.origin is None else str(chunk.origin),
        chunk.superseded,
        moment(chunk.superseded),
    )


def _speeches(cut: Sequence[Chunk], said: Sequence[set[str]]) -> list[Speech]:
    """Who speaks in each chunk and of what; a later part of an entry, or of a line, is its first one's."""
    found: list[Speech] = []
    for at, (chunk, own) in enumerate(zip(cut, said, strict=True)):
        last = cut[at - 1] if at else None
        cut_off = last is not None and (
            (chunk.entry is not None and chunk.entry == last.entry) or chunk.start == last.start
        )
        found.append(speech.of(chunk.text, own, before=found[-1].speaker if cut_off else None))
    return found


def _labels(item: Item, text: str) -> Labels:
    """What a file says of itself, for filters and for the indexed text."""
    from vademecum.store.records import key_of

    try:
        parsed = document.parse(text)
    except Malformed:
        if item.kind != "markdown":  # a source's frontmatter is its own business
            raise
        parsed = None
    values = {} if parsed is None else parsed.front.values
    name = item.path.rpartition("/")[2]
    title = values.get("title") or (parsed and parsed.title) or name.rpartition(".")[0]
    if item.kind == "markdown":
        title = _with_aliases(str(title), read_tags(values.get("aliases") or values.get("alias")))
    num = values.get("num")
    return Labels(
        title=outgoing.clean_text(str(title)),
        key=key_of(name) if item.kind == "record" else None,
        num=num if type(num) is int else None,
        type=str(values.get("type") or "project") if item.kind == "record" else None,
        tags=outgoing.clean_all(read_tags(values.get("tags"))),
        updated=None if values.get("updated") is None else moment(str(values["updated"])),
    )


def _with_aliases(title: str, aliases: Sequence[str]) -> str:
    """A title with the other names that a note of someone else's goes by: it is asked for by any of them."""
    others = [each[:_LONGEST_ALIAS] for each in aliases if each.lower() != title.lower()][:_MOST_ALIASES]
    return f"{title} ({', '.join(others)})" if others else title


def head(title: str, heading: str, time: str | None, tags: Sequence[str], body: str) -> str:
    """What goes into the indexed text beside the chunk itself, nothing twice.

    A day is written out: people ask for a Saturday in May, not for 2023-05-20.
    """
    when = clock.parse(time)
    day = "" if when is None else f"{when:%Y-%m-%d %A %d %B %Y}"
    path = "" if heading and (day.startswith(heading) or _opens(body, heading)) else heading
    name = "" if day.startswith(title) or path.startswith(title) or _opens(body, title) else title
    return " ".join(part for part in (name, path, day, *tags) if part)


def _opens(body: str, title: str) -> bool:
    """Whether a text begins with its own title."""
    return body.lstrip("# \n").startswith(title)


def _to_embed(title: str, body: str) -> str:
    """The text a vector is made from; a date for a title would only blur its meaning."""
    return body if not title or clock.parse(title) or _opens(body, title) else f"{title}. {body}"


def moment(stamp: str | None) -> str | None:
    """A time as it is compared: in UTC, whatever offset it was written with."""
    found = clock.parse(stamp)
    return None if found is None else clock.stamp(found)


def places_where(places: Sequence[Place], root: str) -> tuple[str, list[str]]:
    """The one predicate of visibility, as SQL: these places, and of `.vade/` folders this clone's alone.

    No place at all sees nothing.
    """
    if not places:
        return "0", []
    clause = " or ".join("(f.scope = ? and f.scope_id = ?)" for _ in places)
    values = [value for place in places for value in (str(place.scope), place.id)]
    return f"({clause}) and f.root in ('', ?)", [*values, root]
