"""What a check sees, how long it may look, and how it names what it found."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from vademecum.store import archive
from vademecum.store.records import key_of
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.lifecycle.base import Seen
    from vademecum.store.home import Shelf
    from vademecum.types import Place, Record

T = TypeVar("T")

SECONDS = 30.0
RECORD, JOURNAL, PINNED, SOURCE = "record", "journal", "pinned", "source"
ERROR, WARNING, INFO = "error", "warning", "info"
INCOMPLETE = "lint_incomplete"


class Page(NamedTuple):
    """One readable file, of whatever kind."""

    path: str  # as shown
    kind: str
    place: Place
    name: str  # of the file
    text: str
    file: str  # where it lies on disk
    top: str = ""  # of the source it belongs to
    ours: bool = True  # whether it may be changed through us

    @property
    def mend(self) -> str:
        """The command that opens it."""
        if self.kind == RECORD and self.ours:
            return f"vade edit {key_of(self.name)} --scope {self.place.scope}"
        if self.kind == PINNED and self.ours:
            return f"vade edit {self.name} --scope {self.place.scope}"
        return by_hand(self.file)

    def found(
        self, what: str, why: str, *, line: int = 1, last: int = 0, severity: str = WARNING, mend: str = ""
    ) -> Finding:
        """Something about these lines of it."""
        where = at(self.path, line, last)
        return Finding(what, where, why, mend or self.mend, severity, self.place)


class Watch:
    """How long all checks together may look, and what they did not get to."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.until = time.monotonic() + seconds
        self.left_out: dict[str, int] = {}

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self.until - time.monotonic())

    def each(self, things: Sequence[T], what: str) -> Iterator[T]:
        """Some things one by one, until the time is over."""
        for number, thing in enumerate(things):
            if time.monotonic() > self.until:
                self.left_out[what] = len(things) - number
                return
            yield thing


@dataclass(frozen=True)
class Material:
    """All that was read, once, for every check."""

    seen: tuple[Seen, ...] = ()
    pages: tuple[Page, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    listings: tuple[Page, ...] = ()  # the `index.md` of each folder of records
    shelves: Mapping[str, Shelf] = field(default_factory=dict)  # of each listing, by its path
    root: Path | None = None  # of the project
    project: Place | None = None  # whose records speak of that root
    watch: Watch = field(default_factory=Watch)

    @cached_property
    def page_of(self) -> dict[str, Page]:
        """The page of each path."""
        return {page.path: page for page in self.pages}

    @property
    def records(self) -> list[Record]:
        """What was read, as records."""
        return [each.record for each in self.seen]


def at(path: str, line: int, last: int = 0) -> str:
    """Lines of a file as everything in memory names them."""
    return f"{path}#L{line}-L{last}" if last > line else f"{path}#L{line}"


def by_hand(file: str) -> str:
    """The command for a file that no command of ours changes."""
    return f"$EDITOR {shlex.quote(file)}"


def line_of(text: str, position: int) -> int:
    """The line of a position, counted from 1."""
    return text.count("\n", 0, position) + 1


def item_of(seen: Seen) -> str:
    """What the counters know a record by."""
    path = seen.shelf.name_of(archive.RECORDS, seen.name)
    return f"{seen.shelf.top}/{path}" if seen.shelf.shared else path
