"""Values as programs get them: one function for each, whichever interface asks.

Knows values and plain data; prints nothing, and loads nothing that prints.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.config import Shared
    from vademecum.context.dry_run import DryRun
    from vademecum.inject.build import Block
    from vademecum.interfaces.install.runner import AgentStatus
    from vademecum.knowledge.bundle import ExportedBundle
    from vademecum.knowledge.graph import Related
    from vademecum.knowledge.intake import Report
    from vademecum.knowledge.trust import RankedLesson, Trust
    from vademecum.lifecycle.passes import Proposal
    from vademecum.lifecycle.profile import ProfileDraft
    from vademecum.lifecycle.promote import Promoted
    from vademecum.lifecycle.rewrite import Rewritten
    from vademecum.lifecycle.runner import RunOutcome
    from vademecum.memory import Memory, Status
    from vademecum.memory.reviewing import Inbox
    from vademecum.search.answer import Answer, Passage
    from vademecum.store.approvals import Waiting
    from vademecum.store.known import KnownProject
    from vademecum.store.pinned import Pinned
    from vademecum.store.runs import Told
    from vademecum.store.sources import Source
    from vademecum.transcripts.importing import ImportedSession
    from vademecum.transcripts.log import Line
    from vademecum.transcripts.recall import Hit
    from vademecum.types import Finding, Merged, Record, Swept

_WHERE = re.compile(r"(?s)(.*?)#L(\d+)(?:-L(\d+))?")


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


def status_json(found: Status, warnings: Sequence[str]) -> dict[str, Any]:
    """The status for programs."""
    project = found.project
    return {
        "home": str(found.home),
        "project": {"id": project.id, "root": str(project.root), "aliases": list(found.aliases)}
        if project
        else None,
        "agent": found.agent,
        "session": found.session,
        "audience": str(found.audience),
        "incognito": found.incognito,
        "trusted": found.trusted,
        "records": dict(found.records),
        "notes": found.notes,
        "pinned": [
            {"path": each.path, "size": each.size, "budget": each.budget, "over": each.over}
            for each in found.pinned
        ],
        "sources": [
            {
                "name": each.name,
                "path": str(each.path),
                "scope": str(each.place.scope),
                "inject": each.inject,
                "problem": each.problem or None,
            }
            for each in found.sources
        ],
        "index": None
        if found.coverage is None
        else {
            "files": found.coverage.files,
            "indexed": found.coverage.indexed,
            "pending": found.coverage.pending,
            "stale": found.coverage.stale,
            "gone": found.coverage.gone,
            "vectorsPending": found.coverage.vectors_pending,
            "chunks": found.coverage.chunks,
            "failed": [{"path": each.where, "reason": each.why} for each in found.coverage.failed],
            "trouble": found.coverage.trouble or None,
        },
        "findings": [finding_json(each) for each in found.findings],
        "warnings": list(warnings),
    }


def finding_json(finding: Finding) -> dict[str, str]:
    """A finding for programs."""
    return {
        "what": finding.what,
        "where": finding.where,
        "why": finding.why,
        "mend": finding.mend,
        "severity": finding.severity,
    }


def related_json(related: Related) -> dict[str, Any]:
    """A record that goes with another, for programs."""
    return {
        "key": related.record.key,
        "path": related.record.path,
        "scope": str(related.record.place.scope),
        "relation": str(related.edge.relation),
        "origin": related.edge.origin,
        "direction": "out" if related.outward else "in",
    }


def shared_json(shared: Shared | None) -> dict[str, Any] | None:
    """A repository's settings file for programs."""
    if shared is None:
        return None
    return {
        "path": str(shared.path),
        "trusted": shared.trusted,
        "settings": {each.name: each.value for each in shared.wanted},
        "problems": [str(each) for each in shared.problems],
    }


def trust_json(trust: Trust) -> dict[str, Any]:
    """How far a text is trusted, for programs."""
    return {
        "level": str(trust.level),
        "badge": trust.badge,
        "injectable": trust.injectable,
        "why": trust.why,
    }


def swept_json(swept: Swept | None) -> dict[str, Any] | None:
    """What a store moved to the archive, for programs."""
    if swept is None:
        return None
    return {"run": swept.run, "moved": swept.moved, "into": list(swept.into), "message": swept.message}


def merged_json(merged: Merged | None) -> dict[str, str] | None:
    """What a text was merged with, for programs."""
    return None if merged is None else merged._asdict()


def lesson_json(each: RankedLesson) -> dict[str, Any]:
    """A lesson for programs."""
    lesson = each.lesson
    return {
        "key": lesson.record.key,
        "num": lesson.record.num,
        "id": lesson.record.id,
        "scope": str(lesson.record.place.scope),
        "scope_id": lesson.record.place.id or None,
        "type": str(lesson.type),
        **{name: value for name, value in lesson.fields.items() if name != "path"},
        **({"path_prefix": lesson.fields["path"]} if "path" in lesson.fields else {}),
        "confidence": lesson.confidence,
        "examples": list(lesson.examples),
        "applied": lesson.applied,
        "learned": lesson.times,
        "firstConfirmed": lesson.first,
        "lastConfirmed": lesson.last,
        "path": lesson.record.path,
        "trust": str(each.trust.level),
        "badge": each.trust.badge,
        "injectable": each.trust.injectable,
        "why": each.trust.why,
        "score": each.score.value,
        "components": {name: value for name, value in each.score._asdict().items() if name != "value"},
    }


def inbox_json(inbox: Inbox) -> dict[str, Any]:
    """What waits, for programs; nothing is decided by looking."""
    return {
        "counts": dict(inbox.counts),
        "items": [
            {
                "kind": each.kind,
                "id": each.id,
                "name": each.name,
                "path": each.path or None,
                "scope": each.scope or None,
                "text": each.text,
                "why": each.why,
            }
            for each in inbox.items
        ],
        "notes": list(inbox.notes),
    }


def waiting_json(waiting: Waiting) -> dict[str, Any]:
    """A request for programs."""
    asked = waiting.request
    if asked is None:
        return {"id": waiting.id, "trouble": waiting.trouble}
    return {
        "id": waiting.id,
        "operation": asked.operation,
        "arguments": dict(asked.arguments),
        "scope": asked.scope,
        "project": asked.project,
        "session": asked.session,
        "agent": asked.agent,
        "origin": asked.origin,
        "door": asked.door,
        "at": asked.at,
    }


def line_json(line: Line) -> dict[str, Any]:
    """A line for programs: its number and the event as it stands in the log, without secrets."""
    from vademecum.store.outgoing import clean_value
    from vademecum.transcripts.events import Torn, to_json

    if isinstance(line.event, Torn):
        return {"line": line.number, "torn": line.event.why, "size": line.event.size}
    return {"line": line.number, "event": clean_value(to_json(line.event))}


def hit_json(hit: Hit) -> dict[str, Any]:
    """A result for programs, in the shape agents know."""
    return {
        "session_id": hit.session,
        "session_title": hit.title,
        "project": hit.project,
        "role": hit.role,
        "turn": hit.turn,
        "line": hit.line,
        "time": hit.time,
        "preview": hit.preview,
        "score": hit.score,
        "relevance": hit.relevance,
        "match": hit.match or None,
        "keyword_hits": hit.keyword_hits,
        "exact": hit.exact,
    }


def imported_json(found: ImportedSession) -> dict[str, Any]:
    """What became of a file, for programs."""
    return {**found._asdict(), "path": str(found.path)}


def outcome_json(outcome: RunOutcome, *, applied: bool) -> dict[str, Any]:
    """What a run proposed and did, for programs."""
    return {
        "applied": applied and bool(outcome.run),
        "run": outcome.run or None,
        "large": outcome.large or None,
        "proposals": [proposal_json(each) for each in outcome.proposals],
        "files": [told_json(each) for each in outcome.told],
        "deleted": list(outcome.deleted),
        "unreadable": [{"path": each.where, "why": each.why} for each in outcome.findings],
    }


def proposal_json(proposal: Proposal) -> dict[str, Any]:
    """One proposal, for programs."""
    return {
        "pass": proposal.what,
        "where": proposal.where,
        "why": proposal.why,
        "scope": str(proposal.place.scope) if proposal.place else None,
        "writes": [each.path for each in proposal.edits if each.after is not None],
        "retires": [each.path for each in proposal.edits if each.after is None],
    }


def told_json(told: Told) -> dict[str, Any]:
    """What became of one edit, for programs."""
    return {"path": told.path, "done": told.done, "why": told.why or None}


def compacted_json(found: Rewritten, *, applied: bool) -> dict[str, Any]:
    """What a model made of topics, for programs."""
    return {
        **outcome_json(found.outcome, applied=applied),
        "model": found.model,
        "topics": [topic_json(each) for each in found.outcome.proposals],
        "refused": [{"path": each.path, "why": each.why} for each in found.refused],
    }


def topic_json(proposal: Proposal) -> dict[str, Any]:
    """One topic and the text that takes the place of its entries."""
    from vademecum.lifecycle.rewrite import article_of

    return {"path": proposal.where, "why": proposal.why, "article": article_of(proposal)}


def promoted_json(found: Promoted, *, applied: bool) -> dict[str, Any]:
    """What the journal repeats, for programs."""
    return {
        **outcome_json(found.outcome, applied=applied),
        "promotions": [
            {
                "text": each.text,
                "path": each.path,
                "scope": str(each.place.scope),
                "sources": list(each.sources),
                "origin": str(each.origin),
                "why": each.why,
            }
            for each in found.promotions
        ],
        "notes": list(found.notes),
    }


def profile_json(memory: Memory, found: Pinned | None) -> dict[str, Any]:
    """The profile as it stands, for programs."""
    if found is None:
        return {"path": None, "text": "", "sections": []}
    trusts = [memory.trust_of(each, trusted=found.trusted) for each in found.sections]
    return {
        "path": found.path,
        "text": found.text,
        "updated": found.updated,
        "size": found.size,
        "budget": found.budget,
        "sections": [
            {
                "text": each.text,
                "origin": str(each.origin) if each.origin else None,
                "trust": str(trust.level),
                "injected": trust.injectable,
            }
            for each, trust in zip(found.sections, trusts, strict=True)
        ],
    }


def draft_json(draft: ProfileDraft, run: str, told: Told | None) -> dict[str, Any]:
    """A draft of the profile, for programs."""
    return {
        "lines": list(draft.lines),
        "text": draft.text,
        "messages": draft.messages,
        "sessions": draft.sessions,
        "model": draft.model or None,
        "new": draft.new,
        "notes": list(draft.notes),
        "applied": bool(told and told.done),
        "run": run or None,
        "why": told.why if told and not told.done else "",
    }


def lint_json(found: Sequence[Finding]) -> dict[str, Any]:
    """Findings for programs."""
    return {
        "findings": [lint_finding_json(each) for each in found],
        "errors": sum(each.severity == "error" for each in found),
        "warnings": sum(each.severity == "warning" for each in found),
    }


def lint_finding_json(finding: Finding) -> dict[str, Any]:
    """One finding for programs."""
    path, first, last = place_of(finding)
    return {
        "what": finding.what,
        "where": finding.where,
        "path": path,
        "startLine": first,
        "endLine": last,
        "why": finding.why,
        "severity": finding.severity,
        "mend": finding.mend,
        "scope": str(finding.place.scope) if finding.place else None,
        "scopeId": finding.place.id or None if finding.place else None,
    }


def place_of(finding: Finding) -> tuple[str, int | None, int | None]:
    """The file of a finding and its lines."""
    match = _WHERE.fullmatch(finding.where)
    if match is None:
        return finding.where, None, None
    return match[1], int(match[2]), int(match[3] or match[2])


def brief_json(record: Record) -> dict[str, object]:
    """A record in one line, for programs."""
    return {
        "key": record.key,
        "num": record.num,
        "id": record.id,
        "scope": str(record.place.scope),
        "path": record.path,
    }


def report_json(report: Report) -> dict[str, Any]:
    """What an import brought, for programs."""
    return {
        "system": report.system,
        "applied": report.applied,
        "run": report.run or None,
        "counts": report.counts,
        "mapped": [{**each._asdict(), "secrets": list(each.secrets)} for each in report.mapped],
        "skipped": [{"source": each.source, "why": each.why} for each in report.skipped],
        "over": [
            {
                "scope": str(each.place.scope),
                "scope_id": each.place.id or None,
                "records": each.records,
                "setting": "decay.max_count",
                "limit": each.limit,
                "suggested": each.enough,
            }
            for each in report.over
        ],
    }


def exported_json(made: ExportedBundle) -> dict[str, Any]:
    """What an export wrote, for programs."""
    return {
        "path": str(made.path),
        "files": made.files,
        "secrets": list(made.secrets),
        "skipped": [{"path": where, "why": why} for where, why in made.skipped],
    }


def project_json(project: KnownProject) -> dict[str, object]:
    """A project for programs."""
    return {
        "id": project.id,
        "name": project.name,
        "path": None if project.root is None else str(project.root),
        "present": project.present,
        "records": project.records,
        "days": project.days,
        "updated": project.updated,
        "joinedTo": project.joined_to,
    }


def source_json(source: Source) -> dict[str, object]:
    """A source for programs."""
    files, left_out = (0, 0) if source.problem else source.count()
    return {
        "name": source.name,
        "path": str(source.path),
        "scope": str(source.place.scope),
        "inject": source.inject,
        "problem": source.problem or None,
        "files": files,
        "foldersLeftOut": left_out,
    }


def block_json(block: Block) -> dict[str, Any]:
    """A block with its parts, for programs."""
    return {
        "text": block.text,
        "tokens": block.tokens,
        "waiting": block.waiting,
        "warnings": list(block.warnings),
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "chars": section.size,
                "leftOut": section.left_out,
                "items": [
                    {"path": item.path, "key": item.key or None, "chars": item.size} for item in section.items
                ],
            }
            for section in block.sections
        ],
    }


def seen_json(each: AgentStatus) -> dict[str, Any]:
    """What of memory an agent's configuration holds, for programs."""
    return {
        "agent": each.agent,
        "program": each.program or None,
        "folder": str(each.folder),
        "found": bool(each.program) or each.there,
        "installed": {scope: dict(parts) for scope, parts in each.installed.items()},
        "without": {scope: dict(parts) for scope, parts in each.without.items()},
    }


def trial_json(found: DryRun) -> dict[str, Any]:
    """A trial for programs."""
    source, window = found.source, found.window
    soft = sum(each.kind == "soft-trim" for each in found.pruned)
    return {
        "source": source.name,
        "format": source.format,
        "model": source.model,
        "messages": len(source.messages),
        "tokens": found.tokens,
        "window": window.tokens.context,
        "ratio": window.ratio,
        "points": window.points._asdict(),
        "sections": {share.name: share.tokens for share in shares_of(found)},
        "used": window.tokens.total,
        "limit": window.tokens.limit,
        "cycles": window.cycles,
        "pruned": {
            "results": len(found.pruned),
            "soft_trims": soft,
            "hard_clears": len(found.pruned) - soft,
            "chars": found.pruned_chars,
        },
        "trimmed": found.trimmed,
        "flushes": found.flushes,
        "steps": [step._asdict() for step in found.steps],
        "rows": [row._asdict() for row in window.rows],
        "summary": window.summary,
        "full": found.full,
    }


def shares_of(found: DryRun) -> list[Share]:
    """The sections of a window in the order they are sent, then what is left, then the room for a reply."""
    tokens = found.window.tokens
    roles = {"user": 0, "assistant": 0, "tool": 0}
    for row in found.window.rows:
        if row.role in roles:
            roles[row.role] += row.tokens
    # What mending adds, and notes of the system in the middle, belong to no role of their own.
    other = max(tokens.messages - sum(roles.values()), 0)
    used = tokens.schemas + tokens.system + tokens.summary + sum(roles.values()) + other
    return [
        Share("tool schemas", tokens.schemas, "#", "magenta"),
        Share("system prompt", tokens.system, "=", "blue"),
        Share("summary block", tokens.summary, "%", "yellow"),
        Share("user", roles["user"], "u", "cyan"),
        Share("assistant", roles["assistant"], "a", "green"),
        Share("tool results", roles["tool"], "t", "red"),
        Share("other", other, "o", "white"),
        Share("free", max(tokens.limit - used, 0), ".", "bright_black"),
        Share("reply reserve", max(tokens.context - tokens.limit, 0), "-", "bright_black"),
    ]


class Share(NamedTuple):
    """One section of a window: how it is drawn, in a pipe and on a terminal."""

    name: str
    tokens: int
    sign: str
    colour: str
