"""What is shown: Markdown and dim lines on a terminal, plain text over a pipe, the answer alone for a script.

Whatever a model or a tool says is made visible first, so that nothing in it can move a cursor or hide.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from vademecum.interfaces.present import output
from vademecum.text import fences
from vademecum.text.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BREAK = re.compile(r"\n[ \t]*\n+(?=\S)")  # what follows is not indented, so it belongs to no list above
_PAUSE = 0.05  # seconds between two drawings
_TAIL = 12  # lines of a block that is still being said


class Screen(Protocol):
    """Where a chat is seen, and where a person can be asked."""

    def say(self, text: str) -> None:
        """A line of ours."""

    def dim(self, text: str) -> None:
        """A line that may be overlooked."""

    def error(self, text: str) -> None:
        """A line about what went wrong."""

    def answer(self) -> contextlib.AbstractContextManager[Callable[[str], None]]:
        """An answer that streams in: call with each piece."""

    def asks(self) -> bool:
        """Whether a person can be asked here."""

    def ask(self, question: str, choices: str) -> str:
        """One of the letters; the question has been shown."""


class Plain:
    """Lines without decoration, for a pipe; with `only_answers` nothing but those."""

    def __init__(self, ask: Callable[[str], str] | None = None, *, only_answers: bool = False) -> None:
        self._ask = ask
        self._quiet = only_answers

    def say(self, text: str) -> None:
        """A line of ours."""
        if not self._quiet:
            output.line(text)

    def dim(self, text: str) -> None:
        """A line that may be overlooked."""
        self.say(text)

    def error(self, text: str) -> None:
        """A line on standard error."""
        output.error(text)

    @contextlib.contextmanager
    def answer(self) -> Iterator[Callable[[str], None]]:
        """Pieces go out as they come, and the last is followed by a line end."""
        last = "\n"

        def show(piece: str) -> None:
            nonlocal last
            shown = visible(piece)
            if shown:
                sys.stdout.write(shown)
                sys.stdout.flush()
                last = shown[-1]

        try:
            yield show
        finally:
            if last != "\n":
                sys.stdout.write("\n")
                sys.stdout.flush()

    def asks(self) -> bool:
        """Whether a person can be asked here."""
        return self._ask is not None

    def ask(self, question: str, choices: str) -> str:
        """One of the letters."""
        return asked(self._ask, question, choices)


class Terminal:
    """Markdown block by block, with the block that is still being said below it."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask

    def say(self, text: str) -> None:
        """A line of ours."""
        output.line(text)

    def dim(self, text: str) -> None:
        """A line that may be overlooked."""
        self._print(visible(text), style="dim")

    def error(self, text: str) -> None:
        """A line about what went wrong."""
        self._print(visible(text), style="red")

    @contextlib.contextmanager
    def answer(self) -> Iterator[Callable[[str], None]]:
        """Finished blocks are drawn and stay; the rest is shown as it comes, until it is finished."""
        from rich.console import Console
        from rich.live import Live
        from rich.markdown import Markdown
        from rich.text import Text

        console = Console()
        said = ""
        drawn = 0.0
        with Live(console=console, transient=True, auto_refresh=False) as live:

            def show(piece: str) -> None:
                nonlocal said, drawn
                said += piece
                done, said = blocks(said)
                for block in done:
                    live.console.print(Markdown(visible(block)))
                now = time.monotonic()
                if done or now - drawn > _PAUSE:
                    live.update(Text("\n".join(visible(said).splitlines()[-_TAIL:])), refresh=True)
                    drawn = now

            try:
                yield show
            finally:
                live.update(Text(""), refresh=True)
                if said.strip():
                    live.console.print(Markdown(visible(said)))

    def asks(self) -> bool:
        """A person sits here."""
        return True

    def ask(self, question: str, choices: str) -> str:
        """One of the letters."""
        return asked(self._ask, question, choices)

    def _print(self, text: str, **how: Any) -> None:
        from rich.console import Console

        Console().print(text, markup=False, highlight=False, **how)


def asked(ask: Callable[[str], str] | None, question: str, choices: str) -> str:
    """Ask until one of the letters comes; the end of the input, or nobody to ask, is a no."""
    if ask is None:
        return "n"
    while True:
        try:
            said = ask(f"{question} [{'/'.join(choices)}] ").strip().lower()
        except EOFError:
            return "n"
        if said[:1] in choices and said[:1]:
            return said[:1]


def blocks(text: str) -> tuple[list[str], str]:
    """The blocks of Markdown that are finished, and the rest; a fence is one block, however long."""
    done: list[str] = []
    start = 0
    for found in _BREAK.finditer(text):
        if not fences.is_open(text[start : found.start()]):
            done.append(text[start : found.start()])
            start = found.end()
    return done, text[start:]
