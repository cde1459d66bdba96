"""Commands about what was learned, the profile, and how records hang together."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.options import (
    CONFIDENCE,
    SCOPES,
    TAGS,
    common,
    confirmed,
    key_argument,
    scope_option,
    settle,
)
from vademecum.interfaces.cli.write import TextCommand, read_text, tell_swept, warn_of_secrets
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import figures_row, show_lessons, show_merged, show_outcome
from vademecum.types import LEARNED

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import Door
    from vademecum.memory import Memory
    from vademecum.memory.values import Graph, ProfileDraft, Signal, Told

LESSON = click.Choice([*map(str, LEARNED)])
# The field that TEXT is, when it is given; the steps of a workflow are each given on their own.
_MAIN = {"discovery": "fact", "solution": "error", "pattern": "pattern", "failure": "what", "rule": "rule"}


@click.command(cls=TextCommand)
@click.argument("kind", metavar="TYPE", type=LESSON)
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option("--error", help="solution: what goes wrong; TEXT, unless given here.")
@click.option("--solution", help="solution: what fixes it.")
@click.option("--step", "sequence", multiple=True, help="workflow: a step; repeatable, in order.")
@click.option("--success-rate", type=click.FloatRange(0, 1), help="workflow: the success rate, 0 to 1.")
@click.option("--impact", help="failure: its impact.")
@click.option("--prevention", help="failure: how to prevent it.")
@click.option("--path", help="rule: the path prefix it applies to; without it, everywhere.")
@click.option("--example", "examples", multiple=True, help="The path of an example; repeatable.")
@CONFIDENCE
@TAGS
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="The scope.")
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
    """Save a lesson: a solution, discovery, pattern, failure…

    TYPE is discovery, solution, pattern, workflow, failure or rule.

    TEXT is the fact, the error, the pattern, what failed, or the rule; `-` reads it from standard input. What
    is already known is confirmed: its count and confidence go up, and the newer wording replaces the old.
    """
    save_lesson(
        door(),
        kind,
        text,
        examples=examples,
        confidence=confidence,
        tags=tags,
        scope=scope,
        as_json=as_json,
        **given,
    )


def save_lesson(
    memory: Memory,
    kind: str,
    text: str | None,
    *,
    examples: tuple[str, ...],
    confidence: float | None,
    tags: tuple[str, ...],
    scope: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Save a lesson, and say what became of it."""
    fields = {name: list(value) if name == "sequence" else value for name, value in given.items() if value}
    if given.get("success_rate") is not None:
        fields["success_rate"] = given["success_rate"]
    if text is not None:
        if kind not in _MAIN or _MAIN[kind] in fields:
            raise click.UsageError(f"a {kind} takes no TEXT here: {text!r}")
        fields[_MAIN[kind]] = read_text(text)
    stored = memory.knowledge.learn(
        kind, scope=scope, confidence=confidence, examples=examples, tags=tags, **fields
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
    """List lessons learned."""
    if ctx.invoked_subcommand is None:
        show_lessons(door(), None, None, as_json=as_json)


@knowledge.command("list")
@click.option("--type", "kind", type=LESSON, help="Only this type.")
@scope_option("Only this scope.")
@common
def list_(kind: str | None, scope: str | None, as_json: bool, door: Door) -> None:
    """List lessons, in the order agents see them.

    The score is confidence × age × type × use, lower for unconfirmed lessons. [unverified] comes from one
    agent; [waiting] is hidden from agents until you run `vade verify`.
    """
    show_lessons(door(), kind, scope, as_json=as_json)


@knowledge.command()
@key_argument()
@scope_option("The scope.")
@common
def applied(key: str, scope: str | None, as_json: bool, door: Door) -> None:
    """Record that a lesson helped; it ranks higher then."""
    record = door().knowledge.applied(key, scope=scope)
    count = record.fields.get("applied", 0)
    text = f"{record.key} applied {output.plural(count, 'time')}"
    output.tell(as_json, text, to_json.applied_json, record, applied=count)


@knowledge.command()
@scope_option("Only this scope.")
@common
def stats(scope: str | None, as_json: bool, door: Door) -> None:
    """Show the number, age, size and confidence of lessons."""
    found = door().knowledge.stats(scope=scope)
    if as_json:
        output.as_json(to_json.stats_json, found)
        return
    rows = [
        figures_row(scope_name, kind, each)
        for scope_name, some in found.by_scope_and_type.items()
        for kind, each in some.items()
    ]
    rows += [figures_row(name, "all", each) for name, each in found.by_scope.items()]
    rows.append(figures_row("all", "all", found.total))
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
def prune(apply: bool, yes: bool, as_json: bool, door: Door, **given: Any) -> int:
    """Archive lessons that are old or have low confidence.

    Verified and protected lessons stay. `vade undo` restores the others.
    """
    outcome = settle(partial(door().knowledge.prune, **given), apply=apply, yes=yes)
    show = partial(show_outcome, outcome, applied=apply, command="vade knowledge prune")
    output.tell(as_json, show, to_json.outcome_json, outcome)
    return int(any(not each.done for each in outcome.told))


@knowledge.command("import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="The scope.")
@common
def import_(path: str, scope: str, as_json: bool, door: Door) -> None:
    """Import lessons from CLIO's ltm.json.

    Importing a file again adds no duplicates. Imported lessons can be searched; agents see
    them after you run `vade verify`.
    """
    memory = door()
    done = memory.transfer.import_ltm(path, scope=scope)
    if as_json:
        output.as_json(to_json.lessons_imported_json, done)
        return
    added, updated = len(done.added), len(done.updated)
    output.line(f"{output.plural(added, 'lesson')} added, {updated:,} updated, {done.known:,} known already")
    for each in done.findings:
        output.line(f"{each.what}: {each.where}: {each.why}")
    warn_of_secrets(done.secrets, memory, scope)


@knowledge.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="The scope.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@common
def export(path: str, scope: str, force: bool, as_json: bool, door: Door) -> None:
    """Export lessons as an ltm.json for CLIO."""
    written = door().transfer.export_ltm(path, scope=scope, force=force)
    output.tell(as_json, f"wrote {written}", to_json.path_json, path=written)


# Where each kind belongs: what a person prefers holds everywhere, the rest in the project it was said of.
_PLACES = {
    "preference": "--type user --scope global",
    "correction": "--type feedback",
    "decision": "--type project",
    "context": "--type project",
    "pattern": "--type project",
}


@click.command(cls=TextCommand)
@click.argument("text", metavar="TEXT|-")
@common
def suggest(text: str, as_json: bool, door: Door) -> None:
    """Suggest memories from a message.

    `-` reads the message from standard input. Nothing is written.
    """
    reading = door().knowledge.suggest(read_text(text))
    if as_json:
        signals = [to_json.signal_json(each, command=command(each)) for each in reading.signals]
        output.as_json(to_json.suggested_json, reading, signals=signals)
        return
    for each in reading.signals:
        output.line(f"{each.kind} ({each.confidence:.2f}): {each.text}\n  {each.why}\n  {command(each)}")
    if reading.declined is not None:
        output.line(f"nothing to save: {reading.declined}, it {reading.why}")


def command(signal: Signal) -> str:
    """The command that keeps a proposal, as a shell takes it."""
    return f"vade store {shlex.quote(signal.text)} {_PLACES[signal.kind]} --tag {signal.kind}"


@click.group(invoke_without_command=True)
@common
@click.pass_context
def profile(ctx: click.Context, as_json: bool, door: Door) -> None:
    """Show or draft your profile.

    Without a subcommand, it shows profile.md.
    """
    if ctx.invoked_subcommand is None:
        show_profile(door(), as_json=as_json)


@profile.command("show")
@common
def show(as_json: bool, door: Door) -> None:
    """Show profile.md, its size, and what agents see of it."""
    show_profile(door(), as_json=as_json)


@profile.command("build")
@click.option("--imported", is_flag=True, help="Include sessions of other agents.")
@click.option("--llm", is_flag=True, help="Ask the configured model to add observations.")
@click.option("--model", metavar="NAME", help="Ask this model (provider:name) to add observations.")
@click.option("--apply", is_flag=True, help="Save it after you confirm; without it, it is only shown.")
@click.option("--yes", is_flag=True, help="Save it without asking.")
@common
def build(
    *, imported: bool, llm: bool, model: str | None, apply: bool, yes: bool, as_json: bool, door: Door
) -> int:
    """Draft your observed style from this project's sessions."""
    if as_json and apply and not yes:
        raise click.UsageError("--json with --apply also requires --yes.")
    memory = door()
    draft = memory.knowledge.draft_profile(model=model or llm, imported=imported)
    if not as_json:
        show_draft(draft)
    run, told = "", None
    if apply and draft.new:
        if not as_json:
            confirmed("Save this to profile.md?", yes=yes)
        run, told = memory.knowledge.keep_profile(draft)
    if as_json:
        why = told.why if told and not told.done else ""
        output.as_json(to_json.draft_json, draft, applied=bool(told and told.done), run=run, why=why)
    else:
        show_kept(draft, run, told)
    return int(told is not None and not told.done)


def show_profile(memory: Memory, *, as_json: bool) -> None:
    """The profile as it stands, and what of it waits."""
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
        waiting = sum(not memory.review.trust_of(each, document=found).injectable for each in found.sections)
        if waiting:
            told = output.plural(waiting, "section")
            output.line(f"{told} hidden from agents until verified: `vade verify profile.md`")


def show_draft(draft: ProfileDraft) -> None:
    """A draft, and what it comes from, for a person."""
    if draft.lines:
        said = output.plural(draft.messages, "message")
        by = f" and {draft.model}" if draft.model else ""
        output.line(f"from {said} in {output.plural(draft.sessions, 'session')}{by}:")
        output.line()
        output.line(draft.text)
        output.line()
    for note in draft.notes:
        output.line(note)


def show_kept(draft: ProfileDraft, run: str, told: Told | None) -> None:
    """What became of a draft."""
    if not draft.lines:
        output.line("nothing to save")
    elif not draft.new:
        output.line("profile.md already says this")
    elif told is None:
        output.line("nothing was changed; `vade profile build --apply` saves it")
    elif told.done:
        output.line(f"saved to {told.path}; `vade undo {run}` reverts it")
    else:
        output.line(f"left alone: {told.path}: {told.why}")


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
    door: Door,
) -> int:
    """Show links between records.

    Links come from the text, the frontmatter, shared tags or a model.
    """
    if sum((reject is not None, accept is not None, propose)) > 1:
        raise click.UsageError("Use only one of --reject, --accept and --propose.")
    if (model or apply) and not propose:
        raise click.UsageError("--model and --apply require --propose.")
    if propose:
        return show_proposed(door(), scope, model, apply=apply, as_json=as_json)
    if reject is not None or accept is not None:
        decide(door(), reject or accept or ("", ""), scope, on=reject is not None, as_json=as_json)
    elif out is not None:
        write(door(), out, form, scope, everything=everything, force=force, as_json=as_json)
    else:
        show_graph(door().graph.read(scope=scope, rejected=everything), "json" if as_json else form or "text")
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


def write(
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
    output.tell(as_json, f"wrote {path}", to_json.graph_written_json, path=path, format=wanted)


def decide(memory: Memory, pair: tuple[str, str], scope: str | None, *, on: bool, as_json: bool) -> None:
    """Keep a person's word about two records."""
    one, other = memory.graph.reject(*pair, scope=scope, on=on)
    said = "rejected: no edge between" if on else "accepted again: edges between"
    paths = [one.path, other.path]
    output.tell(
        as_json, f"{said} {one.key} and {other.key}", to_json.edge_decided_json, records=paths, rejected=on
    )


def show_proposed(memory: Memory, scope: str | None, model: str | None, *, apply: bool, as_json: bool) -> int:
    """Print the edges that a model proposes, and what was not taken from it."""
    found = memory.graph.propose(scope=scope, model=model, apply=apply)
    if as_json:
        output.as_json(to_json.edges_proposed_json, found)
    else:
        for why in found.refused:
            output.line(f"refused: {why}")
        show_outcome(found.outcome, applied=apply, command="vade graph --propose")
    failed = bool(found.refused) and not found.outcome.proposals
    return int(failed or bool(found.outcome.skipped))
