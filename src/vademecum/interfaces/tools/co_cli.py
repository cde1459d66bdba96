"""The tools of co-cli: save, recall and list memories of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from vademecum.interfaces.present.shape import COUNT, TEXT, JsonShape, at, many, optional
from vademecum.interfaces.present.to_json import postponed_json
from vademecum.interfaces.present.tool_json import search_answer, search_answer_json
from vademecum.interfaces.tools.core import LONGEST, PROJECT, Retry, Tags, stored
from vademecum.interfaces.tools.declaration import Read, Span, Spellings, TextSize, Tool, Write, tool
from vademecum.text.fit import json_size

if TYPE_CHECKING:
    from vademecum.memory.core import Listing
    from vademecum.types import Record

_ENVELOPE_CHARS = 300  # characters of an answer besides its records
_SHORT = 300  # characters of a record in a list


def _shorten(record: Record) -> str:
    return record.text if len(record.text) <= _SHORT else f"{record.text[:_SHORT]} …"


BRIEF = JsonShape(
    "memory_brief",
    "id:int?=num key content scope=place.scope type tags:list created? updated? category? protected:bool",
    content=at(_shorten),
)
LIST_ANSWER = JsonShape(
    "memories_listed",
    "count:int limit:int memories",
    count=at(lambda found: len(found.records), COUNT),
    memories=at("records", many(BRIEF)),
    message=optional(TEXT),
)


def listed(found: Listing, chars: int) -> dict[str, Any]:
    """Return a list of records within a number of characters; the answer says how many did not fit."""
    made = LIST_ANSWER(found, message="")
    left, kept = chars - _ENVELOPE_CHARS, 0
    for each in made["memories"]:
        left -= json_size(each) + 1
        if left < 0:
            break
        kept += 1
    if left < 0:
        more = len(made["memories"]) - kept
        made["memories"] = made["memories"][:kept]
        made["message"] = f"{more} more did not fit: recall_memory finds those about one topic"
    return made


def recall(query: str, most: int) -> Read:
    """Return the plan that searches records alone."""
    return Read(
        lambda memory: search_answer(memory.recall(query, limit=most), memory.settings.limits.answer_chars)
    )


@tool("Save a memory", stored, postponed_json, family="co-cli")
def save_memory(
    content: Annotated[str, "One or two sentences that are clear on their own.", TextSize(0, LONGEST)],
    tags: Tags = None,
    idempotency_key: Retry = None,
) -> Write:
    """Save a record of the project."""
    kept = {"text": content, "scope": PROJECT, "tags": tags or []}
    return Write("store", kept, PROJECT, stored, idempotency_key)


@tool("Recall memories", search_answer_json, read_only=True, family="co-cli")
def recall_memory(
    query: Annotated[str, "What you want to know.", TextSize(1)],
    max_results: Annotated[int, "How many at most.", Span(1, 100), Spellings(("limit", "maxResults"))] = 5,
) -> Read:
    """Return records that match."""
    return recall(query, max_results)


@tool("List memories", LIST_ANSWER, read_only=True, family="co-cli")
def list_memories() -> Read:
    """Return all visible records."""
    return Read(lambda memory: listed(memory.list(), memory.settings.limits.answer_chars))


CO_CLI: tuple[Tool, ...] = (save_memory, recall_memory, list_memories)
