"""Decide when to compare the index with the files: before an answer, and for `vade index --watch`.

The first time all files are compared. Afterwards the system's events (`Watch`) decide, and a full comparison
from time to time, since events are hints. Without events, all files are compared before each answer while
that is cheap, and else in at most a twentieth of the time. Watchers are woken by events as well, and by a
full comparison from time to time: no change is missed for long.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from vademecum.index.base import IndexedFolder
from vademecum.store import Watch, request_view

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.index.corpus import Corpus
    from vademecum.index.sync import Sync, SyncReport
    from vademecum.types import Finding

RECONCILE = 30.0  # seconds between two full comparisons while events arrive
CHEAP = 0.005  # seconds: a faster comparison is made before each answer
SHARE = 20  # a slower comparison pauses for this many times its duration
MANY = 1_000  # changed names from which on all files are compared
PATIENCE = 2.0  # seconds that a write may spend on the index
QUIET = 1.5  # seconds without a change that count as a pause
LONGEST = 10.0  # seconds after the first change, even without a pause
POLL = 5.0  # seconds between two comparisons without events


class Freshness:
    """An updater that keeps one index equal to the files that one caller sees."""

    def __init__(self, sync: Sync, corpus: Corpus) -> None:
        self.sync, self._corpus = sync, corpus
        self._decisions = corpus.decisions
        self._watch = Watch()
        self._folders: dict[str, list[IndexedFolder]] = {}
        self._report: SyncReport | None = None
        self._compared = 0.0
        self._cost = 0.0
        self._made_by: tuple[int, str | None] = (0, None)
        self._watched = False

    @property
    def watching(self) -> bool:
        """Whether the system reports changed files, so that not every file has to be compared."""
        return self._watch.working

    @property
    def age(self) -> float:
        """The seconds since all files were last compared with the index."""
        return time.monotonic() - self._compared

    def update(self, *, seconds: float, vectors: bool = True) -> SyncReport:
        """Bring the index up to date within this many seconds, reading no more files than necessary.

        Without `vectors`, missing vectors are not made.
        """
        self.sync.index.patience = seconds
        try:
            with request_view():
                return self._update(seconds=seconds, vectors=vectors)
        except BaseException:
            self._report = None  # events are lost: all files are compared next time
            raise
        finally:
            self.sync.index.patience = None

    def _update(self, *, seconds: float, vectors: bool) -> SyncReport:
        seen = self._watch.look()
        report = self._report
        if report is None or self._must_compare(report, anything=seen.anything) or len(seen.names) > MANY:
            return self.compare(seconds=seconds, vectors=vectors)
        hints = [
            (indexed, name)
            for folder, name in sorted(seen.names)
            for indexed in self._folders.get(folder, ())
        ]
        if any(folder in self._decisions for folder, _ in seen.names):
            return self.compare(seconds=seconds, vectors=vectors)
        if self._foreign(vectors=vectors):
            return self.compare(seconds=seconds, vectors=vectors)
        if hints or (vectors and report.vectors_pending):
            self.sync.run_files(hints, report, seconds=seconds, vectors=vectors)
        return report

    def compare(
        self, *, seconds: float | None = None, check: bool = False, vectors: bool = True
    ) -> SyncReport:
        """Bring the index up to date by comparing every file, within some `seconds` if they are given.

        With `check`, files whose stamps are unchanged are read too. Without `vectors`, missing vectors are
        not made.
        """
        with request_view():
            return self._compare_all(seconds=seconds, check=check, vectors=vectors)

    def _compare_all(self, *, seconds: float | None, check: bool, vectors: bool) -> SyncReport:
        begun = time.monotonic()
        # Watch before reading, so that the next look sees later changes. The first time needs no watch: most
        # processes ask one question.
        self._watched = self._watched or self._report is not None
        found = None if self._watched and self._folders else self._list_folders()
        covered: list[str] = []
        while found is None or (self._watched and covered != [*self._folders]):
            covered = [*self._folders]  # a folder may have come between the listing and the watch
            self._watch.cover([*covered, *self._decisions])
            self._watch.look()
            found = self._list_folders()
        self._report = self.sync.run(found, seconds=seconds, check=check, vectors=vectors)
        self._compared = time.monotonic()
        self._cost = self._compared - begun if not self._report.changed else self._cost
        self._made_by = self._made()
        return self._report

    def _list_folders(self) -> list[IndexedFolder | Finding]:
        """Return the folders to compare now, with findings for unreadable ones, and store them by path."""
        found = list(self._corpus.folders())
        self._folders = {}
        for indexed in found:
            if isinstance(indexed, IndexedFolder):
                self._folders.setdefault(indexed.path, []).append(indexed)
        return found

    def update_file(self, path: str) -> None:
        """Bring the index up to date with one file, named by its path as shown.

        Before the first comparison nothing is done, because that comparison covers the file.
        """
        folder, _, name = path.rpartition("/")
        if self._report is None:
            return  # the first question compares everything anyway
        folders = [indexed for each in self._folders.values() for indexed in each if indexed.shown == folder]
        if not folders:
            self.compare(seconds=PATIENCE)  # a folder that was not known before
            return
        try:
            self.sync.run_files([(indexed, name) for indexed in folders], self._report, seconds=PATIENCE)
        except BaseException:
            self._report = None
            raise

    def close(self) -> None:
        """Stop watching."""
        self._watch.close()

    def _must_compare(self, report: SyncReport, *, anything: bool) -> bool:
        """Return whether all files must be compared, judged by the last report and the system's events."""
        if report.pending or not self._watched:
            return True
        if self._watch.working:
            return anything or self.age > max(RECONCILE, SHARE * self._cost)
        return self._cost < CHEAP or self.age > SHARE * self._cost

    def _foreign(self, *, vectors: bool) -> bool:
        """Return whether another process has replaced the index, or changed it with other settings."""
        made = self._made()
        if made[0] == self._made_by[0]:
            return False
        if made[1] != self._made_by[1] or not self.sync.has_same_settings(vectors=vectors):
            return True
        if vectors:  # without vectors nobody has checked whether they are still ours
            self._made_by = made
        return False

    def _made(self) -> tuple[int, str | None]:
        """Return the version of the index's content, and the id of the index file."""
        stats = self.sync.index.stats()
        return stats.version[0], stats.settings.get("made")


def watch_changes(
    folders: Sequence[str],
    *,
    ignore: Callable[[str], bool],
    stop: threading.Event,
    every: Callable[[], float] = lambda: RECONCILE,
    called: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Yield a reason for each comparison that is due, until `stop` is set.

    The reason is `changed`, `called`, `due`, or a message that watching failed. `ignore` tells which paths do
    not count, `every` after how many seconds a comparison is due without changes, and `called` whether the
    caller asks for one.
    """
    while not stop.is_set():
        try:
            yield from _watch_files(folders, ignore=ignore, stop=stop, every=every, called=called)
        # The library's own errors are plain ones, of several kinds.
        except (OSError, RuntimeError) as error:
            yield f"cannot watch ({str(error).splitlines()[0][:200]}): checking every {POLL:g} s"
            stop.wait(POLL)


def _watch_files(
    folders: Sequence[str],
    *,
    ignore: Callable[[str], bool],
    stop: threading.Event,
    every: Callable[[], float],
    called: Callable[[], bool],
) -> Iterator[str]:
    """Yield the reasons for a comparison, from the system's events in some folders, until `stop` is set."""
    import watchfiles  # only watchers need it

    # The library counts a file that is written repeatedly as one change, and it reports nothing at all while
    # ignored files change all the time, such as an index in use. So it only listens here, in short steps;
    # this module ignores files and waits for pauses.
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
    signals = (any(not ignore(path) for _, path in changes) for changes in heard)
    for why in group_changes(signals, clock=time.monotonic, every=every, called=called):
        yield why
        if stop.is_set():
            return


def group_changes(
    heard: Iterable[bool],
    *,
    clock: Callable[[], float],
    every: Callable[[], float] = lambda: RECONCILE,
    called: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Turn events into reasons for a comparison: `changed` when changes pause, `due` when time has passed.

    `heard` tells at each moment whether a file changed, and `every` after how many seconds a comparison is
    due. The first comparison is due at once, as a file may have changed before the watch began. If `called`
    returns True, the reason is `called`, without waiting for a pause.
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
