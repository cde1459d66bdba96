"""Print values for people, with one function for each kind of value."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.present import output
from vademecum.interfaces.present.safe import clean_text
from vademecum.lazy import LazyModule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum import Answer, Passage, Session
    from vademecum.interfaces.present import to_json
    from vademecum.memory import Memory
    from vademecum.memory.values import (
        Distilled,
        EditResult,
        LessonFigures,
        PendingRequest,
        Purge,
        RunOutcome,
        Tombstone,
    )
    from vademecum.search.evidence import FoundConversation
    from vademecum.types import Finding, Merged
else:
    to_json = LazyModule("vademecum.interfaces.present.to_json")

_BAR = 24


def shorten(text: str, length: int) -> str:
    """Return the beginning of a text on one line, without secrets."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


_BOOKKEEPING = re.compile(r"(?:updated|generated):")  # lines that every write changes


def diff_lines(before: str, after: str) -> list[str]:
    """Return the difference of two texts as `diff -u` shows it, without lines that every write changes."""
    old, new = (
        [line for line in text.splitlines() if not _BOOKKEEPING.match(line)] for text in (before, after)
    )
    from difflib import unified_diff

    return [*unified_diff(old, new, lineterm="", n=1)][2:]


def show_findings(findings: Sequence[Finding]) -> None:
    """Print findings, the worst first."""
    order = {"error": 0, "warning": 1, "info": 2}
    for finding in sorted(findings, key=lambda finding: order.get(finding.severity, 3)):
        mend = f"  →  {finding.mend}" if finding.mend else ""
        output.line(f"{finding.severity}: {finding.what}: {finding.where}: {finding.why}{mend}")


def show_answer(answer: Answer, query: str, *, explain: bool, as_json: bool) -> None:
    """Print an answer, or its JSON."""
    if as_json:
        output.as_json(to_json.explained_found_json if explain else to_json.found_json, answer)
        return
    show_passages(answer, query, explain=explain)
    if not answer.results:
        output.line("Nothing found. Try other words, or `vade list` to list all records.")
    if answer.hidden:
        hidden = output.plural(answer.hidden, "result")
        output.error(f"{hidden} hidden by --min-score; 0 shows all")
    covered = answer.coverage
    if explain or covered.indexed < covered.files:
        more = f" and {output.plural(covered.sessions, 'session')}" if covered.sessions else ""
        more += f" of {answer.hub}" if answer.hub else ""
        files = output.plural(covered.files, "file")
        output.line(f"\n{answer.mode}, {covered.indexed} of {files}{more} covered")
    for note in (*answer.notes, *answer.degraded):
        output.error(note)


def show_passages(answer: Answer, query: str, *, explain: bool = False) -> None:
    """Print the results: hits of one conversation together, and a heading before the weak ones at the end."""
    heading = False
    conversations = {each.group: each for each in answer.conversations}
    shown: set[int] = set()
    listed = answer.results
    strong = [at for at, each in enumerate(listed) if each.match != "weak" and each.related is None]
    last = strong[-1] if strong else -1  # in an order of the caller's choice, weak ones may come before it
    for at, passage in enumerate(listed):
        if passage.group in shown:
            continue
        if at:
            output.line()
        if passage.match == "weak" and passage.related is None and at > last and not heading:
            heading = True
            output.line("weak matches (they may not answer this):\n")
        output.line(_format_title(passage, answer.now))
        if passage.group:
            shown.add(passage.group)
            hits = [each for each in listed if each.group == passage.group]
            _show_conversation(conversations[passage.group], hits, query, explain=explain)
            continue
        _show_text(output.plain(passage.snippet), query)
        _show_marks(passage)
        click.echo(_dim(f"  {output.plain(_format_place(passage))}"))
        for claim in passage.claims:
            output.line(f"  [{claim.standing}] {claim.why or claim.cited}")
        if passage.stale and not passage.claims:
            output.line(f"  [stale] {passage.stale}")
        if explain:
            _explain(passage)


def _show_conversation(
    conversation: FoundConversation, hits: Sequence[Passage], query: str, *, explain: bool
) -> None:
    """Print the hits of a conversation, and then its other turns in one line each."""
    for hit in hits:
        _show_text(_said(hit.role, hit.start, hit.snippet), query)
        _show_marks(hit)
        if explain:
            _explain(hit)
    click.echo(_dim(f"  {output.plain(conversation.path)}#L{hits[0].start}"))
    for turn in conversation.turns:
        click.echo(_dim(f"    {output.plain(_said(turn.role, turn.line, ' '.join(turn.text.split())))}"))


def _show_marks(passage: Passage) -> None:
    if passage.newer:
        output.line(f"  newer: {passage.newer}")
    if passage.heard:
        output.line(f"  heard, {passage.heard}")


def _said(role: str, line: int, text: str) -> str:
    """Return a turn's text with its line number, and with its speaker if the text does not begin with it."""
    said = text.removeprefix("… ")
    speaker = "" if said.lower().startswith(f"{role}:") else f"{role}: "
    return f"L{line} {speaker}{text}"


def _show_text(text: str, query: str) -> None:
    lines = (f"  {line}" for line in output.plain(text).split("\n") if line.strip())
    click.echo(_highlight("\n".join(lines), query))


def _format_title(passage: Passage, now: datetime | None = None) -> str:
    """Return the title of a result, such as `#12 deploys · project · 2026-11-12, 3 days ago · strong`."""
    number = f"#{passage.num} " if passage.num is not None else ""
    name = passage.key if passage.key and passage.source == "memory" else _stem(passage)
    if passage.group and passage.title:
        name = shorten(passage.title, 80)
    parts = [f"{number}{name}", str(passage.place.scope), *([f"team:{passage.team}"] if passage.team else [])]
    if passage.source != "memory":
        parts.insert(1, passage.source)
    if (passage.origin or "").startswith("member:"):
        parts.append(str(passage.origin))
    if passage.vouched:
        parts.append(f"verified by {', '.join(passage.vouched)}")
    if passage.time:
        parts.append(output.dated(passage.time, now))
    if passage.related is not None:
        relation = passage.related
        parts.append(f"{relation['relation']} {relation['to']} ({relation['origin']})")
    else:
        parts.append(passage.match)
    if passage.superseded:
        parts.append(f"superseded {passage.superseded[:10]}")
    return " · ".join(parts)


def _stem(passage: Passage) -> str:
    """Return a file's name without its folders and ending."""
    return passage.path.rpartition("/")[2].removesuffix(".md") or passage.path


def _format_place(passage: Passage) -> str:
    lines = f"#L{passage.start}-L{passage.end}" if passage.end > passage.start else f"#L{passage.start}"
    return f"{passage.path}{lines}"


def _dim(text: str) -> str:
    return click.style(text, dim=True) if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def _highlight(text: str, query: str) -> str:
    """Return a text with the words of the question in bold, on a terminal."""
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
    parts = [f"{name.replace('_', ' ')} {value:.3g}" for name, value in numbers.items() if value]
    for start in range(0, len(parts), 5):
        output.line(f"    {', '.join(parts[start : start + 5])}")


def show_pending(waiting: Sequence[PendingRequest], *, as_json: bool) -> None:
    """Print pending writes, with hidden characters written out."""
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
        request = each.request
        where = (
            f"{request.scope} {request.project or ''}".strip()
            if request.scope == "project"
            else request.scope
        )
        client = f" ({request.client})" if request.client else ""
        output.line(
            f"{each.short} · {request.operation} · {where} · {request.origin} {request.agent}"
            f" through {request.door}{client} · {output.age(request.at)}"
        )
        for name, value in _format_arguments(request.arguments):
            if value not in (None, "", [], False) and name not in ("scope", "slug", "texts"):
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for line in f"{name}: {spelled(text)}".split("\n"):
                    output.line(f"  {line}")
    if waiting:
        output.line("\n`vade review approve yes ID` makes the write, `vade review approve no ID` rejects it")
    else:
        output.line("nothing is pending")


def _format_arguments(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the arguments of a request for a person, with records by their keys."""
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
                shorten(each.lesson.text.replace("**", ""), 60),
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


def format_figures(scope: str, kind: str, figures: LessonFigures) -> list[str]:
    """Return the figures of one scope and type as a row."""
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


def show_outcome(outcome: RunOutcome, *, applied: bool, command: str = "vade tidy --only sweep") -> None:
    """Print the proposals of a run and its result; after a dry run, also the command that applies them."""
    for proposal in outcome.proposals:
        output.line(f"{proposal.what}: {proposal.where}: {proposal.why}")
    for path in outcome.deleted:
        output.line(f"{'deleted' if applied else 'would delete'} permanently: {path}")
    for finding in outcome.findings:
        output.line(f"left alone: {finding.where}: {finding.why}")
    large = f"{outcome.large}; " if outcome.large else ""
    dry = f"{large}nothing was changed; `{command} --apply` makes the changes"
    output.line(format_ending(outcome, applied=applied, nothing="nothing to do", dry=dry))
    show_skipped(outcome.results)


def format_ending(outcome: RunOutcome, *, applied: bool, nothing: str, dry: str) -> str:
    """Return the last line about a run: what changed and how to undo it, or the text `nothing` or `dry`."""
    if not outcome.proposals and not outcome.deleted:
        return nothing
    if not applied:
        return dry
    back = f"; `vade undo {outcome.run}` reverts it" if outcome.run else ""
    return f"changed {output.plural(sum(each.done for each in outcome.results), 'file')}{back}"


def show_skipped(results: Iterable[EditResult]) -> None:
    """Print the edits that were not made."""
    for each in results:
        if not each.done:
            output.line(f"left: {each.path}: {each.why}")


def show_lint(found: Sequence[Finding]) -> None:
    """Print findings and their number."""
    for finding in found:
        output.line(f"{finding.severity}: {finding.what}: {finding.where}: {finding.why}")
        if finding.mend:
            output.line(f"  {finding.mend}")
    errors = sum(finding.severity == "error" for finding in found)
    counts = f"{output.plural(len(found), 'finding')}, {output.plural(errors, 'error')}"
    output.line(counts if found else "no problems found")


def list_sessions(found: Sequence[Session], *, as_json: bool, elsewhere: int = 0) -> None:
    """Print sessions, or their JSON; without any, say how many there are `elsewhere`."""
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
    elif elsewhere:
        count = output.plural(elsewhere, "session")
        output.line(f"no sessions of this project; {count} of others: `vade sessions list --all`")
    else:
        output.line("no sessions yet: `vade sessions import --all` imports those of other agents")


def show_purged(found: Purge) -> None:
    """Print where something was, or would be, permanently deleted, and where not."""
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
    """Print the texts that were purged with `--prove`."""
    for stone in stones:
        parts = [output.plural(stone.standing, "text")] if stone.standing else []
        parts += [output.plural(len(stone.sessions), "session")] if stone.sessions else []
        parts += [f"{len(stone.lifted)} stored again"] if stone.lifted else []
        state = "" if stone.done else " (interrupted: `vade purge --finish`)"
        output.line(f"{stone.at}  {stone.what}: {', '.join(parts) or 'nothing'}{state}  {stone.id}")
    if not stones:
        output.line("nothing was purged with --prove")


def warn_of_purged(at: str) -> None:
    """Print that a saved text was purged before."""
    if at:
        output.error(f"this text was purged on {at[:10]}; it is saved again because you asked for it")


def warn_of_dropped(fields: Sequence[str]) -> None:
    """Print which fields were not saved because only a person sets them."""
    if fields:
        output.error(f"saved without {', '.join(fields)}, which only a person sets, in a terminal")


def show_merged(merged: Merged | None) -> None:
    """Print which wording a merge replaced, and how to undo the merge; nothing without a merge."""
    if merged is not None:
        output.line(f"  superseded: “{merged.superseded}”")
        output.line(f"  not a duplicate? `{merged.undo}` undoes the merge")


def show_distilled(session: str, result: Distilled) -> None:
    """Print how many statements a model proposed of a session, were added and were refused."""
    if result.problem:
        output.error(f"{result.model} has not read all of {session}: {result.problem}")
        if not result.proposed:
            return
    proposed = output.plural(result.proposed, "statement")
    output.line(f"{result.model} proposed {proposed} of {session}; {result.added} added to `vade review`")
    for reason, count in result.refused.items():
        output.line(f"  {count} refused: {reason}")
