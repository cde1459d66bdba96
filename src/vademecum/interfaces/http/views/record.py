"""One record: its text, the origin of each line, its history, and its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound
from vademecum.fields import FIELDS
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.http.problems import HttpProblem
from vademecum.interfaces.http.views.archive import find_archived
from vademecum.interfaces.present.safe import clean_text
from vademecum.interfaces.present.to_json import record_json, related_json
from vademecum.interfaces.present.to_text import diff_lines
from vademecum.store import request_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.memory import Memory
    from vademecum.memory.browse import EntryOrigin
    from vademecum.memory.values import HistoryEvent
    from vademecum.types import Record

_EVENTS = 50  # the newest events of a history
_LINES = 400  # lines of one diff


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return a record by its key, number or id, with `?scope=` if several scopes have it."""
    memory, name = ask.memory, ask.path["key"]
    scope = ask.query.get("scope") or None
    with request_view():
        record = _show(memory, name, scope)
        lost = len(memory.archive.lost_entries(name, scope=scope))
        entries = memory.browse.entries(record)
        related = memory.graph.related(name, scope=scope)
        events = list(memory.archive.events(name, scope=scope))
    fields = record_json(
        record, entries=[], trust=memory.review.trust_of(record), related=related, lost=lost, versions=[]
    )
    return {
        **{name: value for name, value in fields.items() if name not in ("entries", "related", "versions")},
        "entries": [_entry(each, index) for index, each in enumerate(entries)],
        "related": [{**related_json(each), "title": each.record.title} for each in related],
        "lines": _lines(memory, record, entries),
        "history": _history(events),
        "versions": sum(1 for each in events if each.version),
        "fields": {name: str(value) for name, value in record.fields.items() if name not in _SHOWN},
        "tab": ask.query.get("tab", "read"),
        "query": f"scope={record.place.scope}",
    }


def _show(memory: Memory, name: str, scope: str | None) -> Record:
    """Return a record; for an archived record, raise HttpProblem with its text and its version."""
    try:
        return memory.show(name, scope=scope)
    except NotFound as error:
        gone = find_archived(memory, name, scope)
        if gone is None:
            raise
        raise HttpProblem(404, f"{gone['title']} is archived", archived=gone) from error


_SHOWN = {field.name for field in FIELDS if field.placed}


def _entry(origin: EntryOrigin, index: int) -> dict[str, Any]:
    entry = origin.entry
    return {
        "n": index + 1,
        "time": entry.time,
        "text": entry.text,
        "origin": str(entry.origin or "user"),
        "by": origin.by,
        "client": origin.client,
        "sessions": list(origin.sessions),
        "trust": str(origin.trust.level),
        "why": origin.trust.why,
        "live": entry.live,
        "superseded": entry.superseded,
        "replaced_by": None if origin.replaced_by is None else origin.replaced_by + 1,
        "contradicts": entry.contradicts,
        "stale": entry.stale,
        "part": entry.part,
        "start": entry.start,
        "end": entry.end,
        "claims": [each._asdict() for each in origin.claims],
    }


def _lines(memory: Memory, record: Record, entries: Sequence[EntryOrigin]) -> list[dict[str, Any]]:
    """Return the file's lines, each with the number of its entry; 0 for lines above the first entry."""
    begins = {each.entry.start: index for index, each in enumerate(entries, 1)}
    rows, at = [], 0
    for number, line in enumerate(memory.get(record.path).text.split("\n"), 1):
        at = begins.get(number, at)
        rows.append({"line": number, "text": line, "entry": at})
    return rows


def _history(events: Sequence[HistoryEvent]) -> list[dict[str, Any]]:
    """Return the newest events, newest first, with the id that restores the text before each."""
    rows = []
    for each in events[: -_EVENTS - 1 : -1]:
        known = each.before is not None and each.after is not None
        diff = diff_lines(clean_text(each.before or ""), clean_text(each.after or "")) if known else []
        rows.append(
            {
                "at": each.at,
                "by": each.client or each.by,
                "why": each.what,
                "made": each.made,
                "restores": each.version,
                "diff": diff[:_LINES],
                "cut": max(len(diff) - _LINES, 0),
            }
        )
    return rows


VIEW = PageView("/records/{key}", "Record", data, "record.html", menu=False, parent="/memories")
