"""Commands for the members whose texts agents see, and for the tokens that agents sync with."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from vademecum.errors import UsageError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.shape import VERSION

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory.sync import Membership

workspace_option = click.option(
    "--workspace", metavar="NAME", default="", help="Which one, where there are several."
)
inject_option = click.option(
    "--inject-from",
    "inject",
    metavar="NAME",
    multiple=True,
    help="A member whose verified texts your agents are given; repeatable.",
)


def ask_hub(
    open_memory: OpenMemory,
    workspace: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    doing: str = "",
) -> tuple[Membership, Any]:
    """Send one request to the hub of a workspace; a request that decides about others needs a person."""
    from vademecum.memory.sync import membership

    memory = open_memory()
    if doing:
        memory.workspace.may_decide(doing, "vade hub")
    joined = membership.find_membership(memory.home, workspace)
    return joined, _ask(memory.home, joined, method, path, body)


def _ask(home: Any, joined: Membership, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    from vademecum.memory.sync import membership

    client = membership.client_of(home, joined)
    try:
        given = None if body is None else json.dumps(body).encode()
        return client.ask(method, quote(path), given).json()
    finally:
        client.close()


def choose_trusted(home: Any, joined: Membership, inject: tuple[str, ...], *, asking: bool) -> Membership:
    """Ask once, when joining, whose verified texts agents here see; the default is nobody's."""
    from vademecum.memory.sync import membership

    members = _ask(home, joined, "GET", "/v1/members")["members"]
    others = [
        member["name"]
        for member in members
        if member["role"] in membership.VOUCHING and member["name"] != joined.member
    ]
    if others and not inject and asking and sys.stdin.isatty():
        chosen = _ask_trusted(others, members)
    else:
        try:
            chosen = membership.check_inject_from(inject, members)
        except UsageError as error:
            raise UsageError(f"you joined {joined.name}, and {error}", hint=error.hint) from error
    known = membership.identify_vouching(members)
    return membership.keep_rules(
        home, joined, replace(joined.rules, inject_from=chosen or joined.rules.inject_from, known=known)
    )


def _ask_trusted(others: list[str], members: Any) -> tuple[str, ...]:
    """Ask for names until each one may verify."""
    from vademecum.memory.sync import membership

    output.error(f"Editors and owners: {', '.join(others)}")
    question = "Whose verified texts may be given to your agents? (names, or Enter for nobody)"
    while True:
        typed = click.prompt(question, default="", show_default=False, err=True)
        try:
            return membership.check_inject_from(typed.replace(",", " ").split(), members)
        except UsageError as error:
            output.error(str(error))


@click.command()
@inject_option
@click.option("--nobody", is_flag=True, help="Give agents nobody's verified texts.")
@click.option("--write", type=click.Choice(["private", "team"]), help="Where new records of a project go.")
@click.option("--care/--no-care", default=None, help="Whether this machine archives old records of yours.")
@workspace_option
@common
def rules(
    *,
    inject: tuple[str, ...],
    nobody: bool,
    workspace: str,
    as_json: bool,
    open_memory: OpenMemory,
    **given: Any,
) -> None:
    """Show or change what you trust in a workspace.

    Texts of other members are found by searches. Agents are given them only if you verified them, or if a
    member named here did. These rules are this machine's own: the hub does not know them.
    """
    from vademecum.memory.sync import membership

    if inject and nobody:
        raise UsageError("--inject-from and --nobody exclude each other")
    memory = open_memory()
    joined = membership.find_membership(memory.home, workspace)
    changes = {name: value for name, value in given.items() if value is not None}
    if inject or nobody or changes:
        memory.workspace.may_decide("change what is trusted", "vade hub rules")
        if inject or "write" in changes:
            membership.check_team(joined)
        if "care" in changes:
            membership.check_personal(joined)
        known = joined.rules.known
        if inject:
            members = _ask(memory.home, joined, "GET", "/v1/members")["members"]
            inject, known = (
                membership.check_inject_from(inject, members),
                membership.identify_vouching(members),
            )
        chosen = inject or (() if nobody else joined.rules.inject_from)
        joined = membership.keep_rules(
            memory.home, joined, replace(joined.rules, inject_from=chosen, known=known, **changes)
        )
    _show_rules(joined, as_json=as_json)


def _show_rules(joined: Membership, *, as_json: bool) -> None:
    own = joined.rules
    if as_json:
        output.as_json(
            to_json.hub_rules_json,
            workspace=joined.workspace,
            name=joined.name,
            inject_from=list(own.inject_from),
            write=own.write,
            care=joined.may_care,
        )
        return
    output.line(f"{joined.name} ({joined.kind})")
    if joined.kind == "team":
        output.line(f"  verified texts given to your agents: {', '.join(own.inject_from) or 'nobody’s'}")
        output.line(f"  new records of a project: {own.write}")
    else:
        output.line(f"  archives old records by itself: {'yes' if joined.may_care else 'no'}")


@click.group(invoke_without_command=True)
@workspace_option
@common
@click.pass_context
def token(ctx: click.Context, workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Make and list tokens of a workspace, such as an agent's.

    Alone, it lists those that are valid.
    """
    if ctx.invoked_subcommand is None:
        _show_tokens(open_memory, workspace, as_json=as_json)


@token.command("add")
@click.option("--label", metavar="TEXT", default="", help="What it is for.")
@click.option(
    "--scopes",
    metavar="LIST",
    default="read,write",
    show_default=True,
    help="Any of read, write and person; without person it is an agent's.",
)
@workspace_option
@common
def token_add(label: str, scopes: str, workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Make a token, and show it once.

    An agent's token may add texts and change what an agent of yours wrote. It cannot change others' texts,
    verify, protect, purge or invite. Use it with `vade hub join URL --token TOKEN`.
    """
    asked = {"label": label, "scopes": [each.strip() for each in scopes.split(",") if each.strip()]}
    joined, made = ask_hub(open_memory, workspace, "POST", "/v1/tokens", asked, doing="make a token")
    if as_json:
        # Not redacted: no other answer contains the token.
        shape = to_json.hub_token_json(workspace=joined.workspace, **made)
        click.echo(json.dumps({"schemaVersion": VERSION, **shape}, indent=2))
        return
    output.error(
        f"{made['id']}: {', '.join(made['scopes'])}, for {made['days']} days; it is shown this once:"
    )
    click.echo(made["token"])


@token.command("list")
@workspace_option
@common
def token_list(workspace: str, as_json: bool, open_memory: OpenMemory) -> None:
    """List valid tokens; an owner sees everybody's."""
    _show_tokens(open_memory, workspace, as_json=as_json)


def _show_tokens(open_memory: OpenMemory, workspace: str, *, as_json: bool) -> None:
    _, answer = ask_hub(open_memory, workspace, "GET", "/v1/tokens")
    if as_json:
        output.as_json(to_json.hub_tokens_json, tokens=answer["tokens"])
        return
    for each in answer["tokens"]:
        named = f" {each['label']}" if each["label"] else ""
        scopes = ",".join(each["scopes"])
        made = f" (made with {each['made_with'][:8]})" if each.get("made_with") else ""
        until = each["expires"][:10]
        output.line(f"{each['id']}  {each['member']:<12} {scopes:<18} until {until}{named}{made}")
