"""A sync after a session has ended, by a process of its own: neither the agent nor its hook waits for a hub.

However many sessions end, one sync runs and at most one more waits for it, which sees what all of them did.
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

LONGEST = 600.0  # seconds, after which it is ended whatever it does
_PAUSE = 0.5  # seconds between two looks whether it is this one's turn
NEXT, _NOW = "the next sync by itself", "a sync by itself"


def start(memory: Memory) -> None:
    """Begin a sync that nobody waits for, where there is something to sync with."""
    if not memory.settings.sync.after_session or not memory.home.names("hub"):
        return
    apart = (
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
            **apart,
        )


def run(home: str) -> None:
    """Sync once with everything that was joined, unless another process is about to."""
    memory = connect(home=home, cwd=home, origin=Origin.TOOL, actor="hook:sync")
    if memory.settings.incognito or not memory.settings.sync.after_session:
        return
    once = memory.home._replace(lock_seconds=0.0)
    with contextlib.suppress(Locked), contextlib.ExitStack() as waiting:
        waiting.enter_context(once.lock(NEXT))
        with _turn(once):
            waiting.close()  # whoever comes now has done something that this sync may not see
            sync_joined(memory)


def _turn(home: Home) -> contextlib.ExitStack:
    """Wait until no other sync runs by itself; a lock's own waiting looks far more often than this needs."""
    held = contextlib.ExitStack()
    while True:
        try:
            held.enter_context(home.lock(_NOW))
            return held
        except Locked:
            time.sleep(_PAUSE)


def main(home: str) -> None:
    """What the process does: behind whoever somebody waits for, and not for ever."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
    with contextlib.suppress(VadeError, OSError):
        run(home)


if __name__ == "__main__":
    main(sys.argv[1])
