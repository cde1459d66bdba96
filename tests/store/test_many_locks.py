"""Many locks held together: each keeps others out like one held alone, and none outlives its holder."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from vademecum.errors import Locked
from vademecum.store import folders
from vademecum.store.folders import Folder, hold_lock, hold_locks

THINGS = [f"record {number}" for number in range(12)]


def test_each_of_many_locks_keeps_others_out_and_names_the_holder(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as here, Folder.at(tmp_path) as there:
        with hold_locks(here, THINGS) as held:
            assert held == set(THINGS)
            for thing in THINGS:
                with (
                    pytest.raises(Locked, match=f"process {os.getpid()}"),
                    hold_lock(there, thing, seconds=0),
                ):
                    pass
            with hold_locks(there, THINGS) as left:
                assert left == set()
        assert list(tmp_path.iterdir()) == []
        with hold_locks(there, THINGS) as held:
            assert held == set(THINGS)


def test_what_somebody_holds_is_left_out_and_the_rest_is_held(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as here, Folder.at(tmp_path) as there:
        with hold_lock(there, THINGS[0], seconds=0), hold_lock(there, THINGS[5], seconds=0):
            with hold_locks(here, THINGS) as held:
                assert held == set(THINGS) - {THINGS[0], THINGS[5]}
            with pytest.raises(Locked), hold_lock(here, THINGS[5], seconds=0):
                pass
        assert list(tmp_path.iterdir()) == []


def test_where_a_file_has_one_name_only_many_locks_are_held_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    with Folder.at(tmp_path) as here, Folder.at(tmp_path) as there:
        with hold_locks(here, THINGS) as held:
            assert held == set(THINGS)
            with hold_locks(there, THINGS) as left:
                assert left == set()
        assert list(tmp_path.iterdir()) == []


def test_of_many_locks_of_a_killed_process_any_two_can_be_held_at_once(tmp_path: Path) -> None:
    held = _begin(tmp_path, "hold")
    assert held.stdout is not None
    held.stdout.readline()
    assert len(list(tmp_path.glob("*.lock"))) == len(THINGS)
    held.send_signal(signal.SIGKILL)
    held.communicate()
    folders._cleared.add(str(tmp_path))  # or the first of us would take all of them away
    with Folder.at(tmp_path) as here, ExitStack() as stack:
        for thing in THINGS:
            stack.enter_context(hold_lock(here, thing, seconds=0))
        assert folders.somebody_died(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_nobody_holds_a_lock_that_another_process_holds(tmp_path: Path) -> None:
    for thing in THINGS:
        (tmp_path / thing).write_text("0")
    running = [_begin(tmp_path, "count", str(seed)) for seed in range(4)]
    counted = [int(each.communicate()[0]) for each in running]
    assert all(each.returncode == 0 for each in running)
    assert sum(counted) == sum(int((tmp_path / thing).read_text()) for thing in THINGS)
    assert list(tmp_path.glob("*.lock*")) == []


def _begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, str(folder), *words], stdout=subprocess.PIPE, text=True
    )


def _be_holder(folder: Path) -> None:
    with Folder.at(folder) as here, hold_locks(here, THINGS):
        print("held", flush=True)
        sys.stdin.read()
        signal.pause()


def _be_counter(folder: Path, seed: str) -> None:
    """Add one to numbers whose locks are held, one at a time or many, and say how often."""
    chance, counted = random.Random(int(seed)), 0
    with Folder.at(folder) as here:
        for _ in range(150):
            wanted = chance.sample(THINGS, chance.randint(1, len(THINGS)))
            if len(wanted) == 1:
                with hold_lock(here, wanted[0], seconds=60):
                    _count(folder / wanted[0])
                counted += 1
            else:
                with hold_locks(here, wanted) as held:
                    for thing in held:
                        _count(folder / thing)
                counted += len(held)
    print(counted)


def _count(file: Path) -> None:
    file.write_text(str(int(file.read_text()) + 1))


if __name__ == "__main__":
    _folder, _what, *_words = sys.argv[1:]
    _be_holder(Path(_folder)) if _what == "hold" else _be_counter(Path(_folder), *_words)
