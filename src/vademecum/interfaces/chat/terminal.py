"""The terminal of a chat: show answers as Markdown, ask questions, and read lines with history.

Output to a pipe is plain text; for a script it is the answer alone. Control characters in texts of models and
tools are made visible, so that they cannot move the cursor or hide anything. Lines are read with
prompt-toolkit if it is installed, else with Python's `input`. A line that looks like a secret is never
written to the history.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from vademecum.errors import VadeError
from vademecum.interfaces.present import output
from vademecum.interfaces.present.safe import has_secret
from vademecum.text import fences, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from prompt_toolkit.document import Document

    Offer = Callable[[str], tuple[list[str], int]]

HISTORY = "chat-history"
PROMPT = "› "
_KEPT = 2000  # lines of history
_ESCAPED = re.compile(r"\\(.)")
_BREAK = re.compile(r"\n[ \t]*\n+(?=\S)")  # the next line is not indented, so it is not part of a list above
_PAUSE = 0.05  # seconds between two updates of the screen
_TAIL = 12  # shown lines of an unfinished block


# ---------------------------------------------------------------- what is shown


class Screen(Protocol):
    """A place that shows the texts of a chat and asks the person questions."""

    def say(self, text: str) -> None:
        """Show a message of the chat program."""

    def dim(self, text: str) -> None:
        """Show a less important message of the chat program."""

    def error(self, text: str) -> None:
        """Show an error message."""

    def answer(self) -> contextlib.AbstractContextManager[Callable[[str], None]]:
        """Show an answer while it arrives; the context yields a function to call with each piece."""

    def working(self, text: str) -> contextlib.AbstractContextManager[object]:
        """Show that something is being done for as long as the context lasts."""

    def asks(self) -> bool:
        """Return whether a person can be asked here."""

    def ask(self, question: str, choices: str) -> str:
        """Ask a question and return the chosen letter, one of `choices`."""


class PlainScreen:
    """A screen for a pipe: plain lines without colours; with `only_answers`, only answers and errors."""

    def __init__(self, ask: Callable[[str], str] | None = None, *, only_answers: bool = False) -> None:
        self._ask = ask
        self._quiet = only_answers

    def say(self, text: str) -> None:
        """Print a message of the chat program, unless only answers are wanted."""
        if not self._quiet:
            output.line(text)

    def dim(self, text: str) -> None:
        """Print a less important message; a pipe has no grey text, so it looks like any other message."""
        self.say(text)

    def error(self, text: str) -> None:
        """Print an error message to standard error."""
        output.error(text)

    @contextlib.contextmanager
    def answer(self) -> Iterator[Callable[[str], None]]:
        """Print the pieces of an answer as they arrive, and a line end after the last piece."""
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

    def working(self, text: str) -> contextlib.AbstractContextManager[object]:
        """Print the text as a line, since nothing can move in a pipe."""
        self.say(text)
        return contextlib.nullcontext()

    def asks(self) -> bool:
        """Return whether there is a function to ask a person with."""
        return self._ask is not None

    def ask(self, question: str, choices: str) -> str:
        """Ask a question and return the chosen letter."""
        return ask_letter(self._ask, question, choices)


class TerminalScreen:
    """A screen that draws Markdown block by block, with the unfinished block below as plain text."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask

    def say(self, text: str) -> None:
        """Print a message of the chat program."""
        output.line(text)

    def dim(self, text: str) -> None:
        """Print a less important message in a dim colour."""
        self._print(visible(text), style="dim")

    def error(self, text: str) -> None:
        """Print an error message in red."""
        self._print(visible(text), style="red")

    @contextlib.contextmanager
    def answer(self) -> Iterator[Callable[[str], None]]:
        """Draw each finished block of an answer as Markdown, and show the unfinished block as it arrives."""
        from rich.console import Console
        from rich.live import Live
        from rich.markdown import Markdown
        from rich.text import Text

        console = Console()
        rest = ""
        drawn = 0.0
        with Live(console=console, transient=True, auto_refresh=False) as live:

            def show(piece: str) -> None:
                nonlocal rest, drawn
                rest += piece
                done, rest = split_blocks(rest)
                for block in done:
                    live.console.print(Markdown(visible(block)))
                now = time.monotonic()
                if done or now - drawn > _PAUSE:
                    live.update(Text("\n".join(visible(rest).splitlines()[-_TAIL:])), refresh=True)
                    drawn = now

            try:
                yield show
            finally:
                live.update(Text(""), refresh=True)
                if rest.strip():
                    live.console.print(Markdown(visible(rest)))

    def working(self, text: str) -> contextlib.AbstractContextManager[object]:
        """Show a spinner with the text for as long as the context lasts."""
        from rich.console import Console

        return Console().status(visible(text))

    def asks(self) -> bool:
        """Return True, since a person sits at a terminal."""
        return True

    def ask(self, question: str, choices: str) -> str:
        """Ask a question and return the chosen letter."""
        return ask_letter(self._ask, question, choices)

    def _print(self, text: str, **how: Any) -> None:
        from rich.console import Console

        Console().print(text, markup=False, highlight=False, **how)


def ask_letter(ask: Callable[[str], str] | None, question: str, choices: str) -> str:
    """Ask a question until the answer begins with one of these letters.

    Return `n` without a function to ask with, or at the end of the input.
    """
    if ask is None:
        return "n"
    while True:
        try:
            typed = ask(f"{question} [{'/'.join(choices)}] ").strip().lower()
        except EOFError:
            return "n"
        if typed[:1] in choices and typed[:1]:
            return typed[:1]


def split_blocks(text: str) -> tuple[list[str], str]:
    """Split Markdown into its finished blocks and the unfinished rest; a fenced block stays whole."""
    done: list[str] = []
    start = 0
    for found in _BREAK.finditer(text):
        if not fences.is_open(text[start : found.start()]):
            done.append(text[start : found.start()])
            start = found.end()
    return done, text[start:]


# ---------------------------------------------------------------- what is typed


class Prompt(Protocol):
    """A source of the person's lines.

    Reading raises EOFError at the end of the input, and KeyboardInterrupt when the person gives up a line.
    """

    def line(self) -> str:
        """Return the next line that the person types."""

    def ask(self, question: str) -> str:
        """Return the person's answer to a question."""


class PipedPrompt:
    """A prompt that reads standard input from a pipe or file, where nobody can answer questions."""

    def line(self) -> str:
        """Return the next line that is not blank; raise EOFError at the end."""
        for line in sys.stdin:
            if line.strip():
                return line.rstrip("\n")
        raise EOFError

    def ask(self, question: str) -> str:
        """Raise EOFError, since nobody can answer."""
        raise EOFError


class SimplePrompt:
    """A prompt without prompt-toolkit; a line that ends with a backslash continues on the next line."""

    def line(self) -> str:
        """Return the next line that the person types, with the lines that continue it."""
        text = input(PROMPT)
        while text.endswith("\\"):
            text = f"{text[:-1]}\n{input('… ')}"
        return text

    def ask(self, question: str) -> str:
        """Return the person's answer to a question."""
        return input(question)


def make_prompt(offer: Offer, history: Path | None) -> Prompt:
    """Return the prompt that fits standard input: for a pipe, a simple terminal, or with prompt-toolkit."""
    if sys.stdin is None or not sys.stdin.isatty():
        return PipedPrompt()
    if os.environ.get("TERM", "") == "dumb":
        return SimplePrompt()
    try:
        return rich_prompt(offer, history)
    except ImportError:
        output.error("history and completion need prompt-toolkit: pip install 'vademecum[chat]'")
        return SimplePrompt()


def rich_prompt(offer: Offer, history: Path | None) -> Prompt:
    """Return a prompt by prompt-toolkit, with history, completion and lines with line breaks."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    class FileHistory(History):
        """The history of typed lines in a private file, or in memory only if there is no path."""

        def load_history_strings(self) -> Iterable[str]:
            return reversed(read_history(history)) if history else ()

        def store_string(self, string: str) -> None:
            if history is not None:
                add_to_history(history, string)

    class CommandCompleter(Completer):
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
        history=FileHistory(), completer=CommandCompleter(), complete_while_typing=False, key_bindings=keys
    )
    asking: PromptSession[str] = PromptSession()
    waiting: list[str] = []

    class LibraryPrompt:
        """The prompt by prompt-toolkit."""

        def line(self) -> str:
            """Return the next line that the person typed while an answer was shown, or types now."""
            return take_typed_ahead(waiting) or session.prompt(PROMPT, prompt_continuation=_is_continued)

        def ask(self, question: str) -> str:
            """Return the person's answer to a question, which is not added to the history."""
            return asking.prompt(question)

    return LibraryPrompt()


def take_typed_ahead(waiting: list[str]) -> str:
    """Print and return the next line that was typed ahead; return an empty text if there is none."""
    waiting += [line for line in read_typed_ahead() if line.strip()]
    if not waiting:
        return ""
    print(f"{PROMPT}{waiting[0]}")
    return waiting.pop(0)


def read_typed_ahead() -> list[str]:
    """Return the complete lines that the person typed while an answer was shown.

    They are read here, outside of a prompt, since the prompt would read all of them as one text. A line
    without Enter stays in the terminal, and the next prompt begins with it.
    """
    if sys.platform == "win32":
        return []
    import select
    import termios

    found: list[str] = []
    with contextlib.suppress(OSError, ValueError, termios.error):
        place = sys.stdin.fileno()
        while termios.tcgetattr(place)[3] & termios.ICANON and select.select([place], [], [], 0)[0]:
            content = os.read(place, 65_536)
            if not content:  # Ctrl-D: the end
                return [*found, "/quit"]
            found += content.decode(errors="replace").splitlines()
    return found


def _is_continued(width: int, number: int, soft: int) -> Any:
    return "… "


# ---------------------------------------------------------------- history


def read_history(path: Path) -> list[str]:
    """Return the newest lines of the history, oldest first; none if the file cannot be read.

    A file that has become too long is shortened.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []
    if len(lines) > 2 * _KEPT:
        _trim_history(path, lines[-_KEPT:])
    return [
        _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], line) for line in lines[-_KEPT:]
    ]


def _trim_history(path: Path, lines: list[str]) -> None:
    """Rewrite the history file with these lines alone."""
    with contextlib.suppress(OSError):
        part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join([*lines, ""]))
        os.replace(part, path)


def add_to_history(path: Path, text: str) -> None:
    """Append a line to the history file, unless it has a secret; ignore an unwritable disk."""
    if not text.strip() or has_secret(text):
        return
    line = text.replace("\\", "\\\\").replace("\n", "\\n")
    with contextlib.suppress(OSError, VadeError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(fd, "a", encoding="utf-8", errors="replace") as file:
            file.write(f"{line}\n")
