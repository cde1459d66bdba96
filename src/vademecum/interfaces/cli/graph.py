"""The command that shows how records hang together, and takes a person's word on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common, scope_option
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import outcome_json
from vademecum.interfaces.present.to_text import show_outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.knowledge.edges import Graph
    from vademecum.memory import Memory

    Door = Callable[[], Memory]

FORMATS = click.Choice(["text", "mermaid", "graphml", "json"])
_BY_ENDING = {".graphml": "graphml", ".xml": "graphml", ".json": "json", ".mmd": "mermaid"}


@click.command()
@scope_option("Only the records of this scope.")
@click.option("--format", "form", type=FORMATS, help="How it is told.  [default: text]")
@click.option(
    "--out", metavar="FILE", help="Write it to a new file: .graphml, .json, or .mmd unless --format says."
)
@click.option("--force", is_flag=True, help="Also over a file that is there.")
@click.option("--all", "everything", is_flag=True, help="Also edges that were rejected.")
@click.option("--reject", nargs=2, metavar="A B", help="These two have nothing to do with each other.")
@click.option("--accept", nargs=2, metavar="A B", help="Take such a word back.")
@click.option("--propose", is_flag=True, help="Let a language model look for edges.")
@click.option("--model", metavar="NAME", help="The language model, as provider:name.")
@click.option("--apply", is_flag=True, help="Write what it proposes; without, it is only told.")
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
    """Show the edges between records, from links, the frontmatter, shared tags, or a model."""
    if sum((reject is not None, accept is not None, propose)) > 1:
        raise click.UsageError("Give one of --reject, --accept and --propose.")
    if (model or apply) and not propose:
        raise click.UsageError("--model and --apply go with --propose.")
    if propose:
        return show_proposed(door(), scope, model, apply=apply, as_json=as_json)
    if reject is not None or accept is not None:
        decide(door(), reject or accept or ("", ""), scope, on=reject is not None, as_json=as_json)
    elif out is not None:
        write(door(), out, form, scope, everything=everything, force=force, as_json=as_json)
    else:
        show_graph(door().graph(scope=scope, rejected=everything), "json" if as_json else form or "text")
    return 0


def show_graph(found: Graph, form: str) -> None:
    """Print the graph."""
    from vademecum.knowledge import edges

    if form == "json":
        output.as_json(edges.as_json(found))
        return
    if form != "text":
        click.echo(output.plain(edges.rendered(found, form)), nl=False)
        return
    keys = {record.path: f"{record.key} ({record.place.scope})" for record in found.records}
    for edge in found.edges:
        mark = " · rejected" if edge.rejected else ""
        weight = f" {edge.weight:.2f}" if edge.weight < 1 else ""
        origin = f"{edge.origin}{weight}{mark}"
        output.line(f"{keys[edge.source]} · {edge.relation} · {keys[edge.target]} · {origin}")
    for each in found.broken:
        output.line(f"leads nowhere: {each.source}#L{each.line}: {each.wanted}")
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
    path = memory.export_graph(out, format=wanted, scope=scope, rejected=everything, force=force)
    if as_json:
        output.as_json({"path": str(path), "format": wanted})
    else:
        output.line(f"wrote {path}")


def decide(memory: Memory, pair: tuple[str, str], scope: str | None, *, on: bool, as_json: bool) -> None:
    """Keep a person's word about two records."""
    one, other = memory.reject_edge(*pair, scope=scope, on=on)
    if as_json:
        output.as_json({"records": [one.path, other.path], "rejected": on})
    else:
        said = "rejected: nothing joins" if on else "accepted again: what joins"
        output.line(f"{said} {one.key} and {other.key}")


def show_proposed(memory: Memory, scope: str | None, model: str | None, *, apply: bool, as_json: bool) -> int:
    """Print the edges that a model proposes, and what was not taken from it."""
    found = memory.propose_edges(scope=scope, model=model, apply=apply)
    if as_json:
        told = outcome_json(found.outcome, applied=apply)
        output.as_json({**told, "model": found.model, "refused": list(found.refused)})
    else:
        for why in found.refused:
            output.line(f"refused: {why}")
        show_outcome(found.outcome, applied=apply, command="vade graph --propose")
    failed = bool(found.refused) and not found.outcome.proposals
    return int(failed or bool(found.outcome.skipped))


COMMANDS = {"graph": graph}
