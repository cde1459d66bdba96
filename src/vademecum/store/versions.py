"""Finding what was put away: records that are gone, by name, and any archived version by its id.

A file that was deleted by hand counts as gone like one that was forgotten: the archive and the log of
acknowledged entries still know it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import archive, scopes, short_numbers
from vademecum.store.records import Found, is_record, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.store.home import Shelf
    from vademecum.store.records import Records
    from vademecum.types import Place


@dataclass(frozen=True, slots=True)
class Version:
    """One archived version of a record's file, and the shelf it belongs on."""

    shelf: Shelf
    name: str
    image: archive.Image


def find(records: Records, name: str, places: Iterable[Place]) -> Version | None:
    """The version with that id, or the last of a record that is gone and answers to a key, number or id."""
    gone: list[Version] = []
    places = [*places]
    for shelf in (each for place in places for each in scopes.shelves(records.home, records.caller, place)):
        here = _files(shelf)
        for file in _put_away(records, shelf):
            for image in archive.images(records.home, shelf, archive.RECORDS, file):
                if image.id == name:
                    return Version(shelf, file, image)
            last = None if file in here else _last(records, shelf, file)
            if last is not None and _answers(records, last, name, places):
                gone.append(last)
    return max(gone, key=lambda each: each.image.at, default=None)


def replaced(records: Records, found: Found) -> list[archive.Image]:
    """The last versions of other records that had this one's name and were forgotten, oldest first."""
    last: dict[str | None, archive.Image] = {}
    for image in archive.images(records.home, found.shelf, archive.RECORDS, found.name):
        own, _ = _names(records, Version(found.shelf, found.name, image))
        if image.why in archive.FORGOTTEN and own != found.record.id:
            last[own] = image
    return [*last.values()]


def gone(records: Records, places: Iterable[Place]) -> Iterator[Version]:
    """Every record that is no longer in its place and can be brought back, however it left."""
    places = [*places]
    living = {own for _, own in records.living(places)}
    for shelf in (each for place in places for each in scopes.shelves(records.home, records.caller, place)):
        here = _files(shelf)
        for file in _put_away(records, shelf):
            last = None if file in here else _last(records, shelf, file)
            own = None if last is None else _names(records, last)[0]
            if last is not None and (own is None or own not in living):  # one moved by hand is not gone
                yield last


def _put_away(records: Records, shelf: Shelf) -> list[str]:
    """The files of which anything is in the archive."""
    versions = archive.names(records.home, shelf, archive.RECORDS)
    return sorted(filter(is_record, {*versions, *archive.kept_names(records.home, shelf, archive.RECORDS)}))


def _files(shelf: Shelf) -> set[str]:
    try:
        folder = shelf.open(archive.RECORDS)
    except (OutsideMemory, NotADirectoryError):
        return set()
    if folder is None:
        return set()
    with folder:
        return set(folder.names())


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
