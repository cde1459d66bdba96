"""The times that a question mentions, as an index is asked for them: what is of that time gains.

Nothing is left out for its time: that is what `after:` and `before:` are for.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import UsageError
from vademecum.index import words
from vademecum.text import clock, names, times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vademecum.index.base import ChunkRow, Filter, Index
    from vademecum.text.spans import TimeSpan

# What a passage of a time that is asked for gains, on scores whose best is about 1: about as much as meaning
# and a few words together; when nothing else is asked, more than all words can give.
OF_ITS_TIME, NOTHING_ELSE = 0.4, 1.5
NARROW = timedelta(days=8)  # what is of so short a time is looked for, without any word of the question
_OFFSETS = timedelta(hours=14)  # no place on earth is further from UTC


class TimesAsked(NamedTuple):
    """The times of one question."""

    spans: tuple[TimeSpan, ...] = ()
    now: datetime | None = None
    alone: bool = False  # whether nothing else is asked
    words: frozenset[str] = frozenset()  # that speak of them: what is of that time need not hold them
    notes: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """What is added to the score of a passage of that time."""
        return NOTHING_ELSE if self.alone else OF_ITS_TIME

    def holds(self, row: ChunkRow) -> bool:
        """Whether a passage is of one of the times."""
        stamp = row.time or row.updated
        moment = clock.parse(stamp)
        if stamp is None or moment is None or self.now is None:
            return False
        # A date alone, as the name of a day's file, is that day wherever one is.
        day = len(stamp.strip()) == 10 or (row.time is None and stamp.endswith("T00:00:00Z"))
        if day:
            moment = moment.replace(tzinfo=None)
            return any(_is_within(moment, *span[:2]) for span in self.spans)
        return any(_is_within(moment, *times.moments(span, self.now)) for span in self.spans)

    def find(self, index: Index, filter: Filter, known: Iterable[int], limit: int) -> dict[int, ChunkRow]:
        """What is of that time: of the chunks found already, and of all when little else is asked."""
        found: set[int] = set()
        for span in self.spans:
            around = _around(filter, span)
            candidates = tuple(known if filter.only is None else {*known} & {*filter.only})
            found.update(index.match((), around._replace(only=candidates), None))
            narrow = span.start is not None and span.end is not None and span.end - span.start <= NARROW
            if narrow or self.alone:
                found.update(index.match((), around, limit))
        return {id_: row for id_, row in index.rows(found, filter).items() if self.holds(row)}


def _is_within(moment: datetime, start: datetime | None, end: datetime | None) -> bool:
    return (start is None or start <= moment) and (end is None or moment < end)


NO_TIMES = TimesAsked()


def times_asked(text: str, now: datetime) -> TimesAsked:
    """The times in a question; what stands in quotation marks is meant as it stands."""
    for phrase in words.phrases_in(text):
        text = text.replace(phrase, " " * len(phrase))
    found = times.find(text, now)
    if not found:
        return NO_TIMES
    return TimesAsked(
        tuple(span for each in found for span in each.spans),
        now,
        times.is_all(text, found),
        frozenset(word for each in found for word in words.terms(each.phrase).words),
        tuple(map(str, found)),
    )


def moment_of(now: str | datetime | None, present: datetime) -> datetime:
    """The moment a question is asked at: what a caller says, by the wall clock where they say no offset."""
    if now is None or isinstance(now, datetime):
        return present if now is None else now
    try:
        moment = datetime.fromisoformat(now.strip())
    except ValueError as error:
        raise UsageError(
            f"{names.shown(now)} is not a date or time",
            hint="write it as 2026-11-15 or 2026-11-15T08:00",
        ) from error
    return moment


def _around(filter: Filter, span: TimeSpan) -> Filter:
    """A filter for a span, with room at both ends: stamps have offsets of their own."""
    after = None if span.start is None else _stamp(max(span.start, _LEAST) - _OFFSETS)
    before = None if span.end is None else _stamp(min(span.end, _MOST) + _OFFSETS)
    return filter._replace(
        after=max(filter.after or "", after or "") or None,
        before=min(filter.before or "9", before or "9") if filter.before or before else None,
    )


def _stamp(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='seconds')}Z"


_LEAST, _MOST = datetime(1, 1, 3), datetime(9999, 12, 29)
