"""Pinned documents, which every session gets: their budget, and their sections."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.safe import clean_text
from vademecum.interfaces.present.to_text import diff_lines
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.memory import Memory
    from vademecum.memory.values import HistoryStep, Pinned

PURPOSES = {
    "context.md": "How to work here: stack, conventions, commands. One for all projects, one for each.",
    "MEMORY.md": "What matters everywhere: people, systems, decisions.",
    "profile.md": "Who you are and how you like to work.",
}
VERSIONS = 30  # the newest versions of a history
LINES = 200  # lines of one diff
_UNITS = {"context.md": "bytes"}


def list_pinned(memory: Memory) -> dict[str, Any]:
    """Return the pinned documents with their budgets, and those that could exist and are missing."""
    work = memory.workspace
    with work.reported("read the pinned documents"):
        found, findings = work.pinned(work.places(None))
    shown = [_document(memory, each) for each in found]
    there = {(each["name"], each["scope"]) for each in shown}
    missing = [
        {"name": name, "scope": scope, "purpose": PURPOSES[name]}
        for name, scope in _possible(memory)
        if (name, scope) not in there
    ]
    total = sum(each["size"] for each in shown)
    return {
        "documents": shown,
        "missing": missing,
        "total": total,
        "findings": [{"path": each.where, "why": each.why} for each in findings],
    }


def _possible(memory: Memory) -> list[tuple[str, str]]:
    """Return the possible documents with their scopes, the widest scope first."""
    scopes = {str(place.scope): place.scope.rule.documents for place in memory.workspace.places(None)}
    order = ["global", "agent", "project", "session"]
    return [(name, scope) for name in PURPOSES for scope in order if name in scopes.get(scope, ())]


def _document(memory: Memory, found: Pinned) -> dict[str, Any]:
    scope = str(found.place.scope)
    sections = []
    for each in found.sections:
        trust = memory.review.trust_of(each, document=found)
        sections.append(
            {
                "text": clean_text(each.text),
                "origin": str(each.origin or "user"),
                "trust": str(trust.level),
                "why": trust.why,
                "told": trust.injectable,
            }
        )
    return {
        "name": found.name,
        "scope": scope,
        "path": found.path,
        "purpose": PURPOSES[found.name],
        "updated": found.updated,
        "size": found.size,
        "budget": found.budget,
        "unit": _UNITS.get(found.name, "characters"),
        "share": round(100 * found.size / found.budget, 1),
        "over": found.over,
        "trusted": found.trusted,
        "sections": sections,
    }


def show_pinned(memory: Memory, name: str, scope: str) -> dict[str, Any]:
    """Return one pinned document for an editor: its text, and its earlier versions."""
    wanted = next((each for each in PURPOSES if each.lower() == name.lower()), "")
    if not wanted:
        raise NotFound(f"{name[:40]} is no pinned document", hint=f"one of {', '.join(PURPOSES)}")
    path, text = memory.care.editable(wanted, scope=scope or None)
    with memory.workspace.reported("read the pinned documents"):
        found, _ = memory.workspace.pinned(memory.workspace.places(None))
    here = next((each for each in found if each.path == path), None)
    own = here.place.scope if here else Scope(scope or _scope_of(path))
    size, budget = memory.workspace.documents.measure(own, wanted, here.text if here else "")
    steps = list(memory.archive.history(wanted, scope=scope or None)) if text else []
    return {
        "name": wanted,
        "scope": str(own),
        "path": path,
        "purpose": PURPOSES[wanted],
        "text": text,
        "body": "\n\n".join(each.text for each in here.sections) if here else "",
        "size": size,
        "budget": budget,
        "unit": _UNITS.get(wanted, "characters"),
        "share": round(100 * size / budget, 1),
        "history": _history(steps),
        "versions": len(steps),
    }


def _scope_of(path: str) -> str:
    """Return the scope of a document that does not exist yet, from its path; `project` in a repository."""
    top, _, rest = path.partition("/")
    if rest.startswith("hub/"):  # a team's: its workspace stands before the scope
        rest = rest.split("/", 2)[2]
    return rest.partition("/")[0] if top == "memory" else str(Scope.PROJECT)


def _history(steps: Sequence[HistoryStep]) -> list[dict[str, Any]]:
    """Return each change as a diff, newest first, with the id that restores the version before it."""
    shown = []
    for before, after in reversed([*itertools.pairwise(steps)][-VERSIONS:]):
        diff = diff_lines(clean_text(before.text), clean_text(after.text))
        if diff:
            cut = max(len(diff) - LINES, 0)
            change = {"at": after.at, "by": after.by, "restores": before.id, "diff": diff[:LINES], "cut": cut}
            shown.append(change)
    return shown


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return all pinned documents."""
    return list_pinned(ask.memory)


def data_of_one(ask: ViewRequest) -> dict[str, Any]:
    """Return one pinned document, with `?scope=`."""
    return show_pinned(ask.memory, ask.path["name"], ask.query.get("scope", ""))


VIEW = PageView("/pinned", "Pinned", data, "pinned.html", icon="pinned", key="p")
ONE = PageView("/pinned/{name}", "Pinned", data_of_one, "pinned_edit.html", menu=False, parent="/pinned")
