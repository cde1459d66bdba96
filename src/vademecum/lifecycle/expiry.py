"""Expiry: a record that says itself until when it holds goes to the archive on that day.

`stale_after` is a date, from whose first second on the record is stale, or a duration such as `30d`, `6w`,
`12h`, `3mo` or `1y`, counted from when the record was last written or confirmed. What cannot be read as
either is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from vademecum.lifecycle.base import Proposal, ours, renewed
from vademecum.store import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.base import Seen
    from vademecum.types import Record

_DURATION = re.compile(r"(\d{1,5})\s*(h|hours?|d|days?|w|weeks?|mo|months?|y|years?)", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}


@dataclass(frozen=True, slots=True)
class Expiry:
    """The pass; it has no settings, since each record sets its own."""

    name: str = "expiry"

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterator[Proposal]:
        """Put away what says of itself that it no longer holds."""
        for each in seen:
            end = stale_at(each.record)
            if end is not None and now >= end and ours(each):
                said = each.record.fields.get("stale_after")
                why = f"its `stale_after: {said}` passed on {end:%Y-%m-%d}"
                yield Proposal(self.name, each.record.path, why, (each.retired(),), each.record.place)


def stale_at(record: Record) -> datetime | None:
    """The moment from which a record is stale by its own word; None when it says nothing of the kind."""
    said = record.fields.get("stale_after")
    if not isinstance(said, str):
        return None
    spelled = _DURATION.fullmatch(said.strip())
    if spelled is None:
        return clock.parse(said)
    last = renewed(record)
    try:
        hours = int(spelled[1]) * _HOURS[spelled[2][0].lower()]
        return None if last is None else last + timedelta(hours=hours)
    except OverflowError:  # beyond the calendar is never
        return None
