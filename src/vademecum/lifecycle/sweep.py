"""Sweeps: which passes make one, when the next is due by itself, and what the person should hear of it.

A sweep that somebody asked for runs every pass. One that memory starts by itself runs retention and the count
cap alone, leaves a repository's shared folder to those who share it, leaves what a person brought back, and
does nothing at all when it would put away much.

Near-duplicates are two records of one folder and type that say the same, worded a little differently. Each
record is compared only with those that share rare words with it, so the time grows with the number of records
and not with its square.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed
from vademecum.lifecycle import passes
from vademecum.lifecycle.passes import CountCap, Expiry, Proposal, RetentionPass, last_renewed
from vademecum.progress import counted
from vademecum.store import archive, audit, decisions, files, frontmatter, purge
from vademecum.store.document import decode
from vademecum.store.merge import is_consolidation
from vademecum.store.records import key_of
from vademecum.text import clock, similarity
from vademecum.types import Origin, Swept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.config import Settings
    from vademecum.lifecycle.passes import Pass, SeenRecord
    from vademecum.store import Edit, Home, Records, Shelf
    from vademecum.types import Place, Record

# ------------------------------------------------------------ near-duplicates

_RARE = 4  # words by which a text is looked up
_CROWD = 24  # texts that share a key; more of them share too common a word
_NEIGHBOURS = 6  # how far two texts of a crowd may lie apart in the order of their words
_APART = 4  # beginnings of words that only one of two wordings may have, and a few more in a long text
_STEM = 5  # letters of a word that stay when it is inflected
_TELLING = frozenset({"not", "no", "never"})


class SaidRecord(NamedTuple):
    """One statement, and by what it is looked up."""

    statement: similarity.Wording
    words: frozenset[str]  # their beginnings
    exact: tuple[str, ...]  # what no wording changes: numbers and negations


def take_apart(text: str) -> SaidRecord:
    """A statement with its words."""
    statement = similarity.read_statement(text)
    words = [token.text for token in statement.tokens]
    exact = [word for word in words if word in _TELLING or any(map(str.isdigit, word))]
    return SaidRecord(statement, frozenset(word[:_STEM] for word in words), tuple(sorted(exact)))


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The pass, with how alike two texts are at least that can count as one."""

    threshold: float = similarity.THRESHOLD
    distinct: Callable[[str, str], bool] = lambda one, other: False  # whether somebody decided that they are
    name: str = "duplicates"

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Keep one of each pair: the more trusted, then the older; the other goes to the archive whole."""
        groups: dict[tuple[Shelf, str], list[SeenRecord]] = {}
        for each in seen:
            if each.shelf.trusted and each.record.live and not is_consolidation(each.record):
                groups.setdefault((each.shelf, each.record.type), []).append(each)
        for here in groups.values():
            if len(here) > 1:
                yield from self._among(sorted(here, key=_precedence))

    def _among(self, here: Sequence[SeenRecord]) -> Iterator[Proposal]:
        known = [[take_apart(entry.text) for entry in each.record.live] for each in here]
        left = [*range(len(here))]
        never: set[tuple[int, int]] = set()
        merged: dict[int, list[tuple[int, float]]] = {}
        while True:
            found = self._round(here, known, left, never)
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

    def _round(
        self,
        here: Sequence[SeenRecord],
        known: Sequence[Sequence[SaidRecord]],
        left: Sequence[int],
        never: set[tuple[int, int]],
    ) -> dict[int, list[tuple[int, float]]]:
        """Who stays for whom, among those that are left; `never` gathers the pairs that no round can join."""
        every = [(number, said) for number in left for said in known[number]]
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
            likeness = self._says_no_more(known[other], known[keeper])
            if likeness is None:
                never.add((keeper, other))
            else:
                gone.add(other)
                found.setdefault(keeper, []).append((other, likeness))
        return found

    def _says_no_more(self, said: Sequence[SaidRecord], kept: Sequence[SaidRecord]) -> float | None:
        """How alike all that one record says is to what the other says; None when it says more."""
        least = 100.0
        for each in said:
            compared = (self._compare(each, other) for other in kept)
            best = max((found for found in compared if found is not None), default=None)
            if best is None:
                return None
            least = min(least, best)
        return least

    def _compare(self, one: SaidRecord, other: SaidRecord) -> float | None:
        # Most candidates share a rare word and no more, which a look at their words tells at once.
        apart = len(one.words ^ other.words)
        if one.exact != other.exact or apart > _APART + min(len(one.words), len(other.words)) // 4:
            return None
        found = similarity.same(one.statement, other.statement, threshold=self.threshold)
        return None if found is None or self.distinct(one.statement.text, other.statement.text) else found

    def _merge(
        self, here: Sequence[SeenRecord], keeper: int, others: Sequence[tuple[int, float]]
    ) -> Iterator[Proposal]:
        kept = here[keeper]
        lost = [here[number] for number, _ in others]
        revised = _united(kept, lost)
        told = (f"{here[number].record.key} is {likeness:.0f} % the same" for number, likeness in others)
        why = f"{', '.join(told)} as {kept.record.key}, which stays"
        edits = (*([revised] if revised else []), *(each.retired() for each in lost))
        yield Proposal(self.name, lost[0].record.path, why, edits, kept.record.place)


def _with_followers(keeper: int, merged: dict[int, list[tuple[int, float]]]) -> Iterator[tuple[int, float]]:
    """All that end with a keeper: its own, and those of what it took in a later round."""
    for other, likeness in merged.get(keeper, ()):
        yield other, likeness
        yield from _with_followers(other, merged)


def _united(kept: SeenRecord, lost: Iterable[SeenRecord]) -> Edit | None:
    """The record that stays, with the tags of the others and as fresh as the freshest; None when it is so."""
    record = kept.record
    tags = [*dict.fromkeys([*record.tags, *(tag for each in lost for tag in each.record.tags)])]
    changes: dict[str, object] = {} if tags == [*record.tags] else {"tags": tags}
    moments = [moment for each in (kept, *lost) if (moment := last_renewed(each.record)) is not None]
    # Else what was said again yesterday would leave with the old record tomorrow.
    if moments and max(moments) != last_renewed(record):
        changes["updated"] = clock.stamp(max(moments))
    if not changes:
        return None
    if not record.fields.get("type"):
        changes["type"] = record.type
    try:
        return kept.revised(frontmatter.edit(decode(kept.content), changes))
    except Malformed:
        return None


def _precedence(seen: SeenRecord) -> tuple[bool, int, bool, str, str]:
    """Who stays: the protected, the more trusted, the verified, the older, the one with the first key."""
    record = seen.record
    return (
        not record.protected,
        _trust(record),
        not record.fields.get("verified"),
        record.created or "~",
        record.key,
    )


def _trust(record: Record) -> int:
    """How little the least trusted living entry is trusted."""
    return max(((entry.origin or Origin.USER).rank for entry in record.live), default=0)


# -------------------------------------------------------------------- finding candidates


@dataclass(slots=True)
class _Lookup:
    """Statements by their rare words."""

    said: list[tuple[int, SaidRecord]]
    counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = Counter(word for _, said in self.said for word in said.words)

    def pairs(self) -> set[tuple[int, int]]:
        """The pairs worth comparing, the record that would stay first."""
        found: set[tuple[int, int]] = set()
        crowd: Iterable[int] = range(len(self.said))
        signs = [self._sign(said) for _, said in self.said]
        # Part of every key: where numbers or negations differ, nothing is the same.
        keys = [said.exact for _, said in self.said]
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

    def _sign(self, said: SaidRecord) -> tuple[str, ...]:
        """The rarest words of a statement that some other has as well: a slip of the hand has none."""
        shared = [word for word in said.words if self.counts[word] > 1]
        return tuple(sorted(sorted(shared, key=lambda word: (self.counts[word], word))[:_RARE]))

    def _pairs(self, group: Sequence[int]) -> Iterator[tuple[int, int]]:
        for one, other in itertools.combinations(group, 2):
            first, second = self.said[one][0], self.said[other][0]
            if first != second:
                yield (first, second) if first < second else (second, first)

    def _near(self, group: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Neighbours in the order of their words, where too many share too much to compare all."""
        ordered = sorted(group, key=lambda number: (sorted(self.said[number][1].words), number))
        for step in range(1, _NEIGHBOURS + 1):
            for pair in zip(ordered, ordered[step:], strict=False):
                yield from self._pairs(pair)


# ------------------------------------------------------------ sweeps

ASKED, BY_ITSELF = "sweep", "sweep by itself"
EVERY = timedelta(days=1)


def every_pass(home: Home, settings: Settings, *, actor: str) -> list[Pass]:
    """The passes of a sweep that somebody asked for."""
    retention, cap = automatic_passes(settings, actor=actor)
    distinct = functools.partial(decisions.are_distinct, home)
    return [Expiry(), retention, Duplicates(settings.dedup.threshold, distinct), cap]


def automatic_passes(settings: Settings, *, actor: str) -> list[Pass]:
    """The passes of a sweep that memory starts by itself."""
    kept, decay = settings.retention, settings.decay
    return [
        RetentionPass(kept.project_days, kept.session_days),
        CountCap(decay.max_count, decay.percentage, str(decay.strategy), actor),
    ]


def count_swept(outcome: passes.RunOutcome, *, at: str = "", where: str = "") -> Swept | None:
    """What a sweep moved to the archive, counted as records: a consolidation is as many as it holds."""
    done = {each.path for each in outcome.told if each.done}
    edits = [edit for proposal in outcome.proposals for edit in proposal.edits if edit.path in done]
    moved = sum(_records_in(edit.before) for edit in edits if edit.after is None)
    into = tuple(key_of(edit.name) for edit in edits if edit.before is None)
    return Swept(outcome.run, moved, into, at, where) if outcome.run and moved else None


def _records_in(content: bytes | None) -> int:
    listed = frontmatter.parse(decode(content or b"")).values.get("parts")
    return len(listed) if isinstance(listed, list) and listed else 1


def is_due(last: int | None, *, now: datetime) -> bool:
    """Whether a day has gone by; a clock that was wrong once must not stop it for ever."""
    return last is None or abs(now.timestamp() - last) >= EVERY.total_seconds()


def sweep_asked(
    records: Records, places: Iterable[Place], settings: Settings, *, apply: bool, large: bool
) -> passes.RunOutcome:
    """A sweep that somebody asked for: only told, or done; much at once only when they said so."""
    every = every_pass(records.home, settings, actor=records.caller.actor)
    with records.home.lock("sweep") if apply else contextlib.nullcontext():
        now = records.now()
        outcome = passes.propose(records, places, every)
        gone = find_old(records.home, settings, now=now)
        outcome = outcome._replace(deleted=gone.paths)
        if not apply or (outcome.large and not large):
            return outcome
        outcome = _done(records, outcome, ASKED)
        delete_old(records.home, gone, settings, now=now, actor=records.caller.actor)
    return outcome


def sweep_unasked(records: Records, places: Iterable[Place], settings: Settings) -> passes.RunOutcome:
    """A sweep that nobody asked for: done, unless it is large."""
    with records.home.lock("sweep"):
        outcome = propose_unasked(records, places, automatic_passes(settings, actor=records.caller.actor))
        return outcome if outcome.large else _done(records, outcome, BY_ITSELF)


def _done(records: Records, outcome: passes.RunOutcome, what: str) -> passes.RunOutcome:
    run, told = passes.apply_proposals(records, outcome.proposals, what=what)
    return outcome._replace(run=run, told=told)


def propose_unasked(records: Records, places: Iterable[Place], some: Sequence[Pass]) -> passes.RunOutcome:
    """What a sweep would do that nobody asked for."""
    seen, findings = passes.read_places(records, places)
    seen = [each for each in seen if not each.shelf.shared]
    total = len(seen)
    while True:
        chosen = passes.settle(records, seen, some)
        back = {edit.path for edit in _retired(chosen) if _brought_back(records.home, edit)}
        if not back:
            break
        seen = [each for each in seen if each.record.path not in back]
    return passes.RunOutcome(tuple(chosen), findings=tuple(findings), large=passes.why_ask(chosen, total))


class OldFiles(NamedTuple):
    """What has been kept for as long as the settings say."""

    versions: tuple[tuple[str, ...], ...] = ()
    days: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All of it as shown."""
        return (*map("/".join, self.versions), *(f"audit/{day}" for day in self.days))


def find_old(home: Home, settings: Settings, *, now: datetime) -> OldFiles:
    """What a sweep deletes for good: nothing, unless the user has set how long to keep it."""
    kept = settings.retention
    versions = (
        tuple(purge.old_versions(home, before=now - timedelta(days=kept.archive_days)))
        if kept.archive_days
        else ()
    )
    # A chain that is broken is evidence, and evidence is not cleared away.
    sound = kept.audit_days and not audit.verify(home).problems
    days = purge.old_days(home, before=now - timedelta(days=kept.audit_days)) if sound else ()
    return OldFiles(versions, tuple(days))


def delete_old(home: Home, gone: OldFiles, settings: Settings, *, now: datetime, actor: str) -> None:
    """Delete it, and say so in the audit."""
    for parts in gone.versions:
        purge.delete_version(home, parts)
    if gone.versions:
        audit.write(home, at=now, actor=actor, operation="expire")
    if gone.days:
        before = now - timedelta(days=settings.retention.audit_days)
        audit.cut(home, before, at=now, actor=actor)


def _retired(chosen: Iterable[Proposal]) -> Iterable[Edit]:
    return (edit for proposal in chosen for edit in proposal.edits if edit.after is None)


def _brought_back(home: Home, edit: Edit) -> bool:
    """Whether this very version was put away before, and somebody wanted it back."""
    mark = files.digest(edit.before or b"")[:8]
    images = archive.images(home, edit.shelf, edit.kind, edit.name)
    return any(image.why in archive.FORGOTTEN and image.mark == mark for image in images)
