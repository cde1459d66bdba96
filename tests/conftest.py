"""What every test starts from: no settings of the person who runs it, no agent, and a home of its own.

A command that decides needs a terminal, and tests have none: `allowing.allow` lets them through as a script.
Homes lie in memory where the system has room there, since waiting for a disk whose power nobody cuts tests
nothing; those of the files that `tiers.toml` names under `disk` do not, nor any when TMPDIR says where.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import allowing
import json_contract
from vademecum.store import people

if TYPE_CHECKING:
    from collections.abc import Iterator

json_contract.hold()

# A run that was started in the background ignores Ctrl-C, and so would every command that a test stops.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# One process for each core is enough: threads that wait for work take it from the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
MEMORY, ROOM = "/dev/shm", 4 << 30  # bytes; a whole run leaves less than one behind
DISK = os.environ.setdefault("TESTS_ON_DISK", tempfile.gettempdir())  # for a worker, which is told both
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY  # for what tests start as well

# `make check` asks for few examples; everything else takes what a test says itself.
settings.register_profile("untimed", deadline=None)  # how long one example takes says how busy the machine is
settings.load_profile("untimed")
settings.register_profile("check", max_examples=10, deadline=None)
if os.environ.get("HYPOTHESIS_PROFILE") == "check":
    settings.load_profile("check")
TIERS = tomllib.loads((Path(__file__).parent / "tiers.toml").read_text("utf-8"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the files that `tiers.toml` names as fast, slow or for the disk."""
    here = Path(__file__).parent
    for item in items:
        name = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        for tier, names in TIERS.items():
            if name in names:
                item.add_marker(tier)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no other files when only the fast ones are asked for."""
    here = Path(__file__).parent
    if config.option.markexpr != "fast" or not collection_path.match("test_*.py"):
        return None
    return collection_path.relative_to(here).as_posix() not in TIERS["fast"] or None


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The folder of a test, on the disk for those that are about what a file system does."""
    if request.node.get_closest_marker("disk") is None or tempfile.gettempdir() != MEMORY:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="vade-test-", dir=DISK, ignore_cleanup_errors=True) as folder:
        yield Path(os.path.realpath(folder))


@pytest.fixture(autouse=True)
def _own_world(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Take every VADE_ variable and every agent's away, and put the user's home folder somewhere empty."""
    for name in list(os.environ):
        ours = name.startswith("VADE_") and name != "VADE_DATA"
        if ours or name in people.AGENTS or name in people.EDITORS:
            monkeypatch.delenv(name)
    empty: Path = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv(people.SCRIPT, allowing.SCRIPT)  # which counts only in a home that allows it
