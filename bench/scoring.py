"""Score rankings as the literature does: recall of any, of all, of a share, and ndcg, each at k.

Knows ids and positions; knows nothing of texts or of who made the ranking.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Ranked(NamedTuple):
    """One question's answer: what was found, best first, what should have been, and how long it took."""

    question: str
    documents: Sequence[str]
    turns: Sequence[str]
    gold_documents: Mapping[str, int]
    gold_turns: frozenset[str]
    seconds: float


def recall(ranked: Sequence[str], gold: Iterable[str], k: int) -> float:
    """The share of the gold that is among the first k."""
    wanted = set(gold)
    return len(wanted.intersection(ranked[:k])) / len(wanted)


def ndcg(ranked: Sequence[str], gold: Mapping[str, int], k: int) -> float:
    """Discounted gain of the first k, as a share of the best possible."""
    got = sum(gold.get(each, 0) / math.log2(place + 2) for place, each in enumerate(ranked[:k]))
    best = sorted(gold.values(), reverse=True)[:k]
    return got / sum(gain / math.log2(place + 2) for place, gain in enumerate(best))


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """How often a value of the first is above one of the second; a tie counts half."""
    wins = sum((high > low) + 0.5 * (high == low) for high in positive for low in negative)
    return wins / (len(positive) * len(negative))


def longmemeval(answers: Sequence[Ranked]) -> dict[str, object]:
    """Session and turn level over own haystacks."""
    turns = [each for each in answers if each.gold_turns]
    found: dict[str, object] = {"n": len(answers)}
    for k in (5, 10):
        shares = [recall(each.documents, each.gold_documents, k) for each in answers]
        found[f"any@{k}"] = _mean(share > 0 for share in shares)
        found[f"all@{k}"] = _mean(share == 1 for share in shares)
        found[f"ndcg@{k}"] = _mean(ndcg(each.documents, each.gold_documents, k) for each in answers)
    found["turn n"] = len(turns)
    for k in (5, 10):
        found[f"turn all@{k}"] = _mean(recall(each.turns, each.gold_turns, k) == 1 for each in turns)
    return found


def locomo(answers: Sequence[Ranked]) -> dict[str, object]:
    """Recall of the evidence, as turns and as the sessions they stand in."""
    found: dict[str, object] = {"n": len(answers)}
    for k in (5, 10):
        found[f"turn recall@{k}"] = _mean(recall(each.turns, each.gold_turns, k) for each in answers)
    for k in (5, 10):
        found[f"session recall@{k}"] = _mean(
            recall(each.documents, each.gold_documents, k) for each in answers
        )
    return found


def scifact(answers: Sequence[Ranked]) -> dict[str, object]:
    """As BEIR does."""
    return {
        "n": len(answers),
        "ndcg@10": _mean(ndcg(each.documents, each.gold_documents, 10) for each in answers),
        "recall@10": _mean(recall(each.documents, each.gold_documents, 10) for each in answers),
    }


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return round(sum(found) / max(1, len(found)), 4)
