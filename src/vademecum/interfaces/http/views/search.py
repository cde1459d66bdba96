"""Search: matching passages of this project or of all, why each has its rank, and what was searched."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.http.views.query import read_number
from vademecum.interfaces.present.to_json import answer_json
from vademecum.interfaces.web import labels, markdown
from vademecum.memory.elsewhere import search_elsewhere
from vademecum.text import filenames

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.memory import Memory

MOST = 20  # results, unless more are requested
WEAK = 5  # results when every match is weak: more of them would hide that there is no answer
_LONGEST = 2000  # characters of a query
_EACH = 5  # results of each other project
ONLY = {"records": ("memory",), "conversations": ("transcript",), "notes": ("journal",)}
_AGES = {"last week": 7, "last month": 31}
_ORDER = {"strong": 0, "likely": 1, "weak": 2}


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the results for `?q=`; the query may hold filters, as in `vade search`.

    `?only=` limits them to records, conversations or notes; `?all=yes` adds those of every other project.
    """
    query = ask.query.get("q", "")[:_LONGEST]
    only = ask.query.get("only", "") if ask.query.get("only", "") in ONLY else ""
    everywhere = ask.query.get("all") == "yes"
    most = min(read_number(ask.query.get("limit"), MOST) or MOST, 100)
    kept = {"only": only, "all": "yes" if everywhere else ""}
    page_data: dict[str, Any] = {
        "q": query,
        "only": only,
        "all": everywhere,
        "filters": [
            {**each, "without": f"{each['without']}&{rest}" if (rest := _query(**kept)) else each["without"]}
            for each in markdown.find_filters(query)
        ],
        "groups": [],
        "answer": None,
        "suggested": [],
        "toggles": _toggles(query, only, everywhere=everywhere),
    }
    if not query.strip():
        return page_data
    answer = ask.memory.search(
        query, explain=True, max_results=most, max_weak=min(WEAK, most), sources=ONLY.get(only, ())
    )
    fields = answer_json(answer, explain=True)
    results = [*fields["results"], *(_elsewhere(ask.memory, query) if everywhere else ())]
    if everywhere:
        results.sort(key=lambda each: (_ORDER.get(each["match"], 3), -each["relevance"], -each["score"]))
    page_data["suggested"] = _suggested(ask.memory, query, results, kept)
    page_data["answer"] = {**fields, "results": []}
    page_data["groups"] = [
        _in_groups(each) for each in markdown.group_passages({**fields, "results": results}, query)
    ]
    page_data["more"] = (
        _query(q=query, limit=str(min(most * 2, 100)), **kept) if len(answer) >= most < 100 else ""
    )
    return page_data


def _elsewhere(memory: Memory, query: str) -> Iterable[dict[str, Any]]:
    """Yield the results of other projects, each with its project."""
    for project, answer in search_elsewhere(memory, query, max_results=_EACH, explain=True):
        for each in answer_json(answer, explain=True)["results"]:
            yield {**each, "project": {"id": project.id, "name": project.name}, "group": None}


def _in_groups(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group of results in which the passages of one conversation are one result."""
    rows: list[dict[str, Any]] = []
    first: dict[int, dict[str, Any]] = {}
    for each in group["results"]:
        path = PurePosixPath(each["path"])
        row = {"title": "", "project": None, **each, "also": [], "session": "", "day": ""}
        if each["source"] == "transcript":
            row["session"] = path.stem
        elif filenames.is_day(path.name):
            row["day"] = path.stem
        number = each.get("group")
        if number and number in first:
            first[number]["also"].append(row)
            continue
        if number:
            first[number] = row
        rows.append(row)
    return {**group, "results": rows}


# ---------------------------------------------------------------- filters


def _query(**given: str) -> str:
    return urlencode({name: value for name, value in given.items() if value})


def _toggles(query: str, only: str, *, everywhere: bool) -> list[dict[str, Any]]:
    """Return the filters outside of the query's text: the kind of text, and all projects."""
    rest = "yes" if everywhere else ""
    found = [
        {
            "text": f"only {name}",
            "on": name == only,
            "query": _query(q=query, only="" if name == only else name, all=rest),
        }
        for name in ONLY
    ]
    return [
        {
            "text": "all projects",
            "on": everywhere,
            "query": _query(q=query, only=only, all="" if everywhere else "yes"),
        },
        *found,
    ]


def _suggested(
    memory: Memory, query: str, results: Sequence[Mapping[str, Any]], kept: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return filters that could be added to a query: types and tags of its results, and ages."""
    now, words = memory.workspace.now(), []
    types = Counter(each["type"] for each in results if each["type"] and f"type:{each['type']}" not in query)
    if len(types) > 1 and "type:" not in query:
        words += [(labels.of("type", name), f"type:{name}") for name, _ in types.most_common(3)]
    if "after:" not in query:
        words += [(name, f"after:{now - timedelta(days=days):%Y-%m-%d}") for name, days in _AGES.items()]
    if "tag:" not in query:
        words += [(f"#{tag}", f"tag:{tag}") for tag in _tags(memory, results)]
    return [{"text": text, "query": _query(q=f"{query} {word}".strip(), **kept)} for text, word in words]


def _tags(memory: Memory, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the most frequent tags of the records among the first results."""
    from vademecum.errors import VadeError

    counts: Counter[str] = Counter()
    for each in [each for each in results if each["key"] and not each.get("project")][:10]:
        try:
            counts.update(memory.show(each["key"], scope=each["scope"]).tags)
        except VadeError:  # gone since it was indexed
            continue
    return [tag for tag, count in counts.most_common(3) if count < len(results) and " " not in tag]


VIEW = PageView("/search", "Search", data, "search.html", icon="search", key="f")
