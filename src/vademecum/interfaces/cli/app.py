"""The command tree, loaded command by command, and the one place where errors become messages."""

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
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.interfaces.cli.options import Door

# What the help pages show: a command, the module below this one that has it, and what it does. Nothing is
# imported for that; what is called is imported then. A section marked with * is on the first page.
_TABLE = """\
*Set up
  install    agents    Connect your agents to memory.
  import     transfer  Import memory from another tool.
*Save and find
  add        front     Save a memory.
  search     inspect   Search memory by words and meaning.
  show       inspect   Show a record, or lines of a file.
  list       inspect   List records.
*Change
  edit       write     Edit a record in your editor.
  forget     write     Move a record to the archive.
  restore    write     Restore a record or an earlier version.
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
  tidy       front     Archive old and duplicate records, and fix problems.
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
  uninstall  agents    Disconnect an agent from memory.
Projects and settings
  export     transfer  Export memory as Markdown, JSON or one page.
  sources    setup     Attach folders of Markdown, read in place.
  init       setup     Create .vade/ in this project, shared through git.
  project    setup     Show which project this folder belongs to.
  config     settings  Show or change settings.
  completion setup     Print shell completion for bash, zsh or fish.
  demo       demo      Take a tour in a temporary folder.
  help       front     Show help for a command, or `all` of them.
Older names, still supported
  store      write     Save TEXT as a memory; `-` reads standard input.
  note       write     Add TEXT to today's journal, or show today's notes.
  learn      knowledge Save a lesson: a solution, discovery, pattern, failure…
  recall     inspect   Find records, or show the newest.
  get        inspect   Print lines of a memory file.
  clear      write     Move all records of a scope to the archive.
  lint       care      Find problems; change nothing.
  heal       care      Fix what `vade check` finds, without deleting text.
  sweep      care      Archive old, expired and duplicate records.
  promote    care      Save statements that journals or sessions repeat.
  compact    care      Merge the entries of a topic with a language model.
  approve    review    Approve or reject writes that agents asked for.
  verify     review    Verify records, documents or journals.
  trust      setup     Trust this project's .vade/ folder.
"""
# One line to type for each command of the first page.
_EXAMPLES = {
    "install": "vade install",
    "import": "vade import openclaw ~/clawd",
    "add": 'vade add "Deploys run on Fridays"',
    "search": "vade search when do we deploy",
    "show": "vade show deploys",
    "list": "vade list --tag api",
    "edit": "vade edit deploys",
    "forget": "vade forget deploys",
    "restore": "vade restore deploys",
    "status": "vade status",
}
# What people type in other tools. What only reads or adds runs at once; what takes away is only named.
_SYNONYMS = {
    "save": "add", "remember": "add", "new": "add", "find": "search", "query": "search", "grep": "search",
    "ls": "list", "cat": "show", "view": "show", "info": "status", "setup": "install", "history": "log",
}  # fmt: skip
_TAKES_AWAY = dict.fromkeys(
    ("rm", "del", "delete", "remove", "erase", "drop"),
    "`vade forget KEY` archives a record, `vade purge KEY` deletes it permanently.",
)
_ELSEWHERE = {
    "update": "`vade edit KEY` changes a record, `vade add --key KEY TEXT` adds to it.",
    "mv": "`vade move KEY --scope SCOPE` moves a record, `vade rename KEY NEW` renames it.",
    "revert": "`vade undo` undoes a run, `vade restore KEY` brings back one record.",
    "login": "There is no account; `vade install` connects your agents.",
    "upgrade": "Upgrade the package with the tool that installed it, such as `uv tool upgrade vademecum`.",
    **_TAKES_AWAY,
}


def _read(table: str) -> tuple[dict[str, dict[str, tuple[str, str]]], tuple[str, ...]]:
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


SECTIONS, FIRST = _read(_TABLE)
COMMANDS = {name: told for commands in SECTIONS.values() for name, told in commands.items()}

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the help page."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"vademecum.interfaces.cli.{COMMANDS[cmd_name][0]}")
        # A command that is called like a word of Python's has an underscore behind it.
        command: click.Command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, also by another tool's name for it; one that does not exist gets a hint."""
        name = args[0]
        if name in _SYNONYMS:
            return super().resolve_command(ctx, [_SYNONYMS[name], *args[1:]])
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = _ELSEWHERE.get(name) or _meant(name)
            if hint is None:
                raise
            raise click.UsageError(f"No such command {name!r}. {hint}", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands first: what they are is what people look for."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The ten commands that most people need, each with a line to type."""
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
        """Where the rest is."""
        formatter.write_paragraph()
        formatter.write("More: `vade help all` lists every command, `vade help COMMAND` explains one.\n")
        formatter.write("The options work with every command, before its name or after it.\n")


def format_all(formatter: click.HelpFormatter) -> None:
    """Every command, under the headings a person would look for."""
    for heading, commands in SECTIONS.items():
        with formatter.section(heading):
            formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])


def _meant(name: str) -> str | None:
    """The command that a mistyped one is meant to be; a word that is only somewhat like one is another."""
    from difflib import get_close_matches

    alike = [each for each in COMMANDS if each[0] == name[:1]]
    near = get_close_matches(name, alike, 1, cutoff=0.75)
    near += [each for each in alike if len(name) >= 3 and _is_short_for(name, each)]
    return f"Did you mean `vade {near[0]}`?" if near else None


def _is_short_for(name: str, command: str) -> bool:
    """Whether letters of a command are all there is to a name, in their order: `srch`."""
    letters = iter(command)
    return len(command) - len(name) <= 3 and all(letter in letters for letter in name)


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="vade", message="%(prog)s %(version)s")
@common
@click.pass_context
def cli(ctx: click.Context, as_json: bool, door: Door) -> None:
    """Long-term memory for AI agents, kept in plain Markdown."""
    if ctx.invoked_subcommand is None:
        from vademecum.interfaces.cli.inspect import overview

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
    except (click.Abort, KeyboardInterrupt) as error:
        told = error.__cause__ or error  # click makes its own of it
        output.error(str(told) if isinstance(told, output.WorkStopped) else "stopped")
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
        return _fail(args, f"cannot write the output: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("VADE_DEBUG"):
            raise
        said = f"internal error ({type(error).__name__}: {error})"
        return _fail(args, said, "set VADE_DEBUG=1 for a traceback, and report it")


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
        from vademecum.interfaces.present.to_json import postponed_json

        output.as_json(postponed_json, outcome="waiting", approval=error.approval, message=error)
    return FAILED


def _fail(
    args: Sequence[str], message: str, hint: str = "", *, kind: str = "Error", code: int = FAILED
) -> int:
    """One line on stderr; with --json the same as an object on stdout."""
    line = " ".join(message.split())
    output.error(f"{line}: {hint}" if hint else line)
    if "--json" in args:
        from vademecum.interfaces.present.to_json import error_json

        output.as_json(error_json, error={"kind": kind, "message": line, "hint": hint})
    return code
