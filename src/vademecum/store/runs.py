"""Runs: edits that belong together, each with its earlier version, and the way back from all of them.

`archive/runs/<run>.jsonl` says what a run did, content-free: a line is on disk before the file it speaks of
is touched, so a run that was killed half-way is known as far as it came and can be taken back as far. An edit
names the bytes it was thought out for: a file that holds anything else by now is left alone and reported.

Who has many things to write that belong together stages them first: records as they would be, every write
laid beside the files without touching the disk, which becomes one edit a file.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Collision, Malformed, NotFound, OutsideMemory
from vademecum.store import archive, audit, document, files, frontmatter, people, scopes, tombstones
from vademecum.store.document import decode
from vademecum.store.home import Home
from vademecum.store.merge import Joining
from vademecum.store.records import Found, Records, in_folder, is_record, key_of
from vademecum.text import clock, names, normalise
from vademecum.types import Audience, Change, ChangeKind, Entry, Origin, Place, Record, Scope, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store.backend import Directory
    from vademecum.store.home import Shelf
    from vademecum.store.merge import Draft

    _File = tuple[str, str, str, str]

CHANGED = "changed meanwhile"
LOSSY = "would remove text"
ELSEWHERE = "it belongs to another project, agent or session"
_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{11}")


class Edit(NamedTuple):
    """One file as it was when somebody thought about it, and as it shall be."""

    shelf: Shelf
    kind: str  # archive.RECORDS, archive.JOURNAL or archive.PINNED
    name: str
    before: bytes | None  # None: there is no such file yet
    after: bytes | None  # None: the whole file goes to the archive

    @property
    def path(self) -> str:
        """The file as shown."""
        return self.shelf.name_of(*_below(self.kind), self.name)


class Told(NamedTuple):
    """What became of an edit: done, or why not."""

    path: str
    done: bool
    why: str = ""


class Brief(NamedTuple):
    """A run as it is listed."""

    run: str
    what: str
    at: str
    edits: int
    undone: bool
    tried: bool = False  # an undo went through it, and had to leave what was changed since
    places: frozenset[Place] = frozenset()


@dataclass(slots=True)
class Run:
    """One run of edits, begun with its first edit."""

    home: Home
    caller: scopes.Caller
    now: Callable[[], datetime]
    announce: Callable[[Change], None]
    what: str
    id: str = ""
    retired_as: str = "retire"  # why a file that goes as a whole is in the archive
    _lines: int = field(default=0)
    _swept: set[str] = field(default_factory=set)

    def do(self, edit: Edit, operation: str, *, replacing: bool = False) -> Told:
        """Make one edit, unless its file is no longer the one it was made for.

        An edit takes no text away, unless it is `replacing` what was generated before it.
        """
        if not edit.shelf.trusted:
            return Told(edit.path, False, "its folder is not trusted")
        if not replacing and not keeps_text(edit):
            return Told(edit.path, False, LOSSY)
        if people.barred(self.home, self.caller, edit.before, edit.after, kind=edit.kind):
            return Told(edit.path, False, people.WHY)
        if tombstones.brought(self.home, edit.before, edit.after, kind=edit.kind) is not None:
            return Told(edit.path, False, tombstones.WHY)
        with self.home.lock(_lock(edit)), _folder(edit, create=edit.after is not None) as folder:
            if folder is None or folder.read(edit.name) != edit.before:
                return Told(edit.path, False, CHANGED)
            self._begin()
            image = None
            if edit.before is not None:
                why = self.retired_as if edit.after is None else "revise"
                image = self._keep(edit, edit.before, why)
            self._note(edit, image)
            _sweep_once(folder, self._swept)
            try:
                _replace(folder, edit)
            except _Changed:
                return Told(edit.path, False, CHANGED)
            self._tell(edit, operation)
        self._announce(edit)
        return Told(edit.path, True)

    def _begin(self) -> None:
        if self.id:
            return
        moment = self.now()
        at = clock.stamp(moment)
        # The microseconds first, so that runs of one second are listed in their order.
        self.id = f"{re.sub('[-:]', '', at)}-{moment.microsecond:05x}{names.new_id()[-6:]}"
        _append(self.home, self.id, {"run": self.id, "what": self.what, "at": at, "by": self.caller.actor})

    def _keep(self, edit: Edit, content: bytes, why: str) -> archive.Image:
        return archive.keep(self.home, edit.shelf, edit.kind, edit.name, content, why=why, at=self.now())

    def _note(self, edit: Edit, image: archive.Image | None) -> None:
        self._lines += 1
        line: dict[str, Any] = {
            "edit": self._lines,
            "scope": str(edit.shelf.place.scope),
            "id": edit.shelf.place.id,
            "label": edit.shelf.label,
            "top": str(edit.shelf.top) if edit.shelf.outside else "",
            "kind": edit.kind,
            "name": edit.name,
            "image": None if image is None else list(image.parts),
            "before": None if edit.before is None else files.digest(edit.before),
            "after": None if edit.after is None else files.digest(edit.after),
        }
        _append(self.home, self.id, line)

    def _tell(self, edit: Edit, operation: str) -> None:
        """The second copy of each entry, and the line in the audit."""
        record, num = _ids(edit.after if edit.after is not None else edit.before or b"")
        if edit.after is not None:
            _log_brought(self.home, edit, record)
        audit.write(
            self.home,
            at=self.now(),
            actor=self.caller.actor,
            client=self.caller.client,
            operation=operation,
            scope=edit.shelf.place.scope,
            record=record,
            num=num,
            before=edit.before,
            after=edit.after,
        )

    def _announce(self, edit: Edit) -> None:
        kind = ChangeKind.REMOVED if edit.after is None else ChangeKind.WRITTEN
        self.announce(Change(kind, edit.shelf.place, edit.path))


# -------------------------------------------------------------------- looking back, and going back


def every(home: Home) -> list[Brief]:
    """All runs, newest first."""
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


def paths(home: Home, run: str) -> frozenset[str]:
    """The files that a run changed, as they are shown."""
    lines = (line for line in _lines(home, run) if "edit" in line)
    return frozenset(
        "/".join((str(line.get("label")), *_below(str(line.get("kind"))), str(line.get("name"))))
        for line in lines
    )


def of(home: Home, caller: scopes.Caller) -> list[Brief]:
    """The runs that changed something the caller may see, newest first."""
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
) -> tuple[str, Sequence[Told]]:
    """Bring back, byte for byte, what a run changed; what was changed again since then stays and is told."""
    chosen = _chosen(home, caller, run)
    lines = [*_lines(home, chosen)]
    undone = {line["undone"] for line in lines if "undone" in line}
    edits = [line for line in lines if "edit" in line and line["edit"] not in undone]
    told: list[Told] = []
    swept: set[str] = set()  # a run that was killed may have left something lying about
    # Backwards: a file may have been edited twice, and what was written first is taken away last.
    for done, line in enumerate(reversed(edits)):
        if progress is not None:
            progress("undo", done, len(edits))
        told.append(_undo_one(home, caller, chosen, line, now=now, announce=announce, swept=swept))
    if not all(each.done or each.why == ELSEWHERE for each in told):
        _append(home, chosen, {"tried": clock.stamp(now())})
    return chosen, told


def _undo_one(
    home: Home,
    caller: scopes.Caller,
    run: str,
    line: dict[str, Any],
    *,
    now: Callable[[], datetime],
    announce: Callable[[Change], None],
    swept: set[str],
) -> Told:
    try:
        shelf = _shelf(home, caller, line)
        kind, name = str(line["kind"]), str(line["name"])
        before = None if line["image"] is None else home.read(*map(str, line["image"]))
    except (KeyError, TypeError, ValueError):
        return Told(run, False, "the line of this edit cannot be read")
    if shelf is None:
        return Told(f"{line.get('label')}/{name}", False, ELSEWHERE)
    path = shelf.name_of(*_below(kind), name)
    if line["image"] is not None and (before is None or files.digest(before) != line["before"]):
        return Told(path, False, "its earlier version is gone from the archive")
    blank = Edit(shelf, kind, name, None, before)
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
                return Told(path, False, "it was changed since then")
            edit, why = settled
            before = edit.after
        if people.barred(home, caller, current, before, kind=kind):
            return Told(path, False, people.WHY)
        if tombstones.brought(home, current, before, kind=kind) is not None:
            return Told(path, False, tombstones.WHY)
        if folder is not None and before != current:
            record, num = _ids(before if before is not None else current or b"")
            if current is not None:
                # A file that goes is a record put away, which `restore` knows and nobody misses.
                kept_as = "retire" if before is None else "undo"
                archive.keep(home, shelf, kind, name, current, why=kept_as, at=now())
            _log_taken(home, edit, _ids(current or b"")[0])
            try:
                _replace(folder, edit)
            except _Changed:
                return Told(path, False, "it was changed since then")
            archive.log_returned(home, shelf, kind, name, _safe_entries(kind, before), record=record)
            if why and before is not None:  # another record has these entries now
                _log_brought(home, edit, record)
            audit.write(
                home,
                at=now(),
                actor=caller.actor,
                client=caller.client,
                operation="undo",
                scope=shelf.place.scope,
                record=record,
                num=num,
                before=current,
                after=before,
            )
        _append(home, run, {"undone": line["edit"], "at": clock.stamp(now())})
    announce(Change(ChangeKind.REMOVED if before is None else ChangeKind.WRITTEN, shelf.place, path))
    return Told(path, True, why)


def _settled(home: Home, edit: Edit, line: dict[str, Any], run: str) -> tuple[Edit, str] | None:
    """How an edit is taken back whose file was changed since then without any text being lost; else None.

    A record that was begun again under the key of one that the run moved away gets the earlier entries back
    among its own. A file that the run made goes when nothing was added to it, or all of it stands in the
    records that it was made of.
    """
    if edit.kind != archive.RECORDS or edit.before is None:
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
        logged = archive.kept(home, edit.shelf, edit.kind, edit.name)
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
    """Whether the record that an entry of a consolidation is of has it again."""
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
    """When a run began, as its name says it."""
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


def _shelf(home: Home, caller: scopes.Caller, line: dict[str, Any]) -> Shelf | None:
    """The shelf of an edit, if the caller can see it: a run of one project never touches another."""
    place = Place(Scope(line["scope"]), str(line["id"]))
    if place not in reach(caller, place):
        return None
    for shelf in scopes.shelves(home, caller, place):
        same = shelf.label == line["label"] and (not shelf.outside or str(shelf.top) == line["top"])
        if same and shelf.trusted:
            return shelf
    return None


def reach(caller: scopes.Caller, place: Place) -> list[Place]:
    """The places in sight, and a session that is over: nobody else will ever tidy up after it."""
    own = scopes.visible(caller)
    private = caller.audience is Audience.PRIVATE
    return [*own, place] if private and place.scope is Scope.SESSION and place not in own else own


# -------------------------------------------------------------------- parts


def keeps_text(edit: Edit) -> bool:
    """Whether every text of a file still stands there after an edit, or goes to the archive with it."""
    if edit.before is None or edit.after is None:
        return True
    try:
        left = {normalise(entry.text) for entry in _entries(edit.kind, edit.after)}
        return all(normalise(entry.text) in left for entry in _entries(edit.kind, edit.before))
    except Malformed:
        return False


def _sweep_once(folder: Directory, swept: set[str]) -> None:
    """Clear what killed writers left; listing a large folder for every edit would take for ever."""
    if folder.path not in swept:
        swept.add(folder.path)
        folder.sweep()


class _Changed(Exception):
    """Somebody saved the file in between."""


def _replace(folder: Directory, edit: Edit) -> None:
    """Put the new content in place, or take the file away; raises `_Changed` when it holds something else."""
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

    folder.update(edit.name, put, mode=edit.shelf.file_mode)


def _log_brought(home: Home, edit: Edit, record: str | None) -> None:
    """Log the entries an edit brought, and those it marked.

    An entry in a shared folder is believed what this log says of it: who thinks out an edit signs what it
    brings with the lowest origin of what it was made from.
    """
    before = {archive.fingerprint(entry) for entry in _safe_entries(edit.kind, edit.before)}
    after = _safe_entries(edit.kind, edit.after)
    at = home, edit.shelf, edit.kind, edit.name
    for entry in after:
        if archive.fingerprint(entry) not in before:
            archive.log_kept(*at, replace(entry, origin=entry.origin or Origin.USER), record=record)
    archive.log_superseded(*at, after, record=record)


def _log_taken(home: Home, edit: Edit, record: str | None) -> None:
    """Log the entries that go with an edit, before they do: so nobody misses them if it is cut short."""
    now = {archive.fingerprint(entry) for entry in _safe_entries(edit.kind, edit.after)}
    gone = [each for each in _safe_entries(edit.kind, edit.before) if archive.fingerprint(each) not in now]
    if gone:
        archive.log_taken(home, edit.shelf, edit.kind, edit.name, gone, record=record)


def _safe_entries(kind: str, content: bytes | None) -> Sequence[Entry]:
    try:
        return () if content is None else _entries(kind, content)
    except Malformed:
        return ()


def _entries(kind: str, content: bytes) -> Sequence[Entry]:
    text = decode(content)
    return document.blocks(text) if kind == archive.PINNED else document.parse(text).entries


def _ids(content: bytes) -> tuple[str | None, int | None]:
    try:
        values = frontmatter.parse(decode(content)).values
    except Malformed:
        return None, None
    num = values.get("num")
    return (str(values["id"]) if values.get("id") else None), num if type(num) is int else None


def _below(kind: str) -> tuple[str, ...]:
    return () if kind == archive.PINNED else (kind,)


@contextlib.contextmanager
def _folder(edit: Edit, *, create: bool) -> Iterator[Directory | None]:
    folder = edit.shelf.open(*_below(edit.kind), create=create)
    if folder is None:
        yield None
        return
    with folder:
        yield folder


def _lock(edit: Edit) -> str:
    """The name under which every writer of that file holds it."""
    if edit.kind == archive.JOURNAL:
        return f"journal {edit.path}"
    word = "record" if edit.kind == archive.RECORDS else "pinned"
    return f"{word} {edit.path} in {edit.shelf.top}"


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
    """A home that is only looked at: what is planned for it is checked again under the locks of the run."""

    @contextlib.contextmanager
    def lock(self, thing: str, *, derived: bool = False) -> Iterator[None]:
        """Hold nothing."""
        yield


@dataclass(frozen=True, slots=True)
class Staged(Records):
    """The records in reach, and what was written over them so far."""

    _edits: dict[_File, Edit] = field(default_factory=dict)

    def edits(self) -> list[Edit]:
        """What has to be done, in the order in which it was begun."""
        return [each for each in self._edits.values() if each.before != each.after]

    def content(self, shelf: Shelf, kind: str, name: str) -> bytes | None:
        """A file as it would be by now."""
        staged = self._edits.get(_file(shelf, kind, name))
        return staged.after if staged is not None else _on_disk(shelf, kind, name)

    def put(self, shelf: Shelf, kind: str, name: str, after: bytes) -> None:
        """Let a file hold this."""
        at = _file(shelf, kind, name)
        staged = self._edits.get(at)
        before = staged.before if staged is not None else _on_disk(shelf, kind, name)
        self._edits[at] = Edit(shelf, kind, name, before, after)

    def names_on(self, shelf: Shelf) -> list[str]:
        """The files of records on a shelf, with those that are still to come."""
        folder = shelf.open(archive.RECORDS)
        found: set[str] = set()
        if folder is not None:
            with folder:
                found = set(in_folder(folder))
        found |= {each.name for each in self._edits.values() if each.shelf == shelf and _is_of(each)}
        return sorted(filter(is_record, found))

    def barred(self, before: bytes, after: bytes | None) -> str:
        """What of a person's a change to a record would take away, and the caller may not."""
        return people.barred(self.home, self.caller, before, after)

    def located(self, shelves: Sequence[Shelf], key: str) -> tuple[Shelf, str]:
        """The shelf and file of a key; where there is none, those it would have."""
        return self._locate(shelves, key)[:2]

    def free_name(self, shelves: Sequence[Shelf], wanted: str) -> tuple[Shelf, str]:
        """The first name made of a key that nobody has, and the shelf for it."""
        for number in range(1, 10_000):
            shelf, name, _ = self._locate(shelves, wanted if number == 1 else names.numbered(wanted, number))
            if self.content(shelf, archive.RECORDS, name) is None:
                return shelf, name
        raise Collision(f"there are too many records called {wanted}", hint="forget some of them")

    # ---------------------------------------------------------------- as records do it

    def typed(
        self, shelves: Iterable[Shelf], *types: str, likely: Callable[[bytes], bool] = bool
    ) -> Iterator[Found]:
        """The records of these types on the shelves that may be written."""
        for shelf in shelves:
            for name in self.names_on(shelf) if shelf.trusted else ():
                with contextlib.suppress(Malformed, OutsideMemory, OSError):
                    content = self.content(shelf, archive.RECORDS, name)
                    if content is None or not likely(content):
                        continue
                    if self._labelled(shelf, name, content).type in types:
                        yield Found(self.parse(shelf, name, content), shelf, name)

    def begin(self, shelves: Sequence[Shelf], draft: Draft) -> Stored:
        """Keep a text in a new record, under the first free key made from its words."""
        wanted = names.auto_key(draft.name or draft.text)
        shelf, name = self.free_name(shelves, wanted)
        return self._stage(shelf, name, draft._replace(wanted=wanted))

    def join(self, found: Found, draft: Draft) -> Stored:
        """Keep a text in this very record."""
        return self._stage(found.shelf, found.name, draft)

    def revise(
        self, found: Found, change: Callable[[Mapping[str, Any]], dict[str, Any]], *, operation: str
    ) -> Record:
        """Set frontmatter keys to what follows from those that are there now."""
        text = decode(self.content(found.shelf, archive.RECORDS, found.name) or b"")
        after = frontmatter.edit(text, change(frontmatter.parse(text).values)).encode()
        self.put(found.shelf, archive.RECORDS, found.name, after)
        return self.parse(found.shelf, found.name, after)

    def _stage(self, shelf: Shelf, name: str, draft: Draft) -> Stored:
        self._check_writable(shelf)
        tombstones.check(self.home, self.caller, draft.text)
        current = self.content(shelf, archive.RECORDS, name)
        # A text that brings the time at which it was first said is dated with it.
        told = draft.labels({}) if draft.labels is not None and current is None else {}
        first = clock.parse(told.get("created"))
        at = clock.stamp(first or self.now())
        entry = Entry(draft.text, at, self.caller.origin, id=names.new_mark())
        join = Joining(
            draft,
            entry,
            caller=self.caller,
            place=shelf.place,
            key=key_of(name),
            num=None,  # given when it is written, since numbers are given once
            id=names.new_id(),
            verified=self._verified if people.is_bound(self.caller) else None,
        )
        after = join(current)
        self.put(shelf, archive.RECORDS, name, after)
        record = self._labelled(shelf, name, after)
        return Stored(join.outcome, record.key, record.num, record.id, shelf.place, record.path)


def _on_disk(shelf: Shelf, kind: str, name: str) -> bytes | None:
    folder = shelf.open(*(() if kind == archive.PINNED else (kind,)))
    if folder is None:
        return None
    with folder:
        return folder.read(name)


def _file(shelf: Shelf, kind: str, name: str) -> _File:
    return str(shelf.top), shelf.label, kind, name


def _is_of(edit: Edit) -> bool:
    return edit.kind == archive.RECORDS and edit.after is not None
