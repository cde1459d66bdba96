"""The tools that every agent gets: records, search, journal, lessons, earlier sessions, things to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.config import Consent
from vademecum.errors import NotFound, Refused, UsageError
from vademecum.interfaces.mcp.arguments import (
    BOOLEAN,
    ITEMS,
    NUMBER,
    ONLY_SCOPE,
    PLACE,
    RETRY,
    SCOPE,
    STRING,
    TAGS,
    TEXTS,
    TYPES,
    WHOLE,
    Argument,
)
from vademecum.interfaces.mcp.tools import COUNT, TEXT, TEXTS_, Read, Tool, Write, answers, many
from vademecum.interfaces.mcp.tools import NUMBER as FIGURE
from vademecum.interfaces.present.to_json import answer_json, hit_json, line_json
from vademecum.knowledge.lessons import LEARNED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.context.todo import TodoList
    from vademecum.memory import Memory
    from vademecum.types import Noted, Record, Stored, Swept

    Given = Mapping[str, Any]

_PASSAGE = answers(
    {
        "path": TEXT,
        "startLine": COUNT,
        "endLine": COUNT,
        "score": FIGURE,
        "snippet": TEXT,
        "source": TEXT,
    },
    relevance=FIGURE,
    match=TEXT,
    key=TEXT,
    scope=TEXT,
    type=TEXT,
    time=TEXT,
    origin=TEXT,
    superseded=TEXT,
)
ANSWER = answers(
    {
        "results": many(_PASSAGE),
        "match": TEXT,
        "hidden": COUNT,
        "provider": TEXT,
        "model": TEXT,
        "mode": TEXT,
        "coverage": {"type": "object"},
        "degraded": TEXTS_,
        "notes": TEXTS_,
    }
)
WRITTEN = answers(
    {"outcome": TEXT},
    key=TEXT,
    num=COUNT,
    scope=TEXT,
    path=TEXT,
    time=TEXT,
    indexed={"type": "boolean"},
    secrets=TEXTS_,
    swept={"type": "object"},
    merged=answers({"key": TEXT, "superseded": TEXT, "undo": TEXT}),
    approval=TEXT,
    message=TEXT,
)
RECALLED = answers(
    {
        "hits": many(answers({"session_id": TEXT, "line": COUNT, "role": TEXT, "preview": TEXT})),
        "sessions": COUNT,
        "degraded": TEXTS_,
    }
)


BESIDE = (
    "your text stands beside what a person wrote, marked as contradicting it; a person decides with"
    " `vade approve` whether it takes its place. Go on without it."
)


def stored(result: Stored) -> dict[str, Any]:
    """The acknowledgement of a store."""
    return {
        "outcome": str(result.outcome),
        "key": result.key,
        "num": result.num,
        "scope": str(result.place.scope),
        "path": result.path,
        "indexed": result.indexed,
        "secrets": list(result.secrets),
        "swept": None if result.swept is None else swept(result.swept),
        "message": None if result.swept is None else f"Tell the user: {result.swept.message}",
        **({"approval": result.approval, "message": BESIDE} if result.approval else {}),
        **({} if result.merged is None else {"merged": result.merged._asdict()}),
    }


def swept(done: Swept) -> dict[str, Any]:
    """What a write moved to the archive because the scope holds too much."""
    return {"run": done.run, "moved": done.moved, "into": list(done.into)}


def noted(result: Noted) -> dict[str, Any]:
    """The acknowledgement of a note."""
    return {
        "outcome": "noted",
        "path": result.path,
        "time": result.time,
        "secrets": list(result.secrets),
    }


def forgotten(record: Record) -> dict[str, Any]:
    """What was taken away, and that it can come back."""
    return {
        "outcome": "forgotten",
        "key": record.key,
        "scope": str(record.place.scope),
        "message": f"`vade restore {record.key}` brings it back",
    }


def store(given: Given) -> Write:
    """Keep a record."""
    kept = {
        "text": given["content"],
        "key": given["key"],
        "scope": given["scope"],
        "type": given["memory_type"],
        "tags": given["tags"] or [],
        "mode": given["mode"],
        "slug": True,
    }
    return Write("store", kept, given["scope"], stored, given["idempotency_key"])


def forget(given: Given) -> Write:
    """Move a record to the archive."""
    gone = {"name": given["key"], "scope": given["scope"]}
    return Write("forget", gone, given["scope"], forgotten, given["idempotency_key"])


def note(given: Given) -> Write:
    """Append to today's journal."""
    said = {"text": given["content"], "scope": given["scope"]}
    return Write("note", said, given["scope"], noted, given["idempotency_key"])


def learn(given: Given) -> Write:
    """Keep a lesson."""
    parts = {name: given[name] for name in _LESSON if given[name] is not None}
    lesson = {
        "type": given["type"],
        "scope": given["scope"],
        "confidence": given["confidence"],
        "examples": given["examples"] or [],
        "tags": given["tags"] or [],
        **parts,
    }
    return Write("learn", lesson, given["scope"], stored, given["idempotency_key"])


def recall(given: Given) -> Read:
    """Records that answer a question, or the newest."""

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.recall(
            given["query"] or "",
            scope=given["scope"],
            type=given["memory_type"],
            limit=given["limit"],
            mode=given["search_mode"],
            sort_by=given["sort_by"],
            include_related=given["include_related"],
        )
        return answer_json(found, explain=False)

    return Read(do)


def search(given: Given) -> Read:
    """Passages of everything in sight that answer a question."""

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.search(
            given["query"],
            max_results=given["maxResults"],
            min_score=given["minScore"],
            mode=given["mode"],
            scope=given["scope"],
            sources=given["sources"] or (),
            as_of=given["as_of"],
        )
        return answer_json(found, explain=False)

    return Read(do)


def get(given: Given) -> Read:
    """Lines of a file; one that is not there is an empty text."""
    if given["from"] is not None and given["startLine"] is not None:
        raise UsageError("`from` and `startLine` are two names of one argument", hint="pass one of them")
    start = given["from"] or given["startLine"] or 1

    def do(memory: Memory) -> dict[str, Any]:
        try:
            found = memory.get(given["path"], start=start, lines=given["lines"])
        except NotFound:
            return {"text": "", "path": given["path"]}
        if not found.lines:
            return {"text": "", "path": found.path}
        return {
            "text": found.text,
            "path": found.path,
            "startLine": found.start,
            "endLine": found.end,
            "lines": found.lines,
        }

    return Read(do)


def session_search(given: Given) -> Read:
    """What was said in earlier sessions."""

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.session_search(
            given["query"], max_sessions=given["max_sessions"], max_results=given["max_results"]
        )
        return {
            "hits": [hit_json(each) for each in found.hits],
            "sessions": found.sessions,
            "degraded": list(found.degraded),
        }

    return Read(do)


def session_get(given: Given) -> Read:
    """Lines of a session whole."""

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.session_get(given["session"], given["place"], lines=given["lines"])
        return {"session": given["session"], "lines": [line_json(each) for each in found]}

    return Read(do)


def todo(given: Given) -> Read:
    """The session's list of things to do.

    It is the agent's own working paper and no memory, so nobody is asked before it changes; where writing is
    switched off, it is only shown.
    """
    request = {name: value for name, value in given.items() if value is not None and name != RETRY.name}
    key = given[RETRY.name]

    def change(memory: Memory) -> tuple[TodoList, str]:
        if memory.settings.approval.mcp is Consent.DENY:
            raise Refused(
                "writing to the list of things to do through MCP is switched off",
                hint="tell the person; `approval` in config.toml decides it",
            )
        return memory.todo(request)

    def change_once(memory: Memory) -> tuple[TodoList, str]:
        def do(_: Any) -> dict[str, Any]:
            change(memory)
            return {"outcome": "kept"}  # and not the list: what keys remember holds nobody's words

        # A key is its agent's and project's own, a list its session's: the same call of two is not one.
        memory.once(key, "todo", {**request, "session": memory.caller.session}, do=do)
        return memory.todo({"operation": "list"})

    def do(memory: Memory) -> dict[str, Any]:
        if request["operation"] == "list":
            made, said = memory.todo(request)
        else:
            made, said = change(memory) if key is None else change_once(memory)
        items = [{"id": each.number, "title": each.title, "status": str(each.status)} for each in made.items]
        return {"items": items, "text": said}

    return Read(do)


_LESSON = (
    *("fact", "error", "solution", "pattern", "sequence", "success_rate"),
    *("what", "impact", "prevention", "path", "rule"),
)
MODES = ("hybrid", "bm25", "vector", "metadata")
CORE: tuple[Tool, ...] = (
    Tool(
        "memory_store",
        "Remember something",
        (
            Argument("content", STRING, "One or two sentences that stand on their own.", required=True),
            Argument(
                "key",
                STRING,
                "The topic, as in `testing-framework`; made from the content when left out. A topic that is"
                " known gets the content as a new dated entry.",
            ),
            SCOPE,
            Argument(
                "memory_type",
                STRING,
                "A label: project (conventions, decisions), user (who the person is and how they like to"
                " work), feedback (corrections), reference (where something is found). Left out, a new topic"
                " is project and a known one stays what it is.",
                choices=TYPES,
            ),
            TAGS,
            Argument(
                "mode",
                STRING,
                "append adds an entry; replace also marks the one before it as superseded.",
                default="append",
                choices=("append", "replace"),
            ),
            RETRY,
        ),
        WRITTEN,
        store,
    ),
    Tool(
        "memory_recall",
        "Recall what was remembered",
        (
            Argument("query", STRING, "What you want to know; without it, the newest."),
            ONLY_SCOPE,
            Argument("memory_type", STRING, "Only this type.", choices=TYPES),
            Argument("limit", WHOLE, "How many at most.", default=10, least=1, most=100),
            Argument("search_mode", STRING, "How to search.", default="hybrid", choices=MODES),
            Argument(
                "sort_by",
                STRING,
                "Another order than that of relevance: newest first, relevance with recency and use, or"
                " most used first.",
                choices=("recency", "score", "usage"),
            ),
            Argument("include_related", BOOLEAN, "Also what the records found point to.", default=False),
        ),
        ANSWER,
        recall,
        read_only=True,
    ),
    Tool(
        "memory_forget",
        "Forget something",
        (
            Argument("key", STRING, "The key or number of the record.", required=True),
            SCOPE,
            RETRY,
        ),
        WRITTEN,
        forget,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "memory_search",
        "Search all of memory",
        (
            Argument("query", STRING, "A question, or words to look for.", required=True),
            Argument("maxResults", WHOLE, "How many passages at most; 6 when left out.", least=1, most=100),
            Argument(
                "minScore",
                NUMBER,
                "Hide results with less relevance; 0 when left out.",
                least=0,
                most=1,
            ),
            Argument("mode", STRING, "How to search; hybrid when left out.", choices=MODES),
            ONLY_SCOPE,
            Argument(
                "sources", TEXTS, "Only these: memory, journal, pinned, transcript, or an attached folder."
            ),
            Argument("as_of", STRING, "Answer as memory stood on this date, such as 2026-05-02."),
        ),
        ANSWER,
        search,
        read_only=True,
    ),
    Tool(
        "memory_get",
        "Read lines of memory",
        (
            Argument("path", STRING, "A path as a search gave it, or the key of a record.", required=True),
            Argument("from", WHOLE, "The first line, counted from 1.", least=1),
            Argument("startLine", WHOLE, "Another name for `from`.", least=1),
            Argument("lines", WHOLE, "How many lines; all when left out.", least=0),
        ),
        answers({"text": TEXT, "path": TEXT}, startLine=COUNT, endLine=COUNT, lines=COUNT),
        get,
        read_only=True,
    ),
    Tool(
        "memory_note",
        "Note something in today's journal",
        (
            Argument("content", STRING, "What happened, in a few sentences.", required=True),
            Argument(
                "scope",
                STRING,
                "Whose journal: project, agent or global.",
                default="project",
                choices=("project", "agent", "global"),
            ),
            RETRY,
        ),
        WRITTEN,
        note,
    ),
    Tool(
        "memory_learn",
        "Keep a lesson",
        (
            Argument("type", STRING, "What kind of lesson.", required=True, choices=tuple(map(str, LEARNED))),
            Argument("fact", STRING, "discovery: the fact."),
            Argument("error", STRING, "solution: the error or problem."),
            Argument("solution", STRING, "solution: what solved it."),
            Argument("pattern", STRING, "pattern: the convention."),
            Argument("sequence", TEXTS, "workflow: the steps, in order."),
            Argument("success_rate", NUMBER, "workflow: how often it works.", least=0, most=1),
            Argument("what", STRING, "failure: what went wrong."),
            Argument("impact", STRING, "failure: what it cost."),
            Argument("prevention", STRING, "failure: how to avoid it."),
            Argument("path", STRING, "rule: the files it is about."),
            Argument("rule", STRING, "rule: the rule."),
            Argument("confidence", NUMBER, "How sure you are.", least=0, most=1),
            Argument("examples", TEXTS, "Paths of files that show it."),
            TAGS,
            SCOPE,
            RETRY,
        ),
        WRITTEN,
        learn,
    ),
    Tool(
        "session_search",
        "Search earlier sessions",
        (
            Argument("query", STRING, "What was talked about.", required=True),
            Argument("max_sessions", WHOLE, "In how many sessions at most.", default=10, least=1, most=50),
            Argument("max_results", WHOLE, "How many messages at most.", default=5, least=1, most=20),
        ),
        RECALLED,
        session_search,
        read_only=True,
    ),
    Tool(
        "session_get",
        "Read an earlier session",
        (
            Argument("session", STRING, "The id or name of the session.", required=True),
            Argument("place", PLACE, "The number of a line, or the id of a message or call.", required=True),
            Argument("lines", WHOLE, "How many lines.", default=1, least=1, most=200),
        ),
        answers({"session": TEXT, "lines": many({"type": "object"})}),
        session_get,
        read_only=True,
    ),
    Tool(
        "todo",
        "Keep a list of things to do",
        (
            Argument(
                "operation",
                STRING,
                "What to do with the list.",
                default="list",
                choices=("write", "update", "add", "list", "done"),
            ),
            Argument(
                "items", ITEMS, 'For write, add and update: ["text"], or [{"id": 3, "status": "done"}].'
            ),
            Argument("id", WHOLE, "For update and done: the number of one item."),
            Argument("ids", ITEMS, "For done: the numbers of several items, as texts."),
            Argument("title", STRING, "For add and update: its words."),
            Argument("status", STRING, "For update: pending, in-progress, blocked or done."),
            RETRY,
        ),
        answers(
            {"items": many(answers({"id": COUNT, "title": TEXT, "status": TEXT})), "text": TEXT},
        ),
        todo,
    ),
)
