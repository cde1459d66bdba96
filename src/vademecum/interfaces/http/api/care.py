"""Problems, clean-up runs, and items that are pending for a person."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field

from vademecum.errors import Conflict, NotFound
from vademecum.interfaces.http.api.base import ApiReply, Body, Calls, ScopeQuery, tag_of
from vademecum.interfaces.http.problems import HttpProblem
from vademecum.interfaces.present import to_json
from vademecum.interfaces.present.safe import clean_value
from vademecum.interfaces.present.shape import FLAG, JsonShape, many
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.interfaces.http.api.base import ApiCall
    from vademecum.memory import Memory
    from vademecum.memory.values import Proposal, RunOutcome

calls = Calls("care")
_MADE = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\"']*|\bid: (?:[0-9a-z]{10}|[0-9a-f-]{36})\b")
RunId = Annotated[str, Path(min_length=1, max_length=200)]
Kind = Literal[
    "write",
    "folder",
    "text",
    "contradiction",
    "version",
    "notice",
    "held",
    "conflict",
    "promotion",
    "signal",
    "lesson",
]
_decision = JsonShape("review_decision", "id kind name why back", done=FLAG)
decisions_json = JsonShape("review_decisions", "run", decided=many(_decision))


class NewRun(Body):
    """A clean-up run: proposed only, or with `apply` carried out."""

    what: Literal["sweep", "heal", "promote", "merge"]
    apply: bool = False
    large: bool = Field(False, description="Apply it even if it archives many records.")
    scope: Scope | None = None


class PersonsDecision(Body):
    """A person's yes or no to things that wait, by the ids that the inbox gave."""

    ids: Annotated[list[str], Field(min_length=1, max_length=500)]
    yes: bool
    keep: Literal["first", "second", "both"] | None = Field(
        None, description="Which of two versions stays; without it yes keeps the second, no the first."
    )


@calls.add("GET", "/check", to_json.lint_json, scope="read")
def check(call: ApiCall, scope: ScopeQuery = None) -> dict[str, Any]:
    """Find problems, the worst first; changes nothing."""
    found = call.memory.care.lint(scope=scope)
    counted = {level: sum(each.severity == level for each in found) for level in ("error", "warning")}
    return to_json.lint_json(findings=found, errors=counted["error"], warnings=counted["warning"])


@calls.add("GET", "/runs", to_json.runs_json, scope="read")
def list_runs(call: ApiCall) -> dict[str, Any]:
    """List the runs and reviews that changed something, the newest first."""
    return to_json.runs_json(runs=call.memory.care.runs())


@calls.add("POST", "/runs", to_json.outcome_json, to_json.promoted_json, scope="write", tagged=True)
def start_run(call: ApiCall, body: NewRun) -> ApiReply:
    """Propose a clean-up, or with `apply` carry it out; a clean-up can be undone.

    The call that applies proposals passes their ETag in If-Match; the answer is 409 with new proposals if
    they have changed.
    """
    proposed, results = run_pass(call.memory, body.what, scope=body.scope)
    tag = tag_of_proposals(proposed.proposals)
    if not body.apply:
        return ApiReply(results(), tag)
    if not call.holds(tag):
        raise HttpProblem(
            409,
            "what would be done changed meanwhile; nothing was changed",
            hint="look at what is proposed now, and send its ETag",
            kind=Conflict.__name__,
            current={**clean_value(results()), "etag": tag},
        )
    _, done = run_pass(call.memory, body.what, apply=True, scope=body.scope, large=body.large)
    return ApiReply(done())


def run_pass(
    memory: Memory, what: str, *, apply: bool = False, scope: Scope | None = None, large: bool = False
) -> tuple[RunOutcome, Callable[[], dict[str, Any]]]:
    """Run the clean-up `what`; return its outcome, and a function that returns the outcome as JSON.

    Without `apply`, nothing is changed, and the outcome has only proposals. `large` allows a sweep to archive
    many records.
    """
    care = memory.care
    if what == "promote":
        promoted = care.promote(apply=apply, scope=scope)
        return promoted.outcome, lambda: to_json.promoted_json(promoted)
    if what == "sweep":
        found = care.sweep(apply=apply, scope=scope, large=large)
    else:
        found = (care.heal if what == "heal" else care.merge)(apply=apply, scope=scope)
    return found, lambda: to_json.outcome_json(found)


def tag_of_proposals(proposals: Sequence[Proposal]) -> str:
    """Return the ETag of proposals: a hash of their files' old and new texts, without new times and ids."""
    changes = [
        (
            each.where,
            [(edit.path, edit.before, edit.after and _MADE.sub(b"", edit.after)) for edit in each.edits],
        )
        for each in proposals
    ]
    return tag_of(repr(changes))


@calls.add("POST", "/runs/{run}/undo", to_json.undone_json, scope="write", once=True)
def undo_run(call: ApiCall, run: RunId) -> dict[str, Any]:
    """Undo a whole run; a review can be undone only by visitors who may review."""
    undone, files = call.memory.care.undo(run)
    return to_json.undone_json(run=undone, files=files)


@calls.add("GET", "/review", to_json.inbox_json, scope="review")
def list_pending(
    call: ApiCall,
    kind: Annotated[list[Kind] | None, Query(max_length=10)] = None,
    scope: ScopeQuery = None,
    declined: Annotated[bool, Query(description="List rejected items instead.")] = False,
) -> dict[str, Any]:
    """List what is pending for a person."""
    return to_json.inbox_json(call.memory.review.inbox(kind or (), scope=scope, declined=declined))


@calls.add("POST", "/review", decisions_json, scope="review")
def decide(call: ApiCall, body: PersonsDecision) -> dict[str, Any]:
    """Decide about pending items exactly as they were shown; items changed since then stay pending."""
    review = call.memory.review
    waiting = {each.id: each for each in (*review.inbox().items, *review.inbox(declined=True).items)}
    missing = [each for each in body.ids if each not in waiting]
    if missing:
        raise NotFound(f"nothing pending has the id {missing[0][:80]}", hint="list what is pending again")
    run, decided = review.decide(
        [waiting[each] for each in dict.fromkeys(body.ids)], yes=body.yes, keep=body.keep
    )
    results = [_decision(each, id=each.item.id, kind=each.item.kind, name=each.item.name) for each in decided]
    return {"run": run, "decided": results}
