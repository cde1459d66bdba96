"""Whose word it is: what a person types in a chat is theirs, what the model asks for through tools is not."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vademecum import Locked, Memory, NotFound, Origin, connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from vademecum import Log, Session

LAST = "last"
_OPEN = "the session is open in another chat"


@dataclass(frozen=True, slots=True)
class Callers:
    """The same memory, as the person and as the model call it."""

    person: Memory
    agent: Memory

    def reader(self) -> Memory:
        """The model's memory with the person's index: to have one loaded is enough."""
        self.agent.care.share_index(self.person.care)
        return self.agent

    def close(self) -> None:
        """Let go of indexes and counters."""
        self.person.close()
        self.agent.close()


def open_callers(
    *,
    home: str | None = None,
    cwd: str | None = None,
    agent: str | None = None,
    audience: str | None = None,
    incognito: bool | None = None,
    readonly: bool = False,
    actor: str = "human:user",
    terminal: bool | None = None,
) -> Callers:
    """Both, before a session is chosen."""
    return _pair(
        connect(
            home=home,
            cwd=cwd,
            agent=agent,
            audience=audience,
            incognito=incognito,
            readonly=readonly,
            origin=Origin.USER,
            actor=actor,
            terminal=terminal,
        )
    )


def in_session(callers: Callers, session: str) -> Callers:
    """Both as they are in a session, whose own records are then in sight."""
    memory = callers.person
    if memory.caller.session == session:
        return callers
    callers.close()
    return _pair(_again(memory, session=session))


def _pair(person: Memory) -> Callers:
    agent = _again(person, agent=True)
    # One index for both: what one writes, the other finds.
    agent.workspace.listeners, agent.workspace.index_trouble = (
        person.workspace.listeners,
        person.workspace.index_trouble,
    )
    return Callers(person, agent)


def _again(memory: Memory, *, agent: bool = False, session: str = "") -> Memory:
    """The same memory as the agent sees it, or in a session."""
    caller = memory.caller.as_agent() if agent else replace(memory.caller, session=session)
    return Memory(
        memory.home,
        caller,
        memory.workspace.loaded,
        now=memory.workspace.now,
        readonly=memory.workspace.readonly,
    )


# ---------------------------------------------------------------- which session


def choose_session(
    memory: Memory, wanted: str | None, *, fresh: bool, model: str
) -> tuple[Log, AbstractContextManager[object]]:
    """The session to talk in, and the hold on it: no two chats write to one.

    Named, it is that one, or a new one of that name; `last` is the newest; without a name it is the one that
    `session.reset` says to go on with, unless another chat has it.
    """
    if memory.settings.incognito or memory.workspace.readonly:
        return _in_memory(memory, wanted, model), contextlib.nullcontext()
    if wanted == LAST:
        newest = newest_session(memory)
        if newest is None:
            raise NotFound("there is no session to go on with yet", hint="leave `--session last` away")
        return _held(memory, lambda: memory.sessions.open(newest.id))
    if wanted:
        return _held(memory, lambda: _named(memory, wanted, model))
    if not fresh:
        with contextlib.suppress(Locked):
            return _held(memory, lambda: memory.sessions.current(model=model))
    return _held(memory, lambda: memory.sessions.new(model=model))


def newest_session(memory: Memory) -> Session | None:
    """The session of this project and agent in which something was said last."""
    return next((each for each in memory.sessions.list() if not each.trouble), None)


def hold_session(memory: Memory, session: str) -> AbstractContextManager[object]:
    """Hold a session among all chats of a home; raises Locked when another one has it."""
    try:
        return memory.sessions.transcripts.hold(session)
    except Locked as error:
        raise Locked(
            f"{_OPEN}: {session}", hint="end that one, or begin another without `--session`"
        ) from error


def _held(memory: Memory, find: Callable[[], Log]) -> tuple[Log, AbstractContextManager[object]]:
    log = find()
    return log, hold_session(memory, log.session)


def _named(memory: Memory, name: str, model: str) -> Log:
    try:
        return memory.sessions.open(name)
    except NotFound:
        return memory.sessions.new(id=name, model=model)


def _in_memory(memory: Memory, wanted: str | None, model: str) -> Log:
    """A log that leaves nothing behind; where memory may be read, with all that an earlier one says."""
    if wanted and not memory.settings.incognito:
        newest = newest_session(memory) if wanted == LAST else None
        return memory.sessions.open(newest.id if newest else wanted).copy_in_memory()
    return replace(memory.sessions.transcripts, incognito=True).new(model=model)
