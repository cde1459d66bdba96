"""Starting the hub: a pool that cannot see past row-level security, a socket, and TLS unless on loopback."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import ssl
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vademecum.errors import Collision, ConfigError, StorageFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import uvicorn
    from psycopg import Connection
    from psycopg_pool import ConnectionPool
    from starlette.types import ASGIApp, Receive, Scope, Send

    from vademecum.interfaces.hub.access import HubKeys

HOST, PORT = "127.0.0.1", 8389
POOL = 24  # connections: more than work together, so that nobody waits for one as well
SWITCH = 0.0005  # seconds; each of a request's few words with the database waits for other requests' work
_DATABASE = "check `--database`, such as postgresql://hub_app@host/name"
_WAIT = 5.0  # seconds for a connection of the pool


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen, and how what is sent is kept from others."""

    host: str = HOST
    port: int = PORT
    certificate: str = ""
    key: str = ""
    proxies: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """What clients are told."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.certificate else ''}://{name}:{self.port}"


def import_psycopg() -> None:
    """Say in one sentence what is missing, before anything needs it."""
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "the hub needs psycopg", hint="install it with `pip install 'vademecum[hub]'`"
        ) from error


def check_listening(listening: Listening) -> None:
    """Refuse to send tokens and texts through a network as they are."""
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
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


@contextlib.contextmanager
def connected(database: str) -> Iterator[Connection[Any]]:
    """One connection, and a sentence when there is none."""
    import_psycopg()
    import psycopg

    password = _read_password(database)
    try:
        connection = psycopg.connect(database, connect_timeout=10, autocommit=True)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        missing = 'role "hub_' in said
        raise StorageFailed(
            f"the database cannot be reached: {said.replace(password, '…') if password else said}",
            hint="`vade hub migrate` makes the hub's roles, run once as a superuser"
            if missing
            else _DATABASE,
        ) from error
    with connection:
        yield connection


def _read_password(database: str) -> str:
    """The password in the address of a database; what is no address may hold one too, and is not repeated."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return str(conninfo_to_dict(database).get("password") or "")
    except psycopg.ProgrammingError:
        pass
    raise UsageError("this is not the address of a database", hint=_DATABASE)


def open_pool(database: str, *, size: int = POOL) -> ConnectionPool[Any]:
    """A pool, made once it is certain that row-level security binds its login."""
    from psycopg_pool import ConnectionPool

    from vademecum.interfaces.hub.migrate import check_schema

    with connected(database) as connection:
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
    """Serve until told to stop."""
    import uvicorn

    from vademecum.interfaces.hub.server import create_hub

    check_listening(listening)
    app: ASGIApp = create_hub(open_pool(database), keys)
    if listening.proxies:
        app = BehindProxy(app, listening.proxies)
    if log:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    config = make_config(app, listening)
    try:
        taken = config.bind_socket()
    except SystemExit:
        raise Collision(
            f"port {listening.port} cannot be used", hint="choose another with `--port`, 0 for any"
        ) from None
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate cannot be used: {error}", hint="check both files") from error
    taken.listen(512)  # from now on a client can connect, and waits until it is served
    host, port = taken.getsockname()[:2]
    sys.setswitchinterval(SWITCH)
    server = uvicorn.Server(config)
    with server.capture_signals():  # whoever is told that it is ready can stop it
        ready(Listening(str(host), int(port), listening.certificate).address)
        server.run(sockets=[taken])


def make_config(app: ASGIApp, listening: Listening) -> uvicorn.Config:
    """How the server is run: bounded, and without a log of paths, which hold the names of places."""
    import uvicorn

    logging.getLogger("uvicorn.access").disabled = True
    return uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=16 << 10,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=5,
        limit_concurrency=1_000,
        proxy_headers=False,  # BehindProxy reads them, from those it trusts
        ssl_certfile=listening.certificate or None,
        ssl_keyfile=listening.key or None,
    )


class BehindProxy:
    """Serves what comes from a trusted proxy that was reached over TLS, and knows the client by its word."""

    def __init__(self, application: ASGIApp, proxies: tuple[str, ...]) -> None:
        self._application = application
        self._trusted = [ipaddress.ip_network(each, strict=False) for each in proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        from starlette.datastructures import Headers
        from starlette.responses import JSONResponse

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
        # The last address that the proxy itself added; what stands before it anybody may have written.
        client = headers.get("x-forwarded-for", peer).rsplit(",", 1)[-1].strip()
        await self._application({**scope, "client": (client, 0), "scheme": "https"}, receive, send)

    def _is_trusted(self, peer: str) -> bool:
        with contextlib.suppress(ValueError):
            return any(ipaddress.ip_address(peer) in each for each in self._trusted)
        return False


def keys_from(path: Path, *, make: bool) -> HubKeys:
    """The hub's keys out of their file."""
    from vademecum.interfaces.hub.access import read_keys

    return read_keys(path, make=make)
