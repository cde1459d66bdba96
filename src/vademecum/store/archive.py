"""Earlier versions of everything removed or rewritten, and a second copy of every saved entry.

`archive/<scope>/<id>/<kind>/<name>/<time>-<why>-<hash>.md` is a file exactly as it was. `archive/kept/` logs
each entry as it was acknowledged, and again when it is superseded or taken out: an editor that saves an old
buffer over a newer file cannot take it away, and the text of an entry in a shared folder can be told from one
that came through us.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import files
from vademecum.text import clock, normalise
from vademecum.types import Entry, Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from vademecum.store.home import Home, Shelf
    from vademecum.store.scopes import Caller

RECORDS = "records"
JOURNAL = "journal"
PINNED = "pinned"
KEPT = "kept"
CLEARED = "clear"
FORGOTTEN = ("forget", CLEARED, "retire")


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
    def day(self) -> str:
        """The day it was archived, as people write it."""
        return f"{self.at[:4]}-{self.at[4:6]}-{self.at[6:8]}"

    @property
    def path(self) -> str:
        """Where it lies, from the home."""
        return "/".join(self.parts)


class Kept(NamedTuple):
    """What the log knows of an entry: its record, how it stands, whether it was taken out through us.

    `said` names the sessions that said it: here, and not in the file, where anybody could write them.
    """

    record: str | None
    entry: Entry
    taken: bool = False
    said: tuple[str, ...] = ()
    writer: Mapping[str, str] = MappingProxyType({})  # who wrote it and through which program, if no person


def keep(home: Home, shelf: Shelf, kind: str, name: str, content: bytes, *, why: str, at: datetime) -> Image:
    """Put a version of a file away; on disk before it returns."""
    moment = f"{clock.stamp(at).replace('-', '').replace(':', '')[:-1]}{at.microsecond:06d}Z"
    parts = ("archive", *area(shelf), kind, name)
    with home.folder(*parts, create=True) as folder:
        mark = files.digest(content)[:8]
        image = Image((*parts, f"{moment}-{why}-{mark}.md"), moment, why, mark)
        with contextlib.suppress(FileExistsError):  # the very same version of the very same moment
            folder.create(image.parts[-1], content)
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


def log_kept(
    home: Home,
    shelf: Shelf,
    kind: str,
    name: str,
    entry: Entry,
    *,
    record: str | None,
    by: Caller | None = None,
) -> None:
    """Write down an entry as it was acknowledged, and who said it; the caller holds the lock of its file."""
    said = (by.speaker,) if by is not None and by.speaker else ()
    told = by.provenance if by is not None and (by.client or by.origin is not Origin.USER) else {}
    _log(home, shelf, kind, name, Kept(record, entry, said=said, writer=told))


def log_superseded(
    home: Home, shelf: Shelf, kind: str, name: str, entries: Iterable[Entry], *, record: str | None
) -> None:
    """Write down that entries were superseded, of those that were acknowledged here."""
    log = _states(home, shelf, kind, name)
    for entry in entries:
        state = log.get((record, fingerprint(entry)))
        if state is not None and state.entry.superseded != entry.superseded:
            marked = replace(state.entry, superseded=entry.superseded)
            _log(home, shelf, kind, name, state._replace(entry=marked))


def log_taken(
    home: Home, shelf: Shelf, kind: str, name: str, entries: Iterable[Entry], *, record: str | None
) -> None:
    """Write down that entries were taken out through us, so that nobody misses them."""
    log = _states(home, shelf, kind, name)
    for entry in entries:
        state = log.get((record, fingerprint(entry)))
        if state is not None and not state.taken:
            _log(home, shelf, kind, name, state._replace(taken=True))


def log_returned(
    home: Home, shelf: Shelf, kind: str, name: str, entries: Iterable[Entry], *, record: str | None
) -> None:
    """Write down that entries stand in the file again as they once were, of those acknowledged here."""
    log = _states(home, shelf, kind, name)
    for entry in entries:
        state = log.get((record, fingerprint(entry)))
        if state is not None and (state.taken or state.entry.superseded != entry.superseded):
            again = replace(state.entry, superseded=entry.superseded)
            _log(home, shelf, kind, name, Kept(state.record, again, writer=state.writer))


def kept(home: Home, shelf: Shelf, kind: str, name: str) -> Iterator[tuple[str | None, Entry]]:
    """Every entry that was acknowledged for a file, as it was last known, with the record it was for."""
    for state in _states(home, shelf, kind, name).values():
        yield state.record, state.entry


def log_said(
    home: Home, shelf: Shelf, kind: str, name: str, entry: Entry, *, record: str | None, by: str | None
) -> bool:
    """Write down that a session said an entry too; False when the entry was never acknowledged here."""
    state = _states(home, shelf, kind, name).get((record, fingerprint(entry)))
    if state is not None and by is not None and by not in state.said:
        _log(home, shelf, kind, name, state._replace(said=(by,)))
    return state is not None


def said(home: Home, shelf: Shelf, kind: str, name: str) -> dict[tuple[str | None, str], tuple[str, ...]]:
    """Which sessions said what, by record and fingerprint of the entry."""
    return {mark: state.said for mark, state in _states(home, shelf, kind, name).items()}


def writers(
    home: Home, shelf: Shelf, kind: str, name: str
) -> dict[tuple[str | None, str], Mapping[str, str]]:
    """Who wrote what and through which program, if no person, by record and fingerprint of the entry."""
    return {mark: state.writer for mark, state in _states(home, shelf, kind, name).items()}


def kept_names(home: Home, shelf: Shelf, kind: str) -> list[str]:
    """The files of a shelf for which entries were acknowledged, in no order."""
    logs = home.names("archive", "kept", *area(shelf), kind, ordered=False)
    return [name.removesuffix(".jsonl") for name in logs if name.endswith(".jsonl")]


def log_image(shelf: Shelf, kind: str, name: str, *, at: str) -> Image:
    """The log of a file in the place of an archived version, when the file is gone and no version is it."""
    return Image(("archive", "kept", *area(shelf), kind, f"{name}.jsonl"), at, KEPT, "")


def missing(
    home: Home, shelf: Shelf, kind: str, name: str, entries: Iterable[Entry], *, record: str | None
) -> list[Entry]:
    """Entries that were acknowledged and are no longer in the file as they were.

    An undated one has no place of its own to come back to; an edit through us left its text in the archive.
    """
    present = {fingerprint(entry) for entry in entries}
    return [
        state.entry
        for (owner, mark), state in _states(home, shelf, kind, name).items()
        if owner == record and mark not in present and state.entry.time is not None and not state.taken
    ]


def fingerprint(entry: Entry) -> str:
    """What makes two entries the same: their time and what they say."""
    return hashlib.sha256(f"{entry.time}\0{normalise(entry.text)}".encode()).hexdigest()


def _log(home: Home, shelf: Shelf, kind: str, name: str, state: Kept) -> None:
    entry = state.entry
    line: dict[str, Any] = {
        "record": state.record,
        "time": entry.time,
        "origin": str(entry.origin),
        "text": entry.text,
    }
    if entry.superseded is not None:
        line["superseded"] = entry.superseded
    if entry.part is not None:
        line["of"] = entry.part
    if entry.id is not None:
        line["id"] = entry.id
    if state.taken:
        line["taken"] = True
    if state.said:
        line["said"] = list(state.said)
    line |= state.writer
    with home.folder("archive", "kept", *area(shelf), kind, create=True) as folder:
        folder.append_line(f"{name}.jsonl", json.dumps(line, ensure_ascii=False).encode())


def _states(home: Home, shelf: Shelf, kind: str, name: str) -> dict[tuple[str | None, str], Kept]:
    """What the log says last of each entry, in the order in which they were first acknowledged."""
    found: dict[tuple[str | None, str], Kept] = {}
    content = home.read("archive", "kept", *area(shelf), kind, f"{name}.jsonl") or b""
    for raw in content.split(b"\n"):
        try:
            line: dict[str, Any] = json.loads(raw)
            entry = Entry(
                line["text"],
                line["time"],
                parse_origin(line["origin"]),
                line.get("superseded"),
                part=line.get("of"),
                id=line.get("id"),
            )
            known = found.get((line["record"], fingerprint(entry)))
            told = dict.fromkeys([*(known.said if known else ()), *map(str, line.get("said") or ())])
            wrote: dict[str, str] = {each: str(line[each]) for each in ("by", "client") if each in line}
            writer = known.writer if known and known.writer else wrote
            state = Kept(line["record"], entry, line.get("taken") is True, tuple(told), writer)
            found[state.record, fingerprint(entry)] = state
        except (ValueError, KeyError, TypeError):
            continue  # a stump left by a crash was never acknowledged
    return found


def area(shelf: Shelf) -> tuple[str, ...]:
    """The folders in the archive that belong to a shelf."""
    if shelf.shared:  # by path, as trust is: a project's id may change with its remote
        return "repository", hashlib.sha256(os.fsencode(os.path.realpath(shelf.top))).hexdigest()[:12]
    return shelf.parts[1:] if len(shelf.parts) > 2 else (*shelf.parts[1:], "_")
