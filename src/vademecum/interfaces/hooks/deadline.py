"""Time limits for hooks: the agent gets an answer in time or an empty one, and never an error.

A child process does the work. It may hang, crash or take long without the agent noticing, because the
answering process only waits: it reads no settings, opens no file and takes no lock. It imports next to
nothing, because an agent waits for every hook, also for those that have no answer. An answer that comes too
late is not lost: the child goes on and keeps it for the session's next prompt.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False  # as in `typing`, which takes a tenth of the time of an interpreter to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

# Seconds until the settings are read, and the setting's variable. They are below what agents wait
# (`agents.base.SECONDS`), as is the largest limit that the settings may set.
LIMITS = {
    "session-start": (3.0, "VADE_LIMITS_HOOK_START"),
    "pre-compact": (3.0, "VADE_LIMITS_HOOK_START"),
    "user-prompt": (2.0, "VADE_LIMITS_HOOK_PROMPT"),
}
MOST = 9.0
ASKING = "stop"  # the event at which the agent may be asked something, if the settings say so
LONGEST = 60.0  # seconds for work that continues after the agent has its answer
LARGEST = 16 * 1024 * 1024  # bytes of standard input
_OTHER_LIMIT = 2.0  # seconds for events without an answer, and for the end of a turn
_LARGEST_SETTINGS = 256 * 1024  # bytes of `config.toml`, as in `config.py`
_START_SECONDS = 0.3  # seconds that starting may take; a longer start on a busy machine reduces the limit
_MARGIN = 0.05  # seconds reserved for leaving
_READ_SECONDS = 2.0  # seconds in which an agent must read a long answer; a short one fits into the pipe
_INPUT_SECONDS = 5.0  # seconds after the limit in which the input must have come
_COUNTED = ("session-start", "user-prompt")
_LATE = b"late"


class Job:
    """The call of a hook: agent, event, input and time."""

    def __init__(
        self, agent: str, event: str, input: bytes, home: str | None = None, started: float | None = None
    ) -> None:
        self.agent, self.event, self.input, self.home = agent, event, input, home
        self.started = started  # the time on the monotonic clock since which the agent waits


class Channel:
    """The connection from a hook's work to the process that answers the agent.

    This class has no such process, so all answers are in time. `offers` are the answers so far; each one
    replaces the one before.
    """

    def __init__(self) -> None:
        self.offers: list[bytes] = []
        self.seconds: float | None = None  # the limit in the settings

    def limit(self, seconds: float) -> None:
        """Set the time limit."""
        self.seconds = seconds

    def offer(self, answer: bytes) -> int:
        """Offer an answer to the agent, and return its number, from 1."""
        self.offers.append(answer)
        return len(self.offers)

    def finish(self) -> int | None:
        """Return the number of the answer that the agent got, 0 for none; None if all came too late."""
        return len(self.offers)

    @property
    def is_counted(self) -> bool:
        """Whether the waiting process itself counts that the answer came too late."""
        return False


class _Pipes(Channel):
    """A channel to the process that waits, over two pipes."""

    def __init__(self, answers: int, verdicts: int) -> None:
        super().__init__()
        self._answers, self._verdicts, self._verdict = answers, verdicts, b""

    def limit(self, seconds: float) -> None:
        self._send(b"limit %f" % seconds)

    def offer(self, answer: bytes) -> int:
        self._send(b"answer " + answer.hex().encode())
        return super().offer(answer)

    def finish(self) -> int | None:
        self._send(b"done")
        while chunk := os.read(self._verdicts, 64):
            self._verdict += chunk
        return int(self._verdict) if self._verdict.isdigit() else None

    @property
    def is_counted(self) -> bool:
        return self._verdict == _LATE

    def leave(self) -> None:
        """Tell the waiting process that there will be no answer."""
        self._send(b"done")

    def _send(self, line: bytes) -> None:
        """Write a line to the waiting process; ignore that the process may be gone."""
        line += b"\n"
        try:
            while line:
                line = line[os.write(self._answers, line) :]
        except OSError:
            pass


def answer(agent: str, event: str, *, home: str | None = None) -> NoReturn:
    """Answer a hook's call and exit the process."""
    started = _wait_start()
    try:
        limit = _limit(event)
        job = Job(agent, event, b"", home, started)
        if sys.stdin is None:
            os.open(os.devnull, os.O_RDONLY)  # as standard input, whose number a pipe would get
        if hasattr(os, "fork"):
            _answer_by_child(job, started, limit)
        else:
            _write(_answer_in_thread(job, started + limit - _MARGIN))
    except BaseException:  # the agent continues, whatever the error is
        pass
    finally:
        os._exit(0)


def may_ask(job: Job) -> bool:
    """Whether the hook of a turn's end may answer: `config.toml` seems to have the setting `capture.ask`.

    The settings themselves are read later, because importing their module takes longer than an agent should
    wait at the end of each turn.
    """
    if job.event != ASKING:
        return False
    folder = job.home or os.environ.get("VADE_HOME") or "~/.vade"
    try:
        with open(os.path.join(os.path.expanduser(folder), "config.toml"), "rb") as file:
            found = file.read(_LARGEST_SETTINGS)
            return b"capture" in found and b"ask" in found
    except (OSError, ValueError):
        return False


def _wait_start() -> float:
    """Return the time (monotonic) since which the agent has waited, from the start of this process.

    Waiting for a free core is included.
    """
    started = time.monotonic() - time.process_time()
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        started = min(started, time.monotonic() - max(0.0, age) + _START_SECONDS)
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    return started


def _limit(event: str) -> float:
    """Return the time limit of an event in seconds: from its variable if that is valid, else the default."""
    default, variable = LIMITS.get(event, (_OTHER_LIMIT, ""))
    text = os.environ.get(variable, "")
    number, scale = (text[:-2], 1000.0) if text.endswith("ms") else (text.removesuffix("s"), 1.0)
    try:
        seconds = float(number) / scale
    except ValueError:
        return default
    return seconds if 0 < seconds <= MOST else default


def _write(output: bytes) -> None:
    """Write the answer; on systems with `fork`, exit after two seconds if the agent does not read it."""
    if output and hasattr(os, "fork"):
        import _signal as signal  # type: ignore[import-not-found]  # `signal` imports `enum`

        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, _READ_SECONDS)
    while output:
        output = output[os.write(1, output) :]


def _read(fd: int, *, until: float) -> bytes:
    """Return the agent's input, read until it ends, is too large, or time is up."""
    chunks, size = [], 0
    while size <= LARGEST:
        left = until - time.monotonic()
        if left <= 0 or (hasattr(os, "fork") and not select.select([fd], [], [], left)[0]):
            break
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def _answer_by_child(job: Job, started: float, limit: float) -> None:
    """Let a child work, write its answer if it comes in time, and tell the child which answer was written.

    The child reads the agent's input itself, so that even a late answer belongs to its session. It learns of
    an answer only after the answer is written, so an answer that the agent did not get is not counted as
    given. The same holds if this process is killed.
    """
    answers, offer = os.pipe()
    verdicts, decide = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        os.close(decide)
        input = os.dup(0)
        channel = _Pipes(offer, verdicts)
        is_awaited = job.event in LIMITS or may_ask(job)
        if job.event == ASKING and not is_awaited:
            channel.leave()

        def work() -> None:
            job.input = _read(input, until=time.monotonic() + limit + _INPUT_SECONDS)
            os.close(input)
            _work(job, channel)

        _run_detached(work, idle=not is_awaited)
    os.close(offer)
    os.close(verdicts)
    if job.event not in LIMITS and job.event != ASKING:
        return
    found, number, ended = _wait(answers, started, limit)
    if found is None and job.event == ASKING:  # no answer is needed, and the next turn's end may ask
        os.write(decide, _LATE)
    elif ended and found is None:
        _report(job, "it ended without an answer", (answers, decide))
    elif found is None and not ended:
        _report(job, "no answer within the time limit", (answers, decide))
        os.write(decide, _LATE)
    else:
        _write(found or b"")
        os.write(decide, b"%d" % number)


def _wait(pipe: int, started: float, limit: float) -> tuple[bytes | None, int, bool]:
    """Return the child's last answer and its number, and whether the child has ended.

    The answer is None if there is none yet, and empty if the child finished without one.
    """
    rest, answer, number = b"", None, 0
    while True:
        left = started + limit - min(_MARGIN, limit / 10) - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return answer, number, False
        chunk = os.read(pipe, 1 << 16)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            kind, _, value = line.partition(b" ")
            if kind == b"limit":
                limit = float(value)
            elif kind == b"answer":
                answer, number = bytes.fromhex(value.decode()), number + 1
            elif kind == b"done":
                return answer or b"", number, True
        if not chunk:
            return answer, number, True


def _report(job: Job, why: str, pipes: Sequence[int]) -> None:
    """Log and count in a new process that there was no answer, because the disk may be slow."""
    if os.fork() == 0:
        for pipe in pipes:
            os.close(pipe)
        _run_detached(lambda: _note(job, why, is_missed=job.event in _COUNTED), idle=False)


def _run_detached(work: Callable[[], object], *, idle: bool) -> NoReturn:
    """Run a function in this child process, without the agent's terminal and pipes, for a limited time.

    Work for which nobody waits is `idle`: it leaves the processor to others.
    """
    import _signal as signal

    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        if idle:
            os.nice(10)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        work()
    finally:
        os._exit(0)


def _load_less() -> None:
    """Put off the import of modules that hooks seldom use, and do without OpenSSL where Python can.

    `dataclasses` imports `inspect` and `copy`, and `urllib.parse` imports `ipaddress`, but our code rarely
    uses them. `hashlib` loads the library OpenSSL, although most builds of Python have hash functions of
    their own.
    """
    from vademecum.lazy import defer_modules

    defer_modules("inspect", "copy", "ipaddress")
    try:
        for name in ("_blake2", "_sha2" if sys.version_info >= (3, 12) else "_sha256"):
            __import__(name)
    except ImportError:
        return
    sys.modules.setdefault("_hashlib", None)  # type: ignore[arg-type]  # an import then fails, as if not built


def _work(job: Job, channel: Channel) -> None:
    if job.event in _COUNTED:
        import gc

        gc.disable()  # the process is too short for what it would find
    try:
        _load_less()
        from vademecum.interfaces.hooks.work import run

        run(job, channel)
    except BaseException as error:
        # the error's text is not logged, because it may quote anybody's text
        _note(job, getattr(error, "why", type(error).__name__), is_missed=False)
        given = channel.finish()
        if job.event in _COUNTED and not given and not channel.is_counted:
            _count_missed(job)


def _note(job: Job, why: str, *, is_missed: bool) -> None:
    from vademecum.config import home_from
    from vademecum.store import hook_log

    hook_log.write(home_from(os.environ, job.home), agent=job.agent, event=job.event, why=why)
    if is_missed:
        _count_missed(job)


def _count_missed(job: Job) -> None:
    from vademecum.config import home_from
    from vademecum.store import hook_counts

    hook_counts.add(home_from(os.environ, job.home), [hook_counts.missed(job.event)])


def _answer_in_thread(job: Job, until: float) -> bytes:
    """Answer a hook on systems without `fork`; events without an answer are handled by another process.

    The agent's input is read in a thread, because such a system cannot wait for a pipe with a time limit.
    """
    import threading

    channel = Channel()

    def work() -> None:
        job.input = _read(0, until=until)
        if job.event in _COUNTED or may_ask(job):
            _work(job, channel)
        else:
            _start_process(job)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(max(0.0, until - time.monotonic()))
    return channel.offers[-1] if channel.offers else b""


def _start_process(job: Job) -> None:
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


if __name__ == "__main__":
    _work(Job(sys.argv[1], sys.argv[2], sys.stdin.buffer.read(), sys.argv[3] or None), Channel())
