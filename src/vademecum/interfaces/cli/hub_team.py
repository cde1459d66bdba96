"""Commands for what is shared with a team: which records are, and when that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.everyday import tell_arranged
from vademecum.interfaces.cli.options import common, complete_keys, scope_option
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import Door

_KEYS = click.argument("names", metavar="KEY|NUM...", nargs=-1, required=True, shell_complete=complete_keys)


@click.command()
@_KEYS
@click.option("--workspace", metavar="NAME", default="", help="The team, where there are several.")
@scope_option("The scope of the records.")
@common
def share(*, names: tuple[str, ...], workspace: str, scope: str | None, as_json: bool, door: Door) -> int:
    """Share private records with a team.

    They move to the team's memory and reach its members with the next sync. `vade undo` moves them back.
    """
    from vademecum.memory import sync as syncing

    memory = door()
    joined = syncing.find_membership(memory.home, workspace, kind="team")
    done = syncing.share(memory, names, joined.workspace, scope)
    return tell_arranged(done, f"shared with {joined.name}", as_json=as_json)


@click.command()
@_KEYS
@scope_option("The scope of the records.")
@common
def unshare(names: tuple[str, ...], scope: str | None, as_json: bool, door: Door) -> int:
    """Move records from a team's memory to your private one.

    The next sync removes them for the other members. Their history, and with it their text, stays on the hub.
    """
    from vademecum.memory import sync as syncing

    done = syncing.unshare(door(), names, scope)
    left = tell_arranged(done, "moved to your private memory", as_json=as_json)
    if done.run and not as_json:
        output.line("the team's history keeps the text; an owner can purge it")
    return left


@click.command()
@click.argument("name")
@click.option("--archive", is_flag=True, help="Move the team's files to the archive.")
@common
def leave(name: str, archive: bool, as_json: bool, door: Door) -> None:
    """Stop syncing with a workspace; its files stay.

    What you shared stays on the hub. The token is deleted on this machine. `vade hub revoke NAME` removes a
    member.
    """
    from vademecum.memory import sync as syncing

    memory = door()
    joined, archived = syncing.leave_hub(memory, name, archive=archive)
    if as_json:
        output.as_json(to_json.hub_left_json, workspace=joined.workspace, name=joined.name, archived=archived)
        return
    output.line(f"left {joined.name}; nothing was deleted there")
    if archived:
        output.line(f"moved {output.plural(len(archived), 'file')} to the archive")


COMMANDS = (share, unshare, leave)
