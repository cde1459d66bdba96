"""Browsing: a table of all records with facets, and the origin of each entry.

Rows come from the catalogue, so a table of many thousands reads only the records that it shows.
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

from vademecum import fields
from vademecum.errors import Malformed, NotFound, OutsideMemory, UsageError
from vademecum.knowledge import trust as trusting
from vademecum.search.base import as_of as moment_of
from vademecum.store import Fact, Found, archive, decisions, hub_rules, request_view
from vademecum.text import clock, outgoing
from vademecum.types import Finding, Origin, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.knowledge import CheckedClaim, Trust
    from vademecum.knowledge.citations import ProjectTree
    from vademecum.memory.core import Memory
    from vademecum.store import Home, Records, ScopeFolder
    from vademecum.types import Entry

FACETS = ("scope", "type", "tag", "origin", "trust", "age", "agent")
AGES = {"today": 1, "week": 7, "month": 31, "year": 366}  # days; then "older", and "undated"
MOST = 500  # rows of one page
_CODE = 12  # lines of code shown for a claim
_SECONDS = 0.5  # seconds for checking the code that a record cites
_PERSON = "human:"


class TableRow(NamedTuple):
    """A record of the table, with the values of its facets."""

    record: Record
    origin: str
    trust: str
    agent: str


class TablePage(NamedTuple):
    """A page of sorted records, the counts of each facet, and the cursor of the next page."""

    rows: tuple[TableRow, ...]
    matching: int
    total: int
    facets: Mapping[str, Mapping[str, int]]  # counts as if only the other facets were chosen
    next: str = ""
    findings: tuple[Finding, ...] = ()


class PastRow(NamedTuple):
    """A record as it was on a past day: its text then, and whether that text is still current."""

    record: Record
    entry: Entry
    standing: str  # same, replaced or archived


class PastPage(NamedTuple):
    """A page of records as they were on a past day, and how many were added or changed since."""

    rows: tuple[PastRow, ...]
    moment: str
    total: int
    now: int
    since: Mapping[str, int]  # added, replaced and archived after that day
    days: Mapping[str, int]  # entries of each day


class CitedCode(NamedTuple):
    """A citation of the project's code in an entry: whether it still holds, and the cited lines."""

    cited: str
    standing: str  # verified, moved, changed or gone
    why: str = ""
    path: str = ""
    line: int = 0  # the number of the first line of code
    code: str = ""


class EntryOrigin(NamedTuple):
    """The origin of an entry: its author, program and sessions, and the entry that superseded it."""

    entry: Entry
    trust: Trust
    by: str
    client: str
    sessions: tuple[str, ...]
    replaced_by: int | None  # the position of the entry that replaced it
    claims: tuple[CitedCode, ...]


class Browse:
    """`Memory.browse`: a table of all records, and the origin of each entry."""

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
        """Return a page of the records that have the chosen values, beginning after the cursor `after`.

        The facets are scope, type, tag, origin, trust, age and agent. A record needs one of the chosen values
        of each facet, but all of the chosen tags. `sort` is one of `fields.ORDERS`, such as updated and
        created (the newest first), key and number.
        """
        wanted = {facet: frozenset(values) for facet, values in (chosen or {}).items() if values}
        if unknown := {*wanted} - {*FACETS}:
            raise UsageError(f"there is no facet {min(unknown)}", hint=f"one of {', '.join(FACETS)}")
        order = fields.parse_order(sort)
        if self._work.settings.incognito:
            return TablePage((), 0, 0, {})
        with self._work.reported("list the records"), request_view():
            return self._table(wanted, order, parse_cursor(after), max(1, min(limit, MOST)))

    def _table(
        self,
        wanted: Mapping[str, frozenset[str]],
        order: tuple[int, bool],
        after: tuple[Any, str] | None,
        limit: int,
    ) -> TablePage:
        places = self._work.places(None)
        findings = self._work.hidden(places)
        entries: list[tuple[Any, str, ScopeFolder, str, tuple[str, ...]]] = []
        counted: dict[str, list[tuple[Any, ...]]] = {facet: [] for facet in ("", *wanted)}
        labels_of = _Labels(self._work.now(), self._memory.home)
        total, (position, newest) = 0, order
        for each in self._work.records.known(places, ROWS):
            if isinstance(each, Finding):
                findings.append(each)
                continue
            scope_folder, known = each
            findings += self._work.records.unreadable(scope_folder, known)
            total += len(known.facts)
            for name, fact in known.facts.items():
                labels = labels_of(scope_folder, fact)
                failing = [facet for facet in wanted if not _matches_facets(facet, labels, wanted[facet])]
                if len(failing) < 2:
                    counted[failing[0] if failing else ""].append(labels)
                if failing:
                    continue
                at = fact[_SORTED][position], f"{scope_folder.label}/{name}"
                if after is None or (at < after if newest else at > after):
                    entries.append((*at, scope_folder, name, labels[3:5] + labels[6:7]))
        counts, matching = _counts(counted), len(counted[""])
        page = (heapq.nlargest if newest else heapq.nsmallest)(limit + 1, entries, key=itemgetter(0, 1))
        rows = tuple(self._rows(page[:limit]))
        cursor = render_cursor(page[limit - 1][:2]) if len(page) > limit else ""
        return TablePage(rows, matching, total, counts, cursor, tuple(findings))

    def _rows(self, page: Iterable[tuple[Any, str, ScopeFolder, str, tuple[str, ...]]]) -> Iterable[TableRow]:
        for _, _, scope_folder, name, (origin, level, agent) in page:
            with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # deleted or damaged meanwhile
                record = self._work.records.dated(self._work.records.load(scope_folder, name))
                yield TableRow(outgoing.clean_record(record), origin, level, agent)

    def as_of(self, day: str, *, offset: int = 0, limit: int = 50) -> PastPage:
        """Return records as they were at the end of a day, those changed last before that moment first.

        The times of entries decide, as in a search with `as_of`; a record that was archived since is
        included.
        """
        moment = moment_of(day)
        if self._work.settings.incognito:
            return PastPage((), moment, 0, 0, {}, {})
        with self._work.reported("read the records"):
            return self._past(moment, range(max(0, offset), max(0, offset) + max(1, min(limit, MOST))))

    def _past(self, moment: str, wanted: range) -> PastPage:
        versions: list[tuple[str, str, int, ScopeFolder | Record]] = []
        since, days = Counter(added=0, replaced=0, archived=0), Counter[str]()
        now = 0
        for each in self._work.records.known(self._work.places(None), SPANS):
            if isinstance(each, Finding):
                continue
            scope_folder, known = each
            now += len(known.facts)
            for name, spans in known.facts.items():
                days.update(began[:10] for began, _ in spans if began)
                then = _valid_entry(spans, moment)
                since["added" if then is None else "replaced"] += then != _valid_entry(spans, "")
                if then is not None:
                    versions.append((spans[then][0], name, then, scope_folder))
        for record in self._archived_since(moment):
            spans = _spans(record)
            then = _valid_entry(spans, moment)
            if then is not None:
                since["archived"] += 1
                versions.append((spans[then][0], record.key, then, record))
        versions.sort(key=itemgetter(0, 1), reverse=True)
        rows = tuple(self._past_rows(versions[wanted.start : wanted.stop]))
        return PastPage(rows, moment, len(versions), now, since, days)

    def _archived_since(self, moment: str) -> Iterator[Record]:
        """Yield the records archived after a moment.

        Records whose file somebody deleted are left out, as the time is not known.
        """
        for version in self._memory.archive.forgotten():
            image = version.image
            if image.why == archive.KEPT or _moment(f"{image.at[:15]}Z") <= moment:
                continue
            content = self._memory.home.read(*image.parts)
            if content is not None:
                with contextlib.suppress(Malformed):
                    yield self._work.records.parse(version.scope_folder, version.name, content)

    def _past_rows(self, rows: Iterable[tuple[str, str, int, ScopeFolder | Record]]) -> Iterator[PastRow]:
        for _, name, index, where in rows:
            with contextlib.suppress(NotFound, Malformed, OutsideMemory, IndexError):  # changed meanwhile
                if isinstance(where, Record):
                    gone = outgoing.clean_record(where)
                    yield PastRow(gone, gone.entries[index], "archived")
                    continue
                record = outgoing.clean_record(self._work.records.load(where, name).record)
                same = index == _valid_entry(_spans(record), "")
                yield PastRow(record, record.entries[index], "same" if same else "replaced")

    def entries(self, record: Record) -> Sequence[EntryOrigin]:
        """Return the origin of every entry of a record, in the order of the entries."""
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
        """Return a function that checks the citations of code in an entry.

        It finds no citations in a superseded entry, or if the record is not of the current project.
        """
        root, project = self._work.root, self._work.caller.project
        if root is None or project is None or record.place.id != project.id:
            return lambda entry: ()
        from vademecum.knowledge import citations

        tree = citations.ProjectTree(root, seconds=_SECONDS)
        return lambda entry: (
            tuple(_cited(each, tree) for each in citations.check_entry(entry, tree)) if entry.live else ()
        )


def _cited(checked: CheckedClaim, tree: ProjectTree) -> CitedCode:
    """Return a checked citation with the lines of code that it refers to, as they are now."""
    claim, citation = checked.claim, CitedCode(checked.claim.cited, str(checked.standing), checked.why)
    path = claim.path or (checked.why if tree.holds(checked.why) else "")
    content = tree.read(path) if path else None
    if content is None:
        return citation
    lines = content.decode(errors="replace").split("\n")
    first, last = claim.first, claim.last
    if not first and claim.symbol:
        name = claim.symbol.rpartition(".")[2]
        first = next((at for at, line in enumerate(lines, 1) if name in line), 0)
        last = first + 2
    if not first:
        return citation._replace(path=path)
    code = "\n".join(lines[first - 1 : min(last, first + _CODE - 1)]).rstrip()
    return citation._replace(path=path, line=first, code=code, why="" if checked.why == path else checked.why)


# ---------------------------------------------------------------- what a row is known by

_SORTED, _TYPE, _TAGS, _UPDATED, _ORIGIN, _AGENT, _DISPUTED, _MARK, _SESSIONS = range(9)


def _row_of(records: Records, scope_folder: ScopeFolder, name: str, content: bytes) -> tuple[Any, ...]:
    """Return the values of a record by which the table sorts and filters.

    Origin and trust are those of the record's current entry.
    """
    record = records.dated(Found(records.parse(scope_folder, name, content), scope_folder, name))
    entry = trusting.current_entry(record)
    origin = entry.origin or Origin.USER
    sessions = len(trusting.find_sessions(entry, record, records)) if origin is Origin.AGENT else 0
    return (
        fields.sort_values(record),
        record.type,
        record.tags,
        record.updated or record.created or "",
        str(origin),
        agent_of(record),
        2 if record.conflicts(entry) else int(record.disputes(entry)),
        decisions.exactly(entry.text),
        sessions,
    )


ROWS = Fact("rows", f"5 {' '.join(fields.ORDERS)}", _row_of)


def _spans(record: Record) -> tuple[tuple[str, str], ...]:
    """Return for each entry the times from which and until which it was valid; '' for an open end."""
    return tuple((_moment(each.time or record.created), _moment(each.superseded)) for each in record.entries)


def _moment(text: str | None) -> str:
    at = clock.parse(text)
    return "" if at is None else clock.stamp(at)


def _spans_of(
    records: Records, scope_folder: ScopeFolder, name: str, content: bytes
) -> tuple[tuple[str, str], ...]:
    return _spans(records.parse(scope_folder, name, content))


SPANS = Fact("spans", 1, _spans_of)


def _valid_entry(spans: Sequence[tuple[str, str]], moment: str) -> int | None:
    """Return the index of the newest entry valid at a moment ('' for now); None without such an entry."""
    holding = [
        index
        for index, (began, ended) in enumerate(spans)
        if (not moment or began <= moment) and (not ended or bool(moment and ended > moment))
    ]
    return holding[-1] if holding else None


def agent_of(record: Record) -> str:
    """Return the program that saved a record last, else the agent; `you` for a person without a program."""
    made = record.fields.get("generated")
    label = made if isinstance(made, dict) else {}
    by, client = str(label.get("by") or ""), str(label.get("client") or "")
    return client.partition(" ")[0] or (
        "you" if not by or by.startswith(_PERSON) else by.removeprefix("process:")
    )


class _Labels:
    """The values of each row for the facets of the table, in the order of the facets."""

    def __init__(self, now: datetime, home: Home) -> None:
        days = sorted(AGES.items(), key=itemgetter(1), reverse=True)  # the oldest first, as times sort
        self._since = [clock.stamp(now - timedelta(days=each)) for _, each in days]
        self._ages = ("older", *(name for name, _ in days))
        self._home, self._verified = home, decisions.verdicts(home)
        self._levels: dict[tuple[str, int, bool], str] = {}  # levels of unverified texts

    def __call__(self, scope_folder: ScopeFolder, fact: tuple[Any, ...]) -> tuple[Any, ...]:
        updated = fact[_UPDATED]
        age = self._ages[bisect.bisect_right(self._since, updated)] if updated else "undated"
        level = self._level(scope_folder, fact)
        return (
            scope_folder.place.scope.value,
            fact[_TYPE],
            fact[_TAGS],
            fact[_ORIGIN],
            level,
            age,
            fact[_AGENT],
        )

    def _level(self, scope_folder: ScopeFolder, fact: tuple[Any, ...]) -> str:
        """Return the trust level of a record as `trust` judges it; equal cases are judged only once."""
        origin, sessions = fact[_ORIGIN], min(fact[_SESSIONS], trusting.ENOUGH)
        verified = origin != Origin.USER and self._verified(fact[_MARK])
        if fact[_DISPUTED] and (fact[_DISPUTED] > 1 or not self._verified(fact[_MARK])):
            return str(trusting.Level.WAITING)
        if verified or not scope_folder.trusted or hub_rules.workspace_of(scope_folder.label):
            return str(self._judged(fact, scope_folder))
        if (origin, sessions, True) not in self._levels:
            self._levels[origin, sessions, True] = str(self._judged(fact, scope_folder))
        return self._levels[origin, sessions, True]

    def _judged(self, fact: tuple[Any, ...], scope_folder: ScopeFolder) -> trusting.Level:
        return trusting.judge(
            Origin(fact[_ORIGIN]),
            folder=scope_folder.trusted,
            verified=lambda: self._verified(fact[_MARK]),
            vouched=lambda: hub_rules.vouched_by(self._home, f"{scope_folder.label}/", fact[_MARK]),
            sessions=lambda: int(fact[_SESSIONS]),
        ).level


def _matches_facets(facet: str, labels: tuple[Any, ...], wanted: frozenset[str]) -> bool:
    value = labels[FACETS.index(facet)]
    return wanted <= {*value} if facet == "tag" else value in wanted


def _counts(counted: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, Counter[str]]:
    """Return for each facet how many rows have each value, ignoring the values chosen in that facet.

    The chosen tags do limit the counts of tags, because a record must have all of them.
    """
    found = {}
    for at, facet in enumerate(FACETS):
        rows = chain(counted[""], () if facet == "tag" else counted.get(facet, ()))
        values = map(itemgetter(at), rows)
        found[facet] = Counter(chain.from_iterable(values) if facet == "tag" else values)
    return found


def render_cursor(at: tuple[Any, str]) -> str:
    """Return a position in the list as text that can be used in a URL."""
    return base64.urlsafe_b64encode(json.dumps(at).encode()).decode().rstrip("=")


def parse_cursor(text: str) -> tuple[Any, str] | None:
    """Return the position that a cursor encodes; None, the beginning, for an empty text."""
    if not text:
        return None
    try:
        place, path = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError):
        raise UsageError("this is no place in the list", hint="begin again without `after`") from None
    if not isinstance(place, str | int | float) or not isinstance(path, str):
        raise UsageError("this is no place in the list", hint="begin again without `after`")
    return place, path


def _successor(entries: Sequence[Entry], index: int) -> int | None:
    """Return the index of the first entry written at or after the moment when an entry was superseded."""
    since = entries[index].superseded
    if since is None:
        return None
    later = [at for at, each in enumerate(entries) if at != index and each.time and each.time >= since]
    return min(later, key=lambda at: entries[at].time or "", default=None)
