"""A writer killed beside any system call leaves nothing torn, nothing lost and nobody waiting (R1)."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import tiers
from faults import operations
from faults.operations import FOLLOW, LAST, OPERATIONS, Course, Ground, Operation, Tree
from faults.syscalls import Call, Tap
from vademecum.errors import VadeError
from vademecum.store import files, folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.store.folders import Folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts the calls of Linux")

SHARE = tiers.few(4, 96)  # kill points of each operation in an ordinary run: 35 operations make 3,360
STUCK = 8.0  # seconds: whoever waits for the lock of a dead process takes longer
_SEED = 20260


@dataclass(slots=True)
class Kills:
    """How many points were tried, how many killed, and what was found wrong."""

    points: int = 0
    killed: int = 0
    problems: list[str] = field(default_factory=list)
    slowest: float = 0.0
    looked_at: set[int] = field(default_factory=set)  # trees after which the next writer was tried


@dataclass(slots=True)
class Countdown:
    """Ends the process at one point: every call has one before it and one after it."""

    left: int

    def __call__(self, call: Call) -> Any:
        self.tick()
        try:
            return call.run()
        finally:  # a call may also fail as it should: a folder that is there, a file that is not
            self.tick()

    def tick(self) -> None:
        """Come one point nearer."""
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: whether the write had returned, and whether the kill came."""

    acknowledged: bool
    killed: bool


def fork_and_run(here: Ground, operation: Operation, point: int) -> Ended:
    """Run an operation in a child of this process that is killed at a point."""
    reading, writing = os.pipe()
    memory = here.memory(operation.phase)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has threads; the child never meets them
        child = os.fork()
    if child == 0:
        code = 1
        try:
            gc.disable()
            countdown = Countdown(point)
            with Tap(countdown, root=os.fspath(here.top)):
                operation.run(here, memory)
            os.write(writing, b"!")
            countdown.tick()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        acknowledged = pipe.read() == b"!"
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"{operation.name} failed at {point}"
    return Ended(acknowledged, os.WIFSIGNALED(status))


def points_of(here: Ground, operation: Operation, course: Course) -> int:
    """The number of kill points of an operation: before and after each call, and after it returned."""
    here.put(course.before)
    memory = here.memory(operation.phase)
    with Tap(root=os.fspath(here.top)) as tap:
        operation.run(here, memory)
    return 2 * len(tap.trace) + 1


def kill_at(here: Ground, operation: Operation, course: Course, point: int, kills: Kills) -> None:
    """Kill an operation at a point and look at all that is left, before and after the next writer."""
    here.put(course.before)
    ended = fork_and_run(here, operation, point)
    kills.points += 1
    kills.killed += ended.killed
    problems = [*_left_behind(here, operation, course, ended)]
    left = operations.likeness(here.tree())
    if left not in kills.looked_at:  # most calls read: many kills leave the same, whoever comes next
        kills.looked_at.add(left)
        problems += _next_writer(here, operation, kills)
    kills.problems += [f"{operation.name} killed at {point}: {problem}" for problem in problems]


def _left_behind(here: Ground, operation: Operation, course: Course, ended: Ended) -> Iterator[str]:
    tree = here.tree()
    versions = [course.after] if ended.acknowledged else [course.before, course.after]
    yield from operations.strange(tree, *versions)
    yield from operations.lost(tree, operation.earlier)
    yield from operations.torn_images(tree)
    yield from operations.alarms(here)


def _next_writer(here: Ground, operation: Operation, kills: Kills) -> Iterator[str]:
    folders._cleared.clear()  # as a fresh process, which looks once for what dead ones left
    begun = time.monotonic()
    try:
        operation.retry(here)
        if operation.purged:
            held = operations.holding(here.tree(), operation.purged)
            yield from (f"purged again, and still in {name}" for name in held)
        operation.follow(here, here.memory(FOLLOW))
    except VadeError as error:
        yield f"the next writer failed: {error}"
        return
    taken = time.monotonic() - begun
    kills.slowest = max(kills.slowest, taken)
    if taken > STUCK:
        yield f"the next writer took {taken:.2f} s"
    tree = here.tree()
    yield from operations.litter(tree)
    yield from operations.lost(tree, operation.earlier)
    yield from operations.torn_images(tree)
    yield from operations.alarms(here)
    yield from operations.unreadable(here.memory(LAST))


def run(operation: Operation, choose: Callable[[int], list[int]], *, hurt: bool = False) -> Kills:
    """Kill an operation at the points chosen among all it has; `hurt`, where it was killed before."""
    kills = Kills()
    with operations.ground() as here:
        course = operations.course(here, operation)
        if hurt:
            start = half_done(here, operation, course)
            operation = repeated(here, operation, start)
            course = operations.course(here, operation, start)
        points = choose(points_of(here, operation, course))
        gc.freeze()  # so that a child's collector does not copy all of this process's memory
        for point in points:
            kill_at(here, operation, course, point, kills)
    return kills


def half_done(here: Ground, operation: Operation, course: Course) -> Tree:
    """What an operation leaves that was killed in the middle of its work, uncleared."""
    middle = points_of(here, operation, course) * 3 // 5
    here.put(course.before)
    fork_and_run(here, operation, middle)
    return here.tree()


def repeated(here: Ground, operation: Operation, start: Tree) -> Operation:
    """The same operation once more, where it was killed before; the next one, if it was done by then."""
    again = operation.again or operation.run
    here.put(start)
    try:
        again(here, here.memory(operations.RETRY))
    except VadeError:
        again = operation.follow
    return replace(
        operation,
        name=f"{operation.name} again",
        run=again,
        again=again,
        done=lambda memory: True,
        purged="",
        phase=operations.RETRY,
    )


def sampled(total: int) -> list[int]:
    """Points spread over the whole operation, the same in every run; always the very last one."""
    if total <= SHARE:
        return list(range(total))
    chance = random.Random(_SEED + total)
    step = (total - 1) / (SHARE - 1)
    spread = {int(chance.uniform(each * step, (each + 1) * step)) for each in range(SHARE - 1)}
    return sorted({*spread, total - 1})


@pytest.mark.full(but=operations.FEW)
@pytest.mark.scaled
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_killed_writer_leaves_nothing_torn_nothing_lost_and_nobody_waiting(operation: Operation) -> None:
    kills = run(operation, sampled)
    assert kills.problems == []
    assert kills.points == kills.killed >= tiers.few(3, 80)


@pytest.mark.full
def test_an_ordinary_run_has_at_least_two_thousand_kill_points() -> None:
    total = 0
    with operations.ground() as here:
        for operation in OPERATIONS:
            course = operations.course(here, operation)
            total += len(sampled(points_of(here, operation, course)))
    assert total >= 2000


@pytest.mark.full
def test_a_writer_that_writes_in_place_is_caught() -> None:
    def in_place(
        folder: Folder, name: str, change: Callable[[bytes | None], bytes], *, mode: int = 0o600, **_: int
    ) -> files.Written:
        before = files.read(folder, name)
        after = change(before)
        fd = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        half = len(after) // 2
        os.write(fd, after[:half])
        os.write(fd, after[half:])
        os.close(fd)
        return files.Written(before, after)

    append = next(each for each in OPERATIONS if each.name == "store-append")
    with mock.patch.object(files, "update", in_place):
        problems = run(append, lambda total: list(range(0, total, 3))).problems
    assert any("torn or lost: home/memory/project" in each for each in problems)
    assert any("lost: 'The build runs on ninja with eight jobs.'" in each for each in problems)


@pytest.mark.full
def test_a_writer_that_locks_by_the_existence_of_a_file_is_caught() -> None:
    @contextlib.contextmanager
    def exclusive(folder: Folder, thing: str, *, seconds: float) -> Iterator[None]:
        name = f"{thing.replace('/', '_')}.lock"
        deadline = time.monotonic() + 0.05
        while True:
            try:
                os.close(folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise VadeError(f"{thing} is locked") from None
        yield
        folder.unlink(name)

    append = next(each for each in OPERATIONS if each.name == "store-append")
    with mock.patch("vademecum.store.folders.hold_lock", exclusive):
        problems = run(append, lambda total: list(range(0, total, 9))).problems
    assert any("the next writer failed" in each for each in problems)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_kill_point_of_every_operation(operation: Operation) -> None:
    kills = run(operation, lambda total: list(range(total)))
    assert kills.problems == []
    assert kills.points == kills.killed


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_kill_point_of_the_operation_after_a_killed_one(operation: Operation) -> None:
    kills = run(operation, lambda total: list(range(total)), hurt=True)
    assert kills.problems == []
    assert kills.points == kills.killed
