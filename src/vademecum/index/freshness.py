"""When to look at the files again: before an answer, and for who waits for changes (`vade index --watch`).

The first look compares everything. After that the system's own word for what changed (`Watch`) decides, and a
full comparison from time to time, since events are hints. Where the system has no such word, the comparison
is made before each answer as long as it is cheap, and otherwise takes a twentieth of the time at most. Who
waits is woken by events as well, and by a comparison from time to time: nothing is missed for long.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from vademecum.index.base import Stack
from vademecum.store.folders import Watch

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.index.corpus import Corpus
    from vademecum.index.sync import Sync, SyncReport
    from vademecum.types import Finding

RECONCILE = 30.0  # seconds between two full comparisons while changes are heard
CHEAP = 0.005  # seconds that a comparison may take to be made each time
SHARE = 20  # and otherwise: how many times its own duration lies between two
MANY = 1_000  # names in one look, from which on everything is compared instead
PATIENCE = 2.0  # seconds that a write may spend on the index
QUIET = 1.5  # seconds without a further change, after which it is time to look
LONGEST = 10.0  # seconds after the first change, however many follow
POLL = 5.0  # seconds between two comparisons where nothing can be heard


class Freshness:
    """Keeps one index up to date for one caller."""

    def __init__(self, sync: Sync, corpus: Corpus) -> None:
        self.sync, self._corpus = sync, corpus
        self._decisions = corpus.decisions
        self._watch = Watch()
        self._stacks: dict[str, list[Stack]] = {}
        self._report: SyncReport | None = None
        self._compared = 0.0
        self._cost = 0.0
        self._made_by: tuple[int, str | None] = (0, None)
        self._watched = False

    @property
    def watching(self) -> bool:
        """Whether the system tells what changes, so that nothing need be compared."""
        return self._watch.working

    @property
    def age(self) -> float:
        """Seconds since everything was compared."""
        return time.monotonic() - self._compared

    def update(self, *, seconds: float, vectors: bool = True) -> SyncReport:
        """Bring the index up to date within a time, looking no closer than needed."""
        self.sync.index.patience = seconds
        try:
            with self._corpus.held():
                return self._update(seconds=seconds, vectors=vectors)
        except BaseException:
            self._report = None  # what was heard is lost: everything is compared next time
            raise
        finally:
            self.sync.index.patience = None

    def _update(self, *, seconds: float, vectors: bool) -> SyncReport:
        seen = self._watch.look()
        report = self._report
        if report is None or self._due(report, anything=seen.anything) or len(seen.names) > MANY:
            return self.compare(seconds=seconds, vectors=vectors)
        hints = [
            (stack, name) for folder, name in sorted(seen.names) for stack in self._stacks.get(folder, ())
        ]
        if any(folder in self._decisions for folder, _ in seen.names):
            return self.compare(seconds=seconds, vectors=vectors)
        if self._foreign(vectors=vectors):
            return self.compare(seconds=seconds, vectors=vectors)
        if hints or (vectors and report.vectors_pending):
            self.sync.run_some(hints, report, seconds=seconds, vectors=vectors)
        return report

    def compare(
        self, *, seconds: float | None = None, check: bool = False, vectors: bool = True
    ) -> SyncReport:
        """Bring the index up to date by looking at every file."""
        with self._corpus.held():
            return self._compared_all(seconds=seconds, check=check, vectors=vectors)

    def _compared_all(self, *, seconds: float | None, check: bool, vectors: bool) -> SyncReport:
        begun = time.monotonic()
        # Watched before it is read: what changes meanwhile is seen by the next look. Not the first time: most
        # processes ask one question.
        self._watched = self._watched or self._report is not None
        found = None if self._watched and self._stacks else self._planned()
        covered: list[str] = []
        while found is None or (self._watched and covered != [*self._stacks]):
            covered = [*self._stacks]  # a folder may have come between the listing and the watch
            self._watch.cover([*covered, *self._decisions])
            self._watch.look()
            found = self._planned()
        self._report = self.sync.run(found, seconds=seconds, check=check, vectors=vectors)
        self._compared = time.monotonic()
        self._cost = self._compared - begun if not self._report.changed else self._cost
        self._made_by = self._made()
        return self._report

    def _planned(self) -> list[Stack | Finding]:
        """What there is to look at now."""
        found = list(self._corpus.stacks())
        self._stacks = {}
        for stack in found:
            if isinstance(stack, Stack):
                self._stacks.setdefault(stack.path, []).append(stack)
        return found

    def take(self, path: str) -> None:
        """Bring the index up to date with one file, by the path it is shown with."""
        folder, _, name = path.rpartition("/")
        if self._report is None:
            return  # the first question compares everything anyway
        stacks = [stack for each in self._stacks.values() for stack in each if stack.shown == folder]
        if not stacks:
            self.compare(seconds=PATIENCE)  # a folder that was not known before
            return
        try:
            self.sync.run_some([(stack, name) for stack in stacks], self._report, seconds=PATIENCE)
        except BaseException:
            self._report = None
            raise

    def close(self) -> None:
        """Stop watching."""
        self._watch.close()

    def _due(self, report: SyncReport, *, anything: bool) -> bool:
        """Whether everything has to be compared."""
        if report.pending or report.outdated or not self._watched:
            return True
        if self._watch.working:
            return anything or self.age > max(RECONCILE, SHARE * self._cost)
        return self._cost < CHEAP or self.age > SHARE * self._cost

    def _foreign(self, *, vectors: bool) -> bool:
        """Whether another process has left another index: made anew, or made with other settings."""
        made = self._made()
        if made[0] == self._made_by[0]:
            return False
        if made[1] != self._made_by[1] or not self.sync.agrees(vectors=vectors):
            return True
        if vectors:  # words alone do not tell whether the vectors are still ours
            self._made_by = made
        return False

    def _made(self) -> tuple[int, str | None]:
        """Who wrote last, and which index it is."""
        stats = self.sync.index.stats()
        return stats.version[0], stats.settings.get("made")


def wakings(
    folders: Sequence[str],
    *,
    ignore: Callable[[str], bool],
    stop: threading.Event,
    every: Callable[[], float] = lambda: RECONCILE,
    called: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Say again and again that it is time to look: `changed`, `called`, `due`, or why nothing is heard."""
    while not stop.is_set():
        try:
            yield from _heard(folders, ignore=ignore, stop=stop, every=every, called=called)
        # The library's own errors are plain ones, of several kinds.
        except (OSError, RuntimeError) as error:
            yield f"cannot watch ({str(error).splitlines()[0][:200]}): checking every {POLL:g} s"
            stop.wait(POLL)


def _heard(
    folders: Sequence[str],
    *,
    ignore: Callable[[str], bool],
    stop: threading.Event,
    every: Callable[[], float],
    called: Callable[[], bool],
) -> Iterator[str]:
    import watchfiles  # only for who waits

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
    for why in grouped(told, clock=time.monotonic, every=every, called=called):
        yield why
        if stop.is_set():
            return


def grouped(
    heard: Iterable[bool],
    *,
    clock: Callable[[], float],
    every: Callable[[], float] = lambda: RECONCILE,
    called: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Turn what is heard, step by step, into wakings: one for all changes up to a quiet, and one when due.

    One is due at once: something may have changed before anything could be heard. Who calls is not kept
    waiting for a quiet.
    """
    first = last = None
    looked = -math.inf
    for changed in heard:
        now = clock()
        if changed:
            first, last = now if first is None else first, now
        if called():
            yield "called"
        elif first is not None and last is not None:
            if now - last < QUIET and now - first < LONGEST:
                continue
            first = last = None
            yield "changed"
        elif now - looked > every():
            yield "due"
        else:
            continue
        looked = clock()
