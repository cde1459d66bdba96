"""Waiting for changes: events wake it, a comparison from time to time makes sure, nothing is missed for long.

Knows folders and seconds; knows nothing of the index.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import watchfiles

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence

QUIET = 1.5  # seconds without a further change, after which it is time to look
LONGEST = 10.0  # seconds after the first change, however many follow
RECONCILE = 30.0  # seconds after which everything is compared, whatever was heard
POLL = 5.0  # the same where nothing can be heard


def wakings(folders: Sequence[str], *, ignore: Callable[[str], bool], stop: threading.Event) -> Iterator[str]:
    """Say again and again that it is time to look: `changed`, `due`, or why nothing can be heard."""
    while not stop.is_set():
        try:
            yield from _heard(folders, ignore=ignore, stop=stop)
        # The library's own errors are plain ones, of several kinds.
        except (OSError, RuntimeError) as error:
            yield f"cannot watch ({str(error).splitlines()[0][:200]}): comparing every {POLL:g} s"
            stop.wait(POLL)


def _heard(folders: Sequence[str], *, ignore: Callable[[str], bool], stop: threading.Event) -> Iterator[str]:
    # The library counts a file that is written again and again as one change, and so as quiet; and while what
    # is ignored changes all the time, as an index that others ask, it would say nothing at all. It only
    # listens, in short steps; ignoring and waiting are done here.
    heard = watchfiles.watch(
        *folders,
        watch_filter=None,
        debounce=500,
        step=100,
        rust_timeout=250,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
    )
    told = (any(not ignore(path) for _, path in changes) for changes in heard)
    for why in grouped(told, clock=time.monotonic):
        yield why
        if stop.is_set():
            return


def grouped(heard: Iterable[bool], *, clock: Callable[[], float]) -> Iterator[str]:
    """Turn what is heard, step by step, into wakings: one for all changes up to a quiet, and one when due.

    One is due at once: something may have changed before anything could be heard.
    """
    first = last = None
    looked = -math.inf
    for changed in heard:
        now = clock()
        if changed:
            first, last = now if first is None else first, now
        if first is not None and last is not None:
            if now - last < QUIET and now - first < LONGEST:
                continue
            first = last = None
            yield "changed"
        elif now - looked > RECONCILE:
            yield "due"
        else:
            continue
        looked = clock()
