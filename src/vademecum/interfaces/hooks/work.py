"""Work for a hook, done in a child process that may take its time.

Every text from a hook has the origin `tool`: it may be read and stored as a transcript, but no agent sees it
until a person has verified it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import ANSWERED_EVENTS, HookEvent, HookInput, Hooks
from vademecum.agents.registry import find as find_agent
from vademecum.errors import InvalidKey
from vademecum.interfaces.present.safe import clean_text
from vademecum.memory import Memory, connect
from vademecum.store import hook_log, request_view
from vademecum.text.names import check_id
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from vademecum.agents.base import Agent
    from vademecum.interfaces.hooks.deadline import Job

FOLDER = "hooks"
RESUMED = "resume"
_DAYS = 30  # days after which a session is no longer resumed
_MOST = 2_000  # marks
REMINDER = 600  # tokens of the block for one prompt
MISTAKEN = "answered, but config.toml has an error; see vade status"


class HookFailed(Exception):
    """An error: a hook cannot be answered; `why` quotes no user's text."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def run(job: Job, tell: Callable[[bytes], None]) -> None:
    """Run a hook, and send the answer as soon as it is ready."""
    agent = find_agent(job.agent)
    if agent is None or agent.hooks is None:
        raise HookFailed("unknown agent")
    if job.event not in tuple(agent.hooks.moments):
        raise HookFailed("unknown event for this agent")
    event, hook_input = HookEvent(job.event), agent.hooks.read(_parse_input(job.input), os.environ)
    memory = _open_memory(agent.name, hook_input, job.home)
    tell(b"limit %f" % memory.settings.limits.hook)
    if memory.workspace.loaded.problems and event is HookEvent.SESSION_START:  # logged once per session
        hook_log.write(memory.home.path, agent=job.agent, event=job.event, why=MISTAKEN)
    if memory.settings.incognito:
        return
    if event in ANSWERED_EVENTS:
        if not os.path.isdir(memory.home.path):
            return  # there is nothing to inject, and a hook does not create a home
        memory = _with_short_waits(memory)
        hooks = agent.hooks
        if memory.caller.session:
            hook_log.open_session(
                memory.home.path, agent=agent.name, session=memory.caller.session, folder=hook_input.cwd
            )

        def say(text: str) -> None:
            if text:
                answer = hooks.render(hooks.moments[event], clean_text(text))
                tell(b"answer " + _encoded(answer).hex().encode())

        with request_view():
            if event is HookEvent.SESSION_START:
                say(_start(memory, hook_input))
            else:
                until = None if job.started is None else job.started + memory.settings.limits.hook
                say(_prompt(memory, hooks, hook_input, until, say))
        return
    try:
        _save_session(memory, agent, event, hook_input)
    finally:
        last = HookEvent.SESSION_END if HookEvent.SESSION_END in agent.hooks.moments else HookEvent.STOP
        if event is last:
            from vademecum.interfaces.hooks import session_sync

            session_sync.start(memory)


def _save_session(memory: Memory, agent: Agent, event: HookEvent, hook_input: HookInput) -> None:
    """Import the session's transcript, so that the next session finds it."""
    if hook_input.transcript and agent.transcripts is not None:
        is_compaction = event is HookEvent.PRE_COMPACT if agent.hooks and agent.hooks.announces else None
        done = memory.sessions.import_transcript(
            hook_input.transcript, agent=agent.transcripts.name, checkpoint=is_compaction
        )
        if done.session:
            hook_log.record_session(memory.home.path, done.project, session=done.session, agent=agent.name)
            memory.injection.recent()  # cached now for the next session
    if event is HookEvent.SESSION_END:
        hook_log.close_session(memory.home.path, agent=agent.name, session=hook_input.session)


def prepare(job: Job) -> None:
    """Build and cache the block for a session's start, so that the next session gets it quickly."""
    agent = find_agent(job.agent)
    if agent is None or agent.hooks is None:
        return
    memory = _open_memory(agent.name, agent.hooks.read(_parse_input(job.input), os.environ), job.home)
    if not memory.settings.incognito and os.path.isdir(memory.home.path):
        memory.injection.block(recent=True)


def _parse_input(given: bytes) -> dict[str, Any]:
    """Return the object in standard input; empty when a person calls the command without input."""
    if not given.strip():
        return {}
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        raise HookFailed("standard input is not JSON") from None
    if not isinstance(found, dict):
        raise HookFailed("standard input is not a JSON object")
    return found


def _open_memory(agent: str, hook_input: HookInput, home: str | None) -> Memory:
    cwd = hook_input.cwd if hook_input.cwd and os.path.isdir(hook_input.cwd) else None
    try:
        session = check_id(hook_input.session, "a session") if hook_input.session else None
    except InvalidKey:
        session = None
    return connect(
        home=home, cwd=cwd, session=session, origin=Origin.TOOL, actor=f"hook:{agent}", client=agent
    )


def _with_short_waits(memory: Memory) -> Memory:
    """Return the memory with short waits for locks and the index, as a hook needs."""
    limits = memory.settings.limits
    soon = limits.replace(lock=min(limits.lock, limits.hook / 4), open=min(limits.open, limits.hook / 4))
    settings = memory.settings.replace(limits=soon)
    home = memory.home._replace(lock_seconds=soon.lock)
    return Memory(home, memory.caller, memory.workspace.loaded._replace(settings=settings))


def _start(memory: Memory, hook_input: HookInput, *, query: str = "") -> str:
    """Return the block for a session that begins."""
    injected = InjectedIds(memory.home.path, memory.caller.client, hook_input.session)
    # The window of a resumed session still holds the injected items, except those that a compaction removed.
    resumed = hook_input.source == RESUMED and bool(hook_input.session) and injected.started
    before = injected.marks if resumed else frozenset()
    block = memory.injection.block(query=query, notices=True, recent=True, without=before)
    (injected.add if resumed else injected.begin)(block.marks)
    return block.text


def _prompt(
    memory: Memory, hooks: Hooks, hook_input: HookInput, until: float | None, say: Callable[[str], None]
) -> str:
    """Return the block for a prompt, without items that the session has already got.

    The items found by words are sent at once, through `say`.
    """
    injected = InjectedIds(memory.home.path, memory.caller.client, hook_input.session)
    if HookEvent.SESSION_START not in hooks.moments and not injected.started:
        return _start(memory, hook_input, query=hook_input.prompt)
    block = memory.injection.remind(
        hook_input.prompt,
        budget=REMINDER,
        without=injected.marks,
        until=until,
        meanwhile=lambda block: say(block.text),
    )
    injected.add(block.marks)
    return block.text


def _encoded(text: str) -> bytes:
    """Return the text as bytes, without escape characters, which file names in it may hold."""
    return text.replace("\x1b", "").encode(errors="replace")


# -------------------------------------------------------------------- injected items


class InjectedIds:
    """The ids of items that a session has been given, so that no prompt brings an item twice.

    The file holds hashes and no text, one small file for each session below the home. It may be deleted at
    any time: then an item may be injected a second time.
    """

    def __init__(self, home: Path, agent: str, session: str) -> None:
        self._home = home
        # Two agents may have sessions with the same id, and each has its own window.
        name = hashlib.sha256(f"{agent} {session}".encode(errors="replace")).hexdigest()[:24]
        self._path = os.path.join(home, FOLDER, name) if session else ""

    @property
    def started(self) -> bool:
        """Return whether the session got its first block."""
        return not self._path or os.path.isfile(self._path)

    @property
    def marks(self) -> frozenset[str]:
        """Return the ids of the items that the session has been given."""
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                return frozenset(file.read().split())
        except OSError:
            return frozenset()

    def begin(self, marks: Iterable[str]) -> None:
        """Save the items given to a session that begins, or begins again with an empty window."""
        self._write(sorted(set(marks)), os.O_TRUNC)
        self._clear()

    def add(self, marks: Iterable[str]) -> None:
        """Add more given items to the file."""
        new = sorted(set(marks))
        if new and len(self.marks) < _MOST:
            self._write(new, os.O_APPEND)

    def _write(self, marks: list[str], how: int) -> None:
        """Write ids to the file, in an existing home only, without lock or fsync: they may get lost."""
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
