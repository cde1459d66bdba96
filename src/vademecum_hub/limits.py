"""Limits for requests: how often, how many at once, how large and how slow they may be.

Each server process counts for itself: behind a load balancer every process has limits of its own.
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
from starlette.responses import JSONResponse

from vademecum.interfaces.connections import identify
from vademecum.sync.facts import LARGEST_LINE
from vademecum_hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST_BODY = LARGEST_LINE  # bytes, before and after decompression
RATE, BURST = 20.0, 100.0  # requests of a token, per second and at once
AT_ONCE, WAITING = 4, 32  # transactions of a workspace at a time, and its requests including the waiting ones
TOGETHER, CROWD = 20, 4  # transactions of all workspaces, and of the workspaces with more than one request
HELD_BACK = 1.0  # seconds before a 429 is sent
SEARCHES = 2  # of a workspace at once
PATIENCE = 5.0  # seconds to wait for a turn
SLOWEST = 30.0  # seconds from the first byte of a body to its last
_REMEMBERED = 10_000  # buckets


def busy(message: str, *, seconds: float) -> Rejection:
    """Return the rejection of a request that the client may send again after some seconds."""
    return Rejection(429, "busy", message, retry_after=max(1, round(seconds + 0.5)))


class TokenBuckets:
    """Rate limits by name: each name may send a burst of requests, which refills at a fixed rate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Count one request of this name; reject it if the rate is exceeded."""
        now = self._clock()
        left, since = self._left.get(name, (BURST, now))
        left = min(BURST, left + (now - since) * RATE)
        if left < 1:
            raise busy("this token asks too often", seconds=(1 - left) / RATE)
        if len(self._left) >= _REMEMBERED:  # the oldest buckets are full again
            for each in sorted(self._left, key=lambda each: self._left[each][1])[: _REMEMBERED // 2]:
                del self._left[each]
        self._left[name] = (left - 1, now)


class FairQueue:
    """A queue that serves workspaces in turn, so that no workspace blocks the others.

    Waiting requests stay in the event loop, without a thread and without a database connection.
    """

    def __init__(self, at_once: int, together: int = TOGETHER) -> None:
        self._at_once, self._together, self._free = at_once, together, together
        self._running: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # the one served last comes last

    def is_full(self, who: Hashable, most: float | None = None) -> bool:
        """Return whether a workspace has as many requests as it may have: `most`, or the usual number."""
        return self._running[who] + len(self._waiting.get(who, ())) >= (most or WAITING)

    @contextlib.asynccontextmanager
    async def take(self, who: Hashable, *, most: float | None = None) -> AsyncIterator[None]:
        """Wait for the workspace's turn; reject the request if it waits too long.

        Also reject it if the workspace has too many requests: `most`, or the usual number.
        """
        if self.is_full(who, most):
            await asyncio.sleep(HELD_BACK)
            raise workspace_busy()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._grant()
        try:
            await asyncio.wait_for(turn, PATIENCE)
            yield
        except TimeoutError:
            if turn.cancelled():
                raise workspace_busy() from None
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
        """Start waiting requests as long as workers are free."""
        while self._free and (who := self._choose_next()) is not None:
            queue = self._waiting.pop(who)
            turn = queue.popleft()
            if queue:
                self._waiting[who] = queue
            if not turn.done():
                self._running[who] += 1
                self._free -= 1
                turn.set_result(None)

    def _choose_next(self) -> Hashable | None:
        """Return the waiting workspace with the fewest running requests; None if none may run.

        Among equals this is the workspace that has not been served for the longest time.
        """
        able = [
            each for each, queue in self._waiting.items() if self._may_run(self._running[each], len(queue))
        ]
        return min(able, key=lambda each: self._running[each], default=None)

    def _may_run(self, running: int, waiting: int) -> bool:
        """Return whether a workspace may start another request.

        A single request starts at once. Workspaces with several requests share a part of the workers: more
        threads would serve nobody sooner, since they wait for the interpreter.
        """
        alone = not running and waiting == 1
        return alone or (running < self._at_once and self._together - self._free < CROWD)


def workspace_busy() -> Rejection:
    """Return the rejection of a request whose workspace has too many requests at once."""
    return busy("this workspace has too many requests at once", seconds=1)


class RateLimiter:
    """Middleware that answers 429 to a token over its rate, and to a workspace with too many requests.

    The answer is delayed, which slows down clients that send the request again at once.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        buckets: TokenBuckets,
        turns: FairQueue,
        known: Mapping[str, int],
        protocol: int,
    ) -> None:
        self._app, self._buckets, self._turns, self._known = app, buckets, turns, known
        self._headers = {"Vade-Protocol": str(protocol), "Cache-Control": "no-store"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or answer it with a rejection."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            name = token_name(header.decode("latin-1")) if header else ""
            if name in self._known:
                identify(scope, name)
            refused = self._check_request(name) if header else None
            if refused is not None:
                await asyncio.sleep(HELD_BACK)
                headers = {**self._headers, "Retry-After": str(refused.more["retry_after"])}
                await JSONResponse(refused.body(), refused.status, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_request(self, name: str) -> Rejection | None:
        try:
            self._buckets.take(name)
        except Rejection as refused:
            return refused
        ws = self._known.get(name)
        return workspace_busy() if ws is not None and self._turns.is_full(ws) else None


def token_name(header: str) -> str:
    """Return the hash under which a token's requests are counted, so that the token is not stored."""
    return hashlib.sha256(header.encode()).hexdigest()


async def read_body(request: Request) -> bytes:
    """Return the body of a request, decompressed; reject a body that is too large or too slow."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST_BODY:
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
    """Return a decompressed body; reject a body that is too large or damaged."""
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
