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
@common
def mcp(*, http: bool, port: int | None, tools: str, as_json: bool, door: Door) -> None:
    """Serve memory to an agent over the Model Context Protocol, until it leaves.

    What comes through here is the agent's word, never yours.
    """
    if port is not None and not http:
        raise click.UsageError("--port goes with --http")
    options = options_of(door())
    if not http:
        # Nothing but the protocol may reach standard output, not even what a library prints as it loads.
        with contextlib.redirect_stdout(sys.stderr):
            from vademecum.interfaces.mcp import stdio
        stdio.serve(options, tools=tools)
    from vademecum.interfaces.mcp import http as over_http

    def ready(address: str, token: str) -> None:
        if as_json:
            output.as_json({"url": address, "token_file": token})
            sys.stdout.flush()
        else:
            output.error(f"listening on {address}; the token is in {token}")

    over_http.run(options, tools=tools, port=over_http.PORT if port is None else port, ready=ready)


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
