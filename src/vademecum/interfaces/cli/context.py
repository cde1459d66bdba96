"""Commands for the context window: what the engine would do with a session."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import Share, shares_of, trial_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.context.dry_run import DryRun
    from vademecum.memory import Memory

    Door = Callable[[], Memory]

_WIDEST = 100
_STEPS = 12  # of a long session, the last ones


@click.group()
@common
def context(as_json: bool, door: Door) -> None:
    """Look at context windows."""


@context.command()
@click.argument("source", metavar="FILE|ID|NAME")
@click.option(
    "--window",
    type=click.IntRange(1000),
    default=200_000,
    show_default=True,
    help="The model's window, in tokens.",
)
@click.option("--model", default="", metavar="NAME", help="The model whose learned ratio counts the tokens.")
@common
def inspect(source: str, window: int, model: str, as_json: bool, door: Door) -> None:
    """Show what the engine would do with a transcript at a given window; nothing is written anywhere.

    FILE is a transcript of any format that `vade sessions import` reads, or a session of your own by its
    id or name. It is lived through again, answer by answer, at the times it happened.
    """
    with output.progress() as step:
        found = door().context_trial(source, window=window, model=model, progress=step)
    if as_json:
        output.as_json(trial_json(found))
    else:
        show(found)


def show(found: DryRun) -> None:
    """Print a trial for people: the bar, the sections, what happened, and the summary."""
    source, tokens = found.source, found.window.tokens
    model = f" · {source.model}" if source.model else ""
    output.line(f"{source.name} · {source.format}{model}")
    said = output.plural(len(source.messages), "message")
    output.line(f"{said}, {found.tokens:,} tokens in all; a window of {tokens.context:,}\n")
    shares = shares_of(found)
    draw(shares)
    output.line()
    output.table(
        [
            [share.sign, share.name, f"{share.tokens:>9,}", f"{share.tokens / tokens.context:>6.1%}"]
            for share in shares
            if share.tokens
        ],
        [" ", "section", "tokens", "share"],
    )
    at = found.window.points
    output.line(f"\nflush at {at.flush:,}, trim at {at.trim:,} down to {at.target:,}, limit {at.limit:,}")
    pruned = output.plural(len(found.pruned), "result")
    output.line(f"pruned   {pruned}, {found.pruned_chars:,} characters")
    cycles = output.plural(found.window.cycles, "cycle")
    output.line(f"trimmed  {output.plural(found.trimmed, 'message')} in {cycles}")
    output.line(f"flushed  {output.plural(found.flushes, 'time')}, if there is a model")
    steps = [step for step in found.steps if step.trimmed or step.cut or step.flushed]
    if steps:
        output.line()
        if len(steps) > _STEPS:
            output.line(f"the last {_STEPS} of {len(steps)} times:")
        output.table(
            [
                [
                    str(step.message),
                    step.why or "flush",
                    str(step.pruned or "-"),
                    str(step.trimmed or "-"),
                    str(step.cut or "-"),
                    f"{step.tokens:,}",
                ]
                for step in steps[-_STEPS:]
            ],
            ["message", "why", "pruned", "left", "cut", "tokens then"],
        )
    if found.full:
        output.line(f"\nit could not go on: {found.full}")
    if found.window.summary:
        output.line(f"\nwhat stands for the rest ({tokens.summary:,} tokens):\n")
        output.line("\n".join(f"  {line}" for line in found.window.summary.split("\n")))


def draw(shares: Sequence[Share]) -> None:
    """Print the sections as one bar: coloured on a terminal, letters in a pipe."""
    width = min(shutil.get_terminal_size().columns - 2, _WIDEST)
    cells = spread([share.tokens for share in shares], width)
    if not (sys.stdout.isatty() and "NO_COLOR" not in os.environ):
        bar = "".join(share.sign * count for share, count in zip(shares, cells, strict=True))
        output.line(f"[{bar}]")
        return
    from rich.console import Console
    from rich.text import Text

    text = Text()
    for share, count in zip(shares, cells, strict=True):
        text.append(share.sign * count, style=f"{share.colour} reverse" if share.sign not in ".-" else "dim")
    Console().print(text)


def spread(amounts: Sequence[int], width: int) -> list[int]:
    """How many of `width` cells each amount gets: by its share, and what is there at all gets one."""
    total = sum(amounts)
    if total <= 0 or width <= 0:
        return [0] * len(amounts)
    cells = [max(amount * width // total, 1) if amount > 0 else 0 for amount in amounts]
    while sum(cells) > width and max(cells) > 1:
        cells[cells.index(max(cells))] -= 1
    left = width - sum(cells)
    by_rest = sorted(range(len(amounts)), key=lambda at: (-(amounts[at] * width % total), at))
    for at in [each for each in by_rest if amounts[each] > 0][:left]:
        cells[at] += 1
    cells[cells.index(max(cells))] += max(width - sum(cells), 0)
    return cells


COMMANDS = {"context": context}
