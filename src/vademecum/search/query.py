"""Questions as they are typed: filters taken out, the rest left as words; any string is legal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import UsageError
from vademecum.index import words
from vademecum.index.corpus import moment
from vademecum.store import names
from vademecum.types import RecordType, Scope

if TYPE_CHECKING:
    from vademecum.index.base import Filter

_FILTER = re.compile(r'(?<!\S)(scope|type|tag|after|before|path):("[^"]*"|\S+)', re.IGNORECASE)
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?", re.ASCII)
_DATES = "2026-11-15, 2026-11 or 2026-11-15T08:00:00Z"
MOST_NOTES = 5  # about one question


class Query(NamedTuple):
    """What is asked: words, and what an answer must be."""

    text: str
    scope: Scope | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    after: str | None = None
    before: str | None = None
    path: str | None = None
    sources: tuple[str, ...] = ()
    as_of: str | None = None
    phrases: tuple[str, ...] = ()  # that an answer must hold
    notes: tuple[str, ...] = ()  # how it was read, where that is not what was typed


def parse(text: str) -> Query:
    """Take `scope:`, `type:`, `tag:`, `after:`, `before:` and `path:` out of a question.

    A filter whose value is none stays in the text as words, and a note says so: `after:lunch` asks about
    lunch. What stands in quotation marks is a phrase that answers must hold.
    """
    clean = readable(text)
    query = Query("")
    notes: dict[str, None] = {}

    def take(match: re.Match[str]) -> str:
        nonlocal query
        name, value = match[1].lower(), match[2].strip('"')
        found = _with(query, name, value)
        if found is None:
            if len(notes) < MOST_NOTES:
                notes[_searched_as_words(match[0], name)] = None
            return match[0]
        query = found
        return " "

    left = _FILTER.sub(take, clean)
    words_left = " ".join(left.split())
    return query._replace(text=words_left, phrases=words.phrases_in(words_left), notes=tuple(notes))


def readable(text: str) -> str:
    """A text that a database takes: without half characters and NULs."""
    return text.encode("utf-8", "ignore").decode().replace("\0", " ")


def _with(query: Query, name: str, value: str) -> Query | None:
    """The query with one more filter, or None when the value makes no sense."""
    if name == "scope":
        return query._replace(scope=Scope(value)) if value in set(Scope) else None
    if name == "type":
        return query._replace(type=value) if value in set(RecordType) else None
    if name in ("after", "before"):
        when = beginning(value)
        if when is None:
            return None
        return query._replace(after=when) if name == "after" else query._replace(before=when)
    if not value:
        return None
    if name == "path":
        return query._replace(path=value)
    return query if value in query.tags else query._replace(tags=(*query.tags, value))


def _searched_as_words(written: str, name: str) -> str:
    """Say that a filter is none, and what would be one."""
    choices = {
        "scope": f"the scopes are {', '.join(Scope)}",
        "type": f"the types are {', '.join(RecordType)}",
        "after": f"a date is written as {_DATES}",
        "before": f"a date is written as {_DATES}",
    }
    return f"{names.shown(written)} is not a filter and was searched as words; " + choices.get(
        name, f"`{name}:` needs a value"
    )


def beginning(value: str) -> str | None:
    """The first moment of a year, a month or a day, or a moment itself; None when it is no time at all."""
    short = _YEAR_OR_MONTH.fullmatch(value.strip())
    return moment(f"{short[1]}-{short[2] or '01'}-01" if short else value)


def without_phrases(query: Query) -> Query:
    """The same question with its phrases as words, and a note of it."""
    said = " and ".join(names.shown(each) for each in query.phrases)
    note = f"no passage holds the phrase {said}; its words were searched"
    if len(query.phrases) > 1:
        note = f"no passage holds the phrases {said} together; their words were searched"
    return query._replace(phrases=(), notes=(*query.notes, note))


def as_of(text: str) -> str:
    """A moment to answer from; a date alone means its end."""
    when = moment(text)
    if when is None:
        raise UsageError(
            f"{names.shown(text)} is not a date or time",
            hint="write it as 2026-11-15 or 2026-11-15T08:00:00Z",
        )
    return f"{when[:10]}T23:59:59Z" if re.fullmatch(r"\s*\d{4}-\d\d-\d\d\s*", text) else when


def narrowed(visible: Filter, query: Query) -> Filter:
    """Of what somebody sees, what a question asks for."""
    places = visible.places
    if query.scope is not None and places is not None:
        places = tuple(place for place in places if place.scope is query.scope)
    return visible._replace(
        places=places,
        type=query.type,
        tags=query.tags,
        path=query.path,
        sources=query.sources,
        after=query.after,
        before=query.before,
        as_of=query.as_of,
    )
