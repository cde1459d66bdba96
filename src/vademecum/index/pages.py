"""A checksum on every page of the index file, so that no damage to it can pass for an answer.

SQLite's own checks miss damage inside a page, and FTS5 believes what it reads. Each page keeps eight bytes
at its end for this; it is filled in when the page is written and compared whenever the page is read.
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
LOG = 1_000  # pages that the log may hold before it is moved into the file
LOG_WAIT_MS = 1_000
_NAME = "vade-pages"
_damaged: dict[str, str] = {}


class _File(apsw.VFSFile):
    """The main file of a database; journals have checksums of their own."""

    def __init__(self, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._path = os.path.realpath(name.filename() if isinstance(name, apsw.URIFilename) else str(name))

    def xRead(self, amount: int, offset: int) -> bytes:
        content = super().xRead(amount, offset)
        # Shorter reads are of the header, before the page size is known.
        if amount == len(content) == PAGE and content[-RESERVED:] != _sum(content[:-RESERVED], offset):
            said = f"page {offset // PAGE + 1} of the index is damaged"
            _damaged[self._path] = said
            raise apsw.CorruptError(said)
        return content

    def xDeviceCharacteristics(self) -> int:
        # Long values would otherwise be read in parts of pages, past the checksum.
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
    return _Pages()  # kept for good: SQLite holds no reference of its own


def connect(path: str) -> apsw.Connection:
    """Open a database whose pages are checked; a new one is laid out for it."""
    if os.path.lexists(path) and not os.path.isfile(path):  # opening a pipe would wait for ever
        raise apsw.CantOpenError(f"{path} is not a file")
    _registered()
    if not os.path.exists(path):  # its owner's alone; the log takes the mode of the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = apsw.Connection(path, vfs=_NAME)
    connection.reserve_bytes(reserve=RESERVED)
    connection.set_wal_hook(_bound_log)
    return connection


def _bound_log(connection: apsw.Connection, name: str, length: int) -> int:
    """Move the log into the file from time to time; when readers let it grow, wait for them a moment."""
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
    """What was found wrong with a file since it was last asked: FTS5 takes some errors for "no such word"."""
    return _damaged.pop(os.path.realpath(path), None) if _damaged else None


def version_of(path: str) -> int:
    """The version a file says it has, before anything else of it is believed; 0 when it says nothing."""
    if not os.path.isfile(path):
        return 0
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except OSError:
        return 0
    return int.from_bytes(header[60:64], "big") if header.startswith(b"SQLite format 3\0") else 0


def _sum(body: bytes, offset: int) -> bytes:
    # The place is part of it: a page that was swapped with another is damaged too.
    return zlib.crc32(body, offset // PAGE).to_bytes(RESERVED, "little")
