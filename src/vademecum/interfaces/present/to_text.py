"""Values as people read them, printed: one function for each, whichever interface asks."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.present import output
from vademecum.interfaces.present.safe import clean_text
from vademecum.stand_ins import LazyModule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vademecum import Answer, Passage, Session
    from vademecum.interfaces.present import to_json
    from vademecum.memory import Memory
    from vademecum.memory.values import LessonFigures, Purge, RunOutcome, Told, Tombstone, Waiting
    from vademecum.types import Finding, Merged
else:
    to_json = LazyModule("vademecum.interfaces.present.to_json")

_BAR = 24


def short(text: str, length: int) -> str:
    """The beginning of a text on one line, without what looks like a secret."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


_BOOKKEEPING = re.compile(r"(?:updated|generated):")  # lines that change with every write


def diff_lines(before: str, after: str) -> list[str]:
    """What differs between two versions of a file, as `diff -u` shows it."""
    old, new = (
        [line for line in text.splitlines() if not _BOOKKEEPING.match(line)] for text in (before, after)
    )
    return [*difflib.unified_diff(old, new, lineterm="", n=1)][2:]


def show_findings(findings: Sequence[Finding]) -> None:
    """Print findings, the worst first."""
    order = {"error": 0, "warning": 1, "info": 2}
    for each in sorted(findings, key=lambda each: order.get(each.severity, 3)):
        mend = f"  →  {each.mend}" if each.mend else ""
        output.line(f"{each.severity}: {each.what}: {each.where}: {each.why}{mend}")


def show_answer(answer: Answer, query: str, *, explain: bool, full: bool = True, as_json: bool) -> None:
    """Print an answer for people or for programs."""
    if as_json:
        output.as_json(to_json.explained_found_json if explain else to_json.found_json, answer)
        return
    _show_passages(answer, query, explain=explain, full=full)
    if not answer.results:
        output.line("Nothing found. Try other words, or `vade list` to list all records.")
    if answer.hidden:
        hidden = output.plural(answer.hidden, "result")
        output.error(f"{hidden} hidden by --min-score; 0 shows all")
    covered = answer.coverage
    if explain or covered.indexed < covered.files:
        said = f" and {output.plural(covered.sessions, 'session')}" if covered.sessions else ""
        said += f" of {answer.hub}" if answer.hub else ""
        files = output.plural(covered.files, "file")
        output.line(f"\n{answer.mode}, {covered.indexed} of {files}{said} covered")
    for said in (*answer.notes, *answer.degraded):
        output.error(said)


def _show_passages(answer: Answer, query: str, *, explain: bool, full: bool) -> None:
    """Print what was found, strong matches before a line that says the rest are weak."""
    heading = False
    for number, passage in enumerate(answer.by_match(), 1):
        if number > 1:
            output.line()
        if passage.match == "weak" and passage.related is None and not heading:
            heading = True
            output.line("weak matches (they may not answer this):\n")
        output.line(_title(passage))
        text = output.plain(passage.snippet)
        text = text if full else _beginning(text, query)
        click.echo("\n".join(f"  {each}" for each in _highlighted(text, query).split("\n")))
        click.echo(_dim(f"  {output.plain(_place(passage))}"))
        for claim in passage.claims:
            output.line(f"  [{claim.standing}] {claim.why or claim.cited}")
        if passage.stale and not passage.claims:
            output.line(f"  [stale] {passage.stale}")
        if explain:
            _explain(passage)


def _title(passage: Passage) -> str:
    """What a hit is, how old and how likely: `#12 deploys · project · 3 days ago · strong`."""
    number = f"#{passage.num} " if passage.num is not None else ""
    name = passage.key if passage.key and passage.source == "memory" else _stem(passage)
    said = [f"{number}{name}", str(passage.place.scope), *([f"team:{passage.team}"] if passage.team else [])]
    if passage.source != "memory":
        said.insert(1, passage.source)
    if (passage.origin or "").startswith("member:"):
        said.append(str(passage.origin))
    if passage.vouched:
        said.append(f"verified by {', '.join(passage.vouched)}")
    if passage.time:
        said.append(output.ago(passage.time))
    if passage.related is not None:
        told = passage.related
        said.append(f"{told['relation']} {told['to']} ({told['origin']})")
    else:
        said.append(passage.match)
    if passage.superseded:
        said.append(f"superseded {passage.superseded[:10]}")
    return " · ".join(said)


def _stem(passage: Passage) -> str:
    """What a file is called, without its folders and its ending."""
    return passage.path.rpartition("/")[2].removesuffix(".md") or passage.path


def _place(passage: Passage) -> str:
    lines = f"#L{passage.start}-L{passage.end}" if passage.end > passage.start else f"#L{passage.start}"
    return f"{passage.path}{lines}"


def _dim(text: str) -> str:
    return click.style(text, dim=True) if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


_LINES, _COLUMNS = 2, 160  # of a hit, without --full


def _beginning(text: str, query: str) -> str:
    """Two lines of a hit, those in which most words of the question stand; `…` for what is left out."""
    lines = [line for line in text.split("\n") if line.strip()]
    words = set(re.findall(r"\w{3,}", query.lower()))
    scores = [sum(word in line.lower() for word in words) for line in lines]
    pairs = [sum(scores[at : at + _LINES]) for at in range(max(1, len(lines) - _LINES + 1))]
    first = pairs.index(max(pairs, default=0)) if pairs else 0
    shown = [
        line if len(line) <= _COLUMNS else _around(line, words) for line in lines[first : first + _LINES]
    ]
    before = ["…"] if first else []
    after = ["…"] if first + _LINES < len(lines) else []
    return "\n".join([*before, *shown, *after])


def _around(line: str, words: set[str]) -> str:
    """A part of a long line: where the first word of the question stands in it."""
    low = line.lower()
    first = min((at for at in (low.find(word) for word in words) if at >= 0), default=0)
    start = 0 if first < _COLUMNS // 2 else line.rfind(" ", 0, first - _COLUMNS // 3) + 1
    end = start + _COLUMNS
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def _highlighted(text: str, query: str) -> str:
    """The words of the question in bold, on a terminal."""
    words = sorted(set(re.findall(r"\w{3,}", query.lower())), key=len, reverse=True)
    if not words or not sys.stdout.isatty() or "NO_COLOR" in os.environ:
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


def show_waiting(waiting: Sequence[Waiting], *, as_json: bool) -> None:
    """Print what waits, with everything that could hide in it written out."""
    from vademecum.text import spelled

    if as_json:
        output.as_json(to_json.waiting_json, waiting=waiting)
        return
    for number, each in enumerate(waiting):
        if number:
            output.line()
        if each.request is None:
            output.line(f"{each.short} · {each.trouble}; it can only be rejected")
            continue
        asked = each.request
        where = f"{asked.scope} {asked.project or ''}".strip() if asked.scope == "project" else asked.scope
        output.line(
            f"{each.short} · {asked.operation} · {where} · {asked.origin} {asked.agent}"
            f" through {asked.door}{f' ({asked.client})' if asked.client else ''} · {output.age(asked.at)}"
        )
        for name, value in _shown(asked.arguments):
            if value not in (None, "", [], False) and name not in ("scope", "slug", "texts"):
                said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for line in f"{name}: {spelled(said)}".split("\n"):
                    output.line(f"  {line}")
    if waiting:
        output.line("\n`vade approve yes ID` makes the write, `vade approve no ID` rejects it")
    else:
        output.line("nothing is pending")


def _shown(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of a request as a person reads them: records by their names."""
    for name, value in arguments.items():
        yield name, [each["name"] for each in value] if name == "records" else value


def show_lessons(memory: Memory, kind: str | None, scope: str | None, *, as_json: bool) -> None:
    """Print lessons, the best first."""
    found = memory.knowledge.list(type=kind, scope=scope)
    if as_json:
        output.as_json(to_json.lessons_json, lessons=found)
    elif found:
        rows = [
            [
                str(each.lesson.record.num or "-"),
                each.lesson.record.key,
                str(each.lesson.record.place.scope),
                str(each.lesson.type),
                f"{each.score.value:.2f}",
                f"{each.lesson.confidence:.2f}",
                str(each.lesson.applied or "-"),
                output.age(each.lesson.last),
                each.trust.badge,
                short(each.lesson.text.replace("**", ""), 60),
            ]
            for each in found
        ]
        output.table(
            rows, ["#", "key", "scope", "type", "score", "confidence", "used", "age", "trust", "text"]
        )
    elif kind or scope:
        output.line("no such lessons")
    else:
        output.line('no lessons yet: `vade add "…" --type discovery` saves one')


def figures_row(scope: str, kind: str, figures: LessonFigures) -> list[str]:
    """One line of the figures."""
    ages = (figures.newest_days, figures.oldest_days, figures.age_days)
    return [
        scope,
        kind,
        str(figures.count),
        "-" if figures.confidence is None else f"{figures.confidence:.2f}",
        *("-" if age is None else f"{age:.0f}d" for age in ages),
        f"{figures.size:,}",
        str(figures.applied or "-"),
        ", ".join(f"{count} {level}" for level, count in figures.by_trust.items()),
    ]


def show_outcome(outcome: RunOutcome, *, applied: bool, command: str = "vade sweep") -> None:
    """What a run proposed and did, for a person."""
    for proposal in outcome.proposals:
        output.line(f"{proposal.what}: {proposal.where}: {proposal.why}")
    for path in outcome.deleted:
        output.line(f"{'deleted' if applied else 'would delete'} permanently: {path}")
    for finding in outcome.findings:
        output.line(f"left alone: {finding.where}: {finding.why}")
    large = f"{outcome.large}; " if outcome.large else ""
    dry = f"{large}nothing was changed; `{command} --apply` makes the changes"
    output.line(ending(outcome, applied=applied, nothing="nothing to do", dry=dry))
    show_left(outcome.told)


def ending(outcome: RunOutcome, *, applied: bool, nothing: str, dry: str) -> str:
    """The last line about a run: what was changed and how to take it back, or why nothing was."""
    if not outcome.proposals and not outcome.deleted:
        return nothing
    if not applied:
        return dry
    back = f"; `vade undo {outcome.run}` reverts it" if outcome.run else ""
    return f"changed {output.plural(sum(each.done for each in outcome.told), 'file')}{back}"


def show_left(told: Iterable[Told]) -> None:
    """The edits that were not made."""
    for each in told:
        if not each.done:
            output.line(f"left: {each.path}: {each.why}")


def show_lint(found: Sequence[Finding]) -> None:
    """Findings for a person, and how many there are."""
    for finding in found:
        output.line(f"{finding.severity}: {finding.what}: {finding.where}: {finding.why}")
        if finding.mend:
            output.line(f"  {finding.mend}")
    errors = sum(finding.severity == "error" for finding in found)
    told = f"{output.plural(len(found), 'finding')}, {output.plural(errors, 'error')}"
    output.line(told if found else "no problems found")


def list_sessions(found: Sequence[Session], *, as_json: bool) -> None:
    """Print sessions, for people or for programs."""
    if as_json:
        output.as_json(to_json.sessions_json, sessions=found)
    elif found:
        rows = [
            [
                each.id,
                output.age(each.updated),
                str(each.messages),
                f"{each.usage.total:,}" if each.usage.calls else "",
                "" if each.usage.cost is None else f"${each.usage.cost:.2f}",
                each.project,
                each.trouble or each.name,
            ]
            for each in found
        ]
        output.table(rows, ["session", "age", "messages", "tokens", "cost", "project", "text"])
    else:
        output.line("no sessions yet: `vade sessions import --all` imports those of other agents")


def show_purged(found: Purge) -> None:
    """Print where something was deleted for good, or would be, and where not and why."""
    gone = "would be deleted" if found.dry else "deleted"
    for each in found:
        why = f": {each.why}" if each.why else ""
        output.line(f"{gone if each.gone else 'NOT deleted'}: {each.where} ({each.count}){why}")
    if not found:
        output.line("nothing matches")
    if found.receipt is not None:
        id = found.receipt["id"]
        output.line(
            f"receipt: purges/receipts/{id}.json; `vade purge --list` lists what cannot be saved again"
        )


def show_tombstones(stones: Sequence[Tombstone]) -> None:
    """Print what was purged and cannot come back."""
    for each in stones:
        told = [output.plural(each.standing, "text")] if each.standing else []
        told += [output.plural(len(each.sessions), "session")] if each.sessions else []
        told += [f"{len(each.lifted)} stored again"] if each.lifted else []
        state = "" if each.done else " (interrupted: `vade purge --finish`)"
        output.line(f"{each.at}  {each.what}: {', '.join(told) or 'nothing'}{state}  {each.id}")
    if not stones:
        output.line("nothing was purged with --prove")


def tell_purged(at: str) -> None:
    """Say that a text was purged before and is stored again."""
    if at:
        output.error(f"this text was purged on {at[:10]}; it is saved again because you asked for it")


def show_merged(merged: Merged | None) -> None:
    """Say which wording no longer stands, and how to take that back."""
    if merged is not None:
        output.line(f"  superseded: “{merged.superseded}”")
        output.line(f"  not a duplicate? `{merged.undo}` undoes the merge")
