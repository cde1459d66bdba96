"""Search: matching passages, why each has its rank, and what was searched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.to_json import answer_json
from vademecum.interfaces.web import markdown
from vademecum.types import LEARNED, RecordType, Scope

if TYPE_CHECKING:
    from vademecum.memory import Memory

MOST = 20  # results, unless more are requested
_LONGEST = 2000  # characters of a query


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the results for `?q=`; the query may hold filters, as in `vade search`."""
    query = ask.query.get("q", "")[:_LONGEST]
    limit = ask.query.get("limit", "")
    most = min(int(limit), 100) if limit.isdecimal() and int(limit) else MOST
    page_data: dict[str, Any] = {
        "q": query,
        "filters": markdown.find_filters(query),
        "groups": [],
        "answer": None,
    }
    page_data["suggested"] = [] if page_data["filters"] else _suggested(ask.memory, query)
    if not query.strip():
        return page_data
    answer = ask.memory.search(query, explain=True, max_results=most, max_weak=-1)
    answer_fields = answer_json(answer, explain=True)
    page_data["answer"] = {**answer_fields, "results": []}
    page_data["groups"] = markdown.group_passages(answer_fields, query)
    page_data["more"] = (
        urlencode({"q": query, "limit": min(most * 2, 100)}) if len(answer) >= most < 100 else ""
    )
    return page_data


def _suggested(memory: Memory, query: str) -> list[dict[str, str]]:
    """Return filters that could be added to a query."""
    learned = next(iter(LEARNED))
    words = [f"scope:{Scope.GLOBAL}", f"type:{RecordType.USER}", f"type:{learned}"]
    if memory.caller.project is not None:
        words.insert(0, f"scope:{Scope.PROJECT}")
    return [{"text": each, "query": urlencode({"q": f"{query} {each}".strip()})} for each in words]


VIEW = PageView("/search", "Search", data, "search.html", icon="search", key="f")
