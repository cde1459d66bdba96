"""A disk that is full or may only be read: what is not indexed is not said to be, and search answers."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vade_command import VADE
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.skipif(not Path("/proc/mounts").exists(), reason="needs a Linux mount")
NOTES = 30


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A project, and a home with notes whose index is larger than they are."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    memory = connect(home=tmp_path / "home", cwd=tmp_path / "project", agent="main", origin=Origin.USER)
    for each in range(NOTES):
        text = f"Machine w{each} has {each * 7} cores and stands in rack r{each % 9}. "
        memory.store(text * 8, key=f"machine-{each}")
    shutil.rmtree(tmp_path / "home" / "index", ignore_errors=True)
    return tmp_path


def vade(
    top: Path, *words: str, home: str = "home", before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, VADE, *words],
        cwd=top / "project",
        env={**os.environ, "VADE_HOME": str(top / home)},
        capture_output=True,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def mounted(*words: str, at: Path) -> Iterator[None]:
    if subprocess.run(["mount", *words, str(at)], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def refused(top: Path, words: list[str], home: str) -> None:
    done = vade(top, "index", *words, home=home)
    assert done.returncode == 1, (words, done)
    assert f"{NOTES} of {NOTES}" not in done.stdout
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr, done.stderr
    assert done.stderr.startswith("vade: ")
    assert len(done.stderr.splitlines()) == 1


def answers(top: Path, home: str) -> None:
    done = vade(top, "search", "cores of w17", home=home)
    assert done.returncode == 0, done
    assert "Machine w17" in done.stdout


@pytest.mark.full(but=1)
@pytest.mark.parametrize("room", [20, 200])  # kilobytes; the index needs more, at other points
def test_an_index_on_a_full_disk_is_not_said_to_be_made(top: Path, room: int) -> None:
    small = top / "small"
    small.mkdir()
    with mounted("-t", "tmpfs", "-o", "size=8m", "tmpfs", at=small):
        shutil.copytree(top / "home", small, dirs_exist_ok=True)
        used = int(subprocess.check_output(["df", "-k", "--output=used", small]).split()[-1])
        subprocess.run(["mount", "-o", f"remount,size={used + room}k", small], check=True)
        for words in (["--read-all"], ["--rebuild"]):
            refused(top, words, "small")
        answers(top, "small")
        subprocess.run(["mount", "-o", "remount,size=8m", small], check=True)
        done = vade(top, "index", "--check", home="small")
        assert (done.returncode, done.stderr) == (0, ""), done
        assert f"{NOTES} of {NOTES}" in done.stdout


@pytest.mark.full
def test_an_index_on_a_read_only_disk_is_not_said_to_be_made(top: Path) -> None:
    assert vade(top, "index").returncode == 0
    moved = next((top / "home/memory").rglob("machine-3.md"))
    moved.write_text(f"{moved.read_text()}\nIt was moved by hand.\n")
    with mounted("--bind", "-o", "ro", str(top / "home"), at=top / "home"):
        for words in (["--check"], ["--json"]):
            refused(top, words, "home")
        answers(top, "home")


def test_an_index_in_a_home_that_may_not_be_written_is_not_said_to_be_made(top: Path) -> None:
    subprocess.run(["chmod", "-R", "a-w", str(top / "home")], check=True)
    ordinary = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    try:
        done = vade(top, "index", before=ordinary)
    except FileNotFoundError:
        pytest.skip("this machine cannot take a right away")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "Permission denied" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_limit_on_the_size_of_files_is_told_too(top: Path) -> None:
    limited = "import resource, os, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    limited += (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = vade(top, "index", before=[sys.executable, "-c", limited])
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith("vade: nothing was indexed: ")
