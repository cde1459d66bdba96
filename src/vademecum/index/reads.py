"""The reader model's vectors, in a table of their own; a passage without a vector is not judged by them.

The table is made with the first vector and records its model, so no index has to be rebuilt for the table.
Chunks that leave the index leave this table too. A passage may have several vectors, one for each window of
its text; the nearest vector counts.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from vademecum.index.base import JOURNAL, MEMORY, PINNED, ReadNear
from vademecum.lazy import LazyModule
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vademecum.index.base import Filter
    from vademecum.index.sqlite import SqliteIndex
else:
    np = LazyModule("numpy")

_VERSION = 1  # of the table
_LENGTH = "reads_length"  # the setting with the length of a vector
_JOINED = "chunks c join files f on f.id = c.file"
_WINDOWS = 4  # windows of a passage that are at least compared
_FEW = 20_000  # vectors that are held as floats
_BLOCK = 4096  # vectors that are converted to floats at once
_TABLE = """
drop trigger if exists reads_gone;
drop table if exists reads;
create table reads(
    id integer primary key autoincrement,
    chunk integer not null,
    vector blob not null
);
create index reads_chunk on reads(chunk);
create trigger reads_gone after delete on chunks begin
    delete from reads where chunk = old.id;
end;
"""


NOTHING_READ = ReadNear({}, 0.0, 1.0, 0)


class ReadScope(NamedTuple):
    """The sources and speakers whose passages the reader model shall read."""

    sources: tuple[str, ...] = ()  # empty for every source
    speakers: tuple[str, ...] = ()


CURATED = ReadScope((MEMORY, JOURNAL, PINNED))  # read without a request
WHOLE = ReadScope()


class ReaderVectors:
    """The table of the reader model's vectors in one index."""

    def __init__(self, index: SqliteIndex) -> None:
        # Closing the index closes its file, so nothing here may hold the file.
        self._index: SqliteIndex = weakref.proxy(index)
        self._version: tuple[Any, ...] | None = None  # of the index when the vectors were loaded
        self._state: tuple[Any, ...] | None = None  # the state that the next three belong to
        self._ids: Any = None  # the chunk and the file of each row
        self._packed: Any = None
        self._lengths: Any = None
        self._wide: Any = None  # the unit vectors as floats, when there are few

    def made_by(self) -> str | None:
        """Return the name of the model that made the stored vectors; None when there are none."""
        value = self._index.stats().settings.get("reads")
        return None if value is None or not value.startswith(f"{_VERSION} ") else value.partition(" ")[2]

    def waiting(self, filter: Filter, limit: int | None, *, made_by: str, wanted: ReadScope) -> list[int]:
        """Return the ids of up to `limit` wanted chunks that the model has not read yet, the newest first."""
        where, values = self._unread(filter, made_by=made_by, wanted=wanted)
        # The moment decides for sessions, which are indexed in the order of their imports.
        sql = f"select c.id from {_JOINED} where {where} order by c.moment desc, c.id desc"
        most = -1 if limit is None else limit
        return [row[0] for row in self._index._ask(f"{sql} limit ?", (*values, most))]

    def count(self, filter: Filter, *, made_by: str, wanted: ReadScope = CURATED) -> tuple[int, int]:
        """Return the number of chunks that the model shall read, and how many of them it has not read."""
        joined = f"select count(*) from {_JOINED} where"
        where, values = _where(self._index._where(filter), wanted)
        unread, more = self._unread(filter, made_by=made_by, wanted=wanted)
        ask = self._index._ask
        return int(ask(f"{joined} {where}", values)[0][0]), int(ask(f"{joined} {unread}", more)[0][0])

    def put(self, rows: Iterable[tuple[int, Sequence[bytes]]], *, made_by: str) -> None:
        """Store the vectors of chunks; skip chunks that were removed, or that another process has read.

        If another model than `made_by` made the stored vectors, they are deleted first. A chunk without
        readable text gets an empty vector, so no process tries to read it again.
        """
        vectors_by_chunk = [(chunk, list(vectors) or [b""]) for chunk, vectors in rows]
        length = max((len(each) for _, vectors in vectors_by_chunk for each in vectors), default=0)
        connection = self._index._connection
        with self._index._writing():
            if self.made_by() != made_by:
                connection.execute(_TABLE)
                connection.execute("delete from meta where key = ?", (_LENGTH,))
                self._index._remember({"reads": f"{_VERSION} {made_by}"})
            if length:
                self._index._remember({_LENGTH: str(length)})
            for chunk, vectors in vectors_by_chunk:
                self._put_one(chunk, vectors)

    def _put_one(self, chunk: int, vectors: Sequence[bytes]) -> None:
        connection = self._index._connection
        if connection.execute(f"select {self._spoilt('?')}", (chunk,)).fetchone() == (1,):
            connection.execute("delete from reads where chunk = ?", (chunk,))
        here = """select exists (select 1 from chunks where id = :chunk)
            and not exists (select 1 from reads where chunk = :chunk)"""
        if connection.execute(here, {"chunk": chunk}).fetchone() == (1,):
            connection.executemany(
                "insert into reads(chunk, vector) values(?, ?)", [(chunk, each) for each in vectors]
            )

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> ReadNear:
        """Return the cosines of the chunks nearest to a question's vector, and of the chunks in `also`.

        Only chunks that the filter allows are returned; none if another model than `made_by` made the
        vectors.
        """
        if self.made_by() != made_by:
            return NOTHING_READ
        ids, packed, lengths = self._refreshed(len(query))
        if not len(ids):
            return NOTHING_READ
        if self._wide is not None:
            cosines = self._wide @ query
        else:
            cosines = np.empty(len(ids), np.float32)
            for start in range(0, len(ids), _BLOCK):
                block = slice(start, start + _BLOCK)
                cosines[block] = packed[block].astype(np.float32) @ query / lengths[block]
        mean, deviation = float(cosines.mean()), max(float(cosines.std()), 1e-3)
        rows = self._allowed(filter, ids)
        first = _best(rows, cosines, limit * _WINDOWS)
        found: dict[int, float] = {}
        for chunk, cosine in zip(ids[first, 1].tolist(), cosines[first].tolist(), strict=True):
            if len(found) < limit:
                found.setdefault(chunk, cosine)
        others = _best(rows[np.isin(ids[rows, 1], np.fromiter(also, np.int64))], cosines)
        for chunk, cosine in zip(ids[others, 1].tolist(), cosines[others].tolist(), strict=True):
            found.setdefault(chunk, cosine)
        return ReadNear(found, mean, deviation, len(ids))

    def _unread(self, filter: Filter, *, made_by: str, wanted: ReadScope) -> tuple[str, tuple[Any, ...]]:
        where, values = _where(self._index._where(filter), wanted)
        if self.made_by() != made_by:
            return where, values
        here = "exists (select 1 from reads r where r.chunk = c.id)"
        return f"{where} and (not {here} or {self._spoilt('c.id')})", values

    def _spoilt(self, chunk: str) -> str:
        """Return the SQL condition that a chunk has a stored value that is not a valid vector."""
        return f"exists (select 1 from reads r where r.chunk = {chunk} and not ({self._sound()}))"

    def _sound(self, dimension: int | None = None) -> str:
        """Return the SQL condition that row `r` holds a valid vector, or an empty vector.

        A chunk without readable text has an empty vector. Anybody can write to the file, so a value of
        another type or length is invalid. Without `dimension`, the length is the stored one.
        """
        known = dimension or int(self._index.stats().settings.get(_LENGTH, 0))
        lengths = f" and length(r.vector) in (0, {known})" if known else ""
        return f"typeof(r.vector) = 'blob'{lengths}"

    def _refreshed(self, dimension: int) -> tuple[Any, Any, Any]:
        """Load the vectors stored since the last call; return the ids, vectors and lengths of all."""
        version = (self._index._look(), dimension)
        if version != self._version:
            self._version = None
            self._refresh(dimension)
            self._version = version
        return self._ids, self._packed, self._lengths

    def _refresh(self, dimension: int) -> None:
        made = self._index.stats().settings.get("made")
        count, last = self._index._ask("select count(*), coalesce(max(id), 0) from reads")[0]
        state = (made, self.made_by(), count, last)
        if self._ids is None or self._state is None or state[:2] != self._state[:2]:
            self._ids, self._packed = np.zeros((0, 3), np.int64), np.zeros((0, dimension), np.int8)
            self._state = None
        if state != self._state:
            self._append(dimension, 0 if self._state is None else self._state[3])
            sound = f"select r.id from reads r where {self._sound(dimension)} and length(r.vector) > 0"
            here = {row[0] for row in self._index._ask(sound)}
            if len(here) != len(self._ids):
                mask = np.isin(self._ids[:, 0], np.fromiter(here, np.int64, len(here)))
                self._ids, self._packed = self._ids[mask], self._packed[mask]
            wide = self._packed.astype(np.float32)
            self._lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", wide, wide)), 1)
            self._wide = wide / self._lengths[:, None] if len(wide) <= _FEW else None
            self._state = state

    def _append(self, dimension: int, after: int) -> None:
        rows = self._index._ask(
            f"""select r.id, r.chunk, c.file, r.vector
            from reads r
            join chunks c on c.id = r.chunk
            where r.id > ? and {self._sound(dimension)} and length(r.vector) > 0
            order by r.id""",
            (after,),
        )
        if rows:
            fresh = np.frombuffer(b"".join(row[3] for row in rows), np.int8).reshape(len(rows), dimension)
            self._ids = np.concatenate([self._ids, np.array([row[:3] for row in rows], np.int64)])
            self._packed = np.concatenate([self._packed, fresh])

    def _allowed(self, filter: Filter, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of the rows whose chunks a filter allows."""
        if not self._index._leaves_out(filter):
            return np.arange(len(ids))
        where, values = self._index._where(filter)
        column, table = ("f.id", "files f") if filter.by_file else ("c.id", _JOINED)
        wanted = [row[0] for row in self._index._ask(f"select {column} from {table} where {where}", values)]
        return np.flatnonzero(np.isin(ids[:, 2 if filter.by_file else 1], np.array(wanted, np.int64)))


def _where(visible: tuple[str, tuple[Any, ...]], wanted: ReadScope) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL condition for the chunks that the caller sees and that the model shall read."""
    where, values = visible
    for column, some in (("f.source", wanted.sources), ("c.speaker", wanted.speakers)):
        if some:
            where = f"{where} and {column} in ({', '.join('?' * len(some))})"
            values = (*values, *some)
    return where, values


def _best(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], most: int | None = None
) -> NDArray[np.int64]:
    """Return the rows in order, the greatest cosine first; with `most`, only so many rows."""
    if most is not None and most < len(rows):
        rows = np.sort(rows[np.argpartition(-cosines[rows], most)[:most]])
    return rows[np.argsort(-cosines[rows], kind="stable")]
