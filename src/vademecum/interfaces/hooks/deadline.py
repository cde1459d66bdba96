"""Time limit for hooks: the agent gets an answer in time or an empty one, and never an error.

A child process does the work. It may hang, crash or take long without the agent noticing, because the
answering process only waits: it reads no settings, opens no file and takes no lock.
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

LIMIT = 0.6  # seconds, until the settings are read
MOST = 60.0  # the largest limit in seconds that the settings may set
LONGEST = 60.0  # seconds for work that continues after the agent has its answer
LARGEST = 16 * 1024 * 1024  # bytes of standard input
_START_SECONDS = 0.3  # seconds that starting may take; a longer start on a busy machine reduces the limit
_MARGIN = 0.05  # seconds reserved for leaving
_READ_SECONDS = 2.0  # seconds in which an agent must read a long answer; a short one fits into the pipe
_ANSWERED_EVENTS = ("session-start", "user-prompt", "pre-compact")
_KILLED_WHEN_LATE = ("session-start", "user-prompt")  # events whose work is useless once the answer is out


class Job(NamedTuple):
    """The call of a hook: agent, event, input and time."""

    agent: str
    event: str
    input: bytes
    home: str | None = None
    started: float | None = None  # the time on the monotonic clock since which the agent waits


def answer(agent: str, event: str, *, home: str | None = None) -> NoReturn:
    """Answer a hook's call and exit the process."""
    started = _wait_start()
    output = b""
    try:
        limit = _limit(os.environ.get("VADE_LIMITS_HOOK", ""))
        input = _read(sys.stdin, until=started + limit - min(_MARGIN, limit / 10))
        output = _get_answer(Job(agent, event, input, home, started), started, limit)
    except BaseException:  # the agent continues, whatever the error is
        output = b""
    finally:
        _leave(output)


def _wait_start() -> float:
    """Return the time (monotonic) since which the agent has waited, from the start of this process.

    Waiting for a free core is included.
    """
    started = time.monotonic() - time.process_time()
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        started = min(started, time.monotonic() - max(0.0, age) + _START_SECONDS)
    return started


def _limit(text: str) -> float:
    """Return a time limit in seconds from its text; for invalid text, the default."""
    number, scale = (text[:-2], 1000.0) if text.endswith("ms") else (text.removesuffix("s"), 1.0)
    try:
        seconds = float(number) / scale
    except ValueError:
        return LIMIT
    return seconds if 0 < seconds <= MOST else LIMIT


def _leave(output: bytes) -> NoReturn:
    """Write the answer and exit, without waiting for an agent that does not read."""
    with contextlib.suppress(OSError, ValueError):
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
            signal.setitimer(signal.ITIMER_REAL, _READ_SECONDS)
        while output:
            output = output[os.write(1, output) :]
    os._exit(0)


def _read(stream: object, *, until: float) -> bytes:
    """Return the agent's input, read until it ends or time is up."""
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


def _get_answer(job: Job, started: float, limit: float) -> bytes:
    if not hasattr(os, "fork"):
        return _answer_in_thread(job, started + limit - _MARGIN)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _run_detached(lambda: _work(job, lambda answer: _send(write, answer)))
    os.close(write)
    if job.event not in _ANSWERED_EVENTS:
        return b""
    answer, done = _wait(read, started, limit)
    if not done:
        _handle_late(job, pid, answered=bool(answer))
    return answer


def _wait(pipe: int, started: float, limit: float) -> tuple[bytes, bool]:
    """Return the child's answer, and whether the child finished in time."""
    rest, answer = b"", b""
    while True:
        left = started + limit - min(_MARGIN, limit / 10) - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return answer, False
        chunk = os.read(pipe, 1 << 16)
        *lines, rest = (rest + chunk).split(b"\n")
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


def _handle_late(job: Job, pid: int, *, answered: bool) -> None:
    """Stop a late child if its event allows, and log in a new process that there was no answer.

    A new process logs, because the disk may be slow. Nothing is logged if the search by words has answered
    and only the reading model was too slow.
    """
    crashed = False
    with contextlib.suppress(OSError):
        crashed = os.waitpid(pid, os.WNOHANG)[0] == pid
    if job.event in _KILLED_WHEN_LATE and not crashed:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    why = "it ended without an answer" if crashed else "no answer within the time limit"
    if crashed or (job.event in _KILLED_WHEN_LATE and not answered):
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                _run_detached(lambda: _report_late(job, why, crashed=crashed))


def _report_late(job: Job, why: str, *, crashed: bool) -> None:
    """Log that there was no answer, and prepare the next session's block.

    So a large memory is read only once.
    """
    _note(job, why)
    if not crashed and job.event == "session-start":
        from vademecum.interfaces.hooks.work import prepare

        with contextlib.suppress(OSError):
            os.nice(19)  # other processes come first, because the machine may be busy
        prepare(job)


def _run_detached(work: Callable[[], object]) -> NoReturn:
    """Run a function in this child process, without the agent's terminal and pipes, for a limited time."""
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
        # the error's text is not logged, because it may quote anybody's text
        _note(job, getattr(error, "why", type(error).__name__))
    tell(b"done")


def _note(job: Job, why: str) -> None:
    from vademecum.config import home_from
    from vademecum.store import hook_log

    hook_log.write(home_from(os.environ, job.home), agent=job.agent, event=job.event, why=why)


def _send(pipe: int, answer: bytes) -> None:
    """Write a line to the waiting process; ignore that the process may be gone."""
    with contextlib.suppress(OSError):
        line = answer + b"\n"
        while line:
            line = line[os.write(pipe, line) :]


def _answer_in_thread(job: Job, until: float) -> bytes:
    """Answer a hook on systems without `fork`: in a thread, or in another process."""
    import threading

    if job.event not in _KILLED_WHEN_LATE:
        return _start_process(job)
    lines: list[bytes] = []
    worker = threading.Thread(target=_work, args=(job, lines.append), daemon=True)
    worker.start()
    worker.join(max(0.0, until - time.monotonic()))
    answers = [each for each in lines if each.startswith(b"answer ")]
    return bytes.fromhex(answers[-1].partition(b" ")[2].decode()) if answers else b""


def _start_process(job: Job) -> bytes:
    import subprocess

    child = subprocess.Popen(
        [sys.executable, "-m", __name__, job.agent, job.event, job.home or ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
    )
    assert child.stdin is not None
    child.stdin.write(job.input)
    child.stdin.close()
    return b""


if __name__ == "__main__":
    _work(Job(sys.argv[1], sys.argv[2], sys.stdin.buffer.read(), sys.argv[3] or None), lambda line: None)
