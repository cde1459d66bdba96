"""Pool of open memories: each serves one call at a time, and the last used memory is reused first.

A call that has begun is never abandoned: its thread finishes, even if nobody waits for the result.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from vademecum.store import request_view

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from vademecum.memory import Memory

    Opener = Callable[["MemoryOwner"], Memory]

Result = TypeVar("Result")
THREADS = 2  # simultaneous calls: each has its own index in memory, and one interpreter runs them all
_IDLE = 2  # unused memories that stay open


class MemoryOwner(NamedTuple):
    """The owner of an open memory: a person or a token's agent, and the project."""

    person: bool
    project: str | None = None  # a known project's id; None means the served project
    token: str = ""


class MemoryPool:
    """The open memories, by owner."""

    def __init__(self, opener: Opener, stamp: Callable[[], Hashable] = lambda: None) -> None:
        self._open, self._stamp = opener, stamp  # the stamp changes when memory must be opened again
        self._lock = threading.Lock()
        self._idle: list[tuple[MemoryOwner, Hashable, Memory]] = []
        self._turn: anyio.CapacityLimiter | None = None

    async def run(self, whose: MemoryOwner, do: Callable[[Memory], Result]) -> Result:
        """Run a function with the owner's memory in a thread, when a thread is free."""
        self._turn = self._turn or anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(lambda: self.call(whose, do), limiter=self._turn)

    def call(self, whose: MemoryOwner, do: Callable[[Memory], Result]) -> Result:
        """Run a function with the owner's memory in this thread."""
        with self._borrow(whose) as memory, request_view():
            return do(memory)

    @contextlib.contextmanager
    def _borrow(self, whose: MemoryOwner) -> Iterator[Memory]:
        stamp = self._stamp()
        memory = self._take_idle(whose, stamp)
        if memory is None:
            memory = self._open(whose)
            memory.reading.follow()
        try:
            yield memory
        finally:
            with self._lock:
                self._idle.append((whose, stamp, memory))
                over = [self._idle.pop(0) for _ in range(len(self._idle) - _IDLE)]
            for *_, each in over:
                each.close()

    def _take_idle(self, whose: MemoryOwner, stamp: Hashable) -> Memory | None:
        with self._lock:
            for at in reversed(range(len(self._idle))):
                if self._idle[at][:2] == (whose, stamp):
                    return self._idle.pop(at)[2]
        return None

    def close(self) -> None:
        """Close all memories that no call is using."""
        with self._lock:
            idle, self._idle = self._idle, []
        for *_, each in idle:
            each.close()
