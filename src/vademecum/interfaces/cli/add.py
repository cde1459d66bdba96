"""`vade add` saves a record, a journal note or a lesson."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.options import (
    MODE,
    SCOPES,
    SLUG,
    TAGS,
    TYPES,
    common,
    complete_keys,
    field_options,
    words_argument,
)
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_text import show_merged, warn_of_dropped, warn_of_purged
from vademecum.lazy import LazyModule
from vademecum.types import LEARNED, Scope, SecretPolicy

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.interfaces.present import to_json
    from vademecum.memory import Memory
    from vademecum.types import Swept
else:
    to_json = LazyModule("vademecum.interfaces.present.to_json")

_LESSON_ONLY = ("error", "solution", "sequence", "success_rate", "impact", "prevention", "path", "examples")
_RECORD_ONLY = ("key", "title", "slug", "mode", "protected", "team")


class TextCommand(click.Command):
    """A command whose text may begin with a dash, as a list item does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put a text with a leading dash behind `--`, so that it is not read as an option."""
        valued = {
            name for param in self.params if not getattr(param, "is_flag", False) for name in param.opts
        }
        for index, word in enumerate(args):
            if word == "--":
                break
            is_value = index > 0 and args[index - 1] in valued
            if word.startswith("-") and any(each.isspace() for each in word) and not is_value:
                args = [*args[:index], *args[index + 1 :], "--", word]
                break
        return super().parse_args(ctx, args)


@click.command(cls=TextCommand)
@words_argument("text", required=False)
@click.option("--key", help="The record to add to; created when it is new.", shell_complete=complete_keys)
@click.option("--title", help="The title of a new record; its key is made from it, unless given.")
@SLUG
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="Where to save it.")
@click.option("--type", "kind", type=TYPES, help="What it is.  [default: project]")
@TAGS
@click.option("--journal", is_flag=True, help="Add it to today's journal instead of a record.")
@MODE
@field_options
@click.option("--protected", is_flag=True, help="Never archive it automatically.")
@click.option("--team", metavar="NAME", help="Save it in the memory that this team shares.")
@click.option("--error", help="With --type solution: what goes wrong; TEXT, unless given here.")
@click.option("--solution", help="With --type solution: what fixes it.")
@click.option("--step", "sequence", multiple=True, help="With --type workflow: a step; repeat it, in order.")
@click.option("--success-rate", type=click.FloatRange(0, 1), help="With --type workflow: the success rate.")
@click.option("--impact", help="With --type failure: its impact.")
@click.option("--prevention", help="With --type failure: how to prevent it.")
@click.option("--path", help="With --type rule: the path prefix it applies to; without it, everywhere.")
@click.option("--example", "examples", multiple=True, help="With a lesson: the path of an example.")
@common
def add(
    text: str, kind: str | None, journal: bool, as_json: bool, open_memory: OpenMemory, **given: Any
) -> None:
    """Save a memory.

    TEXT needs no quotes; `-` reads standard input. Without --key, TEXT joins the record that says the same,
    or starts a new one. `--type` discovery, solution, pattern, workflow, failure and rule save lessons;
    agents see the most useful ones first.
    """
    text_of_record = any(_is_given(name, given[name]) for name in _RECORD_ONLY)
    lesson = kind in LEARNED and not text_of_record
    check_options(text, given, kind=kind, lesson=lesson, journal=journal)
    if journal:
        save_note(open_memory(), text, given["scope"], as_json=as_json)
    elif lesson:
        from vademecum.interfaces.cli.knowledge import save_lesson

        fields = {name: value for name, value in given.items() if name not in _RECORD_ONLY}
        save_lesson(open_memory(), str(kind), text or None, as_json=as_json, **fields)
    else:
        fields = {name: value for name, value in given.items() if name not in _LESSON_ONLY}
        save_record(open_memory(), text, as_json=as_json, type=kind, **fields)


def check_options(text: str, given: dict[str, Any], *, kind: str | None, lesson: bool, journal: bool) -> None:
    """Refuse options that do not fit what is saved: a note, a lesson or another record."""
    names = {name for name, value in given.items() if _is_given(name, value)}
    if journal and (kind or names - {"scope"}):
        raise click.UsageError("--journal takes only TEXT and --scope.")
    unfit = [] if lesson else [name for name in _LESSON_ONLY if name in names]
    if unfit:
        option = {"sequence": "step", "examples": "example"}.get(unfit[0], unfit[0]).replace("_", "-")
        other = next((name for name in _RECORD_ONLY if name in names), "")
        if kind in LEARNED and other:
            raise click.UsageError(f"--{option} cannot be combined with --{other}.")
        raise click.UsageError(f"--{option} requires a lesson, such as --type solution.")
    if not text and not (lesson and names & {"sequence", "error"}):
        raise click.UsageError("Give the TEXT to save, or `-` to read standard input.")


def _is_given(name: str, value: Any) -> bool:
    return bool(value) and not (name == "mode" and value == "append")


def save_record(memory: Memory, text: str, *, protected: bool, as_json: bool, **given: Any) -> None:
    """Save a text as a record, and print the result."""
    stored = memory.store(read_text(text), protected=protected or None, **given)
    if as_json:
        output.as_json(to_json.stored_json, stored)
        return
    words = {
        "created": "saved as",
        "appended": "added to",
        "replaced": "replaced the last entry of",
        "confirmed": "confirmed",
        "consolidated": "merged into",
        "waiting": "saved next to the user's text in",
    }
    where = f"{stored.place.scope}{f', team:{stored.team}' if stored.team else ''}"
    output.line(f"{words[stored.outcome]} {stored.key} (#{stored.num}, {where})")
    warn_of_purged(stored.purged)
    warn_of_dropped(stored.dropped)
    show_merged(stored.merged)
    print_swept(stored.swept, memory)
    if stored.approval:
        output.line(f"the replacement is pending: `vade review approve yes {stored.approval[:12]}`")
    warn_of_secrets(stored.secrets, memory, stored.place.scope)


def save_note(memory: Memory, text: str, scope: str, *, as_json: bool) -> None:
    """Add a text to today's journal, and print the path of the journal."""
    noted = memory.note(read_text(text), scope=scope)
    if as_json:
        output.as_json(to_json.noted_json, noted)
        return
    output.line(f"noted in {noted.path}")
    warn_of_purged(noted.purged)
    warn_of_secrets(noted.secrets, memory, scope)


def read_text(text: str) -> str | bytes:
    """Return the argument itself, or all of standard input for `-`."""
    if text != "-":
        return text
    if sys.stdin is None or sys.stdin.isatty():
        output.error("reading standard input; end with Ctrl-D")
    return b"" if sys.stdin is None else sys.stdin.buffer.read()


def print_swept(swept: Swept | None, memory: Memory) -> None:
    """Print what a save moved to the archive, and the command that undoes it."""
    if swept is not None:
        output.line(swept.message)
        memory.care.saw_notices()


def warn_of_secrets(kinds: tuple[str, ...], memory: Memory, scope: str) -> None:
    """Print which types of secrets were found, and whether they were redacted."""
    if not kinds:
        return
    warned = memory.settings.secrets.in_scope(Scope(scope)) is SecretPolicy.WARN
    done = "was saved, because `secrets.policy` allows it" if warned else "was redacted"
    output.error(f"a secret {done}: {', '.join(kinds)}")
