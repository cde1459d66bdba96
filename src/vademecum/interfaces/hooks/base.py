"""What an agent's hooks are: which moments it has, what it says about them, and how it wants its answer.

Imports nothing heavy: this is loaded before anything is known to be worth loading.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Event(StrEnum):
    """A moment in a session, by our name for it."""

    SESSION_START = "session-start"
    USER_PROMPT = "user-prompt"
    PRE_COMPACT = "pre-compact"
    STOP = "stop"
    SESSION_END = "session-end"


ANSWERED = frozenset({Event.SESSION_START, Event.USER_PROMPT})  # the others are done when they are begun


class Told(NamedTuple):
    """What an agent said about a moment, whatever it calls the fields."""

    cwd: str = ""
    session: str = ""
    prompt: str = ""
    transcript: str = ""


class Agent(Protocol):
    """One agent's way of calling hooks."""

    @property
    def name(self) -> str:
        """As it is called on the command line."""

    @property
    def moments(self) -> Mapping[Event, str]:
        """The moments that we can use, by the agent's own names for them."""

    @property
    def missing(self) -> Mapping[Event, str]:
        """The others, and why nothing is installed for them."""

    def read(self, given: Mapping[str, Any], environ: Mapping[str, str]) -> Told:
        """What the agent said, from the object on its hook's standard input."""

    def render(self, event: Event, text: str) -> str:
        """A text for the model, as the agent takes it on standard output."""


def common(given: Mapping[str, Any]) -> Told:
    """The fields most agents name alike; anything of another type counts as absent."""
    return Told(
        cwd=folder(given.get("cwd")),
        session=text(given.get("session_id")),
        prompt=text(given.get("prompt")),
        transcript=text(given.get("transcript_path")),
    )


def text(value: object) -> str:
    """A string, or nothing."""
    return value if isinstance(value, str) else ""


def folder(value: object) -> str:
    """An absolute path, or nothing."""
    path = text(value)
    return path if os.path.isabs(path) and "\0" not in path else ""


def additional_context(event: str, told: str) -> str:
    """The answer in the shape that Claude Code made and others took over."""
    import json

    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": told}})
