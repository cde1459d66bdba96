"""Who did what when: facts' stamps as lines that a person reads, newest first, a bounded piece at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.interfaces.hub.documents import read_names
from vademecum.interfaces.hub.rejections import wrong
from vademecum.interfaces.hub.streams import Desk, list_purges
from vademecum.memory.sync import edits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vademecum.interfaces.hub.server import HubRequest

SCANNED = 2_000  # facts that one page looks at, whatever it looks for
LINES = 60
_EXCERPT = 280
AGENTS, PEOPLE = "agents", "people"

# What a fact was for a person who reads of it; the first of a group's that is listed here names the group.
_VERBS = ("purged", "verified", "withdrew", "removed", "moved", "added", "edited", "renamed", "marked",
          "protected", "changed")  # fmt: skip

_TOLD = ["put", "drop", "vouch"]  # the kinds whose values are looked at
_COLUMNS = (
    *("at", "stream", "seq", "doc", "kind", "target", "over <> '{}'"),
    "CASE WHEN kind = ANY(%(told)s) THEN value END",
    *("origin", "door", "author", "role", "purged_at IS NOT NULL"),
)


class ActivityRow(NamedTuple):
    """A fact's row, as far as activity is concerned."""

    at: datetime
    stream: str
    seq: int
    doc: str
    kind: str
    target: str
    replaces: bool
    value: bytes | None
    origin: str
    door: str
    author: str
    role: str
    purged: bool

    @property
    def verb(self) -> str:
        """What it did, in a word."""
        if self.kind == "put":
            return "edited" if self.replaces else "added"
        if self.kind == "drop":
            return "moved" if self.value not in (None, b"null") else "removed"
        if self.kind == "vouch":
            return "verified" if self.value == b"true" else "withdrew"
        plain = {"purge": "purged", "mark": "marked", "protected": "protected"}
        if self.kind == "name":
            return "renamed" if self.replaces else "changed"
        return plain.get(self.kind, "changed")


def read_activity(asked: HubRequest) -> dict[str, Any]:
    """One page of what was done in the workspace, by everybody or by some, in all places or in one."""
    asked.caller.need("reader", scope="read")
    who, stream = asked.query.get("who", ""), asked.query.get("stream", "")
    rows, scanned_to = _scan(asked, who, stream)
    lines, cut = _lines(rows)
    before = cut or scanned_to
    names = _names(asked, lines)
    for each in lines:
        each["path"] = names.get((each["stream"], each["doc"]), "")
    _count_machines(asked, lines)
    return {
        "lines": lines,
        "who": who,
        "stream": stream,
        "streams": list_places(asked),
        "members": _members(asked),
        "older": before,
    }


def list_places(asked: HubRequest) -> list[str]:
    """The places that the workspace has."""
    rows = asked.connection.execute(
        "SELECT stream FROM hub.stream WHERE ws = %s ORDER BY stream LIMIT 200", (asked.caller.ws,)
    ).fetchall()
    return [name for (name,) in rows]


def _members(asked: HubRequest) -> list[str]:
    rows = asked.connection.execute(
        "SELECT name FROM hub.member WHERE ws = %s AND removed_at IS NULL ORDER BY name LIMIT 200",
        (asked.caller.ws,),
    ).fetchall()
    return [name for (name,) in rows]


def _scan(asked: HubRequest, who: str, stream: str) -> tuple[list[ActivityRow], str]:
    """The newest facts before a point that are by who is asked for, and how far was looked."""
    at, place, seq = _read_point(asked.query.get("before", ""))
    # Of one place by its own order, of all by time: either is a range of an index, however much there is.
    after = (
        "stream = %(stream)s AND seq < %(seq)s"
        if stream
        else "(at, stream, seq) < (%(at)s, %(place)s, %(seq)s)"
    )
    order = "seq DESC" if stream else "at DESC, stream DESC, seq DESC"
    rows = asked.connection.execute(
        f"SELECT {', '.join(_COLUMNS)} FROM hub.fact"
        f" WHERE ws = %(ws)s AND {after} ORDER BY {order} LIMIT {SCANNED}",
        {"ws": asked.caller.ws, "at": at, "place": place, "seq": seq, "stream": stream, "told": _TOLD},
    ).fetchall()
    seen = [ActivityRow(*row) for row in rows]
    meant = [each for each in seen if _is_by(each, who)]
    return meant, _spell_point(seen[-1]) if len(seen) == SCANNED else ""


def _is_by(row: ActivityRow, who: str) -> bool:
    if who in (AGENTS, PEOPLE):
        return (row.role == "agent" or row.origin in ("agent", "tool", "import")) is (who == AGENTS)
    return not who or row.author == who


def _read_point(given: str) -> tuple[datetime, str, int]:
    """A point in the order of all facts; without one, after them all."""
    if not given:
        return datetime.max.replace(tzinfo=UTC), "", 2**62
    at, _, rest = given.partition(" ")
    seq, _, stream = rest.partition(" ")
    try:
        return datetime.fromisoformat(at), stream, int(seq)
    except ValueError as error:
        raise wrong("`before` is no point of the activity") from error


def _spell_point(row: ActivityRow) -> str:
    return f"{row.at.astimezone(UTC).isoformat()} {row.seq} {row.stream}"


def _lines(rows: Iterable[ActivityRow]) -> tuple[list[dict[str, Any]], str]:
    """What one person or agent did to one document at once, as one line; and where the page was cut."""
    made: list[dict[str, Any]] = []
    last: ActivityRow | None = None
    for _, group in groupby(rows, key=lambda row: (row.at, row.stream, row.author, row.role, row.doc)):
        facts = list(group)
        if len(made) == LINES:
            return made, _spell_point(last) if last else ""
        made.append(_line(facts))
        last = facts[-1]
    return made, ""


def _line(rows: list[ActivityRow]) -> dict[str, Any]:
    first = min(rows, key=lambda row: _VERBS.index(row.verb))
    texts = [row for row in rows if row.kind == "put" and row.value is not None]
    origins = {row.origin for row in rows if row.origin}
    return {
        "at": first.at.astimezone(UTC).isoformat(timespec="seconds"),
        "stream": first.stream,
        "doc": first.doc,
        "seq": first.seq,
        "did": first.verb,
        "entries": len({row.target for row in rows if row.kind in ("put", "drop")}),
        "author": first.author,
        "role": first.role,
        "agent": first.role == "agent" or bool(origins & {"agent", "tool", "import"}),
        "origin": min(origins, default=""),
        "door": first.door,
        "text": _excerpt(texts[-1]) if texts else "",
        "gone": any(row.purged for row in rows if row.kind == "put"),
    }


def _excerpt(row: ActivityRow) -> str:
    raw = json.loads(row.value or b"{}").get("raw", "")
    text = edits.blocks.text_of(raw) if isinstance(raw, str) else ""
    return text if len(text) <= _EXCERPT else text[:_EXCERPT].rstrip() + "…"


def _names(asked: HubRequest, lines: list[dict[str, Any]]) -> Mapping[tuple[str, str], str]:
    """The names of the documents that lines speak of."""
    found: dict[tuple[str, str], str] = {}
    for stream in {each["stream"] for each in lines}:
        docs = {each["doc"] for each in lines if each["stream"] == stream and each["doc"]}
        named = read_names(asked.connection, asked.caller.ws, stream, docs) if docs else {}
        found |= {(stream, doc): path for doc, path in named.items()}
    return found


def _count_machines(asked: HubRequest, lines: list[dict[str, Any]]) -> None:
    """Say of each purge how many machines have carried it out."""
    for stream in {each["stream"] for each in lines if each["did"] == "purged"}:
        told = {
            each["seq"]: each
            for each in list_purges(Desk(asked.connection, asked.caller, asked.keys, stream))
        }
        for each in lines:
            if each["stream"] == stream and each["seq"] in told:
                each["machines"] = told[each["seq"]]["machines"]
                each["acknowledged"] = told[each["seq"]]["acknowledged"]
