"""The one place where a proposal becomes an edit: dry unless told to, written before removed, undoable."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, OutsideMemory
from vademecum.lifecycle.passes import SeenRecord
from vademecum.store import Found, Told, archive, frontmatter, people, scopes, short_numbers
from vademecum.store.records import is_record, key_of
from vademecum.store.runs import Run
from vademecum.store.validate import decode
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.lifecycle.passes import Pass, Proposal
    from vademecum.store import Edit, Records, Shelf
    from vademecum.types import Place

ASKS_ABOVE = 20  # records retired by one run
ASKS_SHARE = 0.05  # of those in sight


class RunOutcome(NamedTuple):
    """What a run proposed, and what became of it."""

    proposals: tuple[Proposal, ...]
    told: tuple[Told, ...] = ()
    run: str = ""  # empty when nothing was changed
    findings: tuple[Finding, ...] = ()  # files that could not be read, and so were left alone
    large: str = ""  # why a person should look first, when the run would retire much of what is there
    deleted: tuple[str, ...] = ()  # what was kept for as long as the settings say, and goes for good
    waiting: int = 0  # records of a person that an agent asked to put away; a person decides
    approval: str = ""  # about this

    @property
    def skipped(self) -> tuple[Told, ...]:
        """Edits that were not made, with the reason."""
        return tuple(each for each in self.told if not each.done)


def read_places(records: Records, places: Iterable[Place]) -> tuple[list[SeenRecord], list[Finding]]:
    """All records of these places with their bytes, and the files that could not be read."""
    seen: list[SeenRecord] = []
    findings: list[Finding] = []
    for place in places:
        for shelf in scopes.shelves(records.home, records.caller, place):
            try:
                folder = shelf.open(archive.RECORDS)
            except (OutsideMemory, NotADirectoryError) as error:
                findings.append(Finding("malformed", shelf.name_of(archive.RECORDS), str(error)))
                continue
            if folder is None:
                continue
            with folder:
                for name in filter(is_record, folder.names()):
                    try:
                        content = folder.read(name)
                        if content is not None:
                            seen.append(SeenRecord(records.parse(shelf, name, content), shelf, name, content))
                    except (Malformed, OutsideMemory, OSError) as error:
                        where = shelf.name_of(archive.RECORDS, name)
                        findings.append(Finding("malformed", where, str(error), severity="error"))
    return seen, findings


def propose(records: Records, places: Iterable[Place], passes: Iterable[Pass]) -> RunOutcome:
    """What these passes would do, without doing it.

    Each pass sees the store as the passes before it would leave it. Within one pass a file is changed once:
    what else there is to do with it is found by the next run.
    """
    seen, findings = read_places(records, places)
    chosen = settle(records, seen, passes)
    return RunOutcome(tuple(chosen), findings=tuple(findings), large=why_ask(chosen, len(seen)))


def settle(records: Records, seen: Sequence[SeenRecord], passes: Iterable[Pass]) -> list[Proposal]:
    """What these passes would do with these records, one after the other."""
    standing = {_file(each.shelf, archive.RECORDS, each.name): each for each in seen}
    chosen: list[Proposal] = []
    now = records.now()
    for each in passes:
        taken: set[tuple[str, str]] = set()
        # All of them before any is counted in: a pass must not see its own proposals half done.
        for proposal in [*each.propose([*standing.values()], now=now)]:
            files_of = {_file(edit.shelf, edit.kind, edit.name) for edit in proposal.edits}
            if files_of & taken:
                continue
            taken |= files_of
            chosen.append(proposal)
            for edit in proposal.edits:
                _count_in(records, standing, edit)
    return chosen


def apply(records: Records, proposals: Iterable[Proposal], *, what: str) -> tuple[str, tuple[Told, ...]]:
    """Make the edits of some proposals; returns the name of the run and what became of each edit.

    Within a proposal what is written goes first: when that cannot be, nothing of it is taken away.
    """
    run = Run(records.home, records.caller, records.now, records.announce, what)
    told: list[Told] = []
    for proposal in proposals:
        if any(is_barred(records, edit) for edit in proposal.edits):
            told += [Told(edit.path, False, people.WHY) for edit in proposal.edits]
            continue
        written = [edit for edit in proposal.edits if edit.after is not None]
        retired = [edit for edit in proposal.edits if edit.after is None]
        for edit in written:
            told.append(run.do(_numbered(records, edit), proposal.what))
            if not told[-1].done:
                break
        else:
            gone = [run.do(edit, proposal.what) for edit in retired]
            told += gone
            for edit, each in zip(retired, gone, strict=True):
                if written and not each.done:  # somebody wrote on: it must not stand in two places
                    records.release(edit.shelf, key_of(edit.name))
    return run.id, tuple(told)


def is_barred(records: Records, edit: Edit) -> bool:
    """Whether an edit takes something of a person's away, and the caller is none."""
    return bool(people.barred(records.home, records.caller, edit.before, edit.after, kind=edit.kind))


def _numbered(records: Records, edit: Edit) -> Edit:
    """A new record gets its number when it is written, since numbers are given once."""
    if edit.before is not None or edit.after is None or edit.kind != archive.RECORDS:
        return edit
    text = decode(edit.after)
    if frontmatter.parse(text).values.get("num") is not None:
        return edit
    shared = records.on(edit.shelf) if edit.shelf.shared else ()
    highest = max((each.record.num or 0 for each in shared if isinstance(each, Found)), default=0)
    num = short_numbers.allocate(records.home, above=highest)
    return edit._replace(after=frontmatter.edit(text, {"num": num}).encode())


def why_ask(proposals: Iterable[Proposal], total: int) -> str:
    """Why a person should look first, when much would go out of sight; else nothing."""
    listed = [*proposals]
    retired = sum(proposal.retires for proposal in listed if not proposal.in_sight)
    summed = sum(proposal.retires for proposal in listed if proposal.in_sight)
    if retired <= ASKS_ABOVE or retired <= ASKS_SHARE * total:
        return ""
    more = f", and {summed} more into summaries" if summed else ""
    return f"{retired} of {total} records would go to the archive{more}"


def _file(shelf: Shelf, kind: str, name: str) -> tuple[str, str]:
    return str(shelf.top), shelf.name_of(kind, name)


def _count_in(records: Records, standing: dict[tuple[str, str], SeenRecord], edit: Edit) -> None:
    """The records as they would be after an edit."""
    if edit.kind != archive.RECORDS:
        return
    at = _file(edit.shelf, edit.kind, edit.name)
    if edit.after is None:
        standing.pop(at, None)
        return
    record = records.parse(edit.shelf, edit.name, edit.after)
    standing[at] = SeenRecord(record, edit.shelf, edit.name, edit.after)
