"""Reading in the background: one thread with little claim to the machine, a few passages at a time."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING

from vademecum.errors import VadeError

if TYPE_CHECKING:
    from collections.abc import Callable

AT_ONCE = 8  # passages, after which it is asked again whether nobody waits
PAUSE = 2.0  # seconds between two looks
NICENESS = 10
logger = logging.getLogger(__name__)


def read_in_background(read: Callable[[int], int], idle: Callable[[], bool], stop: threading.Event) -> None:
    """Have passages read while nobody asks anything, until told to stop; `read` says how many are left."""

    def work() -> None:
        _yield_to_others()
        pause = PAUSE
        while not stop.wait(pause):
            pause = PAUSE
            try:
                if idle() and read(AT_ONCE):
                    pause = 0.0
            except VadeError as error:  # whoever needs it says so; here nobody listens
                logger.warning("nothing is read in the background: %s", error)
                return

    threading.Thread(target=work, name="vade-reading", daemon=True).start()


def _yield_to_others() -> None:
    """Let all else go first; where niceness is the whole process's, it stays as it is."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
