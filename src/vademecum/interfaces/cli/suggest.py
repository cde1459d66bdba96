"""The command that says what of a message is worth keeping."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.keep import TextCommand, read_text
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.knowledge.signals import Signal
    from vademecum.memory import Memory

    Door = Callable[[], Memory]

# Where each kind belongs: what a person prefers holds everywhere, the rest in the project it was said of.
_PLACES = {
    "preference": "--type user --scope global",
    "correction": "--type feedback",
    "decision": "--type project",
    "context": "--type project",
    "pattern": "--type project",
}


@click.command(cls=TextCommand)
@click.argument("text", metavar="TEXT|-")
@common
def suggest(text: str, as_json: bool, door: Door) -> None:
    """Say what of a message is worth keeping; `-` reads it from standard input. Nothing is written."""
    reading = door().suggest(read_text(text))
    if as_json:
        output.as_json(
            {
                "signals": [
                    {
                        "kind": str(each.kind),
                        "text": each.text,
                        "confidence": each.confidence,
                        "why": each.why,
                        "command": command(each),
                    }
                    for each in reading.signals
                ],
                "declined": None if reading.declined is None else str(reading.declined),
                "why": reading.why,
            }
        )
        return
    for each in reading.signals:
        output.line(f"{each.kind} ({each.confidence:.2f}): {each.text}\n  {each.why}\n  {command(each)}")
    if reading.declined is not None:
        output.line(f"nothing to keep: {reading.declined}, it {reading.why}")


def command(signal: Signal) -> str:
    """The command that keeps a proposal, as a shell takes it."""
    return f"vade store {shlex.quote(signal.text)} {_PLACES[signal.kind]} --tag {signal.kind}"


COMMANDS = {"suggest": suggest}
