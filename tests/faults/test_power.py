"""What was acknowledged is there after a power cut at any moment, whole, whatever the disk kept (R2)."""

from __future__ import annotations

import os
import pickle
import random
import sys
import traceback
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import tiers
from faults import operations
from faults.operations import FOLLOW, LAST, OPERATIONS, RUN, Ground, Operation, Tree
from faults.persistence import Disk
from faults.syscalls import CHANGING, Call, Tap
from vademecum.errors import VadeError
from vademecum.store import files
from vademecum.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts the calls of Linux")

SHARE = tiers.few(6, 160)  # states of each operation in an ordinary run: of most that is all


@dataclass(frozen=True, slots=True)
class Recording:
    """Two acknowledged operations in a row: their calls, and the trees before, between and after them."""

    first: list[Call]
    second: list[Call]
    trees: tuple[Tree, Tree, Tree]


@dataclass(slots=True)
class Cuts:
    """How many moments and different states were looked at, and what was wrong with them."""

    moments: int = 0
    states: int = 0
    problems: list[str] = field(default_factory=list)


def record(here: Ground, operation: Operation) -> Recording:
    """Run an operation and the one that follows it in a child, so that no writer is alive afterwards."""
    here.lay()
    operation.prepare(here, here.memory(operations.PREPARE))
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has threads; the child never meets them
        child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with open(writing, "wb") as pipe:
                pickle.dump(_record(here, operation), pipe)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        recording: Recording = pickle.load(pipe)
    os.waitpid(child, 0)
    return recording


def _record(here: Ground, operation: Operation) -> Recording:
    before = here.tree()
    memory = here.memory(RUN)
    with Tap(root=os.fspath(here.top)) as first:
        operation.run(here, memory)
    after = here.tree()
    memory = here.memory(FOLLOW)
    with Tap(root=os.fspath(here.top)) as second:
        operation.follow(here, memory)
    calls = [call.bare() for call in first.trace], [call.bare() for call in second.trace]
    return Recording(*calls, (before, after, here.tree()))


def cut_everywhere(here: Ground, operation: Operation, *, share: int | None = None) -> Cuts:
    """Cut the power after every call that changes anything, and look at all that may be left, or at some."""
    cuts = Cuts()
    recording = record(here, operation)
    before, after, followed = recording.trees
    disk = Disk(os.fspath(here.top), before)
    chance = random.Random(0)
    found: dict[tuple[int, int], tuple[Tree, tuple[Tree, ...]]] = {}

    def cut(phase: int, *versions: Tree) -> None:
        cuts.moments += 1
        for tree in disk.crashes(chance):
            found.setdefault((phase, hash(frozenset(tree.items()))), (tree, versions))

    for call in recording.first:
        disk.do(call)
        if call.name in CHANGING:
            cut(0, before, after)
    assert disk.seen() == after, "the model and the file system disagree"
    cut(1, after)
    for call in recording.second:
        disk.do(call)
        if call.name in CHANGING:
            cut(1, after, followed)
    assert disk.seen() == followed, "the model and the file system disagree"
    cut(2, followed)
    states = list(found.values())
    if share is not None and len(states) > share:
        states = chance.sample(states, share)
    for tree, versions in states:
        cuts.problems += [f"{operation.name}: {each}" for each in _wrong(here, operation, tree, versions)]
    cuts.states = len(states)
    return cuts


def _wrong(here: Ground, operation: Operation, tree: Tree, versions: tuple[Tree, ...]) -> Iterator[str]:
    """What is wrong with a state that a power cut may leave, before and after the next write."""
    here.put(tree)
    yield from operations.strange(_without_holes(tree), *versions)
    yield from operations.lost(tree, operation.earlier)
    yield from operations.torn_images(tree)
    yield from operations.alarms(here)
    for each in operations.unreadable(here.memory(LAST)):
        # That a purge was interrupted is told until it is finished, which the retry does.
        if not (operation.purged and "purges/" in each and "was interrupted" in each):
            yield each
    try:
        operation.retry(here)
        operation.follow(here, here.memory(LAST))
    except VadeError as error:
        yield f"the next writer failed: {error}"
    yield from operations.alarms(here)
    yield from operations.unreadable(here.memory(LAST))


def _without_holes(tree: Tree) -> Tree:
    """A log may have grown before its line arrived; the next line closes such a stump off."""
    return {
        name: content.rstrip(b"\0") if content and name.endswith(".jsonl") else content
        for name, content in tree.items()
    }


def cut_append() -> list[str]:
    """The problems of one ordinary write, for writers with a planted bug."""
    append = next(each for each in OPERATIONS if each.name == "store-append")
    with operations.ground() as here:
        return cut_everywhere(here, append, share=160).problems


@pytest.mark.full(but=operations.FEW)
@pytest.mark.scaled
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(operation: Operation) -> None:
    with operations.ground() as here:
        operations.course(here, operation)
        cuts = cut_everywhere(here, operation, share=SHARE)
    assert cuts.problems == []
    assert cuts.states > tiers.few(5, 20)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_what_was_acknowledged_survives_a_power_cut_in_every_state_it_may_leave(operation: Operation) -> None:
    with operations.ground() as here:
        operations.course(here, operation)
        assert cut_everywhere(here, operation).problems == []


@pytest.mark.full
def test_a_writer_that_does_not_sync_the_file_is_caught() -> None:
    def stage(folder: Folder, name: str, old: bytes | None, new: bytes, mode: int) -> str:
        staged = f"{files.PREFIX}{os.getpid()}-{'0' * 8}-{'0' * 16}-{'0' * 16}-{name}{files.SWAP}"
        fd = folder.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        os.write(fd, new)
        os.close(fd)
        return staged

    with mock.patch.object(files, "_stage", stage):
        problems = cut_append()
    assert any("torn or lost" in each and "build.md (0 bytes)" in each for each in problems)


@pytest.mark.full
def test_a_writer_that_does_not_sync_the_folder_is_caught() -> None:
    with mock.patch.object(Folder, "sync"):
        problems = cut_append()
    assert any("torn or lost" in each and "build.md" in each for each in problems)


@pytest.mark.full
def test_a_writer_that_renames_before_it_writes_is_caught() -> None:
    def update(
        folder: Folder, name: str, change: Callable[[bytes | None], bytes], *, mode: int = 0o600, **_: int
    ) -> files.Written:
        before = files.read(folder, name)
        after = change(before)
        fd = folder.open(".new", os.O_WRONLY | os.O_CREAT, mode)
        folder.rename(".new", name)
        os.write(fd, after)
        os.fsync(fd)
        os.close(fd)
        folder.sync()
        return files.Written(before, after)

    with mock.patch.object(files, "update", update):
        problems = cut_append()
    assert any("torn or lost" in each and "build.md (0 bytes)" in each for each in problems)
    assert any("lost: 'The build runs on ninja with eight jobs.'" in each for each in problems)


@pytest.mark.full
def test_an_audit_that_moves_its_head_before_its_line_is_caught() -> None:
    real = files.append_line

    def later(folder: Folder, name: str, line: bytes, *, mode: int = 0o600) -> None:
        with mock.patch.object(os, "fsync"):
            real(folder, name, line, mode=mode)

    with mock.patch.object(files, "append_line", later):
        problems = cut_append()
    assert any("its end was cut off" in each for each in problems)
