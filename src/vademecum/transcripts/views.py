"""What a session's events amount to: its window, its whole thread, its costs, its list of things to do.

Pure functions over events in the order of the log; torn lines and unknown events count for nothing. A window
is replayed, never kept: whoever sends one writes down each decision, and the same decisions give the same
messages, byte for byte.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from vademecum.transcripts.events import (
    TAKEN_BACK,
    Checkpoint,
    Compacted,
    Ended,
    Event,
    Pruned,
    Renamed,
    Said,
    Started,
    Summary,
    Todo,
    Torn,
    Trimmed,
    Used,
)
from vademecum.transcripts.messages import (
    LEFT,
    META,
    SIDE,
    SUMMARY,
    Message,
    Role,
    Text,
    says_something,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Shorten = Callable[[Sequence[Message], Sequence[Pruned | Trimmed]], Sequence[Message]]

LONGEST_NAME = 60

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


# -------------------------------------------------------------------- the window


def window(events: Iterable[Event | Torn], shorten: Shorten | None = None) -> tuple[Said, ...]:
    """What is sent now: every message that has not left, shortened as decided, the summary in its place.

    `shorten` is the function of whoever made the decisions: it gets the messages as they were said and all
    that was decided, in order, and gives back as many messages.
    """
    shown: dict[str, Said] = {}
    by_own_id: dict[str, str] = {}
    decided: list[Pruned | Trimmed] = []
    summary: Said | None = None

    def drop(gone: Iterable[str]) -> None:
        for each in gone:
            shown.pop(each if each in shown else by_own_id.get(each, ""), None)

    for event in events:
        if isinstance(event, Said):
            key = event.id or f"#{event.seq}"
            shown[key] = event
            by_own_id[event.message.id] = key
        elif isinstance(event, Pruned):
            decided.append(event)
        elif isinstance(event, Trimmed):
            drop(event.ids)
            decided += [event] if event.decisions else []
        elif isinstance(event, Compacted):
            first = event.first_kept if event.first_kept in shown else by_own_id.get(event.first_kept, "")
            drop(event.covers or _before(shown, first))
            summary = _as_message(event)
        elif isinstance(event, Summary):
            summary = _as_message(event)
    kept = _shortened(list(shown.values()), decided, shorten)
    at = _opening(kept)
    return (*kept[:at], *([summary] if summary else []), *kept[at:])


def _shortened(kept: list[Said], decided: Sequence[Pruned | Trimmed], shorten: Shorten | None) -> list[Said]:
    if shorten is None or not decided:
        return kept
    messages = shorten([each.message for each in kept], decided)
    return [
        each if message is each.message else replace(each, message=message)
        for each, message in zip(kept, messages, strict=True)
    ]


def _before(shown: Mapping[str, Said], first_kept: str) -> list[str]:
    """The messages before one, but for the system messages that everything begins with."""
    keys = list(shown)
    if not first_kept or first_kept not in shown:
        return []
    return keys[_opening(list(shown.values())) : keys.index(first_kept)]


def _opening(said: Sequence[Said]) -> int:
    """How many system messages a thread begins with."""
    return next((at for at, each in enumerate(said) if each.message.role is not Role.SYSTEM), len(said))


def _as_message(event: Summary | Compacted) -> Said:
    role = Role(event.role) if event.role in set(Role) else Role.SYSTEM
    return Said(Message(role, (Text(event.text),)), seq=event.seq, time=event.time, id=event.id)


# -------------------------------------------------------------------- the thread


def thread(events: Iterable[Event | Torn]) -> tuple[Said, ...]:
    """Every message there was, whatever has left the window since."""
    return tuple(event for event in events if isinstance(event, Said))


_BACK = (TAKEN_BACK, "no longer in the file")  # why a message of a log is no part of its session


def read_thread(events: Iterable[Event | Torn]) -> list[Said]:
    """Everything that was said and not taken back, whatever has left the window since."""
    found: dict[str, Said] = {}
    for event in events:
        if isinstance(event, Said):
            found[event.id or f"#{event.seq}"] = event
        elif isinstance(event, Trimmed) and event.why in _BACK:
            for each in event.ids:
                found.pop(each, None)
    return list(found.values())


# -------------------------------------------------------------------- what is known of a session


class Usage(NamedTuple):
    """What all calls of a session cost together."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float = 0.0


def usage(events: Iterable[Event | Torn]) -> Usage:
    """The sum over all calls; a call that names no total counts with what went in and came out."""
    found = Usage()
    for event in events:
        if isinstance(event, Used):
            total = event.total or event.input + event.output
            found = Usage(
                found.calls + 1,
                found.input + event.input,
                found.output + event.output,
                found.cached + event.cached,
                found.total + total,
                found.cost + event.cost,
            )
    return found


def todo(events: Iterable[Event | Torn]) -> Todo:
    """The list of things to do, as it now is; an empty one when there never was any."""
    return _last(events, Todo) or Todo()


def checkpoint(events: Iterable[Event | Torn]) -> Checkpoint | None:
    """Where the work stood last."""
    return _last(events, Checkpoint)


def started(events: Iterable[Event | Torn]) -> Started | None:
    """How the session began."""
    return next((event for event in events if isinstance(event, Started)), None)


def ended(events: Iterable[Event | Torn]) -> Ended | None:
    """How the session ended; None while it goes on, or when somebody spoke since."""
    found: Ended | None = None
    for event in events:
        if isinstance(event, Ended):
            found = event
        elif isinstance(event, Said | Started):
            found = None
    return found


def name(events: Iterable[Event | Torn]) -> str:
    """What the session is called: as somebody named it last, else after its first real request."""
    given = made = ""
    for event in events:
        if isinstance(event, Renamed | Started):
            given = event.name or given
        elif isinstance(event, Said) and not made and not given:
            made = name_from(event.message)
    return given or made


def name_from(message: Message) -> str:
    """A name from a user's request; empty when it is none, or only a greeting or a word of consent."""
    if message.role is not Role.USER or is_aside(message) or not says_something(message.text):
        return ""
    lines = [line for line in message.text.splitlines() if line.strip()]
    line = next(filter(says_something, lines), lines[0])
    words = " ".join(_CONTROL.sub("", line).split()).lstrip("#>*- ")
    if len(words) <= LONGEST_NAME:
        return words
    short = words[: LONGEST_NAME - 1]
    return (short.rpartition(" ")[0] if " " in short[20:] else short).rstrip(" ,.;:") + "…"


def is_aside(message: Message) -> bool:
    """Whether a message of an import is no plain part of the conversation: machinery, a branch, a summary."""
    return any(message.extra.get(mark) for mark in (META, SIDE, LEFT, SUMMARY))


_E = TypeVar("_E", bound=Event)


def _last(events: Iterable[Event | Torn], kind: type[_E]) -> _E | None:
    found = None
    for event in events:
        if isinstance(event, kind):
            found = event
    return found
