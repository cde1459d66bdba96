"""The contract of a search: the query that somebody types, and the answer.

Filters are taken out of a question, and its other words are searched for; any text is legal. An answer has
passages with their lines, and says how much of the memory was searched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vademecum.errors import UsageError
from vademecum.index import moment, words
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.search import evidence, relevance, updates
from vademecum.search.question_times import NO_TIMES, end_of_day
from vademecum.text import clock, names
from vademecum.types import RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.index import Filter
    from vademecum.search.engine import Options
    from vademecum.search.evidence import FoundConversation
    from vademecum.search.question_times import TimesAsked
    from vademecum.types import Place

TRANSCRIPT = "transcript"  # the source of passages from sessions


class Cited(NamedTuple):
    """A place in the project's code that a passage cites, and whether the citation still holds."""

    cited: str
    standing: str  # verified, moved, changed or gone
    why: str = ""


class Passage(NamedTuple):
    """Lines of a file that answer a question, with the reasons why they were found and where they belong."""

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
    stale: str | None = None  # the mark of its entry, if the entry is outdated
    related: Mapping[str, str] | None = (
        None  # for a related record: the hit it relates to, the relation and its origin
    )
    team: str = ""  # the team that shares it
    vouched: tuple[str, ...] = ()  # members that a hub counts as verifiers
    role: str = ""  # who said it, if it is a turn of a conversation
    group: int = 0  # the number of its conversation in the answer
    newer: str = ""  # where a later result gives another value to what this one is about
    heard: str = ""  # "not confirmed" for what was heard in a session and no person accepted

    @property
    def match(self) -> str:
        """How likely the passage answers: `strong`, `likely` or `weak`."""
        return relevance.match(self.relevance)


class Coverage(NamedTuple):
    """The part of the memory that a search covered, in numbers."""

    files: int = 0
    indexed: int = 0
    pending: int = 0
    failed: int = 0
    vectors_pending: int = 0
    sessions: int = 0  # searched sessions
    sessions_read: int = 0  # passages of sessions that a model has read, if any,
    sessions_unread: int = 0  # and unread ones
    read: int = 0  # curated passages that a model has read
    unread: int = 0  # and unread ones: `vade index` has them read

    @property
    def share(self) -> float:
        """The share of files that are indexed, from 0 to 1."""
        return 1.0 if not self.files else self.indexed / self.files


_UNSEARCHED = Coverage()


@dataclass(frozen=True, slots=True)
class Answer:
    """The passages that answer a question, with the coverage and the problems of the search."""

    results: tuple[Passage, ...]
    mode: str
    coverage: Coverage = _UNSEARCHED
    degraded: tuple[str, ...] = ()
    provider: str = "none"
    model: str = ""
    notes: tuple[str, ...] = ()  # how the question was understood, where that differs from its words
    hidden: int = 0  # results that the caller's `min_score` left out
    read: bool = False  # whether a model read the question
    hub: str = ""  # the workspace of a hub that answered instead of this home
    conversations: tuple[FoundConversation, ...] = ()  # those that hold results, with turns beside the hits
    now: datetime | None = None  # the moment that it was asked at, if not the clock's

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


def without_weak(found: Answer, most: int) -> Answer:
    """Return an answer; if all its results are weak, keep only the first `most` and add a note.

    If any result is a turn of a conversation, all results stay, because half of the turns that answer are
    called weak. A negative `most` changes nothing.
    """
    if found.mode == "metadata" or found.match != relevance.WEAK or most < 0:
        return found
    left = found.results if any(each.role for each in found.results) else found.results[:most]
    notes = relevance.only_weak(len(found.results), len(left))
    return replace(found, results=left, notes=(*found.notes, *notes))


def merged(
    notes: Sequence[Passage], said: Sequence[Passage], places: int, *, sort_by: str | None = None
) -> tuple[Passage, ...]:
    """Return passages of notes and of sessions as one list, the best first, without repeated texts.

    The scores of both begin at about 1, whatever was found. So a passage's score is lowered if its relevance
    and that of the passages after it are low. With `sort_by` recency, the newest come first and weak matches
    last; with another order, notes come first. The passages of one conversation take one of the `places`.
    """
    if not notes or not said:
        return (*notes, *said)
    both = [*notes, *said]
    if sort_by is None:
        both = sorted([*_on_one_scale(notes), *_on_one_scale(said)], key=lambda each: -each.score)
    elif sort_by == "recency":
        both.sort(key=lambda each: moment(each.time or "") or "", reverse=True)
        both.sort(key=lambda each: each.match == relevance.WEAK)
    groups: dict[str, None] = {}
    taken, out = 0, []
    repeated = evidence.repetitions([(each.source, each.snippet) for each in both])
    for each in [each for at, each in enumerate(both) if at not in repeated]:
        if not each.role:
            taken += 1
        elif each.path not in groups:
            taken += 1
            groups[each.path] = None
        if taken > places:
            break
        out.append(each)
    return tuple(out)


def _on_one_scale(passages: Sequence[Passage]) -> list[Passage]:
    best = 0.0
    out = []
    # Each counts at least as relevant as those after it, so that their order stays.
    for each in reversed(passages):
        best = max(best, each.relevance)
        out.append(each._replace(score=round(each.score * (1 + best) / 2, 4)))
    return out[::-1]


def newer_first(results: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return results in which an earlier statement refers to the newer one, and comes after it.

    A statement is newer if it gives another value to the same thing on a later day. Related records and
    superseded entries are not compared.
    """
    told = [each.related is None and each.superseded is None for each in results]
    newer = updates.find_newer(
        [(each.snippet, (each.time or "") if tell else "") for each, tell in zip(results, told, strict=True)]
    )
    order = list(range(len(results)))
    for at, later in newer.items():
        if order.index(later) > order.index(at):
            order.remove(later)
            order.insert(order.index(at), later)
    marked = [
        each._replace(newer=f"{results[newer[at]].path}#L{results[newer[at]].start}") if at in newer else each
        for at, each in enumerate(results)
    ]
    scores = [each.score for each in results]  # they stay with the places, so they stay in order
    return tuple(marked[at]._replace(score=score) for at, score in zip(order, scores, strict=True))


def asks_sessions(query: Query, options: Options) -> bool:
    """Return whether sessions are searched for a question too.

    Sessions have no type and no tags, and belong to a project. If the question names no source, they are
    searched only for a text, in the modes `hybrid` and `bm25`.
    """
    if query.type is not None or query.tags or query.scope not in (None, Scope.PROJECT):
        return False
    if query.sources:
        return TRANSCRIPT in query.sources
    return options.mode in ("hybrid", "bm25") and bool(query.text)


def nothing(why: str) -> Answer:
    """Return an empty answer that says why it is empty."""
    return Answer((), "none", Coverage(), (why,))


# --- what is asked ----------------------------------------------------------------------------------------

_FILTER = lazy_pattern(r'(?<!\S)(scope|type|tag|after|before|path|by):("[^"]*"|\S+)', re.IGNORECASE)
_OF_SESSIONS = frozenset({"after", "before", "path", "by"})  # filters that sessions have, too
_COUNTS = lazy_pattern(
    r"\bhow (?:many|often)\b|\bwhich of\b|\b(?:list|name) (?:all|every|each)\b|\ball (?:the|my|of|our)\b"
    r"|\b(?:in total|altogether|in all)\b|\bwie ?viele\b|\bwie oft\b|\bcombien de\b|\bcuánt[oa]s\b"
    r"|多少|几个|几次|いくつ|何回",
    re.IGNORECASE,
)
_YEAR_OR_MONTH = lazy_pattern(r"(\d{4})(?:-(\d\d))?", re.ASCII)
_DATES = "2026-11-15, 2026-11 or 2026-11-15T08:00:00Z"
MOST_NOTES = 5  # notes about one question
_AGENTS = frozenset({"assistant", "agent", "ai", "bot", "model"})
_SPEAKERS = (words.PERSON, _AGENTS, frozenset({"tool", "system"}))


class Query(NamedTuple):
    """A query as the search uses it: its words, and the filters for answers."""

    text: str
    scope: Scope | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    after: str | None = None
    before: str | None = None
    path: str | None = None
    sources: tuple[str, ...] = ()
    as_of: str | None = None
    phrases: tuple[str, ...] = ()  # phrases that an answer must contain
    notes: tuple[str, ...] = ()  # how it was understood, where that differs from its words
    times: TimesAsked = NO_TIMES  # times that it mentions
    now: datetime | None = None  # the moment that it is asked at, if not the clock's
    by: str | None = None  # who said or wrote it: user, agent, tool, or a name

    @property
    def until(self) -> str | None:
        """The moment after which nothing answers: the end of the day of `now`; None without `now`.

        It is also None for a question about a time after `now`, or with a filter for times.
        """
        if self.now is None or self.as_of or self.after or self.before:
            return None
        local = self.now.replace(tzinfo=None)  # as spans are: seen from where one asks
        starts = [span.start.replace(tzinfo=None) for span in self.times.spans if span.start is not None]
        return None if any(start > local for start in starts) else clock.stamp(end_of_day(self.now))

    @property
    def speakers(self) -> tuple[str, ...]:
        """The speakers and origins that the filter `by:` stands for; none without it."""
        if self.by is None:
            return ()
        name = self.by.lower()
        return next((tuple(sorted(each)) for each in _SPEAKERS if name in each), (name,))

    def allows(self, path: str, speaker: str, time: str) -> bool:
        """Return whether a message of a session passes the filters, as it would in the index of sessions."""
        at = moment(time)
        return (
            (not self.speakers or speaker in self.speakers)
            and (self.path is None or self.path in path)
            and (self.after is None or (at or "") >= self.after)
            and (self.before is None or (at or "9") < self.before)
            and (self.until is None or at is None or at <= self.until)
        )


def parse(text: str, *, sessions: bool = False) -> Query:
    """Return a text as a query: its words, and its filters such as `scope:`, `after:` or `by:`.

    A filter with an invalid value stays in the text as words, and a note says so: `after:lunch` asks about
    lunch. With `sessions`, so does a filter that only notes have. An answer must contain each quoted phrase.
    """
    clean = readable(text)
    query = Query("")
    notes: dict[str, None] = {}

    def take(match: re.Match[str]) -> str:
        nonlocal query
        name, value = match[1].lower(), match[2].strip('"')
        unfit = sessions and name not in _OF_SESSIONS
        found = None if unfit else _with(query, name, value)
        if found is None:
            if len(notes) < MOST_NOTES:
                note = _note_unfit_filter(match[0]) if unfit else _note_invalid_filter(match[0], name)
                notes[note] = None
            return match[0]
        query = found
        return " "

    left = _FILTER.sub(take, clean)
    words_left = " ".join(left.split())
    return query._replace(text=words_left, phrases=words.phrases_in(words_left), notes=tuple(notes))


def readable(text: str) -> str:
    """Return a text in a form that a database accepts: without surrogates and NUL characters."""
    return text.encode("utf-8", "ignore").decode().replace("\0", " ")


def counts(question: str) -> bool:
    """Return whether a question counts or lists, so that it needs all of its answers."""
    return _COUNTS.search(question) is not None


def _with(query: Query, name: str, value: str) -> Query | None:
    """Return the query with one more filter; None when the value of the filter is invalid."""
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
    if name in ("path", "by"):
        return query._replace(path=value) if name == "path" else query._replace(by=value)
    return query if value in query.tags else query._replace(tags=(*query.tags, value))


def _note_unfit_filter(written: str) -> str:
    return f"{names.shown(written)} filters notes alone and was searched as words"


def _note_invalid_filter(written: str, name: str) -> str:
    """Return a note that the value of a filter is invalid, with an example of a valid value."""
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
    """Return the first moment of a year, month or day, or a moment as it is; None for any other text."""
    short = _YEAR_OR_MONTH.fullmatch(value.strip())
    return moment(f"{short[1]}-{short[2] or '01'}-01" if short else value)


def without_phrases(query: Query) -> Query:
    """Return the query with its quoted phrases turned into plain words, and with a note about the change."""
    said = " and ".join(names.shown(each) for each in query.phrases)
    note = f"no passage contains the phrase {said}; its words were searched"
    if len(query.phrases) > 1:
        note = f"no passage contains the phrases {said} together; their words were searched"
    return query._replace(phrases=(), notes=(*query.notes, note))


def as_of(text: str) -> str:
    """Return the moment as of which a search sees the memory; a date alone means the end of that day."""
    when = moment(text)
    if when is None:
        raise UsageError(
            f"{names.shown(text)} is not a date or time",
            hint="write it as 2026-11-15 or 2026-11-15T08:00:00Z",
        )
    return f"{when[:10]}T23:59:59Z" if re.fullmatch(r"\s*\d{4}-\d\d-\d\d\s*", text) else when


def narrowed(visible: Filter, query: Query) -> Filter:
    """Return the filter of what the caller may see, narrowed by the filters of the query."""
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
        until=query.until,
        speakers=query.speakers,
    )
