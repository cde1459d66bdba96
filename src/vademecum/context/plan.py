"""A smaller window, thought through and not yet made.

Pure: what leaves, what stays, what is cut, and the block that will stand for what leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.context import summary
from vademecum.context.replay import opening
from vademecum.context.trim import trim
from vademecum.context.units import Cut, Unit, flatten, gather
from vademecum.tokens import PRIMING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.context.past import Past
    from vademecum.context.scale import Scale
    from vademecum.context.thread import Entry, Thread
    from vademecum.transcripts.messages import Message

    Render = Callable[[summary.Summary, str, int], str]


class Plan(NamedTuple):
    """What would become of the window, and how large it would be."""

    leaving: tuple[Entry, ...]
    dropped: tuple[Message, ...]
    staying: tuple[Entry, ...]
    cuts: tuple[tuple[str, Cut], ...]
    known: summary.Summary | None
    block: str
    total: int


def make(
    thread: Thread, past: Past, scale: Scale, target: int, render: Render, *, words: str, share: int
) -> Plan:
    """A window of that many tokens in all, of which the block may have one `share`th of the context.

    `render` makes the block of what is known, of a model's words about it, and of the tokens it may have.
    """
    shown = thread.window()
    window = scale.window(shown)
    cap = max(min(scale.context // share, (target - window.fixed) // 3), 0)
    units = gather(shown).units
    found = trim(units, tokens=target - window.schemas - PRIMING - cap, ratio=scale.ratio)
    by_first = {unit.messages[0].id: unit for unit in units}
    cuts = tuple(
        (message.id, how) for first, how in found.cuts for message in by_first[first].messages if message.id
    )
    leaving, staying = _parted(thread.live, found.kept, found.dropped)
    dropped = tuple(thread.logged(entry) for entry in leaving)  # what is told of it holds no secrets
    if not leaving:
        known, block = past.known, past.block
    else:
        stays = [thread.logged(entry) for entry in staying]
        known = summary.summarize(dropped, past.known, kept=stays)
        block = render(known, words, cap)
    decided = thread.with_cuts(cuts)
    total = scale.total([thread.shown(entry, decided) for entry in staying], block)
    return Plan(leaving, dropped, staying, cuts, known, block, total)


def _parted(
    live: Sequence[Entry], kept: Sequence[Unit], dropped: Sequence[Unit]
) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """Which messages of the log leave and which stay.

    A message can be part of two units (results beside words) and stays if either does. One that is in
    none, because it was mended away, leaves with its neighbours.
    """
    if not dropped:
        return (), tuple(live)
    stay = {message.id for message in flatten(kept)}
    gone = {message.id for message in flatten(dropped)} - stay
    head = opening([entry.kept for entry in live])
    last = max((at for at, entry in enumerate(live) if entry.kept.id in gone), default=-1)
    leaving = {
        entry.key
        for at, entry in enumerate(live)
        if entry.kept.id in gone or (head <= at < last and entry.kept.id not in stay)
    }
    return (
        tuple(entry for entry in live if entry.key in leaving),
        tuple(entry for entry in live if entry.key not in leaving),
    )
