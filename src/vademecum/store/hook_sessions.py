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
UNSAVED = "unsaved:"  # the beginning of the mark of a statement that was listed after a compaction
ASKED = "asked:"  # the mark that the agent of a session was asked at the end of a turn
_LASTING = (NUDGE, UNSAVED, ASKED)  # beginnings of marks that stay when a session starts again
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
        """Whether the answer's time is less than `LATE_SECONDS` away, in the past or in the future."""
        return abs(time.time() - self.at) < LATE_SECONDS


class HookState(NamedTuple):
    """The items that a session was given, and the answers that it is still owed."""

    started: bool = True  # whether it has its first block
    is_owed: bool = False  # whether the hook of its start was called, and the block is not given
    marks: frozenset[str] = frozenset()  # of the items that it was given
    late: tuple[HookAnswer, ...] = ()  # answers that were ready only after their time limit
    records: tuple[str, ...] = ()  # paths of the records that prompts brought, the oldest first
    is_compacted: bool = False  # whether nothing was listed yet since the last compaction

    @property
    def is_asked(self) -> bool:
        """Whether the session's agent was asked at the end of a turn."""
        return ASKED in self.marks

    @property
    def known_marks(self) -> frozenset[str]:
        """The marks of everything that the session was given or gets with its next prompt."""
        return self.marks.union(*(each.marks for each in self.late))

    def owe_start(self, *, resumed: bool, remembers: bool = True) -> HookState:
        """Return the state of a session that starts or, with `resumed`, continues: its first block is owed.

        The marks stay if the session is resumed and its agent `remembers` the items. Else only the marks of
        nudges, listed statements and questions stay, and all items are given again.
        """
        lasting = frozenset(mark for mark in self.marks if mark.startswith(_LASTING))
        if not resumed:
            return HookState(started=False, is_owed=True, marks=lasting, is_compacted=self.is_compacted)
        return self._replace(is_owed=True, marks=self.marks if remembers else lasting)

    def give(self, answer: HookAnswer) -> HookState:
        """Return the state after the session got an answer."""
        marks = self.marks.union(answer.marks) if len(self.marks) < _MOST else self.marks
        late = tuple(each for each in self.late if each != answer)
        paths = dict.fromkeys((*self.records, *answer.paths))
        given = self._replace(marks=marks, late=late, records=tuple(paths)[-_MOST_RECORDS:])
        return given._replace(started=True, is_owed=False) if answer.is_start else given


class HookSession:
    """The open file of one session, which the caller has locked; without `fd`, nothing is saved."""

    def __init__(self, fd: int | None = None, *, is_new: bool = False) -> None:
        self._fd = fd
        self.state = self._read(is_new=is_new)

    @property
    def is_saved(self) -> bool:
        """Whether the state of this session is saved."""
        return self._fd is not None

    def _read(self, *, is_new: bool) -> HookState:
        """Return the saved state.

        A new file is that of a session that was given nothing. If the file is missing or unreadable (empty,
        after a write to a full disk), the session counts as started, so that nothing is given twice.
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
            is_compacted = bool(found.get("compacted"))
            return HookState(bool(found["started"]), bool(found["owed"]), marks, late, records, is_compacted)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return HookState()

    def save(self, state: HookState) -> None:
        """Write a state over the old one; errors are ignored, and an unfinished write empties the file."""
        self.state = state
        if self._fd is None:
            return
        plain: dict[str, Any] = {"started": state.started, "owed": state.is_owed, "late": state.late}
        plain |= {"marks": sorted(state.marks), "records": state.records}
        plain |= {"compacted": True} if state.is_compacted else {}
        content = json.dumps(plain).encode()
        try:
            whole = os.pwrite(self._fd, content, 0) == len(content)
            os.ftruncate(self._fd, len(content) if whole else 0)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)


@contextlib.contextmanager
def lock_session(home: Path, *, agent: str, session: str) -> Iterator[HookSession]:
    """Wait for other hooks of this session, then yield the session's file, locked.

    Without a session, or where the file cannot be opened, yield a file that saves nothing.
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
    """Return the open file, or None if it cannot be opened, and whether this call created it."""
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
    """Delete the files of sessions that have not changed for `_DAYS` days."""
    old = time.time() - _DAYS * 86_400
    with contextlib.suppress(OSError):
        for path, state in _files(home):
            if state.st_mtime < old:
                os.unlink(path)


def forget_late(home: Path) -> None:
    """Delete the late answers and the record paths of all sessions, because a person purges text."""
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
