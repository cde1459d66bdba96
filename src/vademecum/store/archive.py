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
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import files
from vademecum.store.folders import sync_all
from vademecum.text import clock, normalise
from vademecum.types import Entry, Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    parts = ("archive", *area(shelf), kind, name)
    image = _image(parts, content, why, at)
    with home.folder(*parts, create=True) as folder, contextlib.suppress(FileExistsError):
        folder.create(image.parts[-1], content)  # or there is the very same version of the very same moment
    return image


def _image(parts: tuple[str, ...], content: bytes, why: str, at: datetime) -> Image:
    moment = f"{clock.stamp(at).replace('-', '').replace(':', '')[:-1]}{at.microsecond:06d}Z"
    mark = files.digest(content)[:8]
    return Image((*parts, f"{moment}-{why}-{mark}.md"), moment, why, mark)


@dataclass(slots=True)
class FileTurn:
    """A file that is to hold something else, if it still holds what was seen; None for no file."""

    name: str
    before: bytes | None
    after: bytes | None
    why: str
    at: datetime
    staged: str = ""  # once it is about to happen: the name under which that is written

    def run(self, folder: files.DiskFolder, drafts: files.Drafts) -> bool:
        """Replace the file, or take it away; False when somebody saved it meanwhile, which stays."""
        if self.after is None:
            return drafts.take(folder, self.name, before=self.before or b"")
        return drafts.exchange(folder, self.staged, self.name, before=self.before, after=self.after)


def replace_all(
    home: Home,
    shelf: Shelf,
    kind: str,
    turns: Sequence[FileTurn],
    *,
    log: Callable[[Sequence[FileTurn]], None],
) -> list[FileTurn]:
    """Replace files whose locks are held: each step for all of them, and on disk, before the next one.

    1. What stands there goes to the archive, and what will stand there is written beside it.
    2. `log` says what is about to change: the audit, and the logs of kept entries.
    3. The files change places, each at once. A save of the last moment is put back; those are returned.

    A crash before 3 leaves every file as it was, with versions in the archive and lines in logs of changes
    that are yet to be made; amid 3, each file is the old or the new one, and its old version is archived.
    What was written beside the files is swept away by whoever writes there next.
    """
    with (
        home.disk(*shelf.parts, *(() if kind == PINNED else (kind,)), create=True) as folder,
        contextlib.ExitStack() as stack,
        files.Drafts() as drafts,
    ):
        folder.sweep()
        going, left = [], []
        for turn in turns:
            content, mode = files.look(folder, turn.name)
            if content == turn.before and content != turn.after:
                going.append((turn, mode))
            elif content != turn.after:
                left.append(turn)
        images = _write_images(home, shelf, kind, [turn for turn, _ in going], drafts=drafts, stack=stack)
        for turn, mode in going:
            gone = turn.after is None
            turn.staged = turn.name if gone else drafts.write(folder, turn.name, turn.after or b"", mode=mode)
        drafts.sync()
        _bring_in(images, drafts)
        log([turn for turn, _ in going])
        left += [turn for turn, _ in going if not turn.run(folder, drafts)]
        folder.sync()
        return left


class _StagedImage(NamedTuple):
    """A version that was written beside its place in the archive."""

    folder: files.DiskFolder
    staged: str
    name: str


def _write_images(
    home: Home,
    shelf: Shelf,
    kind: str,
    turns: Sequence[FileTurn],
    *,
    drafts: files.Drafts,
    stack: contextlib.ExitStack,
) -> list[_StagedImage]:
    """Write what files hold beside its places in the archive."""
    parts, kept = ("archive", *area(shelf), kind), [each for each in turns if each.before is not None]
    if not kept:
        return []
    with home.disk(*parts, create=True) as above:
        folders = above.enter_all(each.name for each in kept)
    for folder in folders.values():
        stack.callback(folder.close)
    found = []
    for each in kept:
        content, folder = each.before or b"", folders[each.name]
        image = _image((*parts, each.name), content, each.why, each.at).parts[-1]
        found.append(_StagedImage(folder, drafts.write(folder, image, content), image))
    return found


def _bring_in(staged: Sequence[_StagedImage], drafts: files.Drafts) -> None:
    """Put versions that are on disk in their places; they are there for good when this returns."""
    for each in staged:
        with contextlib.suppress(FileExistsError):  # the very same version of the very same moment
            drafts.create(each.folder, each.staged, each.name)
    sync_all([each.folder.fd for each in staged if each.folder.fd is not None])


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


class TakenEntries(NamedTuple):
    """Entries that are taken out of a file through us."""

    name: str
    record: str | None
    entries: Sequence[Entry]


def log_all_taken(home: Home, shelf: Shelf, kind: str, taken: Iterable[TakenEntries]) -> None:
    """Write down what is taken out of many files; all of it is on disk when this returns."""
    with contextlib.ExitStack() as stack:
        folder, pens = None, []
        for name, record, entries in taken:
            log = _states(home, shelf, kind, name)
            states = filter(None, (log.get((record, fingerprint(entry))) for entry in entries))
            lines = [_line(each._replace(taken=True)) for each in states if not each.taken]
            if lines:
                folder = folder or stack.enter_context(home.disk("archive", KEPT, *area(shelf), kind))
                pen = stack.enter_context(contextlib.closing(files.LogPen(folder, f"{name}.jsonl")))
                pen.write(b"\n".join(lines), sync=False)
                pens.append(pen)
        files.sync_pens(pens)


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
    with home.folder("archive", "kept", *area(shelf), kind, create=True) as folder:
        folder.append_line(f"{name}.jsonl", _line(state))


def _line(state: Kept) -> bytes:
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
    return json.dumps(line, ensure_ascii=False).encode()


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


def team_area(label: str, scope: str) -> tuple[str, str]:
    """The folders in the archive that belong to a folder of a team's files."""
    return "hub", f"{scope}-{hashlib.sha256(label.encode()).hexdigest()[:12]}"


def scope_of(area: tuple[str, ...]) -> str:
    """The scope that a part of the archive is of."""
    if area[0] == "hub":
        return area[1].partition("-")[0]
    return "project" if area[0] == "repository" else area[0]


def area(shelf: Shelf) -> tuple[str, ...]:
    """The folders in the archive that belong to a shelf."""
    if shelf.team:
        return team_area(shelf.label, shelf.place.scope)
    if shelf.shared:  # by path, as trust is: a project's id may change with its remote
        return "repository", hashlib.sha256(os.fsencode(os.path.realpath(shelf.top))).hexdigest()[:12]
    return shelf.parts[1:] if len(shelf.parts) > 2 else (*shelf.parts[1:], "_")
