"""What words of time mean on a calendar: a span of days or hours, seen from a moment of the wall clock.

Knows numbers, no words of any language: `times` reads those.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
    """From a moment until just before another, as the wall clock shows them; None is open."""

    start: datetime | None
    end: datetime | None
    cycle: str = ""  # week or year, when it is the last one of many

    def __str__(self) -> str:
        """As people write it: 2026-11-10, or from the first to the last day."""
        last = None if self.end is None else self.end - timedelta(seconds=1)
        if self.start is None or self.end is None or last is None:
            return f"since {_shown(self.start)}" if self.start else f"until {_shown(last)}" if last else ""
        if self.start == _midnight(self.start) and self.end == _midnight(self.end):
            same = self.start.date() == last.date()
            return _shown(self.start) if same else f"{_shown(self.start)} to {_shown(last)}"
        until = f"{self.end:%H:%M}" if self.end.date() == self.start.date() else f"{self.end:%Y-%m-%d %H:%M}"
        return f"{self.start:%Y-%m-%d %H:%M} to {until}"


def _shown(moment: datetime) -> str:
    """A day; with the time where it is neither the first nor the last second of it."""
    whole = moment in (_midnight(moment), _midnight(moment) + _DAY - timedelta(seconds=1))
    return f"{moment:%Y-%m-%d}" if whole else f"{moment:%Y-%m-%d %H:%M}"


def _midnight(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, moment.day)


def _days(first: date, count: int, cycle: str = "") -> TimeSpan:
    start = datetime(first.year, first.month, first.day)
    return TimeSpan(start, start + timedelta(days=count), cycle)


def month(year: int, number: int, months: int = 1, cycle: str = "") -> TimeSpan:
    """Some months from one on; a number beyond December is one of another year."""
    start, end = _month_at(year, number), _month_at(year, number + months)
    return TimeSpan(start, end, cycle)


def _month_at(year: int, number: int) -> datetime:
    return datetime(year + (number - 1) // 12, (number - 1) % 12 + 1, 1)


def day(year: int, number: int, of_month: int) -> TimeSpan | None:
    """One day; None when the calendar has no such day."""
    try:
        return _days(date(year, number, of_month), 1)
    except (ValueError, OverflowError):
        return None


# -------------------------------------------------------------------- days and weeks


def _day(now: datetime, said: Captured) -> TimeSpan:
    return _days(now.date() + _DAY * said["day"], 1)


def _monday(now: datetime) -> date:
    return now.date() - _DAY * now.weekday()


def _which_weekday(now: datetime, said: Captured) -> TimeSpan:
    """The last one before today, the one of this week, or the next one after today."""
    wanted = said.get("weekday", said.get("wd")) - 1
    which = said.get("which", said.get("before", 0))
    if which == 0:
        return _days(_monday(now) + _DAY * wanted, 1)
    if which > 0:
        return _days(now.date() + _DAY * ((wanted - now.weekday() - 1) % 7 + 1), 1)
    away = (now.weekday() - wanted - 1) % 7 + 1 - 7 * (which + 1)
    return _days(now.date() - _DAY * away, 1)


def _weekday(now: datetime, said: Captured) -> TimeSpan:
    """The last one, today included."""
    wanted = said.get("weekday", said.get("wd"))
    return _days(now.date() - _DAY * ((now.weekday() - wanted + 1) % 7), 1, "week")


def _weekday_of(now: datetime, said: Captured) -> TimeSpan:
    which = said.get("which", said.get("which_week", said.get("this", 0)))
    return _days(_monday(now) + _DAY * (7 * which + said["weekday"] - 1), 1)


def _which_span(now: datetime, said: Captured) -> TimeSpan:
    which = said.get("which", said.get("before", said.get("this", 0)))
    return _unit_at(now, said["span"], which)


def _unit_at(now: datetime, unit: str, which: int) -> TimeSpan:
    """The week, weekend, month, quarter or year that is so many after this one."""
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
    """The last one that has begun."""
    return _unit_at(now, "weekend", 0 if now.weekday() >= 5 else -1)


def _ago(now: datetime, said: Captured) -> TimeSpan:
    """The day, about a week around it, the month or the year; of hours and minutes, about then."""
    count, unit = said.get("number", said.get("n")), said["unit"]
    if unit in ("hour", "minute"):
        away = timedelta(**{f"{unit}s": count})
        return TimeSpan(now - 1.5 * away, now - 0.5 * away)
    if unit == "day":
        return _days(now.date() - _DAY * count, 1)
    if unit == "week":
        return _days(now.date() - _DAY * (7 * count + 3), 7)
    return _unit_at(now, unit, -count)


def _few_ago(now: datetime, said: Captured) -> TimeSpan:
    unit = said.get("unit", "day")
    return TimeSpan(_ago(now, {"n": FEW[1], "unit": unit}).start, _ago(now, {"n": FEW[0], "unit": unit}).end)


def _last_n(now: datetime, said: Captured) -> TimeSpan:
    """So many units back until now."""
    count, unit = said.get("number", said.get("n", 1)), said["unit"]
    if unit in ("hour", "minute"):
        return TimeSpan(now - timedelta(**{f"{unit}s": count}), now)
    if unit in ("day", "week"):
        back = now.date() - _DAY * count * (7 if unit == "week" else 1)
    else:
        first = _month_at(now.year, now.month - count * (12 if unit == "year" else 1))
        last_day = (_month_at(first.year, first.month + 1) - _DAY).day
        back = first.replace(day=min(now.day, last_day)).date()
    return TimeSpan(datetime(back.year, back.month, back.day), _midnight(now) + _DAY)


def _last_few(now: datetime, said: Captured) -> TimeSpan:
    return _last_n(now, {"n": FEW[1], "unit": said["unit"]})


def _week_number(now: datetime, said: Captured) -> TimeSpan:
    """A week by its number, of this year or, when that is still to come, of the last."""
    year = said.get("y") or now.year
    first = date.fromisocalendar(year, said["n"], 1)
    if "y" not in said and first > now.date():
        first = date.fromisocalendar(year - 1, said["n"], 1)
    return _days(first, 7)


# -------------------------------------------------------------------- months, quarters, seasons, years


def _named_month(said: Captured) -> int:
    number: int = said.get("month", said.get("mon", said.get("cm", 0)))
    return number


def _month(now: datetime, said: Captured) -> TimeSpan:
    """The last one that has begun."""
    number = _named_month(said)
    return month(now.year - (number > now.month), number, cycle="year")


def _which_month(now: datetime, said: Captured) -> TimeSpan:
    number, which = _named_month(said), said.get("which", said.get("before", said.get("this", 0)))
    year = now.year - (number >= now.month) if which < 0 else now.year + (which > 0 and number <= now.month)
    return month(year, number)


def _month_year(_: datetime, said: Captured) -> TimeSpan:
    return month(said.get("y", said.get("cy")), _named_month(said))


def _year(_: datetime, said: Captured) -> TimeSpan:
    return month(said.get("y", said.get("cy")), 1, 12)


def _season(year: int, number: int) -> TimeSpan:
    return month(year, 3 * number, 3)  # by whole months, as the north has them; winter begins in December


def _which_season(now: datetime, said: Captured) -> TimeSpan:
    """The last one that is over, the one of this year, or the next one."""
    which = said.get("which", said.get("before", said.get("this", 0)))
    if which == 0:
        return _season(now.year, said["season"])
    years = range(now.year - 2, now.year + 3)
    every = [_season(year, said["season"]) for year in years]
    if which < 0:
        return [each for each in every if each.end is not None and each.end <= now][-1]
    return next(each for each in every if each.start is not None and each.start > now)


def _quarter(now: datetime, said: Captured) -> TimeSpan:
    number = said.get("q", said.get("ordinal", said.get("n")))
    if not 1 <= number <= 4:
        raise ValueError(number)
    year = said.get("y", said.get("cy"))
    first = 3 * number - 2
    if year is not None:
        return month(year, first, 3)
    return month(now.year - (first > now.month), first, 3, "year")


def _date(now: datetime, said: Captured) -> TimeSpan:
    """A day of a month; without its year, the last one that has come."""
    of_month, number = said.get("dm", (said.get("d", said.get("ordinal", said.get("n"))), _named_month(said)))
    year = said.get("y", said.get("cy"))
    if year is not None:
        return _days(date(year, number, of_month), 1)
    for back in range(9):  # 29 February comes every eight years at worst
        found = day(now.year - back, number, of_month)
        if found is not None and found.start is not None and found.start <= now:
            return found._replace(cycle="year")
    raise ValueError(of_month)


def _date_of(now: datetime, said: Captured) -> TimeSpan | None:
    whole = _unit_at(now, "month", said.get("which_month", said.get("which", 0)))
    return None if whole.start is None else day(whole.start.year, whole.start.month, said["n"])


def _days_of(now: datetime, said: Captured) -> TimeSpan | None:
    """From one day of a month to another."""
    name = "d" if "d" in said else "n"
    last = _date(now, {**said, name: said[f"{name}2"]})
    if last.start is None:
        return None
    first = day(last.start.year, last.start.month, said[name])
    return None if first is None or first.start is None else _ordered(first, last)


# -------------------------------------------------------------------- parts of other spans


def _with_hours(of: TimeSpan, part: str) -> TimeSpan | None:
    if of.start is None or of.end != of.start + _DAY:
        return None
    first, last = _HOURS[part]
    return TimeSpan(of.start + timedelta(hours=first), of.start + timedelta(hours=last))


def _part_of(_: datetime, said: Captured) -> TimeSpan | None:
    return _with_hours(said["time"], said["part"])


def _edge_of(_: datetime, said: Captured) -> TimeSpan | None:
    """The first, second or last third, cut at days or, of a year, at months."""
    start, end, _cycle = said["time"]
    if start is None or end is None:
        return None
    third, length = _THIRDS[said["edge"]], (end - start).days
    if length > 31:
        months = 12 * (end.year - start.year) + end.month - start.month
        return month(start.year, start.month + third * (months // 3), months // 3)
    step = 2 if length == 7 else 10
    if length not in (7, 28, 29, 30, 31):
        return None
    return TimeSpan(start + third * step * _DAY, end if third == 2 else start + (third + 1) * step * _DAY)


def _edge_now(now: datetime, said: Captured) -> TimeSpan | None:
    """A third of the week, month, quarter or year that it is."""
    name = next(each for each in ("edge", "year_edge", "month_edge") if each in said)
    unit = said["span"] if name == "edge" else name.partition("_")[0]
    return _edge_of(now, {"time": _unit_at(now, unit, 0), "edge": said[name]})


def _weeks_edge(_: datetime, said: Captured, *, last: bool) -> TimeSpan | None:
    start, end, _cycle = said["time"]
    if start is None or end is None or end - start < 14 * _DAY:
        return None
    return TimeSpan(end - 7 * _DAY, end) if last else TimeSpan(start, start + 7 * _DAY)


def _ordered(first: TimeSpan, last: TimeSpan) -> TimeSpan | None:
    """From the beginning of one to the end of another; one of many is taken from before the other."""
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
    "week_word": lambda now, said: _unit_at(now, "week", said["which_week"]),
    "month_word": lambda now, said: _unit_at(now, "month", said["which_month"]),
    "year_word": lambda now, said: _unit_at(now, "year", said["yearword"]),
    "weekend_of": lambda now, said: _unit_at(now, "weekend", said["which_week"]),
    "last_quarter": lambda now, _: _unit_at(now, "quarter", -1),
    "before_last": lambda now, said: _unit_at(now, said["span"], -2),
    "on_weekend": _on_weekend,
    "ago": _ago,
    "few_ago": _few_ago,
    "last_n": _last_n,
    "last_few": _last_few,
    "week_number": _week_number,
    "month": _month,
    "which_month": _which_month,
    "month_year": _month_year,
    "month_in": lambda now, said: month(now.year + said["yearword"], _named_month(said)),
    "year": _year,
    "season_year": lambda _, said: _season(said.get("y", said.get("cy")), said["season"]),
    "which_season": _which_season,
    "this_season": _which_season,
    "season_in": lambda now, said: _season(now.year + said["yearword"], said["season"]),
    "quarter": _quarter,
    "quarter_in": lambda now, said: _quarter(now, {**said, "y": now.year + said["yearword"]}),
    "date": _date,
    "date_in": lambda now, said: _date(now, {**said, "y": now.year + said["yearword"]}),
    "date_of": _date_of,
    "days": _days_of,
    "tonight": lambda now, _: _with_hours(_days(now.date(), 1), "night"),
    "this_part": lambda now, said: _with_hours(_days(now.date(), 1), said["part"]),
    "this_morning": lambda now, _: _with_hours(_days(now.date(), 1), "morning"),
    "last_part": lambda now, said: _with_hours(_days(now.date() - _DAY, 1), said.get("part", "night")),
    "part_of": _part_of,
    "edge_of": _edge_of,
    "edge_now": _edge_now,
    "first_week": lambda now, said: _weeks_edge(now, said, last=False),
    "last_week": lambda now, said: _weeks_edge(now, said, last=True),
    "in": lambda _, said: said["time"],
    "on": lambda _, said: said["time"],
    "end": lambda _, said: said["time"],
    "since": lambda _, said: said["time"].start and TimeSpan(said["time"].start, None),
    "until": lambda _, said: said["time"].end and TimeSpan(None, said["time"].end),
    "before": lambda _, said: said["time"].start and TimeSpan(None, said["time"].start),
    "after": lambda _, said: said["time"].end and TimeSpan(said["time"].end, None),
    "between": lambda _, said: _ordered(said["time"], said["time2"]),
}
