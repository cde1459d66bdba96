"""Commands that look for what is wrong with memory, and mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.chat.commands.base import Command, first_of, wrong
from vademecum.interfaces.cli.lifecycle import show_outcome
from vademecum.interfaces.cli.lint import show

if TYPE_CHECKING:
    from vademecum.interfaces.chat.state import Chat


def lint(chat: Chat, rest: str) -> None:
    """What is wrong."""
    if rest:
        raise wrong("lint", "")
    show(chat.person.lint())


def heal(chat: Chat, rest: str) -> None:
    """What takes no person to mend."""
    if rest not in ("", "apply"):
        raise wrong("heal", "[apply]")
    outcome = chat.person.heal(apply=bool(rest))
    show_outcome(outcome, applied=bool(rest), command="vade heal")


COMMANDS = (
    Command("lint", "", "look for what is wrong with memory", lint),
    Command(
        "heal",
        "[apply]",
        "mend what takes no person; without `apply` it is only told",
        heal,
        first_of("apply"),
    ),
)
