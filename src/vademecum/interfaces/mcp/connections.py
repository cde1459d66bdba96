"""Who is served: one memory per connection, and one call at a time on it, in a thread of its own.

The core is synchronous. A call that began is never abandoned: when the client goes away, the thread ends
what it does, and what still waited for its turn never began.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.memory import Memory

MOST = 64  # connections whose memory is kept open; the one not used for longest is closed first
Made = TypeVar("Made")


class Connection:
    """One connection, and its memory."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._turn = anyio.CapacityLimiter(1)
        self._memory: Memory | None = None
        self.waiting = 0

    async def run(self, do: Callable[[Memory], Made]) -> Made:
        """Make one call on memory, after those before it."""
        self.waiting += 1
        try:
            return await anyio.to_thread.run_sync(lambda: do(self._opened()), limiter=self._turn)
        finally:
            self.waiting -= 1

    def _opened(self) -> Memory:
        if self._memory is None:
            self._memory = open_memory(self._options)
        return self._memory

    def close(self) -> None:
        """Let go of the index; the next call opens it again."""
        if self._memory is not None:
            self._memory.close()


class Connections:
    """The connections that are served."""

    def __init__(self, options: Mapping[str, Any], *, own_session: bool) -> None:
        self._options = dict(options)
        self._open: OrderedDict[str, Connection] = OrderedDict()
        # Over stdio the process is the connection, and all of it is one session.
        if own_session and not self._options.get("session"):
            self._options["session"] = session_of(uuid.uuid4().hex)

    def of(self, id: str = "") -> Connection:
        """The connection with the id that the transport gave it, if it gave one."""
        if id not in self._open:
            options = dict(self._options)
            if id and not options.get("session"):
                options["session"] = session_of(id)
            self._open[id] = Connection(options)
            self._close_some()
        self._open.move_to_end(id)
        return self._open[id]

    def close(self) -> None:
        """Let go of everything."""
        for each in self._open.values():
            each.close()

    def _close_some(self) -> None:
        idle = [name for name, each in self._open.items() if not each.waiting]
        for name in idle[: max(0, len(self._open) - MOST)]:
            self._open.pop(name).close()


def session_of(connection: str) -> str:
    """The session that a connection is, named after it."""
    return f"mcp-{connection.replace('-', '')[:16]}"


def open_memory(options: Mapping[str, Any]) -> Memory:
    """Open memory for an agent: whatever comes through this door is the agent's word."""
    return connect(**options, origin=Origin.AGENT)
