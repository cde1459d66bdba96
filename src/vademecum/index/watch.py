"""Waiting for changes: events wake it, a comparison from time to time makes sure, nothing is missed for long.

Knows folders and seconds; knows nothing of the index.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import watchfiles

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

DEBOUNCE = 1.5  # seconds of quiet after a change
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
    last = time.monotonic()
    for changes in watchfiles.watch(
        *folders,
        watch_filter=lambda _, path: not ignore(path),
        debounce=int(DEBOUNCE * 1000),
        step=100,
        rust_timeout=1000,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
    ):
        if changes or time.monotonic() - last > RECONCILE:
            yield "changed" if changes else "due"
            last = time.monotonic()
        if stop.is_set():
            return
