"""Commands that start another interface; the only place where the command line knows the others."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.options import actor, common, has_terminal
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.chat.state import Callers, Chat, Flags
    from vademecum.interfaces.chat.terminal import Screen
    from vademecum.interfaces.cli.options import Door
    from vademecum.memory import Memory


@click.command()
@click.option(
    "--model", metavar="PROVIDER:NAME", help="The model.  [default: VADE_MODEL, config, or a local one]"
)
@click.option("--window", type=click.IntRange(256), metavar="N", help="The model's window, in tokens.")
@click.option("--print", "printing", is_flag=True, help="Answer what standard input asks, and nothing else.")
@click.option("--no-inject", is_flag=True, help="Tell the model nothing of memory before it begins.")
@click.option("--no-ltm", is_flag=True, help="Tell it nothing of what was learned.")
@click.option("--readonly", is_flag=True, help="Read memory, and write nothing.")
@click.option("--allow", multiple=True, metavar="TOOL", help="Do not ask before this tool; may be repeated.")
@click.option("--verbose", is_flag=True, help="Say what happens to the window.")
@common
def chat(
    *,
    model: str | None,
    window: int | None,
    printing: bool,
    no_inject: bool,
    no_ltm: bool,
    readonly: bool,
    allow: tuple[str, ...],
    verbose: bool,
    as_json: bool,
    door: Callable[[], Memory],
) -> int:
    """Talk to a model that remembers; `--session last` goes on with the last conversation.

    /help shows what can be typed. Ctrl-C stops an answer, Ctrl-D ends the session.
    """
    from vademecum.interfaces.chat.state import Flags

    if as_json:
        raise click.UsageError(
            "a conversation has no JSON; `vade sessions show --json` prints one that is over"
        )
    _check(allow)
    flags = Flags(not no_inject, not no_ltm, verbose, window, allow)
    return _print(model, flags, readonly) if printing else _talk(model, flags, readonly)


def _talk(model: str | None, flags: Flags, readonly: bool) -> int:
    from vademecum.interfaces.chat import commands, conversation, terminal
    from vademecum.interfaces.chat.terminal import Plain, Terminal

    if sys.stdin is not None and sys.stdin.isatty():
        # Whatever started us may have switched Ctrl-C off, as shells do for what runs in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    holder: list[Chat] = []

    def offer(text: str) -> tuple[list[str], int]:
        return commands.complete(holder[0], text) if holder else ([], 0)

    options = _options()
    doors = _doors(options, readonly)
    quiet = readonly or doors.person.settings.incognito
    prompt = terminal.prompt(offer, None if quiet else doors.person.home.path / terminal.HISTORY)
    piped = isinstance(prompt, terminal.Piped)
    plain = piped or not sys.stdout.isatty() or "NO_COLOR" in os.environ
    screen: Screen = Plain(None if piped else prompt.ask) if plain else Terminal(prompt.ask)
    begun = _begun(doors, screen, model, flags, options["session"], fresh=False)
    holder.append(begun)
    try:
        return conversation.converse(begun, prompt)
    finally:
        begun.close()


def _print(model: str | None, flags: Flags, readonly: bool) -> int:
    from vademecum.interfaces.chat import conversation
    from vademecum.interfaces.chat.terminal import Plain
    from vademecum.transcripts.messages import is_command

    question = "" if sys.stdin is None else sys.stdin.read().strip()
    if not question:
        raise click.UsageError("nothing was asked: give a question on standard input")
    options = _options()
    screen = Plain(only_answers=True)
    doors, session = _doors(options, readonly), options["session"]
    begun = _begun(doors, screen, model, flags, session, fresh=True, needed=not is_command(question))
    try:
        answer = conversation.take_line if session else conversation.answer_once
        return answer(begun, question)
    finally:
        begun.close()


def _begun(
    doors: Callers,
    screen: Screen,
    model: str | None,
    flags: Flags,
    session: str | None,
    *,
    fresh: bool,
    needed: bool = False,
) -> Chat:
    from vademecum.errors import ModelFailed
    from vademecum.interfaces.chat.state import NO_MODEL, Chat, find_model

    chosen = find_model(doors.person.settings, model)
    if chosen is None and needed:
        why, _, hint = NO_MODEL.partition(": ")
        raise ModelFailed(why, hint=hint)
    return Chat(doors, screen, model=chosen, flags=flags, session=session, fresh=fresh)


def _doors(options: dict[str, Any], readonly: bool) -> Callers:
    from vademecum.interfaces.chat import state

    given = {name: options[name] for name in ("home", "agent", "audience", "incognito")}
    return state.open_callers(**given, readonly=readonly, actor=actor(), terminal=has_terminal())


def _options() -> dict[str, Any]:
    """The options that every command takes, from wherever on the line they stand."""
    names = ("home", "agent", "session", "audience", "incognito")
    found: dict[str, Any] = dict.fromkeys(names)
    context: click.Context | None = click.get_current_context()
    while context is not None:
        outer = {name: context.params.get(name) for name in names}
        found = {name: outer[name] if value is None else value for name, value in found.items()}
        context = context.parent
    found["session"] = found["session"] or os.environ.get("VADE_SESSION") or None
    return found


def _check(allow: tuple[str, ...]) -> None:
    if not allow:
        return
    from vademecum.interfaces.chat import tools

    for each in allow:
        if each not in tools.names():
            raise click.UsageError(f"there is no tool {each}: the tools are {', '.join(tools.names())}")


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
            output.as_json(to_json.serving_json, url=address, token_file=token)
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


@click.command()
@click.argument("tool", metavar="AGENT")
@click.argument("event")
@common
def hook(tool: str, event: str, *, as_json: bool, door: Door) -> None:
    """Answer a hook of an agent: what it says on standard input, what the model is told on standard output.

    Agents call this, once `vade install` has told them to. It is always done within `limits.hook` and never
    fails; what went wrong is in `hooks.log`, and `vade status` shows the last of it.
    """
    from vademecum.interfaces.hooks.deadline import answer

    context = click.get_current_context()
    answer(tool, event, home=context.params.get("home") or context.find_root().params.get("home"))
