"""What the user laid down in a session: decisions, prohibitions, preferences, and the newest word on each.

More is taken than what memory would propose: in a session "use 10 folds" is a decision, though it asks for
one thing. The sentences are those that `knowledge.signals` finds, those it declines as mere requests although
they forbid, choose or set something, and those that claim how something is. What is said again replaces its
older wording, and what excludes an older statement replaces that statement.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge import signals
from vademecum.knowledge.signals import DeclineReason, SignalKind
from vademecum.text import conflict, meaning, similarity, split_sentences
from vademecum.text.vocabulary import split_words, stem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.knowledge.signals import Mood, WeighedSentence
    from vademecum.text.vocabulary import Word

MOST = 6  # statements of one message
_LONGEST = 4_000  # characters of a message; a longer one is a paste more often than a rule
_WORDS = 30  # of a sentence that only its form marks as a decision


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
    r"^[➜$%'/\[]|^at (?:\w+ )?\S+ \(|^\w*error:",  # what a terminal or a program wrote
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
)  # a piece of work, which is no rule
_VALUE = _any_of(
    r"\d|`|\b[A-Z]\w*[A-Z]\w*\b|(?<=[a-z,] )[A-Z][a-z]+",
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve)\b",
)


def find_rules(text: str) -> tuple[str, ...]:
    """What a message of the user's lays down, in its words and order."""
    return (
        _found(text)
        if len(text) <= _LONGEST
        else _found(f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}")
    )


@lru_cache(maxsize=1024)
def _found(text: str) -> tuple[str, ...]:
    weighed = [signals.weigh(each) for each in signals.split_sentences(text)]
    mood = signals.read_mood(weighed)
    found: dict[str, None] = {}
    for at, each in enumerate(weighed):
        if _lays_down(each, mood):
            start, end = signals.statement_span(at, weighed)
            found.setdefault(" ".join(text[start:end].split()))
    return tuple(found)[:MOST]


def _lays_down(each: WeighedSentence, mood: Mood) -> bool:
    said = each.sentence.masked.strip()
    if _is_question(each, said):
        return False
    if _NO_RULE.search(said):
        return False
    words = len(said.split())
    if ORDER.match(said) and not _FORBIDS.search(said) and not _MANNER.search(said):
        return False
    if words < 3 and not _FORBIDS.search(said):
        return False
    if signals.score(each, mood) >= signals.THRESHOLD and signals.kind_of(each) is not SignalKind.CONTEXT:
        return True
    if words > _WORDS or mood.sentences > MOST * 2:
        return False
    return bool(
        _FORBIDS.search(said)
        or _CHOOSES.search(said)
        or (_SETS.match(said) and words <= 14 and _VALUE.search(each.sentence.text))
        or _MANNER.search(said)
        or (DeclineReason.REQUEST not in each.reasons and _claims(each.sentence.text, said))
    )


def _is_question(each: WeighedSentence, said: str) -> bool:
    """Whether it asks: "tell me what you doubt instead of guessing" does not, nor "could you always ...?"."""
    if each.reasons.get(DeclineReason.QUESTION, 0) < 20 or _POLITE_RULE.search(said):
        return False
    return said.endswith("?") or not _INSTEAD.search(said)


_INSTEAD = re.compile(r"\binstead of\b|\brather than\b")
_POLITE_RULE = re.compile(r"^(?:can|could|would) you (?:please )?(?:always|never)\b")
_PASSING = _any_of(
    r"^(?:i|you|it|that|this|he|she|they|thanks|ok|hm+|there|here|same|measured|ich|du|das|es|dann)\b",
    r"\b(?:looks|seems|feels|sounds|again|yesterday|today|tonight|just|still|took|minute ago)\b",
)


def _claims(text: str, said: str) -> bool:
    """Whether a sentence says of something how it is: not of the moment, the speaker or the past."""
    if _PASSING.search(said):
        return False
    read = meaning.read(text)
    return read.tense != meaning.PAST and (
        read.value is not None or bool(_VALUE.search(text)) or not read.polarity
    )


def is_lasting(rule: str) -> bool:
    """Whether a statement tells how to act, always or never, rather than how something is."""
    low = rule.lower().replace("’", "'")
    return bool(_FORBIDS.search(low) or _MANNER.search(low))


# ------------------------------------------------------------ the newest word on each

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
_DROPPED = re.compile(
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


_ANSWERED = " → "


class _Shape(NamedTuple):
    """A statement without its values: what it is about, and which values it gives."""

    about: frozenset[str]
    values: tuple[str, ...]


def add_rules(known: Sequence[str], said: Iterable[str]) -> tuple[str, ...]:
    """The rules after more was said: each once, in its newest wording, without what no longer holds."""
    found = list(known)
    for new in said:
        found = [old for old in found if not _gives_way(old, new)]
        found.append(new)
    return tuple(found)


@lru_cache(maxsize=8192)
def _gives_way(old: str, new: str) -> bool:
    """Whether an older statement is the same as a newer one, or excluded by it."""
    if old.casefold() == new.casefold() or similarity.same(old, new) is not None:
        return True
    if _ANSWERED in old or _ANSWERED in new:  # questions in the same words are still two questions
        return False
    olds, news = _plain(old), _plain(new)
    if any(conflict.contradiction(one, other) for one in olds for other in news):
        return True
    if any(_revalued(_shape(one), _shape(other)) for one in olds for other in news):
        return True
    return _is_dropped(old, new)


@lru_cache(maxsize=1024)
def _plain(rule: str) -> tuple[str, ...]:
    """Its sentences without the words that only say that something changes, and without their reasons."""
    found = []
    for sentence in split_sentences(rule):
        said = _CHANGES.sub("", _CHANGES.sub("", sentence))
        said = _NOW.sub("", said)
        said = _DROPPED.sub("", said)
        match = _SETTING.match(said)
        if match:
            said = f"The {match['what']} is {match['value']}."
        found.append(said)
        head = re.split(r"[,;] ", said, maxsplit=1)[0]
        if head != said:
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


def _revalued(old: _Shape, new: _Shape) -> bool:
    """Whether two statements are about the same in the same words, with another value."""
    if not old.values or not new.values or old.values == new.values or len(old.about) < 1:
        return False
    return old.about == new.about and len(old.values) == len(new.values)


_DROPS = 8  # as many as one sentence takes back


def _is_dropped(old: str, new: str) -> bool:
    """Whether the newer one says "not this any more" of what the older one says, about the same thing."""
    mine = _content(old)
    for match in itertools.islice(_DROPPED.finditer(new), _DROPS):
        gone = _content(match["what"])
        rest = _content(new[: match.start()])
        if gone and gone <= mine and not _FORBIDS.search(old.lower()):
            about = mine - gone
            if about and len(about & rest) * 2 >= len(about) and not _DROPPED.search(old):
                return True
    return False


def _content(text: str) -> frozenset[str]:
    return frozenset(stem(word.low) for word in split_words(text) if word.low[:1].isalnum()) - _STOP
