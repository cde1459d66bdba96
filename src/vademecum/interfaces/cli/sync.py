"""Commands that bring several machines together."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import UsageError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import Door
    from vademecum.memory.sync import PlaceSynced

_KEY = "VADE_SYNC_KEY"


@click.group(invoke_without_command=True)
@click.option(
    "--folder", metavar="PATH", type=click.Path(path_type=Path), help="A folder that your machines share."
)
@click.option("--accept-deletions", "accept", is_flag=True, help="Delete everywhere what is gone here.")
@click.option("--restore", is_flag=True, help="Restore here what is gone.")
@common
@click.pass_context
def sync(
    ctx: click.Context, *, folder: Path | None, accept: bool, restore: bool, as_json: bool, door: Door
) -> None:
    """Sync memory with your other machines.

    They meet in a folder that something else carries: Syncthing, Dropbox, a network drive, a USB stick. The
    first machine shows a key; the others ask for it, or take it from VADE_SYNC_KEY.
    """
    if ctx.invoked_subcommand is not None:
        return
    if accept and restore:
        raise UsageError("--accept-deletions and --restore exclude each other")
    from vademecum.memory import sync as syncing

    memory = door()
    typed = os.environ.get(_KEY)
    if folder and not typed and sys.stdin.isatty() and syncing.needs_key(memory, folder):
        typed = click.prompt("key of that folder", hide_input=True, err=True)
    joined, key = syncing.join(memory, folder, typed)
    found, ignored = syncing.run(memory, joined, True if accept else False if restore else None)
    if as_json:
        output.as_json(
            to_json.synced_json,
            folder=str(joined.path),
            workspace=joined.workspace,
            key=key or None,
            ignored=ignored,
            places=[_told(each) for each in found],
            findings=[each for one in found for each in one.findings],
        )
        return
    for each in found:
        _tell(each)
    for name in ignored:
        output.line(f"ignored in the folder: {name} (a conflict copy)")
    if key:
        output.line(f"key: {key}")
        output.line("Type it on your other machines: vade sync --folder PATH")


@sync.command()
@common
def status(as_json: bool, door: Door) -> None:
    """Show the folder and what is not sent yet."""
    from vademecum.memory import sync as syncing

    joined, unsent = syncing.status(door())
    reachable = joined.path.is_dir()
    if as_json:
        output.as_json(
            to_json.sync_status_json,
            folder=str(joined.path),
            workspace=joined.workspace,
            reachable=reachable,
            unsent=unsent,
        )
        return
    output.line(f"{joined.path}{'' if reachable else ' (missing now)'}")
    output.line(f"{unsent} changes to send" if unsent else "nothing to send")


@sync.command()
@common
def off(as_json: bool, door: Door) -> None:
    """Stop syncing; all files stay."""
    from vademecum.memory import sync as syncing

    left = syncing.leave(door())
    if as_json:
        output.as_json(to_json.sync_off_json, folder=str(left.path))
    else:
        output.line(f"{left.path} is no longer used; nothing was deleted here or there")


def _told(each: PlaceSynced) -> dict[str, Any]:
    done = each.done
    return {
        "place": each.stream,
        "sent": done.sent,
        "received": done.received,
        "written": done.written,
        "removed": done.removed,
        "conflicts": done.conflicts,
        "archived": done.archived,
        "refused": done.refused,
    }


def _tell(each: PlaceSynced) -> None:
    done = each.done
    output.line(f"{each.stream}: {done.sent} changes sent, {done.received} received")
    for path in done.conflicts:
        output.line(f"  two versions, both kept: {path}; decide with `vade review`")
    for path in done.archived:
        output.line(
            f"  edited there and removed here, or the other way round: {path}; the text is in the archive"
        )
    for said in done.refused:
        output.line(f"  not taken: {said}")
    for finding in each.findings:
        output.line(f"  not synced: {finding.where}: {finding.why}")
