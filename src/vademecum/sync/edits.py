"""Edits without a file: what a person does to one entry where only facts are, such as on a hub's page.

What the file would say afterwards is made here, and `diff` makes the facts of it, as it does of a hand edit.
Pure, but for the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Conflict, NotFound, UsageError
from vademecum.store import document
from vademecum.sync import blocks
from vademecum.sync.diff import Ledger, diff
from vademecum.sync.project import FactSet, ShownBlock, Shows, is_in, project
from vademecum.text import clock, names
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from vademecum.sync.facts import SyncFact

__all__ = [
    "ALL", "DOOR", "EditPlace", "FactSet", "ShownBlock", "Shows", "add_entry", "append_entry", "blocks",
    "change_entry", "edit_facts", "group_versions", "project", "settle", "verified_by",
    "vouch_facts",
]  # fmt: skip

ALL = "all"  # of several versions of an entry: each becomes an entry of its own
DOOR = "page"


class EditPlace(NamedTuple):
    """Where new facts go on from: the stream, the replica that makes them, and the largest number seen."""

    stream: str
    replica: str
    last: SyncFact | None
    lam: int

    def ledger(self, seen: FactSet) -> Ledger:
        """An empty ledger over these facts."""
        return Ledger(self.stream, self.replica, seen, self.last, self.lam, door=DOOR)


def group_versions(shows: Shows) -> list[list[ShownBlock]]:
    """The entries of a file that have several versions, with all of them."""
    groups: dict[tuple[str, str], list[ShownBlock]] = {}
    for each in shows.blocks:
        if each.conflict:
            groups.setdefault(each.stands[0][:2], []).append(each)
    return [group for group in groups.values() if len(group) > 1]


def verified_by(state: FactSet, shows: Shows, block: ShownBlock) -> dict[str, tuple[SyncFact, ...]]:
    """The members whose word is that exactly this text is right, with the facts that say so."""
    begin = f"{blocks.name_of(block.raw)} "
    found: dict[str, tuple[SyncFact, ...]] = {}
    for doc in shows.docs:
        for target, facts in state.of(doc, "vouch").items():
            if target.startswith(begin) and is_in(facts):
                found[target.removeprefix(begin)] = tuple(facts)
    return found


# ------------------------------------------------------------ what the file says afterwards


def change_entry(shows: Shows, entry: str, text: str) -> str:
    """The file with another text for one entry; without the entry where there is none."""
    number = _find(shows, entry)
    if not text.strip():
        return _with(shows, {number: None})
    return _with(shows, {number: _worded(shows, number, text)})


def add_entry(shows: Shows, text: str, at: datetime) -> str:
    """The file with one entry more, or a section more where it has no dates."""
    if not text.strip():
        raise UsageError("an entry needs a text")
    return append_entry(shows.text, shows.path, text, at)


def append_entry(whole: str, path: str, text: str, at: datetime) -> str:
    """A file's text with one entry more at its end."""
    if blocks.is_pinned(path):
        return f"{whole.rstrip()}\n\n{document.tidy(text)}\n".lstrip("\n")
    entry = Entry(document.tidy(text), clock.stamp(at), Origin.USER, id=names.new_mark())
    return document.append(whole, entry)


def settle(shows: Shows, entry: str, keep: str, text: str = "") -> str:
    """The file once it was decided which version of an entry stays: one, all of them, or a new text."""
    group = next((each for each in group_versions(shows) if each[0].id == entry), None)
    if group is None:
        raise Conflict("there are no two versions of this entry any more", hint="look at it again")
    ids = [each.id for each in group]
    numbers = [_find(shows, each) for each in ids]
    if text.strip():
        rest: dict[int, str | None] = dict.fromkeys(numbers[1:])
        return _with(shows, {numbers[0]: _worded(shows, numbers[0], text), **rest})
    if keep == ALL:
        lifted: dict[int, str | None] = {
            number: blocks.sign(shows.blocks[number].raw, contradicts="") for number in numbers[1:]
        }
        return _with(shows, lifted)
    if keep not in ids:
        raise UsageError("this is no version of that entry")
    return _with(shows, {number: None for number, each in zip(numbers, ids, strict=True) if each != keep})


def _find(shows: Shows, entry: str) -> int:
    for number, each in enumerate(shows.blocks):
        if each.id == entry:
            return number
    raise NotFound("this entry does not exist any more", hint="look at the document again")


def _with(shows: Shows, changes: dict[int, str | None]) -> str:
    """The file with some blocks changed or, where there is None, taken out."""
    page = blocks.cut(shows.text, shows.path)
    if [each.raw for each in page.blocks] != [each.raw for each in shows.blocks]:
        raise Conflict("this document can only be edited as a file", hint="edit it on a machine, and sync")
    made = [
        block._replace(raw=raw)
        for number, block in enumerate(page.blocks)
        if (raw := changes.get(number, block.raw)) is not None
    ]
    return blocks.join(page._replace(blocks=tuple(made)))


def _worded(shows: Shows, number: int, text: str) -> str:
    """A block with another text: its heading and its id stay, and it is a person's word now."""
    raw, said = shows.blocks[number].raw, document.tidy(text)
    signed = {name: value for name, value in blocks.parts(raw).items() if name not in ("by", "cites")}
    if blocks.is_pinned(shows.path):
        return blocks.sign(said, **signed)
    sections = document.parse(raw).sections
    if len(sections) != 1:
        raise Conflict("this entry can only be edited as a file", hint="edit it on a machine, and sync")
    inner = raw[sections[0].text_start : sections[0].text_end]
    lead = raw[: sections[0].text_start] + inner[: len(inner) - len(inner.lstrip("\r\n"))]
    own = shows.blocks[number].id.partition("~")[0]
    told = {**signed, "origin": str(Origin.USER), "id": own, "contradicts": ""}
    return blocks.sign(lead + document.escape(said), **told)


# ------------------------------------------------------------ facts


def edit_facts(
    place: EditPlace, seen: FactSet, base: Shows | None, path: str, text: str
) -> Sequence[SyncFact]:
    """The facts of an edit of what `seen` shows as `base`; a new file is a new document."""
    ledger = place.ledger(seen)
    doc = "" if base is not None else blocks.document_id(path, None)
    diff(ledger, base, path, text, doc=doc)
    return ledger.made


def vouch_facts(
    place: EditPlace, seen: FactSet, shows: Shows, block: ShownBlock, member: str, *, yes: bool
) -> Sequence[SyncFact]:
    """The facts by which a member verifies exactly this text, or withdraws that; none if it is so already."""
    ledger = place.ledger(seen)
    target = f"{blocks.name_of(block.raw)} {member}"
    docs = shows.docs if not yes else (block.stands[0].doc,)
    for doc in docs:
        known = seen.of(doc, "vouch").get(target, [])
        if is_in(known) is not yes:
            over = tuple(sorted(fact.dot for fact in known))
            ledger.write(doc, "vouch", target, value=yes, over=over, origin=str(Origin.USER))
    return ledger.made
