"""The tool of CLIO: notes by key, long-term knowledge and earlier sessions, each by an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vademecum.context.summary import render_checkpoint
from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.present.shape import COUNT, TEXT, JsonShape, at, by_name, many, optional
from vademecum.interfaces.present.to_json import figures_json, postponed_json
from vademecum.interfaces.present.tool_json import search_answer_json
from vademecum.interfaces.tools.co_cli import BRIEF, recall
from vademecum.interfaces.tools.core import LONGEST, PROJECT, Retry, count_use, counted, forgotten, stored
from vademecum.interfaces.tools.declaration import (
    Read,
    Span,
    Texts,
    TextSize,
    Tool,
    Write,
    answer_schema,
    tool,
)
from vademecum.interfaces.tools.more import RECALLED, session_search
from vademecum.text.names import slug
from vademecum.transcripts.events import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.memory import Memory
    from vademecum.memory.values import RunOutcome

    Given = Mapping[str, Any]
    Plan = Callable[[Given], Read | Write]


def _require(given: Given, *wanted: str) -> list[Any]:
    for name in wanted:
        if given[name] is None:
            raise UsageError(f"{given['operation']} needs `{name}`", hint=f"pass `{name}`")
    return [given[name] for name in wanted]


def _store(given: Given) -> Write:
    key, content = _require(given, "key", "content")
    kept = {"text": content, "key": key, "scope": PROJECT, "mode": "replace", "slug": True}
    return Write("store", kept, PROJECT, stored, given["idempotency_key"])


def _name_of(key: str) -> str:
    """Return the key under which a note was stored; a key of an old version may begin with a dash."""
    return key if key.startswith("-") else slug(key)


def _retrieve(given: Given) -> Read:
    (key,) = _require(given, "key")

    def do(memory: Memory) -> dict[str, Any]:
        try:
            return _NOTE(memory.show(_name_of(key), scope=PROJECT))
        except NotFound:
            found = memory.sessions.checkpoint() if key == PROGRESS else None
            if found is None:
                raise
            return _NOTE(found, key=key, content=render_checkpoint(found), updated=found.time)

    return Read(do)


def _search(given: Given) -> Read:
    (query,) = _require(given, "query")
    return recall(query, given["max_results"] or 10)


def _list(given: Given) -> Read:
    return Read(lambda memory: _MEMORIES(memory.list(scope=PROJECT)))


def _delete(given: Given) -> Write:
    (key,) = _require(given, "key")
    gone = {"name": _name_of(key), "scope": PROJECT}
    return Write("forget", gone, PROJECT, forgotten, given["idempotency_key"])


def _lesson(kind: str, *parts: str) -> Plan:
    def plan(given: Given) -> Write:
        fields = dict(zip(parts, _require(given, *parts), strict=True))
        lesson = {
            "type": kind,
            "scope": PROJECT,
            "confidence": given["confidence"],
            "examples": given["examples"] or [],
            **fields,
        }
        if kind == "solution":  # a solution that is added again has solved the problem again
            lesson["count_use"] = True
        return Write("learn", lesson, PROJECT, stored, given["idempotency_key"])

    return plan


def _mark_applied(given: Given) -> Write:
    (key,) = _require(given, "key")
    return count_use(key, PROJECT, "", given["idempotency_key"])


def _prune(given: Given) -> Write:
    chosen = {
        "max_age_days": given["max_age_days"],
        "min_confidence": given["min_confidence"],
        "scope": PROJECT,
        "apply": True,
    }
    return Write("prune_knowledge", chosen, PROJECT, _prune_answer, given["idempotency_key"])


def _prune_answer(outcome: RunOutcome) -> dict[str, Any]:
    done = sum(each.done for each in outcome.results)
    if outcome.waiting:
        own = f"{done} of your own archived; " if done else ""
        return _PRUNED(
            outcome="waiting",
            count=done,
            waiting=outcome.waiting,
            approval=outcome.approval,
            message=f"{own}{outcome.waiting} are the user's, who decides with `vade review approve`",
        )
    if outcome.proposals and not outcome.run:
        return _PRUNED(
            outcome="told", count=len(outcome.proposals), message=outcome.large or "nothing was done"
        )
    back = f"`vade undo {outcome.run}` restores it" if outcome.run else "nothing to archive"
    return _PRUNED(outcome="pruned", count=done, message=back)


def _stats(given: Given) -> Read:
    return Read(lambda memory: _STATS(memory.knowledge.stats()))


def _sessions(given: Given) -> Read | Write:
    (query,) = _require(given, "query")
    most = {"max_sessions": given["max_sessions"] or 10, "max_results": given["max_results"] or 5}
    return session_search.plan(query, **most)


class Operation(NamedTuple):
    """One operation of a tool that has several: the function for its plan, and its answers' shapes."""

    plan: Plan
    shapes: tuple[JsonShape, ...]

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON Schema of the operation's answer."""
        return answer_schema(*self.shapes)


_KEPT = (stored, postponed_json)
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
    "search": Operation(_search, (search_answer_json,)),
    "list": Operation(_list, (_MEMORIES,)),
    "delete": Operation(_delete, (forgotten, postponed_json)),
    "add_discovery": Operation(_lesson("discovery", "fact"), _KEPT),
    "add_solution": Operation(_lesson("solution", "error", "solution"), _KEPT),
    "add_pattern": Operation(_lesson("pattern", "pattern"), _KEPT),
    "mark_applied": Operation(_mark_applied, (counted, postponed_json)),
    "prune_ltm": Operation(_prune, (_PRUNED, postponed_json)),
    "ltm_stats": Operation(_stats, (_STATS,)),
    "recall_sessions": Operation(_sessions, (RECALLED,)),
}


# The answer depends on the operation, and the schema of all answers would be too long for a model.
@tool("Work with memory", destructive=True, family="clio")
def memory_operations(
    *,
    operation: Annotated[str, "What to do.", tuple(OPERATIONS)],
    key: Annotated[
        str | None, "store, retrieve, delete, mark_applied: the name of the note or lesson."
    ] = None,
    content: Annotated[str | None, "store: what it says.", TextSize(0, LONGEST)] = None,
    query: Annotated[str | None, "search, recall_sessions: what to look for.", TextSize(1)] = None,
    fact: Annotated[str | None, "add_discovery: the fact.", TextSize(0, LONGEST)] = None,
    error: Annotated[str | None, "add_solution: the error or problem.", TextSize(0, LONGEST)] = None,
    solution: Annotated[str | None, "add_solution: what solved it.", TextSize(0, LONGEST)] = None,
    pattern: Annotated[str | None, "add_pattern: the convention.", TextSize(0, LONGEST)] = None,
    confidence: Annotated[float | None, "add_…: your confidence.", Span(0, 1)] = None,
    examples: Annotated[Texts | None, "add_…: paths of files that show it."] = None,
    max_age_days: Annotated[
        int | None, "prune_ltm: archive what is unconfirmed for longer.", Span(0, 36_500)
    ] = None,
    min_confidence: Annotated[float | None, "prune_ltm: archive what has less.", Span(0, 1)] = None,
    max_sessions: Annotated[int | None, "recall_sessions: in how many at most.", Span(1, 50)] = None,
    max_results: Annotated[int | None, "search, recall_sessions: how many at most.", Span(1, 20)] = None,
    idempotency_key: Retry = None,
) -> Read | Write:
    """Run one of the operations, with the arguments it needs."""
    return OPERATIONS[operation].plan(locals())  # each operation takes the arguments it needs


CLIO: tuple[Tool, ...] = (memory_operations,)
