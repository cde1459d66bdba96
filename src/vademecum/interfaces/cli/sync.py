"""Commands that bring several machines together."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import UsageError, VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import Door
    from vademecum.memory import Memory
    from vademecum.memory.sync import PlaceSynced

_KEY = "VADE_SYNC_KEY"


@click.group(invoke_without_command=True)
@click.option(
    "--folder", metavar="PATH", type=click.Path(path_type=Path), help="A folder that your machines share."
)
@click.option("--accept-deletions", "accept", is_flag=True, help="Delete everywhere what is gone here.")
@click.option("--restore", is_flag=True, help="Restore here what is gone.")
@click.option("--workspace", metavar="NAME", default="", help="Which one, where several hubs were joined.")
@click.option("--watch", is_flag=True, help="Keep syncing: when a file changes, and every so often.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="With --watch: how often to ask for what others did.",
)
@common
@click.pass_context
def sync(ctx: click.Context, /, *, folder: Path | None, as_json: bool, door: Door, **given: Any) -> None:
    """Sync memory with your other machines.

    They meet at a hub (`vade hub join`), or with --folder in a folder that something else carries: Syncthing,
    Dropbox, a network drive, a USB stick. The first machine shows a key; the others ask for it, or take it
    from VADE_SYNC_KEY.
    """
    if ctx.invoked_subcommand is not None:
        return
    if given["accept"] and given["restore"]:
        raise UsageError("--accept-deletions and --restore exclude each other")
    if given["watch"] and as_json:
        raise UsageError("--watch prints what it does line by line", hint="leave out `--json`")
    from vademecum.memory import sync as syncing

    memory = door()
    deletions = True if given["accept"] else False if given["restore"] else None
    if folder is None and (given["workspace"] or syncing.has_hub(memory)):
        once = partial(_sync_hub, memory, given["workspace"], deletions)
    else:
        once = partial(_sync_folder, memory, folder, deletions)
    if given["watch"]:
        _keep_syncing(memory, once, given["every"])
    else:
        once(as_json=as_json)


def _sync_hub(
    memory: Memory, workspace: str, deletions: bool | None, *, as_json: bool = False, quiet: bool = False
) -> None:
    from vademecum.memory import sync as syncing

    joined, found = syncing.run_hub(memory, workspace, deletions)
    if as_json:
        output.as_json(
            to_json.synced_json,
            folder=None,
            hub=joined.url,
            workspace=joined.workspace,
            key=None,
            ignored=[],
            places=[_told(each) for each in found],
            findings=[each for one in found for each in one.findings],
        )
        return
    for each in found:
        if not quiet or _did_something(each):
            _tell(each)
    if not found and not quiet:
        output.line(f"{joined.name}: nothing to sync yet")


def _did_something(each: PlaceSynced) -> bool:
    done = each.done
    return bool(done.sent or done.received or done.written or done.removed or done.archived)


def _keep_syncing(memory: Memory, once: Callable[..., None], every: int) -> None:
    """Sync again and again until interrupted; what fails is printed once and tried again."""
    import signal
    import threading

    from vademecum.memory import sync as syncing

    stop, said = threading.Event(), ""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    output.error(f"syncing when a file changes, and every {every} s; stop with Ctrl-C")
    for _ in syncing.wakings(memory, every, stop):
        try:
            once(quiet=True)
            problem = ""
        except VadeError as error:
            problem = str(error)
        if problem != said:
            output.error(problem or "syncing again")
        said = problem
        sys.stdout.flush()


def _sync_folder(
    memory: Memory,
    folder: Path | None,
    deletions: bool | None,
    *,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    from vademecum.memory import sync as syncing

    typed = os.environ.get(_KEY)
    if folder and not typed and sys.stdin.isatty() and syncing.needs_key(memory, folder):
        typed = click.prompt("key of that folder", hide_input=True, err=True)
    joined, key = syncing.join(memory, folder, typed)
    found, ignored = syncing.run(memory, joined, deletions)
    if as_json:
        output.as_json(
            to_json.synced_json,
            folder=str(joined.path),
            hub=None,
            workspace=joined.workspace,
            key=key or None,
            ignored=ignored,
            places=[_told(each) for each in found],
            findings=[each for one in found for each in one.findings],
        )
        return
    for each in found:
        if not quiet or _did_something(each):
            _tell(each)
    for name in [] if quiet else ignored:
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
