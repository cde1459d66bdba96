"""One record: its text, the origin of each line, its history, and its connections."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from vademecum.fields import FIELDS
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.to_json import record_json, related_json
from vademecum.interfaces.present.to_text import diff_lines
from vademecum.store import request_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.memory import Memory
    from vademecum.memory.browse import EntryOrigin
    from vademecum.memory.values import HistoryStep
    from vademecum.types import Record

_VERSIONS = 50  # the newest versions of a history
_LINES = 400  # lines of one diff


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return a record by its key, number or id, with `?scope=` if several scopes have it."""
    memory, name = ask.memory, ask.path["key"]
    scope = ask.query.get("scope") or None
    with request_view():
        record = memory.show(name, scope=scope)
        lost = len(memory.archive.lost_entries(name, scope=scope))
        entries = memory.browse.entries(record)
        related = memory.graph.related(name, scope=scope)
        steps = list(memory.archive.history(name, scope=scope))
    fields = record_json(
        record, entries=[], trust=memory.review.trust_of(record), related=related, lost=lost, versions=[]
    )
    return {
        **{name: value for name, value in fields.items() if name not in ("entries", "related", "versions")},
        "entries": [_entry(each, index) for index, each in enumerate(entries)],
        "related": [{**related_json(each), "title": each.record.title} for each in related],
        "lines": _lines(memory, record, entries),
        "history": _history(steps, entries),
        "versions": len(steps),
        "fields": {name: str(value) for name, value in record.fields.items() if name not in _SHOWN},
        "tab": ask.query.get("tab", "read"),
        "query": f"scope={record.place.scope}",
    }


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


def _history(steps: Sequence[HistoryStep], entries: Sequence[EntryOrigin]) -> list[dict[str, Any]]:
    """Return each change, newest first, with the id that restores the version before the change.

    A change that only added an entry left no archived version, so its diff is made from the entry.
    """
    rows = [_change(before, after) for before, after in [*itertools.pairwise(steps)][-_VERSIONS:]]
    rows = [each for each in rows if each["diff"]]
    diff_lines = {line for each in rows for line in each["diff"]}
    first = next((line for line in steps[0].text.split("\n") if line.startswith("## ")), "") if steps else ""
    for each in entries:
        entry, heading = each.entry, f"## {each.entry.time}"
        if entry.time and heading != first and f"+{heading}" not in diff_lines:
            added = [f"+{line}" for line in (heading, *entry.text.split("\n"))]
            rows.append(_event(entry.time, each.client or each.by, "added", added))
    rows.sort(key=lambda each: str(each["at"]), reverse=True)
    if steps:
        rows.append(_event(steps[0].at, steps[0].by, "", []))
    return rows


def _change(before: HistoryStep, after: HistoryStep) -> dict[str, Any]:
    return _event(after.at, after.by, before.why, diff_lines(before.text, after.text), restores=before.id)


def _event(at: str, by: str, why: str, diff: Sequence[str], *, restores: str = "") -> dict[str, Any]:
    cut = max(len(diff) - _LINES, 0)
    return {"at": at, "by": by, "why": why, "restores": restores, "diff": diff[:_LINES], "cut": cut}


VIEW = PageView("/records/{key}", "Record", data, "record.html", menu=False, parent="/memories")
