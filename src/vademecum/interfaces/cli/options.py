"""Options that every command takes, and how a command reaches memory through them."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.present import output
from vademecum.types import Audience, Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from vademecum.memory import Memory
    from vademecum.memory.values import RunOutcome

    Door = Callable[[], Memory]

SCOPES = click.Choice([str(scope) for scope in Scope])
JOURNALS = click.Choice([str(scope) for scope in Scope if scope.rule.journal])
TYPES = click.Choice([str(kind) for kind in RecordType])
NOTHING = "nothing was changed"  # by work that a person stopped

# Of commands that save something.
SLUG = click.option("--slug", is_flag=True, help="Convert --key to a valid key.")
TAGS = click.option("--tag", "tags", multiple=True, help="A tag; repeatable.")
CONFIDENCE = click.option("--confidence", type=click.FloatRange(0, 1), help="The confidence, from 0 to 1.")
MODE = click.option(
    "--mode",
    type=click.Choice(["append", "replace"]),
    default="append",
    show_default=True,
    help="Add an entry, or add one that supersedes the last.",
)


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options every command takes; the command gets them as one `door` and an `as_json` flag."""
    return common_but()(command)


def common_but(*own: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same without some options that mean something else to this command."""

    def wrap(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_door(*args: Any, as_json: bool, **given: Any) -> Any:
            options = {name: _inherited(name, given.pop(name)) for name in _OPTIONS if name not in own}
            output.choose_shape(lambda: _wants_old_shape(options["home"]))

            opened: list[Memory] = []

            def door() -> Memory:
                opened.append(open_memory(**options))
                tell_notices(opened[-1])
                return opened[-1]

            done = command(*args, door=door, as_json=bool(_inherited("as_json", as_json or None)), **given)
            for said in (said for memory in opened for said in memory.workspace.untold()):
                click.echo(f"vade: {said}", err=True)
            return done

        made: Callable[..., Any] = with_door
        for name, option in reversed(_OPTIONS.items()):
            made = made if name in own else option(made)
        return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(made)

    return wrap


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


def _wants_old_shape(home: str | None) -> bool:
    """Whether the settings ask for the JSON of the version before; a file that cannot be read does not."""
    from vademecum import config
    from vademecum.errors import ConfigError

    with contextlib.suppress(ConfigError):
        return config.load(home=config.home_from(os.environ, home)).settings.output.json_shape == "old"
    return False


def _inherited(name: str, value: Any) -> Any:
    """An option given to a group holds for its commands too: `vade --home DIR audit verify`."""
    context = click.get_current_context(silent=True)
    while value is None and context is not None:
        value = context.params.get(name) or None
        context = context.parent
    return value


def open_memory(**options: Any) -> Memory:
    """Open memory for whoever is at the keyboard: a person, unless an agent runs this command."""
    from vademecum.memory.opening import actor, connect, has_terminal

    memory = connect(**options, origin=Origin.USER, actor=actor(), terminal=has_terminal())
    context = click.get_current_context(silent=True)
    if context is not None:  # an index that is left open leaves its log beside it
        context.call_on_close(memory.close)
    output.choose_shape(lambda: memory.settings.output.json_shape == "old")
    for problem in memory.workspace.loaded.problems:
        click.echo(f"vade: warning: {problem}; the default is used", err=True)
    return memory


def tell_notices(memory: Memory) -> None:
    """Say what memory moved by itself; once a person's terminal has shown it, it is not said again."""
    from vademecum.errors import VadeError

    try:
        found = memory.care.notices()
    except (VadeError, OSError):
        return  # what is wrong with the home is told by the command itself
    for each in found:
        here = memory.caller.project.root if memory.caller.project else ""
        where = f" in {each.where}" if each.where and each.where != str(here) else ""
        click.echo(f"vade: {each.at[:10]}{where}: {each.message}", err=True)
    if found and sys.stderr.isatty():
        memory.care.saw_notices()


def scope_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--scope`, with its own sentence."""
    return click.option("--scope", type=SCOPES, help=help_text)


class AgentName(click.Choice[str]):
    """The name of an agent that has a part; the agents are loaded when somebody asks for one, or for help."""

    def __init__(self, part: str) -> None:
        self.part, self.case_sensitive = part, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click keeps them as an attribute
        """Their names."""
        from vademecum.agents.registry import having

        return tuple(having(self.part))


class NamesAgents(click.Command):
    """A command in whose help `{part}` stands for the names of all agents that have that part."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The text, with the names in it."""
        self.help = re.sub(r"\{(\w+)\}", self._names, self.help or "")
        super().format_help_text(ctx, formatter)

    def _names(self, part: re.Match[str]) -> str:
        *names, last = AgentName(part[1]).choices
        return f"{', '.join(names)} or {last}"


def words_argument(name: str = "query", *, required: bool) -> Callable[..., Any]:
    """Words that need no quotes around them: all that are given, as one text."""
    return click.argument(
        name,
        nargs=-1,
        required=required,
        metavar=f"{name.upper()}..." if required else f"[{name.upper()}]...",
        callback=lambda _context, _parameter, words: " ".join(words),
    )


def key_argument(name: str = "key", *, metavar: str = "KEY|NUM") -> Callable[..., Any]:
    """A record by key or number, completed from what is stored."""
    return click.argument(name, metavar=metavar, shell_complete=complete_keys)


def complete_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Keys that begin with what was typed; nothing when memory cannot be read."""
    from vademecum.errors import VadeError

    try:
        records = open_memory(home=ctx.params.get("home")).list(scope=ctx.params.get("scope")).records
    except VadeError:
        return []
    return sorted({record.key for record in records if record.key.startswith(incomplete)})


def confirmed(question: str, *, yes: bool) -> None:
    """Ask before something is taken away; without a terminal, `--yes` must be given."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(f"{question} Not a terminal: pass --yes to confirm.")
    if not click.confirm(question):
        raise click.Abort


def read_key(offered: Collection[str]) -> str:
    """The key that a person presses, of those that are offered; who leaves has pressed q."""
    while True:
        try:
            key = click.getchar().lower()
        except (EOFError, KeyboardInterrupt):
            key = "q"
        key = {"\x03": "q", "\x04": "q", "\x1b": "q", "": "q"}.get(key, key)
        if key in offered:
            return key


def stopped(apply: bool) -> str:
    """What became of a run that a person stopped."""
    kept = "what was changed stays, and `vade undo` reverts it; run it again for the rest"
    return kept if apply else NOTHING


def settle(run: Callable[..., RunOutcome], *, apply: bool, yes: bool) -> RunOutcome:
    """What a run would do, or, once a person agrees to what is large or final, what it did."""
    with output.progress(NOTHING):
        outcome = run()
    if not apply or not (outcome.proposals or outcome.deleted):
        return outcome
    if outcome.large:
        confirmed(f"{outcome.large}. Go on?", yes=yes)
    if outcome.deleted:
        files = output.plural(len(outcome.deleted), "old file")
        confirmed(f"Permanently delete {files} of the archive and audit?", yes=yes)
    with output.progress(stopped(True)):
        return run(apply=True, large=True)
