"""Commands for the hub: the server and its database for who runs one, and a place in it for who joins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import Door

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


@click.group()
def hub() -> None:
    """Run a hub, or join one.

    A hub is where machines and members meet. It keeps its workspaces in PostgreSQL; your files stay the truth
    on each machine.
    """


@hub.command()
@_database("Where PostgreSQL is, as a superuser the first time, as hub_migrate later.")
@common
def migrate(database: str, as_json: bool, door: Door) -> None:
    """Prepare a database for this version of the hub, or bring it up to date."""
    from vademecum.interfaces.hub import migrate as migrations
    from vademecum.interfaces.hub import serve as serving

    with serving.connected(database) as connection:
        ran = migrations.migrate(connection)
    schema = migrations.read_migrations()[-1].number
    if as_json:
        output.as_json(to_json.hub_migrated_json, schema=schema, ran=[each.name for each in ran])
    else:
        output.line(f"schema {schema}: {f'{len(ran)} migrations ran' if ran else 'up to date'}")


@hub.command()
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
def serve(*, database: str, key_file: Path | None, as_json: bool, door: Door, **given: Any) -> None:
    """Serve a hub.

    Any number of servers may share a database and a key file. Off this machine it is reached over TLS alone:
    with a certificate, or behind a proxy that has one. Runs until it is stopped.
    """
    from vademecum.interfaces.hub import serve as serving

    listening = serving.Listening(
        given["host"], given["port"], given["certificate"], given["certificate_key"], given["behind_proxy"]
    )
    serving.check_listening(listening)
    serving.import_psycopg()

    def ready(address: str) -> None:
        if as_json:
            output.as_json(to_json.hub_serving_json, url=address)
            sys.stdout.flush()
        else:
            output.error(f"the hub listens on {address}")

    serving.run_hub(database, _keys(key_file, door), listening, ready=ready, log=given["log"])


@hub.command()
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
    *, name: str, database: str, key_file: Path | None, kind: str, owner: str, as_json: bool, door: Door
) -> None:
    """Create a workspace in a hub's database, and a code that its owner joins with."""
    from vademecum.interfaces.hub import operate

    made = operate.create_workspace(database, _keys(key_file, door), name, kind=kind, owner=owner)
    if as_json:
        output.as_json(to_json.hub_invited_json, **made)
        return
    output.line(f"created the {kind} workspace {name}")
    tell_code(made)


def tell_code(made: dict[str, Any]) -> None:
    """Print a code that somebody joins with."""
    days, minutes = divmod(made["minutes"], 1440)
    lasts = f"{days} days" if days else f"{minutes} minutes"
    output.line(f"join with `vade hub join URL` and the code {made['code']} (works once, for {lasts})")


def _keys(key_file: Path | None, door: Door) -> Any:
    """The keys of the hub; its file lies in the memory folder unless another is named."""
    from vademecum.interfaces.hub import serve as serving

    if key_file is not None:
        return serving.keys_from(key_file, make=True)
    folder = door().home.path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return serving.keys_from(folder / _KEY_FILE, make=True)
