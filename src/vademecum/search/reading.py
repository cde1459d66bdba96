"""Have what an index holds read, a few passages at a time; in the background, while nobody else needs it."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import IndexFailed, VadeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.index.base import ChunkRow, Filter
    from vademecum.index.embed.base import PassageReader
    from vademecum.index.reads import ToRead
    from vademecum.index.upkeep import IndexFile

    Progress = Callable[[str, int, int], None]

READ_AT_ONCE = 32  # passages: about half a second
AT_ONCE = 8  # passages, after which it is asked again whether nobody waits
PAUSE = 2.0  # seconds between two looks
NICENESS = 10
logger = logging.getLogger(__name__)


class Passages(NamedTuple):
    """What is to be read of one index: who looks, where the texts are, and what mends the index."""

    file: IndexFile
    turn: threading.RLock
    filter: Filter
    wanted: ToRead
    text_of: Callable[[ChunkRow], str | None]  # None of what is not there any more, and left out
    renew: Callable[[], object]


def read_passages(
    passages: Passages, reading: PassageReader, *, most: int | None = None, progress: Progress | None = None
) -> int:
    """Have passages read, at most so many, and say how many are left.

    Others get their turn while it reads: only fetching and keeping need the index. Whatever was read is kept
    at once, so that a run that was stopped goes on where it was.
    """
    done, mended = 0, False
    while True:
        step = READ_AT_ONCE if most is None else min(READ_AT_ONCE, most - done)
        try:
            read, left = _read_some(passages, reading, step)
        except IndexFailed as error:
            if mended:
                raise
            mended = True
            with passages.turn:
                passages.file.begin_anew(error)
                passages.renew()
            continue
        done += read
        if not read:
            return left
        if progress is not None:
            progress("reading", done, done + left)


def _read_some(passages: Passages, reading: PassageReader, most: int) -> tuple[int, int]:
    """Have a few passages read, and say how many, and how many are left."""
    from vademecum.index.vectors import pack  # and numpy with it

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
                logger.warning("no reader vectors in the background: %s", error)
                return

    threading.Thread(target=work, name="vade-reading", daemon=True).start()


def _yield_to_others() -> None:
    """Let all else go first; where niceness is the whole process's, it stays as it is."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
