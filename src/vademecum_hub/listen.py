"""Start the hub's server: its database pool, its socket, and TLS for other machines.

The pool refuses a login for which row-level security does not hold.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import ssl
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psycopg
import uvicorn
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from vademecum.errors import Collision, ConfigError, StorageFailed, UsageError
from vademecum.interfaces import connections
from vademecum.interfaces.connections import ConnectionLimits
from vademecum_hub.authorization import read_keys
from vademecum_hub.limits import LARGEST_BODY, SLOWEST
from vademecum_hub.migrate import check_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from psycopg import Connection
    from starlette.types import ASGIApp, Receive, Scope, Send

    from vademecum_hub.authorization import HubKeys

HOST, PORT = "127.0.0.1", 8389
POOL = 24  # connections, more than requests that run at a time, so that none waits for a connection
SWITCH = 0.0005  # seconds until the interpreter switches threads, so that short requests wait less
_DATABASE = "check `--database`, such as postgresql://hub_app@host/name"
# Machines send and read much at once, also over slow networks, and a member has several machines.
LIMITS = ConnectionLimits(sending=SLOWEST, reading=SLOWEST, idle=20, body=LARGEST_BODY, total=2048)
_WAIT = 5.0  # seconds for a connection of the pool


@dataclass(frozen=True, slots=True)
class Listening:
    """The address on which the hub listens, and its TLS certificate or the proxies in front of it."""

    host: str = HOST
    port: int = PORT
    certificate: str = ""
    key: str = ""
    proxies: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The URL that clients use."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.certificate else ''}://{name}:{self.port}"


def check_listening(listening: Listening) -> None:
    """Raise UsageError if other machines would be served without encryption."""
    for each in listening.proxies:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError as error:
            raise UsageError(
                f"{each!r} is not the address of a proxy",
                hint="name addresses, such as `--behind-proxy 10.0.0.7`",
            ) from error
    if is_loopback(listening.host) or listening.certificate or listening.proxies:
        return
    raise UsageError(
        f"{listening.host} can be reached from elsewhere, and nothing would be encrypted",
        hint="name `--certificate` and `--certificate-key`, or a proxy with TLS as `--behind-proxy ADDRESS`",
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


@contextlib.contextmanager
def connect(database: str) -> Iterator[Connection[Any]]:
    """Open a connection to the database; raise StorageFailed with the reason if that fails."""
    password = _read_password(database)
    try:
        connection = psycopg.connect(database, connect_timeout=10, autocommit=True)
    except psycopg.Error as error:
        message = " ".join(str(error).split())
        missing = 'role "hub_' in message
        raise StorageFailed(
            f"the database cannot be reached: {message.replace(password, '…') if password else message}",
            hint="`vade hub migrate` makes the hub's roles, run once as a superuser"
            if missing
            else _DATABASE,
        ) from error
    with connection:
        yield connection


def _read_password(database: str) -> str:
    """Return the password in a database URL, to hide it in error messages.

    An invalid URL may have a password, too, so the error for it does not repeat the URL.
    """
    try:
        return str(conninfo_to_dict(database).get("password") or "")
    except psycopg.ProgrammingError:
        pass
    raise UsageError("this is not the address of a database", hint=_DATABASE)


def open_pool(database: str, *, size: int = POOL) -> ConnectionPool[Any]:
    """Return a pool of database connections, which the caller opens.

    Refuse a login for which row-level security does not hold.
    """
    with connect(database) as connection:
        check_schema(connection)
        row = connection.execute(
            "SELECT rolsuper OR rolbypassrls OR pg_has_role(rolname, 'hub_owner', 'MEMBER')"
            " FROM pg_roles WHERE rolname = session_user"
        ).fetchone()
        if row is None or row[0]:
            raise ConfigError(
                "this login could see every workspace, so the hub does not serve with it",
                hint="connect as hub_app, which `vade hub migrate` makes",
            )
    return ConnectionPool(
        database,
        min_size=1,
        max_size=size,
        timeout=_WAIT,
        max_waiting=4 * size,
        check=ConnectionPool.check_connection,
        kwargs={"autocommit": True, "options": "-c search_path=pg_catalog"},
        open=False,
    )


def run_hub(
    database: str, keys: HubKeys, listening: Listening, *, ready: Callable[[str], None], log: bool = False
) -> None:
    """Run the hub's server until it is stopped, such as by a signal.

    `ready` is called with the server's URL as soon as clients can connect; with `log`, requests are logged on
    stderr.
    """
    from vademecum_hub.protocol import create_hub

    check_listening(listening)
    app: ASGIApp = create_hub(open_pool(database), keys)
    if listening.proxies:
        app = BehindProxy(app, listening.proxies)
    if log:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    config = make_config(app, listening)
    try:
        listener = config.bind_socket()
    except SystemExit:
        raise Collision(
            f"port {listening.port} cannot be used", hint="choose another with `--port`, 0 for any"
        ) from None
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate cannot be used: {error}", hint="check both files") from error
    listener.listen(512)  # from now on a client can connect
    host, port = listener.getsockname()[:2]
    sys.setswitchinterval(SWITCH)
    server = connections.Server(config)
    with server.capture_signals():  # a signal right after `ready` stops the server
        ready(Listening(str(host), int(port), listening.certificate).address)
        server.run(sockets=[listener])


def make_config(app: ASGIApp, listening: Listening) -> uvicorn.Config:
    """Return the server's settings: its limits, and no access log, since paths have names of places."""
    logging.getLogger("uvicorn.access").disabled = True
    return uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        lifespan="on",
        timeout_graceful_shutdown=5,
        proxy_headers=False,  # BehindProxy reads them from trusted proxies
        ssl_certfile=listening.certificate or None,
        ssl_keyfile=listening.key or None,
        **connections.server_options(replace(LIMITS, proxies=listening.proxies)),
    )


class BehindProxy:
    """Middleware for a hub behind a proxy with TLS.

    It rejects requests that did not come over TLS through a trusted proxy, and takes the client's address
    from the proxy.
    """

    def __init__(self, application: ASGIApp, proxies: tuple[str, ...]) -> None:
        self._application = application
        self._trusted = [ipaddress.ip_network(each, strict=False) for each in proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or reject it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = Headers(scope=scope)
        peer = scope["client"][0] if scope.get("client") else ""
        if not self._is_trusted(peer):
            refused = {"error": {"code": "proxy", "message": "this hub answers its proxy alone"}}
            await JSONResponse(refused, 403)(scope, receive, send)
            return
        if headers.get("x-forwarded-proto", "").lower() != "https":
            refused = {"error": {"code": "tls", "message": "this hub is reached over TLS alone"}}
            await JSONResponse(refused, 403)(scope, receive, send)
            return
        # The proxy added the last address; a client may have written the ones before it.
        client = headers.get("x-forwarded-for", peer).rsplit(",", 1)[-1].strip()
        await self._application({**scope, "client": (client, 0), "scheme": "https"}, receive, send)

    def _is_trusted(self, peer: str) -> bool:
        with contextlib.suppress(ValueError):
            return any(ipaddress.ip_address(peer) in each for each in self._trusted)
        return False


def load_keys(path: Path, *, make: bool) -> HubKeys:
    """Return the hub's keys from their file; with `make`, create a missing file."""
    return read_keys(path, make=make)
