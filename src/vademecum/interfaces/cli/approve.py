"""The command by which a person decides about writes that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common, confirmed
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_text import show_waiting
from vademecum.store.approvals import SHOWN, whose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.memory import Memory

    Door = Callable[[], Memory]


@click.group(invoke_without_command=True)
@common
@click.pass_context
def approve(ctx: click.Context, as_json: bool, door: Door) -> None:
    """Decide about what agents want to write and may not without you."""
    if ctx.invoked_subcommand is None:
        show_waiting(door().approvals(), as_json=as_json)


@approve.command("list")
@common
def list_(as_json: bool, door: Door) -> None:
    """Show what waits, every character of it."""
    show_waiting(door().approvals(), as_json=as_json)


@approve.command("yes")
@click.argument("ids", metavar="ID…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Everything that waits.")
@click.option("--yes", is_flag=True, help="Do not ask when it is everything.")
@common
def yes_(ids: tuple[str, ...], everything: bool, yes: bool, as_json: bool, door: Door) -> None:
    """Let these be written, exactly as they were shown."""
    memory = door()
    chosen = _chosen(memory, ids, everything=everything, yes=yes, question="Write all of them?")
    done = []
    for id in chosen:
        request, _ = memory.approve(id)
        done.append({"id": id, "operation": request.operation, "scope": request.scope, "decided": "yes"})
        if not as_json:
            output.line(f"{id[:SHOWN]}: {request.operation} was done, as {whose(request)}")
    if as_json:
        output.as_json({"decided": done})


@approve.command("no")
@click.argument("ids", metavar="ID…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Everything that waits.")
@click.option("--yes", is_flag=True, help="Do not ask when it is everything.")
@common
def no_(ids: tuple[str, ...], everything: bool, yes: bool, as_json: bool, door: Door) -> None:
    """Refuse these; they are never written."""
    memory = door()
    chosen = _chosen(memory, ids, everything=everything, yes=yes, question="Refuse all of them?")
    for id in chosen:
        memory.reject(id)
        if not as_json:
            output.line(f"{id[:SHOWN]}: refused")
    if as_json:
        output.as_json({"decided": [{"id": id, "decided": "no"} for id in chosen]})


def _chosen(
    memory: Memory, ids: tuple[str, ...], *, everything: bool, yes: bool, question: str
) -> Sequence[str]:
    """The ids meant; all of them only of those that were there when the question was asked."""
    if bool(ids) is everything:
        raise click.UsageError("give the ids, or --all")
    if not everything:
        return ids
    waiting = memory.approvals()
    if waiting:
        show_waiting(waiting, as_json=False) if not yes else None
        confirmed(question, yes=yes)
    return [each.id for each in waiting]


COMMANDS = {"approve": approve}
