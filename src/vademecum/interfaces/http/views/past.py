"""Time travel: memory as of the end of any day."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.to_text import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.memory import Memory
    from vademecum.memory.browse import PastRow

PAGE = 60  # rows of a page
BARS = 120  # the largest number of bars in the chart of all days
_STEPS = (("a year", 365), ("a month", 30), ("a week", 7), ("a day", 1))


def travel(memory: Memory, day: str = "", *, offset: int = 0) -> dict[str, Any]:
    """Return memory at the end of a day, by default today, and the days to choose from."""
    today = date.fromisoformat(f"{memory.workspace.now():%Y-%m-%d}")
    page = memory.browse.as_of(day or today.isoformat(), offset=offset, limit=PAGE)
    at = date.fromisoformat(page.moment[:10])
    known = [each for each in page.days if each <= today.isoformat()]
    first = min(date.fromisoformat(min(known)) if known else today, today)
    more = offset + PAGE < page.total
    return {
        "day": at.isoformat(),
        "heading": f"{at:%A}, {at.day} {at:%B %Y}",
        "first": first.isoformat(),
        "today": today.isoformat(),
        "span": (today - first).days,
        "at": min(max((at - first).days, 0), (today - first).days),
        "records": [_row(each) for each in page.rows],
        "total": page.total,
        "now": page.now,
        "since": dict(page.since),
        "brought": page.days.get(at.isoformat(), 0),
        "steps": [
            _step(name, at, days, first) for name, days in _STEPS if at - timedelta(days=days) >= first
        ],
        "later": [
            _step(name, at, -days, first) for name, days in _STEPS[::-1] if at + timedelta(days=days) <= today
        ],
        "bars": _bars(page.days, first, today, at),
        "next_query": urlencode({"at": at.isoformat(), "offset": offset + PAGE}) if more else "",
    }


def _row(row: PastRow) -> dict[str, Any]:
    record = row.record
    return {
        "key": record.key,
        "title": record.title,
        "scope": str(record.place.scope),
        "type": record.type,
        "tags": list(record.tags),
        "text": shorten(row.entry.text, 400),
        "time": row.entry.time or record.created,
        "origin": str(row.entry.origin or "user"),
        "standing": row.standing,
        "now": shorten(record.text, 240) if row.standing == "replaced" else "",
    }


def _step(name: str, at: date, days: int, first: date) -> dict[str, str]:
    to = at - timedelta(days=days)
    return {"label": f"{name} {'earlier' if days > 0 else 'later'}", "day": max(to, first).isoformat()}


def _bars(days: Mapping[str, int], first: date, last: date, at: date) -> list[dict[str, Any]]:
    """Return bars for ranges of days, each 0 to 100 high by its number of changes."""
    width = (last - first).days // BARS + 1
    sums = [0] * ((last - first).days // width + 1)
    for day, count in days.items():
        if first.isoformat() <= day <= last.isoformat():
            sums[(date.fromisoformat(day) - first).days // width] += count
    most = max(sums)
    return [
        {
            "day": min(first + timedelta(days=index * width + width - 1), last).isoformat(),
            "count": count,
            "height": round(100 * count / most, 1) if most else 0,
            "on": first + timedelta(days=index * width) <= at,
        }
        for index, count in enumerate(sums)
    ]


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return memory as of a day: `?at=2026-05-02`, and `&offset=` for the next page."""
    offset = ask.query.get("offset", "")
    return travel(
        ask.memory,
        ask.query.get("at", "")[:10],
        offset=int(offset) if offset.isdecimal() and len(offset) < 9 else 0,
    )


VIEW = PageView("/time", "Time travel", data, "past.html", icon="time", key="y")
