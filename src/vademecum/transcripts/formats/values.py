"""Values out of files that anybody may have written: each takes whatever is there and never raises."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from vademecum.store import clock
from vademecum.transcripts.formats.base import Told, Unread, Usage
from vademecum.transcripts.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vademecum.transcripts.messages import Json

Found: TypeAlias = Message | Usage | Told | Unread

_MILLISECONDS = 1e11  # a number of seconds as large as this is in the year 5138
_LARGEST = 2**63 - 1
_STAMP = 100  # characters; a time is shorter, and nothing longer is remembered


def text(value: Json) -> str:
    """The string, or nothing."""
    return value if isinstance(value, str) else ""


def mapping(value: Json) -> dict[str, Json]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Json) -> list[Json]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def count(value: Json) -> int:
    """The number of something, or none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return min(max(int(value), 0), _LARGEST)


def amount(value: Json) -> float:
    """The sum of money, or none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        return float(value) if math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def written(value: Json) -> str:
    """A value as text: a string as it is, nothing as nothing, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def moment(value: Json) -> str:
    """A time as our stamps are written, from ISO text or (milli)seconds since 1970; else nothing."""
    if isinstance(value, str):
        return _stamped(value) if len(value) <= _STAMP else ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value:
        return ""
    try:
        return clock.stamp(datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


@lru_cache(maxsize=256)  # a reader asks for the time of a line several times
def _stamped(text: str) -> str:
    found = clock.parse(text)
    return clock.stamp(found) if found else ""


def without(value: Mapping[str, Json], names: Iterable[str]) -> dict[str, Json]:
    """What else an object holds and says; the empty and the false are left out."""
    known = frozenset(names)
    return {name: each for name, each in value.items() if name not in known and _says(each)}


def _says(value: Json) -> bool:
    return bool(value) or (
        value is not None and value is not False and not isinstance(value, str | list | dict)
    )


class Telling:
    """What was told of a session so far; each thing is told once, and a title again when it changes."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, **found: str) -> list[Told]:
        """One `Told` with what is new in this, or none."""
        new = {
            name: value
            for name, value in found.items()
            if value and (name not in self._told or (name == "title" and self._told[name] != value))
        }
        self._told.update(new)
        return [Told(**new)] if new else []

    def __getitem__(self, name: str) -> str:
        return self._told.get(name, "")
