"""Sweeps: which passes run, when the next automatic sweep is due, and what its caller reports.

A sweep that somebody asked for runs every pass. An automatic sweep runs retention and the count cap alone,
leaves the shared folder of a repository and records that a person restored, and does nothing when it would
archive much.

Near-duplicates are two records of one folder and type that say the same, worded a little differently. Each
record is compared only with those that share rare words with it, so the time grows with the number of records
and not with its square.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed
from vademecum.lifecycle import passes
from vademecum.lifecycle.passes import CountCap, Expiry, Proposal, RetentionPass, last_renewed
from vademecum.progress import counted
from vademecum.store import archive, audit, decisions, files, is_consolidation, purge, runs
from vademecum.text import clock, frontmatter, similarity
from vademecum.text.document import decode
from vademecum.text.filenames import key_of
from vademecum.types import Origin, Swept

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.config import Settings
    from vademecum.lifecycle.passes import Pass, RecordFile
    from vademecum.store import Edit, Home, Records, ScopeFolder, State
    from vademecum.types import Place, Record

# ------------------------------------------------------------ near-duplicates

_RARE = 4  # words by which a text is looked up
_CROWD = 24  # texts that share a key; more of them share too common a word
_NEIGHBOURS = 6  # how far two texts of a crowd may lie apart in the order of their words
_APART = 4  # beginnings of words that only one of two wordings may have, and a few more in a long text
_STEM = 5  # letters of a word that stay when it is inflected
_TELLING = frozenset({"not", "no", "never"})


class RecordText(NamedTuple):
    """A text of a record, parsed, with the words by which similar texts are found."""

    statement: similarity.Wording
    words: frozenset[str]  # their beginnings
    exact: tuple[str, ...]  # what no wording changes: numbers and negations


def take_apart(text: str) -> RecordText:
    """Return a text with the beginnings of its words, and the words that two equal texts must share."""
    statement = similarity.read_statement(text)
    words = [token.text for token in statement.tokens]
    exact = [word for word in words if word in _TELLING or any(map(str.isdigit, word))]
    return RecordText(statement, frozenset(word[:_STEM] for word in words), tuple(sorted(exact)))


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The pass that archives near-duplicates: records at least as similar as a threshold."""

    threshold: float = similarity.THRESHOLD
    distinct: Callable[[str, str], bool] = lambda one, other: False  # whether somebody decided that they are
    name: str = "duplicates"

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterator[Proposal]:
        """Yield edits that archive all but one record of each group of duplicates.

        The record that comes first by `_precedence` stays, and gets the tags and the newest date of the
        others. A protected record is never archived.
        """
        groups: dict[tuple[ScopeFolder, str], list[RecordFile]] = {}
        for each in seen:
            if each.scope_folder.trusted and each.record.live and not is_consolidation(each.record):
                groups.setdefault((each.scope_folder, each.record.type), []).append(each)
        for here in groups.values():
            if len(here) > 1:
                yield from self._among(sorted(here, key=_precedence))

    def _among(self, here: Sequence[RecordFile]) -> Iterator[Proposal]:
        known = [[take_apart(entry.text) for entry in each.record.live] for each in here]
        left = [*range(len(here))]
        never: set[tuple[int, int]] = set()
        merged: dict[int, list[tuple[int, float]]] = {}
        while True:
            found = self._match_round(here, known, left, never)
            if not found:
                break
            gone = {other for others in found.values() for other, _ in others}
            for keeper, others in found.items():
                merged.setdefault(keeper, []).extend(others)
            # Which words are rare depends on what is there: only a round that finds nothing is the last.
            left = [number for number in left if number not in gone]
        retired = {other for others in merged.values() for other, _ in others}
        for keeper, others in sorted(merged.items()):
            if keeper not in retired:
                yield from self._merge(here, keeper, [*_with_followers(keeper, merged)] or others)

    def _match_round(
        self,
        here: Sequence[RecordFile],
        known: Sequence[Sequence[RecordText]],
        left: Sequence[int],
        never: set[tuple[int, int]],
    ) -> dict[int, list[tuple[int, float]]]:
        """Return the numbers of records that replace others, each with the replaced numbers and likeness.

        Only records of `left` are compared. Pairs that turn out to differ are added to `never`.
        """
        every = [(number, wording) for number in left for wording in known[number]]
        lookup = _Lookup(every)
        trust = {number: _trust(here[number].record) for number in left}
        found: dict[int, list[tuple[int, float]]] = {}
        gone: set[int] = set()
        for keeper, other in counted(sorted(lookup.pairs()), "comparing"):
            if keeper in gone or other in gone or here[other].record.protected:
                continue
            if trust[other] < trust[keeper]:
                continue  # a protected text must not push out one that is more trusted
            if (keeper, other) in never:
                continue
            likeness = self._likeness_if_covered(known[other], known[keeper])
            if likeness is None:
                never.add((keeper, other))
            else:
                gone.add(other)
                found.setdefault(keeper, []).append((other, likeness))
        return found

    def _likeness_if_covered(
        self, wording: Sequence[RecordText], keeper_record: Sequence[RecordText]
    ) -> float | None:
        """Return the likeness of the entry least like the kept record; None when one says something more."""
        least = 100.0
        for each in wording:
            compared = (self._compare(each, other) for other in keeper_record)
            best = max((found for found in compared if found is not None), default=None)
            if best is None:
                return None
            least = min(least, best)
        return least

    def _compare(self, one: RecordText, other: RecordText) -> float | None:
        # Most candidates share a rare word and no more, which a look at their words tells at once.
        differing = len(one.words ^ other.words)
        if one.exact != other.exact or differing > _APART + min(len(one.words), len(other.words)) // 4:
            return None
        found = similarity.same(one.statement, other.statement, threshold=self.threshold)
        return None if found is None or self.distinct(one.statement.text, other.statement.text) else found

    def _merge(
        self, here: Sequence[RecordFile], keeper: int, others: Sequence[tuple[int, float]]
    ) -> Iterator[Proposal]:
        keeper_record = here[keeper]
        lost = [here[number] for number, _ in others]
        revised = _unite_labels(keeper_record, lost)
        results = (f"{here[number].record.key} is {likeness:.0f} % the same" for number, likeness in others)
        why = f"{', '.join(results)} as {keeper_record.record.key}, which stays"
        edits = (*([revised] if revised else []), *(each.retired() for each in lost))
        yield Proposal(self.name, lost[0].record.path, why, edits, keeper_record.record.place)


def _with_followers(keeper: int, merged: dict[int, list[tuple[int, float]]]) -> Iterator[tuple[int, float]]:
    """Yield the records that a kept record replaces, and the records that these had replaced before."""
    for other, likeness in merged.get(keeper, ()):
        yield other, likeness
        yield from _with_followers(other, merged)


def _unite_labels(keeper_record: RecordFile, lost: Iterable[RecordFile]) -> Edit | None:
    """Return the edit that gives the kept record the tags and newest date of all; None if nothing changes."""
    record = keeper_record.record
    tags = [*dict.fromkeys([*record.tags, *(tag for each in lost for tag in each.record.tags)])]
    changes: dict[str, object] = {} if tags == [*record.tags] else {"tags": tags}
    moments = [moment for each in (keeper_record, *lost) if (moment := last_renewed(each.record)) is not None]
    # Else what was said again yesterday would leave with the old record tomorrow.
    if moments and max(moments) != last_renewed(record):
        changes["updated"] = clock.stamp(max(moments))
    if not changes:
        return None
    if not record.fields.get("type"):
        changes["type"] = record.type
    try:
        return keeper_record.revised(frontmatter.edit(decode(keeper_record.content), changes))
    except Malformed:
        return None


def _precedence(seen: RecordFile) -> tuple[bool, int, bool, str, str]:
    """Return a sort key: protected records come first, then more trusted, verified and older ones."""
    record = seen.record
    return (
        not record.protected,
        _trust(record),
        not record.fields.get("verified"),
        record.created or "~",
        record.key,
    )


def _trust(record: Record) -> int:
    """Return the rank of a record's least trusted current entry; a higher rank is trusted less."""
    return max(((entry.origin or Origin.USER).rank for entry in record.live), default=0)


# -------------------------------------------------------------------- finding candidates


@dataclass(slots=True)
class _Lookup:
    """An index of record texts by their rare words, which finds the pairs worth comparing."""

    wording: list[tuple[int, RecordText]]
    counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = Counter(word for _, wording in self.wording for word in wording.words)

    def pairs(self) -> set[tuple[int, int]]:
        """Return the pairs of record numbers that are worth comparing, the record to keep first."""
        found: set[tuple[int, int]] = set()
        crowd: Iterable[int] = range(len(self.wording))
        signs = [self._rare_words(wording) for _, wording in self.wording]
        # Part of every key: where numbers or negations differ, nothing is the same.
        keys = [wording.exact for _, wording in self.wording]
        for length in (1, 2, 3):
            groups: dict[tuple[object, ...], list[int]] = {}
            for number in crowd:
                exact = keys[number]
                for words in itertools.combinations(signs[number], min(length, len(signs[number]) or 1)):
                    groups.setdefault((exact, *words), []).append(number)
                if not signs[number]:
                    groups.setdefault((exact,), []).append(number)
            crowded: set[int] = set()
            for group in groups.values():
                if len(group) <= _CROWD:
                    found.update(self._pairs(group))
                elif length < 3:
                    crowded.update(group)
                else:
                    found.update(self._near(group))
            crowd = sorted(crowded)
        return found

    def _rare_words(self, wording: RecordText) -> tuple[str, ...]:
        """Return the rarest of the words that a statement shares with other statements."""
        shared = [word for word in wording.words if self.counts[word] > 1]
        return tuple(sorted(sorted(shared, key=lambda word: (self.counts[word], word))[:_RARE]))

    def _pairs(self, group: Sequence[int]) -> Iterator[tuple[int, int]]:
        for one, other in itertools.combinations(group, 2):
            first, second = self.wording[one][0], self.wording[other][0]
            if first != second:
                yield (first, second) if first < second else (second, first)

    def _near(self, group: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield pairs of neighbours in word order, for a group too large for all its pairs to be compared."""
        ordered = sorted(group, key=lambda number: (sorted(self.wording[number][1].words), number))
        for step in range(1, _NEIGHBOURS + 1):
            for pair in zip(ordered, ordered[step:], strict=False):
                yield from self._pairs(pair)


# ------------------------------------------------------------ sweeps

BY_REQUEST = "sweep"
ACTOR = "process:sweep"  # the writer of consolidations, whoever asked for the sweep
EVERY = timedelta(days=1)
MOST_SURPLUS = 20  # records that an automatic sweep releases from one place because it holds too many


def every_pass(home: Home, settings: Settings) -> list[Pass]:
    """Return the passes of a sweep that somebody asked for."""
    retention, cap = _retention_and_cap(settings)
    distinct = functools.partial(decisions.are_distinct, home)
    return [Expiry(), retention, Duplicates(settings.dedup.threshold, distinct), cap]


def automatic_passes(settings: Settings, resting: Collection[Place] = ()) -> list[Pass]:
    """Return the passes of an automatic sweep; the cap leaves the places in `resting` alone.

    Records that were written or have arrived within the last day neither count nor go, so that a join of
    two machines moves nothing. The rest goes in small portions.
    """
    retention, cap = _retention_and_cap(settings)
    return [retention, replace(cap, min_age=EVERY, max_released=MOST_SURPLUS, resting=resting)]


def _retention_and_cap(settings: Settings) -> tuple[RetentionPass, CountCap]:
    retention, decay = settings.retention, settings.decay
    return (
        RetentionPass(retention.project_days, retention.session_days),
        CountCap(decay.max_count, decay.percentage, str(decay.strategy), ACTOR),
    )


def count_swept(outcome: passes.RunOutcome, *, at: str = "", where: str = "") -> Swept | None:
    """Return a report of how many records a sweep archived; None when it archived none.

    Each record in an archived consolidation is counted.
    """
    done = {each.path for each in outcome.results if each.done}
    edits = [edit for proposal in outcome.proposals for edit in proposal.edits if edit.path in done]
    moved = sum(_records_in(edit.before) for edit in edits if edit.after is None)
    into = tuple(key_of(edit.name) for edit in edits if edit.before is None)
    return Swept(outcome.run, moved, into, at, where) if outcome.run and moved else None


def _records_in(content: bytes | None) -> int:
    listed = frontmatter.parse(decode(content or b"")).values.get("parts")
    return len(listed) if isinstance(listed, list) and listed else 1


def is_due(last: int | None, *, now: datetime) -> bool:
    """Whether the last sweep is unknown, at least a day ago, or dated a day or more in the future."""
    return last is None or abs(now.timestamp() - last) >= EVERY.total_seconds()


def sweep_asked(
    records: Records, places: Iterable[Place], settings: Settings, *, apply: bool, large: bool
) -> passes.RunOutcome:
    """Propose a sweep that somebody asked for; `apply` runs it, but a large one only with `large`.

    A sweep that runs also deletes old archived versions and audit files, if the settings limit their age.
    """
    every = every_pass(records.home, settings)
    with records.home.lock("sweep") if apply else contextlib.nullcontext():
        now = records.now()
        outcome = passes.propose(records, places, every)
        gone = find_old(records.home, settings, now=now)
        outcome = outcome._replace(deleted=gone.paths)
        if not apply or (outcome.large and not large):
            return outcome
        outcome = _apply(records, outcome, BY_REQUEST)
        delete_old(records.home, gone, settings, now=now, actor=records.caller.actor)
    return outcome


def sweep_unasked(
    records: Records, places: Sequence[Place], settings: Settings, state: State
) -> passes.RunOutcome:
    """Run an automatic sweep, but change nothing when it would archive too many records.

    Global memory is in the sight of every project: `state` knows from which places the cap has released
    records within the last day.
    """
    with records.home.lock("sweep"):
        now = records.now()
        resting = [each for each in places if not is_due(state.moment(f"cap {each}"), now=now)]
        outcome = propose_unasked(records, places, automatic_passes(settings, resting))
        if outcome.large:
            return outcome
        for place in {each.place for each in outcome.proposals if each.what == passes.CAP}:
            state.happened(f"cap {place}", now)
        return _apply(records, outcome, runs.BY_ITSELF)


def _apply(records: Records, outcome: passes.RunOutcome, what: str) -> passes.RunOutcome:
    run, results = passes.apply_proposals(records, outcome.proposals, what=what)
    return outcome._replace(run=run, results=results)


def propose_unasked(records: Records, places: Iterable[Place], some: Sequence[Pass]) -> passes.RunOutcome:
    """Return the proposals of an automatic sweep without applying them.

    Shared folders, and records that were archived before and restored, are left out.
    """
    seen, findings = passes.read_places(records, places)
    seen = [each for each in seen if not each.scope_folder.shared]
    total = len(seen)
    while True:
        chosen = passes.settle(records, seen, some)
        back = {edit.path for edit in _retire_edits(chosen) if _was_restored(records.home, edit)}
        if not back:
            break
        seen = [each for each in seen if each.record.path not in back]
    return passes.RunOutcome(tuple(chosen), findings=tuple(findings), large=passes.why_ask(chosen, total))


class OldFiles(NamedTuple):
    """Archived versions and audit files that are older than the settings allow."""

    versions: tuple[tuple[str, ...], ...] = ()
    days: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all these files."""
        return (*map("/".join, self.versions), *(f"audit/{day}" for day in self.days))


def find_old(home: Home, settings: Settings, *, now: datetime) -> OldFiles:
    """Return the files that a sweep deletes permanently; none unless the user has set a limit."""
    retention = settings.retention
    versions = (
        tuple(purge.old_versions(home, before=now - timedelta(days=retention.archive_days)))
        if retention.archive_days
        else ()
    )
    # A chain that is broken is evidence, and evidence is not cleared away.
    sound = retention.audit_days and not audit.verify(home).problems
    days = purge.old_days(home, before=now - timedelta(days=retention.audit_days)) if sound else ()
    return OldFiles(versions, tuple(days))


def delete_old(home: Home, gone: OldFiles, settings: Settings, *, now: datetime, actor: str) -> None:
    """Delete these old files permanently, and add a line to the audit log."""
    for parts in gone.versions:
        purge.delete_version(home, parts)
    if gone.versions:
        audit.write(home, at=now, actor=actor, operation="expire")
    if gone.days:
        before = now - timedelta(days=settings.retention.audit_days)
        audit.cut(home, before, at=now, actor=actor)


def _retire_edits(chosen: Iterable[Proposal]) -> Iterable[Edit]:
    return (edit for proposal in chosen for edit in proposal.edits if edit.after is None)


def _was_restored(home: Home, edit: Edit) -> bool:
    """Whether this version of a file was archived before, and so must have been restored since."""
    mark = files.digest(edit.before or b"")[:8]
    images = archive.images(home, edit.scope_folder, edit.kind, edit.name)
    return any(image.why in archive.FORGOTTEN and image.mark == mark for image in images)
