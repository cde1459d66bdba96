"""What the index takes in: items from small providers, each with what is needed to know it has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.types import Finding, Place


class Stamp(NamedTuple):
    """What the system says of a file; while all of it stays the same, the file need not be read."""

    size: int
    mtime: int
    ctime: int
    inode: int


class Item(NamedTuple):
    """One file on its way into the index."""

    id: str  # unique among all projects: the path from the home, or an absolute one
    path: str  # as shown, and accepted by `get`
    source: str  # memory, journal, pinned, or the name of an attached source
    kind: str  # how it is cut: record, journal, pinned, markdown
    place: Place
    stamp: Stamp
    load: Callable[[], bytes | None]


class Corpus(Protocol):
    """Provides the items of one kind of thing that a caller can see."""

    def items(self) -> Iterator[Item | Finding]:
        """Every item there is now; one that cannot be looked at is a finding."""
        ...
