"""Commands about the chat itself: help, the model, the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.chat.commands.base import Command, wrong
from vademecum.interfaces.chat.state import NO_MODEL, find_model
from vademecum.interfaces.present import output
from vademecum.llm import select

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.interfaces.chat.state import Chat


def model(chat: Chat, rest: str) -> None:
    """Which model answers."""
    if rest == "list":
        _list()
        return
    if " " in rest:
        raise wrong("model", "[PROVIDER:NAME|list]")
    if rest:
        chosen = find_model(chat.settings, rest)
        chat.model, chat.tools_on = chosen, True
        chat.renew()
    if chat.model is None:
        output.line(NO_MODEL)
    else:
        output.line(f"{chat.model.name}, a window of {chat.window:,} tokens")


def _list() -> None:
    from vademecum.llm.select import discover_servers

    found = [(each.endpoint, name) for each in discover_servers() for name in each.names]
    for endpoint, name in found:
        output.line(f"{name}  {endpoint}")
    if not found:
        output.line("no Ollama or llama.cpp server runs on this machine")
    output.line(f"providers: {', '.join(select.PROVIDERS)}")


def providers(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The beginnings of names."""
    return () if words else ["list", *(f"{each}:" for each in select.PROVIDERS)]


def quit_(chat: Chat, rest: str) -> None:
    """The end."""
    chat.over = True


COMMANDS = (
    Command(
        "model", "[PROVIDER:NAME|list]", "which model answers; another one from now on", model, providers
    ),
    Command("quit", "", "end the session; Ctrl-D does the same", quit_),
)
