"""What hooks have given to each session of an agent, and what they still owe to it.

A session has one small file below the home. It is read and written under a lock, so that the hooks of one
session take turns and nothing is given twice. The file holds hashes of the given items, the paths of the
records that prompts brought and, until the next prompt, the text of an answer that came too late. It may be
deleted at any time: then an item may be given again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any

from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = "hooks"
NUDGE = "nudge:"  # the beginning of the mark of a line about something worth saving
LATE_SECONDS = 3600.0  # for which a late answer is kept; a later prompt gets the session's start made anew
_DAYS = 30  # days after which a session is no longer resumed
_MOST = 2_000  # marks
_MOST_RECORDS = 50
_LARGEST = 4 * 1024 * 1024  # bytes of a file


class HookAnswer(NamedTuple):
    """A block of memory that a hook made for a session."""

    event: str  # of the hook
    is_start: bool  # whether it is the block for the start of the session
    text: str
    marks: tuple[str, ...] = ()  # of its items
    at: float = 0.0  # seconds since the epoch
    paths: tuple[str, ...] = ()  # of the records that a prompt brought

    @property
    def is_recent(self) -> bool:
        """Whether the answer still fits; a clock that jumped in either direction makes it unfit."""
        return abs(time.time() - self.at) < LATE_SECONDS


class HookState(NamedTuple):
    """What a session got, and what it still has to get."""

    started: bool = True  # whether it has its first block
    is_owed: bool = False  # whether the hook of its start was called, and the block is not given
    marks: frozenset[str] = frozenset()  # of the items that it was given
    late: tuple[HookAnswer, ...] = ()  # answers that were ready only after their time limit
    records: tuple[str, ...] = ()  # paths of the records that prompts brought, the oldest first

    @property
    def known_marks(self) -> frozenset[str]:
        """The marks of everything that the session was given or gets with its next prompt."""
        return self.marks.union(*(each.marks for each in self.late))

    def owe_start(self, *, resumed: bool, remembers: bool = True) -> HookState:
        """Return the state of a session that starts; the window of a resumed session holds its items.

        An agent that does not remember them gets all of them again. Nudges count for the whole session.
        """
        nudges = frozenset(mark for mark in self.marks if mark.startswith(NUDGE))
        if not resumed:
            return HookState(started=False, is_owed=True, marks=nudges)
        return self._replace(is_owed=True, marks=self.marks if remembers else nudges)

    def give(self, answer: HookAnswer) -> HookState:
        """Return the state after the session got an answer."""
        marks = self.marks.union(answer.marks) if len(self.marks) < _MOST else self.marks
        late = tuple(each for each in self.late if each != answer)
        paths = dict.fromkeys((*self.records, *answer.paths))
        given = self._replace(marks=marks, late=late, records=tuple(paths)[-_MOST_RECORDS:])
        return given._replace(started=True, is_owed=False) if answer.is_start else given


class HookSession:
    """The file of one session, from the moment in which a hook has locked it."""

    def __init__(self, fd: int | None = None, *, is_new: bool = False) -> None:
        self._fd = fd
        self.state = self._read(is_new=is_new)

    def _read(self, *, is_new: bool) -> HookState:
        """Return the saved state.

        A new file belongs to a session that got nothing. A file that cannot be read belongs to a session that
        got something, because nothing may be given twice; it stays empty where the disk is full.
        """
        if self._fd is None or is_new:
            return HookState(started=not is_new)
        try:
            found = json.loads(os.pread(self._fd, _LARGEST, 0))
            late = tuple(
                HookAnswer(event, bool(is_start), text, tuple(map(str, marks)), at, tuple(map(str, paths)))
                for event, is_start, text, marks, at, paths in found["late"]
                if isinstance(event, str) and isinstance(text, str) and isinstance(at, float)
            )
            marks = frozenset(map(str, found["marks"]))
            records = tuple(map(str, found["records"]))
            return HookState(bool(found["started"]), bool(found["owed"]), marks, late, records)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return HookState()

    def save(self, state: HookState) -> None:
        """Write a state over the old one; errors are ignored, and an unfinished write leaves no state."""
        self.state = state
        if self._fd is None:
            return
        plain: dict[str, Any] = {"started": state.started, "owed": state.is_owed, "late": state.late}
        plain |= {"marks": sorted(state.marks), "records": state.records}
        content = json.dumps(plain).encode()
        try:
            whole = os.pwrite(self._fd, content, 0) == len(content)
            os.ftruncate(self._fd, len(content) if whole else 0)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)


@contextlib.contextmanager
def lock_session(home: Path, *, agent: str, session: str) -> Iterator[HookSession]:
    """Wait for other hooks of this session, and yield its file.

    A hook without a session, and one that cannot write here, gets a file that saves nothing.
    """
    fd, is_new = _open(_path(home, agent, session)) if session else (None, False)
    if fd is None:
        yield HookSession()
        return
    try:
        _lock(fd)
        yield HookSession(fd, is_new=is_new)
    finally:
        os.close(fd)


def _path(home: Path, agent: str, session: str) -> str:
    # Two agents may have sessions with the same id, and each has its own window.
    name = hashlib.sha256(f"{agent} {session}".encode(errors="replace")).hexdigest()[:24]
    return os.path.join(home, FOLDER, name)


def _open(path: str) -> tuple[int | None, bool]:
    """Return the open file and whether it was made just now; no file where it cannot be."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    for more in (0, os.O_CREAT | os.O_EXCL, 0):  # another hook of the session may make it at this moment
        try:
            fd = os.open(path, flags | more, 0o600)
        except FileExistsError:
            continue
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                os.mkdir(os.path.dirname(path), 0o700)
            continue
        except OSError:
            return None, False
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd, bool(more)
        os.close(fd)
        return None, False
    return None, False


def _lock(fd: int) -> None:
    """Lock an open file until it is closed; systems without such locks let two hooks work at once."""
    try:
        import fcntl
    except ImportError:
        return
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX)


def forget_old(home: Path) -> None:
    """Delete the state of sessions that nobody resumes any more."""
    old = time.time() - _DAYS * 86_400
    with contextlib.suppress(OSError):
        for path, state in _files(home):
            if state.st_mtime < old:
                os.unlink(path)


def forget_late(home: Path) -> None:
    """Delete the texts of late answers, because a person purges text; the sessions get a new block."""
    for path, state in _files(home):
        if state.st_size:
            fd, _ = _open(path)
            if fd is not None:
                try:
                    _lock(fd)
                    session = HookSession(fd)
                    if session.state.late or session.state.records:
                        session.save(session.state._replace(late=(), records=()))
                finally:
                    os.close(fd)


def _files(home: Path) -> list[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError), os.scandir(os.path.join(home, FOLDER)) as found:
        return [(each.path, each.stat()) for each in found if each.is_file(follow_symlinks=False)]
    return []
