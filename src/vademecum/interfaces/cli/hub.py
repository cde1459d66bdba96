"""`vade hub`: join a hub, show its state, and invite and remove members.

The commands for running a hub are added by the package `vademecum-hub`.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.cli import hub_team, hub_trust
from vademecum.interfaces.cli.hub_trust import ask_hub, inject_option, workspace_option
from vademecum.interfaces.cli.options import ask, common
from vademecum.interfaces.cli.plugins import PluginGroup
from vademecum.interfaces.cli.sync import format_sync_status, read_background
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory.sync import Membership
    from vademecum.store import Home

_SERVER_COMMANDS = ("create", "demo", "export", "index", "migrate", "serve")
_SLOW = "search is slower than it could be: whoever runs the hub can run `vade hub index`"


class HubGroup(PluginGroup):
    """The `hub` commands of this package, and those that the package `vademecum-hub` adds."""

    plugin_parent = "hub"

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; for a command of the missing package, name the package."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in _SERVER_COMMANDS:
            raise UsageError(
                f"`vade hub {cmd_name}` needs the package vademecum-hub",
                hint="install it with `pip install 'vademecum[hub]'`",
            )
        return command


@click.group(cls=HubGroup, invoke_without_command=True)
@common
@click.pass_context
def hub(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Run a hub, or join one.

    A hub is where machines and members meet. It keeps its workspaces in PostgreSQL; your files stay the truth
    on each machine. Alone, it shows which hubs were joined, as `vade hub status` does.
    """
    if ctx.invoked_subcommand is None:
        _show_status(open_memory().home, as_json=as_json)


hub.add_command(hub_trust.rules)
hub.add_command(hub_trust.token)
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
    open_memory: OpenMemory,
    token: str | None,
) -> None:
    """Join a hub with a code.

    The first machine of a personal workspace makes its key and shows it once; further ones are asked for it.
    After a wrong key, join again without a code. The hub never sees the key: it cannot make up texts of
    yours. In a team you are asked once whose verified texts your agents are given; Enter means nobody's.
    Nothing is sent before you sync.
    """
    from vademecum.memory.sync import membership, spell_key

    memory = open_memory()
    memory.workspace.may_decide("join a hub", "vade hub join")
    home = memory.home
    unfinished = membership.find_joined(home, url, keyless=key is None)
    if token:
        joined = membership.join_with_token(home, url, token)
    elif unfinished and not code:
        joined = unfinished
    else:
        joined = membership.join_hub(home, url, code or click.prompt("Code", err=True), label=_machine_name())
    made = ""
    if joined.kind == "personal":
        made = _take_key(home, joined, key)
    elif key:
        raise UsageError("only a personal workspace has a key", hint="leave out `--key` for a team")
    else:
        joined = hub_trust.choose_trusted(home, joined, inject, asking=not as_json)
    if as_json:
        output.as_json(to_json.hub_joined_json, joined, key=spell_key(made) or None)
        return
    output.line(f"joined the {joined.kind} workspace {joined.name} as {joined.member} ({joined.role})")
    if made:
        with output.show_secrets():
            output.line(f"its key, which your other machines need: {spell_key(made)}")
    output.line("sync with `vade sync`")


def _take_key(home: Home, joined: Membership, given: str | None) -> str:
    """Save the key of a personal workspace; return the key if this first machine has made it."""
    from vademecum.memory.sync import WrongKey, hub_key, membership, new_key, read_key

    known = given or (membership.key_of(home, joined) or b"").decode()
    if not known and not hub_key.has_key(home, joined):
        made = new_key()
        with contextlib.suppress(WrongKey):  # if another machine is first in this very moment
            hub_key.keep_hub_key(home, joined, made)
            return made
    typed = known or click.prompt("Key of this workspace", err=True)
    hub_key.keep_hub_key(home, joined, read_key(typed))
    return ""


@hub.command()
@common
def status(as_json: bool, open_memory: OpenMemory) -> None:
    """Show which hubs were joined, and whether they answer."""
    _show_status(open_memory().home, as_json=as_json)


def _show_status(home: Any, *, as_json: bool) -> None:
    from vademecum.memory.sync import membership

    states = [_read_status(home, each) for each in membership.list_memberships(home)]
    if as_json:
        output.as_json(to_json.hub_status_json, workspaces=states)
        return
    for state in states:
        output.line(
            f"{state['name']} ({state['kind']}) at {state['url']}, as {state['member']} ({state['role']})"
        )
        held = f"{state['facts']} facts, {output.plural(state['passages'], 'passage')} to search"
        output.line(f"  {state['problem'] or held}")
        if state["search"]:
            output.line(f"  {state['search']}")
        format_sync_status(state)
    if not states:
        output.line("no hub joined; `vade hub join URL` joins one")


def _read_status(home: Any, joined: Any) -> dict[str, Any]:
    """Return the hub's state of a workspace, or the reason why the hub does not answer."""
    from datetime import UTC, datetime

    from vademecum.errors import VadeError
    from vademecum.memory import sync as syncing
    from vademecum.memory.sync import membership

    standing = syncing.read_standing(home, joined)
    client, problem, found = membership.client_of(home, joined), "", []
    purged: dict[str, tuple[int, int]] = {}
    searched: dict[str, Any] = {}
    problems = syncing.read_problems(home, joined.workspace)
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
        problems = [each for each in problems if each != problem] + [problem]
    finally:
        client.close()
    names = ("name", "workspace", "kind", "url", "member", "role")
    status = {name: getattr(joined, name) for name in names}
    status |= {
        "passages": searched.get("passages", 0),
        "search": _SLOW if searched.get("slow") else None,
    }
    status |= {"unsent": standing.unsent, "synced": standing.synced, "purges": syncing.tell_purged(purged)}
    status |= {"refused": list(standing.refused), "problems": problems}
    status |= read_background(home, joined.workspace)
    return {**status, "streams": len(found), "facts": sum(each["head"] for each in found), "problem": problem}


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
def invite(name: str | None, role: str, workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Make a join code for a machine, or for a new member."""
    asked = {"name": name, "role": role} if name else {}
    joined, made = ask_hub(open_memory, workspace, "POST", "/v1/invites", asked, doing="invite to a hub")
    if as_json:
        output.as_json(
            to_json.hub_invited_json, workspace=joined.workspace, name=name or joined.member, **made
        )
        return
    print_code(made, joined.url)


@hub.command("open")
@workspace_option
@common
def open_page(workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Open the hub's page in your browser.

    It shows who did what in the workspace, its documents, conflicts and members. The link works once, within
    ten minutes; revoking this machine's token ends the session that it opened.
    """
    from vademecum.interfaces.cli.web import open_browser

    joined, made = ask_hub(open_memory, workspace, "POST", "/v1/page", {}, doing="open a hub's page")
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
def members(workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """List the members of a workspace."""
    _, answer = ask_hub(open_memory, workspace, "GET", "/v1/members")
    if as_json:
        output.as_json(to_json.hub_members_json, members=answer["members"])
        return
    for each in answer["members"]:
        output.line(f"{each['name']:<20} {each['role']:<8} since {each['since'][:10]}")


@hub.command()
@click.argument("name")
@click.option("--only", is_flag=True, help="Leave tokens alone that were made with it.")
@click.option("--yes", is_flag=True, help="Do not ask about tokens that were made with this token.")
@workspace_option
@common
def revoke(
    *, name: str, only: bool, yes: bool, workspace: str, as_json: bool, open_memory: OpenMemory
) -> None:
    """Remove a member, or revoke a token by its id.

    Takes effect at once. The tokens and join codes that were made with the token, or with one of these, end
    too, because a thief may hold them. This machine's own token stays valid. Texts that were written with
    the token stay on the hub, and files stay on the members' machines.
    """
    from vademecum.memory.sync import HubRefused

    is_token = len(name) == 36 and name.count("-") == 4
    if only and not is_token:
        raise UsageError("--only goes with a token's id, not with a member")
    if is_token and not (only or yes or as_json):
        _confirm_revoke(open_memory, workspace, name)
    method, path = ("DELETE", f"/v1/tokens/{name}") if is_token else ("POST", f"/v1/members/{name}")
    asked = {"only": only} if is_token else {"role": None}
    doing = "revoke a token" if is_token else "remove a member"
    try:
        _, done = ask_hub(open_memory, workspace, method, path, asked, doing=doing)
    except HubRefused as error:
        if error.status != 404:
            raise
        raise NotFound(
            f"{workspace or 'this workspace'} has no member and no token {name}",
            hint="`vade hub members` and `vade hub token list` list them",
        ) from error
    _show_revoked(name, done.get("also", []), done.get("codes", 0), as_json=as_json)


def _show_revoked(name: str, also: list[dict[str, str]], codes: int, *, as_json: bool) -> None:
    """Print the tokens that ended with a revoked one."""
    if as_json:
        output.as_json(to_json.hub_revoked_json, revoked=name, also=also, codes=codes)
        return
    more = [f"{output.plural(len(also), 'token')} made with it"] if also else []
    more += [output.plural(codes, "code")] if codes else []
    output.line(" and ".join([f"revoked {name}", *more]))
    for each in also:
        output.line(f"  {each['id']}  {each['member']:<12} {each['label']}".rstrip())


def _confirm_revoke(open_memory: OpenMemory, workspace: str, number: str) -> None:
    """Ask the person at the terminal before other machines and members lose their tokens."""
    _, answer = ask_hub(open_memory, workspace, "GET", "/v1/tokens", doing="revoke a token")
    tokens = {each["id"]: each for each in answer["tokens"]}
    made = [tokens[each] for each in tokens.get(number, {}).get("made", ())]
    if not made or sys.stdin is None or not sys.stdin.isatty():
        return
    named = "; ".join(f"{each['label'] or each['id']}, {each['member']}" for each in made)
    question = f"This also ends {output.plural(len(made), 'token')} made with it ({named}). Revoke them all?"
    ask(question)


def _machine_name() -> str:
    """Return the name of this machine in the list of tokens."""
    import platform

    return platform.node()[:80]


def print_code(made: dict[str, Any], url: str = "URL") -> None:
    """Print a code for joining a workspace."""
    days, minutes = divmod(made["minutes"], 1440)
    lasts = f"{days} days" if days else f"{minutes} minutes"
    with output.show_secrets():
        output.line(f"join with `vade hub join {url}` and the code {made['code']} (works once, for {lasts})")
