"""Reading what is not asked for by its key: lines of a file by its path, and what was archived.

By path, only files that the caller can see are there to be asked for. What was put away is found by name
when a record is gone, and by its id when it is an archived version. A file that was deleted by hand counts as
gone like one that was forgotten: the archive and the log of acknowledged entries still know it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import archive, document, scopes, short_numbers, sources
from vademecum.store.records import Found, is_record, key_of
from vademecum.text import names, outgoing
from vademecum.types import Audience

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.store.home import Home, Shelf
    from vademecum.store.records import Records
    from vademecum.types import Place

MOST = 8 * 1024 * 1024  # bytes of a log that one answer holds
BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Text:
    """Lines of a file: what `get` returns; a file that does not exist is an empty text."""

    path: str
    text: str
    start: int = 1
    end: int = 0
    lines: int = 0


def lines_of(path: str, content: bytes | None, *, start: int = 1, count: int | None = None) -> Text:
    """A range of a file's lines, counted from 1."""
    if content is None:
        return Text(path, "")
    every = document.decode(content).split("\n")
    if every[-1] == "":
        every.pop()
    chosen = every[start - 1 :] if count is None else every[start - 1 : start - 1 + count]
    return Text(path, "\n".join(chosen), start, start + len(chosen) - 1, len(every))


def clean_lines_of(path: str, content: bytes | None, *, start: int = 1, count: int | None = None) -> Text:
    """The same as they may leave: cleaned as a whole, since a secret may go over several lines."""
    if content is not None:
        content = outgoing.clean_lines(document.decode(content)).encode()
    return lines_of(path, content, start=start, count=count)


def streamed(path: str, file: BinaryIO, *, start: int = 1, count: int | None = None) -> Text:
    """A range of the lines of a file of any length; what does not fit into one answer is left for the next.

    An answer holds at least a whole line, and `lines` is the count of all.
    """
    chosen: list[bytes] = []
    held = number = 0
    full = False
    while piece := file.readline(BLOCK):
        number += 1
        wanted = number >= start and not full and (count is None or len(chosen) < count)
        line = [piece] if wanted else []
        while not piece.endswith(b"\n") and (piece := file.readline(BLOCK)):
            if wanted:
                line.append(piece)
        if wanted:
            whole = b"".join(line).removesuffix(b"\n")
            held += len(whole)
            full = bool(chosen) and held > MOST
            chosen += [] if full else [whole]
    text = "\n".join(each.decode(errors="replace") for each in chosen)
    return Text(path, text, start, start + len(chosen) - 1, number)


def from_shelf(shelf: Shelf, *names_below: str) -> bytes | None:
    """A file below a shelf, or None."""
    try:
        folder = shelf.open(*names_below[:-1])
    except NotADirectoryError:
        return None
    if folder is None:
        return None
    with folder:
        return folder.read(names_below[-1])


def from_source(top: str, names_below: tuple[str, ...]) -> bytes | None:
    """A file of an attached source, entered from its top without following links."""
    try:
        with sources.entered(top, names_below[:-1]) as inside:
            return inside.read(names_below[-1])
    except (FileNotFoundError, NotADirectoryError):
        return None


def by_path(home: Home, caller: scopes.Caller, path: str) -> tuple[str, bytes | None]:
    """A file of memory by the path it is shown with."""
    clean = path.removeprefix(f"{home.path}/")
    for place in scopes.visible(caller):
        for shelf in scopes.shelves(home, caller, place):
            if clean.startswith(f"{shelf.label}/"):
                parts = clean.removeprefix(f"{shelf.label}/").split("/")
                if _readable(caller, parts):
                    return clean, from_shelf(shelf, *parts)
    for source in sources.visible(home, caller):
        inside = source.holds(path)
        if inside is not None:
            return path, from_source(*inside)
    raise OutsideMemory(f"{names.shown(path)} is not a file of this memory")


def _readable(caller: scopes.Caller, parts: list[str]) -> bool:
    """Whether names below a shelf are those of a record, a journal or a pinned document."""
    if caller.audience is Audience.GROUP and parts[0] == archive.JOURNAL:
        return False
    hidden = any(not part or part.startswith(".") for part in parts)
    return not hidden and parts[-1].endswith(".md") and len(parts) <= 2


@dataclass(frozen=True, slots=True)
class Version:
    """One archived version of a record's file, and the shelf it belongs on."""

    shelf: Shelf
    name: str
    image: archive.Image

    @property
    def key(self) -> str:
        """The key of the record."""
        return key_of(self.name)

    @property
    def why(self) -> str:
        """Why the record is gone."""
        return "deleted by hand" if self.image.why == archive.KEPT else self.image.why


def find_version(records: Records, name: str, places: Iterable[Place]) -> Version | None:
    """The version with that id, or the last of a record that is gone and answers to a key, number or id."""
    gone_records: list[Version] = []
    places = [*places]
    for shelf in (each for place in places for each in scopes.shelves(records.home, records.caller, place)):
        here = _files(shelf)
        unchanged = here.difference(archive.names(records.home, shelf, archive.RECORDS))
        for file in sorted(filter(is_record, _put_away(records, shelf) - unchanged)):
            for image in archive.images(records.home, shelf, archive.RECORDS, file):
                if image.id == name:
                    return Version(shelf, file, image)
            last = None if file in here else _last(records, shelf, file)
            if last is not None and _answers(records, last, name, places):
                gone_records.append(last)
    return max(gone_records, key=lambda each: each.image.at, default=None)


def replaced_versions(records: Records, found: Found) -> list[archive.Image]:
    """The last versions of other records that had this one's name and were forgotten, oldest first."""
    last: dict[str | None, archive.Image] = {}
    for image in archive.images(records.home, found.shelf, archive.RECORDS, found.name):
        own, _ = _names(records, Version(found.shelf, found.name, image))
        if image.why in archive.FORGOTTEN and own != found.record.id:
            last[own] = image
    return [*last.values()]


def gone_records(records: Records, places: Iterable[Place]) -> Iterator[Version]:
    """Every record that is no longer in its place and can be brought back, however it left."""
    places = [*places]
    living: set[str | None] = set()
    for shelf in (each for place in places for each in scopes.shelves(records.home, records.caller, place)):
        for file in sorted(filter(is_record, _put_away(records, shelf) - _files(shelf))):
            last = _last(records, shelf, file)
            own = None if last is None else _names(records, last)[0]
            living = living or {own for _, own in records.living(places)}
            if last is not None and (own is None or own not in living):  # one moved by hand is not gone
                yield last


def _put_away(records: Records, shelf: Shelf) -> set[str]:
    """The files of which anything is in the archive."""
    versions = archive.names(records.home, shelf, archive.RECORDS)
    return {*versions, *archive.kept_names(records.home, shelf, archive.RECORDS)}


def _files(shelf: Shelf) -> set[str]:
    try:
        folder = shelf.open(archive.RECORDS)
    except (OutsideMemory, NotADirectoryError):
        return set()
    if folder is None:
        return set()
    with folder:
        return set(folder.names(ordered=False))


def _last(records: Records, shelf: Shelf, file: str) -> Version | None:
    """What brings a file back: the version that was forgotten, or the log when it was deleted by hand."""
    images = archive.images(records.home, shelf, archive.RECORDS, file)
    log = [*archive.kept(records.home, shelf, archive.RECORDS, file)]
    newest = Version(shelf, file, images[-1]) if images else None
    if not log:
        return newest
    owner, entry = log[-1]
    if newest is not None and newest.image.why in archive.FORGOTTEN and _names(records, newest)[0] == owner:
        return newest
    at = re.sub(r"[-:]", "", entry.time or "")
    return Version(shelf, file, archive.log_image(shelf, archive.RECORDS, file, at=at))


def _answers(records: Records, version: Version, name: str, places: Iterable[Place]) -> bool:
    """Whether a name means this version; a file moved by hand left its log behind and is not gone."""
    key, deleted = key_of(version.name), version.image.why == archive.KEPT
    if name.removesuffix(".md") in (version.name.removesuffix(".md"), key):
        return not deleted or all(each != key for each, _ in records.living(places))
    own, num = _names(records, version)
    if deleted and name.isdecimal():
        num = short_numbers.number_of(records.home, own)
    return name in (own, str(num)) and all(each != own for _, each in records.living(places))


def _names(records: Records, version: Version) -> tuple[str | None, int | None]:
    """The id and number of an archived record; a log knows the id alone."""
    if version.image.why == archive.KEPT:
        log = [*archive.kept(records.home, version.shelf, archive.RECORDS, version.name)]
        return log[-1][0] if log else None, None
    try:
        content = records.home.read(*version.image.parts) or b""
        record = records.parse(version.shelf, version.name, content)
    except Malformed:
        return None, None
    return record.id, record.num
