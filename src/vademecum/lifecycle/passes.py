"""Passes: what one sees and proposes, those by age and number, and the one way from a proposal to an edit.

A run is dry unless told otherwise, writes before it removes, and can be undone.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vademecum.errors import Malformed, NotFound, OutsideMemory
from vademecum.progress import counted
from vademecum.store import (
    Edit,
    Fact,
    Found,
    Told,
    archive,
    document,
    frontmatter,
    merge,
    people,
    scopes,
    short_numbers,
)
from vademecum.store.document import decode
from vademecum.store.journal import is_day
from vademecum.store.merge import Part, is_consolidation
from vademecum.store.pinned import CONTEXT
from vademecum.store.records import in_folder, key_of
from vademecum.store.runs import Run
from vademecum.text import clock, names
from vademecum.types import LEARNED, Finding, Origin, Record, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.store import Records, Shelf
    from vademecum.types import Place

# What a person says about themselves and about the work stays until a person takes it away.
LASTING = frozenset({str(RecordType.USER), str(RecordType.FEEDBACK)})


class SeenRecord(NamedTuple):
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


def beside_record(shelf: Shelf, name: str, path: str, content: bytes, *, kind: str) -> SeenRecord:
    """A pinned document or a day of the journal, seen as what stands beside the records."""
    entries = document.blocks(decode(content)) if kind == archive.PINNED else ()
    return SeenRecord(Record(name, shelf.place, path, kind, name, tuple(entries)), shelf, name, content)


def read_beside(records: Records, places: Iterable[Place]) -> Iterator[SeenRecord]:
    """The pinned documents and journals of these places; what cannot be read is none of them."""
    for place in places:
        for shelf in scopes.shelves(records.home, records.caller, place):
            for below, kind in (((), archive.PINNED), ((archive.JOURNAL,), archive.JOURNAL)):
                if not (shelf.shared and kind == archive.JOURNAL):
                    yield from _read_beside(shelf, below, kind)


def _read_beside(shelf: Shelf, below: tuple[str, ...], kind: str) -> Iterator[SeenRecord]:
    with contextlib.suppress(OutsideMemory, NotADirectoryError):
        folder = shelf.open(*below)
        if folder is None:
            return
        with folder:
            for name in folder.names():
                if is_beside(shelf, name, kind):
                    with contextlib.suppress(Malformed, OutsideMemory, PermissionError, IsADirectoryError):
                        content = folder.read(name)
                        if content is not None:
                            path = shelf.name_of(*below, name)
                            yield beside_record(shelf, name, path, content, kind=kind)


def is_beside(shelf: Shelf, name: str, kind: str) -> bool:
    """Whether a file is a pinned document of a shelf, or a day of its journal."""
    if kind == archive.JOURNAL:
        return is_day(name)
    return name in shelf.place.scope.rule.documents and (not shelf.shared or name == CONTEXT)


def last_renewed(record: Record) -> datetime | None:
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


def may_archive(seen: SeenRecord | Found) -> bool:
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

    @property
    def article(self) -> str:
        """The text that it would put in the place of a topic's entries."""
        entries = document.parse(decode(self.edits[0].after or b"")).entries
        return "\n\n".join(each.text for each in entries if each.live and each.time == entries[-1].time)


class Pass(Protocol):
    """One kind of tidying, with its settings bound."""

    @property
    def name(self) -> str:
        """What it is called in proposals, in the audit and in lists of runs."""
        ...

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterable[Proposal]:
        """What it would do with these records, which are all those of the places in question."""
        ...


# ------------------------------------------------------------ expiry: by a record's own word

_DURATION = re.compile(r"(\d{1,5})\s*(h|hours?|d|days?|w|weeks?|mo|months?|y|years?)", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}


@dataclass(frozen=True, slots=True)
class Expiry:
    """The pass; it has no settings, since each record sets its own."""

    name: str = "expiry"

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Put away what says of itself that it no longer holds."""
        for each in seen:
            end = stale_at(each.record)
            if end is not None and now >= end and may_archive(each):
                said = each.record.fields.get("stale_after")
                why = f"its `stale_after: {said}` passed on {end:%Y-%m-%d}"
                yield Proposal(self.name, each.record.path, why, (each.retired(),), each.record.place)


def stale_at(record: Record) -> datetime | None:
    """The moment from which a record is stale by its own word; None when it is empty of the kind."""
    said = record.fields.get("stale_after")
    if not isinstance(said, str):
        return None
    spelled = _DURATION.fullmatch(said.strip())
    if spelled is None:
        return clock.parse(said)
    last = last_renewed(record)
    try:
        hours = int(spelled[1]) * _HOURS[spelled[2][0].lower()]
        return None if last is None else last + timedelta(hours=hours)
    except OverflowError:  # beyond the calendar is never
        return None


# ------------------------------------------------------------ retention: by scope and type


@dataclass(frozen=True, slots=True)
class RetentionPass:
    """The pass, with the days after which a scope forgets; 0 is never."""

    project_days: int = 90
    session_days: int = 14
    name: str = "retention"

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Put away what is older than its scope keeps it; what has no date has no age."""
        limits = {Scope.PROJECT: self.project_days, Scope.SESSION: self.session_days}
        for each in seen:
            record, days = each.record, limits.get(each.record.place.scope, 0)
            last = last_renewed(record)
            if not days or last is None or _lasting(record) or not may_archive(each):
                continue
            if now - last > timedelta(days=days):
                why = f"not written or confirmed since {last:%Y-%m-%d}; {record.place.scope} memory"
                yield Proposal(
                    self.name, record.path, f"{why} is kept {days} days", (each.retired(),), record.place
                )


def _lasting(record: Record) -> bool:
    """Whether a record never ages: by its own type, or by that of something it holds."""
    types = {record.type, *(part.type for part in merge.parts_of(record).values())}
    return not types.isdisjoint(LASTING.union(LEARNED))


# ------------------------------------------------------------ pruning of what was learned

UNSAID = 0.5  # the confidence of what was learned without saying how sure it is


def fade_confidence(record: Record, *, now: datetime, half_life_days: float) -> float:
    """How much a record is still believed."""
    said = UNSAID if record.confidence is None else min(max(record.confidence, 0.0), 1.0)
    last = last_renewed(record)
    if last is None or half_life_days <= 0:
        return said
    days = max((now - last) / timedelta(days=1), 0.0)
    return float(said * 0.5 ** (days / half_life_days))


def _by_label(record: Record) -> bool:
    return bool(record.fields.get("verified"))


@dataclass(frozen=True, slots=True)
class PruningPass:
    """The pass, with the age and the confidence below which something learned is put away; 0 is never.

    `verified` tells what a person has vouched for; the label in the file, unless the caller knows better.
    """

    max_age_days: float = 90
    min_confidence: float = 0.3
    half_life_days: float = 60
    verified: Callable[[Record], bool] = _by_label
    name: str = "prune"

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Put away what was learned and has grown too old or too doubtful."""
        for each in seen:
            if each.record.type in LEARNED and may_archive(each) and not self.verified(each.record):
                why = self._why(each.record, now)
                if why:
                    yield Proposal(self.name, each.record.path, why, (each.retired(),), each.record.place)

    def _why(self, record: Record, now: datetime) -> str:
        last = last_renewed(record)
        if self.max_age_days and last is not None and now - last > timedelta(days=self.max_age_days):
            return f"a lesson not confirmed since {last:%Y-%m-%d} (more than {self.max_age_days:g} days)"
        left = fade_confidence(record, now=now, half_life_days=self.half_life_days)
        if left < self.min_confidence:
            return f"a lesson whose confidence dropped to {left:.2f} (below {self.min_confidence:g})"
        return ""


# ------------------------------------------------------------ the count cap

SUMMARIZE, CUT = "summarize", "cut"
LONGEST = 600  # characters of a note; what is longer is a document
LARGEST = 256 * 1024  # bytes of text in one consolidation; what does not fit goes into the next
MOST = 100  # records in one consolidation
_LABELS = 32 * 1024  # bytes that their labels take at most: frontmatter above 64 KiB could not be read
_EXEMPT = LASTING | {str(RecordType.REFERENCE), str(RecordType.RULE)}
_PART_HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]|^(?=[^\n]*\S)[^\n]*+\n {0,3}(?:=+|-{2,})[ \t]*$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class CountCap:
    """The pass, with how many records a scope may hold and what happens to the oldest share of them."""

    max_count: int = 200
    percentage: float = 0.2
    strategy: str = SUMMARIZE
    actor: str = "process:main"
    name: str = "cap"

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Let go of the oldest share of every scope that holds too many."""
        places: dict[Place, list[SeenRecord]] = {}
        for each in seen:
            places.setdefault(each.record.place, []).append(each)
        for place, here in places.items():
            counted = [each for each in here if is_countable(each)]
            if len(counted) > self.max_count:
                oldest = sorted(counted, key=_age)[: self._how_many(len(counted))]
                yield from self._let_go(place, here, oldest, len(counted), now)

    def _how_many(self, total: int) -> int:
        """The share, and at least so many that the scope is no longer over its cap."""
        return min(total, max(int(total * self.percentage), total - self.max_count))

    def _let_go(
        self,
        place: Place,
        here: Sequence[SeenRecord],
        oldest: Sequence[SeenRecord],
        total: int,
        now: datetime,
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
        shelves: dict[Shelf, list[SeenRecord]] = {}
        for each in oldest:
            shelves.setdefault(each.shelf, []).append(each)
        for shelf, members in shelves.items():
            for some in _portions(members):
                # A run that was killed half-way wrote them already, and only has to be finished.
                new = [each for each in some if not _held(each.record, held)]
                retired = tuple(each.retired() for each in some)
                edits = (self._consolidation(shelf, new, taken, now), *retired) if new else retired
                summed = f"{why}; the {len(some)} oldest are merged into a summary"
                where = edits[0].path if new else some[0].record.path
                yield Proposal(self.name, where, summed, edits, place, in_sight=True)

    def _consolidation(
        self, shelf: Shelf, members: Sequence[SeenRecord], taken: set[str], now: datetime
    ) -> Edit:
        """The record that holds what each of the old ones said."""
        key = _free(f"consolidated-{clock.stamp(now)[:10]}", taken)
        listed = [(make_part(each.record), each.record) for each in members]
        whole = merge.render_consolidation(key, listed, place=shelf.place, actor=self.actor, now=now)
        return Edit(shelf, archive.RECORDS, f"{key}.md", None, whole.encode())


def is_countable(seen: SeenRecord | Found) -> bool:
    """Whether a record counts towards the cap, and so may go because of it: a short note of this memory."""
    record = seen.record
    return (
        may_archive(seen)
        and record.type not in _EXEMPT
        and not is_consolidation(record)
        and not record.aliases  # it stands for other keys, which have to go on answering
        and not is_imported(record)
        and sum(len(entry.text) for entry in record.entries) <= LONGEST
        and not any(_PART_HEADING.search(entry.text) for entry in record.entries)
        and any(entry.text.strip() for entry in record.entries)
        and last_renewed(record) is not None  # what nobody dated might be new
    )


def _listed_of(records: Records, shelf: Shelf, name: str, content: bytes) -> tuple[Any, ...]:
    """What a listing goes by: number, type and tags, and whether the record counts towards the cap."""
    record = records.parse(shelf, name, content)
    return record.num or 0, record.type, record.tags, is_countable(Found(record, shelf, name))


LISTED = Fact("listed", 1, _listed_of)


def is_imported(record: Record) -> bool:
    """Whether a record, or a word of it, came from another system."""
    brought = (record.source or "").startswith("import:") or bool(record.fields.get("imported"))
    return brought or any(entry.origin is Origin.IMPORT for entry in record.entries)


def make_part(record: Record) -> Part:
    """A record as a part of a consolidation: it is as old as it was, whenever that is written."""
    last = last_renewed(record)
    said = clock.stamp(last) if last is not None else ""
    usual = record.title in (record.key, merge.usual_title(record.key))
    title = "" if usual else record.title
    return Part(record.key, said, record.type, record.num, record.id, record.tags, title)


def _marks(record: Record) -> Iterator[tuple[str, str]]:
    """What a consolidation holds: each text with the key it stood under."""
    return ((entry.part, entry.text) for entry in record.entries if entry.part)


def _held(record: Record, held: set[tuple[str, str]]) -> bool:
    return all((record.key, entry.text) in held for entry in record.entries)


def _age(seen: SeenRecord) -> tuple[float, str]:
    """The oldest first."""
    last = last_renewed(seen.record)
    return 0.0 if last is None else last.timestamp(), seen.record.path


def _portions(members: Sequence[SeenRecord]) -> Iterator[list[SeenRecord]]:
    """The members in portions of which each fits into one record."""
    portion: list[SeenRecord] = []
    size = labels = 0
    for each in members:
        length = sum(len(entry.text.encode()) for entry in each.record.entries)
        own = len(frontmatter.render(make_part(each.record).as_fields()).encode()) + len(each.record.key)
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


# ------------------------------------------------------------ running them

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
    """All records of these places with their bytes, and the files that could not be read.

    A team's are left out: what one member's machine thinks old or doubled is not everybody's to lose.
    """
    seen: list[SeenRecord] = []
    findings: list[Finding] = []
    for place in places:
        for shelf in (each for each in scopes.shelves(records.home, records.caller, place) if not each.team):
            try:
                folder = shelf.open(archive.RECORDS)
            except (OutsideMemory, NotADirectoryError) as error:
                findings.append(Finding("malformed", shelf.name_of(archive.RECORDS), str(error)))
                continue
            if folder is None:
                continue
            with folder:
                for name in counted([*in_folder(folder)], "reading"):
                    try:
                        content = folder.read(name)
                        if content is not None:
                            seen.append(SeenRecord(records.parse(shelf, name, content), shelf, name, content))
                    except (Malformed, OutsideMemory, PermissionError, IsADirectoryError) as error:
                        # A disk that fails is raised: nothing is judged by what it happens to give.
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


def apply_proposals(
    records: Records, proposals: Iterable[Proposal], *, what: str, replacing: bool = False
) -> tuple[str, tuple[Told, ...]]:
    """Make the edits of some proposals; returns the name of the run and what became of each edit.

    Within a proposal what is written goes first: when that cannot be, nothing of it is taken away. Who is
    `replacing` has seen to it that no text is lost.
    """
    run = Run(records.home, records.caller, records.now, records.announce, what)
    told: list[Told] = []
    for proposal in counted([*proposals], what):
        if any(is_barred(records, edit) for edit in proposal.edits):
            told += [Told(edit.path, False, people.WHY) for edit in proposal.edits]
            continue
        written = [edit for edit in proposal.edits if edit.after is not None]
        retired = [edit for edit in proposal.edits if edit.after is None]
        for edit in written:
            told.append(run.do(_numbered(records, edit), proposal.what, replacing=replacing))
            if not told[-1].done:
                break
        else:
            gone = [run.do(edit, proposal.what) for edit in retired]
            told += gone
            for edit, each in zip(retired, gone, strict=True):
                if not each.done:  # somebody wrote on: it must not stand in two places
                    _keep_once(records, edit, {one.name for one in written})
    return run.id, tuple(told)


def _keep_once(records: Records, edit: Edit, ours: Collection[str]) -> None:
    """Take a record that stands by itself out of what we consolidated it into; one that is gone stays in."""
    key = key_of(edit.name)
    try:
        said = {entry.text for entry in records.load(edit.shelf, edit.name).record.entries}
    except (NotFound, Malformed):
        return
    for held in records.holding(edit.shelf, key):
        if held.name in ours and said >= {entry.text for entry in merge.narrowed(held.record, key).entries}:
            records.release([held], key)


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
    return f"{retired} of {total} records would be archived{more}"


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
