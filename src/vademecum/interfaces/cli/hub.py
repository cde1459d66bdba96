"""Commands for the hub: the server and its database for who runs one, and a place in it for who joins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import NotFound
from vademecum.interfaces.cli import hub_team, hub_trust
from vademecum.interfaces.cli.hub_demo import demo
from vademecum.interfaces.cli.hub_trust import ask_hub, inject_option, workspace_option
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.cli.sync import read_background, tell_standing
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import Door

_KEY_FILE = "hub.key"
_SLOW = "search is slower than it could be: whoever runs the hub can run `vade hub index`"


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
@_database("Where PostgreSQL is, as hub_migrate.")
@common
def index(database: str, as_json: bool, door: Door) -> None:
    """Index the vectors of large workspaces.

    A workspace with more than 50,000 passages is searched faster afterwards, and a little less thoroughly.
    Run it now and then; searches and syncs go on meanwhile.
    """
    from vademecum.interfaces.hub import operate

    made = operate.index_large(database)
    if as_json:
        output.as_json(to_json.hub_indexed_json, indexed=made)
    else:
        output.line(f"{made} workspaces indexed" if made else "nothing to index")


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


@hub.command()
@click.argument("path", metavar="[PATH]", type=click.Path(path_type=Path), default="hub-export")
@_database("Where PostgreSQL is, as hub_migrate.")
@click.option("--workspace", metavar="NAME", default="", help="Only the workspace of this name or id.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@common
def export(*, path: Path, database: str, workspace: str, force: bool, as_json: bool, door: Door) -> None:
    """Export every workspace as Markdown.

    PATH becomes a folder with one for each workspace: its places, records, journals and pinned documents, as
    a synced memory folder has them. In a team every entry names its author.
    """
    from vademecum.interfaces.hub import export as exporting
    from vademecum.interfaces.hub import serve as serving

    serving.import_psycopg()
    work = door().workspace
    work.outside(path)
    with output.progress("nothing was written"), work.reported(f"write {path}"):
        made = exporting.export_hub(database, path, workspace=workspace, force=force)
    if as_json:
        output.as_json(
            to_json.hub_exported_json, path=str(path), files=made.files, workspaces=made.workspaces
        )
        return
    for each in made.workspaces:
        output.line(f"{each}/")
    output.line(f"wrote {path} ({output.plural(made.files, 'file')})")


hub.add_command(hub_trust.rules)
hub.add_command(hub_trust.token)
hub.add_command(demo)
for _command in hub_team.COMMANDS:
    hub.add_command(_command)


@hub.command()
@click.argument("url")
@click.option("--code", metavar="CODE", help="The code that `vade hub invite` or `vade hub create` showed.")
@click.option("--key", metavar="KEY", help="The key of a personal workspace that other machines share.")
@click.option("--token", metavar="TOKEN", help="A token of `vade hub token add`, instead of a code.")
@inject_option
@common
def join(
    *,
    url: str,
    code: str | None,
    key: str | None,
    inject: tuple[str, ...],
    as_json: bool,
    door: Door,
    token: str | None,
) -> None:
    """Join a hub with a code.

    The first machine of a personal workspace makes its key and shows it once; further ones are asked for it.
    After a wrong key, join again without a code. The hub never sees the key: it cannot make up texts of
    yours. In a team you are asked once whose verified texts your agents are given; Enter means nobody's.
    Nothing is sent before you sync.
    """
    from vademecum.memory.sync import membership

    memory = door()
    memory.workspace.may_decide("join a hub", "vade hub join")
    home = memory.home
    begun = membership.find_keyless(home, url)
    if token:
        joined = membership.join_with_token(home, url, token)
    elif begun and not code:
        joined = begun
    else:
        joined = membership.join_hub(home, url, code or click.prompt("Code", err=True), label=_machine())
    made = ""
    if joined.kind == "personal":
        if key is None:
            key = (membership.key_of(home, joined) or b"").decode()
        if not key and membership.is_empty(home, joined):
            made = key = membership.new_key()
        key = key or click.prompt("Key of this workspace", err=True)
        membership.keep_key(home, joined, membership.read_key(key))
    else:
        joined = hub_trust.choose_trusted(home, joined, inject, asking=not as_json)
    if as_json:
        output.as_json(to_json.hub_joined_json, joined, key=membership.spell_key(made) or None)
        return
    output.line(f"joined the {joined.kind} workspace {joined.name} as {joined.member} ({joined.role})")
    if made:
        with output.revealed():
            output.line(f"its key, which your other machines need: {membership.spell_key(made)}")
    output.line("sync with `vade sync`")


@hub.command()
@common
def status(as_json: bool, door: Door) -> None:
    """Show which hubs were joined, and whether they answer."""
    _show_status(door().home, as_json=as_json)


def _show_status(home: Any, *, as_json: bool) -> None:
    from vademecum.memory.sync import membership

    told = [_state(home, each) for each in membership.list_memberships(home)]
    if as_json:
        output.as_json(to_json.hub_status_json, workspaces=told)
        return
    for each in told:
        output.line(f"{each['name']} ({each['kind']}) at {each['url']}, as {each['member']} ({each['role']})")
        held = f"{each['facts']} facts, {output.plural(each['passages'], 'passage')} to search"
        output.line(f"  {each['problem'] or held}")
        if each["search"]:
            output.line(f"  {each['search']}")
        tell_standing(each)
    if not told:
        output.line("no hub joined; `vade hub join URL` joins one")


def _state(home: Any, joined: Any) -> dict[str, Any]:
    """What a hub says of a workspace, or why it says nothing."""
    from datetime import UTC, datetime

    from vademecum.errors import VadeError
    from vademecum.memory import sync as syncing
    from vademecum.memory.sync import membership

    standing = syncing.read_standing(home, joined)
    client, problem, found = membership.client_of(home, joined), "", []
    purged: dict[str, tuple[int, int]] = {}
    searched: dict[str, Any] = {}
    try:
        me = client.ask("GET", "/v1/me").json()
        now, searched = datetime.fromisoformat(me["now"]), me.get("search") or {}
        skew = abs((datetime.now(UTC) - now).total_seconds())
        off = f"{skew:.0f} seconds" if skew < 172_800 else f"{skew // 86_400:,.0f} days"
        problem = f"this machine's clock is {off} off" if skew > 120 else ""
        found = client.ask("GET", "/v1/streams").json()["streams"]
        purged = syncing.purged_at_hub(home, joined)
        problem = membership.check_log(home, joined, client) or problem
        if joined.kind == "personal" and membership.key_of(home, joined) is None:
            problem = f"its key is not here: `vade hub join {joined.url}` asks for it"
    except VadeError as error:
        problem = str(error)
    finally:
        client.close()
    names = ("name", "workspace", "kind", "url", "member", "role")
    told = {each: getattr(joined, each) for each in names}
    told |= {
        "passages": searched.get("passages", 0),
        "search": _SLOW if searched.get("slow") else None,
    }
    told |= {"unsent": standing.unsent, "synced": standing.synced, "purges": syncing.tell_purged(purged)}
    told |= {"refused": list(standing.refused)}
    told |= read_background(home, joined.workspace)
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
@workspace_option
@common
def invite(name: str | None, role: str, workspace: str, as_json: bool, door: Door) -> None:
    """Make a join code for a machine, or for a new member."""
    asked = {"name": name, "role": role} if name else {}
    joined, made = ask_hub(door, workspace, "POST", "/v1/invites", asked, doing="invite to a hub")
    if as_json:
        output.as_json(
            to_json.hub_invited_json, workspace=joined.workspace, name=name or joined.member, **made
        )
        return
    tell_code(made, joined.url)


@hub.command("open")
@workspace_option
@common
def open_page(workspace: str, as_json: bool, door: Door) -> None:
    """Open the hub's page in your browser.

    It shows who did what in the workspace, its documents, conflicts and members. The link works once, within
    ten minutes; revoking this machine's token ends the session that it opened.
    """
    from vademecum.interfaces.cli.web import open_browser

    joined, made = ask_hub(door, workspace, "POST", "/v1/page", {}, doing="open a hub's page")
    if as_json:
        output.as_json(to_json.hub_opened_json, url=f"{joined.url}/", workspace=joined.workspace)
    else:
        output.line(f"opening {joined.name} at {joined.url}")
    link = joined.url + made["path"]
    if not open_browser(link) and sys.stderr.isatty():
        click.echo(f"vade: open {link} (works once)", err=True)


@hub.command()
@workspace_option
@common
def members(workspace: str, as_json: bool, door: Door) -> None:
    """List the members of a workspace."""
    _, told = ask_hub(door, workspace, "GET", "/v1/members")
    if as_json:
        output.as_json(to_json.hub_members_json, members=told["members"])
        return
    for each in told["members"]:
        output.line(f"{each['name']:<20} {each['role']:<8} since {each['since'][:10]}")


@hub.command()
@click.argument("name")
@click.option("--only", is_flag=True, help="Leave tokens alone that were made with it.")
@click.option("--yes", is_flag=True, help="Do not ask about tokens that were made with it.")
@workspace_option
@common
def revoke(*, name: str, only: bool, yes: bool, workspace: str, as_json: bool, door: Door) -> None:
    """Remove a member, or revoke a token by its id: at once.

    With a token end the tokens and codes that were made with it, and with those: whoever stole it may have
    them. This machine's own token stays valid. What they wrote stays, and so do the files on their machines.
    """
    from vademecum.errors import UsageError
    from vademecum.memory.sync import HubRefused

    is_token = len(name) == 36 and name.count("-") == 4
    if only and not is_token:
        raise UsageError("--only goes with a token's id, not with a member")
    if is_token and not (only or yes or as_json):
        _ask_about_made(door, workspace, name)
    method, path = ("DELETE", f"/v1/tokens/{name}") if is_token else ("POST", f"/v1/members/{name}")
    asked = {"only": only} if is_token else {"role": None}
    doing = "revoke a token" if is_token else "remove a member"
    try:
        _, done = ask_hub(door, workspace, method, path, asked, doing=doing)
    except HubRefused as error:
        if error.status != 404:
            raise
        raise NotFound(
            f"{workspace or 'this workspace'} has no member and no token {name}",
            hint="`vade hub members` and `vade hub token list` list them",
        ) from error
    _tell_revoked(name, done.get("also", []), done.get("codes", 0), as_json=as_json)


def _tell_revoked(name: str, also: list[dict[str, str]], codes: int, *, as_json: bool) -> None:
    """What ended with a token."""
    if as_json:
        output.as_json(to_json.hub_revoked_json, revoked=name, also=also, codes=codes)
        return
    more = [f"{output.plural(len(also), 'token')} made with it"] if also else []
    more += [output.plural(codes, "code")] if codes else []
    output.line(" and ".join([f"revoked {name}", *more]))
    for each in also:
        output.line(f"  {each['id']}  {each['member']:<12} {each['label']}".rstrip())


def _ask_about_made(door: Door, workspace: str, number: str) -> None:
    """Ask whoever sits at a terminal before other machines and members lose their tokens."""
    _, told = ask_hub(door, workspace, "GET", "/v1/tokens", doing="revoke a token")
    tokens = {each["id"]: each for each in told["tokens"]}
    made = [tokens[each] for each in tokens.get(number, {}).get("made", ())]
    if not made or sys.stdin is None or not sys.stdin.isatty():
        return
    named = "; ".join(f"{each['label'] or each['id']}, {each['member']}" for each in made)
    question = f"This also ends {output.plural(len(made), 'token')} made with it ({named}). Revoke them all?"
    if not click.confirm(question):
        raise click.Abort


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
