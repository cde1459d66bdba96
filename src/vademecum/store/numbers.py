"""Small numbers that people can type, never given twice in a home."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from vademecum.store import audit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.store.home import Home

_NAME = audit.NUMBERS


def allocate(home: Home, *, above: int = 0) -> int:
    """The next number, greater than any given before and than `above`."""
    with home.lock("numbers"), home.folder(create=True) as folder:
        given = 0

        def next_one(content: bytes | None) -> bytes:
            nonlocal given
            given = max(_number(content, home), above) + 1
            return f"{given}\n".encode()

        folder.update(_NAME, next_one)
    return given


def of(home: Home, record: str | None) -> int | None:
    """The number a record was given, as the audit remembers it."""
    given = (line.get("num") for line in audit.lines(home) if record and line.get("record") == record)
    return max((num for num in given if isinstance(num, int)), default=None)


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
