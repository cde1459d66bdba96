"""The commands for running a hub: `vade hub migrate`, `index`, `serve`, `create` and `export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.hub import print_code
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import OpenMemory

_KEY_FILE = "hub.key"


def _database(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--database", metavar="URL", required=True, envvar="VADE_HUB_DATABASE", help=help_text
    )


_key_file = click.option(
    "--key-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The hub's key, made when missing.  [default: hub.key in the memory folder]",
)


@click.command()
@_database("Where PostgreSQL is, as a superuser the first time, as hub_migrate later.")
@common
def migrate(database: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Create or upgrade the hub's database schema."""
    from vademecum_hub import listen
    from vademecum_hub import migrate as migrations

    with listen.connect(database) as connection:
        ran = migrations.migrate(connection)
    schema = migrations.read_migrations()[-1].number
    if as_json:
        output.as_json(to_json.hub_migrated_json, schema=schema, ran=[each.name for each in ran])
    else:
        output.line(f"schema {schema}: {f'{len(ran)} migrations ran' if ran else 'up to date'}")


@click.command()
@_database("Where PostgreSQL is, as hub_migrate.")
@common
def index(database: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Index the vectors of large workspaces.

    A workspace with more than 50,000 passages is searched faster afterwards, and a little less thoroughly.
    Run it now and then; searches and syncs go on meanwhile.
    """
    from vademecum_hub import administration

    made = administration.index_large(database)
    if as_json:
        output.as_json(to_json.hub_indexed_json, indexed=made)
    else:
        output.line(f"{made} workspaces indexed" if made else "nothing to index")


@click.command()
@_database("Where PostgreSQL is, as hub_app.")
@_key_file
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8389, show_default=True, help="The port.")
@click.option("--certificate", metavar="FILE", default="", help="The server's certificate, for TLS.")
@click.option("--certificate-key", metavar="FILE", default="", help="The key of the certificate.")
@click.option(
    "--behind-proxy",
    metavar="ADDRESS",
    multiple=True,
    help="A proxy that speaks TLS and is trusted; repeatable.",
)
@click.option("--log", is_flag=True, help="Log each request on stderr, without anybody's words.")
@common
def serve(
    *, database: str, key_file: Path | None, as_json: bool, open_memory: OpenMemory, **given: Any
) -> None:
    """Serve a hub.

    Any number of servers may share a database and a key file. Off this machine it is reached over TLS alone:
    with a certificate, or behind a proxy that has one. Runs until it is stopped.
    """
    from vademecum_hub import listen

    listening = listen.Listening(
        given["host"], given["port"], given["certificate"], given["certificate_key"], given["behind_proxy"]
    )
    listen.check_listening(listening)

    def ready(address: str) -> None:
        if as_json:
            output.as_json(to_json.hub_serving_json, url=address)
            sys.stdout.flush()
        else:
            output.error(f"the hub listens on {address}")

    listen.run_hub(database, _keys(key_file, open_memory), listening, ready=ready, log=given["log"])


@click.command()
@click.argument("name")
@_database("Where PostgreSQL is, as hub_migrate.")
@_key_file
@click.option(
    "--kind",
    type=click.Choice(["personal", "team"]),
    default="personal",
    show_default=True,
    help="For one person's machines, or for several people.",
)
@click.option(
    "--owner", metavar="MEMBER", default="owner", show_default=True, help="What its first member is called."
)
@common
def create(
    *,
    name: str,
    database: str,
    key_file: Path | None,
    kind: str,
    owner: str,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Create a workspace, and a code to join it."""
    from vademecum_hub import administration

    made = administration.create_workspace(
        database, _keys(key_file, open_memory), name, kind=kind, owner=owner
    )
    if as_json:
        output.as_json(to_json.hub_invited_json, **made)
        return
    output.line(f"created the {kind} workspace {name}")
    print_code(made)


@click.command()
@click.argument("path", metavar="[PATH]", type=click.Path(path_type=Path), default="hub-export")
@_database("Where PostgreSQL is, as hub_migrate.")
@click.option("--workspace", metavar="NAME", default="", help="Only the workspace of this name or id.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@common
def export(
    *, path: Path, database: str, workspace: str, force: bool, as_json: bool, open_memory: OpenMemory
) -> None:
    """Export every workspace as Markdown.

    PATH becomes a folder with one for each workspace: its places, records, journals and pinned documents, as
    a synced memory folder has them. In a team every entry names its author.
    """
    from vademecum_hub import workspace_export

    work = open_memory().workspace
    work.outside(path)
    with output.progress("nothing was written"), work.reported(f"write {path}"):
        made = workspace_export.export_hub(database, path, workspace=workspace, force=force)
    if as_json:
        output.as_json(
            to_json.hub_exported_json, path=str(path), files=made.files, workspaces=made.workspaces
        )
        return
    for each in made.workspaces:
        output.line(f"{each}/")
    output.line(f"wrote {path} ({output.plural(made.files, 'file')})")


def _keys(key_file: Path | None, open_memory: OpenMemory) -> Any:
    """Return the hub's keys from the key file, by default in the memory folder; create a missing file."""
    from vademecum_hub import listen

    if key_file is not None:
        return listen.load_keys(key_file, make=True)
    folder = open_memory().home.path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return listen.load_keys(folder / _KEY_FILE, make=True)
