"""The limits of connections, with a server whose limits are small, and what a single token can take."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from http_door.in_process import made
from http_door.serving import HANG, served
from vademecum.interfaces import connections
from vademecum.interfaces.connections import STREAMS, ConnectionLimits, identify
from vademecum.interfaces.http.api import schema
from vademecum.memory import connect, tokens
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = ConnectionLimits(sending=0.3, reading=0.3, strangers=3, callers=3)
MUCH = 64 << 20  # bytes, more than all buffers between two programs of a machine


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer `/much` with many bytes, and everything else once `/go` was asked for."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            identify(scope, value.decode())
    if scope["path"] == "/wait":
        await asyncio.sleep(HANG)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(MUCH >> 16 if scope["path"] == "/much" else 1):
        await send({"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@contextlib.contextmanager
def small_server() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, lifespan="off", **connections.server_options(LIMITS))
    server = connections.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()


def opened(port: int, path: str = "", token: str = "") -> socket.socket:
    """A connection, with a request if there is a path."""
    client = socket.create_connection(("127.0.0.1", port), timeout=HANG)
    if path:
        shown = f"Authorization: {token}\r\n" if token else ""
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{shown}\r\n".encode())
    return client


def is_closed(client: socket.socket) -> bool:
    """Whether the server closes the connection in the end."""
    with contextlib.suppress(ConnectionError):
        while client.recv(1 << 20):
            pass
    return True


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"]
)
def test_who_does_not_finish_a_request_is_disconnected(sent: bytes) -> None:
    with small_server() as port, opened(port) as client:
        client.sendall(sent)
        assert is_closed(client)


def test_who_does_not_read_an_answer_is_disconnected() -> None:
    with small_server() as port, opened(port, "/much") as client:
        client.settimeout(HANG)
        with pytest.raises(ConnectionError):  # noqa: PT012 - the connection ends at any of these
            while True:
                client.sendall(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")


def test_strangers_of_an_address_share_their_places_and_who_shows_a_token_keeps_theirs() -> None:
    with small_server() as port, contextlib.ExitStack() as stack:
        known = [stack.enter_context(opened(port, "/wait", "ada")) for _ in range(3)]
        waiting = [stack.enter_context(opened(port, "/wait")) for _ in range(8)]
        silent = [stack.enter_context(opened(port)) for _ in range(8)]
        assert all(map(is_closed, silent))
        with opened(port, "/", "grace") as client:
            assert client.recv(12) == b"HTTP/1.1 200"
        assert sum(map(is_open, waiting)) <= LIMITS.strangers
        assert all(map(is_open, known))


def test_a_token_takes_places_of_its_own_alone() -> None:
    with small_server() as port, contextlib.ExitStack() as stack:
        first = stack.enter_context(opened(port, "/wait", "ada"))
        grace = stack.enter_context(opened(port, "/wait", "grace"))
        others = [stack.enter_context(opened(port, "/wait", "ada")) for _ in range(LIMITS.callers)]
        assert is_closed(first)
        assert all(map(is_open, [*others[1:], grace]))


def is_open(client: socket.socket) -> bool:
    """Whether a connection without an answer is open at this moment."""
    client.setblocking(False)
    try:
        return bool(client.recv(1))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        client.settimeout(HANG)


# ---------------------------------------------------------------- what this means for `vade serve`


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
def test_one_token_has_so_many_streams_and_keeps_nobody_out(tmp_path: Path) -> None:
    with served(tmp_path / "atlas") as server, contextlib.ExitStack() as stack:
        with connect(home=server.home, cwd=server.folder, origin=Origin.USER, actor="human:ada") as memory:
            shown = [tokens.add(memory, name, scopes=["read"], expires="1h")[1] for name in ("one", "two")]
        host = f"Host: 127.0.0.1:{server.port}"
        for number in range(STREAMS + 4):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=HANG))
            asked = ["GET /api/v1/events HTTP/1.1", host, f"Authorization: Bearer {shown[0]}", "", ""]
            client.sendall("\r\n".join(asked).encode())
            assert client.recv(12) == (b"HTTP/1.1 200" if number < STREAMS else b"HTTP/1.1 429")
        assert server.ask("/api/v1/records", Authorization=f"Bearer {shown[1]}").status == 200


def test_the_apis_description_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vademecum.interfaces.http import app

    app._render_api_description.cache_clear()
    described: list[int] = []
    make = schema.describe_api
    monkeypatch.setattr(schema, "describe_api", lambda: described.append(1) or make())  # type: ignore[func-returns-value]
    client = made(tmp_path).client("read")
    assert len({client("GET", "/openapi.json").content for _ in range(3)}) == 1
    assert len(described) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of open files")
def test_the_limit_of_open_files_is_raised_for_all_connections_of_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import resource

    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    connections.ConnectionTable(ConnectionLimits(total=2048))
    [(soft, hard)] = raised
    assert soft > 2048
    assert hard == 1 << 20
