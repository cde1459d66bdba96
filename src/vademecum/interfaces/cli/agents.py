"""Commands for agents: install, uninstall, inject, hook, chat and mcp.

No other module of the command line imports another interface.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli import FAMILIES
from vademecum.interfaces.cli.options import AgentHelpCommand, AgentName, ask, common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.interfaces.chat.state import Callers, Chat, Flags
    from vademecum.interfaces.chat.terminal import Screen
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.interfaces.install.check import CheckResult
    from vademecum.interfaces.install.runner import AgentPlace, AgentStatus, FileEdit, Installation
    from vademecum.memory import Memory

    Plan = tuple[Installation, list[FileEdit]]

_SCOPE = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="For all your projects, or for this one.",
)
_MARKS = {"ok": "✓", "warning": "!", "error": "✗"}
_AGENT = click.argument("tool", metavar="[AGENT]", required=False)
_DRY = click.option("--dry-run", is_flag=True, help="Show what would change; write nothing.")
_YES = click.option("--yes", is_flag=True, help="Do not ask.")
_UNWRITTEN = "dry run: `vade {0} --yes` writes the changes, `vade {0} AGENT` only those of one agent"
_NUDGED = (
    "when you type something worth saving, the agent gets a line about it;"
    " `vade config set capture.nudge false` turns this off"
)
_HEARD = (
    "what you say in sessions and may want to save waits in `vade review` until you accept it;"
    " `vade config set capture.hear false` turns this off"
)
_NO_AGENT = (
    "no agent found on this machine, so there was nothing to connect",
    'Memory works without one: try `vade add "Deploys run on Tuesdays"` and `vade search deploys`.',
    "After you install an agent, run `vade install` again. `vade install --list` names the agents it knows;"
    " any other MCP client starts the server with `vade mcp`.",
)


@click.command(cls=AgentHelpCommand)
@_AGENT
@_SCOPE
@_DRY
@click.option("--list", "listing", is_flag=True, help="List the agents on this machine and what is set up.")
@_YES
@common
def install(
    tool: str | None,
    *,
    scope: str,
    dry_run: bool,
    listing: bool,
    yes: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> int:
    """Connect your agents to memory.

    Adds the MCP server, the hooks and a short instruction on when to use them.

    AGENT is {setup}. Shows what changes in its configuration and backs up what
    was there; running it again changes nothing. Without AGENT it connects every
    agent it finds, after you confirm, and tests each one.
    """
    from vademecum.interfaces.install import runner

    memory = open_memory()
    place = runner.place_of(memory, scope)
    if listing:
        _show_all(runner.list_agents(*place), as_json=as_json)
        return 0
    if tool is None:
        return _install_all(memory, place, dry_run=dry_run, yes=yes, as_json=as_json)
    chosen = runner.Installation.of(tool, *place)
    _install_program(dry_run=dry_run)
    edits = runner.plan_install(chosen) if dry_run else runner.install(chosen, memory.home)
    _show(edits, dry_run=dry_run, done="installed", as_json=as_json, agent=tool)
    for what, why in chosen.without.items():
        output.error(f"no {what}: {why}")
    if not dry_run and any(edit.changed for edit in edits):
        for note in (chosen.setup.note, *_describe_capture(memory, [chosen])):
            if note:
                output.error(note)
    return 0


def _install_all(memory: Memory, place: AgentPlace, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Show the changes for each agent found on this machine, ask once, make them, and test each agent."""
    from vademecum.errors import VadeError
    from vademecum.interfaces.install import check, runner

    here = [each.agent for each in runner.list_agents(*place) if each.program or each.there]
    plans, trials = _plan_all(here, place, runner.plan_install)
    if not as_json:
        _show_plans(plans, trials)
    changes = any(edit.changed for _, edits in plans for edit in edits)
    dry_run = dry_run or (changes and not yes and not _is_agreed("Install?", as_json))
    if here:
        _install_program(dry_run=dry_run)
    for one, _ in () if dry_run else plans:
        try:
            runner.install(one, memory.home)
            trials += check.check_agent(one, memory.home)
        except VadeError as error:
            trials.append(check.failed_install(error, one.agent.name))
    if as_json:
        _print_plans(plans, trials, dry_run=dry_run)
    elif not here:
        for text in _NO_AGENT:
            output.line(text)
    elif dry_run:
        output.line(_UNWRITTEN.format("install") if changes else "everything is already installed")
    else:
        _show_checks(plans, trials)
        for note in _describe_capture(memory, [one for one, _ in plans]) if changes else ():
            output.line(note)
    return 1 if any(each.state == "error" for each in trials) else 0


def _describe_capture(memory: Memory, installed: Iterable[Installation]) -> Iterator[str]:
    """Yield a sentence for each way in which these agents' hooks observe sessions, and how to turn it off."""
    from vademecum.agents.base import HOOKS, HookEvent

    agents = [one.agent for one in installed if one.agent.hooks is not None and HOOKS not in one.without]
    moments = {each for agent in agents if agent.hooks is not None for each in agent.hooks.moments}
    if memory.settings.capture.nudge and HookEvent.USER_PROMPT in moments:
        yield _NUDGED
    has_transcripts = any(agent.transcripts is not None for agent in agents)
    if memory.settings.capture.hear and has_transcripts and {HookEvent.STOP, HookEvent.SESSION_END} & moments:
        yield _HEARD


def _install_program(*, dry_run: bool) -> None:
    """Install the program itself if it runs from a cache, which may be cleared before agents start it."""
    from vademecum.interfaces.install import program

    command = program.missing_tool()
    if not command:
        if not dry_run:
            program.compile_modules()
        return
    reason = "vade runs from a temporary folder now, and agents need one that stays"
    if not dry_run:
        program.install_tool(command)
    output.error(f"{reason}: {'would run' if dry_run else 'ran'} `{' '.join(command)}`")


def _plan_all(
    agents: Iterable[str], place: AgentPlace, plan: Callable[[Installation], list[FileEdit]]
) -> tuple[list[Plan], list[CheckResult]]:
    """Return the changes for each agent, and the agents whose files cannot be changed."""
    from vademecum.errors import VadeError
    from vademecum.interfaces.install import check, runner

    plans, trials = [], []
    for name in agents:
        one = runner.Installation.of(name, *place)
        try:
            plans.append((one, plan(one)))
        except VadeError as error:
            trials.append(check.failed_install(error, name))
    return plans, trials


def _is_agreed(question: str, as_json: bool) -> bool:
    """Return whether the person at this terminal agrees; without a terminal, nobody does."""
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        return False
    ask(question, default=True)
    return True


def _show_plans(plans: Sequence[Plan], trials: Sequence[CheckResult]) -> None:
    """Print the changes of all files as a diff, and below it an overview for the question that follows."""
    from vademecum.interfaces.install import runner

    for _, edits in plans:
        if difference := runner.diff(edits):
            output.line(difference)
    for one, edits in plans:
        changed = [edit for edit in edits if edit.changed]
        output.line(f"{one.agent.name}: {'' if changed else 'nothing to change'}".rstrip())
        for edit in changed:
            verb = "create" if edit.before is None else "delete" if edit.after is None else "change"
            output.line(f"  {verb} {edit.path}")
    for trial in trials:
        output.line(f"{trial.agent}: {trial.said}; left unchanged")


def _print_plans(plans: Sequence[Plan], trials: Sequence[CheckResult], *, dry_run: bool) -> None:
    found = [{"agent": one.agent.name, "files": edits} for one, edits in plans]
    output.as_json(to_json.installed_all_json, dry_run=dry_run, agents=found, checks=trials)


def _show_checks(plans: Sequence[Plan], trials: Sequence[CheckResult]) -> None:
    from vademecum.interfaces.install import check

    for trial in trials:
        output.line(f"{_MARKS[trial.state]} {trial.agent} {check.format_result(trial)}")
    for one, _ in plans:
        if one.setup.note:
            output.line(f"next, for {one.agent.name}: {one.setup.note}")


@click.command()
@_AGENT
@_SCOPE
@_DRY
@_YES
@common
def uninstall(
    tool: str | None, *, scope: str, dry_run: bool, yes: bool, as_json: bool, open_memory: OpenMemory
) -> int:
    """Disconnect agents from memory.

    Everything else in their configuration stays as it is. Without AGENT it
    disconnects every agent that memory is installed in, after you confirm.
    """
    from vademecum.interfaces.install import runner

    memory = open_memory()
    place = runner.place_of(memory, scope)
    if tool is None:
        return _uninstall_all(memory, place, dry_run=dry_run, yes=yes, as_json=as_json)
    chosen = runner.Installation.of(tool, *place)
    edits = runner.plan_uninstall(chosen, memory.home) if dry_run else runner.uninstall(chosen, memory.home)
    _show(edits, dry_run=dry_run, done="uninstalled", as_json=as_json, agent=tool)
    return 0


def _uninstall_all(memory: Memory, place: AgentPlace, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Show the changes for each agent with an installation, ask once, and make them."""
    from vademecum.errors import VadeError
    from vademecum.interfaces.install import check, runner

    plans, trials = _plan_all(runner.names(), place, lambda one: runner.plan_uninstall(one, memory.home))
    plans = [
        (one, edits)
        for one, edits in plans
        if runner.has_receipt(memory.home, one) or any(edit.changed for edit in edits)
    ]
    if not as_json:
        _show_plans(plans, trials)
    dry_run = dry_run or (bool(plans) and not yes and not _is_agreed("Uninstall?", as_json))
    for one, _ in () if dry_run else plans:
        try:
            runner.uninstall(one, memory.home)
        except VadeError as error:
            trials.append(check.failed_install(error, one.agent.name))
    if as_json:
        _print_plans(plans, trials, dry_run=dry_run)
    elif not plans:
        output.line("memory is not installed in any agent")
    elif dry_run:
        output.line(_UNWRITTEN.format("uninstall"))
    else:
        output.line(f"uninstalled from {output.plural(len(plans), 'agent')}")
    return 1 if trials else 0


def _show(edits: Sequence[FileEdit], *, dry_run: bool, done: str, as_json: bool, agent: str) -> None:
    from vademecum.interfaces.install import runner

    changed = [edit for edit in edits if edit.changed]
    if as_json:
        output.as_json(to_json.installed_json, agent=agent, dry_run=dry_run, files=edits)
        return
    if not changed:
        output.line("nothing to change")
        return
    output.line(runner.diff(changed))
    output.line(f"{'dry run, nothing written' if dry_run else done}: {output.plural(len(changed), 'file')}")


def _show_all(found: Sequence[AgentStatus], *, as_json: bool) -> None:
    """Print the agents on this machine and what is installed in each; of all others, only the names."""
    if as_json:
        output.as_json(to_json.agents_json, agents=found)
        return
    missing = []
    for each in found:
        installed = any(state for parts in each.installed.values() for state in parts.values())
        if not (each.program or each.there or installed):
            missing.append(each.agent)
            continue
        output.line(f"{each.agent}: {each.program or (each.folder if each.there else 'not found')}")
        for scope, parts in each.installed.items():
            output.line(f"  {scope}: {_describe(parts)}")
            for what, why in each.without[scope].items():
                output.line(f"    no {what}: {why}")
        for event, why in each.missing.items():
            output.line(f"    no {event}: {why}")
    if missing:
        output.line(f"not found on this machine: {', '.join(missing)}")


def _describe(parts: Mapping[str, bool | None]) -> str:
    """Return which parts of an installation an agent's files have, in words."""
    installed = sorted(what for what, state in parts.items() if state)
    missing = sorted(what for what, state in parts.items() if state is False)
    if not installed:
        return "not installed"
    return f"{', '.join(installed)} installed" + (f"; {', '.join(missing)} missing" if missing else "")


@click.command()
@click.option("--query", metavar="TEXT", default="", help="A topic; records about it come first.")
@click.option("--budget", metavar="TOKENS", type=click.IntRange(min=1), help="The token budget.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["block", "json"]),
    help="Output format: the text, or its parts with sizes.",
)
@click.option("--no-ltm", is_flag=True, help="Leave out lessons.")
@click.option(
    "--write",
    "provider",
    metavar="AGENT",
    type=AgentName("instructions"),
    help="Write it to the file this agent reads.",
)
@common
def inject(
    query: str,
    budget: int | None,
    *,
    shape: str | None,
    no_ltm: bool,
    provider: str | None,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Show or write the context agents start with.

    `--write` saves it in the file that the agent reads.

    A file in a project gets only what a group may see, since others read it too; `--audience private`
    includes everything.
    """
    memory = open_memory()
    as_json = as_json or shape == "json"
    if provider is not None:
        audience = click.get_current_context().params.get("audience") or "group"
        result = memory.injection.write_file(provider, query=query, budget=budget, audience=audience)
        if as_json:
            output.as_json(to_json.provider_file_json, result)
            return
        output.line(f"{'wrote' if result.changed else 'nothing changed in'} {result.path}")
        for warning in result.warnings:
            output.error(warning)
        return
    block = memory.injection.block(query=query, budget=budget, knowledge=not no_ltm, recent=True)
    if as_json:
        output.as_json(to_json.block_json, block)
        return
    click.echo(block.text, nl=False)
    for warning in block.warnings:
        output.error(warning)
    if block.pending:
        waiting = f"{output.plural(block.pending, 'text')} {'is' if block.pending == 1 else 'are'}"
        output.error(f"{waiting} hidden until verified: `vade review`")


# ---------------------------------------------------------------- the chat


@click.command()
@click.option(
    "--model", metavar="PROVIDER:NAME", help="The model.  [default: VADE_MODEL, config, or a local one]"
)
@click.option(
    "--window", type=click.IntRange(256), metavar="N", help="The model's context window, in tokens."
)
@click.option("--print", "printing", is_flag=True, help="Answer one question from standard input, and exit.")
@click.option("--no-inject", is_flag=True, help="Do not add memory to the model's context.")
@click.option("--no-ltm", is_flag=True, help="Leave out lessons.")
@click.option("--readonly", is_flag=True, help="Read memory, but write nothing.")
@click.option("--allow", multiple=True, metavar="TOOL", help="Allow this tool without asking; repeatable.")
@click.option("--verbose", is_flag=True, help="Report flushes, trims and compactions.")
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
    open_memory: Callable[[], Memory],
) -> int:
    """Chat with a model that has this memory.

    `--session last` continues the last session.

    /help lists the commands. Ctrl-C stops an answer, Ctrl-D ends the session.
    """
    from vademecum.interfaces.chat.state import Flags

    if as_json:
        raise click.UsageError(
            "chat has no JSON output; `vade sessions show --json` prints a finished session"
        )
    _check_mcp(allow)
    flags = Flags(not no_inject, not no_ltm, verbose, window, allow)
    return _print_answer(model, flags, readonly) if printing else _chat_at_terminal(model, flags, readonly)


def _chat_at_terminal(model: str | None, flags: Flags, readonly: bool) -> int:
    from vademecum.interfaces.chat import commands, conversation, terminal
    from vademecum.interfaces.chat.terminal import PlainScreen, TerminalScreen

    if sys.stdin is not None and sys.stdin.isatty():
        # The parent process may have switched Ctrl-C off, as shells do for background processes.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    holder: list[Chat] = []

    def offer(text: str) -> tuple[list[str], int]:
        return commands.complete_line(holder[0], text) if holder else ([], 0)

    options = _common_options()
    callers = _open_person_and_agent(options, readonly)
    quiet = readonly or callers.person.settings.incognito
    prompt = terminal.make_prompt(offer, None if quiet else callers.person.home.path / terminal.HISTORY)
    piped = isinstance(prompt, terminal.PipedPrompt)
    plain = piped or not sys.stdout.isatty() or "NO_COLOR" in os.environ
    screen: Screen = PlainScreen(None if piped else prompt.ask) if plain else TerminalScreen(prompt.ask)
    chat = _start_chat(callers, screen, model, flags, options["session"], fresh=False)
    holder.append(chat)
    try:
        return conversation.converse(chat, prompt)
    finally:
        chat.close()


def _print_answer(model: str | None, flags: Flags, readonly: bool) -> int:
    from vademecum.interfaces.chat import conversation
    from vademecum.interfaces.chat.terminal import PlainScreen
    from vademecum.text import is_command

    question = "" if sys.stdin is None else sys.stdin.read().strip()
    if not question:
        raise click.UsageError("no question: pass one on standard input")
    options = _common_options()
    screen = PlainScreen(only_answers=True)
    callers, session = _open_person_and_agent(options, readonly), options["session"]
    chat = _start_chat(callers, screen, model, flags, session, fresh=True, needed=not is_command(question))
    try:
        answer = conversation.handle_line if session else conversation.answer_once
        return answer(chat, question)
    finally:
        chat.close()


def _start_chat(
    callers: Callers,
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

    chosen = find_model(callers.person.settings, model)
    if chosen is None and needed:
        why, _, hint = NO_MODEL.partition(": ")
        raise ModelFailed(why, hint=hint)
    return Chat(callers, screen, model=chosen, flags=flags, session=session, fresh=fresh)


def _open_person_and_agent(options: dict[str, Any], readonly: bool) -> Callers:
    from vademecum.interfaces.chat import state
    from vademecum.memory.opening import actor, has_terminal

    given = {name: options[name] for name in ("home", "agent", "audience", "incognito")}
    return state.open_callers(**given, readonly=readonly, actor=actor(), terminal=has_terminal())


def _common_options() -> dict[str, Any]:
    """Return the options that every command takes, wherever they stand on the line."""
    names = ("home", "agent", "session", "audience", "incognito")
    found: dict[str, Any] = dict.fromkeys(names)
    context: click.Context | None = click.get_current_context()
    while context is not None:
        outer = {name: context.params.get(name) for name in names}
        found = {name: outer[name] if value is None else value for name, value in found.items()}
        context = context.parent
    found["session"] = found["session"] or os.environ.get("VADE_SESSION") or None
    return found


def _check_mcp(allow: tuple[str, ...]) -> None:
    if not allow:
        return
    from vademecum.interfaces.chat import tools

    for each in allow:
        if each not in tools.names():
            raise click.UsageError(f"there is no tool {each}: the tools are {', '.join(tools.names())}")


# ---------------------------------------------------------------- what agents call

_TOOLS = click.Choice(FAMILIES)


@click.command()
@click.option("--http", is_flag=True, help="Serve HTTP on this machine instead of standard input and output.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 picks a free one.  [default: 8377]")
@click.option("--tools", type=_TOOLS, default="core", show_default=True, help="The set of tools to offer.")
@click.option("--client", metavar="NAME", default="", help="The name of the agent, saved with its records.")
@common
def mcp(
    *, http: bool, port: int | None, tools: str, client: str, as_json: bool, open_memory: OpenMemory
) -> None:
    """Serve memory over MCP.

    Runs until the client disconnects.

    Everything saved through it has the origin `agent`, never `user`.
    """
    if port is not None and not http:
        raise click.UsageError("--port requires --http")
    if not http:
        from vademecum.interfaces.mcp import stdio

        stdio.serve({**_common_options(), "client": client or None}, tools=tools)
    from vademecum.interfaces.mcp import http as over_http

    options = {**start_options(open_memory()), "client": client or None}

    def ready(address: str, token: str) -> None:
        if as_json:
            output.as_json(to_json.serving_json, url=address, token_file=token)
            sys.stdout.flush()
        else:
            output.error(f"listening on {address}; the token is in {token}")

    over_http.run(options, tools=tools, port=over_http.PORT if port is None else port, ready=ready)


def start_options(memory: Memory) -> dict[str, object]:
    """Return the options that open the same memory again, and report settings that cannot be read."""
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
def hook(tool: str, event: str, *, as_json: bool, open_memory: OpenMemory) -> None:
    """Answer an agent's hook.

    Reads the event from standard input and prints the context for the model.

    Agents call it after `vade install`. It finishes within `limits.hook_start` or
    `limits.hook_prompt` and never fails. Errors go to `hooks.log`, and `vade status` counts
    the hooks that were late.
    """
    from vademecum.interfaces.hooks.deadline import answer

    context = click.get_current_context()
    answer(tool, event, home=context.params.get("home") or context.find_root().params.get("home"))
