"""One sync of a large place through a folder: with what the last one left, and without it; and beside git.

`SYNC_DOCUMENTS` is how many records the place has. `cold` deletes `base.json` before each sync, so that all
facts are shown and all files compared again. Times include locks, the log, the shared folder and the files.

Beside git 1,000 changed documents go from the files of one machine to those of another, and by `git push` and
`git pull` from one clone to another, in turn: on the disk of temporary files, and in memory where that is.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.store.home import Home
from vademecum.sync import folder_sync as shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rows = list[dict[str, object]]

DOCUMENTS = int(os.environ.get("SYNC_DOCUMENTS", "1000"))
RECORD = """---
type: project
id: {id}
key: key-{number}
updated: 2026-01-01T00:00:01Z
tags: [one, two]
---
# key-{number}

## 2026-01-01T00:00:01Z
The staging database {number} is restored from the nightly dump before each release.
<!-- origin: user | id: k{number:09d} -->

## 2026-01-02T00:00:01Z
Round 0 of {number}.
<!-- origin: agent | id: m{number:09d} -->
"""


CHANGED, ROUNDS = 1_000, 3
TEXT = "The staging database is restored from the nightly dump before each release. " * 5


def measure() -> Rows:
    """All of it, a row each."""
    rows = [{"what": row.pop("sync"), "figures": describe_row(row)} for row in _measure_large()]
    for where, folder in places():
        with tempfile.TemporaryDirectory(dir=folder) as top:
            found = against_git(Path(top), _through_folder(Path(top)))
            rows.append(
                {
                    "what": f"{CHANGED} changed, files to files through a folder, {where}",
                    "figures": describe_row(found),
                }
            )
    return rows


def describe_row(row: dict[str, object]) -> str:
    """Figures with their names."""
    return ", ".join(f"{name} {figure}" for name, figure in row.items() if figure != "")


def places() -> Iterator[tuple[str, str | None]]:
    """Where files are kept: on a disk, and in memory."""
    yield "disk", None
    if os.access("/dev/shm", os.W_OK):
        yield "memory", "/dev/shm"


def against_git(top: Path, sync: Callable[[str], None]) -> dict[str, object]:
    """The same change of as many documents by `sync` of two machines, and by git, in turn; medians."""
    records, clones = top / "one/memory/global/records", top / "clones"
    records.mkdir(parents=True)
    _lay(records, 0)
    _make_clones(clones)
    took: dict[str, list[float]] = {
        name: [] for name in ("send", "receive", "git", "x git", "processor x git")
    }
    for turn in range(1, ROUNDS + 1):
        for rest in (0, 1.1):  # what was just written is young, and would be read again
            for name in ("one", "two"):
                sync(name)
            time.sleep(rest)
        _lay(records, turn)
        _commit(clones / "one", turn)
        used = _used(resource.RUSAGE_SELF)
        times = [_timed(lambda name=name: sync(name)) for name in ("one", "two")]  # type: ignore[misc]
        used = _used(resource.RUSAGE_SELF) - used
        theirs = _used(resource.RUSAGE_CHILDREN)
        git = _timed(lambda: _exchange(clones))
        theirs = _used(resource.RUSAGE_CHILDREN) - theirs
        figures = (*times, git, sum(times) / git, used / theirs)
        for listed, figure in zip(took.values(), figures, strict=True):
            listed.append(figure)
        for each in records.iterdir():
            assert (top / "two/memory/global/records" / each.name).read_bytes() == each.read_bytes()
    return {name: round(statistics.median(each), 2) for name, each in took.items()}


def time_git(top: Path) -> float:
    """What `git push` and `git pull` of so many changed files take."""
    _make_clones(top / "clones")
    _commit(top / "clones/one", 1)
    return _timed(lambda: _exchange(top / "clones"))


def _make_clones(top: Path) -> None:
    top.mkdir()
    _git("init", "-q", "--bare", "-b", "main", "hub.git", cwd=top)
    address = f"file://{top / 'hub.git'}"  # through git's own protocol, and not a copy of files
    _git("clone", "-q", address, "one", cwd=top)
    _commit(top / "one", 0)
    _git("push", "-q", "origin", "HEAD:main", cwd=top / "one")
    _git("clone", "-q", address, "two", cwd=top)


def _exchange(clones: Path) -> None:
    _git("push", "-q", "origin", "HEAD:main", cwd=clones / "one")
    _git("pull", "-q", "--ff-only", "origin", "main", cwd=clones / "two")


def _timed(run: Callable[[], None]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def _used(whose: int) -> float:
    """Seconds of the processor."""
    spent = resource.getrusage(whose)
    return spent.ru_utime + spent.ru_stime


def _lay(folder: Path, turn: int) -> None:
    for number in range(CHANGED):
        front = f"---\nkey: n-{number}\n---\n\n## 2026-01-01T10:00:00Z\n"
        (folder / f"n-{number}.md").write_text(f"{front}\n{turn} {number} {TEXT.strip()}\n")


def _commit(clone: Path, turn: int) -> None:
    _lay(clone, turn)
    _git("add", ".", cwd=clone)
    _git("commit", "-qm", str(turn), cwd=clone)


def _git(*words: str, cwd: Path) -> None:
    given = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0", *words]
    subprocess.run(given, cwd=cwd, check=True, capture_output=True)


def _through_folder(top: Path) -> Callable[[str], None]:
    (top / "shared").mkdir()
    one = shared.join_folder(Home(top / "one"), top / "shared", None)[0]
    joined = {"one": one, "two": shared.join_folder(Home(top / "two"), top / "shared", one.key)[0]}
    return lambda name: void(_sync(top, name, joined))


def void(_: object) -> None:
    """Nothing, of whatever."""


def _measure_large() -> Rows:
    """A machine that changes nothing, one record, and a tenth of all; and another that receives it."""
    with tempfile.TemporaryDirectory() as top:
        base = Path(top)
        (base / "shared").mkdir()
        one = shared.join_folder(Home(base / "one"), base / "shared", None)[0]
        joined = {"one": one, "two": shared.join_folder(Home(base / "two"), base / "shared", one.key)[0]}
        records = base / "one/memory/global/records"
        records.mkdir(parents=True)
        for number in range(DOCUMENTS):
            text = RECORD.format(id=uuid.UUID(int=number + 1), number=number)
            (records / f"key-{number}.md").write_text(text)
        rows: Rows = []
        for name in ("one", "two"):
            took = _sync(base, name, joined)
            rows.append({"sync": f"first, {name}", "warm s": "", "cold s": took, "cold/warm": ""})
        for name in ("one", "two"):
            _sync(base, name, joined)  # what was just written is young
        time.sleep(1.1)
        for name in ("one", "two"):
            _sync(base, name, joined)
        for changed in (0, 1, DOCUMENTS // 10):
            warm = _round(base, joined, changed, cold=False)
            cold = _round(base, joined, changed, cold=True)
            for name in ("one", "two"):
                row = {"sync": f"{changed} changed, {name}", "warm s": warm[name], "cold s": cold[name]}
                rows.append({**row, "cold/warm": round(cold[name] / warm[name], 1)})
        return rows


def _round(base: Path, joined: dict[str, shared.FolderSync], changed: int, *, cold: bool) -> dict[str, float]:
    for number in range(changed):
        file = base / f"one/memory/global/records/key-{number}.md"
        before, _, after = file.read_text().partition("Round ")
        count, _, rest = after.partition(" ")
        file.write_text(f"{before}Round {int(count) + 1} {rest}")
    found = {}
    for name in ("one", "two"):
        for cache in (base / name / "hub").rglob("base.json") if cold else ():
            cache.unlink()
        found[name] = _sync(base, name, joined)
    return found


def _sync(base: Path, name: str, joined: dict[str, shared.FolderSync]) -> float:
    begun = time.perf_counter()
    shared.sync_folder(Home(base / name), joined[name], actor="human:bench", now=lambda: datetime.now(UTC))
    return round(time.perf_counter() - begun, 3)
