"""Sources: the folders of Markdown that are attached, and how each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.http.pages import Ask, PageView
from vademecum.interfaces.present.to_json import source_json

if TYPE_CHECKING:
    from vademecum.memory import Memory


def list_sources(memory: Memory) -> dict[str, Any]:
    """The attached folders with how many files they have, and what is wrong with them."""
    found = [{**source_json(each), "problem": each.problem, "at": each.at} for each in memory.sources.list()]
    return {
        "sources": found,
        "files": sum(each["files"] for each in found),
        "scopes": ["global", "project"] if memory.caller.project else ["global"],
    }


def data(ask: Ask) -> dict[str, Any]:
    """What is attached to this memory."""
    return list_sources(ask.memory)


VIEW = PageView("/sources", "Sources", data, "sources.html", icon="sources")
