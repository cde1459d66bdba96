"""The options that every command takes, and how they open memory."""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.present import output
from vademecum.lazy import LazyModule
from vademecum.types import Audience, Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from vademecum import fields
    from vademecum.memory import Memory
    from vademecum.memory.values import RunOutcome

    OpenMemory = Callable[[], Memory]
else:
    fields = LazyModule("vademecum.fields")  # only commands that save need it

SCOPES = click.Choice([str(scope) for scope in Scope])
JOURNALS = click.Choice([str(scope) for scope in Scope if scope.rule.journal])
TYPES = click.Choice([str(kind) for kind in RecordType])
NOTHING = "nothing was changed"  # by work that a person stop_message

# Options of commands that save a record.
SLUG = click.option("--slug", is_flag=True, help="Convert --key to a valid key.")
TAGS = click.option("--tag", "tags", multiple=True, help="A tag; repeatable.")
MODE = click.option(
    "--mode",
    type=click.Choice(["append", "replace"]),
    default="append",
    show_default=True,
    help="Add an entry, or add one that supersedes the last.",
)


def field_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each number of a record that can be set; the command gets all as `fields`."""

    @functools.wraps(command)
    def with_fields(*args: Any, **given: Any) -> Any:
        values = {row.name: given.pop(row.name) for row in fields.OPTIONS}
        given["fields"] = {name: value for name, value in values.items() if value is not None}
        return command(*args, **given)

    made: Callable[..., Any] = with_fields
    for row in reversed(fields.OPTIONS):
        kind = (click.IntRange if row.kind.whole else click.FloatRange)(row.kind.least, row.kind.most)
        made = click.option(f"--{row.name.replace('_', '-')}", row.name, type=kind, help=row.option)(made)
    return made


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command takes; the command gets `open_for_caller` and `as_json`."""
    return common_but()(command)


def common_but(*own: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the same options without some that mean something else to the command."""

    def wrap(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_memory(*args: Any, as_json: bool, **given: Any) -> Any:
            options = {name: _inherit(name, given.pop(name)) for name in _OPTIONS if name not in own}
            opened: list[Memory] = []

            def open_memory() -> Memory:
                opened.append(open_for_caller(**options))
                print_notices(opened[-1])
                return opened[-1]

            done = command(
                *args, open_memory=open_memory, as_json=bool(_inherit("as_json", as_json or None)), **given
            )
            for message in (message for memory in opened for message in memory.workspace.untold()):
                click.echo(f"vade: {message}", err=True)
            return done

        made: Callable[..., Any] = with_memory
        for name, option in reversed(_OPTIONS.items()):
            made = made if name in own else option(made)
        return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(made)

    return wrap


def one_view(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command open each folder of memory once; not for commands that wait for a person."""

    @functools.wraps(command)
    def with_view(*args: Any, **given: Any) -> Any:
        from vademecum.store import request_view

        with request_view():
            return command(*args, **given)

    return with_view


_OPTIONS = {
    "home": click.option(
        "--home", metavar="DIR", help="The memory folder.  [default: ~/.vade, or VADE_HOME]"
    ),
    "agent": click.option("--agent", metavar="NAME", help="The agent whose memory to use.  [default: main]"),
    "session": click.option("--session", metavar="ID", help="The session to use."),
    "audience": click.option(
        "--audience",
        type=click.Choice([str(each) for each in Audience]),
        help="Who sees the output: only you, or a group.",
    ),
    "incognito": click.option("--incognito", is_flag=True, default=None, help="Do not read or write memory."),
}


def _inherit(name: str, value: Any) -> Any:
    """Return an option's value, else its value at a group above, as in `vade --home DIR audit verify`."""
    context = click.get_current_context(silent=True)
    while value is None and context is not None:
        value = context.params.get(name) or None
        context = context.parent
    return value


def open_for_caller(**options: Any) -> Memory:
    """Open memory for whoever is at the keyboard: a person, unless an agent runs this command."""
    from vademecum.memory.opening import actor, connect, has_terminal

    memory = connect(**options, origin=Origin.USER, actor=actor(), terminal=has_terminal())
    context = click.get_current_context(silent=True)
    if context is not None:  # an index that is not closed leaves its log file on disk
        context.call_on_close(lambda: _close(memory))
    for problem in memory.workspace.loaded.problems:
        click.echo(f"vade: warning: {problem}; the default is used", err=True)
    return memory


def _close(memory: Memory) -> None:
    memory.close()
    if memory.workspace.has_unread:  # without an import for other commands
        memory.reading.hand_over()


def print_notices(memory: Memory) -> None:
    """Print what memory archived by itself; a notice is shown once at a terminal."""
    from vademecum.errors import VadeError

    try:
        found = memory.workspace.notices()  # without the import of `care`
    except (VadeError, OSError):
        return  # the command itself reports an unreadable home
    for each in found:
        here = memory.caller.project.root if memory.caller.project else ""
        where = f" in {each.where}" if each.where and each.where != str(here) else ""
        click.echo(f"vade: {each.at[:10]}{where}: {each.message}", err=True)
    if found and sys.stderr.isatty():
        memory.care.saw_notices()


def scope_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--scope` with its own help text."""
    return click.option("--scope", type=SCOPES, help=help_text)


class AgentName(click.Choice[str]):
    """An agent's name; the agents are imported when a name is checked or help is shown."""

    def __init__(self, part: str) -> None:
        self.part, self.case_sensitive = part, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click keeps them as an attribute
        """Return the names of the agents."""
        from vademecum.agents.registry import having

        return tuple(having(self.part))


class AgentHelpCommand(click.Command):
    """A command whose help replaces `{part}` by the names of all agents that have that part."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help with the names of the agents."""
        self.help = re.sub(r"\{(\w+)\}", self._names, self.help or "")
        super().format_help_text(ctx, formatter)

    def _names(self, part: re.Match[str]) -> str:
        *names, last = AgentName(part[1]).choices
        return f"{', '.join(names)} or {last}"


def words_argument(name: str = "query", *, required: bool) -> Callable[..., Any]:
    """Return an argument of several words, without quotes, that are joined into one text."""
    return click.argument(
        name,
        nargs=-1,
        required=required,
        metavar=f"{name.upper()}..." if required else f"[{name.upper()}]...",
        callback=lambda _context, _parameter, words: " ".join(words),
    )


def key_argument(name: str = "key", *, metavar: str = "KEY|NUM") -> Callable[..., Any]:
    """Return an argument for a record's key or number, with completion."""
    return click.argument(name, metavar=metavar, shell_complete=complete_keys)


def complete_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys that begin with the typed text; empty when memory cannot be read."""
    from vademecum.errors import VadeError

    try:
        records = open_for_caller(home=ctx.params.get("home")).list(scope=ctx.params.get("scope")).records
    except VadeError:
        return []
    return sorted({record.key for record in records if record.key.startswith(incomplete)})


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is removed; without a terminal, `--yes` is required."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(f"{question} Not a terminal: pass --yes to confirm.")
    ask(question)


def ask(question: str, *, default: bool = False) -> None:
    """Ask a question at the terminal; the answer "no" ends the command, which has then changed nothing."""
    if not click.confirm(question, default=default):
        output.error(NOTHING)
        raise click.exceptions.Exit(0)


def read_key(offered: Collection[str]) -> str:
    """Return the pressed key among those offered; leaving counts as q."""
    while True:
        try:
            key = click.getchar().lower()
        except (EOFError, KeyboardInterrupt):
            key = "q"
        key = {"\x03": "q", "\x04": "q", "\x1b": "q", "": "q"}.get(key, key)
        if key in offered:
            return key


def stop_message(apply: bool) -> str:
    """Return what became of a run that a person stopped."""
    message = "what was changed stays, and `vade undo` reverts it; run it again for the rest"
    return message if apply else NOTHING


def run_confirmed(run: Callable[..., RunOutcome], *, apply: bool, yes: bool) -> RunOutcome:
    """Return what a run would change; with `apply`, ask about large or final changes and make them."""
    with output.progress(NOTHING):
        outcome = run()
    if not apply or not (outcome.proposals or outcome.deleted):
        return outcome
    if outcome.large:
        confirm(f"{outcome.large}. Go on?", yes=yes)
    if outcome.deleted:
        files = output.plural(len(outcome.deleted), "old file")
        confirm(f"Permanently delete {files} of the archive and audit?", yes=yes)
    with output.progress(stop_message(True)):
        return run(apply=True, large=True)
