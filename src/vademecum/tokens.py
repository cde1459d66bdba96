"""How many tokens a text is, learned per model from what its provider counted.

Knows text and numbers; knows nothing of messages. The tokenizers of today's models work on bytes, so a text
is weighed in UTF-8 bytes: a Latin letter is 1, a Cyrillic one 2, a Chinese one 3. At the usual three to
four bytes per token this gives about one token per Chinese sign, which a count of characters misses by far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
    """What a piece of a prompt weighs: text, in bytes, and what costs the same in every model, in tokens."""

    chars: int = 0
    fixed: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.chars + other.chars, self.fixed + other.fixed)


def weigh(text: str) -> int:
    """The weight of a text: its length in UTF-8, without copying it when it is plain ASCII."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def count(size: Size, ratio: float) -> int:
    """How many tokens that is, rounded up."""
    return math.ceil(size.chars / clamp(ratio)) + size.fixed


def clamp(ratio: float) -> float:
    """A ratio a real tokenizer can have; what is no number becomes the first guess."""
    if not math.isfinite(ratio):
        return DEFAULT_RATIO
    return min(max(ratio, LEAST_RATIO), MOST_RATIO)


def learn(ratio: float, chars: int, tokens: int, *, fixed: int = 0) -> float:
    """The ratio after a call in which a prompt of that weight was counted as that many tokens.

    The weight must be that of everything counted, tool schemas too; `fixed` is what of it was no text. A
    count that says nothing (none, or less than what is fixed) leaves the ratio as it was, and one wild
    count moves it by a fifth of its range at most.
    """
    if chars <= 0 or tokens <= max(fixed, 0):
        return clamp(ratio)
    return _KEEP * clamp(ratio) + (1 - _KEEP) * clamp(chars / (tokens - max(fixed, 0)))


class Estimator(NamedTuple):
    """What has been learned of each model; whoever holds one keeps it somewhere, or does not."""

    ratios: Mapping[str, float] = {}

    def ratio(self, model: str) -> float:
        """Bytes per token of a model."""
        return clamp(self.ratios.get(model, DEFAULT_RATIO))

    def tokens(self, size: Size, model: str) -> int:
        """How many tokens a model makes of it."""
        return count(size, self.ratio(model))

    def learned(self, model: str, size: Size, tokens: int) -> Estimator:
        """The estimator that also knows this call."""
        ratio = learn(self.ratio(model), size.chars, tokens, fixed=size.fixed)
        return Estimator({**self.ratios, model: ratio})
