"""The command by which a person decides about writes that wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli import output
from vademecum.interfaces.cli.options import common, confirmed
from vademecum.store.approvals import SHOWN, whose
from vademecum.text.visible import spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vademecum.memory import Memory
    from vademecum.store.approvals import Waiting

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


def show_waiting(waiting: Sequence[Waiting], *, as_json: bool) -> None:
    """Print what waits, with everything that could hide in it written out."""
    if as_json:
        output.as_json({"waiting": [waiting_json(each) for each in waiting]})
        return
    for number, each in enumerate(waiting):
        if number:
            output.line()
        if each.request is None:
            output.line(f"{each.id[:SHOWN]} · {each.trouble}; it can only be refused")
            continue
        asked = each.request
        where = f"{asked.scope} {asked.project or ''}".strip() if asked.scope == "project" else asked.scope
        output.line(
            f"{each.id[:SHOWN]} · {asked.operation} · {where} · {asked.origin} {asked.agent}"
            f" through {asked.door} · {output.age(asked.at)}"
        )
        for name, value in _shown(asked.arguments):
            if value not in (None, "", [], False) and name not in ("scope", "slug"):
                said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for line in f"{name}: {spelled(said)}".split("\n"):
                    output.line(f"  {line}")
    if waiting:
        output.line("\n`vade approve yes ID` writes one, `vade approve no ID` refuses it")
    else:
        output.line("nothing waits")


def _shown(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of a request as a person reads them: records by their names."""
    for name, value in arguments.items():
        yield name, [each["name"] for each in value] if name == "records" else value


def waiting_json(waiting: Waiting) -> dict[str, Any]:
    """A request for programs."""
    asked = waiting.request
    if asked is None:
        return {"id": waiting.id, "trouble": waiting.trouble}
    return {
        "id": waiting.id,
        "operation": asked.operation,
        "arguments": dict(asked.arguments),
        "scope": asked.scope,
        "project": asked.project,
        "session": asked.session,
        "agent": asked.agent,
        "origin": asked.origin,
        "door": asked.door,
        "at": asked.at,
    }


COMMANDS = {"approve": approve}
