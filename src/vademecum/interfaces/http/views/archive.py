"""Archive: records that were archived or deleted, each with the version that restores it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.errors import Malformed
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.http.views.query import read_number
from vademecum.interfaces.http.views.today import writer_of
from vademecum.interfaces.present.safe import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vademecum.memory import Memory
    from vademecum.memory.values import Version

PAGE = 50  # records of a page
CUT = 4_000  # characters of a text that are shown
_WHY = {
    "forget": "archived",
    "expire": "expired",
    "conflict": "another version was kept",
    "replace": "replaced",
    "edit": "edited",
}


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return a page of archived records, the last archived first; `?q=WORDS` filters them."""
    memory, words = ask.memory, ask.query.get("q", "")[:200]
    found = sorted(memory.archive.forgotten(), key=lambda each: each.image.at, reverse=True)
    wanted, start = words.lower().split(), read_number(ask.query.get("after"))
    if wanted:
        rows = [archived(memory, each) for each in found]
        rows = [row for row in rows if all(word in _words_of(row) for word in wanted)]
        count, page = len(rows), rows[start : start + PAGE]
    else:
        count, page = len(found), [archived(memory, each) for each in found[start : start + PAGE]]
    _put_writers(memory, page)
    after = start + PAGE
    return {
        "records": page,
        "total": len(found),
        "matching": count,
        "words": words,
        "next_query": urlencode({"q": words, "after": after}) if after < count else "",
    }


def archived(memory: Memory, version: Version) -> dict[str, Any]:
    """Return an archived record: its text, when it was archived, why, and the version that restores it."""
    content = memory.home.read(*version.image.parts)
    record = None
    if content is not None:
        try:
            record = memory.workspace.records.parse(version.scope_folder, version.name, content)
        except Malformed:
            record = None
    text = clean_text(record.text if record else (content or b"").decode(errors="replace"))
    return {
        "key": version.key,
        "title": clean_text(record.title) if record else version.key,
        "id": record.id if record else None,
        "num": record.num if record else None,
        "type": str(record.type) if record else "",
        "scope": str(version.scope_folder.place.scope),
        "version": version.image.id,
        "at": version.image.time,
        "why": _WHY.get(version.why, version.why),
        "by": "",
        "text": text[:CUT],
        "cut": max(len(text) - CUT, 0),
    }


def find_archived(memory: Memory, name: str, scope: str | None) -> dict[str, Any] | None:
    """Return the archived record with this key, number or id; None if there is none."""
    for each in memory.archive.forgotten(scope=scope):
        row = archived(memory, each)
        if name in (row["key"], row["id"], str(row["num"]), f"#{row['num']}"):
            _put_writers(memory, [row])
            return row
    return None


def _words_of(row: Mapping[str, Any]) -> str:
    return f"{row['key']} {row['title']} {row['text']} {row['why']}".lower()


def _put_writers(memory: Memory, rows: Iterable[dict[str, Any]]) -> None:
    """Add to each row who archived the record, from the audit of that day."""
    rows = [*rows]
    for day in {row["at"][:10] for row in rows}:
        gone = {
            line["record"]: line
            for line in memory.audit.day(day)
            if line.get("record") and not line.get("after")
        }
        for row in rows:
            if row["at"][:10] == day and row["id"] in gone:
                row["by"] = writer_of(gone[row["id"]])


VIEW = PageView("/archive", "Archive", data, "archive.html", icon="archive", key="x")
