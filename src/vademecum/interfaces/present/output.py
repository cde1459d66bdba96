"""Print JSON, lines, tables and progress bars, and let a person edit a text."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import InvalidText, UsageError, VadeError
from vademecum.interfaces.present.shape import VERSION
from vademecum.progress import watched
from vademecum.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from vademecum.interfaces.present.shape import JsonShape
    from vademecum.memory import Memory

_PATIENCE = 1.0  # seconds of work before the bar is shown
_BETWEEN_LINES = 60.0  # seconds, where there is no terminal for a bar
_revealing: ContextVar[bool] = ContextVar("revealing", default=False)


def prepare() -> None:
    """Let the output streams hold any character, whatever the terminal's encoding."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # for the life of the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a replaced stream may lack it


def plain(text: str) -> str:
    """Return a text without control characters, and with its secrets replaced, because agents read it too.

    Inside `show_secrets` secrets are not replaced.
    """
    from vademecum.interfaces.present.safe import safe_text

    return visible(text) if _revealing.get() else safe_text(text)


def is_for_person(memory: Memory) -> bool:
    """Return whether only a person at a terminal reads the output."""
    return sys.stdout.isatty() and memory.caller.origin == "user"


@contextlib.contextmanager
def show_secrets() -> Iterator[None]:
    """Print secrets as they are while the context lasts, for a person at a terminal."""
    token = _revealing.set(True)
    try:
        yield
    finally:
        _revealing.reset(token)


def line(text: str = "") -> None:
    """Print a text without control characters and, outside `show_secrets`, without secrets."""
    click.echo(plain(text))


def error(message: str) -> None:
    """Print a message as one line on stderr, after `vade:`."""
    click.echo(f"vade: {' '.join(plain(message).splitlines())}", err=True)


class WorkStopped(KeyboardInterrupt):
    """A person stopped long work; the message says what is done and what is not."""


@contextlib.contextmanager
def progress(stopped: str = "") -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for long work; without a terminal, a line each minute.

    If a person stops the work, the error says how far it was, and ends with the text `stopped`.
    """
    started = time.monotonic()
    bar: Any = None
    tasks: dict[str, Any] = {}
    last: tuple[str, int, int] | None = None
    begun: dict[str, tuple[float, int]] = {}  # when each work was first heard of, and how far it was then
    told = started

    def tell(what: str, done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        since, before = begun.setdefault(what, (now, done))
        if now - told >= _BETWEEN_LINES:
            told = now
            left = _remaining(now - since, done - before, total - done) if total else ""
            error(f"{what}: {_how_far(done, total)}{left}")

    def step(what: str, done: int, total: int) -> None:
        nonlocal bar, last
        last = what, done, total
        if not sys.stderr.isatty():
            tell(what, done, total)
            return
        if time.monotonic() - started < _PATIENCE:
            return
        bar = bar or _start_bar()
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total or None)
        bar.update(tasks[what], completed=done, total=total or None)

    try:
        with watched(step):
            yield step
    except KeyboardInterrupt as interrupt:
        far = f" at {last[0]}, {_how_far(last[1], last[2])}" if last else ""
        raise WorkStopped(f"stopped{far}{f': {stopped}' if stopped else ''}") from interrupt
    finally:
        if bar is not None:
            bar.stop()


def _how_far(done: int, total: int) -> str:
    return f"{done:,} of {total:,}" if total else f"{done:,}"


def _remaining(seconds: float, done: int, left: int) -> str:
    """Return an estimate of the remaining time from the speed so far; '' before the speed is known."""
    if not done or not left:
        return ""
    minutes = math.ceil(seconds / done * left / 60)
    return f", about {plural(minutes, 'minute')} left"


def _start_bar() -> Any:
    """Return a started bar with the work, the amount, the speed and the remaining time."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """The speed of the work."""

        def render(self, task: Any) -> Text:
            """Return the speed, or nothing before it is known."""
            return Text(f"{task.finished_speed or task.speed or 0:,.0f}/s" if task.speed else "")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    return bar


def as_json(shape: JsonShape, value: Any = None, /, **given: Any) -> None:
    """Print a value as JSON of a shape; fields in `given` are not read from the value."""
    print_json(shape, shape(value, **given))


def print_json(shape: JsonShape, made: dict[str, Any]) -> None:
    """Print an object of a shape as JSON, with the version of the shapes and without secrets."""
    from vademecum.interfaces.present.safe import clean_value

    shown = {"schemaVersion": VERSION, **made}
    click.echo(json.dumps(clean_value(shown), ensure_ascii=False, indent=2))


def show(
    json_wanted: bool, text: str | Callable[[], object], shape: JsonShape, value: Any = None, /, **given: Any
) -> None:
    """Print a value as JSON if `json_wanted`, else print `text`, or call `text` if it is a function."""
    if json_wanted:
        as_json(shape, value, **given)
    elif isinstance(text, str):
        line(text)
    else:
        text()


_KEPT_WHOLE = frozenset({"#", "key", "scope", "type", "age", "session", "run", "name", "id", "when"})
_NARROWEST = 12  # columns to which texts are cut before other columns


def table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> None:
    """Print rows in columns, without empty columns: fitted to a terminal, complete in a pipe.

    On a terminal, columns of free text are cut first, from the right; a key only if that is not enough.
    """
    telling = [at for at in range(len(headings)) if any(row[at] not in ("", "-") for row in rows)]
    headings = [headings[at] for at in telling]
    safe = [[plain(row[at]).replace("\n", " ") for at in telling] for row in rows]
    widths = [max(cell_width(row[at]) for row in [headings, *safe]) for at in range(len(headings))]
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        widths = fit_widths(widths, headings, _columns())
    coloured = on_terminal and "NO_COLOR" not in os.environ
    for number, row in enumerate([headings, *safe]):
        cells = (
            _cell(cell, width, cut=on_terminal) for cell, width in zip(row, widths, strict=True) if width
        )
        text = "  ".join(cells).rstrip()
        click.echo(click.style(text, dim=True) if coloured and not number else text)


def fit_widths(widths: Sequence[int], headings: Sequence[str], room: int) -> list[int]:
    """Return widths with which the columns fit into `room` if possible; a width of 0 leaves a column out.

    Columns of free text, such as titles, are narrowed first, from the right; then the widest column.
    """
    made = list(widths)
    free = [at for at, name in enumerate(headings) if name not in _KEPT_WHOLE]
    for narrowest in (_NARROWEST, 4, 0):
        for at in reversed(free):
            over = sum(made) + 2 * (sum(map(bool, made)) - 1) - room
            if over > 0:
                made[at] = max(min(narrowest, made[at]), made[at] - over)
    over = sum(made) + 2 * (sum(map(bool, made)) - 1) - room
    longest = max(range(len(made)), key=made.__getitem__)
    if over > 0 and headings[longest] not in ("#", "age"):
        made[longest] = max(8, made[longest] - over)
    return made


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def cell_width(text: str) -> int:
    """Return the number of terminal columns of a text; a wide character has two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _cell(text: str, width: int, *, cut: bool) -> str:
    if cut and cell_width(text) > width:
        from rich.cells import set_cell_size

        text = f"{set_cell_size(text, width - 1).rstrip()}…" if width > 1 else text[:width]
    return text + " " * (width - cell_width(text))


def age(stamp: str | None) -> str:
    """Return a time's age as a short word, such as `3d`; `-` without a time."""
    from vademecum.text.clock import parse

    moment = parse(stamp)
    if moment is None:
        return "-"
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, size in (("y", 31_557_600), ("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"


def dated(stamp: str | None, now: datetime | None = None) -> str:
    """Return the day of a time with its age at `now`, such as `2026-11-12, 3 days ago`, or `just now`."""
    age = ago(stamp, now)
    older = age[0].isdigit() or age == "yesterday"
    return f"{stamp[:10]}, {age}" if stamp and older else age


def ago(stamp: str | None, now: datetime | None = None) -> str:
    """Return a time's age at `now` in words, such as `3 days ago`."""
    from vademecum.text.clock import parse

    moment = parse(stamp)
    if moment is None:
        return "undated"
    seconds = ((now or datetime.now(UTC)).astimezone(UTC) - moment).total_seconds()
    for unit, size in (
        ("year", 31_557_600),
        ("month", 2_629_800),
        ("day", 86_400),
        ("hour", 3600),
        ("minute", 60),
    ):
        if seconds >= size:
            return f"{plural(int(seconds // size), unit)} ago" if unit != "day" else _days(seconds // size)
    return "just now" if seconds > -60 else f"on {stamp[:10]}" if stamp else ""


def _days(count: float) -> str:
    return "yesterday" if count < 2 else f"{int(count)} days ago"


def plural(count: int, thing: str) -> str:
    """Return a number with its noun: 1 record, 2 records, 3 entries."""
    if count == 1:
        return f"1 {thing}"
    return f"{count:,} {thing[:-1]}ies" if thing.endswith("y") else f"{count:,} {thing}s"


# ---------------------------------------------------------------- the user's own editor, on a copy of a text


def edit_text(text: str, name: str, *, quiet: bool) -> tuple[str | None, Path]:
    """Let the user edit a copy of a text; return the edited text and the path of the copy.

    The text is None if the user deleted the copy. `quiet` keeps the editor's screen out of standard output.
    """
    import shlex
    import subprocess
    import tempfile
    from pathlib import Path

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if editor is None and not sys.stdin.isatty():
        raise UsageError(
            "an editor needs a terminal", hint="run it in one, or set EDITOR to a program that needs none"
        )
    editor = editor or "vi"
    draft = Path(tempfile.mkdtemp(prefix="vade-edit-"), name)
    draft.write_bytes(text.encode())
    try:
        screen = sys.stderr if quiet else None
        code = subprocess.run([*shlex.split(editor), str(draft)], check=False, stdout=screen).returncode
    except (OSError, ValueError) as error:
        discard_draft(draft)
        raise VadeError(f"the editor {editor} did not start", hint="set another one in EDITOR") from error
    if code:
        typed = draft.is_file() and draft.read_bytes() != text.encode()
        if not typed:
            discard_draft(draft)
        note = f"; your text is kept in {draft}" if typed else ""
        raise VadeError(f"the editor ended with code {code}; nothing was changed{note}", hint="try again")
    try:
        return draft.read_bytes().decode(), draft
    except FileNotFoundError:
        return None, draft
    except UnicodeDecodeError as error:
        raise InvalidText(f"the text is not UTF-8; it is kept in {draft}") from error


def discard_draft(draft: Path) -> None:
    """Delete an edited copy, with the backups that an editor left beside it."""
    import shutil

    shutil.rmtree(draft.parent, ignore_errors=True)
