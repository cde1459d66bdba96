"""Stale claims: what records of the project say of its own files and names, and is no longer so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge import claims
from vademecum.knowledge.claims import Standing
from vademecum.lifecycle import statements
from vademecum.lifecycle.contradictions import first_line
from vademecum.lifecycle.lint.base import ERROR, INFO, WARNING, at
from vademecum.store.texts import decode
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.lifecycle.base import Seen
    from vademecum.lifecycle.lint.base import Material
    from vademecum.types import Entry

NAME = "stale_claim"
MOST_SYMBOLS = 2000  # looked for in one run
_OTHER = re.compile(
    r"(?i)\b(?:instead of|rather than|not in|no|never|without|missing|absent|output|generates?)\b"
)


class Stale(NamedTuple):
    """One claim of an entry that does not stand as it was made."""

    seen: Seen
    number: int  # of the entry, from 0
    checked: claims.Checked
    line: int

    @property
    def entry(self) -> Entry:
        """The entry that makes it."""
        return self.seen.record.entries[self.number]

    @property
    def marked(self) -> bool:
        """Whether the entry says so itself."""
        return told(self.checked) in (self.entry.stale or "")


def check(material: Material) -> Iterator[Finding]:
    """Claims of the project's records, held against its tree."""
    found, whole = stale(material)
    for each in found:
        record, standing = each.seen.record, each.checked.standing
        severity = ERROR if standing is Standing.GONE and each.checked.claim.kind != "symbol" else WARNING
        why = each.checked.why
        if each.marked:
            severity, why = INFO, f"{why}; the entry is marked so"
        mend = f"vade edit {record.key} --scope {record.place.scope}"
        if not each.marked and markable(each):
            mend = f"vade heal --scope {record.place.scope} --apply"
        yield Finding(NAME, at(record.path, each.line), why, mend, severity, record.place)
    if not whole:
        material.watch.left_out.setdefault("files of the project", 0)


def markable(each: Stale) -> bool:
    """Whether heal marks it: what moved is only told, for it is still there."""
    return each.seen.shelf.trusted and each.checked.standing in (Standing.GONE, Standing.CHANGED)


def stale(material: Material, *, symbols: bool = True) -> tuple[list[Stale], bool]:
    """All that does not stand, and whether the whole tree was looked at."""
    if material.root is None or material.project is None:
        return [], True
    tree = claims.Tree(material.root, seconds=material.watch.left)
    made: list[tuple[Seen, int, int, claims.Claim]] = []
    own = [each for each in material.seen if each.record.place == material.project]
    for seen in material.watch.each(own, NAME):
        made += _claims(seen, tree)
    named = claims.wanted(claim for *_, claim in made) if symbols else set()
    here = tree.holding(sorted(named)[:MOST_SYMBOLS])
    found = []
    for seen, index, line, claim in made:
        marks = claims.parse(seen.record.entries[index].cites or "")
        if claim.kind == "symbol":
            checked = claims.found_in([claim], here) if symbols and tree.whole else []
        else:
            checked = claims.check([claim], tree, marks=marks, symbols=False)
        found += [
            Stale(seen, index, each, line) for each in checked if each.standing is not Standing.VERIFIED
        ]
    return found, tree.whole


def _claims(seen: Seen, tree: claims.Tree) -> Iterator[tuple[Seen, int, int, claims.Claim]]:
    lines: Sequence[str] = ()
    for index, entry in enumerate(seen.record.entries):
        if not entry.live or not ("/" in entry.text or "`" in entry.text or "." in entry.text):
            continue
        for said in statements.split(entry.text):
            if not said.present or _OTHER.search(said.text):
                continue
            for claim in claims.cited(said.text, tree=tree):
                lines = lines or decode(seen.content).split("\n")
                yield seen, index, min(first_line(lines, entry) + said.line, entry.end), claim


def told(checked: claims.Checked) -> str:
    """A claim and how it stands, as a mark has it."""
    return f"{checked.claim.cited} {checked.standing}"
