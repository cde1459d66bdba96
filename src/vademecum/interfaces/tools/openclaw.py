"""The tools of OpenClaw: search memory, and read lines of a file of it, with its arguments and shapes.

OpenClaw's agents write memory with the tools that edit files. Here they note and save with the tools of
`core`, because files of memory are written by the store alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from vademecum.config import RESULTS
from vademecum.errors import NotFound, OutsideMemory
from vademecum.interfaces.present.shape import NUMBER, TEXT, JsonShape, at, many, optional
from vademecum.interfaces.present.tool_json import TRANSCRIPT, search_answer
from vademecum.interfaces.tools import core
from vademecum.interfaces.tools.declaration import LineOrId, Read, Span, Spellings, TextSize, Tool, tool

if TYPE_CHECKING:
    from vademecum.memory import Memory

_result = JsonShape(
    "openclaw_result",
    "path startLine:int=start endLine:int=end score snippet source",
    score=at(lambda passage: round(passage.score, 2), NUMBER),
)
found = JsonShape(
    "openclaw_found",
    "results provider model",
    results=many(_result),
    degraded=optional(many(TEXT)),
)
text = JsonShape("openclaw_text", "text path", next=optional(TEXT))
_FIELDS = tuple(_result.fields)


@tool("Search memory", found, read_only=True, family="openclaw")
def memory_search(
    *,
    query: Annotated[str, "", TextSize(1)],
    maxResults: Annotated[
        int | None, f"Default: {RESULTS}.", Span(1, 100), Spellings(("limit", "max_results"))
    ] = None,
    minScore: Annotated[float | None, "", Span(0, 1), Spellings(("min_score",))] = None,
) -> Read:
    """Return passages of everything visible that match."""

    def do(memory: Memory) -> dict[str, Any]:
        answer = memory.search(query, max_results=maxResults, min_score=minScore)
        made = search_answer(answer, memory.settings.limits.answer_chars)
        # only the source of a message can be missing
        results = [{name: each.get(name, TRANSCRIPT) for name in _FIELDS} for each in made["results"]]
        own = {"results": results, "provider": answer.provider, "model": answer.model}
        return own | ({"degraded": [*answer.degraded]} if answer.degraded else {})

    return Read(do)


@tool("Read lines of memory", text, read_only=True, family="openclaw")
def memory_get(
    path: Annotated[str, ""],
    from_: Annotated[LineOrId | None, "The first line.", Spellings(("startLine", "place"))] = None,
    lines: Annotated[int | None, "Default: all.", Span(0)] = None,
) -> Read:
    """Return lines of a file; a missing file is an empty text."""

    def do(memory: Memory) -> dict[str, Any]:
        try:
            made = core.read_lines(memory, path, from_, lines)
        except (NotFound, OutsideMemory):
            return {"text": "", "path": path}
        return {name: made[name] for name in ("text", "path", "next") if name in made}

    return Read(do)


OPENCLAW: tuple[Tool, ...] = (memory_search, memory_get, core.memory_store, core.memory_note)
