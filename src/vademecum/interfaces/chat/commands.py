"""What a person can type instead of words, as `/status`: find the command, run it, offer what comes next.

The commands themselves stand in the modules of their groups, each in its own `COMMANDS`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from vademecum.errors import UnknownName, UsageError, VadeError
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.interfaces.chat.state import Chat

    Run = Callable[[Chat, str], None]
    Complete = Callable[[Chat, Sequence[str]], Iterable[str]]

_ALSO = {"exit": "quit", "q": "quit", "h": "help", "?": "help"}


def nothing(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Nothing to offer."""
    return ()


def first_of(*options: str) -> Complete:
    """Offer these words, and nothing behind them."""

    def complete(chat: Chat, words: Sequence[str]) -> Iterable[str]:
        return options if not words else ()

    return complete


@dataclass(frozen=True, slots=True)
class SlashCommand:
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


# ---------------------------------------------------------------- all of them


def help_(chat: Chat, rest: str) -> None:
    """What can be typed."""
    if rest:
        command = find(rest.lstrip("/"))
        output.line(f"{command.call}\n  {command.help}")
        return
    width = max(len(each.call) for each in every().values() if len(each.call) < 40)
    for each in every().values():
        gap = "\n" + " " * (width + 2) if len(each.call) > width else " " * (width - len(each.call) + 2)
        output.line(f"{each.call}{gap}{each.help}")
    output.line("Everything else goes to the model. Alt-Enter begins a line, Ctrl-C stops an answer.")


def names(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The names of all commands."""
    return () if words else list(every())


@functools.cache
def every() -> Mapping[str, SlashCommand]:
    """All commands by their names, in the order of the help."""
    from vademecum.interfaces.chat import memory_commands, session_commands

    groups = (
        session_commands.WINDOW,
        session_commands.SESSIONS,
        memory_commands.COMMANDS,
        session_commands.TALK,
    )
    shown = SlashCommand("help", "[COMMAND]", "what can be typed", help_, names)
    return {each.name: each for each in (shown, *(each for group in groups for each in group))}


def find(name: str) -> SlashCommand:
    """The command of that name; one that does not exist gets the nearest as a hint."""
    command = every().get(_ALSO.get(name, name))
    if command is None:
        near = get_close_matches(name, every(), 1)
        hint = f"did you mean /{near[0]}?" if near else "/help shows all commands"
        raise UnknownName(f"there is no command /{name[:40]}", hint=hint)
    return command


def run(chat: Chat, line: str) -> bool:
    """Do what a line says; whether it could be done."""
    name, rest = parted(line.strip().removeprefix("/"))
    try:
        find(name).run(chat, rest)
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")
        return False
    return True


def complete(chat: Chat, text: str) -> tuple[list[str], int]:
    """What the last word of a line could become, and how many characters of it are there."""
    if not text.startswith("/") or "\n" in text:
        return [], 0
    *before, last = text[1:].split(" ")
    before = [word for word in before if word]
    try:
        if not before:
            found: Iterable[str] = every()
        else:
            found = find(before[0]).complete(chat, before[1:])
        return [word for word in found if word.startswith(last)], len(last)
    except VadeError:
        return [], 0
