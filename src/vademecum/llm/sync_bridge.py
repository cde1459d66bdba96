"""Let asynchronous work run for a synchronous caller, for so many seconds at most.

The work has a thread and an event loop of its own, so it may be asked for from anywhere: from a plain script,
from a thread, from inside somebody else's event loop. Knows nothing of models.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

T = TypeVar("T")

# What closing connections may take after the time is up; then the thread is left alone.
GRACE = 2.0


def run_async(
    work: Callable[[Callable[[str], None]], Awaitable[T]], *, seconds: float
) -> Generator[str, None, T]:
    """Give the pieces that the work emits, and return its result; raises TimeoutError when time is up.

    Closing the generator cancels the work.
    """
    job = _Job(work, seconds)
    thread = threading.Thread(target=job.run, daemon=True, name="vademecum-llm")
    end = time.monotonic() + seconds + GRACE
    thread.start()
    try:
        while isinstance(said := _next(job.inbox, end), str):
            yield said
        return said.value()
    finally:
        job.cancel()
        # Sockets are closed before the caller goes on; a name that is still looked up may take longer.
        thread.join(GRACE)


def finish(pieces: Generator[str, None, T]) -> T:
    """Run to the end and give the result alone."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            value: T = done.value
            return value


def _next(inbox: queue.SimpleQueue[str | _Outcome[T]], end: float) -> str | _Outcome[T]:
    try:
        return inbox.get(timeout=max(end - time.monotonic(), 0.01))
    except queue.Empty:
        raise TimeoutError from None


class _Outcome(Generic[T]):
    """How the work ended."""

    def __init__(self, result: T | None = None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # there is one when there is no error


class _Job(Generic[T]):
    """The work in its thread."""

    def __init__(self, work: Callable[[Callable[[str], None]], Awaitable[T]], seconds: float) -> None:
        self.inbox: queue.SimpleQueue[str | _Outcome[T]] = queue.SimpleQueue()
        self._work = work
        self._seconds = seconds
        self._lock = threading.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._over = False

    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        with self._lock:
            if self._over:
                return
            self._task = asyncio.current_task()
        # What a library leaves half closed is tidied up with the loop, and is nobody's news.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        try:
            async with asyncio.timeout(self._seconds):
                outcome = _Outcome(result=await self._work(self.inbox.put))
        except asyncio.CancelledError:
            outcome = _Outcome(error=TimeoutError())
        except BaseException as error:  # whatever it is, it belongs to the caller, not to this thread
            outcome = _Outcome(error=error)
        with self._lock:
            self._over = True
        # From inside the loop: closing it waits for names that are still looked up, the caller does not.
        self.inbox.put(outcome)

    def cancel(self) -> None:
        """Stop the work, unless it is over."""
        with self._lock:
            if not self._over and self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            self._over = True
