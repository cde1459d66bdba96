"""Commands for the page and the API: the server, and tokens for programs that use it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.tokens import AccessToken

_SCOPES = ("read", "write", "review")


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 picks a free one.  [default: 8378]")
@click.option("--open", "opening", is_flag=True, help="Open the page in your browser.")
@common
def serve(*, port: int | None, opening: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Serve memory as a page and an API.

    The page, /api/v1 and /mcp answer on one port. You get in by a link that works once; it is shown on a
    terminal only, or opened by --open. What you save on the page has the origin `user`; what a token of
    `vade token add` saves, `agent`. Runs until it is stopped.
    """
    serve_memory(open_memory(), port, opening=opening, as_json=as_json)


def open_page(memory: Memory, path: str, *, as_json: bool) -> None:
    """Open a page in the browser: on the running server, or on a new one."""
    from vademecum.interfaces.http.serve import PORT, find_server

    port_in_use, running = find_server(PORT, memory.home)
    if not running:
        serve_memory(memory, 0 if port_in_use else PORT, opening=True, as_json=as_json, to=path)
        return
    address = f"{running}{path}"  # a browser without access gets a page that explains how to log in
    if as_json:
        output.as_json(to_json.serving_page_json, url=address, page=True)
    else:
        output.line(f"opened {address}")
    open_browser(address)


def serve_memory(memory: Memory, port: int | None, *, opening: bool, as_json: bool, to: str = "") -> None:
    """Serve until stopped; the printed link leads to the page `to`."""
    from urllib.parse import quote

    from vademecum.interfaces.cli.agents import start_options
    from vademecum.interfaces.http import serve as serving

    def ready(address: str, link: Callable[[], str]) -> None:
        person = memory.caller.origin == "user"
        if as_json:
            output.as_json(to_json.serving_page_json, url=address, page=person)
            sys.stdout.flush()
        else:
            output.error(f"listening on {address}")
        if not person:
            output.error(f"no page for people: {memory.caller.undecided}")
            return
        if sys.stderr.isatty() and memory.caller.decides:
            click.echo(f"vade: open {link()} (works once)", err=True)
        if opening:
            open_browser(link() + (f"&to={quote(to)}" if to else ""))

    serving.run(
        start_options(memory),
        home=memory.home,
        project=memory.workspace.root,
        port=serving.PORT if port is None else port,
        ready=ready,
    )


def open_browser(link: str) -> bool:
    """Open a link in the browser; without a terminal in the system's default browser."""
    import webbrowser

    if not (sys.stdin and sys.stdin.isatty()):
        os.environ.pop("BROWSER", None)  # its program would get the link
    done = webbrowser.open(link)
    if not done:
        output.error("no browser could be opened here")
    return done


@click.group(invoke_without_command=True)
@common
@click.pass_context
def token(ctx: click.Context, *, as_json: bool, open_memory: OpenMemory) -> None:
    """Make and revoke tokens for the API.

    Programs show one to `vade serve`. What they save has the origin `agent`, never `user`.
    """
    if ctx.invoked_subcommand is None:
        _show_tokens(open_memory, as_json=as_json)


@token.command("add")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(_SCOPES),
    multiple=True,
    default=("read",),
    show_default=True,
    help="What it may do; may be given twice.",
)
@click.option("--expires", metavar="TIME", default="90d", show_default=True, help="How long: 12h, 90d, 6w.")
@common
def add(name: str, *, scopes: tuple[str, ...], expires: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Make a token for a program, and show it once.

    `read` looks at memory, `write` also saves as an agent does, `review` also decides about what is pending,
    in your name.
    """
    from vademecum.memory import tokens

    memory = open_memory()
    made, shown = tokens.add(memory, name, scopes=scopes, expires=expires)
    if as_json:
        click.echo(_token_json(made, shown))
    else:
        output.error(f"{name} may {', '.join(made.scopes)} until {made.expires}; it is shown this once:")
        click.echo(shown)


@token.command("list")
@common
def listed(*, as_json: bool, open_memory: OpenMemory) -> None:
    """List the tokens, without their secret text."""
    _show_tokens(open_memory, as_json=as_json)


@token.command("revoke")
@click.argument("name")
@common
def revoke(name: str, *, as_json: bool, open_memory: OpenMemory) -> None:
    """Revoke a token; whoever shows it is refused from now on."""
    from vademecum.memory import tokens

    gone = tokens.revoke(open_memory(), name)
    output.show(as_json, f"{name} opens nothing any more", to_json.token_json, gone, expired=_state_of(gone))


def _show_tokens(open_memory: OpenMemory, *, as_json: bool) -> None:
    from vademecum.memory import tokens

    found = tokens.every(open_memory().home)
    if as_json:
        output.as_json(
            to_json.tokens_json, tokens=[to_json.token_json(each, expired=_state_of(each)) for each in found]
        )
        return
    rows = [
        [each.name, ", ".join(each.scopes), "expired" if _state_of(each) else each.expires[:10], each.by]
        for each in found
    ]
    output.table(rows, ["name", "scopes", "until", "by"]) if rows else output.line("no tokens yet")


def _state_of(token: AccessToken) -> bool:
    from vademecum.text import clock

    return token.is_over(clock.now())


def _token_json(made: AccessToken, shown: str) -> str:
    """Return the JSON of a new token, the only answer that contains its secret."""
    import json

    from vademecum.interfaces.present.shape import VERSION

    whole = to_json.token_added_json(made, expired=False, token=shown)
    return json.dumps({"schemaVersion": VERSION, **whole}, indent=2)
