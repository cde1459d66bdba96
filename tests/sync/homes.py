"""The oracle's machines as real homes: files, logs, locks and a shared folder on disk, and real commands.

What a command does to the files of its own machine is observed, not foretold: the oracle's question is what
becomes of it everywhere else.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from sync.world import STREAM, TEXT, WEIGHTS, Away, Fuse, Killed, MemoryFolder, Replica, World
from vademecum.errors import StorageFailed, VadeError
from vademecum.memory import connect
from vademecum.store.files import Drafts
from vademecum.sync import facts, hub_client, hub_sync, membership
from vademecum.sync import folder_sync as shared
from vademecum.sync.hub_key import keep_hub_key, rotate_hub_key
from vademecum.sync.stream_log import BASE, LINES, STATE, DiskLog, HomeFiles
from vademecum.sync.stream_sync import Synced
from vademecum.sync.workspace_key import WrongKey, new_key
from vademecum.text import document, filenames
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from vademecum.memory import Memory
    from vademecum.sync.facts import SyncFact
    from vademecum.sync.stream_window import Logged

WORDS = "amber basil cedar delta ember fjord grove hazel indigo kelp lotus maple nectar olive pine".split()
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
YEARS = timedelta(days=3_650)
PINNED = "MEMORY.md"


class DiskTexts(MutableMapping[str, str]):
    """The records and journals of one place, as whoever opens them in an editor sees them."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def __getitem__(self, path: str) -> str:
        try:
            return (self.top / path).read_bytes().decode()
        except FileNotFoundError:
            raise KeyError(path) from None

    def __setitem__(self, path: str, text: str) -> None:
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_bytes(text.encode())

    def __delitem__(self, path: str) -> None:
        (self.top / path).unlink()

    def __iter__(self) -> Iterator[str]:
        for kind in ("journal", "records"):
            with contextlib.suppress(FileNotFoundError):
                for name in sorted(os.listdir(self.top / kind)):
                    if filenames.is_record(name):
                        yield f"{kind}/{name}"

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass
class DiskFiles:
    """What the oracle may know of a machine's files."""

    texts: DiskTexts
    kept: list[str] = field(default_factory=list)
    forgotten: dict[str, str] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)


class DiskShare(MemoryFolder):
    """The folder that all homes reach, on disk."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        path.mkdir()

    @property
    def logs(self) -> dict[str, list[SyncFact]]:
        """Each replica's facts as they lie there."""
        return shared.FolderTransport(self.path)._read(STREAM, {})

    @logs.setter
    def logs(self, given: object) -> None:
        """Nobody sets them but the machines."""


@dataclass
class LogView:
    """A machine's log, read from its home."""

    lines: list[Logged]
    replica: str
    put_aside: list[SyncFact] = field(default_factory=list)


class HomeReplica(Replica):
    """A machine with a home of its own."""

    skew = timedelta()

    def __init__(self, name: str, folder: DiskShare, base: Path, key: str | None, world: HomeWorld) -> None:
        self.top, self.world, self.ticks = base / name, world, 0
        (self.top / "cwd").mkdir(parents=True)
        self.shared = folder
        super().__init__(name, folder)
        self.key = self.join(key)

    def __post_init__(self) -> None:
        self.files = DiskFiles(DiskTexts(self.top / "home/memory/global"))  # type: ignore[assignment]

    def memory(self, origin: Origin = Origin.USER) -> Memory:
        return connect(home=self.top / "home", cwd=self.top / "cwd", origin=origin, environ={}, now=self.now)

    def now(self) -> datetime:
        self.ticks += 1
        return BEGIN + self.skew + timedelta(seconds=self.ticks, microseconds=ord(self.name))

    def join(self, key: str | None) -> str:
        """Join where the others are, and return the key."""
        self.joined, _ = shared.join_folder(self.memory().home, self.shared.path, key)
        return self.joined.key

    @property
    def parts(self) -> tuple[str, ...]:
        """Where in the home the state of its sync is."""
        return "hub", "folder", self.joined.workspace, STREAM

    @property
    def state(self) -> Path:
        return self.top.joinpath("home", *self.parts)

    @property
    def log(self) -> LogView:  # type: ignore[override]
        with self.memory().home.disk(*self.parts, create=True) as folder:
            log = DiskLog(folder)
            self.world.called.setdefault(log.replica, self.name)
            return LogView(list(log.read()), log.replica)

    def new_log(self) -> None:
        for name in (LINES, STATE, BASE):
            (self.state / name).unlink(missing_ok=True)

    def sync(self, *, kill: int | None = None) -> Synced | None:
        """A sync as the command does it, or one that dies at an act of it."""
        self.fuse.left = kill
        try:
            with killable(self):
                found = self.meet()
        except Killed:
            self.blind = True
            return None
        except (Away, StorageFailed, WrongKey):
            return None
        finally:
            self.fuse.left = None
        for each in (self.stripped, self.pending, self.copied, self.fresh, self.edited):
            each.clear()
        self.blind = False
        assert all(not each.findings for each in found), [each.findings for each in found]
        return next((each.done for each in found if each.stream == STREAM), Synced())

    def has_right_key(self) -> bool:
        return True  # the sync itself says whether it has

    def take_key(self, key: str) -> None:
        self.joined, _ = shared.join_folder(self.memory().home, self.shared.path, key)

    def rotate(self) -> str:
        return shared.rotate_folder_key(self.memory().home, self.joined)

    def plant(self, made: Sequence[SyncFact]) -> None:
        file = self.shared.path / f"vade-sync/{STREAM}/{made[0].replica}.{1:012}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(facts.render(fact) + b"\n" for fact in made))

    def meet(self) -> list[shared.PlaceSynced]:
        """The sync itself."""
        home, now = self.memory().home, self.now
        self.joined = shared.find_folder(home)
        return shared.sync_folder(home, self.joined, actor="human:ada", now=now, deletions=True)[0]


class HubShare(DiskShare):
    """A hub, as the oracle sees it."""

    def __init__(self, url: str, code: str) -> None:
        MemoryFolder.__init__(self)
        self.url, self.code = url, code
        self.ask: Callable[[str], list[dict[str, Any]]] = lambda path: []

    @property
    def logs(self) -> dict[str, list[SyncFact]]:
        found: dict[str, list[SyncFact]] = {}
        after = 0
        while lines := self.ask(f"/v1/streams/{STREAM}/facts?after={after}"):
            for line in lines:
                fact = facts.parse(json.dumps(line["fact"], ensure_ascii=False))
                found.setdefault(fact.replica, []).append(fact)
                after = line["stamp"]["seq"]
        return found

    @logs.setter
    def logs(self, given: object) -> None:
        """Nobody sets them but the machines."""


class HubReplica(HomeReplica):
    """A machine that meets the others at a hub."""

    def join(self, key: str | None) -> str:
        home, share = self.memory().home, self.shared
        assert isinstance(share, HubShare)
        self.joined = membership.join_hub(home, share.url, share.code)  # type: ignore[assignment]
        key = key or new_key()
        keep_hub_key(home, self.joined, key)  # type: ignore[arg-type]
        share.ask = self.ask
        share.code = str(json.loads(self.send("POST", "/v1/invites", b"{}"))["code"])
        return key

    def take_key(self, key: str) -> None:
        keep_hub_key(self.memory().home, self.joined, key)  # type: ignore[arg-type]

    def rotate(self) -> str:
        return rotate_hub_key(self.memory().home, self.joined, self.meet)  # type: ignore[arg-type]

    def plant(self, made: Sequence[SyncFact]) -> None:
        """The hub takes nothing from somebody who does not know the new key."""

    def send(self, method: str, path: str, body: bytes | None = None) -> bytes:
        client = membership.client_of(self.memory().home, self.joined, patience=5)  # type: ignore[arg-type]
        try:
            return client.ask(method, path, body).body
        finally:
            client.close()

    def ask(self, path: str) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in self.send("GET", path).splitlines()]
        except hub_client.HubRefused:  # nobody has left anything there
            return []

    @property
    def parts(self) -> tuple[str, ...]:
        return "hub", self.joined.workspace, "logs", STREAM

    def meet(self) -> list[shared.PlaceSynced]:
        if self.name in self.shared.cut_off:
            raise Away
        home = self.memory().home
        joined, key = hub_sync.find_hub(home)
        client = membership.client_of(home, joined, patience=5)
        return hub_sync.HubSync(home, joined, key, "human:ada", self.now, deletions=True).run(client)


@contextlib.contextmanager
def killable(at: HomeReplica) -> Iterator[None]:
    """Every durable act of a sync can be its last, before or after it; a write of lines in its middle."""
    fuse: Fuse = at.fuse

    def act(call: Callable[..., Any]) -> Callable[..., Any]:
        def burning(*given: Any, **named: Any) -> Any:
            fuse.burn()
            done = call(*given, **named)
            fuse.burn()
            return done

        return burning

    write, named, anew = DiskLog._write, DiskLog._start_replica, DiskLog.begin_anew
    pull, archive = shared.FolderTransport.pull, HomeFiles.archive

    def torn(self: DiskLog, line: bytes) -> None:
        fuse.burn()
        if fuse.left == 0 and b"\n" in line:
            half = line[: line.find(b"\n") + 9]
            self._folder.update(LINES, lambda before: (before or b"") + half)
            fuse.burn()
        write(self, line)
        fuse.burn()

    def reached(self: shared.FolderTransport, stream: str, known: Any) -> Iterable[SyncFact]:
        if at.name in at.shared.cut_off:
            raise Away
        return list(pull(self, stream, known))

    def archived(self: HomeFiles, path: str, text: str) -> None:
        archive(self, path, text)
        at.files.kept.append(text)

    def renewed(self: DiskLog) -> None:
        at.world.doubt_log(at)
        anew(self)

    def called(self: DiskLog, replica: str) -> None:
        at.world.called[replica] = at.name
        named(self, replica)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiskLog, "_write", torn)
        patch.setattr(DiskLog, "_start_replica", called)
        patch.setattr(shared.FolderTransport, "pull", reached)
        patch.setattr(HomeFiles, "archive", archived)
        patch.setattr(DiskLog, "begin_anew", renewed)
        for holder, name in (
            (DiskLog, "_save"),
            (DiskLog, "remember"),
            (HomeFiles, "write"),
            (HomeFiles, "_log"),
            *((Drafts, each) for each in ("sync", "create", "exchange", "take")),
            (shared.FolderTransport, "push"),
            (hub_client.HubClient, "ask"),
            (hub_client.Remote, "_write_json"),
            (hub_client.Remote, "_keep_stamps"),
        ):
            patch.setattr(holder, name, act(getattr(holder, name)))
        yield


class HomeWorld(World):
    """The machines of the oracle, with homes below a folder and commands beside hand edits."""

    def __init__(self, rnd: random.Random, base: Path, count: int = 5, share: HubShare | None = None) -> None:
        self.base, self.share, self.more = base, share, dict[str, int]()
        self.foreign: set[str] = set()
        self.pins: set[str] = set()
        self.called: dict[str, str] = {}  # the machine of each replica
        super().__init__(rnd, count)

    def __post_init__(self) -> None:
        folder = self.folder = self.share or DiskShare(self.base / "shared")
        if self.share:
            self.acts = 34  # requests and answers, cursors and stamps beside the rest
        kind = HubReplica if self.share else HomeReplica
        self.number = 0
        self.replicas = []
        for letter in "abcde"[: self.count]:
            key = self.replicas[0].key if self.replicas else None
            self.replicas.append(kind(letter, folder, self.base, key, self))

    def owner_of(self, replica: str) -> str:
        return self.called[replica]

    def words(self, at: Replica) -> str:
        return f"{self.text(at)} {' '.join(self.rnd.choice(WORDS) for _ in range(9))}"

    # ------------------------------------------------------------ commands

    def command(self, at: Replica, call: Callable[[Memory], object], new: str = "") -> None:
        """Run one, and write down what it did to the texts of its machine."""
        assert isinstance(at, HomeReplica)
        before = at.visible()
        with contextlib.suppress(VadeError):  # what is refused is not done
            call(at.memory(self.rnd.choice((Origin.USER, Origin.USER, Origin.AGENT))))
        after = at.visible()
        if new and new not in after:
            del self.made[new], self.author[new]
        self._removed(at, sorted(before - after))
        for text in after - before - {new}:  # it came back
            self.unclear.add(self.root(text))

    def begin(self, at: Replica) -> None:
        words = self.words(at)
        new = words.partition(" ")[0]
        if self.rnd.random() < 0.3:
            self.command(at, lambda memory: memory.note(words, scope="global"), new)
        else:
            key = f"k{self.number}{at.name}"
            self.command(at, lambda memory: memory.store(words, key=key, scope="global"), new)

    def append(self, at: Replica) -> None:
        self._store(at, "append")

    def replace(self, at: Replica) -> None:
        """The entries of a record give way to one."""
        self._store(at, "replace")

    def _store(self, at: Replica, mode: Any) -> None:
        key = self._key(at)
        if key:
            words = self.words(at)
            self.command(
                at,
                lambda memory: memory.store(words, key=key, scope="global", mode=mode),
                words.partition(" ")[0],
            )

    def confirm(self, at: Replica) -> None:
        """The same is said again."""
        key = self._key(at)
        if key:
            text = at.files.texts[f"records/{key}.md"]
            [*_, last] = text.split("## ")
            words = " ".join(line for line in last.splitlines()[1:] if line and not line.startswith("<!--"))
            if words:
                self.command(at, lambda memory: memory.store(words, key=key, scope="global"))

    def forget(self, at: Replica) -> None:
        key = self._key(at)
        if key and f"records/{key}.md" not in at.fresh:
            at.files.forgotten[key] = key
            self.command(at, lambda memory: memory.forget(key, scope="global"))

    def restore(self, at: Replica) -> None:
        if at.files.forgotten:
            key = at.files.forgotten.pop(next(iter(at.files.forgotten)))
            self.command(at, lambda memory: memory.restore(key, scope="global"))

    def tag(self, at: Replica) -> None:
        key = self._key(at)
        if key:
            self.number += 1
            tag = f"t{self.number}"
            self.command(at, lambda memory: memory.care.tag([key], add=[tag], scope="global"))
            if tag in self.tags_of(at.files.texts.get(f"records/{key}.md", "")):
                self.tags.add(tag)

    def undo(self, at: Replica) -> None:
        """The last run is taken back: tags that it added are gone."""
        before = {tag for text in at.files.texts.values() for tag in self.tags_of(text)}
        self.command(at, lambda memory: memory.care.undo())
        after = {tag for text in at.files.texts.values() for tag in self.tags_of(text)}
        if before - after:
            self.loose_sets |= at.blind
            self.untagged |= before - after
        if after - before:
            self.loose_sets = True

    def protect(self, at: Replica) -> None:
        key = self._key(at)
        if key:
            on = self.rnd.random() < 0.7
            self.command(at, lambda memory: memory.review.protect(key, scope="global", on=on))

    def verify(self, at: Replica) -> None:
        key = self._key(at)
        if key:
            self.command(at, lambda memory: memory.review.verify(key, scope="global"))

    def type_foreign(self, at: Replica) -> None:
        """A block comes from somewhere that says who wrote it, in a way that this version does not know."""
        path = self._path(at)
        if path:
            words = self.words(at)
            self.foreign.add(words.partition(" ")[0])
            foreign_entry = f"\n## 2026-01-01T02:00:00Z\n{words}\n<!-- origin: member:anna -->\n"
            at.files.texts[path] = at.files.texts[path].rstrip() + "\n" + foreign_entry

    def tidy(self, at: Replica) -> None:
        """What care does by itself."""
        self.command(at, lambda memory: memory.care.sweep(apply=True))

    def pin(self, at: Replica) -> None:
        """A section more in a pinned document."""
        assert isinstance(at, HomeReplica)
        self.number += 1
        mark = f"p{self.number}"
        file = at.top / "home/memory/global" / PINNED
        before = file.read_bytes().decode() if file.exists() else ""
        after = f"{before or '# Me'}\n\n## Part {mark}\n\nThis is {mark}.\n".replace("\n\n\n", "\n\n")
        with contextlib.suppress(VadeError):
            at.memory().care.edited(PINNED, before, after, scope="global")
            self.pins.add(mark)

    # ------------------------------------------------------------ what happens to homes

    def skew(self, at: Replica) -> None:
        """A clock goes wrong by ten years, or right again."""
        at.skew = self.rnd.choice((timedelta(), YEARS, -YEARS))  # type: ignore[attr-defined]

    def clone(self, at: Replica) -> None:
        other = self.rnd.choice(self.replicas)
        assert isinstance(at, HomeReplica)
        assert isinstance(other, HomeReplica)
        if other is at or at.sync() is None or other.sync() is None:
            return
        shutil.rmtree(other.top / "home")
        shutil.copytree(at.top / "home", other.top / "home")
        other.files.kept += at.files.kept
        other.files.forgotten.clear()
        self.cloned = True

    def save_home(self, at: Replica) -> None:
        """A backup of a home that has nothing to send."""
        assert isinstance(at, HomeReplica)
        if at.sync() is not None:
            shutil.rmtree(at.top / "backup", ignore_errors=True)
            shutil.copytree(at.top / "home", at.top / "backup")

    def roll_back(self, at: Replica) -> None:
        """A home is as it was when it was saved; what it did since was sent."""
        assert isinstance(at, HomeReplica)
        if (at.top / "backup").exists() and at.sync() is not None:
            shutil.rmtree(at.top / "home")
            shutil.copytree(at.top / "backup", at.top / "home")
            at.files.forgotten.clear()
            self.cloned = True

    def lose_base(self, at: Replica) -> None:
        """What a home knows of how far its files are is deleted; its log stays."""
        assert isinstance(at, HomeReplica)
        for text in at.pending | at.edited:
            self.unclear.add(self.root(text))
        (at.state / STATE).unlink(missing_ok=True)
        self.any_lost = at.blind = True

    def lose_cache(self, at: Replica) -> None:
        assert isinstance(at, HomeReplica)
        (at.state / BASE).unlink(missing_ok=True)

    # ------------------------------------------------------------ helpers

    def step(self) -> None:
        weights = {**OPERATIONS, **self.more}
        operation = self.rnd.choices(list(weights), weights=list(weights.values()))[0]
        getattr(self, operation)(self.rnd.choice(self.replicas))

    def _key(self, at: Replica) -> str:
        """A record that a command can be told."""
        found = [path for path in at.files.texts if path.startswith("records/")]
        return self.rnd.choice(found).removeprefix("records/").removesuffix(".md") if found else ""

    def check(self) -> None:
        super().check()
        for at in self.replicas:
            assert isinstance(at, HomeReplica)
            file = at.top / "home/memory/global" / PINNED
            text = file.read_bytes() if file.exists() else b""
            self._check_origins(at)
            for mark in self.pins:
                assert text.count(f"This is {mark}.".encode()) == 1, f"{mark} is lost or doubled at {at.name}"
            first = self.replicas[0]
            assert isinstance(first, HomeReplica)
            other = first.top / "home/memory/global" / PINNED
            assert text == (other.read_bytes() if other.exists() else b"")

    def _check_origins(self, at: Replica) -> None:
        """No text whose origin is not known here is taken for the person's own."""
        for text in at.files.texts.values():
            for entry in document.parse(text).entries:
                if self.foreign & set(TEXT.findall(entry.text)):
                    assert entry.origin is not Origin.USER, f"{entry.text} counts as typed by the person"


OPERATIONS = {
    **WEIGHTS,
    "replace": 3,
    "confirm": 3,
    "undo": 2,
    "protect": 2,
    "verify": 2,
    "tidy": 1,
    "type_foreign": 3,
    "pin": 3,
    "skew": 2,
    "save_home": 2,
    "roll_back": 2,
    "lose_base": 3,
    "lose_cache": 2,
}


def live(
    seed: int,
    base: Path,
    *,
    steps: int | None = None,
    share: HubShare | None = None,
    more: Mapping[str, int] | None = None,
) -> HomeWorld:
    """One life of a few real homes, in which `more` happens."""
    rnd = random.Random(seed)
    world = HomeWorld(rnd, base, 3 if share else 5, share)
    world.more.update(more or {})
    for _ in range(steps or rnd.randint(8, 40)):
        world.step()
    world.check()
    return world


def failures(
    seeds: Iterable[int],
    base: Path,
    share: Callable[[], HubShare] | None = None,
    *,
    more: Mapping[str, int] | None = None,
) -> Iterator[tuple[int, BaseException]]:
    """The seeds with which real homes do what they must not, and what that was; `share` makes a hub each."""
    for seed in seeds:
        top = base / str(seed)
        top.mkdir()
        try:
            live(seed, top, share=share() if share else None, more=more)
        except (AssertionError, KeyError, ValueError, VadeError) as wrong:
            yield seed, wrong
        finally:
            shutil.rmtree(top)
