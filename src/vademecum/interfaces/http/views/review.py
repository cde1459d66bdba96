"""Review: the one inbox of everything pending, with its exact text."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.safe import clean_text
from vademecum.interfaces.present.to_json import inbox_json
from vademecum.memory.review import HEARD_KINDS, KINDS
from vademecum.types import Record

_SHOWN = 100  # items of a page; the counts cover all items
_NAMES = {
    "write": ("Writes agents asked for", "Write it", "Refuse it"),
    "folder": ("Folders that are not trusted", "Trust it", "Not now"),
    "text": ("Unverified texts", "Verify: agents are told it", "Keep it from agents"),
    "contradiction": ("Contradictions", "The second replaces the first", "Both may stand"),
    "version": ("Two versions", "Keep the second", "Keep the first"),
    "notice": ("Back or joined after a sync", "Keep it", "Archive it"),
    "held": ("Left open by a purge", "Save as a new memory", "Discard it"),
    "conflict": ("Conflict copies", "Merge it", "Leave both"),
    "promotion": ("Repeated in journals", "Save as a memory", "Leave it"),
    "signal": ("Worth saving", "Save as a memory", "Leave it"),
    "lesson": ("Taught by failures", "Save as a lesson", "Leave it"),
}


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the pending items: `?kind=` only one kind, `?declined=1` the declined ones."""
    kind, declined = ask.query.get("kind", ""), bool(ask.query.get("declined"))
    inbox = ask.memory.review.inbox([kind] if kind in KINDS else [], declined=declined)
    inbox_fields = inbox_json(inbox)
    records = {each.id: getattr(each.about, "record", None) for each in inbox.items[:_SHOWN]}
    items = [
        {**each, **_words(each["kind"]), **_record(records[each["id"]])}
        for each in inbox_fields["items"][:_SHOWN]
    ]
    heard = Counter(each["path"] for each in items if each["kind"] in HEARD_KINDS)
    for each in items:
        each["together"] = heard[each["path"]] if each["kind"] in HEARD_KINDS else 0
    return {
        "items": items,
        "kinds": [
            {
                "name": name,
                "title": _NAMES[name][0],
                "count": count,
                "on": name == kind,
                "query": _query(name, declined=declined),
            }
            for name, count in inbox_fields["counts"].items()
        ],
        "kind": kind,
        "declined": declined,
        "waiting": len(inbox_fields["items"]),
        "left": max(len(inbox_fields["items"]) - _SHOWN, 0),
        "notes": [*inbox_fields["notes"], *(f"Not sent: {each}" for each in inbox_fields["refused"])],
        "all": _query("", declined=declined),
        "other": _query(kind, declined=not declined),
    }


def _record(record: object) -> dict[str, str]:
    """Return the key of an item's record, and the title by which it is known in every view."""
    if not isinstance(record, Record):
        return {"key": str(getattr(record, "key", "")), "record_title": ""}
    return {"key": record.key, "record_title": clean_text(record.title)}


def _words(kind: str) -> dict[str, str]:
    title, yes, no = _NAMES[kind]
    return {"title": title, "yes": yes, "no": no, "meaning": KINDS[kind]}


def _query(kind: str, *, declined: bool) -> str:
    return urlencode([*([("kind", kind)] if kind else []), *([("declined", "1")] if declined else [])])


VIEW = PageView("/review", "Review", data, "review.html", icon="review", key="r")
