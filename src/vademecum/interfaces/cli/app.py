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

# What the help page shows: a command, the module below this one that has it, and what it does. Nothing is
# imported for that; what is called is imported then.
_TABLE = """\
Keep
  store      write     Keep TEXT as a memory; `-` reads it from standard input.
  note       write     Append TEXT to today's journal; `-` reads it from standard input, nothing...
  edit       write     Open a record, or MEMORY.md, context.md or profile.md, in your editor.
  protect    write     Keep a record from ever being removed by age or number.
Learn
  suggest    knowledge Say what of a message is worth keeping; `-` reads it from standard input.
  learn      knowledge Keep something learned: a discovery, solution, pattern, workflow, failure or...
  knowledge  knowledge Look at what was learned: alone it lists it, as `vade knowledge list` does.
  review     review    Go through everything that waits for you: y yes, n no, e edit, s skip, a all...
  verify     review    Vouch for what records, pinned documents or journal files say, exactly as it...
  profile    knowledge Look at profile.md, or draft it: alone it shows it, as `vade profile show` does.
Find
  search     inspect   Find the lines that answer QUERY, by words and by meaning.
  recall     inspect   Recall records that answer QUERY, or without one the newest.
  index      inspect   Bring the search index up to date; it is made from the files and safe to delete.
Look
  list       inspect   List memories: number, key, scope, type, category and age.
  show       inspect   Show one record: what it says now, what it said before, and where it lies.
  graph      knowledge Show the edges between records, from links, the frontmatter, shared tags, or...
  get        inspect   Print lines of a file of memory, by its path, key or number.
  status     inspect   Say what is here, and what needs a look.
  audit      inspect   Show what was changed, when and by whom; `vade audit verify` checks that...
Sessions
  chat       agents    Talk to a model that remembers; `--session last` goes on with the last...
  sessions   sessions  Look into what was said in earlier sessions, and keep those of other agents.
  context    sessions  Look at context windows.
Agents
  inject     agents    Show what an agent is told of its memory before it begins, or keep it in the...
  install    agents    Give an agent its memory: the server, the hooks, and a word about when to use...
  uninstall  agents    Take memory out of an agent's configuration again, and leave everything else...
  hook       agents    Answer a hook of an agent: what it says on standard input, what the model is...
  mcp        agents    Serve memory to an agent over the Model Context Protocol, until it leaves.
  approve    review    Decide about what agents want to write and may not without you.
Take away, bring back
  forget     write     Move a record to the archive; `vade restore` brings it back.
  restore    write     Bring back a forgotten record, an earlier version, or entries that an edit...
  clear      write     Move all records of a scope to the archive.
  purge      write     Delete a record, or a text wherever it stands, for good: it cannot be brought...
Tidy up
  lint       care      Look for what is wrong, and change nothing; ends with 1 when there are errors.
  heal       care      Mend what lint finds, where that takes no person; no text is removed, `vade...
  sweep      care      Put away what is old, expired, said twice or too much; `vade undo` brings it...
  promote    care      Make records, or lines of MEMORY.md, of what the journal repeats or sessions...
  compact    care      Let a language model merge the entries of a topic into one; nothing it drops...
  merge      care      Merge second copies that a sync tool left beside a record; every entry stays,...
  split      care      Take back the last merge of a record: both statements stand again, each in...
  undo       care      Bring back, byte for byte, what a run changed: the newest one, or the one named.
From and to elsewhere
  import     transfer  Bring in what another agent's memory keeps; its own files are only read.
  export     transfer  Write memory out: a bundle of Markdown (okf), what was learned (ltm), or one...
Set up
  init       setup     Make .vade/ in this project, so that its records are versioned with the code.
  trust      setup     Trust this project's .vade/: it came with the repository, so read it first.
  project    setup     Show which project this folder belongs to.
  sources    setup     Attach folders of Markdown that are read in place: a vault, a workspace, a...
  config     inspect   Show every setting, its value, and where the value came from.
  completion setup     Print the completion script for a shell: `eval "$(vade completion bash)"`.
  doctor     setup     Check the memory folder, the settings, the audit, every file and installed...
  demo       demo      Take a short tour in a temporary folder; your own memory is not touched.
"""


def _read(table: str) -> dict[str, dict[str, tuple[str, str]]]:
    sections: dict[str, dict[str, tuple[str, str]]] = {}
    commands: dict[str, tuple[str, str]] = {}
    for line in table.splitlines():
        if line.startswith("  "):
            name, module, summary = line.split(maxsplit=2)
            commands[name] = (module, summary)
        else:
            commands = sections[line] = {}
    return sections


SECTIONS = _read(_TABLE)
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
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="vade", message="%(prog)s %(version)s")
@common
@click.pass_context
def cli(ctx: click.Context, as_json: bool, door: Door) -> None:
    """Long-term memory for AI agents, kept in plain Markdown.

    The options below go with every command, before its name or after it.
    """
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
