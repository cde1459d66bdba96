"""Passes: the records that a pass sees, the proposals that it makes, and the runner that applies them.

A run only proposes unless it is told to apply, writes before it removes, and can be undone.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vademecum.errors import Malformed, NotFound, OutsideMemory
from vademecum.fields import ORDERS, sort_values
from vademecum.progress import counted
from vademecum.store import (
    Edit,
    EditResult,
    Fact,
    Found,
    Run,
    in_folder,
    is_consolidation,
    merge,
    people,
    scopes,
    short_numbers,
)
from vademecum.store.merge import Part
from vademecum.text import clock, document, filenames, frontmatter, names
from vademecum.text.document import decode
from vademecum.text.filenames import CONTEXT, is_day, key_of
from vademecum.types import LEARNED, Finding, Origin, Record, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.store import Records, ScopeFolder
    from vademecum.types import Place

# What a person says about themselves and about the work stays until a person takes it away.
LASTING = frozenset({str(RecordType.USER), str(RecordType.FEEDBACK)})


class RecordFile(NamedTuple):
    """A record, and the file and bytes that it was read from."""

    record: Record
    scope_folder: ScopeFolder
    name: str
    content: bytes
    saved: datetime | None = None  # when the file was written on this machine, by a save or by a sync

    def revised(self, text: str) -> Edit:
        """Return the edit that replaces the file's text."""
        return Edit(self.scope_folder, filenames.RECORDS, self.name, self.content, text.encode())

    def retired(self) -> Edit:
        """Return the edit that moves the file to the archive."""
        return Edit(self.scope_folder, filenames.RECORDS, self.name, self.content, None)


def page_as_record(
    scope_folder: ScopeFolder, name: str, path: str, content: bytes, *, kind: str
) -> RecordFile:
    """Return a pinned document or a journal day in the form of a record, so that passes can read it.

    A journal day comes without entries.
    """
    entries = document.blocks(decode(content)) if kind == filenames.PINNED else ()
    return RecordFile(
        Record(name, scope_folder.place, path, kind, name, tuple(entries)), scope_folder, name, content
    )


def read_pages(records: Records, places: Iterable[Place]) -> Iterator[RecordFile]:
    """Read the pinned documents and journal days of these places; unreadable files are left out."""
    for place in places:
        for scope_folder in scopes.scope_folders(records.home, records.caller, place):
            for below, kind in (((), filenames.PINNED), ((filenames.JOURNAL,), filenames.JOURNAL)):
                if not (scope_folder.shared and kind == filenames.JOURNAL):
                    yield from _read_beside(scope_folder, below, kind)


def _read_beside(scope_folder: ScopeFolder, below: tuple[str, ...], kind: str) -> Iterator[RecordFile]:
    with contextlib.suppress(OutsideMemory, NotADirectoryError):
        folder = scope_folder.open(*below)
        if folder is None:
            return
        with folder:
            for name in folder.names():
                if is_page(scope_folder, name, kind):
                    with contextlib.suppress(Malformed, OutsideMemory, PermissionError, IsADirectoryError):
                        content = folder.read(name)
                        if content is not None:
                            path = scope_folder.name_of(*below, name)
                            yield page_as_record(scope_folder, name, path, content, kind=kind)


def is_page(scope_folder: ScopeFolder, name: str, kind: str) -> bool:
    """Whether a file is a journal day or, for another `kind`, a pinned document of its folder."""
    if kind == filenames.JOURNAL:
        return is_day(name)
    return name in scope_folder.place.scope.rule.documents and (not scope_folder.shared or name == CONTEXT)


def last_renewed(record: Record) -> datetime | None:
    """Return when a record was last written, confirmed or imported; None when the record does not say.

    Reading a record does not renew it, because a record that is read often is not truer for that.
    """
    confirmed = record.fields.get("confirmed")
    listed = confirmed if isinstance(confirmed, list) else []
    given = [each.get("at") for each in listed if isinstance(each, dict)]
    came = record.fields.get("imported")
    stamps = [record.updated, record.created, came, *(entry.time for entry in record.entries), *given]
    moments = [clock.parse(each) for each in stamps if isinstance(each, str)]
    return max((each for each in moments if each is not None), default=None)


def may_archive(seen: RecordFile | Found) -> bool:
    """Whether a pass may archive a record: its folder must be trusted, and it must not be protected."""
    return seen.scope_folder.trusted and not seen.record.protected


class Proposal(NamedTuple):
    """The edits that a pass proposes, and the reason for them."""

    what: str  # the name of the pass, which is also the operation in the audit
    where: str  # the path, with `#Lx-Ly` where a part of it is meant
    why: str  # one sentence for a person
    edits: tuple[Edit, ...] = ()
    place: Place | None = None
    in_sight: bool = False  # what it retires is still said by a record that stays

    @property
    def retires(self) -> int:
        """The number of files that the proposal moves to the archive."""
        return sum(edit.after is None for edit in self.edits)

    @property
    def article(self) -> str:
        """The newest current entries of the first edit; for a merged topic, its new article."""
        entries = document.parse(decode(self.edits[0].after or b"")).entries
        return "\n\n".join(each.text for each in entries if each.live and each.time == entries[-1].time)


class Pass(Protocol):
    """One kind of maintenance, such as expiry or duplicates, with its settings."""

    @property
    def name(self) -> str:
        """The name in proposals, in the audit log and in lists of runs."""
        ...

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterable[Proposal]:
        """Yield proposals for these records; a pass always gets all records of the places concerned."""
        ...


# ------------------------------------------------------------ expiry: by a record's own word

_DURATION = re.compile(r"(\d{1,5})\s*(h|hours?|d|days?|w|weeks?|mo|months?|y|years?)", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}


@dataclass(frozen=True, slots=True)
class Expiry:
    """The pass that archives records whose own expiry date has passed."""

    name: str = "expiry"

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterator[Proposal]:
        """Yield edits that archive the records whose own expiry date has passed."""
        for each in seen:
            end = stale_at(each.record)
            if end is not None and now >= end and may_archive(each):
                given = each.record.fields.get("stale_after")
                why = f"its `stale_after: {given}` passed on {end:%Y-%m-%d}"
                yield Proposal(self.name, each.record.path, why, (each.retired(),), each.record.place)


def stale_at(record: Record) -> datetime | None:
    """Return when a record expires by its `stale_after`, a date or a duration; None without a valid one."""
    given = record.fields.get("stale_after")
    if not isinstance(given, str):
        return None
    spelled = _DURATION.fullmatch(given.strip())
    if spelled is None:
        return clock.parse(given)
    last = last_renewed(record)
    try:
        hours = int(spelled[1]) * _HOURS[spelled[2][0].lower()]
        return None if last is None else last + timedelta(hours=hours)
    except OverflowError:  # beyond the calendar is never
        return None


# ------------------------------------------------------------ retention: by scope and type


@dataclass(frozen=True, slots=True)
class RetentionPass:
    """The pass that archives records older than their scope allows; a limit of 0 days means never."""

    project_days: int = 90
    session_days: int = 14
    name: str = "retention"

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterator[Proposal]:
        """Yield edits that archive the records older than their scope allows; a record without a date has no
        age.
        """
        limits = {Scope.PROJECT: self.project_days, Scope.SESSION: self.session_days}
        for each in seen:
            record, days = each.record, limits.get(each.record.place.scope, 0)
            last = last_renewed(record)
            if not days or last is None or _never_expires(record) or not may_archive(each):
                continue
            if now - last > timedelta(days=days):
                why = f"not written or confirmed since {last:%Y-%m-%d}; {record.place.scope} memory"
                yield Proposal(
                    self.name, record.path, f"{why} is kept {days} days", (each.retired(),), record.place
                )


def _never_expires(record: Record) -> bool:
    """Whether a record never expires, because of its own type or the type of a record merged into it."""
    types = {record.type, *(part.type for part in merge.parts_of(record).values())}
    return not types.isdisjoint(LASTING.union(LEARNED))


# ------------------------------------------------------------ pruning of what was learned

USUAL_CONFIDENCE = 0.5  # the confidence of what was learned without saying how sure it is


def fade_confidence(record: Record, *, now: datetime, half_life_days: float) -> float:
    """Return the confidence in a record, lowered by the time since it was last confirmed."""
    given = USUAL_CONFIDENCE if record.confidence is None else min(max(record.confidence, 0.0), 1.0)
    last = last_renewed(record)
    if last is None or half_life_days <= 0:
        return given
    days = max((now - last) / timedelta(days=1), 0.0)
    return float(given * 0.5 ** (days / half_life_days))


def _by_label(record: Record) -> bool:
    return bool(record.fields.get("verified"))


@dataclass(frozen=True, slots=True)
class PruningPass:
    """The pass that archives lessons above an age or below a confidence; a limit of 0 means never.

    `verified` says whether a person verified a lesson; by default the label in the file does.
    """

    max_age_days: float = 90
    min_confidence: float = 0.3
    half_life_days: float = 60
    verified: Callable[[Record], bool] = _by_label
    name: str = "prune"

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterator[Proposal]:
        """Yield edits that archive the lessons that are too old or too doubtful."""
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
CAP = "cap"
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
    """The pass that releases the oldest records of each place with more than `max_count`.

    With the strategy `summarize`, their texts are first written into one record; with `cut`, they are only
    archived. A record's age counts from its last change or from its arrival by a sync, whichever is later.
    """

    max_count: int = 200
    percentage: float = 0.2
    strategy: str = SUMMARIZE
    actor: str = "process:main"
    min_age: timedelta = timedelta(0)  # younger records neither count nor go
    max_released: int | None = None  # records of one place; None: no limit
    resting: Collection[Place] = ()  # places to leave alone this time
    name: str = CAP

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterator[Proposal]:
        """Yield edits that archive or consolidate the oldest records of each scope that holds too many."""
        places: dict[Place, list[RecordFile]] = {}
        for each in seen:
            places.setdefault(each.record.place, []).append(each)
        for place, here in places.items():
            counted = [each for each in here if is_countable(each) and self._is_old_enough(each, now)]
            if len(counted) > self.max_count and place not in self.resting:
                by_age = sorted(counted, key=lambda each: _age(each, now))
                oldest = by_age[: self._how_many(len(counted))]
                yield from self._release_oldest(place, here, oldest, len(counted), now)

    def _how_many(self, total: int) -> int:
        """Return how many records to archive, so that the scope holds no more than its limit afterwards."""
        wanted = max(int(total * self.percentage), total - self.max_count)
        return min(total, wanted if self.max_released is None else min(wanted, self.max_released))

    def _is_old_enough(self, seen: RecordFile, now: datetime) -> bool:
        changed = _last_changed(seen, now)
        return not self.min_age or changed is None or now - changed >= self.min_age

    def _release_oldest(
        self,
        place: Place,
        here: Sequence[RecordFile],
        oldest: Sequence[RecordFile],
        total: int,
        now: datetime,
    ) -> Iterator[Proposal]:
        why = f"{total} records in {place}, more than {self.max_count}"
        if self.strategy == CUT:
            for each in oldest:
                given = f"{why}; this is one of the {len(oldest)} oldest"
                yield Proposal(self.name, each.record.path, given, (each.retired(),), place)
            return
        names_in_use = {names.folded(each.name) for each in here}
        already_consolidated = {
            mark for each in here if is_consolidation(each.record) for mark in _marks(each.record)
        }
        # Apart for each folder: what a repository shares must not be consolidated with what is private.
        scope_folders: dict[ScopeFolder, list[RecordFile]] = {}
        for each in oldest:
            scope_folders.setdefault(each.scope_folder, []).append(each)
        for scope_folder, members in scope_folders.items():
            for some in _split_portions(members):
                # A run that was killed half-way wrote them already, and only has to be finished.
                new = [each for each in some if not _is_consolidated(each.record, already_consolidated)]
                retired = tuple(each.retired() for each in some)
                edits = (
                    (self._consolidation(scope_folder, new, names_in_use, now), *retired) if new else retired
                )
                summed = f"{why}; the {len(some)} oldest are merged into a summary"
                where = edits[0].path if new else some[0].record.path
                yield Proposal(self.name, where, summed, edits, place, in_sight=True)

    def _consolidation(
        self, scope_folder: ScopeFolder, members: Sequence[RecordFile], names_in_use: set[str], now: datetime
    ) -> Edit:
        """Return the edit that writes one record with the texts of these records.

        The key of the new record is added to `names_in_use`.
        """
        key = _unused_key(f"consolidated-{clock.stamp(now)[:10]}", names_in_use)
        listed = [(make_part(each.record), each.record) for each in members]
        whole = merge.render_consolidation(key, listed, place=scope_folder.place, actor=self.actor, now=now)
        return Edit(scope_folder, filenames.RECORDS, f"{key}.md", None, whole.encode())


def is_countable(seen: RecordFile | Found) -> bool:
    """Whether a record counts towards its scope's limit, and so may be archived when the limit is passed."""
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


def _catalogue_row(records: Records, scope_folder: ScopeFolder, name: str, content: bytes) -> tuple[Any, ...]:
    """Return the catalogue's row of a record: number, type, tags, whether it is countable, and its sort
    values.
    """
    record = records.dated(Found(records.parse(scope_folder, name, content), scope_folder, name))
    countable = is_countable(Found(record, scope_folder, name))
    return record.num or 0, record.type, record.tags, countable, sort_values(record)


LISTED = Fact("listed", f"3 {' '.join(ORDERS)}", _catalogue_row)


def is_imported(record: Record) -> bool:
    """Whether a record, or one of its entries, came from another system."""
    brought = (record.source or "").startswith("import:") or bool(record.fields.get("imported"))
    return brought or any(entry.origin is Origin.IMPORT for entry in record.entries)


def make_part(record: Record) -> Part:
    """Return a record as one part of a consolidation (a record that holds several old ones), with its own
    time.
    """
    last = last_renewed(record)
    given = clock.stamp(last) if last is not None else ""
    usual = record.title in (record.key, merge.default_title(record.key))
    title = "" if usual else record.title
    return Part(record.key, given, record.type, record.num, record.id, record.tags, title)


def _marks(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the texts of a consolidation, each after the key of the record that the text came from."""
    return ((entry.part, entry.text) for entry in record.entries if entry.part)


def _is_consolidated(record: Record, already_consolidated: set[tuple[str, str]]) -> bool:
    return all((record.key, entry.text) in already_consolidated for entry in record.entries)


def _last_changed(seen: RecordFile, now: datetime) -> datetime | None:
    """Return when a record was last written, confirmed or imported, or when its file arrived, if later.

    A file that is dated in the future says nothing: some clock was wrong.
    """
    renewed, saved = last_renewed(seen.record), seen.saved
    if renewed is None or saved is None or saved > now:
        return renewed
    return max(renewed, saved)


def _age(seen: RecordFile, now: datetime) -> tuple[int, float, str]:
    """Return a sort key by which the oldest record comes first.

    The last change counts in days: records that arrive together are ordered by their own dates.
    """
    changed, renewed = _last_changed(seen, now), last_renewed(seen.record)
    if changed is None or renewed is None:
        return 0, 0.0, seen.record.path
    return changed.astimezone(UTC).toordinal(), renewed.timestamp(), seen.record.path


def _split_portions(members: Sequence[RecordFile]) -> Iterator[list[RecordFile]]:
    """Split old records into portions, each small enough for one consolidation."""
    portion: list[RecordFile] = []
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


def _unused_key(wanted: str, names_in_use: set[str]) -> str:
    number, key = 1, wanted
    while names.folded(f"{key}.md") in names_in_use:
        number += 1
        key = names.numbered(wanted, number)
    names_in_use.add(names.folded(f"{key}.md"))
    return key


# ------------------------------------------------------------ running them

ASKS_ABOVE = 20  # records retired by one run
ASKS_SHARE = 0.05  # of those in sight


class RunOutcome(NamedTuple):
    """The proposals of a run, and the result of each edit that was made or tried."""

    proposals: tuple[Proposal, ...]
    results: tuple[EditResult, ...] = ()
    run: str = ""  # empty when nothing was changed
    findings: tuple[Finding, ...] = ()  # files that could not be read, and so were left alone
    large: str = ""  # why a person should look first, when the run would retire much of what is there
    deleted: tuple[str, ...] = ()  # what was kept for as long as the settings say, and goes for good
    waiting: int = 0  # records of a person that an agent asked to put away; a person decides
    approval: str = ""  # about this

    @property
    def skipped(self) -> tuple[EditResult, ...]:
        """The edits that were not made, with the reason."""
        return tuple(each for each in self.results if not each.done)


def read_places(records: Records, places: Iterable[Place]) -> tuple[list[RecordFile], list[Finding]]:
    """Return all records of these places with their files' bytes, and findings on files that could not be
    read.

    The records of a team are left out: one member's machine must not archive them for everybody.
    """
    seen: list[RecordFile] = []
    findings: list[Finding] = []
    for place in places:
        for scope_folder in (
            each for each in scopes.scope_folders(records.home, records.caller, place) if not each.team
        ):
            try:
                folder = scope_folder.open(filenames.RECORDS)
            except (OutsideMemory, NotADirectoryError) as error:
                findings.append(Finding("malformed", scope_folder.name_of(filenames.RECORDS), str(error)))
                continue
            if folder is None:
                continue
            with folder:
                for name in counted([*in_folder(folder)], "reading"):
                    try:
                        state, content = folder.stat(name), folder.read(name)
                        if content is not None:
                            record = records.parse(scope_folder, name, content)
                            saved = None if state is None else clock.from_seconds(state.st_mtime)
                            seen.append(RecordFile(record, scope_folder, name, content, saved))
                    except (Malformed, OutsideMemory, PermissionError, IsADirectoryError) as error:
                        # A disk that fails is raised: nothing is judged by what it happens to give.
                        where = scope_folder.name_of(filenames.RECORDS, name)
                        findings.append(Finding("malformed", where, str(error), severity="error"))
    return seen, findings


def propose(records: Records, places: Iterable[Place], passes: Iterable[Pass]) -> RunOutcome:
    """Return the proposals of these passes for these places; apply none of them.

    Each pass sees the store as the passes before it would leave it. Within one pass each file is changed
    once; the next run finds the rest.
    """
    seen, findings = read_places(records, places)
    chosen = settle(records, seen, passes)
    return RunOutcome(tuple(chosen), findings=tuple(findings), large=why_ask(chosen, len(seen)))


def settle(records: Records, seen: Sequence[RecordFile], passes: Iterable[Pass]) -> list[Proposal]:
    """Return the proposals of these passes for these records, one pass after the other.

    A proposal is left out if an earlier one of the same pass changes the same file.
    """
    standing = {_file(each.scope_folder, filenames.RECORDS, each.name): each for each in seen}
    chosen: list[Proposal] = []
    now = records.now()
    for each in passes:
        names_in_use: set[tuple[str, str]] = set()
        # All of them before any is counted in: a pass must not see its own proposals half done.
        for proposal in [*each.propose([*standing.values()], now=now)]:
            files_of = {_file(edit.scope_folder, edit.kind, edit.name) for edit in proposal.edits}
            if files_of & names_in_use:
                continue
            names_in_use |= files_of
            chosen.append(proposal)
            for edit in proposal.edits:
                _count_in(records, standing, edit)
    return chosen


def apply_proposals(
    records: Records, proposals: Iterable[Proposal], *, what: str, replacing: bool = False
) -> tuple[str, tuple[EditResult, ...]]:
    """Make the edits of proposals, and return the name of the run and the result of each edit.

    Within a proposal, files are written before others are removed, and when a write fails nothing is removed.
    A proposal that would remove a person's text is skipped if the caller is not a person. `replacing` means
    that the caller has checked that no text is lost.
    """
    run = Run(records.home, records.caller, records.now, records.announce, what)
    results: list[EditResult] = []
    for proposal in counted([*proposals], what):
        if any(needs_a_person(records, edit) for edit in proposal.edits):
            results += [EditResult(edit.path, False, people.WHY) for edit in proposal.edits]
            continue
        written = [edit for edit in proposal.edits if edit.after is not None]
        retired = [edit for edit in proposal.edits if edit.after is None]
        for edit in written:
            results.append(run.do(_give_number(records, edit), proposal.what, replacing=replacing))
            if not results[-1].done:
                break
        else:
            gone = [run.do(edit, proposal.what) for edit in retired]
            results += gone
            for edit, each in zip(retired, gone, strict=True):
                if not each.done:  # somebody wrote on: it must not stand in two places
                    _keep_once(records, edit, {one.name for one in written})
    return run.id, tuple(results)


def _keep_once(records: Records, edit: Edit, ours: Collection[str]) -> None:
    """Take a record out of the consolidation that was to replace it, if the record's own file
    still exists.
    """
    key = key_of(edit.name)
    try:
        given = {entry.text for entry in records.load(edit.scope_folder, edit.name).record.entries}
    except (NotFound, Malformed):
        return
    for already_consolidated in records.holding(edit.scope_folder, key):
        if already_consolidated.name in ours and given >= {
            entry.text for entry in merge.narrowed(already_consolidated.record, key).entries
        }:
            records.release([already_consolidated], key)


def needs_a_person(records: Records, edit: Edit) -> bool:
    """Whether an edit would remove a text of a person's, although the caller is not a person."""
    return bool(people.barred(records.home, records.caller, edit.before, edit.after, kind=edit.kind))


def _give_number(records: Records, edit: Edit) -> Edit:
    """Return the edit with a number for its new record, taken only now because no number is used twice."""
    if edit.before is not None or edit.after is None or edit.kind != filenames.RECORDS:
        return edit
    text = decode(edit.after)
    if frontmatter.parse(text).values.get("num") is not None:
        return edit
    shared = records.on(edit.scope_folder) if edit.scope_folder.shared else ()
    highest = max((each.record.num or 0 for each in shared if isinstance(each, Found)), default=0)
    num = short_numbers.allocate(records.home, above=highest)
    return edit._replace(after=frontmatter.edit(text, {"num": num}).encode())


def why_ask(proposals: Iterable[Proposal], total: int) -> str:
    """Return a reason to ask a person first, when a run would archive much; else an empty text."""
    listed = [*proposals]
    retired = sum(proposal.retires for proposal in listed if not proposal.in_sight)
    summed = sum(proposal.retires for proposal in listed if proposal.in_sight)
    if retired <= ASKS_ABOVE or retired <= ASKS_SHARE * total:
        return ""
    more = f", and {summed} more into summaries" if summed else ""
    return f"{retired} of {total} records would be archived{more}"


def _file(scope_folder: ScopeFolder, kind: str, name: str) -> tuple[str, str]:
    return str(scope_folder.top), scope_folder.name_of(kind, name)


def _count_in(records: Records, standing: dict[tuple[str, str], RecordFile], edit: Edit) -> None:
    """Update the mapping of present records in place, as if this edit had been made."""
    if edit.kind != filenames.RECORDS:
        return
    at = _file(edit.scope_folder, edit.kind, edit.name)
    if edit.after is None:
        standing.pop(at, None)
        return
    record = records.parse(edit.scope_folder, edit.name, edit.after)
    standing[at] = RecordFile(record, edit.scope_folder, edit.name, edit.after)
