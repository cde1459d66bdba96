"""The command that lets agents in over the Model Context Protocol."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.memory import Memory

    Door = Callable[[], Memory]

_TOOLS = click.Choice(["core", "co-cli", "clio", "all"])


@click.command()
@click.option("--http", is_flag=True, help="Serve HTTP on this machine instead of standard input and output.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port; 0 is any that is free.  [default: 8377]"
)
@click.option("--tools", type=_TOOLS, default="core", show_default=True, help="Which family of tools.")
@click.option("--fixture", is_flag=True, hidden=True, help="Serve what the protocol's test suite asks for.")
@common
def mcp(*, http: bool, port: int | None, tools: str, fixture: bool, as_json: bool, door: Door) -> None:
    """Serve memory to an agent over the Model Context Protocol, until it leaves.

    What comes through here is the agent's word, never yours.
    """
    if port is not None and not http:
        raise click.UsageError("--port goes with --http")
    options = options_of(door())
    if not http and not fixture:
        # Nothing but the protocol may reach standard output, not even what a library prints as it loads.
        with contextlib.redirect_stdout(sys.stderr):
            from vademecum.interfaces.mcp import stdio
        stdio.serve(options, tools=tools)
    from vademecum.interfaces.mcp import http as over_http

    def ready(address: str, token: str) -> None:
        if as_json:
            output.as_json({"url": address, "token_file": token or None})
            sys.stdout.flush()
        else:
            held = f"; the token is in {token}" if token else ""
            output.error(f"listening on {address}{held}")

    port = over_http.PORT if port is None else port
    if fixture:
        from vademecum.interfaces.mcp import fixture as suite

        suite.run(port=port, ready=lambda address: ready(address, ""))
    else:
        over_http.run(options, tools=tools, port=port, ready=ready)


def options_of(memory: Memory) -> dict[str, object]:
    """How to open the same memory again, for an agent: settings that cannot be read are told now."""
    caller = memory.caller
    return {
        "home": memory.home.path,
        "agent": memory.settings.agent,
        "session": caller.session,
        "audience": caller.audience,
        "incognito": memory.settings.incognito,
    }


COMMANDS = {"mcp": mcp}
