"""Memories that are open: each is used by one call at a time, and the one used last is used again first.

A call that began is never abandoned: its thread ends what it does, whoever still waits for it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from vademecum.memory import Memory

    Opener = Callable[["Whose"], Memory]

Made = TypeVar("Made")
THREADS = 2  # calls at once: each has an index of its own in memory, and one interpreter runs them all
_IDLE = 2  # memories that stay open while nobody uses them


class Whose(NamedTuple):
    """Whose memory: a person's or an agent's, for which project, and through which token."""

    person: bool
    project: str | None = None  # a known project's id; None is the one that was served
    token: str = ""


class MemoryPool:
    """Open memories, by whose they are."""

    def __init__(self, opener: Opener, stamp: Callable[[], Hashable] = lambda: None) -> None:
        self._open, self._stamp = opener, stamp  # the stamp changes when memory has to be opened anew
        self._lock = threading.Lock()
        self._idle: list[tuple[Whose, Hashable, Memory]] = []
        self._turn: anyio.CapacityLimiter | None = None

    async def run(self, whose: Whose, do: Callable[[Memory], Made]) -> Made:
        """Make a call in a thread, after those before it."""
        self._turn = self._turn or anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(lambda: self.call(whose, do), limiter=self._turn)

    def call(self, whose: Whose, do: Callable[[Memory], Made]) -> Made:
        """Make a call now."""
        with self._taken(whose) as memory:
            return do(memory)

    @contextlib.contextmanager
    def _taken(self, whose: Whose) -> Iterator[Memory]:
        stamp = self._stamp()
        memory = self._take(whose, stamp) or self._open(whose)
        try:
            yield memory
        finally:
            with self._lock:
                self._idle.append((whose, stamp, memory))
                over = [self._idle.pop(0) for _ in range(len(self._idle) - _IDLE)]
            for *_, each in over:
                each.close()

    def _take(self, whose: Whose, stamp: Hashable) -> Memory | None:
        with self._lock:
            for at in reversed(range(len(self._idle))):
                if self._idle[at][:2] == (whose, stamp):
                    return self._idle.pop(at)[2]
        return None

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            idle, self._idle = self._idle, []
        for *_, each in idle:
            each.close()
