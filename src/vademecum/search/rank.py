"""From scores to an order: no file and no source fills the page alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CROWDING = 0.93  # what a further chunk of the same file keeps of its score
SUPERSEDED = 0.85  # what an entry keeps that a later one has replaced
OTHERS_SHARE = (
    2 / 3
)  # of the places that one source beside memory may take while others have something to say


def spread(scores: Mapping[int, float], file_of: Mapping[int, int]) -> list[tuple[int, float]]:
    """Order chunks, each further one of a file a little lower; ties break on the id, so it is stable."""
    seen: dict[int, int] = {}
    out = []
    for chunk in sorted(scores, key=lambda each: (-scores[each], each)):
        before = seen.get(file_of[chunk], 0)
        seen[file_of[chunk]] = before + 1
        out.append((chunk, scores[chunk] * CROWDING**before))
    return sorted(out, key=lambda each: (-each[1], each[0]))


def with_quota(
    ordered: Sequence[int], source_of: Callable[[int], str], limit: int, *, free: frozenset[str]
) -> list[int]:
    """The first `limit`, where a source that is not free makes room for others; no place stays empty."""
    most = math.ceil(limit * OTHERS_SHARE)
    taken: dict[str, int] = {}
    first, later = [], []
    for chunk in ordered:
        source = source_of(chunk)
        if source in free or taken.get(source, 0) < most:
            taken[source] = taken.get(source, 0) + 1
            first.append(chunk)
        else:
            later.append(chunk)
    chosen = set([*first, *later][:limit])
    return [chunk for chunk in ordered if chunk in chosen]


def three_factors(*, keywords: float, days: float, uses: int) -> float:
    """Relevance, recency and use in one number: 0.5, 0.3 and 0.2."""
    recency = 1 / (1 + max(days, 0.0) / 30)
    usage = min(1.0, math.log1p(max(uses, 0)) / math.log(101))
    return 0.5 * min(max(keywords, 0.0), 1.0) + 0.3 * recency + 0.2 * usage
