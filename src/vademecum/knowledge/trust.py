"""Judge how far a text is trusted, and rank lessons for display.

Claims in the file itself do not count: trust depends on who wrote a text, who confirmed it, and on its
folder.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

from vademecum.lazy import LazyModule
from vademecum.named_tuple import NamedTuple
from vademecum.store import Fact, archive, decisions, hub_rules
from vademecum.text import clock, is_same_text
from vademecum.types import Entry, Origin, Record, RecordType, in_conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from vademecum.knowledge.lessons import Lesson
    from vademecum.store import Records, ScopeFolder
    from vademecum.text import similarity
else:
    similarity = LazyModule("vademecum.text.similarity")  # word lists for texts that are not the same


ENOUGH = 2  # sessions, each with its own eyes on the matter


class Level(StrEnum):
    """How far a text is trusted; listed from most to least."""

    USER = "user"  # a person's own words
    VERIFIED = "verified"  # a person vouched for exactly this text
    CONFIRMED = "confirmed"  # two sessions found the same
    UNVERIFIED = "unverified"  # one agent's word
    WAITING = "waiting"  # from a tool, an import or a stranger: not before a person has looked


class Trust(NamedTuple):
    """The trust in a text: its level, its badge, whether it may be shown to an agent unasked, and why."""

    level: Level
    badge: str
    injectable: bool
    why: str


class Unverified(NamedTuple):
    """A text that nobody has verified, and the name by which `vade review verify` finds the text."""

    name: str  # what `vade review verify` takes
    path: str
    text: str
    why: str


_WHENCE = {
    Origin.TOOL: "it came from a tool",
    Origin.IMPORT: "it was imported, or its origin is not known",
    Origin.EXTERNAL: "it was written outside this memory",
}


def _describe_origin(origin: Origin) -> str:
    return f"{origin.partition(':')[2]} wrote it" if origin.is_member else _WHENCE[origin]


def _nobody() -> str:
    return ""


def judge(
    origin: Origin,
    *,
    folder: bool,
    verified: Callable[[], bool],
    sessions: Callable[[], int],
    vouched: Callable[[], str] = _nobody,
) -> Trust:
    """Return the trust in a text, judged by its origin and folder; the functions are called
    only when needed.
    """
    if origin is Origin.USER and folder:
        return Trust(Level.USER, "", True, "you said it")
    if verified():
        return Trust(Level.VERIFIED, "", True, "you verified exactly this text")
    if not folder:
        return Trust(Level.WAITING, "[waiting]", False, "its folder is not trusted")
    if member := vouched():
        return Trust(Level.VERIFIED, "", True, f"{member} verified exactly this text, and you trust {member}")
    if origin is not Origin.AGENT:
        return Trust(Level.WAITING, "[waiting]", False, _describe_origin(origin))
    count = sessions()
    if count >= ENOUGH:
        return Trust(Level.CONFIRMED, "", True, f"{count} sessions found the same")
    return Trust(Level.UNVERIFIED, "[unverified]", True, "one agent said it, unconfirmed")


def judge_text(
    thing: Record | Entry,
    records: Records,
    *,
    record: Record | None = None,
    trusted: bool = True,
    path: str = "",
    among: Sequence[Entry] = (),
) -> Trust:
    """Return the trust in a record, in one of its entries, in a note, or in a pinned section.

    An entry of a record comes with its `record`; for one of a pinned document or a journal, `trusted` says
    whether its folder is trusted, `path` is its file, and `among` are the entries beside it.
    """
    if isinstance(thing, Record):
        record, thing = thing, current_entry(thing)
    entry, owner = thing, record
    if owner is not None:
        trusted, path, among = owner.trusted, owner.path, owner.live
    if in_conflict(entry, among):
        return Trust(Level.WAITING, "[waiting]", False, "two machines changed it: decide between them")
    if owner is not None and owner.disputes(entry) and not decisions.verified(records.home, entry.text):
        return Trust(Level.WAITING, "[waiting]", False, "it contradicts what you wrote")
    return judge(
        entry.origin or Origin.USER,
        folder=trusted,
        verified=lambda: decisions.verified(records.home, entry.text),
        vouched=lambda: hub_rules.vouched_by(records.home, path, decisions.exactly(entry.text)),
        sessions=lambda: 0 if owner is None else len(find_sessions(entry, owner, records)),
    )


def current_entry(record: Record) -> Entry:
    """Return the entry that is shown: the newest that no person must decide about, else the newest."""
    return next(iter((record.agreed or record.entries)[-1:]), Entry("", origin=Origin.EXTERNAL))


def is_doubtful(entry: Entry, record: Record) -> bool:
    """Whether an entry needs a person's verification; whether it already has one is not checked."""
    said_here = (entry.origin or Origin.USER) in (Origin.USER, Origin.AGENT)
    return not record.trusted or not said_here or record.disputes(entry) or record.conflicts(entry)


def _find_doubts(
    records: Records, scope_folder: ScopeFolder, name: str, content: bytes
) -> list[tuple[str, str]]:
    """Return two hashes for each text that waits for a person: for the decisions to verify and
    to refuse it.
    """
    record = records.parse(scope_folder, name, content)
    return [
        (decisions.exactly(each.text), decisions.mark_of("text", record.path, each.text))
        for each in record.live
        if each.text.strip() and is_doubtful(each, record)
    ]


DOUBTS = Fact("doubts", 2, _find_doubts)


def find_sessions(entry: Entry, record: Record, records: Records) -> set[str]:
    """Return the sessions in which the statement of an entry was said, in its present or an earlier wording.

    Each wording is compared with the present one, not with the one before it: a statement that changed its
    meaning in small steps keeps none of its first confirmations.
    """
    sessions_by_text = records.said(record)
    found: set[str] = set()
    for each in record.entries:
        by = sessions_by_text.get(archive.fingerprint(each), ())
        if set(by) <= found:
            continue
        if _one_statement(each.text, entry.text):
            found.update(by)
    return found


def _one_statement(one: str, other: str) -> bool:
    """Whether two wordings say the same; in doubt they do not, and the entry only stays unconfirmed."""
    return is_same_text(one, other) or similarity.same(one, other) is not None


# ------------------------------------------------------------ the order lessons are told in

# A known answer to an error saves more than a fact, and a fact more than an account of what went wrong.
WEIGHTS: Mapping[RecordType, float] = {
    RecordType.SOLUTION: 1.3,
    RecordType.PATTERN: 1.1,
    RecordType.DISCOVERY: 1.0,
    RecordType.RULE: 1.0,
    RecordType.FAILURE: 0.9,
    RecordType.WORKFLOW: 0.8,
}
# One agent's word stands as low as a confirmed lesson that has not been seen for 1.7 half-lives (0.5 ** 1.7):
# a fresh guess does not push out what is known, and is still told where nothing better is.
UNVERIFIED = 0.3
USE = 0.3  # what each doubling or so of the uses adds
_DAY = 86_400


class LessonScore(NamedTuple):
    """The score by which a lesson is ranked, and the factors of the score."""

    value: float
    confidence: float
    age: float
    type: float
    use: float
    trust: float


class RankedLesson(NamedTuple):
    """A lesson with the trust in it, and the score by which it is ranked."""

    lesson: Lesson
    trust: Trust
    score: LessonScore


def score_lesson(lesson: Lesson, trust: Trust, *, now: datetime, half_life_days: float) -> LessonScore:
    """Return the score of a lesson: confidence × half-life of its age × type × use × trust."""
    sure = trust.level not in (Level.UNVERIFIED, Level.WAITING)
    lives = age_days(lesson.last, now=now) / half_life_days
    return weigh_lesson(
        lesson.type, confidence=lesson.confidence, lives=lives, applied=lesson.applied, sure=sure
    )


def weigh_lesson(
    kind: RecordType, *, confidence: float, lives: float, applied: int, sure: bool
) -> LessonScore:
    """Return the score of a lesson, given its age as a number of half-lives (`lives`)."""
    parts = (
        confidence,
        0.5**lives,
        WEIGHTS[kind],
        1 + USE * math.log1p(applied),
        1.0 if sure else UNVERIFIED,
    )
    return LessonScore(math.prod(parts), *parts)


def rank_lessons(
    lessons: Iterable[tuple[Lesson, Trust]], *, now: datetime, half_life_days: float
) -> list[RankedLesson]:
    """Return lessons with the highest score first; equal scores are in the order of number and path."""
    found = [
        RankedLesson(lesson, trust, score_lesson(lesson, trust, now=now, half_life_days=half_life_days))
        for lesson, trust in lessons
    ]
    return sorted(
        found, key=lambda each: (-each.score.value, each.lesson.record.num or 0, each.lesson.record.path)
    )


def age_days(stamp: str | None, *, now: datetime) -> float:
    """Return how many days ago a time was; 0 for an unreadable or future time."""
    moment = clock.parse(stamp)
    return days_since(None if moment is None else clock.micro(moment), now=clock.micro(now))


def days_since(moment: int | None, *, now: int) -> float:
    """Return the days from `moment` to `now`, both in microseconds; 0 for None or a future time."""
    return 0.0 if moment is None else max((now - moment) / 10**6 / _DAY, 0.0)
