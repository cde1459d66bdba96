"""Retention: what nobody has written or confirmed for long enough goes to the archive, by scope and type.

Only project and session memory ages. What a person said about themselves or about the work, what was learned,
and what a person protects stays for as long as they let it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from vademecum.lifecycle.base import LASTING, LEARNED, Proposal, ours, renewed
from vademecum.store import consolidation
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.base import Seen
    from vademecum.types import Record


@dataclass(frozen=True, slots=True)
class Retention:
    """The pass, with the days after which a scope forgets; 0 is never."""

    project_days: int = 90
    session_days: int = 14
    name: str = "retention"

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterator[Proposal]:
        """Put away what is older than its scope keeps it; what has no date has no age."""
        limits = {Scope.PROJECT: self.project_days, Scope.SESSION: self.session_days}
        for each in seen:
            record, days = each.record, limits.get(each.record.place.scope, 0)
            last = renewed(record)
            if not days or last is None or _lasting(record) or not ours(each):
                continue
            if now - last > timedelta(days=days):
                why = f"not written or confirmed since {last:%Y-%m-%d}; {record.place.scope} memory"
                yield Proposal(
                    self.name, record.path, f"{why} is kept {days} days", (each.retired(),), record.place
                )


def _lasting(record: Record) -> bool:
    """Whether a record never ages: by its own type, or by that of something it holds."""
    types = {record.type, *(part.type for part in consolidation.parts(record).values())}
    return not types.isdisjoint(LASTING | LEARNED)
