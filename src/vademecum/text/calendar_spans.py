"""Compute the span of days or hours that a phrase of time means, seen from a local moment.

Takes numbers, and knows no words of any language: `time_phrases` reads those.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Captured = Mapping[str, Any]
    Meaning = Callable[[datetime, Captured], "TimeSpan | None"]

FEW = 2, 5  # how many "a few" are
_DAY = timedelta(days=1)
_HOURS: Final = {  # of the parts of a day; a night ends on the next one
    "small": (0, 5),
    "morning": (5, 12),
    "noon": (11, 14),
    "afternoon": (12, 18),
    "night": (18, 29),
}
_THIRDS: Final = {"begin": 0, "middle": 1, "end": 2}


class TimeSpan(NamedTuple):
    """The time from a local moment until just before another; None where the span has no beginning or end."""

    start: datetime | None
    end: datetime | None
    cycle: str = ""  # week or year, when it is the last one of many

    def __str__(self) -> str:
        """The span as people write it: 2026-11-10, or the first and the last day."""
        last = None if self.end is None else self.end - timedelta(seconds=1)
        if self.start is None or self.end is None or last is None:
            return f"since {_label(self.start)}" if self.start else f"until {_label(last)}" if last else ""
        if self.start == _midnight(self.start) and self.end == _midnight(self.end):
            same = self.start.date() == last.date()
            return _label(self.start) if same else f"{_label(self.start)} to {_label(last)}"
        until = f"{self.end:%H:%M}" if self.end.date() == self.start.date() else f"{self.end:%Y-%m-%d %H:%M}"
        return f"{self.start:%Y-%m-%d %H:%M} to {until}"


def _label(moment: datetime) -> str:
    """Return a moment as its day; with the time of day, unless it is the first or last second of the day."""
    whole = moment in (_midnight(moment), _midnight(moment) + _DAY - timedelta(seconds=1))
    return f"{moment:%Y-%m-%d}" if whole else f"{moment:%Y-%m-%d %H:%M}"


def _midnight(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, moment.day)


def _days(first: date, count: int, cycle: str = "") -> TimeSpan:
    start = datetime(first.year, first.month, first.day)
    return TimeSpan(start, start + timedelta(days=count), cycle)


def month(year: int, number: int, months: int = 1, cycle: str = "") -> TimeSpan:
    """Return the span of some months from the given month on; month 13 is January of the next year, and so
    on.
    """
    start, end = _month_at(year, number), _month_at(year, number + months)
    return TimeSpan(start, end, cycle)


def _month_at(year: int, number: int) -> datetime:
    return datetime(year + (number - 1) // 12, (number - 1) % 12 + 1, 1)


def day(year: int, number: int, of_month: int) -> TimeSpan | None:
    """Return the span of one day; None when the calendar has no such day."""
    try:
        return _days(date(year, number, of_month), 1)
    except (ValueError, OverflowError):
        return None


# -------------------------------------------------------------------- days and weeks


def _day(now: datetime, captured: Captured) -> TimeSpan:
    return _days(now.date() + _DAY * captured["day"], 1)


def _monday(now: datetime) -> date:
    return now.date() - _DAY * now.weekday()


def _which_weekday(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span of a weekday: of this week (0), after today (1), or before today (-1, or -2 a week
    earlier).
    """
    wanted = captured.get("weekday", captured.get("wd")) - 1
    which = captured.get("which", captured.get("before", 0))
    if which == 0:
        return _days(_monday(now) + _DAY * wanted, 1)
    if which > 0:
        return _days(now.date() + _DAY * ((wanted - now.weekday() - 1) % 7 + 1), 1)
    away = (now.weekday() - wanted - 1) % 7 + 1 - 7 * (which + 1)
    return _days(now.date() - _DAY * away, 1)


def _weekday(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span of the last such weekday, today included."""
    wanted = captured.get("weekday", captured.get("wd"))
    return _days(now.date() - _DAY * ((now.weekday() - wanted + 1) % 7), 1, "week")


def _weekday_of(now: datetime, captured: Captured) -> TimeSpan:
    which = captured.get("which", captured.get("which_week", captured.get("this", 0)))
    return _days(_monday(now) + _DAY * (7 * which + captured["weekday"] - 1), 1)


def _which_span(now: datetime, captured: Captured) -> TimeSpan:
    which = captured.get("which", captured.get("before", captured.get("this", 0)))
    return _unit_at(now, captured["span"], which)


def _unit_at(now: datetime, unit: str, which: int) -> TimeSpan:
    """Return the span of a week, weekend, month, quarter or year; `which` counts from the present one."""
    if unit == "week":
        return _days(_monday(now) + _DAY * 7 * which, 7)
    if unit == "weekend":
        return _days(_monday(now) + _DAY * (7 * which + 5), 2)
    if unit == "month":
        return month(now.year, now.month + which)
    if unit == "quarter":
        return month(now.year, (now.month - 1) // 3 * 3 + 1 + 3 * which, 3)
    return month(now.year + which, 1, 12)


def _on_weekend(now: datetime, _: Captured) -> TimeSpan:
    """Return the span of the last weekend that has begun."""
    return _unit_at(now, "weekend", 0 if now.weekday() >= 5 else -1)


def _ago(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span that "3 days ago" means: for days, months and years, that day, month or year.

    For weeks, it is the seven days around that day. For hours and minutes, it goes from 1.5 times to half the
    time ago.
    """
    count, unit = captured.get("number", captured.get("n")), captured["unit"]
    if unit in ("hour", "minute"):
        away = timedelta(**{f"{unit}s": count})
        return TimeSpan(now - 1.5 * away, now - 0.5 * away)
    if unit == "day":
        return _days(now.date() - _DAY * count, 1)
    if unit == "week":
        return _days(now.date() - _DAY * (7 * count + 3), 7)
    return _unit_at(now, unit, -count)


def _few_ago(now: datetime, captured: Captured) -> TimeSpan:
    unit = captured.get("unit", "day")
    return TimeSpan(_ago(now, {"n": FEW[1], "unit": unit}).start, _ago(now, {"n": FEW[0], "unit": unit}).end)


def _last_n(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span of the last hours or minutes until now, or of longer units until the end of today."""
    count, unit = captured.get("number", captured.get("n", 1)), captured["unit"]
    if unit in ("hour", "minute"):
        return TimeSpan(now - timedelta(**{f"{unit}s": count}), now)
    if unit in ("day", "week"):
        back = now.date() - _DAY * count * (7 if unit == "week" else 1)
    else:
        first = _month_at(now.year, now.month - count * (12 if unit == "year" else 1))
        last_day = (_month_at(first.year, first.month + 1) - _DAY).day
        back = first.replace(day=min(now.day, last_day)).date()
    return TimeSpan(datetime(back.year, back.month, back.day), _midnight(now) + _DAY)


def _last_few(now: datetime, captured: Captured) -> TimeSpan:
    return _last_n(now, {"n": FEW[1], "unit": captured["unit"]})


def _week_number(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span of a week by its number; without a year, of the last such week that has begun."""
    year = captured.get("y") or now.year
    first = date.fromisocalendar(year, captured["n"], 1)
    if "y" not in captured and first > now.date():
        first = date.fromisocalendar(year - 1, captured["n"], 1)
    return _days(first, 7)


# -------------------------------------------------------------------- months, quarters, seasons, years


def _named_month(captured: Captured) -> int:
    number: int = captured.get("month", captured.get("mon", captured.get("cm", 0)))
    return number


def _month(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span of the last month of that name that has begun."""
    number = _named_month(captured)
    return month(now.year - (number > now.month), number, cycle="year")


def _which_month(now: datetime, captured: Captured) -> TimeSpan:
    number, which = (
        _named_month(captured),
        captured.get("which", captured.get("before", captured.get("this", 0))),
    )
    year = now.year - (number >= now.month) if which < 0 else now.year + (which > 0 and number <= now.month)
    return month(year, number)


def _month_year(_: datetime, captured: Captured) -> TimeSpan:
    return month(captured.get("y", captured.get("cy")), _named_month(captured))


def _year(_: datetime, captured: Captured) -> TimeSpan:
    return month(captured.get("y", captured.get("cy")), 1, 12)


def _season(year: int, number: int) -> TimeSpan:
    return month(year, 3 * number, 3)  # by whole months, as the north has them; winter begins in December


def _which_season(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span of a season: the last that is over, the one of this year, or the next."""
    which = captured.get("which", captured.get("before", captured.get("this", 0)))
    if which == 0:
        return _season(now.year, captured["season"])
    years = range(now.year - 2, now.year + 3)
    every = [_season(year, captured["season"]) for year in years]
    if which < 0:
        return [each for each in every if each.end is not None and each.end <= now][-1]
    return next(each for each in every if each.start is not None and each.start > now)


def _quarter(now: datetime, captured: Captured) -> TimeSpan:
    number = captured.get("q", captured.get("ordinal", captured.get("n")))
    if not 1 <= number <= 4:
        raise ValueError(number)
    year = captured.get("y", captured.get("cy"))
    first = 3 * number - 2
    if year is not None:
        return month(year, first, 3)
    return month(now.year - (first > now.month), first, 3, "year")


def _date(now: datetime, captured: Captured) -> TimeSpan:
    """Return the span of a day of a month; without a year, of the last such day up to today."""
    of_month, number = captured.get(
        "dm", (captured.get("d", captured.get("ordinal", captured.get("n"))), _named_month(captured))
    )
    year = captured.get("y", captured.get("cy"))
    if year is not None:
        return _days(date(year, number, of_month), 1)
    for back in range(9):  # 29 February comes every eight years at worst
        found = day(now.year - back, number, of_month)
        if found is not None and found.start is not None and found.start <= now:
            return found._replace(cycle="year")
    raise ValueError(of_month)


def _date_of(now: datetime, captured: Captured) -> TimeSpan | None:
    whole = _unit_at(now, "month", captured.get("which_month", captured.get("which", 0)))
    return None if whole.start is None else day(whole.start.year, whole.start.month, captured["n"])


def _days_of(now: datetime, captured: Captured) -> TimeSpan | None:
    """Return the span from one day of a month to another day; None when the calendar has no such days."""
    name = "d" if "d" in captured else "n"
    last = _date(now, {**captured, name: captured[f"{name}2"]})
    if last.start is None:
        return None
    first = day(last.start.year, last.start.month, captured[name])
    return None if first is None or first.start is None else _ordered(first, last)


# -------------------------------------------------------------------- parts of other spans


def _with_hours(of: TimeSpan, part: str) -> TimeSpan | None:
    if of.start is None or of.end != of.start + _DAY:
        return None
    first, last = _HOURS[part]
    return TimeSpan(of.start + timedelta(hours=first), of.start + timedelta(hours=last))


def _part_of(_: datetime, captured: Captured) -> TimeSpan | None:
    return _with_hours(captured["time"], captured["part"])


def _edge_of(_: datetime, captured: Captured) -> TimeSpan | None:
    """Return the span of the first, second or last third of a span; None for a span that has no thirds.

    A span of more than 31 days is cut at months, a week or a month at days.
    """
    start, end, _cycle = captured["time"]
    if start is None or end is None:
        return None
    third, length = _THIRDS[captured["edge"]], (end - start).days
    if length > 31:
        months = 12 * (end.year - start.year) + end.month - start.month
        return month(start.year, start.month + third * (months // 3), months // 3)
    step = 2 if length == 7 else 10
    if length not in (7, 28, 29, 30, 31):
        return None
    return TimeSpan(start + third * step * _DAY, end if third == 2 else start + (third + 1) * step * _DAY)


def _edge_now(now: datetime, captured: Captured) -> TimeSpan | None:
    """Return the span of a third of the present week, month, quarter or year."""
    name = next(each for each in ("edge", "year_edge", "month_edge") if each in captured)
    unit = captured["span"] if name == "edge" else name.partition("_")[0]
    return _edge_of(now, {"time": _unit_at(now, unit, 0), "edge": captured[name]})


def _weeks_edge(_: datetime, captured: Captured, *, last: bool) -> TimeSpan | None:
    start, end, _cycle = captured["time"]
    if start is None or end is None or end - start < 14 * _DAY:
        return None
    return TimeSpan(end - 7 * _DAY, end) if last else TimeSpan(start, start + 7 * _DAY)


def _ordered(first: TimeSpan, last: TimeSpan) -> TimeSpan | None:
    """Return the span from the beginning of `first` to the end of `last`; None when it would be empty.

    If `first` begins too late, and is one of many weeks or years, the one a week or a year before is used.
    """
    start, end = first.start, last.end
    if start is None or end is None:
        return None
    if start >= end and first.cycle == "week":
        start -= 7 * _DAY
    elif start >= end and first.cycle == "year":
        start = start.replace(year=start.year - 1)
    return TimeSpan(start, end) if start < end else None


MEANINGS: Final[dict[str, Meaning]] = {
    "day": _day,
    "weekday": _weekday,
    "which_weekday": _which_weekday,
    "this_weekday": _which_weekday,
    "weekday_of": _weekday_of,
    "which_span": _which_span,
    "week_word": lambda now, captured: _unit_at(now, "week", captured["which_week"]),
    "month_word": lambda now, captured: _unit_at(now, "month", captured["which_month"]),
    "year_word": lambda now, captured: _unit_at(now, "year", captured["yearword"]),
    "weekend_of": lambda now, captured: _unit_at(now, "weekend", captured["which_week"]),
    "last_quarter": lambda now, _: _unit_at(now, "quarter", -1),
    "before_last": lambda now, captured: _unit_at(now, captured["span"], -2),
    "on_weekend": _on_weekend,
    "ago": _ago,
    "few_ago": _few_ago,
    "last_n": _last_n,
    "last_few": _last_few,
    "week_number": _week_number,
    "month": _month,
    "which_month": _which_month,
    "month_year": _month_year,
    "month_in": lambda now, captured: month(now.year + captured["yearword"], _named_month(captured)),
    "year": _year,
    "season_year": lambda _, captured: _season(captured.get("y", captured.get("cy")), captured["season"]),
    "which_season": _which_season,
    "this_season": _which_season,
    "season_in": lambda now, captured: _season(now.year + captured["yearword"], captured["season"]),
    "quarter": _quarter,
    "quarter_in": lambda now, captured: _quarter(now, {**captured, "y": now.year + captured["yearword"]}),
    "date": _date,
    "date_in": lambda now, captured: _date(now, {**captured, "y": now.year + captured["yearword"]}),
    "date_of": _date_of,
    "days": _days_of,
    "tonight": lambda now, _: _with_hours(_days(now.date(), 1), "night"),
    "this_part": lambda now, captured: _with_hours(_days(now.date(), 1), captured["part"]),
    "this_morning": lambda now, _: _with_hours(_days(now.date(), 1), "morning"),
    "last_part": lambda now, captured: _with_hours(
        _days(now.date() - _DAY, 1), captured.get("part", "night")
    ),
    "part_of": _part_of,
    "edge_of": _edge_of,
    "edge_now": _edge_now,
    "first_week": lambda now, captured: _weeks_edge(now, captured, last=False),
    "last_week": lambda now, captured: _weeks_edge(now, captured, last=True),
    "in": lambda _, captured: captured["time"],
    "on": lambda _, captured: captured["time"],
    "end": lambda _, captured: captured["time"],
    "since": lambda _, captured: captured["time"].start and TimeSpan(captured["time"].start, None),
    "until": lambda _, captured: captured["time"].end and TimeSpan(None, captured["time"].end),
    "before": lambda _, captured: captured["time"].start and TimeSpan(None, captured["time"].start),
    "after": lambda _, captured: captured["time"].end and TimeSpan(captured["time"].end, None),
    "between": lambda _, captured: _ordered(captured["time"], captured["time2"]),
}
