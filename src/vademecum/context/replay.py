"""The window a log amounts to: every decision done again, byte for byte.

Pure functions over events and messages; whoever decides writes the event first and sends what these make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context import prune
from vademecum.context.units import Cut, Unit, cut, gather
from vademecum.transcripts import views
from vademecum.transcripts.events import Pruned
from vademecum.transcripts.messages import Message, Role, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.context.prune import Decision
    from vademecum.transcripts.events import Event, Torn, Trimmed


def replay(events: Iterable[Event | Torn]) -> tuple[Message, ...]:
    """The window a log amounts to: exactly what was sent last, secrets apart."""
    said = views.window(events, shorten)
    return gather([each.message for each in said]).messages


def shorten(messages: Sequence[Message], decided: Sequence[Pruned | Trimmed]) -> list[Message]:
    """Messages as the events say they are sent; for `views.window`."""
    by_message: dict[str, list[Decision | Cut]] = {}
    for event in decided:
        for name, how in decisions_of(event):
            by_message.setdefault(name, []).append(how)
    return [apply_all(message, by_message.get(message.id, ())) for message in messages]


def decisions_of(event: Pruned | Trimmed) -> Iterable[tuple[str, Decision | Cut]]:
    """What an event decided about which message; what a stranger wrote there is passed over."""
    for each in event.decisions:
        try:
            if isinstance(event, Pruned):
                decision = prune.from_json(each)
                yield decision.message, decision
            else:
                yield str(each["message"]), Cut(int(each["limit"]), bool(each["deep"]))
        except (ValueError, KeyError, TypeError):
            continue


def apply_all(message: Message, decisions: Iterable[Decision | Cut]) -> Message:
    """A message after all that was decided about it, in order."""
    for how in decisions:
        if isinstance(how, Cut):
            message = cut(Unit((message,)), how).messages[0]
        else:
            message = prune.apply([message], [how])[0]
    return message


def opening(messages: Sequence[Message]) -> int:
    """How many system messages a thread begins with."""
    return next((at for at, each in enumerate(messages) if each.role is not Role.SYSTEM), len(messages))


def compose(shown: Sequence[Message], block: str) -> tuple[Message, ...]:
    """The window as it is sent: the block behind the system prompt, all of it mended."""
    at = opening(shown)
    return gather([*shown[:at], *([block_message(block)] if block else []), *shown[at:]]).messages


def block_message(text: str) -> Message:
    """The block as a message; a user's, since some providers want a user to speak first."""
    return Message(Role.USER, (Text(text),))
