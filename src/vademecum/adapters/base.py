"""Helpers of all adapters: the origin of what is written, opening a session, locking, and error messages.

This module knows no framework.
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
    """Return the memory itself, or, if the user opened it, a copy that writes with an agent's origin."""
    if memory.caller.origin is not Origin.USER:
        return memory
    own = Memory(memory.home, memory.caller.as_agent(), memory.workspace.loaded, now=memory.workspace.now)
    own.workspace.listeners = memory.workspace.listeners
    own.workspace.index_trouble = memory.workspace.index_trouble
    return own


def open_session(memory: Memory, session: str) -> Log:
    """Open the session with exactly this id, or create it; without an id, begin a new session."""
    if not session:
        return memory.sessions.new()
    for _ in range(2):
        with contextlib.suppress(NotFound):
            found = memory.sessions.open(session)
            if found.session == session:  # not a session whose id or name only begins with it
                return found
        with contextlib.suppress(Collision):  # another process began it at this moment
            return memory.sessions.new(id=session)
    raise NotFound(f"the session {session} exists, but is not visible from here")


@contextlib.contextmanager
def locked(memory: Memory, what: str, *, doing: str) -> Iterator[None]:
    """Hold the lock named `what` among all processes of a home; a disk error names the action `doing`."""
    with memory.workspace.reported(doing), memory.home.lock(what):
        yield


def describe_error(error: VadeError) -> str:
    """Return the text of an error and its hint, without hints for a person at a terminal."""
    hint = "" if "vade" in error.hint or "--" in error.hint else error.hint
    parts = (clean_text(str(error)).rstrip("."), hint)
    return " ".join(f"{words[:1].upper()}{words[1:]}." for words in parts if words)
