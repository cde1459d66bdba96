"""Serve MCP over HTTP on this machine only, to clients with the token.

A web page in a browser of this machine can reach a local port, even under a host name of its own. So the
checks come in this order: size and speed of the request, then its Host, then its Origin, then everything
else.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import signal
import socket
import sys
import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from vademecum.errors import Collision, Malformed
from vademecum.interfaces import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from starlette.types import ASGIApp, Receive, Scope, Send

    from vademecum.memory.values import Home

HOST, PORT, PATH = "127.0.0.1", 8377, "/mcp"
TOKEN = "mcp-token"
GRACE = 1.5  # seconds for running requests, once the server has to stop
_POLL_SECONDS = 0.25  # seconds between two checks whether the parent process is alive
_CLEANUP_SECONDS = 10.0  # seconds for a start to finish first, and for closing and removing things afterwards
_SHORTEST = 16  # characters; a shorter token can be guessed
_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Headers of refusals. After some refusals the end of the request is unknown, so the connection is closed.
HEADERS: Mapping[int, Mapping[str, str]] = MappingProxyType(
    {401: {"WWW-Authenticate": 'Bearer realm="vade"'}, 400: {"Connection": "close"}}
)


def token_of(home: Home) -> str:
    """Return the token of this home; the first call creates it in a file that only its owner can read."""
    with home.disk(create=True) as folder:
        state = folder.stat(TOKEN)
        if state is None:
            new_token = secrets.token_urlsafe(32)
            with contextlib.suppress(FileExistsError):  # another server created it at this moment
                folder.create(TOKEN, new_token.encode() + b"\n", mode=0o600)
            state = folder.stat(TOKEN)
        content = folder.read(TOKEN) or b""
    where = home.path / TOKEN
    if sys.platform != "win32" and state is not None and state.st_mode & 0o077:
        raise Malformed(f"{where} can be read by others", hint=f"run `chmod 600 {where}`, or delete it")
    token = content.decode("ascii", "replace").strip()
    if len(token) < _SHORTEST or not token.isprintable() or " " in token:
        raise Malformed(
            f"{where} has no token of at least {_SHORTEST} characters",
            hint="delete it; a new one will be created",
        )
    return token


def listen(port: int) -> socket.socket:
    """Return a listening socket that only this machine can reach; port 0 means any free port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, port))
        sock.listen(128)  # from now on a client can connect, and waits until it is served
    except OSError as error:
        sock.close()
        raise Collision(
            f"port {port} cannot be used: {error.strerror}", hint="choose another with `--port`, 0 for any"
        ) from error
    return sock


def serve(
    application: ASGIApp, listener: socket.socket, *, token: str | None, ready: Callable[[str], None]
) -> None:
    """Serve an application until the server is stopped; clients need the token.

    With `token` None, all clients are let in, so the content must hold nobody's data.
    """
    port = listener.getsockname()[1]
    run_server(
        RequestGuard(application, port=port, token=token),
        listener,
        ready=lambda: ready(f"http://{HOST}:{port}{PATH}"),
    )


def run_server(guarded: ASGIApp, listener: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve an application, with the limits that all local servers have.

    A signal stops the server. The end of the parent process stops it too, unless the server was started to
    outlive its parent. The application checks its own requests.
    """
    server = _Server(
        uvicorn.Config(
            guarded,
            lifespan="on",
            timeout_graceful_shutdown=1,
            **connections.server_options(connections.LOCAL),
        )
    )
    if not _outlives_parent():
        threading.Thread(target=server.follow, args=(os.getppid(),), name="leave", daemon=True).start()
    try:
        with server.capture_signals():  # a client that was told the server is ready can also stop it
            ready()
            anyio.run(server.serve, [listener])
    finally:
        server.ended.set()


def _outlives_parent() -> bool:
    """Return whether this process shall outlive its parent, as under `nohup` or a service manager."""
    if not hasattr(signal, "SIGHUP"):
        return True  # a process of Windows keeps its parent's number after the parent has ended
    return os.getppid() <= 1 or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


class _Server(connections.Server):
    """A uvicorn server that ends in an orderly way on a signal, within a time limit."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = threading.Event()

    def follow(self, parent: int) -> None:
        """Stop soon after the parent process has ended.

        The kernel's signal for this is not used, because it comes when a *thread* of the parent ends.
        """
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        self.should_exit = True
        self._leave()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop because of a signal, within the time limit, whatever is still running."""
        super().handle_exit(sig, frame)
        threading.Thread(target=self._leave, name="leave", daemon=True).start()

    def _leave(self) -> None:
        """End the process when the time limit has passed; any write is then complete or was never begun."""
        late = time.monotonic() + _CLEANUP_SECONDS
        while not (self.started or self.ended.is_set()) and time.monotonic() < late:
            time.sleep(_POLL_SECONDS / 10)  # the stop arrived during the start
        if self.ended.wait(GRACE):
            time.sleep(_CLEANUP_SECONDS)  # the caller still closes open files and removes temporary ones
        os._exit(0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that stop the server, for as long as the context lasts."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


class RequestGuard:
    """Middleware that passes on requests for this server from an authorised client, and refuses others."""

    def __init__(self, application: ASGIApp, *, port: int, token: str | None) -> None:
        self._application = application
        self._hosts = {f"{name}:{port}" for name in _NAMES} | (set(_NAMES) if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._token = token.encode() if token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or answer it with a refusal."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self.refusal(Headers(scope=scope))
        if refused is None:
            if self._token is not None:
                connections.identify(scope, "mcp")
            await self._application(scope, receive, send)
            return
        await self.refuse(*refused)(scope, receive, send)

    def refuse(self, status: int, why: str) -> ASGIApp:
        """Return the response for a refused request."""
        headers = HEADERS.get(status)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": why}}
        return JSONResponse(error, status, headers)

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return a status and a message if a request must be refused, else None."""
        too_large = _too_large(headers)
        if too_large is not None:
            return too_large
        if "content-length" in headers and "transfer-encoding" in headers:
            return 400, "a request says its length once"  # a proxy might see a different request in it
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "this server only answers to its own address on this machine"
        if any(origin.lower() not in self._origins for origin in origins):
            return 403, "requests from other sites are not allowed"
        if self._token is not None and not self._holds_token(headers.getlist("authorization")):
            return 401, "the token is missing or wrong; it is in the file mcp-token of the memory folder"
        return None

    def _holds_token(self, given: list[str]) -> bool:
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        matches = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token or b"")
        return matches and kind.lower() == "bearer" and bool(self._token)


def _too_large(headers: Headers) -> tuple[int, str] | None:
    """Return a status and a message if a request is too large, else None."""
    if sum(len(name) + len(value) for name, value in headers.raw) > connections.LARGEST_HEAD:
        return 431, "the headers are too large"
    size = headers.get("content-length", "0")
    if not size.isdecimal() or len(size) > 20 or int(size) > connections.LOCAL.body:
        return 413, f"a request may have {connections.LOCAL.body:,} bytes"
    return None


def application(server: Any) -> ASGIApp:
    """Return the SDK's streamable HTTP application for a server.

    Its own check of hosts is off, because `RequestGuard` has checked the client already.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return app


def run(options: Mapping[str, Any], *, tools: str, port: int, ready: Callable[[str, str], None]) -> None:
    """Serve memory over HTTP until stopped; call `ready` with address and path of the token's file."""
    from vademecum.interfaces.mcp import sdk
    from vademecum.interfaces.mcp.server import open_memory, sweep_in_background

    memory = open_memory(options)
    home = memory.home
    with memory.workspace.reported("make the token"):
        token = token_of(home)
    listener = listen(port)
    server, mcp_connections = sdk.make(options, tools=tools, own_session=False)
    sweep_in_background(options)
    where = str(home.path / TOKEN)
    try:
        serve(application(server), listener, token=token, ready=lambda address: ready(address, where))
    finally:
        mcp_connections.close()
