"""Limits that hold before anything is parsed: how often, how many at once, how large, how slow.

They are counted in this process: behind a balancer each server has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
import zlib
from collections import Counter, deque
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from vademecum.interfaces.hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST_BODY = 4 << 20  # bytes, before and after decompression
MOST_FACTS = 1_000
RATE, BURST = 20.0, 100.0  # requests of a token, per second and at once
AT_ONCE, WAITING = 4, 32  # transactions of a workspace, and its requests with those that wait
TOGETHER, CROWD = 20, 4  # transactions of all, and of all workspaces that have more to do than one
HELD_BACK = 1.0  # seconds until somebody hears that they ask too often
SEARCHES = 2  # of a workspace at once
PATIENCE = 5.0  # seconds to wait for a turn
SLOWEST = 30.0  # seconds from the first byte of a body to its last
_REMEMBERED = 10_000  # buckets


def busy(message: str, *, seconds: float) -> Rejection:
    """Too much at once; the same request may be sent again."""
    return Rejection(429, "busy", message, retry_after=max(1, round(seconds + 0.5)))


class Buckets:
    """How often each token may ask: so many at once, so many in each second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Count one request, or refuse it."""
        now = self._clock()
        left, since = self._left.get(name, (BURST, now))
        left = min(BURST, left + (now - since) * RATE)
        if left < 1:
            raise busy("this token asks too often", seconds=(1 - left) / RATE)
        if len(self._left) >= _REMEMBERED:  # whoever asked longest ago has a full bucket again
            for each in sorted(self._left, key=lambda each: self._left[each][1])[: _REMEMBERED // 2]:
                del self._left[each]
        self._left[name] = (left - 1, now)


class Turns:
    """Who may work next: workspaces one after the other, so that none can keep the others from being served.

    Waiting is done here, in the event loop: who waits has no thread and no connection.
    """

    def __init__(self, at_once: int, together: int = TOGETHER) -> None:
        self._at_once, self._together, self._free = at_once, together, together
        self._running: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # who was served last stands last

    def is_full(self, who: Hashable, most: float | None = None) -> bool:
        """Whether so many requests of a workspace are there that no more may wait."""
        return self._running[who] + len(self._waiting.get(who, ())) >= (most or WAITING)

    @contextlib.asynccontextmanager
    async def take(self, who: Hashable, *, most: float | None = None) -> AsyncIterator[None]:
        """Wait for a turn of this workspace, but not for long and not with many others."""
        if self.is_full(who, most):
            await asyncio.sleep(HELD_BACK)
            raise crowded()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._grant()
        try:
            await asyncio.wait_for(turn, PATIENCE)
            yield
        except TimeoutError:
            if turn.cancelled():
                raise crowded() from None
            raise
        finally:
            if turn.done() and not turn.cancelled():
                self._release(who)
            else:
                turn.cancel()

    def _release(self, who: Hashable) -> None:
        self._free += 1
        self._running[who] -= 1
        if not self._running[who]:
            del self._running[who]
        self._grant()

    def _grant(self) -> None:
        """Give out what is free."""
        while self._free and (who := self._next()) is not None:
            queue = self._waiting.pop(who)
            turn = queue.popleft()
            if queue:
                self._waiting[who] = queue
            if not turn.done():
                self._running[who] += 1
                self._free -= 1
                turn.set_result(None)

    def _next(self) -> Hashable | None:
        """Whoever has the least running, and of those who was not served for longest."""
        able = [
            each for each, queue in self._waiting.items() if self._may_run(self._running[each], len(queue))
        ]
        return min(able, key=lambda each: self._running[each], default=None)

    def _may_run(self, running: int, waiting: int) -> bool:
        """Who asks for one thing is served at once; those who ask for much share a part of the workers.

        A thread that works keeps others from the interpreter, so that more of them serve nobody sooner.
        """
        alone = not running and waiting == 1
        return alone or (running < self._at_once and self._together - self._free < CROWD)


def crowded() -> Rejection:
    """Too many requests of one workspace at once."""
    return busy("this workspace has too many requests at once", seconds=1)


class Doorman:
    """Turns away who asks too often, or whose workspace is full, before anything else is done for them.

    The answer is held back for a moment: who does not heed it is slowed down by it all the same.
    """

    def __init__(
        self, app: ASGIApp, *, buckets: Buckets, turns: Turns, known: Mapping[str, int], protocol: int
    ) -> None:
        self._app, self._buckets, self._turns, self._known = app, buckets, turns, known
        self._headers = {"Vade-Protocol": str(protocol), "Cache-Control": "no-store"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or not."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            refused = self._judge(token_name(header.decode("latin-1"))) if header else None
            if refused is not None:
                from starlette.responses import JSONResponse

                await asyncio.sleep(HELD_BACK)
                told = {**self._headers, "Retry-After": str(refused.more["retry_after"])}
                await JSONResponse(refused.body(), refused.status, told)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _judge(self, name: str) -> Rejection | None:
        try:
            self._buckets.take(name)
        except Rejection as refused:
            return refused
        ws = self._known.get(name)
        return crowded() if ws is not None and self._turns.is_full(ws) else None


def token_name(header: str) -> str:
    """What a token is counted as; the token itself is nowhere kept."""
    return hashlib.sha256(header.encode()).hexdigest()


async def read_body(request: Request) -> bytes:
    """The body of a request, of which no more is read than a body may have."""
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or int(said) > LARGEST_BODY:
        raise _too_large()
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise Rejection(415, "encoding", "a body is plain or gzip")
    try:
        sent = await asyncio.wait_for(_read_all(request), SLOWEST)
    except TimeoutError:
        raise Rejection(408, "slow", "the body took too long") from None
    return sent if encoding == "identity" else await run_in_threadpool(_unzip, sent)


async def _read_all(request: Request) -> bytes:
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > LARGEST_BODY:
            raise _too_large()
    return bytes(read)


def _unzip(sent: bytes) -> bytes:
    """What was compressed, unless it is more than a body may have."""
    unzipped = zlib.decompressobj(31)
    try:
        whole = unzipped.decompress(sent, LARGEST_BODY + 1)
    except zlib.error as error:
        raise Rejection(400, "encoding", "the body is not what its encoding says") from error
    if len(whole) > LARGEST_BODY or unzipped.unconsumed_tail:
        raise _too_large()
    if not unzipped.eof:
        raise Rejection(400, "encoding", "the body ends before its compression does")
    return whole


def _too_large() -> Rejection:
    return Rejection(413, "large", f"a request has at most {LARGEST_BODY >> 20} MiB: send it in parts")
