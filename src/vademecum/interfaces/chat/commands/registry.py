"""All commands: find the one a line means, run it, and offer what could be typed next."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from vademecum.errors import UnknownName, VadeError
from vademecum.interfaces.chat.commands import keeping, mending, sessions, talking, window
from vademecum.interfaces.chat.commands.base import Command, parted
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.interfaces.chat.state import Chat


def help_(chat: Chat, rest: str) -> None:
    """What can be typed."""
    if rest:
        command = find(rest.lstrip("/"))
        output.line(f"{command.call}\n  {command.help}")
        return
    width = max(len(each.call) for each in COMMANDS.values() if len(each.call) < 40)
    for each in COMMANDS.values():
        gap = "\n" + " " * (width + 2) if len(each.call) > width else " " * (width - len(each.call) + 2)
        output.line(f"{each.call}{gap}{each.help}")
    output.line("Everything else goes to the model. Alt-Enter begins a line, Ctrl-C stops an answer.")


def names(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The names of all commands."""
    return () if words else list(COMMANDS)


COMMANDS = {
    each.name: each
    for each in (
        Command("help", "[COMMAND]", "what can be typed", help_, names),
        *window.COMMANDS,
        *sessions.COMMANDS,
        *keeping.COMMANDS,
        *mending.COMMANDS,
        *talking.COMMANDS,
    )
}
_ALSO = {"exit": "quit", "q": "quit", "h": "help", "?": "help"}


def find(name: str) -> Command:
    """The command of that name; one that does not exist gets the nearest as a hint."""
    command = COMMANDS.get(_ALSO.get(name, name))
    if command is None:
        near = get_close_matches(name, COMMANDS, 1)
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
            found: Iterable[str] = COMMANDS
        else:
            found = find(before[0]).complete(chat, before[1:])
        return [word for word in found if word.startswith(last)], len(last)
    except VadeError:
        return [], 0
