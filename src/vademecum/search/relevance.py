"""How likely a passage answers a question, from 0 to 1, whatever its place among others.

A few signs, each from 0 to 1 and each such that more of it never makes an answer less likely, are summed on
the scale of log odds. What each weighs was fitted for each kind of embedder on several kinds of stores, and
apart for what somebody says in a conversation: there the right names stand in every line
(`tools/calibrate.py`); docs/retrieval.md says how far to believe it. Knows words and numbers; knows nothing
of records, legs or databases.
"""

from __future__ import annotations

import functools
import json
import math
import re
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.index.words import NUMBER, SILENT, TIME, QuestionCues

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from vademecum.index.words import Speech

STRONG, LIKELY = 0.75, 0.4  # from which relevance on a match is called so
MATCHES = ("strong", "likely", "weak")
WEAK = MATCHES[-1]
FEWEST_WEAK = 3  # that are returned when none is better

BM25_MOST = 2.2  # times its idf: what FTS5 gives a word at most
WHOLE = 0.999  # of the question
NAME = 2.0  # a name tells so many times as much as another word
SHORTEST, LONGEST = 6, 60  # different words, between which a passage's length says something
_LENGTHS = math.log(LONGEST / SHORTEST)
KNOWN_TO_ALL = 14  # a word of this rank among all English words tells nothing
LEAST = 0.5  # yet it counts a little
CURVES = Path(__file__).with_name("relevance.json")

# A word, and what shows that a sentence begins with it: there a capital says nothing.
_BEGUN = re.compile(r"(^\W*|[.!?]\s+)?([^\W_]+)")
_ASKS = re.compile(r"[?？]|^\W*(?:who|whom|whose|what|when|where|why|how|which)\b", re.IGNORECASE)
NOTHING_ASKED = QuestionCues()


class Asked(NamedTuple):
    """The words of a question, how much each tells (together 1), which are names, which stand nowhere."""

    words: tuple[str, ...]
    weights: tuple[float, ...]
    names: tuple[bool, ...]
    unknown: float  # how much of the question stands in no passage at all


class Signs(NamedTuple):
    """What speaks for a passage, each from 0 to 1."""

    share: float  # how much of the question's words it holds
    heaviest: float  # how little the most telling word weighs that it lacks
    names: float  # the share of the question's names that it holds, 1 when it has none
    known: float  # how much of the question stands anywhere in the store
    several: float  # how many different words it holds, 1 for four
    short: float  # how few words it has: a long text holds any word
    rare: float  # how rare the rarest word is that it holds
    around: float  # how much of the question its file holds
    lead: float  # how far its words stand out from those of the other candidates
    exact: float  # whether it holds an identifier of the question as it stands, 1 when that is most of it
    alike: float = 0.0  # how like the question it is in meaning, without what all texts share
    apart: float = 0.0  # how far that stands out from the rest of the store
    both: float = 0.0  # words and meaning together
    read: float = 0.0  # how like the question it is to a model that read both
    clear: float = 0.0  # how far that stands out from the rest of what was read
    topic: float = 1.0  # how much it holds of the words that are no names, 1 when there are none
    states: float = 1.0  # how many of its sentences ask nothing
    tells: float = 1.0  # whether it tells of a time or a number when that is asked for


class Curve(NamedTuple):
    """What each sign weighs for one kind of embedder."""

    base: float
    weights: tuple[float, ...]

    def __call__(self, signs: Signs) -> float:
        """The probability that a passage with these signs is an answer.

        With every word of the question, or an identifier that is most of it, a passage is what was asked for.
        """
        if is_sure(signs):
            return 1.0
        return 1 / (1 + math.exp(-self.base - sum(map(mul, self.weights, signs))))


def curve(family: str, *, spoken: bool = False) -> Curve:
    """The curve of a family of embedders: `static`, `minilm`, `none` for words alone, and one for others.

    `read` is that of a question which was read, after words and static vectors had no strong match. Each has
    another for what is `spoken`.
    """
    return _curves()[family, spoken]


@functools.cache
def _curves() -> dict[tuple[str, bool], Curve]:
    kept = json.loads(CURVES.read_bytes())
    return {
        (kind, spoken): Curve(each["base"], tuple(each["weights"].get(name, 0.0) for name in Signs._fields))
        for kind, both in kept.items()
        for spoken, each in ((False, both), (True, both["spoken"]))
    }


def is_sure(signs: Signs) -> bool:
    """Whether nothing needs to be weighed."""
    return signs.share > WHOLE or signs.exact >= 1


def identified(share: float, *, certain: bool) -> float:
    """How far an exact match goes: by its share of the question, and at least some of an identifier."""
    return 1.0 if share >= 0.5 else 0.5 if certain else share


def match(relevance: float) -> str:
    """What a relevance is called."""
    return MATCHES[0] if relevance >= STRONG else MATCHES[1] if relevance >= LIKELY else MATCHES[2]


def most_weak(wanted: int) -> int:
    """How many of so many are returned when all are weak: half, for who asks for more wants to look."""
    return max(FEWEST_WEAK, wanted // 2)


def weigh(
    question: str,
    words: Sequence[str],
    *,
    frequency: Mapping[str, int],
    count: int,
    rank: Callable[[str], int],
) -> Asked:
    """Say how much each word of a question tells.

    `frequency` and `count` are of the store, `rank` is the word's place among all words of the language. A
    small store knows little of rarity: there "served" is as rare as "Gustav". And a name tells as much in a
    store that is full of it.
    """
    names = names_in(question, words)
    top = math.log(1 + max(1, count))
    weights = []
    for word in words:
        seen = min(frequency.get(word, 0), count)
        own = min(1.0, math.log(1 + (count - seen + 0.5) / (seen + 0.5)) / top)
        general = max(LEAST, math.log(rank(word) / KNOWN_TO_ALL))
        weights.append(general * (NAME if word in names else math.sqrt(own)))
    total = sum(weights) or 1.0
    shares = tuple(weight / total for weight in weights)
    unknown = sum(share for share, word in zip(shares, words, strict=True) if not frequency.get(word))
    return Asked(tuple(words), shares, tuple(word in names for word in words), unknown)


def names_in(question: str, words: Sequence[str]) -> frozenset[str]:
    """The words with a capital inside a sentence; none where most have one, as in a headline."""
    capital = {found[2].lower() for found in _BEGUN.finditer(question) if _is_name(found)}
    names = capital.intersection(words)
    return frozenset() if len(names) > max(1, len(words) / 2) else frozenset(names)


def _is_name(found: re.Match[str]) -> bool:
    return found[1] is None and found[2][0].isupper()


class _Held(NamedTuple):
    """What the words of a question that a passage holds tell, whichever passage it is."""

    share: float
    heaviest: float
    names: float
    several: float
    rare: float
    topic: float


class Weigher:
    """Gathers the signs of one question's passages."""

    def __init__(
        self,
        question: str,
        words: Sequence[str],
        *,
        frequency: Mapping[str, int],
        count: int,
        scores: Collection[float],
        rank: Callable[[str], int],
        cues: QuestionCues = NOTHING_ASKED,
    ) -> None:
        self._cues, self._asks = cues, _ASKS.search(question) is not None
        self._asked = weigh(question, words, frequency=frequency, count=count, rank=rank)
        top = math.log(1 + max(1, count))
        seen = [frequency.get(word, 0) for word in words]
        idf = [math.log(1 + count / each) if each else top for each in seen]
        self._rarity = [min(1.0, each / top) for each in idf]
        self._most = BM25_MOST * sum(idf) or 1.0
        self._usual = sum(scores) / len(scores) if scores else 0.0
        spread = sum([(each - self._usual) ** 2 for each in scores])
        self._spread = math.sqrt(spread / len(scores)) if spread else 1.0
        self._known: dict[tuple[bool, ...], _Held] = {}  # many passages hold the same words

    def __call__(
        self,
        held: tuple[bool, ...],
        size: int,
        *,
        around: float,
        score: float,
        exact: float,
        alike: float = 0.0,
        apart: float = 0.0,
        read: float = 0.0,
        clear: float = 0.0,
        said: Speech = SILENT,
    ) -> Signs:
        """Gather the signs of a passage.

        Which words it holds, how many it has, the BM25 of its file (`around`) and its own (`score`), its
        meaning, what reading says, and who says it how. In talk, every word of a question is no answer yet.
        """
        words = self._known.get(held)
        if words is None:
            words = self._known[held] = self._held(held)
        alike = _share(alike)
        return Signs(
            min(words.share, WHOLE) if said.speaker and self._asks else words.share,
            words.heaviest,
            words.names,
            1 - self._asked.unknown,
            words.several,
            1 - math.log(min(max(size, SHORTEST), LONGEST) / SHORTEST) / _LENGTHS,
            words.rare,
            _share(around / self._most),
            _share((score - self._usual) / self._spread / 4),
            exact,
            alike,
            _share(apart / 8),
            math.sqrt(words.share * alike) if alike else 0.0,
            _share(read),
            _share(clear / 8),
            words.topic,
            1 - said.asks / 100,
            float(not self._lacks(said.says)),
        )

    def _lacks(self, says: int) -> bool:
        """Whether a passage tells of no time or number that is asked for."""
        return (self._cues.when and not says & TIME) or (self._cues.how_many and not says & NUMBER)

    def _held(self, held: tuple[bool, ...]) -> _Held:
        share = lacking = rare = topic = plain = 0.0
        names = named = 0
        for weight, has, name, rareness in zip(
            self._asked.weights, held, self._asked.names, self._rarity, strict=True
        ):
            names += name
            plain += 0.0 if name else weight
            if has:
                share += weight
                topic += 0.0 if name else weight
                named += name
                rare = max(rare, rareness)
            else:
                lacking = max(lacking, weight)
        share, topic = min(share, 1.0), _share(topic / plain) if plain else 1.0
        named_share = named / names if names else 1.0
        return _Held(share, 1 - lacking, named_share, min(sum(held), 4) / 4, rare, topic)


def _share(value: float) -> float:
    return 0.0 if value < 0 else 1.0 if value > 1 else value
