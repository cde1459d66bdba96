"""Additions to the passages of an answer: the state of the code that they cite, and related records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vademecum.errors import VadeError
from vademecum.knowledge import ProjectTree, citations, graph
from vademecum.search.base import Cited, Passage
from vademecum.store import lookup
from vademecum.text import document, may_cite, outgoing
from vademecum.text.document import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vademecum.store import Caller, Home
    from vademecum.types import Place

SECONDS = 0.05
MEMORY = "memory"
_SNIPPET = 700  # characters


def related_passage(found: graph.Related, as_of: str | None = None) -> Passage | None:
    """Return a related record as a passage for the end of an answer; None if it had no entry at `as_of`."""
    record, entry = found.record, graph.text_at(found.record, as_of)
    if entry is None:
        return None
    text = outgoing.clean_text(entry.text)
    text = text if len(text) <= _SNIPPET else text[: _SNIPPET - 1] + "…"
    note = os.path.isabs(record.path)  # of an attached folder
    return Passage(
        record.path,
        entry.start,
        entry.end,
        text,
        0.0,
        0.0,
        record.source if note and record.source else "memory",
        record.place,
        {},
        title=outgoing.clean_text(record.title),
        key=None if note else record.key,
        type=None if note else record.type,
        num=record.num,
        tags=outgoing.clean_all(record.tags),
        time=entry.time,
        origin=str(entry.origin) if entry.origin else None,
        superseded=entry.superseded,
        related={
            "to": found.to.key,
            "relation": str(found.edge.relation),
            "origin": found.edge.origin,
        },
    )


def attach_standing(
    passages: Sequence[Passage], *, home: Home, caller: Caller, root: Path, project: Place
) -> tuple[Passage, ...]:
    """Return the passages; current records of the project get the state of the code that they cite."""
    tree = ProjectTree(root, seconds=SECONDS)
    cited = [
        _cited(each, tree, home, caller)
        if each.source == MEMORY and each.place == project and each.superseded is None
        else None
        for each in passages
    ]
    # Names need a walk over all files: one walk serves all passages.
    here = citations.look_up([claim for each in cited if each is not None for claim in each[0]], tree)
    return tuple(
        passage if each is None else _with_claims(passage, *each, tree, here)
        for passage, each in zip(passages, cited, strict=True)
    )


def _cited(
    passage: Passage, tree: ProjectTree, home: Home, caller: Caller
) -> tuple[list[citations.Claim], str] | None:
    """Return the code citations in the shown lines of a passage, and the marks of outdated entries there.

    Return None if there can be no citation, or if the file cannot be read.
    """
    if not may_cite(passage.snippet):
        return None
    try:
        _, content = lookup.by_path(home, caller, passage.path)
        parsed = document.parse(decode(content or b""))
    except (VadeError, OSError):
        return None  # it was just found, and is shown as it was found
    entries = [each for each in parsed.entries if each.start <= passage.end and passage.start <= each.end]
    marks = {
        where: mark for each in entries for where, mark in citations.parse_marks(each.cites or "").items()
    }
    lines = parsed.source.split("\n")[passage.start - 1 : passage.end]
    shown = "\n".join(line for line in lines if not line.startswith("<!-- origin:"))
    claims = [each.claim for each in citations.find_stated(shown, tree=tree, bare=False, marks=marks)]
    return claims, "; ".join(each.stale for each in entries if each.stale and each.live)


def _with_claims(
    passage: Passage,
    claims: Sequence[citations.Claim],
    stale: str,
    tree: ProjectTree,
    here: Mapping[str, str],
) -> Passage:
    checked = [citations.check_claim(claim, tree, here) for claim in claims]
    told = tuple(Cited(each.claim.cited, str(each.standing), each.why) for each in checked if each)
    return passage._replace(claims=told, stale=stale or None)
