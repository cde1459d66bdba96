"""Sync a person's machines through a shared folder, such as one of Syncthing, Dropbox or a memory stick.

Each replica writes only its own files, `vade-sync/<stream>/<replica>.<first>.jsonl`. These files only grow,
so a sync tool makes no conflict copies. An incomplete file is read up to its last complete fact. Every fact
is sealed with a key that is never in the folder, so nobody with write access can make up a text.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from vademecum.errors import Malformed, NotFound, OutsideMemory, StorageFailed, UsageError
from vademecum.store import Disk, DiskFolder, hub_rules
from vademecum.sync import facts as fact_rules
from vademecum.sync import purge_facts
from vademecum.sync.facts import PURGE
from vademecum.sync.key_files import KEY, OwnKey, read_own_key, save_key, settle_staged, stage_key
from vademecum.sync.membership import FOLDER, SHARED
from vademecum.sync.stream_log import DiskLog, HomeFiles
from vademecum.sync.stream_sync import Forked, SyncStream
from vademecum.sync.workspace_key import (
    RETYPE_KEY,
    TAKE_KEY,
    KeyRecord,
    WrongKey,
    find_ends,
    make_record,
    new_key,
    parse_record,
    read_key,
)
from vademecum.text import names
from vademecum.text.names import new_mark
from vademecum.types import Finding, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from vademecum.store import Home
    from vademecum.sync.facts import FactId, SyncFact
    from vademecum.sync.stream_sync import Synced
    from vademecum.sync.stream_window import OwnFacts

TOP, WORKSPACE_FILE = "vade-sync", "workspace.json"
SYNCED = (
    Scope.GLOBAL,
    Scope.PROJECT,
    Scope.AGENT,
)  # sessions end soon, and federated memory belongs to one machine
_SEGMENT = 500  # facts in one file
_FILE = re.compile(r"([0-9a-hjkmnp-tv-z]{8,32})\.(\d{12})\.jsonl")
_LARGEST = 1 << 30
_CARRY = "wait until the file has arrived; if it stays damaged, delete it, and its machine writes it again"


@dataclass(frozen=True, slots=True)
class FolderTransport:
    """The shared folder as the transport through which replicas exchange their facts."""

    path: Path
    strange: list[str] = field(default_factory=list)  # unknown file names, such as conflict copies
    unreadable: dict[tuple[str, str], str] = field(default_factory=dict)  # reasons by stream and file name

    def streams(self) -> list[str]:
        """Return the names of the streams that have a folder in the shared folder."""
        try:
            with Disk(self.path).open(TOP) as top:
                names = [name for name in top.names() if name != WORKSPACE_FILE and not name.startswith(".")]
                self.strange.extend(name for name in names if name.endswith(".json"))
                found = [unquote(name) for name in names if not name.endswith(".json")]
        except FileNotFoundError:
            return []
        return sorted(found)

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterator[SyncFact]:
        """Yield each replica's facts after its first `known` facts, in order."""
        for facts in self._read(stream, known).values():
            yield from facts

    def last(self, stream: str, replica: str) -> int:
        """Return the number of the replica's last fact in the folder; 0 if there is none."""
        facts = self._read(stream, {}, only=replica, newest=True).get(replica)
        return facts[-1].n if facts else 0

    def is_ahead(self, stream: str, replica: str, known: int) -> bool:
        """Return whether the folder has more facts of a replica than the first `known` facts."""
        return bool(self._read(stream, {replica: known}, only=replica).get(replica))

    def push(self, stream: str, facts: OwnFacts) -> None:
        """Write this home's facts to its files in the folder, except to files that have them already.

        Raise Forked if a file has different facts with the same numbers.
        """
        with Disk(self.path).open(TOP, quote(stream, safe=""), create=True) as folder:
            for replica, listed in facts.places.items():
                for first in range(0, len(listed), _SEGMENT):
                    lines = facts.rendered(replica, first, first + _SEGMENT)
                    content = b"".join(line + b"\n" for line in lines)
                    name = f"{replica}.{first + 1:012d}.jsonl"
                    try:
                        there = folder.read(name, largest=_LARGEST) or b""
                    except Malformed:  # too large: this home has not written such a file
                        folder.delete(name)
                        there = b""
                    if there != content:
                        # The file only lacks the end, so the facts in it need no check.
                        whole = content.startswith(there)
                        merged = content if whole else self._merge(there, content)
                        if merged != there:
                            _write(folder, name, merged)

    def purge_files(self, stream: str, replicas: Collection[str], purged: Collection[FactId]) -> None:
        """Purge facts in the files of these replicas, which may belong to other homes.

        A purged fact has exactly one form, so all homes write the same file.
        """
        with Disk(self.path).open(TOP, quote(stream, safe=""), create=True) as folder:
            for name in folder.names():
                match = _FILE.fullmatch(name)
                if match is None or match[1] not in replicas:
                    continue
                try:
                    there = folder.read(name, largest=_LARGEST) or b""
                except Malformed:
                    self._skip(name)
                    continue
                listed = list(_parse_files({1: there}, named=False))
                if any(fact.id in purged and not fact.purged for fact in listed):
                    left = (fact_rules.blank(fact) if fact.id in purged else fact for fact in listed)
                    _write(folder, name, b"".join(fact_rules.render(fact) + b"\n" for fact in left))

    def _merge(self, there: bytes, content: bytes) -> bytes:
        """Return an own file's content: this home's facts, and the further facts that the file has already.

        The file may be incomplete, or a copy of this home may have added facts. Raise Forked if two facts
        with the same number differ.
        """
        known, listed = (
            list(_parse_files({1: there}, named=False)),
            list(_parse_files({1: content}, named=False)),
        )
        if any(a.hash != b.hash for a, b in zip(known, listed, strict=False)):
            raise Forked(f"{self.path} has other facts of this home", hint="sync again")
        changed = any(
            (b.purged and not a.purged) or b.seal != a.seal for a, b in zip(known, listed, strict=False)
        )
        if len(known) >= len(listed) and not changed:
            return there
        both = (*listed, *known[len(listed) :])
        return b"".join(fact_rules.render(fact) + b"\n" for fact in both)

    def _skip(self, name: str) -> None:
        """Note a file that is not read, so that the sync can name it."""
        if name not in self.strange:
            self.strange.append(name)

    def _read(
        self, stream: str, known: Mapping[str, int], only: str = "", *, newest: bool = False
    ) -> dict[str, list[SyncFact]]:
        """Return by replica the facts after the first `known` facts, up to the first gap.

        With `only`, read this replica alone. With `newest`, ignore `known` and read only each replica's
        newest file.
        """
        names: dict[str, dict[int, str]] = {}
        try:
            with Disk(self.path).open(TOP, quote(stream, safe="")) as folder:
                for name in folder.names():
                    match = _FILE.fullmatch(name)
                    if match is None:
                        if not name.startswith("."):
                            self._skip(name)
                    elif only in ("", match[1]):
                        names.setdefault(match[1], {})[int(match[2])] = name
                found = {}
                for replica, listed in names.items():
                    count = max(listed) - 1 if newest else known.get(replica, 0)
                    parts = _read_files(folder, listed, count, self._skip)
                    found[replica] = facts = list(_parse_files(parts, known=count))
                    if not newest:
                        self._note_unreadable(stream, listed, parts, count + len(facts))
                return found
        except FileNotFoundError:
            return {}

    def _note_unreadable(
        self, stream: str, named: Mapping[int, str], parts: Mapping[int, bytes], last: int
    ) -> None:
        """Note the first file of a replica that does not have all changes that it should have.

        `last` is the number of the last known fact. The program that carries the folder can leave files
        empty, cut off or filled with zeros; a later sync may find them whole.
        """
        before = ""
        for first in sorted(named):
            content = parts.get(first)
            if content is None:
                continue
            count = content.count(b"\n")
            if not content.endswith(b"\n"):
                before = "it is empty" if not content else "it is cut off or damaged"
            elif first + count - 1 > last:
                before = f"it is damaged, or the changes before it are missing, from change {last + 1} on"
            if before:
                self.unreadable[stream, named[first]] = before
                return
        newest = max(parts, default=0)
        if newest and newest + parts[newest].count(b"\n") - 1 < last:
            why = f"it has fewer changes than this machine has received from it ({last})"
            self.unreadable[stream, named[newest]] = why


def _read_files(
    folder: DiskFolder, named: Mapping[int, str], known: int, skip: Callable[[str], None]
) -> dict[int, bytes]:
    """Return the contents of a replica's files, from the file with the first unknown fact on.

    Return no files if that file is missing. Call `skip` with the name of a file that is too large.
    """
    start = max((first for first in named if first <= known + 1), default=0)
    found: dict[int, bytes] = {}
    for first in sorted(named):
        if first >= start > 0:
            try:
                found[first] = folder.read(named[first], largest=_LARGEST) or b""
            except OutsideMemory:
                continue
            except Malformed:  # too large; the facts after it are read once the file is right
                skip(named[first])
                break
    return found


def _write(folder: DiskFolder, name: str, content: bytes) -> None:
    folder.update(name, lambda _: content)


def _parse_files(parts: Mapping[int, bytes], *, named: bool = True, known: int = 0) -> Iterator[SyncFact]:
    """Yield the facts of one replica's files up to the first gap, without the first `known` facts.

    If the files are `named`, each key of `parts` is the number of a file's first fact. Known facts are
    skipped without being parsed; the next fact's number shows that it follows them.
    """
    last: SyncFact | None = None
    for first in sorted(parts):
        lines = parts[first].split(b"\n")[:-1]
        if named and last is None and not first <= known + 1 <= first + len(lines):
            return
        for line in lines[max(0, known + 1 - first) :]:
            try:
                fact = fact_rules.parse(line)
            except Malformed:
                return
            if not (fact_rules.follows(fact, last) if last else fact.n == known + 1 or not named):
                return
            last = fact
            yield fact


# ------------------------------------------------------------ the folder of a home


@dataclass(frozen=True, slots=True)
class FolderSync:
    """The shared folder that a home syncs with, its workspace and its key."""

    path: Path
    workspace: str
    key: str


def find_folder(home: Home) -> FolderSync:
    """Return the shared folder that this home syncs with; raise NotFound if none is set."""
    from pathlib import Path

    try:
        with home.disk(FOLDER, SHARED) as folder:
            values = json.loads(folder.read(WORKSPACE_FILE) or b"null")
            key = (folder.read(KEY) or b"").decode().strip()
        return FolderSync(Path(values["path"]), str(values["workspace"]), key)
    except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
        raise NotFound(
            "no folder is set for `vade sync`", hint="run `vade sync --folder PATH`, or join a hub"
        ) from error


def join_folder(home: Home, path: Path, typed: str | None) -> tuple[FolderSync, bool]:
    """Set the shared folder of this home; `typed` is the folder's key if a person has typed one.

    Return the folder, and whether it was set up as a new shared folder.
    """
    home.check_format()
    if not path.is_dir():
        raise NotFound(f"{path} is not a folder", hint="make it first; it is one that your machines share")
    top = path.resolve()
    if top == home.path.resolve() or home.path.resolve() in top.parents or top in home.path.resolve().parents:
        raise UsageError("the shared folder lies in the memory folder, or around it", hint="name another one")
    key = read_key(typed) if typed else ""
    with Disk(top).open(TOP, create=True) as shared:
        record = _read_workspace(shared)
        made = record is None
        if record is None:
            key = key or new_key()
            record = _publish(shared, make_record(new_mark(16), key))
        else:
            key = key or _known_key(home, record.workspace)
            if not key:
                raise UsageError(
                    "this folder has a key",
                    hint="pass the one that the first machine showed, with VADE_SYNC_KEY",
                )
        if not record.fits(key):
            raise WrongKey("this is not the key of that folder", hint=RETYPE_KEY if typed else TAKE_KEY)
    with home.disk(FOLDER, SHARED, create=True) as folder:
        save_key(folder, key, record.verify(key))
        before = hub_rules.load(folder.read(WORKSPACE_FILE))
        old = str(before.get("workspace") or "")
        # Only the machine that began the folder archives old records automatically.
        began = made or (old == record.workspace and before.get("began") is True)
        settings = {"path": str(top), "workspace": record.workspace, "began": began}
        # This machine had begun the same folder with its own key: its log moves to the right workspace.
        moves = old not in ("", record.workspace) and before.get("path") == str(top)
        if moves and folder.stat(old) is not None and folder.stat(record.workspace) is None:
            folder.rename(old, record.workspace)
        folder.update(WORKSPACE_FILE, lambda _: json.dumps(settings, indent=1).encode() + b"\n")
    return FolderSync(top, record.workspace, key), made


def _publish(shared: DiskFolder, record: KeyRecord) -> KeyRecord:
    """Write the first record of a folder, and return it; if another machine was faster, return its record."""
    content = json.dumps({"protocol": 1, **record.render()}, indent=1).encode() + b"\n"
    try:
        shared.create(WORKSPACE_FILE, content)
    except FileExistsError:
        return _read_workspace(shared) or record
    return record


def needs_key(home: Home, path: Path) -> bool:
    """Return whether the shared folder has a key that this home does not know."""
    try:
        with Disk(path).open(TOP) as shared:
            record = _read_workspace(shared)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return record is not None and not record.fits(_known_key(home, record.workspace))


def check_folder_key(home: Home, joined: FolderSync) -> tuple[FolderSync, KeyRecord]:
    """Return the folder and the record of its key; raise WrongKey if this home has another key.

    A rotation that was interrupted is finished first. A record that is missing in the folder, or that was
    replaced by an older record, is written again.
    """
    with Disk(joined.path).open(TOP, create=True) as shared, home.disk(FOLDER, SHARED) as folder:
        record = _read_workspace(shared)
        if settle_staged(folder, record):
            joined = find_folder(home)
        own = read_own_key(folder)
        known = own.record or make_record(joined.workspace, joined.key)
        if record is None:
            record = _publish(shared, known)
        elif record.workspace == joined.workspace and record.generation < known.generation:
            record = _replace(shared, known)
        if record.workspace != joined.workspace:
            raise WrongKey(f"another machine began {joined.path} with a key of its own: nothing is sent")
        if not record.fits(joined.key):
            if record.generation > known.generation:
                raise WrongKey(
                    f"another machine changed the key of {joined.path}: nothing is sent without it"
                )
            raise WrongKey(f"this machine has another key than {joined.path}: nothing is sent")
        if own.record != record:
            save_key(folder, joined.key, record.verify(joined.key))
        return joined, record


def _replace(shared: DiskFolder, record: KeyRecord) -> KeyRecord:
    content = json.dumps({"protocol": 1, **record.render()}, indent=1).encode() + b"\n"
    shared.update(WORKSPACE_FILE, lambda _: content)
    return record


def rotate_folder_key(home: Home, joined: FolderSync) -> str:
    """Change the key of the folder and return the new key; all facts that this home has stay accepted."""
    ends = {}
    for name in home.names(FOLDER, SHARED, joined.workspace):
        with home.disk(FOLDER, SHARED, joined.workspace, name) as folder:
            ends[unquote(name)] = find_ends(each.fact for each in DiskLog(folder).read())
    key = new_key()
    with Disk(joined.path).open(TOP, create=True) as shared, home.disk(FOLDER, SHARED) as folder:
        before = _read_workspace(shared) or read_own_key(folder).record
        generation = before.generation if before is not None else 1
        record = make_record(joined.workspace, key, generation + 1, ends)
        stage_key(folder, key, record)
        settle_staged(folder, _replace(shared, record))
    return key


def read_folder_key(home: Home) -> OwnKey:
    """Return the key of the shared folder that this home has."""
    with home.disk(FOLDER, SHARED) as folder:
        return read_own_key(folder)


def count_unsent(home: Home, joined: FolderSync) -> int:
    """Return the number of this home's facts that are not in the shared folder yet."""
    shared, waiting = FolderTransport(joined.path), 0
    for name in home.names(FOLDER, SHARED, joined.workspace):
        with home.disk(FOLDER, SHARED, joined.workspace, name) as folder:
            log = DiskLog(folder)
        own = log.tail().own_facts().places.get(log.replica, [])
        waiting += max(0, len(own) - shared.last(unquote(name), log.replica))
    return waiting


def count_purged(home: Home, joined: FolderSync) -> dict[str, tuple[int, int]]:
    """Return the progress of the slowest purge of each place that has purges.

    The first number counts the machines that have carried out this purge, the second all machines.
    """
    found = {}
    for name in home.names(FOLDER, SHARED, joined.workspace):
        with home.disk(FOLDER, SHARED, joined.workspace, name) as folder:
            log = DiskLog(folder)
            own = {log.replica, *log.tail().own}
            if listed := purge_facts.reach((each.fact for each in log.read()), own):
                found[unquote(name)] = min(listed)
    return found


def leave_folder(home: Home) -> FolderSync:
    """Stop syncing with the shared folder; its facts and the home's files stay."""
    left = find_folder(home)
    with home.disk(FOLDER, SHARED) as folder:
        folder.delete(WORKSPACE_FILE)
    return left


@dataclass(frozen=True, slots=True)
class PlaceSynced:
    """The result of syncing one place, with findings about files that cannot be synced."""

    stream: str
    done: Synced
    findings: tuple[Finding, ...]
    news: tuple[str, ...] = ()  # messages about a team's members


def sync_folder(
    home: Home,
    joined: FolderSync,
    *,
    actor: str,
    now: Callable[[], datetime],
    deletions: bool | None = None,
) -> tuple[list[PlaceSynced], list[str]]:
    """Sync all places of a home, and all places in the shared folder.

    Return the results, and the names of unknown files in the folder. `deletions` has the same meaning as in
    `SyncStream.sync`.
    """
    if not joined.path.is_dir():
        hint = "connect or mount it, then run `vade sync` again"
        raise StorageFailed(f"{joined.path} is missing", hint=hint)
    joined, record = check_folder_key(home, joined)
    shared = FolderTransport(joined.path)
    every = sorted({*places(home), *filter(None, map(place_of, shared.streams()))}, key=str)
    found = []
    for place in every:
        home_files = HomeFiles(home, home.scope_folder(place), actor, now, aside=(FOLDER, SHARED, "held"))
        found.append(_sync_place(joined, record, shared, home_files, deletions))
    return found, shared.strange


def _sync_place(
    joined: FolderSync,
    record: KeyRecord,
    shared: FolderTransport,
    home_files: HomeFiles,
    deletions: bool | None,
) -> PlaceSynced:
    home, key, name = home_files.home, joined.key.encode(), str(home_files.scope_folder.place)
    with (
        home.lock(f"sync {name}"),
        home.disk(FOLDER, SHARED, joined.workspace, quote(name, safe=""), create=True) as folder,
    ):
        log, ends = DiskLog(folder), record.ends.get(name, {})
        log.seal_own(key, record.check, ends)
        if shared.is_ahead(name, log.replica, log.last()):
            log.renew()  # this home was restored from a backup, or copied
        stream = SyncStream(
            name,
            log,
            home_files,
            shared,
            ends=ends,
            accept=lambda fact: fact_rules.is_sealed(fact, key),
            make=lambda fact: fact_rules.seal(fact, key),
            acks=True,
        )
        try:
            done = stream.sync(deletions=deletions)
        except Forked:
            log.begin_anew()
            done = stream.sync(deletions=deletions)
        former = log.former() if log.of_kind(PURGE) else ()
        if former:  # no other home purges the files of a former name
            shared.purge_files(name, former, {each.fact.id for each in log.read() if each.fact.purged})
        home_files.keep_notices(done.notices)
        own = {log.replica, *log.former()}  # this sync has written this home's files again
        damaged = [
            Finding("not received", f"{TOP}/{quote(name, safe='')}/{file}", why, _CARRY)
            for (stream, file), why in sorted(shared.unreadable.items())
            if stream == name and file.partition(".")[0] not in own
        ]
        return PlaceSynced(name, done, (*home_files.findings, *damaged))


def places(home: Home, *below: str) -> list[Place]:
    """Return the synced places of a home's own memory, or of a team's folder `below` the memory folder."""
    found = []
    for scope in SYNCED:
        if not scope.rule.owner:
            found += [Place(scope)] if home.names("memory", *below, str(scope)) else []
        else:
            found += [
                Place(scope, owner)
                for owner in home.names("memory", *below, str(scope))
                if not owner.startswith(".")
            ]
    return found


def place_of(stream: str) -> Place | None:
    """Return the place to which a stream belongs; None for a name that is not that of a synced place."""
    scope, _, owner = stream.partition("/")
    if scope not in SYNCED or bool(owner) is not bool(Scope(scope).rule.owner):
        return None
    try:
        return Place(Scope(scope), names.check_id(owner, "a place") if owner else "")
    except UsageError:
        return None


def _read_workspace(shared: DiskFolder) -> KeyRecord | None:
    """Return the record of a shared folder's key; None for a folder that no machine has begun."""
    content = shared.read(WORKSPACE_FILE, largest=_LARGEST)
    if content is None:
        return None
    with contextlib.suppress(ValueError, TypeError, KeyError, Malformed):
        given = json.loads(content)
        if given["protocol"] == 1 and re.fullmatch("[0-9a-z]{16}", given["workspace"]):
            return parse_record(given)
    raise Malformed(
        f"{TOP}/{WORKSPACE_FILE} of that folder cannot be read", hint="wait until it is whole, or upgrade"
    )


def _known_key(home: Home, workspace: str) -> str:
    with contextlib.suppress(FileNotFoundError), home.disk(FOLDER, SHARED) as folder:
        values = json.loads(folder.read(WORKSPACE_FILE) or b"{}")
        if values.get("workspace") == workspace:
            return (folder.read(KEY) or b"").decode().strip()
    return ""
