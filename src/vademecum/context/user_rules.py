"""Find the rules that a user gives in a session: decisions, prohibitions and preferences, newest wording
only.

This finds more than memory would save: in a session, "use 10 folds" is a decision, although it is a request.
The module takes the sentences that `knowledge.signals` finds, those that `signals` declines as requests
although they forbid, choose or set something, and those that claim a fact. A repeated rule replaces its older
wording, and a rule that contradicts an older rule replaces that.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge import DeclineReason, SignalKind, signals
from vademecum.text import conflict, meaning, similarity, split_sentences
from vademecum.text.vocabulary import split_words, stem

if TYPE_CHECKING:
    from vademecum.knowledge.signals import Mood, WeighedSentence
    from vademecum.text.vocabulary import Word

MOST = 6  # rules of one message
_LONGEST = 4_000  # characters of a message; a longer message is more often pasted than a rule
_WORDS = 30  # words of a sentence that counts as a decision by its form alone


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_FORBIDS = _any_of(
    r"\b(?:never|niemals|nie)\b(?! mind)",
    r"\bunder no circumstances\b|\bauf keinen fall\b|\boff.limits\b|\bforbidden\b|\bverboten\b|\bread-only\b",
    r"\bmust\b|\bhas to\b|\b(?:may|should|shall|can|need)(?: not|n't)\b|\bnot allowed\b",
    r"\bdarfst? (?:\w+ ){0,6}nicht\b",
    r"\bnothing (?:may|must|should|gets|goes)\b|\bnobody (?:may|edits|touches|changes)\b",
    r"^(?:please |pls |bitte )?(?:do not|don't|dont|avoid|stop|hands off|keine?[nrs]? |ohne )",
    r"^(?:please |pls )?(?:stay|keep) (?:away|out|off)\b",
    r"^(?:please |pls )?leave (?:\S+ ){1,8}(?:alone|as|untouched|out|in)\b",
    r"^no (?!problem|idea|worries|need|thanks|rush|way|one|,|it|i|that|this|wait|not)\w",
    r"(?:,|;| and| so| but) (?:don't|do not|never) ",
)
_NO_RULE = _any_of(
    r"\b(?:don't|do not|dont) (?:know|think|worry|understand|see|get|remember|mind|forget to|hesitate)\b",
    r"\b(?:don't|do not|dont) have\b|^(?:\w+ )?(?:yes|yeah|yep)\b|\bthat would be\b",
    r"^(?:ok, |okay, |and )?i(?:'ve| have| did| also| was| \w+ly \w+ed)\b",
    r"^[➜$%'/\[]|^at (?:\w+ )?\S+ \(|^\w*error:",  # output of a terminal or a program
    r"\bnever mind\b|\bi never\b|\b(?:why|how come)\b",
)
_CHOOSES = _any_of(
    r"\b(?:let's|lets|let us|we'll|we will|we'd|we're|we are|we) (?:\w+ )?"
    r"(?:go(?:ing)? with|us(?:e|ing)|keep(?:ing)?|tak(?:e|ing)|mak(?:e|ing)|stick(?:ing)?|stay|settl|agreed"
    r"|decided|chose|choose|pick|call|name|do|store|have|raise|lower|drop|support|build|send|represent|target"
    r"|train)",
    r"\b(?:go|going) with\b|\b(?:stick|stay|stays|settled?|agreed?) (?:with|to|on|at|for)\b",
    r"\bit is,|\bit is[.!]?$|\binstead of\b|\brather than\b|, not \w|\bnicht \w+[.!]?$|\bstatt\b",
    r"\bwir (?:nehmen|bleiben|verwenden|nutzen|machen|haben entschieden)\b",
    r"\b(?:dec(?:ided|ision)|agreed|settled) (?:on|that|against|to)\b|\bcan only\b",
    r"\bfrom now on\b|\bab jetzt\b|\bchange of plan\b|^(?:actually|scrap that|change that|new plan)\b",
)
_SETS = _any_of(
    r"^(?:please |pls |bitte )?(?:set|use|change|raise|increase|lower|reduce|bump|limit|cap|make|let|keep)\b",
    r"^(?:please |pls |bitte )?(?:number|name|sort|store|setz|setze|nimm|erhöhe|senke)\b",
)
_MANNER = _any_of(
    r"\b(?:always|every time|each time|whenever|when(?:ever)? (?:you|i)|everywhere|throughout)\b",
    r"\b(?:for every|in every|on every|in all|immer|jedes mal)\b",
    r", i (?!think|guess|wonder|mean|suppose)\w+|\bi (?:prefer|would like|'d like|want|like|hate|dislike)\b",
    r"^(?:please |pls |bitte )?(?:use|write|name|number|show|tell|give|answer|explain|keep|prefer|stop)\b"
    r".*\b(?:please|not|instead|without|first|after)\b",
    r"^\w+ (?:\w+ ){0,8}(?:when you|the way (?:you|i|we)|(?:in|of|from) your)\b",
    r"^(?:bitte )?(?:antworte|schreib)\b.*\b(?:bitte|nicht|statt|ohne|zuerst)\b",
)
ORDER = re.compile(
    r"(?i)(?:now |then |next |ok |okay |so |and |please |pls |jetzt |dann |bitte |help me |i want |i need "
    r"|we (?:are|need) )*[,:]? ?(?:please |bitte )?"
    r"(?:add|automate|bau|baue|build|compare|create|debug|detect|draft|erstelle|extend|find|fix|handle|help"
    r"|implement|implementiere|investigate|look|make an?|migrate|move|port|prepare|produce|read|rebuild"
    r"|refactor|release|remove|rename|review|rewrite|schreib|schreibe|set up|start|test|tighten|update"
    r"|upgrade|write)\b"
)  # a task, which is not a rule
_VALUE = _any_of(
    r"\d|`|\b[A-Z]\w*[A-Z]\w*\b|(?<=[a-z,] )[A-Z][a-z]+",
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve)\b",
)


def find_rules(text: str) -> tuple[str, ...]:
    """Return at most six rules in a user's message, in the user's words and order.

    Of a very long message, only the beginning and the end are read.
    """
    return (
        _rules_in(text)
        if len(text) <= _LONGEST
        else _rules_in(f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}")
    )


@lru_cache(maxsize=1024)
def _rules_in(text: str) -> tuple[str, ...]:
    weighed = [signals.weigh(each) for each in signals.split_sentences(text)]
    mood = signals.read_mood(weighed)
    found: dict[str, None] = {}
    for at, each in enumerate(weighed):
        if _is_rule(each, mood):
            start, end = signals.statement_span(at, weighed)
            found.setdefault(" ".join(text[start:end].split()))
    return tuple(found)[:MOST]


def _is_rule(sentence: WeighedSentence, mood: Mood) -> bool:
    text = sentence.sentence.masked.strip()
    if _is_question(sentence, text):
        return False
    if _NO_RULE.search(text):
        return False
    words = len(text.split())
    if ORDER.match(text) and not _FORBIDS.search(text) and not _MANNER.search(text):
        return False
    if words < 3 and not _FORBIDS.search(text):
        return False
    if (
        signals.score(sentence, mood) >= signals.THRESHOLD
        and signals.kind_of(sentence) is not SignalKind.FACT
    ):
        return True
    if words > _WORDS or mood.sentences > MOST * 2:
        return False
    return bool(
        _FORBIDS.search(text)
        or _CHOOSES.search(text)
        or (_SETS.match(text) and words <= 14 and _VALUE.search(sentence.sentence.text))
        or _MANNER.search(text)
        or (DeclineReason.REQUEST not in sentence.reasons and _claims(sentence.sentence.text, text))
    )


def _is_question(sentence: WeighedSentence, text: str) -> bool:
    """Whether a sentence is a question; "could you always ...?" and "tell me what you doubt" are none."""
    if sentence.reasons.get(DeclineReason.QUESTION, 0) < 20 or _POLITE_RULE.search(text):
        return False
    return text.endswith("?") or not _INSTEAD.search(text)


_INSTEAD = re.compile(r"\binstead of\b|\brather than\b")
_POLITE_RULE = re.compile(r"^(?:can|could|would) you (?:please )?(?:always|never)\b")
_PASSING = _any_of(
    r"^(?:i|you|it|that|this|he|she|they|thanks|ok|hm+|there|here|same|measured|ich|du|das|es|dann)\b",
    r"\b(?:looks|seems|feels|sounds|again|yesterday|today|tonight|just|still|took|minute ago)\b",
)


def _claims(text: str, masked: str) -> bool:
    """Whether a sentence states a lasting fact, and not a fact about the moment, the speaker or the past."""
    if _PASSING.search(masked):
        return False
    read = meaning.read(text)
    return read.tense != meaning.PAST and (
        read.value is not None or bool(_VALUE.search(text)) or not read.polarity
    )


def is_lasting(rule: str) -> bool:
    """Whether a rule says how to act, always or never, and not how something is."""
    low = rule.lower().replace("’", "'")
    return bool(_FORBIDS.search(low) or _MANNER.search(low))


# ------------------------------------------------------------ the newest wording

_CHANGES = re.compile(
    r"(?i)^(?:actually|scrap that|change that|change of plan|new plan|correction|we (?:have )?moved|sorry|no"
    r"|wait|oh|so|ok|okay|please)\s*[,:;.!-]*\s+"
)
_NOW = re.compile(
    r"(?i),?(?<!\s)\s*+\b(?:from now on|from here on|as of now|now|currently|these days|instead|after all"
    r"|ab jetzt|jetzt|nun|doch"
    r"|since (?:january|february|march|april|may|june|july|august|september|october|november"
    r"|december))\b"
)
_SETTING = re.compile(
    r"(?i)^(?:let's |lets |let us |we'll |we will )?"
    r"(?:set|change|raise|increase|lower|reduce|bump|make|keep|limit|cap|let)\s+(?:the |our |a )?"
    r"(?P<what>.+?)\s+(?:to|at|be|hold |=)?\s*(?P<value>\d\S*(?:\s\w+)?)"
)
_WITHDRAWN = re.compile(
    r"(?i)(?:,? not (?:on |by |in |at |with |the )?|instead of (?:the )?|rather than (?:the )?|statt "
    r"|no longer |nicht )(?P<what>[^,.;!?]{2,60})"
)
_STOP = frozenset(
    stem(word)
    for word in """a an the to of in on at by for with and or is are be been do does we i you it its our
    my your this that should shall will would must may might can let's lets let set make use keep change raise
    increase lower reduce up please always only have has hold der die das den dem ein eine ist sind wird
    werden wir ich und oder bei im am auf""".split()
)


_ANSWER_MARK = " → "


class _Shape(NamedTuple):
    """A rule split for comparison into its topic words and its values."""

    about: frozenset[str]
    values: tuple[str, ...]


@lru_cache(maxsize=8192)
def is_replaced(old: str, new: str) -> bool:
    """Whether a newer rule repeats or contradicts an older one."""
    if old.casefold() == new.casefold() or similarity.same(old, new) is not None:
        return True
    # two questions with the same words are still different questions
    if _ANSWER_MARK in old or _ANSWER_MARK in new:
        return False
    olds, news = _plain_sentences(old), _plain_sentences(new)
    if any(conflict.contradiction(one, other) for one in olds for other in news):
        return True
    if any(_has_new_value(_shape(one), _shape(other)) for one in olds for other in news):
        return True
    return _is_withdrawn(old, new)


@lru_cache(maxsize=1024)
def _plain_sentences(rule: str) -> tuple[str, ...]:
    """Return a rule's sentences without words about a change, each also cut before its first comma."""
    found = []
    for sentence in split_sentences(rule):
        plain = _CHANGES.sub("", _CHANGES.sub("", sentence))
        plain = _NOW.sub("", plain)
        plain = _WITHDRAWN.sub("", plain)
        match = _SETTING.match(plain)
        if match:
            plain = f"The {match['what']} is {match['value']}."
        found.append(plain)
        head = re.split(r"[,;] ", plain, maxsplit=1)[0]
        if head != plain:
            found.append(head)
    return tuple(dict.fromkeys(each for each in found if each.strip()))


@lru_cache(maxsize=2048)
def _shape(sentence: str) -> _Shape:
    words = split_words(sentence)
    values = tuple(f"{word.text} {word.unit}".strip() for word in words if _is_value(word))
    about = frozenset(stem(word.low) for word in words if not _is_value(word) and word.low[:1].isalnum())
    return _Shape(about - _STOP, values)


def _is_value(word: Word) -> bool:
    return word.kind in ("number", "day", "date", "time", "version") or word.low[:1].isdigit()


def _has_new_value(old: _Shape, new: _Shape) -> bool:
    """Whether two rules have the same topic words but different values."""
    if not old.values or not new.values or old.values == new.values or len(old.about) < 1:
        return False
    return old.about == new.about and len(old.values) == len(new.values)


_MOST_WITHDRAWN = 8  # values that one sentence can withdraw


def _is_withdrawn(old: str, new: str) -> bool:
    """Whether a newer rule withdraws part of an older rule on the same topic ("not X any more")."""
    old_words = _content(old)
    for match in itertools.islice(_WITHDRAWN.finditer(new), _MOST_WITHDRAWN):
        withdrawn = _content(match["what"])
        rest = _content(new[: match.start()])
        if withdrawn and withdrawn <= old_words and not _FORBIDS.search(old.lower()):
            about = old_words - withdrawn
            if about and len(about & rest) * 2 >= len(about) and not _WITHDRAWN.search(old):
                return True
    return False


def _content(text: str) -> frozenset[str]:
    return frozenset(stem(word.low) for word in split_words(text) if word.low[:1].isalnum()) - _STOP
