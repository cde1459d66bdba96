"""Lint: looks for what is wrong with a memory, and changes nothing.

Asks every check, within a time, and hands back what they found: errors first, not too many of a kind.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import ModelFailed
from vademecum.knowledge import graph as graphs
from vademecum.lifecycle import contradictions, heal, lint_rules
from vademecum.lifecycle.lint_rules import ERROR, INCOMPLETE, INFO, WARNING, CleanTexts
from vademecum.llm.base import Limits
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.lifecycle.lint_rules import Material
    from vademecum.llm.base import Model
    from vademecum.store import Home, Pinned
    from vademecum.types import Entry

CAPS = {
    "orphan": 40,
    "contradiction": contradictions.MOST_CLASHES,
    "poison_frequency": 50,
    "graph_density": 50,
}
CAP = 200
PER_SCOPE = frozenset({"orphan"})
_OPINION_SECONDS = 10.0
_OPINIONS_SECONDS = 60.0


class LintContext(NamedTuple):
    """What the checks need to know beside the files."""

    documents: Sequence[Pinned] = ()
    max_count: int = 200
    uses: Callable[[list[str]], dict[str, int]] = lambda items: {}
    rejected: Callable[[str, str], bool] = lambda one, other: False
    verified: Callable[[Entry], bool] = lambda entry: False
    rows_gone: int = 0
    index_path: str = ""
    model: Model | None = None
    home: Home | None = None  # where it is remembered which texts are clean


def run_lint(material: Material, around: LintContext) -> list[Finding]:
    """All that is wrong, the worst first."""
    clean = CleanTexts(around.home)
    graph = graphs.build_graph(material.records, rejected=around.rejected, by_tags=False)
    checks: tuple[Iterable[Finding], ...] = (
        material.unreadable,
        lint_rules.check_copies(material),
        lint_rules.check_sizes(material, documents=around.documents, max_count=around.max_count),
        lint_rules.check_usage(material, uses=around.uses),
        lint_rules.check_density(graph),
        lint_rules.check_links(material, graph, rows_gone=around.rows_gone, index=around.index_path),
        lint_rules.check_generated(material),
        find_contradictory(material, around),
        _wrong_merges(material, around),
        lint_rules.check_leaks(material, clean),
        lint_rules.check_stale(material),
        lint_rules.check_purged(material, around.home),
    )
    found = [finding for check in checks for finding in check]
    clean.save()
    return sorted(_capped([*found, *_left_out(material)]), key=_order)


def _wrong_merges(material: Material, around: LintContext) -> Iterable[Finding]:
    """What earlier versions merged and this one would not; the audit of the home tells what was merged."""
    merged = {} if around.home is None else heal.read_moments(around.home)
    return heal.check_merges(material.seen, merged) if merged else ()


def find_contradictory(material: Material, around: LintContext) -> Iterator[Finding]:
    """What contradicts what, with a model's second opinion where one was asked for."""
    budget = _OPINIONS_SECONDS
    for clash in contradictions.find_clashes(
        material.watch.each(material.seen, contradictions.CONTRADICTION), material.beside
    ):
        record = clash.older.seen.record
        left = contradictions.needs_person(clash, around.verified)
        scope = f"--scope {record.place.scope}"
        mend = f"vade edit {record.key} {scope}" if left else f"vade heal {scope} --apply"
        mend = mend if clash.certain else "vade review --kind contradiction"
        why = f"{clash.why} ({left})" if left else clash.why
        severity = ERROR if clash.certain else WARNING
        if around.model is not None and budget > 0:
            why, agreed, budget = _asked(clash, around.model, why, budget)
            severity = agreed if clash.certain else WARNING  # a model may confirm, never decide
        yield Finding(contradictions.CONTRADICTION, clash.older.where, why, mend, severity, record.place)


def _asked(clash: contradictions.Clash, model: Model, why: str, budget: float) -> tuple[str, str, float]:
    """A model that disagrees makes a doubt of an error; one that fails changes nothing."""
    begun = time.monotonic()
    try:
        limits = Limits(seconds=min(_OPINION_SECONDS, budget))
        agrees = contradictions.ask_opinion(clash, model, limits=limits)
    except ModelFailed as error:
        return f"{why}; {model.name} could not judge: {error}", ERROR, budget - (time.monotonic() - begun)
    said = f"{why}; {model.name} {'agrees' if agrees else 'sees no contradiction'}"
    return said, ERROR if agrees else WARNING, budget - (time.monotonic() - begun)


def _capped(found: Iterable[Finding]) -> Iterator[Finding]:
    counts: dict[tuple[str, object], int] = {}
    for finding in found:
        group = finding.what, finding.place if finding.what in PER_SCOPE else None
        counts[group] = counts.get(group, 0) + 1
        if finding.what == INCOMPLETE or counts[group] <= CAPS.get(finding.what, CAP):
            yield finding
    for (what, place), count in counts.items():
        most = CAPS.get(what, CAP)
        if what != INCOMPLETE and count > most:
            where = f" in {place}" if place else ""
            why = f"{count - most:,} more of {what}{where} are not shown: fix these first"
            yield Finding(INCOMPLETE, what, why, "vade lint")


def _left_out(material: Material) -> Iterator[Finding]:
    watch = material.watch
    for what, count in watch.left_out.items():
        some = f"{count:,} of them were" if count else "some were"
        why = f"{what}: {some} not checked within {watch.seconds:g} seconds"
        yield Finding(INCOMPLETE, what, why, f"vade lint --seconds {max(60, int(watch.seconds * 4))}")


def _order(finding: Finding) -> tuple[int, str, str]:
    return (ERROR, WARNING, INFO).index(finding.severity), finding.what, finding.where
