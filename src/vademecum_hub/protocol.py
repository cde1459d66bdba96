"""The hub's protocol: limit and authenticate requests, and answer each in one transaction.

This module knows no sockets and no certificates. Its only state is the pool and the counters, so any number
of servers can share a database.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from fastapi import FastAPI, Request, Response
from psycopg import DataError, OperationalError, errors
from psycopg_pool import PoolTimeout
from starlette.concurrency import run_in_threadpool

from vademecum import __version__
from vademecum.interfaces.connections import identify
from vademecum.interfaces.web.headers import SAFE
from vademecum.sync.facts import MOST_FACTS
from vademecum_hub import (
    hub_search,
    key_records,
    limits,
    members,
    streams,
    workspace_index,
    workspace_rules,
)
from vademecum_hub.authorization import HubCaller, HubKeys, authenticate, check_address, enter
from vademecum_hub.change_events import HubChanges, open_stream
from vademecum_hub.index_updates import IndexCatchUp
from vademecum_hub.page.browser_sessions import make_link
from vademecum_hub.rejections import Rejection, malformed, unknown_caller
from vademecum_hub.streams import RequestContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from psycopg import Connection
    from psycopg_pool import ConnectionPool

PROTOCOL = 1
STATEMENT_SECONDS = 5
DEAD_ROWS = (
    "a purge has emptied rows: their old content stays in the database's files and statistics until"
    " `VACUUM (FULL, ANALYZE) hub.fact, hub.document, hub.passage, hub.posting, hub.vector` as hub_owner,"
    " and in the write-ahead log and backups until these are replaced"
)
_REMEMBERED = 10_000
_DOWN_SECONDS = 1.0
_SEEN_EVERY = 300.0  # seconds
_LOG = logging.getLogger("vademecum.hub")


class HubRequest(NamedTuple):
    """A request after authentication, as the function of its route receives it."""

    connection: Connection[Any]
    caller: HubCaller
    keys: HubKeys
    body: Any
    query: Mapping[str, str]
    path: Mapping[str, str]

    @property
    def context(self) -> RequestContext:
        """The context for functions that work on the request's stream."""
        return RequestContext(self.connection, self.caller, self.keys, self.path["stream"])

    def number(self, name: str, default: int) -> int:
        """Return a number in the query string, or the default; reject other texts."""
        value = self.query.get(name, str(default))
        if not value.isdecimal() or len(value) > 15:
            raise malformed(f"`{name}` is not a number")
        return int(value)


class Hub:
    """The state that all requests share: the database pool, the keys and the counters."""

    def __init__(self, pool: ConnectionPool[Any], keys: HubKeys) -> None:
        self.pool, self.keys = pool, keys
        self.buckets = limits.TokenBuckets()
        self.known: dict[str, int] = {}
        self.turns = limits.FairQueue(limits.AT_ONCE)
        self.searches = limits.FairQueue(limits.SEARCHES)
        self.catch_up = IndexCatchUp(self.transaction)
        self.changes = HubChanges()
        self._last_seen: dict[str, float] = {}
        self._down_until = (
            0.0  # on the monotonic clock; until then, requests fail without asking the database
        )

    @contextlib.contextmanager
    def transaction(self, *, snapshot: bool = False) -> Iterator[Connection[Any]]:
        """Open a transaction with a time limit for statements; database errors become rejections.

        The answer to a request is sent after COMMIT. With `snapshot`, all statements see the same state.
        """
        if time.monotonic() < self._down_until:
            raise _make_database_rejection()
        try:
            with self.pool.connection() as connection, connection.transaction():
                level = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;" if snapshot else ""
                connection.execute(f"{level}SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'")
                yield connection
        except PoolTimeout as error:
            if self._is_database_down():
                raise _make_database_rejection() from error
            raise limits.busy("the hub has too much to do", seconds=1) from error
        except errors.QueryCanceled as error:
            raise limits.busy("this took too long", seconds=2) from error
        except DataError as error:
            raise malformed("this holds a character or number that no database takes") from error
        except (errors.ReadOnlySqlTransaction, errors.DiskFull) as error:
            raise Rejection(
                503, "storage", "the hub's database does not take anything now; it is full or read-only"
            ) from error
        except (errors.DeadlockDetected, errors.SerializationFailure) as error:
            raise limits.busy("another request changed the same", seconds=1) from error
        except OperationalError as error:
            self._is_database_down()  # requests that follow need not wait for it
            raise _make_database_rejection() from error

    def _is_database_down(self) -> bool:
        """Return whether the database refuses a new connection; if so, requests fail at once for a second."""
        address = self.pool.conninfo
        try:
            psycopg.connect(address if isinstance(address, str) else address(), connect_timeout=2).close()
        except OperationalError:
            self._down_until = time.monotonic() + _DOWN_SECONDS
            return True
        return False

    def ask(self, header: str, route: Route, body: Any, request: Request) -> Any:
        """Authenticate a request, run the function of its route, and return the answer."""
        with self.transaction(snapshot=route.snapshot) as connection:
            caller = authenticate(connection, self.keys, header)
            hub_request = HubRequest(
                connection, caller, self.keys, body, request.query_params, request.path_params
            )
            done = route.work(hub_request)
        self._note_seen(caller)
        return done

    def _note_seen(self, caller: HubCaller) -> None:
        """Save the time of a token's last request, once in five minutes at most; ignore failures."""
        now = time.monotonic()
        if now - self._last_seen.get(caller.token, -_SEEN_EVERY) < _SEEN_EVERY:
            return
        if len(self._last_seen) >= _REMEMBERED:
            self._last_seen.clear()
        self._last_seen[caller.token] = now
        with contextlib.suppress(Rejection), self.transaction() as connection:
            enter(connection, caller.ws)
            connection.execute(
                "UPDATE hub.token SET seen_at = now() WHERE ws = %s AND token = %s", (caller.ws, caller.token)
            )

    def find_workspace(self, header: str, name: str) -> int:
        """Return and remember the workspace of a token, for its queue.

        This gives no rights: each transaction authenticates the token again.
        """
        with self.transaction() as connection:
            ws = authenticate(connection, self.keys, header).ws
        if len(self.known) >= _REMEMBERED:
            self.known.clear()
        self.known[name] = ws
        return ws


def create_hub(pool: ConnectionPool[Any], keys: HubKeys) -> FastAPI:
    """Return the hub's web application, which opens and closes the database pool."""
    from vademecum_hub.page.routes import add_page

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(pool.open)
        yield
        await run_in_threadpool(hub.catch_up.stop)
        await run_in_threadpool(pool.close)

    app = FastAPI(title="Vademecum hub", version=str(PROTOCOL), lifespan=lifespan, openapi_url=None)
    hub = Hub(pool, keys)
    app.state.hub = hub
    app.middleware("http")(_guard)
    app.add_middleware(
        limits.RateLimiter, buckets=hub.buckets, turns=hub.turns, known=hub.known, protocol=PROTOCOL
    )
    _add_open_routes(app, hub)
    for route in ROUTES:
        _add_route(app, hub, route)
    _add_events(app, hub)
    add_page(app, hub)
    return app


def _make_database_rejection() -> Rejection:
    return Rejection(503, "storage", "the hub's database does not answer")


async def _guard(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
    """Check the address and the protocol version, answer the request, and log it.

    Rejections are rendered as JSON, and the log has no texts of members.
    """
    begun = time.monotonic()
    version = request.headers.get("vade-protocol", "")
    try:
        check_address(request)
        if request.url.path.startswith("/v1/") and version != str(PROTOCOL):
            raise _make_version_rejection(version)
        response = await call(request)
    except Rejection as refused:
        response = _render_rejection(refused)
        response.headers.update(SAFE)
    response.headers["Vade-Protocol"] = str(PROTOCOL)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"
    route = request.scope.get("route")
    _LOG.info(
        "%s %s %d %.0fms", request.method, getattr(route, "path", "-"), response.status_code,
        (time.monotonic() - begun) * 1000,
    )  # fmt: skip
    return response


def _make_version_rejection(version: str) -> Rejection:
    newer = version.isdecimal() and int(version) > PROTOCOL
    old = f"this hub speaks protocol {PROTOCOL}; upgrade {'the hub' if newer else 'vade on this machine'}"
    return Rejection(426, "protocol", old, protocol=PROTOCOL, hub=__version__)


def _render_rejection(refused: Rejection) -> Response:
    response = _make_response(refused.body(), refused.status)
    if refused.status == 429:
        response.headers["Retry-After"] = str(refused.more["retry_after"])
    if refused.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="vade"'
    if refused.status == 426:
        response.headers["Upgrade"] = f"vade/{PROTOCOL}"
    return response


def _make_response(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value, ensure_ascii=False), status, media_type="application/json")


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise malformed("the body is not JSON") from error
    if not isinstance(given, dict):
        raise malformed("the body is not a JSON object")
    return given


async def _handle(hub: Hub, request: Request, route: Route) -> Any:
    """Read a request's body, wait for the turn of its workspace, and run its route in a thread.

    A request with an unknown token first counts for its network address.
    """
    header = request.headers.get("authorization", "")
    if not header:
        raise unknown_caller()
    name = limits.token_name(header)
    ws = hub.known.get(name)
    if ws is None:  # unknown tokens are limited by address, which slows down guessing
        place = f"new {request.client.host if request.client else ''}"
        hub.buckets.take(place)
        async with hub.turns.take(place, most=limits.BURST):  # the bucket has limited these already
            ws = await run_in_threadpool(hub.find_workspace, header, name)
        identify(request.scope, name)
    whole = await limits.read_body(request)

    def work() -> Any:
        return hub.ask(header, route, route.read(whole, request.path_params), request)

    async with contextlib.AsyncExitStack() as turn:
        if route.snapshot:
            await turn.enter_async_context(hub.searches.take(ws))
        await turn.enter_async_context(hub.turns.take(ws))
        done = await run_in_threadpool(work)
    if isinstance(done, dict) and done.get("stale"):
        hub.catch_up.wake(ws)
    return done


# ------------------------------------------------------------------------------- routes


def _ready(hub: Hub) -> dict[str, Any]:
    with hub.transaction() as connection:
        connection.execute("SELECT 1")
    return {"ready": True}


def _join(hub: Hub, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a token for a valid join code; a failed attempt counts, too."""
    with hub.transaction() as connection:
        found = members.count_attempt(connection, str(given.get("code") or ""))
    if found is None:
        raise members.invalid_code()
    with hub.transaction() as connection:
        return members.join(connection, hub.keys, *found, given)


def _show_caller(hub_request: HubRequest) -> dict[str, Any]:
    caller = hub_request.caller
    row = hub_request.connection.execute(
        "SELECT name, now(), rules FROM hub.workspace WHERE ws = %s", (caller.ws,)
    ).fetchone()
    assert row is not None
    passages, slow = workspace_index.read_size(hub_request.connection, caller.ws)
    return {
        "workspace": caller.public,
        "name": row[0],
        "kind": caller.kind,
        "member": caller.name,
        "role": caller.role,
        "scopes": sorted(caller.scopes),
        "now": row[1].isoformat(),
        "rules": row[2],
        "search": {"passages": passages, "slow": slow},
        "key": key_records.describe_key(hub_request.connection, caller),
    }


def _list_streams(hub_request: HubRequest) -> dict[str, Any]:
    """Return the streams, and the role, scopes, rules and quota on which a sync depends."""
    rules = workspace_rules.read_rules(hub_request.connection, hub_request.caller.ws)
    quota = list(streams.read_limits(hub_request.connection, hub_request.caller))
    standing = {
        "role": hub_request.caller.role,
        "scopes": sorted(hub_request.caller.scopes),
        "rules": rules,
        "quota": quota,
    }
    return {
        "streams": streams.list_streams(hub_request.connection, hub_request.caller),
        "standing": standing,
        "key": key_records.describe_key(hub_request.connection, hub_request.caller),
    }


def _pull(hub_request: HubRequest) -> bytes:
    return b"".join(
        streams.read_facts(
            hub_request.context,
            epoch=hub_request.number("epoch", 1),
            after=hub_request.number("after", 0),
            chain=hub_request.query.get("chain", ""),
            limit=hub_request.number("limit", MOST_FACTS),
        )
    )


def _read_push(body: bytes, path: Mapping[str, str]) -> streams.Push:
    given = streams.read_push(path["stream"], body)
    streams.check_secrets(given)
    return given


def _push(hub_request: HubRequest) -> dict[str, Any]:
    key_records.check_pushed_key(hub_request.context, hub_request.body.key)
    answer = workspace_rules.push_reviewed(hub_request.context, hub_request.body)
    if any(fact.kind == "purge" for fact in hub_request.body.facts):
        _LOG.warning("%s", DEAD_ROWS)
    return answer


def _acknowledge(hub_request: HubRequest) -> dict[str, Any]:
    seq, replica = hub_request.body.get("seq"), _read_replica(hub_request)
    if type(seq) is not int:
        raise malformed("an acknowledgement names a `seq`")
    streams.acknowledge_purge(hub_request.context, seq, replica)
    return {"acknowledged": seq}


def _read_replica(hub_request: HubRequest) -> str:
    replica = hub_request.body.get("replica")
    if not isinstance(replica, str) or not replica.isalnum() or not 8 <= len(replica) <= 32:
        raise malformed("a `replica` has 8 to 32 letters and digits")
    return replica


def _find_text(hub_request: HubRequest) -> dict[str, Any]:
    return {"dots": streams.find_text(hub_request.context, str(hub_request.body.get("text") or ""))}


def _begin_epoch(hub_request: HubRequest) -> dict[str, Any]:
    value = hub_request.body.get("stamp")
    stamp = streams.read_stamp(value) if isinstance(value, dict) else None
    fact = streams.read_fact(json.dumps(hub_request.body.get("fact")))
    if stamp is None or fact.stream != hub_request.path["stream"]:
        raise malformed("a fact of this stream and its stamp are needed")
    epoch = streams.begin_epoch(hub_request.context, fact, stamp)
    if epoch == stamp.epoch + 1:
        members.append_log(
            hub_request.connection,
            hub_request.caller.ws,
            hub_request.caller.name,
            "epoch",
            stream=fact.stream,
            epoch=epoch,
        )
    return {"epoch": epoch}


def _take_lease(hub_request: HubRequest) -> dict[str, Any]:
    seconds = hub_request.body.get("seconds", 300)
    if type(seconds) is not int:
        raise malformed("`seconds` is not a number")
    return streams.take_lease(hub_request.context, _read_replica(hub_request), seconds)


def _change_member(hub_request: HubRequest) -> dict[str, Any]:
    return members.change_member(
        hub_request.connection,
        hub_request.caller,
        hub_request.path["name"],
        role=hub_request.body.get("role"),
    )


def _revoke(hub_request: HubRequest) -> dict[str, Any]:
    only = hub_request.body.get("only") is True
    return members.revoke_token(
        hub_request.connection, hub_request.caller, hub_request.path["number"], only=only
    )


def _search(hub_request: HubRequest) -> dict[str, Any]:
    return hub_search.search_workspace(
        hub_request.connection,
        hub_request.caller,
        hub_request.body or hub_search.read_query_string(hub_request.query),
    )


class Route(NamedTuple):
    """A request that the protocol knows: its path, the parser of its body, and its function."""

    method: str
    path: str
    work: Callable[[HubRequest], Any]
    read: Callable[[bytes, Mapping[str, str]], Any] = lambda body, _: _parse_json(body)
    snapshot: bool = False  # long queries: one snapshot of the database, in a queue of their own


_STREAM = "/v1/streams/{stream:path}"
ROUTES = (
    Route("GET", "/v1/me", _show_caller),
    Route("GET", "/v1/streams", _list_streams),
    Route("GET", "/v1/key", lambda hub_request: key_records.show_key(*hub_request[:2])),
    Route("POST", "/v1/key", lambda hub_request: key_records.keep_key(*hub_request[:2], hub_request.body)),
    Route("GET", f"{_STREAM}/facts", _pull),
    Route("POST", f"{_STREAM}/facts", _push, _read_push),
    Route("POST", f"{_STREAM}/purge/ack", _acknowledge),
    Route(
        "GET", f"{_STREAM}/purge", lambda hub_request: {"purges": streams.list_purges(hub_request.context)}
    ),
    Route("POST", f"{_STREAM}/purge", _find_text),
    Route("POST", f"{_STREAM}/epoch", _begin_epoch),
    Route(
        "POST",
        f"{_STREAM}/seals",
        lambda hub_request: key_records.replace_seals(hub_request.context, hub_request.body),
    ),
    Route("POST", f"{_STREAM}/lease", _take_lease),
    Route("GET", "/v1/search", _search, snapshot=True),
    Route("POST", "/v1/search", _search, snapshot=True),
    Route("GET", "/v1/members", lambda hub_request: {"members": members.list_members(*hub_request[:2])}),
    Route("POST", "/v1/members/{name}", _change_member),
    Route("GET", "/v1/tokens", lambda hub_request: {"tokens": members.list_tokens(*hub_request[:2])}),
    Route("POST", "/v1/tokens", lambda hub_request: members.add_token(*hub_request[:4])),
    Route("DELETE", "/v1/tokens/{number}", _revoke),
    Route("POST", "/v1/invites", lambda hub_request: members.invite(*hub_request[:4])),
    Route("POST", "/v1/page", lambda hub_request: make_link(*hub_request[:3])),
    Route("GET", "/v1/audit", lambda hub_request: members.read_log(*hub_request[:2], hub_request.query)),
)


def _add_route(app: FastAPI, hub: Hub, route: Route) -> None:
    async def endpoint(request: Request) -> Response:
        done = await _handle(hub, request, route)
        if isinstance(done, bytes):
            return Response(done, media_type="application/x-ndjson")
        response = _make_response(done)
        if route.method == "GET":
            tag = f'"{hashlib.sha256(response.body).hexdigest()[:32]}"'
            if request.headers.get("if-none-match") == tag:
                response = Response(status_code=304)
            response.headers["ETag"] = tag
        return response

    app.add_api_route(route.path, endpoint, methods=[route.method], name=route.path)


def _add_open_routes(app: FastAPI, hub: Hub) -> None:
    """Add the routes that need no token."""

    @app.get("/health")
    async def health() -> Response:
        """Report that the server runs, also while the database does not answer."""
        return _make_response({"protocol": PROTOCOL, "version": __version__})

    @app.get("/ready")
    async def ready() -> Response:
        """Report that the database answers."""
        async with hub.turns.take("ready"):
            return _make_response(await run_in_threadpool(_ready, hub))

    @app.post("/v1/join")
    async def join(request: Request) -> Response:
        """Return a token for a valid join code."""
        hub.buckets.take(f"join {request.client.host if request.client else ''}")
        given = _parse_json(await limits.read_body(request))
        async with hub.turns.take("join"):
            return _make_response(await run_in_threadpool(_join, hub, given))


def _add_events(app: FastAPI, hub: Hub) -> None:
    """Add the route that streams the changes of a workspace as server-sent events."""

    @app.get("/v1/events")
    async def events(request: Request) -> Response:
        """Stream the changes of the workspace."""
        header = request.headers.get("authorization", "")
        if not header:
            raise unknown_caller()
        place = f"new {request.client.host if request.client else ''}"
        hub.buckets.take(place)

        def found() -> HubCaller:
            with hub.transaction() as connection:
                return authenticate(connection, hub.keys, header)

        async with hub.turns.take(place):
            caller = await run_in_threadpool(found)
        identify(request.scope, limits.token_name(header))
        return open_stream(hub, caller)
