"""What was said in earlier sessions, found again by its words.

By the points of the keywords: reads logs, newest session first, a line at a time, and knows no index
(`search` has one). A result needs a word of the question in
it: what a message gains by its role or its session's title only orders those that have one.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import NotFound, OutsideMemory, StorageFailed, UnknownName, UsageError
from vademecum.search import relevance
from vademecum.search.legs import PREVIEW, around, lowered
from vademecum.store import names
from vademecum.store.outgoing import clean_text
from vademecum.transcripts.events import Event, Said
from vademecum.transcripts.log import Line, clean_event
from vademecum.transcripts.messages import Role, is_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.transcripts.events import Torn
    from vademecum.transcripts.log import Log
    from vademecum.transcripts.messages import Message
    from vademecum.transcripts.sessions import Session

RANKINGS = ("relevance", "keywords")
MAX_SESSIONS, MOST_SESSIONS = 10, 50
MAX_RESULTS, MOST_RESULTS = 5, 20

_SPLIT = re.compile(r"[\s\-_.,;:!?()\[\]{}'\"/\\]+")
_SHORTEST = 10  # characters; what is no longer says nothing by itself
_SAME = 80  # characters by which two messages of a session count as one
_DENSE = 0.7  # of the keywords
_ROLES = {Role.ASSISTANT: 0.3, Role.USER: 0.2}
_STOP = frozenset(
    """a about all also an and any are as at be been but by can could did do does for from get had has have
    he her his how i if in into is it its just like me more my no not of on or our out she should so some
    than that the their them then there these they this to up us was we were what when where which who why
    will with would you your""".split()
)


class Hit(NamedTuple):
    """A message that answers: where it stands, and the part of it around the match."""

    session: str
    project: str
    title: str
    role: str
    turn: int  # of the user's requests, counted from 1; 0 before the first
    line: int  # in the log
    time: str
    preview: str
    score: float
    keyword_hits: int
    exact: bool
    relevance: float = 0.0  # from 0 to 1; the ranking by keywords knows none

    @property
    def match(self) -> str:
        """How likely it answers: `strong`, `likely` or `weak`; empty where only words were counted."""
        return relevance.match(self.relevance) if self.relevance else ""


class Recalled(NamedTuple):
    """What was found, in how many sessions it was looked for, and what was wrong with the others."""

    hits: tuple[Hit, ...] = ()
    sessions: int = 0
    degraded: tuple[str, ...] = ()


class Question(NamedTuple):
    """What is looked for."""

    text: str
    keywords: tuple[str, ...]


def ask(text: str) -> Question:
    """A question's words, lower case, each once, without those that every text has."""
    lower = " ".join(text.lower().split())
    words = (each for each in _SPLIT.split(lower) if len(each) > 1 and each not in _STOP)
    return Question(lower, tuple(dict.fromkeys(words)))


def check_ranking(name: str) -> str:
    """Return the ranking if there is one of that name."""
    if name not in RANKINGS:
        raise UnknownName(
            f"{names.shown(name)} is not a ranking", hint=f"the rankings are {', '.join(RANKINGS)}"
        )
    return name


def bounded(max_sessions: int, max_results: int) -> tuple[int, int]:
    """How many sessions and results may be asked for."""
    return min(max(max_sessions, 0), MOST_SESSIONS), min(max(max_results, 0), MOST_RESULTS)


def session_search(
    query: str,
    sessions: Iterable[Session],
    read: Callable[[Session], Log],
    *,
    max_sessions: int = MAX_SESSIONS,
    max_results: int = MAX_RESULTS,
) -> Recalled:
    """The messages with the most points, among equals the newest first; `sessions` come newest first."""
    wanted = ask(query)
    many, most = bounded(max_sessions, max_results)
    best: list[Hit] = []
    if not wanted.text:
        return Recalled()
    listed = list(sessions)
    troubles = [f"{each.path}: {each.trouble}" for each in listed if each.trouble]
    looked = 0
    for session in [each for each in listed if not each.trouble][:many]:
        try:
            best += _best(_hits(session, read(session), wanted), most)
        except (OutsideMemory, StorageFailed) as error:  # gone or unreadable since it was listed
            troubles.append(f"{session.path}: {error}")
            continue
        looked += 1
        best = sorted(best, key=lambda hit: -hit.score)[:most]
    return Recalled(tuple(best), looked, tuple(f"a session could not be read: {each}" for each in troubles))


def _best(hits: Iterable[Hit], most: int) -> list[Hit]:
    """The best of a session, the later before the earlier among equals, without holding all of them."""
    kept: list[Hit] = []
    for hit in hits:
        kept.append(hit)
        if len(kept) > 4 * most:
            kept = sorted(kept, key=_order)[:most]
    return sorted(kept, key=_order)[:most]


def _order(hit: Hit) -> tuple[float, int]:
    return -hit.score, -hit.line


def _hits(session: Session, log: Log, wanted: Question) -> Iterator[Hit]:
    turn = 0
    seen: set[int] = set()
    marks = _marks(wanted)
    for raw in log.raw():
        if raw.kind not in ("", Said.kind):
            continue
        user = b'"role":"user"' in raw.content
        if marks and not user and not _could(raw.content, marks):
            continue
        event = raw.read()
        if not isinstance(event, Said):
            continue
        message = event.message
        turn += message.role is Role.USER and not is_aside(message) and bool(message.text.strip())
        text = _words(message)
        if message.role is Role.SYSTEM or len(text) <= _SHORTEST or hash(text[:_SAME]) in seen:
            continue
        found = score(wanted, text, message.role, session.name)
        if found is None:
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
            message.time or event.time,
            preview(clean_text(text), wanted),
            points,
            hits,
            exact,
        )


def session_get(log: Log, place: int | str, *, lines: int = 1) -> Sequence[Line]:
    """Lines of a log, from a number on, or from the id of an event, a message, or a tool's call.

    For a call it is the line with its result, which the window may have only in part.
    """
    number = int(place) if str(place).isdecimal() else _line_of(log, str(place))
    if number < 1 or lines < 1:
        raise UsageError("lines are counted from 1")
    picked = (raw for raw in log.raw() if number <= raw.number)
    return [Line(_clean(raw.read()), raw.number, raw.start, raw.end) for raw in islice(picked, lines)]


def _clean(event: Event | Torn) -> Event | Torn:
    return clean_event(event) if isinstance(event, Event) else event


def _line_of(log: Log, id: str) -> int:
    found = 0
    mark = id.encode()
    for raw in log.raw():
        if not id or mark not in raw.content:
            continue
        event = raw.read()
        if isinstance(event, Event) and event.id == id:
            return raw.number
        if isinstance(event, Said):
            if any(part.id == id for part in event.message.results):
                return raw.number
            if event.message.id == id or any(part.id == id for part in event.message.calls):
                found = found or raw.number
    if not found:
        raise NotFound(
            f"nothing in session {log.session} has the id {names.shown(id)}",
            hint="give a line number, or the id of a message or a tool call",
        )
    return found


def score(wanted: Question, text: str, role: Role, title: str) -> tuple[float, int, bool] | None:
    """The points of a message, how many keywords it has, and whether the question as a whole.

    None when it has neither.
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


def preview(text: str, wanted: Question, size: int = PREVIEW) -> str:
    """The part of a text around the question, or around the middle one of the keywords in it."""
    if len(text) <= size:
        return text
    lower = lowered(text)
    at = lower.find(wanted.text)
    if at >= 0:
        return around(text, at + len(wanted.text) // 2, size)
    places = sorted(place for each in wanted.keywords if (place := lower.find(each)) >= 0)
    return around(text, places[len(places) // 2] if places else 0, size)


def _words(message: Message) -> str:
    """What a message says, the results of tools included."""
    return "\n".join(each for each in (message.text, *(part.text for part in message.results)) if each)


def _marks(wanted: Question) -> tuple[bytes, ...]:
    """Bytes of which a line must have some: none when a letter may be written in several ways."""
    if wanted.keywords and all(each.isascii() and each.isprintable() for each in wanted.keywords):
        return tuple(each.encode() for each in wanted.keywords)
    return ()


def _could(line: bytes, marks: tuple[bytes, ...]) -> bool:
    lower = line.lower()
    return any(each in lower for each in marks)
