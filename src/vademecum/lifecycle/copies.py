"""Second copies that sync tools left: what merging each with its file would bring, as proposals of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, OutsideMemory
from vademecum.lifecycle.passes import Proposal, RunOutcome, apply_proposals
from vademecum.store import Edit, copies

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.store import Records, SecondCopy
    from vademecum.types import Finding

MERGE = "merge"


class Merging(NamedTuple):
    """A file and its conflict copies, the edits that make one of them, and what only the copies say."""

    copies: tuple[SecondCopy, ...]
    edits: tuple[Edit, ...]
    new: tuple[str, ...]

    @property
    def proposal(self) -> Proposal:
        """It as something a run can do."""
        first = self.copies[0]
        count = "1 conflict copy" if len(self.copies) == 1 else f"{len(self.copies)} conflict copies"
        brings = {0: "nothing", 1: "1 text"}.get(len(self.new), f"{len(self.new)} texts")
        names = ", ".join(each.name for each in self.copies)
        goes = "it goes" if len(self.copies) == 1 else "they go"
        why = f"{count} ({names}): {brings} to add, then {goes} to the archive"
        where = first.shelf.name_of(*first.below, first.original)
        return Proposal(MERGE, where, why, self.edits, first.shelf.place, in_sight=True)


def find_mergings(records: Records, found: Iterable[SecondCopy]) -> tuple[list[Merging], list[Finding]]:
    """What merges each file with its conflict copies, and those that cannot be merged without a person."""
    together: dict[tuple[str, str, str, str], list[SecondCopy]] = {}
    for each in found:
        at = str(each.shelf.top), each.shelf.label, each.kind, each.original
        together.setdefault(at, []).append(each)
    mergings: list[Merging] = []
    left: list[Finding] = []
    for some in together.values():
        if not some[0].shelf.trusted:
            left += [each.finding._replace(why="its folder is not trusted") for each in some]
            continue
        try:
            mergings.append(_merging(records, some))
        except (Malformed, OutsideMemory, OSError) as error:
            left += [each.finding._replace(why=str(error), mend="compare both files") for each in some]
    return mergings, left


def _merging(records: Records, some: Sequence[SecondCopy]) -> Merging:
    first = some[0]
    whole = copies.merge_files(records.home, some)
    at = first.shelf, first.kind
    edits = (
        [Edit(*at, first.original, whole.original, whole.merged)] if whole.merged != whole.original else []
    )
    edits += [Edit(*at, name, content, None) for name, content in whole.copies.items()]
    return Merging(tuple(some), tuple(edits), whole.new)


def merge_copies(records: Records, found: Iterable[SecondCopy], *, apply: bool) -> RunOutcome:
    """Merge files with their conflict copies, or say what that would bring."""
    mergings, left = find_mergings(records, found)
    proposals = tuple(each.proposal for each in mergings)
    if not apply or not proposals:
        return RunOutcome(proposals, findings=tuple(left))
    run, told = apply_proposals(records, proposals, what=MERGE, replacing=True)
    return RunOutcome(proposals, told, run, tuple(left))
