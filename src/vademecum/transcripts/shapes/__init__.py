"""Messages in the shapes of providers and frameworks, one module for each: there and back without loss."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from vademecum.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.transcripts.messages import Json, Message

# Those whose marks are plainest come first; plain `{role, content}` fits several and goes to the last.
NAMES = ("pydantic_ai", "openai_responses", "anthropic", "openai_chat")


class Shape(Protocol):
    """There and back: `write(read(x)) == x` for every list of JSON objects."""

    @property
    def name(self) -> str:
        """As it is called, and the key of what it keeps in `extra` and `Opaque`."""

    def read(self, messages: Sequence[Json]) -> list[Message]:
        """Theirs as ours; a UsageError for what is not a list of objects."""

    def write(self, messages: Sequence[Message]) -> list[Json]:
        """Ours as theirs, whichever shape they were read from."""

    def recognises(self, messages: Sequence[Json]) -> bool:
        """Whether these bear the marks of this shape."""


def shape(name: str) -> Shape:
    """The shape of that name."""
    if name not in NAMES:
        raise UnknownName(f"there is no message shape {name!r}", hint=f"use one of {', '.join(NAMES)}")
    return cast("Shape", import_module(f"vademecum.transcripts.shapes.{name}"))


def recognise(messages: Sequence[Json]) -> Shape | None:
    """The shape these messages are in; None where nothing tells."""
    if not isinstance(messages, list | tuple) or not messages:
        return None
    if not all(isinstance(each, dict) for each in messages):
        return None
    return next((each for each in map(shape, NAMES) if each.recognises(messages)), None)


def objects(messages: Sequence[Json], *, name: str) -> Sequence[dict[str, Json]]:
    """The same messages, once it is sure that they are a list of objects."""
    hint = "pass the list that the provider's API takes"
    if not isinstance(messages, list | tuple):
        kind = type(messages).__name__
        raise UsageError(f"{name} messages must be a list of objects, not {kind}", hint=hint)
    for number, each in enumerate(messages):
        if not isinstance(each, dict):
            kind = type(each).__name__
            raise UsageError(f"{name} message {number} must be an object, not {kind}", hint=hint)
    return messages
