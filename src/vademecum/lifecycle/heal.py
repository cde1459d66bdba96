"""Heal: one mend for each kind of finding that has one; told unless asked for, and never a word removed.

Nothing is believed that lint said earlier: every mend looks for itself what is wrong, in the records of one
caller's own places, and an edit whose file has changed by then is not made. What is left to a person is told
with the reason. Links in a text stay as they are: which word was meant is not for a program to say.
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import VadeError
from vademecum.knowledge import edges
from vademecum.lifecycle import contradictions, runner, split
from vademecum.lifecycle.base import Proposal
from vademecum.lifecycle.lint import links, reading, stale, usage
from vademecum.lifecycle.lint.base import INCOMPLETE, Material, Watch, item_of
from vademecum.store import audit, clock, document, listing
from vademecum.store.runs import Told
from vademecum.store.texts import decode
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from vademecum.lifecycle.base import Seen
    from vademecum.store.records import Records
    from vademecum.types import Entry, Place

HEAL = "heal"
MOST = 200  # edits of one run
SECONDS = 60.0


class Around(NamedTuple):
    """What mends need beside the files: the counters, the index, and what people have verified."""

    uses: Callable[[list[str]], dict[str, int]] = lambda items: {}
    forget_uses: Callable[[list[str]], bool] = lambda items: False
    rows_gone: Callable[[], int] = lambda: 0
    sync: Callable[[], object] = lambda: None
    index_path: str = "index"
    verified: Callable[[Entry], bool] = lambda entry: False


@dataclass(frozen=True, slots=True)
class StaleClaims:
    """The pass that marks entries with what is gone, and takes the mark away when it is there again."""

    root: Path | None
    project: Place | None
    watch: Watch
    name: str = stale.NAME

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterator[Proposal]:
        """Bring each entry's mark in line with the project's tree."""
        material = Material(tuple(seen), root=self.root, project=self.project, watch=self.watch)
        found, whole = stale.stale(material)
        if not whole or self.watch.left_out or self.root is None:
            return  # with half a look nothing is missing, and nothing is back
        wrong: dict[str, dict[int, list[stale.Stale]]] = {}
        for each in found:
            if stale.markable(each):
                wrong.setdefault(each.seen.record.path, {}).setdefault(each.number, []).append(each)
        for record in seen:
            if record.shelf.trusted and record.record.place == self.project:
                yield from self._mark(record, wrong.get(record.record.path, {}), now)

    def _mark(self, seen: Seen, wrong: dict[int, list[stale.Stale]], now: datetime) -> Iterator[Proposal]:
        text, whys, line = decode(seen.content), [], 0
        for index, entry in enumerate(seen.record.entries):
            if not entry.live:
                continue
            gone = wrong.get(index, [])
            told = "; ".join(dict.fromkeys(stale.told(each.checked) for each in gone))
            if told == _without_date(entry.stale or ""):
                continue
            parsed = document.parse(text)
            unsigned = parsed.sections[index].signed is None
            mark = f"{told} ({clock.stamp(now)[:10]})" if told else ""
            text = document.sign(parsed, index, origin=entry.origin if unsigned else None, stale=mark)
            said = "; ".join(dict.fromkeys(each.checked.why for each in gone))
            whys.append(said or "what was gone is back")
            line = line or (gone[0].line if gone else entry.start)
        if whys:
            where, why = f"{seen.record.path}#L{line}", f"marked: {'; '.join(whys)}"
            yield Proposal(self.name, where, why, (seen.revised(text),), seen.record.place)


def heal(
    records: Records,
    places: Sequence[Place],
    around: Around,
    *,
    root: Path | None,
    apply: bool,
    aggressive: bool = False,
    seconds: float = SECONDS,
) -> runner.Outcome:
    """What would be mended, and with `apply` mend it; `vade undo` brings edits of records back."""
    with records.home.lock(HEAL) if apply else contextlib.nullcontext():
        watch = Watch(seconds)
        material = reading.read(records, places, root=root, watch=watch)
        passes = (
            contradictions.Contradictions(around.verified),
            StaleClaims(root, material.project, watch),
            split.WrongMerges(split.moments(records.home), records.caller.actor),
        )
        edits = runner.settle(records, material.seen, passes)[:MOST]
        mends = [*_derived(material, around)]
        poisoned = [*usage.poisoned(material.seen, around.uses)]
        if aggressive and poisoned:
            mends += [_counters(poisoned, around)]
        outcome = runner.Outcome(
            (*edits, *(each.proposal for each in mends)),
            findings=tuple(_left(material, around, [] if aggressive else poisoned)),
        )
        if not apply or not outcome.proposals:
            return outcome
        run, told = runner.apply(records, edits, what=HEAL)
        for mend in mends:
            told += (_made(mend),)
            at, actor = records.now(), records.caller.actor
            audit.write(records.home, at=at, actor=actor, operation=f"{HEAL} {mend.proposal.what}")
    return outcome._replace(run=run, told=told)


class _Mend(NamedTuple):
    """A mend of something that is made from the files, and so needs no way back."""

    proposal: Proposal
    make: Callable[[], object]


def _derived(material: Material, around: Around) -> Iterator[_Mend]:
    """Listings and index rows whose file is gone: they are made anew, and drop them by that."""
    for page in material.listings:
        gone, shelf = links.dangling(page), material.shelves.get(page.path)
        if gone and shelf is not None and shelf.trusted:
            records = [each.record for each in material.seen if each.shelf == shelf]
            why = f"it names {len(gone)} that are gone, and is written anew"
            proposal = Proposal(links.NAME, f"{page.path}#L{gone[0][0]}", why, place=page.place)
            yield _Mend(proposal, functools.partial(listing.write, shelf, records))
    rows = around.rows_gone()
    if rows:
        why = f"{rows} of its rows name files that are gone, and are dropped"
        yield _Mend(Proposal(links.NAME, around.index_path, why), around.sync)


def _counters(poisoned: Sequence[tuple[Seen, int, int]], around: Around) -> _Mend:
    items = [item_of(seen) for seen, *_ in poisoned]
    what = "counter is" if len(items) == 1 else f"{len(items)} counters are"
    where = poisoned[0][0].record.path
    proposal = Proposal(usage.NAME, where, f"the {what} set back to 0", place=poisoned[0][0].record.place)
    return _Mend(proposal, functools.partial(around.forget_uses, items))


def _made(mend: _Mend) -> Told:
    try:
        failed = mend.make() is False
    except (VadeError, OSError) as error:
        return Told(mend.proposal.where, False, str(error))
    return Told(mend.proposal.where, not failed, "it could not be written" if failed else "")


def _left(material: Material, around: Around, poisoned: Sequence[tuple[Seen, int, int]]) -> Iterator[Finding]:
    """What is left to a person, and why."""
    yield from material.unreadable
    for clash in contradictions.clashes(material.seen)[: contradictions.MOST]:
        why = contradictions.only_a_person(clash, around.verified)
        if why:
            yield Finding(contradictions.NAME, clash.older.where, f"{clash.why}, but {why}")
    graph = edges.graph(material.records, by_tags=False)
    for finding in links.check(material, graph):
        if "/index.md#" not in finding.where:
            yield finding._replace(why=f"{finding.why}; no text is changed for that")
    for seen, count, _ in poisoned:
        why = f"shown {count:,} times; only --aggressive sets the counter back"
        yield Finding(usage.NAME, seen.record.path, why)
    for what, count in material.watch.left_out.items():
        yield Finding(INCOMPLETE, what, f"{count or 'some'} were not looked at in time")


def _without_date(mark: str) -> str:
    return re.sub(r" \(\d{4}-\d\d-\d\d\)$", "", mark)
