"""Serving over HTTP on this machine alone, to whoever holds the token.

A web page in a browser of this machine can reach a local port, under a name of its own choice even. So the
first look is at how much was sent and how slowly, the next at the Host, then at the Origin, and only then at
anything else.
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
import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from vademecum.errors import Collision, Malformed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from starlette.types import ASGIApp, Receive, Scope, Send

    from vademecum.memory.values import Home

HOST, PORT, PATH = "127.0.0.1", 8377, "/mcp"
TOKEN = "mcp-token"
GRACE = 1.5  # seconds for what is being done, once the server is to leave
_LOOK = 0.25  # seconds between two looks at the parent
_TIDYING = 10.0  # seconds for a start that has to end first, and for what is to be closed and removed then
_SHORTEST = 16  # characters; a shorter one can be guessed
CONNECTIONS = 128  # at once; beyond, who has waited longest without having asked anything has to go
LARGEST_HEAD, LARGEST_BODY = 16 << 10, 4 << 20  # bytes of a request
PATIENCE = 8.0  # seconds from a connection, or the first byte of a request, to its last
_NAMES = ("127.0.0.1", "localhost", "[::1]")
# What a refusal says besides; where a request ends is not known for sure after some, so nothing may follow.
HEADERS: Mapping[int, Mapping[str, str]] = MappingProxyType(
    {401: {"WWW-Authenticate": 'Bearer realm="vade"'}, 400: {"Connection": "close"}}
)


def token_of(home: Home) -> str:
    """The token of this home, made when it is first asked for; its file is its owner's alone."""
    with home.disk(create=True) as folder:
        state = folder.stat(TOKEN)
        if state is None:
            made = secrets.token_urlsafe(32)
            with contextlib.suppress(FileExistsError):  # another server made it in this moment
                folder.create(TOKEN, made.encode() + b"\n", mode=0o600)
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
    """A port of this machine that only this machine can reach; 0 is any that is free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(128)  # from now on a client can connect, and waits until it is served
    except OSError as error:
        made.close()
        raise Collision(
            f"port {port} cannot be used: {error.strerror}", hint="choose another with `--port`, 0 for any"
        ) from error
    return made


def serve(
    application: ASGIApp, taken: socket.socket, *, token: str | None, ready: Callable[[str], None]
) -> None:
    """Serve until told to stop; without a token only what holds nothing of anybody may be served."""
    port = taken.getsockname()[1]
    run_guarded(
        Guard(application, port=port, token=token),
        taken,
        ready=lambda: ready(f"http://{HOST}:{port}{PATH}"),
    )


def run_guarded(guarded: ASGIApp, taken: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve what guards itself, with the limits of every server of ours, until told to stop."""
    made = _Server(
        uvicorn.Config(
            guarded,
            http=_Limited,
            ws="none",
            h11_max_incomplete_event_size=LARGEST_HEAD,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )
    if not _stays_behind():
        threading.Thread(target=made.follow, args=(os.getppid(),), name="leave", daemon=True).start()
    try:
        with made.capture_signals():  # whoever is told that it is ready can stop it
            ready()
            anyio.run(made.serve, [taken])
    finally:
        made.ended.set()


def _stays_behind() -> bool:
    """Whether this process was started to outlive its parent: by `nohup`, or by the system itself."""
    if not hasattr(signal, "SIGHUP"):
        return True  # a process of Windows keeps the number of a parent that is gone
    return os.getppid() <= 1 or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


class _Server(uvicorn.Server):
    """A server that ends when it is told to, and does not take the whole process down with that signal."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = threading.Event()

    def follow(self, parent: int) -> None:
        """End soon after the parent did; the kernel's own signal comes when a mere thread of it ends."""
        while os.getppid() == parent:
            time.sleep(_LOOK)
        self.should_exit = True
        self._leave()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, and not later than it says, whatever is still running."""
        super().handle_exit(sig, frame)
        threading.Thread(target=self._leave, name="leave", daemon=True).start()

    def _leave(self) -> None:
        """End the process when the time is up: what was being written is whole, or was never begun."""
        late = time.monotonic() + _TIDYING
        while not (self.started or self.ended.is_set()) and time.monotonic() < late:
            time.sleep(_LOOK / 10)  # it was told to stop while it was starting
        if self.ended.wait(GRACE):
            time.sleep(_TIDYING)  # whoever served closes what is open and removes what was for a time only
        os._exit(0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear the signals that mean "stop"."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


class _Limited(H11Protocol):
    """A connection that has to get on: what is half asked is dropped after a while, and too much at once.

    Reads the server library's own state of a connection: `conn` is what was heard, `cycle` what is answered.
    """

    _late: asyncio.TimerHandle | None = None
    _heard = 0  # bytes of the request that is under way
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as above it
        """Begin to wait for a request; with too many others, the one that waited longest has to go."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._late = self.loop.call_later(PATIENCE, self._drop)
        if len(self.connections) > CONNECTIONS:
            others = [each for each in self.connections if isinstance(each, _Limited) and not each.busy]
            min(others, key=lambda each: each._since)._drop()  # this one is among them

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side left."""
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request, unless it is more than any request may be."""
        self._heard += len(data)
        if self._heard > LARGEST_HEAD + LARGEST_BODY:
            self._drop()
            return
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Go on with what was sent meanwhile."""
        super().on_response_complete()
        self._look()

    @property
    def busy(self) -> bool:
        """Whether a whole request is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering and not self._half_asked

    @property
    def _half_asked(self) -> bool:
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _look(self) -> None:
        """Give a request that is under way its time; one that is whole has all it needs."""
        if not self._half_asked:
            self._heard = 0
            self._rest()
        elif self._late is None:
            self._since = self.loop.time()
            self._late = self.loop.call_later(PATIENCE, self._drop)

    def _rest(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = None

    def _drop(self) -> None:
        self.connections.discard(self)  # at once, though the loop tells of it later
        self.transport.abort()


class Guard:
    """Lets through what was meant for this server and comes from who may speak to it."""

    def __init__(self, application: ASGIApp, *, port: int, token: str | None) -> None:
        self._application = application
        self._hosts = {f"{name}:{port}" for name in _NAMES} | (set(_NAMES) if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._token = token.encode() if token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self.refusal(Headers(scope=scope))
        if refused is None:
            await self._application(scope, receive, send)
            return
        await self.refuse(*refused)(scope, receive, send)

    def refuse(self, status: int, why: str) -> ASGIApp:
        """The answer to what is not served."""
        headers = HEADERS.get(status)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": why}}
        return JSONResponse(error, status, headers)

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Why a request is not served; None when it is."""
        too_large = _too_large(headers)
        if too_large is not None:
            return too_large
        if "content-length" in headers and "transfer-encoding" in headers:
            return 400, "a request says its length once"  # who is asked in between may read another one
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
        held = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token or b"")
        return held and kind.lower() == "bearer" and bool(self._token)


def _too_large(headers: Headers) -> tuple[int, str] | None:
    """Why a request is more than this server takes, whoever sent it."""
    if sum(len(name) + len(value) for name, value in headers.raw) > LARGEST_HEAD:
        return 431, "the headers are too large"
    size = headers.get("content-length", "0")
    if not size.isdecimal() or len(size) > 20 or int(size) > LARGEST_BODY:
        return 413, f"a request may have {LARGEST_BODY:,} bytes"
    return None


def application(server: Any) -> ASGIApp:
    """The SDK's streamable HTTP for a server; who may speak to it was decided before."""
    from mcp.server.transport_security import TransportSecuritySettings

    made: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return made


def run(options: Mapping[str, Any], *, tools: str, port: int, ready: Callable[[str, str], None]) -> None:
    """Serve memory; `ready` is told the address and the file of the token."""
    from vademecum.interfaces.mcp import sdk
    from vademecum.interfaces.mcp.server import open_memory, tidy

    memory = open_memory(options)
    home = memory.home
    with memory.workspace.reported("make the token"):
        token = token_of(home)
    taken = listen(port)
    made, connections = sdk.make(options, tools=tools, own_session=False)
    tidy(options)
    where = str(home.path / TOKEN)
    try:
        serve(application(made), taken, token=token, ready=lambda address: ready(address, where))
    finally:
        connections.close()
