"""Topics: what one record has to say, entry by entry, when it was last said, and how much of it fits.

Pure: knows records and lines, and nothing of files, trust or settings.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from vademecum.inject import render
from vademecum.knowledge import lessons
from vademecum.store import clock
from vademecum.store.consolidation import is_consolidation
from vademecum.types import LEARNED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.types import Record

NEVER = datetime.min.replace(tzinfo=UTC)
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


def _size(topic: RecordTopic, picked: set[int]) -> int:
    return sum(item.size for item in _shown(topic, picked))
