"""Topics: the entries that one record contributes to the block, and how many of them fit.

An outline holds all that the builder must know of a topic before it opens the topic's file, so that it opens
only topics that it may show. Outlines are stored in the catalogue with the file's stamp, and hold no text:
for a pending text they hold the name of the decision about it, for other texts the least room that they need.
The sections made from all records are cached as long as nothing they depend on has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import marshal
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum import __version__
from vademecum.errors import OutsideMemory
from vademecum.inject import render
from vademecum.inject.importance import importance_of
from vademecum.inject.render import cut_document
from vademecum.knowledge import lessons, trust
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store import Fact, catalogue, decisions, hub_rules, is_consolidation, spread
from vademecum.text import clock, filenames, may_cite
from vademecum.text.filenames import key_of
from vademecum.tokens import DEFAULT_RATIO, Size, count, weigh
from vademecum.types import LEARNED, Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.knowledge import ProjectTree
    from vademecum.store import Found, Records, ScopeFolder
    from vademecum.store.catalogue import Digest
    from vademecum.types import Entry, Place, Record

NEVER = datetime.min.replace(tzinfo=UTC)
STALE_SHOWN = 2  # outdated citations of one entry that are named
EXAMPLES = 3  # example paths that are named for one lesson
_PATH = lazy_pattern(r"\S{1,200}")


class BlockItem(NamedTuple):
    """An item of the block: where it comes from, and its lines."""

    path: str
    lines: tuple[str, ...]
    key: str = ""

    @property
    def size(self) -> int:
        """The number of characters in the item's lines, with line ends."""
        return sum(len(line) + 1 for line in self.lines)

    @property
    def tokens(self) -> int:
        """The estimated number of tokens in the item's lines."""
        return count(Size(sum(weigh(line) + 1 for line in self.lines)), DEFAULT_RATIO)


class RecordTopic(NamedTuple):
    """The current entries under one key, oldest first, and how many older entries there are.

    The items are the newest entries; `more` counts entries that are too old to be considered.
    """

    path: str
    key: str
    items: tuple[BlockItem, ...]
    more: int = 0


class TopicEstimate(NamedTuple):
    """A topic that may be shown: the least room that it needs, and a function that opens its file."""

    least: int
    topic: Callable[[], RecordTopic]


class FittedTopics(NamedTuple):
    """The items that fit, with the number of topics and the number of entries that did not fit."""

    items: tuple[BlockItem, ...]
    topics: int = 0
    entries: int = 0


def last_confirmed(record: Record) -> datetime:
    """Return when an entry of a record was last said or confirmed; `NEVER` if no entry has a date.

    The time of the file does not count, because an import or a clean-up rewrites old text.
    """
    if is_consolidation(record):
        return NEVER  # it has no time of its own: its parts have
    stamps = [each.time for each in record.live]
    stamps += [str(each.get("at") or "") for each in lessons.confirmations(record.fields)]
    if not any(stamps) and not record.fields.get("imported"):
        stamps = [record.updated, record.created]
    return max((moment for moment in map(clock.parse, stamps) if moment is not None), default=NEVER)


def describe_use(record: Record, *, shared: bool) -> str:
    """Return a phrase on how often a lesson was applied, with paths of examples; '' for other records.

    The frontmatter of a shared file is not trusted, so a sentence in it does not count as a path.
    """
    if record.type not in LEARNED:
        return ""
    applied = lessons.read_count(record.fields, "applied")
    paths = [" ".join(each.split()) for each in lessons.read_examples(record.fields)]
    paths = [each for each in paths if each and (not shared or _PATH.fullmatch(each))]
    parts = [f"applied {applied} time{'s' if applied > 1 else ''}"] if applied else []
    if paths:
        more = f" and {len(paths) - EXAMPLES} more" if len(paths) > EXAMPLES else ""
        parts.append(f"examples: {', '.join(paths[:EXAMPLES])}{more}")
    return "; ".join(parts)


def describe_stale(record: Record, entry: Entry, tree: ProjectTree | None) -> str:
    """Return a phrase on the citations of code in an entry that no longer hold; '' in most cases.

    Without code to check against, the phrase gives the result of the last check.
    """
    if tree is None or record.place.scope is not Scope.PROJECT:
        return f"[stale: {entry.stale}]" if entry.stale else ""
    if not may_cite(entry.text):
        return ""
    from vademecum.knowledge import citations

    checked = citations.check_entry(entry, tree)
    wrong = [each for each in checked if each.standing is not citations.Standing.VERIFIED]
    more = f" and {len(wrong) - STALE_SHOWN} more" if len(wrong) > STALE_SHOWN else ""
    reasons = "; ".join(dict.fromkeys(each.why for each in wrong[:STALE_SHOWN]))
    return f"[stale: {reasons}{more}]" if wrong else ""


def fit_topics(
    sketches: Iterable[TopicEstimate], *, total: int, least: int, most: int, room: int, share: int
) -> FittedTopics:
    """Choose at most `most` topics for `room` characters: first each gets `share`, then the rest is used.

    A topic is shown with its newest entry or not at all. There are `total` topics, and each needs at least
    `least` room; topics that cannot fit are not opened.
    """
    chosen: list[tuple[RecordTopic, set[int]]] = []
    for sketch in sketches if most else ():
        if sketch.least > room:
            continue
        topic = sketch.topic()
        picked = _pick_entries(topic.items, room=room, share=share)
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
        items += _items_with_note(topic, picked)
    hidden = sum(len(topic.items) + topic.more - len(picked) for topic, picked in chosen)
    return FittedTopics(tuple(items), total - len(chosen), hidden)


def _pick_entries(items: Sequence[BlockItem], *, room: int, share: int) -> set[int]:
    """Return the indexes of the newest entry and of older ones that fit into the share beside it.

    The set is empty if the newest entry does not fit into the room.
    """
    last = len(items) - 1
    if last < 0 or items[last].size > room:
        return set()
    picked, used = {last}, items[last].size
    for at in reversed(range(last)):
        if used + items[at].size <= min(share, room):
            picked.add(at)
            used += items[at].size
    return picked


def _items_with_note(topic: RecordTopic, picked: set[int]) -> list[BlockItem]:
    """Return the chosen entries in order, and a line that counts the entries left out."""
    hidden = len(topic.items) + topic.more - len(picked)
    shown = [item for at, item in enumerate(topic.items) if at in picked]
    return [*shown, BlockItem(topic.path, (_note(topic, hidden),), topic.key)] if hidden else shown


def _note(topic: RecordTopic, hidden: int) -> str:
    count_text = f"{hidden} more entr{'ies' if hidden > 1 else 'y'}"
    return f"{render.BELOW}[{count_text}: memory_get {topic.key}, or `vade show {topic.key}`]"


_NAMED = lazy_pattern(r"(\[\d+ more entr(?:y|ies): )memory_get \S+, or (?=`vade show \S+`\]$)")


def without_tools(line: str) -> str:
    """Return a line for an agent that has no tools: a note by `fit_topics` then names only the command."""
    return _NAMED.sub(r"\1", line)


def _size(topic: RecordTopic, picked: set[int]) -> int:
    return sum(item.size for item in _items_with_note(topic, picked))


# ------------------------------------------------------------ outlines

KNOWLEDGE = (RecordType.SOLUTION, RecordType.DISCOVERY, RecordType.PATTERN)
SHORT = 300  # characters; the room of longer texts is only known to be at least that of this many
_KNOWN = frozenset(str(kind) for kind in KNOWLEDGE)
_FIRST = 64  # topics that are sorted at first; more are sorted only if needed

# Outlines are plain tuples, because of tens of thousands only a few are ever opened.
Row: TypeAlias = tuple[Any, ...]
PART, TYPE, IS_KNOWN, LAST_TIME, NUM, PLAIN, DOUBTS, DISPUTED, LEAST, LESSON, RANK = range(11)


class LessonRank(NamedTuple):
    """The values of a lesson that decide its rank among lessons."""

    confidence: float
    last: int | None  # microseconds
    applied: int
    sure: bool  # confirmed, whoever else may have said or verified it
    asks: bool  # confirmed once several sessions have said it
    decision: str


class TopicRank(NamedTuple):
    """The values of a topic that decide its rank among the records of its scope."""

    level: int  # an `Importance`
    sure: bool  # written or protected by a person, or said again
    used: int  # how often it was applied, with the times it was said again
    decision: str  # the name of a person's decision about the current text


class Outline(NamedTuple):
    """A topic's place and file, with the values that are known without opening the file."""

    scope_folder: ScopeFolder
    name: str
    row: Row

    @property
    def path(self) -> str:
        """The path of the topic's file, as it is shown."""
        return self.scope_folder.name_of(filenames.RECORDS, self.name)

    @property
    def key(self) -> str:
        """The key under which the topic is shown."""
        return self.row[PART] or key_of(self.name)

    @property
    def lesson(self) -> LessonRank:
        """The values that decide the rank of the topic as a lesson."""
        return LessonRank(*self.row[LESSON])

    @property
    def rank(self) -> TopicRank:
        """The values that decide the rank of the topic among the records of its scope."""
        return TopicRank(*self.row[RANK])


class Pool:
    """Topics that may be shown, sorted only as far as they are used."""

    def __init__(self) -> None:
        self._keys: list[tuple[Any, ...]] = []
        self._found: list[Outline] = []
        self.least = sys.maxsize  # the least room in characters that any of them needs

    def __len__(self) -> int:
        return len(self._found)

    def add(self, found: Outline, least: int, *order: Any) -> None:
        """Add a topic with its sort values; topics with equal values are ordered by path."""
        self.least = min(self.least, least)
        self._keys.append((*order, found.scope_folder.label, found.name, len(self._found)))
        self._found.append(found)

    def every(self) -> Sequence[Outline]:
        """Return the topics in the order in which they were added."""
        return self._found

    def ordered(self) -> Iterator[Outline]:
        """Yield the topics in sorted order; those after the first 64 are sorted only if needed."""
        first = heapq.nsmallest(_FIRST, self._keys)
        yield from (self._found[key[-1]] for key in first)
        if len(first) < len(self._keys):
            yield from (self._found[key[-1]] for key in sorted(self._keys)[len(first) :])


def load_topic(outline: Outline, records: Records) -> Found:
    """Read an outline's topic from its file, as it is now; the whole record if the file has no such topic."""
    found = records.load(outline.scope_folder, outline.name)
    for topic in spread(found.record):
        if ("" if topic is found.record else topic.key) == outline.row[PART]:
            return found._replace(record=topic, part=outline.row[PART])
    return found


def is_known(record: Record) -> bool:
    """Whether a record belongs to the lessons that are shown; a summary of several lessons does not."""
    return record.type in _KNOWN and not is_consolidation(record) and all(not e.part for e in record.entries)


def _make_outlines(
    records: Records, scope_folder: ScopeFolder, name: str, content: bytes
) -> list[tuple[Any, ...]]:
    record = records.parse(scope_folder, name, content)
    return [_row(topic, "" if topic is record else topic.key, scope_folder) for topic in spread(record)]


def _row(record: Record, part: str, scope_folder: ScopeFolder) -> tuple[Any, ...]:
    entries = [each for each in record.live if each.text.strip()]
    doubtful = [each for each in entries if trust.is_doubtful(each, record)]
    plain = [each for each in entries if not trust.is_doubtful(each, record)]
    return (
        part,
        record.type,
        is_known(record),
        clock.micro(last_confirmed(record)),
        record.num or 0,
        len(plain),
        tuple(decisions.exactly(each.text) for each in doubtful),
        any(each.origin in (Origin.USER, Origin.AGENT) for each in doubtful),
        _least(record, plain[-1].text, scope_folder) if plain else 0,
        None if part or record.type not in _KNOWN else _lesson(record),
        _rank(record, plain or entries),
    )


def _rank(record: Record, entries: Sequence[Entry]) -> tuple[Any, ...]:
    """Return the values of a `TopicRank`; `entries` are those that may be shown without a decision."""
    newest = entries[-1] if entries else trust.current_entry(record)
    own = record.trusted and (newest.origin or Origin.USER) is Origin.USER
    # A part of a consolidation has the time of its last statement there, without a session.
    again = sum(1 for each in lessons.confirmations(record.fields) if "session" in each)
    return (
        int(importance_of(record.type, record.priority, [each.text for each in entries], own=own)),
        own or (record.trusted and (record.protected or again > 0)),
        lessons.read_count(record.fields, "applied") + again,
        decisions.exactly(newest.text),
    )


def _least(record: Record, text: str, scope_folder: ScopeFolder) -> int:
    """Return the least room that an entry needs, without a verification badge; 0 if this is unknown."""
    label = record.type if is_known(record) else str(record.place.scope)
    text_shown, short = cut_document(text, SHORT)
    if short and ("![" in text or "[REDACTED" in text_shown):
        return 0  # showing more of this text may take less room
    note = describe_use(record, shared=scope_folder.shared)
    lines = render.item(
        f"[{label}] {record.key}: ", f"{text_shown}\n{note}" if note and not short else text_shown
    )
    return sum(len(line) + 1 for line in lines)


def _lesson(record: Record) -> tuple[Any, ...] | None:
    lesson = lessons.read_lesson(record)
    if lesson is None:
        return None
    entry = trust.current_entry(record)
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


def _sessions_of(records: Records, scope_folder: ScopeFolder, name: str, content: bytes) -> int:
    """Return in how many sessions the current text of a record was said."""
    record = records.parse(scope_folder, name, content)
    return len(trust.find_sessions(trust.current_entry(record), record, records))


OUTLINE = Fact("outline", 3, _make_outlines)
SESSIONS = Fact("sessions", 1, _sessions_of, logged=True)


# ------------------------------------------------------------ cache

_VERSION = f"block 3 {__version__}"


class BlockSection(NamedTuple):
    """A section of the block: its title, its items, and the number of items that did not fit."""

    name: str  # context, memory, profile, knowledge, records, journal
    title: str
    items: tuple[BlockItem, ...]
    left_out: int = 0
    thing: str = "record"  # the noun for counting what did not fit
    entries: int = 0  # entries of shown records that did not fit

    @property
    def size(self) -> int:
        """The number of characters in all items of the section."""
        return sum(item.size for item in self.items)


class RecordSections(NamedTuple):
    """The sections made from records, and the number of texts that wait for a person's decision."""

    sections: tuple[BlockSection, ...]
    pending: int


class BlockCache:
    """A cache for the sections made from records, valid while records and settings are unchanged."""

    def __init__(self, records: Records, places: Iterable[Place], *given: object) -> None:
        self._records = records
        self._given = repr(given)
        self._vouched = repr(hub_rules.stamp(records.home))
        self._digests: list[tuple[ScopeFolder, Digest]] = []
        self._verified: Digest | None = None
        with contextlib.suppress(OutsideMemory, OSError):  # the listing reports this, and nothing is cached
            self._verified = self._verified_digest()
            self._digests = records.digests(places)

    @property
    def _is_worth_caching(self) -> bool:
        return sum(len(each.stamps) for _, each in self._digests) >= catalogue.FEW

    @property
    def _name(self) -> str:
        folders = [
            f"{scope_folder.top} {scope_folder.label} {scope_folder.place} {scope_folder.trusted}"
            for scope_folder, _ in self._digests
        ]
        return f"{hashlib.sha256(repr((folders, self._given)).encode()).hexdigest()[:16]}-block"

    def recall(self) -> RecordSections | None:
        """Return the cached sections; None if anything that they depend on has changed."""
        found = self._records.catalogue.recall(self._name, _VERSION) if self._is_worth_caching else None
        if found is None:
            return None
        mark, watched, sections, waiting, proofs = found
        if mark != self._mark(watched)[0] or any(_stamp(path) != stamp for path, stamp in proofs):
            return None
        return RecordSections(
            tuple(
                BlockSection(name, title, tuple(BlockItem(*item) for item in items), *more)
                for name, title, items, *more in sections
            ),
            waiting,
        )

    def remember(
        self, made: RecordSections, watched: Iterable[tuple[ScopeFolder, str]], proofs: Iterable[str] = ()
    ) -> None:
        """Cache sections, with the state of the `watched` records' logs and of the code files in `proofs`.

        Sections of a small memory, or with a redacted secret, are not cached.
        """
        items = [item for each in made.sections for item in each.items]
        if not self._is_worth_caching or any("[REDACTED" in line for item in items for line in item.lines):
            return  # a redaction must be reported each time, so such a block is not cached
        logs: dict[int, list[str]] = {}
        scope_folders = {scope_folder: at for at, (scope_folder, _) in enumerate(self._digests)}
        for scope_folder, name in dict.fromkeys(watched):
            logs.setdefault(scope_folders[scope_folder], []).append(name)
        mark, settled = self._mark(logs)
        if settled:
            sections = [
                (*each[:2], [tuple(item) for item in each.items], *each[3:]) for each in made.sections
            ]
            stamps = [(path, _stamp(path)) for path in sorted(proofs)]
            kept = mark, logs, sections, made.pending, stamps
            self._records.catalogue.remember(self._name, _VERSION, kept)

    def _mark(self, watched: dict[int, list[str]]) -> tuple[bytes, bool]:
        """Return a hash of what the sections depend on, and whether any later change would be noticed.

        `watched` names the records of each folder whose logs count.
        """
        logs = [
            self._records.catalogue.digest_logs(self._digests[at][0], names)
            for at, names in sorted(watched.items())
        ]
        everything = [*(each for _, each in self._digests), *logs]
        everything += [self._verified] if self._verified else []
        parts = [self._given, self._vouched, bool(self._verified), [each.value for each in everything]]
        return hashlib.sha256(marshal.dumps(parts, 2)).digest(), all(each.settled for each in everything)

    def _verified_digest(self) -> Digest | None:
        """Return a hash of the decisions that verify texts; None if there are none."""
        try:
            with self._records.home.folder("decisions", decisions.VERIFIED) as folder:
                return self._records.catalogue.digest(folder, bool)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _stamp(path: str) -> tuple[int, int] | None:
    """Return the time and size of a file of the project, to notice changes; None without the file."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
