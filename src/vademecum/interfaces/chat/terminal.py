"""What a person sees and types: Markdown, dim lines, questions; history, completion, several lines.

Over a pipe it is plain text, and for a script the answer alone. Whatever a model or a tool says is made
visible first, so that nothing in it can move a cursor or hide. Typing uses a library where it is installed,
else the plain input of Python. What looks like a secret is never written to the history.
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
_BREAK = re.compile(r"\n[ \t]*\n+(?=\S)")  # what follows is not indented, so it belongs to no list above
_PAUSE = 0.05  # seconds between two drawings
_TAIL = 12  # lines of a block that is still being said


# ---------------------------------------------------------------- what is shown


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

    def working(self, text: str) -> contextlib.AbstractContextManager[object]:
        """A sign of life while something takes its time."""

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

    def working(self, text: str) -> contextlib.AbstractContextManager[object]:
        """A line of it; nothing moves in a pipe."""
        self.say(text)
        return contextlib.nullcontext()

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

    def working(self, text: str) -> contextlib.AbstractContextManager[object]:
        """Something that turns, until it is done."""
        from rich.console import Console

        return Console().status(visible(text))

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


# ---------------------------------------------------------------- what is typed


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
        output.error("history and completion need prompt-toolkit: pip install 'vademecum[chat]'")
        return Simple()


def rich_prompt(offer: Offer, history: Path | None) -> Prompt:
    """A prompt with history, completion and several lines."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    class FileHistory(History):
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
        history=FileHistory(), completer=Offered(), complete_while_typing=False, key_bindings=keys
    )
    asking: PromptSession[str] = PromptSession()
    waiting: list[str] = []

    class Comfortable:
        """The library's prompt."""

        def line(self) -> str:
            """What the person types next, or has typed while nobody read."""
            return next_typed(waiting) or session.prompt(PROMPT, prompt_continuation=_continued)

        def ask(self, question: str) -> str:
            """The answer to a question, which is no part of the history."""
            return asking.prompt(question)

    return Comfortable()


def next_typed(waiting: list[str]) -> str:
    """The next line that was typed ahead, shown as one at the prompt; empty when there is none."""
    waiting += [line for line in read_typed_ahead() if line.strip()]
    if not waiting:
        return ""
    print(f"{PROMPT}{waiting[0]}")
    return waiting.pop(0)


def read_typed_ahead() -> list[str]:
    """The lines that were typed while an answer came, and ended with Enter.

    Outside of a prompt the terminal keeps whole lines; a prompt would read their ends as line breaks of one
    text, and wait. What has no end yet stays there, and the prompt begins with it.
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
    if not text.strip() or has_secret(text):
        return
    line = text.replace("\\", "\\\\").replace("\n", "\\n")
    with contextlib.suppress(OSError, VadeError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(fd, "a", encoding="utf-8", errors="replace") as file:
            file.write(f"{line}\n")
