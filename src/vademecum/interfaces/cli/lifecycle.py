"""Commands that tidy memory up, and the one that takes a run back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common, confirmed, scope_option
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import outcome_json, told_json
from vademecum.interfaces.present.to_text import show_left, show_outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.memory import Memory
    from vademecum.store.runs import Brief

    Door = Callable[[], Memory]


@click.command()
@click.option("--apply", is_flag=True, help="Do it; without, it is only told.")
@scope_option("Only the records of this scope.")
@click.option("--yes", is_flag=True, help="Do not ask, however much would go.")
@common
def sweep(apply: bool, scope: str | None, yes: bool, as_json: bool, door: Door) -> int:
    """Put away what is old, expired, said twice or too much; `vade undo` brings it back."""
    memory = door()
    outcome = memory.sweep(scope=scope)
    if apply and (outcome.proposals or outcome.deleted):
        if outcome.large:
            confirmed(f"{outcome.large}. Go on?", yes=yes)
        if outcome.deleted:
            asked = (
                f"Delete {output.plural(len(outcome.deleted), 'old file')} of the archive and audit for good?"
            )
            confirmed(asked, yes=yes)
        outcome = memory.sweep(apply=True, scope=scope, large=True)
    if as_json:
        output.as_json(outcome_json(outcome, applied=apply))
    else:
        show_outcome(outcome, applied=apply)
    return int(any(not each.done for each in outcome.told))


@click.command()
@click.argument("key")
@scope_option("Only look in this scope.")
@common
def split(key: str, scope: str | None, as_json: bool, door: Door) -> int:
    """Take back the last merge of a record: both statements stand again, each in its own record."""
    outcome = door().split(key, scope=scope)
    if as_json:
        output.as_json(outcome_json(outcome, applied=True))
    else:
        for proposal in outcome.proposals:
            output.line(proposal.why)
        if outcome.run:
            output.line(f"`vade undo {outcome.run}` takes it back")
        show_left(outcome.told)
    return int(bool(outcome.skipped))


@click.command()
@click.argument("run", required=False)
@click.option("--list", "listed", is_flag=True, help="Show the runs instead.")
@common
def undo(run: str | None, listed: bool, as_json: bool, door: Door) -> int:
    """Bring back, byte for byte, what a run changed: the newest one, or the one named."""
    memory = door()
    if listed:
        if run is not None:
            raise click.UsageError("Give either a RUN or --list.")
        show_runs(list(memory.runs()), as_json=as_json)
        if not as_json:
            memory.saw_notices()
        return 0
    undone, told = memory.undo(run)
    if as_json:
        output.as_json({"run": undone, "files": [told_json(each) for each in told]})
    else:
        brought = sum(each.done for each in told)
        output.line(
            f"undid {undone}: {output.plural(brought, 'file')}" if told else f"{undone} is undone already"
        )
        for each in told:
            if each.done and each.why:
                output.line(f"{each.path}: {each.why}")
        show_left(told)
    return int(any(not each.done for each in told))


def show_runs(runs: list[Brief], *, as_json: bool) -> None:
    """The runs there are, newest first."""
    if as_json:
        rows = [
            {"run": each.run, "what": each.what, "at": each.at, "edits": each.edits, "undone": each.undone}
            for each in runs
        ]
        output.as_json({"runs": rows})
    elif runs:
        cells = [[each.run, each.what, str(each.edits), output.age(each.at), _state(each)] for each in runs]
        output.table(cells, ["run", "what", "edits", "age", "state"])
    else:
        output.line("there are no runs yet")


def _state(run: Brief) -> str:
    return "undone" if run.undone else "undone in part" if run.tried else ""


COMMANDS = {"sweep": sweep, "split": split, "undo": undo}
