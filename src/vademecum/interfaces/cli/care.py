"""Commands that find problems, merge and split records, and undo a run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import (
    NOTHING,
    common,
    scope_option,
)
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import show_lint, show_outcome, show_skipped

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory.values import Brief
    from vademecum.types import Finding


@click.command()
@click.argument("key")
@scope_option("Only look in this scope.")
@common
def split(key: str, scope: str | None, as_json: bool, open_memory: OpenMemory) -> int:
    """Undo the last merge of a record.

    Each statement becomes its own record again.
    """
    outcome = open_memory().care.split(key, scope=scope)
    if as_json:
        output.as_json(to_json.outcome_json, outcome)
    else:
        for proposal in outcome.proposals:
            output.line(proposal.why)
        if outcome.run:
            output.line(f"`vade undo {outcome.run}` reverts it")
        show_skipped(outcome.results)
    return int(bool(outcome.skipped))


@click.command()
@click.argument("key", required=False, metavar="[KEY|PATH]")
@scope_option("Only look in this scope.")
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@common
def merge(key: str | None, scope: str | None, apply: bool, as_json: bool, open_memory: OpenMemory) -> int:
    """Merge conflict copies that a sync tool left.

    Keeps every entry of every version, and archives each version; `vade undo` reverts it.
    """
    outcome = open_memory().care.merge(key, scope=scope, apply=apply)
    show = partial(show_outcome, outcome, applied=apply, command="vade merge")
    output.show(as_json, show, to_json.outcome_json, outcome)
    return int(any(not result.done for result in outcome.results))


@click.command()
@click.argument("run", required=False)
@click.option("--list", "listed", is_flag=True, help="List the runs.")
@common
def undo(run: str | None, listed: bool, as_json: bool, open_memory: OpenMemory) -> int:
    """Undo a whole run; `vade restore` is for one record.

    Restores, byte for byte, what the latest run changed, or the one you name.
    """
    memory = open_memory()
    if listed:
        if run is not None:
            raise click.UsageError("Give either a RUN or --list.")
        show_runs(list(memory.care.runs()), as_json=as_json)
        if not as_json:
            memory.care.saw_notices()
        return 0
    with output.progress("what was restored stays; run `vade undo` again for the rest") as step:
        undone, results = memory.care.undo(run, progress=step)
    if as_json:
        output.as_json(to_json.undone_json, run=undone, files=results)
    else:
        restored = sum(result.done for result in results)
        output.line(
            f"undid {undone}: {output.plural(restored, 'change')}"
            if results
            else f"{undone} is already undone"
        )
        for each in results:
            if each.done and each.why:
                output.line(f"{each.path}: {each.why}")
        show_skipped(results)
    return int(any(not result.done for result in results))


def show_runs(runs: list[Brief], *, as_json: bool) -> None:
    """Print the runs, newest first."""
    if as_json:
        output.as_json(to_json.runs_json, runs=runs)
    elif runs:
        cells = [[run.run, run.what, str(run.edits), output.age(run.at), _state(run)] for run in runs]
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
def check(
    *,
    scope: str | None,
    form: str,
    seconds: float,
    llm: bool,
    model: str | None,
    as_json: bool,
    open_memory: OpenMemory,
) -> int:
    """Find problems; change nothing.

    Exits with 1 when there are errors.
    """
    with output.progress(NOTHING):
        found = open_memory().care.lint(scope=scope, seconds=seconds, model=model or llm)
    if as_json or form == "json":
        errors, warnings = (sum(each.severity == name for each in found) for name in ("error", "warning"))
        output.as_json(to_json.lint_json, findings=found, errors=errors, warnings=warnings)
    elif form == "github":
        for finding in found:
            output.line(format_annotation(finding))
    else:
        show_lint(found)
    return int(any(finding.severity == "error" for finding in found))


def format_annotation(finding: Finding) -> str:
    """Return a finding as a GitHub workflow annotation."""
    path, first, last = to_json.place_of(finding)
    where = f"file={_escape_property(path)}" + (f",line={first},endLine={last}" if first else "")
    message = f"{finding.why}. Fix: {finding.mend}" if finding.mend else finding.why
    level, title = _LEVELS[finding.severity], _escape_property(finding.what)
    return f"::{level} {where},title={title}::{_escape_message(message)}"


def _escape_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")
