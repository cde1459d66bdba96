"""Keeper of earlier versions: of every removed or rewritten file, and of every saved entry a second copy.

`archive/<scope>/<id>/<kind>/<name>/<time>-<why>-<hash>.md` holds a file exactly as it was. `archive/kept/`
holds a log of acknowledged entries: a line when an entry is saved, superseded or removed. So an entry is not
lost when an editor saves an old buffer over a newer file, and in a shared folder the log tells which entries
this program wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed
from vademecum.named_tuple import NamedTuple
from vademecum.store import files
from vademecum.store.folders import sync_all
from vademecum.text import clock, document, filenames, normalise
from vademecum.types import Entry, Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store.backend import Directory
    from vademecum.store.home import Home, ScopeFolder
    from vademecum.store.scopes import Caller

KEPT = "kept"
CLEARED = "clear"
FORGOTTEN = ("forget", CLEARED, "retire")
HAND = "hand"  # a text that a person replaced in the file itself, archived when the program next saves


class ArchivedVersion(NamedTuple):
    """One archived version of a file."""

    parts: tuple[str, ...]
    at: str
    why: str
    mark: str

    @property
    def id(self) -> str:
        """Return the version's id: a short name for commands."""
        return f"{self.at}-{self.mark}"

    @property
    def day(self) -> str:
        """Return the day on which the version was archived, as `YYYY-MM-DD`."""
        return f"{self.at[:4]}-{self.at[4:6]}-{self.at[6:8]}"

    @property
    def time(self) -> str:
        """Return the time at which the version was archived, as records write it: 2026-11-15T09:30:00Z."""
        return f"{self.day}T{self.at[9:11]}:{self.at[11:13]}:{self.at[13:15]}Z"

    @property
    def path(self) -> str:
        """Return the version's path below the home."""
        return "/".join(self.parts)


class StoredEntry(NamedTuple):
    """The state of an entry in the log: its record, its content, and whether a command removed it.

    `said` names the sessions that said the entry. They stand in the log and not in the file, where anybody
    could write them.
    """

    record: str | None
    entry: Entry
    taken: bool = False
    said: tuple[str, ...] = ()
    writer: Mapping[str, str] = MappingProxyType({})  # who wrote it and through which program, if no person


def keep(
    home: Home, scope_folder: ScopeFolder, kind: str, name: str, content: bytes, *, why: str, at: datetime
) -> ArchivedVersion:
    """Save a version of a file in the archive; it is on disk when this returns.

    If entries of a record were reworded or removed by hand, the text from before that edit is saved too. Only
    the log of entries had that text, and the log belongs to a file name, which may change.
    """
    parts = ("archive", *area(scope_folder), kind, name)
    earlier = None if why in (HAND, "conflict") else _before_hand(home, scope_folder, kind, name, content)
    if earlier is not None and all(
        each.mark != files.digest(earlier)[:8] for each in images(home, scope_folder, kind, name)
    ):
        keep(home, scope_folder, kind, name, earlier, why=HAND, at=at)
    image = _image(parts, content, why, at)
    with home.folder(*parts, create=True) as folder, contextlib.suppress(FileExistsError):
        folder.create(image.parts[-1], content)  # or there is the very same version of the very same moment
    return image


def changed_by_hand(home: Home, scope_folder: ScopeFolder, folder: Directory, name: str) -> datetime | None:
    """Return when a record's file was saved if somebody changed it by hand, else None.

    A file counts as changed by hand if its entries are not those that are logged for it.
    """
    state, content = folder.stat(name), folder.read(name)
    if content is None or state is None:
        return None
    try:
        record, entries = document.record_id(content), document.parse(document.decode(content)).entries
    except Malformed:
        return None
    logged = states(home, scope_folder, filenames.RECORDS, name)
    own = {mark: each for (owner, mark), each in logged.items() if owner == record}
    here = {fingerprint(entry) for entry in entries}
    standing = {mark for mark, each in own.items() if not each.taken and each.entry.time}
    by_hand = bool(own) and not (here <= own.keys() and standing <= here)
    return clock.from_seconds(state.st_mtime) if by_hand else None


def _before_hand(home: Home, scope_folder: ScopeFolder, kind: str, name: str, content: bytes) -> bytes | None:
    """Return a record's text with the entries that an edit by hand has removed; None without such entries."""
    if kind != filenames.RECORDS:
        return None
    try:
        text = document.decode(content)
        record, entries = document.record_id(content), document.parse(text).entries
        lost = missing(home, scope_folder, kind, name, entries, record=record)
        for entry in lost:
            text = document.put_back(text, entry)
    except Malformed:
        return None
    return text.encode() if lost else None


def _image(parts: tuple[str, ...], content: bytes, why: str, at: datetime) -> ArchivedVersion:
    moment = f"{clock.stamp(at).replace('-', '').replace(':', '')[:-1]}{at.microsecond:06d}Z"
    mark = files.digest(content)[:8]
    return ArchivedVersion((*parts, f"{moment}-{why}-{mark}.md"), moment, why, mark)


class FileTurn:
    """A change of one file, applied only while the file's content is still `before`; None means no file."""

    __slots__ = "after", "at", "before", "name", "staged", "why"

    def __init__(self, name: str, before: bytes | None, after: bytes | None, why: str, at: datetime) -> None:
        self.name, self.before, self.after, self.why, self.at = name, before, after, why, at
        self.staged = ""  # once it is about to happen: the name under which that is written

    def run(self, folder: files.DiskFolder, drafts: files.Drafts) -> bool:
        """Replace or remove the file; return False, and leave the file, when somebody saved it meanwhile."""
        if self.after is None:
            return drafts.take(folder, self.name, before=self.before or b"")
        return drafts.exchange(folder, self.staged, self.name, before=self.before, after=self.after)


def replace_all(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    turns: Sequence[FileTurn],
    *,
    log: Callable[[Sequence[FileTurn]], None],
) -> list[FileTurn]:
    """Replace or remove files whose locks are held; return the turns of files that somebody saved meanwhile.

    A file that already has its new content is skipped. Each step is on disk for all files before the next.

    1. Save the current contents in the archive, and write the new contents to temporary files.
    2. Call `log` to announce the changes: it writes to the audit and to the logs of kept entries.
    3. Rename the new files into place. A file that a person saved meanwhile stays.

    After a crash before step 3 no file is changed, but the archive and the logs may already list the changes.
    After a crash during step 3 each file is the old or the new one, and the old one is archived. The next
    writer in the folder removes the temporary files.
    """
    with (
        home.disk(*scope_folder.parts, *(() if kind == filenames.PINNED else (kind,)), create=True) as folder,
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
        images = _write_images(
            home, scope_folder, kind, [turn for turn, _ in going], drafts=drafts, stack=stack
        )
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
    """An archived version that is still under its temporary name."""

    folder: files.DiskFolder
    staged: str
    name: str


def _write_images(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    turns: Sequence[FileTurn],
    *,
    drafts: files.Drafts,
    stack: contextlib.ExitStack,
) -> list[_StagedImage]:
    """Write the current content of files to temporary names in the archive."""
    parts, stored_turns = (
        ("archive", *area(scope_folder), kind),
        [each for each in turns if each.before is not None],
    )
    if not stored_turns:
        return []
    with home.disk(*parts, create=True) as above:
        folders = above.enter_all(each.name for each in stored_turns)
    for folder in folders.values():
        stack.callback(folder.close)
    found = []
    for each in stored_turns:
        content, folder = each.before or b"", folders[each.name]
        earlier = _before_hand(home, scope_folder, kind, each.name, content)
        if earlier is not None:
            own = _image((*parts, each.name), earlier, HAND, each.at).parts[-1]
            found.append(_StagedImage(folder, drafts.write(folder, own, earlier), own))
        image = _image((*parts, each.name), content, each.why, each.at).parts[-1]
        found.append(_StagedImage(folder, drafts.write(folder, image, content), image))
    return found


def _bring_in(staged: Sequence[_StagedImage], drafts: files.Drafts) -> None:
    """Rename the written versions to their final names, durably."""
    for each in staged:
        with contextlib.suppress(FileExistsError):  # the very same version of the very same moment
            drafts.create(each.folder, each.staged, each.name)
    sync_all([each.folder.fd for each in staged if each.folder.fd is not None])


def images(home: Home, scope_folder: ScopeFolder, kind: str, name: str) -> list[ArchivedVersion]:
    """Return all archived versions of a file, oldest first."""
    parts = ("archive", *area(scope_folder), kind, name)
    found = []
    for each in home.names(*parts):
        pieces = each.removesuffix(".md").split("-")
        if each.endswith(".md") and len(pieces) == 3:
            found.append(ArchivedVersion((*parts, each), *pieces))
    return found


def names(home: Home, scope_folder: ScopeFolder, kind: str) -> list[str]:
    """Return the names of a folder's files that have archived versions."""
    return home.names("archive", *area(scope_folder), kind)


def log_entry(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    name: str,
    entry: Entry,
    *,
    record: str | None,
    by: Caller | None = None,
) -> None:
    """Log an acknowledged entry with the session that `by` names; the caller holds the lock of the file.

    The writer and its program are logged too, unless a person wrote the entry without naming a program.
    """
    speakers = (by.speaker,) if by is not None and by.speaker else ()
    writer = by.provenance if by is not None and (by.client or by.origin is not Origin.USER) else {}
    _log(home, scope_folder, kind, name, StoredEntry(record, entry, said=speakers, writer=writer))


def log_superseded(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    name: str,
    entries: Iterable[Entry],
    *,
    record: str | None,
) -> None:
    """Log the changed `superseded` times of entries; entries that are not in the log are ignored."""
    log = states(home, scope_folder, kind, name)
    for entry in entries:
        state = log.get((record, fingerprint(entry)))
        if state is not None and state.entry.superseded != entry.superseded:
            marked = replace(state.entry, superseded=entry.superseded)
            _log(home, scope_folder, kind, name, state._replace(entry=marked))


def log_removed(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    name: str,
    entries: Iterable[Entry],
    *,
    record: str | None,
) -> None:
    """Log that a command removed entries, so that `missing` does not report them."""
    log = states(home, scope_folder, kind, name)
    for entry in entries:
        state = log.get((record, fingerprint(entry)))
        if state is not None and not state.taken:
            _log(home, scope_folder, kind, name, state._replace(taken=True))


class RemovedEntries(NamedTuple):
    """The entries that a command removes from a file."""

    name: str
    record: str | None
    entries: Sequence[Entry]


def log_all_removed(
    home: Home, scope_folder: ScopeFolder, kind: str, removals: Iterable[RemovedEntries]
) -> None:
    """Log the removed entries of many files; all lines are on disk when this returns."""
    with contextlib.ExitStack() as stack:
        folder, pens = None, []
        for name, record, entries in removals:
            log = states(home, scope_folder, kind, name)
            logged = filter(None, (log.get((record, fingerprint(entry))) for entry in entries))
            lines = [_line(each._replace(taken=True)) for each in logged if not each.taken]
            if lines:
                folder = folder or stack.enter_context(home.disk("archive", KEPT, *area(scope_folder), kind))
                pen = stack.enter_context(contextlib.closing(files.LogPen(folder, f"{name}.jsonl")))
                pen.write(b"\n".join(lines), sync=False)
                pens.append(pen)
        files.sync_pens(pens)


def log_returned(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    name: str,
    entries: Iterable[Entry],
    *,
    record: str | None,
) -> None:
    """Log that removed entries are in the file again, or have another `superseded` time.

    Entries that are not in the log are ignored.
    """
    log = states(home, scope_folder, kind, name)
    for entry in entries:
        state = log.get((record, fingerprint(entry)))
        if state is not None and (state.taken or state.entry.superseded != entry.superseded):
            again = replace(state.entry, superseded=entry.superseded)
            _log(home, scope_folder, kind, name, StoredEntry(state.record, again, writer=state.writer))


def kept(home: Home, scope_folder: ScopeFolder, kind: str, name: str) -> Iterator[tuple[str | None, Entry]]:
    """Yield the record id and last logged state of each entry in a file's log, removed entries included."""
    for state in states(home, scope_folder, kind, name).values():
        yield state.record, state.entry


def log_session(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    name: str,
    entry: Entry,
    *,
    record: str | None,
    by: str | None,
) -> bool:
    """Log that the session `by` said an entry; return False for an entry that is not in the log.

    Nothing is logged if `by` is None or the log already has the session.
    """
    state = states(home, scope_folder, kind, name).get((record, fingerprint(entry)))
    if state is not None and by is not None and by not in state.said:
        _log(home, scope_folder, kind, name, state._replace(said=(by,)))
    return state is not None


def said(
    home: Home, scope_folder: ScopeFolder, kind: str, name: str
) -> dict[tuple[str | None, str], tuple[str, ...]]:
    """Return the sessions that said each entry, by record and fingerprint of the entry."""
    return {mark: state.said for mark, state in states(home, scope_folder, kind, name).items()}


def writers(
    home: Home, scope_folder: ScopeFolder, kind: str, name: str
) -> dict[tuple[str | None, str], Mapping[str, str]]:
    """Return each entry's logged writer and program, by record and fingerprint; empty if none is logged."""
    return {mark: state.writer for mark, state in states(home, scope_folder, kind, name).items()}


def kept_names(home: Home, scope_folder: ScopeFolder, kind: str) -> list[str]:
    """Return the names of a folder's files that have acknowledged entries, in no order."""
    logs = home.names("archive", "kept", *area(scope_folder), kind, ordered=False)
    return [name.removesuffix(".jsonl") for name in logs if name.endswith(".jsonl")]


def log_image(scope_folder: ScopeFolder, kind: str, name: str, *, at: str) -> ArchivedVersion:
    """Return the log of a deleted file's entries in the form of an archived version."""
    return ArchivedVersion(("archive", "kept", *area(scope_folder), kind, f"{name}.jsonl"), at, KEPT, "")


def missing(
    home: Home,
    scope_folder: ScopeFolder,
    kind: str,
    name: str,
    entries: Iterable[Entry],
    *,
    record: str | None,
) -> list[Entry]:
    """Return the logged entries of a record that are not among `entries` and that no command removed.

    Entries without a time are left out: they have no place to be restored to, and if an edit through this
    program removed them, their text is in the archive.
    """
    present = {fingerprint(entry) for entry in entries}
    return [
        state.entry
        for (owner, mark), state in states(home, scope_folder, kind, name).items()
        if owner == record and mark not in present and state.entry.time is not None and not state.taken
    ]


def fingerprint(entry: Entry) -> str:
    """Return a hash of an entry's time and normalised text."""
    return hashlib.sha256(f"{entry.time}\0{normalise(entry.text)}".encode()).hexdigest()


def _log(home: Home, scope_folder: ScopeFolder, kind: str, name: str, state: StoredEntry) -> None:
    with home.folder("archive", "kept", *area(scope_folder), kind, create=True) as folder:
        folder.append_line(f"{name}.jsonl", _line(state))


def _line(state: StoredEntry) -> bytes:
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


def states(
    home: Home, scope_folder: ScopeFolder, kind: str, name: str
) -> dict[tuple[str | None, str], StoredEntry]:
    """Return each entry's last logged state with all its sessions, by record and fingerprint.

    The states are in the order in which their entries were first logged.
    """
    found: dict[tuple[str | None, str], StoredEntry] = {}
    content = home.read("archive", "kept", *area(scope_folder), kind, f"{name}.jsonl") or b""
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
            sessions = dict.fromkeys([*(known.said if known else ()), *map(str, line.get("said") or ())])
            wrote: dict[str, str] = {each: str(line[each]) for each in ("by", "client") if each in line}
            writer = known.writer if known and known.writer else wrote
            state = StoredEntry(line["record"], entry, line.get("taken") is True, tuple(sessions), writer)
            found[state.record, fingerprint(entry)] = state
        except (ValueError, KeyError, TypeError):
            continue  # a stump left by a crash was never acknowledged
    return found


def team_area(label: str, scope: str) -> tuple[str, str]:
    """Return the archive's folder names for a folder of a team."""
    return "hub", f"{scope}-{hashlib.sha256(label.encode()).hexdigest()[:12]}"


def scope_of(area: tuple[str, ...]) -> str:
    """Return the name of the scope to which folder names returned by `area` belong."""
    if area[0] == "hub":
        return area[1].partition("-")[0]
    return "project" if area[0] == "repository" else area[0]


def area(scope_folder: ScopeFolder) -> tuple[str, ...]:
    """Return the archive's folder names for a scope folder."""
    if scope_folder.team:
        return team_area(scope_folder.label, scope_folder.place.scope)
    if scope_folder.shared:  # by path, as trust is: a project's id may change with its remote
        return "repository", hashlib.sha256(os.fsencode(os.path.realpath(scope_folder.top))).hexdigest()[:12]
    return scope_folder.parts[1:] if len(scope_folder.parts) > 2 else (*scope_folder.parts[1:], "_")
