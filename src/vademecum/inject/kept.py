"""The part of the block that tells of records, kept made as long as nothing it was made of has changed.

It depends on every record in sight, on the logs of those whose confirmations count, on what people verified,
on the settings and on nothing else; what changes with the hour is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
from typing import TYPE_CHECKING, NamedTuple

from vademecum import __version__
from vademecum.errors import OutsideMemory
from vademecum.inject.topics import BlockItem
from vademecum.store import catalogue, decisions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vademecum.store import Records, Shelf
    from vademecum.store.catalogue import Digest
    from vademecum.types import Place

_VERSION = f"block 1 {__version__}"


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
        mark, watched, sections, waiting = found
        if mark != self._mark(watched)[0]:
            return None
        return Telling(
            tuple(
                BlockSection(name, title, tuple(BlockItem(*item) for item in items), *more)
                for name, title, items, *more in sections
            ),
            waiting,
        )

    def remember(self, made: Telling, watched: Iterable[tuple[Shelf, str]]) -> None:
        """Keep what was made, with the records whose logs it depends on."""
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
            self._records.catalogue.remember(self._name, _VERSION, (mark, logs, sections, made.waiting))

    def _mark(self, watched: dict[int, list[str]]) -> tuple[bytes, bool]:
        """What stands for all that was looked at, and whether any change of it would be seen."""
        logs = [
            self._records.catalogue.digest_logs(self._digests[at][0], names)
            for at, names in sorted(watched.items())
        ]
        everything = [*(each for _, each in self._digests), *logs]
        everything += [self._verified] if self._verified else []
        parts = [self._given, bool(self._verified), [each.value for each in everything]]
        return hashlib.sha256(marshal.dumps(parts, 2)).digest(), all(each.settled for each in everything)

    def _decided(self) -> Digest | None:
        """What stands for the decisions about texts that are verified."""
        try:
            with self._records.home.folder("decisions", decisions.VERIFIED) as folder:
                return self._records.catalogue.digest(folder, bool)
        except (FileNotFoundError, NotADirectoryError):
            return None
