"""The home's `state.db`: counts of uses, cached vectors, and sizes learned about language models.

The database can be lost without harm, so no command waits for it or fails with it: unreadable data counts as
missing, and a failed write is repeated later or dropped. It holds ids of items and hashes of texts, never a
text.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum.errors import VadeError
from vademecum.lazy import LazyModule
from vademecum.store import folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import apsw

    from vademecum.store.home import Home
else:
    apsw = LazyModule("apsw")

T = TypeVar("T")

NAME = "state.db"
VERSION = 2
COMPANIONS = ("-wal", "-shm", "-journal")
MINUTE, DAY = 60, 86_400
# How long anything that answers a person waits for another process, at each step.
BRIEFLY = 0.025
# How long one waits who has just paid for what it wants to keep.
PATIENTLY = 1.0
# Counts that wait in memory, and items known to have been counted; beyond that they are dropped.
MAX_WAITING = 10_000
# Down to what share of the largest size the cache is emptied: else every new vector would drop an old one.
SHARE_LEFT = 0.9

_TABLES = {"uses", "vectors", "blobs", "totals", "ratios"}
# A vector's bytes lie apart from its tick: marking it as used must not write them again.
_SCHEMA = """
create table uses(
    item blob primary key,
    count integer not null,
    last integer not null
) without rowid;
create table vectors(
    id integer primary key,
    identity blob not null,
    hash blob not null,
    size integer not null,
    tick integer not null,
    unique(identity, hash)
);
create index vectors_tick on vectors(tick, id);
create table blobs(
    id integer primary key,
    vector blob not null
);
create table totals(
    name text primary key,
    value integer not null
) without rowid;
insert into totals values('bytes', 0);
create table ratios(
    model blob primary key,
    ratio real not null
) without rowid;
"""


@dataclass(frozen=True, slots=True)
class Use:
    """The number of uses, counted at most once a minute, and the time of the last one."""

    count: int
    last: datetime


class State:
    """The counters and caches of a home, in an SQLite file that is opened with the first call."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()  # around the connection
        self._connection: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None  # which file the connection is to
        self._process = os.getpid()
        self._brief = threading.Lock()  # around the two below, for no longer than a few lookups take
        self._waiting: dict[str, int] = {}
        self._counted: dict[str, int] = {}

    @property
    def path(self) -> str:
        """Return the path of the database, whether it exists or not."""
        return os.path.join(os.path.realpath(self._home.path), NAME)

    def close(self) -> None:
        """Write pending counts, if that is possible at once, and close the file."""
        self._write_waiting()
        with self._lock:
            self._let_go()

    # ---------------------------------------------------------------- uses

    def used(self, items: Iterable[str], *, at: datetime) -> None:
        """Count each item as used, at most once a minute; never waits long, and never fails."""
        try:
            moment = int(at.timestamp())
        except (OverflowError, ValueError, OSError):  # a time that is none
            return
        given = dict.fromkeys(items)
        with self._brief:
            for item in given:
                if 0 <= moment - self._counted.get(item, -DAY) < MINUTE:
                    continue
                if len(self._waiting) < MAX_WAITING:
                    self._waiting[item] = moment
                if len(self._counted) >= MAX_WAITING:
                    self._counted.clear()
                self._counted[item] = moment
        self._write_waiting()

    def uses(self, items: Iterable[str]) -> dict[str, Use]:
        """Return the counts of the items that were ever used."""
        wanted = {_key(item): item for item in items}

        def read(connection: apsw.Connection) -> dict[str, Use]:
            found = {}
            for part in _parts(list(wanted)):
                for item, count, last in connection.execute(
                    f"""select item, count, last from uses
                    where item in ({",".join("?" * len(part))})""",
                    tuple(part),
                ):
                    found[wanted[item]] = Use(count, datetime.fromtimestamp(last, UTC))
            return found

        return self._do(read, create=False, seconds=BRIEFLY) or {}

    def forget_uses(self, items: Iterable[str]) -> bool:
        """Reset the counts of some items; return whether that was possible."""
        keys = [_key(item) for item in items]

        def write(connection: apsw.Connection) -> bool:
            with _writing(connection):
                connection.executemany("delete from uses where item = ?", [(key,) for key in keys])
            return True

        return self._do(write, create=False, seconds=PATIENTLY) or False

    def _write_waiting(self) -> None:
        with self._brief:
            waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        counted = self._do(lambda connection: _count(connection, waiting), seconds=BRIEFLY)
        with self._brief:
            if counted is None:
                self._waiting = waiting | self._waiting
            else:  # when it was counted, here or elsewhere: the minute runs from there
                self._counted.update(counted)

    # ---------------------------------------------------------------- vectors

    def vectors(self, identity: str, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the cached vectors of a model for these hashes, and mark them as used."""
        model = _model(identity)

        def read(connection: apsw.Connection) -> dict[bytes, bytes]:
            found = {}
            mark = int(_value(connection, "select coalesce(max(tick), 0) from vectors")) | 1
            stale: list[int] = []
            for part in _parts(hashes):
                for id_, hash_, tick, vector in connection.execute(
                    f"""select v.id, v.hash, v.tick, b.vector
                    from vectors v join blobs b on b.id = v.id
                    where v.identity = ?
                    and v.hash in ({",".join("?" * len(part))})""",
                    (model, *part),
                ):
                    found[hash_] = vector
                    if tick < mark:
                        stale.append(id_)
            if stale:
                # What was found counts more than that it was used.
                with contextlib.suppress(apsw.Error), _writing(connection):
                    connection.executemany(
                        "update vectors set tick = ? where id = ?", [(mark, id_) for id_ in stale]
                    )
            return found

        return self._do(read, create=False, seconds=BRIEFLY) or {}

    def length(self, identity: str) -> int | None:
        """Return the length in bytes of a model's cached vectors; None when none is cached."""

        def read(connection: apsw.Connection) -> int | None:
            return _length(connection, _model(identity))

        return self._do(read, create=False, seconds=BRIEFLY)

    def keep(self, identity: str, rows: Iterable[tuple[bytes, bytes]], *, largest: int) -> None:
        """Save vectors by their hashes; above `largest` bytes in all, drop the least recently used ones.

        All vectors of a model have the same length; vectors of another length are not saved.
        """
        given = dict(rows)
        if given:
            self._do(
                lambda connection: _keep(connection, _model(identity), given, largest), seconds=PATIENTLY
            )

    def keep_length(self, identity: str, length: int) -> None:
        """Drop the vectors of a model with another length in bytes, since a different model made them."""
        self._do(lambda connection: _keep_length(connection, _model(identity), length), seconds=PATIENTLY)

    # ---------------------------------------------------------------- ratios

    def ratio(self, model: str) -> float | None:
        """Return the learned number of bytes per token of a language model; None when unknown."""

        def read(connection: apsw.Connection) -> float | None:
            found = _value(connection, "select ratio from ratios where model = ?", (_model(model),))
            return None if found is None else float(found)

        return self._do(read, create=False, seconds=BRIEFLY)

    def learned(self, model: str, ratio: float) -> None:
        """Save the learned number of bytes per token of a model; never waits long, and never fails."""

        def write(connection: apsw.Connection) -> None:
            with _writing(connection):
                connection.execute("insert or replace into ratios values(?, ?)", (_model(model), ratio))

        self._do(write, seconds=BRIEFLY)

    def window(self, model: str) -> int | None:
        """Return how many tokens a model accepts, as learned from its server; None when unknown."""

        def read(connection: apsw.Connection) -> int | None:
            found = _value(connection, "select value from totals where name = ?", (_window(model),))
            return None if found is None else int(found)

        return self._do(read, create=False, seconds=BRIEFLY)

    def learned_window(self, model: str, tokens: int | None) -> None:
        """Save how many tokens a model accepts, or delete the number with None; never fails."""

        def write(connection: apsw.Connection) -> None:
            with _writing(connection):
                if tokens is None:
                    connection.execute("delete from totals where name = ?", (_window(model),))
                else:
                    values = (_window(model), tokens)
                    connection.execute("insert or replace into totals values(?, ?)", values)

        self._do(write, seconds=BRIEFLY)

    # ---------------------------------------------------------------- moments

    def moment(self, what: str) -> int | None:
        """Return when a named task was last done, in seconds since 1970; None when unknown."""

        def read(connection: apsw.Connection) -> int | None:
            found = _value(connection, "select value from totals where name = ?", (f"at {what}",))
            return None if found is None else int(found)

        return self._do(read, create=False, seconds=BRIEFLY)

    def happened(self, what: str, at: datetime | None) -> None:
        """Save the time at which a named task was done, or delete it with None; never fails."""

        def write(connection: apsw.Connection) -> None:
            with _writing(connection):
                if at is None:
                    connection.execute("delete from totals where name = ?", (f"at {what}",))
                    return
                values = (f"at {what}", int(at.timestamp()))
                connection.execute("insert or replace into totals values(?, ?)", values)

        self._do(write, seconds=PATIENTLY)

    # ---------------------------------------------------------------- the file

    def _do(self, work: Callable[[apsw.Connection], T], *, create: bool = True, seconds: float) -> T | None:
        """Run `work` with the database; return None if the database is locked, missing or fails.

        A damaged file is removed, and the work tried once more. With `create`, a missing file is made.
        """
        if not self._lock.acquire(timeout=seconds):
            return None
        try:
            for _ in range(2):
                try:
                    connection = self._open(create=create, seconds=seconds)
                    return None if connection is None else work(connection)
                # ValueError and OverflowError: a number in a row that cannot be one of ours.
                except (apsw.CorruptError, apsw.NotADBError, _Damaged, ValueError, OverflowError):
                    self._discard(seconds)
        except (apsw.Error, OSError, VadeError):  # the last: a link, or a lock that nobody let go
            pass
        finally:
            self._lock.release()
        return None

    def _open(self, *, create: bool, seconds: float) -> apsw.Connection | None:
        """Return a connection to the current file, made if `create` is true; None when it cannot be used."""
        found = self._stamp()
        if self._process != os.getpid():  # a connection must not be used on both sides of a fork
            self._connection, self._process = None, os.getpid()
        if self._connection is None or found != self._file:
            self._let_go()  # what it was connected to has been deleted
            if found is None and create:
                found = self._make(seconds)
            if found is None:
                return None
            self._file = found
            self._connection = self._connect(seconds)
        if self._connection is not None:
            self._connection.set_busy_timeout(int(seconds * 1000))
        return self._connection

    def _connect(self, seconds: float) -> apsw.Connection | None:
        """Open the file, and fill it if it is empty; None when it is from a newer version."""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
        connection = apsw.Connection(self.path, flags=flags)
        try:
            connection.set_busy_timeout(int(seconds * 1000))
            # Closing would wait for the disk each time a command ends. And whoever closes after the file
            # was deleted would take away the log of the one that has replaced it.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.execute("pragma trusted_schema = off")
            version = _value(connection, "pragma user_version")
            if version > VERSION:
                connection.close(True)
                return None
            if version < VERSION:
                self._fill(connection, seconds)
            # The next process begins by reading the log: with 250 pages that takes no time.
            connection.execute("pragma synchronous = normal; pragma wal_autocheckpoint = 250").fetchall()
            if {row[0] for row in connection.execute("select tbl_name from sqlite_schema")} != _TABLES:
                raise _Damaged
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _stamp(self) -> tuple[int, int] | None:
        """Return device and inode number of the file at the database's path; None when there is none."""
        try:
            state = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return state.st_dev, state.st_ino

    def _make(self, seconds: float) -> tuple[int, int] | None:
        """Create an empty file only its owner can read; SQLite gives its companion files the same mode."""
        with self._making(seconds), self._home.disk(create=True) as folder:
            if folder.stat(NAME) is None:
                # What a deleted database has left would be taken for this one's.
                for ending in COMPANIONS:
                    folder.unlink(NAME + ending)
                os.close(folder.open(NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            return self._stamp()

    def _fill(self, connection: apsw.Connection, seconds: float) -> None:
        """Create the missing tables, unless another process has just done so."""
        with self._making(seconds):
            connection.execute("pragma journal_mode = wal").fetchall()
            with _writing(connection):
                version = _value(connection, "pragma user_version")
                if version < VERSION:
                    if version:  # the tables of another version; they hold only counters and caches
                        raise _Damaged
                    try:
                        connection.execute(_SCHEMA)
                    except apsw.SQLError as error:  # somebody else's tables are in the way
                        raise _Damaged from error
                    connection.execute(f"pragma user_version = {VERSION}")

    def _discard(self, seconds: float) -> None:
        """Remove a damaged file, unless another process has already done so."""
        damaged = self._file
        with self._making(seconds), self._home.disk() as folder:
            # Still open: as long as it is, no new file can have its number.
            if damaged is not None and self._stamp() == damaged:
                for ending in ("", *COMPANIONS):
                    folder.unlink(NAME + ending)
        self._let_go()

    @contextlib.contextmanager
    def _making(self, seconds: float) -> Iterator[None]:
        """Hold the lock for creating or removing the database file."""
        with (
            self._home.disk("locks", create=True) as folder,
            folders.hold_lock(folder, NAME, seconds=seconds),
        ):
            yield

    def _let_go(self) -> None:
        connection, self._connection, self._file = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close(True)


class _Damaged(Exception):
    """An error: the file is a database, but without the expected tables."""


def _count(connection: apsw.Connection, waiting: dict[str, int]) -> dict[str, int]:
    """Count each item unless it was counted less than a minute before; return each item's last count time."""
    found: dict[str, int] = {}
    names = {_key(item): item for item in waiting}
    with _writing(connection):
        connection.executemany(
            """insert into uses values(:item, 1, :at)
            on conflict(item) do update
            set count = count + 1, last = :at
            where :at >= last + :minute
            or :at < last - :day""",  # a clock that was wrong once must not stop the count for ever
            [{"item": _key(item), "at": at, "minute": MINUTE, "day": DAY} for item, at in waiting.items()],
        )
        for part in _parts(list(names)):
            rows = connection.execute(
                f"select item, last from uses where item in ({','.join('?' * len(part))})", tuple(part)
            )
            found.update((names[item], last) for item, last in rows)
    return found


def _keep(connection: apsw.Connection, model: bytes, given: dict[bytes, bytes], largest: int) -> None:
    with _writing(connection):
        # Even for what is kept, odd for what is read after it: repeated reading then writes nothing.
        tick = int(_value(connection, "select coalesce(max(tick), 0) from vectors")) // 2 * 2 + 2
        length = _length(connection, model)
        total = int(_value(connection, "select value from totals where name = 'bytes'"))
        for hash_, vector in given.items():
            length = len(vector) if length is None else length
            if len(vector) != length:
                continue
            id_ = _value(connection, "select id from vectors where identity = ? and hash = ?", (model, hash_))
            if id_ is None:
                id_ = _value(
                    connection,
                    "insert into vectors(identity, hash, size, tick) values(?, ?, ?, ?) returning id",
                    (model, hash_, length, tick),
                )
                total += length
            else:
                connection.execute("update vectors set tick = ? where id = ?", (tick, id_))
            connection.execute("insert or replace into blobs values(?, ?)", (id_, vector))
        if total > largest:
            total -= _drop(connection, total - int(largest * SHARE_LEFT))
        connection.execute("update totals set value = ? where name = 'bytes'", (total,))


def _keep_length(connection: apsw.Connection, model: bytes, length: int) -> None:
    with _writing(connection):
        gone: Any = connection.execute(
            "select id, size from vectors where identity = ? and size != ?", (model, length)
        ).fetchall()
        ids = [(id_,) for id_, _ in gone]
        connection.executemany("delete from blobs where id = ?", ids)
        connection.executemany("delete from vectors where id = ?", ids)
        connection.execute(
            "update totals set value = value - ? where name = 'bytes'", (sum(size for _, size in gone),)
        )


def _drop(connection: apsw.Connection, enough: int) -> int:
    """Drop the least recently used rows until `enough` bytes are free; return the number of freed bytes."""
    gone, ids = 0, []
    for id_, size in connection.execute("select id, size from vectors order by tick, id"):
        if gone >= enough:
            break
        gone += size
        ids.append((id_,))
    connection.executemany("delete from blobs where id = ?", ids)
    connection.executemany("delete from vectors where id = ?", ids)
    return gone


def _length(connection: apsw.Connection, model: bytes) -> int | None:
    found = _value(connection, "select size from vectors where identity = ? limit 1", (model,))
    return None if found is None else int(found)


def _value(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> Any:
    row = connection.execute(sql, tuple(values)).fetchone()
    return None if row is None else row[0]


@contextlib.contextmanager
def _writing(connection: apsw.Connection) -> Iterator[None]:
    """Run a block in a transaction that takes the write lock at once, so that it cannot fail half-way."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        with contextlib.suppress(apsw.Error):  # a full disk has rolled back by itself
            connection.execute("rollback")
        raise


def _model(identity: str) -> bytes:
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()[:16]


def _window(model: str) -> str:
    return f"window {_model(model).hex()}"


def _key(item: str) -> bytes:
    """Return an id as stored in the database; as bytes, because a path may be no valid text."""
    return item.encode("utf-8", "surrogatepass")


def _parts(values: Sequence[bytes], size: int = 500) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
