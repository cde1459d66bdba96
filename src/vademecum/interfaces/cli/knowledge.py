"""Commands about what was learned: keep it, look at it, vouch for it, put away what has grown old."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.keep import TextCommand, read_text, tell_swept, warn_of_secrets
from vademecum.interfaces.cli.options import (
    SCOPES,
    common,
    complete_keys,
    confirmed,
    key_argument,
    scope_option,
)
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import merged_json, outcome_json, swept_json
from vademecum.interfaces.present.to_text import figures_row, show_lessons, show_merged, show_outcome
from vademecum.store.outgoing import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.knowledge.trust import Waiting
    from vademecum.memory import Memory

    Door = Callable[[], Memory]

LEARNED = click.Choice(["discovery", "solution", "pattern", "workflow", "failure", "rule"])
# The field that TEXT is, when it is given; the steps of a workflow are each given on their own.
_MAIN = {"discovery": "fact", "solution": "error", "pattern": "pattern", "failure": "what", "rule": "rule"}


@click.command(cls=TextCommand)
@click.argument("kind", metavar="TYPE", type=LEARNED)
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option("--error", help="solution: what goes wrong; TEXT, unless given here.")
@click.option("--solution", help="solution: what mends it.")
@click.option("--step", "sequence", multiple=True, help="workflow: a step; given several times, in order.")
@click.option("--success-rate", type=click.FloatRange(0, 1), help="workflow: how often it works, 0 to 1.")
@click.option("--impact", help="failure: what came of it.")
@click.option("--prevention", help="failure: how to keep it from happening.")
@click.option("--path", help="rule: the beginning of the paths it holds for; none is everywhere.")
@click.option(
    "--example", "examples", multiple=True, help="A path that shows it; may be given several times."
)
@click.option("--confidence", type=click.FloatRange(0, 1), help="How sure it is, from 0 to 1.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="Where it is kept.")
@common
def learn(
    *,
    kind: str,
    text: str | None,
    examples: tuple[str, ...],
    confidence: float | None,
    tags: tuple[str, ...],
    scope: str,
    as_json: bool,
    door: Door,
    **given: Any,
) -> None:
    """Keep something learned: a discovery, solution, pattern, workflow, failure or rule.

    TEXT is the fact, the error, the pattern, what failed, or the rule; `-` reads it from standard input. What
    is known already is confirmed: it counts, it is surer, and the newer wording stands.
    """
    memory = door()
    fields = {name: list(value) if name == "sequence" else value for name, value in given.items() if value}
    if given.get("success_rate") is not None:
        fields["success_rate"] = given["success_rate"]
    if text is not None:
        if kind not in _MAIN or _MAIN[kind] in fields:
            raise click.UsageError(f"a {kind} takes no TEXT here: {text!r}")
        fields[_MAIN[kind]] = read_text(text)
    stored = memory.learn(kind, scope=scope, confidence=confidence, examples=examples, tags=tags, **fields)
    record = memory.show(stored.id or stored.key)
    if as_json:
        output.as_json(
            {
                "outcome": str(stored.outcome),
                "key": stored.key,
                "num": stored.num,
                "id": stored.id,
                "scope": str(stored.place.scope),
                "scope_id": stored.place.id or None,
                "path": stored.path,
                "confidence": record.confidence,
                "trust": str(memory.trust_of(record).level),
                "secrets": list(stored.secrets),
                "swept": swept_json(stored.swept),
                "merged": merged_json(stored.merged),
            }
        )
        return
    words = {"created": "learned as", "confirmed": "confirmed", "consolidated": "confirmed, in newer words,"}
    said = words.get(str(stored.outcome), "added to")
    sure = "" if record.confidence is None else f", confidence {record.confidence:.2f}"
    output.line(f"{said} {stored.key} (#{stored.num}, {stored.place.scope}{sure})")
    show_merged(stored.merged)
    tell_swept(stored.swept, memory)
    warn_of_secrets(stored.secrets, memory, stored.place.scope)


@click.group(invoke_without_command=True)
@common
@click.pass_context
def knowledge(ctx: click.Context, as_json: bool, door: Door) -> None:
    """Look at what was learned: alone it lists it, as `vade knowledge list` does."""
    if ctx.invoked_subcommand is None:
        show_lessons(door(), None, None, as_json=as_json)


@knowledge.command("list")
@click.option("--type", "kind", type=LEARNED, help="Only this type.")
@scope_option("Only this scope.")
@common
def list_(kind: str | None, scope: str | None, as_json: bool, door: Door) -> None:
    """List what was learned, in the order in which an agent is told it.

    The score is confidence × age × type × use, and less for what nobody confirmed. [unverified] is one
    agent's word; [waiting] is not told to agents before a person has run `vade verify`.
    """
    show_lessons(door(), kind, scope, as_json=as_json)


@knowledge.command()
@key_argument()
@scope_option("Where it is kept.")
@common
def applied(key: str, scope: str | None, as_json: bool, door: Door) -> None:
    """Count that a solution, or another lesson, was of use; what is used more is told earlier."""
    record = door().applied(key, scope=scope)
    count = record.fields.get("applied", 0)
    if as_json:
        output.as_json({"key": record.key, "num": record.num, "applied": count})
    else:
        output.line(f"{record.key} was of use {output.plural(count, 'time')}")


@knowledge.command()
@scope_option("Only this scope.")
@common
def stats(scope: str | None, as_json: bool, door: Door) -> None:
    """Count what was learned: how many, how old, how large and how sure, per scope and type."""
    found = door().knowledge_stats(scope=scope)
    if as_json:
        output.as_json(
            {
                "total": asdict(found.total),
                "by_scope": {name: asdict(each) for name, each in found.by_scope.items()},
                "by_type": {name: asdict(each) for name, each in found.by_type.items()},
                "by_scope_and_type": {
                    name: {kind: asdict(each) for kind, each in some.items()}
                    for name, some in found.by_scope_and_type.items()
                },
            }
        )
        return
    rows = [
        figures_row(scope_name, kind, each)
        for scope_name, some in found.by_scope_and_type.items()
        for kind, each in some.items()
    ]
    rows += [figures_row(name, "all", each) for name, each in found.by_scope.items()]
    rows.append(figures_row("all", "all", found.total))
    output.table(
        rows, ["scope", "type", "count", "sure", "newest", "oldest", "average", "bytes", "used", "trust"]
    )


@knowledge.command()
@click.option("--max-age-days", type=click.IntRange(0), help="Unconfirmed for longer; 0 is never.")
@click.option("--min-confidence", type=click.FloatRange(0, 1), help="Believed less than this.")
@scope_option("Only this scope.")
@click.option("--apply", is_flag=True, help="Do it; without, it is only told.")
@click.option("--yes", is_flag=True, help="Do not ask, however much would go.")
@common
def prune(
    *,
    max_age_days: int | None,
    min_confidence: float | None,
    scope: str | None,
    apply: bool,
    yes: bool,
    as_json: bool,
    door: Door,
) -> int:
    """Put away what was learned and is too old or no longer believed; the archive keeps it.

    What a person verified or protects stays. `vade undo` brings it back.
    """
    memory = door()
    given: dict[str, Any] = {"max_age_days": max_age_days, "min_confidence": min_confidence, "scope": scope}
    outcome = memory.prune_knowledge(**given)
    if apply and outcome.proposals:
        if outcome.large:
            confirmed(f"{outcome.large}. Go on?", yes=yes)
        outcome = memory.prune_knowledge(**given, apply=True, large=True)
    if as_json:
        output.as_json(outcome_json(outcome, applied=apply))
    else:
        show_outcome(outcome, applied=apply, command="vade knowledge prune")
    return int(any(not each.done for each in outcome.told))


@knowledge.command("import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="Where it is kept.")
@common
def import_(path: str, scope: str, as_json: bool, door: Door) -> None:
    """Keep what an ltm.json of CLIO holds; read again, it adds nothing twice.

    What is imported can be searched, and is not told to agents before a person has run `vade verify`.
    """
    memory = door()
    done = memory.import_ltm(path, scope=scope)
    if as_json:
        output.as_json(
            {
                "added": done.added,
                "updated": done.updated,
                "known": done.known,
                "secrets": list(done.secrets),
                "findings": [
                    {"what": each.what, "where": each.where, "why": each.why} for each in done.findings
                ],
            }
        )
        return
    added, updated = len(done.added), len(done.updated)
    output.line(f"{output.plural(added, 'lesson')} added, {updated:,} updated, {done.known:,} known already")
    for each in done.findings:
        output.line(f"{each.what}: {each.where}: {each.why}")
    warn_of_secrets(done.secrets, memory, scope)


@knowledge.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="What is written.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@common
def export(path: str, scope: str, force: bool, as_json: bool, door: Door) -> None:
    """Write what was learned as an ltm.json that CLIO can read; a file read before comes out as it was."""
    written = door().export_ltm(path, scope=scope, force=force)
    output.as_json({"path": str(written)}) if as_json else output.line(f"wrote {written}")


@click.command()
@click.argument("names", metavar="[KEY|NUM|DOCUMENT|JOURNAL|GLOB]...", nargs=-1, shell_complete=complete_keys)
@scope_option("Where it is kept.")
@click.option("--run", metavar="RUN", help="Everything that came with this run, such as an import.")
@click.option("--source", metavar="SOURCE", help="Everything from this system, such as openclaw.")
@click.option("--all", "everything", is_flag=True, help="Everything that waits.")
@click.option("--off", is_flag=True, help="Take your word back.")
@click.option("--list", "listed", is_flag=True, help="Show what waits for your word instead.")
@click.option("--yes", is_flag=True, help="Do not ask when it is more than was named.")
@common
def verify(
    names: tuple[str, ...],
    scope: str | None,
    *,
    run: str | None,
    source: str | None,
    everything: bool,
    off: bool,
    listed: bool,
    yes: bool,
    as_json: bool,
    door: Door,
) -> None:
    """Vouch for what records, pinned documents or journal files say, exactly as it stands.

    Agents are then told it, wherever it came from. A text that is edited afterwards is another text.
    `vade review` shows each text and asks.
    """
    many = everything or run is not None or source is not None or any(_is_glob(each) for each in names)
    if listed and (names or many or off):
        raise click.UsageError("Give --list alone to see what waits.")
    if not listed and not names and not many:
        raise click.UsageError(
            "Name what you vouch for, or give --run, --source or --all; --list shows what waits."
        )
    if off and many:
        raise click.UsageError("--off goes with names; `vade undo` takes back what was verified together.")
    memory = door()
    if listed:
        _show_waiting(list(memory.waiting(scope=scope)), as_json=as_json)
        return
    if many:
        _verify_many(
            memory, names, scope, run=run, source=source, everything=everything, yes=yes, as_json=as_json
        )
        return
    done = []
    for name in names:
        memory.verifiable(name, scope=scope)  # all of them, before the first is decided about
    for name in names:
        entries = memory.verify(name, scope=scope, on=not off)
        done.append({"key": name, "verified": not off, "texts": [each.text for each in entries]})
        if not as_json:
            output.line(
                f"{name}: {output.plural(len(entries), 'text')} {'no longer ' if off else ''}verified"
            )
            for each in entries:
                output.line("\n".join(f"  {line}" for line in each.text.split("\n")))
    if as_json:
        output.as_json(done[0] if len(done) == 1 else {"verified": done})


def _is_glob(name: str) -> bool:
    return any(each in name for each in "*?[")


def _verify_many(
    memory: Memory, names: tuple[str, ...], scope: str | None, *, yes: bool, as_json: bool, **given: Any
) -> None:
    """Verify what waits and is meant, as one sitting, after a question that says how much it is."""
    items = memory.selected(names, scope=scope, **given)
    if not items:
        output.as_json({"verified": [], "run": None}) if as_json else output.line("nothing waits")
        return
    confirmed(f"Verify {output.plural(len(items), 'text')} without looking at each of them?", yes=yes)
    with output.progress() as step:
        sitting, decided = memory.decide(items, yes=True, progress=step)
    done = [each for each in decided if each.done]
    left = [each for each in decided if not each.done]
    if as_json:
        output.as_json(
            {
                "verified": [{"key": each.item.name, "path": each.item.path} for each in done],
                "left": [{"path": each.item.path, "why": each.why} for each in left],
                "run": sitting,
            }
        )
        return
    output.line(f"{output.plural(len(done), 'text')} verified; `vade undo {sitting}` takes it back")
    for each in left:
        output.line(f"left: {each.item.path}: {each.why}")


def _show_waiting(waiting: list[Waiting], *, as_json: bool) -> None:
    if as_json:
        output.as_json({"waiting": [each._asdict() for each in waiting]})
        return
    for each in waiting:
        first = next(iter(clean_text(each.text).strip().split("\n")), "")
        output.line(f"{each.name}: {first[:120]}")
        output.line(f"  {each.why}; {each.path}")
    count = output.plural(len(waiting), "text")
    output.line(f"{count} for `vade review` or `vade verify`" if waiting else "nothing waits")


COMMANDS = {"learn": learn, "knowledge": knowledge, "verify": verify}
