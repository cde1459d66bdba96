"""Whether a passage answers a question at all, from 0 to 1, whatever its place among others.

Knows words, numbers and word vectors; knows nothing of records, legs or databases.
"""

from __future__ import annotations

import math
import re
from itertools import compress
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from vademecum.lazy import LazyModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    import numpy as np
    from numpy.typing import NDArray

    Rows = Callable[[Sequence[str]], NDArray[np.float32]]
else:
    np = LazyModule("numpy")

# relevance = SHARE × how much of the question the passage says + LIKENESS × the centred cosine
#             − LENGTH × ln(words of the passage / 15) − MISSING × the share of names it lacks + BASE
# Found together on four kinds of stores so that 0.35 parts them; `python -m bench nothing` repeats the
# measurement, and docs/retrieval.md says how far to believe it.
SHARE, LIKENESS, LENGTH, MISSING, BASE = 0.80, 0.42, 0.12, 0.04, -0.04
# What likeness and near words give to an ordinary answer, where there are no vectors to tell.
UNKNOWN = 0.15

NEAR = 0.30  # the cosine at which two words begin to mean something alike
NAME = 2.0  # a name tells so many times as much as another word
USUAL, SHORTEST, LONGEST = 15, 6, 30  # different words: a passage of the usual length gains or loses nothing
KNOWN_TO_ALL = 14  # a word of this rank among all English words tells nothing
LEAST = 0.5  # yet it counts a little
MOST = 64  # of a long question, as many words are looked for by meaning

# A word, and what shows that a sentence begins with it: there a capital says nothing.
_BEGUN = re.compile(r"(^\W*|[.!?]\s+)?([^\W_]+)")


class Asked(NamedTuple):
    """The words of a question, how much each tells (together 1), and which are names."""

    words: tuple[str, ...]
    weights: tuple[float, ...]
    names: tuple[bool, ...]


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
    return Asked(
        tuple(words), tuple(weight / total for weight in weights), tuple(word in names for word in words)
    )


def names_in(question: str, words: Sequence[str]) -> frozenset[str]:
    """The words with a capital inside a sentence; none where most have one, as in a headline."""
    capital = {found[2].lower() for found in _BEGUN.finditer(question) if _is_name(found)}
    names = capital.intersection(words)
    return frozenset() if len(names) > max(1, len(words) / 2) else frozenset(names)


def _is_name(found: re.Match[str]) -> bool:
    return found[1] is None and found[2][0].isupper()


def near(asked: Asked, passages: Sequence[Set[str]], vectors: Rows) -> list[list[float]]:
    """How far words of passages mean what the words of a question mean: "sofa" in part for "couch".

    A name stands for itself alone, since one name is always like another. `vectors` gives unit rows.
    """
    found = [[0.0] * len(asked.words) for _ in passages]
    common = [at for at, name in enumerate(asked.names) if not name]
    chosen = sorted(common, key=asked.weights.__getitem__, reverse=True)[:MOST]
    listed = list(set().union(*passages))
    if not chosen or not listed:
        return found
    told: dict[str, list[tuple[int, float]]] = {}
    wanted, rows = vectors([asked.words[at] for at in chosen]), vectors(listed)
    cosines = np.empty((len(listed), len(chosen)), np.float32)
    # A product this small is not shared among threads: waiting for them took five times as long on a busy
    # machine.
    step = 1024 // len(chosen)
    for start in range(0, len(listed), step):
        cosines[start : start + step] = rows[start : start + step] @ wanted.T
    which, places = np.nonzero(cosines > NEAR)
    values = np.minimum((cosines[which, places] - NEAR) / (1 - NEAR), 1)
    for word, at, value in zip(which.tolist(), places.tolist(), values.tolist(), strict=True):
        told.setdefault(listed[word], []).append((chosen[at], value))
    for best, passage in zip(found, passages, strict=True):
        for each in told.keys() & passage:
            for at, value in told[each]:
                best[at] = max(best[at], value)
    return found


def relevance(
    asked: Asked, held: Sequence[float], size: int, *, likeness: float | None, exact: bool = False
) -> float:
    """Weigh the evidence: how far each word stands in the passage, how many words that has, and the cosine.

    `likeness` is the centred cosine, None when nothing is known of that. A passage with an exact match, or
    with every word of the question, is never hidden.
    """
    if exact or (held and min(held) > 0.999):
        return 1.0
    share: float = sum(map(mul, asked.weights, held))
    lacking = [1 - value for value in compress(held, asked.names)]
    length = math.log(min(max(size, SHORTEST), LONGEST) / USUAL)
    value = SHARE * share - LENGTH * length + BASE
    value += UNKNOWN if likeness is None else LIKENESS * max(likeness, 0.0)
    if lacking:
        value -= MISSING * sum(lacking) / len(lacking)
    return min(1.0, max(0.0, value))
