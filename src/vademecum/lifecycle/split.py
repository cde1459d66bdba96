"""Take a merge apart: the older statement stands again, and the newer one gets a record of its own.

A text that was stored without a key and taken for a rewording stands in the record of the older one, which
is marked superseded. Nothing of that is removed: the newer text stays where it is, marked, and is copied to
its own record, so that a run of this takes nothing away and can be undone. That the two are distinct is kept
as a decision, which the sweep and every later store ask.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import NotFound
from vademecum.knowledge import learned
from vademecum.lifecycle import runner
from vademecum.lifecycle.base import LEARNED, Proposal
from vademecum.lifecycle.lint.base import at
from vademecum.store import archive, audit, clock, decisions, document, frontmatter, ids, names
from vademecum.store.runs import Edit
from vademecum.store.texts import decode
from vademecum.text import similarity
from vademecum.text.words import is_same_text
from vademecum.types import Finding, Outcome, RecordType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.lifecycle.base import Seen
    from vademecum.store.home import Home, Shelf
    from vademecum.store.records import Found, Records
    from vademecum.types import Entry, Record

NAME = "merge"
SPLIT = "split"
_LATE = timedelta(seconds=120)  # how long after its entry a write may be audited, on a busy disk

Moments = dict[str, list["datetime"]]


class Merge(NamedTuple):
    """An entry superseded by a text that came without a key; `newer` is itself if it gave way at once."""

    older: int
    newer: int


def moments(home: Home) -> Mapping[str, Sequence[datetime]]:
    """When texts were merged into each record unasked, as the audit has it: by the id of the record."""
    found: Moments = {}
    for line in audit.lines(home):
        moment = clock.parse(line.get("at")) if line.get("op") == Outcome.CONSOLIDATED else None
        if moment is not None and line.get("record"):
            found.setdefault(str(line["record"]), []).append(moment)
    return found


def merges(record: Record, merged: Mapping[str, Sequence[datetime]]) -> list[Merge]:
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


def wrong(record: Record, merged: Mapping[str, Sequence[datetime]]) -> list[Merge]:
    """The merges of a record that joined two different statements."""
    return [each for each in merges(record, merged) if _is_wrong(record, each)]


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
    fields = learned.parse(kind, one.text), learned.parse(kind, other.text)
    return learned.match(kind, *fields, threshold=0) is not None


# -------------------------------------------------------------------- taking apart


@dataclass(frozen=True, slots=True)
class WrongMerges:
    """The pass that takes apart what earlier versions merged and this one would not."""

    merged: Mapping[str, Sequence[datetime]]
    actor: str
    name: str = NAME

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterator[Proposal]:
        """Give each different statement its own record."""
        taken = {(each.shelf, names.folded(each.name)) for each in seen}
        for each in seen:
            found = wrong(each.record, self.merged) if each.shelf.trusted else []
            if found:
                yield taken_apart(each, found, taken=taken, actor=self.actor, now=now)


def check(seen: Sequence[Seen], merged: Mapping[str, Sequence[datetime]]) -> Iterator[Finding]:
    """The merges that joined two different statements, for lint."""
    for each in seen:
        record = each.record
        for merge in wrong(record, merged) if each.shelf.trusted else ():
            older, newer = record.entries[merge.older], record.entries[merge.newer]
            said = f"“{shown(older.text)}” was superseded"
            why = f"{said} by “{shown(newer.text)}”, which says something else"
            if merge.older == merge.newer:
                why = f"{said} when it was stored, and nothing here says the same"
            where = at(record.path, older.start, older.end)
            mend = f"vade heal --scope {record.place.scope} --apply"
            yield Finding(NAME, where, why, mend, "warning", record.place)


def last(records: Records, found: Found) -> runner.Outcome:
    """Take the newest merge of a record apart; raises when nothing was merged into it."""
    record = found.record
    here = runner.look(records, [record.place])[0]
    seen = next((each for each in here if each.record.path == record.path), None)
    every = [] if seen is None else merges(seen.record, moments(records.home))
    if seen is None or not every:
        raise NotFound(
            f"nothing was merged into {record.key}", hint=f"`vade show {record.key}` shows all its entries"
        )
    taken = {(each.shelf, names.folded(each.name)) for each in here}
    proposal = taken_apart(
        seen, every[-1:], taken=taken, actor=records.caller.actor, now=records.now(), what=SPLIT
    )
    run, told = runner.apply(records, [proposal], what=SPLIT)
    if run and all(each.done for each in told):
        _remember(records, proposal, run)
    return runner.Outcome((proposal,), told, run)


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


def taken_apart(
    seen: Seen,
    apart: Sequence[Merge],
    *,
    taken: set[tuple[Shelf, str]],
    actor: str,
    now: datetime,
    what: str = NAME,
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
    again = ", ".join(f"“{shown(record.entries[number].text)}”" for number in sorted(standing - leaving))
    own = ", ".join(keys)
    why = "; ".join(
        part
        for part in (
            f"{again} stands again in {record.key}" if again else "",
            f"what was merged with it is now in {own}" if own else "",
        )
        if part
    )
    first = record.entries[apart[0].older]
    where = at(record.path, first.start, first.end)
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
    seen: Seen, entry: Entry, *, taken: set[tuple[Shelf, str]], actor: str, stamp: str
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
        "id": ids.new(),
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


def shown(text: str, most: int = 60) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most].rstrip()}…"
