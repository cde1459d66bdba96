"""What goes with a record: one step along the edges between all that is in sight.

A process that asks again reads again only the files that changed since; where none did, the edges stand.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, OutsideMemory
from vademecum.knowledge import edges
from vademecum.search.answer import Passage
from vademecum.store import archive, clock, files, outgoing, scopes
from vademecum.store.records import is_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from vademecum.knowledge.edges import Edge, Graph
    from vademecum.store.records import Records
    from vademecum.types import Entry, Place, Record

    Stamp: TypeAlias = tuple[int, ...]

EACH, ALL = 3, 5  # related records of one hit, and of an answer
_SNIPPET = 700  # characters


class Related(NamedTuple):
    """A record, and what joins it to the one that was asked about."""

    record: Record
    to: Record
    edge: Edge

    @property
    def outward(self) -> bool:
        """Whether the other one names it, and not it the other."""
        return self.edge.target == self.record.path


class Sight:
    """The graph of what one caller sees, kept as long as no file of it changes."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._read: dict[tuple[str, str], tuple[Stamp, Record]] = {}
        self._made: dict[tuple[Place, ...], tuple[object, Graph]] = {}

    def graph(self, places: Iterable[Place]) -> Graph:
        """All edges between the records of these places, with those that a person rejected."""
        chosen = tuple(places)
        stamps: dict[tuple[str, str], Stamp] = {}
        records = [record for place in chosen for record in self._all(place, stamps)]
        home = self._records.home
        rejected = tuple(home.names("decisions", edges.REJECTED))
        mark = (stamps, rejected)
        known = self._made.get(chosen)
        if known is None or known[0] != mark:
            known = mark, edges.graph(records, rejected=edges.rejections(home))
            self._made[chosen] = known
        return known[1]

    def _all(self, place: Place, stamps: dict[tuple[str, str], Stamp]) -> Iterable[Record]:
        """The records of a place; what cannot be read has no edges, and is told by others."""
        for shelf in scopes.shelves(self._records.home, self._records.caller, place):
            try:
                folder = shelf.open(archive.RECORDS)
            except (OutsideMemory, NotADirectoryError):
                continue
            if folder is None:
                continue
            with folder:
                for name in filter(is_record, folder.names()):
                    at = str(shelf.top), shelf.name_of(archive.RECORDS, name)
                    state = folder.stat(name)
                    if state is None:
                        continue
                    stamp = state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, shelf.trusted
                    stamps[at] = stamp
                    known = self._read.get(at)
                    if known is None or known[0] != stamp:
                        with contextlib.suppress(Malformed, OutsideMemory, OSError):
                            content = files.read(folder, name)
                            if content is not None:
                                known = stamp, self._records.parse(shelf, name, content)
                                self._read[at] = known
                    if known is not None and known[0] == stamp:
                        yield known[1]


def around(found: Graph, paths: Sequence[str], *, each: int = EACH, most: int = ALL) -> list[Related]:
    """What is joined to some records and not among them: so many for each, so many in all."""
    by_path = {record.path: record for record in found.records}
    wanted = dict.fromkeys(path for path in paths if path in by_path)
    own: dict[str, list[Edge]] = {path: [] for path in wanted}
    for edge in found.edges:
        for path in (edge.source, edge.target):
            if path in own and not edge.rejected:
                own[path].append(edge)
    chosen: dict[str, Related] = {}
    for path, joined in own.items():
        count = 0
        for edge in sorted(joined, key=edges.surest):
            other = edge.target if edge.source == path else edge.source
            if len(chosen) >= most or count >= each:
                break
            if other not in wanted and other not in chosen:
                chosen[other] = Related(by_path[other], by_path[path], edge)
                count += 1
    return [*chosen.values()]


def see_also(records: Sequence[Record], *, rejected: Callable[[str, str], bool]) -> dict[str, list[Record]]:
    """What goes with each of some records, among themselves alone."""
    found = edges.graph(records, rejected=rejected).standing()
    by_path = {record.path: record for record in records}
    joined: dict[str, list[Record]] = {}
    for edge in sorted(found.edges, key=edges.surest):
        for path, other in ((edge.source, edge.target), (edge.target, edge.source)):
            listed = joined.setdefault(path, [])
            if by_path[other] not in listed and len(listed) < ALL:
                listed.append(by_path[other])
    return joined


def passage(found: Related, as_of: str | None = None) -> Passage | None:
    """A related record as it goes behind an answer; None when it said nothing at that time."""
    record, entry = found.record, said(found.record, as_of)
    if entry is None:
        return None
    text = outgoing.clean_text(entry.text)
    text = text if len(text) <= _SNIPPET else text[: _SNIPPET - 1] + "…"
    return Passage(
        record.path,
        entry.start,
        entry.end,
        text,
        0.0,
        0.0,
        "memory",
        record.place,
        {},
        title=outgoing.clean_text(record.title),
        key=record.key,
        type=record.type,
        num=record.num,
        tags=outgoing.clean_all(record.tags),
        time=entry.time,
        origin=str(entry.origin) if entry.origin else None,
        superseded=entry.superseded,
        related={
            "to": found.to.key,
            "relation": str(found.edge.relation),
            "origin": found.edge.origin,
        },
    )


def said(record: Record, as_of: str | None = None) -> Entry | None:
    """What a record says now, or said at a time; None when it said nothing then."""
    if as_of is None:
        return next(iter((record.live or record.entries)[-1:]), None)
    moment = clock.parse(as_of)
    if moment is None:
        return None
    held = [
        entry
        for entry in record.entries
        if (at := clock.parse(entry.time)) is not None
        and at <= moment
        and ((gone := clock.parse(entry.superseded)) is None or gone > moment)
    ]
    return held[-1] if held else None
