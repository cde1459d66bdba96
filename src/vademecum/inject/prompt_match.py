"""Decide which of the records found for a prompt are shown, by the words that both have.

A prompt is a request and no question: most of its words say what to do, and one or two what it is about. So
the words that a record lacks do not count against it; a word counts the more, the rarer it is in English, and
words of requests such as "add" count little. This module knows texts, and no index, vectors or records.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.index import words
from vademecum.inject.importance import Importance
from vademecum.named_tuple import NamedTuple
from vademecum.text.vocabulary import stem

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 4  # records for one prompt
ENOUGH = 0.4  # the evidence that a record needs; any rare word gives more
SURE = 0.8  # the evidence with which no model is asked
BESIDE = 0.5  # the share of the best evidence that another record needs
ABOUT = 2  # words of its own that a prompt needs before likeness in meaning counts
_LEAST, _COMMON = 0.35, 0.22  # what a frequent word gives, and a word of requests beside another one
_FREQUENT = 200  # the rank of the words that are frequent in English
_ACCOUNT = 0.4  # the share that counts for an account of what happened once


class FoundText(NamedTuple):
    """A text that was found for a prompt: its key, its words, and how important its record is."""

    key: str
    text: str
    importance: Importance


def weigh_words(prompt: str) -> dict[str, float]:
    """Return the stems of a prompt's words, each with its weight as evidence; rare words weigh up to 1."""
    return {
        stem(word): _COMMON if stem(word) in _common_stems() else _LEAST + (1 - _LEAST) * _rarity(word)
        for word in words.terms(prompt).words
        if len(word) > 1 and word not in words.STOP
    }


def own_words(weights: dict[str, float]) -> int:
    """Return how many words of a prompt say what it is about."""
    return sum(weight > _COMMON for weight in weights.values())


def evidence(weights: dict[str, float], found: FoundText) -> float:
    """Return how much a text has to do with a prompt of these words; about 1 for one rare word.

    Words of requests count only beside another word, or for a rule or decision that has two of them: "how do
    I run the tests?" is about the decision how to run them.
    """
    held = {stem(word) for word in words.all_in(f"{found.key.replace('-', ' ')} {found.text}")}
    common = [weight for word, weight in weights.items() if word in held and weight <= _COMMON]
    own = [weight for word, weight in weights.items() if word in held and weight > _COMMON]
    if not own and (len(common) < 2 or found.importance > Importance.DECISION):
        return 0.0
    total = sum(own) + sum(common)
    return total * _ACCOUNT if found.importance is Importance.REST else total


def choose(evidences: Iterable[float]) -> list[int]:
    """Return the positions of the records with enough evidence, the best first; ties keep their order."""
    ranked = sorted(enumerate(evidences), key=lambda each: -each[1])
    best = ranked[0][1] if ranked else 0.0
    return [at for at, value in ranked if value >= max(ENOUGH, BESIDE * best)][:MOST]


def _rarity(word: str) -> float:
    """Return how rare a word is in English, from 0 for a frequent one to 1 for an unknown one."""
    rank = words.commonness(word)
    return max(0.0, math.log(rank / _FREQUENT) / math.log(words.RAREST / _FREQUENT))


@cache
def _common_stems() -> frozenset[str]:
    text = Path(__file__).with_name("common_words.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return frozenset(stem(word) for word in " ".join(lines).split())
