"""Tools under the names that agents of other systems were prompted for; each is a call on the same memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vademecum.errors import UsageError
from vademecum.interfaces.mcp import core
from vademecum.interfaces.mcp.arguments import NUMBER, RETRY, STRING, TAGS, TEXTS, WHOLE, Argument
from vademecum.interfaces.mcp.tools import COUNT, TEXT, Read, Tool, Write, answers, many
from vademecum.interfaces.present.to_json import answer_json
from vademecum.store import names
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.lifecycle.runner import RunOutcome
    from vademecum.memory import Memory
    from vademecum.types import Record

    Given = Mapping[str, Any]

PROJECT = str(Scope.PROJECT)
_SHORT = 300  # characters of a record in a list


def brief(record: Record) -> dict[str, Any]:
    """A record in a list."""
    text = record.text
    return {
        "id": record.num,
        "key": record.key,
        "content": text if len(text) <= _SHORT else f"{text[:_SHORT]} …",
        "scope": str(record.place.scope),
        "type": record.type,
        "tags": list(record.tags),
        "created": record.created,
        "updated": record.updated,
        "category": record.category,
        "protected": record.protected,
    }


# ---------------------------------------------------------------- co-cli


def save_memory(given: Given) -> Write:
    """Keep a record of the project."""
    kept = {"text": given["content"], "scope": PROJECT, "tags": given["tags"] or []}
    return Write("store", kept, PROJECT, core.stored, given["idempotency_key"])


def recall_memory(given: Given) -> Read:
    """Records that answer."""
    return Read(
        lambda memory: answer_json(memory.recall(given["query"], limit=given["max_results"]), explain=False)
    )


def list_memories(given: Given) -> Read:
    """All records in sight."""
    return Read(_listed)


def _listed(memory: Memory) -> dict[str, Any]:
    found = memory.list()
    return {
        "count": len(found.records),
        "limit": found.limit,
        "memories": [brief(each) for each in found.records],
    }


# ---------------------------------------------------------------- CLIO


def operate(given: Given) -> Read | Write:
    """One of the operations, with the arguments it needs."""
    return _OPERATIONS[given["operation"]](given)


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

    def do(memory: Memory) -> dict[str, Any]:
        record = memory.show(names.slug(key), scope=PROJECT)
        return {"key": record.key, "content": record.text, "updated": record.updated}

    return Read(do)


def _search(given: Given) -> Read:
    (query,) = _needed(given, "query")
    most = given["max_results"] or 10
    return Read(lambda memory: answer_json(memory.recall(query, limit=most), explain=False))


def _list(given: Given) -> Read:
    return Read(lambda memory: {"memories": [brief(each) for each in memory.list(scope=PROJECT).records]})


def _delete(given: Given) -> Write:
    (key,) = _needed(given, "key")
    gone = {"name": names.slug(key), "scope": PROJECT}
    return Write("forget", gone, PROJECT, core.forgotten, given["idempotency_key"])


def _lesson(kind: str, *parts: str) -> Callable[[Given], Write]:
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
        return {
            "outcome": "waiting",
            "count": done,
            "waiting": outcome.waiting,
            "approval": outcome.approval,
            "message": f"{own}{outcome.waiting} are a person's, who decides with `vade approve`",
        }
    if outcome.proposals and not outcome.run:
        return {
            "outcome": "told",
            "count": len(outcome.proposals),
            "message": outcome.large or "nothing was done",
        }
    back = (
        f"`vade undo {outcome.run}` brings it back" if outcome.run else "nothing was too old or too doubtful"
    )
    return {"outcome": "pruned", "count": done, "message": back}


def _stats(given: Given) -> Read:
    def do(memory: Memory) -> dict[str, Any]:
        found = memory.knowledge_stats()
        return {
            "total": asdict(found.total),
            "by_type": {name: asdict(each) for name, each in found.by_type.items()},
        }

    return Read(do)


def _sessions(given: Given) -> Read:
    (query,) = _needed(given, "query")
    many_, most = given["max_sessions"] or 10, given["max_results"] or 5
    return core.session_search({"query": query, "max_sessions": many_, "max_results": most})


_OPERATIONS: Mapping[str, Callable[[Given], Read | Write]] = {
    "store": _store,
    "retrieve": _retrieve,
    "search": _search,
    "list": _list,
    "delete": _delete,
    "add_discovery": _lesson("discovery", "fact"),
    "add_solution": _lesson("solution", "error", "solution"),
    "add_pattern": _lesson("pattern", "pattern"),
    "prune_ltm": _prune,
    "ltm_stats": _stats,
    "recall_sessions": _sessions,
}

CO_CLI: tuple[Tool, ...] = (
    Tool(
        "save_memory",
        "Save a memory",
        (
            Argument("content", STRING, "One or two sentences that stand on their own.", required=True),
            TAGS,
            RETRY,
        ),
        core.WRITTEN,
        save_memory,
    ),
    Tool(
        "recall_memory",
        "Recall memories",
        (
            Argument("query", STRING, "What you want to know.", required=True),
            Argument("max_results", WHOLE, "How many at most.", default=5, least=1, most=100),
        ),
        core.ANSWER,
        recall_memory,
        read_only=True,
    ),
    Tool(
        "list_memories",
        "List memories",
        (),
        answers({"count": COUNT, "limit": COUNT, "memories": many(answers({"key": TEXT, "content": TEXT}))}),
        list_memories,
        read_only=True,
    ),
)
CLIO: tuple[Tool, ...] = (
    Tool(
        "memory_operations",
        "Work with memory",
        (
            Argument("operation", STRING, "What to do.", required=True, choices=tuple(_OPERATIONS)),
            Argument("key", STRING, "store, retrieve, delete: the name of the note."),
            Argument("content", STRING, "store: what it says."),
            Argument("query", STRING, "search, recall_sessions: what to look for."),
            Argument("fact", STRING, "add_discovery: the fact."),
            Argument("error", STRING, "add_solution: the error or problem."),
            Argument("solution", STRING, "add_solution: what solved it."),
            Argument("pattern", STRING, "add_pattern: the convention."),
            Argument("confidence", NUMBER, "add_…: how sure you are.", least=0, most=1),
            Argument("examples", TEXTS, "add_…: paths of files that show it."),
            Argument("max_age_days", WHOLE, "prune_ltm: unconfirmed for longer.", least=0, most=36_500),
            Argument("min_confidence", NUMBER, "prune_ltm: believed less.", least=0, most=1),
            Argument("max_sessions", WHOLE, "recall_sessions: in how many at most.", least=1, most=50),
            Argument("max_results", WHOLE, "search, recall_sessions: how many at most.", least=1, most=20),
            RETRY,
        ),
        {"type": "object"},
        operate,
        destructive=True,
    ),
)

FAMILIES: Mapping[str, tuple[Tool, ...]] = {
    "core": core.CORE,
    "co-cli": CO_CLI,
    "clio": CLIO,
    "all": (*core.CORE, *CO_CLI, *CLIO),
}
