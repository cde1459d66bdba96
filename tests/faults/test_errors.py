"""Whatever call of a write fails: it is an error or a real success, and nothing is broken (R3, R4)."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import tiers
from faults import operations
from faults.operations import FOLLOW, LAST, OPERATIONS, RUN, Course, Ground, Operation
from faults.persistence import Disk
from faults.syscalls import Call, Tap
from vademecum.errors import VadeError
from vademecum.store import files, folders
from vademecum.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts the calls of Linux")

SHORT = -1  # not an error: the call writes only half
SHARE = tiers.few(6, 115)  # cases of each operation in an ordinary run: 35 operations make 4,025
_SEED = 20263

_NAMING = {"mkdir", "replace", "rename", "link", "place", "exchange"}
_REMOVING = {"unlink", "rmdir"}
_READING = {"read", "stat", "lstat", "fstat", "lseek", "listdir", "scandir", "flock", "fcntl"}
FAILING: dict[int, set[str]] = {
    errno.EIO: {"open", "write", "fsync", "ftruncate", "close", *_NAMING, *_REMOVING, *_READING},
    errno.ENOSPC: {"create", "write", "fsync", "close", *_NAMING},
    errno.EDQUOT: {"create", "write", "fsync", "close", *_NAMING},
    errno.EROFS: {"create", "change", "write", "ftruncate", *_NAMING, *_REMOVING},
    errno.EMFILE: {"open", "dup", "listdir", "scandir"},
    SHORT: {"write"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One failure: at which call, with which error, once or from then on."""

    at: int
    error: int
    lasting: bool

    def __str__(self) -> str:
        what = "short write" if self.error == SHORT else errno.errorcode[self.error]
        return f"{what} at call {self.at}{' and from then on' if self.lasting else ''}"


@dataclass(slots=True)
class Fault:
    """Fails the calls that a case says."""

    case: Case
    count: int = -1

    def __call__(self, call: Call) -> Any:
        self.count += 1
        now = self.count == self.case.at or (self.case.lasting and self.count > self.case.at)
        if not now or not _concerns(call, self.case.error):
            return call.run()
        if self.case.error == SHORT:
            real: Callable[[int, bytes], int] = call.run.func  # type: ignore[attr-defined]  # a partial
            return real(call.fd, call.data[: max(1, len(call.data) // 2)])
        if call.name == "close":
            call.run()  # the descriptor is gone, whatever close says: so it is on Linux
        raise OSError(self.case.error, os.strerror(self.case.error))


@dataclass(slots=True)
class Failures:
    """How many cases were tried, how many writes returned all the same, and what was found wrong."""

    cases: int = 0
    returned: int = 0
    problems: list[str] = field(default_factory=list)
    looked_at: set[object] = field(default_factory=set)  # states from which the same process went on


def _concerns(call: Call, error: int) -> bool:
    """Whether a call can fail like this."""
    if call.name == "stat" and call.path.endswith("/home"):
        return False  # has its own test
    if call.name == "close" and error != errno.EIO and not call.flags & (os.O_WRONLY | os.O_RDWR):
        return False
    names = {call.name}
    if call.name == "open" and call.flags & os.O_CREAT:
        names.add("create")
    if call.name == "open" and call.flags & (os.O_WRONLY | os.O_RDWR):
        names.add("change")
    return bool(names & FAILING[error])


def all_cases(trace: list[Call]) -> list[Case]:
    """Every way in which every call of a write can fail."""
    return [
        Case(at, error, lasting)
        for at, call in enumerate(trace)
        for error in FAILING
        if _concerns(call, error)
        for lasting in (False, True)
    ]


def sampled(cases: list[Case]) -> list[Case]:
    """Some cases, the same in every run."""
    return random.Random(_SEED + len(cases)).sample(cases, min(SHARE, len(cases)))


def fail(here: Ground, operation: Operation, course: Course, case: Case, failures: Failures) -> None:
    """Run an operation with a failing call, then again without, and look at all that is left each time."""
    here.put(course.before)
    disk = Disk(os.fspath(here.top), course.before)
    open_before = len(os.listdir("/proc/self/fd"))
    memory = here.memory(RUN)
    tap = Tap(Fault(case), root=os.fspath(here.top))
    raised: Exception | None = None
    try:
        with tap:
            operation.run(here, memory)
    except Exception as error:
        raised = error.with_traceback(None)  # its frames would keep open what they had open
    failures.cases += 1
    failures.returned += raised is None
    for call in tap.trace:
        disk.do(call)
    found = [*_left_behind(here, operation, course, case=case, disk=disk, raised=raised)]
    left = _state(here, disk, lasting=case.lasting)
    if left not in failures.looked_at:  # most calls read: many failures leave the same
        failures.looked_at.add(left)
        found += _afterwards(here, operation, case, disk)
    if len(os.listdir("/proc/self/fd")) > open_before:
        found.append("a descriptor was left open")
    failures.problems += [f"{operation.name}, {case}: {each}" for each in found]


def _state(here: Ground, disk: Disk, *, lasting: bool) -> object:
    """All that decides what becomes of it: the files, how sure they are, and what the process remembers."""
    tree = here.tree()
    given_up: operations.Tree = {each: b"" for each in tree if each.rpartition("/")[2] in files._abandoned}
    cleared: operations.Tree = dict.fromkeys(folders._cleared)
    return *map(operations.likeness, (tree, disk.unsure(), given_up, cleared)), lasting


def _left_behind(
    here: Ground, operation: Operation, course: Course, *, case: Case, disk: Disk, raised: Exception | None
) -> Iterator[str]:
    tree = here.tree()
    if raised is None:
        yield from operations.strange(tree, course.after)
        yield from (
            f"false acknowledgement: {each}" for each in operations.strange(disk.worst(), course.after)
        )
    elif not isinstance(raised, VadeError):
        yield f"a bare {type(raised).__name__}: {raised}"
    if raised is not None and case.error == SHORT:
        yield f"a short write was not gone on with: {raised}"
    yield from operations.strange(tree, course.before, course.after)
    yield from operations.lost(tree, operation.earlier)
    yield from operations.torn_images(tree)


def _afterwards(here: Ground, operation: Operation, case: Case, disk: Disk) -> Iterator[str]:
    """The error is over: the same process goes on."""
    before = here.tree()
    memory = here.memory(operations.RETRY)
    tap = Tap(root=os.fspath(here.top))
    acknowledged = False
    with contextlib.suppress(VadeError), tap:
        (operation.again or operation.run)(here, memory)
        acknowledged = True
    for call in tap.trace:
        disk.do(call)
    if acknowledged and not case.lasting:
        tree = here.tree()
        written = {name: content for name, content in tree.items() if content != before.get(name, b"\0")}
        there = {name: content for name, content in disk.worst().items() if name in written}
        yield from (
            f"retried into a false acknowledgement: {each}" for each in operations.strange(there, written)
        )
    try:
        operation.follow(here, here.memory(FOLLOW))
        # A new record writes in every folder that an operation may have written in and its retry did not.
        here.memory(LAST).store(operations.AFTER, key="another", scope="global")
    except VadeError as error:
        yield f"the next writer failed: {error}"
    tree = here.tree()
    yield from operations.litter(tree)
    yield from operations.lost(tree, operation.earlier)
    yield from operations.torn_images(tree)
    yield from operations.alarms(here)
    yield from operations.unreadable(here.memory(LAST))


def run(operation: Operation, choose: Callable[[list[Case]], list[Case]]) -> Failures:
    """Fail an operation in the ways chosen among all there are."""
    failures = Failures()
    with operations.ground() as here:
        course = operations.course(here, operation)
        memory = here.memory(RUN)
        with Tap(root=os.fspath(here.top)) as tap:
            operation.run(here, memory)
        for case in choose(all_cases(tap.trace)):
            fail(here, operation, course, case, failures)
    return failures


@pytest.mark.full(but=operations.FEW)
@pytest.mark.scaled
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_failing_call_is_reported_or_made_good_and_breaks_nothing(operation: Operation) -> None:
    failures = run(operation, sampled)
    assert failures.problems == []
    assert failures.cases == SHARE


def test_a_home_that_cannot_be_looked_at_is_reported() -> None:
    def broken(call: Call) -> Any:
        if call.name == "stat" and call.path.endswith("/home"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call.run()

    with operations.ground() as here:
        memory = here.memory(RUN)
        memory.store(operations.FIRST, key="build")
        with Tap(broken, root=os.fspath(here.top)), pytest.raises(VadeError):
            memory.store(operations.SECOND, key="build")


def failing_syncs(cases: list[Case]) -> list[Case]:
    """The cases of one error that does not last."""
    return [case for case in cases if case.error == errno.EIO and not case.lasting]


def append_with(planted: AbstractContextManager[object]) -> list[str]:
    """The problems of one ordinary write by a writer with a planted bug."""
    append = next(each for each in OPERATIONS if each.name == "store-append")
    with planted:
        return run(append, failing_syncs).problems


def test_a_writer_that_swallows_the_error_of_a_sync_is_caught() -> None:
    def swallowing(folder: Folder) -> None:
        with contextlib.suppress(OSError):
            os.fsync(folder.fd or -1)

    problems = append_with(mock.patch.object(Folder, "sync", swallowing))
    assert any("false acknowledgement: torn or lost" in each and "build.md" in each for each in problems)


@pytest.mark.full
def test_a_writer_that_syncs_again_after_a_failed_sync_is_caught() -> None:
    def stage(folder: Folder, name: str, old: bytes | None, new: bytes, mode: int) -> str:
        staged = f"{files.PREFIX}{os.getpid()}-{os.urandom(4).hex()}-{'0' * 16}-{'0' * 16}-{name}{files.SWAP}"
        fd = folder.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        os.write(fd, new)
        try:
            os.fsync(fd)
        except OSError:
            os.fsync(fd)
        os.close(fd)
        return staged

    problems = append_with(mock.patch.object(files, "_stage", stage))
    assert any("false acknowledgement: torn or lost" in each and "build.md" in each for each in problems)


@pytest.mark.full
def test_a_writer_that_writes_over_the_old_file_is_caught() -> None:
    def update(
        folder: Folder, name: str, change: Callable[[bytes | None], bytes], *, mode: int = 0o600, **_: int
    ) -> files.Written:
        before = files.read(folder, name)
        after = change(before)
        fd = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            os.write(fd, after)
            os.fsync(fd)
        finally:
            os.close(fd)
        return files.Written(before, after)

    problems = append_with(mock.patch.object(files, "update", update))
    assert any("torn or lost" in each and "build.md (0 bytes)" in each for each in problems)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_failure_of_every_call(operation: Operation) -> None:
    failures = run(operation, lambda cases: cases)
    assert failures.problems == []
