"""What every test starts from: no settings of the person who runs it, no agent, and a home of its own.

A command that decides needs a terminal, and tests have none: `allowing.allow` lets them through as a script.
Homes lie in memory where the system has room there, since waiting for a disk whose power nobody cuts tests
nothing; those of tests with the mark `disk` do not, nor any when TMPDIR says where.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import allowing
import checkout
import json_contract
import tiers
from vademecum.agents.environment import read_variables
from vademecum.store import people

if TYPE_CHECKING:
    from collections.abc import Iterator

gc.disable()  # while tests are collected: half of that time went to a collector that found nothing

checkout.use()
json_contract.hold()

# A run that was started in the background ignores Ctrl-C, and so would every command that a test stops.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A program that a test starts keeps its bytecode: compiling all modules takes longer than most commands.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# One process for each core is enough: threads that wait for work take it from the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
MEMORY, ROOM = "/dev/shm", 4 << 30  # bytes; a whole run leaves less than one behind
DISK = os.environ.setdefault("TESTS_ON_DISK", tempfile.gettempdir())  # for a worker, which is told both
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY  # for what tests start as well

settings.register_profile("untimed", deadline=None)  # how long one example takes says how busy the machine is
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`."""
    tiers.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Remember the chosen tier."""
    tiers.configure(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of which the chosen tier runs nothing."""
    return tiers.is_ignored(collection_path, config) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the chosen tier."""
    tiers.select(config, items)


def pytest_collection_finish() -> None:
    """Turn the garbage collector on again; it never looks at the imported modules and the collected tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


_VARIABLES = read_variables()


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
        if ours or name in _VARIABLES.agents or name in _VARIABLES.editors:
            monkeypatch.delenv(name)
    monkeypatch.setenv("VADE_SEARCH_BACKGROUND_READING", "false")  # a process that would outlive the test
    empty: Path = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv(people.SCRIPT, allowing.SCRIPT)  # which counts only in a home that allows it
