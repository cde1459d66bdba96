"""Memory to look through: a table of every record with its facets, and who said each line of one.

A row is known from the catalogue, so that a table of many thousands reads only the records it shows.
"""

from __future__ import annotations

import base64
import bisect
import contextlib
import heapq
import json
from collections import Counter
from datetime import timedelta
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, NotFound, OutsideMemory, UsageError
from vademecum.knowledge import trust as trusting
from vademecum.search.base import as_of as moment_of
from vademecum.store import Fact, archive, decisions, hub_rules
from vademecum.text import clock, outgoing
from vademecum.types import Finding, Origin, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.knowledge.citations import CheckedClaim, ProjectTree
    from vademecum.knowledge.trust import Trust
    from vademecum.memory.core import Memory
    from vademecum.store import Home, Records, Shelf
    from vademecum.types import Entry

FACETS = ("scope", "type", "tag", "origin", "trust", "age", "agent")
SORTS = ("updated", "created", "key", "number")
AGES = {"today": 1, "week": 7, "month": 31, "year": 366}  # days; then "older", and "undated"
MOST = 500  # rows of one page
_CODE = 12  # lines of code that are shown for a claim
_SECONDS = 0.5  # for a look at the code that a record cites
_PERSON = "human:"


class TableRow(NamedTuple):
    """One record of a table, with what the facets know of it."""

    record: Record
    origin: str
    trust: str
    agent: str


class TablePage(NamedTuple):
    """Some records in an order, how many there are by each facet, and where the next page begins."""

    rows: tuple[TableRow, ...]
    matching: int
    total: int
    facets: Mapping[str, Mapping[str, int]]  # each counted as if only the other facets were chosen
    next: str = ""
    findings: tuple[Finding, ...] = ()


class PastRow(NamedTuple):
    """A record as it was on a day: what it said then, and whether it still says so."""

    record: Record
    entry: Entry
    standing: str  # same, replaced or archived


class PastPage(NamedTuple):
    """Some records as they were on a day, how many there were, and what became of them."""

    rows: tuple[PastRow, ...]
    moment: str
    total: int
    now: int
    since: Mapping[str, int]  # added, replaced and archived after that day
    days: Mapping[str, int]  # how many entries each day brought


class CitedCode(NamedTuple):
    """Something of the project that an entry cites: how it stands, and the lines that it means."""

    cited: str
    standing: str  # verified, moved, changed or gone
    why: str = ""
    path: str = ""
    line: int = 0  # of the first line of code
    code: str = ""


class EntryOrigin(NamedTuple):
    """Whose an entry is: who wrote it, through which program, in which sessions, and what became of it."""

    entry: Entry
    trust: Trust
    by: str
    client: str
    sessions: tuple[str, ...]
    replaced_by: int | None  # the place of the entry that stands now in its stead
    claims: tuple[CitedCode, ...]


class Browse:
    """Memory to look through, as `Memory` offers it."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._work = memory, memory.workspace

    def table(
        self,
        chosen: Mapping[str, Sequence[str]] | None = None,
        *,
        sort: str = "updated",
        after: str = "",
        limit: int = 50,
    ) -> TablePage:
        """A page of the records in sight: with any of the values chosen of each facet, after a cursor.

        The facets are scope, type, tag, origin, trust, age and agent; of tags, a record must have all. The
        orders are updated and created, the newest first, key and number.
        """
        wanted = {facet: frozenset(values) for facet, values in (chosen or {}).items() if values}
        if unknown := {*wanted} - {*FACETS}:
            raise UsageError(f"there is no facet {min(unknown)}", hint=f"one of {', '.join(FACETS)}")
        if sort not in SORTS:
            raise UsageError("records are not sorted by that", hint=f"one of {', '.join(SORTS)}")
        if self._work.settings.incognito:
            return TablePage((), 0, 0, {})
        with self._work.reported("list the records"), self._work.one_look():
            return self._table(wanted, sort, parse_cursor(after), max(1, min(limit, MOST)))

    def _table(
        self, wanted: Mapping[str, frozenset[str]], sort: str, after: tuple[Any, str] | None, limit: int
    ) -> TablePage:
        places = self._work.places(None)
        findings = self._work.hidden(places)
        shown: list[tuple[Any, str, Shelf, str, tuple[str, ...]]] = []
        counted: dict[str, list[tuple[Any, ...]]] = {facet: [] for facet in ("", *wanted)}
        labels_of = _Labels(self._work.now(), self._memory.home)
        total, newest = 0, sort in ("updated", "created")
        for each in self._work.records.known(places, ROWS):
            if isinstance(each, Finding):
                findings.append(each)
                continue
            shelf, known = each
            findings += self._work.records.unreadable(shelf, known)
            total += len(known.facts)
            for name, fact in known.facts.items():
                labels = labels_of(shelf, fact)
                failing = [facet for facet in wanted if not _fits(facet, labels, wanted[facet])]
                if len(failing) < 2:
                    counted[failing[0] if failing else ""].append(labels)
                if failing:
                    continue
                at = _place(sort, fact, name), f"{shelf.label}/{name}"
                if after is None or (at < after if newest else at > after):
                    shown.append((*at, shelf, name, labels[3:5] + labels[6:7]))
        counts, matching = _counts(counted), len(counted[""])
        page = (heapq.nlargest if newest else heapq.nsmallest)(limit + 1, shown, key=itemgetter(0, 1))
        rows = tuple(self._rows(page[:limit]))
        cursor = render_cursor(page[limit - 1][:2]) if len(page) > limit else ""
        return TablePage(rows, matching, total, counts, cursor, tuple(findings))

    def _rows(self, page: Iterable[tuple[Any, str, Shelf, str, tuple[str, ...]]]) -> Iterable[TableRow]:
        for _, _, shelf, name, (origin, level, agent) in page:
            with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # gone or spoiled just now
                record = self._work.records.load(shelf, name).record
                yield TableRow(outgoing.clean_record(record), origin, level, agent)

    def as_of(self, day: str, *, offset: int = 0, limit: int = 50) -> PastPage:
        """Memory as it stood at the end of a day: the records of then, those told last before it first.

        It goes by the times of entries, as a search with `as_of` does; a record that was archived since is
        there until the day it was.
        """
        moment = moment_of(day)
        if self._work.settings.incognito:
            return PastPage((), moment, 0, 0, {}, {})
        with self._work.reported("read the records"):
            return self._past(moment, range(max(0, offset), max(0, offset) + max(1, min(limit, MOST))))

    def _past(self, moment: str, wanted: range) -> PastPage:
        held: list[tuple[str, str, int, Shelf | Record]] = []
        since, days = Counter(added=0, replaced=0, archived=0), Counter[str]()
        now = 0
        for each in self._work.records.known(self._work.places(None), SPANS):
            if isinstance(each, Finding):
                continue
            shelf, known = each
            now += len(known.facts)
            for name, spans in known.facts.items():
                days.update(began[:10] for began, _ in spans if began)
                then = _held(spans, moment)
                since["added" if then is None else "replaced"] += then != _held(spans, "")
                if then is not None:
                    held.append((spans[then][0], name, then, shelf))
        for record in self._gone_since(moment):
            spans = _spans(record)
            then = _held(spans, moment)
            if then is not None:
                since["archived"] += 1
                held.append((spans[then][0], record.key, then, record))
        held.sort(key=itemgetter(0, 1), reverse=True)
        rows = tuple(self._past_rows(held[wanted.start : wanted.stop]))
        return PastPage(rows, moment, len(held), now, since, days)

    def _gone_since(self, moment: str) -> Iterator[Record]:
        """The records that were archived after a moment; when one was deleted by hand, nobody knows."""
        for version in self._memory.archive.forgotten():
            image = version.image
            if image.why == archive.KEPT or _moment(f"{image.at[:15]}Z") <= moment:
                continue
            content = self._memory.home.read(*image.parts)
            if content is not None:
                with contextlib.suppress(Malformed):
                    yield self._work.records.parse(version.shelf, version.name, content)

    def _past_rows(self, held: Iterable[tuple[str, str, int, Shelf | Record]]) -> Iterator[PastRow]:
        for _, name, index, where in held:
            with contextlib.suppress(NotFound, Malformed, OutsideMemory, IndexError):  # changed just now
                if isinstance(where, Record):
                    gone = outgoing.clean_record(where)
                    yield PastRow(gone, gone.entries[index], "archived")
                    continue
                record = outgoing.clean_record(self._work.records.load(where, name).record)
                same = index == _held(_spans(record), "")
                yield PastRow(record, record.entries[index], "same" if same else "replaced")

    def entries(self, record: Record) -> Sequence[EntryOrigin]:
        """Whose every entry of a record is, in their order."""
        writers = {} if self._work.settings.incognito else self._work.records.writers(record)
        heard = self._memory.sessions.said_in(record)
        claims = self._claims(record)
        found = []
        for index, (entry, sessions) in enumerate(zip(record.entries, heard, strict=True)):
            wrote = writers.get(archive.fingerprint(entry), {})
            trust = self._memory.review.trust_of(entry, record=record)
            found.append(
                EntryOrigin(
                    entry,
                    trust,
                    str(wrote.get("by", "")),
                    str(wrote.get("client", "")),
                    sessions,
                    _successor(record.entries, index),
                    claims(entry),
                )
            )
        return found

    def _claims(self, record: Record) -> Callable[[Entry], tuple[CitedCode, ...]]:
        """How what an entry says of the project's code stands; nothing where no project is at hand."""
        root, project = self._work.root, self._work.caller.project
        if root is None or project is None or record.place.id != project.id:
            return lambda entry: ()
        from vademecum.knowledge import citations

        tree = citations.ProjectTree(root, seconds=_SECONDS)
        return lambda entry: (
            tuple(_cited(each, tree) for each in citations.check_entry(entry, tree)) if entry.live else ()
        )


def _cited(checked: CheckedClaim, tree: ProjectTree) -> CitedCode:
    """A claim with the code that it means, as it is now."""
    claim, told = checked.claim, CitedCode(checked.claim.cited, str(checked.standing), checked.why)
    path = claim.path or (checked.why if tree.holds(checked.why) else "")
    content = tree.read(path) if path else None
    if content is None:
        return told
    lines = content.decode(errors="replace").split("\n")
    first, last = claim.first, claim.last
    if not first and claim.symbol:
        name = claim.symbol.rpartition(".")[2]
        first = next((at for at, line in enumerate(lines, 1) if name in line), 0)
        last = first + 2
    if not first:
        return told._replace(path=path)
    code = "\n".join(lines[first - 1 : min(last, first + _CODE - 1)]).rstrip()
    return told._replace(path=path, line=first, code=code, why="" if checked.why == path else checked.why)


# ---------------------------------------------------------------- what a row is known by

_NUM, _TYPE, _TAGS, _CREATED, _UPDATED, _ORIGIN, _AGENT, _DISPUTED, _MARK, _SAID = range(10)


def _row_of(records: Records, shelf: Shelf, name: str, content: bytes) -> tuple[Any, ...]:
    """What a table goes by: number, type, tags, times; and of what the record says now, whose word it is."""
    record = records.parse(shelf, name, content)
    entry = trusting.spoken_entry(record)
    origin = entry.origin or Origin.USER
    said = len(trusting.find_sessions(entry, record, records)) if origin is Origin.AGENT else 0
    return (
        record.num or 0,
        record.type,
        record.tags,
        record.created or "",
        record.updated or record.created or "",
        str(origin),
        agent_of(record),
        2 if record.conflicts(entry) else int(record.disputes(entry)),
        decisions.exactly(entry.text),
        said,
    )


ROWS = Fact("rows", 3, _row_of)


def _spans(record: Record) -> tuple[tuple[str, str], ...]:
    """From when to when each entry holds; empty where that is open."""
    return tuple((_moment(each.time or record.created), _moment(each.superseded)) for each in record.entries)


def _moment(text: str | None) -> str:
    at = clock.parse(text)
    return "" if at is None else clock.stamp(at)


def _spans_of(records: Records, shelf: Shelf, name: str, content: bytes) -> tuple[tuple[str, str], ...]:
    return _spans(records.parse(shelf, name, content))


SPANS = Fact("spans", 1, _spans_of)


def _held(spans: Sequence[tuple[str, str]], moment: str) -> int | None:
    """The newest entry that held at a moment, or holds now."""
    holding = [
        index
        for index, (began, ended) in enumerate(spans)
        if (not moment or began <= moment) and (not ended or bool(moment and ended > moment))
    ]
    return holding[-1] if holding else None


def agent_of(record: Record) -> str:
    """Which agent saved a record last, or `you`: the program without its version, or its own name."""
    made = record.fields.get("generated")
    told = made if isinstance(made, dict) else {}
    by, client = str(told.get("by") or ""), str(told.get("client") or "")
    return client.partition(" ")[0] or (
        "you" if not by or by.startswith(_PERSON) else by.removeprefix("process:")
    )


class _Labels:
    """What each facet says of a row, in their order; the tags stand together."""

    def __init__(self, now: datetime, home: Home) -> None:
        days = sorted(AGES.items(), key=itemgetter(1), reverse=True)  # the longest ago first, as times sort
        self._since = [clock.stamp(now - timedelta(days=each)) for _, each in days]
        self._ages = ("older", *(name for name, _ in days))
        self._home, self._verified = home, decisions.verdicts(home)
        self._levels: dict[tuple[str, int, bool], str] = {}  # of what nobody verified

    def __call__(self, shelf: Shelf, fact: tuple[Any, ...]) -> tuple[Any, ...]:
        updated = fact[_UPDATED]
        age = self._ages[bisect.bisect_right(self._since, updated)] if updated else "undated"
        level = self._level(shelf, fact)
        return (shelf.place.scope.value, fact[_TYPE], fact[_TAGS], fact[_ORIGIN], level, age, fact[_AGENT])

    def _level(self, shelf: Shelf, fact: tuple[Any, ...]) -> str:
        """How far what a record says is trusted, as `trust` judges it; most are judged once for many."""
        origin, said = fact[_ORIGIN], min(fact[_SAID], trusting.ENOUGH)
        verified = origin != Origin.USER and self._verified(fact[_MARK])
        if fact[_DISPUTED] and (fact[_DISPUTED] > 1 or not self._verified(fact[_MARK])):
            return str(trusting.Level.WAITING)
        if verified or not shelf.trusted or hub_rules.workspace_of(shelf.label):
            return str(self._judged(fact, shelf))
        if (origin, said, True) not in self._levels:
            self._levels[origin, said, True] = str(self._judged(fact, shelf))
        return self._levels[origin, said, True]

    def _judged(self, fact: tuple[Any, ...], shelf: Shelf) -> trusting.Level:
        return trusting.judge(
            Origin(fact[_ORIGIN]),
            folder=shelf.trusted,
            verified=lambda: self._verified(fact[_MARK]),
            vouched=lambda: hub_rules.vouched_by(self._home, f"{shelf.label}/", fact[_MARK]),
            sessions=lambda: int(fact[_SAID]),
        ).level


def _fits(facet: str, labels: tuple[Any, ...], wanted: frozenset[str]) -> bool:
    value = labels[FACETS.index(facet)]
    return wanted <= {*value} if facet == "tag" else value in wanted


def _counts(counted: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, Counter[str]]:
    """How often each value of a facet is there: in the rows that fit, and in those that only it leaves out.

    Of tags a record must have all, so those that are chosen narrow the tags as well.
    """
    found = {}
    for at, facet in enumerate(FACETS):
        rows = chain(counted[""], () if facet == "tag" else counted.get(facet, ()))
        values = map(itemgetter(at), rows)
        found[facet] = Counter(chain.from_iterable(values) if facet == "tag" else values)
    return found


def _place(sort: str, fact: tuple[Any, ...], name: str) -> str | int:
    """What a row is sorted by."""
    if sort == "key":
        return name
    place: str | int = fact[{"number": _NUM, "updated": _UPDATED, "created": _CREATED}[sort]]
    return place


def render_cursor(at: tuple[Any, str]) -> str:
    """A place in a list as a word for an address."""
    return base64.urlsafe_b64encode(json.dumps(at).encode()).decode().rstrip("=")


def parse_cursor(text: str) -> tuple[Any, str] | None:
    """The place that a cursor means; None for the beginning."""
    if not text:
        return None
    try:
        place, path = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError):
        raise UsageError("this is no place in the list", hint="begin again without `after`") from None
    if not isinstance(place, str | int) or not isinstance(path, str):
        raise UsageError("this is no place in the list", hint="begin again without `after`")
    return place, path


def _successor(entries: Sequence[Entry], index: int) -> int | None:
    """The entry that took the place of another: of those of that moment or later, the first."""
    since = entries[index].superseded
    if since is None:
        return None
    later = [at for at, each in enumerate(entries) if at != index and each.time and each.time >= since]
    return min(later, key=lambda at: entries[at].time or "", default=None)
