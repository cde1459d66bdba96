"""The connections of our servers (`vade serve`, `vade mcp --http`, the hub), with limits for each caller.

A connection belongs to a stranger until a request on it has shown a token or a session of a page. Strangers
of one address share a few connections, and callers with one token share others, so neither can use up the
places of anybody else. Whoever is slow in sending a request, or does not read the answer, is disconnected.
This module knows no routes and no tokens: the guard of each server calls `identify` for a request whose
caller it knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterable, MutableMapping

LARGEST_HEAD = 16 << 10  # bytes of a request's head
TURNS = 4  # requests of strangers that are answered at the same time, so that others are not kept waiting
STREAMS = 16  # event streams of one token or one page at the same time
_CREDENTIALS = (b"authorization", b"cookie")
_STATE = "connection"  # the name of the connection in the state of a request
_SETTLED = 0.25  # seconds for which a new connection is left alone; by then an honest request has come
_ACCEPTED = 64  # new connections that are accepted at once, before requests that have arrived are read
_WAITING = 2048  # further new connections that the system holds until they are accepted
_FILES = 256  # files that a server has open besides its connections


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How slow a connection may be, how large a request, and how many connections there may be."""

    sending: float = 8.0  # seconds from a connection, or the first byte of a request, to its last byte
    reading: float = 8.0  # seconds in which a client has to read what fills the buffers of its connection
    idle: float = 5.0  # seconds without a request
    body: int = 4 << 20  # bytes of a request's body
    strangers: int = 32  # connections of one address that have shown no token
    callers: int = 64  # connections of one token, or of one session of a page
    total: int = 1024  # connections; strangers get half of them
    proxies: tuple[str, ...] = ()  # whose connections carry the requests of many, so they are not counted


LOCAL = ConnectionLimits()


class GuardedConnection(H11Protocol):
    """One connection; it reads uvicorn's state: `conn` is the request, `cycle` the response."""

    def __init__(self, table: ConnectionTable, **given: Any) -> None:
        super().__init__(**given)
        self.table = table
        self.caller = ""  # empty for a stranger
        self.address = ""
        self.refused = False  # whether its last request was answered with 401 or 403
        self.accepted = 0.0  # when it was made
        self.since = 0.0  # when it was made, or began to send a request
        self._received = 0  # bytes of the current request
        self._sending: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start to wait for a request."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, _STATE: self}
        self.app = self._watch(self.app)
        self.accepted = self.since = self.loop.time()
        self.address = self.client[0] if self.client else ""
        self._sending = self.loop.call_later(self.table.limits.sending, self.drop)
        self.table.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, because the client has left."""
        self._release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; drop the connection if the request is too large."""
        self._received += len(data)
        if self._received > LARGEST_HEAD + self.table.limits.body:
            self.drop()
            return
        super().data_received(data)
        self._update_timer()

    def on_response_complete(self) -> None:
        """Continue with the data of a next request, which may have arrived already."""
        super().on_response_complete()
        self._update_timer()

    def pause_writing(self) -> None:
        """Give a client that does not read its answers some time to do so."""
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(self.table.limits.reading, self.drop)

    def resume_writing(self) -> None:
        """Continue to write, because the client has read."""
        self._stop_reading_timer()
        super().resume_writing()

    @property
    def busy(self) -> bool:
        """Whether the connection has a complete request that is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering and not self._is_incomplete

    @property
    def worth(self) -> tuple[bool, bool, bool, float]:
        """The order in which connections are dropped, the smallest first.

        First come those whose client does not read or was refused, then those without a complete request,
        then those whose request shows no token; the oldest of each first.
        """
        shows_token = self.busy and any(name in _CREDENTIALS for name, _ in self.headers)
        return self._reading is None and not self.refused, self.busy, shows_token, self.since

    def identify(self, caller: str) -> None:
        """Note whose connection it is; if the caller has too many, drop the one with the smallest worth."""
        if caller != self.caller:
            self.table.move(self, caller)

    def drop(self) -> None:
        """Close the connection without an answer."""
        self.connections.discard(self)  # at once, because the loop reports it later
        self._release()
        self.transport.abort()

    def _watch(self, app: Any) -> Any:
        """Return the application, with a note of whether it refused the last request."""

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            async def send_noted(message: Any) -> None:
                if message["type"] == "http.response.start":
                    self.refused = message["status"] in (401, 403)
                await send(message)

            await app(scope, receive, send_noted)

        return watched

    def _release(self) -> None:
        self.table.remove(self)
        self._stop_sending_timer()
        self._stop_reading_timer()

    @property
    def _is_incomplete(self) -> bool:
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _update_timer(self) -> None:
        """Start the timer while a request is incomplete, and stop it once the request is complete."""
        if not self._is_incomplete:
            self._received = 0
            self._stop_sending_timer()
        elif self._sending is None and not self.transport.is_closing():
            self.since = self.loop.time()
            self._sending = self.loop.call_later(self.table.limits.sending, self.drop)

    def _stop_sending_timer(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        self._sending = None

    def _stop_reading_timer(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None


class ConnectionTable:
    """The connections of one server, by the address of strangers and by caller."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._total = min(limits.total, _open_files(limits.total + 2 * _FILES) - _FILES)
        self._proxies = [ipaddress.ip_network(each, strict=False) for each in limits.proxies]
        self._strangers: defaultdict[str, set[GuardedConnection]] = defaultdict(set)
        self._callers: defaultdict[str, set[GuardedConnection]] = defaultdict(set)
        self._unsettled: set[str] = set()  # addresses whose connections will be counted
        self.turns = asyncio.Semaphore(TURNS)

    def __call__(self, **given: Any) -> GuardedConnection:
        """Return a new connection, as uvicorn asks for it."""
        return GuardedConnection(self, **given)

    def __len__(self) -> int:
        """Return the number of connections."""
        return sum(map(len, self._strangers.values())) + sum(map(len, self._callers.values()))

    def add(self, connection: GuardedConnection) -> None:
        """Add a stranger's connection, and drop others if there are too many.

        The connections of an address are counted a moment later, when honest requests have been read.
        """
        address = connection.address
        self._strangers[address].add(connection)
        if len(self) > self._total:
            self._make_room()
        over = len(self._strangers[address]) > self.limits.strangers
        if over and address not in self._unsettled and not self._is_from_proxy(address):
            self._unsettled.add(address)
            connection.loop.call_later(_SETTLED, self._settle, address, connection.loop)

    def remove(self, connection: GuardedConnection) -> None:
        """Forget a connection."""
        for groups, name in ((self._callers, connection.caller), (self._strangers, connection.address)):
            if name in groups:
                groups[name].discard(connection)
                if not groups[name]:
                    del groups[name]

    def move(self, connection: GuardedConnection, caller: str) -> None:
        """Count a connection for a caller instead of its address."""
        self.remove(connection)
        connection.caller = caller
        own = self._callers[caller]
        own.add(connection)
        if len(own) > self.limits.callers:
            _drop(own - {connection}, 1)

    def _settle(self, address: str, loop: asyncio.AbstractEventLoop) -> None:
        """Drop the strangers of an address that are too many, except those who have only just come."""
        self._unsettled.discard(address)
        strangers = self._strangers.get(address, set())
        late = loop.time() - _SETTLED
        _drop([each for each in strangers if each.accepted <= late], len(strangers) - self.limits.strangers)
        if len(self._strangers.get(address, ())) > self.limits.strangers:
            self._unsettled.add(address)
            loop.call_later(_SETTLED, self._settle, address, loop)

    def _make_room(self) -> None:
        """Drop a tenth of the strangers' places; those of this machine last, and never a known caller."""
        strangers = [each for group in self._strangers.values() for each in group]
        excess = max(len(strangers) - self._total // 2, 1) + self._total // 10
        strangers.sort(key=lambda each: (is_loopback(each.address), each.worth))
        for each in strangers[:excess]:
            each.drop()

    def _is_from_proxy(self, address: str) -> bool:
        if not self._proxies:
            return False
        try:
            return any(ipaddress.ip_address(address) in each for each in self._proxies)
        except ValueError:  # a socket of this machine has no address
            return False


def _drop(connections: Iterable[GuardedConnection], count: int) -> None:
    """Drop `count` of these connections, those with the smallest worth."""
    for each in sorted(connections, key=lambda each: each.worth)[: max(count, 0)]:
        each.drop()


def identify(scope: MutableMapping[str, Any], caller: str) -> None:
    """Note that a request's connection belongs to a caller: somebody with a valid token or session."""
    connection = scope.get("state", {}).get(_STATE)
    if isinstance(connection, GuardedConnection):  # none in a test without a socket
        connection.identify(caller)


@contextlib.asynccontextmanager
async def turn_of_stranger(scope: MutableMapping[str, Any]) -> AsyncIterator[None]:
    """Wait until few other requests of strangers are being answered."""
    connection = scope.get("state", {}).get(_STATE)
    if not isinstance(connection, GuardedConnection):
        yield
        return
    async with connection.table.turns:
        yield


def is_loopback(address: str) -> bool:
    """Return whether an address is one of this machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def server_options(limits: ConnectionLimits) -> dict[str, Any]:
    """Return the options of `uvicorn.Config` that give a server these limits."""
    return {
        "http": ConnectionTable(limits),
        "ws": "none",
        "h11_max_incomplete_event_size": LARGEST_HEAD,
        "timeout_keep_alive": limits.idle,
        "backlog": _ACCEPTED,
        "log_config": None,
        "access_log": False,
        "server_header": False,
    }


class Server(uvicorn.Server):
    """A server that reads the requests of the connections it has before it accepts more."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, a few at a time; the system keeps the others meanwhile."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_WAITING)


def _open_files(wanted: int) -> int:
    """Return how many files this process may have open, after raising a limit below `wanted` if allowed."""
    if sys.platform == "win32":
        return 1 << 16
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return 1 << 16 if soft == resource.RLIM_INFINITY else soft
