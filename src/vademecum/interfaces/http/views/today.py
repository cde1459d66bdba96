"""Today: new records by agent, pending items, the state of memory, and a year of activity."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from vademecum.errors import VadeError
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.safe import clean_text
from vademecum.interfaces.present.to_json import finding_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from vademecum.memory import Memory

SHOWN = 30  # records and notes that are named
LOOKED_AT = 200  # records of today that are opened: most may be of other projects
WEEKS = 53
LEVELS = 4
# Contradictions and promotions are left to Review: to find them every record is held against all others.
_KINDS = {
    "write": ("write", "writes"),
    "folder": ("folder", "folders"),
    "text": ("unverified text", "unverified texts"),
    "version": ("entry with two versions", "entries with two versions"),
    "notice": ("notice of a sync", "notices of syncs"),
    "held": ("text that a purge left open", "texts that a purge left open"),
    "conflict": ("conflict", "conflicts"),
    "signal": ("suggestion", "suggestions"),
    "lesson": ("lesson from a failure", "lessons from failures"),
}


def today(memory: Memory) -> dict[str, Any]:
    """Return today's changes, the pending items, and the activity of the last year."""
    now = memory.workspace.now()
    day = f"{now:%Y-%m-%d}"
    lines = memory.audit.day(day)
    status = memory.status()
    problems = [each for each in status.findings if each.severity != "info"]
    return {
        "date": day,
        "heading": f"{now:%A}, {now.day} {now:%B %Y}",
        "changed": _changed(memory, lines),
        "notes": _notes(memory, day),
        "by": _by(lines),
        "changes": len(lines),
        "nudges": _nudges(memory, now),
        "bar": memory.heard.bar(),
        "pending": _pending(memory),
        "health": _health(status, problems),
        "problems": [finding_json(each) for each in problems[:SHOWN]],
        "activity": _activity(memory.audit.days(), date.fromisoformat(day)),
    }


def _changed(memory: Memory, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the visible records that were written today, newest first."""
    changes: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line.get("record") and line.get("after"):
            earlier = changes.pop(line["record"], [])  # so that the newest change comes last
            changes[line["record"]] = [*earlier, line]
    found: list[dict[str, Any]] = []
    for id, made in [*reversed(changes.items())][:LOOKED_AT]:
        if len(found) == SHOWN:
            break
        try:
            record = memory.show(id)
        except VadeError:  # of another project, or gone since
            continue
        found.append(
            {
                "key": record.key,
                "title": record.title,
                "scope": str(record.place.scope),
                "type": str(record.type),
                "text": clean_text(record.text)[:200],
                "at": str(made[-1].get("at") or ""),
                "by": [*dict.fromkeys(map(writer_of, made))],
                "new": any(each.get("op") == "created" for each in made),
            }
        )
    return found


def writer_of(line: Mapping[str, Any]) -> str:
    """Return who made a change, as people write it: the program, or the actor."""
    actor = str(line.get("actor") or "")
    kind, _, name = actor.partition(":")
    return "you" if kind == "human" else str(line.get("client") or "") or name or kind or "unknown"


def _by(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter(writer_of(line) for line in lines)
    total = sum(counts.values()) or 1
    return [
        {"name": name, "value": str(count), "share": 100 * count / total}
        for name, count in counts.most_common(8)
    ]


def _notes(memory: Memory, day: str) -> list[dict[str, Any]]:
    from vademecum.interfaces.http.views.journal import notes_of

    return notes_of(memory, day)[-SHOWN:]


def _nudges(memory: Memory, now: datetime) -> list[dict[str, Any]]:
    """Return today's nudges: statements of the user that agents were shown, with the outcome of each."""
    since = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return [
        {
            "text": clean_text(each.text)[:200],
            "kind": each.kind,
            "at": each.nudged,
            "outcome": each.outcome or "open",
            "tone": "good" if each.record else "",
            "program": each.program,
        }
        for each in memory.heard.nudges(since=since)[:SHOWN]
    ]


def _pending(memory: Memory) -> list[dict[str, Any]]:
    """Return how many items are pending, by kind; empty for an agent."""
    try:
        counts = memory.review.inbox((*_KINDS,)).counts
    except VadeError:
        return []
    return [
        {"kind": kind, "count": count, "label": _KINDS[kind][count != 1]}
        for kind, count in counts.items()
        if count
    ]


def _health(status: Any, problems: Sequence[Any]) -> dict[str, str]:
    """Return the state of memory in one line."""
    errors = sum(each.severity == "error" for each in problems)
    if errors:
        return {"tone": "bad", "text": f"{errors} error{'s' if errors > 1 else ''} to look at"}
    if problems:
        count = len(problems)
        return {"tone": "warn", "text": f"{count} warning{'s' if count > 1 else ''} to look at"}
    failed = len(status.coverage.failed) if status.coverage else 0
    if failed:
        text = "1 file could not be read" if failed == 1 else f"{failed:,} files could not be read"
        return {"tone": "warn", "text": text}
    waits = status.coverage.pending if status.coverage else 0
    if waits:
        return {"tone": "", "text": f"all files can be read; {waits:,} still to be indexed"}
    return {"tone": "good", "text": "all files can be read, and the index is up to date"}


# ---------------------------------------------------------------- a year


def _activity(counts: Mapping[str, int], last: date) -> dict[str, Any]:
    """Return the numbers of changes on each day of the last year, in weeks that begin on Monday."""
    monday = last - timedelta(days=last.weekday() + 7 * (WEEKS - 1))
    days = [monday + timedelta(days=at) for at in range((last - monday).days + 1)]
    most = max((counts.get(day.isoformat(), 0) for day in days), default=0)
    cells: list[dict[str, Any]] = [
        {"date": day.isoformat(), "count": counts.get(day.isoformat(), 0)}
        | {"level": _level(counts.get(day.isoformat(), 0), most), "week": at // 7, "weekday": at % 7}
        for at, day in enumerate(days)
    ]
    months = [
        {"name": f"{day:%b}", "week": at // 7}
        for at, day in enumerate(days)
        if day.day <= 7 and day.weekday() == 0
    ]
    by_month: Counter[str] = Counter()
    for each in cells:
        by_month[each["date"][:7]] += each["count"]
    return {
        "cells": cells,
        "months": months,
        "by_month": [{"month": name, "count": count} for name, count in by_month.items()],
        "total": sum(each["count"] for each in cells),
        "days": sum(each["count"] > 0 for each in cells),
        "most": most,
    }


def _level(count: int, most: int) -> int:
    """Return a level from 0 (no change) to 4 (busiest days); a square root keeps quiet days visible."""
    if not count:
        return 0
    return max(1, round(LEVELS * math.sqrt(count / most)))


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return today's page."""
    return today(ask.memory)


VIEW = PageView("/today", "Today", data, "today.html", icon="today", key="t")
