"""Pre-images of everything removed or rewritten, and a second copy of every entry we were asked to keep.

`archive/<scope>/<id>/<kind>/<name>/<time>-<why>-<hash>.md` is a file exactly as it was. `archive/kept/` logs
each entry as it was acknowledged: an editor that saves an old buffer over a newer file cannot take it away,
and the text of an entry in a shared folder can be told from one that came through us.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import clock, document, files
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from vademecum.store.home import Home, Shelf

RECORDS = "records"
JOURNAL = "journal"
PINNED = "pinned"


class Image(NamedTuple):
    """One archived version of a file."""

    parts: tuple[str, ...]
    at: str
    why: str
    mark: str

    @property
    def id(self) -> str:
        """A short name for this version."""
        return f"{self.at}-{self.mark}"

    @property
    def path(self) -> str:
        """Where it lies, from the home."""
        return "/".join(self.parts)


def keep(home: Home, shelf: Shelf, kind: str, name: str, content: bytes, *, why: str, at: datetime) -> Image:
    """Put a version of a file away; on disk before it returns."""
    moment = f"{clock.stamp(at).replace('-', '').replace(':', '')[:-1]}{at.microsecond:06d}Z"
    parts = ("archive", *area(shelf), kind, name)
    with home.folder(*parts, create=True) as folder:
        mark = files.digest(content)[:8]
        image = Image((*parts, f"{moment}-{why}-{mark}.md"), moment, why, mark)
        with contextlib.suppress(FileExistsError):  # the very same version of the very same moment
            files.create(folder, image.parts[-1], content)
    return image


def images(home: Home, shelf: Shelf, kind: str, name: str) -> list[Image]:
    """All archived versions of a file, oldest first."""
    parts = ("archive", *area(shelf), kind, name)
    found = []
    for each in home.names(*parts):
        pieces = each.removesuffix(".md").split("-")
        if each.endswith(".md") and len(pieces) == 3:
            found.append(Image((*parts, each), *pieces))
    return found


def names(home: Home, shelf: Shelf, kind: str) -> list[str]:
    """The files of a shelf that have archived versions."""
    return home.names("archive", *area(shelf), kind)


def log_kept(home: Home, shelf: Shelf, kind: str, name: str, entry: Entry, *, record: str | None) -> None:
    """Write down an entry as it was acknowledged; the caller holds the lock of its file."""
    line = {"record": record, "time": entry.time, "origin": str(entry.origin), "text": entry.text}
    with home.folder("archive", "kept", *area(shelf), kind, create=True) as folder:
        files.append_line(folder, f"{name}.jsonl", json.dumps(line, ensure_ascii=False).encode())


def kept(home: Home, shelf: Shelf, kind: str, name: str) -> Iterator[tuple[str | None, Entry]]:
    """Every entry that was acknowledged for a file, with the record it was for."""
    content = home.read("archive", "kept", *area(shelf), kind, f"{name}.jsonl") or b""
    for raw in content.split(b"\n"):
        try:
            line: dict[str, Any] = json.loads(raw)
            yield line["record"], Entry(line["text"], line["time"], Origin(line["origin"]))
        except (ValueError, KeyError, TypeError):
            continue  # a stump left by a crash was never acknowledged


def missing(
    home: Home, shelf: Shelf, kind: str, name: str, entries: Iterable[Entry], *, record: str | None
) -> list[Entry]:
    """Entries that were acknowledged and are no longer in the file as they were."""
    present = {fingerprint(entry) for entry in entries}
    return [
        entry
        for owner, entry in kept(home, shelf, kind, name)
        if owner == record and fingerprint(entry) not in present
    ]


def fingerprint(entry: Entry) -> str:
    """What makes two entries the same: their time and what they say."""
    return hashlib.sha256(f"{entry.time}\0{document.normalised(entry.text)}".encode()).hexdigest()


def area(shelf: Shelf) -> tuple[str, ...]:
    """The folders in the archive that belong to a shelf."""
    if shelf.shared:  # by path, as trust is: a project's id may change with its remote
        return "repository", hashlib.sha256(os.fsencode(os.path.realpath(shelf.top))).hexdigest()[:12]
    return shelf.parts[1:] if len(shelf.parts) > 2 else (*shelf.parts[1:], "_")
