"""Commands that find: search, recall, and the index behind them."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli import output
from vademecum.interfaces.cli.options import TYPES, common, scope_option, words_argument
from vademecum.search.relevance import MATCHES

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.index.sync import Report
    from vademecum.memory import Memory
    from vademecum.search.answer import Answer, Passage

    Door = Callable[[], Memory]

MODES = click.Choice(["hybrid", "bm25", "vector", "metadata"])
ORDERS = click.Choice(["recency", "score", "usage"])
_BAR = 24


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
def search(
    *,
    query: str,
    max_results: int | None,
    min_score: float | None,
    mode: str | None,
    scope: str | None,
    sources: tuple[str, ...],
    as_of: str | None,
    sort_by: str | None,
    explain: bool,
    as_json: bool,
    door: Door,
) -> None:
    """Find the lines that answer QUERY, by words and by meaning.

    QUERY is one or more words and needs no quotes. It may hold "phrases" and filters: scope:, type:, tag:,
    after:, before:, path:. Put `--` before a query that begins with a dash.

    Each match is strong, likely or weak. A weak one may not be an answer; when all are weak, at most three
    are shown.
    """
    answer = door().search(
        query,
        max_results=max_results,
        min_score=min_score,
        mode=mode,
        scope=scope,
        sources=sources,
        as_of=as_of,
        sort_by=sort_by,
        explain=explain,
    )
    show_answer(answer, query, explain=explain, as_json=as_json)


@click.command()
@words_argument(required=False)
@scope_option("Only this scope.")
@click.option("--type", "kind", type=TYPES, help="Only this type.")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many.")
@click.option("--mode", type=MODES, help="Which legs answer.  [default: hybrid]")
@click.option("--sort-by", type=ORDERS, help="Another order: newest, three factors, or most used first.")
@click.option("--include-related", is_flag=True, help="Also what the records found are related to.")
@click.option("--as-of", metavar="DATE", help="Answer as memory stood then.")
@common
def recall(
    *,
    query: str,
    scope: str | None,
    kind: str | None,
    limit: int,
    mode: str | None,
    sort_by: str | None,
    include_related: bool,
    as_of: str | None,
    as_json: bool,
    door: Door,
) -> None:
    """Recall records that answer QUERY, or without one the newest."""
    answer = door().recall(
        query,
        scope=scope,
        type=kind,
        limit=limit,
        mode=mode,
        sort_by=sort_by,
        include_related=include_related,
        as_of=as_of,
    )
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
        report = door().index(rebuild=rebuild, check=check, progress=step)
    show_report(report, as_json=as_json)


def keep_watch(memory: Memory, *, as_json: bool) -> None:
    """Print a line for each time the index was brought up to date, until interrupted."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    for why, report in memory.watch(stop):
        if why not in ("opened", "changed", "due"):
            output.error(why)
        show_report(report, as_json=as_json)
        sys.stdout.flush()


def show_report(report: Report, *, as_json: bool) -> None:
    """Print what a sync did."""
    if as_json:
        output.as_json(
            {
                "files": report.files,
                "indexed": report.indexed,
                "changed": report.changed,
                "removed": report.removed,
                "pending": report.pending,
                "vectorsPending": report.vectors_pending,
                "failed": [{"path": each.where, "reason": each.why} for each in report.findings],
                "degraded": report.degraded,
            }
        )
        return
    output.line(
        f"{report.indexed} of {output.plural(report.files, 'file')} indexed"
        f" ({report.changed} changed, {report.removed} removed)"
    )
    for each in report.findings:
        output.line(f"not indexed: {each.where}: {each.why}")
    for said in report.degraded:
        output.error(said)


def show_answer(answer: Answer, query: str, *, explain: bool, as_json: bool) -> None:
    """Print an answer for people or for programs."""
    if as_json:
        output.as_json(answer_json(answer, explain=explain))
        return
    heading = False
    for number, passage in enumerate(_by_match(answer), 1):
        if number > 1:
            output.line()
        if passage.match == "weak" and passage.related is None and not heading:
            heading = True
            output.line("weak matches, which may not answer this:\n")
        output.line(_title(passage))
        text = output.plain(passage.snippet)
        click.echo("\n".join(f"  {each}" for each in _highlighted(text, query).split("\n")))
        for claim in passage.claims:
            output.line(f"  [{claim.standing}] {claim.why or claim.cited}")
        if passage.stale and not passage.claims:
            output.line(f"  [stale] {passage.stale}")
        if explain:
            _explain(passage)
    if not answer.results:
        output.line("nothing found")
    if answer.hidden:
        hidden = output.plural(answer.hidden, "result")
        output.error(f"{hidden} hidden by the minimum score: --min-score 0 shows all")
    covered = answer.coverage
    if explain or covered.indexed < covered.files:
        said = f" and {output.plural(covered.sessions, 'session')}" if covered.sessions else ""
        files = output.plural(covered.files, "file")
        output.line(f"\n{answer.mode}, {covered.indexed} of {files}{said} covered")
    for said in (*answer.notes, *answer.degraded):
        output.error(said)


def answer_json(answer: Answer, *, explain: bool) -> dict[str, Any]:
    """An answer in the shape agents know: results with path, lines, score, snippet and source."""
    covered = answer.coverage
    return {
        "results": [passage_json(each, explain=explain) for each in answer.results],
        "match": answer.match,
        "hidden": answer.hidden,
        "provider": answer.provider,
        "model": answer.model,
        "mode": answer.mode,
        "coverage": {
            "files": covered.files,
            "indexed": covered.indexed,
            "pending": covered.pending,
            "failed": covered.failed,
            "vectorsPending": covered.vectors_pending,
            **({"sessions": covered.sessions} if covered.sessions else {}),
        },
        "degraded": list(answer.degraded),
        "notes": list(answer.notes),
    }


def passage_json(passage: Passage, *, explain: bool) -> dict[str, Any]:
    """One passage for programs."""
    found: dict[str, Any] = {
        "path": passage.path,
        "startLine": passage.start,
        "endLine": passage.end,
        "score": passage.score,
        "relevance": passage.relevance,
        "match": passage.match,
        "snippet": passage.snippet,
        "source": passage.source,
        "scope": str(passage.place.scope),
        "key": passage.key,
        "type": passage.type,
        "num": passage.num,
        "time": passage.time,
        "origin": passage.origin,
        "superseded": passage.superseded,
    }
    if passage.related is not None:
        found["related"] = dict(passage.related)
    if passage.claims:
        found["claims"] = [
            {"cited": each.cited, "standing": each.standing, "why": each.why or None}
            for each in passage.claims
        ]
    if passage.stale:
        found["stale"] = passage.stale
    if explain:
        found |= {"components": dict(passage.components), "arithmetic": dict(passage.arithmetic or {})}
    return found


def _title(passage: Passage) -> str:
    lines = f"#L{passage.start}-L{passage.end}" if passage.end > passage.start else f"#L{passage.start}"
    marks = f" · superseded {passage.superseded}" if passage.superseded else ""
    if passage.related is not None:
        said = passage.related
        return f"{passage.path}{lines} · {said['relation']} {said['to']} ({said['origin']}){marks}"
    return f"{passage.path}{lines} · {passage.match}{marks}"


def _by_match(answer: Answer) -> list[Passage]:
    """The results as people read them: strong, likely, then weak ones, each in their order.

    What only lists, or was put in an order of the caller's, stays as it is.
    """
    if answer.mode == "metadata":
        return list(answer.results)
    hits = [each for each in answer.results if each.related is None]
    order = {match: number for number, match in enumerate(MATCHES)}
    beside = [each for each in answer.results if each.related is not None]
    return [*sorted(hits, key=lambda each: order[each.match]), *beside]


def _highlighted(text: str, query: str) -> str:
    """The words of the question in bold, on a terminal."""
    words = sorted(set(re.findall(r"\w{3,}", query.lower())), key=len, reverse=True)
    if not words or not sys.stdout.isatty():
        return text
    pattern = re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE)
    return pattern.sub(lambda found: click.style(found[0], bold=True), text)


def _explain(passage: Passage) -> None:
    for name, value in passage.components.items():
        bar = "█" * round(min(value, 1.0) * _BAR)
        output.line(f"    {name:<8}{value:6.3f}  {bar}")
    numbers = passage.arithmetic or {}
    said = [f"{name.replace('_', ' ')} {value:.3g}" for name, value in numbers.items() if value]
    for start in range(0, len(said), 5):
        output.line(f"    {', '.join(said[start : start + 5])}")


COMMANDS = {"search": search, "recall": recall, "index": index}
