"""Density: a record that very many others refer to is a hub, and says less the more it is pointed at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.knowledge.edges import Graph

NAME = "graph_density"
MOST = 5


def check(graph: Graph) -> Iterator[Finding]:
    """Records that more than a few others name; shared tags do not count."""
    sources: dict[str, set[str]] = {}
    for edge in graph.edges:
        if edge.origin != "tags" and not edge.rejected and edge.source != edge.target:
            sources.setdefault(edge.target, set()).add(edge.source)
    for record in graph.records:
        count = len(sources.get(record.path, ()))
        if count > MOST:
            why = f"{count} records refer to it, more than {MOST}: it may hold several topics"
            mend = f"vade edit {record.key} --scope {record.place.scope}"
            yield Finding(NAME, record.path, why, mend, place=record.place)
