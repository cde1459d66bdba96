"""The window a log amounts to, made from its events alone: what the engine sends has to equal it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context.units import Cut, build_units
from vademecum.context.window import apply_all, read_decisions
from vademecum.transcripts.events import window_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.context.prune import PruneDecision
    from vademecum.transcripts import Message
    from vademecum.transcripts.events import Event, Pruned, TornLine, Trimmed


def replay(events: Iterable[Event | TornLine]) -> tuple[Message, ...]:
    """Exactly what was sent last, secrets apart."""
    window = window_of(events, _shorten)
    return build_units([each.message for each in window]).messages


def _shorten(messages: Sequence[Message], decided: Sequence[Pruned | Trimmed]) -> list[Message]:
    by_message: dict[str, list[PruneDecision | Cut]] = {}
    for event in decided:
        for name, how in read_decisions(event):
            by_message.setdefault(name, []).append(how)
    return [apply_all(message, by_message.get(message.id, ())) for message in messages]
