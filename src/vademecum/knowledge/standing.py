"""How the code that a hit cites stands now, found out for the hits that are shown and for nothing else.

Costs a look at each path that is named. Only one that is missing is looked for elsewhere, for a moment; what
cannot be known by then is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import VadeError
from vademecum.knowledge import claims
from vademecum.search.answer import Cited
from vademecum.store import document, reading
from vademecum.store.texts import decode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vademecum.search.answer import Passage
    from vademecum.store.home import Home
    from vademecum.store.scopes import Caller
    from vademecum.types import Place

SECONDS = 0.05
MEMORY = "memory"


def attached(
    passages: Sequence[Passage], *, home: Home, caller: Caller, root: Path, project: Place
) -> tuple[Passage, ...]:
    """The passages, those of the project's records with the standing of what they cite."""
    tree = claims.Tree(root, seconds=SECONDS)
    return tuple(
        _with_claims(each, tree, home, caller)
        if each.source == MEMORY and each.place == project and each.superseded is None
        else each
        for each in passages
    )


def _with_claims(passage: Passage, tree: claims.Tree, home: Home, caller: Caller) -> Passage:
    if not any(mark in passage.snippet for mark in "/.`"):
        return passage
    try:
        _, content = reading.by_path(home, caller, passage.path)
        parsed = document.parse(decode(content or b""))
    except (VadeError, OSError):
        return passage  # it was found a moment ago, and is shown as it was
    entries = [each for each in parsed.entries if each.start <= passage.end and passage.start <= each.end]
    marks = {where: mark for each in entries for where, mark in claims.parse(each.cites or "").items()}
    lines = parsed.source.split("\n")[passage.start - 1 : passage.end]
    shown = "\n".join(line for line in lines if not line.startswith("<!-- origin:"))
    found = claims.check(claims.cited(shown, tree=tree, bare=False), tree, marks=marks, symbols=False)
    told = tuple(Cited(each.claim.cited, str(each.standing), each.why) for each in found)
    stale = "; ".join(each.stale for each in entries if each.stale and each.live)
    return passage._replace(claims=told, stale=stale or None)
