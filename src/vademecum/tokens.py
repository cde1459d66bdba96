"""Estimate how many tokens a text has, by a ratio learned for each model from its provider's counts.

This module knows text and numbers, and no messages. The tokenizers of today's models work on bytes, so a text
is measured in UTF-8 bytes: a Latin letter is 1, a Cyrillic letter 2, a Chinese character 3. At the usual
three to four bytes per token this gives about one token per Chinese character, which a count of characters
misses by far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_RATIO = 3.0  # code and JSON are near 3, prose near 4: a first guess errs towards too many tokens
LEAST_RATIO = 1.5
MOST_RATIO = 4.0
_KEEP = 0.8  # of what is known; the rest is taken from the newest call

PER_MESSAGE = 3
PER_CALL = 10
PER_RESULT = 40  # what providers wrap around it; picked on one sample transcript, it holds on the others
PER_NAME = 1  # a speaker's name, a tool call's id
PER_IMAGE = 85
PRIMING = 3  # once per request


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a piece of a prompt: its text in bytes, and in tokens what has a fixed cost."""

    chars: int = 0
    fixed: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.chars + other.chars, self.fixed + other.fixed)


def weigh(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def count(size: Size, ratio: float) -> int:
    """Return the estimated number of tokens of a size, at this many bytes a token, rounded up."""
    return math.ceil(size.chars / clamp(ratio)) + size.fixed


def clamp(ratio: float) -> float:
    """Return a ratio within the limits of real tokenizers; infinity and NaN become the default."""
    if not math.isfinite(ratio):
        return DEFAULT_RATIO
    return min(max(ratio, LEAST_RATIO), MOST_RATIO)


def learn(ratio: float, chars: int, tokens: int, *, fixed: int = 0) -> float:
    """Return a ratio corrected by a prompt whose real number of tokens a provider has counted.

    The size must cover everything that was counted, tool schemas too; `fixed` are the tokens that are not
    text. A count that tells nothing (zero, or no more than what is fixed) leaves the ratio as it was, and a
    wild count moves it by a fifth of its range at most.
    """
    if chars <= 0 or tokens <= max(fixed, 0):
        return clamp(ratio)
    return _KEEP * clamp(ratio) + (1 - _KEEP) * clamp(chars / (tokens - max(fixed, 0)))


class Estimator(NamedTuple):
    """The ratios that were learned for each model; the owner of the object decides about saving them."""

    ratios: Mapping[str, float] = {}

    def ratio(self, model: str) -> float:
        """Return the number of bytes per token of a model."""
        return clamp(self.ratios.get(model, DEFAULT_RATIO))

    def tokens(self, size: Size, model: str) -> int:
        """Return the estimated number of tokens that a size has for a model."""
        return count(size, self.ratio(model))

    def learned(self, model: str, size: Size, tokens: int) -> Estimator:
        """Return an estimator that has also learned from a call with this size and number of tokens."""
        ratio = learn(self.ratio(model), size.chars, tokens, fixed=size.fixed)
        return Estimator({**self.ratios, model: ratio})
