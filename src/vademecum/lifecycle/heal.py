"""Heal: a fix for each kind of finding that has one, and merges taken apart; never a word is lost."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import NotFound, VadeError
from vademecum.knowledge import graph as graphs
from vademecum.knowledge import lessons
from vademecum.lifecycle import contradictions, lint_rules, passes
from vademecum.lifecycle import lint_rules as materials
from vademecum.lifecycle.lint_rules import INCOMPLETE, Material, Stopwatch, cite, counter_name
from vademecum.lifecycle.passes import Proposal
from vademecum.store import Edit, Told, archive, audit, decisions, document, frontmatter, listing
from vademecum.store.document import decode
from vademecum.text import clock, is_same_text, names, similarity
from vademecum.types import LEARNED, Finding, Outcome, RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vademecum.lifecycle.passes import SeenRecord
    from vademecum.store import Found, Home, Records, Shelf
    from vademecum.types import Entry, Place, Record


# ------------------------------------------------------------ merges taken apart

WRONG_MERGE = "merge"
SPLIT = "split"
_LATE = timedelta(seconds=120)  # how long after its entry a write may be audited, on a busy disk

Moments = dict[str, list["datetime"]]


class Merge(NamedTuple):
    """An entry superseded by a text that came without a key; `newer` is itself if it gave way at once."""

    older: int
    newer: int


def read_moments(home: Home) -> Mapping[str, Sequence[datetime]]:
    """When texts were merged into each record unasked, as the audit has it: by the id of the record."""
    found: Moments = {}
    for line in audit.lines(home):
        moment = clock.parse(line.get("at")) if line.get("op") == Outcome.CONSOLIDATED else None
        if moment is not None and line.get("record"):
            found.setdefault(str(line["record"]), []).append(moment)
    return found


def find_merges(record: Record, merged: Mapping[str, Sequence[datetime]]) -> list[Merge]:
    """The merges of a record, the oldest first; what a person replaced, healed or compacted is none."""
    times = merged.get(record.id or "", ())
    found = []
    for older, entry in enumerate(record.entries):
        stamp = clock.parse(entry.superseded)
        if stamp is None or not any(stamp <= each <= stamp + _LATE for each in times):
            continue
        newer = _newer(record, older)
        if newer is not None:
            found.append(Merge(older, newer))
        elif entry.superseded == entry.time:
            found.append(Merge(older, older))
    return sorted(found, key=lambda each: (record.entries[each.older].superseded or "", each.older))


def find_wrong_merges(record: Record, merged: Mapping[str, Sequence[datetime]]) -> list[Merge]:
    """The merges of a record that joined two different contradictions."""
    return [each for each in find_merges(record, merged) if _is_wrong(record, each)]


def _is_wrong(record: Record, merge: Merge) -> bool:
    entry = record.entries[merge.older]
    if merge.newer != merge.older:
        return not _one_statement(record, entry, record.entries[merge.newer])
    others = [each for number, each in enumerate(record.entries) if number != merge.older]
    return not any(_one_statement(record, entry, each) for each in others)


def _one_statement(record: Record, one: Entry, other: Entry) -> bool:
    if record.type not in LEARNED:
        return similarity.same(one.text, other.text, threshold=0) is not None
    kind = RecordType(record.type)
    fields = lessons.parse(kind, one.text), lessons.parse(kind, other.text)
    return lessons.match(kind, *fields, threshold=0) is not None


# -------------------------------------------------------------------- taking apart


@dataclass(frozen=True, slots=True)
class WrongMerges:
    """The pass that takes apart what earlier versions merged and this one would not."""

    merged: Mapping[str, Sequence[datetime]]
    actor: str
    name: str = WRONG_MERGE

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Give each different statement its own record."""
        taken = {(each.shelf, names.folded(each.name)) for each in seen}
        for each in seen:
            found = find_wrong_merges(each.record, self.merged) if each.shelf.trusted else []
            if found:
                yield take_apart(each, found, taken=taken, actor=self.actor, now=now)


def check_merges(seen: Sequence[SeenRecord], merged: Mapping[str, Sequence[datetime]]) -> Iterator[Finding]:
    """The merges that joined two different statements, for lint."""
    for each in seen:
        record = each.record
        for merge in find_wrong_merges(record, merged) if each.shelf.trusted else ():
            older, newer = record.entries[merge.older], record.entries[merge.newer]
            said = f"“{shorten(older.text)}” was superseded"
            why = f"{said} by “{shorten(newer.text)}”, which says something different"
            if merge.older == merge.newer:
                why = f"{said} when it was saved, and nothing here says the same"
            where = cite(record.path, older.start, older.end)
            mend = f"vade heal --scope {record.place.scope} --apply"
            yield Finding(WRONG_MERGE, where, why, mend, "warning", record.place)


def split_last(records: Records, found: Found) -> passes.RunOutcome:
    """Take the newest merge of a record apart; raises when nothing was merged into it."""
    record = found.record
    here = passes.read_places(records, [record.place])[0]
    seen = next((each for each in here if each.record.path == record.path), None)
    every = [] if seen is None else find_merges(seen.record, read_moments(records.home))
    if seen is None or not every:
        raise NotFound(
            f"nothing was merged into {record.key}", hint=f"`vade show {record.key}` shows all its entries"
        )
    taken = {(each.shelf, names.folded(each.name)) for each in here}
    proposal = take_apart(
        seen, every[-1:], taken=taken, actor=records.caller.actor, now=records.now(), what=SPLIT
    )
    run, told = passes.apply_proposals(records, [proposal], what=SPLIT)
    if run and all(each.done for each in told):
        _remember(records, proposal, run)
    return passes.RunOutcome((proposal,), told, run)


def _remember(records: Records, proposal: Proposal, run: str) -> None:
    """Keep the decision, or the next sweep would merge again what was just split."""
    said = [
        [entry.text for entry in document.parse(decode(edit.after)).entries if entry.live]
        for edit in proposal.edits
        if edit.after is not None
    ]
    at, by = clock.stamp(records.now()), records.caller.actor
    for mine, theirs in itertools.combinations(said, 2):
        for one, other in itertools.product(mine, theirs):
            if not is_same_text(one, other):
                decisions.keep_distinct(records.home, one, other, at=at, by=by, run=run)


def take_apart(
    seen: SeenRecord,
    apart: Sequence[Merge],
    *,
    taken: set[tuple[Shelf, str]],
    actor: str,
    now: datetime,
    what: str = WRONG_MERGE,
) -> Proposal:
    """What has to be written so that these statements stand apart; the first stays in its record."""
    record = seen.record
    cut = {each.older for each in apart}
    # A statement that came by one of these merges leaves, with whatever reworded it since.
    leaving = {end for each in apart if (end := _end(record, each, cut)) is not None}
    standing = cut - {each.older for each in apart if each.older == each.newer}
    text = decode(seen.content)
    stamp = clock.stamp(now)
    edits: list[Edit] = []
    keys: list[str] = []
    for number in sorted(standing | leaving):
        if number in leaving:
            key, edit = _own_record(seen, record.entries[number], taken=taken, actor=actor, stamp=stamp)
            keys.append(key)
            edits.append(edit)
        mark = stamp if number in leaving else ""
        text = document.sign(document.parse(text), number, superseded=mark)
    again = ", ".join(f"“{shorten(record.entries[number].text)}”" for number in sorted(standing - leaving))
    own = ", ".join(keys)
    why = "; ".join(
        part
        for part in (
            f"{again} is current again in {record.key}" if again else "",
            f"what was merged with it is now in {own}" if own else "",
        )
        if part
    )
    first = record.entries[apart[0].older]
    where = cite(record.path, first.start, first.end)
    return Proposal(what, where, why, (*edits, seen.revised(text)), record.place)


def _end(record: Record, merge: Merge, cut: set[int]) -> int | None:
    """The wording in which the newer statement of a merge stands today; None if it stands no more."""
    if merge.older == merge.newer:
        return merge.older
    follows = [_newer(record, number) for number in range(len(record.entries))]
    number, passed = merge.newer, {merge.older}
    while number not in cut and number not in passed and (following := follows[number]) is not None:
        passed.add(number)
        number = following
    if follows.count(number) > 1:
        return None  # an article that was made of several entries
    return number if record.entries[number].live or number in cut else None


def _newer(record: Record, older: int) -> int | None:
    """The entry that took the place of another: one behind it, of the very second of the mark."""
    moment = record.entries[older].superseded
    every = range(older + 1, len(record.entries))
    return next((number for number in every if moment and record.entries[number].time == moment), None)


def _own_record(
    seen: SeenRecord, entry: Entry, *, taken: set[tuple[Shelf, str]], actor: str, stamp: str
) -> tuple[str, Edit]:
    """A new record for one statement, labelled as the one it stood in."""
    record, shelf = seen.record, seen.shelf
    wanted = names.auto_key(entry.text)
    number, key = 1, wanted
    while (shelf, names.folded(f"{key}.md")) in taken:
        number += 1
        key = names.numbered(wanted, number)
    taken.add((shelf, names.folded(f"{key}.md")))
    said = entry.time or stamp
    values = {
        "type": record.type,
        "id": names.new_id(),
        "key": key,
        "title": key.replace("-", " ").strip().capitalize(),
        "scope": str(record.place.scope),
        "scope_id": record.place.id or None,
        "tags": list(record.tags) or None,
        "category": record.category,
        "source": record.source,
        "created": said,
        "updated": said,
        "generated": {"by": actor, "at": stamp},
        "confidence": record.confidence,
        "protected": record.protected or None,
    }
    standing = replace(entry, superseded=None)
    text = document.append(frontmatter.edit(f"# {key}\n\n", values), standing)
    return key, Edit(shelf, archive.RECORDS, f"{key}.md", None, text.encode())


def shorten(text: str, most: int = 60) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most].rstrip()}…"


# ------------------------------------------------------------ mends

HEAL = "heal"
MOST = 200  # edits of one run
SECONDS = 60.0


class HealContext(NamedTuple):
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
    watch: Stopwatch
    name: str = lint_rules.STALE

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Bring each entry's mark in line with the project's tree."""
        material = Material(tuple(seen), root=self.root, project=self.project, watch=self.watch)
        found, whole = lint_rules.find_stale(material)
        if not whole or self.watch.left_out or self.root is None:
            return  # with half a look nothing is missing, and nothing is back
        wrong: dict[str, dict[int, list[lint_rules.StaleClaim]]] = {}
        for each in found:
            if lint_rules.is_markable(each):
                wrong.setdefault(each.seen.record.path, {}).setdefault(each.number, []).append(each)
        for record in seen:
            if record.shelf.trusted and record.record.place == self.project:
                yield from self._mark(record, wrong.get(record.record.path, {}), now)

    def _mark(
        self, seen: SeenRecord, wrong: dict[int, list[lint_rules.StaleClaim]], now: datetime
    ) -> Iterator[Proposal]:
        text, whys, line = decode(seen.content), [], 0
        for index, entry in enumerate(seen.record.entries):
            if not entry.live:
                continue
            gone = wrong.get(index, [])
            told = "; ".join(dict.fromkeys(lint_rules.describe_claim(each.checked) for each in gone))
            if told == _without_date(entry.stale or ""):
                continue
            parsed = document.parse(text)
            unsigned = parsed.sections[index].signed is None
            mark = f"{told} ({clock.stamp(now)[:10]})" if told else ""
            text = document.sign(parsed, index, origin=entry.origin if unsigned else None, stale=mark)
            said = "; ".join(dict.fromkeys(each.checked.why for each in gone))
            whys.append(said or "the missing file is back")
            line = line or (gone[0].line if gone else entry.start)
        if whys:
            where, why = f"{seen.record.path}#L{line}", f"marked: {'; '.join(whys)}"
            yield Proposal(self.name, where, why, (seen.revised(text),), seen.record.place)


def heal(
    records: Records,
    places: Sequence[Place],
    around: HealContext,
    *,
    root: Path | None,
    apply: bool,
    aggressive: bool = False,
    seconds: float = SECONDS,
) -> passes.RunOutcome:
    """What would be mended, and with `apply` mend it; `vade undo` brings edits of records back."""
    with records.home.lock(HEAL) if apply else contextlib.nullcontext():
        watch = Stopwatch(seconds)
        material = materials.read_material(records, places, root=root, watch=watch)
        every = (
            contradictions.Contradictions(around.verified),
            StaleClaims(root, material.project, watch),
            WrongMerges(read_moments(records.home), records.caller.actor),
        )
        edits = passes.settle(records, material.seen, every)[:MOST]
        mends = [*_derived(material, around)]
        poisoned = [*lint_rules.find_poisoned(material.seen, around.uses)]
        if aggressive and poisoned:
            mends += [_counters(poisoned, around)]
        outcome = passes.RunOutcome(
            (*edits, *(each.proposal for each in mends)),
            findings=tuple(_left(material, around, [] if aggressive else poisoned)),
        )
        if not apply or not outcome.proposals:
            return outcome
        run, told = passes.apply_proposals(records, edits, what=HEAL)
        for mend in mends:
            told += (_made(mend),)
            at, actor = records.now(), records.caller.actor
            audit.write(records.home, at=at, actor=actor, operation=f"{HEAL} {mend.proposal.what}")
    return outcome._replace(run=run, told=told)


class _Mend(NamedTuple):
    """A mend of something that is made from the files, and so needs no way back."""

    proposal: Proposal
    make: Callable[[], object]


def _derived(material: Material, around: HealContext) -> Iterator[_Mend]:
    """Listings and index rows whose file is gone: they are made anew, and drop them by that."""
    for page in material.listings:
        gone, shelf = lint_rules.find_dangling(page), material.shelves.get(page.path)
        if gone and shelf is not None and shelf.trusted:
            records = [each.record for each in material.seen if each.shelf == shelf]
            why = f"it lists {len(gone)} missing files, and is rewritten"
            proposal = Proposal(lint_rules.ORPHAN, f"{page.path}#L{gone[0][0]}", why, place=page.place)
            yield _Mend(proposal, functools.partial(listing.write_listing, shelf, records))
    rows = around.rows_gone()
    if rows:
        why = f"{rows} of its rows refer to missing files, and are dropped"
        yield _Mend(Proposal(lint_rules.ORPHAN, around.index_path, why), around.sync)


def _counters(poisoned: Sequence[tuple[SeenRecord, int, int]], around: HealContext) -> _Mend:
    items = [counter_name(seen) for seen, *_ in poisoned]
    what = "counter is" if len(items) == 1 else f"{len(items)} counters are"
    where = poisoned[0][0].record.path
    proposal = Proposal(lint_rules.POISON, where, f"the {what} reset to 0", place=poisoned[0][0].record.place)
    return _Mend(proposal, functools.partial(around.forget_uses, items))


def _made(mend: _Mend) -> Told:
    try:
        failed = mend.make() is False
    except (VadeError, OSError) as error:
        return Told(mend.proposal.where, False, str(error))
    return Told(mend.proposal.where, not failed, "it could not be written" if failed else "")


def _left(
    material: Material, around: HealContext, poisoned: Sequence[tuple[SeenRecord, int, int]]
) -> Iterator[Finding]:
    """What is left to a person, and why."""
    yield from material.unreadable
    for clash in contradictions.find_clashes(material.seen)[: contradictions.MOST_CLASHES]:
        why = contradictions.needs_person(clash, around.verified)
        if why:
            yield Finding(contradictions.CONTRADICTION, clash.older.where, f"{clash.why}, but {why}")
    graph = graphs.build_graph(material.records, by_tags=False)
    for finding in lint_rules.check_links(material, graph):
        if "/index.md#" not in finding.where:
            yield finding._replace(why=f"{finding.why}; no text is changed for that")
    for seen, count, _ in poisoned:
        why = f"shown {count:,} times; only --aggressive sets the counter back"
        yield Finding(lint_rules.POISON, seen.record.path, why)
    for what, count in material.watch.left_out.items():
        yield Finding(INCOMPLETE, what, f"{count or 'some'} were not checked in time")


def _without_date(mark: str) -> str:
    return re.sub(r" \(\d{4}-\d\d-\d\d\)$", "", mark)
