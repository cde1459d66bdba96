"""Who speaks in a passage, whether it asks, and whether it tells of times and numbers.

Knows text only. What ranking wants of it is a few bytes for each passage, found when it is indexed: reading
sixty passages for every question would take longer than finding them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

TIME, NUMBER = 1, 2  # what a passage tells of, as bits

# Who a person is in a conversation that was written down with roles, and who they talk to.
PERSON = frozenset("user human me".split())
ROLES = PERSON | frozenset("assistant ai agent bot model system tool".split())

# A name, then a colon: `Caroline: …`, `**Ana Lima:** …`, `user: …`, `田中：…`.
_SPEAKER = re.compile(
    r"\s*(?:[-*+>]\s+)?(?:\*\*|__)?([^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,2})(?:\*\*|__)?"
    r"(?::(?:\*\*|__)?(?=\s)|：)"
)
# What stands before a colon and is nobody.
_LABELS = frozenset(
    """a action actions agenda answer answers attention background blocked bug caution cause caveat change
    changed changes command commands conclusion confirmed consequence context cost date deadline decided
    decision decisions default description details done effect error errors example examples expected fact
    facts fix fixed follow-up goal goals hint idea important impact info input issue issues item key learned
    lesson lessons link links list log meeting message method name new next note notes old open option options
    outcome output owner path pattern plan plans port preference preferences problem process progress
    proposal question questions q reason reasons reference references rule rules result results risk risks
    root schedule scope see setup solution source sources standup started status step steps summary symptom
    tags task tasks team tip title todo topic type update updated updates url usage use value version warning
    why workaround workflow""".split()
)
_LONGEST_NAME = 40

_ENDING = re.compile(r"[.!?…]+[\"'”’»)\]*_]*(?=\s|$)|[。！？]+|\n+")

_TIMES = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february april june july august
    september october november december yesterday today tonight tomorrow ago weekend midnight noon oclock
    spring summer autumn winter christmas easter daily weekly monthly yearly annually fortnight
    montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz juni juli oktober dezember
    gestern heute morgen vorgestern übermorgen
    lundi mardi mercredi jeudi vendredi samedi dimanche janvier février avril juin juillet août septembre
    octobre novembre décembre aujourd demain
    lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril junio julio agosto
    septiembre octubre noviembre diciembre ayer mañana""".split()
)
_SPANS = frozenset("day days week weeks month months year years hour hours minute minutes night".split())
_NEARBY = frozenset("last next this past previous every earlier following since until".split())
_NUMBERS = frozenset(
    """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million
    once twice half dozen couple""".split()
)
_CLOCK = re.compile(
    r"\d{1,2}:\d\d|\b\d{1,2} ?[ap]m\b|\b(?:19|20)\d\d\b|\bMay\b|\bMarch\b|昨日|今日|明日|昨天|今天"
)


_DIGIT = re.compile(r"(?<![^\W_])\d")  # at the beginning of a word


class Speech(NamedTuple):
    """What is kept of a passage beside its words."""

    speaker: str | None = None  # in small letters
    asks: int = 0  # how many of a hundred sentences are questions
    says: int = 0  # TIME, NUMBER


SILENT = Speech()


def of(text: str, words: Set[str], *, before: str | None = None) -> Speech:
    """What to keep of a passage; `words` are its own, in small letters.

    A later part of a cut turn is said by whoever began it (`before`).
    """
    return Speech(speaker(text) or before, share_of_questions(text), _told(text, words))


def speaker(text: str) -> str | None:
    """Who is named before the first colon; a label such as `Note:` names nobody."""
    if ":" not in text[:60] and "：" not in text[:60]:
        return None
    found = _SPEAKER.match(text)
    if found is None or len(found[1]) > _LONGEST_NAME:
        return None
    name = found[1]
    small = name.lower()
    if small in ROLES:
        return small
    parts = name.split()
    if small in _LABELS or parts[0].lower() in _LABELS or parts[-1].lower() in _LABELS:
        return None
    return small if all(part[0].isupper() or not _has_case(part) for part in parts) else None


def _has_case(part: str) -> bool:
    return part.lower() != part.upper()


def share_of_questions(text: str) -> int:
    """How many of a hundred sentences end in a question mark."""
    if "?" not in text and "？" not in text:
        return 0
    sentences = questions = at = 0
    for ending in _ENDING.finditer(text):
        if text[at : ending.start()].strip(" *_>#-\n\t"):
            sentences += 1
            questions += "?" in ending[0] or "？" in ending[0]
        at = ending.end()
    sentences += bool(text[at:].strip(" *_>#-\n\t"))
    return round(100 * questions / sentences) if sentences else 0


def _told(text: str, words: Set[str]) -> int:
    number = not _NUMBERS.isdisjoint(words) or _DIGIT.search(text) is not None
    spans = not _SPANS.isdisjoint(words)
    time = not _TIMES.isdisjoint(words) or (spans and (number or not _NEARBY.isdisjoint(words)))
    return TIME * (time or _CLOCK.search(text) is not None) + NUMBER * number


# ---------------------------------------------------------------- questions


_I = frozenset("i my me mine myself we our ours us".split())
_YOU = frozenset("you your yours".split())
_WHEN = re.compile(
    r"\bwhen\b|\bhow long\b|\b(?:what|which) (?:day|date|time|month|year|weekday|season)\b"
    r"|\bhow (?:many|much) (?:\w+ )?(?:days?|weeks?|months?|years?|hours?|time)\b"
    r"|\bwann\b|\bwie lange\b|\bquand\b|\bcuándo\b|什么时候|いつ"
)
_HOW_MANY = re.compile(
    r"\bhow (?:many|much|old|often|far|tall|big|large|fast)\b|\b(?:number|amount|count|percentage|total) of\b"
    r"|\bwhat (?:age|price|number|percentage)\b|\bwie ?viele?\b|\bcombien\b|\bcuánt[oa]s?\b|多少|几个|いくつ"
)


class QuestionCues(NamedTuple):
    """What a question says of who should have spoken, and of what."""

    personal: bool = False  # of the asker's own life: I, my, we
    when: bool = False
    how_many: bool = False
    words: frozenset[str] = frozenset()


def wanted(question: str, words: Iterable[str]) -> QuestionCues:
    """Read a question; `words` are all of its words in small letters."""
    all_words = frozenset(words)
    small = question.lower()
    return QuestionCues(
        personal=not _I.isdisjoint(all_words) and _YOU.isdisjoint(all_words),
        when=_WHEN.search(small) is not None,
        how_many=_HOW_MANY.search(small) is not None,
        words=all_words,
    )


def is_named(name: str, asked: QuestionCues) -> bool:
    """Whether a question names a speaker, whole or by the first name."""
    return name in asked.words or name.partition(" ")[0] in asked.words
