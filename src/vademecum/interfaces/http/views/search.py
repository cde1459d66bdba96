"""Search: what answers a question, why it ranks where it does, and what was searched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import Ask, PageView
from vademecum.interfaces.present.to_json import answer_json
from vademecum.interfaces.web import markdown
from vademecum.types import LEARNED, RecordType, Scope

if TYPE_CHECKING:
    from vademecum.memory import Memory

MOST = 20  # results, unless more are asked for
_LONGEST = 2000  # characters of a question


def data(ask: Ask) -> dict[str, Any]:
    """What answers `?q=`; filters stand in the question, as in `vade search`."""
    asked = ask.query.get("q", "")[:_LONGEST]
    limit = ask.query.get("limit", "")
    most = min(int(limit), 100) if limit.isdecimal() and int(limit) else MOST
    shown: dict[str, Any] = {
        "q": asked,
        "filters": markdown.find_filters(asked),
        "groups": [],
        "answer": None,
    }
    shown["suggested"] = [] if shown["filters"] else _suggested(ask.memory, asked)
    if not asked.strip():
        return shown
    answer = ask.memory.search(asked, explain=True, max_results=most, max_weak=-1)
    told = answer_json(answer, explain=True)
    shown["answer"] = {**told, "results": []}
    shown["groups"] = markdown.group_passages(told, asked)
    shown["more"] = urlencode({"q": asked, "limit": min(most * 2, 100)}) if len(answer) >= most < 100 else ""
    return shown


def _suggested(memory: Memory, asked: str) -> list[dict[str, str]]:
    """Filters that one could add to a question."""
    learned = next(iter(LEARNED))
    words = [f"scope:{Scope.GLOBAL}", f"type:{RecordType.USER}", f"type:{learned}"]
    if memory.caller.project is not None:
        words.insert(0, f"scope:{Scope.PROJECT}")
    return [{"text": each, "query": urlencode({"q": f"{asked} {each}".strip()})} for each in words]


VIEW = PageView("/search", "Search", data, "search.html", icon="search", key="f")
