"""What goes out to whoever called: JSON for programs, plain lines, colour on a terminal, a text to edit."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import InvalidText, VadeError
from vademecum.interfaces.present.shape import VERSION
from vademecum.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from vademecum.interfaces.present.shape import JsonShape
    from vademecum.memory import Memory

_old: Callable[[], bool] | None = None
_PATIENCE = 1.0  # seconds of work before a bar is shown
_revealing: ContextVar[bool] = ContextVar("revealing", default=False)


def prepare() -> None:
    """Let output hold any character, whatever the terminal's encoding; a closed stream swallows it."""
    choose_shape(None)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # for the life of the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a replaced stream may lack it


def plain(text: str) -> str:
    """A text without anything that could move the cursor, change colours or hide what it says.

    What looks like a secret is replaced: an agent reads this as well. `revealed` is the one exception.
    """
    from vademecum.interfaces.present.safe import safe_text

    return visible(text) if _revealing.get() else safe_text(text)


def for_a_person(memory: Memory) -> bool:
    """Whether what is printed now is read by a person at a terminal, and by nobody else."""
    return sys.stdout.isatty() and memory.caller.origin == "user"


@contextlib.contextmanager
def revealed() -> Iterator[None]:
    """Print what follows as it stands, secrets included: for a person at a terminal alone."""
    token = _revealing.set(True)
    try:
        yield
    finally:
        _revealing.reset(token)


def line(text: str = "") -> None:
    """Print one line, made safe."""
    click.echo(plain(text))


def error(message: str) -> None:
    """Print one line on stderr."""
    click.echo(f"vade: {' '.join(plain(message).splitlines())}", err=True)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for work that takes long, on a terminal and nowhere else; short work shows none."""
    begun = time.monotonic()
    bar: Any = None
    tasks: dict[str, Any] = {}

    def step(what: str, done: int, total: int) -> None:
        nonlocal bar
        if not sys.stderr.isatty() or time.monotonic() - begun < _PATIENCE:
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
            bar.start()
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total)
        bar.update(tasks[what], completed=done, total=total)

    try:
        yield step
    finally:
        if bar is not None:
            bar.stop()


def choose_shape(old: Callable[[], bool] | None) -> None:
    """Say how to find out whether programs want the old shape; asked when there is something to print."""
    global _old  # noqa: PLW0603  # of this process, as its output is
    _old = old


def as_json(shape: JsonShape, value: Any = None, /, **given: Any) -> None:
    """Print a value for programs."""
    print_json(shape, shape(value, **given))


def print_json(shape: JsonShape, made: dict[str, Any]) -> None:
    """Print an object of a shape, without what looks like a secret, as the settings want it."""
    from vademecum.interfaces.present.safe import clean_value

    if _old() if _old else os.environ.get("VADE_OUTPUT_JSON_SHAPE") == "old":
        from vademecum.interfaces.present.shape import to_old

        shown: Any = to_old(shape.name, made)
    else:
        shown = {"schemaVersion": VERSION, **made}
    click.echo(json.dumps(clean_value(shown), ensure_ascii=False, indent=2))


def tell(
    json_wanted: bool, text: str | Callable[[], object], shape: JsonShape, value: Any = None, /, **given: Any
) -> None:
    """Print a value for programs, or for people: a line, or what a function prints."""
    if json_wanted:
        as_json(shape, value, **given)
    elif isinstance(text, str):
        line(text)
    else:
        text()


def table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> None:
    """Print rows in columns, drawn on a terminal and aligned in a pipe, without those that say nothing."""
    telling = [at for at in range(len(headings)) if any(row[at] not in ("", "-") for row in rows)]
    headings = [headings[at] for at in telling]
    safe = [[plain(row[at]).replace("\n", " ") for at in telling] for row in rows]
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=None, header_style="dim", pad_edge=False)
        for heading in headings:
            # What a person types back must be whole; the rest may be cut.
            drawn.add_column(
                heading, overflow="ellipsis", no_wrap=True, min_width=3 if heading == "text" else None
            )
        for row in safe:
            drawn.add_row(*(Text(cell) for cell in row))
        Console().print(drawn)
        return
    widths = [max(len(row[column]) for row in [list(headings), *safe]) for column in range(len(headings))]
    for row in [list(headings), *safe]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def age(stamp: str | None) -> str:
    """How long ago, in one short word."""
    from vademecum.text.clock import parse

    moment = parse(stamp)
    if moment is None:
        return "-"
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, size in (("y", 31_557_600), ("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"


def plural(count: int, thing: str) -> str:
    """1 record, 2 records, 3 entries."""
    if count == 1:
        return f"1 {thing}"
    return f"{count:,} {thing[:-1]}ies" if thing.endswith("y") else f"{count:,} {thing}s"


# ---------------------------------------------------------------- the user's own editor, on a copy of a text


def from_editor(text: str, name: str, *, quiet: bool) -> tuple[str | None, Path]:
    """Let the user's editor change a copy of a text; `quiet` keeps its screen out of standard output."""
    import shlex
    import subprocess
    import tempfile
    from pathlib import Path

    draft = Path(tempfile.mkdtemp(prefix="vade-edit-"), name)
    draft.write_bytes(text.encode())
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        screen = sys.stderr if quiet else None
        code = subprocess.run([*shlex.split(editor), str(draft)], check=False, stdout=screen).returncode
    except (OSError, ValueError) as error:
        discard(draft)
        raise VadeError(
            f"the editor {editor} did not start", hint="name another one in the variable EDITOR"
        ) from error
    if code:
        typed = draft.is_file() and draft.read_bytes() != text.encode()
        if not typed:
            discard(draft)
        kept = f"; your text is kept in {draft}" if typed else ""
        raise VadeError(f"the editor ended with code {code}; nothing was changed{kept}", hint="try again")
    try:
        return draft.read_bytes().decode(), draft
    except FileNotFoundError:
        return None, draft
    except UnicodeDecodeError as error:
        raise InvalidText(f"the text is not UTF-8; it is kept in {draft}") from error


def discard(draft: Path) -> None:
    """Take an edited copy away, with the backups an editor may have left beside it."""
    import shutil

    shutil.rmtree(draft.parent, ignore_errors=True)
