"""Several machines of one person through a folder that something else carries: Syncthing, Dropbox, a stick.

Each replica writes only files of its own there, `vade-sync/<stream>/<replica>.<first>.jsonl`, which only ever
grow; so nothing that carries them can make two versions of one. Half a file is read as far as it is whole.
Every fact is sealed with a key that never lies in that folder: who can write there cannot make up a text.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from vademecum.errors import Malformed, NotFound, OutsideMemory, Refused, StorageFailed, UsageError
from vademecum.store import files, hub_rules
from vademecum.sync import facts as fact_rules
from vademecum.sync import purges
from vademecum.sync.facts import PURGE
from vademecum.sync.log import DiskLog, HomeFiles
from vademecum.sync.membership import FOLDER, KEY, SHARED, new_key, read_key
from vademecum.sync.place import Forked, SyncStream
from vademecum.text import names
from vademecum.types import Finding, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from vademecum.store import Home
    from vademecum.sync.facts import Dot, SyncFact
    from vademecum.sync.place import Synced
    from vademecum.sync.window import OwnFacts

TOP, TOLD = "vade-sync", "workspace.json"
SYNCED = (Scope.GLOBAL, Scope.PROJECT, Scope.AGENT)  # a session is over soon; federated memory is a machine's
_SEGMENT = 500  # facts in one file
_FILE = re.compile(r"([0-9a-hjkmnp-tv-z]{8,32})\.(\d{12})\.jsonl")
_LARGEST = 1 << 30


@dataclass(frozen=True, slots=True)
class FolderTransport:
    """The folder as a transport."""

    path: Path
    strange: list[str] = field(default_factory=list)  # names that are no segment: copies that a carrier made

    def streams(self) -> list[str]:
        """The streams that any replica has left something of."""
        try:
            with files.Disk(self.path).open(TOP) as top:
                found = [unquote(name) for name in top.names() if name != TOLD and not name.startswith(".")]
        except FileNotFoundError:
            return []
        return sorted(found)

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterator[SyncFact]:
        """Facts that are not known, each replica's in their order, as far as they are whole."""
        for facts in self._read(stream, known).values():
            yield from facts

    def last(self, stream: str, replica: str) -> int:
        """How many facts of a replica lie there."""
        facts = self._read(stream, {}, only=replica, newest=True).get(replica)
        return facts[-1].n if facts else 0

    def is_ahead(self, stream: str, replica: str, known: int) -> bool:
        """Whether more facts of a replica lie there than are known."""
        return bool(self._read(stream, {replica: known}, only=replica).get(replica))

    def push(self, stream: str, facts: OwnFacts) -> None:
        """Leave this home's facts; a file that has them already is not touched."""
        with files.Disk(self.path).open(TOP, quote(stream, safe=""), create=True) as folder:
            for replica, listed in facts.places.items():
                for first in range(0, len(listed), _SEGMENT):
                    lines = facts.rendered(replica, first, first + _SEGMENT)
                    content = b"".join(line + b"\n" for line in lines)
                    name = f"{replica}.{first + 1:012d}.jsonl"
                    there = folder.read(name, largest=_LARGEST) or b""
                    if there != content:
                        # What it has already and more: the rest need not be read to be added.
                        whole = content.startswith(there)
                        merged = content if whole else self._merged(there, content)
                        if merged != there:
                            _put(folder, name, merged)

    def let_go(self, stream: str, replicas: Collection[str], purged: Collection[Dot]) -> None:
        """Take the content of these facts away from the files of some replicas, whoever wrote them.

        Of each fact one line can be left of it, so whoever else does it writes the same.
        """
        with files.Disk(self.path).open(TOP, quote(stream, safe=""), create=True) as folder:
            for name in folder.names():
                match = _FILE.fullmatch(name)
                if match is None or match[1] not in replicas:
                    continue
                there = folder.read(name, largest=_LARGEST) or b""
                listed = list(_following({1: there}, named=False))
                if any(fact.dot in purged and not fact.purged for fact in listed):
                    left = (fact_rules.blank(fact) if fact.dot in purged else fact for fact in listed)
                    _put(folder, name, b"".join(fact_rules.render(fact) + b"\n" for fact in left))

    def _merged(self, there: bytes, content: bytes) -> bytes:
        """A file of ours with all that it lacks, without what was purged; it may have been cut short.

        It may also have more than we know: a copy of this home sent it.
        """
        known, listed = list(_following({1: there}, named=False)), list(_following({1: content}, named=False))
        if any(a.hash != b.hash for a, b in zip(known, listed, strict=False)):
            raise Forked(f"{self.path} has other facts of this home", hint="sync again")
        purged = any(b.purged and not a.purged for a, b in zip(known, listed, strict=False))
        if len(known) >= len(listed) and not purged:
            return there
        both = (*listed, *known[len(listed) :])
        return b"".join(fact_rules.render(fact) + b"\n" for fact in both)

    def _read(
        self, stream: str, known: Mapping[str, int], only: str = "", *, newest: bool = False
    ) -> dict[str, list[SyncFact]]:
        """The facts of all replicas that are not known, or of the newest files, and follow on each other."""
        names: dict[str, dict[int, str]] = {}
        try:
            with files.Disk(self.path).open(TOP, quote(stream, safe="")) as folder:
                for name in folder.names():
                    match = _FILE.fullmatch(name)
                    if match is None:
                        if not name.startswith(".") and name not in self.strange:
                            self.strange.append(name)
                    elif only in ("", match[1]):
                        names.setdefault(match[1], {})[int(match[2])] = name
                found = {}
                for replica, listed in names.items():
                    count = max(listed) - 1 if newest else known.get(replica, 0)
                    found[replica] = list(_following(_contents(folder, listed, count), known=count))
                return found
        except FileNotFoundError:
            return {}


def _contents(folder: files.DiskFolder, named: Mapping[int, str], known: int) -> dict[int, bytes]:
    """The files of one replica from the one on that has the first unknown fact; none until that is there."""
    start = max((first for first in named if first <= known + 1), default=0)
    found: dict[int, bytes] = {}
    for first in sorted(named):
        if first >= start > 0:
            with contextlib.suppress(OutsideMemory):
                found[first] = folder.read(named[first], largest=_LARGEST) or b""
    return found


def _put(folder: files.DiskFolder, name: str, content: bytes) -> None:
    folder.update(name, lambda _: content)


def _following(parts: Mapping[int, bytes], *, named: bool = True, known: int = 0) -> Iterator[SyncFact]:
    """The facts of files as far as they follow on each other, without as many as are known.

    Files that are `named` say which fact is their first. A known one is not read again: whoever takes those
    that follow compares them with what it has of it.
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


# ------------------------------------------------------------ what a home knows of its folder


@dataclass(frozen=True, slots=True)
class FolderSync:
    """The folder that a home is synced through."""

    path: Path
    workspace: str
    key: str


def find_folder(home: Home) -> FolderSync:
    """The folder that this home is synced through."""
    from pathlib import Path

    try:
        with home.disk(FOLDER, SHARED) as folder:
            told, key = json.loads(folder.read(TOLD) or b"null"), (folder.read(KEY) or b"").decode().strip()
        return FolderSync(Path(told["path"]), str(told["workspace"]), key)
    except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
        raise NotFound(
            "no folder is set for `vade sync`", hint="run `vade sync --folder PATH`, or join a hub"
        ) from error


def join_folder(home: Home, path: Path, typed: str | None) -> tuple[FolderSync, bool]:
    """Set the folder of this home; a new one gets a key, which is returned to be shown."""
    home.check_format()
    if not path.is_dir():
        raise NotFound(f"{path} is not a folder", hint="make it first; it is one that your machines share")
    top = path.resolve()
    if top == home.path.resolve() or home.path.resolve() in top.parents or top in home.path.resolve().parents:
        raise UsageError("the shared folder lies in the memory folder, or around it", hint="name another one")
    with files.Disk(top).open(TOP, create=True) as shared:
        told = _told(shared.read(TOLD))
        key = read_key(typed) if typed else ""
        if told is None:
            key = key or new_key()
            told = {"protocol": 1, "workspace": names.new_mark(16), "check": _check(key)}
            with contextlib.suppress(FileExistsError):
                shared.create(TOLD, json.dumps(told, indent=1).encode() + b"\n")
            made = True
        else:
            key, made = key or _known_key(home, str(told["workspace"])), False
            if not key:
                raise UsageError(
                    "this folder has a key",
                    hint="pass the one that the first machine showed, with VADE_SYNC_KEY",
                )
            if not hmac.compare_digest(_check(key), str(told["check"])):
                raise Refused(
                    "this is not the key of that folder", hint="type the one that the first machine showed"
                )
    with home.disk(FOLDER, SHARED, create=True) as folder:
        folder.update(KEY, lambda _: key.encode() + b"\n")
        before = hub_rules.load(folder.read(TOLD))
        same = before.get("workspace") == told["workspace"] and before.get("began") is True
        # Who began the folder is the one machine that archives old records by itself.
        kept = {"path": str(top), "workspace": told["workspace"], "began": made or same}
        folder.update(TOLD, lambda _: json.dumps(kept, indent=1).encode() + b"\n")
    return FolderSync(top, str(told["workspace"]), key), made


def needs_key(home: Home, path: Path) -> bool:
    """Whether somebody else began that folder, so that its key must be typed here."""
    try:
        with files.Disk(path).open(TOP) as shared:
            told = _told(shared.read(TOLD))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return told is not None and not _known_key(home, str(told["workspace"]))


def count_unsent(home: Home, joined: FolderSync) -> int:
    """How many changes are written down here and not in the folder."""
    shared, waiting = FolderTransport(joined.path), 0
    for name in home.names(FOLDER, SHARED, joined.workspace):
        with home.disk(FOLDER, SHARED, joined.workspace, name) as folder:
            log = DiskLog(folder)
        own = log.tail().own_facts().places.get(log.replica, [])
        waiting += max(0, len(own) - shared.last(unquote(name), log.replica))
    return waiting


def count_purged(home: Home, joined: FolderSync) -> dict[str, tuple[int, int]]:
    """Of each place with purges on how many machines of how many the least known one was carried out."""
    found = {}
    for name in home.names(FOLDER, SHARED, joined.workspace):
        with home.disk(FOLDER, SHARED, joined.workspace, name) as folder:
            log = DiskLog(folder)
            own = {log.replica, *log.tail().own}
            if listed := purges.reach((each.fact for each in log.read()), own):
                found[unquote(name)] = min(listed)
    return found


def leave_folder(home: Home) -> FolderSync:
    """Sync no longer; files stay here, and facts there."""
    left = find_folder(home)
    with home.disk(FOLDER, SHARED) as folder:
        folder.delete(TOLD)
    return left


@dataclass(frozen=True, slots=True)
class PlaceSynced:
    """What a sync of one place did, and what in it is not synced."""

    stream: str
    done: Synced
    findings: tuple[Finding, ...]
    news: tuple[str, ...] = ()  # of a team's members


def sync_folder(
    home: Home,
    joined: FolderSync,
    *,
    actor: str,
    now: Callable[[], datetime],
    deletions: bool | None = None,
) -> tuple[list[PlaceSynced], list[str]]:
    """Sync every place; what is returned beside is what in the folder is nobody's."""
    if not joined.path.is_dir():
        hint = "connect or mount it, then run `vade sync` again"
        raise StorageFailed(f"{joined.path} is missing", hint=hint)
    shared = FolderTransport(joined.path)
    every = sorted({*places(home), *filter(None, map(place_of, shared.streams()))}, key=str)
    found = []
    for place in every:
        kept = HomeFiles(home, home.shelf(place), actor, now, aside=(FOLDER, SHARED, "held"))
        found.append(_sync_place(joined, shared, kept, deletions))
    return found, shared.strange


def _sync_place(
    joined: FolderSync, shared: FolderTransport, kept: HomeFiles, deletions: bool | None
) -> PlaceSynced:
    home, key, name = kept.home, joined.key.encode(), str(kept.shelf.place)
    with (
        home.lock(f"sync {name}"),
        home.disk(FOLDER, SHARED, joined.workspace, quote(name, safe=""), create=True) as folder,
    ):
        log = DiskLog(folder)
        if shared.is_ahead(name, log.replica, log.last()):
            log.renew()  # a later state of this home was here before it was brought back, or a copy of it is
        stream = SyncStream(
            name,
            log,
            kept,
            shared,
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
        if former:  # nobody else would take it from the files of a name that is used no longer
            shared.let_go(name, former, {each.fact.dot for each in log.read() if each.fact.purged})
        kept.keep_notices(done.notices)
        return PlaceSynced(name, done, tuple(kept.findings))


def places(home: Home, *below: str) -> list[Place]:
    """The places that are synced, of a home or of the folder of a team in it."""
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
    """The place that a stream is of; None for what is no place of ours."""
    scope, _, owner = stream.partition("/")
    if scope not in SYNCED or bool(owner) is not bool(Scope(scope).rule.owner):
        return None
    try:
        return Place(Scope(scope), names.check_id(owner, "a place") if owner else "")
    except UsageError:
        return None


def _told(content: bytes | None) -> dict[str, Any] | None:
    if content is None:
        return None
    try:
        given = json.loads(content)
        if given["protocol"] == 1 and re.fullmatch("[0-9a-z]{16}", given["workspace"]):
            return dict(given)
    except (ValueError, TypeError, KeyError):
        pass
    raise Malformed(f"{TOP}/{TOLD} of that folder cannot be read", hint="wait until it is whole, or upgrade")


def _known_key(home: Home, workspace: str) -> str:
    with contextlib.suppress(FileNotFoundError), home.disk(FOLDER, SHARED) as folder:
        told = json.loads(folder.read(TOLD) or b"{}")
        if told.get("workspace") == workspace:
            return (folder.read(KEY) or b"").decode().strip()
    return ""


def _check(key: str) -> str:
    """What tells the right key from another, and nothing else about it."""
    return hmac.new(key.encode(), b"vade sync", "sha256").hexdigest()
