"""The contract of a search: what is asked, as it is typed, and what is returned.

Filters are taken out of a question and the rest is left as words; any string is legal. An answer has passages
with their lines, and says how much of what is there they were chosen from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import UsageError
from vademecum.index import words
from vademecum.index.corpus import moment
from vademecum.search import relevance
from vademecum.search.when import NO_TIMES
from vademecum.text import names
from vademecum.types import RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vademecum.index.base import Filter
    from vademecum.search.engine import Options
    from vademecum.search.when import TimesAsked
    from vademecum.types import Place

TRANSCRIPT = "transcript"  # the source of what was said in a session


class Cited(NamedTuple):
    """Something of the project that a passage cites, and how it stands now."""

    cited: str
    standing: str  # verified, moved, changed or gone
    why: str = ""


class Passage(NamedTuple):
    """The unit of an answer: lines of a file, why they were found, and what they belong to."""

    path: str
    start: int
    end: int
    snippet: str
    score: float
    relevance: float
    source: str
    place: Place
    components: Mapping[str, float]
    title: str = ""
    key: str | None = None
    type: str | None = None
    num: int | None = None
    tags: tuple[str, ...] = ()
    time: str | None = None
    origin: str | None = None
    superseded: str | None = None
    arithmetic: Mapping[str, float] | None = None
    claims: tuple[Cited, ...] = ()
    stale: str | None = None  # how its entry is marked
    related: Mapping[str, str] | None = None  # to which hit, how and by whose word, when it is none itself
    team: str = ""  # the team that shares it
    vouched: tuple[str, ...] = ()  # members whose word counts for it, as a hub says

    @property
    def match(self) -> str:
        """How likely it answers: `strong`, `likely` or `weak`."""
        return relevance.match(self.relevance)


class Coverage(NamedTuple):
    """How much of what is there an answer could draw upon."""

    files: int = 0
    indexed: int = 0
    pending: int = 0
    failed: int = 0
    vectors_pending: int = 0
    sessions: int = 0  # that were searched as well; none when notes had filled every place
    sessions_read: int = 0  # passages of them that a model has read, once that was asked for,
    sessions_unread: int = 0  # and those that it has not
    read: int = 0  # passages that a model has read, of what is curated
    unread: int = 0  # and those that it has not: `vade index` has them read

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return 1.0 if not self.files else self.indexed / self.files


_UNSEARCHED = Coverage()


@dataclass(frozen=True, slots=True)
class Answer:
    """A sequence of passages, and what the search covered: an empty answer is never a hidden error."""

    results: tuple[Passage, ...]
    mode: str
    coverage: Coverage = _UNSEARCHED
    degraded: tuple[str, ...] = ()
    provider: str = "none"
    model: str = ""
    notes: tuple[str, ...] = ()  # how the question was read, where that is not what was typed
    hidden: int = 0  # how many the caller's own `min_score` left out
    read: bool = False  # whether the question was read
    hub: str = ""  # the workspace of a hub that answered, instead of this home

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.results)

    def __getitem__(self, at: int) -> Passage:
        return self.results[at]

    @property
    def match(self) -> str:
        """How likely the best result answers: `strong`, `likely` or `weak`; `none` without results."""
        best = max((each.relevance for each in self.results if each.related is None), default=None)
        return "none" if best is None else relevance.match(best)

    def by_match(self) -> list[Passage]:
        """The results as people read them: strong, likely, then weak ones, each in their order.

        What only lists, or was put in an order of the caller's, stays as it is.
        """
        if self.mode == "metadata":
            return list(self.results)
        hits = [each for each in self.results if each.related is None]
        beside = [each for each in self.results if each.related is not None]
        return [*sorted(hits, key=lambda each: relevance.MATCHES.index(each.match)), *beside]


def without_weak(found: Answer, most: int) -> Answer:
    """An answer in which only so many are left when all are weak, and which then says so."""
    if found.mode == "metadata" or found.match != relevance.WEAK or most < 0:
        return found
    note = "only weak matches were found; they may not answer the question"
    return replace(found, results=found.results[:most], notes=(*found.notes, note))


def joined(found: Answer, said: Sequence[Passage], most: int) -> tuple[Passage, ...]:
    """Notes and then what was said in sessions; of the notes, weak ones at the end make room."""
    notes = list(found.results)
    while len(notes) + len(said) > most and notes and notes[-1].match == relevance.WEAK:
        notes.pop()
    return (*notes, *said)[:most]


def places_left(query: Query, options: Options, taken: int) -> int:
    """How many places what was said in sessions may take: those that notes left free, and few of all.

    Notes come first, whatever was said; only who asks for nothing else gets nothing else.
    """
    if query.type is not None or query.tags or query.scope not in (None, Scope.PROJECT):
        return 0  # what was said has neither, and belongs to a project
    if query.sources == (TRANSCRIPT,):
        return options.max_results
    by_words = options.mode in ("hybrid", "bm25") and bool(query.text)
    if (TRANSCRIPT not in query.sources) if query.sources else not by_words:
        return 0
    return max(0, min(options.max_results - taken, max(1, options.max_results // 3)))


def nothing(why: str) -> Answer:
    """An answer that holds nothing, and says why."""
    return Answer((), "none", Coverage(), (why,))


# --- what is asked ----------------------------------------------------------------------------------------

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
    times: TimesAsked = NO_TIMES  # that it speaks of


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
    note = f"no passage contains the phrase {said}; its words were searched"
    if len(query.phrases) > 1:
        note = f"no passage contains the phrases {said} together; their words were searched"
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
