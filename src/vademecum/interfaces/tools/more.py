"""Tools that most agents have no need for: the search of sessions alone, and a to-do list.

`memory_search` finds messages of sessions too, and agents have to-do lists of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from vademecum.config import Consent
from vademecum.errors import Refused
from vademecum.interfaces.present.shape import JsonShape, many
from vademecum.interfaces.present.to_json import hit_json
from vademecum.interfaces.tools.core import Retry  # noqa: TC001  a signature is read when it runs
from vademecum.interfaces.tools.declaration import Items, Numbers, Read, Span, Spellings, TextSize, Tool, tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.memory import Memory

TODO_OPERATIONS = ("write", "update", "add", "list", "done")
RECALLED = JsonShape("sessions_recalled", "hits sessions:int degraded:list notes:list", hits=many(hit_json))
TODO = JsonShape("todo_list", "items text", items=many(JsonShape("todo_item", "id:int=number title status")))


@tool("Search earlier sessions", RECALLED, read_only=True, family="more")
def session_search(
    query: Annotated[str, "", TextSize(1)],
    max_sessions: Annotated[int, "", Span(1, 50)] = 10,
    max_results: Annotated[int, "", Span(1, 20), Spellings(("limit", "maxResults"))] = 5,
    now: Annotated[str | None, "The moment that dates count from."] = None,
) -> Read:
    """Search earlier sessions."""

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.sessions.search(query, max_sessions=max_sessions, max_results=max_results, now=now)
        return RECALLED(found)

    return Read(do)


@tool("Keep a to-do list", TODO, family="more")
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


MORE: tuple[Tool, ...] = (session_search, todo)
