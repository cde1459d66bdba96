"""Limits that hold before anything is parsed: how often, how many at once, how large, how slow.

They are counted in this process: behind a balancer each server has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from typing import TYPE_CHECKING

from vademecum.interfaces.hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

LARGEST_BODY = 4 << 20  # bytes, before and after decompression
MOST_FACTS = 1_000
RATE, BURST = 20.0, 100.0  # requests of a token, per second and at once
AT_ONCE, WAITING = 4, 32  # transactions of a workspace, and who may wait for one
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
    """How much one workspace may do at once, so that it cannot keep others from being served."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._turns: dict[int, tuple[asyncio.Semaphore, int]] = {}

    @contextlib.asynccontextmanager
    async def take(self, ws: int) -> AsyncIterator[None]:
        """Wait for a turn of this workspace, but not for long and not with many others."""
        turn, count = self._turns.get(ws, (asyncio.Semaphore(self._at_once), 0))
        if count >= WAITING:
            raise busy("this workspace has too many requests at once", seconds=1)
        self._turns[ws] = (turn, count + 1)
        try:
            try:
                await asyncio.wait_for(turn.acquire(), PATIENCE)
            except TimeoutError:
                raise busy("this workspace has too many requests at once", seconds=1) from None
            try:
                yield
            finally:
                turn.release()
        finally:
            turn, count = self._turns[ws]
            if count <= 1:
                del self._turns[ws]
            else:
                self._turns[ws] = (turn, count - 1)


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
    return sent if encoding == "identity" else _unzip(sent)


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
