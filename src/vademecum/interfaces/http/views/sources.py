"""Sources: the attached folders of Markdown, and the state of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.to_json import source_json

if TYPE_CHECKING:
    from vademecum.memory import Memory


def list_sources(memory: Memory) -> dict[str, Any]:
    """Return the attached folders with their number of files, and their problems."""
    found = [{**source_json(each), "problem": each.problem, "at": each.at} for each in memory.sources.list()]
    return {
        "sources": found,
        "files": sum(each["files"] for each in found),
        "scopes": ["global", "project"] if memory.caller.project else ["global"],
    }


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the folders attached to this memory."""
    return list_sources(ask.memory)


VIEW = PageView("/sources", "Sources", data, "sources.html", icon="sources")
