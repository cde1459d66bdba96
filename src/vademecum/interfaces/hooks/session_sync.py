"""Sync after a session's end, in a process of its own, so that agent and hook do not wait for a hub.

However many sessions end, one sync runs and at most one more waits; the waiting one syncs all changes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from vademecum.errors import Locked, VadeError
from vademecum.memory import connect
from vademecum.memory.sync import sync_joined
from vademecum.types import Origin

if TYPE_CHECKING:
    from vademecum.memory import Memory
    from vademecum.store import Home

LONGEST = 600.0  # seconds, after which the process is killed
_PAUSE = 0.5  # seconds between two attempts to take the lock
NEXT, _NOW = "the next sync by itself", "a sync by itself"


def start(memory: Memory) -> None:
    """Start a sync in the background, if the settings ask for it and a hub or folder is joined."""
    if not memory.settings.sync.after_session or not memory.home.names("hub"):
        return
    options = (
        {"creationflags": getattr(subprocess, "DETACHED_PROCESS", 0)}
        if sys.platform == "win32"
        else {"start_new_session": True}
    )
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(memory.home.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=memory.home.path,
            **options,
        )


def run(home: str) -> None:
    """Sync once with every joined hub or folder, unless another process already waits to do so."""
    memory = connect(home=home, cwd=home, origin=Origin.TOOL, actor="hook:sync")
    if memory.settings.incognito or not memory.settings.sync.after_session:
        return
    home_without_waiting = memory.home._replace(lock_seconds=0.0)
    with contextlib.suppress(Locked), contextlib.ExitStack() as next_lock:
        next_lock.enter_context(home_without_waiting.lock(NEXT))
        with _wait_for_turn(home_without_waiting):
            next_lock.close()  # a later process may have changes that this sync misses, so it may wait again
            sync_joined(memory)


def _wait_for_turn(home: Home) -> contextlib.ExitStack:
    """Wait until no other automatic sync runs; return the lock for automatic syncs, held.

    This function polls slowly itself, because waiting for the lock in the usual way polls far more often.
    """
    lock = contextlib.ExitStack()
    while True:
        try:
            lock.enter_context(home.lock(_NOW))
            return lock
        except Locked:
            time.sleep(_PAUSE)


def main(home: str) -> None:
    """Run the sync as this process's only task, with low priority and a time limit."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
    with contextlib.suppress(VadeError, OSError):
        run(home)


if __name__ == "__main__":
    main(sys.argv[1])
