"""`vade sync key`: show, save, take and change the key of a synced folder or personal workspace."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vademecum.errors import Collision, NotFound
from vademecum.interfaces.cli.options import common, confirm
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.shape import VERSION

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.sync import SyncKey

_KEY = "VADE_SYNC_KEY"
_workspace = click.option(
    "--workspace",
    metavar="NAME",
    default="",
    help="The workspace, if there are several; `folder` means the folder.",
)


@click.group(invoke_without_command=True)
@_workspace
@common
@click.pass_context
def key(ctx: click.Context, workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Show the key that your machines share, and its file.

    A synced folder has a key, and so has a personal workspace. The key seals what your machines send; a
    machine with another key neither sends nor receives. Keep a copy outside of your machines:
    `vade sync key paper`.
    """
    if ctx.invoked_subcommand is not None:
        return
    from vademecum.memory import sync as syncing

    found = syncing.list_keys(open_memory(), workspace)
    if as_json:
        _print_json(to_json.sync_keys_json(keys=[each._asdict() for each in found]))
        return
    for each in found:
        with output.show_secrets():
            output.line(f"{each.name}: {each.key or 'the key is not here; `vade sync key set` takes it'}")
        output.line(f"  in {each.file}{_describe_generation(each)}")


@key.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@_workspace
@common
def paper(file: Path | None, workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Write a page with the key, to print and keep.

    The page goes into a new FILE, or to the terminal.
    """
    from vademecum.memory import sync as syncing

    meant = syncing.find_sync_key(open_memory(), workspace)
    if not meant.key:
        raise NotFound(f"the key of {meant.name} is not here", hint="`vade sync key set` takes it")
    page = _make_page(meant)
    if file is None and not as_json:
        click.echo(page, nl=False)
        return
    if file is not None:
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
                written.write(page)
        except FileExistsError as error:
            raise Collision(f"{file} already exists", hint="choose another name") from error
    if as_json:
        _print_json(to_json.sync_key_paper_json(path=str(file) if file else None, page=page))
    else:
        output.line(f"{file}: print it, keep it where nobody else reads it, and delete the file")


@key.command("set")
@_workspace
@common
def set_key(workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Take the key that another machine shows, and sync.

    What this machine has sent under another key is sent again with the right one. The key is asked for, or
    taken from VADE_SYNC_KEY.
    """
    from vademecum.memory import sync as syncing

    memory = open_memory()
    meant = syncing.find_sync_key(memory, workspace)
    typed = os.environ.get(_KEY) or click.prompt("Key", hide_input=True, err=True)
    syncing.set_key(memory, meant, typed)
    if not as_json:
        output.line(f"{meant.name}: this machine has the right key now")
    _sync(memory, meant, as_json=as_json)


@key.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@_workspace
@common
def rotate(yes: bool, workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Change the key, as after somebody else has seen it.

    Your other machines are told at their next sync, and take the new key with `vade sync key set`. What they
    have not sent by then is sent with the new key; what somebody writes with the old key is refused.
    """
    from vademecum.memory import sync as syncing

    memory = open_memory()
    meant = syncing.find_sync_key(memory, workspace)
    question = f"Change the key of {meant.name}? Each other machine needs the new one before it syncs again."
    confirm(question, yes=yes)
    new = syncing.rotate_key(memory, meant)
    if as_json:
        now = syncing.find_sync_key(open_memory(), workspace)
        _print_json(to_json.sync_key_rotated_json(name=meant.name, key=new, generation=now.generation))
        return
    with output.show_secrets():
        output.line(f"the new key of {meant.name}: {new}")
    output.line("Type it on your other machines: vade sync key set")


def _sync(memory: Memory, meant: SyncKey, *, as_json: bool) -> None:
    from vademecum.interfaces.cli.sync import sync_folder, sync_hubs

    if meant.kind == "folder":
        sync_folder(memory, None, None, as_json=as_json)
    else:
        sync_hubs(memory, meant.workspace, None, as_json=as_json)


def _describe_generation(each: SyncKey) -> str:
    return f", changed {output.plural(each.generation - 1, 'time')}" if each.generation > 1 else ""


def _make_page(each: SyncKey) -> str:
    use = "vade sync --folder PATH" if each.kind == "folder" else "vade hub join URL"
    return (
        f"Vademecum: the key of {each.name}\n\n    {each.key}\n\n"
        f"On a new machine, `{use}` asks for the key. On a machine that has lost the key,\n"
        "`vade sync key set` takes it.\n"
        "Whoever has the key, and access to the folder or hub, can write to your memory.\n"
    )


def _print_json(shape: dict[str, object]) -> None:
    """Print JSON with a key in it; no other output contains the key."""
    click.echo(json.dumps({"schemaVersion": VERSION, **shape}, indent=2, ensure_ascii=False))
