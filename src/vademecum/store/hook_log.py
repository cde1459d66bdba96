"""Log of hooks: their failures (without any user text), and the sessions that agents have open."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import clock, outgoing

if TYPE_CHECKING:
    from pathlib import Path

NAME = "hooks.log"
OLDER = "hooks.log.1"
LARGEST = 64 * 1024  # bytes; twice as much at most, with what is older
_PLAIN = lazy_pattern(r"[^A-Za-z0-9 ._:-]+")


class Failure(NamedTuple):
    """A hook that failed: when, where and why."""

    time: str
    agent: str
    event: str
    why: str


def write(home: Path, *, agent: str, event: str, why: str) -> None:
    """Log a hook's failure, if a memory exists; errors while writing are ignored."""
    words = (_PLAIN.sub("", each)[:80] for each in (agent, event, why))
    line = "\t".join((clock.stamp(clock.now()), *words)) + "\n"
    path = os.path.join(home, NAME)
    with contextlib.suppress(OSError):
        if not os.path.isdir(home):
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        fd = os.open(path, flags, 0o600)
        try:
            if os.fstat(fd).st_size > LARGEST:
                os.replace(path, os.path.join(home, OLDER))
            os.write(fd, line.encode())
        finally:
            os.close(fd)


def last(home: Path) -> Failure | None:
    """Return the newest logged failure of a hook; None when there is none."""
    for name in (NAME, OLDER):
        try:
            with open(os.path.join(home, name), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            continue
        for line in reversed(lines):
            words = line.split("\t")
            if len(words) == 4:
                return Failure(*words)
    return None


# -------------------------------------------------------------------- syncs after a session ended

SYNCS = ("hooks", "sync.log")
_LOG_LINES = 50


class BackgroundSync(NamedTuple):
    """The result of a sync that ran in the background."""

    time: str
    where: str  # a workspace's id, or `folder`
    problem: str


def record_sync(home: Path, where: str, problem: str) -> None:
    """Save the result of a background sync; errors while writing are ignored."""
    words = (" ".join(outgoing.clean_text(each).split())[:300] for each in (where, problem))
    line = "\t".join((clock.stamp(clock.now()), *words))
    path = os.path.join(home, *SYNCS)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _replace(path, "".join(f"{each}\n" for each in [*_sync_lines(home), line][-_LOG_LINES:]).encode())


def last_sync(home: Path, where: str) -> BackgroundSync | None:
    """Return the result of the last background sync with a workspace or folder; None when there was none."""
    found = (BackgroundSync(*line.split("\t")) for line in _sync_lines(home) if line.count("\t") == 2)
    return next((each for each in reversed([*found]) if each.where == where), None)


def _sync_lines(home: Path) -> list[str]:
    with contextlib.suppress(OSError), open(os.path.join(home, *SYNCS), "rb") as file:
        return file.read(LARGEST).decode(errors="replace").splitlines()
    return []


# -------------------------------------------------------------------- sessions that agents have open
# An agent tells its hooks which session it is in, and its server nothing. Both are started by one process: by
# that a server knows the session, and what it keeps leads to the conversation it came from.

OPEN = ("hooks", "open")
_DEEPEST = 6  # processes above a hook: a shell or two, and the agent
_NEAR = 2  # above a server: the agent, or what the agent started it with
_FAR = 1000
_FULL = 500  # sessions that never ended; the oldest are forgotten


class OpenSession(NamedTuple):
    """A session that an agent has open: its folder, and the processes that started its hook."""

    agent: str
    session: str
    folder: str
    above: tuple[str, ...] = ()
    at: int = 0


def open_session(home: Path, *, agent: str, session: str, folder: str) -> None:
    """Save that an agent opened a session in a folder; errors while writing are ignored."""
    if not session or not os.path.isdir(home):
        return
    fields = {"agent": agent, "session": session, "folder": folder, "above": _processes_above(_DEEPEST)}
    path = _open_path(home, agent, session)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _forget_oldest(os.path.dirname(path))
        _replace(path, json.dumps(fields).encode())


def _replace(path: str, content: bytes) -> None:
    new = f"{path}.{os.getpid()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)
    os.replace(new, path)


def close_session(home: Path, *, agent: str, session: str) -> None:
    """Delete the note that an agent has this session open."""
    with contextlib.suppress(OSError):
        os.unlink(_open_path(home, agent, session))


def find_session(home: Path, *, agent: str, folder: str) -> str:
    """Return the session of the agent that started this process; empty when unknown.

    Where processes cannot be listed, return the agent's session in the folder if it has exactly one.
    """
    mine = _processes_above(_NEAR)
    found = [each for each in _open_sessions(home) if not agent or not each.agent or each.agent == agent]
    if mine:
        near = [(_distance(mine, each.above), -each.at, each.session) for each in found]
        return min(near)[2] if near and min(near)[0] < _FAR else ""
    here = {each.session for each in found if agent and each.folder == folder}
    return here.pop() if len(here) == 1 else ""


def _distance(mine: list[str], above: tuple[str, ...]) -> int:
    """Return how many processes lie between two processes and their nearest common ancestor."""
    return min((at + above.index(one) for at, one in enumerate(mine) if one in above), default=_FAR)


def _open_path(home: Path, agent: str, session: str) -> str:
    name = hashlib.sha256(f"{agent} {session}".encode(errors="replace")).hexdigest()[:24]
    return os.path.join(home, *OPEN, name)


def _open_sessions(home: Path) -> list[OpenSession]:
    found = []
    with contextlib.suppress(OSError), os.scandir(os.path.join(home, *OPEN)) as files:
        for each in files:
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError), open(each.path, "rb") as file:
                fields = json.loads(file.read(4096))
                above = tuple(map(str, fields["above"]))
                agent, session, folder = (str(fields[name]) for name in ("agent", "session", "folder"))
                at = os.fstat(file.fileno()).st_mtime_ns
                found.append(OpenSession(agent, session, folder, above, at))
    return found


def _forget_oldest(folder: str) -> None:
    with os.scandir(folder) as files:
        found = [*files]
    if len(found) <= _FULL:
        return
    ages = sorted((each.stat(follow_symlinks=False).st_mtime_ns, each.path) for each in found)
    for _, path in ages[: len(ages) - _FULL]:
        os.unlink(path)


def _processes_above(most: int) -> list[str]:
    """Return the ancestors of this process, nearest first, each as its number and start time.

    Return none on systems without `/proc`, where listing processes is too slow.
    """
    found: list[str] = []
    pid = os.getppid()
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1 and len(found) < most:
            with open(f"/proc/{pid}/stat", "rb") as file:
                words = file.read(4096).rpartition(b")")[2].split()
            found.append(f"{pid}:{words[19].decode()}")
            pid = int(words[1])
    return found


# -------------------------------------------------------------------- sessions that hooks kept
# Ids alone. What somebody imported, or brought with a bundle, is not among them, whatever it says of itself.

RECORDED = ("hooks", "recorded")
_LAST = 20  # of a project


def record_session(home: Path, project: str, *, session: str, agent: str) -> None:
    """Save that a hook kept a session of a project, as the newest one; errors while writing are ignored."""
    listed = dict(recorded_sessions(home, project))
    listed.pop(session, None)
    listed[session] = agent
    path = os.path.join(home, *RECORDED, project)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lines = "".join(f"{id} {name}\n" for id, name in list(listed.items())[-_LAST:])
        _replace(path, lines.encode())


def recorded_sessions(home: Path, project: str) -> list[tuple[str, str]]:
    """Return the sessions of a project that hooks on this machine kept, each with its agent's name."""
    try:
        with open(os.path.join(home, *RECORDED, project), encoding="ascii", errors="replace") as file:
            words = [line.split() for line in file.read(16_384).split("\n")]
    except OSError:
        return []
    return [(each[0], each[1]) for each in words if len(each) == 2]
