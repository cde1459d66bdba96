"""Lookup of a file's lines by its path, and of archived versions by a record's name or a version's id.

By path, a caller can read only files in sight. The archived version of a deleted record is found by the
record's name, any other by its id. A file deleted by hand is treated as a forgotten record: the archive and
the log of acknowledged entries still know its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import archive, history, scopes, short_numbers, sources
from vademecum.text import document, filenames, names, outgoing
from vademecum.text.filenames import is_record, key_of
from vademecum.types import Audience

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store.home import Home, ScopeFolder
    from vademecum.store.records import Found, Records
    from vademecum.types import Place

MOST = 8 * 1024 * 1024  # bytes of a log that one answer holds
BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileLines:
    """Lines of a file, as `get` returns them; none when the file is missing."""

    path: str
    text: str
    start: int = 1
    end: int = 0
    lines: int = 0


def lines_of(path: str, content: bytes | None, *, start: int = 1, count: int | None = None) -> FileLines:
    """Return `count` lines of a file, or all if None, from the line `start` on, counted from 1."""
    if content is None:
        return FileLines(path, "")
    every = document.decode(content).split("\n")
    if every[-1] == "":
        every.pop()
    chosen = every[start - 1 :] if count is None else every[start - 1 : start - 1 + count]
    return FileLines(path, "\n".join(chosen), start, start + len(chosen) - 1, len(every))


def clean_lines_of(
    path: str, content: bytes | None, *, start: int = 1, count: int | None = None
) -> FileLines:
    """Return a range of a file's lines without secrets; the whole file is cleaned first."""
    if content is not None:
        content = outgoing.clean_lines(document.decode(content)).encode()
    return lines_of(path, content, start=start, count=count)


def streamed(path: str, file: BinaryIO, *, start: int = 1, count: int | None = None) -> FileLines:
    """Read a range of lines from a file of any length; lines beyond the size of an answer are left out.

    An answer has at least one whole line. The field `lines` of the result is the number of all lines.
    """
    chosen: list[bytes] = []
    size = number = 0
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
            size += len(whole)
            full = bool(chosen) and size > MOST
            chosen += [] if full else [whole]
    text = "\n".join(each.decode(errors="replace") for each in chosen)
    return FileLines(path, text, start, start + len(chosen) - 1, number)


def from_source(top: str, names_below: tuple[str, ...]) -> bytes | None:
    """Return a file's content in an attached source, without following links; None when it does not exist."""
    try:
        with sources.entered(top, names_below[:-1]) as inside:
            return inside.read(names_below[-1])
    except (FileNotFoundError, NotADirectoryError):
        return None


def by_path(home: Home, caller: scopes.Caller, path: str) -> tuple[str, bytes | None]:
    """Return a visible file's path and content, by its path as shown to users; None for a missing content.

    Raise OutsideMemory for a path that is not that of a file visible to the caller.
    """
    clean = path.removeprefix(f"{home.path}/")
    for place in scopes.visible(caller):
        for scope_folder in scopes.scope_folders(home, caller, place):
            if clean.startswith(f"{scope_folder.label}/"):
                parts = clean.removeprefix(f"{scope_folder.label}/").split("/")
                if _readable(caller, parts):
                    return clean, scope_folder.read(*parts)
    for source in sources.visible(home, caller):
        inside = source.holds(path)
        if inside is not None:
            return path, from_source(*inside)
    raise OutsideMemory(f"{names.shown(path)} is not a file of this memory")


def _readable(caller: scopes.Caller, parts: list[str]) -> bool:
    """Return whether the path can be a record, journal day or pinned document; in groups, no journal day."""
    if caller.audience is Audience.GROUP and parts[0] == filenames.JOURNAL:
        return False
    hidden = any(not part or part.startswith(".") for part in parts)
    return not hidden and parts[-1].endswith(".md") and len(parts) <= 2


@dataclass(frozen=True, slots=True)
class Version:
    """One archived version of a record's file, and its folder."""

    scope_folder: ScopeFolder
    name: str
    image: archive.ArchivedVersion

    @property
    def key(self) -> str:
        """The key of the record."""
        return key_of(self.name)

    @property
    def why(self) -> str:
        """The reason why the record is gone."""
        by_hand = self.image.why in (archive.KEPT, archive.HAND)
        return "deleted by hand" if by_hand else self.image.why


def find_version(records: Records, name: str, places: Iterable[Place]) -> Version | None:
    """Return the version with this id, or the last one of a deleted record with this key, number or id."""
    gone_records: list[Version] = []
    places = [*places]
    for scope_folder in (
        each for place in places for each in scopes.scope_folders(records.home, records.caller, place)
    ):
        here = _files(scope_folder)
        unchanged = here.difference(archive.names(records.home, scope_folder, filenames.RECORDS))
        for file in sorted(filter(is_record, _put_away(records, scope_folder) - unchanged)):
            for image in archive.images(records.home, scope_folder, filenames.RECORDS, file):
                if image.id == name:
                    return Version(scope_folder, file, image)
            last = None if file in here else _last(records, scope_folder, file)
            if last is not None and _answers(records, last, name, places):
                gone_records.append(last)
    found = max(gone_records, key=lambda each: each.image.at, default=None)
    return found or _find_by_id(records, name, places)


def _find_by_id(records: Records, name: str, places: Sequence[Place]) -> Version | None:
    """Return the last version of the deleted record with this id, even if its file name was reused."""
    if not names.is_id(name) or any(own == name for _, own in records.living(places)):
        return None
    folders = [each for place in places for each in scopes.scope_folders(records.home, records.caller, place)]
    last = history.last_version(records.home, name, folders)
    if last is None or last.image.why not in archive.FORGOTTEN:
        return None
    return Version(last.scope_folder, last.name, last.image)


def replaced_versions(records: Records, found: Found) -> list[archive.ArchivedVersion]:
    """Return the last versions of forgotten records that once had this record's file name, oldest first."""
    last: dict[str | None, archive.ArchivedVersion] = {}
    for image in archive.images(records.home, found.scope_folder, filenames.RECORDS, found.name):
        own, _ = _names(records, Version(found.scope_folder, found.name, image))
        if image.why in archive.FORGOTTEN and own != found.record.id:
            last[own] = image
    return [*last.values()]


def gone_records(records: Records, places: Iterable[Place]) -> Iterator[Version]:
    """Yield the last version of each record that was archived or deleted and can be restored."""
    places = [*places]
    living: set[str | None] = set()
    for scope_folder in (
        each for place in places for each in scopes.scope_folders(records.home, records.caller, place)
    ):
        for file in sorted(filter(is_record, _put_away(records, scope_folder) - _files(scope_folder))):
            last = _last(records, scope_folder, file)
            own = None if last is None else _names(records, last)[0]
            living = living or {own for _, own in records.living(places)}
            if last is not None and (own is None or own not in living):  # one moved by hand is not gone
                yield last


def _put_away(records: Records, scope_folder: ScopeFolder) -> set[str]:
    """Return the names of the record files that have archived versions or logged entries."""
    versions = archive.names(records.home, scope_folder, filenames.RECORDS)
    return {*versions, *archive.kept_names(records.home, scope_folder, filenames.RECORDS)}


def _files(scope_folder: ScopeFolder) -> set[str]:
    try:
        folder = scope_folder.open(filenames.RECORDS)
    except (OutsideMemory, NotADirectoryError):
        return set()
    if folder is None:
        return set()
    with folder:
        return set(folder.names(ordered=False))


def _last(records: Records, scope_folder: ScopeFolder, file: str) -> Version | None:
    """Return the version that restores a file: the archived one, or the log of a file deleted by hand."""
    every = archive.images(records.home, scope_folder, filenames.RECORDS, file)
    log = [*archive.kept(records.home, scope_folder, filenames.RECORDS, file)]
    images = [image for image in every if image.why != archive.HAND]
    if not images and not log:
        images = every  # a sync brought the record, and somebody deleted its file
    newest = Version(scope_folder, file, images[-1]) if images else None
    if not log:
        return newest
    owner, entry = log[-1]
    if newest is not None and newest.image.why in archive.FORGOTTEN and _names(records, newest)[0] == owner:
        return newest
    at = re.sub(r"[-:]", "", entry.time or "")
    return Version(scope_folder, file, archive.log_image(scope_folder, filenames.RECORDS, file, at=at))


def _answers(records: Records, version: Version, name: str, places: Iterable[Place]) -> bool:
    """Return whether a name means this deleted record; False if the record still exists in another file."""
    key, deleted = key_of(version.name), version.image.why == archive.KEPT
    living = [*records.living(places)]
    own, num = _names(records, version)
    if (
        version.image.why in ("retire", archive.HAND)
        and own is not None
        and any(each == own for _, each in living)
    ):
        return False  # it was renamed or moved
    if name.removesuffix(".md") in (version.name.removesuffix(".md"), key):
        return not deleted or all(each != key for each, _ in living)
    if deleted and name.isdecimal():
        num = short_numbers.number_of(records.home, own)
    return name in (own, str(num)) and all(each != own for _, each in living)


def id_of(records: Records, version: Version) -> str | None:
    """Return the id of the record in an archived version; None without one."""
    return _names(records, version)[0]


def _names(records: Records, version: Version) -> tuple[str | None, int | None]:
    """Return id and number of the record in an archived version, each None where unknown.

    The log of a deleted file tells only the id.
    """
    if version.image.why == archive.KEPT:
        log = [*archive.kept(records.home, version.scope_folder, filenames.RECORDS, version.name)]
        return log[-1][0] if log else None, None
    try:
        content = records.home.read(*version.image.parts) or b""
        record = records.parse(version.scope_folder, version.name, content)
    except Malformed:
        return None, None
    return record.id, record.num
