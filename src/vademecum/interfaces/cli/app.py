"""The command tree: each command is imported when it is called, and every error becomes a message here."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from vademecum import __version__
from vademecum.errors import PendingReview, UsageError, VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.cli.plugins import PluginGroup, list_plugins
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.interfaces.cli.options import OpenMemory

# Each row is a command, its module in this package, and its summary for the help pages, which import no
# command. The sections marked with * are on the first page.
_TABLE = """\
*Set up
  install    agents    Connect your agents to memory.
  import     transfer  Import memory from another tool.
*Save and find
  add        add       Save a memory.
  search     inspect   Search memory by words and meaning.
  show       inspect   Show a record, or lines of a file.
  list       inspect   List records.
*Change
  edit       write     Edit a record in your editor.
  forget     write     Move a record to the archive.
  restore    write     Restore a record or a version.
*Look after it
  status     inspect   Show what is saved and its health.
Every day
  today      everyday  Show what was added today, and what is pending.
  log        everyday  Show the history of a record.
  diff       everyday  Compare a record with an earlier version.
  open       everyday  Open the page in your browser, or a record's file.
  move       everyday  Move a record to another scope.
  rename     everyday  Rename a record; the old key still finds it.
  tag        everyday  Add tags to records, or remove them.
  protect    write     Protect a record from automatic removal.
Keep it in order
  review     review    Decide about pending changes.
  check      care      Find problems; change nothing.
  tidy       tidy      Archive old and duplicate records, and fix problems.
  undo       care      Undo a whole run; `vade restore` is for one record.
  merge      care      Merge conflict copies that a sync tool left.
  split      care      Undo the last merge of a record.
  purge      write     Permanently delete a record, text or session.
  backup     everyday  Write a backup of all memory, or verify one.
  doctor     setup     Check the installation, settings and files.
  audit      inspect   Show who changed what, and when.
  index      inspect   Update the search index.
Knowledge
  knowledge  knowledge List lessons learned.
  profile    knowledge Show or draft your profile.
  suggest    knowledge Suggest memories from a message.
  graph      knowledge Show links between records.
Sessions and agents
  sessions   sessions  Search and read past sessions.
  chat       agents    Chat with a model that has this memory.
  context    sessions  Inspect a context window.
  inject     agents    Show or write the context agents start with.
  mcp        agents    Serve memory over MCP.
  serve      web       Serve memory as a page and an API.
  sync       sync      Sync memory with your other machines.
  hub        hub       Run a hub, or join one.
  token      web       Make and revoke tokens for the API.
  hook       agents    Answer an agent's hook.
  uninstall  agents    Disconnect agents from memory.
Projects and settings
  export     transfer  Export memory as Markdown, JSON or one page.
  sources    setup     Attach folders of Markdown, read in place.
  init       setup     Create .vade/ in this project, shared through git.
  project    setup     Show which project this folder belongs to.
  projects   setup     List all projects with memory on this machine.
  config     settings  Show or change settings.
  completion setup     Print shell completion for bash, zsh or fish.
  demo       demo      Take a tour in a temporary folder.
  help       help      Show help for a command, or `all` of them.
"""
# An example for each command of the first page.
_EXAMPLES = {
    "install": "vade install",
    "import": "vade import openclaw ~/clawd",
    "add": 'vade add "Run pytest with -n 2"',
    "search": "vade search when do we deploy",
    "show": "vade show deploys",
    "list": "vade list --tag api",
    "edit": "vade edit deploys",
    "forget": "vade forget deploys",
    "restore": "vade restore deploys",
    "status": "vade status",
}
# Plain words that people type, or know from other tools, and the command that each one calls. No command that
# takes something away is called under another name: those are only named, below.
_ALIASES = {
    "save": "add", "remember": "add", "new": "add", "find": "search", "query": "search", "grep": "search",
    "ls": "list", "cat": "show", "view": "show", "info": "status", "setup": "install", "history": "log",
}  # fmt: skip
_REMOVES = dict.fromkeys(
    ("rm", "del", "delete", "remove", "erase", "drop"),
    "`vade forget KEY` archives a record, `vade purge KEY` deletes it permanently.",
)
# Words that are no command, and the sentence that names the command for them.
HINTS = {
    "store": "`vade add TEXT` saves a memory.",
    **dict.fromkeys(
        ("note", "journal"),
        "`vade add --journal TEXT` adds a note, `vade today --journal` shows today's notes.",
    ),
    "learn": "`vade add --type TYPE TEXT` saves a lesson.",
    "recall": "`vade search --records QUERY` finds records, `vade search` alone shows the newest.",
    "get": "`vade show PATH --lines 10-20` prints lines of a file.",
    "archive": "`vade forget KEY` archives a record, `vade list --forgotten` lists the archive.",
    "clear": "`vade forget --all --scope SCOPE` archives all records of a scope.",
    "lint": "`vade check` finds problems.",
    "heal": "`vade tidy --only heal` fixes what `vade check` finds.",
    "sweep": "`vade tidy --only sweep` archives old, expired and duplicate records.",
    "promote": "`vade tidy --only promote` saves what journals repeat.",
    "compact": "`vade tidy --only compact` merges the entries of a topic with a language model.",
    "approve": "`vade review approve` lists pending writes, `vade review` decides about all that is pending.",
    "verify": "`vade review verify NAME` verifies a text, `vade review` decides about all that is pending.",
    "trust": "`vade review trust` trusts this project's .vade/ folder.",
    "update": "`vade edit KEY` changes a record, `vade add --key KEY TEXT` adds to it.",
    "mv": "`vade move KEY --scope SCOPE` moves a record, `vade rename KEY NEW` renames it.",
    "revert": "`vade undo` undoes a run, `vade restore KEY` brings back one record.",
    "login": "There is no account; `vade install` connects your agents.",
    "upgrade": "Upgrade the package with the tool that installed it, such as `uv tool upgrade vademecum`.",
    **_REMOVES,
}
_FROM_RECORDS = "The profile is drafted from saved records alone, without"
# Options of earlier releases of commands that still exist, and what the command does now.
REMOVED_OPTIONS = {
    ("profile build", "--imported"): f"{_FROM_RECORDS} sessions.",
    ("profile build", "--llm"): f"{_FROM_RECORDS} a language model.",
    ("profile build", "--model"): f"{_FROM_RECORDS} a language model.",
}


def _read_table(table: str) -> tuple[dict[str, dict[str, tuple[str, str]]], tuple[str, ...]]:
    """Return the commands of each section, and the sections of the first page."""
    sections: dict[str, dict[str, tuple[str, str]]] = {}
    commands: dict[str, tuple[str, str]] = {}
    first = []
    for line in table.splitlines():
        if line.startswith("  "):
            name, module, summary = line.split(maxsplit=2)
            commands[name] = (module, summary)
        else:
            commands = sections[line.lstrip("*")] = {}
            first += [line[1:]] if line.startswith("*") else []
    return sections, tuple(first)


SECTIONS, FIRST = _read_table(_TABLE)
COMMANDS = {name: told for commands in SECTIONS.values() for name, told in commands.items()}

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


class LazyGroup(PluginGroup):
    """A group that imports a command's module when the command is called."""

    def list_own_commands(self, ctx: click.Context) -> list[str]:
        """Return all commands of this package, in the order of the help page."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"vademecum.interfaces.cli.{COMMANDS[cmd_name][0]}")
        # A function whose command has the name of a Python keyword or builtin ends with an underscore.
        command: click.Command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name or alias; an unknown word gets a hint."""
        name = args[0]
        if name in _ALIASES:
            return super().resolve_command(ctx, [_ALIASES[name], *args[1:]])
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = HINTS.get(name) or _suggest(name)
            if hint is None:
                raise
            raise click.UsageError(f"No such command {name!r}. {hint}", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the ten commands that most people need, each with an example."""
        width = max(len(SECTIONS[heading][name][1]) for heading in FIRST for name in SECTIONS[heading])
        for heading in FIRST:
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (f"{name:<7}", f"{summary:<{width}} {_EXAMPLES[name]}")
                        for name, (_, summary) in SECTIONS[heading].items()
                    ]
                )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write how to see the other commands."""
        formatter.write_paragraph()
        formatter.write("More: `vade help all` lists every command, `vade help COMMAND` explains one.\n")
        formatter.write("The options work with every command, before its name or after it.\n")


def format_all(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write every command under its section; commands of other packages come last."""
    for heading, commands in SECTIONS.items():
        with formatter.section(heading):
            formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])
    added = {name: each for name, each in cli.load_plugins(ctx).items() if name not in COMMANDS}
    if added:
        with formatter.section("From other packages"):
            formatter.write_dl([(name, each.get_short_help_str(60)) for name, each in added.items()])


def _suggest(name: str) -> str | None:
    """Return a hint for a mistyped command, or None when no command is close."""
    from difflib import get_close_matches

    alike = [each for each in (*COMMANDS, *list_plugins()) if each[0] == name[:1]]
    near = get_close_matches(name, alike, 1, cutoff=0.75)
    near += [each for each in alike if len(name) >= 3 and _is_short_for(name, each)]
    return f"Did you mean `vade {near[0]}`?" if near else None


def _is_short_for(name: str, command: str) -> bool:
    """Return whether a name consists of letters of a command in their order, such as `srch`."""
    letters = iter(command)
    return len(command) - len(name) <= 3 and all(letter in letters for letter in name)


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="vade", message="%(prog)s %(version)s")
@common
@click.pass_context
def cli(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Long-term memory for AI agents, kept in plain Markdown."""
    if ctx.invoked_subcommand is None:
        from vademecum.interfaces.cli.inspect import overview

        overview(open_memory(), as_json=as_json)


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
    except (click.Abort, KeyboardInterrupt) as error:
        reason = error.__cause__ or error  # click wraps the error in one of its own
        output.error(str(reason) if isinstance(reason, output.WorkStopped) else "stopped")
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return WRONG_USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "vade"
        what = _explain_removed(error) or error.format_message()
        message = f"{what}{_hint_for_dash(error)} (see `{where} --help`)"
        return _fail(args, message, kind="UsageError", code=WRONG_USAGE)
    except click.ClickException as error:
        return _fail(args, error.format_message())
    except UsageError as error:
        return _fail(args, str(error), error.hint, kind=type(error).__name__, code=WRONG_USAGE)
    except PendingReview as error:
        return _fail_pending(args, error)
    except VadeError as error:
        return _fail(args, str(error), error.hint, kind=type(error).__name__)
    except BrokenPipeError:
        return _close_output()
    except OSError as error:  # writing the output failed; errors of memory are VadeErrors
        return _fail(args, f"cannot write the output: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("VADE_DEBUG"):
            raise
        message = f"internal error ({type(error).__name__}: {error})"
        return _fail(args, message, "set VADE_DEBUG=1 for a traceback, and report it")


def _explain_removed(error: click.UsageError) -> str:
    """Return the message for a removed option; '' for any other error."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    command = error.ctx.command_path.partition(" ")[2]
    instead = REMOVED_OPTIONS.get((command, error.option_name))
    return f"No such option {error.option_name!r}. {instead}" if instead else ""


def _hint_for_dash(error: click.UsageError) -> str:
    """Return a hint when a word of a question was read as an option."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    takes_words = any(param.nargs == -1 for param in error.ctx.command.params)
    return " Put `--` before words that begin with a dash." if takes_words else ""


def _close_output() -> int:
    """Close the output after its reader ended early, as in `vade list | head`."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _fail_pending(args: Sequence[str], error: PendingReview) -> int:
    """Print that a person must decide first, and return the exit code."""
    output.error(f"{error}: {error.hint}")
    if "--json" in args:
        from vademecum.interfaces.present.to_json import postponed_json

        output.as_json(postponed_json, outcome="waiting", approval=error.approval, message=error)
    return FAILED


def _fail(
    args: Sequence[str], message: str, hint: str = "", *, kind: str = "Error", code: int = FAILED
) -> int:
    """Print one error line, with --json also as an object on stdout, and return the exit code."""
    line = " ".join(message.split())
    output.error(f"{line}: {hint}" if hint else line)
    if "--json" in args:
        from vademecum.interfaces.present.to_json import error_json

        output.as_json(error_json, error={"kind": kind, "message": line, "hint": hint})
    return code
