"""What a person decided in one sitting, in a file of `decisions/reviews/`, so that it can be taken back."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import decisions, ids

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from vademecum.store.home import Home

_KIND = "reviews"
_DECLINED = "declined"


class Sitting(NamedTuple):
    """What was decided, in order; each entry says how it is taken back."""

    id: str
    at: str
    by: str
    done: tuple[dict[str, Any], ...] = ()
    undone: bool = False


def new_id(moment: datetime, at: str) -> str:
    """A name in the form of those of runs, so that one command takes back either."""
    return f"{re.sub('[-:]', '', at)}-{moment.microsecond:05x}{ids.new()[-6:]}"


def put(home: Home, sitting: Sitting) -> None:
    """Keep what was decided so far."""
    value = {"at": sitting.at, "by": sitting.by, "done": list(sitting.done), "undone": sitting.undone}
    decisions.put(home, _KIND, sitting.id, value)


def every(home: Home) -> Sequence[Sitting]:
    """All sittings, newest first."""
    found = [_sitting(name, value) for name, value in decisions.every(home, _KIND)]
    return sorted(found, key=lambda each: each.id, reverse=True)


def _sitting(name: str, value: dict[str, Any]) -> Sitting:
    done = value.get("done")
    listed = tuple(each for each in done if isinstance(each, dict)) if isinstance(done, list) else ()
    return Sitting(
        name,
        str(value.get("at") or ""),
        str(value.get("by") or ""),
        listed,
        undone=value.get("undone") is True,
    )


def mark(*parts: str) -> str:
    """A name for exactly these texts, which says nothing of them."""
    whole = "\0".join(parts)
    return hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()


def decline(home: Home, name: str, *, kind: str, at: str, by: str) -> None:
    """Keep a person's no to exactly what a mark stands for."""
    decisions.put(home, _DECLINED, name, {"kind": kind, "at": at, "by": by})


def undecline(home: Home, name: str) -> bool:
    """Take a no back."""
    return decisions.drop(home, _DECLINED, name)


def declined(home: Home) -> frozenset[str]:
    """The marks of everything that a person has said no to."""
    return frozenset(
        name.removesuffix(".json") for name in home.names("decisions", _DECLINED) if name.endswith(".json")
    )
