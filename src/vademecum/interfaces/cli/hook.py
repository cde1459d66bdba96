"""The command that agents run at moments of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.memory import Memory


@click.command()
@click.argument("tool", metavar="AGENT")
@click.argument("event")
@common
def hook(tool: str, event: str, *, as_json: bool, door: Callable[[], Memory]) -> None:
    """Answer a hook of an agent: what it says on standard input, what the model is told on standard output.

    Agents call this, once `vade install` has told them to. It is always done within `limits.hook` and never
    fails; what went wrong is in `hooks.log`, and `vade status` shows the last of it.
    """
    from vademecum.interfaces.hooks.door import answer

    context = click.get_current_context()
    answer(tool, event, home=context.params.get("home") or context.find_root().params.get("home"))


COMMANDS = {"hook": hook}
