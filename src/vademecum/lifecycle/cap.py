"""The count cap: a scope that holds too many records lets go of those that were left alone for longest.

`summarize` first writes one record that holds what each of them said, whole and under its key, then moves
them to the archive; `cut` only moves them. Only notes go this way: what a person said, what was imported,
rules, references, and whatever is long or has a heading of its own neither count nor go. What was
consolidated once is left in peace, or one record would grow for ever.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.lifecycle.base import LASTING, Proposal, ours, renewed
from vademecum.store import archive, clock, consolidation, frontmatter, names
from vademecum.store.consolidation import Part, is_consolidation
from vademecum.store.runs import Edit
from vademecum.types import Origin, RecordType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.base import Seen
    from vademecum.store.home import Shelf
    from vademecum.store.records import Found
    from vademecum.types import Place, Record

SUMMARIZE, CUT = "summarize", "cut"
LONGEST = 600  # characters of a note; what is longer is a document
LARGEST = 256 * 1024  # bytes of text in one consolidation; what does not fit goes into the next
MOST = 100  # records in one consolidation
_LABELS = 32 * 1024  # bytes that their labels take at most: frontmatter above 64 KiB could not be read
_EXEMPT = LASTING | {str(RecordType.REFERENCE), str(RecordType.RULE)}
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]|^[^\n]*\S[^\n]*\n {0,3}(?:=+|-{2,})[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cap:
    """The pass, with how many records a scope may hold and what happens to the oldest share of them."""

    max_count: int = 200
    percentage: float = 0.2
    strategy: str = SUMMARIZE
    actor: str = "process:main"
    name: str = "cap"

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterator[Proposal]:
        """Let go of the oldest share of every scope that holds too many."""
        places: dict[Place, list[Seen]] = {}
        for each in seen:
            places.setdefault(each.record.place, []).append(each)
        for place, here in places.items():
            counted = [each for each in here if countable(each)]
            if len(counted) > self.max_count:
                oldest = sorted(counted, key=_age)[: self._how_many(len(counted))]
                yield from self._let_go(place, here, oldest, len(counted), now)

    def _how_many(self, total: int) -> int:
        """The share, and at least so many that the scope is no longer over its cap."""
        return min(total, max(int(total * self.percentage), total - self.max_count))

    def _let_go(
        self, place: Place, here: Sequence[Seen], oldest: Sequence[Seen], total: int, now: datetime
    ) -> Iterator[Proposal]:
        why = f"{total} records in {place}, more than {self.max_count}"
        if self.strategy == CUT:
            for each in oldest:
                said = f"{why}; this is one of the {len(oldest)} oldest"
                yield Proposal(self.name, each.record.path, said, (each.retired(),), place)
            return
        taken = {names.folded(each.name) for each in here}
        held = {mark for each in here if is_consolidation(each.record) for mark in _marks(each.record)}
        # Apart for each folder: what a repository shares must not be consolidated with what is private.
        shelves: dict[Shelf, list[Seen]] = {}
        for each in oldest:
            shelves.setdefault(each.shelf, []).append(each)
        for shelf, members in shelves.items():
            for some in _portions(members):
                # A run that was killed half-way wrote them already, and only has to be finished.
                new = [each for each in some if not _held(each.record, held)]
                retired = tuple(each.retired() for each in some)
                edits = (self._consolidation(shelf, new, taken, now), *retired) if new else retired
                summed = f"{why}; the {len(some)} oldest are consolidated"
                where = edits[0].path if new else some[0].record.path
                yield Proposal(self.name, where, summed, edits, place, in_sight=True)

    def _consolidation(self, shelf: Shelf, members: Sequence[Seen], taken: set[str], now: datetime) -> Edit:
        """The record that holds what each of the old ones said."""
        key = _free(f"consolidated-{clock.stamp(now)[:10]}", taken)
        listed = [(part_of(each.record), each.record) for each in members]
        whole = consolidation.render(key, listed, place=shelf.place, actor=self.actor, now=now)
        return Edit(shelf, archive.RECORDS, f"{key}.md", None, whole.encode())


def countable(seen: Seen | Found) -> bool:
    """Whether a record counts towards the cap, and so may go because of it: a short note of this memory."""
    record = seen.record
    return (
        ours(seen)
        and record.type not in _EXEMPT
        and not is_consolidation(record)
        and not record.aliases  # it stands for other keys, which have to go on answering
        and not is_imported(record)
        and sum(len(entry.text) for entry in record.entries) <= LONGEST
        and not any(_HEADING.search(entry.text) for entry in record.entries)
        and any(entry.text.strip() for entry in record.entries)
        and renewed(record) is not None  # what nobody dated might be new
    )


def is_imported(record: Record) -> bool:
    """Whether a record, or a word of it, came from another system."""
    brought = (record.source or "").startswith("import:") or bool(record.fields.get("imported"))
    return brought or any(entry.origin is Origin.IMPORT for entry in record.entries)


def part_of(record: Record) -> Part:
    """A record as a part of a consolidation: it is as old as it was, whenever that is written."""
    last = renewed(record)
    said = clock.stamp(last) if last is not None else ""
    usual = record.title in (record.key, consolidation.usual_title(record.key))
    title = "" if usual else record.title
    return Part(record.key, said, record.type, record.num, record.id, record.tags, title)


def _marks(record: Record) -> Iterator[tuple[str, str]]:
    """What a consolidation holds: each text with the key it stood under."""
    return ((entry.part, entry.text) for entry in record.entries if entry.part)


def _held(record: Record, held: set[tuple[str, str]]) -> bool:
    return all((record.key, entry.text) in held for entry in record.entries)


def _age(seen: Seen) -> tuple[float, str]:
    """The oldest first."""
    last = renewed(seen.record)
    return 0.0 if last is None else last.timestamp(), seen.record.path


def _portions(members: Sequence[Seen]) -> Iterator[list[Seen]]:
    """The members in portions of which each fits into one record."""
    portion: list[Seen] = []
    size = labels = 0
    for each in members:
        length = sum(len(entry.text.encode()) for entry in each.record.entries)
        own = len(frontmatter.render(part_of(each.record).as_fields()).encode()) + len(each.record.key)
        full = len(portion) >= MOST or size + length > LARGEST or labels + own > _LABELS
        if portion and full:
            yield portion
            portion, size, labels = [], 0, 0
        portion.append(each)
        size += length
        labels += own
    if portion:
        yield portion


def _free(wanted: str, taken: set[str]) -> str:
    number, key = 1, wanted
    while names.folded(f"{key}.md") in taken:
        number += 1
        key = names.numbered(wanted, number)
    taken.add(names.folded(f"{key}.md"))
    return key
