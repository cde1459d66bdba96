"""Find the times that a question mentions; passages from these times rank higher.

No passage is left out for its time; `after:` and `before:` do that.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from vademecum.errors import UsageError
from vademecum.index import words
from vademecum.named_tuple import NamedTuple
from vademecum.text import clock, names, time_phrases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vademecum.index import ChunkRow, Filter, Index
    from vademecum.text.calendar_spans import TimeSpan

# The gain of a passage of a mentioned time, on scores whose best is about 1: about as much as meaning and
# a few words together; when the question mentions a time alone, more than all words can give.
OF_ITS_TIME, NOTHING_ELSE = 0.4, 1.5
NARROW = timedelta(days=8)  # passages of a shorter span are found without any word of the question
_OFFSETS = timedelta(hours=14)  # no place on earth is further from UTC


class TimesAsked(NamedTuple):
    """The times that a question mentions."""

    spans: tuple[TimeSpan, ...] = ()
    now: datetime | None = None
    alone: bool = False  # whether the question consists of times alone
    words: frozenset[str] = (
        frozenset()
    )  # words that mention them: passages of that time need not contain these
    notes: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """The number that is added to the score of a passage from a mentioned time."""
        return NOTHING_ELSE if self.alone else OF_ITS_TIME

    def holds(self, row: ChunkRow) -> bool:
        """Return whether a passage is from one of the mentioned times."""
        stamp = row.time or row.updated
        moment = clock.parse(stamp)
        if stamp is None or moment is None or self.now is None:
            return False
        # A date alone, as of a day's file, is that day in every time zone.
        day = len(stamp.strip()) == 10 or (row.time is None and stamp.endswith("T00:00:00Z"))
        if day:
            moment = moment.replace(tzinfo=None)
            return any(_is_within(moment, *span[:2]) for span in self.spans)
        return any(_is_within(moment, *time_phrases.moments(span, self.now)) for span in self.spans)

    def find(self, index: Index, filter: Filter, known: Iterable[int], limit: int) -> dict[int, ChunkRow]:
        """Return the chunks from the mentioned times among the candidates `known`.

        For a time of a few days, or a question about times alone, look among all chunks that the filter
        allows.
        """
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
    """Return the times that a question mentions; times inside quotations do not count."""
    for phrase in words.phrases_in(text):
        text = text.replace(phrase, " " * len(phrase))
    found = time_phrases.find(text, now)
    if not found:
        return NO_TIMES
    return TimesAsked(
        tuple(span for each in found for span in each.spans),
        now,
        time_phrases.is_all(text, found),
        frozenset(word for each in found for word in words.terms(each.phrase).words),
        tuple(map(str, found)),
    )


def moment_of(now: str | datetime | None, present: datetime) -> datetime:
    """Return the moment from which a question is seen: `now`, local if without an offset, or `present`."""
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


def end_of_day(moment: datetime) -> datetime:
    """Return the last second of a moment's day: what happened later on the day of asking may answer too."""
    return moment.replace(hour=23, minute=59, second=59)


def _around(filter: Filter, span: TimeSpan) -> Filter:
    """Return a filter for a span of time, a little widened, as stamps have different UTC offsets."""
    after = None if span.start is None else _stamp(max(span.start, _LEAST) - _OFFSETS)
    before = None if span.end is None else _stamp(min(span.end, _MOST) + _OFFSETS)
    return filter._replace(
        after=max(filter.after or "", after or "") or None,
        before=min(filter.before or "9", before or "9") if filter.before or before else None,
    )


def _stamp(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='seconds')}Z"


_LEAST, _MOST = datetime(1, 1, 3), datetime(9999, 12, 29)
