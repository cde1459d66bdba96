"""The index file: chunks, two keyword tables and vectors in one SQLite database that can be thrown away.

The narrow keyword table knows a chunk with a little of its neighbours, the wide one whole files: the two find
more than either. Nothing here is the truth; every row comes from a file and goes with it.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from vademecum.errors import IndexFailed, Malformed
from vademecum.index import words
from vademecum.index.chunk import chunks
from vademecum.store import clock, document, texts
from vademecum.store.joining import read_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from vademecum.index.base import Item, Stamp
    from vademecum.index.chunk import Chunk
    from vademecum.types import Place

VERSION = 1
BUSY_MS = 10_000
NEAR = 400  # characters of each neighbour that join a chunk in the narrow table
_TOKENIZER = "porter unicode61 remove_diacritics 2"
_SCHEMA = f"""
create table meta(
    key text primary key,
    value text
) without rowid;
create table files(
    id integer primary key,
    item text not null unique,
    path text not null,
    source text not null,
    kind text not null,
    scope text not null,
    scope_id text not null,
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
    updated text
);
create index files_place on files(scope, scope_id);
create table chunks(
    id integer primary key,
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
    ended text
);
create index chunks_file on chunks(file, ord);
create table vectors(
    chunk integer primary key,
    vector blob not null
);
create virtual table narrow using fts5(
    head, body, near,
    content='', contentless_delete=1, tokenize="{_TOKENIZER}"
);
create virtual table wide using fts5(
    body,
    content='', contentless_delete=1, tokenize="{_TOKENIZER}"
);
create virtual table vocabulary using fts5vocab('narrow', 'row');
insert into narrow(narrow, rank) values('rank', 'bm25(1.0, 1.0, 0.5)');
"""


class Known(NamedTuple):
    """What the index holds of a file."""

    id: int
    hash: str
    stamp: tuple[int, int, int, int]
    reason: str | None


class Mark(NamedTuple):
    """What ranking needs of a chunk."""

    file: int
    source: str
    superseded: bool


class Row(NamedTuple):
    """A chunk with what its file says of it."""

    id: int
    file: int
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


class Index:
    """An open index."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        try:
            self.connection = apsw.Connection(str(path))
            self.connection.set_busy_timeout(BUSY_MS)
            if str(path) != ":memory:":
                self.connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
            self.connection.execute(
                "pragma trusted_schema = off; pragma cache_size = -65536; pragma temp_store = memory"
            ).fetchall()
            self._prepare()
        except apsw.Error as error:
            raise IndexFailed(f"the index {path} cannot be opened: {error}") from error
        self._tokenizer = self.connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
        self._stems: dict[str, tuple[str, ...]] = {}

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
        try:
            self.connection.execute("begin immediate")
            try:
                yield
            except BaseException:
                self.connection.execute("rollback")
                raise
            self.connection.execute("commit")
        except apsw.Error as error:
            raise IndexFailed(f"the index {self.path} cannot be written: {error}") from error

    # ---------------------------------------------------------------- meta

    def meta(self, key: str) -> str | None:
        """A remembered value."""
        found = self.value("select value from meta where key = ?", (key,))
        return None if found is None else str(found)

    def remember(self, key: str, value: str) -> None:
        """Remember a value, inside a transaction of the caller's."""
        self.connection.execute("insert or replace into meta values(?, ?)", (key, value))

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever anyone has changed the index."""
        return int(self.value("pragma data_version")), self.connection.total_changes()

    # ---------------------------------------------------------------- writing

    def known(self, places: set[tuple[str, str]] | None = None) -> dict[str, Known]:
        """Every file the index holds, or those of some places."""
        rows = self.connection.execute(
            "select item, id, hash, size, mtime, ctime, inode, reason, scope, scope_id from files"
        )
        return {
            row[0]: Known(row[1], row[2], row[3:7], row[7])
            for row in rows
            if places is None or (row[8], row[9]) in places
        }

    def touch(self, file: int, stamp: Stamp) -> None:
        """Note that a file was looked at and holds what it held."""
        self.connection.execute(
            "update files set size = ?, mtime = ?, ctime = ?, inode = ? where id = ?", (*stamp, file)
        )

    def remove(self, file: int) -> None:
        """Take a file with all its chunks out."""
        ids = [row[0] for row in self.connection.execute("select id from chunks where file = ?", (file,))]
        for table, column in (("narrow", "rowid"), ("vectors", "chunk"), ("chunks", "id")):
            self.connection.executemany(f"delete from {table} where {column} = ?", [(each,) for each in ids])
        self.connection.execute("delete from wide where rowid = ?", (file,))
        self.connection.execute("delete from files where id = ?", (file,))

    def fail(self, item: Item, reason: str) -> None:
        """Note a file that cannot be indexed, and why."""
        self._drop(item)
        self._insert_file(item, "", reason)

    def add(self, item: Item, content: bytes, digest: str, *, tokens: int, overlap: int) -> None:
        """Take a file in, in place of what it was before."""
        text = texts.decode(content)
        cut = [
            each for each in chunks(text, kind=item.kind, tokens=tokens, overlap=overlap) if not each.hidden
        ]
        self._drop(item)
        labels = _labels(item, text)
        file = self._insert_file(item, digest, None, labels)
        heads = [head(labels["title"], each.heading, each.time, labels["tags"], each.text) for each in cut]
        folded = [words.fold(each.text) for each in cut]
        for order, chunk in enumerate(cut):
            id_ = self._insert_chunk(file, order, chunk)
            before = folded[order - 1][-NEAR:] if order else ""
            after = folded[order + 1][:NEAR] if order + 1 < len(cut) else ""
            self.connection.execute(
                "insert into narrow(rowid, head, body, near) values(?, ?, ?, ?)",
                (id_, words.fold(heads[order]), folded[order], f"{before}\n{after}"),
            )
        once = " ".join(dict.fromkeys(" ".join(heads).split()))  # a heading above ten chunks counts once
        whole = "\n".join([words.fold(once), *folded])
        self.connection.execute("insert into wide(rowid, body) values(?, ?)", (file, whole))

    def put_vectors(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Keep the vectors of chunks."""
        self.connection.executemany("insert or replace into vectors values(?, ?)", list(rows))

    def without_vectors(self, limit: int) -> list[tuple[int, str]]:
        """Chunks that have no vector yet, with the text to make it from."""
        rows = self.connection.execute(
            """select c.id, f.title, c.body from chunks c
            join files f on f.id = c.file
            where not exists (select 1 from vectors v where v.chunk = c.id)
            limit ?""",
            (limit,),
        )
        return [(id_, _to_embed(title, body)) for id_, title, body in rows]

    def count_without_vectors(self) -> int:
        """How many chunks have no vector yet."""
        return self.count() - self.vector_count()

    def drop_vectors(self) -> None:
        """Forget all vectors, as when the model has changed."""
        self.connection.execute("delete from vectors")

    # ---------------------------------------------------------------- reading

    def count(self) -> int:
        """How many chunks there are."""
        return int(self.value("select count(*) from chunks"))

    def match_narrow(
        self, expression: str, where: str, values: Sequence[Any], limit: int
    ) -> list[tuple[int, float]]:
        """The chunks that match best, with their BM25, greater being better."""
        rows = self.connection.execute(
            f"""select narrow.rowid, narrow.rank from narrow
            join chunks c on c.id = narrow.rowid
            join files f on f.id = c.file
            where narrow match ? and {where}
            order by narrow.rank
            limit ?""",
            (expression, *values, limit),
        )
        return [(row[0], -row[1]) for row in rows]

    def match_wide(
        self, expression: str, where: str, values: Sequence[Any], limit: int
    ) -> list[tuple[int, float]]:
        """The files that match best."""
        rows = self.connection.execute(
            f"""select wide.rowid, wide.rank from wide
            join files f on f.id = wide.rowid
            where wide match ? and {where}
            order by wide.rank
            limit ?""",
            (expression, *values, limit),
        )
        return [(row[0], -row[1]) for row in rows]

    def select(self, where: str, values: Sequence[Any], limit: int) -> list[int]:
        """Chunks by their labels alone, the newest first."""
        rows = self.connection.execute(
            f"""select c.id from chunks c
            join files f on f.id = c.file
            where {where}
            order by coalesce(c.moment, f.updated, '') desc, c.id desc
            limit ?""",
            (*values, limit),
        )
        return [row[0] for row in rows]

    def visible_chunks(self, where: str, values: Sequence[Any]) -> list[tuple[int, int]]:
        """Every chunk that may be seen, with its file."""
        return list(
            self.connection.execute(
                f"select c.id, c.file from chunks c join files f on f.id = c.file where {where}",
                tuple(values),
            )
        )

    def marks(self, ids: Sequence[int]) -> dict[int, Mark]:
        """What ranking needs of chunks: no text, so a thousand candidates are cheap."""
        found = {}
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            for row in self.connection.execute(
                f"""select c.id, c.file, f.source, c.superseded is not null
                from chunks c join files f on f.id = c.file
                where c.id in ({",".join("?" * len(part))})""",
                tuple(part),
            ):
                found[row[0]] = Mark(row[1], row[2], bool(row[3]))
        return found

    def rows(self, ids: Sequence[int]) -> dict[int, Row]:
        """Chunks with their files' labels."""
        found = {}
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            marks = ",".join("?" * len(part))
            for row in self.connection.execute(
                f"""select c.id, f.id, f.path, f.source, f.kind, f.scope, f.scope_id, f.title, f.key, f.num,
                f.type, f.tags, f.updated, c.start, c.last, c.body, c.heading, c.time, c.origin, c.superseded
                from chunks c join files f on f.id = c.file
                where c.id in ({marks})""",
                tuple(part),
            ):
                values: list[Any] = list(row)
                values[11] = tuple(json.loads(values[11]))
                found[values[0]] = Row(*values)
        return found

    def vectors(self, after: int) -> list[tuple[int, bytes]]:
        """Vectors of chunks with a greater id."""
        return list(self.connection.execute("select chunk, vector from vectors where chunk > ?", (after,)))

    def vector_count(self) -> int:
        """How many vectors there are."""
        return int(self.value("select count(*) from vectors"))

    def frequency(self, word: str) -> int:
        """In how many chunks a word stands, whatever its ending."""
        stems = self.stems(word)
        if not stems:
            return 0
        return int(self.value("select doc from vocabulary where term = ?", (stems[0],)) or 0)

    def stems(self, word: str) -> tuple[str, ...]:
        """A word as the keyword tables keep it."""
        found = self._stems.get(word)
        if found is None:
            raw: Any = self._tokenizer(
                word.encode(errors="ignore"), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False
            )
            found = self._stems[word] = tuple(str(stem) for group in raw for stem in group)
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
            except apsw.Error as error:
                problems.append(f"{table}: {error}")
        return problems

    # ---------------------------------------------------------------- parts

    def _prepare(self) -> None:
        """Make the tables in a new file; refuse one from a newer version."""
        found = self.value("pragma user_version")
        if found > VERSION:
            raise IndexFailed(f"the index {self.path} was made by a newer version of vade")
        if found == VERSION:
            return
        with self.writing():
            if self.value("pragma user_version") == 0:
                self.connection.execute(_SCHEMA)
                self.connection.execute(f"pragma user_version = {VERSION}")

    def _drop(self, item: Item) -> None:
        known = self.value("select id from files where item = ?", (item.id,))
        if known is not None:
            self.remove(known)

    def _insert_file(
        self, item: Item, digest: str, reason: str | None, labels: dict[str, Any] | None = None
    ) -> int:
        values = labels or {"title": "", "key": None, "num": None, "type": None, "tags": (), "updated": None}
        made = self.value(
            """insert into files(item, path, source, kind, scope, scope_id, hash, size, mtime, ctime, inode,
            reason, title, key, num, type, tags, updated)
            values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            returning id""",
            (
                item.id,
                item.path,
                item.source,
                item.kind,
                str(item.place.scope),
                item.place.id,
                digest,
                *item.stamp,
                reason,
                values["title"],
                values["key"],
                values["num"],
                values["type"],
                json.dumps(list(values["tags"]), ensure_ascii=False),
                values["updated"],
            ),
        )
        return int(made)

    def _insert_chunk(self, file: int, order: int, chunk: Chunk) -> int:
        made = self.value(
            """insert into chunks(file, ord, start, last, body, heading, time, moment, origin, superseded,
            ended)
            values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            returning id""",
            (
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
            ),
        )
        return int(made)


def _labels(item: Item, text: str) -> dict[str, Any]:
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
    num = values.get("num")
    return {
        "title": str(title),
        "key": key_of(name) if item.kind == "record" else None,
        "num": num if type(num) is int else None,
        "type": str(values.get("type") or "project") if item.kind == "record" else None,
        "tags": read_tags(values.get("tags")),
        "updated": None if values.get("updated") is None else str(values["updated"]),
    }


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


def places_where(places: Sequence[Place]) -> tuple[str, list[str]]:
    """The one predicate of visibility, as SQL; no place at all sees nothing."""
    if not places:
        return "0", []
    clause = " or ".join("(f.scope = ? and f.scope_id = ?)" for _ in places)
    return f"({clause})", [value for place in places for value in (str(place.scope), place.id)]
