"""What a killed process leaves in a folder that nobody writes to again is gone after the next write."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vademecum.memory import connect
from vademecum.store import folders
from vademecum.store.home import Home
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory

KILLED = """
import os, signal, sys
from pathlib import Path
from vademecum.store import files
from vademecum.store.home import Home

home = Home(Path(sys.argv[1]))
with home.lock("anything"), home.folder("decisions", "distinct", create=True) as folder:
    os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
    folder.create("one.json", b"{}")
"""
EXPORTED = """
import os, signal, sys
from vademecum.memory import connect
from vademecum.types import Origin

memory = connect(home=sys.argv[1], cwd=sys.argv[2], agent="main", origin=Origin.USER)
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
memory.transfer.export(sys.argv[3])
"""


def opened(top: Path) -> Memory:
    return connect(home=top / "home", cwd=top, agent="main", origin=Origin.USER)


def killed(program: str, *words: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program, *map(os.fspath, words)], check=False)
    assert done.returncode == -9


def test_what_a_killed_writer_left_anywhere_in_the_home_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    opened(tmp_path).store("Something.", key="one", scope="global")
    killed(KILLED, tmp_path / "home")
    assert [*tmp_path.rglob(".vade-*")]
    after = "from vademecum.memory import connect; from vademecum.types import Origin; import sys\n"
    after += "memory = connect(home=sys.argv[1], cwd=sys.argv[2], agent='main', origin=Origin.USER)\n"
    after += "memory.store('Another.', key='two', scope='global')"
    subprocess.run([sys.executable, "-c", after, tmp_path / "home", tmp_path], check=True)
    assert [*tmp_path.rglob(".vade-*")] == []


def test_what_a_killed_export_left_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Something.", key="one", scope="global")
    for target in (tmp_path / "out", tmp_path / "out.tar.gz"):
        killed(EXPORTED, tmp_path / "home", tmp_path, target)
    left = sorted(each.name.rpartition(".")[2] for each in tmp_path.glob(".out*.part"))
    assert left == ["part", "part"]
    (tmp_path / f".out.{os.getpid()}.part").mkdir()  # of a process that runs
    (tmp_path / ".out.notes.part").write_text("somebody's own")
    memory.transfer.export(tmp_path / "out.tar.gz")
    assert sorted(each.name for each in tmp_path.glob(".out.tar.gz*")) == []
    killed(EXPORTED, tmp_path / "home", tmp_path, tmp_path / "out")
    (tmp_path / f".out.{os.getpid()}.part").rmdir()
    memory.transfer.export(tmp_path / "out")
    assert sorted(each.name for each in tmp_path.glob(".out*.part")) == [".out.notes.part"]


@pytest.mark.parametrize("failing", ["try_lock", "_still_named", "_sign"])
def test_a_lock_that_could_not_be_taken_is_cleared_by_whoever_takes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    home = Home(tmp_path / "home")
    with home.lock("another"):  # the look for what dead processes left, which comes once, is over
        pass

    def broken(*_: object) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(folders, failing, broken)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)), home.lock("anything"):
            pass
    assert [*tmp_path.rglob("*.lock")]
    with home.lock("another"):
        pass
    assert [*tmp_path.rglob("*.lock")] == []
