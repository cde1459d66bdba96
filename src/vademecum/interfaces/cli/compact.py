"""The command that lets a language model tidy up topics, and shows what it made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common, complete_keys, scope_option
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import compacted_json
from vademecum.interfaces.present.to_text import show_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.lifecycle.rewrite import Compacted
    from vademecum.memory import Memory

    Door = Callable[[], Memory]


@click.command()
@scope_option("Only the records of this scope.")
@click.option(
    "--key", metavar="KEY|NUM", shell_complete=complete_keys, help="Only this record, even if protected."
)
@click.option("--model", metavar="NAME", help="The language model, as provider:name.")
@click.option("--apply", is_flag=True, help="Write it; without, it is only shown.")
@common
def compact(
    *, scope: str | None, key: str | None, model: str | None, apply: bool, as_json: bool, door: Door
) -> int:
    """Let a language model merge the entries of a topic into one; nothing it drops goes unnoticed."""
    with output.progress() as step:
        found = door().compact(key, scope=scope, model=model, apply=apply, progress=step)
    if as_json:
        output.as_json(compacted_json(found, applied=apply))
    else:
        show_compacted(found, applied=apply)
    failed = bool(found.refused) and not found.outcome.proposals
    return int(failed or bool(found.outcome.skipped))


def show_compacted(found: Compacted, *, applied: bool) -> None:
    """What became, or would become, of each topic, for a person."""
    from vademecum.lifecycle.rewrite import article_of

    for proposal in found.outcome.proposals:
        output.line(f"{proposal.where}: {proposal.why}")
        output.line("\n".join(f"  {line}" for line in article_of(proposal).split("\n")))
    for refusal in found.refused:
        output.line(f"refused: {refusal.path}: {refusal.why}")
    for finding in found.outcome.findings:
        output.line(f"left alone: {finding.where}: {finding.why}")
    done = sum(each.done for each in found.outcome.told)
    if not found.outcome.proposals:
        output.line("nothing was changed" if found.refused else "nothing to do")
    elif not applied:
        output.line("nothing was changed; `vade compact --apply` asks again and writes what it gets")
    else:
        back = f"; `vade undo {found.outcome.run}` takes it back" if found.outcome.run else ""
        output.line(f"changed {output.plural(done, 'file')}{back}")
        show_left(found.outcome.told)


COMMANDS = {"compact": compact}
