"""A crowd of strangers who hold connections to a server, in a process of its own.

`python tests/crowd.py PORT COUNT PATH`: each connection is of one of six kinds. It comes back after the
server has closed it.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys

STAYS = 3.0  # seconds until one of a large crowd counts as one who was here
RETURNS = 5.0  # seconds until a stranger comes back


def request(port: int, path: str, *more: str) -> bytes:
    """A request as a browser of this machine would send it."""
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *more, "", ""]).encode()


async def stay(kind: int, port: int, path: str) -> None:
    """Hold one connection until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        if kind == 1:  # half a head
            writer.write(request(port, path)[:-2])
        elif kind == 2:  # half a body
            writer.write(request(port, path, "Content-Length: 100000") + b"{")
        elif kind == 3:  # many requests, and no answer is read
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            with contextlib.suppress(TimeoutError):
                writer.write(request(port, path) * 500)
                await asyncio.wait_for(writer.drain(), 60)
            await asyncio.sleep(60)
        elif kind == 4:  # a byte now and then
            for byte in request(port, path):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.5)
        elif kind == 5:  # tokens that are guessed
            for number in range(100):
                writer.write(request(port, path, f"Authorization: Bearer guess-{number}"))
                await asyncio.wait_for(reader.read(1 << 16), 60)
                await asyncio.sleep(0.05)
        while await reader.read(1 << 16):  # kind 0 sends nothing at all
            pass
    finally:
        writer.close()


async def return_again(kind: int, port: int, path: str, first: asyncio.Event, stays: float) -> None:
    """Come again and again; `first` is set when the server has closed, or kept, the first connection."""
    while True:
        coming = asyncio.ensure_future(stay(kind, port, path))
        await asyncio.wait([coming], timeout=stays)
        first.set()
        with contextlib.suppress(OSError, TimeoutError):
            await coming
        await asyncio.sleep(RETURNS)


async def main(port: int, count: int, path: str) -> None:
    """Hold the connections until this process is killed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 200)), hard))
    print("coming", flush=True)
    seen = [asyncio.Event() for _ in range(count)]
    strangers = [
        asyncio.ensure_future(
            return_again(number % 6, port, path, first, STAYS if count > 1000 else STAYS / 10)
        )
        for number, first in enumerate(seen)
    ]
    for first in seen:
        await first.wait()
    print("were all here", flush=True)
    await asyncio.gather(*strangers)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
