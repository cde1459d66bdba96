"""The verbs that gather several others: `add` saves anything, `tidy` runs every clean-up, `help` explains."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.options import (
    CONFIDENCE,
    MODE,
    SCOPES,
    SLUG,
    TAGS,
    TYPES,
    common,
    complete_keys,
    scope_option,
    settle,
    stopped,
    words_argument,
)
from vademecum.interfaces.cli.write import TEAM, TextCommand, save_note, save_record
from vademecum.interfaces.present import output
from vademecum.stand_ins import LazyModule
from vademecum.types import LEARNED, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import Door
    from vademecum.interfaces.present import to_json
    from vademecum.memory import Memory
else:
    to_json = LazyModule("vademecum.interfaces.present.to_json")

_LESSON_ONLY = ("error", "solution", "sequence", "success_rate", "impact", "prevention", "path", "examples")
_RECORD_ONLY = ("key", "slug", "mode", "protected", "team")


@click.command(cls=TextCommand)
@words_argument("text", required=False)
@click.option("--key", help="The record to add to; created when it is new.", shell_complete=complete_keys)
@SLUG
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="Where to save it.")
@click.option("--type", "kind", type=TYPES, help="What it is.  [default: project]")
@TAGS
@click.option("--journal", is_flag=True, help="Add it to today's journal instead of a record.")
@MODE
@CONFIDENCE
@click.option("--protected", is_flag=True, help="Never archive it automatically.")
@TEAM
@click.option("--error", help="With --type solution: what goes wrong; TEXT, unless given here.")
@click.option("--solution", help="With --type solution: what fixes it.")
@click.option("--step", "sequence", multiple=True, help="With --type workflow: a step; repeat it, in order.")
@click.option("--success-rate", type=click.FloatRange(0, 1), help="With --type workflow: the success rate.")
@click.option("--impact", help="With --type failure: its impact.")
@click.option("--prevention", help="With --type failure: how to prevent it.")
@click.option("--path", help="With --type rule: the path prefix it applies to; without it, everywhere.")
@click.option("--example", "examples", multiple=True, help="With a lesson: the path of an example.")
@common
def add(text: str, kind: str | None, journal: bool, as_json: bool, door: Door, **given: Any) -> None:
    """Save a memory.

    TEXT needs no quotes; `-` reads standard input. Without --key, TEXT joins the record that says the same,
    or starts a new one. `--type` discovery, solution, pattern, workflow, failure and rule save lessons;
    agents see the most useful ones first.
    """
    lesson = kind in LEARNED
    _check(text, given, kind=kind, lesson=lesson, journal=journal)
    if journal:
        save_note(door(), text, given["scope"], as_json=as_json)
    elif lesson:
        from vademecum.interfaces.cli.knowledge import save_lesson

        fields = {name: value for name, value in given.items() if name not in _RECORD_ONLY}
        save_lesson(door(), str(kind), text or None, as_json=as_json, **fields)
    else:
        fields = {name: value for name, value in given.items() if name not in _LESSON_ONLY}
        save_record(door(), text, as_json=as_json, type=kind, **fields)


def _check(text: str, given: dict[str, Any], *, kind: str | None, lesson: bool, journal: bool) -> None:
    """Refuse options that do not go with what is saved."""
    told = [name for name, value in given.items() if _is_given(name, value)]
    unfit = [name for name in told if name in (_RECORD_ONLY if lesson else _LESSON_ONLY)]
    if journal and (kind or {*told} - {"scope"}):
        raise click.UsageError("--journal takes only TEXT and --scope.")
    if unfit:
        where = "a record that is not a lesson" if lesson else "a lesson, such as --type solution"
        option = {"sequence": "step", "examples": "example"}.get(unfit[0], unfit[0]).replace("_", "-")
        raise click.UsageError(f"--{option} requires {where}.")
    if not text and not (lesson and {"sequence", "error"} & {*told}):
        raise click.UsageError("Give the TEXT to save, or `-` to read standard input.")


def _is_given(name: str, value: Any) -> bool:
    return bool(value) and not (name == "mode" and value == "append")


# ---------------------------------------------------------------- tidy

_PARTS = ("sweep", "heal", "promote", "prune", "compact")
_DONE_BY_ITSELF = ("sweep", "heal", "promote", "prune")  # a model is asked only when somebody says so


@click.command()
@click.option("--only", type=click.Choice(_PARTS), multiple=True, help="Only this part; repeatable.")
@scope_option("Only this scope.")
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@click.option("--yes", is_flag=True, help="Do not ask, even for large changes.")
@click.option("--model", metavar="NAME", help="With --only compact: the language model, as provider:name.")
@common
def tidy(
    *,
    only: tuple[str, ...],
    scope: str | None,
    apply: bool,
    yes: bool,
    model: str | None,
    as_json: bool,
    door: Door,
) -> int:
    """Archive old and duplicate records, and fix problems.

    The parts are sweep (archive old, expired and duplicate records), heal (fix what `vade check` finds),
    promote (save what the journal repeats), prune (archive unconfirmed lessons) and compact
    (merge a topic's entries with a model; only with --only compact). Each part that changes something
    is run that `vade undo` reverts.
    """
    if model and "compact" not in only:
        raise click.UsageError("--model requires --only compact.")
    memory = door()
    failed = False
    made: dict[str, Any] = {}
    for part in [each for each in _PARTS if each in (only or _DONE_BY_ITSELF)]:
        if part == "promote" and not only and scope and not Scope(scope).rule.journal:
            continue
        if not as_json:
            output.line(f"{part}:")
        show, bad, value = _run_part(memory, part, scope, apply=apply, yes=yes, model=model)
        failed = failed or bad
        made[part] = value
        if not as_json:
            show()
    if as_json:
        output.as_json(to_json.tidied_json, **made)
    return int(failed)


def _run_part(
    memory: Memory, part: str, scope: str | None, *, apply: bool, yes: bool, model: str | None
) -> tuple[Callable[[], None], bool, Any]:
    """Run one part: how it is shown, whether anything was left undone, and the value for programs."""
    from vademecum.interfaces.cli import care
    from vademecum.interfaces.present.to_text import show_outcome

    command = f"vade tidy --only {part}"
    if part == "promote":
        with output.progress(stopped(apply)):
            found = memory.care.promote(scope=scope, apply=apply)
        return partial(care.show_promoted, found, applied=apply), bool(found.outcome.skipped), found
    if part == "compact":
        with output.progress(stopped(apply)) as step:
            merged = memory.care.compact(None, scope=scope, model=model, apply=apply, progress=step)
        bad = bool(merged.refused) and not merged.outcome.proposals
        return partial(care.show_compacted, merged, applied=apply), bad, merged
    runs: dict[str, Callable[..., Any]] = {
        "sweep": memory.care.sweep,
        "heal": memory.care.heal,
        "prune": memory.knowledge.prune,
    }
    run = partial(runs[part], scope=scope)
    if part == "heal":
        with output.progress(stopped(apply)):
            outcome = run(apply=apply)
    else:
        outcome = settle(run, apply=apply, yes=yes)
    bad = any(not each.done for each in outcome.told)
    return partial(show_outcome, outcome, applied=apply, command=command), bad, outcome


# ---------------------------------------------------------------- help


@click.command("help")
@click.argument("words", metavar="[COMMAND|all]", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show help for a command, or `all` of them."""
    from vademecum.interfaces.cli.app import cli, format_all

    top = ctx.find_root()
    if words == ("all",):
        formatter = ctx.make_formatter()
        format_all(formatter)
        click.echo(formatter.getvalue().rstrip("\n"))
        return
    command: click.Command = cli
    here, rest = top, list(words)
    while rest and isinstance(command, click.Group):
        name, found, _ = command.resolve_command(here, rest)
        if found is None:
            break
        here = click.Context(found, info_name=name, parent=here)
        command, rest = found, rest[1:]
    click.echo(command.get_help(here))
