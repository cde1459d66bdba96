"""Outlines: what the builder has to know of every topic, so that it opens only those it may tell.

Kept in the catalogue with the stamp of the file. Holds no text: of one that waits for a person the name of
the decision about it, of one that may be told the least room it takes.
"""

from __future__ import annotations

import heapq
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vademecum.inject import render
from vademecum.inject.render import cut_document
from vademecum.inject.topics import describe_use, last_said
from vademecum.knowledge import lessons as learned
from vademecum.knowledge import trust
from vademecum.store import Fact, archive, clock, consolidation, decisions
from vademecum.store.consolidation import is_consolidation
from vademecum.types import Origin, RecordType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.store import Found, Records, Shelf
    from vademecum.types import Record

KNOWLEDGE = (RecordType.SOLUTION, RecordType.DISCOVERY, RecordType.PATTERN)
SHORT = 300  # characters up to which a text's room is known; of a longer one it is the least there can be
_KNOWN = frozenset(str(kind) for kind in KNOWLEDGE)
_FIRST = 64  # topics that are put in order before anything is told of them

# An outline as it is kept: of tens of thousands only a few are ever opened, so they stay plain tuples.
Row: TypeAlias = tuple[Any, ...]
PART, TYPE, IS_KNOWN, SAID, NUM, PLAIN, DOUBTS, DISPUTED, LEAST, LESSON = range(10)


class Rank(NamedTuple):
    """How a topic of a learned type stands among the others of it."""

    confidence: float
    last: int | None  # microseconds
    applied: int
    sure: bool  # whoever else may have said or verified it
    asks: bool  # whether it is sure when several sessions said it
    decision: str


class Outline(NamedTuple):
    """Where a topic is, and the outline of it."""

    shelf: Shelf
    name: str
    row: Row

    @property
    def path(self) -> str:
        """The path of its file, as shown."""
        return self.shelf.name_of(archive.RECORDS, self.name)

    @property
    def lesson(self) -> Rank:
        """How it stands among the lessons of its type."""
        return Rank(*self.row[LESSON])


class Pool:
    """Topics that have something to tell, from which the first few of an order are taken."""

    def __init__(self) -> None:
        self._keys: list[tuple[Any, ...]] = []
        self._found: list[Outline] = []
        self.least = sys.maxsize  # characters that each of them takes at least

    def __len__(self) -> int:
        return len(self._found)

    def add(self, found: Outline, least: int, *order: Any) -> None:
        """Put a topic in; of equal ones the first by its path comes first."""
        self.least = min(self.least, least)
        self._keys.append((*order, found.shelf.label, found.name, len(self._found)))
        self._found.append(found)

    def ordered(self) -> Iterator[Outline]:
        """The topics in their order; all of them are put into it only when the first few do not do."""
        first = heapq.nsmallest(_FIRST, self._keys)
        yield from (self._found[key[-1]] for key in first)
        if len(first) < len(self._keys):
            yield from (self._found[key[-1]] for key in sorted(self._keys)[len(first) :])


def opened(outline: Outline, records: Records) -> Found:
    """The topic itself, as its file says it now."""
    found = records.load(outline.shelf, outline.name)
    for topic in consolidation.spread(found.record):
        if ("" if topic is found.record else topic.key) == outline.row[PART]:
            return found._replace(record=topic, part=outline.row[PART])
    return found


def is_known(record: Record) -> bool:
    """Whether a record is told under what was learned; one of several lessons is not."""
    return record.type in _KNOWN and not is_consolidation(record) and all(not e.part for e in record.entries)


def _outlined(records: Records, shelf: Shelf, name: str, content: bytes) -> list[tuple[Any, ...]]:
    record = records.parse(shelf, name, content)
    return [
        _row(topic, "" if topic is record else topic.key, shelf) for topic in consolidation.spread(record)
    ]


def _row(record: Record, part: str, shelf: Shelf) -> tuple[Any, ...]:
    entries = [each for each in record.live if each.text.strip()]
    doubtful = [each for each in entries if trust.is_doubtful(each, record)]
    plain = [each for each in entries if not trust.is_doubtful(each, record)]
    return (
        part,
        record.type,
        is_known(record),
        clock.micro(last_said(record)),
        record.num or 0,
        len(plain),
        tuple(decisions.exactly(each.text) for each in doubtful),
        any(each.origin in (Origin.USER, Origin.AGENT) for each in doubtful),
        _least(record, plain[-1].text, shelf) if plain else 0,
        None if part or record.type not in _KNOWN else _lesson(record),
    )


def _least(record: Record, text: str, shelf: Shelf) -> int:
    """The room that an entry takes at least, before anything is said of who confirmed it."""
    label = record.type if is_known(record) else str(record.place.scope)
    shown, short = cut_document(text, SHORT)
    if short and ("![" in text or "[REDACTED" in shown):
        return 0  # what is shown of more of it may be less
    note = describe_use(record, shared=shelf.shared)
    lines = render.item(f"[{label}] {record.key}: ", f"{shown}\n{note}" if note and not short else shown)
    return sum(len(line) + 1 for line in lines)


def _lesson(record: Record) -> tuple[Any, ...] | None:
    lesson = learned.read_lesson(record)
    if lesson is None:
        return None
    entry = trust.spoken_entry(record)
    last = clock.parse(lesson.last)
    certain = record.trusted and not record.disputes(entry)
    origin = entry.origin or Origin.USER
    return (
        lesson.confidence,
        None if last is None else clock.micro(last),
        lesson.applied,
        certain and origin is Origin.USER,
        certain and origin is Origin.AGENT,
        decisions.exactly(entry.text),
    )


def _sessions_of(records: Records, shelf: Shelf, name: str, content: bytes) -> int:
    """How many sessions said what a record says now."""
    record = records.parse(shelf, name, content)
    return len(trust.find_sessions(trust.spoken_entry(record), record, records))


OUTLINE = Fact("outline", 1, _outlined)
SESSIONS = Fact("sessions", 1, _sessions_of, logged=True)
