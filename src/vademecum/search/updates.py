"""Decide whether a later statement gives another value to the thing that an earlier one is about.

A hint for who reads both: "newer" beside the earlier one. It compares sentences by their words alone: both
are about the same, and in one place each has a value of its own. A doubtful pair gets no hint. Knows texts,
and no passages or times.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from vademecum.index.words import PERSON, STOP, speaker
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.search.evidence import sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOKEN = lazy_pattern(r"[$€£¥]?\d[\d.,:]*\d%?|[$€£¥]?\d%?|[^\W\d_][\w'’@.-]*[^\W_]|[^\W\d_]")
_COLON = lazy_pattern(r"[:：]\W*")
_ATTACHED = lazy_pattern(r"\[(?:image|photo|video|audio|file|attachment|sticker)\b[^\]\n]*\]?", re.IGNORECASE)
# Words that say that something changed, and not to what.
_CHANGE = frozenset(
    "now currently new newly actually instead anymore longer already far changed change moved switched"
    " updated just recently finally meanwhile today lately final definitely really also".split()
)
# Words of sentences that state no lasting value: wishes, thanks, opinions, and what happened once.
_PASSING = frozenset(
    "look looking want need needed would like love try trying tried think thinking hope plan planning wonder"
    " feel feeling thank thanks glad sure advice recommendation tip idea finished started got help maybe"
    " might could should will going suggest recommend consider considering".split()
)
_NO_STATEMENT = ("?", "？", "!", "！")  # how questions, greetings and exclamations end
_SMALL = (STOP | _CHANGE) - {"not", "no", "never"}
_LONGEST = 24  # words of a sentence that states one value
_VALUE = 3  # words of a value
_PLAIN = 3  # the most words of two statements for which one common word is enough
_CHAT = 3  # the fewest common words of two statements of a chat, whose short sentences are seldom facts
_TEXTS = 40  # texts that are compared
_LOOKED_AT = 12  # sentences of a text that are compared
_ALIKE = 0.5  # the share of their words that two sentences have in common at least


class _Statement(NamedTuple):
    words: tuple[str, ...]  # those that say something, in order
    numbers: frozenset[str]
    speaker: str = ""  # the name before the text; only statements of one speaker are compared

    @property
    def first(self) -> str:
        """The first word that is no number: mostly what the statement is about."""
        return next((word for word in self.words if word not in self.numbers), "")


def states_another_value(earlier: str, later: str) -> bool:
    """Return whether the later text gives another value to something that the earlier text states."""
    return bool(find_newer([(earlier, "2026-01-01"), (later, "2026-01-02")]))


def find_newer(texts: Sequence[tuple[str, str]]) -> dict[int, int]:
    """Return, by the place of each outdated text, the place of the newest text that updates it.

    Each text has its time, empty if it has none. What was said on one day is no update.
    """
    if len({time[:10] for _, time in texts[:_TEXTS] if time}) < 2:
        return {}
    begun = [
        (at, sentence, name, _first_word(sentence))
        for at, (text, time) in enumerate(texts[:_TEXTS])
        if time
        for name, sentence in _sentences(text)
    ]
    days: dict[tuple[str, str], set[str]] = {}
    for at, _, name, first in begun:
        days.setdefault((name, first), set()).add(texts[at][1][:10])
    # statements by their speaker and first word, which must be equal
    alike: dict[tuple[str, str], list[tuple[int, _Statement]]] = {}
    for at, sentence, name, first in begun:
        # Most sentences begin like no other of another day, so they are not cut into words.
        statement = _statement(sentence, name) if len(days[name, first]) > 1 else None
        if statement is not None:
            alike.setdefault((name, first), []).append((at, statement))
    found: dict[int, int] = {}
    for group in alike.values():
        for (at, one), (other, two) in itertools.permutations(group, 2):
            time = texts[other][1]
            if time[:10] > texts[at][1][:10] and _differ(one, two):
                known = found.get(at)
                found[at] = other if known is None or time > texts[known][1] else known
    return found


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first sentences of a text that may state something, with their speaker; '' for the user."""
    name = speaker(text) or ""
    said = _COLON.split(text, maxsplit=1)[1] if name else text
    for sentence in sentences(_ATTACHED.sub("", said))[:_LOOKED_AT]:
        if not sentence.rstrip().rstrip("…\"'”’)*_ ").endswith(_NO_STATEMENT):
            yield "" if name in PERSON else name, sentence


def _statement(sentence: str, name: str) -> _Statement | None:
    """Return what a sentence states; None for one that states no lasting value."""
    tokens = [_bare(token) for token in _TOKEN.findall(sentence)]
    if not _PASSING.isdisjoint(tokens) and not any(map(_has_digit, tokens)):
        return None
    words = tuple(_stem(token) for token in tokens if not _is_small(token))
    if not 2 <= len(words) <= _LONGEST:
        return None
    return _Statement(words, frozenset(filter(_has_digit, words)), name)


def _first_word(sentence: str) -> str:
    """Return the first word of a sentence's statement, before the whole sentence is read."""
    for found in _TOKEN.finditer(sentence):
        token = _bare(found[0])
        word = "" if _is_small(token) else _stem(token)
        if word and not _has_digit(word):
            return word
    return ""


def _bare(token: str) -> str:
    return token.lower().strip(".,:")


def _is_small(token: str) -> bool:
    """Return whether a word says nothing by itself, as `I'll` and `it's` do."""
    return token in _SMALL or token.replace("’", "'").partition("'")[0] in STOP


def _has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def _stem(word: str) -> str:
    for ending in ("'s", "’s", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word.removesuffix(ending)
    return word


def _differ(one: _Statement, other: _Statement) -> bool:
    """Return whether two statements have all in common but one value."""
    ours, theirs = set(one.words), set(other.words)
    common = ours & theirs
    left, right = ours - common, theirs - common
    if not left or not right or max(len(left), len(right)) > _VALUE:
        return False
    if len(common) < _ALIKE * min(len(ours), len(theirs)) or one.first != other.first:
        return False
    if one.speaker and len(common) < _CHAT:
        return False
    if one.numbers or other.numbers:  # what is counted must be the same on both sides
        return len(left) == len(right) == 1 and left <= one.numbers and right <= other.numbers
    plain = len(common) > 1 or max(len(one.words), len(other.words)) <= _PLAIN
    return plain and _is_one_run(one.words, left) and _is_one_run(other.words, right)


def _is_one_run(words: Sequence[str], part: set[str]) -> bool:
    """Return whether the words in `part` stand side by side, and not at the beginning."""
    places = [at for at, word in enumerate(words) if word in part]
    return places[0] > 0 and places[-1] - places[0] < len(places)
