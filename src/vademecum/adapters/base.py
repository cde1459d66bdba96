"""What all adapters share: whose word comes through them, which session is meant, how a refusal is told.

Knows no framework.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from vademecum import Collision, Memory, NotFound, Origin
from vademecum.interfaces.present.safe import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum import Log, VadeError


def as_agent(memory: Memory) -> Memory:
    """The same memory, in which what is written is an agent's word, whoever opened it."""
    if memory.caller.origin is not Origin.USER:
        return memory
    own = Memory(memory.home, memory.caller.as_agent(), memory.workspace.loaded, now=memory.workspace.now)
    own.workspace.listeners = memory.workspace.listeners
    own.workspace.index_trouble = memory.workspace.index_trouble
    return own


def opened(memory: Memory, session: str) -> Log:
    """The session with exactly this id, begun when there is none; without an id, a new one."""
    if not session:
        return memory.sessions.new()
    for _ in range(2):
        with contextlib.suppress(NotFound):
            found = memory.sessions.open(session)
            if found.session == session:  # and not one whose id or name merely begins so
                return found
        with contextlib.suppress(Collision):  # another process began it in this moment
            return memory.sessions.new(id=session)
    raise NotFound(f"the session {session} exists, but is not visible from here")


@contextlib.contextmanager
def alone(memory: Memory, what: str, *, doing: str) -> Iterator[None]:
    """Hold a thing among all processes of a home; a disk that refuses is told as what was being done."""
    with memory.workspace.reported(doing), memory.home.lock(what):
        yield


def told(error: VadeError) -> str:
    """A refusal and what to try; hints for a person at a terminal are left out."""
    hint = "" if "vade" in error.hint or "--" in error.hint else error.hint
    parts = (clean_text(str(error)).rstrip("."), hint)
    return " ".join(f"{words[:1].upper()}{words[1:]}." for words in parts if words)
