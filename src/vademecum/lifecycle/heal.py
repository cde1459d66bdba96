"""Fix the problems that need no person, and split merged records; no text is lost."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import NotFound, VadeError
from vademecum.fields import inherited_values
from vademecum.knowledge import graph as graphs
from vademecum.lifecycle import contradictions, lint_rules, passes
from vademecum.lifecycle import lint_rules as materials
from vademecum.lifecycle.lint_rules import INCOMPLETE, Material, Stopwatch, cite, counter_name
from vademecum.lifecycle.passes import Proposal
from vademecum.store import Edit, EditResult, audit, decisions, listing
from vademecum.text import clock, document, filenames, frontmatter, is_same_text, names
from vademecum.text.document import decode
from vademecum.types import Finding, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vademecum.lifecycle.passes import RecordFile
    from vademecum.store import Found, Home, Records, ScopeFolder
    from vademecum.types import Entry, Place, Record


# ------------------------------------------------------------ merges taken apart

SPLIT = "split"
_LATE = timedelta(seconds=120)  # how long after its entry a write may be audited, on a busy disk

Moments = dict[str, list["datetime"]]


class Merge(NamedTuple):
    """The numbers, from 0, of two merged entries of a record.

    Both numbers are the same for an entry that was superseded at the moment when it was saved.
    """

    older: int
    newer: int


def read_moments(home: Home) -> Mapping[str, Sequence[datetime]]:
    """Return, for each record id, the times at which the audit log says that a text was merged into the
    record.
    """
    found: Moments = {}
    for line in audit.lines(home):
        moment = clock.parse(line.get("at")) if line.get("op") == Outcome.CONSOLIDATED else None
        if moment is not None and line.get("record"):
            found.setdefault(str(line["record"]), []).append(moment)
    return found


def find_merges(record: Record, merged: Mapping[str, Sequence[datetime]]) -> list[Merge]:
    """Return the automatic merges of a record, the oldest first; `merged` is from `read_moments`."""
    times = merged.get(record.id or "", ())
    found = []
    for older, entry in enumerate(record.entries):
        stamp = clock.parse(entry.superseded)
        if stamp is None or not any(stamp <= each <= stamp + _LATE for each in times):
            continue
        newer = _find_newer(record, older)
        if newer is not None:
            found.append(Merge(older, newer))
        elif entry.superseded == entry.time:
            found.append(Merge(older, older))
    return sorted(found, key=lambda each: (record.entries[each.older].superseded or "", each.older))


# -------------------------------------------------------------------- taking apart


def split_last(records: Records, found: Found) -> passes.RunOutcome:
    """Undo the newest merge of a record; raise NotFound when no text was merged into the record."""
    record = found.record
    here = passes.read_places(records, [record.place])[0]
    seen = next((each for each in here if each.record.path == record.path), None)
    every = [] if seen is None else find_merges(seen.record, read_moments(records.home))
    if seen is None or not every:
        raise NotFound(
            f"nothing was merged into {record.key}", hint=f"`vade show {record.key}` shows all its entries"
        )
    names_in_use = {(each.scope_folder, names.folded(each.name)) for each in here}
    proposal = take_apart(
        seen, every[-1], names_in_use=names_in_use, actor=records.caller.actor, now=records.now()
    )
    run, results = passes.apply_proposals(records, [proposal], what=SPLIT)
    if run and all(each.done for each in results):
        _remember(records, proposal, run)
    return passes.RunOutcome((proposal,), results, run)


def _remember(records: Records, proposal: Proposal, run: str) -> None:
    """Save the decision that the texts of a split record are distinct, so that no sweep merges them again."""
    reason = [
        [entry.text for entry in document.parse(decode(edit.after)).entries if entry.live]
        for edit in proposal.edits
        if edit.after is not None
    ]
    at, by = clock.stamp(records.now()), records.caller.actor
    for mine, theirs in itertools.combinations(reason, 2):
        for one, other in itertools.product(mine, theirs):
            if not is_same_text(one, other):
                decisions.keep_distinct(records.home, one, other, at=at, by=by, run=run)


def take_apart(
    seen: RecordFile, merge: Merge, *, names_in_use: set[tuple[ScopeFolder, str]], actor: str, now: datetime
) -> Proposal:
    """Propose the edits that undo a merge: the older statement stays, the newer gets a record of its own.

    The name of the new record's file is added to `names_in_use`.
    """
    record = seen.record
    # The newer statement leaves, with whatever reworded it since.
    leaving = _newest_wording(record, merge)
    standing = None if merge.older == merge.newer else merge.older
    text = decode(seen.content)
    stamp = clock.stamp(now)
    edits: list[Edit] = []
    reasons: list[str] = []
    if standing is not None:
        text = document.sign(document.parse(text), standing, superseded="")
        reasons.append(f"“{shorten(record.entries[standing].text)}” is current again in {record.key}")
    if leaving is not None:
        key, edit = _make_record(
            seen, record.entries[leaving], names_in_use=names_in_use, actor=actor, stamp=stamp
        )
        edits.append(edit)
        text = document.sign(document.parse(text), leaving, superseded=stamp)
        reasons.append(f"what was merged with it is now in {key}")
    first = record.entries[merge.older]
    where = cite(record.path, first.start, first.end)
    return Proposal(SPLIT, where, "; ".join(reasons), (*edits, seen.revised(text)), record.place)


def _newest_wording(record: Record, merge: Merge) -> int | None:
    """Return the number of the entry that now words a merge's newer statement.

    Return None if that entry is superseded, or was made of several entries.
    """
    if merge.older == merge.newer:
        return merge.older
    follows = [_find_newer(record, number) for number in range(len(record.entries))]
    number, passed = merge.newer, {merge.older}
    while number not in passed and (following := follows[number]) is not None:
        passed.add(number)
        number = following
    if follows.count(number) > 1:
        return None  # an article that was made of several entries
    return number if record.entries[number].live else None


def _find_newer(record: Record, older: int) -> int | None:
    """Return the number of the entry that was saved when the entry `older` was superseded, or None."""
    moment = record.entries[older].superseded
    every = range(older + 1, len(record.entries))
    return next((number for number in every if moment and record.entries[number].time == moment), None)


def _make_record(
    seen: RecordFile, entry: Entry, *, names_in_use: set[tuple[ScopeFolder, str]], actor: str, stamp: str
) -> tuple[str, Edit]:
    """Return the key and edit of a new record for one entry, with the labels of its old record.

    The name of the new file is added to `names_in_use`.
    """
    record, scope_folder = seen.record, seen.scope_folder
    wanted = names.auto_key(entry.text)
    number, key = 1, wanted
    while (scope_folder, names.folded(f"{key}.md")) in names_in_use:
        number += 1
        key = names.numbered(wanted, number)
    names_in_use.add((scope_folder, names.folded(f"{key}.md")))
    reason = entry.time or stamp
    values = {
        "type": record.type,
        "id": names.new_id(),
        "key": key,
        "title": key.replace("-", " ").strip().capitalize(),
        "scope": str(record.place.scope),
        "scope_id": record.place.id or None,
        **dict.fromkeys(("tags", "category", "source")),  # their places in the file
        "created": reason,
        "updated": reason,
        "generated": {"by": actor, "at": stamp},
        **inherited_values(record),
    }
    standing = replace(entry, superseded=None)
    text = document.append(frontmatter.edit(f"# {key}\n\n", values), standing)
    return key, Edit(scope_folder, filenames.RECORDS, f"{key}.md", None, text.encode())


def shorten(text: str, most: int = 60) -> str:
    """Return a text on one line; a text longer than `most` characters is cut there and ends with “…”."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most].rstrip()}…"


# ------------------------------------------------------------ mends

HEAL = "heal"
MOST = 200  # edits of one run
SECONDS = 60.0


class HealContext(NamedTuple):
    """Functions that fixes need beside the files: usage counters, the search index, and verified texts."""

    uses: Callable[[list[str]], dict[str, int]] = lambda items: {}
    forget_uses: Callable[[list[str]], bool] = lambda items: False
    rows_gone: Callable[[], int] = lambda: 0
    sync: Callable[[], object] = lambda: None
    index_path: str = "index"
    verified: Callable[[Entry], bool] = lambda entry: False


@dataclass(frozen=True, slots=True)
class StaleClaims:
    """The pass that marks entries which cite missing code as stale, and unmarks them when the
    code is back.
    """

    root: Path | None
    project: Place | None
    watch: Stopwatch
    name: str = lint_rules.STALE

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterator[Proposal]:
        """Yield edits that add or remove the stale mark of entries, to match the project's files.

        Yields nothing when not all files of the project could be searched.
        """
        material = Material(tuple(seen), root=self.root, project=self.project, watch=self.watch)
        found, whole = lint_rules.find_stale(material)
        if not whole or self.watch.left_out or self.root is None:
            return  # with half a look nothing is missing, and nothing is back
        wrong: dict[str, dict[int, list[lint_rules.StaleClaim]]] = {}
        for each in found:
            if lint_rules.is_markable(each):
                wrong.setdefault(each.seen.record.path, {}).setdefault(each.number, []).append(each)
        for record in seen:
            if record.scope_folder.trusted and record.record.place == self.project:
                yield from self._mark(record, wrong.get(record.record.path, {}), now)

    def _mark(
        self, seen: RecordFile, wrong: dict[int, list[lint_rules.StaleClaim]], now: datetime
    ) -> Iterator[Proposal]:
        text, whys, line = decode(seen.content), [], 0
        for index, entry in enumerate(seen.record.entries):
            if not entry.live:
                continue
            gone = wrong.get(index, [])
            results = "; ".join(dict.fromkeys(lint_rules.describe_claim(each.checked) for each in gone))
            if results == _without_date(entry.stale or ""):
                continue
            parsed = document.parse(text)
            unsigned = parsed.sections[index].signed is None
            mark = f"{results} ({clock.stamp(now)[:10]})" if results else ""
            text = document.sign(parsed, index, origin=entry.origin if unsigned else None, stale=mark)
            reason = "; ".join(dict.fromkeys(each.checked.why for each in gone))
            whys.append(reason or "the missing file is back")
            line = line or (gone[0].line if gone else entry.start)
        if whys:
            where, why = f"{seen.record.path}#L{line}", f"marked: {'; '.join(whys)}"
            yield Proposal(self.name, where, why, (seen.revised(text),), seen.record.place)


def heal(
    records: Records,
    places: Sequence[Place],
    context: HealContext,
    *,
    root: Path | None,
    apply: bool,
    aggressive: bool = False,
    seconds: float = SECONDS,
) -> passes.RunOutcome:
    """Propose fixes for the problems that need no person; `apply` makes them.

    `vade undo` reverts the edits of records. With `aggressive`, raised usage counters are reset; `seconds`
    limits the search for problems.
    """
    with records.home.lock(HEAL) if apply else contextlib.nullcontext():
        watch = Stopwatch(seconds)
        material = materials.read_material(records, places, root=root, watch=watch)
        every = (
            contradictions.Contradictions(context.verified),
            StaleClaims(root, material.project, watch),
        )
        edits = passes.settle(records, material.seen, every)[:MOST]
        mends = [*_fix_derived(material, context)]
        poisoned = [*lint_rules.find_poisoned(material.seen, context.uses)]
        if aggressive and poisoned:
            mends += [_reset_counters(poisoned, context)]
        outcome = passes.RunOutcome(
            (*edits, *(each.proposal for each in mends)),
            findings=tuple(_find_unfixed(material, context, [] if aggressive else poisoned)),
        )
        if not apply or not outcome.proposals:
            return outcome
        run, results = passes.apply_proposals(records, edits, what=HEAL)
        for mend in mends:
            results += (_apply_fix(mend),)
            at, actor = records.now(), records.caller.actor
            audit.write(records.home, at=at, actor=actor, operation=f"{HEAL} {mend.proposal.what}")
    return outcome._replace(run=run, results=results)


class _DerivedFix(NamedTuple):
    """A fix of a listing, the index or usage counters, which `undo` does not revert."""

    proposal: Proposal
    make: Callable[[], object]


def _fix_derived(material: Material, context: HealContext) -> Iterator[_DerivedFix]:
    """Yield the fixes for listings and index rows that name deleted files: both are updated."""
    for page in material.listings:
        gone, scope_folder = lint_rules.find_dangling(page), material.scope_folders.get(page.path)
        if gone and scope_folder is not None and scope_folder.trusted:
            records = [each.record for each in material.seen if each.scope_folder == scope_folder]
            why = f"it lists {len(gone)} missing files, and is rewritten"
            proposal = Proposal(lint_rules.ORPHAN, f"{page.path}#L{gone[0][0]}", why, place=page.place)
            yield _DerivedFix(proposal, functools.partial(listing.write_listing, scope_folder, records))
    rows = context.rows_gone()
    if rows:
        why = f"{rows} of its rows refer to missing files, and are dropped"
        yield _DerivedFix(Proposal(lint_rules.ORPHAN, context.index_path, why), context.sync)


def _reset_counters(poisoned: Sequence[tuple[RecordFile, int, int]], context: HealContext) -> _DerivedFix:
    """Return the fix that resets the usage counters of these records to 0."""
    items = [counter_name(seen) for seen, *_ in poisoned]
    what = "counter is" if len(items) == 1 else f"{len(items)} counters are"
    where = poisoned[0][0].record.path
    proposal = Proposal(lint_rules.POISON, where, f"the {what} reset to 0", place=poisoned[0][0].record.place)
    return _DerivedFix(proposal, functools.partial(context.forget_uses, items))


def _apply_fix(mend: _DerivedFix) -> EditResult:
    try:
        failed = mend.make() is False
    except (VadeError, OSError) as error:
        return EditResult(mend.proposal.where, False, str(error))
    return EditResult(mend.proposal.where, not failed, "it could not be written" if failed else "")


def _find_unfixed(
    material: Material, context: HealContext, poisoned: Sequence[tuple[RecordFile, int, int]]
) -> Iterator[Finding]:
    """Yield the problems that only a person can fix, each with the reason."""
    yield from material.unreadable
    for clash in contradictions.find_clashes(material.seen)[: contradictions.MOST_CLASHES]:
        why = contradictions.needs_person(clash, context.verified)
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
