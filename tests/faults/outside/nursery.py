"""A process that has imported `vade` once and forks a child for each command, with the shim armed in it.

Knows nothing of memory: a job is the words of a command line, its surroundings, and what goes wrong in it. A
command that starts anew takes a third of a second of the processor, a fork a tenth of that.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import pkgutil
import shutil
import signal
import struct
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vademecum.store.folders import Folder

KILL_BEFORE, KILL_AFTER, SHORT = 0, -1, -2  # or an errno
CHANGES, ANY = 1, 3
NEVER = 1 << 30
PLANTED = "FAULTS_PLANTED"  # the variable by which a command gets a bug
HANG = 120  # seconds
HEAVY = ("__main__", ".adapters", ".embed", "mcp.sdk", "mcp.http")


_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int  # below zero: the signal that killed it
    out: str
    err: str
    calls: int  # of those that are counted


class Nursery:
    """Commands, each in a process of its own, below one folder."""

    def __init__(self, process: subprocess.Popen[bytes], scratch: Path) -> None:
        self._process, self._scratch = process, scratch

    def run(
        self,
        words: Sequence[str],
        *,
        top: Path,
        cwd: Path,
        environ: Mapping[str, str],
        stdin: str = "",
        point: int = NEVER,
        failure: int = KILL_BEFORE,
        lasting: bool = False,
        kinds: int = ANY,
    ) -> Done:
        """Run one command, and let something go wrong at a call of it below `top`."""
        for name in ("out", "err"):
            (self._scratch / name).write_text("")
        (self._scratch / "in").write_text(stdin)
        job = {
            "words": [*words],
            "top": str(top),
            "cwd": str(cwd),
            "environ": dict(environ),
            "scratch": str(self._scratch),
            "fault": [point, failure, int(lasting), kinds],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        code, calls = json.loads(self._process.stdout.readline())
        out, err = ((self._scratch / name).read_text("utf-8", "replace") for name in ("out", "err"))
        return Done(code, out, err, calls)


def compiled(folder: Path) -> Path | None:
    """The shim, or None where there is no compiler for it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    made = folder / "shim.so"
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    source = Path(__file__).with_name("shim.c")
    done = subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", made, source, "-ldl"], capture_output=True, check=False
    )
    return made if done.returncode == 0 else None


@contextmanager
def nursery(shim: Path, scratch: Path) -> Iterator[Nursery]:
    """A nursery with the shim preloaded."""
    with subprocess.Popen(
        [sys.executable, "-m", "faults.outside.nursery"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        try:
            yield Nursery(process, scratch)
        finally:
            process.stdin.close()


# -------------------------------------------------------------------- in the process itself


def _serve() -> None:
    _import_all()
    shim = ctypes.CDLL(None)
    shim.prctl(_SUBREAPER, 1)  # what a command leaves running becomes a child of this process
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_int.from_buffer(shared))
    jobs, answers = os.dup(0), os.dup(1)
    for line in open(jobs, "rb"):  # noqa: SIM115  # as long as this process lives
        job: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            os.close(jobs)
            os.close(answers)
            _child(job, shim, address)
        code = _waited(child)
        calls = struct.unpack_from("i", shared)[0]
        os.write(answers, json.dumps([code, calls]).encode() + b"\n")


def _import_all() -> None:
    import vademecum

    for found in pkgutil.walk_packages(vademecum.__path__, "vademecum."):
        if not any(each in found.name for each in HEAVY):
            with suppress(ImportError):  # an adapter of a library that is not here
                import_module(found.name)


def _child(job: Mapping[str, Any], shim: ctypes.CDLL, address: int) -> None:
    os.setsid()
    for number, name in enumerate(("in", "out", "err")):
        fd = os.open(f"{job['scratch']}/{name}", os.O_RDWR | os.O_APPEND)
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(job["environ"])
    os.chdir(job["cwd"])
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115  # of this process
    sys.argv = ["vade", *job["words"]]
    signal.alarm(HANG)
    if PLANTED in os.environ:
        _plant()
    shim.fault_arm(
        job["top"].encode(), *(ctypes.c_int(each) for each in job["fault"]), ctypes.c_void_p(address)
    )
    from vademecum.interfaces.cli import main

    main()  # ends as a process does: with what runs at its exit
    raise SystemExit(0)


def _plant() -> None:
    """A bug: a writer that writes over what is there."""
    from vademecum.store import files

    def in_place(
        folder: Folder, name: str, change: Callable[[bytes | None], bytes], *, mode: int = 0o600, **_: int
    ) -> files.Written:
        before = files.read(folder, name)
        after = change(before)
        fd = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        os.write(fd, after[: len(after) // 2])
        os.write(fd, after[len(after) // 2 :])
        os.close(fd)
        return files.Written(before, after)

    setattr(files, "update", in_place)  # noqa: B010  # a function of another shape, on purpose


def _waited(child: int) -> int:
    """How a child ended, once everything that it left running has ended too."""
    _, status = os.waitpid(child, 0)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    _serve()
