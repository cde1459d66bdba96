"""The tools that every agent gets: search, read, save, note and forget memory, and read an earlier session.

The families beside this module offer the same memory under the names and arguments of other systems.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from vademecum.config import RESULTS
from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.present.shape import COUNT, TEXT, JsonShape, at, maybe, optional
from vademecum.interfaces.present.to_json import merged_json, postponed_json
from vademecum.interfaces.present.tool_json import (
    lines_answer,
    lines_answer_json,
    search_answer,
    search_answer_json,
    session_answer,
    session_answer_json,
    session_log,
    session_log_json,
    session_text,
)
from vademecum.interfaces.tools.declaration import (
    LineOrId,
    Read,
    Span,
    Spellings,
    Texts,
    TextSize,
    Tool,
    Unlisted,
    WorkspaceNames,
    Write,
    tool,
)
from vademecum.types import LEARNED, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.memory import Memory
    from vademecum.types import Stored

PROJECT = str(Scope.PROJECT)
# An agent cannot know that a text belongs to its role, or to everybody on the machine: a call may say so, and
# no schema offers it.
SCOPES = tuple(str(each) for each in Scope if each not in (Scope.AGENT, Scope.FEDERATED))
RARE_SCOPES = Unlisted((str(Scope.AGENT), str(Scope.FEDERATED)))
JOURNALS = tuple(str(each) for each in Scope if each.rule.journal and str(each) in SCOPES)
TYPES = tuple(map(str, RecordType))
LESSONS = tuple(map(str, LEARNED))
MODES = ("hybrid", "bm25", "vector", "metadata")
ORDERS = ("recency", "score", "usage")
WRITTEN = ("memory", "journal")  # the sources that are listed without a query
LONGEST = 8_000  # characters that a tool saves at once
LISTED_LINES = 20  # lines of a raw log, when no number is named

# The description of memory_store explains these scopes; those of a host explain themselves.
_EXPLAINED = (Scope.SESSION, Scope.PROJECT, Scope.GLOBAL)
_MORE_SCOPES = ", ".join(
    f"{each}: {each.rule.meaning}" for each in Scope if str(each) in SCOPES and each not in _EXPLAINED
)
ScopeArgument = Annotated[str, _MORE_SCOPES, SCOPES, RARE_SCOPES]
OnlyScope = Annotated[str | None, "", SCOPES, RARE_SCOPES]
Tags = Annotated[Texts | None, ""]
Retry = Annotated[str | None, ""]  # a random text of the client's own, which makes a retry safe
Place = Annotated[LineOrId | None, ""]

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
counted = JsonShape(
    "lesson_applied",
    "outcome key num:int? scope=place.scope applied:int",
    outcome=at(lambda _: "applied"),
    applied=at(lambda record: record.fields.get("applied", 0), COUNT),
)
noted = JsonShape("journal_noted", "outcome path time secrets:list", outcome=at(lambda _: "noted"))
forgotten = JsonShape(
    "archived",
    "outcome key scope=place.scope message",
    outcome=at(lambda _: "forgotten"),
    message=at(lambda record: f"`vade restore {record.key}` restores it"),
)

# ---------------------------------------------------------------- what a search result names

_RECORD = re.compile(r"(?:memory/(\w+)/)?(?:[^/]+/)*records/([^/]+)\.md")
TRANSCRIPTS = "transcripts/"


def parse_key(key: str, scope: str) -> tuple[str, str]:
    """Return a key and its scope; a key may also be the path of a record, as a search result has it."""
    match = _RECORD.fullmatch(key)
    return (match[2], match[1] or scope) if match else (key, scope)


def parse_session(session: str) -> str:
    """Return a session's id or name; it may also be the path of its log, as a search result has it."""
    return PurePosixPath(session).stem if session.startswith(TRANSCRIPTS) else session


def check_query(query: str | None) -> None:
    """Raise for a query without words: it would match everything."""
    if query is not None and not query.strip():
        raise UsageError("`query` is empty", hint="leave `query` out for the newest, or pass some words")


# ---------------------------------------------------------------- tools


@tool("Search memory", search_answer_json, read_only=True)
def memory_search(
    *,
    query: Annotated[str | None, "Omitted: the newest."] = None,
    limit: Annotated[
        int | None, f"Default: {RESULTS}.", Span(1, 100), Spellings(("maxResults", "max_results"))
    ] = None,
    scope: OnlyScope = None,
    type: Annotated[str | None, "", TYPES, Spellings(("memory_type",))] = None,
    sources: Annotated[
        Texts | None, "Of memory, journal, pinned, transcript, or an attached folder.", Spellings(("source",))
    ] = None,
    sort: Annotated[str | None, "Instead of by relevance.", ORDERS, Spellings(("sort_by",))] = None,
    mode: Annotated[str | None, "", MODES, Spellings(("search_mode",))] = None,
    as_of: Annotated[str | None, "A day: memory as it was."] = None,
    now: Annotated[str | None, "The moment that dates count from."] = None,
    min_score: Annotated[float | None, "", Span(0, 1), Spellings(("minScore",)), Unlisted()] = None,
    include_related: Annotated[bool, "", Unlisted()] = False,
    hub: Annotated[str | None, "Search this workspace on its hub instead.", WorkspaceNames()] = None,
) -> Read:
    """Return passages that match, from everything visible; without a query, what was written last."""
    check_query(query)

    def do(memory: Memory) -> dict[str, Any]:
        found = memory.search(
            query or "",
            max_results=limit,
            min_score=min_score,
            mode=mode,
            scope=scope,
            type=type,
            sources=sources or (() if query else WRITTEN),
            as_of=as_of,
            now=now,
            sort_by=sort,
            include_related=include_related,
            hub=hub,
        )
        return search_answer(found, memory.settings.limits.answer_chars)

    return Read(do)


@tool("Read memory", lines_answer_json, read_only=True)
def memory_get(
    *,
    key: Annotated[str | None, ""] = None,
    path: Annotated[str | None, ""] = None,
    place: Annotated[LineOrId | None, "", Spellings(("from", "startLine", "start_line"))] = None,
    lines: Annotated[int | None, "", Span(0)] = None,
) -> Read:
    """Return lines of a file or of a record, or turns of a session by the path of its log."""
    if (key is None) == (path is None):
        raise UsageError(
            "pass either `key` or `path`", hint="`key` names a record, `path` is that of a result"
        )
    target = path if path is not None else str(key)

    def do(memory: Memory) -> dict[str, Any]:
        try:
            return read_lines(memory, target, place, lines)
        except NotFound:
            if path is None or not ("/" in path or path.endswith(".md")):
                raise
            return lines_answer_json(text="", path=path, message="there is no such file")

    return Read(do)


def read_lines(memory: Memory, target: str, place: int | str | None, lines: int | None) -> dict[str, Any]:
    """Return the answer with lines of a file or record, or with turns of a session by the path of its log."""
    own = target.removeprefix(f"{memory.home.path}/")
    if own.startswith(TRANSCRIPTS):
        start = 1 if place is None else place
        return session_text(memory.sessions.read(parse_session(own), start, lines=lines or None), own)
    line, skipped = parse_place(place)
    found = memory.get(target, start=line, lines=lines)
    return lines_answer(found, memory.settings.limits.answer_chars, skipped=skipped)


def parse_place(place: int | str | None) -> tuple[int, int]:
    """Return a line, and how many of its characters were read already."""
    match = re.fullmatch(r"(\d+)(?::(\d+))?", str(1 if place is None else place).strip())
    if match is None:
        raise UsageError(
            f"`place` cannot be {place!r}", hint="pass the number of a line, or what `next` says"
        )
    return int(match[1]), max(0, int(match[2] or 1) - 1)


@tool("Save to memory", stored, counted, postponed_json)
def memory_store(
    *,
    content: Annotated[
        str, "", TextSize(0, LONGEST), Spellings(("fact", "solution", "pattern", "rule", "what"))
    ],
    type: Annotated[str | None, "", TYPES, Spellings(("memory_type",))] = None,
    scope: ScopeArgument = PROJECT,
    key: Annotated[str | None, "The topic."] = None,
    replace: Annotated[bool, ""] = False,
    tags: Tags = None,
    error: Annotated[str | None, "", TextSize(0, LONGEST)] = None,
    steps: Annotated[Texts | None, "", Spellings(("sequence",))] = None,
    impact: Annotated[str | None, "", TextSize(0, LONGEST)] = None,
    prevention: Annotated[str | None, "", TextSize(0, LONGEST)] = None,
    path: Annotated[str | None, ""] = None,
    examples: Annotated[Texts | None, ""] = None,
    confidence: Annotated[float | None, "", Span(0, 1)] = None,
    success_rate: Annotated[float | None, "", Span(0, 1), Unlisted()] = None,
    applied: Annotated[bool, "The lesson of this `key` helped; `content` stays empty."] = False,
    team: Annotated[str | None, "Save it for this team instead of privately.", WorkspaceNames("team")] = None,
    idempotency_key: Retry = None,
) -> Write:
    """Save a record, or a lesson if the type is that of a lesson; or count that a lesson was applied."""
    if applied:
        return count_use(key, scope, content, idempotency_key)
    parts: dict[str, Any] = {"error": error, "steps": steps, "impact": impact, "prevention": prevention}
    parts |= {"path": path, "examples": examples, "success_rate": success_rate}
    given = {name: part for name, part in parts.items() if part not in (None, "", [])}
    kind = type or _lesson_type(given)
    if kind in LESSONS:
        _check_lesson(kind, given, key=key, team=team)
        lesson = {
            "type": kind,
            "scope": scope,
            "confidence": confidence,
            "examples": given.get("examples", []),
            "tags": tags or [],
            **_lesson_fields(kind, content, given),
        }
        return Write("learn", lesson, scope, stored, idempotency_key)
    if given:
        name = next(iter(given))
        raise UsageError(
            f"`{name}` belongs to a lesson",
            hint=f"pass `type`, one of {', '.join(LESSONS)}, or leave `{name}` out",
        )
    topic, place = (None, scope) if key is None else parse_key(key, scope)
    kept: dict[str, Any] = {"text": content, "key": topic, "scope": place, "type": kind, "tags": tags or []}
    kept["mode"] = "replace" if replace else "append"
    # An approval or a retry is identified by the arguments, so an absent argument stays absent.
    more = {"confidence": confidence, "team": team}
    kept |= {name: value for name, value in more.items() if value is not None}
    return Write("store", {**kept, "slug": True}, place, stored, idempotency_key)


def count_use(key: str | None, scope: str, content: str, idempotency_key: str | None) -> Write:
    """Return the write that counts one more use of the lesson of this key."""
    if not key:
        raise UsageError("`applied` needs the `key` of the lesson", hint="pass the key that memory shows")
    if content.strip():
        raise UsageError(
            "`applied` only counts", hint="leave `content` empty; to add what you learned, save it separately"
        )
    name, place = parse_key(key, scope)
    # The key of a lesson suffices: a project's lesson and a global one are both found without their scope.
    only = None if place == PROJECT else place
    return Write("count_use", {"name": name, "scope": only}, place, counted, idempotency_key)


# The type of a lesson that a part stands for, where no type is named.
_TYPE_OF_PART = {"error": "solution", "steps": "workflow", "impact": "failure", "prevention": "failure"}
# For each type of lesson, the field that `content` is, and the parts that it may have.
_FIELDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "discovery": ("fact", ()),
    "solution": ("solution", ("error",)),
    "pattern": ("pattern", ()),
    "workflow": ("sequence", ("steps", "success_rate")),
    "failure": ("what", ("impact", "prevention")),
    "rule": ("rule", ("path",)),
}


def _lesson_type(given: Mapping[str, Any]) -> str | None:
    return next((_TYPE_OF_PART[name] for name in given if name in _TYPE_OF_PART), None)


def _check_lesson(kind: str, given: Mapping[str, Any], **without: str | None) -> None:
    """Raise for an argument that this type of lesson does not take, and for one that it lacks."""
    for name, value in without.items():
        if value is not None:
            hint = f"leave `{name}` out: a known lesson is found by its words"
            raise UsageError(f"a {kind} takes no `{name}`", hint=hint)
    own = (*_FIELDS[kind][1], "examples")
    for name in given:
        if name not in own:
            raise UsageError(f"a {kind} has no `{name}`", hint=f"it has {', '.join(['content', *own])}")
    if kind == "solution" and "error" not in given:
        hint = "pass the error as `error`, and what fixed it as `content`"
        raise UsageError("a solution needs `error`", hint=hint)


def _lesson_fields(kind: str, content: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a lesson, whose main field is `content`."""
    main, own = _FIELDS[kind]
    fields = {name: given[name] for name in own if name in given and name != "steps"}
    return {**fields, main: _steps(content, given.get("steps")) if kind == "workflow" else content}


def _steps(content: str, steps: list[str] | None) -> list[str]:
    """Return the steps of a workflow; the first step begins with the workflow's purpose."""
    if not steps:
        return [line.strip() for line in content.splitlines() if line.strip()]
    return [f"{content.rstrip(' .:')}: {steps[0]}", *steps[1:]] if content.strip() else steps


@tool("Note in the journal", noted, postponed_json)
def memory_note(
    content: Annotated[str, "", TextSize(0, LONGEST)],
    scope: Annotated[str, "", JOURNALS, Unlisted((str(Scope.AGENT),))] = PROJECT,
    idempotency_key: Retry = None,
) -> Write:
    """Append to today's journal."""
    return Write("note", {"text": content, "scope": scope}, scope, noted, idempotency_key)


@tool("Forget a record", forgotten, postponed_json, destructive=True, idempotent=True)
def memory_forget(
    key: Annotated[str, "", Spellings(("path",))],
    scope: ScopeArgument = PROJECT,
    idempotency_key: Retry = None,
) -> Write:
    """Move a record to the archive."""
    name, place = parse_key(key, scope)
    return Write("forget", {"name": name, "scope": place}, place, forgotten, idempotency_key)


@tool("Read an earlier session", session_answer_json, session_log_json, read_only=True)
def session_get(
    *,
    session: Annotated[str, "", Spellings(("session_id", "path"))],
    place: Annotated[LineOrId | None, "", Spellings(("line", "from", "startLine", "start_line"))] = None,
    lines: Annotated[int | None, "", Span(1, 200)] = None,
    raw: Annotated[bool, ""] = False,
) -> Read:
    """Return turns of a session, or lines of its log as they were written."""
    which, start = parse_session(session), 1 if place is None else place

    def do(memory: Memory) -> dict[str, Any]:
        most = memory.settings.limits.answer_chars
        if not raw:
            return session_answer(memory.sessions.read(which, start, lines=lines))
        found = memory.sessions.get(which, start, lines=lines or LISTED_LINES)
        return session_log(which, found, most)

    return Read(do)


CORE: tuple[Tool, ...] = (
    memory_search,
    memory_get,
    memory_store,
    memory_note,
    memory_forget,
    session_get,
)
