"""Memories: every visible record as a table, with facets that narrow it down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import Ask, PageView
from vademecum.interfaces.present.to_json import finding_json
from vademecum.interfaces.present.to_text import short
from vademecum.memory.browse import FACETS, SORTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.memory.browse import TableRow

PAGE = 60  # rows at once
_SHOWN = 12  # values of a facet; of tags and agents there may be thousands
_ORDER = {
    "scope": ("session", "project", "agent", "global", "federated"),
    "origin": ("user", "agent", "external", "tool", "import"),
    "trust": ("user", "verified", "confirmed", "unverified", "waiting"),
    "age": ("today", "week", "month", "year", "older", "undated"),
}
AGES = {
    "today": "last 24 hours",
    "week": "last 7 days",
    "month": "last month",
    "year": "last year",
    "older": "older",
    "undated": "undated",
}


def data(ask: Ask) -> dict[str, Any]:
    """A page of records: `?type=&tag=&scope=&origin=&trust=&age=&agent=&sort=&after=&limit=`."""
    query = ask.query
    chosen = {facet: query.getlist(facet) for facet in FACETS if query.getlist(facet)}
    sort = query.get("sort", "updated")
    limit = int(query.get("limit", "")) if query.get("limit", "").isdecimal() else PAGE
    page = ask.memory.browse.table(chosen, sort=sort, after=query.get("after", ""), limit=limit)
    facets = [_facet(name, page.facets.get(name, {}), chosen, sort) for name in FACETS]
    return {
        "records": [_row(each) for each in page.rows],
        "matching": page.matching,
        "total": page.total,
        "sort": sort,
        "sorts": [{"name": each, "query": _query(chosen, each)} for each in SORTS],
        "facets": [each for each in facets if each["values"]],
        "chosen": _chosen(chosen, sort),
        "next": page.next,
        "next_query": _query(chosen, sort, after=page.next, limit=limit) if page.next else "",
        "findings": [finding_json(each) for each in page.findings],
        "project": _project(ask),
    }


def _project(ask: Ask) -> str:
    project = ask.memory.caller.project
    return project.root.name if project else ""


def _row(row: TableRow) -> dict[str, Any]:
    record = row.record
    return {
        "key": record.key,
        "num": record.num,
        "id": record.id,
        "scope": str(record.place.scope),
        "team": record.team,
        "type": record.type,
        "title": record.title,
        "tags": list(record.tags),
        "text": short(record.text, 240),
        "entries": len(record.entries),
        "live": len(record.live),
        "protected": record.protected,
        "created": record.created,
        "updated": record.updated or record.created,
        "path": record.path,
        "origin": row.origin,
        "trust": row.trust,
        "agent": row.agent,
    }


def _facet(
    name: str, counted: Mapping[str, int], chosen: Mapping[str, Sequence[str]], sort: str
) -> dict[str, Any]:
    """A facet with its values: those that are chosen, then the most frequent ones."""
    mine = chosen.get(name, [])
    order = _ORDER.get(name)
    if order is not None:
        listed = [each for each in order if counted.get(each) or each in mine]
    else:
        listed = sorted({*counted, *mine}, key=lambda each: (each not in mine, -counted.get(each, 0), each))
    values = [
        {
            "value": each,
            "label": AGES[each] if name == "age" else each,
            "count": counted.get(each, 0),
            "on": each in mine,
            "query": _query({**chosen, name: _toggled(mine, each)}, sort),
        }
        for each in listed
    ]
    return {"name": name, "values": values[:_SHOWN], "more": max(len(values) - _SHOWN, 0)}


def _toggled(values: Sequence[str], value: str) -> list[str]:
    return [each for each in values if each != value] if value in values else [*values, value]


def _chosen(chosen: Mapping[str, Sequence[str]], sort: str) -> list[dict[str, str]]:
    """What is chosen, each with the address without it."""
    return [
        {"facet": name, "value": each, "query": _query({**chosen, name: _toggled(values, each)}, sort)}
        for name, values in chosen.items()
        for each in values
    ]


def _query(chosen: Mapping[str, Sequence[str]], sort: str, *, after: str = "", limit: int = PAGE) -> str:
    """The words behind `?` that choose this."""
    pairs = [(name, each) for name in FACETS for each in chosen.get(name, ())]
    pairs += [("sort", sort)] if sort != SORTS[0] else []
    pairs += [("after", after)] if after else []
    pairs += [("limit", str(limit))] if limit != PAGE else []
    return urlencode(pairs)


VIEW = PageView("/memories", "Memories", data, "memories.html", icon="memories", key="m")
