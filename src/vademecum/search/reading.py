"""Let the reader model read passages of an index, a few at a time, in the background if nobody waits."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from vademecum.errors import IndexFailed, VadeError
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.index import ChunkRow, Filter, IndexFile, PassageReader
    from vademecum.index.reads import ReadScope

    Progress = Callable[[str, int, int], None]

# Passages of the first step and of the longest one; a step should take from QUICK to SLOW seconds.
FIRST_STEP, LONGEST_STEP = 4, 32
QUICK, SLOW = 0.5, 2.0
AT_ONCE = 8  # passages after which the thread looks whether a question waits
PAUSE = 2.0  # seconds between two such looks
NICENESS = 10


class Passages(NamedTuple):
    """The passages of an index that the model shall read, how to get their texts, and how to repair the
    index.
    """

    file: IndexFile
    turn: threading.RLock
    filter: Filter
    wanted: ReadScope
    text_of: Callable[[ChunkRow], str | None]  # None for a text that is gone, which is skipped
    renew: Callable[[], object]


def read_passages(
    passages: Passages, reading: PassageReader, *, most: int | None = None, progress: Progress | None = None
) -> int:
    """Let the model read at most `most` passages, and return how many are left.

    Other threads get a turn meanwhile: only fetching and storing hold the index. The passages of a step are
    stored together, and a step takes about a second, so that little is lost when the process is killed.
    """
    done, mended, step = 0, False, FIRST_STEP
    while True:
        begun = time.monotonic()
        try:
            read, left = _read_some(passages, reading, step if most is None else min(step, most - done))
        except IndexFailed as error:
            if mended:
                raise
            mended = True
            with passages.turn:
                passages.file.discard(error)
                passages.renew()
            continue
        done += read
        if not read:
            return left
        if progress is not None:
            progress("reading", done, done + left)
        step = next_step(step, time.monotonic() - begun)


def next_step(step: int, seconds: float) -> int:
    """Return the number of passages of the next step, from how long this step took."""
    if seconds < QUICK:
        return min(2 * step, LONGEST_STEP)
    return max(step // 2, 1) if seconds > SLOW else step


def _read_some(passages: Passages, reading: PassageReader, most: int) -> tuple[int, int]:
    """Let the model read a few passages; return how many were read and how many are left."""
    from vademecum.index.vectors import pack  # loads numpy

    identity, filter, wanted = reading.model.identity, passages.filter, passages.wanted
    with passages.turn:
        index = passages.file.open()
        left = index.reads.count(filter, made_by=identity, wanted=wanted)[1]
        rows = index.rows(index.reads.waiting(filter, most, made_by=identity, wanted=wanted))
    texts = {id_: passages.text_of(row) for id_, row in rows.items()}
    parts = {id_: reading.cut(text) for id_, text in texts.items() if text is not None}
    if parts:
        made = iter(pack(reading.model.embed([each for cut in parts.values() for each in cut])))
        kept = [(id_, [next(made) for _ in cut]) for id_, cut in parts.items()]
        with passages.turn:
            passages.file.open().reads.put(kept, made_by=identity)
    return len(rows), left - len(rows)


def read_in_background(read: Callable[[int], int], idle: Callable[[], bool], stop: threading.Event) -> None:
    """Start a thread that calls `read` while `idle` returns True, until `stop` is set or reading fails.

    `read` lets the model read up to a given number of passages, and returns how many are left.
    """

    def work() -> None:
        _lower_priority()
        pause = PAUSE
        while not stop.wait(pause):
            pause = PAUSE
            try:
                if idle() and read(AT_ONCE):
                    pause = 0.0
            except VadeError as error:  # the next question reports it; nobody listens here
                import logging  # rarely needed, and takes long to import

                logging.getLogger(__name__).warning("no reader vectors in the background: %s", error)
                return

    threading.Thread(target=work, name="vade-reading", daemon=True).start()


def _lower_priority() -> None:
    """Lower this thread's priority, except where priority belongs to the whole process."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
