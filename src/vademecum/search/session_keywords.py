"""Search sessions by their words alone, and return the messages with the most points.

The logs are read line by line, the newest session first, without an index. A result must contain a word of
the question: points for the role or the session's title only change the order of results.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import (
    OutsideMemory,
    StorageFailed,
    UnknownName,
)
from vademecum.search import relevance
from vademecum.search.legs import PREVIEW, around, lowered
from vademecum.text import names
from vademecum.text.outgoing import clean_text
from vademecum.transcripts import (
    ASIDE,
    MessageEvent,
    OpenMemoryCalls,
    Role,
    is_aside,
    is_memory_call,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vademecum.transcripts import Log, Message, Session

RANKINGS = ("relevance", "keywords")
MAX_SESSIONS, MOST_SESSIONS = 10, 50
MAX_RESULTS, MOST_RESULTS = 5, 20

_SPLIT = re.compile(r"[\s\-_.,;:!?()\[\]{}'\"/\\]+")
_SHORTEST = 10  # characters; a shorter text says nothing by itself
_CALLING = (b"vade", b"memory_", b"session_")  # the line of a memory tool call contains one of these
_SAME = 80  # messages of a session with the same first characters count as one
_DENSE = 0.7  # the share of the keywords
_ROLES = {Role.ASSISTANT: 0.3, Role.USER: 0.2}
_STOP = frozenset(
    """a about all also an and any are as at be been but by can could did do does for from get had has have
    he her his how i if in into is it its just like me more my no not of on or our out she should so some
    than that the their them then there these they this to up us was we were what when where which who why
    will with would you your""".split()
)


class Hit(NamedTuple):
    """A message that matches a query: its position, and the part of its text around the match."""

    session: str
    project: str
    title: str
    role: str
    turn: int  # the number of the user's request, from 1; 0 before the first request
    line: int  # the line in the log
    time: str
    preview: str
    score: float
    keyword_hits: int
    exact: bool
    relevance: float = 0.0  # from 0 to 1; 0.0 from the keyword ranking, which has no relevance
    reranked: tuple[float, int] | None = None  # the score of a reranking model, and the rank before reranking

    @property
    def match(self) -> str:
        """How likely the hit answers the query: `strong`, `likely` or `weak`; '' without a relevance."""
        return relevance.match(self.relevance) if self.relevance else ""


class SessionHits(NamedTuple):
    """The messages found by a search, how many sessions were searched, and problems with other sessions."""

    hits: tuple[Hit, ...] = ()
    sessions: int = 0
    degraded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # how the query was understood, and what else was searched
    read: bool = False  # whether a model read the query
    passages_read: int = 0  # passages that a model has read, once that was turned on
    passages_unread: int = 0


class KeywordQuery(NamedTuple):
    """A query as its words in lower case, for a search by words alone."""

    text: str
    keywords: tuple[str, ...]


def parse_query(text: str) -> KeywordQuery:
    """Return the words of a query in lower case, each once, without stop words."""
    lower = " ".join(text.lower().split())
    words = (each for each in _SPLIT.split(lower) if len(each) > 1 and each not in _STOP)
    return KeywordQuery(lower, tuple(dict.fromkeys(words)))


def check_ranking(name: str) -> str:
    """Return the name of a ranking; raise an error when there is no such ranking."""
    if name not in RANKINGS:
        raise UnknownName(
            f"{names.shown(name)} is not a ranking", hint=f"the rankings are {', '.join(RANKINGS)}"
        )
    return name


def clamp_limits(max_sessions: int, max_results: int) -> tuple[int, int]:
    """Return how many sessions and results a search may have: the given numbers, within the limits."""
    return min(max(max_sessions, 0), MOST_SESSIONS), min(max(max_results, 0), MOST_RESULTS)


def session_search(
    query: str,
    sessions: Iterable[Session],
    read: Callable[[Session], Log],
    *,
    max_sessions: int = MAX_SESSIONS,
    max_results: int = MAX_RESULTS,
    own: bool = False,
    allows: Callable[[str, str, str], bool] = lambda path, speaker, time: True,
) -> SessionHits:
    """Return the messages with the most points in the newest sessions, the newest first among equals.

    `sessions` come newest first. With `own`, the calls of memory's own tools and their results are searched
    too. A message is found only if `allows` is true for its log's path, its role and its time.
    """
    wanted = parse_query(query)
    many, most = clamp_limits(max_sessions, max_results)
    best: list[Hit] = []
    if not wanted.text:
        return SessionHits()
    listed = list(sessions)
    troubles = [f"{each.path}: {each.trouble}" for each in listed if each.trouble]
    searched = 0
    for session in [each for each in listed if not each.trouble][:many]:
        try:
            best += _best(_hits(session, read(session), wanted, own=own, allows=allows), most)
        # the log was removed or became unreadable since it was listed
        except (OutsideMemory, StorageFailed) as error:
            troubles.append(f"{session.path}: {error}")
            continue
        searched += 1
        best = sorted(best, key=lambda hit: -hit.score)[:most]
    return SessionHits(
        tuple(best), searched, tuple(f"a session could not be read: {each}" for each in troubles)
    )


def _best(hits: Iterable[Hit], most: int) -> list[Hit]:
    """Return the best hits of a session, the later first among equals, while keeping only few in memory."""
    best: list[Hit] = []
    for hit in hits:
        best.append(hit)
        if len(best) > 4 * most:
            best = sorted(best, key=_order)[:most]
    return sorted(best, key=_order)[:most]


def _order(hit: Hit) -> tuple[float, int]:
    return -hit.score, -hit.line


def _hits(
    session: Session,
    log: Log,
    wanted: KeywordQuery,
    *,
    own: bool,
    allows: Callable[[str, str, str], bool],
) -> Iterator[Hit]:
    turn = 0
    seen: set[int] = set()
    marks = _search_bytes(wanted)
    open_calls = OpenMemoryCalls()
    for raw in log.raw():
        if raw.kind not in ("", MessageEvent.kind):
            continue
        user = b'"role":"user"' in raw.content
        calls = not own and any(each in raw.content for each in _CALLING)
        if marks and not user and not calls and not _may_match(raw.content, marks):
            continue
        event = raw.read()
        if not isinstance(event, MessageEvent):
            continue
        message = event.message if own else open_calls.without(event.message)
        turn += message.role is Role.USER and not is_aside(message) and bool(message.text.strip())
        text = _words(message, calls=own)
        if message.role is Role.SYSTEM or len(text) <= _SHORTEST or hash(text[:_SAME]) in seen:
            continue
        at = message.time or event.time
        found = score(wanted, text, message.role, session.name)
        if found is None or not allows(session.path, str(message.role), at):
            continue
        seen.add(hash(text[:_SAME]))
        points, hits, exact = found
        yield Hit(
            session.id,
            session.project,
            clean_text(session.name),
            str(message.role),
            turn,
            raw.number,
            at,
            preview(clean_text(text), wanted),
            points,
            hits,
            exact,
        )


def score(wanted: KeywordQuery, text: str, role: Role, title: str) -> tuple[float, int, bool] | None:
    """Return a message's points, how many keywords it contains, and whether it contains the whole query.

    Return None for a message that contains neither the query nor a keyword.
    """
    lower, name = " ".join(text.lower().split()), title.lower()
    exact = wanted.text in lower
    hits = sum(each in lower for each in wanted.keywords)
    if not exact and not hits:
        return None
    points = 3.0 * exact + 1.0 * hits + _ROLES.get(role, 0.0)
    if len(wanted.keywords) > 1 and hits >= _DENSE * len(wanted.keywords):
        points += 1.5
    points += 2.0 if wanted.text in name else 0.5 * sum(each in name for each in wanted.keywords)
    return points, hits, exact


def preview(text: str, wanted: KeywordQuery, size: int = PREVIEW) -> str:
    """Return the part of a text around the query; if it is not there, around the middle keyword."""
    if len(text) <= size:
        return text
    lower = lowered(text)
    at = lower.find(wanted.text)
    if at >= 0:
        return around(text, at + len(wanted.text) // 2, size)
    places = sorted(place for each in wanted.keywords if (place := lower.find(each)) >= 0)
    return around(text, places[len(places) // 2] if places else 0, size)


def _words(message: Message, *, calls: bool = False) -> str:
    """Return the text of a message with its tool results; with `calls`, also the calls of memory's tools."""
    calls_text = [f"{call.name} {call.arguments}" for call in message.calls if calls and is_memory_call(call)]
    found = (message.text, *calls_text, *(part.text for part in message.results))
    return "\n".join(text for text in found if text).replace(ASIDE, "")


def _search_bytes(wanted: KeywordQuery) -> tuple[bytes, ...]:
    """Return byte strings of which every matching line contains at least one, to skip lines quickly.

    Return nothing when a letter has several encodings, so that no line may be skipped.
    """
    if wanted.keywords and all(each.isascii() and each.isprintable() for each in wanted.keywords):
        return tuple(each.encode() for each in wanted.keywords)
    return ()


def _may_match(line: bytes, marks: tuple[bytes, ...]) -> bool:
    lower = line.lower()
    return any(each in lower for each in marks)
