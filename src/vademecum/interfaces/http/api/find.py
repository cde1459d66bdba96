"""Search, sessions and their transcripts, the graph, and the memory block of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Path, Query

from vademecum.interfaces.http.api.base import (
    Calls,
    CursorQuery,
    LimitQuery,
    ScopeQuery,
    TypeQuery,
    read_cursor,
    write_cursor,
)
from vademecum.interfaces.http.problems import HttpProblem
from vademecum.interfaces.present import to_json
from vademecum.interfaces.present.shape import COUNT, TEXT, JsonShape, many, maybe

if TYPE_CHECKING:
    from vademecum.interfaces.http.api.base import ApiCall

calls = Calls("find")
Words = Annotated[str, Query(min_length=1, max_length=2000, description="What is asked.")]
SessionId = Annotated[str, Path(min_length=1, max_length=200, description="An id, its beginning, or a name.")]
sessions_json = JsonShape("session_page", sessions=many(to_json.session_json), total=COUNT, next=maybe(TEXT))
transcript_json = JsonShape(
    "transcript", "session path", usage=to_json.usage_json, lines=to_json.SESSION_LINES, next=maybe(TEXT)
)
exported_json = JsonShape("session_export", "name text")
_LARGEST = 32 << 20  # characters of an export that is sent in one piece


NowQuery = Annotated[str | None, Query(max_length=40, description="The moment that dates count from.")]


@calls.add("GET", "/search", to_json.found_json, to_json.explained_found_json, scope="read")
def search(
    call: ApiCall,
    *,
    q: Words,
    scope: ScopeQuery = None,
    type: TypeQuery = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    mode: Literal["hybrid", "bm25", "vector", "metadata"] | None = None,
    source: Annotated[
        list[str] | None, Query(max_length=10, description="memory, sessions or a source's name.")
    ] = None,
    as_of: Annotated[str | None, Query(max_length=40, description="What was known on that day.")] = None,
    now: NowQuery = None,
    sort_by: Literal["score", "recency", "usage"] | None = None,
    explain: bool = False,
) -> dict[str, Any]:
    """Find the passages that answer a question, and with `explain` why each has its rank."""
    answer = call.memory.search(
        q,
        max_results=limit,
        mode=mode,
        scope=scope,
        type=type,
        sources=tuple(source or ()),
        as_of=as_of,
        now=now,
        sort_by=sort_by,
        explain=explain,
    )
    return to_json.answer_json(answer, explain=explain)


@calls.add("GET", "/sessions", sessions_json, scope="read")
def list_sessions(call: ApiCall, limit: LimitQuery = 50, cursor: CursorQuery = None) -> dict[str, Any]:
    """List the sessions of this project, the newest first; a person's list has those of every project."""
    start = read_cursor(cursor)
    page = call.memory.sessions.page(all=call.is_person, limit=limit, offset=start)
    found = [each for each, _ in page.sessions]
    return sessions_json(sessions=found, total=page.total, next=write_cursor(start + limit, page.total))


@calls.add("GET", "/sessions/search", to_json.hits_json, scope="read")
def search_sessions(
    call: ApiCall,
    q: Words,
    limit: Annotated[int, Query(ge=1, le=20)] = 5,
    ranking: Literal["relevance", "keywords"] = "relevance",
    now: NowQuery = None,
) -> dict[str, Any]:
    """Find messages of earlier sessions."""
    return to_json.hits_json(
        call.memory.sessions.search(q, max_results=limit, ranking=ranking, all=call.is_person, now=now)
    )


@calls.add("GET", "/sessions/{session}", transcript_json, scope="read")
def get_session(
    call: ApiCall, session: SessionId, limit: LimitQuery = 100, cursor: CursorQuery = None
) -> dict[str, Any]:
    """Read the transcript of a session, line by line."""
    start = read_cursor(cursor)
    log = call.memory.sessions.open(session, all=call.is_person)
    lines = []
    more = False
    for number, line in enumerate(log.lines()):
        more = number >= start + limit
        if more:
            break
        if number >= start:
            lines.append(line)
    after = write_cursor(start + limit, start + limit + more)
    return transcript_json(session=log.session, path=log.path, usage=log.usage(), lines=lines, next=after)


@calls.add("GET", "/sessions/{session}/export", exported_json, scope="read")
def export_session(
    call: ApiCall, session: SessionId, kind: Literal["html", "md", "jsonl"] = "md"
) -> dict[str, Any]:
    """Read a session as a file to keep or hand on."""
    found = call.memory.sessions.card(session, all=call.is_person)
    pieces: list[str] = []
    left = _LARGEST
    for each in call.memory.sessions.render(found.id, f".{kind}", all=call.is_person):
        left -= len(each)
        if left < 0:
            hint = f"run `vade sessions export {found.id} FILE.{kind}`"
            raise HttpProblem(413, "this session is too long to be sent as a whole", hint=hint)
        pieces.append(each)
    return exported_json(name=f"{found.id}.{kind}", text="".join(pieces))


@calls.add("GET", "/graph", to_json.graph_json, scope="read")
def get_graph(call: ApiCall, scope: ScopeQuery = None) -> dict[str, Any]:
    """Read the connections between records."""
    return to_json.graph_json(call.memory.graph.read(scope=scope))


@calls.add("GET", "/injection", to_json.block_json, scope="read")
def preview_injection(
    call: ApiCall,
    q: Annotated[str, Query(max_length=2000, description="What the agent is asked first.")] = "",
    budget: Annotated[int | None, Query(ge=1, le=1_000_000, description="Tokens at most.")] = None,
    audience: Literal["private", "group"] | None = None,
) -> dict[str, Any]:
    """Read what an agent is told before it begins, exactly as it is sent."""
    return to_json.block_json(call.memory.injection.block(query=q, budget=budget, audience=audience))
