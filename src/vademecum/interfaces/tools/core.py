"""The tools: records, search, journal, lessons, earlier sessions, to-do list.

Every agent gets these. The tool sets at the end offer them under the names that agents of other systems were
prompted for; each of those is a call on the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vademecum.config import RESULTS, Consent
from vademecum.errors import NotFound, Refused, UsageError
from vademecum.interfaces.present.shape import COUNT, TEXT, JsonShape, at, by_name, many, maybe, optional
from vademecum.interfaces.present.to_json import (
    SESSION_LINES,
    figures_json,
    found_json,
    hit_json,
    merged_json,
    postponed_json,
)
from vademecum.interfaces.tools.declaration import (
    Items,
    LineOrId,
    Numbers,
    Read,
    Span,
    Texts,
    Tool,
    WorkspaceNames,
    Write,
    answer_schema,
    tool,
)
from vademecum.text.names import slug
from vademecum.types import LEARNED, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.memory import Memory
    from vademecum.memory.values import RunOutcome
    from vademecum.types import Record, Stored

    Given = Mapping[str, Any]
    Plan = Callable[[Given], Read | Write]

SCOPES = tuple(map(str, Scope))
JOURNALS = tuple(str(each) for each in Scope if each.rule.journal)
TYPES = tuple(map(str, RecordType))
LESSONS = tuple(map(str, LEARNED))
MODES = ("hybrid", "bm25", "vector", "metadata")
TODO_OPERATIONS = ("write", "update", "add", "list", "done")

_WHERE = ", ".join(f"{each} ({each.rule.meaning})" for each in Scope)
ScopeArgument = Annotated[str, "", SCOPES]  # the description of memory_store explains each scope
OnlyScope = Annotated[str | None, "", SCOPES]
Tags = Annotated[Texts | None, ""]
Retry = Annotated[str | None, "A random text that makes a retry safe."]

# ---------------------------------------------------------------- answers

PENDING_MESSAGE = (
    "your text is saved next to the user's, marked as contradicting it; the user decides with `vade review"
    " approve` whether to replace theirs. Continue without it."
)


def _message(result: Stored) -> str | None:
    if result.approval:
        return PENDING_MESSAGE
    if result.team:
        return f"saved for the team {result.team}: its members see it after the next sync"
    return None if result.swept is None else f"Tell the user: {result.swept.message}"


stored = JsonShape(
    "acknowledged",
    "outcome key num:int? scope=place.scope path indexed:bool secrets:list",
    swept=maybe(JsonShape("moved", "run moved:int into:list")),
    message=at(_message, maybe(TEXT)),
    approval=optional(TEXT),
    merged=optional(merged_json),
    team=optional(TEXT),
)
noted = JsonShape("journal_noted", "outcome path time secrets:list", outcome=at(lambda _: "noted"))
forgotten = JsonShape(
    "archived",
    "outcome key scope=place.scope message",
    outcome=at(lambda _: "forgotten"),
    message=at(lambda record: f"`vade restore {record.key}` restores it"),
)
LINES = JsonShape(
    "lines_read",
    "text path",
    startLine=at("start", optional(COUNT)),
    endLine=at("end", optional(COUNT)),
    lines=optional(COUNT),
)
RECALLED = JsonShape("sessions_recalled", "hits sessions:int degraded:list notes:list", hits=many(hit_json))
EVENTS = JsonShape("session_read", "session lines", lines=SESSION_LINES)
TODO = JsonShape("todo_list", "items text", items=many(JsonShape("todo_item", "id:int=number title status")))


# ---------------------------------------------------------------- tools


@tool("Remember something", stored, postponed_json)
def memory_store(
    *,
    content: Annotated[str, ""],
    key: Annotated[str | None, "The topic; made from the content when omitted."] = None,
    scope: Annotated[str, f"{_WHERE}.", SCOPES] = "project",
    memory_type: Annotated[
        str | None,
        "project (conventions, decisions), user (who the user is, how they work), feedback"
        " (corrections), reference (where something is found); omitted, a known topic keeps its own.",
        TYPES,
    ] = None,
    tags: Tags = None,
    mode: Annotated[str, "", ("append", "replace")] = "append",
    team: Annotated[str | None, "Save it for this team instead of privately.", WorkspaceNames("team")] = None,
    idempotency_key: Retry = None,
) -> Write:
    """Save a record."""
    kept = {
        "text": content,
        "key": key,
        "scope": scope,
        "type": memory_type,
        "tags": tags or [],
        "mode": mode,
    }
    shared = (
        {} if team is None else {"team": team}
    )  # an approval or a retry is identified by the arguments, so an absent argument stays absent
    return Write("store", {**kept, "slug": True, **shared}, scope, stored, idempotency_key)


@tool("Recall saved records", found_json, read_only=True)
def memory_recall(
    *,
    query: Annotated[str | None, "What you want to know; omitted, the newest."] = None,
    scope: OnlyScope = None,
    memory_type: Annotated[str | None, "", TYPES] = None,
    limit: Annotated[int, "", Span(1, 100)] = 10,
    search_mode: Annotated[str, "", MODES] = "hybrid",
    sort_by: Annotated[
        str | None,
        "Instead of relevance; score is relevance with recency and use.",
        ("recency", "score", "usage"),
    ] = None,
    include_related: Annotated[bool, "Also related records."] = False,
) -> Read:
    """Return records that match a query, or the newest."""

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
        return found_json(found)

    return Read(do)


@tool("Forget something", forgotten, postponed_json, destructive=True, idempotent=True)
def memory_forget(
    key: Annotated[str, "The key or number of the record."],
    scope: ScopeArgument = "project",
    idempotency_key: Retry = None,
) -> Write:
    """Move a record to the archive."""
    return Write("forget", {"name": key, "scope": scope}, scope, forgotten, idempotency_key)


@tool("Search all of memory", found_json, read_only=True)
def memory_search(
    *,
    query: Annotated[str, "A question, or words to look for."],
    maxResults: Annotated[int | None, f"Default: {RESULTS}.", Span(1, 100)] = None,
    minScore: Annotated[float | None, "", Span(0, 1)] = None,
    mode: Annotated[str | None, "Default: hybrid.", MODES] = None,
    scope: OnlyScope = None,
    sources: Annotated[
        Texts | None, "Only these: memory, journal, pinned, transcript, an attached folder."
    ] = None,
    as_of: Annotated[str | None, "Memory as of a day such as 2026-05-02."] = None,
    hub: Annotated[str | None, "Search this workspace on its hub instead.", WorkspaceNames()] = None,
) -> Read:
    """Return matching passages of everything visible."""

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.search(
            query,
            max_results=maxResults,
            min_score=minScore,
            mode=mode,
            scope=scope,
            sources=sources or (),
            as_of=as_of,
            hub=hub,
        )
        return found_json(found)

    return Read(do)


@tool("Read lines of memory", LINES, read_only=True)
def memory_get(
    path: Annotated[str, ""],
    from_: Annotated[int | None, "The first line.", Span(1)] = None,
    startLine: Annotated[int | None, "The same as `from`.", Span(1)] = None,
    lines: Annotated[int | None, "Default: all.", Span(0)] = None,
) -> Read:
    """Return lines of a file; a missing file is an empty text."""
    if from_ is not None and startLine is not None:
        raise UsageError("`from` and `startLine` are the same argument", hint="pass one of them")

    def do(memory: Memory) -> dict[str, Any]:
        try:
            found = memory.get(path, start=from_ or startLine or 1, lines=lines)
        except NotFound:
            return LINES(text="", path=path)
        return LINES(found) if found.lines else LINES(text="", path=found.path)

    return Read(do)


@tool("Note something in today's journal", noted, postponed_json)
def memory_note(
    content: Annotated[str, ""],
    scope: Annotated[str, "", JOURNALS] = "project",
    idempotency_key: Retry = None,
) -> Write:
    """Append to today's journal."""
    return Write("note", {"text": content, "scope": scope}, scope, noted, idempotency_key)


@tool("Keep a lesson", stored, postponed_json)
def memory_learn(
    *,
    type: Annotated[str, "", LESSONS],
    fact: Annotated[str | None, ""] = None,
    error: Annotated[str | None, ""] = None,
    solution: Annotated[str | None, ""] = None,
    pattern: Annotated[str | None, ""] = None,
    sequence: Annotated[Texts | None, ""] = None,
    success_rate: Annotated[float | None, "", Span(0, 1)] = None,
    what: Annotated[str | None, ""] = None,
    impact: Annotated[str | None, ""] = None,
    prevention: Annotated[str | None, ""] = None,
    path: Annotated[str | None, ""] = None,
    rule: Annotated[str | None, ""] = None,
    confidence: Annotated[float | None, "", Span(0, 1)] = None,
    examples: Annotated[Texts | None, ""] = None,
    tags: Tags = None,
    scope: ScopeArgument = "project",
    idempotency_key: Retry = None,
) -> Write:
    """Save a lesson."""
    parts = {
        **{"fact": fact, "error": error, "solution": solution, "pattern": pattern, "sequence": sequence},
        **{"success_rate": success_rate, "what": what, "impact": impact, "prevention": prevention},
        **{"path": path, "rule": rule},
    }
    lesson = {
        "type": type,
        "scope": scope,
        "confidence": confidence,
        "examples": examples or [],
        "tags": tags or [],
        **{name: part for name, part in parts.items() if part is not None},
    }
    return Write("learn", lesson, scope, stored, idempotency_key)


@tool("Search earlier sessions", RECALLED, read_only=True)
def session_search(
    query: Annotated[str, ""],
    max_sessions: Annotated[int, "", Span(1, 50)] = 10,
    max_results: Annotated[int, "", Span(1, 20)] = 5,
) -> Read:
    """Search earlier sessions."""

    def do(memory: Memory) -> dict[str, Any]:
        return RECALLED(memory.sessions.search(query, max_sessions=max_sessions, max_results=max_results))

    return Read(do)


@tool("Read an earlier session", EVENTS, read_only=True)
def session_get(
    session: Annotated[str, ""],
    place: Annotated[LineOrId, ""],
    lines: Annotated[int, "", Span(1, 200)] = 1,
) -> Read:
    """Return complete lines of a session."""

    def do(memory: Memory) -> dict[str, Any]:
        return EVENTS(session=session, lines=memory.sessions.get(session, place, lines=lines))

    return Read(do)


@tool("Keep a to-do list", TODO)
def todo(
    *,
    operation: Annotated[str, "", TODO_OPERATIONS] = "list",
    items: Annotated[Items | None, '["text"], or [{"id": 3, "status": "done"}].'] = None,
    id: Annotated[int | None, ""] = None,
    ids: Annotated[Numbers | None, ""] = None,
    title: Annotated[str | None, ""] = None,
    status: Annotated[str | None, "pending, in-progress, blocked or done."] = None,
    idempotency_key: Retry = None,
) -> Read:
    """Run an operation on the session's to-do list.

    The list is the agent's own scratchpad and not memory, so no person is asked before it changes; if writing
    is disabled, the list is only shown.
    """
    given = {"operation": operation, "items": items, "id": id, "ids": ids, "title": title, "status": status}
    request = {name: value for name, value in given.items() if value is not None}

    def do(memory: Memory) -> dict[str, Any]:
        now = request
        if operation != "list" and idempotency_key is not None:
            _change_once(memory, request, idempotency_key)
            now = {"operation": "list"}
        elif operation != "list":
            _check_may_change(memory)
        made, said = memory.sessions.todo(now)
        return TODO(made, text=said)

    return Read(do)


def _check_may_change(memory: Memory) -> None:
    if memory.settings.approval.mcp is Consent.DENY:
        raise Refused(
            "writing to the to-do list through MCP is disabled",
            hint="tell the user; `approval` in config.toml controls it",
        )


def _change_once(memory: Memory, request: Mapping[str, Any], key: str) -> None:
    def do(_: Any) -> dict[str, Any]:
        _check_may_change(memory)
        memory.sessions.todo(request)
        return {"outcome": "kept"}  # not the list itself: the stored results of keys hold no texts

    # A key belongs to an agent and a project, a list to a session, so the session is part of the request.
    memory.requests.once(key, "todo", {**request, "session": memory.caller.session}, do=do)


CORE: tuple[Tool, ...] = (
    memory_store,
    memory_recall,
    memory_forget,
    memory_search,
    memory_get,
    memory_note,
    memory_learn,
    session_search,
    session_get,
    todo,
)


# ---------------------------------------------------------------- tools under other names

PROJECT = str(Scope.PROJECT)
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
)


def _recall(query: str, most: int) -> Read:
    return Read(lambda memory: found_json(memory.recall(query, limit=most)))


# ---------------------------------------------------------------- co-cli


@tool("Save a memory", stored, postponed_json)
def save_memory(
    content: Annotated[str, "One or two sentences that are clear on their own."],
    tags: Tags = None,
    idempotency_key: Retry = None,
) -> Write:
    """Save a record of the project."""
    kept = {"text": content, "scope": PROJECT, "tags": tags or []}
    return Write("store", kept, PROJECT, stored, idempotency_key)


@tool("Recall memories", found_json, read_only=True)
def recall_memory(
    query: Annotated[str, "What you want to know."],
    max_results: Annotated[int, "How many at most.", Span(1, 100)] = 5,
) -> Read:
    """Return records that match."""
    return _recall(query, max_results)


@tool("List memories", LIST_ANSWER, read_only=True)
def list_memories() -> Read:
    """Return all visible records."""
    return Read(lambda memory: LIST_ANSWER(memory.list()))


# ---------------------------------------------------------------- CLIO


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

    return Read(lambda memory: _NOTE(memory.show(_name_of(key), scope=PROJECT)))


def _search(given: Given) -> Read:
    (query,) = _require(given, "query")
    return _recall(query, given["max_results"] or 10)


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
        return Write("learn", lesson, PROJECT, stored, given["idempotency_key"])

    return plan


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
    "search": Operation(_search, (found_json,)),
    "list": Operation(_list, (_MEMORIES,)),
    "delete": Operation(_delete, (forgotten, postponed_json)),
    "add_discovery": Operation(_lesson("discovery", "fact"), _KEPT),
    "add_solution": Operation(_lesson("solution", "error", "solution"), _KEPT),
    "add_pattern": Operation(_lesson("pattern", "pattern"), _KEPT),
    "prune_ltm": Operation(_prune, (_PRUNED, postponed_json)),
    "ltm_stats": Operation(_stats, (_STATS,)),
    "recall_sessions": Operation(_sessions, (RECALLED,)),
}


# The answer depends on the operation, and the schema of all answers would be too long for a model.
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


CO_CLI: tuple[Tool, ...] = (save_memory, recall_memory, list_memories)
CLIO: tuple[Tool, ...] = (memory_operations,)
TOOL_SETS: Mapping[str, tuple[Tool, ...]] = {
    "core": CORE,
    "co-cli": CO_CLI,
    "clio": CLIO,
    "all": (*CORE, *CO_CLI, *CLIO),
}
