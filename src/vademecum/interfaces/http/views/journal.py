"""The journal as a calendar: one month at a time, and the notes of one day."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from vademecum.errors import UsageError
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.safe import clean_text
from vademecum.types import Finding

if TYPE_CHECKING:
    from vademecum.memory import Memory

CUT = 20_000  # characters shown of a note


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A container of the journal file names with this prefix: those of a month or a day."""

    prefix: str

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith(self.prefix)


def journal(memory: Memory, *, month: str = "", day: str = "") -> dict[str, Any]:
    """Return a month of the journal, and the notes of the requested day, else of its last day with notes."""
    now = memory.workspace.now().date()
    chosen = _date(day) if day else None
    first = _date(f"{month}-01") if month else (chosen or now).replace(day=1)
    counts, findings = _counts(memory, f"{first:%Y-%m}")
    if chosen is None:
        fitting = [each for each, count in counts.items() if count and each <= now.isoformat()]
        chosen = (
            date.fromisoformat(max(fitting))
            if fitting
            else (now if (now.year, now.month) == (first.year, first.month) else first)
        )
    weeks = calendar.Calendar().monthdatescalendar(first.year, first.month)
    return {
        "month": f"{first:%Y-%m}",
        "heading": f"{first:%B %Y}",
        "previous": f"{first - timedelta(days=1):%Y-%m}",
        "next": f"{first + timedelta(days=31):%Y-%m}",
        "today": now.isoformat(),
        "day": chosen.isoformat(),
        "day_heading": f"{chosen:%A}, {chosen.day} {chosen:%B %Y}",
        "weeks": [
            [
                {"date": each.isoformat(), "day": each.day, "inside": each.month == first.month}
                | {"count": counts.get(each.isoformat(), 0)}
                for each in week
            ]
            for week in weeks
        ],
        "notes": notes_of(memory, chosen.isoformat()),
        "total": sum(counts.values()),
        "scopes": _scopes(memory),
        "findings": findings,
    }


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text[:40]} is no date", hint="write it as 2026-11-15") from None


def _counts(memory: Memory, prefix: str) -> tuple[dict[str, int], list[dict[str, str]]]:
    """Return how many notes each day of a month has, and the files that cannot be read."""
    counts: dict[str, int] = {}
    findings = []
    work = memory.workspace
    with work.reported("read the journal"):
        for each in work.journal.days(work.places(None), only=_Beginning(prefix)):
            if isinstance(each, Finding):
                findings.append({"path": each.where, "why": each.why})
            else:
                day = each.path.rpartition("/")[2][:10]
                counts[day] = counts.get(day, 0) + len(each.entries)
    return counts, findings


def notes_of(memory: Memory, day: str) -> list[dict[str, Any]]:
    """Return the notes of a day, of all scopes, in order."""
    found = []
    work = memory.workspace
    with work.reported("read the journal"):
        for each in work.journal.days(work.places(None), only=_Beginning(day)):
            if isinstance(each, Finding):
                continue
            for entry in each.entries:
                trust = memory.review.trust_of(entry)
                text = clean_text(entry.text)
                found.append(
                    {
                        "time": (entry.time or "")[11:16],
                        "at": entry.time or "",
                        "text": text[:CUT],
                        "cut": max(len(text) - CUT, 0),
                        "scope": str(each.place.scope),
                        "path": each.path,
                        "origin": str(entry.origin or "user"),
                        "trust": str(trust.level),
                        "why": trust.why,
                        "told": trust.injectable,
                    }
                )
    return sorted(found, key=lambda each: str(each["at"]))


def _scopes(memory: Memory) -> list[str]:
    """Return the scopes that can take a note."""
    has = memory.caller.project is not None
    return ["project", "agent", "global"] if has else ["agent", "global"]


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the page: `?month=2026-11&day=2026-11-15`."""
    return journal(ask.memory, month=ask.query.get("month", ""), day=ask.query.get("day", ""))


VIEW = PageView("/journal", "Journal", data, "journal.html", icon="journal", key="j")
