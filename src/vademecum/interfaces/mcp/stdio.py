"""Serving one client over standard input and output, and leaving when it leaves.

Only JSON-RPC goes to standard output: while serving, whatever else is printed goes to standard error.
"""

from __future__ import annotations

import math
import os
import select
import sys
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Self

PATIENCE = 1.2  # seconds for what was asked, once the client has nothing more to say
GRACE = 1.5  # and for everything, once it is gone
BACKLOG = 30.0  # and while what it wrote is not even read
_LOOK = 0.25  # seconds between two looks at the parent


def serve(options: Mapping[str, Any], *, tools: str) -> NoReturn:
    """Serve until the client closes its end; the process ends with it."""
    from vademecum.interfaces.mcp import server as serving

    made, connections = serving.make(options, tools=tools, own_session=True)
    serving.tidy(options)
    leave_with_the_client()

    async def run() -> None:
        async with stdio_server() as (read, write):
            answers = Answers(write)
            async with answering_first(read, answers) as asked:
                await made.run(asked, answers, made.create_initialization_options())

    anyio.run(run)
    connections.close()
    sys.stderr.flush()
    os._exit(0)  # at once: taking a large interpreter down politely takes longer than all of the above


class Answers:
    """What goes to the client, and which of its requests have no answer yet."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self.due: set[str | int] = set()

    async def send(self, item: SessionMessage) -> None:
        """Pass one message on."""
        await self._write.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self.due.discard(item.message.id)

    async def aclose(self) -> None:
        """Nothing more is sent."""
        await self._write.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@asynccontextmanager
async def answering_first(read: Any, answers: Answers) -> AsyncIterator[Any]:
    """The client's messages, ending only when its last requests are answered, or after a while.

    A client may write all it has to say and close, as `vade mcp < requests` does.
    """
    send, receive = anyio.create_memory_object_stream[Any](0)

    async def relay() -> None:
        async with send:
            async for item in read:
                if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
                    answers.due.add(item.message.id)
                await send.send(item)
            with anyio.move_on_after(PATIENCE):
                while answers.due:
                    await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        group.start_soon(relay)
        yield receive
        group.cancel_scope.cancel()


def leave_with_the_client() -> None:
    """End this process soon after the client closed its end or died, whatever is still running.

    The kernel's own signal at a parent's death is not used: it comes when the *thread* ends that started
    this process. What was being written is whole or was never begun, as after any kill.
    """
    wire = os.dup(sys.stdin.fileno())
    parent = os.getppid()

    def watch() -> None:
        last = math.inf
        while (now := time.monotonic()) < last:
            if os.getppid() != parent:
                last = min(last, now + GRACE)
            elif _closed(wire):
                last = min(last, now + (GRACE if _drained(wire) else BACKLOG))
            if last < math.inf:
                time.sleep(0.05)
        os._exit(0)

    threading.Thread(target=watch, name="leave", daemon=True).start()


def _closed(wire: int) -> bool:
    """Whether the other end is closed; waits a little to see."""
    if not hasattr(select, "poll"):  # Windows: the end of the input and the look at the parent are enough
        time.sleep(_LOOK)
        return False
    looking = select.poll()
    looking.register(wire, 0)
    gone = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return any(event & gone for _, event in looking.poll(_LOOK * 1000))


def _drained(wire: int) -> bool:
    """Whether all that was written is read."""
    try:
        import fcntl
        import struct
        import termios

        left = fcntl.ioctl(wire, termios.FIONREAD, b"\0\0\0\0")
        return not struct.unpack("i", left)[0]
    except (ImportError, OSError):
        return True
