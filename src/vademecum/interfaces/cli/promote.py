"""The command that moves what the journal repeats into curated memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common, scope_option
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import promoted_json
from vademecum.interfaces.present.to_text import show_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.lifecycle.promote import Promoted
    from vademecum.memory import Memory

    Door = Callable[[], Memory]


@click.command()
@scope_option("Only the journal of this scope: project, agent or global.")
@click.option("--apply", is_flag=True, help="Do it; without, it is only told.")
@common
def promote(scope: str | None, apply: bool, as_json: bool, door: Door) -> int:
    """Make records, or lines of MEMORY.md, of what the journal repeats or sessions recall repeatedly."""
    found = door().promote(scope=scope, apply=apply)
    if as_json:
        output.as_json(promoted_json(found, applied=apply))
    else:
        show_promoted(found, applied=apply)
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
    if not found.promotions:
        output.line("nothing to do")
    elif not applied:
        output.line("nothing was changed; `vade promote --apply` does it")
    else:
        done = sum(each.done for each in found.outcome.told)
        back = f"; `vade undo {found.outcome.run}` takes it back" if found.outcome.run else ""
        output.line(f"changed {output.plural(done, 'file')}{back}")
        show_left(found.outcome.told)


COMMANDS = {"promote": promote}
