"""The count cap: a scope that holds too many records lets go of those that were left alone for longest.

`summarize` first writes one record that says what each of them said, then puts them away; `cut` only puts
them away. What was summed up once is left in peace: it neither counts nor is summed up again, or one record
would grow for ever.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.lifecycle.base import LASTING, LEARNED, Proposal, ours, renewed
from vademecum.store import archive, clock, document, frontmatter, ids, names
from vademecum.store.runs import Edit
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.base import Seen
    from vademecum.store.home import Shelf
    from vademecum.types import Place, Record

SUMMARIZE, CUT = "summarize", "cut"
SOURCE = "auto_decay"
TAGS = ("_consolidated", "_auto_decay")
LARGEST = 256 * 1024  # bytes of text in one consolidation; what does not fit goes into the next
_TRUST = list(Origin)


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
        said_already = {line for each in here if is_consolidation(each.record) for line in _lines(each)}
        # Apart for each folder: what a repository shares must not be summed up with what is private.
        shelves: dict[Shelf, list[Seen]] = {}
        for each in oldest:
            shelves.setdefault(each.shelf, []).append(each)
        for shelf, parts in shelves.items():
            for some in _portions(parts):
                new = [each for each in some if bullet(each.record) not in said_already]
                retired = tuple(each.retired() for each in some)
                edits = (self._consolidation(shelf, new, taken, now), *retired) if new else retired
                summed = f"{why}; the {len(some)} oldest are summed up"
                where = edits[0].path if new else some[0].record.path
                yield Proposal(self.name, where, summed, edits, place, in_sight=True)

    def _consolidation(self, shelf: Shelf, parts: Sequence[Seen], taken: set[str], now: datetime) -> Edit:
        """The record that says what each of the old ones said; as trusted as the least trusted of them."""
        at = clock.stamp(now)
        key = _free(f"consolidated-{at[:10]}", taken)
        heading = f"Consolidated {len(parts)} old memories:"
        text = "\n".join([heading, *(bullet(each.record) for each in parts)])
        origins = [entry.origin or Origin.USER for each in parts for entry in each.record.live]
        entry = Entry(text, at, max(origins, key=_TRUST.index, default=Origin.USER))
        values = {
            "type": _type([each.record for each in parts]),
            "id": ids.new(),
            "key": key,
            "title": heading.removesuffix(":"),
            "scope": str(shelf.place.scope),
            "scope_id": shelf.place.id or None,
            "tags": list(TAGS),
            "source": SOURCE,
            "created": at,
            "updated": at,
            "generated": {"by": self.actor, "at": at},
        }
        whole = document.append(frontmatter.edit(f"# {key}\n\n", values), entry)
        return Edit(shelf, archive.RECORDS, f"{key}.md", None, whole.encode())


def countable(seen: Seen) -> bool:
    """Whether a record counts towards the cap, and so may go because of it."""
    lasting = seen.record.type in LASTING or is_consolidation(seen.record)
    return ours(seen) and not lasting and len(seen.content) <= LARGEST  # a book is no note to sum up


def is_consolidation(record: Record) -> bool:
    """Whether a record sums up others."""
    return record.source == SOURCE


def bullet(record: Record) -> str:
    """One line that says what still holds of a record, with its tags."""
    said = " / ".join(" ".join(entry.text.split()) for entry in record.live or record.entries[-1:])
    tags = f" [tags: {', '.join(record.tags)}]" if record.tags else ""
    return f"- {said}{tags}"


def _age(seen: Seen) -> tuple[bool, float, str]:
    """The oldest first; what has no date might be new, and goes last."""
    last = renewed(seen.record)
    return last is None, 0.0 if last is None else last.timestamp(), seen.record.path


def _portions(parts: Sequence[Seen]) -> Iterator[list[Seen]]:
    """The parts in portions of which each fits into one record."""
    portion: list[Seen] = []
    size = 0
    for each in parts:
        length = len(bullet(each.record).encode())
        if portion and size + length > LARGEST:
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += length
    if portion:
        yield portion


def _lines(seen: Seen) -> Iterator[str]:
    for entry in seen.record.live:
        yield from entry.text.split("\n")


def _free(wanted: str, taken: set[str]) -> str:
    number, key = 1, wanted
    while names.folded(f"{key}.md") in taken:
        number += 1
        key = names.numbered(wanted, number)
    taken.add(names.folded(f"{key}.md"))
    return key


def _type(records: Sequence[Record]) -> str:
    """The type of what is summed up; what was learned among it must not age by being summed up."""
    kinds = Counter(record.type for record in records)
    learned = {kind: count for kind, count in kinds.items() if kind in LEARNED}
    return max(learned or kinds, key=lambda kind: (kinds[kind], kind))
