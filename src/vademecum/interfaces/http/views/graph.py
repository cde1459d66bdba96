"""Graph: how records are connected, as a picture and as a list."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import PageView, ViewRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.memory import Memory
    from vademecum.memory.values import Graph
    from vademecum.types import Record

MOST = 5_000  # nodes that are drawn, those with the most edges first
LISTED = 150  # nodes in the list
FILTERS = ("scope", "type")
RELATIONS = ("relates_to", "supersedes", "contradicts")
NOTE = "note"  # a file of an attached folder, which has no page
_SAID = {
    "link": "a link",
    "wiki": "a [[link]]",
    "frontmatter": "its frontmatter",
    "tags": "tags and words in common",
}


def read_graph(
    memory: Memory, chosen: Mapping[str, str] | None = None, *, words: str = "", focus: str = ""
) -> dict[str, Any]:
    """Return the matching records, the edges between them, and the edges of the record in focus.

    An edge is a list of three indexes: its two nodes, and its relation.
    """
    chosen = {name: value for name, value in (chosen or {}).items() if value and name in FILTERS}
    found = memory.graph.read()
    degree = Counter(path for edge in found.edges for path in {edge.source, edge.target})
    fitting = [each for each in found.records if _fits(each, chosen, words.lower().split())]
    fitting.sort(key=lambda each: (-degree[each.path], each.key, each.path))
    drawn = fitting[:MOST]
    at = {each.path: index for index, each in enumerate(drawn)}
    edges = [
        [at[each.source], at[each.target], RELATIONS.index(each.relation)]
        for each in found.edges
        if each.source in at and each.target in at
    ]
    nodes = [{**_node(each), "degree": degree[each.path]} for each in drawn]
    return {
        "nodes": nodes,
        "edges": edges,
        "relations": list(RELATIONS),
        "types": [name for name, _ in Counter(each["type"] for each in nodes).most_common()],
        "matching": len(fitting),
        "total": len(found.records),
        "joined": sum(bool(degree[each.path]) for each in fitting),
        "filters": [_filter(name, found.records, chosen, words) for name in FILTERS],
        "chosen": chosen,
        "words": words,
        "query": _query(chosen, words),
        "focus": _focus(found, focus) if focus else None,
        "broken": [
            {"path": each.source, "line": each.line, "wanted": each.wanted} for each in found.broken[:LISTED]
        ],
    }


def _node(record: Record) -> dict[str, Any]:
    return {
        "path": record.path,
        "key": record.key,
        "title": record.title or record.key,
        "scope": str(record.place.scope),
        "type": str(record.type),
        "tags": list(record.tags),
        "page": record.type != NOTE,
    }


def _fits(record: Record, chosen: Mapping[str, str], words: Sequence[str]) -> bool:
    searched_text = f"{record.key} {record.title} {' '.join(record.tags)}".lower()
    mine = {"scope": str(record.place.scope), "type": str(record.type)}
    return all(mine[name] == value for name, value in chosen.items()) and all(
        word in searched_text for word in words
    )


def _filter(name: str, records: Sequence[Record], chosen: Mapping[str, str], words: str) -> dict[str, Any]:
    others = {other: value for other, value in chosen.items() if other != name}
    wanted = words.lower().split()
    counts = Counter(
        str(each.place.scope if name == "scope" else each.type)
        for each in records
        if _fits(each, others, wanted)
    )
    values = [
        {
            "value": value,
            "count": count,
            "on": chosen.get(name) == value,
            "query": _query(others if chosen.get(name) == value else {**chosen, name: value}, words),
        }
        for value, count in counts.most_common()
    ]
    return {"name": name, "values": values}


def _focus(found: Graph, path: str) -> dict[str, Any] | None:
    """Return a record with its edges, the most certain first; None if the graph does not have it."""
    by_path = {each.path: each for each in found.records}
    if path not in by_path:
        return None
    joined: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for edge in sorted(found.edges, key=lambda each: -each.weight):
        if path in (edge.source, edge.target):
            other = edge.target if edge.source == path else edge.source
            why = _SAID.get(edge.origin, edge.origin)
            joined[other].append(
                {
                    "relation": str(edge.relation),
                    "out": edge.source == path,
                    "why": why,
                    "weight": edge.weight,
                }
            )
    return {
        **_node(by_path[path]),
        "joined": [{**_node(by_path[other]), "edges": edges} for other, edges in joined.items()],
    }


def _query(chosen: Mapping[str, str], words: str) -> str:
    return urlencode({**({"q": words} if words else {}), **chosen})


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the graph: `?q=WORDS&scope=&type=` filters it, `&focus=PATH` shows the edges of one node."""
    query = ask.query
    chosen = {name: query.get(name, "") for name in FILTERS}
    return read_graph(ask.memory, chosen, words=query.get("q", "")[:200], focus=query.get("focus", ""))


VIEW = PageView("/graph", "Graph", data, "graph.html", icon="graph", key="h")
