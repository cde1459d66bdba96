"""Where agents call a hook: it answers in time, with what is ready or with nothing, and never fails.

The work is done by a child of its own, which may hang, crash or take long without the agent noticing. The one
who answers only waits: it reads no settings, opens no file and takes no lock.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 0.6  # seconds, until the settings say otherwise
MOST = 60.0  # seconds that they may say
LONGEST = 60.0  # seconds for work that goes on after the agent has its answer
LARGEST = 16 * 1024 * 1024  # bytes of standard input
_STARTING = 0.3  # seconds that starting up may take; what a busy machine takes more comes off the limit
_MARGIN = 0.05  # seconds kept back for leaving
_UNHEARD = 2.0  # seconds in which an agent takes a long answer; a short one fits into the pipe
_WAITED_FOR = ("session-start", "user-prompt", "pre-compact")
_OURS_TO_END = ("session-start", "user-prompt")  # of no use to anybody once the answer is out


class Job(NamedTuple):
    """What a hook was called for."""

    agent: str
    event: str
    given: bytes
    home: str | None = None
    begun: float | None = None  # of the monotonic clock, from which the agent waits


def answer(agent: str, event: str, *, home: str | None = None) -> NoReturn:
    """Answer one hook and leave."""
    begun = _begun()
    output = b""
    try:
        limit = _limit(os.environ.get("VADE_LIMITS_HOOK", ""))
        given = _read(sys.stdin, until=begun + limit - min(_MARGIN, limit / 10))
        output = _answered(Job(agent, event, given, home, begun), begun, limit)
    except BaseException:  # whatever it is, the agent goes on
        output = b""
    finally:
        _leave(output)


def _begun() -> float:
    """From when the time is counted: starting up, and waiting for a core, is the agent's time too."""
    begun = time.monotonic() - time.process_time()
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        begun = min(begun, time.monotonic() - max(0.0, age) + _STARTING)
    return begun


def _limit(said: str) -> float:
    """The limit as far as it is known before the settings are read, which judge what is no such number."""
    number, scale = (said[:-2], 1000.0) if said.endswith("ms") else (said.removesuffix("s"), 1.0)
    try:
        seconds = float(number) / scale
    except ValueError:
        return LIMIT
    return seconds if 0 < seconds <= MOST else LIMIT


def _leave(output: bytes) -> NoReturn:
    """Say it and go; an agent that does not listen is not waited for either."""
    with contextlib.suppress(OSError, ValueError):
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
            signal.setitimer(signal.ITIMER_REAL, _UNHEARD)
        while output:
            output = output[os.write(1, output) :]
    os._exit(0)


def _read(stream: object, *, until: float) -> bytes:
    """What the agent says, until it has said it all or there is no time left."""
    if stream is None:
        return b""
    chunks, size = [], 0
    while size <= LARGEST:
        left = until - time.monotonic()
        if left <= 0 or (hasattr(os, "fork") and not select.select([0], [], [], left)[0]):
            break
        chunk = os.read(0, 1 << 16)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def _answered(job: Job, begun: float, limit: float) -> bytes:
    if not hasattr(os, "fork"):
        return _by_a_thread(job, begun + limit - _MARGIN)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _apart(lambda: _work(job, lambda told: _send(write, told)))
    os.close(write)
    if job.event not in _WAITED_FOR:
        return b""
    told, done = _wait(read, begun, limit)
    if not done:
        _late(job, pid, answered=bool(told))
    return told


def _wait(pipe: int, begun: float, limit: float) -> tuple[bytes, bool]:
    """What the child has to say, and whether it came to its end in time."""
    kept, answer = b"", b""
    while True:
        left = begun + limit - min(_MARGIN, limit / 10) - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return answer, False
        chunk = os.read(pipe, 1 << 16)
        *lines, kept = (kept + chunk).split(b"\n")
        for line in lines:
            kind, _, value = line.partition(b" ")
            if kind == b"limit":
                limit = float(value)
            elif kind == b"answer":
                answer = bytes.fromhex(value.decode())
            elif kind == b"done":
                return answer, True
        if not chunk:
            return b"", False


def _late(job: Job, pid: int, *, answered: bool) -> None:
    """Write down that there was no answer, in a process of its own: the disk may be what is slow.

    When words have answered, and reading only took too long, there is nothing to write down.
    """
    crashed = False
    with contextlib.suppress(OSError):
        crashed = os.waitpid(pid, os.WNOHANG)[0] == pid
    if job.event in _OURS_TO_END and not crashed:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    why = "it ended without an answer" if crashed else "no answer within the time limit"
    if crashed or (job.event in _OURS_TO_END and not answered):
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                _apart(lambda: _after(job, why, crashed=crashed))


def _after(job: Job, why: str, *, crashed: bool) -> None:
    """Note that there was no answer, and have the next one ready: a large memory is read once."""
    _note(job, why)
    if not crashed and job.event == "session-start":
        from vademecum.interfaces.hooks.work import prepare

        with contextlib.suppress(OSError):
            os.nice(19)  # whoever is waited for comes first: this may be needed because much is going on
        prepare(job)


def _apart(work: Callable[[], object]) -> NoReturn:
    """Do something in this child, away from the agent's terminal and pipes, for a bounded time."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        work()
    finally:
        os._exit(0)


def _work(job: Job, tell: Callable[[bytes], None]) -> None:
    try:
        from vademecum.interfaces.hooks.work import run

        run(job, tell)
    except BaseException as error:
        _note(job, getattr(error, "why", type(error).__name__))  # never its words: they may be anybody's
    tell(b"done")


def _note(job: Job, why: str) -> None:
    from vademecum.config import home_from
    from vademecum.store import hook_log

    hook_log.write(home_from(os.environ, job.home), agent=job.agent, event=job.event, why=why)


def _send(pipe: int, told: bytes) -> None:
    """One line to who waits; nobody may be there any more."""
    with contextlib.suppress(OSError):
        line = told + b"\n"
        while line:
            line = line[os.write(pipe, line) :]


def _by_a_thread(job: Job, until: float) -> bytes:
    """The same where processes cannot be split: a thread that is left behind, or another process."""
    import threading

    if job.event not in _OURS_TO_END:
        return _by_another(job)
    said: list[bytes] = []
    worker = threading.Thread(target=_work, args=(job, said.append), daemon=True)
    worker.start()
    worker.join(max(0.0, until - time.monotonic()))
    answers = [each for each in said if each.startswith(b"answer ")]
    return bytes.fromhex(answers[-1].partition(b" ")[2].decode()) if answers else b""


def _by_another(job: Job) -> bytes:
    import subprocess

    child = subprocess.Popen(
        [sys.executable, "-m", __name__, job.agent, job.event, job.home or ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
    )
    assert child.stdin is not None
    child.stdin.write(job.given)
    child.stdin.close()
    return b""


if __name__ == "__main__":
    _work(Job(sys.argv[1], sys.argv[2], sys.stdin.buffer.read(), sys.argv[3] or None), lambda told: None)
