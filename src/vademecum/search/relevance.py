"""How likely a passage answers a question, from 0 to 1, independent of its rank.

A few signs, each from 0 to 1, are summed on the scale of log odds; more of a sign never makes an answer less
likely. Their weights were fitted for each kind of embedder on several kinds of stores, and separately for
conversations, in which the right names stand in every line, and for languages that the embedder does not know
(`tools/calibrate.py`, `tools/fit_labels.py`). docs/retrieval.md says how reliable the result is. This module
knows words and numbers, and no records, legs or databases.
"""

from __future__ import annotations

import functools
import json
import math
import re
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.index import QuestionCues
from vademecum.index.words import NUMBER, SILENT, TIME
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from vademecum.index import Speech

STRONG, LIKELY = 0.75, 0.4  # the relevance from which a match has this name
MATCHES = ("strong", "likely", "weak")
WEAK = MATCHES[-1]
ONLY_WEAK = "only weak matches were found; they may not answer the question"
FEWEST_WEAK = 3  # results that are shown when none is better

BM25_MOST = 2.2  # times its idf: the most that FTS5 gives a word
WHOLE = 0.999  # the share of the question that counts as all of it
NAME = 2.0  # the weight of a name compared with another word
SHORTEST, LONGEST = 6, 60  # different words, between which the length of a passage counts
_LENGTHS = math.log(LONGEST / SHORTEST)
KNOWN_TO_ALL = 14  # a word of a higher rank among English words has no weight,
LEAST = 0.5  # except this minimum
CURVES = Path(__file__).with_name("relevance.json")
SPOKEN, ATTACHED, LANGUAGES, BEFORE_READING = "spoken", "attached", "languages", "before_reading"

# A word, and the mark that it begins a sentence, where a capital means nothing.
_BEGUN = lazy_pattern(r"(^\W*|[.!?]\s+)?([^\W_]+)")
_ASKS = lazy_pattern(r"[?？]|^\W*(?:who|whom|whose|what|when|where|why|how|which)\b", re.IGNORECASE)
NOTHING_ASKED = QuestionCues()


class Asked(NamedTuple):
    """The words of a question: their weights (together 1), whether each is a name, and the unknown share."""

    words: tuple[str, ...]
    weights: tuple[float, ...]
    names: tuple[bool, ...]
    unknown: float  # the weight of words that occur nowhere


class Signs(NamedTuple):
    """The signs that a passage is relevant, each from 0 to 1."""

    share: float  # the weight of the question's words that it contains
    heaviest: float  # how small the heaviest missing word is
    names: float  # the share of the question's names that it contains; 1 without names
    known: float  # the weight of words that occur anywhere
    several: float  # how many different words it contains, 1 for four
    short: float  # how short it is: a long text contains any word
    rare: float  # how rare its rarest word of the question is
    around: float  # the weight of the question's words in its file
    lead: float  # how far its words stand out among the candidates
    exact: float  # how much of the question is an identifier that it contains as it stands
    alike: float = 0.0  # how similar it is in meaning, without the direction that all texts share
    apart: float = 0.0  # how far that similarity stands out in the store
    both: float = 0.0  # words and meaning together
    read: float = 0.0  # how similar it is to a model that read both
    clear: float = 0.0  # how far that stands out among read passages
    topic: float = 1.0  # the weight of the words beside names that it contains; 1 without such words
    states: float = 1.0  # the share of its sentences that are no questions
    tells: float = 1.0  # whether it mentions a time or a number, if the question asks for one


class Curve(NamedTuple):
    """The weights of the signs for one kind of embedder, which turn signs into a probability."""

    base: float
    weights: tuple[float, ...]

    def __call__(self, signs: Signs) -> float:
        """Return the probability that a passage with these signs is an answer.

        It is 1 for a passage that has every word of the question, or an identifier that makes up most of it.
        """
        if is_sure(signs):
            return 1.0
        return 1 / (1 + math.exp(-self.base - sum(map(mul, self.weights, signs))))


@functools.cache
def curve(family: str, *, spoken: bool = False, attached: bool = False, language: str = "") -> Curve:
    """Return the curve for a kind of embedder: `static`, `minilm`, `none` without vectors, or any other.

    The kind `foreign` has the curve for a question in a language that the embedder does not know, and `read`
    the curve for a question that a model read because words and static vectors had no strong match. Each kind
    has a separate curve for `spoken` passages. The base of a curve is changed for passages of an `attached`
    folder, whose long texts match a question less clearly, and for the `language` of the question: in
    Japanese, even unrelated texts share many pairs of letters.
    """
    kept = _kept()[family]
    more = kept.get(ATTACHED, 0.0) if attached else 0.0
    return _curve(kept[SPOKEN] if spoken else kept, more=more + kept.get(LANGUAGES, {}).get(language, 0.0))


@functools.cache
def curve_before_reading(family: str) -> Curve:
    """Return the curve that decides whether a model reads a question, and how much its reading counts.

    The order of results was fitted with this curve, so it stays when the curves of the labels change.
    """
    kept = _kept()[family]
    return _curve(kept.get(BEFORE_READING) or kept)


def _curve(kept: Mapping[str, Any], *, more: float = 0.0) -> Curve:
    return Curve(kept["base"] + more, tuple(kept["weights"].get(name, 0.0) for name in Signs._fields))


@functools.cache
def _kept() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(CURVES.read_bytes())
    return kept


def is_sure(signs: Signs) -> bool:
    """Return whether these signs prove a passage to be an answer."""
    return signs.share > WHOLE or signs.exact >= 1


def identified(share: float, *, certain: bool) -> float:
    """Return the weight of an exact match by its share of the question; if `certain`, at least a half."""
    return 1.0 if share >= 0.5 else 0.5 if certain else share


def match(relevance: float) -> str:
    """Return the word for a relevance: `strong`, `likely` or `weak`."""
    return MATCHES[0] if relevance >= STRONG else MATCHES[1] if relevance >= LIKELY else MATCHES[2]


def falling(relevances: Sequence[float]) -> list[float]:
    """Return the relevance of ranked results so that none is more relevant than a result before it.

    Where the order contradicts the relevance, neighbours get their mean: both are estimates, and each result
    keeps its place.
    """
    pools: list[tuple[float, int]] = []  # the mean of a run of results, and their number
    for each in relevances:
        mean, count = each, 1
        while pools and pools[-1][0] < mean:
            before, others = pools.pop()
            mean = (before * others + mean * count) / (others + count)
            count += others
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def only_weak(found: int, shown: int) -> tuple[str, ...]:
    """Return the notes about an answer whose results are all weak: `shown` of the `found` ones are left."""
    left_out = found - shown
    return (ONLY_WEAK, f"{left_out} more weak matches are left out") if left_out else (ONLY_WEAK,)


def most_weak(wanted: int) -> int:
    """Return how many results are shown when all are weak: half of the wanted number, with a minimum."""
    return max(FEWEST_WEAK, wanted // 2)


def weigh(
    question: str,
    words: Sequence[str],
    *,
    frequency: Mapping[str, int],
    count: int,
    rank: Callable[[str], int],
) -> Asked:
    """Return the weight of each word of a question, which is greater for rarer words.

    `frequency` and `count` come from the store; `rank` is the word's rank in the language. A small store
    knows little of rarity: in it "served" is as rare as "Gustav". A name keeps its weight in a store that is
    full of it.
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
    """Return the words of a question that are capitalized, except at the beginning of a sentence.

    If most words are capitalized, as in a headline, return none.
    """
    capital = {found[2].lower() for found in _BEGUN.finditer(question) if _is_name(found)}
    names = capital.intersection(words)
    return frozenset() if len(names) > max(1, len(words) / 2) else frozenset(names)


def _is_name(found: re.Match[str]) -> bool:
    return found[1] is None and found[2][0].isupper()


class _HeldWords(NamedTuple):
    """The combined weights of the words of the question that a passage contains."""

    share: float
    heaviest: float
    names: float
    several: float
    rare: float
    topic: float


class Weigher:
    """Computes the signs of relevance that passages have for one question."""

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
        self._known: dict[tuple[bool, ...], _HeldWords] = {}  # many passages contain the same words

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
        """Return the signs of relevance of a passage.

        They come from the question's words in the passage, its length, the BM25 scores of its file (`around`)
        and of itself (`score`), its meaning, the result of reading, and its speaker and mentions. In a
        conversation, a passage with every word of a question need not be an answer.
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
            float(not self._lacks_mention(said.says)),
        )

    def _lacks_mention(self, says: int) -> bool:
        """Return whether the question asks for a time or number of which the passage mentions none."""
        return (self._cues.when and not says & TIME) or (self._cues.how_many and not says & NUMBER)

    def _held(self, held: tuple[bool, ...]) -> _HeldWords:
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
        return _HeldWords(share, 1 - lacking, named_share, min(sum(held), 4) / 4, rare, topic)


def _share(value: float) -> float:
    return 0.0 if value < 0 else 1.0 if value > 1 else value
