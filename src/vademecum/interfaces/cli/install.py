"""The commands that put memory into an agent's own configuration, and take it out again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import seen_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.interfaces.install.base import Command, Where
    from vademecum.interfaces.install.runner import Edit, Seen
    from vademecum.memory import Memory

    Door = Callable[[], Memory]

_SCOPE = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="For you everywhere, or for this project.",
)
_DRY = click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing.")


@click.command()
@click.argument("tool", metavar="AGENT", required=False)
@_SCOPE
@_DRY
@click.option("--list", "listing", is_flag=True, help="Show which agents are here, and what they have of it.")
@common
def install(tool: str | None, *, scope: str, dry_run: bool, listing: bool, as_json: bool, door: Door) -> None:
    """Give an agent its memory: the server, the hooks, and a word about when to use them.

    AGENT is claude-code, codex, cursor, gemini or kiro. What changes in its configuration is shown, what was
    there is kept in the memory folder, and a second time nothing changes.
    """
    from vademecum.interfaces.install import registry, runner

    memory = door()
    where, command = _place(memory, scope)
    if listing:
        _show_all(runner.look(where, command), as_json=as_json)
        return
    if tool is None:
        raise click.UsageError("Name an agent, or pass --list to see which are here.")
    chosen = registry.named(tool)
    edits = (
        runner.installing(chosen, where, command)
        if dry_run
        else runner.install(chosen, where, command, memory.home)
    )
    _show(edits, dry_run=dry_run, done="installed", as_json=as_json, agent=tool)
    for what, why in chosen.without(where).items():
        output.error(f"no {what}: {why}")
    if tool == "codex" and not dry_run and any(edit.changed for edit in edits):
        output.error("open /hooks in Codex once: it runs a hook only after you have trusted it there")


@click.command()
@click.argument("tool", metavar="AGENT")
@_SCOPE
@_DRY
@common
def uninstall(tool: str, *, scope: str, dry_run: bool, as_json: bool, door: Door) -> None:
    """Take memory out of an agent's configuration again, and leave everything else in it."""
    from vademecum.interfaces.install import registry, runner

    memory = door()
    where, command = _place(memory, scope)
    chosen = registry.named(tool)
    edits = (
        runner.uninstalling(chosen, where, command, memory.home)
        if dry_run
        else runner.uninstall(chosen, where, command, memory.home)
    )
    _show(edits, dry_run=dry_run, done="uninstalled", as_json=as_json, agent=tool)


def _place(memory: Memory, scope: str) -> tuple[Where, Command]:
    from vademecum.interfaces.install.base import Where, running

    project = memory.caller.project
    person = Path.home()
    root = project.root if project is not None else Path.cwd()
    home = "" if memory.home.path == person / ".vade" else str(memory.home.path)
    return Where(scope, person, root, os.environ), running(home)


def _show(edits: Sequence[Edit], *, dry_run: bool, done: str, as_json: bool, agent: str) -> None:
    from vademecum.interfaces.install import runner

    changed = [edit for edit in edits if edit.changed]
    if as_json:
        output.as_json(
            {
                "agent": agent,
                "dryRun": dry_run,
                "files": [
                    {"path": str(edit.path), "changed": edit.changed, "removed": edit.after is None}
                    for edit in edits
                ],
            }
        )
        return
    if not changed:
        output.line("nothing to change")
        return
    output.line(runner.diff(changed))
    output.line(f"{'nothing is written yet' if dry_run else done}: {output.plural(len(changed), 'file')}")


def _show_all(found: Sequence[Seen], *, as_json: bool) -> None:
    if as_json:
        output.as_json({"agents": [seen_json(each) for each in found]})
        return
    for each in found:
        here = each.program or (str(each.folder) if each.there else "not found here")
        output.line(f"{each.agent}: {here}")
        for scope, parts in each.installed.items():
            told = ", ".join(f"{what} {_mark(state)}" for what, state in sorted(parts.items()))
            output.line(f"  {scope}: {told}")
            for what, why in each.without[scope].items():
                output.line(f"    no {what}: {why}")
        from vademecum.interfaces.hooks import registry

        agent = registry.named(each.agent)
        if agent is not None:
            for event, why in agent.missing.items():
                output.line(f"    no {event}: {why}")


def _mark(state: bool | None) -> str:
    return "-" if state is None else "yes" if state else "no"


COMMANDS = {"install": install, "uninstall": uninstall}
