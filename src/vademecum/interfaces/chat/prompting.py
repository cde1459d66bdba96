"""How a person types: with history, completion and several lines where the library for it is installed.

Without it the plain input of Python does, and everything else works the same. What looks like a secret is
never written to the history.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Protocol

from vademecum.errors import VadeError
from vademecum.store import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from prompt_toolkit.document import Document

    Offer = Callable[[str], tuple[list[str], int]]

HISTORY = "chat-history"
PROMPT = "› "
_KEPT = 2000  # lines of history
_ESCAPED = re.compile(r"\\(.)")


class Prompt(Protocol):
    """Where lines come from; EOFError is the end, KeyboardInterrupt gives up the line."""

    def line(self) -> str:
        """What the person types next."""

    def ask(self, question: str) -> str:
        """The answer to a question."""


class Piped:
    """Lines of standard input, when it is no terminal; nobody can be asked there."""

    def line(self) -> str:
        """The next line that is not blank."""
        for line in sys.stdin:
            if line.strip():
                return line.rstrip("\n")
        raise EOFError

    def ask(self, question: str) -> str:
        """Nobody answers."""
        raise EOFError


class Simple:
    """A terminal without the library: a line that ends with a backslash goes on."""

    def line(self) -> str:
        """What the person types next."""
        said = input(PROMPT)
        while said.endswith("\\"):
            said = f"{said[:-1]}\n{input('… ')}"
        return said

    def ask(self, question: str) -> str:
        """The answer to a question."""
        return input(question)


def prompt(offer: Offer, history: Path | None) -> Prompt:
    """What fits the standard input: a pipe, a terminal, or one with all comforts."""
    if sys.stdin is None or not sys.stdin.isatty():
        return Piped()
    if os.environ.get("TERM", "") == "dumb":
        return Simple()
    try:
        return rich_prompt(offer, history)
    except ImportError:
        return Simple()


def rich_prompt(offer: Offer, history: Path | None) -> Prompt:
    """A prompt with history, completion and several lines."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    class Kept(History):
        """The history in a file of its owner's alone; without one, in memory."""

        def load_history_strings(self) -> Iterable[str]:
            return reversed(read_history(history)) if history else ()

        def store_string(self, string: str) -> None:
            if history is not None:
                add_to_history(history, string)

    class Offered(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            words, typed = offer(document.text_before_cursor)
            for word in words:
                yield Completion(word, start_position=-typed)

    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(
        history=Kept(), completer=Offered(), complete_while_typing=False, key_bindings=keys
    )
    asking: PromptSession[str] = PromptSession()

    class Comfortable:
        """The library's prompt."""

        def line(self) -> str:
            """What the person types next."""
            return session.prompt(PROMPT, prompt_continuation=_continued)

        def ask(self, question: str) -> str:
            """The answer to a question, which is no part of the history."""
            return asking.prompt(question)

    return Comfortable()


def _continued(width: int, number: int, soft: int) -> Any:
    return "… "


# ---------------------------------------------------------------- history


def read_history(path: Path) -> list[str]:
    """What was typed before, oldest first; a file that cannot be read is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []
    if len(lines) > 2 * _KEPT:
        _shorten(path, lines[-_KEPT:])
    return [
        _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], line) for line in lines[-_KEPT:]
    ]


def _shorten(path: Path, lines: list[str]) -> None:
    """Keep the newest lines alone."""
    with contextlib.suppress(OSError):
        part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join([*lines, ""]))
        os.replace(part, path)


def add_to_history(path: Path, text: str) -> None:
    """One line more, unless it holds what looks like a secret; a disk that says no is no matter here."""
    if not text.strip() or secrets.find(text):
        return
    line = text.replace("\\", "\\\\").replace("\n", "\\n")
    with contextlib.suppress(OSError, VadeError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(fd, "a", encoding="utf-8", errors="replace") as file:
            file.write(f"{line}\n")
