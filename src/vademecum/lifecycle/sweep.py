"""Sweeps: which passes make one, when the next is due by itself, and what the person should hear of it.

A sweep that somebody asked for runs every pass. One that memory starts by itself runs retention and the count
cap alone, leaves a repository's shared folder to those who share it, leaves what a person brought back, and
does nothing at all when it would put away much.
"""

from __future__ import annotations

import contextlib
import functools
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.lifecycle import runner
from vademecum.lifecycle.duplicates import Duplicates
from vademecum.lifecycle.passes import CountCap, Expiry, RetentionPass
from vademecum.store import archive, audit, decisions, files, frontmatter, purge
from vademecum.store.records import key_of
from vademecum.store.validate import decode
from vademecum.types import Swept

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from vademecum.config import Settings
    from vademecum.lifecycle.passes import Pass, Proposal
    from vademecum.store import Edit, Home, Records
    from vademecum.types import Place

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


def count_swept(outcome: runner.RunOutcome, *, at: str = "", where: str = "") -> Swept | None:
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
) -> runner.RunOutcome:
    """A sweep that somebody asked for: only told, or done; much at once only when they said so."""
    passes = every_pass(records.home, settings, actor=records.caller.actor)
    with records.home.lock("sweep") if apply else contextlib.nullcontext():
        now = records.now()
        outcome = runner.propose(records, places, passes)
        gone = find_old(records.home, settings, now=now)
        outcome = outcome._replace(deleted=gone.paths)
        if not apply or (outcome.large and not large):
            return outcome
        outcome = _done(records, outcome, ASKED)
        delete_old(records.home, gone, settings, now=now, actor=records.caller.actor)
    return outcome


def sweep_unasked(records: Records, places: Iterable[Place], settings: Settings) -> runner.RunOutcome:
    """A sweep that nobody asked for: done, unless it is large."""
    with records.home.lock("sweep"):
        outcome = propose_unasked(records, places, automatic_passes(settings, actor=records.caller.actor))
        return outcome if outcome.large else _done(records, outcome, BY_ITSELF)


def _done(records: Records, outcome: runner.RunOutcome, what: str) -> runner.RunOutcome:
    run, told = runner.apply(records, outcome.proposals, what=what)
    return outcome._replace(run=run, told=told)


def propose_unasked(records: Records, places: Iterable[Place], passes: Sequence[Pass]) -> runner.RunOutcome:
    """What a sweep would do that nobody asked for."""
    seen, findings = runner.read_places(records, places)
    seen = [each for each in seen if not each.shelf.shared]
    total = len(seen)
    while True:
        chosen = runner.settle(records, seen, passes)
        back = {edit.path for edit in _retired(chosen) if _brought_back(records.home, edit)}
        if not back:
            break
        seen = [each for each in seen if each.record.path not in back]
    return runner.RunOutcome(tuple(chosen), findings=tuple(findings), large=runner.why_ask(chosen, total))


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
