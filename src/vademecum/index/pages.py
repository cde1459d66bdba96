"""A checksum on every page of the index file, so that damaged data is never taken for an answer.

SQLite's own checks miss damage inside a page, and FTS5 trusts what it reads. Eight bytes at the end of each
page hold the checksum: it is written with the page and compared at each read.
"""

from __future__ import annotations

import contextlib
import functools
import os
import zlib
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = 4096
RESERVED = 8
BUSY_MS = 10_000
LOG = 1_000  # pages of the log before it is moved into the file
LOG_WAIT_MS = 1_000
_NAME = "vade-pages"
_damaged: dict[str, str] = {}


class _File(apsw.VFSFile):
    """The main file of a database, with checksums; its journals have SQLite's own checksums."""

    def __init__(self, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._path = os.path.realpath(name.filename() if isinstance(name, apsw.URIFilename) else str(name))

    def xRead(self, amount: int, offset: int) -> bytes:
        content = super().xRead(amount, offset)
        # Shorter reads are of the header, when the page size is unknown.
        if amount == len(content) == PAGE and content[-RESERVED:] != _sum(content[:-RESERVED], offset):
            message = f"page {offset // PAGE + 1} of the index is damaged"
            _damaged[self._path] = message
            raise apsw.CorruptError(message)
        return content

    def xDeviceCharacteristics(self) -> int:
        # Otherwise long values would be read in parts of pages, without their checksum.
        return super().xDeviceCharacteristics() & ~apsw.SQLITE_IOCAP_SUBPAGE_READ

    def xWrite(self, data: Any, offset: int) -> None:
        content = bytes(data)
        if len(content) == PAGE:
            body = content[:-RESERVED]
            content = body + _sum(body, offset)
        super().xWrite(content, offset)


class _Pages(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(_NAME, "")

    def xOpen(self, name: Any, flags: Sequence[int]) -> apsw.VFSFile:
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            return _File(name, [*flags])
        return super().xOpen(name, [*flags])


@functools.cache
def _registered() -> _Pages:
    return _Pages()  # kept for the life of the process: SQLite holds no reference


def connect(path: str) -> apsw.Connection:
    """Open a database whose pages have checksums; a new file can be read by its owner alone."""
    if os.path.lexists(path) and not os.path.isfile(path):  # opening a pipe would wait for ever
        raise apsw.CantOpenError(f"{path} is not a file")
    _registered()
    if not os.path.exists(path):  # only its owner may read it; the log gets the mode of the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = apsw.Connection(path, vfs=_NAME)
    connection.reserve_bytes(reserve=RESERVED)
    connection.set_wal_hook(_bound_log)
    return connection


def _bound_log(connection: apsw.Connection, name: str, length: int) -> int:
    """Move a database's log into its file when the log is long; if it is very long, wait for readers."""
    if length < LOG:
        return apsw.SQLITE_OK
    with contextlib.suppress(apsw.BusyError, apsw.LockedError):
        if length < 2 * LOG:
            connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_PASSIVE)
        else:
            connection.set_busy_timeout(LOG_WAIT_MS)
            connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_RESTART)
    connection.set_busy_timeout(BUSY_MS)
    return apsw.SQLITE_OK


def damage(path: str) -> str | None:
    """Return the message about damage that was found in a file since the last call; None without damage.

    FTS5 hides some read errors and reports that a word does not occur.
    """
    return _damaged.pop(os.path.realpath(path), None) if _damaged else None


def version_of(path: str) -> int:
    """Return the version in the header of an SQLite file without opening it; 0 when there is none."""
    if not os.path.isfile(path):
        return 0
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except OSError:
        return 0
    return int.from_bytes(header[60:64], "big") if header.startswith(b"SQLite format 3\0") else 0


def _sum(body: bytes, offset: int) -> bytes:
    # The sum covers the page's position, so a swapped page is damaged too.
    return zlib.crc32(body, offset // PAGE).to_bytes(RESERVED, "little")
