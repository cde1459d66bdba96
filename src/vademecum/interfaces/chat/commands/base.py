"""What a command is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.interfaces.chat.state import Chat

    Run = Callable[[Chat, str], None]
    Complete = Callable[[Chat, Sequence[str]], Iterable[str]]


def nothing(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Nothing to offer."""
    return ()


def first_of(*options: str) -> Complete:
    """Offer these words, and nothing behind them."""

    def complete(chat: Chat, words: Sequence[str]) -> Iterable[str]:
        return options if not words else ()

    return complete


@dataclass(frozen=True, slots=True)
class Command:
    """A command: how it is called, what it does, and what can be typed behind it.

    `run` is given what stands behind the name; `complete` the whole words before the one being typed.
    """

    name: str
    usage: str
    help: str
    run: Run
    complete: Complete = nothing

    @property
    def call(self) -> str:
        """How it is typed."""
        return f"/{self.name} {self.usage}".rstrip()


def parted(rest: str) -> tuple[str, str]:
    """The first word, and what stands behind it."""
    first, _, more = rest.strip().partition(" ")
    return first, more.strip()


def wrong(command: str, usage: str) -> UsageError:
    """The error for a call that is none."""
    return UsageError(f"/{command} is called as `/{command} {usage}`", hint="/help shows all commands")


def keys(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The keys of the records in sight."""
    return () if words else sorted({record.key for record in chat.person.list().records})


def below(**options: Complete) -> Complete:
    """Offer these words first, and behind each what it offers itself."""

    def complete(chat: Chat, words: Sequence[str]) -> Iterable[str]:
        if not words:
            return [name.rstrip("_") for name in options]
        found = options.get(words[0])
        return found(chat, words[1:]) if found is not None else ()

    return complete
