"""Commands that tidy memory up, find and fix problems, and undo a run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import (
    NOTHING,
    common,
    complete_keys,
    read_key,
    scope_option,
    settle,
    stopped,
)
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import ending, show_left, show_lint, show_outcome
from vademecum.text import spelled

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import Door
    from vademecum.memory import Memory
    from vademecum.memory.values import Brief, Promoted, Rewording, Rewritten
    from vademecum.types import Finding


@click.command()
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@scope_option("Only the records of this scope.")
@click.option("--yes", is_flag=True, help="Do not ask, even for large changes.")
@common
def sweep(apply: bool, scope: str | None, yes: bool, as_json: bool, door: Door) -> int:
    """Archive old, expired and duplicate records.

    `vade undo` restores them.
    """
    outcome = settle(partial(door().care.sweep, scope=scope), apply=apply, yes=yes)
    output.tell(as_json, partial(show_outcome, outcome, applied=apply), to_json.outcome_json, outcome)
    return int(any(not each.done for each in outcome.told))


@click.command()
@click.argument("key")
@scope_option("Only look in this scope.")
@common
def split(key: str, scope: str | None, as_json: bool, door: Door) -> int:
    """Undo the last merge of a record.

    Each statement becomes its own record again.
    """
    outcome = door().care.split(key, scope=scope)
    if as_json:
        output.as_json(to_json.outcome_json, outcome)
    else:
        for proposal in outcome.proposals:
            output.line(proposal.why)
        if outcome.run:
            output.line(f"`vade undo {outcome.run}` reverts it")
        show_left(outcome.told)
    return int(bool(outcome.skipped))


@click.command()
@click.argument("key", required=False, metavar="[KEY|PATH]")
@scope_option("Only look in this scope.")
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@common
def merge(key: str | None, scope: str | None, apply: bool, as_json: bool, door: Door) -> int:
    """Merge conflict copies that a sync tool left.

    Keeps every entry of every version, and archives each version; `vade undo` reverts it.
    """
    outcome = door().care.merge(key, scope=scope, apply=apply)
    show = partial(show_outcome, outcome, applied=apply, command="vade merge")
    output.tell(as_json, show, to_json.outcome_json, outcome)
    return int(any(not each.done for each in outcome.told))


@click.command()
@click.argument("run", required=False)
@click.option("--list", "listed", is_flag=True, help="List the runs.")
@common
def undo(run: str | None, listed: bool, as_json: bool, door: Door) -> int:
    """Undo a whole run; `vade restore` is for one record.

    Restores, byte for byte, what the latest run changed, or the one you name.
    """
    memory = door()
    if listed:
        if run is not None:
            raise click.UsageError("Give either a RUN or --list.")
        show_runs(list(memory.care.runs()), as_json=as_json)
        if not as_json:
            memory.care.saw_notices()
        return 0
    with output.progress("what was restored stays; run `vade undo` again for the rest") as step:
        undone, told = memory.care.undo(run, progress=step)
    if as_json:
        output.as_json(to_json.undone_json, run=undone, files=told)
    else:
        brought = sum(each.done for each in told)
        output.line(
            f"undid {undone}: {output.plural(brought, 'file')}" if told else f"{undone} is already undone"
        )
        for each in told:
            if each.done and each.why:
                output.line(f"{each.path}: {each.why}")
        show_left(told)
    return int(any(not each.done for each in told))


def show_runs(runs: list[Brief], *, as_json: bool) -> None:
    """The runs there are, newest first."""
    if as_json:
        output.as_json(to_json.runs_json, runs=runs)
    elif runs:
        cells = [[each.run, each.what, str(each.edits), output.age(each.at), _state(each)] for each in runs]
        output.table(cells, ["run", "what", "edits", "age", "state"])
    else:
        output.line("no runs yet")


def _state(run: Brief) -> str:
    return "undone" if run.undone else "partly undone" if run.tried else ""


FORMATS = click.Choice(["text", "json", "github"])
_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


@click.command()
@scope_option("Only this scope.")
@click.option("--format", "form", type=FORMATS, default="text", show_default=True, help="The output format.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=30.0,
    show_default=True,
    help="The time limit, in seconds.",
)
@click.option("--llm", is_flag=True, help="Also ask the configured model about contradictions.")
@click.option("--model", metavar="NAME", help="Also ask this model about contradictions.")
@common
def lint(
    *, scope: str | None, form: str, seconds: float, llm: bool, model: str | None, as_json: bool, door: Door
) -> int:
    """Find problems; change nothing.

    Exits with 1 when there are errors.
    """
    with output.progress(NOTHING):
        found = door().care.lint(scope=scope, seconds=seconds, model=model or llm)
    if as_json or form == "json":
        errors, warnings = (sum(each.severity == name for each in found) for name in ("error", "warning"))
        output.as_json(to_json.lint_json, findings=found, errors=errors, warnings=warnings)
    elif form == "github":
        for finding in found:
            output.line(annotation(finding))
    else:
        show_lint(found)
    return int(any(finding.severity == "error" for finding in found))


check = lint


@click.command()
@scope_option("Only this scope.")
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@click.option("--aggressive", is_flag=True, help="Also reset usage counters that look inflated.")
@common
def heal(scope: str | None, apply: bool, aggressive: bool, as_json: bool, door: Door) -> int:
    """Fix what `vade check` finds, without deleting text.

    `vade undo` reverts it.
    """
    with output.progress(stopped(apply)):
        outcome = door().care.heal(scope=scope, apply=apply, aggressive=aggressive)
    show = partial(show_outcome, outcome, applied=apply, command="vade heal")
    output.tell(as_json, show, to_json.outcome_json, outcome)
    return int(any(not each.done for each in outcome.told))


def annotation(finding: Finding) -> str:
    """One finding as a line that a workflow shows beside the code."""
    path, first, last = to_json.place_of(finding)
    where = f"file={_property(path)}" + (f",line={first},endLine={last}" if first else "")
    said = f"{finding.why}. Fix: {finding.mend}" if finding.mend else finding.why
    return f"::{_LEVELS[finding.severity]} {where},title={_property(finding.what)}::{_message(said)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


@click.command()
@scope_option("Only the records of this scope.")
@click.option(
    "--key", metavar="KEY|NUM", shell_complete=complete_keys, help="Only this record, even if protected."
)
@click.option("--model", metavar="NAME", help="The language model, as provider:name.")
@click.option("--apply", is_flag=True, help="Write it; without it, it is only shown.")
@click.option("--reword", is_flag=True, help="Let it suggest new wording, which you accept one by one.")
@common
def compact(
    *,
    scope: str | None,
    key: str | None,
    model: str | None,
    apply: bool,
    reword: bool,
    as_json: bool,
    door: Door,
) -> int:
    """Merge the entries of a topic with a language model.

    The model only plans; every statement stays word for word, and a plan that drops one is rejected.
    """
    if reword:
        if key is None or apply:
            raise click.UsageError(
                "--reword requires --key and asks before each change; do not pass --apply."
            )
        return reword_record(door(), key, scope, model, as_json=as_json)
    with output.progress(stopped(apply)) as step:
        found = door().care.compact(key, scope=scope, model=model, apply=apply, progress=step)
    output.tell(as_json, partial(show_compacted, found, applied=apply), to_json.compacted_json, found)
    failed = bool(found.refused) and not found.outcome.proposals
    return int(failed or bool(found.outcome.skipped))


def reword_record(memory: Memory, key: str, scope: str | None, model: str | None, *, as_json: bool) -> int:
    """Show other words for a record, and write what a person accepts; where nobody is, they wait."""
    from vademecum.memory.opening import has_terminal

    with output.progress(NOTHING):
        found = memory.care.reword(key, scope=scope, model=model)
    waiting, run = "", ""
    if found.refused is not None:
        said = f"refused: {found.seen.record.path}: {found.refused.why}; nothing was changed"
    elif not found.open:
        said = "the model changed no statement; nothing was changed"
    elif as_json or memory.caller.undecided or not has_terminal():
        waiting = memory.care.leave_rewording(found).short
        said = f"{found.changes}\nnothing was changed; pending as {waiting}: `vade review`"
    else:
        rows = ask_rows(found)
        run = memory.care.accept_rewording(found, rows).run if rows else ""
        back = f"; `vade undo {run}` reverts it"
        said = f"{output.plural(len(rows), 'change')} written{back}" if run else "nothing was changed"
    output.tell(as_json, said, to_json.reworded_json, found, run=run, waiting=waiting)
    return int(found.refused is not None)


def ask_rows(found: Rewording) -> list[int]:
    """The rows that a person accepts, asked one by one; what was dropped or invented is always asked."""
    accepted: list[int] = []
    everything = False
    for number, at in enumerate(found.open, 1):
        row = found.rows[at]
        output.line(f"\n[{number}/{len(found.open)}] {row.kind}{f': {row.warning}' if row.warning else ''}")
        with output.revealed():
            output.line(spelled(row.shown))
        if everything and row.kind == "reworded":
            accepted.append(at)
            continue
        click.echo("y accept · n keep the original · a accept all rewordings · q quit ? ", nl=False)
        answer = read_key("ynaq")
        click.echo(answer)
        if answer == "q":
            return []
        everything = everything or answer == "a"
        if answer in "ya":
            accepted.append(at)
    return accepted


def show_compacted(found: Rewritten, *, applied: bool) -> None:
    """What became, or would become, of each topic, for a person."""
    for proposal in found.outcome.proposals:
        output.line(f"{proposal.where}: {proposal.why}")
        output.line("\n".join(f"  {line}" for line in proposal.article.split("\n")))
    for refusal in found.refused:
        output.line(f"refused: {refusal.path}: {refusal.why}")
    for finding in found.outcome.findings:
        output.line(f"left alone: {finding.where}: {finding.why}")
    nothing = "nothing was changed" if found.refused else "nothing to do"
    dry = "nothing was changed; `vade compact --apply` asks the model again and writes the result"
    output.line(ending(found.outcome, applied=applied, nothing=nothing, dry=dry))
    show_left(found.outcome.told)


@click.command()
@scope_option("Only the journal of this scope: project, agent or global.")
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@common
def promote(scope: str | None, apply: bool, as_json: bool, door: Door) -> int:
    """Save statements that journals or sessions repeat.

    They become records, or lines of MEMORY.md.
    """
    with output.progress(stopped(apply)):
        found = door().care.promote(scope=scope, apply=apply)
    output.tell(as_json, partial(show_promoted, found, applied=apply), to_json.promoted_json, found)
    return int(bool(found.outcome.skipped))


def show_promoted(found: Promoted, *, applied: bool) -> None:
    """What is worth keeping, and from where, for a person."""
    for each in found.promotions:
        output.line(f"{each.path} · {each.why} · {each.origin}")
        output.line(f"  {each.text}")
        output.line(f"  from {', '.join(each.sources)}")
    for finding in found.outcome.findings:
        output.line(f"left alone: {finding.where}: {finding.why}")
    for note in found.notes:
        output.line(note)
    dry = "nothing was changed; `vade promote --apply` makes the changes"
    output.line(ending(found.outcome, applied=applied, nothing="nothing to do", dry=dry))
    show_left(found.outcome.told)
