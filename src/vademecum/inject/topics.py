"""Topics: what one record has to say, entry by entry, when it was last said, and how much of it fits.

An outline is what the builder has to know of every topic, so that it opens only those it may tell. It stands
in the catalogue with the stamp of the file and holds no text: of one that waits for a person the name of the
decision about it, of one that may be told the least room it takes. What was made of all records is kept as
long as nothing it was made of has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import marshal
import os
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vademecum import __version__
from vademecum.errors import OutsideMemory
from vademecum.inject import render
from vademecum.inject.render import cut_document
from vademecum.knowledge import lessons, trust
from vademecum.store import Fact, archive, catalogue, decisions, hub_rules, merge
from vademecum.store.merge import is_consolidation
from vademecum.store.records import key_of
from vademecum.text import clock, may_cite
from vademecum.tokens import DEFAULT_RATIO, Size, count, weigh
from vademecum.types import LEARNED, Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.knowledge.project_tree import ProjectTree
    from vademecum.store import Found, Records, Shelf
    from vademecum.store.catalogue import Digest
    from vademecum.types import Entry, Place, Record

NEVER = datetime.min.replace(tzinfo=UTC)
STALE_SHOWN = 2  # things of one entry that are no longer so
EXAMPLES = 3  # paths that one lesson is shown with
_PATH = re.compile(r"\S{1,200}")


class BlockItem(NamedTuple):
    """One thing in the block: where it comes from, and what it takes."""

    path: str
    lines: tuple[str, ...]
    key: str = ""

    @property
    def size(self) -> int:
        """Its length in characters, line ends included."""
        return sum(len(line) + 1 for line in self.lines)

    @property
    def tokens(self) -> int:
        """About how many tokens it takes."""
        return count(Size(sum(weigh(line) + 1 for line in self.lines)), DEFAULT_RATIO)


class RecordTopic(NamedTuple):
    """What is told under one key: its living entries, oldest first, and how many more there are.

    The items stand for the newest of the entries; `more` counts those too old to be looked at.
    """

    path: str
    key: str
    items: tuple[BlockItem, ...]
    more: int = 0


class Sketch(NamedTuple):
    """A topic that has something to tell: the least room it takes, and how it is opened."""

    least: int
    topic: Callable[[], RecordTopic]


class FittedTopics(NamedTuple):
    """The items that fit, how many topics did not, and how many entries of those that did."""

    items: tuple[BlockItem, ...]
    topics: int = 0
    entries: int = 0


def last_said(record: Record) -> datetime:
    """When something of a record was last said or confirmed; what nobody dated was never said.

    When a file was written says nothing of that: an import or a tidying writes old words anew.
    """
    if is_consolidation(record):
        return NEVER  # one of an earlier version, which does not know when its parts were said
    stamps = [each.time for each in record.live]
    stamps += [str(each.get("at") or "") for each in lessons.confirmations(record.fields)]
    if not any(stamps) and not record.fields.get("imported"):
        stamps = [record.updated, record.created]
    return max((moment for moment in map(clock.parse, stamps) if moment is not None), default=NEVER)


def describe_use(record: Record, *, shared: bool) -> str:
    """How a lesson has fared: how often it was applied, and the paths that show it.

    Nobody vouches for the frontmatter of a file that others can write, so a sentence there is no path.
    """
    if record.type not in LEARNED:
        return ""
    applied = lessons.read_count(record.fields, "applied")
    paths = [" ".join(each.split()) for each in lessons.read_examples(record.fields)]
    paths = [each for each in paths if each and (not shared or _PATH.fullmatch(each))]
    told = [f"applied {applied} time{'s' if applied > 1 else ''}"] if applied else []
    if paths:
        more = f" and {len(paths) - EXAMPLES} more" if len(paths) > EXAMPLES else ""
        told.append(f"examples: {', '.join(paths[:EXAMPLES])}{more}")
    return "; ".join(told)


def describe_stale(record: Record, entry: Entry, tree: ProjectTree | None) -> str:
    """What an entry cites of the project's code that is no longer so; empty for most.

    Where there is no code to look at, it is what heal said when it looked.
    """
    if tree is None or record.place.scope is not Scope.PROJECT:
        return f"[stale: {entry.stale}]" if entry.stale else ""
    if not may_cite(entry.text):
        return ""
    from vademecum.knowledge import citations

    checked = citations.check_entry(entry, tree)
    wrong = [each for each in checked if each.standing is not citations.Standing.VERIFIED]
    more = f" and {len(wrong) - STALE_SHOWN} more" if len(wrong) > STALE_SHOWN else ""
    told = "; ".join(dict.fromkeys(each.why for each in wrong[:STALE_SHOWN]))
    return f"[stale: {told}{more}]" if wrong else ""


def fit_topics(
    sketches: Iterable[Sketch], *, total: int, least: int, most: int, room: int, share: int
) -> FittedTopics:
    """As much of some topics as there is room for: each first gets its share, then what is left over.

    A topic is told with its newest entry or not at all. Of all there are a `total`, and each takes the
    `least` room; those that cannot be told are not opened.
    """
    chosen: list[tuple[RecordTopic, set[int]]] = []
    for sketch in sketches if most else ():
        if sketch.least > room:
            continue
        topic = sketch.topic()
        picked = _picked(topic.items, room=room, share=share)
        if not picked:
            continue
        chosen.append((topic, picked))
        room -= _size(topic, picked)
        if len(chosen) >= most or room < least:
            break
    for topic, picked in chosen:
        for at in reversed(range(len(topic.items))):
            before = _size(topic, picked)
            grown = _size(topic, picked | {at}) - before
            if at not in picked and grown <= room:
                picked.add(at)
                room -= grown
    items: list[BlockItem] = []
    for topic, picked in chosen:
        items += _shown(topic, picked)
    hidden = sum(len(topic.items) + topic.more - len(picked) for topic, picked in chosen)
    return FittedTopics(tuple(items), total - len(chosen), hidden)


def _picked(items: Sequence[BlockItem], *, room: int, share: int) -> set[int]:
    """The entries of a topic that its share has room for, the newest before all others."""
    last = len(items) - 1
    if last < 0 or items[last].size > room:
        return set()
    picked, used = {last}, items[last].size
    for at in reversed(range(last)):
        if used + items[at].size <= min(share, room):
            picked.add(at)
            used += items[at].size
    return picked


def _shown(topic: RecordTopic, picked: set[int]) -> list[BlockItem]:
    """The chosen entries in their order, and a line that counts the others."""
    hidden = len(topic.items) + topic.more - len(picked)
    shown = [item for at, item in enumerate(topic.items) if at in picked]
    return [*shown, BlockItem(topic.path, (_note(topic, hidden),), topic.key)] if hidden else shown


def _note(topic: RecordTopic, hidden: int) -> str:
    said = f"{hidden} more entr{'ies' if hidden > 1 else 'y'}"
    return f"{render.BELOW}[{said}: memory_get {topic.key}, or `vade show {topic.key}`]"


_NAMED = re.compile(r"(\[\d+ more entr(?:y|ies): )memory_get \S+, or (?=`vade show \S+`\]$)")


def without_tools(line: str) -> str:
    """A line as an agent without tools is told it: the note of `fit_topics` names the command alone."""
    return _NAMED.sub(r"\1", line)


def _size(topic: RecordTopic, picked: set[int]) -> int:
    return sum(item.size for item in _shown(topic, picked))


# ------------------------------------------------------------ outlines

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
    def key(self) -> str:
        """The key it is told under."""
        return self.row[PART] or key_of(self.name)

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

    def every(self) -> Sequence[Outline]:
        """The topics as they came."""
        return self._found

    def ordered(self) -> Iterator[Outline]:
        """The topics in their order; all of them are put into it only when the first few do not do."""
        first = heapq.nsmallest(_FIRST, self._keys)
        yield from (self._found[key[-1]] for key in first)
        if len(first) < len(self._keys):
            yield from (self._found[key[-1]] for key in sorted(self._keys)[len(first) :])


def opened(outline: Outline, records: Records) -> Found:
    """The topic itself, as its file says it now."""
    found = records.load(outline.shelf, outline.name)
    for topic in merge.spread(found.record):
        if ("" if topic is found.record else topic.key) == outline.row[PART]:
            return found._replace(record=topic, part=outline.row[PART])
    return found


def is_known(record: Record) -> bool:
    """Whether a record is told under what was learned; one of several lessons is not."""
    return record.type in _KNOWN and not is_consolidation(record) and all(not e.part for e in record.entries)


def _outlined(records: Records, shelf: Shelf, name: str, content: bytes) -> list[tuple[Any, ...]]:
    record = records.parse(shelf, name, content)
    return [_row(topic, "" if topic is record else topic.key, shelf) for topic in merge.spread(record)]


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
    lesson = lessons.read_lesson(record)
    if lesson is None:
        return None
    entry = trust.spoken_entry(record)
    last = clock.parse(lesson.last)
    certain = record.trusted and not record.disputes(entry) and not record.conflicts(entry)
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


OUTLINE = Fact("outline", 2, _outlined)
SESSIONS = Fact("sessions", 1, _sessions_of, logged=True)


# ------------------------------------------------------------ what was made, kept

_VERSION = f"block 2 {__version__}"


class BlockSection(NamedTuple):
    """A heading of the block, what stands below it, and how much there was no room for."""

    name: str  # context, memory, profile, knowledge, records, journal
    title: str
    items: tuple[BlockItem, ...]
    left_out: int = 0
    thing: str = "record"  # what is counted as left out
    entries: int = 0  # of records that are shown, and that there was no room for

    @property
    def size(self) -> int:
        """What its items take, in characters."""
        return sum(item.size for item in self.items)


class Telling(NamedTuple):
    """Sections that tell of records, and how many texts wait for a person."""

    sections: tuple[BlockSection, ...]
    waiting: int


class BlockKeeper:
    """Knows whether what was made of some records, and with some settings, still holds."""

    def __init__(self, records: Records, places: Iterable[Place], *given: object) -> None:
        self._records = records
        self._given = repr(given)
        self._vouched = repr(hub_rules.stamp(records.home))
        self._digests: list[tuple[Shelf, Digest]] = []
        self._verified: Digest | None = None
        with contextlib.suppress(OutsideMemory, OSError):  # told by the listing; nothing is kept of it
            self._verified = self._decided()
            self._digests = records.digests(places)

    @property
    def _worth(self) -> bool:
        return sum(len(each.stamps) for _, each in self._digests) >= catalogue.FEW

    @property
    def _name(self) -> str:
        folders = [f"{shelf.top} {shelf.label} {shelf.place} {shelf.trusted}" for shelf, _ in self._digests]
        return f"{hashlib.sha256(repr((folders, self._given)).encode()).hexdigest()[:16]}-block"

    def recall(self) -> Telling | None:
        """What was kept, if nothing has changed since."""
        found = self._records.catalogue.recall(self._name, _VERSION) if self._worth else None
        if found is None:
            return None
        mark, watched, sections, waiting, proofs = found
        if mark != self._mark(watched)[0] or any(_stamp(path) != stamp for path, stamp in proofs):
            return None
        return Telling(
            tuple(
                BlockSection(name, title, tuple(BlockItem(*item) for item in items), *more)
                for name, title, items, *more in sections
            ),
            waiting,
        )

    def remember(
        self, made: Telling, watched: Iterable[tuple[Shelf, str]], proofs: Iterable[str] = ()
    ) -> None:
        """Keep what was made, with the records whose logs it depends on, and the code that proves it."""
        items = [item for each in made.sections for item in each.items]
        if not self._worth or any("[REDACTED" in line for item in items for line in item.lines):
            return  # which kinds were redacted is told by whoever does it
        logs: dict[int, list[str]] = {}
        shelves = {shelf: at for at, (shelf, _) in enumerate(self._digests)}
        for shelf, name in dict.fromkeys(watched):
            logs.setdefault(shelves[shelf], []).append(name)
        mark, settled = self._mark(logs)
        if settled:
            sections = [
                (*each[:2], [tuple(item) for item in each.items], *each[3:]) for each in made.sections
            ]
            stamps = [(path, _stamp(path)) for path in sorted(proofs)]
            kept = mark, logs, sections, made.waiting, stamps
            self._records.catalogue.remember(self._name, _VERSION, kept)

    def _mark(self, watched: dict[int, list[str]]) -> tuple[bytes, bool]:
        """What stands for all that was looked at, and whether any change of it would be seen."""
        logs = [
            self._records.catalogue.digest_logs(self._digests[at][0], names)
            for at, names in sorted(watched.items())
        ]
        everything = [*(each for _, each in self._digests), *logs]
        everything += [self._verified] if self._verified else []
        parts = [self._given, self._vouched, bool(self._verified), [each.value for each in everything]]
        return hashlib.sha256(marshal.dumps(parts, 2)).digest(), all(each.settled for each in everything)

    def _decided(self) -> Digest | None:
        """What stands for the decisions about texts that are verified."""
        try:
            with self._records.home.folder("decisions", decisions.VERIFIED) as folder:
                return self._records.catalogue.digest(folder, bool)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _stamp(path: str) -> tuple[int, int] | None:
    """What tells whether a file of the project has changed."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
