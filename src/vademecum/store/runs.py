"""Runs: groups of edits made together, each edit with the earlier version, so that a run can be undone.

`archive/runs/<run>.jsonl` lists what a run did, without any text. A line is on disk before its file is
changed, so a killed run is known as far as it came and can be undone as far. An edit names the content for
which it was planned: a file with any other content is left alone and reported.

To plan many changes, `Staged` offers records as they would be: each write is kept in memory beside the
files, and becomes one edit for each file.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Collision, Malformed, NotFound, OutsideMemory
from vademecum.store import archive, audit, files, people, scopes, tombstones
from vademecum.store.home import Home
from vademecum.store.merge import Joining
from vademecum.store.records import Found, Records, in_folder
from vademecum.text import clock, document, filenames, frontmatter, names, normalise
from vademecum.text.document import decode
from vademecum.text.filenames import is_record, key_of
from vademecum.types import Audience, Change, ChangeKind, Entry, Origin, Place, Record, Scope, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store.backend import Directory
    from vademecum.store.catalogue import Catalogue
    from vademecum.store.home import ScopeFolder
    from vademecum.store.merge import Draft

    _File = tuple[str, str, str, str]

CHANGED = "changed meanwhile"
LOSSY = "would remove text"
BY_ITSELF = "sweep by itself"  # what a run of an automatic sweep is called
ELSEWHERE = "it belongs to another project, agent or session"
_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{11}")


class Edit(NamedTuple):
    """A planned change of one file: its content when the change was planned, and its new content."""

    scope_folder: ScopeFolder
    kind: str  # one of the kinds in `filenames`: RECORDS, JOURNAL or PINNED
    name: str
    before: bytes | None  # None: there is no such file yet
    after: bytes | None  # None: the whole file goes to the archive

    @property
    def path(self) -> str:
        """Return the file's path as users see it."""
        return self.scope_folder.name_of(*_below(self.kind), self.name)


class EditResult(NamedTuple):
    """The result of an edit: done, or the reason why not."""

    path: str
    done: bool
    why: str = ""


class Brief(NamedTuple):
    """A run's entry in the list of runs."""

    run: str
    what: str
    at: str
    edits: int
    undone: bool
    tried: bool = False  # an undo went through it, and had to leave what was changed since
    places: frozenset[Place] = frozenset()


@dataclass(slots=True)
class Run:
    """A run of edits; it begins with its first edit."""

    home: Home
    caller: scopes.Caller
    now: Callable[[], datetime]
    announce: Callable[[Change], None]
    what: str
    id: str = ""
    retired_as: str = "retire"  # why a file that goes as a whole is in the archive
    _lines: int = field(default=0)
    _swept: set[str] = field(default_factory=set)

    def do(self, edit: Edit, operation: str, *, replacing: bool = False) -> EditResult:
        """Apply an edit, or return why it was refused, such as when its file has changed since the planning.

        An edit that would lose a text is refused, except with `replacing`, for text generated earlier.
        """
        if not edit.scope_folder.trusted:
            return EditResult(edit.path, False, "its folder is not trusted")
        if not replacing and not is_text_kept(edit):
            return EditResult(edit.path, False, LOSSY)
        if people.barred(self.home, self.caller, edit.before, edit.after, kind=edit.kind):
            return EditResult(edit.path, False, people.WHY)
        if tombstones.brought(self.home, edit.before, edit.after, kind=edit.kind) is not None:
            return EditResult(edit.path, False, tombstones.WHY)
        with self.home.lock(_lock(edit)), _folder(edit, create=edit.after is not None) as folder:
            if folder is None or folder.read(edit.name) != edit.before:
                return EditResult(edit.path, False, CHANGED)
            self._begin()
            records = edit.kind == filenames.RECORDS
            since = (
                archive.changed_by_hand(self.home, edit.scope_folder, folder, edit.name) if records else None
            )
            image = None
            if edit.before is not None:
                why = self.retired_as if edit.after is None else "revise"
                image = self._keep(edit, edit.before, why)
            self._note(edit, image)
            _sweep_once(folder, self._swept)
            try:
                _replace(folder, edit)
            except _Changed:
                return EditResult(edit.path, False, CHANGED)
            self._tell(edit, operation, since)
        self._announce(edit)
        return EditResult(edit.path, True)

    def _begin(self) -> None:
        if self.id:
            return
        moment = self.now()
        at = clock.stamp(moment)
        # The microseconds first, so that runs of one second are listed in their order.
        self.id = f"{re.sub('[-:]', '', at)}-{moment.microsecond:05x}{names.new_id()[-6:]}"
        _append(self.home, self.id, {"run": self.id, "what": self.what, "at": at, "by": self.caller.actor})

    def _keep(self, edit: Edit, content: bytes, why: str) -> archive.ArchivedVersion:
        return archive.keep(
            self.home, edit.scope_folder, edit.kind, edit.name, content, why=why, at=self.now()
        )

    def _note(self, edit: Edit, image: archive.ArchivedVersion | None) -> None:
        self._lines += 1
        line: dict[str, Any] = {
            "edit": self._lines,
            "scope": str(edit.scope_folder.place.scope),
            "id": edit.scope_folder.place.id,
            "label": edit.scope_folder.label,
            "top": str(edit.scope_folder.top) if edit.scope_folder.outside else "",
            "kind": edit.kind,
            "name": edit.name,
            "image": None if image is None else list(image.parts),
            "before": None if edit.before is None else files.digest(edit.before),
            "after": None if edit.after is None else files.digest(edit.after),
        }
        _append(self.home, self.id, line)

    def _tell(self, edit: Edit, operation: str, since: datetime | None) -> None:
        """Log the entries that an edit adds, and write a line to the audit."""
        record, num = _ids(edit.after if edit.after is not None else edit.before or b"")
        if edit.after is not None:
            _log_brought(self.home, edit, record)
        audit.write(
            self.home,
            at=self.now(),
            actor=self.caller.actor,
            client=self.caller.client,
            operation=operation,
            run=self.id,
            scope=edit.scope_folder.place.scope,
            record=record,
            num=num,
            since=since,
            before=edit.before,
            after=edit.after,
        )

    def _announce(self, edit: Edit) -> None:
        kind = ChangeKind.REMOVED if edit.after is None else ChangeKind.WRITTEN
        self.announce(Change(kind, edit.scope_folder.place, edit.path))


# -------------------------------------------------------------------- looking back, and going back


def every(home: Home) -> list[Brief]:
    """Return all runs, newest first."""
    found = []
    for name in home.names("archive", "runs"):
        run = name.removesuffix(".jsonl")
        if _RUN.fullmatch(run):
            lines = [*_lines(home, run)]
            head = lines[0] if lines and lines[0].get("run") == run else {}
            edits = [line for line in lines if "edit" in line]
            gone = {line["undone"] for line in lines if "undone" in line}
            undone = bool(edits) and all(line["edit"] in gone for line in edits)
            tried = any("tried" in line for line in lines)
            what, at = str(head.get("what", "")), str(head.get("at", ""))
            places = frozenset(_places(edits))
            found.append(Brief(run, what, at, len(edits), undone, tried, places))
    return sorted(found, key=lambda each: each.run, reverse=True)


def archived_automatically(home: Home, scope_folder: ScopeFolder) -> set[tuple[str, str, str]]:
    """Return the files of a folder that automatic sweeps archived and no undo put back.

    Each is named by its kind, its name and the digest of the archived content.
    """
    found: set[tuple[str, str, str]] = set()
    place = scope_folder.place
    for name in home.names("archive", "runs"):
        run = name.removesuffix(".jsonl")
        lines = [*_lines(home, run)] if _RUN.fullmatch(run) else []
        if not lines or lines[0].get("what") != BY_ITSELF:
            continue
        undone = {line["undone"] for line in lines if "undone" in line}
        for line in lines:
            where = line.get("scope"), line.get("id"), line.get("label")
            here = where == (str(place.scope), place.id, scope_folder.label)
            if here and line.get("after") is None and line.get("before") and line["edit"] not in undone:
                found.add((str(line["kind"]), str(line["name"]), str(line["before"])))
    return found


def paths(home: Home, run: str) -> frozenset[str]:
    """Return the paths of the files that a run changed, as users see them."""
    lines = (line for line in _lines(home, run) if "edit" in line)
    return frozenset(
        "/".join((str(line.get("label")), *_below(str(line.get("kind"))), str(line.get("name"))))
        for line in lines
    )


def of(home: Home, caller: scopes.Caller) -> list[Brief]:
    """Return the runs that changed files in places that the caller can see, newest first."""
    return [each for each in every(home) if any(place in reach(caller, place) for place in each.places)]


def _places(edits: Iterable[dict[str, Any]]) -> Iterator[Place]:
    for line in edits:
        with contextlib.suppress(KeyError, ValueError):
            yield Place(Scope(line["scope"]), str(line["id"]))


def undo(
    home: Home,
    caller: scopes.Caller,
    run: str | None,
    *,
    now: Callable[[], datetime],
    announce: Callable[[Change], None],
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[str, Sequence[EditResult]]:
    """Revert a run, or with None the newest run that no undo has tried; return its id and each edit's result.

    Files are restored byte for byte. A file that was changed since then is reverted only if no text is lost,
    and otherwise stays and is reported.
    """
    chosen = _chosen(home, caller, run)
    lines = [*_lines(home, chosen)]
    undone = {line["undone"] for line in lines if "undone" in line}
    edits = [line for line in lines if "edit" in line and line["edit"] not in undone]
    results: list[EditResult] = []
    swept: set[str] = set()  # a run that was killed may have left something lying about
    # Backwards: a file may have been edited twice, and what was written first is taken away last.
    for done, line in enumerate(reversed(edits)):
        if progress is not None:
            progress("undo", done, len(edits))
        results.append(_undo_one(home, caller, chosen, line, now=now, announce=announce, swept=swept))
    if not all(each.done or each.why == ELSEWHERE for each in results):
        _append(home, chosen, {"tried": clock.stamp(now())})
    return chosen, results


def _undo_one(
    home: Home,
    caller: scopes.Caller,
    run: str,
    line: dict[str, Any],
    *,
    now: Callable[[], datetime],
    announce: Callable[[Change], None],
    swept: set[str],
) -> EditResult:
    try:
        scope_folder = _scope_folder(home, caller, line)
        kind, name = str(line["kind"]), str(line["name"])
        before = None if line["image"] is None else home.read(*map(str, line["image"]))
    except (KeyError, TypeError, ValueError):
        return EditResult(run, False, "the line of this edit cannot be read")
    if scope_folder is None:
        return EditResult(f"{line.get('label')}/{name}", False, ELSEWHERE)
    path = scope_folder.name_of(*_below(kind), name)
    if line["image"] is not None and (before is None or files.digest(before) != line["before"]):
        return EditResult(path, False, "its earlier version is gone from the archive")
    blank = Edit(scope_folder, kind, name, None, before)
    with home.lock(_lock(blank)), _folder(blank, create=before is not None) as folder:
        if folder is not None:
            _sweep_once(folder, swept)
        current = None if folder is None else folder.read(name)
        mark = None if current is None else files.digest(current)
        edit = blank._replace(before=current)
        why = ""
        if mark not in (line["after"], line["before"]):
            settled = _settled(home, edit, line, run)
            if settled is None:
                return EditResult(path, False, "it was changed since then")
            edit, why = settled
            before = edit.after
        if people.barred(home, caller, current, before, kind=kind):
            return EditResult(path, False, people.WHY)
        if tombstones.brought(home, current, before, kind=kind) is not None:
            return EditResult(path, False, tombstones.WHY)
        if folder is not None and before != current:
            record, num = _ids(before if before is not None else current or b"")
            if current is not None:
                # A file that goes is a record put away, which `restore` knows and nobody misses.
                kept_as = "retire" if before is None else "undo"
                archive.keep(home, scope_folder, kind, name, current, why=kept_as, at=now())
            _log_taken(home, edit, _ids(current or b"")[0])
            try:
                _replace(folder, edit)
            except _Changed:
                return EditResult(path, False, "it was changed since then")
            archive.log_returned(home, scope_folder, kind, name, _safe_entries(kind, before), record=record)
            if why and before is not None:  # another record has these entries now
                _log_brought(home, edit, record)
            audit.write(
                home,
                at=now(),
                actor=caller.actor,
                client=caller.client,
                operation="undo",
                run=run,
                scope=scope_folder.place.scope,
                record=record,
                num=num,
                before=current,
                after=before,
            )
        _append(home, run, {"undone": line["edit"], "at": clock.stamp(now())})
    announce(Change(ChangeKind.REMOVED if before is None else ChangeKind.WRITTEN, scope_folder.place, path))
    return EditResult(path, True, why)


def _settled(home: Home, edit: Edit, line: dict[str, Any], run: str) -> tuple[Edit, str] | None:
    """Return an edit that reverts a file changed since the run without losing text, and a note; else None.

    If the run archived a record and a new one was begun under its key, the earlier entries are inserted
    there. A file that the run created is removed if each entry in it is older than the run, or is again in
    the record from which it came.
    """
    if edit.kind != filenames.RECORDS or edit.before is None:
        return None
    if line["after"] is None and edit.after is not None:
        try:
            text, earlier = decode(edit.before), document.parse(decode(edit.after)).entries
            there = {normalise(entry.text) for entry in document.parse(text).entries}
        except Malformed:
            return None
        missing = [entry for entry in earlier if normalise(entry.text) not in there]
        for entry in missing:
            text = document.insert(text, entry if entry.time else replace(entry, time=_stamp_of(run)))
        if not missing:
            return edit._replace(after=edit.before), "it is already restored"
        count = "1 entry" if len(missing) == 1 else f"{len(missing)} entries"
        return edit._replace(after=text.encode()), f"changed since then; restored its earlier {count}"
    if line["before"] is None and edit.after is None:
        try:
            entries = document.parse(decode(edit.before)).entries
        except Malformed:
            return None
        logged = archive.kept(home, edit.scope_folder, edit.kind, edit.name)
        known = {archive.fingerprint(entry) for _, entry in logged}
        begun = clock.parse(_stamp_of(run))
        for entry in entries:
            if _stands(edit, entry):
                continue
            moment = clock.parse(entry.time)
            if archive.fingerprint(entry) not in known or moment is None or begun is None or moment >= begun:
                return None
        return edit, "changed since then, but nothing was added to it"
    return None


def _stands(edit: Edit, entry: Entry) -> bool:
    """Return whether an entry from a consolidation is again in the record from which it came."""
    name = f"{entry.part}.md"
    if not entry.part or not is_record(name):
        return False
    try:
        with _folder(edit, create=False) as folder:
            content = folder.read(name) if folder is not None else None
        known = document.parse(decode(content)).entries if content is not None else ()
    except (Malformed, OutsideMemory):
        return False
    return normalise(entry.text) in {normalise(each.text) for each in known}


def _stamp_of(run: str) -> str:
    """Return the time at which a run began, from its name."""
    at = run[:15]
    return f"{at[:4]}-{at[4:6]}-{at[6:8]}T{at[9:11]}:{at[11:13]}:{at[13:15]}Z"


def _chosen(home: Home, caller: scopes.Caller, run: str | None) -> str:
    if run is None:
        newest = next((each.run for each in of(home, caller) if not each.undone and not each.tried), None)
        if newest is None:
            raise NotFound("there is no run to undo", hint="`vade undo --list` shows all runs")
        return newest
    if not _RUN.fullmatch(run) or not home.names("archive", "runs").count(f"{run}.jsonl"):
        raise NotFound("there is no such run", hint="`vade undo --list` shows all runs")
    return run


def _scope_folder(home: Home, caller: scopes.Caller, line: dict[str, Any]) -> ScopeFolder | None:
    """Return the folder of an edit from its log line; None if the caller cannot see the folder.

    So undoing a run never touches another project.
    """
    place = Place(Scope(line["scope"]), str(line["id"]))
    if place not in reach(caller, place):
        return None
    for scope_folder in scopes.scope_folders(home, caller, place):
        same = scope_folder.label == line["label"] and (
            not scope_folder.outside or str(scope_folder.top) == line["top"]
        )
        if same and scope_folder.trusted:
            return scope_folder
    return None


def reach(caller: scopes.Caller, place: Place) -> list[Place]:
    """Return the places that the caller can see; for a private caller also `place`, if it is a session's."""
    own = scopes.visible(caller)
    private = caller.audience is Audience.PRIVATE
    return [*own, place] if private and place.scope is Scope.SESSION and place not in own else own


# -------------------------------------------------------------------- parts


def is_text_kept(edit: Edit) -> bool:
    """Return whether an edit keeps every text of a file, or archives the whole file."""
    if edit.before is None or edit.after is None:
        return True
    try:
        left = {normalise(entry.text) for entry in _entries(edit.kind, edit.after)}
        return all(normalise(entry.text) in left for entry in _entries(edit.kind, edit.before))
    except Malformed:
        return False


def _sweep_once(folder: Directory, swept: set[str]) -> None:
    """Remove a folder's leftovers of killed writers, once per run, since once per edit would be slow."""
    if folder.path not in swept:
        swept.add(folder.path)
        folder.sweep()


class _Changed(Exception):
    """An error: the file was saved meanwhile."""


def _replace(folder: Directory, edit: Edit) -> None:
    """Write an edit's new content or remove the file; raise `_Changed` when the file has other content."""
    if edit.after is None:
        if edit.before is None:
            return

        def still_the_same(content: bytes) -> None:
            if content != edit.before:
                raise _Changed  # it is put back: the last save of a person stays where they saved it

        folder.remove(edit.name, still_the_same)
        return
    after = edit.after

    def put(content: bytes | None) -> bytes:
        if content != edit.before:
            raise _Changed
        return after

    folder.update(edit.name, put, mode=edit.scope_folder.file_mode)


def _log_brought(home: Home, edit: Edit, record: str | None) -> None:
    """Log the entries that an edit added or marked.

    In a shared folder an entry's origin is believed only if it is in this log. So the planner of an edit
    signs a new entry with the lowest origin of the entries from which it was made.
    """
    before = {archive.fingerprint(entry) for entry in _safe_entries(edit.kind, edit.before)}
    after = _safe_entries(edit.kind, edit.after)
    at = home, edit.scope_folder, edit.kind, edit.name
    for entry in after:
        if archive.fingerprint(entry) not in before:
            archive.log_entry(*at, replace(entry, origin=entry.origin or Origin.USER), record=record)
    archive.log_superseded(*at, after, record=record)


def _log_taken(home: Home, edit: Edit, record: str | None) -> None:
    """Log the entries that an edit will remove, before the file changes, in case of an interruption."""
    now = {archive.fingerprint(entry) for entry in _safe_entries(edit.kind, edit.after)}
    gone = [each for each in _safe_entries(edit.kind, edit.before) if archive.fingerprint(each) not in now]
    if gone:
        archive.log_removed(home, edit.scope_folder, edit.kind, edit.name, gone, record=record)


def _safe_entries(kind: str, content: bytes | None) -> Sequence[Entry]:
    try:
        return () if content is None else _entries(kind, content)
    except Malformed:
        return ()


def _entries(kind: str, content: bytes) -> Sequence[Entry]:
    text = decode(content)
    return document.blocks(text) if kind == filenames.PINNED else document.parse(text).entries


def _ids(content: bytes) -> tuple[str | None, int | None]:
    try:
        values = frontmatter.parse(decode(content)).values
    except Malformed:
        return None, None
    num = values.get("num")
    return (str(values["id"]) if values.get("id") else None), num if type(num) is int else None


def _below(kind: str) -> tuple[str, ...]:
    return () if kind == filenames.PINNED else (kind,)


@contextlib.contextmanager
def _folder(edit: Edit, *, create: bool) -> Iterator[Directory | None]:
    folder = edit.scope_folder.open(*_below(edit.kind), create=create)
    if folder is None:
        yield None
        return
    with folder:
        yield folder


def _lock(edit: Edit) -> str:
    """Return the name of the lock that every writer of this file takes."""
    if edit.kind == filenames.JOURNAL:
        return f"journal {edit.path}"
    word = "record" if edit.kind == filenames.RECORDS else "pinned"
    return f"{word} {edit.path} in {edit.scope_folder.top}"


def _append(home: Home, run: str, line: dict[str, Any]) -> None:
    with home.lock("runs"), home.folder("archive", "runs", create=True) as folder:
        content = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
        folder.append_line(f"{run}.jsonl", content)


def _lines(home: Home, run: str) -> Iterator[dict[str, Any]]:
    for raw in home.lines("archive", "runs", f"{run}.jsonl"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue  # a stump left by a crash: nothing was touched after it
        if isinstance(line, dict):
            yield line


class Unlocked(Home):
    """A home without locks, for planning edits; the run checks each plan again under the real locks."""

    @contextlib.contextmanager
    def lock(self, thing: str, *, derived: bool = False) -> Iterator[None]:
        """Take no lock."""
        yield


class Staged(Records):
    """The records in a caller's reach, seen with the edits planned so far; writes are only planned."""

    __slots__ = ("_edits",)

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        now: Callable[[], datetime],
        announce: Callable[[Change], None],
        catalogue: Catalogue,
    ) -> None:
        super().__init__(home, caller, now, announce, catalogue)
        self._edits: dict[_File, Edit] = {}

    def edits(self) -> list[Edit]:
        """Return the planned edits, in the order in which they were begun."""
        return [each for each in self._edits.values() if each.before != each.after]

    def content(self, scope_folder: ScopeFolder, kind: str, name: str) -> bytes | None:
        """Return the content of a file with the planned edits."""
        staged = self._edits.get(_file(scope_folder, kind, name))
        return staged.after if staged is not None else _on_disk(scope_folder, kind, name)

    def put(self, scope_folder: ScopeFolder, kind: str, name: str, after: bytes) -> None:
        """Plan a new content for a file; nothing is written."""
        at = _file(scope_folder, kind, name)
        staged = self._edits.get(at)
        before = staged.before if staged is not None else _on_disk(scope_folder, kind, name)
        self._edits[at] = Edit(scope_folder, kind, name, before, after)

    def names_on(self, scope_folder: ScopeFolder) -> list[str]:
        """Return the names of a folder's record files, including planned ones."""
        folder = scope_folder.open(filenames.RECORDS)
        found: set[str] = set()
        if folder is not None:
            with folder:
                found = set(in_folder(folder))
        found |= {
            each.name for each in self._edits.values() if each.scope_folder == scope_folder and _is_of(each)
        }
        return sorted(filter(is_record, found))

    def barred(self, before: bytes, after: bytes | None) -> str:
        """Return a description of what the caller must not remove with a change; empty when allowed."""
        return people.barred(self.home, self.caller, before, after)

    def located(self, scope_folders: Sequence[ScopeFolder], key: str) -> tuple[ScopeFolder, str]:
        """Return folder and file name for a key, whether the file exists or not."""
        return self._locate(scope_folders, key)[:2]

    def free_name(self, scope_folders: Sequence[ScopeFolder], wanted: str) -> tuple[ScopeFolder, str]:
        """Return the first free file name made from a key, and its folder."""
        for number in range(1, 10_000):
            scope_folder, name, _ = self._locate(
                scope_folders, wanted if number == 1 else names.numbered(wanted, number)
            )
            if self.content(scope_folder, filenames.RECORDS, name) is None:
                return scope_folder, name
        raise Collision(f"there are too many records called {wanted}", hint="forget some of them")

    # ---------------------------------------------------------------- as records do it

    def typed(
        self, scope_folders: Iterable[ScopeFolder], *types: str, likely: Callable[[bytes], bool] = bool
    ) -> Iterator[Found]:
        """Yield the planned records of these types in trusted folders for whose content `likely` is true."""
        for scope_folder in scope_folders:
            for name in self.names_on(scope_folder) if scope_folder.trusted else ():
                with contextlib.suppress(Malformed, OutsideMemory, OSError):
                    content = self.content(scope_folder, filenames.RECORDS, name)
                    if content is None or not likely(content):
                        continue
                    if self._labelled(scope_folder, name, content).type in types:
                        yield Found(self.parse(scope_folder, name, content), scope_folder, name)

    def begin(self, scope_folders: Sequence[ScopeFolder], draft: Draft) -> Stored:
        """Plan a new record with a text, under the first free key made from the text's words."""
        wanted = names.auto_key(draft.name or draft.text)
        scope_folder, name = self.free_name(scope_folders, wanted)
        return self._stage(scope_folder, name, draft._replace(wanted=wanted))

    def join(self, found: Found, draft: Draft) -> Stored:
        """Plan to add a text to the given record."""
        return self._stage(found.scope_folder, found.name, draft)

    def revise(
        self, found: Found, change: Callable[[Mapping[str, Any]], dict[str, Any]], *, operation: str
    ) -> Record:
        """Plan to set frontmatter fields to values computed from the current ones."""
        text = decode(self.content(found.scope_folder, filenames.RECORDS, found.name) or b"")
        after = frontmatter.edit(text, change(frontmatter.parse(text).values)).encode()
        self.put(found.scope_folder, filenames.RECORDS, found.name, after)
        return self.parse(found.scope_folder, found.name, after)

    def _stage(self, scope_folder: ScopeFolder, name: str, draft: Draft) -> Stored:
        self._check_writable(scope_folder)
        tombstones.check(self.home, self.caller, draft.text)
        current = self.content(scope_folder, filenames.RECORDS, name)
        # A text that brings the time at which it was first said is dated with it.
        labels = draft.labels({}) if draft.labels is not None and current is None else {}
        first = clock.parse(labels.get("created"))
        at = clock.stamp(first or self.now())
        entry = Entry(draft.text, at, self.caller.origin, id=names.new_mark())
        join = Joining(
            draft,
            entry,
            caller=self.caller,
            place=scope_folder.place,
            key=key_of(name),
            num=None,  # given when it is written, since numbers are given once
            id=names.new_id(),
            verified=self._verified if people.is_bound(self.caller) else None,
        )
        after = join(current)
        self.put(scope_folder, filenames.RECORDS, name, after)
        record = self._labelled(scope_folder, name, after)
        return Stored(join.outcome, record.key, record.num, record.id, scope_folder.place, record.path)


def _on_disk(scope_folder: ScopeFolder, kind: str, name: str) -> bytes | None:
    folder = scope_folder.open(*(() if kind == filenames.PINNED else (kind,)))
    if folder is None:
        return None
    with folder:
        return folder.read(name)


def _file(scope_folder: ScopeFolder, kind: str, name: str) -> _File:
    return str(scope_folder.top), scope_folder.label, kind, name


def _is_of(edit: Edit) -> bool:
    return edit.kind == filenames.RECORDS and edit.after is not None
