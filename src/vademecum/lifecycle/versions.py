"""Find entries that a sync left in two versions, and make the edit that decides between the two.

The decision is an ordinary edit of the file: the next sync carries it to the other machines and ends the
conflict there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import UsageError
from vademecum.lifecycle.passes import read_pages
from vademecum.store import Edit, Fact, Listed
from vademecum.text import document, filenames
from vademecum.text.document import decode
from vademecum.types import Origin, find_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Records, ScopeFolder
    from vademecum.types import Entry, Place

FIRST, SECOND, BOTH = KEEP = ("first", "second", "both")
_MARK = re.compile(r"(?<! ) *\| *contradicts: [^|>]*?(?= *(?:\||-->))")


class TwoVersions(NamedTuple):
    """Two versions of an entry, with the file that contains both."""

    scope_folder: ScopeFolder
    kind: str
    name: str
    content: bytes
    first: Entry
    second: Entry

    @property
    def path(self) -> str:
        """The path of the file, as it is shown to people."""
        return self.scope_folder.name_of(*((self.kind,) if self.kind != filenames.PINNED else ()), self.name)

    @property
    def shown(self) -> str:
        """The texts of both versions, each after its name and after its origin unless that is the user."""
        return "\n".join(f"{name}{_name_origin(each)}: {each.text}" for name, each in self._named)

    @property
    def _named(self) -> Sequence[tuple[str, Entry]]:
        return ((FIRST, self.first), (SECOND, self.second))

    def settle(self, keep: str) -> Edit:
        """Return the edit that keeps one version (`first` or `second`), or `both` as separate entries."""
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
        return Edit(self.scope_folder, self.kind, self.name, self.content, "\n".join(lines).encode())


def _name_origin(entry: Entry) -> str:
    origin = entry.origin or Origin.USER
    return "" if origin is Origin.USER else f" ({origin})"


def _count(records: Records, scope_folder: ScopeFolder, name: str, content: bytes) -> int:
    return len(find_versions(records.parse(scope_folder, name, content).live)) if b"~" in content else 0


VERSIONS = Fact("versions", 1, _count)


def find_two_versions(records: Records, places: Iterable[Place]) -> Iterator[TwoVersions]:
    """Yield each entry of these places that has two versions; of an entry with more, the first two."""
    listed = [*places]
    for each in records.listed(listed, VERSIONS):
        if isinstance(each, Listed) and each.fact and each.scope_folder.trusted:
            content = each.scope_folder.read(filenames.RECORDS, each.name)
            if content is not None:
                entries = [
                    one for one in records.parse(each.scope_folder, each.name, content).entries if one.live
                ]
                yield from _pairs(each.scope_folder, filenames.RECORDS, each.name, content, entries)
    for seen in read_pages(records, listed):
        if seen.scope_folder.trusted and b"~" in seen.content:
            kind, text = seen.record.type, decode(seen.content)
            found = document.blocks(text) if kind == filenames.PINNED else document.parse(text).entries
            yield from _pairs(seen.scope_folder, kind, seen.name, seen.content, found)


def _pairs(
    scope_folder: ScopeFolder, kind: str, name: str, content: bytes, entries: Sequence[Entry]
) -> Iterator[TwoVersions]:
    for first, second, *_ in find_versions(entries):
        yield TwoVersions(scope_folder, kind, name, content, first, second)
