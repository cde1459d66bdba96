"""Commands for lessons, the profile, suggestions and the graph of links."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.add import TextCommand, print_swept, read_text, warn_of_secrets
from vademecum.interfaces.cli.options import (
    SCOPES,
    common,
    confirm,
    key_argument,
    run_confirmed,
    scope_option,
)
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import format_figures, show_lessons, show_merged, show_outcome
from vademecum.types import LEARNED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.values import EditResult, Graph, ProfileDraft, Signal, SignalReading

LESSON = click.Choice([*map(str, LEARNED)])
# The field of a lesson that TEXT fills; a workflow takes --step instead.
_MAIN = {"discovery": "fact", "solution": "error", "pattern": "pattern", "failure": "what", "rule": "rule"}


def save_lesson(
    memory: Memory,
    kind: str,
    text: str | None,
    *,
    examples: tuple[str, ...],
    fields: Mapping[str, Any],
    tags: tuple[str, ...],
    scope: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Save a lesson, and print the result."""
    parts: dict[str, Any] = {
        name: list(value) if name == "sequence" else value for name, value in given.items() if value
    }
    if given.get("success_rate") is not None:
        parts["success_rate"] = given["success_rate"]
    if text is not None:
        if kind not in _MAIN or _MAIN[kind] in parts:
            raise click.UsageError(f"a {kind} takes no TEXT here: {text!r}")
        parts[_MAIN[kind]] = read_text(text)
    stored = memory.knowledge.learn(
        kind, scope=scope, examples=examples, tags=tags, record_fields=fields, **parts
    )
    record = memory.show(stored.id or stored.key)
    if as_json:
        level = memory.review.trust_of(record).level
        output.as_json(to_json.learned_json, stored, confidence=record.confidence, trust=level)
        return
    words = {
        "created": "learned as",
        "confirmed": "confirmed",
        "consolidated": "confirmed, with new wording,",
    }
    verb = words.get(str(stored.outcome), "added to")
    sure = "" if record.confidence is None else f", confidence {record.confidence:.2f}"
    output.line(f"{verb} {stored.key} (#{stored.num}, {stored.place.scope}{sure})")
    show_merged(stored.merged)
    print_swept(stored.swept, memory)
    warn_of_secrets(stored.secrets, memory, stored.place.scope)


@click.group(invoke_without_command=True)
@common
@click.pass_context
def knowledge(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """List lessons learned."""
    if ctx.invoked_subcommand is None:
        show_lessons(open_memory(), None, None, as_json=as_json)


@knowledge.command("list")
@click.option("--type", "kind", type=LESSON, help="Only this type.")
@scope_option("Only this scope.")
@common
def list_(kind: str | None, scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """List lessons, in the order agents see them.

    The score is confidence × age × type × use, lower for unconfirmed lessons. [unverified] comes from one
    agent; [waiting] is hidden from agents until you run `vade review verify`.
    """
    show_lessons(open_memory(), kind, scope, as_json=as_json)


@knowledge.command()
@key_argument()
@scope_option("The scope.")
@common
def applied(key: str, scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Record that a lesson helped; it ranks higher then."""
    record = open_memory().knowledge.applied(key, scope=scope)
    count = record.fields.get("applied", 0)
    text = f"{record.key} applied {output.plural(count, 'time')}"
    output.show(as_json, text, to_json.applied_json, record, applied=count)


@knowledge.command()
@scope_option("Only this scope.")
@common
def stats(scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Show the number, age, size and confidence of lessons."""
    found = open_memory().knowledge.stats(scope=scope)
    if as_json:
        output.as_json(to_json.stats_json, found)
        return
    rows = [
        format_figures(scope_name, kind, each)
        for scope_name, some in found.by_scope_and_type.items()
        for kind, each in some.items()
    ]
    rows += [format_figures(name, "all", each) for name, each in found.by_scope.items()]
    rows.append(format_figures("all", "all", found.total))
    output.table(
        rows,
        ["scope", "type", "count", "confidence", "newest", "oldest", "average", "bytes", "used", "trust"],
    )


@knowledge.command()
@click.option(
    "--max-age-days", type=click.IntRange(0), help="Archive lessons unconfirmed for this many days; 0 never."
)
@click.option(
    "--min-confidence", type=click.FloatRange(0, 1), help="Archive lessons with a lower confidence."
)
@scope_option("Only this scope.")
@click.option("--apply", is_flag=True, help="Make the changes; without it, they are only shown.")
@click.option("--yes", is_flag=True, help="Do not ask, even for large changes.")
@common
def prune(apply: bool, yes: bool, as_json: bool, open_memory: OpenMemory, **given: Any) -> int:
    """Archive lessons that are old or have low confidence.

    Verified and protected lessons stay. `vade undo` restores the others.
    """
    outcome = run_confirmed(partial(open_memory().knowledge.prune, **given), apply=apply, yes=yes)
    show = partial(show_outcome, outcome, applied=apply, command="vade knowledge prune")
    output.show(as_json, show, to_json.outcome_json, outcome)
    return int(any(not result.done for result in outcome.results))


@knowledge.command("import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="The scope.")
@common
def import_(path: str, scope: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Import lessons from CLIO's ltm.json.

    Importing a file again adds no duplicates. Imported lessons can be searched; agents see
    them after you run `vade review verify`.
    """
    memory = open_memory()
    done = memory.transfer.import_ltm(path, scope=scope)
    if as_json:
        output.as_json(to_json.lessons_imported_json, done)
        return
    added, updated = len(done.added), len(done.updated)
    output.line(f"{output.plural(added, 'lesson')} added, {updated:,} updated, {done.known:,} known already")
    for finding in done.findings:
        output.line(f"{finding.what}: {finding.where}: {finding.why}")
    warn_of_secrets(done.secrets, memory, scope)


@knowledge.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="The scope.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@common
def export(path: str, scope: str, force: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Export lessons as an ltm.json for CLIO."""
    written = open_memory().transfer.export_ltm(path, scope=scope, force=force)
    output.show(as_json, f"wrote {written}", to_json.path_json, path=written)


# The type and scope of each kind of suggestion: a preference holds everywhere, the others in the project.
_PLACES = {
    "preference": "--type user --scope global",
    "rule": "--type project",
    "correction": "--type feedback",
    "decision": "--type project",
    "fact": "--type project",
}


@click.command(cls=TextCommand)
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option("--before", metavar="TEXT", default="", help="What the agent said before the message.")
@click.option("--batch", is_flag=True, help="Read many messages from standard input, one JSON object a line.")
@common
def suggest(*, text: str | None, before: str, batch: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Suggest memories from a message.

    `-` reads the message from standard input. Nothing is written. --batch reads lines
    `{"before": …, "text": …}`, and prints for each a line `{"nudge": …, "signals": […]}`.
    """
    if batch == (text is not None):
        raise click.UsageError("give either TEXT or --batch")
    learning = open_memory().knowledge
    if batch:
        for number, line in enumerate(sys.stdin.buffer, 1):
            if line.strip():
                said, turn = _read_message(line, number)
                _print_judged(learning.suggest(said, before=turn))
        return
    reading = learning.suggest(read_text(text or ""), before=before)
    if as_json:
        output.as_json(to_json.suggested_json, reading, signals=_signals(reading))
        return
    for each in reading.signals:
        output.line(
            f"{each.kind} ({each.confidence:.2f}): {each.text}\n  {each.why}\n  {format_command(each)}"
        )
    if reading.declined is not None:
        output.line(f"nothing to save: {reading.declined}, it {reading.why}")


def _read_message(line: bytes, number: int) -> tuple[str, str]:
    """Return the text of a line of --batch, and the turn before it."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise click.UsageError(f"line {number} is not JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("text"), str):
        raise click.UsageError(f'line {number} is not an object with a string "text"')
    before = message.get("before") or ""
    if not isinstance(before, str):
        raise click.UsageError(f'line {number}: "before" is not a string')
    return message["text"], before


def _print_judged(reading: SignalReading) -> None:
    """Print the line of --batch for one message."""
    line = {"nudge": bool(reading.signals), "signals": _signals(reading)}
    click.echo(json.dumps(line, ensure_ascii=False))


def _signals(reading: SignalReading) -> list[dict[str, Any]]:
    return [to_json.signal_json(each, command=format_command(each)) for each in reading.signals]


def format_command(signal: Signal) -> str:
    """Return the shell command that saves a suggestion."""
    return f"vade add {shlex.quote(signal.text)} {_PLACES[signal.kind]} --tag {signal.kind}"


@click.group(invoke_without_command=True)
@common
@click.pass_context
def profile(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Show or draft your profile.

    Without a subcommand, it shows profile.md.
    """
    if ctx.invoked_subcommand is None:
        show_profile(open_memory(), as_json=as_json)


@profile.command("show")
@common
def show(as_json: bool, open_memory: OpenMemory) -> None:
    """Show profile.md, its size, and what agents see of it."""
    show_profile(open_memory(), as_json=as_json)


@profile.command("build")
@click.option("--apply", is_flag=True, help="Save it after you confirm; without it, it is only shown.")
@click.option("--yes", is_flag=True, help="Save it without asking.")
@common
def build(*, apply: bool, yes: bool, as_json: bool, open_memory: OpenMemory) -> int:
    """Draft your preferences from saved records."""
    if as_json and apply and not yes:
        raise click.UsageError("--json with --apply also requires --yes.")
    memory = open_memory()
    draft = memory.knowledge.draft_profile()
    if not as_json:
        show_draft(draft)
    run, result = "", None
    if apply and draft.new:
        if not as_json:
            confirm("Save this to profile.md?", yes=yes)
        run, result = memory.knowledge.keep_profile(draft)
    if as_json:
        why = result.why if result and not result.done else ""
        output.as_json(to_json.draft_json, draft, applied=bool(result and result.done), run=run, why=why)
    else:
        show_saved_draft(draft, run, result)
    return int(result is not None and not result.done)


def show_profile(memory: Memory, *, as_json: bool) -> None:
    """Print the profile, and how much of it is hidden from agents."""
    found = memory.knowledge.profile()
    if as_json and found is None:
        output.as_json(to_json.no_profile_json, path=None, text="", sections=[])
    elif as_json and found is not None:
        output.as_json(to_json.profile_json, found, sections=to_json.profile_sections(memory, found))
    elif found is None:
        output.line("no profile yet; `vade profile build` drafts one, `vade edit profile.md` creates one")
    else:
        output.line(found.text)
        output.line()
        over = "; the rest is cut" if found.over else ""
        output.line(f"{found.path} · {found.size} of {found.budget} characters{over}")
        waiting = sum(
            not memory.review.trust_of(section, document=found).injectable for section in found.sections
        )
        if waiting:
            count = output.plural(waiting, "section")
            output.line(f"{count} hidden from agents until verified: `vade review verify profile.md`")


def show_draft(draft: ProfileDraft) -> None:
    """Print a draft of the profile and its sources."""
    if draft.lines:
        output.line(f"from {output.plural(draft.records, 'record')}:")
        output.line()
        output.line(draft.text)
        output.line()
    for note in draft.notes:
        output.line(note)


def show_saved_draft(draft: ProfileDraft, run: str, result: EditResult | None) -> None:
    """Print whether a draft was saved."""
    if not draft.lines:
        output.line("nothing to save")
    elif not draft.new:
        output.line("profile.md already says this")
    elif result is None:
        output.line("nothing was changed; `vade profile build --apply` saves it")
    elif result.done:
        output.line(f"saved to {result.path}; `vade undo {run}` reverts it")
    else:
        output.line(f"left alone: {result.path}: {result.why}")


FORMATS = click.Choice(["text", "mermaid", "graphml", "json"])
_BY_ENDING = {".graphml": "graphml", ".xml": "graphml", ".json": "json", ".mmd": "mermaid"}


@click.command()
@scope_option("Only the records of this scope.")
@click.option("--format", "form", type=FORMATS, help="The output format.  [default: text]")
@click.option(
    "--out", metavar="FILE", help="Write it to a new file: .graphml, .json, or .mmd unless --format says."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--all", "everything", is_flag=True, help="Include rejected edges.")
@click.option("--reject", nargs=2, metavar="A B", help="Mark two records as unrelated.")
@click.option("--accept", nargs=2, metavar="A B", help="Remove a --reject mark.")
@click.option("--propose", is_flag=True, help="Let a language model propose edges.")
@click.option("--model", metavar="NAME", help="The language model, as provider:name.")
@click.option("--apply", is_flag=True, help="Write the proposals; without it, they are only shown.")
@common
def graph(
    *,
    scope: str | None,
    form: str | None,
    out: str | None,
    force: bool,
    everything: bool,
    reject: tuple[str, str] | None,
    accept: tuple[str, str] | None,
    propose: bool,
    model: str | None,
    apply: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> int:
    """Show links between records.

    Links come from the text, the frontmatter, shared tags or a model.
    """
    if sum((reject is not None, accept is not None, propose)) > 1:
        raise click.UsageError("Use only one of --reject, --accept and --propose.")
    if (model or apply) and not propose:
        raise click.UsageError("--model and --apply require --propose.")
    if propose:
        return show_proposed(open_memory(), scope, model, apply=apply, as_json=as_json)
    if reject is not None or accept is not None:
        mark_edge(open_memory(), reject or accept or ("", ""), scope, on=reject is not None, as_json=as_json)
    elif out is not None:
        write_graph(open_memory(), out, form, scope, everything=everything, force=force, as_json=as_json)
    else:
        show_graph(
            open_memory().graph.read(scope=scope, rejected=everything), "json" if as_json else form or "text"
        )
    return 0


def show_graph(found: Graph, form: str) -> None:
    """Print the graph."""
    if form == "json":
        output.as_json(to_json.graph_json, found)
        return
    if form != "text":
        click.echo(output.plain(found.render(form)), nl=False)
        return
    keys = {record.path: f"{record.key} ({record.place.scope})" for record in found.records}
    for edge in found.edges:
        mark = " · rejected" if edge.rejected else ""
        weight = f" {edge.weight:.2f}" if edge.weight < 1 else ""
        origin = f"{edge.origin}{weight}{mark}"
        output.line(f"{keys[edge.source]} · {edge.relation} · {keys[edge.target]} · {origin}")
    for each in found.broken:
        output.line(f"broken link: {each.source}#L{each.line}: {each.wanted}")
    count = output.plural(len(found.edges), "edge")
    output.line(f"{count} between {output.plural(len(found.records), 'record')}")


def write_graph(
    memory: Memory,
    out: str,
    form: str | None,
    scope: str | None,
    *,
    everything: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write the graph to a file."""
    ending = out[out.rfind(".") :].lower() if "." in out else ""
    wanted = form or _BY_ENDING.get(ending)
    if wanted is None or wanted == "text":
        raise click.UsageError("Name the file .graphml, .json or .mmd, or give its --format.")
    path = memory.graph.export(out, format=wanted, scope=scope, rejected=everything, force=force)
    output.show(as_json, f"wrote {path}", to_json.graph_written_json, path=path, format=wanted)


def mark_edge(memory: Memory, pair: tuple[str, str], scope: str | None, *, on: bool, as_json: bool) -> None:
    """Save a person's decision about an edge between two records."""
    one, other = memory.graph.reject(*pair, scope=scope, on=on)
    outcome = "rejected: no edge between" if on else "accepted again: edges between"
    paths = [one.path, other.path]
    output.show(
        as_json, f"{outcome} {one.key} and {other.key}", to_json.edge_decided_json, records=paths, rejected=on
    )


def show_proposed(memory: Memory, scope: str | None, model: str | None, *, apply: bool, as_json: bool) -> int:
    """Print the edges that a model proposes, and those that were refused."""
    found = memory.graph.propose(scope=scope, model=model, apply=apply)
    if as_json:
        output.as_json(to_json.edges_proposed_json, found)
    else:
        for why in found.refused:
            output.line(f"refused: {why}")
        show_outcome(found.outcome, applied=apply, command="vade graph --propose")
    failed = bool(found.refused) and not found.outcome.proposals
    return int(failed or bool(found.outcome.skipped))
