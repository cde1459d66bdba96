"""Python started with this folder on its path tells one time and draws its ids from a counter.

GOLDEN_NOW names the moment. The names of modules inside vademecum do not matter here: what is replaced is
what the interpreter itself offers, before anything of ours is imported.
"""

from __future__ import annotations

import datetime
import itertools
import os
import random
import time

_REAL = datetime.datetime


class _Still(_REAL):
    """A datetime whose present is the moment that was named."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Still:
        moment = cls.fromisoformat(os.environ["GOLDEN_NOW"]).astimezone(tz or datetime.UTC)
        return moment if tz else moment.replace(tzinfo=None)

    @classmethod
    def utcnow(cls) -> _Still:
        return cls.now(datetime.UTC).replace(tzinfo=None)


_COUNT: dict[int, itertools.count[int]] = {}


def _counted(length: int) -> bytes:
    """Bytes that differ each time: by the moment, and by how many were drawn of this length."""
    seed = f"{os.environ['GOLDEN_NOW']}/{length}/{next(_COUNT.setdefault(length, itertools.count()))}"
    return random.Random(seed).randbytes(length)


def _seconds() -> float:
    return _REAL.fromisoformat(os.environ["GOLDEN_NOW"]).timestamp()


if "GOLDEN_NOW" in os.environ:
    datetime.datetime = _Still  # type: ignore[misc]  # before anybody imports it by name
    time.time = _seconds
    time.time_ns = lambda: int(_seconds()) * 1_000_000_000
    os.urandom = _counted
    random._urandom = _counted  # type: ignore[attr-defined]
