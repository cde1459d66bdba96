"""Let the model of `capture.model` read sessions after their end, in a process of its own.

No hook waits for the model: a hook leaves a request, and starts the process if a request is due. A lock
allows one such process for each home. A request names a session and its project's folder, and has no text. If
no hook reports the end of a session, its request is due half an hour after its last turn. If the model fails,
it is asked again after the next session, at most three times in all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Locked, VadeError
from vademecum.memory import background_reading
from vademecum.store import Home
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.memory.core import Memory

LONGEST = 900.0  # seconds, after which the process is killed
QUIET = 1800.0  # seconds without a turn after which a session counts as over
LOCK = "distilling sessions"
_FOLDER = ("heard", "requests")
_TRIES = 3
_MODULE = "vademecum.memory.distilling"


class DistillRequest(NamedTuple):
    """A request to let the model read a session."""

    session: str
    project: str  # its folder
    agent: str
    at: float = 0.0  # when the session may be read, in seconds since the epoch
    tries: int = 0


def ask(memory: Memory, session: str, *, is_over: bool) -> None:
    """Leave a request for a session, and start the process if a request is due."""
    project = memory.caller.project
    if project is None or memory.settings.incognito or memory.caller.audience is not Audience.PRIVATE:
        return
    at = time.time() + (0.0 if is_over else QUIET)
    with contextlib.suppress(VadeError, OSError):
        _leave(memory.home, DistillRequest(session, str(project.root), memory.settings.agent, at))
        if any(each.at <= time.time() for each in _requests(memory.home)):
            background_reading.start_process(memory.home, _MODULE)


def main(home: str) -> None:
    """Serve the requests as this process's only task, with low priority and a time limit."""
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
    with contextlib.suppress(VadeError, OSError):
        os.chdir(home)
        serve(Home(Path(home)))


def serve(home: Home) -> None:
    """Serve the requests that are due, unless another process serves them."""
    with contextlib.suppress(Locked), home._replace(lock_seconds=0.0).lock(LOCK, derived=True):
        for request in [*_requests(home)]:
            if request.at > time.time():
                continue
            if request.tries == _TRIES:  # the process was killed during the last try
                _replace(home, request, None)
                continue
            tried = request._replace(tries=request.tries + 1)
            _replace(home, request, tried)  # before the try, which the process may not survive
            if _distill(home, tried) or tried.tries == _TRIES:
                _replace(home, tried, None)


def _distill(home: Home, request: DistillRequest) -> bool:
    """Ask about one session; return False if the model should be asked again."""
    from vademecum.memory.opening import connect

    if not os.path.isdir(request.project):
        return True
    with connect(
        home=home.path,
        project=request.project,
        agent=request.agent,
        origin=Origin.TOOL,
        actor="process:distill",
    ) as memory:
        try:
            return not memory.heard.distill(request.session).problem
        except VadeError:  # the session is gone, or the model was switched off or not confirmed
            return True


def _name(request: DistillRequest) -> str:
    return hashlib.sha256(f"{request.project} {request.session}".encode()).hexdigest()[:24]


def _leave(home: Home, request: DistillRequest) -> None:
    with home.folder(*_FOLDER, create=True) as folder:
        folder.update(_name(request), lambda _: _render(request))


def _replace(home: Home, request: DistillRequest, after: DistillRequest | None) -> None:
    """Replace a request, or delete it if `after` is None.

    A request that another turn of the session has left meanwhile stays as it is.
    """
    with contextlib.suppress(FileNotFoundError), home.folder(*_FOLDER) as folder:
        if _parse(folder.read(_name(request))) != request:
            return
        if after is None:
            folder.delete(_name(request))
        else:
            folder.update(_name(request), lambda _: _render(after))


def _render(request: DistillRequest) -> bytes:
    return json.dumps(request._asdict()).encode()


def _requests(home: Home) -> Iterator[DistillRequest]:
    for name in home.names(*_FOLDER):
        with contextlib.suppress(VadeError):
            found = _parse(home.read(*_FOLDER, name))
            if found is not None:
                yield found


def _parse(content: bytes | None) -> DistillRequest | None:
    """Return the request in a file; None for other content."""
    try:
        found = DistillRequest(**json.loads(content or b""))
    except (ValueError, TypeError):
        return None
    return found if isinstance(found.at, float | int) and isinstance(found.tries, int) else None


if __name__ == "__main__":
    main(sys.argv[1])
