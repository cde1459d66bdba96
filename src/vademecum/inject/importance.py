"""How important a record is for the block: a rule, a decision, a fact, or the rest.

The level comes from the record's priority or type, else from the sentences of its text, by the words in
`importance_phrases.txt`. Within a level, records are ordered by points: confirmation and use add points, age
takes points away. All of this depends on files alone, so that reading never changes the order.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern
from vademecum.types import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Importance(IntEnum):
    """How important a record is; the block shows a level before the next one."""

    RULE = 1  # a rule, a prohibition, or what a person prefers
    LIKELY_RULE = 2  # a rule by an agent's choice of type alone, or by a hint such as "only" or "at most"
    DECISION = 3  # a decision, or how to build and test
    FACT = 4
    REST = 5  # an account of what happened once


RULE_TYPES = (RecordType.RULE, RecordType.FEEDBACK, RecordType.USER)
BY_PRIORITY: Mapping[int, Importance] = {
    1: Importance.RULE,
    2: Importance.DECISION,
    3: Importance.FACT,
    4: Importance.REST,
    5: Importance.REST,
}
LONGEST = 2_000  # characters of a record that are looked at
CONFIRMED = 2  # the points of a text that a person wrote or verified, or that was said again
MOST_USE = 3  # the most points that use gives: one for 1 use, two for 3, three for 7
AGES = (7, 30, 90, 365)  # days behind the newest statement of the scope; each step takes a point away

_SENTENCE_END = lazy_pattern(r"(?<=[.!?])\s+|\n+")
_CLAUSE_END = lazy_pattern(
    r"[,:;]\s+(?=(?:so|therefore|hence|thus|deshalb|daher)\b)|[,:;]\s+|\s[-–—]\s| (?=so |therefore |hence )"
    r"| (?:because|since|but|weil) "
)
_CONCLUSION = lazy_pattern(r"(?:so(?! far| much| many| long)|therefore|hence|thus|deshalb|daher) ")
_COMMAND = lazy_pattern(r"`[^`\n]*(?:[a-z][ /]|\./)[^`\n]*`|(?<!\w)(?:\./|\$ )\w\S*")
_WORD = lazy_pattern(r"[^\W_]+(?:['’][^\W\d_]+)*|`")
_DATED = lazy_pattern(
    r"\b(?:on|until|till|by|since|from|to|for|am|bis|seit|zum) (?:the )?(?:"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|(?:mon|diens|donners|frei|sams|sonn)tag\b|mittwoch\b"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d)"
    r"|\b[A-Z]{2,}-\d+\b|\b\d{4}-\d\d-\d\d\b",
    re.IGNORECASE,
)
# A decision about one day is no lasting one; "on Mondays" and "the first Monday" are no single days.
_ONE_DAY = lazy_pattern(
    r"(?<!every )(?<!each )(?<!first )(?<!last )\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch)\b",
    re.IGNORECASE,
)
_ADVERBS = frozenset("not never always only also just still already then so all both ever quite".split())
# Words after which a form in "-ed" is no past tense: "is used", "for derived state".
_NO_PAST_AFTER = frozenset(
    """is are be been being get gets and or by as no the a an every each any most for with in on to from at
    into of than under over between against per more very well when if where that which who""".split()
)
# Words that follow a verb in the past rather than a participle before its noun; or nothing follows the verb.
_AFTER_PAST = frozenset(
    """a an the this that it them him her his my our their us me its on in at to for with by from into over
    up out off down when once twice again after before because since like as if of and but than about
    through during past yesterday today more most `""".split()
) | {""}
_LASTING_VERBS = frozenset("is are has have must may can stay stays go goes need needs".split())
_AFTER_NOUN = frozenset("of on for with from about and was is in went looks took up to".split())


def importance_of(type_: str, priority: int | None, texts: Iterable[str], *, own: bool) -> Importance:
    """Return the level of a record: from its priority if it has one, else from its type and texts.

    `own` tells whether a person wrote the newest text. A type such as `feedback` makes a person's record a
    rule. It makes an agent's record at least a likely rule, or a fact if its texts tell what happened once.
    Other records of a person are facts at least.
    """
    if priority is not None:
        return BY_PRIORITY[priority]
    level = min(map(_level_of_text, texts), default=Importance.REST)
    if type_ in RULE_TYPES:
        if own:
            return Importance.RULE
        return min(level, Importance.FACT if level is Importance.REST else Importance.LIKELY_RULE)
    return min(level, Importance.FACT) if own else level


def points(*, sure: bool, used: int, days: float) -> int:
    """Return the points of a record within its level: more for confirmation and use, fewer for age."""
    use = min((used + 1).bit_length() - 1, MOST_USE)
    return CONFIRMED * sure + use - sum(days > each for each in AGES)


def _level_of_text(text: str) -> Importance:
    """Return the level of a text's first sentence, or the higher level of a later rule or decision."""
    sentences = [each for each in _SENTENCE_END.split(text[:LONGEST].strip()) if each.strip()]
    if not sentences:
        return Importance.REST
    later = [_level_of_sentence(each, hints=False) for each in sentences[1:]]
    return min([_level_of_sentence(sentences[0]), *(each for each in later if each <= Importance.DECISION)])


def _level_of_sentence(sentence: str, *, hints: bool = True) -> Importance:
    """Return the level of a sentence, from its clauses; a question has the lowest level.

    After a first clause that tells what happened, only a conclusion counts. With `hints`, a word such as
    "only" makes a sentence a likely rule.
    """
    if sentence.rstrip().endswith("?"):
        return Importance.REST
    first, *others = _CLAUSE_END.split(sentence)
    level = _level_of_clause(first, opens=True, hints=hints)
    if level is Importance.REST:  # then only a conclusion counts: "The bill tripled, so ask first"
        others = [each for each in others if _CONCLUSION.match(each)]
    levels = [_level_of_clause(_CONCLUSION.sub("", each), hints=hints) for each in others]
    return min([level, *(each for each in levels if each <= Importance.DECISION)])


def _level_of_clause(clause: str, *, hints: bool, opens: bool = False) -> Importance:
    words = [each.lower().replace("’", "'") for each in _WORD.findall(_COMMAND.sub(" ` ", clause))]
    if not words:
        return Importance.FACT
    spaced = f" {' '.join(words)} . "  # a phrase with a full stop stands at the end
    idle, dated = _has(spaced, "idle"), _DATED.search(clause) is not None
    begun = _begins_account(words, spaced)
    past = begun or dated or idle or _has(spaced, "past") or _tells_past(words)
    if (
        (_begins_instruction(words, past=past) and not dated)
        or (_has(spaced, "rule") and not past)
        or (_has(spaced, "strict") and not (begun or dated or idle))
    ):
        return Importance.RULE
    if hints and _has(spaced, "hint") and not past:
        return Importance.LIKELY_RULE
    if _has(spaced, "decision") and not ((begun and opens) or dated or idle or _ONE_DAY.search(clause)):
        return Importance.DECISION
    if "`" in words and not past:  # a command
        return Importance.DECISION
    return Importance.REST if past else Importance.FACT


def _begins_account(words: Sequence[str], spaced: str) -> bool:
    """Whether a clause begins like an account: "Fixed the importer", "Status of the importer"."""
    if any(spaced.startswith(f" {phrase} ") for phrase in _phrases("start")):
        return True
    lasting = words[2:3] and words[2] in _LASTING_VERBS  # "Generated files are not edited"
    return words[0].endswith("ed") and words[0] not in _phrases("decision") and not lasting


def _begins_instruction(words: Sequence[str], *, past: bool) -> bool:
    """Whether a clause begins like an instruction: "Use tabs", "Every page passes the check"."""
    if words[0] in _phrases("quantifier"):
        return not past
    return words[0] in _phrases("imperative") and (len(words) == 1 or words[1] not in _AFTER_NOUN)


def _tells_past(words: Sequence[str]) -> bool:
    """Whether a clause has a verb in the past tense, as far as its ending and the words around it tell.

    "Ana wanted the logo" has one; "is wanted on deck" and "staff see wanted posters" have none.
    """
    before = ""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        is_form = (word.endswith("ed") and len(word) > 4) or word in _phrases("participle")
        if before and is_form and before not in _NO_PAST_AFTER and (after in _AFTER_PAST or after.isdigit()):
            return True
        if word not in _ADVERBS and not word.endswith("ly"):
            before = word
    return False


def _has(spaced: str, kind: str) -> bool:
    return any(f" {phrase} " in spaced for phrase in _phrases(kind))


def _phrases(kind: str) -> frozenset[str]:
    return _read_phrases()[kind]


@cache
def _read_phrases() -> dict[str, frozenset[str]]:
    """Return the phrases of `importance_phrases.txt` by their kind."""
    found: dict[str, set[str]] = {}
    own: set[str] = set()
    text = Path(__file__).with_name("importance_phrases.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            own = found.setdefault(line.strip("[]"), set())
        elif line and not line.startswith("#"):
            own.update(each.strip() for each in line.split(","))
    return {kind: frozenset(phrases) for kind, phrases in found.items()}
