"""What is done for a hook, by the child that may take its time.

Everything that comes in here is of origin `tool`: it may be read and kept as a transcript, and nothing of it
is ever put before an agent until a person has verified it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import ANSWERED, HookEvent, HookInput, Hooks
from vademecum.agents.registry import find as find_agent
from vademecum.errors import InvalidKey
from vademecum.interfaces.present.safe import clean_text
from vademecum.memory import Memory, connect
from vademecum.store import hook_log
from vademecum.text.names import check_id
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from vademecum.agents.base import Agent
    from vademecum.interfaces.hooks.deadline import Job

FOLDER = "hooks"
RESUMED = "resume"
_DAYS = 30  # after which a session is not resumed any more
_MOST = 2_000  # marks
REMINDER = 600  # tokens for what one prompt brings back
MISTAKEN = "answered, but config.toml has an error; see vade status"


class HookFailed(Exception):
    """A hook that cannot be answered; `why` has no word of anybody's text in it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def run(job: Job, tell: Callable[[bytes], None]) -> None:
    """Do what a hook asks for, and tell the answer as soon as it is there."""
    agent = find_agent(job.agent)
    if agent is None or agent.hooks is None:
        raise HookFailed("unknown agent")
    if job.event not in tuple(agent.hooks.moments):
        raise HookFailed("unknown event for this agent")
    event, told = HookEvent(job.event), agent.hooks.read(_parsed(job.given), os.environ)
    memory = _opened(agent.name, told, job.home)
    tell(b"limit %f" % memory.settings.limits.hook)
    if memory.workspace.loaded.problems and event is HookEvent.SESSION_START:  # once a session is enough
        hook_log.write(memory.home.path, agent=job.agent, event=job.event, why=MISTAKEN)
    if memory.settings.incognito:
        return
    if event in ANSWERED:
        if not os.path.isdir(memory.home.path):
            return  # nothing to tell, and no reason to make a memory
        memory = _hurried(memory)
        hooks = agent.hooks
        if memory.caller.session:
            hook_log.open_session(
                memory.home.path, agent=agent.name, session=memory.caller.session, folder=told.cwd
            )

        def say(text: str) -> None:
            if text:
                answer = hooks.render(hooks.moments[event], clean_text(text))
                tell(b"answer " + _encoded(answer).hex().encode())

        if event is HookEvent.SESSION_START:
            say(_start(memory, told))
        else:
            until = None if job.begun is None else job.begun + memory.settings.limits.hook
            say(_prompt(memory, hooks, told, until, say))
        return
    try:
        _keep_session(memory, agent, event, told)
    finally:
        last = HookEvent.SESSION_END if HookEvent.SESSION_END in agent.hooks.moments else HookEvent.STOP
        if event is last:
            from vademecum.interfaces.hooks import after

            after.start(memory)


def _keep_session(memory: Memory, agent: Agent, event: HookEvent, told: HookInput) -> None:
    """Keep the transcript, and have the next session find this one."""
    if told.transcript and agent.transcripts is not None:
        announced = event is HookEvent.PRE_COMPACT if agent.hooks and agent.hooks.announces else None
        done = memory.sessions.import_transcript(
            told.transcript, agent=agent.transcripts.name, checkpoint=announced
        )
        if done.session:
            hook_log.record_session(memory.home.path, done.project, session=done.session, agent=agent.name)
            memory.injection.recent()  # made now, so that the next session finds it made
    if event is HookEvent.SESSION_END:
        hook_log.close_session(memory.home.path, agent=agent.name, session=told.session)


def prepare(job: Job) -> None:
    """Make what a session is told when it begins, and tell nobody: the next one finds it made."""
    agent = find_agent(job.agent)
    if agent is None or agent.hooks is None:
        return
    memory = _opened(agent.name, agent.hooks.read(_parsed(job.given), os.environ), job.home)
    if not memory.settings.incognito and os.path.isdir(memory.home.path):
        memory.injection.block(recent=True)


def _parsed(given: bytes) -> dict[str, Any]:
    """What is on standard input: an object, or nothing at all, as by hand."""
    if not given.strip():
        return {}
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        raise HookFailed("standard input is not JSON") from None
    if not isinstance(found, dict):
        raise HookFailed("standard input is not a JSON object")
    return found


def _opened(agent: str, told: HookInput, home: str | None) -> Memory:
    cwd = told.cwd if told.cwd and os.path.isdir(told.cwd) else None
    try:
        session = check_id(told.session, "a session") if told.session else None
    except InvalidKey:
        session = None
    return connect(
        home=home, cwd=cwd, session=session, origin=Origin.TOOL, actor=f"hook:{agent}", client=agent
    )


def _hurried(memory: Memory) -> Memory:
    """The same memory, with no more patience for locks and a lagging index than a hook has."""
    limits = memory.settings.limits
    soon = limits.replace(lock=min(limits.lock, limits.hook / 4), open=min(limits.open, limits.hook / 4))
    settings = memory.settings.replace(limits=soon)
    home = memory.home._replace(lock_seconds=soon.lock)
    return Memory(home, memory.caller, memory.workspace.loaded._replace(settings=settings))


def _start(memory: Memory, told: HookInput, *, query: str = "") -> str:
    """The block for a session that begins."""
    shown = Shown(memory.home.path, memory.caller.client, told.session)
    # What a resumed session was told stands in its window still, but for what a compaction took out of it.
    resumed = told.source == RESUMED and bool(told.session) and shown.begun
    before = shown.marks if resumed else frozenset()
    block = memory.injection.block(query=query, notices=True, recent=True, without=before)
    (shown.add if resumed else shown.begin)(block.marks)
    return block.text


def _prompt(
    memory: Memory, hooks: Hooks, told: HookInput, until: float | None, say: Callable[[str], None]
) -> str:
    """What answers a prompt and is not in the window yet; what its words bring back is said at once."""
    shown = Shown(memory.home.path, memory.caller.client, told.session)
    if HookEvent.SESSION_START not in hooks.moments and not shown.begun:
        return _start(memory, told, query=told.prompt)
    block = memory.injection.remind(
        told.prompt,
        budget=REMINDER,
        without=shown.marks,
        until=until,
        meanwhile=lambda block: say(block.text),
    )
    shown.add(block.marks)
    return block.text


def _encoded(text: str) -> bytes:
    """As bytes that hold no escape, whatever an agent's name for it is."""
    return text.replace("\x1b", "").encode(errors="replace")


# -------------------------------------------------------------------- what was told already


class Shown:
    """What a session of an agent has been told already, so that a prompt brings nothing twice.

    Marks alone, no text; a small file for each session below the home. It may be deleted at any time:
    something is then told a second time.
    """

    def __init__(self, home: Path, agent: str, session: str) -> None:
        self._home = home
        # Two agents may have a session of one id: each has a window of its own.
        name = hashlib.sha256(f"{agent} {session}".encode(errors="replace")).hexdigest()[:24]
        self._path = os.path.join(home, FOLDER, name) if session else ""

    @property
    def begun(self) -> bool:
        """Whether the session got its block."""
        return not self._path or os.path.isfile(self._path)

    @property
    def marks(self) -> frozenset[str]:
        """What it has been told."""
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                return frozenset(file.read().split())
        except OSError:
            return frozenset()

    def begin(self, marks: Iterable[str]) -> None:
        """A session begins, or begins again with an empty window."""
        self._write(sorted(set(marks)), os.O_TRUNC)
        self._clear()

    def add(self, marks: Iterable[str]) -> None:
        """It has been told more."""
        new = sorted(set(marks))
        if new and len(self.marks) < _MOST:
            self._write(new, os.O_APPEND)

    def _write(self, marks: list[str], how: int) -> None:
        """Nothing depends on it: no lock, no fsync, and no home is made for it."""
        if not self._path or not os.path.isdir(self._home):
            return
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | how | getattr(os, "O_NOFOLLOW", 0)
            fd = os.open(self._path, flags, 0o600)
            try:
                os.write(fd, "".join(f"{mark}\n" for mark in marks[:_MOST]).encode())
            finally:
                os.close(fd)

    def _clear(self) -> None:
        old = time.time() - _DAYS * 86_400
        with contextlib.suppress(OSError), os.scandir(os.path.dirname(self._path)) as found:
            for each in found:
                if each.is_file(follow_symlinks=False) and each.stat().st_mtime < old:
                    os.unlink(each.path)
