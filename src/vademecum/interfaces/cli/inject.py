"""The command that shows what an agent is told of its memory, and keeps it in the file an agent reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import block_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.memory import Memory

    Door = Callable[[], Memory]

AGENTS = ("claude-code", "codex", "cursor", "gemini", "kiro")


@click.command()
@click.option("--query", metavar="TEXT", default="", help="What it is about: what answers comes first.")
@click.option("--budget", metavar="TOKENS", type=click.IntRange(min=1), help="How much of it at most.")
@click.option(
    "--format", "shape", type=click.Choice(["block", "json"]), help="Text, or its parts with sizes."
)
@click.option("--no-ltm", is_flag=True, help="Without what was learned.")
@click.option(
    "--write",
    "provider",
    metavar="AGENT",
    type=click.Choice(AGENTS),
    help="Keep it in the file this agent reads.",
)
@common
def inject(
    query: str,
    budget: int | None,
    *,
    shape: str | None,
    no_ltm: bool,
    provider: str | None,
    as_json: bool,
    door: Door,
) -> None:
    """Show what an agent is told of its memory before it begins, or keep it in the agent's own file.

    A file in a project gets what a group may see, since others read it too; `--audience private` puts in
    everything.
    """
    memory = door()
    as_json = as_json or shape == "json"
    if provider is not None:
        audience = click.get_current_context().params.get("audience") or "group"
        kept = memory.write_provider_file(provider, query=query, budget=budget, audience=audience)
        if as_json:
            warnings = list(kept.warnings)
            output.as_json({"path": str(kept.path), "changed": kept.changed, "warnings": warnings})
            return
        output.line(f"{'wrote' if kept.changed else 'nothing changed in'} {kept.path}")
        for warning in kept.warnings:
            output.error(warning)
        return
    block = memory.inject(query=query, budget=budget, knowledge=not no_ltm)
    if as_json:
        output.as_json(block_json(block))
        return
    click.echo(block.text, nl=False)
    for warning in block.warnings:
        output.error(warning)
    if block.waiting:
        waiting = f"{output.plural(block.waiting, 'text')} {'is' if block.waiting == 1 else 'are'}"
        output.error(f"{waiting} not shown: nobody has verified that; `vade review` shows what waits")


COMMANDS = {"inject": inject}
