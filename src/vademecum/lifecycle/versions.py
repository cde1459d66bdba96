"""Entries of which a sync has put two versions below each other, and the edit that decides between them.

The decision is an ordinary edit of the file: the next sync carries it to the other machines, where it ends
the conflict as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import UsageError
from vademecum.lifecycle.passes import read_beside
from vademecum.store import Edit, Fact, Listed, archive, document, reading
from vademecum.store.document import decode
from vademecum.types import Origin, find_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Records, Shelf
    from vademecum.types import Entry, Place

FIRST, SECOND, BOTH = KEEP = ("first", "second", "both")
_MARK = re.compile(r"(?<! ) *\| *contradicts: [^|>]*?(?= *(?:\||-->))")


class TwoVersions(NamedTuple):
    """Two versions of one entry, in the file as it was read."""

    shelf: Shelf
    kind: str
    name: str
    content: bytes
    first: Entry
    second: Entry

    @property
    def path(self) -> str:
        """The file as shown."""
        return self.shelf.name_of(*((self.kind,) if self.kind != archive.PINNED else ()), self.name)

    @property
    def shown(self) -> str:
        """Both texts, one below the other."""
        return "\n".join(f"{name}{_whose(each)}: {each.text}" for name, each in self._named)

    @property
    def _named(self) -> Sequence[tuple[str, Entry]]:
        return ((FIRST, self.first), (SECOND, self.second))

    def settle(self, keep: str) -> Edit:
        """The edit by which one version stays, or both as entries of their own."""
        if keep not in KEEP:
            raise UsageError(f"what stays is one of {', '.join(KEEP)}")
        lines = decode(self.content).split("\n")
        if keep != FIRST:
            lines[self.second.end - 1] = _MARK.sub("", lines[self.second.end - 1])
        gone = {FIRST: self.second, SECOND: self.first}.get(keep)
        if gone is not None:
            end = gone.end
            while end < len(lines) and not lines[end].strip():
                end += 1
            if end == len(lines):  # the last of the file: it ends as it did
                lines = [*lines[: gone.start - 1], *lines[gone.end :]]
            else:
                lines = [*lines[: gone.start - 1], *lines[end:]]
        return Edit(self.shelf, self.kind, self.name, self.content, "\n".join(lines).encode())


def _whose(entry: Entry) -> str:
    origin = entry.origin or Origin.USER
    return "" if origin is Origin.USER else f" ({origin})"


def _count(records: Records, shelf: Shelf, name: str, content: bytes) -> int:
    return len(find_versions(records.parse(shelf, name, content).live)) if b"~" in content else 0


VERSIONS = Fact("versions", 1, _count)


def find_two_versions(records: Records, places: Iterable[Place]) -> Iterator[TwoVersions]:
    """Every entry of these places that has two versions; of one that has more, the first two."""
    listed = [*places]
    for each in records.listed(listed, VERSIONS):
        if isinstance(each, Listed) and each.fact and each.shelf.trusted:
            content = reading.from_shelf(each.shelf, archive.RECORDS, each.name)
            if content is not None:
                entries = [one for one in records.parse(each.shelf, each.name, content).entries if one.live]
                yield from _pairs(each.shelf, archive.RECORDS, each.name, content, entries)
    for seen in read_beside(records, listed):
        if seen.shelf.trusted and b"~" in seen.content:
            kind, text = seen.record.type, decode(seen.content)
            found = document.blocks(text) if kind == archive.PINNED else document.parse(text).entries
            yield from _pairs(seen.shelf, kind, seen.name, seen.content, found)


def _pairs(
    shelf: Shelf, kind: str, name: str, content: bytes, entries: Sequence[Entry]
) -> Iterator[TwoVersions]:
    for first, second, *_ in find_versions(entries):
        yield TwoVersions(shelf, kind, name, content, first, second)
