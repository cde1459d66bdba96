"""Every write operation there is, each with the state it starts from and what must hold when it returned."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from vademecum.errors import StorageFailed, UsageError, VadeError
from vademecum.memory import Memory, connect
from vademecum.store import audit, folders, merge, purge, tombstones
from vademecum.store.home import Home
from vademecum.sync.stream_log import HomeFiles
from vademecum.sync.stream_sync import FileChange
from vademecum.text import names
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.lifecycle.passes import RunOutcome
    from vademecum.types import Record

Tree = dict[str, bytes | None]  # every path below the ground; None for a folder

_START = datetime(2024, 3, 1, 8, 0, tzinfo=UTC)  # long ago, so that every file is newer than the window
PREPARE, RUN, RETRY, FOLLOW, LAST = range(5)

NEIGHBOUR = "The neighbour is never touched and never lost."
FIRST = "The build runs on ninja with eight jobs."
SECOND = "The cache of the build lies in /var/cache/ninja."
THIRD = "Builds of a release are signed by hand."
AFTER = "This came after everything else."
LIKE_FIRST = "The build runs on ninja with eight jobs!"
SLOW, FAST = "The build timeout is 60 seconds.", "The build timeout is 30 seconds."
STALE = "The rest of it is in vault/gone.py#L3."


class Ground:
    """A folder with a home, a project and a vault in it, which can be put back as it was."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home = top / "home"
        self.project = top / "project"
        self.vault = top / "vault"
        self._id = 0

    def memory(self, phase: int) -> Memory:
        """Memory as a person's door opens it, at a time and with ids that depend on the phase alone."""
        moments = (_START + timedelta(hours=phase, seconds=second) for second in range(3000))
        self._id = (phase + 1) << 16
        return connect(
            home=self.home, cwd=self.project, agent="main", origin=Origin.USER, now=lambda: next(moments)
        )

    def next_id(self) -> str:
        """An id that the same run always gets."""
        self._id += 1
        return f"00000000-0000-7000-8000-{self._id:012x}"

    def next_mark(self, length: int = 10) -> str:
        """As `next_id`, for an entry."""
        self._id += 1
        return f"{self._id:0{length}d}"

    def lay(self) -> None:
        """Begin anew: a project with a git folder, a vault with a note, no home."""
        self.put({"project": None, "project/.git": None, "vault": None, "vault/note.md": b"# A note\n"})

    def tree(self) -> Tree:
        """Everything there is."""
        return dict(self._walk(os.fspath(self.top), ""))

    def put(self, tree: Tree) -> None:
        """Make everything as it was in a tree."""
        top = os.fspath(self.top)
        for name in os.listdir(top):
            shutil.rmtree(f"{top}/{name}")
        for name, content in tree.items():
            path = f"{top}/{name}"
            if content is None:
                os.makedirs(path, mode=0o700, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(fd, content)
            if name.startswith("home/memory/"):  # the audit has the time of a change by hand
                os.utime(fd, (_START.timestamp(), _START.timestamp()))
            os.close(fd)

    def _walk(self, path: str, below: str) -> Iterator[tuple[str, bytes | None]]:
        with os.scandir(path) as found:
            for each in sorted(found, key=lambda entry: entry.name):
                name = f"{below}{each.name}"
                if each.is_dir(follow_symlinks=False):
                    yield name, None
                    yield from self._walk(each.path, f"{name}/")
                else:
                    with open(each.path, "rb") as file:
                        yield name, file.read()


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """A ground in memory where the system has one, with ids that repeat and a clean environment."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    top = Path(os.path.realpath(tempfile.mkdtemp(prefix="vade-faults-", dir=fast)))
    here = Ground(top)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VADE_")}
    try:
        with (
            mock.patch.dict(os.environ, clean, clear=True),
            mock.patch.object(names, "new_id", here.next_id),
            mock.patch.object(names, "new_mark", here.next_mark),
            mock.patch.object(tombstones, "new_key", return_value=bytes(range(32))),
        ):
            here.lay()
            yield here
    finally:
        shutil.rmtree(top)


@dataclass(frozen=True, slots=True)
class Operation:
    """One write: what comes before it, the write, what comes after it, and what must hold."""

    name: str
    prepare: Callable[[Ground, Memory], object]
    run: Callable[[Ground, Memory], object]
    follow: Callable[[Ground, Memory], object]
    done: Callable[[Memory], bool]
    earlier: tuple[str, ...] = (NEIGHBOUR, FIRST)
    purged: str = ""  # what no file may hold once it has returned
    again: Callable[[Ground, Memory], object] | None = None  # how a person goes on, where it is not by `run`
    phase: int = RUN

    def retry(self, here: Ground) -> None:
        """Do it once more after it failed or was killed; by then it may be done already."""
        with contextlib.suppress(VadeError):
            (self.again or self.run)(here, here.memory(RETRY))


@dataclass(frozen=True, slots=True)
class Course:
    """What a clean run of an operation looks like: the trees before, after it, and after the next one."""

    before: Tree
    after: Tree
    followed: Tree


def course(here: Ground, operation: Operation, start: Tree | None = None) -> Course:
    """Run an operation undisturbed, and see that it does what it says."""
    here.lay()
    if start is None:
        operation.prepare(here, here.memory(PREPARE))
    else:
        here.put(start)
    before = here.tree()
    folders._cleared.clear()  # as a fresh process, which looks once for what dead ones left
    operation.run(here, here.memory(operation.phase))
    after = here.tree()
    assert operation.done(here.memory(LAST)), f"{operation.name} did not do what it says"
    operation.follow(here, here.memory(FOLLOW))
    followed = here.tree()
    for tree in (before, after, followed):
        assert not list(lost(tree, operation.earlier)), operation.name
        assert tree is before or not list(litter(tree)), (operation.name, list(litter(tree)))
        here.put(tree)
        assert not list(unreadable(here.memory(LAST))), operation.name
    here.put(before)
    return Course(before, after, followed)


def lost(tree: Tree, texts: tuple[str, ...]) -> Iterator[str]:
    """Texts that no visible Markdown file of a tree holds any more."""
    whole = b"\0".join(content for name, content in tree.items() if content and _visible(name, ".md"))
    for text in texts:
        if text.encode() not in whole:
            yield f"lost: {text!r}"


_WHO = re.compile(r"(?<=/\.vade-)\d+-[0-9a-f]+")  # the process and the chance in the name of what is staged
_HOLDER = re.compile(rb"^process \d+")


def likeness(tree: Tree) -> int:
    """A number for a tree, the same for another process's: what follows from both is looked at once."""
    return hash(
        frozenset(
            (_WHO.sub("", name), _HOLDER.sub(b"", content) if content and name.endswith(".lock") else content)
            for name, content in tree.items()
        )
    )


def holding(tree: Tree, text: str) -> Iterator[str]:
    """Files of a tree that hold a text, in whatever kind of file."""
    for name, content in tree.items():
        if content is not None and text.encode() in content:
            yield name


def litter(tree: Tree) -> Iterator[str]:
    """What only a writer at work may have lying about."""
    for name in tree:
        last = name.rpartition("/")[2]
        if last.endswith(".lock") or last.startswith(".vade-"):
            yield f"litter: {name}"


def strange(tree: Tree, *versions: Tree) -> Iterator[str]:
    """Files that are neither as in one version nor as in another: torn, mixed, lost or out of nowhere."""
    names = {name for each in (tree, *versions) for name, content in each.items() if content is not None}
    for name in sorted(names):
        last = name.rpartition("/")[2]
        if last.endswith(".lock") or last.startswith(".vade-") or name == "home/audit/head":
            continue
        content = tree.get(name)
        if name.startswith("home/purges/") and _is_written(name, content):
            continue  # an order is there only while its purge is under way
        allowed = [each.get(name) for each in versions]
        if content not in allowed and not (name.endswith(".jsonl") and _partly(content, allowed)):
            size = "absent" if content is None else f"{len(content)} bytes"
            yield f"torn or lost: {name} ({size})"


def _is_written(name: str, content: bytes | None) -> bool:
    """Whether a file of a purge is absent, or as its writer wrote it."""
    if content is None:
        return True
    try:
        return (
            len(bytes.fromhex(content.decode())) == 32 if name.endswith("/key") else bool(json.loads(content))
        )
    except ValueError:
        return False


def torn_images(tree: Tree) -> Iterator[str]:
    """Archived versions whose content is not the one their name promises."""
    for name, content in tree.items():
        if name.startswith("home/archive/") and content is not None and _visible(name, ".md"):
            mark = name.removesuffix(".md").rpartition("-")[2]
            if purge.MARK.encode() not in content and hashlib.sha256(content).hexdigest()[:8] != mark:
                yield f"torn in the archive: {name}"


def alarms(here: Ground) -> Iterator[str]:
    """What the audit says is wrong with itself."""
    for problem in audit.verify(Home(here.home)).problems:
        yield f"audit: {problem.where}: {problem.why}"


def unreadable(memory: Memory) -> Iterator[str]:
    """Files that memory cannot read, records that hold nothing."""
    for finding in memory.status().findings:
        if finding.severity == "error":
            yield f"unreadable: {finding.where}: {finding.why}"
    for record in memory.list().records:
        if not record.entries:
            yield f"empty: {record.path}"


def _visible(name: str, ending: str) -> bool:
    return name.endswith(ending) and not name.rpartition("/")[2].startswith(".")


def _partly(content: bytes | None, versions: list[bytes | None]) -> bool:
    """Whether a log lies between two versions: it holds all of one and the next one continues it."""
    here = content or b""
    return any(here.startswith(low or b"") for low in versions) and any(
        (high or b"").startswith(here) for high in versions
    )


# -------------------------------------------------------------------- the operations


def _entries(record: Record) -> list[str]:
    return [entry.text for entry in record.entries]


def _prepared(here: Ground, memory: Memory) -> None:
    memory.store(NEIGHBOUR, key="neighbour", scope="global")
    memory.store(FIRST, key="build", scope="global")


def _twice(here: Ground, memory: Memory) -> None:
    _prepared(here, memory)
    memory.store(SECOND, key="build", scope="global")


def _replaced(here: Ground, memory: Memory) -> None:
    _twice(here, memory)
    memory.store(THIRD, key="build", scope="global", mode="replace")


def _poisoned(here: Ground, memory: Memory) -> None:
    """A session wrote to a record, a journal, one of its own and the archive, and has a transcript."""
    _prepared(here, memory)
    moments = (_START + timedelta(minutes=second) for second in range(1, 500))
    bad = connect(
        home=here.home,
        cwd=here.project,
        agent="main",
        session="bad",
        origin=Origin.AGENT,
        now=lambda: next(moments),
    )
    bad.store(SECOND, key="build", scope="global")
    bad.store(SECOND, key="own", scope="global")
    bad.store(SECOND, key="gone", scope="session")
    bad.forget("gone")
    bad.note(SECOND, scope="global")
    bad.sessions.new(id="bad")


def _three(here: Ground, memory: Memory) -> None:
    _prepared(here, memory)
    memory.store(SECOND, key="third", scope="global")


def _in_project(here: Ground, memory: Memory) -> None:
    memory.store(NEIGHBOUR, key="neighbour")
    memory.store(FIRST, key="build")


def _keyless(here: Ground, memory: Memory) -> None:
    memory.store(NEIGHBOUR, scope="global")
    memory.store(FIRST, scope="global")


def _noted(here: Ground, memory: Memory) -> None:
    memory.note(NEIGHBOUR, scope="global")
    memory.note(FIRST, scope="global")


def _forgotten(here: Ground, memory: Memory) -> None:
    _twice(here, memory)
    memory.forget("build", scope="global")


def _cut_by_hand(here: Ground, memory: Memory) -> None:
    _twice(here, memory)
    path = here.home / "memory/global/records/build.md"
    text = path.read_text()
    path.write_text(text[: text.rindex("## ")])
    os.utime(path, (_START.timestamp(), _START.timestamp()))


def _pinned(here: Ground, memory: Memory) -> None:
    _prepared(here, memory)
    memory.care.edited("MEMORY.md", "", f"# Memory\n\n{SECOND}\n", scope="global")


def _cloned(here: Ground, memory: Memory) -> None:
    _in_project(here, memory)
    records = here.project / ".vade/records"
    records.mkdir(parents=True)
    (records / "theirs.md").write_text(f"---\ntype: project\n---\n# theirs\n\n{SECOND}\n")


def _shared(here: Ground, memory: Memory) -> None:
    memory.projects.init()
    memory = here.memory(PREPARE)
    memory.store(NEIGHBOUR, key="neighbour")
    memory.store(FIRST, key="build")


def _elsewhere(here: Ground, memory: Memory) -> None:
    _in_project(here, memory)
    old = here.home / "memory/project/old-id/records"
    old.mkdir(parents=True)
    (old / "old.md").write_text(f"---\ntype: project\n---\n# old\n\n{SECOND}\n")


def _attached(here: Ground, memory: Memory) -> None:
    _prepared(here, memory)
    memory.sources.add(here.vault, name="vault")


def _too_many(here: Ground, memory: Memory) -> None:
    _three(here, memory)
    settings = 'sweep = "off"\n[decay]\nmax_count = 1\npercentage = 0.5\n'
    (here.home / "config.toml").write_text(settings)


def _said_twice(here: Ground, memory: Memory) -> None:
    _prepared(here, memory)
    memory.store(LIKE_FIRST, key="third", scope="global", tags=["ninja"])


def _swept(here: Ground, memory: Memory) -> None:
    _too_many(here, memory)
    here.memory(PREPARE).care.sweep(apply=True)


def _whole(outcome: RunOutcome) -> None:
    """What a run left alone and told of is no acknowledgement: for whoever asked, it has failed."""
    reasons = [*(each.why for each in outcome.findings), *(each.why for each in outcome.skipped)]
    if reasons:
        raise StorageFailed(f"not all was done: {reasons[0]}")


def _contradicted(here: Ground, memory: Memory) -> None:
    _prepared(here, memory)
    memory.store(SLOW, key="timeout")
    memory.store(FAST, key="timeout")


def _cited(here: Ground, memory: Memory) -> None:
    _prepared(here, memory)
    memory.store(STALE, key="cited")


def _edit(here: Ground, memory: Memory) -> None:
    _, before = memory.care.editable("build", scope="global")
    memory.care.edited("build", before, f"{before}\n{SECOND}\n", scope="global")


def _init_or_trust(here: Ground, memory: Memory) -> None:
    """A half-made `.vade/` is one that nobody has trusted yet: the error says to run `vade review trust`."""
    try:
        memory.projects.init()
    except UsageError:
        memory.projects.trust()


def _pin(here: Ground, memory: Memory, text: str) -> None:
    _, before = memory.care.editable("MEMORY.md", scope="global")
    memory.care.edited("MEMORY.md", before, f"# Memory\n\n{text}\n", scope="global")


def _receive(here: Ground, memory: Memory) -> None:
    """Write what came from another machine: two records are changed, one is new, one is gone."""
    top = here.home / "memory/global"
    files = HomeFiles(
        memory.home, memory.home.scope_folder(Place(Scope.GLOBAL)), "human:ada", memory.workspace.now
    )
    with memory.workspace.reported("sync"):
        there = {f"records/{path.name}": path.read_text() for path in (top / "records").glob("*.md")}
    build, near = there["records/build.md"], there["records/neighbour.md"]
    texts = {
        "records/build.md": build.replace(FIRST, SECOND),
        "records/neighbour.md": near if LIKE_FIRST in near else f"{near.rstrip()}\n\n{LIKE_FIRST}\n",
        "records/new.md": f"---\nkey: new\n---\n\n## 2024-03-01T08:00:00Z\n{THIRD}\n",
        "records/third.md": None,
    }
    with memory.workspace.reported("sync"):
        files.write([FileChange(path, there.get(path), text) for path, text in texts.items()])


def _store_after(here: Ground, memory: Memory) -> object:
    return memory.store(AFTER, key="build", scope="global")


def _store_after_in_project(here: Ground, memory: Memory) -> object:
    return memory.store(AFTER, key="build")


def _says(memory: Memory, text: str, key: str = "build", scope: str = "global") -> bool:
    return text in _entries(memory.show(key, scope=scope))


def _gone(memory: Memory, *keys: str) -> bool:
    return not {record.key for record in memory.list().records} & set(keys)


def _parts(memory: Memory) -> set[str]:
    """The keys of all that was consolidated."""
    return {key for record in memory.list().records for key in merge.parts_of(record)}


def _decided(memory: Memory, kind: str, text: str) -> bool:
    folder = memory.home.path / "decisions" / kind
    return any(text in json.dumps(json.loads(each.read_text())) for each in folder.glob("*.json"))


OPERATIONS = (
    Operation(
        "store-new",
        lambda here, memory: memory.store(NEIGHBOUR, key="neighbour", scope="global"),
        lambda here, memory: memory.store(FIRST, key="build", scope="global", tags=["build"]),
        _store_after,
        lambda memory: _says(memory, FIRST),
        earlier=(NEIGHBOUR,),
    ),
    Operation(
        "store-append",
        _in_project,
        lambda here, memory: memory.store(SECOND, key="build"),
        _store_after_in_project,
        lambda memory: _says(memory, SECOND, scope="project"),
    ),
    Operation(
        "store-replace",
        _prepared,
        lambda here, memory: memory.store(SECOND, key="build", scope="global", mode="replace"),
        _store_after,
        lambda memory: memory.show("build").text == SECOND,
    ),
    Operation(
        "store-confirm",
        _prepared,
        lambda here, memory: memory.store(FIRST, key="build", scope="global"),
        _store_after,
        lambda memory: "confirmed" in memory.show("build").fields,
    ),
    Operation(
        "store-consolidate",
        _keyless,
        lambda here, memory: memory.store(LIKE_FIRST, scope="global"),
        lambda here, memory: memory.store(AFTER, key="the-build-runs-on-ninja-with", scope="global"),
        lambda memory: _says(memory, LIKE_FIRST, "the-build-runs-on-ninja-with"),
    ),
    Operation(
        "store-keyless",
        _keyless,
        lambda here, memory: memory.store(SECOND, scope="global"),
        lambda here, memory: memory.store(AFTER, scope="global"),
        lambda memory: _says(memory, SECOND, "the-cache-of-the-build-lies"),
    ),
    Operation(
        "note-first",
        _prepared,
        lambda here, memory: memory.note(SECOND, scope="global"),
        lambda here, memory: memory.note(AFTER, scope="global"),
        lambda memory: SECOND in memory.get("memory/global/journal/2024-03-01.md").text,
    ),
    Operation(
        "note-append",
        _noted,
        lambda here, memory: memory.note(SECOND, scope="global"),
        lambda here, memory: memory.note(AFTER, scope="global"),
        lambda memory: SECOND in memory.get("memory/global/journal/2024-03-01.md").text,
    ),
    Operation(
        "forget",
        _prepared,
        lambda here, memory: memory.forget("build", scope="global"),
        _store_after,
        lambda memory: _gone(memory, "build"),
    ),
    Operation(
        "restore",
        _forgotten,
        lambda here, memory: memory.restore("build", scope="global"),
        _store_after,
        lambda memory: _says(memory, SECOND),
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "restore-entries",
        _cut_by_hand,
        lambda here, memory: memory.restore("build", scope="global"),
        _store_after,
        lambda memory: _says(memory, SECOND),
    ),
    Operation(
        "clear",
        _three,
        lambda here, memory: memory.archive.clear(scope="global"),
        _store_after,
        lambda memory: _gone(memory, "build", "neighbour", "third"),
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "protect",
        _prepared,
        lambda here, memory: memory.review.protect("build", scope="global"),
        _store_after,
        lambda memory: memory.show("build").protected,
    ),
    Operation("edit", _prepared, _edit, _store_after, lambda memory: SECOND in memory.show("build").text),
    Operation(
        "pin-first",
        _prepared,
        lambda here, memory: _pin(here, memory, SECOND),
        lambda here, memory: _pin(here, memory, AFTER),
        lambda memory: SECOND in memory.get("memory/global/MEMORY.md").text,
    ),
    Operation(
        "pin-edit",
        _pinned,
        lambda here, memory: _pin(here, memory, THIRD),
        lambda here, memory: _pin(here, memory, AFTER),
        lambda memory: THIRD in memory.get("memory/global/MEMORY.md").text,
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "purge-record",
        _replaced,
        lambda here, memory: memory.archive.purge("build", scope="global"),
        _store_after,
        lambda memory: _gone(memory, "build"),
        earlier=(NEIGHBOUR,),
        purged=SECOND,
    ),
    Operation(
        "purge-text",
        _replaced,
        lambda here, memory: memory.archive.purge_text(SECOND),
        _store_after,
        lambda memory: not _says(memory, SECOND),
        earlier=(NEIGHBOUR, FIRST, THIRD),
        purged=SECOND,
    ),
    Operation(
        "purge-session",
        _poisoned,
        lambda here, memory: memory.archive.purge(session="bad"),
        _store_after,
        lambda memory: not _says(memory, SECOND),
        purged=SECOND,
    ),
    Operation(
        "purge-session-prove",
        _poisoned,
        lambda here, memory: memory.archive.purge(session="bad", prove=True),
        _store_after,
        lambda memory: not _says(memory, SECOND),
        purged=SECOND,
        again=lambda here, memory: memory.archive.finish_purges() or memory.archive.purge(session="bad"),
    ),
    Operation(
        "purge-text-prove",
        _replaced,
        lambda here, memory: memory.archive.purge_text(SECOND, prove=True),
        _store_after,
        lambda memory: not _says(memory, SECOND),
        earlier=(NEIGHBOUR, FIRST, THIRD),
        purged=SECOND,
    ),
    Operation(
        "init",
        _in_project,
        lambda here, memory: memory.projects.init(),
        lambda here, memory: memory.store(AFTER, key="shared"),
        lambda memory: memory.status().trusted is True,
        again=_init_or_trust,
    ),
    Operation(
        "trust",
        _cloned,
        lambda here, memory: memory.projects.trust(),
        lambda here, memory: memory.store(AFTER, key="theirs"),
        lambda memory: memory.status().trusted is True,
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "store-shared",
        _shared,
        lambda here, memory: memory.store(SECOND, key="build"),
        _store_after_in_project,
        lambda memory: _says(memory, SECOND, scope="project"),
    ),
    Operation(
        "alias",
        _elsewhere,
        lambda here, memory: memory.projects.alias("old-id"),
        _store_after_in_project,
        lambda memory: _says(memory, SECOND, "old", "project"),
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "source-add",
        _prepared,
        lambda here, memory: memory.sources.add(here.vault, name="vault"),
        lambda here, memory: memory.sources.add(here.vault, name="vault", inject=True),
        lambda memory: _decided(memory, "sources", "vault"),
    ),
    Operation(
        "source-remove",
        _attached,
        lambda here, memory: memory.sources.remove("vault"),
        lambda here, memory: memory.sources.add(here.vault, name="vault"),
        lambda memory: not _decided(memory, "sources", "vault"),
    ),
    Operation(
        "sweep-cap",
        _too_many,
        lambda here, memory: _whole(memory.care.sweep(apply=True)),
        _store_after,
        lambda memory: _gone(memory, "neighbour", "build") and len(memory.list().records) == 2,
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "store-part",
        _swept,
        lambda here, memory: memory.store(THIRD, key="build", scope="global"),
        _store_after,
        lambda memory: _says(memory, FIRST) and _says(memory, THIRD) and _parts(memory) == {"neighbour"},
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "sweep-duplicates",
        _said_twice,
        lambda here, memory: _whole(memory.care.sweep(apply=True)),
        _store_after,
        lambda memory: _gone(memory, "third") and memory.show("build").tags == ("ninja",),
        earlier=(NEIGHBOUR, FIRST, LIKE_FIRST),
    ),
    Operation(
        "heal",
        _contradicted,
        lambda here, memory: _whole(memory.care.heal(apply=True)),
        _store_after_in_project,
        lambda memory: bool(memory.show("timeout").entries[0].superseded),
        earlier=(NEIGHBOUR, FIRST, SLOW, FAST),
    ),
    Operation(  # apart from the other: of two findings one may fail and the next be healed
        "heal-cited",
        _cited,
        lambda here, memory: _whole(memory.care.heal(apply=True)),
        _store_after_in_project,
        lambda memory: bool(memory.show("cited").entries[0].stale),
        earlier=(NEIGHBOUR, FIRST, STALE),
    ),
    Operation(
        "undo",
        _swept,
        lambda here, memory: memory.care.undo(),
        _store_after,
        lambda memory: len(memory.list().records) == 3 and _says(memory, FIRST),
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "sync-files",
        _three,
        _receive,
        _store_after,
        lambda memory: _gone(memory, "third") and _says(memory, SECOND) and _says(memory, THIRD, "new"),
        earlier=(NEIGHBOUR, FIRST, SECOND),
    ),
    Operation(
        "first-write",
        lambda here, memory: None,
        lambda here, memory: memory.store(FIRST, key="build"),
        _store_after_in_project,
        lambda memory: _says(memory, FIRST, scope="project"),
        earlier=(),
    ),
)

# One operation for each way of writing; `make test` tries these, `make test-all` every one.
FEW = (
    "store-new",
    "store-append",
    "store-consolidate",
    "note-append",
    "forget",
    "restore",
    "pin-edit",
    "purge-record",
    "undo",
    "sync-files",
)
