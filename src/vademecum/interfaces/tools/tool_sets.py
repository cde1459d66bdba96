"""Tools under the names that agents of other systems were prompted for; each is a call on the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vademecum.errors import UsageError
from vademecum.interfaces.present.shape import COUNT, TEXT, JsonShape, at, by_name, many, optional
from vademecum.interfaces.present.to_json import figures_json, found_json, postponed_json
from vademecum.interfaces.tools import core
from vademecum.interfaces.tools.declaration import Read, Span, Texts, Tool, Write, answer_schema, tool
from vademecum.store.names import slug
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.memory.values import RunOutcome
    from vademecum.types import Record

    Given = Mapping[str, Any]
    Plan = Callable[[Given], Read | Write]

PROJECT = str(Scope.PROJECT)
_SHORT = 300  # characters of a record in a list


def _shortened(record: Record) -> str:
    return record.text if len(record.text) <= _SHORT else f"{record.text[:_SHORT]} …"


BRIEF = JsonShape(
    "memory_brief",
    "id:int?=num key content scope=place.scope type tags:list created? updated? category? protected:bool",
    content=at(_shortened),
)
LISTED = JsonShape(
    "memories_listed",
    "count:int limit:int memories",
    count=at(lambda found: len(found.records), COUNT),
    memories=at("records", many(BRIEF)),
)


def _recalled(query: str, most: int) -> Read:
    return Read(lambda memory: found_json(memory.recall(query, limit=most)))


# ---------------------------------------------------------------- co-cli


@tool("Save a memory", core.stored, postponed_json)
def save_memory(
    content: Annotated[str, "One or two sentences that stand on their own."],
    tags: core.Tags = None,
    idempotency_key: core.Retry = None,
) -> Write:
    """Keep a record of the project."""
    kept = {"text": content, "scope": PROJECT, "tags": tags or []}
    return Write("store", kept, PROJECT, core.stored, idempotency_key)


@tool("Recall memories", found_json, read_only=True)
def recall_memory(
    query: Annotated[str, "What you want to know."],
    max_results: Annotated[int, "How many at most.", Span(1, 100)] = 5,
) -> Read:
    """Records that answer."""
    return _recalled(query, max_results)


@tool("List memories", LISTED, read_only=True)
def list_memories() -> Read:
    """All records in sight."""
    return Read(lambda memory: LISTED(memory.list()))


# ---------------------------------------------------------------- CLIO


def _needed(given: Given, *wanted: str) -> list[Any]:
    for name in wanted:
        if given[name] is None:
            raise UsageError(f"{given['operation']} needs `{name}`", hint=f"pass `{name}`")
    return [given[name] for name in wanted]


def _store(given: Given) -> Write:
    key, content = _needed(given, "key", "content")
    kept = {"text": content, "key": key, "scope": PROJECT, "mode": "replace", "slug": True}
    return Write("store", kept, PROJECT, core.stored, given["idempotency_key"])


def _retrieve(given: Given) -> Read:
    (key,) = _needed(given, "key")

    return Read(lambda memory: _NOTE(memory.show(slug(key), scope=PROJECT)))


def _search(given: Given) -> Read:
    (query,) = _needed(given, "query")
    return _recalled(query, given["max_results"] or 10)


def _list(given: Given) -> Read:
    return Read(lambda memory: _MEMORIES(memory.list(scope=PROJECT)))


def _delete(given: Given) -> Write:
    (key,) = _needed(given, "key")
    gone = {"name": slug(key), "scope": PROJECT}
    return Write("forget", gone, PROJECT, core.forgotten, given["idempotency_key"])


def _lesson(kind: str, *parts: str) -> Plan:
    def plan(given: Given) -> Write:
        fields = dict(zip(parts, _needed(given, *parts), strict=True))
        lesson = {
            "type": kind,
            "scope": PROJECT,
            "confidence": given["confidence"],
            "examples": given["examples"] or [],
            **fields,
        }
        return Write("learn", lesson, PROJECT, core.stored, given["idempotency_key"])

    return plan


def _prune(given: Given) -> Write:
    chosen = {
        "max_age_days": given["max_age_days"],
        "min_confidence": given["min_confidence"],
        "scope": PROJECT,
        "apply": True,
    }
    return Write("prune_knowledge", chosen, PROJECT, _pruned, given["idempotency_key"])


def _pruned(outcome: RunOutcome) -> dict[str, Any]:
    done = sum(each.done for each in outcome.told)
    if outcome.waiting:
        own = f"{done} of your own went to the archive; " if done else ""
        return _PRUNED(
            outcome="waiting",
            count=done,
            waiting=outcome.waiting,
            approval=outcome.approval,
            message=f"{own}{outcome.waiting} are a person's, who decides with `vade approve`",
        )
    if outcome.proposals and not outcome.run:
        return _PRUNED(
            outcome="told", count=len(outcome.proposals), message=outcome.large or "nothing was done"
        )
    back = (
        f"`vade undo {outcome.run}` brings it back" if outcome.run else "nothing was too old or too doubtful"
    )
    return _PRUNED(outcome="pruned", count=done, message=back)


def _stats(given: Given) -> Read:
    return Read(lambda memory: _STATS(memory.knowledge.stats()))


def _sessions(given: Given) -> Read | Write:
    (query,) = _needed(given, "query")
    most = {"max_sessions": given["max_sessions"] or 10, "max_results": given["max_results"] or 5}
    return core.session_search.plan(query, **most)


class Operation(NamedTuple):
    """One operation of a tool that has several: what it does, and what it answers."""

    plan: Plan
    shapes: tuple[JsonShape, ...]

    @property
    def answer(self) -> dict[str, Any]:
        """What is answered, as JSON Schema."""
        return answer_schema(*self.shapes)


_KEPT = (core.stored, postponed_json)
_NOTE = JsonShape("memory_note", "key content=text updated?")
_MEMORIES = JsonShape("memories", memories=at("records", many(BRIEF)))
_PRUNED = JsonShape(
    "lessons_pruned",
    "outcome count:int waiting approval message",
    waiting=optional(COUNT),
    approval=optional(TEXT),
)
_STATS = JsonShape("lesson_figures", total=figures_json, by_type=by_name(figures_json))
OPERATIONS: Mapping[str, Operation] = {
    "store": Operation(_store, _KEPT),
    "retrieve": Operation(_retrieve, (_NOTE,)),
    "search": Operation(_search, (found_json,)),
    "list": Operation(_list, (_MEMORIES,)),
    "delete": Operation(_delete, (core.forgotten, postponed_json)),
    "add_discovery": Operation(_lesson("discovery", "fact"), _KEPT),
    "add_solution": Operation(_lesson("solution", "error", "solution"), _KEPT),
    "add_pattern": Operation(_lesson("pattern", "pattern"), _KEPT),
    "prune_ltm": Operation(_prune, (_PRUNED, postponed_json)),
    "ltm_stats": Operation(_stats, (_STATS,)),
    "recall_sessions": Operation(_sessions, (core.RECALLED,)),
}


# What it answers depends on the operation; all of it would be more than a model needs to read.
@tool("Work with memory", destructive=True)
def memory_operations(
    *,
    operation: Annotated[str, "What to do.", tuple(OPERATIONS)],
    key: Annotated[str | None, "store, retrieve, delete: the name of the note."] = None,
    content: Annotated[str | None, "store: what it says."] = None,
    query: Annotated[str | None, "search, recall_sessions: what to look for."] = None,
    fact: Annotated[str | None, "add_discovery: the fact."] = None,
    error: Annotated[str | None, "add_solution: the error or problem."] = None,
    solution: Annotated[str | None, "add_solution: what solved it."] = None,
    pattern: Annotated[str | None, "add_pattern: the convention."] = None,
    confidence: Annotated[float | None, "add_…: how sure you are.", Span(0, 1)] = None,
    examples: Annotated[Texts | None, "add_…: paths of files that show it."] = None,
    max_age_days: Annotated[int | None, "prune_ltm: unconfirmed for longer.", Span(0, 36_500)] = None,
    min_confidence: Annotated[float | None, "prune_ltm: believed less.", Span(0, 1)] = None,
    max_sessions: Annotated[int | None, "recall_sessions: in how many at most.", Span(1, 50)] = None,
    max_results: Annotated[int | None, "search, recall_sessions: how many at most.", Span(1, 20)] = None,
    idempotency_key: core.Retry = None,
) -> Read | Write:
    """One of the operations, with the arguments it needs."""
    return OPERATIONS[operation].plan(locals())  # each takes what it needs


CO_CLI: tuple[Tool, ...] = (save_memory, recall_memory, list_memories)
CLIO: tuple[Tool, ...] = (memory_operations,)
TOOL_SETS: Mapping[str, tuple[Tool, ...]] = {
    "core": core.CORE,
    "co-cli": CO_CLI,
    "clio": CLIO,
    "all": (*core.CORE, *CO_CLI, *CLIO),
}
