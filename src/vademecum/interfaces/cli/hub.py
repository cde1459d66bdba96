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


@click.group(invoke_without_command=True)
@common
@click.pass_context
def hub(ctx: click.Context, as_json: bool, door: Door) -> None:
    """Run a hub, or join one.

    A hub is where machines and members meet. It keeps its workspaces in PostgreSQL; your files stay the truth
    on each machine. Alone, it shows which hubs were joined, as `vade hub status` does.
    """
    if ctx.invoked_subcommand is None:
        _show_status(door().home, as_json=as_json)


@hub.command()
@_database("Where PostgreSQL is, as a superuser the first time, as hub_migrate later.")
@common
def migrate(database: str, as_json: bool, door: Door) -> None:
    """Create or upgrade the hub's database schema."""
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
    """Create a workspace, and a code to join it."""
    from vademecum.interfaces.hub import operate

    made = operate.create_workspace(database, _keys(key_file, door), name, kind=kind, owner=owner)
    if as_json:
        output.as_json(to_json.hub_invited_json, **made)
        return
    output.line(f"created the {kind} workspace {name}")
    tell_code(made)


_workspace = click.option(
    "--workspace", metavar="NAME", default="", help="Which one, where there are several."
)


@hub.command()
@click.argument("url")
@click.option("--code", metavar="CODE", help="The code that `vade hub invite` or `vade hub create` showed.")
@click.option("--key", metavar="KEY", help="The key of a personal workspace that other machines share.")
@common
def join(url: str, code: str | None, key: str | None, as_json: bool, door: Door) -> None:
    """Join a hub with a code.

    The first machine of a personal workspace makes its key and shows it once; further ones are asked for it.
    The hub never sees the key: it cannot make up texts of yours. Nothing is sent before you sync.
    """
    from vademecum.sync import membership

    memory = door()
    memory.workspace.may_decide("join a hub", "vade hub join")
    home = memory.home
    typed = code or click.prompt("Code", err=True)
    joined = membership.join_hub(home, url, typed, label=_machine())
    made = ""
    if joined.kind == "personal":
        if key is None and membership.is_empty(home, joined):
            made = key = membership.new_key()
        key = key or click.prompt("Key of this workspace", err=True)
        membership.keep_key(home, joined, membership.read_key(key))
    if as_json:
        output.as_json(to_json.hub_joined_json, joined, key=membership.spell_key(made) or None)
        return
    output.line(f"joined the {joined.kind} workspace {joined.name} as {joined.member} ({joined.role})")
    if made:
        with output.revealed():
            output.line(f"its key, which your other machines need: {membership.spell_key(made)}")


@hub.command()
@common
def status(as_json: bool, door: Door) -> None:
    """Show which hubs were joined, and whether they answer."""
    _show_status(door().home, as_json=as_json)


def _show_status(home: Any, *, as_json: bool) -> None:
    from vademecum.sync import membership

    told = [_state(home, each) for each in membership.list_memberships(home)]
    if as_json:
        output.as_json(to_json.hub_status_json, workspaces=told)
        return
    for each in told:
        output.line(f"{each['name']} ({each['kind']}) at {each['url']}, as {each['member']} ({each['role']})")
        output.line(f"  {each['problem']}" if each["problem"] else f"  {each['facts']} facts")
        if each["kind"] == "personal":
            last = f"last sync {each['synced'][:16]}" if each["synced"] else "never synced"
            waits = f"{each['unsent']} changes to send" if each["unsent"] else "nothing to send"
            output.line(f"  {last}, {waits}")
    if not told:
        output.line("no hub joined; `vade hub join URL` joins one")


def _state(home: Any, joined: Any) -> dict[str, Any]:
    """What a hub says of a workspace, or why it says nothing."""
    from datetime import UTC, datetime

    from vademecum.errors import VadeError
    from vademecum.memory import sync as syncing
    from vademecum.sync import membership

    standing = syncing.read_standing(home, joined)
    client, problem, found = membership.client_of(home, joined), "", []
    try:
        now = datetime.fromisoformat(client.ask("GET", "/v1/me").json()["now"])
        skew = abs((datetime.now(UTC) - now).total_seconds())
        problem = f"this machine's clock is {skew:.0f} seconds off" if skew > 120 else ""
        found = client.ask("GET", "/v1/streams").json()["streams"]
    except VadeError as error:
        problem = str(error)
    finally:
        client.close()
    names = ("name", "workspace", "kind", "url", "member", "role")
    told = {each: getattr(joined, each) for each in names}
    told |= {"unsent": standing.unsent, "synced": standing.synced}
    return {**told, "streams": len(found), "facts": sum(each["head"] for each in found), "problem": problem}


@hub.command()
@click.argument("name", required=False)
@click.option(
    "--role",
    type=click.Choice(["reader", "writer", "editor", "owner"]),
    default="writer",
    show_default=True,
    help="What the new member may do.",
)
@_workspace
@common
def invite(name: str | None, role: str, workspace: str, as_json: bool, door: Door) -> None:
    """Make a join code for a machine, or for a new member."""
    asked = {"name": name, "role": role} if name else {}
    joined, made = _ask(door, workspace, "POST", "/v1/invites", asked, doing="invite to a hub")
    if as_json:
        output.as_json(
            to_json.hub_invited_json, workspace=joined.workspace, name=name or joined.member, **made
        )
        return
    tell_code(made, joined.url)


@hub.command()
@_workspace
@common
def members(workspace: str, as_json: bool, door: Door) -> None:
    """List the members of a workspace."""
    _, told = _ask(door, workspace, "GET", "/v1/members")
    if as_json:
        output.as_json(to_json.hub_members_json, members=told["members"])
        return
    for each in told["members"]:
        output.line(f"{each['name']:<20} {each['role']:<8} since {each['since'][:10]}")


@hub.command()
@click.argument("name")
@_workspace
@common
def revoke(name: str, workspace: str, as_json: bool, door: Door) -> None:
    """Remove a member, or revoke a token by its id: at once.

    What they wrote stays, and so do the files on their machines.
    """
    if len(name) == 36 and name.count("-") == 4:
        _ask(door, workspace, "DELETE", f"/v1/tokens/{name}", doing="revoke a token")
    else:
        _ask(door, workspace, "POST", f"/v1/members/{name}", {"role": None}, doing="remove a member")
    if as_json:
        output.as_json(to_json.hub_revoked_json, revoked=name)
    else:
        output.line(f"revoked {name}")


def _ask(
    door: Door, workspace: str, method: str, path: str, body: dict[str, Any] | None = None, *, doing: str = ""
) -> tuple[Any, Any]:
    """One request to the hub of a workspace; what decides about others needs a person."""
    import json
    from urllib.parse import quote

    from vademecum.sync import membership

    memory = door()
    if doing:
        memory.workspace.may_decide(doing, "vade hub")
    joined = membership.find_membership(memory.home, workspace)
    client = membership.client_of(memory.home, joined)
    try:
        given = None if body is None else json.dumps(body).encode()
        return joined, client.ask(method, quote(path), given).json()
    finally:
        client.close()


def _machine() -> str:
    """What this machine is called in the list of tokens."""
    import platform

    return platform.node()[:80]


def tell_code(made: dict[str, Any], url: str = "URL") -> None:
    """Print a code that somebody joins with."""
    days, minutes = divmod(made["minutes"], 1440)
    lasts = f"{days} days" if days else f"{minutes} minutes"
    with output.revealed():
        output.line(f"join with `vade hub join {url}` and the code {made['code']} (works once, for {lasts})")


def _keys(key_file: Path | None, door: Door) -> Any:
    """The keys of the hub; its file lies in the memory folder unless another is named."""
    from vademecum.interfaces.hub import serve as serving

    if key_file is not None:
        return serving.keys_from(key_file, make=True)
    folder = door().home.path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return serving.keys_from(folder / _KEY_FILE, make=True)
