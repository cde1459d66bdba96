"""What went wrong in hooks: one line each, without a word of anybody's text, in a file that stays small."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.store import clock

if TYPE_CHECKING:
    from pathlib import Path

NAME = "hooks.log"
OLDER = "hooks.log.1"
LARGEST = 64 * 1024  # bytes; twice as much at most, with what is older
_PLAIN = re.compile(r"[^A-Za-z0-9 ._:-]+")


class Failure(NamedTuple):
    """One hook that could not do its work."""

    time: str
    agent: str
    event: str
    why: str


def write(home: Path, *, agent: str, event: str, why: str) -> None:
    """Add a line, if there is a memory to add it to; that it cannot be written stops nobody."""
    words = (_PLAIN.sub("", each)[:80] for each in (agent, event, why))
    line = "\t".join((clock.stamp(clock.now()), *words)) + "\n"
    path = os.path.join(home, NAME)
    with contextlib.suppress(OSError):
        if not os.path.isdir(home):
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        fd = os.open(path, flags, 0o600)
        try:
            if os.fstat(fd).st_size > LARGEST:
                os.replace(path, os.path.join(home, OLDER))
            os.write(fd, line.encode())
        finally:
            os.close(fd)


def last(home: Path) -> Failure | None:
    """The newest failure that is written down; None when there is none."""
    for name in (NAME, OLDER):
        try:
            with open(os.path.join(home, name), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            continue
        for line in reversed(lines):
            words = line.split("\t")
            if len(words) == 4:
                return Failure(*words)
    return None
