"""The tools of CAO: store, recall and forget a memory, with its arguments and the shapes of its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from vademecum.interfaces.present.shape import FLAG, TEXT, JsonShape, at, many, maybe, optional, prepared
from vademecum.interfaces.present.to_json import postponed_json
from vademecum.interfaces.tools.core import LONGEST, ORDERS, PROJECT, Retry, check_query, parse_key
from vademecum.interfaces.tools.declaration import Read, Span, Spellings, Texts, TextSize, Tool, Write, tool
from vademecum.text.fit import cut_to, json_size
from vademecum.types import RecordType, Scope

if TYPE_CHECKING:
    from vademecum.memory import Memory
    from vademecum.search import Answer
    from vademecum.search.base import Passage

SCOPES = tuple(map(str, Scope))
TYPES = tuple(str(each) for each in RecordType if each in ("user", "feedback", "project", "reference"))
MODES = ("hybrid", "bm25", "metadata")
_ENVELOPE_CHARS = 300  # characters of an answer besides its memories

ScopeArgument = Annotated[str, "", SCOPES]

_SUCCESS = at(lambda _: True, FLAG)
_ACTIONS = {"created": "created"}
stored = JsonShape(
    "cao_stored",
    "success key scope=place.scope scope_id file_path=path action",
    success=_SUCCESS,
    scope_id=at("place.id", maybe(TEXT)),
    action=at(lambda result: _ACTIONS.get(str(result.outcome), "updated")),
    secrets=optional(many(TEXT)),
    approval=optional(TEXT),
)
forgotten = JsonShape(
    "cao_forgotten", "success deleted key scope=place.scope", success=_SUCCESS, deleted=_SUCCESS
)
_memory = JsonShape(
    "cao_memory",
    "key content=snippet memory_type?=type scope=place.scope tags file_path=path updated_at?=time",
    tags=at(lambda passage: ",".join(passage.tags)),
    related=optional(many(TEXT)),
)
recalled = JsonShape(
    "cao_recalled",
    "success memories degraded!",
    success=_SUCCESS,
    memories=many(prepared(_memory)),
    degraded=optional(many(TEXT)),
    message=optional(TEXT),
)


def _text_of(memory: Memory, passage: Passage) -> str:
    """Return the entry of a record that was found, whole."""
    record = memory.show(passage.key or passage.path, scope=passage.place.scope)
    entries = [each.text for each in record.entries if each.start <= passage.start <= each.end]
    return entries[0].strip() if entries else passage.snippet


def _recalled(memory: Memory, found: Answer) -> dict[str, Any]:
    """Return the records of an answer with their whole text, within the number of characters of an answer."""
    left, made, more = memory.settings.limits.answer_chars - _ENVELOPE_CHARS, [], 0
    for each in found.results:
        text = _text_of(memory, each)
        room = left - json_size(_memory(each, content="", related=[]))
        if room < 200:
            more += 1
            continue
        one = _memory(each, content=cut_to(text, room), related=[*(each.related or {}).values()])
        left -= json_size(one) + 1
        made.append(one)
    if not made:
        message = "Nothing found."
    else:
        message = f"{more} more did not fit: ask with a smaller limit" if more else ""
    return recalled(memories=made, degraded=found.degraded, message=message, success=True)


@tool("Store a memory", stored, postponed_json, family="cao")
def memory_store(
    *,
    content: Annotated[str, "Markdown.", TextSize(0, LONGEST)],
    scope: ScopeArgument = PROJECT,
    memory_type: Annotated[
        str | None, "Default: project; a known key keeps its own.", TYPES, Spellings(("type",))
    ] = None,
    key: Annotated[str | None, "Made from the content when omitted."] = None,
    tags: Annotated[Texts | None, ""] = None,
    idempotency_key: Retry = None,
) -> Write:
    """Save a record; a known key gets a new entry."""
    name, place = (None, scope) if key is None else parse_key(key, scope)
    kept = {"text": content, "key": name, "scope": place, "type": memory_type, "tags": tags or []}
    return Write("store", {**kept, "mode": "append", "slug": True}, place, stored, idempotency_key)


@tool("Recall memories", recalled, read_only=True, family="cao")
def memory_recall(
    *,
    query: Annotated[str | None, "Omitted: the newest."] = None,
    scope: Annotated[str | None, "", SCOPES] = None,
    memory_type: Annotated[str | None, "", TYPES, Spellings(("type",))] = None,
    limit: Annotated[int, "", Span(1, 100), Spellings(("max_results", "maxResults"))] = 10,
    search_mode: Annotated[str, "", MODES, Spellings(("mode",))] = "hybrid",
    sort_by: Annotated[str, "", ORDERS, Spellings(("sort",))] = "recency",
    include_related: Annotated[bool, "Also cross-referenced memories."] = False,
) -> Read:
    """Return records that match a query, or the newest."""
    check_query(query)

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.recall(
            query or "",
            scope=scope,
            type=memory_type,
            limit=limit,
            mode=search_mode,
            sort_by=sort_by,
            include_related=include_related,
        )
        return _recalled(memory, found)

    return Read(do)


@tool("Forget a memory", forgotten, postponed_json, destructive=True, idempotent=True, family="cao")
def memory_forget(
    key: Annotated[str, ""],
    scope: ScopeArgument = PROJECT,
    idempotency_key: Retry = None,
) -> Write:
    """Move a record to the archive."""
    name, place = parse_key(key, scope)
    return Write("forget", {"name": name, "scope": place}, place, forgotten, idempotency_key)


CAO: tuple[Tool, ...] = (memory_store, memory_recall, memory_forget)
