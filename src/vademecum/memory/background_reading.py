"""Let the reader model read new texts soon, so that they are found in other words.

A process that lives on reads in a thread while nobody waits. A process that ends leaves a request and starts
a reader: a process of its own with the lowest priority, one core and a time limit. One lock admits one reader
to a home, and a reader that ends looks for requests that came meanwhile. A request contains no text of
memory, and may be lost: the next search notices that passages are unread, and leaves another.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Locked, VadeError
from vademecum.store import Home
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.search import Finder
    from vademecum.store import Workspace

LONGEST = 600.0  # seconds, after which a reader is killed
BUDGET = 480.0  # seconds, after which it begins nothing new
SESSION_BUDGET = 60.0  # seconds that one process spends on passages of sessions
QUIET = 1.0  # seconds before a reader begins, so that the program that asked for it is done
FAILED_PAUSE = 600.0  # seconds without a reader after one has failed
LOCK = "reading in the background"
_AT_ONCE = 32  # passages after which a reader looks at the clock
_FOLDER = ("index", "reading")  # of the requests
_FAILED = "failed"
_NICENESS = 19
# Several threads of numpy would take the cores from programs that somebody waits for.
_ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_MODULE = "vademecum.memory.background_reading"

_started: list[int] = []  # readers whose end this process has not collected yet


class ReadingRequest(NamedTuple):
    """A request to read the memory of an agent, a session and a project's folder; '' for none."""

    agent: str
    session: str
    project: str


class BackgroundReading:
    """The background reading of one memory."""

    def __init__(self, workspace: Workspace, finder: Callable[[], Finder | None]) -> None:
        self._work, self._find = workspace, finder  # None when the memory is gone
        self._stop: threading.Event | None = None
        self._idle: Callable[[], bool] = lambda: True
        self._spent = 0.0  # seconds on sessions

    @property
    def is_on(self) -> bool:
        """Whether this memory is read in the background."""
        settings, caller = self._work.settings, self._work.caller
        return (
            settings.search.background_reading
            and settings.reader_is_shipped
            and not settings.incognito
            and not self._work.readonly
            and caller.audience is Audience.PRIVATE
        )

    def follow(self, idle: Callable[[], bool] = lambda: True) -> None:
        """Read in a thread of this process while `idle` returns true, until the memory is closed.

        The thread starts when the first unread text arrives; nothing happens while background reading is off.
        """
        self._idle = idle
        if self.is_on:
            self._work.on_unread = self._start

    def _start(self) -> None:
        if self._stop is None:
            from vademecum.search.reading import read_in_background

            self._stop = threading.Event()
            read_in_background(self._read_some, lambda: self._work.has_unread and self._idle(), self._stop)

    def hand_over(self) -> None:
        """Stop reading in this process, and start a separate process if anything is still unread."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None
        if self._work.has_unread and self.is_on:
            self._work.has_unread = False
            caller = self._work.caller
            project = "" if caller.project is None else str(caller.project.root)
            ask(self._work.home, ReadingRequest(caller.agent or "", caller.session or "", project))

    def read_until(self, until: float) -> None:
        """Read saved texts, then sessions while the machine is idle, until a moment (monotonic clock)."""
        finder = self._find()
        if finder is None:
            return
        finder.searcher.sync()
        last = math.inf
        while time.monotonic() < until:
            left = finder.searcher.read(most=_AT_ONCE)
            if not left or left >= last:
                break
            last = left
        while time.monotonic() < until and self._read_sessions(finder, _AT_ONCE):
            pass

    def _read_some(self, most: int) -> int:
        """Read up to `most` passages in this process; return how many are left, or 0 if another reader is at
        work.
        """
        home, finder = self._work.home, self._find()
        if finder is None:
            return 0
        with contextlib.suppress(Locked), _only_reader(home):
            self._work.has_unread = False
            finder.searcher.update(seconds=self._work.settings.limits.open)
            left = finder.searcher.read(most=most) or self._read_sessions(finder, most)
            self._work.has_unread |= left > 0
            if _requests(home):
                start_process(home)
            return left
        return 0

    def _read_sessions(self, finder: Finder, most: int) -> int:
        """Read the newest unread passages of sessions, and return how many are left; 0 on a busy machine."""
        began = time.monotonic()
        if self._spent >= SESSION_BUDGET or not is_machine_idle(self._spent):
            return 0
        left = finder.earlier.read_said(most=most)
        self._spent += time.monotonic() - began
        return left


def is_machine_idle(busy: float = 0.0) -> bool:
    """Return whether other programs leave half of the cores free.

    `busy` are the seconds for which this process has kept a core busy: they are part of the load.
    """
    try:
        load = os.getloadavg()[0]
    except (OSError, AttributeError):
        return False
    own = 1 - math.exp(-busy / 60)  # the load is an average that forgets with this rate
    return load - own < (os.cpu_count() or 1) / 2


def ask(home: Home, request: ReadingRequest) -> None:
    """Leave a request, and start a reader unless a reader is at work or has just failed.

    A command calls this last, so it does not wait, and it reports no error.
    """
    with contextlib.suppress(VadeError, OSError):
        _leave(home, request)
        if not _has_failed(home):
            with contextlib.suppress(Locked):
                with _only_reader(home):
                    pass
                start_process(home)


def start_process(home: Home, module: str = _MODULE) -> None:
    """Start a process that runs a module, and uses neither the terminal nor the pipes of this process.

    Inside a program other than a Python interpreter, start nothing.
    """
    name = os.path.basename(sys.executable or "").lower()
    if not name.startswith(("python", "pypy")):  # inside another program, which would start once more
        return
    # -P: a module of the working directory must not be imported.
    command = [sys.executable, "-P", "-m", module, os.fspath(home.path)]
    environment = {**os.environ, **_ONE_CORE}
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            import subprocess

            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
            )
            return
        _collect_ended()
        nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        _started.append(os.posix_spawn(command[0], command, environment, file_actions=nowhere))


def _collect_ended() -> None:
    """Reap the reader processes that have ended, so that a long-running program leaves no zombies."""
    for pid in [*_started]:
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            ended = True
        if ended:
            _started.remove(pid)


def main(home: str, quiet: float = QUIET) -> None:
    """Read as this process's only task, with the lowest priority and a time limit."""
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
    with contextlib.suppress(VadeError, OSError):
        os.chdir(home)
        read_requested(Home(Path(home)), until=time.monotonic() + BUDGET, quiet=quiet)


def read_requested(home: Home, *, until: float, quiet: float) -> None:
    """Wait `quiet` seconds, then serve all requests, including new ones, until the moment `until`.

    Stop early if another reader is at work or a request fails.
    """
    time.sleep(quiet)
    with contextlib.suppress(Locked):
        while _requests(home) and time.monotonic() < until and not _has_failed(home):
            with _only_reader(home):
                for request in _take(home):
                    try:
                        _read(home, request, until)
                    except (VadeError, OSError, MemoryError):
                        _note_failure(home)
                        return


def _read(home: Home, request: ReadingRequest, until: float) -> None:
    from vademecum.memory.opening import connect

    memory = connect(
        home=home.path,
        project=request.project or False,
        agent=request.agent or None,
        session=request.session or None,
        origin=Origin.TOOL,
        actor="process:reader",
    )
    with memory:
        if memory.reading.is_on:
            memory.reading.read_until(until)


@contextlib.contextmanager
def _only_reader(home: Home) -> Iterator[None]:
    """Hold the lock that admits one reader; raise Locked when another one is at work."""
    with home._replace(lock_seconds=0.0).lock(LOCK, derived=True):
        yield


# -------------------------------------------------------------------- requests


def _leave(home: Home, request: ReadingRequest) -> None:
    content = json.dumps(request._asdict()).encode()
    name = hashlib.sha256(content).hexdigest()[:24]
    with home.disk(*_FOLDER, create=True) as folder:
        if folder.stat(name) is None:
            # Not flushed to the disk, which could take long: a lost request does no harm.
            fd = folder.open(name, os.O_WRONLY | os.O_CREAT)
            try:
                os.write(fd, content)
            finally:
                os.close(fd)


def _requests(home: Home) -> list[str]:
    return [name for name in home.names(*_FOLDER) if name != _FAILED]


def _take(home: Home) -> Iterator[ReadingRequest]:
    """Yield each request after removing it, so that a request left meanwhile is served later."""
    with home.disk(*_FOLDER) as folder:
        for name in _requests(home):
            content = folder.read(name)
            folder.unlink(name)
            with contextlib.suppress(ValueError, TypeError):
                request = ReadingRequest(**json.loads(content or b""))
                if all(isinstance(each, str) for each in request):
                    yield request


def _has_failed(home: Home) -> bool:
    """Return whether a reader has failed a short time ago: the next one would fail as well."""
    with contextlib.suppress(FileNotFoundError), home.disk(*_FOLDER) as folder:
        found = folder.stat(_FAILED)
        return found is not None and abs(time.time() - found.st_mtime) < FAILED_PAUSE
    return False


def _note_failure(home: Home) -> None:
    with contextlib.suppress(OSError), home.disk(*_FOLDER, create=True) as folder:
        folder.unlink(_FAILED)
        os.close(folder.open(_FAILED, os.O_WRONLY | os.O_CREAT))


if __name__ == "__main__":
    main(sys.argv[1])
