"""Declare the answers of the tools: short, because every word of them takes room in a model's context.

A search result has the fields of `passage` that agents know from other tools. All others are left out where
they would say nothing: the scope and the type if they are `project`, a number that is 0.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from vademecum.interfaces.present.shape import COUNT, NUMBER, TEXT, JsonShape, at, by_name, many, optional
from vademecum.interfaces.present.to_json import claim_json, line_json, session_line_json
from vademecum.search.relevance import ONLY_WEAK
from vademecum.text.fit import cut_to, json_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum import Answer
    from vademecum.search.base import Passage
    from vademecum.store import FileLines
    from vademecum.transcripts import Excerpt, ExcerptTurn, Line

_TITLE_CHARS = 80
_ENVELOPE = 600  # characters that an answer has besides its results or its text
TRANSCRIPT = "transcript"
_LOGS = "transcripts/"


def _only(field: str, usual: str) -> Callable[[Passage], str]:
    """Return a function that reads a field, and leaves the usual value out."""

    def read(passage: Passage) -> str:
        found = getattr(passage, field) or ""
        return "" if found == usual else found

    return read


def _key(passage: Passage) -> str:
    key = passage.key or ""
    return "" if PurePosixPath(passage.path).stem == key else key


def _scope(passage: Passage) -> str:
    scope = str(passage.place.scope)
    return "" if scope == "project" or passage.source == TRANSCRIPT else scope


def _source(passage: Passage) -> str:
    """Return where a passage is from; '' for a message of a session, whose path and role say it."""
    return "" if passage.source == TRANSCRIPT and passage.role else passage.source


def _origin(passage: Passage) -> str:
    """Return whom a passage is from, if not from an agent; a message of a session has its role instead."""
    if passage.source == TRANSCRIPT and passage.role:
        return ""
    return "" if passage.origin == "agent" else passage.origin or ""


def _time(passage: Passage) -> str:
    """Return the day of a note or the minute of a message; '' for a passage of a conversation."""
    if passage.group:
        return ""
    return (passage.time or "")[: 16 if passage.source == TRANSCRIPT else 10]


def _session(passage: Passage) -> str:
    in_session = passage.source == TRANSCRIPT and not passage.group
    return PurePosixPath(passage.path).stem if in_session else ""


def _title(passage: Passage) -> str:
    in_session = passage.source == TRANSCRIPT and not passage.group
    return passage.title[:_TITLE_CHARS] if in_session else ""


hit_json = JsonShape(
    "search_result",
    "path startLine:int=start endLine:int=end score match! snippet",
    source=at(_source, optional(TEXT)),
    score=at(lambda passage: round(passage.score, 2), NUMBER),
    key=at(_key, optional(TEXT)),
    scope=at(_scope, optional(TEXT)),
    type=at(_only("type", "project"), optional(TEXT)),
    time=at(_time, optional(TEXT)),
    session=at(_session, optional(TEXT)),
    title=at(_title, optional(TEXT)),
    role=optional(TEXT),
    group=optional(COUNT),
    origin=at(_origin, optional(TEXT)),
    superseded=optional(TEXT),
    newer=optional(TEXT),
    heard=optional(TEXT),
    related=optional(by_name(TEXT)),
    claims=optional(many(claim_json)),
    stale=optional(TEXT),
    team=optional(TEXT),
    vouched=optional(many(TEXT)),
)
_turn_beside = JsonShape("turn_beside", "line:int role text")
group_json = JsonShape(
    "conversation_found",
    "group:int session title time turns",
    session=at(
        lambda found: PurePosixPath(found.path).stem if found.path.startswith(_LOGS) else "", optional(TEXT)
    ),
    title=at(lambda conversation: conversation.title[:_TITLE_CHARS], optional(TEXT)),
    time=at(lambda conversation: conversation.time[:16], optional(TEXT)),
    turns=optional(many(_turn_beside)),
)
_COUNTS = {
    "pending": "pending",
    "failed": "failed",
    "vectorsPending": "vectors_pending",
    "sessions": "sessions",
    "sessionsUnread": "sessions_unread",
}
coverage_json = JsonShape(
    "search_coverage",
    "files:int indexed:int",
    **{name: at(source, optional(COUNT)) for name, source in _COUNTS.items()},
)


def message_of(found: Answer) -> str:
    """Return a line that warns of an empty or weak answer; '' for other answers."""
    if not found.results:
        about = "" if found.mode == "metadata" else " about this"
        return f"Nothing found{about}{', but see degraded' if found.degraded else ' in memory'}."
    if found.match == "weak":
        return "Nothing answers this well; these weak matches may be about something else."
    return ""


search_answer_json = JsonShape(
    "search_answer",
    "results conversations match! provider model mode coverage degraded:list",
    results=many(hit_json),
    conversations=optional(many(group_json)),
    coverage=coverage_json,
    hidden=optional(COUNT),
    # The message says it.
    notes=at(lambda found: [each for each in found.notes if each != ONLY_WEAK], optional(many(TEXT))),
    hub=optional(TEXT),
    message=at(message_of, optional(TEXT)),
)


def search_answer(found: Answer, chars: int) -> dict[str, Any]:
    """Return an answer within a number of characters; the last results are left out if they do not fit."""
    made = search_answer_json(found)
    if found.mode == "metadata":  # a list answers no question, so nothing in it matches well or badly
        for each in (made, *made["results"]):
            each.pop("match", None)
    groups = {each["group"]: each for each in made.get("conversations", ())}
    left, kept, kept_groups = chars - _ENVELOPE, 0, []
    for each in made["results"]:
        group = groups.pop(each.get("group"), None)  # it comes with its first result
        left -= json_size(each) + 1 + (0 if group is None else json_size(group) + 1)
        if left < 0:
            break
        kept += 1
        kept_groups += [] if group is None else [group]
    if left < 0:
        more = len(made["results"]) - kept
        made["results"] = made["results"][:kept]
        if "conversations" in made:
            made["conversations"] = kept_groups
        note = f"{more} more results did not fit: ask with a smaller `limit`, or more exactly"
        made["notes"] = [*made.get("notes", ()), note]
    return made


# ---------------------------------------------------------------- lines of files, turns of sessions

lines_answer_json = JsonShape(
    "lines_read",
    "text path",
    startLine=at("start", optional(COUNT)),
    endLine=at("end", optional(COUNT)),
    lines=optional(COUNT),
    next=optional(TEXT),
    message=optional(TEXT),
)


def lines_answer(found: FileLines, chars: int, *, skipped: int = 0) -> dict[str, Any]:
    """Return lines within a number of characters, and the place to read on at: `LINE` or `LINE:CHARACTER`.

    `skipped` is the number of characters at the beginning that are left out.
    """
    if not found.lines:
        return lines_answer_json(text="", path=found.path, message="there is no such file")
    text = found.text[skipped:]
    part = cut_to(text, chars - _ENVELOPE)
    if part == text:
        return lines_answer_json(found, text=text, next="", message="")
    lines = part.count("\n")
    column = len(part) - part.rfind("\n") - 1 + (0 if lines else skipped)
    place = f"{found.start + lines}:{column + 1}" if column else f"{found.start + lines}"
    end = found.start + lines - (not column)
    return lines_answer_json(
        found,
        text=part,
        endLine=end,
        next=place,
        message=f'read on with "place": "{place}"',
    )


_turn = JsonShape("session_turn", "place:int role time! text")
session_answer_json = JsonShape(
    "session_read",
    "session title! turns next!",
    turns=many(_turn),
    message=optional(TEXT),
)
session_log_json = JsonShape("session_log", "session lines next!", lines=many(session_line_json))


def session_answer(found: Excerpt) -> dict[str, Any]:
    """Return turns of a session, and how to read on."""
    message = f'read on with "place": "{found.next}", "lines": {found.lines}' if found.next else ""
    if not found.turns:
        message = "There are no turns from here on."
    return session_answer_json(found, message=message)


def session_text(found: Excerpt, path: str) -> dict[str, Any]:
    """Return turns of a session in the shape of lines of a file."""
    text = "\n\n".join(map(_turn_text, found.turns))
    last = found.turns[-1].place if found.turns else 0
    first = found.turns[0].place if found.turns else 0
    message = f'read on with "place": "{found.next}"' if found.next else ""
    return lines_answer_json(
        text=text, path=path, startLine=first, endLine=last, lines=0, next=found.next, message=message
    )


def _turn_text(turn: ExcerptTurn) -> str:
    return f"[{turn.place}] {turn.role}{f', {turn.time}' if turn.time else ''}\n{turn.text}"


def session_log(session: str, lines: Sequence[Line], chars: int) -> dict[str, Any]:
    """Return lines of a log within a number of characters; a line that is too long is replaced by a note."""
    made: list[dict[str, Any]] = []
    left = chars - _ENVELOPE
    for each in lines:
        line = line_json(each)
        size = json_size(line)
        if size > chars - _ENVELOPE:
            why = f"{size:,} characters are more than one answer takes: read the turn without `raw`"
            line = {"line": each.number, "torn": why, "size": size}
            size = json_size(line)
        if size > left:
            return session_log_json(session=session, lines=made, next=str(each.number))
        left -= size + 1
        made.append(line)
    return session_log_json(session=session, lines=made, next="")
