"""Pruning of what was learned: too long unconfirmed, or no longer believed enough.

How much a thing is believed fades with the time since it was last confirmed, by half in each half-life. That
is worked out here each time and never written back, so nothing fades twice. What a person verified or
protects stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from vademecum.lifecycle.base import LEARNED, Proposal, ours, renewed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.base import Seen
    from vademecum.types import Record

UNSAID = 0.5  # the confidence of what was learned without saying how sure it is


def faded(record: Record, *, now: datetime, half_life_days: float) -> float:
    """How much a record is still believed."""
    said = UNSAID if record.confidence is None else min(max(record.confidence, 0.0), 1.0)
    last = renewed(record)
    if last is None or half_life_days <= 0:
        return said
    days = max((now - last) / timedelta(days=1), 0.0)
    return float(said * 0.5 ** (days / half_life_days))


def _by_label(record: Record) -> bool:
    return bool(record.fields.get("verified"))


@dataclass(frozen=True, slots=True)
class Pruning:
    """The pass, with the age and the confidence below which something learned is put away; 0 is never.

    `verified` tells what a person has vouched for; the label in the file, unless the caller knows better.
    """

    max_age_days: float = 90
    min_confidence: float = 0.3
    half_life_days: float = 60
    verified: Callable[[Record], bool] = _by_label
    name: str = "prune"

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterator[Proposal]:
        """Put away what was learned and has grown too old or too doubtful."""
        for each in seen:
            if each.record.type in LEARNED and ours(each) and not self.verified(each.record):
                why = self._why(each.record, now)
                if why:
                    yield Proposal(self.name, each.record.path, why, (each.retired(),), each.record.place)

    def _why(self, record: Record, now: datetime) -> str:
        last = renewed(record)
        if self.max_age_days and last is not None and now - last > timedelta(days=self.max_age_days):
            return f"learned, and not confirmed since {last:%Y-%m-%d} (more than {self.max_age_days:g} days)"
        left = faded(record, now=now, half_life_days=self.half_life_days)
        if left < self.min_confidence:
            return f"learned, and its confidence has come down to {left:.2f} (below {self.min_confidence:g})"
        return ""
