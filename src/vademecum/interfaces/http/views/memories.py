"""Memories: every visible record in a table, with facets that filter it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum import fields
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.http.views.query import read_number
from vademecum.interfaces.present.to_json import finding_json
from vademecum.interfaces.present.to_text import shorten
from vademecum.interfaces.web import labels
from vademecum.memory.browse import FACETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.memory.browse import TableRow

PAGE = 60  # rows of a page
_SHOWN = 12  # values shown of a facet; there may be thousands of tags and agents
_ORDER = {
    "scope": ("session", "project", "agent", "global", "federated"),
    "origin": ("user", "agent", "external", "tool", "import"),
    "trust": ("user", "verified", "confirmed", "unverified", "waiting"),
    "age": ("today", "week", "month", "year", "older", "undated"),
}
_FACETS = {
    "scope": "Applies to",
    "type": "Type",
    "tag": "Tag",
    "origin": "Said by",
    "trust": "Trust",
    "age": "Changed",
    "agent": "Program",
}
AGES = {
    "today": "last 24 hours",
    "week": "last 7 days",
    "month": "last month",
    "year": "last year",
    "older": "older",
    "undated": "undated",
}


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return a page of records: `?type=&tag=&scope=&origin=&trust=&age=&agent=&sort=&after=&limit=`."""
    query = ask.query
    chosen = {facet: query.getlist(facet) for facet in FACETS if query.getlist(facet)}
    sort = query.get("sort", fields.DEFAULT_ORDER)
    limit = read_number(query.get("limit"), PAGE)
    page = ask.memory.browse.table(chosen, sort=sort, after=query.get("after", ""), limit=limit)
    facets = [_facet(name, page.facets.get(name, {}), chosen, sort) for name in FACETS]
    return {
        "records": [_row(each) for each in page.rows],
        "matching": page.matching,
        "total": page.total,
        "sort": sort,
        "sorts": [{"name": each, "query": _query(chosen, each)} for each in fields.ORDERS],
        "facets": [each for each in facets if each["values"]],
        "chosen": _chosen(chosen, sort),
        "next": page.next,
        "next_query": _query(chosen, sort, after=page.next, limit=limit) if page.next else "",
        "findings": [finding_json(each) for each in page.findings],
        "project": _project(ask),
    }


def _project(ask: ViewRequest) -> str:
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
        "text": shorten(record.text, 240),
        "entries": len(record.entries),
        "live": len(record.live),
        "protected": record.protected,
        "created": record.created,
        "updated": record.updated or record.created,
        "path": record.path,
        "origin": row.origin,
        "trust": row.trust,
        "agent": row.agent,
        "labels": [f"{each.name} {value}" for each in fields.BADGES if (value := each.value_of(record))],
    }


def _facet(
    name: str, counted: Mapping[str, int], chosen: Mapping[str, Sequence[str]], sort: str
) -> dict[str, Any]:
    """Return a facet (filter) with its values: the chosen ones, then the most frequent ones."""
    mine = chosen.get(name, [])
    order = _ORDER.get(name)
    if order is not None:
        listed = [each for each in order if counted.get(each) or each in mine]
    else:
        listed = sorted({*counted, *mine}, key=lambda each: (each not in mine, -counted.get(each, 0), each))
    values = [
        {
            "value": each,
            "label": _label(name, each),
            "count": counted.get(each, 0),
            "on": each in mine,
            "query": _query({**chosen, name: _toggled(mine, each)}, sort),
        }
        for each in listed
    ]
    return {
        "name": name,
        "label": _FACETS[name],
        "values": values[:_SHOWN],
        "more": max(len(values) - _SHOWN, 0),
    }


def _label(facet: str, value: str) -> str:
    return AGES[value] if facet == "age" and value in AGES else labels.of(facet, value)


def _toggled(values: Sequence[str], value: str) -> list[str]:
    return [each for each in values if each != value] if value in values else [*values, value]


def _chosen(chosen: Mapping[str, Sequence[str]], sort: str) -> list[dict[str, str]]:
    """Return the chosen values, each with the page's address without that value."""
    return [
        {"facet": name, "facet_label": _FACETS[name], "value": each, "label": _label(name, each)}
        | {"query": _query({**chosen, name: _toggled(values, each)}, sort)}
        for name, values in chosen.items()
        for each in values
    ]


def _query(chosen: Mapping[str, Sequence[str]], sort: str, *, after: str = "", limit: int = PAGE) -> str:
    """Return the query string of an address for this choice."""
    pairs = [(name, each) for name in FACETS for each in chosen.get(name, ())]
    pairs += [("sort", sort)] if sort != fields.DEFAULT_ORDER else []
    pairs += [("after", after)] if after else []
    pairs += [("limit", str(limit))] if limit != PAGE else []
    return urlencode(pairs)


VIEW = PageView("/memories", "Memories", data, "memories.html", icon="memories", key="m")
