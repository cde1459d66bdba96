"""The index becomes what the disk is: after every editor's way of saving, and after a flood of changes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

QUEUED = Path("/proc/sys/fs/inotify/max_queued_events")
WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
QUIET = 30.0  # seconds within which the index is what the disk is


def opened(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(
        home=base / "home", cwd=base / "work", environ={"VADE_EMBEDDER": "local"}, origin=Origin.USER
    )


# --- how editors save ---------------------------------------------------------------------------------------


def vim(path: Path, text: str) -> None:
    """Move the old file to a backup, write a new one under its name, drop the backup."""
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def vim_in_place(path: Path, text: str) -> None:
    """Copy the old file to a backup, write over it; a swap file stands beside it meanwhile."""
    swap = path.with_name(f".{path.name}.swp")
    swap.write_bytes(os.urandom(64))
    shutil.copy2(path, path.with_name(f"{path.name}~"))
    path.write_text(text)
    path.with_name(f"{path.name}~").unlink()
    swap.unlink()


def emacs(path: Path, text: str) -> None:
    """Keep a link as a lock and the old file as a backup that stays."""
    lock = path.with_name(f".#{path.name}")
    lock.symlink_to("ada@pond.1234:1700000000")
    shutil.copy2(path, path.with_name(f"{path.name}~"))
    path.write_text(text)
    lock.unlink()


def vs_code(path: Path, text: str) -> None:
    """Cut the file to nothing and write it."""
    with path.open("r+") as file:
        file.truncate(0)
        file.write(text)


def obsidian(path: Path, text: str) -> None:
    """Write a temporary file beside it and rename it over."""
    beside = path.with_name(f"{path.stem}.tmp-{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)


def syncthing(path: Path, text: str) -> None:
    """Write a hidden file, give it the time of the other machine, rename it over."""
    hidden = path.with_name(f".syncthing.{path.name}.tmp")
    hidden.write_text(text)
    os.utime(hidden, ns=(1_600_000_000_000_000_000, 1_600_000_000_000_000_000))
    hidden.replace(path)


def same_size_and_time(path: Path, text: str) -> None:
    """Write in place, as long as before, and put the old time back."""
    state = path.stat()
    with path.open("r+") as file:
        file.write(text)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def git(path: Path, text: str) -> None:
    """Take the file away and make it anew, as a checkout does."""
    path.unlink()
    path.write_text(text)


SAVES = [vim, vim_in_place, emacs, vs_code, obsidian, syncthing, same_size_and_time, git]


def spelled(number: int) -> str:
    """A word of five letters that no other number has."""
    return "".join("bcdfghjklm"[int(digit)] for digit in f"{number:05}")


def rounds(memory: Memory, path: Path, save: Callable[[Path, str], None], text: str, count: int) -> None:
    """Save again and again; the very next search sees the new text and nothing of the old."""
    for number in range(count):
        save(path, text.replace("WORD", spelled(number)))
        found = memory.search(spelled(number), mode="bm25")
        assert [spelled(number) in each.snippet for each in found.results] == [True], (save, number)
        assert found.degraded == ()
        if number:
            assert memory.search(spelled(number - 1), mode="bm25").results == (), (save, number)


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.soak)])
def test_a_save_in_an_attached_folder_is_seen_by_the_next_search(
    tmp_path: Path, save: Callable[[Path, str], None], count: int
) -> None:
    memory = opened(tmp_path)
    vault = tmp_path / "vault"
    vault.mkdir()
    path = vault / "note.md"
    text = "# Note\n\nThe heron says WORD now.\n"
    path.write_text(text.replace("WORD", "first"))
    (vault / "other.md").write_text("# Other\n\nThe stork says nothing.\n")
    memory.sources.add(vault)
    assert memory.search("heron says first").results
    rounds(memory, path, save, text, count)
    memory.care.searcher.close()


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("count", [4, pytest.param(100, marks=pytest.mark.soak)])
def test_a_save_of_a_record_is_seen_by_the_next_search_of_everybody(
    tmp_path: Path, save: Callable[[Path, str], None], count: int
) -> None:
    memory = opened(tmp_path)
    path = tmp_path / "home" / memory.store("The heron says first now.", key="heron").path
    text = path.read_text().replace("first", "WORD")
    assert memory.search("heron says first").results
    rounds(memory, path, save, text, count)
    last = opened(tmp_path).search(spelled(count - 1), mode="bm25")
    assert len(last.results) == 1
    memory.care.searcher.close()


def test_files_that_come_go_and_change_places_are_seen_by_the_next_search(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    vault = tmp_path / "vault"
    vault.mkdir()
    one, other = vault / "one.md", vault / "other.md"
    one.write_text("The heron says bread.\n")
    other.write_text("The stork says water.\n")
    memory.sources.add(vault)

    def where(word: str) -> list[str]:
        return [Path(each.path).name for each in memory.search(word, mode="bm25").results]

    assert (where("bread"), where("water")) == (["one.md"], ["other.md"])
    spare = vault / "spare"
    one.rename(spare)
    other.rename(one)
    spare.rename(other)
    assert (where("bread"), where("water")) == (["other.md"], ["one.md"])
    (vault / "below").mkdir()
    one.rename(vault / "below" / "one.md")
    assert where("water") == ["one.md"]
    shutil.rmtree(vault / "below")
    assert where("water") == []
    other.unlink()
    other.write_text("The heron says bread.\n")
    os.link(other, vault / "linked.md")
    assert where("bread") in (["other.md"], ["linked.md"])  # equal texts come once
    memory.care.searcher.close()


# --- `vade index --watch` -----------------------------------------------------------------------------------


@contextlib.contextmanager
def limited(setting: Path, value: int) -> Iterator[None]:
    """Set a limit of the whole machine, and put it back."""
    before = setting.read_text() if setting.exists() else ""
    try:
        setting.write_text(str(value))
    except OSError as error:
        pytest.skip(f"{setting} cannot be set: {error}")
    try:
        yield
    finally:
        setting.write_text(before)


@contextlib.contextmanager
def watching(base: Path) -> Iterator[Path]:
    """Run `vade index --watch`; yields the file that its lines go to."""
    log = base / "watch.log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VADE_")}
    environ |= {"VADE_HOME": str(base / "home"), "VADE_EMBEDDER": "local", "PYTHONUNBUFFERED": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "vademecum", "index", "--watch"],
            cwd=base / "work",
            env=environ,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: bool(log.read_text().strip()), QUIET, "the first line")
            yield log
            assert process.poll() is None, log.read_text()[-2000:]
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(true: Callable[[], bool], seconds: float, what: str) -> float:
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds, f"{what} did not come in {seconds:.0f} s"
        time.sleep(0.2)
    return time.monotonic() - begun


def indexed(path: Path) -> int:
    """How many files the index holds, looked up from outside: looking must not bring it up to date."""
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(5_000)
        row = connection.execute("select count(*) from files where reason is null").fetchone()
        return 0 if row is None else int(row[0])


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    ("count", "setting", "value"),
    [
        (300, QUEUED, 16),
        pytest.param(5_000, QUEUED, 16, marks=pytest.mark.soak),
        pytest.param(300, WATCHES, 3, marks=pytest.mark.soak),
    ],
)
def test_a_watch_catches_up_with_a_flood_that_the_system_lost_count_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, setting: Path, value: int
) -> None:
    memory = opened(tmp_path)
    vault = tmp_path / "vault"
    folders = [vault / f"folder-{number}" for number in range(10)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "start.md").write_text(f"# Start\n\nThe heron of {folder.name} waits.\n")
    memory.sources.add(vault)
    path = memory.care.searcher.path
    with limited(setting, value), watching(tmp_path):
        until(lambda: path.exists() and indexed(path) == len(folders), QUIET, "the first sync")
        for number in range(count):
            file = folders[number % 10] / f"note-{number}.md"
            file.write_text(f"# Note {number}\n\nThe stork {spelled(number)} came by.\n")
        for number in range(0, count, 10):
            (folders[number % 10] / f"note-{number}.md").unlink()
        wanted = len(folders) + count - len(range(0, count, 10))
        seconds = until(lambda: indexed(path) == wanted, QUIET, f"an index of {wanted} files")
    with capsys.disabled():
        print(f"\n{count} files with {setting.name} = {value}: caught up in {seconds:.1f} s")
    report = memory.care.index()
    assert (report.changed, report.removed, report.pending) == (0, 0, 0)
    found = memory.search(spelled(count - 1), mode="bm25").results
    assert [spelled(count - 1) in each.snippet for each in found] == [True]
    memory.care.searcher.close()
