"""Finding what was put away: forgotten records by name, and any archived version by its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.store import archive, scopes

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
    """The version with that id, or the newest forgotten one that answers to a key, number or record id."""
    newest: Version | None = None
    for version in _every(records, places):
        if version.image.id == name:
            return version
        forgotten = version.image.why in ("forget", "clear") and not _is_back(version)
        if forgotten and _answers(records, version, name):
            newest = version if newest is None or version.image.at > newest.image.at else newest
    return newest


def _every(records: Records, places: Iterable[Place]) -> Iterator[Version]:
    for place in places:
        for shelf in scopes.shelves(records.home, records.caller, place):
            for name in archive.names(records.home, shelf, archive.RECORDS):
                for image in archive.images(records.home, shelf, archive.RECORDS, name):
                    yield Version(shelf, name, image)


def _is_back(version: Version) -> bool:
    """Whether a file of that name is in its place again."""
    folder = version.shelf.open(archive.RECORDS)
    if folder is None:
        return False
    with folder:
        return folder.stat(version.name) is not None


def _answers(records: Records, version: Version, name: str) -> bool:
    if version.name.removesuffix(".md") == name.removesuffix(".md"):
        return True
    content = records.home.read(*version.image.parts) or b""
    record = records.parse(version.shelf, version.name, content)
    return name in (record.id, str(record.num))
