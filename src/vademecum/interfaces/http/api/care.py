"""Problems, runs that put things in order, and what is pending for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field

from vademecum.errors import NotFound
from vademecum.interfaces.http.api.base import Body, Calls, ScopeQuery
from vademecum.interfaces.present import to_json
from vademecum.interfaces.present.shape import FLAG, JsonShape, many
from vademecum.types import Scope

if TYPE_CHECKING:
    from vademecum.interfaces.http.api.base import ApiCall

calls = Calls("care")
RunId = Annotated[str, Path(min_length=1, max_length=200)]
Kind = Literal["write", "folder", "text", "contradiction", "conflict", "promotion", "signal"]
_decision = JsonShape("review_decision", "id kind name why back", done=FLAG)
decisions_json = JsonShape("review_decisions", "run", decided=many(_decision))


class NewRun(Body):
    """A clean-up: what it would do, and with `apply` do it."""

    what: Literal["sweep", "heal", "promote", "merge"]
    apply: bool = False
    large: bool = Field(False, description="Apply it even if it archives many records.")
    scope: Scope | None = None


class PersonsDecision(Body):
    """A person's yes or no to things that wait, by the ids that the inbox gave."""

    ids: Annotated[list[str], Field(min_length=1, max_length=500)]
    yes: bool


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


@calls.add("POST", "/runs", to_json.outcome_json, to_json.promoted_json, scope="write")
def start_run(call: ApiCall, body: NewRun) -> dict[str, Any]:
    """Propose what a clean-up would do, or with `apply` do it; what it did can be undone."""
    care = call.memory.care
    if body.what == "sweep":
        return to_json.outcome_json(care.sweep(apply=body.apply, scope=body.scope, large=body.large))
    if body.what == "promote":
        return to_json.promoted_json(care.promote(apply=body.apply, scope=body.scope))
    do = care.heal if body.what == "heal" else care.merge
    return to_json.outcome_json(do(apply=body.apply, scope=body.scope))


@calls.add("POST", "/runs/{run}/undo", to_json.undone_json, scope="write", once=True)
def undo_run(call: ApiCall, run: RunId) -> dict[str, Any]:
    """Undo a whole run; a review is undone by who may review."""
    undone, told = call.memory.care.undo(run)
    return to_json.undone_json(run=undone, files=told)


@calls.add("GET", "/review", to_json.inbox_json, scope="review")
def list_pending(
    call: ApiCall,
    kind: Annotated[list[Kind] | None, Query(max_length=10)] = None,
    scope: ScopeQuery = None,
    declined: Annotated[bool, Query(description="List rejected items instead.")] = False,
) -> dict[str, Any]:
    """List what waits for a person."""
    return to_json.inbox_json(call.memory.review.inbox(kind or (), scope=scope, declined=declined))


@calls.add("POST", "/review", decisions_json, scope="review")
def decide(call: ApiCall, body: PersonsDecision) -> dict[str, Any]:
    """Decide about things that wait, exactly as they were shown; what changed since then is left alone."""
    review = call.memory.review
    waiting = {each.id: each for each in (*review.inbox().items, *review.inbox(declined=True).items)}
    missing = [each for each in body.ids if each not in waiting]
    if missing:
        raise NotFound(f"nothing pending has the id {missing[0][:80]}", hint="list what is pending again")
    run, decided = review.decide([waiting[each] for each in dict.fromkeys(body.ids)], yes=body.yes)
    told = [_decision(each, id=each.item.id, kind=each.item.kind, name=each.item.name) for each in decided]
    return {"run": run, "decided": told}
