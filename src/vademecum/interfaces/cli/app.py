"""The command tree, loaded command by command, and the one place where errors become messages."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from vademecum import __version__
from vademecum.errors import PendingReview, UsageError, VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.memory import Memory

# Command → module below this one; only what is called is imported.
COMMANDS = {
    "search": "find",
    "recall": "find",
    "index": "find",
    "store": "keep",
    "note": "keep",
    "edit": "keep",
    "protect": "keep",
    "list": "look",
    "show": "look",
    "get": "look",
    "status": "look",
    "config": "look",
    "audit": "look",
    "learn": "knowledge",
    "suggest": "suggest",
    "knowledge": "knowledge",
    "verify": "knowledge",
    "review": "review",
    "sessions": "sessions",
    "context": "context",
    "forget": "drop",
    "restore": "drop",
    "clear": "drop",
    "purge": "drop",
    "sweep": "lifecycle",
    "split": "lifecycle",
    "undo": "lifecycle",
    "compact": "compact",
    "promote": "promote",
    "profile": "profile",
    "graph": "graph",
    "lint": "lint",
    "heal": "lint",
    "inject": "inject",
    "init": "setup",
    "trust": "setup",
    "project": "setup",
    "sources": "setup",
    "install": "install",
    "uninstall": "install",
    "hook": "hook",
    "mcp": "mcp",
    "chat": "chat",
    "approve": "approve",
    "doctor": "doctor",
    "completion": "setup",
    "demo": "demo",
    "import": "transfer",
    "export": "transfer",
}
SECTIONS = {
    "Keep": ("store", "note", "edit", "protect"),
    "Learn": ("suggest", "learn", "knowledge", "review", "verify", "profile"),
    "Find": ("search", "recall", "index"),
    "Look": ("list", "show", "graph", "get", "status", "audit"),
    "Sessions": ("chat", "sessions", "context"),
    "Agents": ("inject", "install", "uninstall", "hook", "mcp", "approve"),
    "Take away, bring back": ("forget", "restore", "clear", "purge"),
    "Tidy up": ("lint", "heal", "sweep", "promote", "compact", "split", "undo"),
    "From and to elsewhere": ("import", "export"),
    "Set up": ("init", "trust", "project", "sources", "config", "completion", "doctor", "demo"),
}

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the help page."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, imported now."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        loaded = import_module(f"vademecum.interfaces.cli.{module}")
        command: click.Command = loaded.COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; one that does not exist gets the nearest that does as a hint."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean `vade {near[0]}`?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under the headings a person would look for."""
        for heading, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(n, c.get_short_help_str(80)) for n, c in commands if c is not None])


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="vade", message="%(prog)s %(version)s")
@common
@click.pass_context
def cli(ctx: click.Context, as_json: bool, door: Callable[[], Memory]) -> None:
    """Long-term memory for AI agents, kept in plain Markdown.

    The options below go with every command, before its name or after it.
    """
    if ctx.invoked_subcommand is None:
        from vademecum.interfaces.cli.look import overview

        overview(door(), as_json=as_json)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; no traceback leaves this function."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    output.prepare()
    try:
        result = cli.main(args=args, prog_name="vade", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else OK
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.Abort, KeyboardInterrupt):
        output.error("stopped")
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return WRONG_USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "vade"
        said = f"{error.format_message()}{_dashes(error)} (see `{where} --help`)"
        return _fail(args, said, kind="UsageError", code=WRONG_USAGE)
    except click.ClickException as error:
        return _fail(args, error.format_message())
    except UsageError as error:
        return _fail(args, str(error), error.hint, kind=type(error).__name__, code=WRONG_USAGE)
    except PendingReview as error:
        return _waits(args, error)
    except VadeError as error:
        return _fail(args, str(error), error.hint, kind=type(error).__name__)
    except BrokenPipeError:
        return _reader_left()
    except OSError as error:  # of our own output; what memory does reports its own
        return _fail(args, f"the answer could not be written: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("VADE_DEBUG"):
            raise
        said = f"something went wrong inside vade ({type(error).__name__}: {error})"
        return _fail(args, said, "set VADE_DEBUG=1 to see where, and report it")


def _dashes(error: click.UsageError) -> str:
    """What to try when the words of a question were taken for an option."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    takes_words = any(each.nargs == -1 for each in error.ctx.command.params)
    return " Put `--` before words that begin with a dash." if takes_words else ""


def _reader_left() -> int:
    """The reader went away, as `vade list | head` does: nothing is wrong."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _waits(args: Sequence[str], error: PendingReview) -> int:
    """Tell that nothing was done yet, and what a person decides about."""
    output.error(f"{error}: {error.hint}")
    if "--json" in args:
        output.as_json({"outcome": "waiting", "approval": error.approval, "message": f"{error}"})
    return FAILED


def _fail(
    args: Sequence[str], message: str, hint: str = "", *, kind: str = "Error", code: int = FAILED
) -> int:
    """One line on stderr; with --json the same as an object on stdout."""
    line = " ".join(message.split())
    output.error(f"{line}: {hint}" if hint else line)
    if "--json" in args:
        error: dict[str, Any] = {"error": {"kind": kind, "message": line, "hint": hint}}
        output.as_json(error)
    return code
