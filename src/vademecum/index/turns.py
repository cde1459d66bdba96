"""The sessions' index file: what was said, by its words, in an SQLite database that can be thrown away.

Apart from the notes' index, so that long transcripts weigh neither on its size nor on how rare a word is
there. It keeps words and places, never the text itself: that is read from the log a result stands in. Knows
rows, and nothing of how a log is read.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from vademecum.errors import IndexFailed, IndexNewer
from vademecum.index import pages, words

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

VERSION = 2
_KIND = 0x76616465  # in the header, so that no other database passes for one of these
_TOKENIZER = "porter unicode61 remove_diacritics 2"
_SCHEMA = f"""
create table logs(
    id integer primary key autoincrement,
    project text not null,
    session text not null,
    agent text not null,
    audience text not null,
    begun integer not null,
    given text not null,
    made text not null,
    looked integer not null,
    updated text not null,
    size integer not null,
    mtime integer not null,
    ctime integer not null,
    inode integer not null,
    done integer not null,
    upto integer not null,
    lines integer not null,
    turns integer not null,
    mark blob not null,
    unique(project, session)
);
create table parts(
    id integer primary key autoincrement,
    log integer not null,
    line integer not null,
    start integer not null,
    last integer not null,
    turn integer not null,
    role text not null,
    time text not null,
    moment text,
    at integer not null,
    length integer not null,
    size integer not null,
    asks integer not null,
    says integer not null,
    digest blob not null
);
create index parts_log on parts(log, line, at);
create virtual table said using fts5(
    body,
    content='', contentless_delete=1, tokenize="{_TOKENIZER}"
);
create virtual table said_words using fts5vocab('said', 'instance');
"""
_COLUMNS = (
    "project, session, agent, audience, begun, given, made, looked, updated, size, mtime, ctime, inode, done,"
    " upto, lines, turns, mark"
)
_SET = ", ".join(f"{name.strip()} = ?" for name in _COLUMNS.split(","))
# What is wrong with the file itself; all else is trouble of the disk, of other processes or of our own.
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SchemaChangeError, apsw.SQLError)


class Kept(NamedTuple):
    """How far a log was taken in, and what is known of its session by then."""

    project: str
    session: str
    agent: str = ""
    audience: str = ""
    begun: bool = False  # whether the line that says whose it is was met
    given: str = ""  # the name somebody gave it last
    made: str = ""  # the name made from the first real request
    looked: int = 0  # messages in which such a request was looked for
    updated: str = ""
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    inode: int = 0
    done: bool = False  # whether everything was taken in that was there by that stamp
    upto: int = 0
    lines: int = 0
    turns: int = 0
    mark: bytes = b""  # of the bytes at the beginning, and of those before `upto`
    id: int = 0

    @property
    def name(self) -> str:
        """What the session is called."""
        return self.given or self.made

    @property
    def stamp(self) -> tuple[int, int, int, int]:
        """What the system said of the file."""
        return self.size, self.mtime, self.ctime, self.inode


class Part(NamedTuple):
    """A message, or a piece of a long one, on its way into the index."""

    line: int
    start: int  # where the line stands in the log, in bytes
    last: int
    turn: int
    role: str
    time: str
    moment: str | None
    at: int  # where the piece stands in what the message says, in characters
    length: int
    size: int  # how many different words say something
    asks: int  # how many of a hundred sentences are questions
    says: int  # whether it tells of times and numbers
    digest: bytes
    body: str = ""  # what is looked for; not kept


class Row(NamedTuple):
    """A piece of a message that was found, with the log it stands in."""

    id: int
    part: Part
    log: Kept


def is_damage(error: BaseException) -> bool:
    """Whether a failure is the file's own, so that a new one mends it."""
    cause = error if isinstance(error, apsw.Error) else error.__cause__
    return cause is None or isinstance(cause, _DAMAGE)


class Turns:
    """An open index of what was said; every failure of it is an `IndexFailed`."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.inserted = 0
        file = str(path) != ":memory:"
        with self._reported("opened"):
            if file:
                pages.damage(str(path))  # of a file that lay here before
                _refuse_newer(pages.version_of(str(path)), path)
            self.connection = pages.connect(str(path)) if file else apsw.Connection(":memory:")
            try:
                self._prepare(file=file)
            except BaseException:
                self.connection.close()
                raise

    def _prepare(self, *, file: bool) -> None:
        self.connection.set_busy_timeout(pages.BUSY_MS)
        if file:
            self.connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
        self.connection.execute(
            "pragma trusted_schema = off; pragma cache_size = -32768; pragma temp_store = memory"
        ).fetchall()
        found = int(self._value("pragma user_version"))
        _refuse_newer(found, self.path)
        if found not in (0, VERSION) or (found and self._value("pragma application_id") != _KIND):
            raise IndexFailed(f"{self.path} is not an index of sessions of this version")
        if not found:
            with self.writing():
                if self._value("pragma user_version") == 0:
                    self.connection.execute(_SCHEMA)
                    self.connection.execute(f"pragma application_id = {_KIND}")
                    self.connection.execute(f"pragma user_version = {VERSION}")

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction that takes the write lock first, so that it never meets "locked" half-way."""
        with self._reported("written"):
            self.connection.execute("begin immediate")
            try:
                yield
                self.connection.execute("commit")
            except BaseException:
                self._end()
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """One view of the index for several questions to it; fails when a damaged page was met."""
        with self._reported("read"):
            self.connection.execute("begin")
            try:
                yield
            finally:
                self._end()
        said = pages.damage(str(self.path))
        if said is not None:
            raise IndexFailed(said)

    def wait_at_most(self, seconds: float | None) -> None:
        """Wait no longer than this for another process; as long as usual when nothing is said."""
        usual = pages.BUSY_MS
        self.connection.set_busy_timeout(
            usual if seconds is None else max(1, min(usual, int(seconds * 1000)))
        )

    # ---------------------------------------------------------------- logs

    def logs(self, projects: Sequence[str] | None) -> dict[tuple[str, str], Kept]:
        """The logs of some projects, or of all."""
        where = "1" if projects is None else "project in (select value from json_each(?))"
        values = () if projects is None else (json.dumps(projects),)
        with self._reported("read"):
            rows: Any = self.connection.execute(
                f"select {_COLUMNS}, id from logs where {where}", values
            ).fetchall()
        return {(row[0], row[1]): _kept(row) for row in rows}

    def put(self, before: Kept | None, now: Kept, parts: Sequence[Part]) -> Kept | None:
        """Note how far a log was taken in, and what was said there.

        None when another process has been at this log since `before`; nothing is written then.
        """
        values = now[:-1]
        with self.writing():
            if before is None:
                row = self.connection.execute(
                    f"""insert into logs({_COLUMNS}) values({", ".join("?" * len(values))})
                    on conflict do nothing
                    returning id""",
                    values,
                ).fetchone()
            else:
                row = self.connection.execute(
                    f"update logs set {_SET} where id = ? and upto = ? and mark = ? returning id",
                    (*values, before.id, before.upto, before.mark),
                ).fetchone()
            if row is None:
                return None
            kept = now._replace(id=int(row[0]))
            first = 1 + int(self._value("select seq from sqlite_sequence where name = 'parts'") or 0)
            self.connection.executemany(
                """insert into parts(id, log, line, start, last, turn, role, time, moment, at, length, size,
                asks, says, digest)
                values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                [(first + at, kept.id, *part[:-1]) for at, part in enumerate(parts)],
            )
            self.connection.executemany(
                "insert into said(rowid, body) values(?, ?)",
                [(first + at, words.fold(part.body)) for at, part in enumerate(parts)],
            )
        self.inserted += len(parts)
        return kept

    def drop(self, logs: Sequence[Kept]) -> None:
        """Take logs out with all that was said in them."""
        with self.writing():
            for log in logs:
                self.connection.execute(
                    "delete from said where rowid in (select id from parts where log = ?)", (log.id,)
                )
                self.connection.execute("delete from parts where log = ?", (log.id,))
                self.connection.execute("delete from logs where id = ?", (log.id,))

    def parts(self, log: Kept) -> Generator[Part]:
        """What is kept of a log's messages, in their order."""
        with self._reported("read"):
            rows: Any = self.connection.execute(
                """select line, start, last, turn, role, time, moment, at, length, size, asks, says, digest
                from parts
                where log = ?
                order by line, at""",
                (log.id,),
            )
            for row in rows:
                yield Part(*row)

    def tidy(self) -> None:
        """Merge what many small writes have left: a question then looks in one place for a word."""
        with self.writing():
            self.connection.execute("insert into said(said) values('optimize')")
        self.inserted = 0

    # ---------------------------------------------------------------- asking

    def count(self) -> int:
        """How many pieces there are."""
        return int(self._value("select count(*) from parts"))

    def frequency(self, word: str) -> int:
        """In how many pieces a word stands, whatever its ending."""
        return int(self._value("select count(*) from said where said match ?", (words.quoted((word,)),)))

    def match(
        self, expression: str, where: str, values: Sequence[Any], limit: int
    ) -> list[tuple[int, float]]:
        """The pieces that match best among those that a condition lets through, with their BM25.

        Of those that match as well as each other, the newest session's first, then the last line: no order
        of writing shows.
        """
        rows: Any = self.connection.execute(
            f"""select p.id, -bm25(said) from said
            cross join parts p on p.id = said.rowid
            cross join logs l on l.id = p.log
            where said match ? and {where}
            order by 2 desc, l.updated desc, l.project, l.session, p.line desc, p.at
            limit ?""",
            (expression, *values, limit),
        )
        return list(rows)

    def newest(self, where: str, values: Sequence[Any], limit: int) -> list[int]:
        """Messages by their time alone, the newest first."""
        rows: Any = self.connection.execute(
            f"""select p.id from parts p
            join logs l on l.id = p.log
            where p.at = 0 and {where}
            order by p.moment desc, l.project, l.session, p.line desc
            limit ?""",
            (*values, limit),
        )
        return [row[0] for row in rows]

    def holding(self, word: str, ids: Sequence[int]) -> set[int]:
        """Which of some pieces hold a word, whatever its ending."""
        rows: Any = self.connection.execute(
            "select rowid from said where said match ? and rowid in (select value from json_each(?))",
            (words.quoted((word,)), json.dumps(ids)),
        )
        return {row[0] for row in rows}

    def rows(self, ids: Sequence[int], where: str, values: Sequence[Any]) -> dict[int, Row]:
        """Pieces with their logs; of those only that a condition lets through."""
        columns = ", ".join(f"l.{name.strip()}" for name in _COLUMNS.split(","))
        found: Any = self.connection.execute(
            f"""select p.id, p.line, p.start, p.last, p.turn, p.role, p.time, p.moment, p.at, p.length,
            p.size, p.asks, p.says, p.digest, {columns}, l.id
            from parts p join logs l on l.id = p.log
            where p.id in (select value from json_each(?)) and {where}""",
            (json.dumps(ids), *values),
        )
        return {row[0]: Row(row[0], Part(*row[1:14]), _kept(row[14:])) for row in found}

    # ---------------------------------------------------------------- looking after it

    def check(self) -> list[str]:
        """What SQLite and FTS5 find wrong with the file."""
        problems = []
        with self._reported("read"):
            for row in self.connection.execute("pragma integrity_check"):
                if row[0] != "ok":
                    problems.append(str(row[0]))
            try:
                self.connection.execute("insert into said(said) values('integrity-check')")
            except apsw.Error as error:
                problems.append(f"said: {error}")
            lost = self._value(
                """select count(*) from parts p
                where not exists (select 1 from said_docsize d where d.id = p.id)"""
            )
            if lost or self._value("select count(*) from said_docsize") != self.count():
                problems.append("said: its rows are not those of the messages")
        return problems

    def everything(self) -> dict[tuple[str, str], tuple[Any, ...]]:
        """All that is kept of each log but the numbers of rows: two indexes of the same files agree in it."""
        spoken: dict[int, list[tuple[int, str]]] = {}
        for term, row, place in self.connection.execute("select term, doc, offset from said_words"):
            spoken.setdefault(int(row), []).append((int(place), str(term)))
        found = {}
        for key, log in self.logs(None).items():
            rows: Any = self.connection.execute(
                """select id, line, start, last, turn, role, time, moment, at, length, size, asks, says,
                digest from parts
                where log = ?
                order by line, at""",
                (log.id,),
            )
            said = tuple((*row[1:], tuple(sorted(spoken.pop(row[0], [])))) for row in rows)
            found[key] = (log._replace(id=0), said)
        if spoken:
            raise IndexFailed("the index holds words of messages that it does not hold")
        return found

    # ---------------------------------------------------------------- parts

    def _value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        row = self.connection.execute(sql, tuple(values)).fetchone()
        return None if row is None else row[0]

    def _end(self) -> None:
        """Leave a transaction; SQLite may have left it already, as on a full disk."""
        if self.connection.in_transaction:
            self.connection.execute("rollback")

    @contextlib.contextmanager
    def _reported(self, done: str) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise IndexFailed(f"the sessions' index {self.path} cannot be {done}: {error}") from error


def copy(fresh: Turns, target: Turns) -> None:
    """Put one index in the place of another in one transaction."""
    try:
        with target.connection.backup("main", fresh.connection, "main") as copying:
            while not copying.done:
                copying.step(1000)
    except apsw.Error as error:
        raise IndexFailed(f"the sessions' index {target.path} cannot be replaced now: {error}") from error


def _kept(row: Sequence[Any]) -> Kept:
    cells = list(row)
    cells[4], cells[13] = bool(cells[4]), bool(cells[13])
    return Kept(*cells)


def _refuse_newer(version: int, path: Path | str) -> None:
    if version > VERSION:
        raise IndexNewer(f"the sessions' index {path} was made by a newer version of vade")
