"""Small numbers that people can type, never given twice in a home."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from vademecum.store import audit, files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.store.home import Home

_NAME = "last-number"


def allocate(home: Home, *, above: int = 0) -> int:
    """The next number, greater than any given before and than `above`."""
    with home.lock("numbers"), home.folder(create=True) as folder:
        given = 0

        def next_one(content: bytes | None) -> bytes:
            nonlocal given
            given = max(_number(content, home), above) + 1
            return f"{given}\n".encode()

        files.update(folder, _NAME, next_one)
    return given


def new_id() -> str:
    """A version 7 UUID: unique, and in the order of creation."""
    moment = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (
        (moment & (1 << 48) - 1) << 80 | 7 << 76 | (tail >> 68 & 0xFFF) << 64 | 2 << 62 | tail & (1 << 62) - 1
    )
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _number(content: bytes | None, home: Home) -> int:
    """The last number given; when its file is lost, the audit and the records themselves still know."""
    try:
        return int(content or b"")
    except ValueError:
        audited = [int(line["num"]) for line in audit.lines(home) if isinstance(line.get("num"), int)]
        return max([0, *audited, *_written(home)])


def _written(home: Home) -> Iterator[int]:
    for top in ("memory", "archive"):
        for folder, _, found in os.walk(home.path / top):
            for name in found:
                if name.endswith(".md") and os.path.isfile(os.path.join(folder, name)):
                    with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                        yield from map(
                            int, re.findall(rb"^num: (\d{1,9})\s*$", file.read(4096), re.MULTILINE)
                        )
