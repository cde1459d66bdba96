"""Merge the conflict copies that sync tools left into the files that they are copies of."""

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
    """A file and its conflict copies, the edits that merge them, and the texts that only the copies have."""

    copies: tuple[SecondCopy, ...]
    edits: tuple[Edit, ...]
    new: tuple[str, ...]

    @property
    def proposal(self) -> Proposal:
        """The merge as a proposal that a run can apply."""
        first = self.copies[0]
        count = "1 conflict copy" if len(self.copies) == 1 else f"{len(self.copies)} conflict copies"
        brings = {0: "nothing", 1: "1 text"}.get(len(self.new), f"{len(self.new)} texts")
        names = ", ".join(each.name for each in self.copies)
        goes = "it goes" if len(self.copies) == 1 else "they go"
        why = f"{count} ({names}): {brings} to add, then {goes} to the archive"
        where = first.scope_folder.name_of(*first.below, first.original)
        return Proposal(MERGE, where, why, self.edits, first.scope_folder.place, in_sight=True)


def find_mergings(records: Records, found: Iterable[SecondCopy]) -> tuple[list[Merging], list[Finding]]:
    """Return the possible merges of files with their copies, and findings on copies that only a person can
    merge.
    """
    together: dict[tuple[str, str, str, str], list[SecondCopy]] = {}
    for each in found:
        at = str(each.scope_folder.top), each.scope_folder.label, each.kind, each.original
        together.setdefault(at, []).append(each)
    mergings: list[Merging] = []
    left: list[Finding] = []
    for some in together.values():
        if not some[0].scope_folder.trusted:
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
    at = first.scope_folder, first.kind
    edits = (
        [Edit(*at, first.original, whole.original, whole.merged)] if whole.merged != whole.original else []
    )
    edits += [Edit(*at, name, content, None) for name, content in whole.copies.items()]
    return Merging(tuple(some), tuple(edits), whole.new)


def merge_copies(records: Records, found: Iterable[SecondCopy], *, apply: bool) -> RunOutcome:
    """Propose to merge files with their conflict copies; `apply` merges them."""
    mergings, left = find_mergings(records, found)
    proposals = tuple(each.proposal for each in mergings)
    if not apply or not proposals:
        return RunOutcome(proposals, findings=tuple(left))
    run, results = apply_proposals(records, proposals, what=MERGE, replacing=True)
    return RunOutcome(proposals, results, run, tuple(left))
