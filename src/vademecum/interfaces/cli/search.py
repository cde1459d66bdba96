"""Commands that find: search, recall, and the index behind them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.options import TYPES, common, scope_option, words_argument
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import show_answer

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import Door
    from vademecum.memory import Memory
    from vademecum.memory.values import SyncReport

MODES = click.Choice(["hybrid", "bm25", "vector", "metadata"])
ORDERS = click.Choice(["recency", "score", "usage"])


@click.command()
@words_argument(required=True)
@click.option("--max-results", type=click.IntRange(1, 1000), help="How many passages.  [default: 6]")
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    help="Hide matches with less relevance than this.  [default: 0, which hides nothing]",
)
@click.option("--mode", type=MODES, help="Which legs answer.  [default: hybrid]")
@scope_option("Only this scope.")
@click.option(
    "--source", "sources", multiple=True, help="Only memory, journal, pinned, transcript, or a source's name."
)
@click.option("--as-of", metavar="DATE", help="Answer as memory stood then.")
@click.option("--sort-by", type=ORDERS, help="Another order than that of the score.")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@common
def search(query: str, explain: bool, as_json: bool, door: Door, **given: Any) -> None:
    """Find the lines that answer QUERY, by words and by meaning.

    QUERY is one or more words and needs no quotes. It may hold "phrases" and filters: scope:, type:, tag:,
    after:, before:, path:. Put `--` before a query that begins with a dash.

    Each match is strong, likely or weak. A weak one may not be an answer; when all are weak, at most three
    are shown.
    """
    answer = door().search(query, explain=explain, **given)
    show_answer(answer, query, explain=explain, as_json=as_json)


@click.command()
@words_argument(required=False)
@scope_option("Only this scope.")
@click.option("--type", type=TYPES, help="Only this type.")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many.")
@click.option("--mode", type=MODES, help="Which legs answer.  [default: hybrid]")
@click.option("--sort-by", type=ORDERS, help="Another order: newest, three factors, or most used first.")
@click.option("--include-related", is_flag=True, help="Also what the records found are related to.")
@click.option("--as-of", metavar="DATE", help="Answer as memory stood then.")
@common
def recall(query: str, as_json: bool, door: Door, **given: Any) -> None:
    """Recall records that answer QUERY, or without one the newest."""
    answer = door().recall(query, **given)
    show_answer(answer, query, explain=False, as_json=as_json)


@click.command()
@click.option("--rebuild", is_flag=True, help="Make it anew from the files.")
@click.option("--check", is_flag=True, help="Compare it with every file, and mend it.")
@click.option("--watch", is_flag=True, help="Stay, and keep it up to date until interrupted.")
@common
def index(rebuild: bool, check: bool, watch: bool, as_json: bool, door: Door) -> None:
    """Bring the search index up to date; it is made from the files and safe to delete."""
    if watch and (rebuild or check):
        raise click.UsageError("--watch goes with neither --rebuild nor --check")
    if watch:
        keep_watch(door(), as_json=as_json)
        return
    with output.progress() as step:
        report = door().care.index(rebuild=rebuild, check=check, progress=step)
    show_report(report, as_json=as_json)


def keep_watch(memory: Memory, *, as_json: bool) -> None:
    """Print a line for each time the index was brought up to date, until interrupted."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    for why, report in memory.care.watch(stop):
        if why not in ("opened", "changed", "due"):
            output.error(why)
        show_report(report, as_json=as_json)
        sys.stdout.flush()


def show_report(report: SyncReport, *, as_json: bool) -> None:
    """Print what a sync did."""
    if as_json:
        output.as_json(to_json.index_json, report)
        return
    output.line(
        f"{report.indexed} of {output.plural(report.files, 'file')} indexed"
        f" ({report.changed} changed, {report.removed} removed)"
    )
    for each in report.findings:
        output.line(f"not indexed: {each.where}: {each.why}")
    for said in report.degraded:
        output.error(said)
