"""The page of activity: which member or agent did something and when, newest first, a page at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.sync import edits
from vademecum_hub.rejections import malformed
from vademecum_hub.stream_documents import read_names
from vademecum_hub.streams import RequestContext, list_purges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vademecum_hub.protocol import HubRequest

SCANNED = 2_000  # facts that one page reads, whatever its filter
LINES = 60
_EXCERPT = 280
AGENTS, PEOPLE = "agents", "people"

# The verbs of facts; the first one in this order names a group of facts.
_VERBS = ("purged", "verified", "withdrew", "removed", "moved", "added", "edited", "renamed", "marked",
          "protected", "changed")  # fmt: skip

_KINDS_WITH_VALUE = ["put", "drop", "vouch"]  # the kinds of facts whose values are read
_COLUMNS = (
    *("at", "stream", "seq", "doc", "kind", "target", "over <> '{}'"),
    "CASE WHEN kind = ANY(%(told)s) THEN value END",
    *("origin", "door", "author", "role", "purged_at IS NOT NULL"),
)


class ActivityRow(NamedTuple):
    """The columns of a fact's row that the page of activity needs."""

    at: datetime
    stream: str
    seq: int
    doc: str
    kind: str
    target: str
    replaces: bool
    value: bytes | None
    origin: str
    interface: str
    author: str
    role: str
    purged: bool

    @property
    def verb(self) -> str:
        """The verb by which the page names the fact's effect."""
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


def read_activity(request: HubRequest) -> dict[str, Any]:
    """Return one page of the workspace's activity, filtered by author and place."""
    request.caller.require("reader", scope="read")
    who, stream = request.query.get("who", ""), request.query.get("stream", "")
    rows, scanned_to = _scan(request, who, stream)
    lines, cut = _group_rows(rows)
    before = cut or scanned_to
    names = _read_names(request, lines)
    for each in lines:
        each["path"] = names.get((each["stream"], each["doc"]), "")
    _count_machines(request, lines)
    return {
        "lines": lines,
        "who": who,
        "stream": stream,
        "streams": list_places(request),
        "members": _list_member_names(request),
        "older": before,
    }


def list_places(request: HubRequest) -> list[str]:
    """Return the streams of the workspace by name, 200 at most."""
    rows = request.connection.execute(
        "SELECT stream FROM hub.stream WHERE ws = %s ORDER BY stream LIMIT 200", (request.caller.ws,)
    ).fetchall()
    return [name for (name,) in rows]


def _list_member_names(request: HubRequest) -> list[str]:
    rows = request.connection.execute(
        "SELECT name FROM hub.member WHERE ws = %s AND removed_at IS NULL ORDER BY name LIMIT 200",
        (request.caller.ws,),
    ).fetchall()
    return [name for (name,) in rows]


def _scan(request: HubRequest, who: str, stream: str) -> tuple[list[ActivityRow], str]:
    """Read a limited number of facts before the request's cursor, newest first.

    Return those by the wanted authors (`who`), and the cursor after the last fact that was read; the cursor
    is an empty text if there are no further facts.
    """
    at, place, seq = _read_point(request.query.get("before", ""))
    # One place is ordered by `seq`, all places by time; each is a range of an index.
    after = (
        "stream = %(stream)s AND seq < %(seq)s"
        if stream
        else "(at, stream, seq) < (%(at)s, %(place)s, %(seq)s)"
    )
    order = "seq DESC" if stream else "at DESC, stream DESC, seq DESC"
    rows = request.connection.execute(
        f"SELECT {', '.join(_COLUMNS)} FROM hub.fact"
        f" WHERE ws = %(ws)s AND {after} ORDER BY {order} LIMIT {SCANNED}",
        {
            "ws": request.caller.ws,
            "at": at,
            "place": place,
            "seq": seq,
            "stream": stream,
            "told": _KINDS_WITH_VALUE,
        },
    ).fetchall()
    seen = [ActivityRow(*row) for row in rows]
    meant = [each for each in seen if _is_by(each, who)]
    return meant, _spell_point(seen[-1]) if len(seen) == SCANNED else ""


def _is_by(row: ActivityRow, who: str) -> bool:
    if who in (AGENTS, PEOPLE):
        return (row.role == "agent" or row.origin in ("agent", "tool", "import")) is (who == AGENTS)
    return not who or row.author == who


def _read_point(given: str) -> tuple[datetime, str, int]:
    """Return the point in time and stream that a cursor names; an empty cursor is after all facts."""
    if not given:
        return datetime.max.replace(tzinfo=UTC), "", 2**62
    at, _, rest = given.partition(" ")
    seq, _, stream = rest.partition(" ")
    try:
        return datetime.fromisoformat(at), stream, int(seq)
    except ValueError as error:
        raise malformed("`before` is no point of the activity") from error


def _spell_point(row: ActivityRow) -> str:
    return f"{row.at.astimezone(UTC).isoformat()} {row.seq} {row.stream}"


def _group_rows(rows: Iterable[ActivityRow]) -> tuple[list[dict[str, Any]], str]:
    """Return a line for each group of facts with the same time, author and document.

    Also return the cursor after the last line if the page is full, else an empty text.
    """
    lines: list[dict[str, Any]] = []
    last: ActivityRow | None = None
    for _, group in groupby(rows, key=lambda row: (row.at, row.stream, row.author, row.role, row.doc)):
        facts = list(group)
        if len(lines) == LINES:
            return lines, _spell_point(last) if last else ""
        lines.append(_make_line(facts))
        last = facts[-1]
    return lines, ""


def _make_line(rows: list[ActivityRow]) -> dict[str, Any]:
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
        "door": first.interface,
        "text": _excerpt(texts[-1]) if texts else "",
        "gone": any(row.purged for row in rows if row.kind == "put"),
    }


def _excerpt(row: ActivityRow) -> str:
    raw = json.loads(row.value or b"{}").get("raw", "")
    text = edits.blocks.text_of(raw) if isinstance(raw, str) else ""
    return text if len(text) <= _EXCERPT else text[:_EXCERPT].rstrip() + "…"


def _read_names(request: HubRequest, lines: list[dict[str, Any]]) -> Mapping[tuple[str, str], str]:
    """Return the paths of the documents in these lines, by stream and document."""
    found: dict[tuple[str, str], str] = {}
    for stream in {each["stream"] for each in lines}:
        docs = {each["doc"] for each in lines if each["stream"] == stream and each["doc"]}
        named = read_names(request.connection, request.caller.ws, stream, docs) if docs else {}
        found |= {(stream, doc): path for doc, path in named.items()}
    return found


def _count_machines(request: HubRequest, lines: list[dict[str, Any]]) -> None:
    """Add to each line about a purge how many machines have carried it out, and how many there are."""
    for stream in {each["stream"] for each in lines if each["did"] == "purged"}:
        purge_by_seq = {
            each["seq"]: each
            for each in list_purges(RequestContext(request.connection, request.caller, request.keys, stream))
        }
        for each in lines:
            if each["stream"] == stream and each["seq"] in purge_by_seq:
                each["machines"] = purge_by_seq[each["seq"]]["machines"]
                each["acknowledged"] = purge_by_seq[each["seq"]]["acknowledged"]
