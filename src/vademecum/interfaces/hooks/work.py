"""What is done for a hook, by the child that may take its time.

Everything that comes in here is of origin `tool`: it may be read and kept as a transcript, and nothing of it
is ever put before an agent until a person has verified it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any

from vademecum.errors import InvalidKey
from vademecum.interfaces.hooks import registry
from vademecum.interfaces.hooks.base import ANSWERED, Event
from vademecum.interfaces.hooks.shown import Shown
from vademecum.memory import Memory, connect
from vademecum.store import hook_log, names, outgoing
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.inject.build import Block
    from vademecum.interfaces.hooks.base import Agent, Told
    from vademecum.interfaces.hooks.door import Job

REMINDER = 600  # tokens for what one prompt brings back
MISTAKEN = "answered, but config.toml has a mistake that vade status names"
_FORMATS = {"gemini": "gemini-cli"}  # agents whose transcripts go by another name


class HookFailed(Exception):
    """A hook that cannot be answered; `why` has no word of anybody's text in it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def run(job: Job, tell: Callable[[bytes], None]) -> None:
    """Do what a hook asks for, and tell the answer as soon as it is there."""
    agent = registry.named(job.agent)
    if agent is None:
        raise HookFailed("this agent is not known")
    if job.event not in tuple(agent.moments):
        raise HookFailed("this agent has no such event")
    event, told = Event(job.event), agent.read(_parsed(job.given), os.environ)
    memory = _opened(agent, told, job.home)
    tell(b"limit %f" % memory.settings.limits.hook)
    if memory.loaded.problems and event is Event.SESSION_START:  # once a session is enough
        hook_log.write(memory.home.path, agent=job.agent, event=job.event, why=MISTAKEN)
    if memory.settings.incognito:
        return
    if event in ANSWERED:
        if not os.path.isdir(memory.home.path):
            return  # nothing to tell, and no reason to make a memory
        memory = _hurried(memory)
        text = _start(memory, told) if event is Event.SESSION_START else _prompt(memory, agent, told)
        if text:
            answer = agent.render(event, outgoing.clean_text(text))
            tell(b"answer " + _encoded(answer).hex().encode())
        return
    if told.transcript:
        memory.import_transcript(
            told.transcript,
            agent=_FORMATS.get(agent.name, agent.name),
            checkpoint=event is Event.PRE_COMPACT,
        )
    if event is Event.SESSION_END:
        Shown(memory.home.path, told.session).forget()


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


def _opened(agent: Agent, told: Told, home: str | None) -> Memory:
    cwd = told.cwd if told.cwd and os.path.isdir(told.cwd) else None
    try:
        session = names.check_id(told.session, "a session") if told.session else None
    except InvalidKey:
        session = None
    return connect(home=home, cwd=cwd, session=session, origin=Origin.TOOL, actor=f"hook:{agent.name}")


def _hurried(memory: Memory) -> Memory:
    """The same memory, with no more patience for locks and a lagging index than a hook has."""
    limits = memory.settings.limits
    soon = dataclasses.replace(
        limits, lock=min(limits.lock, limits.hook / 4), open=min(limits.open, limits.hook / 4)
    )
    settings = dataclasses.replace(memory.settings, limits=soon)
    home = dataclasses.replace(memory.home, lock_seconds=soon.lock)
    return Memory(home, memory.caller, dataclasses.replace(memory.loaded, settings=settings))


def _start(memory: Memory, told: Told, *, query: str = "") -> str:
    """The block for a session that begins."""
    block = memory.inject(query=query, notices=True)
    shown = Shown(memory.home.path, told.session)
    shown.begin(_marks(block))
    return block.text


def _prompt(memory: Memory, agent: Agent, told: Told) -> str:
    """What answers a prompt and is not in the window yet."""
    shown = Shown(memory.home.path, told.session)
    if Event.SESSION_START not in agent.moments and not shown.begun:
        return _start(memory, told, query=told.prompt)
    block = memory.remind(told.prompt, budget=REMINDER, without=shown.marks)
    shown.add(_marks(block))
    return block.text


def _marks(block: Block) -> Iterator[str]:
    from vademecum.inject.remind import mark

    for section in block.sections:
        yield from map(mark, section.items)


def _encoded(text: str) -> bytes:
    """As bytes that hold no escape, whatever an agent's name for it is."""
    return text.replace("\x1b", "").encode(errors="replace")
