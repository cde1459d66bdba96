"""Commands for other agents: what they are told of memory, and memory in their own configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import AgentName, NamesAgents, common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.agents.base import Program, Where
    from vademecum.interfaces.cli.options import Door
    from vademecum.interfaces.install.runner import AgentStatus, FileEdit
    from vademecum.memory import Memory

_SCOPE = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="For you everywhere, or for this project.",
)
_DRY = click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing.")


@click.command(cls=NamesAgents)
@click.argument("tool", metavar="AGENT", required=False)
@_SCOPE
@_DRY
@click.option("--list", "listing", is_flag=True, help="Show which agents are here, and what they have of it.")
@common
def install(tool: str | None, *, scope: str, dry_run: bool, listing: bool, as_json: bool, door: Door) -> None:
    """Give an agent its memory: the server, the hooks, and a word about when to use them.

    AGENT is {setup}. What changes in its configuration is shown, what was
    there is kept in the memory folder, and a second time nothing changes.
    """
    from vademecum.interfaces.install import runner

    memory = door()
    where, program = _place(memory, scope)
    if listing:
        _show_all(runner.look(where, program), as_json=as_json)
        return
    if tool is None:
        raise click.UsageError("Name an agent, or pass --list to see which are here.")
    chosen = runner.Installation.of(tool, where, program)
    edits = runner.installing(chosen) if dry_run else runner.install(chosen, memory.home)
    _show(edits, dry_run=dry_run, done="installed", as_json=as_json, agent=tool)
    for what, why in chosen.without.items():
        output.error(f"no {what}: {why}")
    if chosen.setup.note and not dry_run and any(edit.changed for edit in edits):
        output.error(chosen.setup.note)


@click.command()
@click.argument("tool", metavar="AGENT")
@_SCOPE
@_DRY
@common
def uninstall(tool: str, *, scope: str, dry_run: bool, as_json: bool, door: Door) -> None:
    """Take memory out of an agent's configuration again, and leave everything else in it."""
    from vademecum.interfaces.install import runner

    memory = door()
    where, program = _place(memory, scope)
    chosen = runner.Installation.of(tool, where, program)
    change = runner.uninstalling if dry_run else runner.uninstall
    edits = change(chosen, memory.home)
    _show(edits, dry_run=dry_run, done="uninstalled", as_json=as_json, agent=tool)


def _place(memory: Memory, scope: str) -> tuple[Where, Program]:
    from vademecum.agents.base import Where
    from vademecum.interfaces.install.runner import this_program

    project = memory.caller.project
    person = Path.home()
    root = project.root if project is not None else Path.cwd()
    home = "" if memory.home.path == person / ".vade" else str(memory.home.path)
    return Where(scope, person, root, os.environ), this_program(home)


def _show(edits: Sequence[FileEdit], *, dry_run: bool, done: str, as_json: bool, agent: str) -> None:
    from vademecum.interfaces.install import runner

    changed = [edit for edit in edits if edit.changed]
    if as_json:
        output.as_json(to_json.installed_json, agent=agent, dry_run=dry_run, files=edits)
        return
    if not changed:
        output.line("nothing to change")
        return
    output.line(runner.diff(changed))
    output.line(f"{'nothing is written yet' if dry_run else done}: {output.plural(len(changed), 'file')}")


def _show_all(found: Sequence[AgentStatus], *, as_json: bool) -> None:
    if as_json:
        output.as_json(to_json.agents_json, agents=found)
        return
    for each in found:
        here = each.program or (str(each.folder) if each.there else "not found here")
        output.line(f"{each.agent}: {here}")
        for scope, parts in each.installed.items():
            told = ", ".join(f"{what} {_mark(state)}" for what, state in sorted(parts.items()))
            output.line(f"  {scope}: {told}")
            for what, why in each.without[scope].items():
                output.line(f"    no {what}: {why}")
        for event, why in each.missing.items():
            output.line(f"    no {event}: {why}")


def _mark(state: bool | None) -> str:
    return "-" if state is None else "yes" if state else "no"


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
    type=AgentName("instructions"),
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
        kept = memory.injection.write_file(provider, query=query, budget=budget, audience=audience)
        if as_json:
            output.as_json(to_json.provider_file_json, kept)
            return
        output.line(f"{'wrote' if kept.changed else 'nothing changed in'} {kept.path}")
        for warning in kept.warnings:
            output.error(warning)
        return
    block = memory.injection.block(query=query, budget=budget, knowledge=not no_ltm)
    if as_json:
        output.as_json(to_json.block_json, block)
        return
    click.echo(block.text, nl=False)
    for warning in block.warnings:
        output.error(warning)
    if block.waiting:
        waiting = f"{output.plural(block.waiting, 'text')} {'is' if block.waiting == 1 else 'are'}"
        output.error(f"{waiting} not shown: nobody has verified that; `vade review` shows what waits")
