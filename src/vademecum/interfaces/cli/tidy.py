"""`vade tidy` runs the clean-up passes: sweep, heal, promote, prune and compact."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from vademecum.interfaces.cli.options import (
    NOTHING,
    common,
    complete_keys,
    read_key,
    run_confirmed,
    scope_option,
    stop_message,
)
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import format_ending, show_outcome, show_skipped
from vademecum.text import spelled
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.values import PromotionOutcome, Rewording, RewriteOutcome, RunOutcome


class TidyOptions(NamedTuple):
    """The options of one call of `vade tidy`."""

    scope: str | None
    apply: bool
    yes: bool
    aggressive: bool
    key: str | None
    model: str | None


class PartResult(NamedTuple):
    """The result of one part: its value for JSON, whether an edit was left undone, and how to print it."""

    value: Any
    failed: bool
    show: Callable[[], None]


def sweep(memory: Memory, options: TidyOptions) -> PartResult:
    """Archive old, expired and duplicate records."""
    run = partial(memory.care.sweep, scope=options.scope)
    return _make_result("sweep", run_confirmed(run, apply=options.apply, yes=options.yes), options)


def heal(memory: Memory, options: TidyOptions) -> PartResult:
    """Fix what `vade check` finds, without deleting text."""
    with output.progress(stop_message(options.apply)):
        outcome = memory.care.heal(scope=options.scope, apply=options.apply, aggressive=options.aggressive)
    return _make_result("heal", outcome, options)


def promote(memory: Memory, options: TidyOptions) -> PartResult:
    """Save statements that journals or sessions repeat."""
    with output.progress(stop_message(options.apply)):
        found = memory.care.promote(scope=options.scope, apply=options.apply)
    show = partial(show_promoted, found, applied=options.apply)
    return PartResult(found, bool(found.outcome.skipped), show)


def prune(memory: Memory, options: TidyOptions) -> PartResult:
    """Archive unconfirmed lessons."""
    run = partial(memory.knowledge.prune, scope=options.scope)
    return _make_result("prune", run_confirmed(run, apply=options.apply, yes=options.yes), options)


def compact(memory: Memory, options: TidyOptions) -> PartResult:
    """Merge the entries of a topic with a language model."""
    with output.progress(stop_message(options.apply)) as step:
        found = memory.care.compact(
            options.key, scope=options.scope, model=options.model, apply=options.apply, progress=step
        )
    failed = bool(found.refused) and not found.outcome.proposals
    show = partial(show_compacted, found, applied=options.apply)
    return PartResult(found, failed or bool(found.outcome.skipped), show)


def _make_result(part: str, outcome: RunOutcome, options: TidyOptions) -> PartResult:
    """Return the result of a part whose value is a plain outcome."""
    failed = any(not edit.done for edit in outcome.results)
    show = partial(show_outcome, outcome, applied=options.apply, command=f"vade tidy --only {part}")
    return PartResult(outcome, failed, show)


PARTS: dict[str, Callable[[Memory, TidyOptions], PartResult]] = {
    "sweep": sweep,
    "heal": heal,
    "promote": promote,
    "prune": prune,
    "compact": compact,
}
_DEFAULT = ("sweep", "heal", "promote", "prune")  # compact asks a model, so it runs only when it is named


@click.command()
@click.option("--only", type=click.Choice([*PARTS]), multiple=True, help="Only this part; repeatable.")
@scope_option("Only this scope.")
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@click.option("--yes", is_flag=True, help="Do not ask, even for large changes.")
@click.option("--aggressive", is_flag=True, help="With heal: also reset usage counters that look inflated.")
@click.option("--model", metavar="NAME", help="With --only compact: the language model, as provider:name.")
@click.option(
    "--key",
    metavar="KEY|NUM",
    shell_complete=complete_keys,
    help="With --only compact: only this record, even if protected.",
)
@click.option(
    "--reword",
    is_flag=True,
    help="With --only compact --key: let the model suggest new wording, which you accept one by one.",
)
@common
def tidy(
    *,
    only: tuple[str, ...],
    scope: str | None,
    apply: bool,
    yes: bool,
    aggressive: bool,
    model: str | None,
    key: str | None,
    reword: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> int:
    """Archive old and duplicate records, and fix problems.

    The parts are sweep (archive old, expired and duplicate records), heal (fix what `vade check` finds),
    promote (save what the journal repeats), prune (archive unconfirmed lessons) and compact (merge the
    entries of a topic; only with --only compact). `vade undo` reverts each part that changed something.

    compact asks a language model for a plan only: every statement stays word for word, and a plan that drops
    one is rejected.
    """
    if model and "compact" not in only:
        raise click.UsageError("--model requires --only compact.")
    if key and only != ("compact",):
        raise click.UsageError("--key requires --only compact.")
    if aggressive and only and "heal" not in only:
        raise click.UsageError("--aggressive requires heal among the parts.")
    if reword:
        if key is None or apply:
            raise click.UsageError(
                "--reword requires --only compact --key, and asks before each change; do not pass --apply."
            )
        return reword_record(open_memory(), key, scope, model, as_json=as_json)
    memory = open_memory()
    options = TidyOptions(scope, apply, yes, aggressive, key, model)
    chosen = [part for part in PARTS if part in (only or _DEFAULT)]
    if not only and scope and not Scope(scope).rule.journal:
        chosen.remove("promote")
    results = {}
    for part in chosen:
        if not as_json and len(chosen) > 1:
            output.line(f"{part}:")
        results[part] = result = PARTS[part](memory, options)
        if not as_json:
            result.show()
    if as_json:
        output.as_json(to_json.tidied_json, **{part: result.value for part, result in results.items()})
    return int(any(result.failed for result in results.values()))


def reword_record(memory: Memory, key: str, scope: str | None, model: str | None, *, as_json: bool) -> int:
    """Show new wording for a record and write what a person accepts; without a person, it stays pending."""
    from vademecum.memory.opening import has_terminal

    with output.progress(NOTHING):
        found = memory.care.reword(key, scope=scope, model=model)
    waiting, run = "", ""
    if found.refused is not None:
        message = f"refused: {found.seen.record.path}: {found.refused.why}; nothing was changed"
    elif not found.open:
        message = "the model changed no statement; nothing was changed"
    elif as_json or memory.caller.undecided or not has_terminal():
        waiting = memory.care.leave_rewording(found).short
        message = f"{found.changes}\nnothing was changed; pending as {waiting}: `vade review`"
    else:
        rows = ask_rows(found)
        run = memory.care.accept_rewording(found, rows).run if rows else ""
        back = f"; `vade undo {run}` reverts it"
        message = f"{output.plural(len(rows), 'change')} written{back}" if run else "nothing was changed"
    if as_json:
        output.as_json(to_json.tidied_json, reword=to_json.reworded_json(found, run=run, waiting=waiting))
    else:
        output.line(message)
    return int(found.refused is not None)


def ask_rows(found: Rewording) -> list[int]:
    """Return the rows that a person accepts; dropped or invented statements are always asked about."""
    accepted: list[int] = []
    everything = False
    for number, at in enumerate(found.open, 1):
        row = found.rows[at]
        output.line(f"\n[{number}/{len(found.open)}] {row.kind}{f': {row.warning}' if row.warning else ''}")
        with output.show_secrets():
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


def show_compacted(found: RewriteOutcome, *, applied: bool) -> None:
    """Print what was, or would be, merged in each topic."""
    for proposal in found.outcome.proposals:
        output.line(f"{proposal.where}: {proposal.why}")
        output.line("\n".join(f"  {line}" for line in proposal.article.split("\n")))
    for refusal in found.refused:
        output.line(f"refused: {refusal.path}: {refusal.why}")
    for finding in found.outcome.findings:
        output.line(f"left alone: {finding.where}: {finding.why}")
    nothing = "nothing was changed" if found.refused else "nothing to do"
    dry = "nothing was changed; `vade tidy --only compact --apply` asks the model again and writes the result"
    output.line(format_ending(found.outcome, applied=applied, nothing=nothing, dry=dry))
    show_skipped(found.outcome.results)


def show_promoted(found: PromotionOutcome, *, applied: bool) -> None:
    """Print the statements worth saving, and where they come from."""
    for promotion in found.promotions:
        output.line(f"{promotion.path} · {promotion.why} · {promotion.origin}")
        output.line(f"  {promotion.text}")
        output.line(f"  from {', '.join(promotion.sources)}")
    for finding in found.outcome.findings:
        output.line(f"left alone: {finding.where}: {finding.why}")
    for note in found.notes:
        output.line(note)
    dry = "nothing was changed; `vade tidy --only promote --apply` makes the changes"
    output.line(format_ending(found.outcome, applied=applied, nothing="nothing to do", dry=dry))
    show_skipped(found.outcome.results)
