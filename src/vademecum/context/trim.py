"""Choose which units leave the window so that the rest fits.

Never dropped: the system messages the conversation starts with, the last message in which the user speaks,
and the newest unit. The rest is kept from the newest backwards, without gaps. The first task is not kept as
a message: the thread summary carries it. When what is never dropped is too large by itself, the newest unit
and the user's message are cut (`units.cut`); the system prompt never is, so a window can stay above its
target only when that prompt, or the mere names and ids of the newest unit, are larger than it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.units import Cut, Unit, cut, cut_for, is_request
from vademecum.tokens import count
from vademecum.transcripts.messages import Role

if TYPE_CHECKING:
    from collections.abc import Sequence


class Trimmed(NamedTuple):
    """What stays, what leaves, both in order; which kept units were cut, by the id of their first message."""

    kept: tuple[Unit, ...]
    dropped: tuple[Unit, ...]
    cuts: tuple[tuple[str, Cut], ...]
    tokens: int


def trim(units: Sequence[Unit], *, tokens: int, ratio: float) -> Trimmed:
    """Keep what fits into that many tokens."""
    sizes = [count(unit.size, ratio) for unit in units]
    if sum(sizes) <= tokens or not units:
        return Trimmed(tuple(units), (), (), sum(sizes))
    head = system_prompt(units)
    anchors = _anchors(units, head)
    kept = dict(enumerate(units[:head]))
    spent = sum(sizes[:head])
    cuts = []
    for at, share in _shares([(at, sizes[at]) for at in anchors], tokens - spent):
        how = cut_for(units[at], share, ratio)
        kept[at] = cut(units[at], how) if how else units[at]
        sizes[at] = count(kept[at].size, ratio)
        if how:
            cuts.append((units[at].messages[0].id, how))
    spent += sum(sizes[at] for at in anchors)
    for at in _walk(units, sizes, head, anchors, tokens - spent):
        kept[at] = units[at]
    dropped = tuple(unit for at, unit in enumerate(units) if at not in kept)
    total = sum(sizes[at] for at in kept)
    return Trimmed(tuple(kept[at] for at in sorted(kept)), dropped, tuple(cuts), total)


def system_prompt(units: Sequence[Unit]) -> int:
    """How many units at the start are system messages."""
    return next((at for at, unit in enumerate(units) if unit.role is not Role.SYSTEM), len(units))


def _anchors(units: Sequence[Unit], head: int) -> list[int]:
    """The last unit in which the user speaks, and the newest one."""
    found = {len(units) - 1}
    for at in range(len(units) - 1, head - 1, -1):
        if any(is_request(message) for message in units[at].messages):
            found.add(at)
            break
    return sorted(at for at in found if at >= head)


def _shares(anchors: list[tuple[int, int]], room: int) -> list[tuple[int, int]]:
    """How many tokens each anchor may take: all it needs, or half, or what the smaller one leaves."""
    room = max(room, 0)
    if sum(size for _, size in anchors) <= room:
        return anchors
    if len(anchors) == 1:
        return [(anchors[0][0], room)]
    (first, least), (second, _) = sorted(anchors, key=lambda each: (each[1], each[0]))
    small = min(least, room // 2)
    return [(first, small), (second, room - small)]


def _walk(units: Sequence[Unit], sizes: list[int], head: int, anchors: list[int], room: int) -> list[int]:
    """The units kept beside the anchors: from the newest back to the first that does not fit."""
    found: list[int] = []
    for at in range(len(units) - 1, head - 1, -1):
        if at in anchors:
            continue
        if sizes[at] > room:
            break
        room -= sizes[at]
        found.append(at)
    # A note of the system's from the middle must not become part of the prompt by being the oldest one left.
    while found and units[found[-1]].role is Role.SYSTEM:
        found.pop()
    return found
