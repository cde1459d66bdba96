"""What a pass sees, and what it proposes.

A pass is a pure function of the records it is shown, the settings and the time: it opens nothing and changes
nothing. What it proposes carries the reason in words, and the edits in the order in which they are made:
first what is written, then what goes to the archive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from vademecum.store import archive, clock
from vademecum.store.runs import Edit
from vademecum.types import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from vademecum.store.home import Shelf
    from vademecum.store.records import Found
    from vademecum.types import Place, Record

# What a person says about themselves and about the work stays until a person takes it away.
LASTING = frozenset({str(RecordType.USER), str(RecordType.FEEDBACK)})
LEARNED = frozenset(
    str(each)
    for each in (
        RecordType.DISCOVERY,
        RecordType.SOLUTION,
        RecordType.PATTERN,
        RecordType.WORKFLOW,
        RecordType.FAILURE,
        RecordType.RULE,
    )
)


class Seen(NamedTuple):
    """A record as a pass sees it: what it says, and the bytes it was read from."""

    record: Record
    shelf: Shelf
    name: str
    content: bytes

    def revised(self, text: str) -> Edit:
        """The edit that puts another text in its place."""
        return Edit(self.shelf, archive.RECORDS, self.name, self.content, text.encode())

    def retired(self) -> Edit:
        """The edit that moves it to the archive."""
        return Edit(self.shelf, archive.RECORDS, self.name, self.content, None)


def renewed(record: Record) -> datetime | None:
    """When a record was last written, confirmed or imported; None when nothing in it says.

    How often it was read is no part of this: what is read most is not what is true.
    """
    confirmed = record.fields.get("confirmed")
    listed = confirmed if isinstance(confirmed, list) else []
    said = [each.get("at") for each in listed if isinstance(each, dict)]
    came = record.fields.get("imported")
    stamps = [record.updated, record.created, came, *(entry.time for entry in record.entries), *said]
    moments = [clock.parse(each) for each in stamps if isinstance(each, str)]
    return max((each for each in moments if each is not None), default=None)


def ours(seen: Seen | Found) -> bool:
    """Whether a record may be put away at all: no stranger's, and none that a person protects."""
    return seen.shelf.trusted and not seen.record.protected


class Proposal(NamedTuple):
    """Something a pass would do, and why."""

    what: str  # the name of the pass, which is also the operation in the audit
    where: str  # the path, with `#Lx-Ly` where a part of it is meant
    why: str  # one sentence for a person
    edits: tuple[Edit, ...] = ()
    place: Place | None = None
    in_sight: bool = False  # what it retires is still said by a record that stays

    @property
    def retires(self) -> int:
        """How many files it would move to the archive."""
        return sum(edit.after is None for edit in self.edits)


class Pass(Protocol):
    """One kind of tidying, with its settings bound."""

    @property
    def name(self) -> str:
        """What it is called in proposals, in the audit and in lists of runs."""
        ...

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterable[Proposal]:
        """What it would do with these records, which are all those of the places in question."""
        ...
