"""Sessions: every agent's transcripts, a session turn by turn, and the records saved from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.http.views.query import read_number
from vademecum.interfaces.present.safe import clean_text
from vademecum.interfaces.present.to_json import hit_json, session_json
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.memory import Memory
    from vademecum.memory.values import SessionTurn, TurnPart, Usage
    from vademecum.types import Record

PAGE = 50  # sessions of a page
LINES = 100  # lines of a page
CUT = 8_000  # characters of a text that are shown at first
FOUND = 20  # messages in a search result
BEFORE = 4  # lines before the requested one


def list_sessions(
    memory: Memory, *, project: str = "", agent: str = "", query: str = "", after: int = 0
) -> dict[str, Any]:
    """Return a page of sessions, last written first; with a query, also the messages that match."""
    everything = memory.caller.origin is Origin.USER
    page = memory.sessions.page(all=everything, project=project, agent=agent, limit=PAGE, offset=after)
    names = {each.id: each.name for each in memory.projects.list()}
    return {
        "query": query,
        "project": project,
        "agent": agent,
        "sessions": [
            {**session_json(each), "program": program, "project_name": names.get(each.project, each.project)}
            for each, program in page.sessions
        ],
        "total": page.total,
        "after": after,
        "next": after + PAGE if after + PAGE < page.total else None,
        "previous": max(after - PAGE, 0) if after else None,
        "agents": [{"name": name, "count": count} for name, count in sorted(page.agents.items())],
        "projects": [
            {"id": id, "name": names.get(id, id), "count": count}
            for id, count in sorted(page.projects.items(), key=lambda each: names.get(each[0], each[0]))
        ],
        "answer": _answers(memory, query, everything=everything) if query.strip() else None,
    }


def _answers(memory: Memory, query: str, *, everything: bool) -> dict[str, Any]:
    found = memory.sessions.search(query, max_sessions=50, max_results=FOUND, all=everything)
    return {
        "hits": [hit_json(each) for each in found.hits],
        "sessions": found.sessions,
        "notes": [*found.notes, *found.degraded],
    }


def show_session(
    memory: Memory, which: str, *, line: int = 0, start: int = 1, whole: bool = False, key: str = ""
) -> dict[str, Any]:
    """Return a session from a line on: its turns, its usage, and the records saved from it.

    The page begins a little before `line`, or before the line from which the record `key` was saved. With
    `whole`, it holds only the given line, uncut.
    """
    everything = memory.caller.origin is Origin.USER
    card = memory.sessions.card(which, all=everything)
    memories = [_saved(record, at) for record, at in memory.sessions.kept_from(card.id, all=everything)]
    line = line or next((each["line"] for each in memories if each["key"] == key), 0)
    start = line if whole else max(line - BEFORE, 1) if line else max(start, 1)
    page = memory.sessions.turns(card.id, start, lines=1 if whole else LINES, all=everything)
    turns = [_turn(each, whole=whole) for each in page.turns]
    _put_with_turns(turns, memories)
    return {
        "session": session_json(card),
        "shares": _shares(card.usage),
        "start": start,
        "line": _turn_at(turns, line),
        "whole": whole,
        "total": page.total,
        "previous": max(start - LINES, 1) if start > 1 else None,
        "next": page.next or None,
        "turns": turns,
        "memories": memories,
    }


def _shares(usage: Usage) -> list[dict[str, Any]]:
    """Return the tokens of a session, divided into the parts of a bar."""
    cached = min(usage.cached, usage.input)
    parts = {"new input": usage.input - cached, "read from the cache": cached, "written": usage.output}
    total = sum(parts.values()) or 1
    return [
        {"name": name, "value": f"{count:,}", "share": 100 * count / total}
        for name, count in parts.items()
        if count
    ]


def _saved(record: Record, line: int) -> dict[str, Any]:
    return {
        "key": record.key,
        "title": record.title,
        "scope": str(record.place.scope),
        "path": record.path,
        "text": clean_text(record.text)[:200],
        "line": line,
    }


def _turn_at(turns: Sequence[dict[str, Any]], line: int) -> int:
    """Return the first line of the turn that shows a line; 0 if no turn does.

    A tool's result is shown in the turn of its call.
    """
    return max((each["line"] for each in turns if each["line"] <= line), default=0)


def _put_with_turns(turns: Sequence[dict[str, Any]], memories: Sequence[dict[str, Any]]) -> None:
    """Add each record to the turn from which it was saved."""
    last = turns[-1]["line"] if turns else 0
    for each in memories:
        at = _turn_at(turns, each["line"]) if each["line"] <= last + 1 else 0
        for turn in turns:
            if at and turn["line"] == at:
                turn["memories"].append(each)


def _turn(turn: SessionTurn, *, whole: bool) -> dict[str, Any]:
    used = turn.used
    return {
        "line": turn.line,
        "role": turn.role,
        "time": turn.time,
        "model": turn.model,
        "aside": turn.aside,
        "parts": [_part(each, whole=whole) for each in turn.parts],
        "used": None if used is None else {"input": used.input, "output": used.output, "cost": used.cost},
        "memories": [],
    }


def _part(part: TurnPart, *, whole: bool) -> dict[str, Any]:
    """Return a part of a message (already without secrets), shortened unless `whole`."""
    visible = part.text if whole else part.text[:CUT]
    return {
        "kind": part.kind,
        "label": part.label,
        "text": visible,
        "cut": len(part.text) - len(visible),
        "line": part.line,
        "error": part.error,
        "result": None if part.result is None else _part(part.result, whole=whole),
    }


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the list: `?q=&agent=&in=&after=`, where `in` is a project."""
    query = ask.query
    given = {"project": query.get("in", ""), "agent": query.get("agent", "")}
    return list_sessions(
        ask.memory, **given, query=query.get("q", "")[:2000], after=read_number(query.get("after"))
    )


def data_of_one(ask: ViewRequest) -> dict[str, Any]:
    """Return one session: `?line=&start=&whole=&key=`."""
    query = ask.query
    return show_session(
        ask.memory,
        ask.path["id"],
        line=read_number(query.get("line")),
        start=read_number(query.get("start"), 1),
        whole=query.get("whole") == "1",
        key=query.get("key", ""),
    )


VIEW = PageView("/sessions", "Sessions", data, "sessions.html", icon="sessions", key="s")
ONE = PageView("/sessions/{id}", "Session", data_of_one, "session.html", menu=False, parent="/sessions")
