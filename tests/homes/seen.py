"""What a version reads in a home, so that one version can be held against another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.memory import Memory
    from vademecum.types import Entry, Record

DOORS: dict[str, dict[str, Any]] = {
    "site": {},
    "api": {"folder": "api"},
    "crowded": {"agent": "crowded"},
    "cleared": {"session": "s-cleared"},
}
_FIELDS = ("key", "path", "type", "title", "id", "num", "created", "updated", "confidence", "protected")


def seen(door: Callable[..., Memory]) -> dict[str, Any]:
    """Everything there is to read, from each door, as plain values."""
    return {name: _seen(door(**given)) for name, given in DOORS.items()}


def _seen(memory: Memory) -> dict[str, Any]:
    status = memory.status()
    places = {each.place: None for each in memory.list().records} | {
        each.place: None for each in status.pinned
    }
    days = [*memory.workspace.journal.days(places)]
    return {
        "records": [_record(each) for each in memory.list().records],
        "notes": {
            day.path: [_entry(each) for each in day.entries] for day in days if not isinstance(day, Finding)
        },
        "pinned": {each.path: [_entry(section) for section in each.sections] for each in status.pinned},
        "sessions": [
            {
                "id": each.id,
                "name": each.name,
                "ended": each.ended,
                "messages": [message.text[:80] for message in memory.sessions.messages(each.id)],
            }
            for each in memory.sessions.list()
        ],
        "forgotten": sorted(each.name for each in memory.archive.forgotten()),
        "runs": [[each.run, each.what, each.edits, each.undone] for each in memory.care.runs()],
        "knowledge": {
            each.lesson.record.path: [str(each.trust.level), each.lesson.record.fields.get("applied")]
            for each in memory.knowledge.list()
        },
        "edges": sorted([each.source, each.target, str(each.relation)] for each in memory.graph.read().edges),
        "aliases": [*status.aliases],
        "sources": [[each.name, str(each.path), each.inject] for each in status.sources],
        "waiting": [each.request.operation for each in memory.review.approvals() if each.request],
        "trusted": status.trusted,
    }


def _record(record: Record) -> dict[str, Any]:
    entries = [_entry(each) for each in record.entries]
    return {
        **{name: getattr(record, name) for name in _FIELDS},
        "tags": [*record.tags],
        "entries": entries,
    }


def _entry(entry: Entry) -> list[str | None]:
    return [entry.time, entry.text, str(entry.origin) if entry.origin else None, entry.superseded]
