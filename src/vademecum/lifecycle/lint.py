"""Lint: run every check on a memory within a time limit; change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge import graph as graphs
from vademecum.lifecycle import contradictions, lint_rules
from vademecum.lifecycle.lint_rules import ERROR, INCOMPLETE, INFO, WARNING, CleanTexts
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


class LintContext(NamedTuple):
    """The settings and functions that the checks need beside the files."""

    documents: Sequence[Pinned] = ()
    max_count: int = 200
    uses: Callable[[list[str]], dict[str, int]] = lambda items: {}
    rejected: Callable[[str, str], bool] = lambda one, other: False
    verified: Callable[[Entry], bool] = lambda entry: False
    rows_gone: int = 0
    index_path: str = ""
    model: Model | None = None
    home: Home | None = None  # where it is remembered which texts are clean


def run_lint(material: Material, context: LintContext) -> list[Finding]:
    """Run all checks and return their findings, the worst first."""
    clean = CleanTexts(context.home)
    graph = graphs.build_graph(material.records, rejected=context.rejected, by_tags=False)
    checks: tuple[Iterable[Finding], ...] = (
        material.unreadable,
        lint_rules.check_copies(material),
        lint_rules.check_sizes(material, documents=context.documents, max_count=context.max_count),
        lint_rules.check_usage(material, uses=context.uses),
        lint_rules.check_density(graph),
        lint_rules.check_links(material, graph, rows_gone=context.rows_gone, index=context.index_path),
        lint_rules.check_generated(material),
        lint_rules.check_fields(material),
        contradictions.check_contradictions(material, verified=context.verified, model=context.model),
        lint_rules.check_leaks(material, clean),
        lint_rules.check_stale(material),
        lint_rules.check_purged(material, context.home),
    )
    found = [finding for check in checks for finding in check]
    clean.save()
    return sorted(_limit_findings([*found, *_report_unchecked(material)]), key=_sort_key)


def _limit_findings(found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of each kind, and for each kind with more a finding that counts the rest."""
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
            yield Finding(INCOMPLETE, what, why, "vade check")


def _report_unchecked(material: Material) -> Iterator[Finding]:
    """Yield a finding for each kind of file that the checks had no time for."""
    watch = material.watch
    for what, count in watch.left_out.items():
        some = f"{count:,} of them were" if count else "some were"
        why = f"{what}: {some} not checked within {watch.seconds:g} seconds"
        yield Finding(INCOMPLETE, what, why, f"vade check --seconds {max(60, int(watch.seconds * 4))}")


def _sort_key(finding: Finding) -> tuple[int, str, str]:
    return (ERROR, WARNING, INFO).index(finding.severity), finding.what, finding.where
