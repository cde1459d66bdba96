"""Commands that look for what is wrong with memory, and mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.chat.commands.base import Command, first_of, wrong
from vademecum.interfaces.present.to_text import show_lint, show_outcome

if TYPE_CHECKING:
    from vademecum.interfaces.chat.state import Chat


def lint(chat: Chat, rest: str) -> None:
    """What is wrong."""
    if rest:
        raise wrong("lint", "")
    show_lint(chat.person.lint())


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
