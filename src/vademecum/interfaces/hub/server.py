"""The hub's protocol: a request is counted, measured, authenticated, and answered in one transaction.

Knows nothing of sockets and certificates, and keeps no state but its pool and its counters: any number of
servers may stand before one database.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from vademecum import __version__
from vademecum.interfaces.hub import limits, members, review, search, streams
from vademecum.interfaces.hub.access import HubCaller, HubKeys, authenticate, check_address, enter
from vademecum.interfaces.hub.events import HubChanges, open_stream
from vademecum.interfaces.hub.page.sessions import make_link
from vademecum.interfaces.hub.projection import CatchUp
from vademecum.interfaces.hub.rejections import Rejection, unknown_caller, wrong
from vademecum.interfaces.hub.streams import Desk
from vademecum.interfaces.web.headers import SAFE
from vademecum.memory import hub_search

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from psycopg import Connection
    from psycopg_pool import ConnectionPool

PROTOCOL = 1
STATEMENT_SECONDS = 5
DEAD_ROWS = (
    "a purge has emptied rows: their old content stays in the database's files until"
    " `VACUUM FULL hub.fact, hub.document, hub.passage, hub.posting, hub.vector` as hub_owner, and in the"
    " write-ahead log and backups until these are replaced"
)
_KNOWN = 10_000
_SEEN_EVERY = 300.0  # seconds
_LOG = logging.getLogger("vademecum.hub")


class HubRequest(NamedTuple):
    """A request once it is known who asks: what the work of a route is given."""

    connection: Connection[Any]
    caller: HubCaller
    keys: HubKeys
    body: Any
    query: Mapping[str, str]
    path: Mapping[str, str]

    @property
    def desk(self) -> Desk:
        """Where the work on its stream is done."""
        return Desk(self.connection, self.caller, self.keys, self.path["stream"])

    def number(self, name: str, default: int) -> int:
        """A number of the query."""
        said = self.query.get(name, str(default))
        if not said.isdecimal() or len(said) > 15:
            raise wrong(f"`{name}` is not a number")
        return int(said)


class Hub:
    """What all requests share: the pool, the keys and the counters."""

    def __init__(self, pool: ConnectionPool[Any], keys: HubKeys) -> None:
        self.pool, self.keys = pool, keys
        self.buckets = limits.Buckets()
        self.known: dict[str, int] = {}
        self.turns = limits.Turns(limits.AT_ONCE)
        self.searches = limits.Turns(limits.SEARCHES)
        self.behind = CatchUp(self.transaction)
        self.changes = HubChanges()
        self._seen: dict[str, float] = {}

    @contextlib.contextmanager
    def transaction(self, *, snapshot: bool = False) -> Iterator[Connection[Any]]:
        """A transaction whose statements cannot take for ever; nothing is acknowledged before its COMMIT.

        With `snapshot`, all of them see the same, whatever others commit meanwhile.
        """
        from psycopg import DataError, OperationalError, errors
        from psycopg_pool import PoolTimeout

        try:
            with self.pool.connection() as connection, connection.transaction():
                level = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;" if snapshot else ""
                connection.execute(f"{level}SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'")
                yield connection
        except PoolTimeout as error:
            raise limits.busy("the hub has too much to do", seconds=1) from error
        except errors.QueryCanceled as error:
            raise limits.busy("this took too long", seconds=2) from error
        except DataError as error:
            raise wrong("this holds a character or number that no database takes") from error
        except (errors.ReadOnlySqlTransaction, errors.DiskFull) as error:
            raise Rejection(
                503, "storage", "the hub's database does not take anything now; it is full or read-only"
            ) from error
        except OperationalError as error:
            raise Rejection(503, "storage", "the hub's database cannot be reached now") from error

    def ask(self, header: str, route: Route, body: Any, request: Request) -> Any:
        """Do the work of a route for whoever holds the token."""
        with self.transaction(snapshot=route.snapshot) as connection:
            caller = authenticate(connection, self.keys, header)
            asked = HubRequest(connection, caller, self.keys, body, request.query_params, request.path_params)
            done = route.work(asked)
        self._note_seen(caller)
        return done

    def _note_seen(self, caller: HubCaller) -> None:
        """Remember now and then when a machine was last heard of; what cannot be kept is no failure."""
        now = time.monotonic()
        if now - self._seen.get(caller.token, -_SEEN_EVERY) < _SEEN_EVERY:
            return
        if len(self._seen) >= _KNOWN:
            self._seen.clear()
        self._seen[caller.token] = now
        with contextlib.suppress(Rejection), self.transaction() as connection:
            enter(connection, caller.ws)
            connection.execute(
                "UPDATE hub.token SET seen_at = now() WHERE ws = %s AND token = %s", (caller.ws, caller.token)
            )

    def whose(self, header: str, name: str) -> int:
        """The workspace of a token, to wait for its turn; what it may do is read in each transaction."""
        with self.transaction() as connection:
            ws = authenticate(connection, self.keys, header).ws
        if len(self.known) >= _KNOWN:
            self.known.clear()
        self.known[name] = ws
        return ws


def create_hub(pool: ConnectionPool[Any], keys: HubKeys) -> FastAPI:
    """The application; the pool is opened and closed with it."""
    from vademecum.interfaces.hub.page.routes import add_page

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(pool.open)
        yield
        await run_in_threadpool(hub.behind.stop)
        await run_in_threadpool(pool.close)

    app = FastAPI(title="Vademecum hub", version=str(PROTOCOL), lifespan=lifespan, openapi_url=None)
    hub = Hub(pool, keys)
    app.state.hub = hub
    app.middleware("http")(_guard)
    app.add_middleware(
        limits.Doorman, buckets=hub.buckets, turns=hub.turns, known=hub.known, protocol=PROTOCOL
    )
    _add_open_routes(app, hub)
    for route in ROUTES:
        _add_route(app, hub, route)
    _add_events(app, hub)
    add_page(app, hub)
    return app


async def _guard(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
    """Speak one version of the protocol, tell refusals as JSON, and log without anybody's words."""
    begun = time.monotonic()
    spoken = request.headers.get("vade-protocol", "")
    try:
        check_address(request)
        if request.url.path.startswith("/v1/") and spoken != str(PROTOCOL):
            raise _other_version(spoken)
        response = await call(request)
    except Rejection as refused:
        response = _refusal(refused)
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


def _other_version(spoken: str) -> Rejection:
    newer = spoken.isdecimal() and int(spoken) > PROTOCOL
    old = f"this hub speaks protocol {PROTOCOL}; upgrade {'the hub' if newer else 'vade on this machine'}"
    return Rejection(426, "protocol", old, protocol=PROTOCOL, hub=__version__)


def _refusal(refused: Rejection) -> Response:
    response = _answer(refused.body(), refused.status)
    if refused.status == 429:
        response.headers["Retry-After"] = str(refused.more["retry_after"])
    if refused.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="vade"'
    if refused.status == 426:
        response.headers["Upgrade"] = f"vade/{PROTOCOL}"
    return response


def _answer(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value, ensure_ascii=False), status, media_type="application/json")


def _json(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise wrong("the body is not JSON") from error
    if not isinstance(given, dict):
        raise wrong("the body is not a JSON object")
    return given


async def _serve(hub: Hub, request: Request, route: Route) -> Any:
    """Count, read, wait for a turn, and work; the event loop never waits for the database."""
    header = request.headers.get("authorization", "")
    if not header:
        raise unknown_caller()
    name = limits.token_name(header)
    ws = hub.known.get(name)
    if ws is None:  # who guesses tokens is slowed down by where they come from
        place = f"new {request.client.host if request.client else ''}"
        hub.buckets.take(place)
        async with hub.turns.take(place, most=limits.BURST):  # which the bucket has let in
            ws = await run_in_threadpool(hub.whose, header, name)
    whole = await limits.read_body(request)

    def work() -> Any:
        return hub.ask(header, route, route.read(whole, request.path_params), request)

    async with contextlib.AsyncExitStack() as turn:
        if route.snapshot:
            await turn.enter_async_context(hub.searches.take(ws))
        await turn.enter_async_context(hub.turns.take(ws))
        done = await run_in_threadpool(work)
    if isinstance(done, dict) and done.get("stale"):
        hub.behind.wake(ws)
    return done


# ------------------------------------------------------------------------------- the work of each route


def _health(hub: Hub) -> dict[str, Any]:
    with hub.transaction() as connection:
        connection.execute("SELECT 1")
    return {"protocol": PROTOCOL, "version": __version__}


def _join(hub: Hub, given: Mapping[str, Any]) -> dict[str, Any]:
    """A token for whoever has the code; each try counts, whatever comes of it."""
    with hub.transaction() as connection:
        found = members.count_try(connection, str(given.get("code") or ""))
    if found is None:
        raise members.wrong_code()
    with hub.transaction() as connection:
        return members.join(connection, hub.keys, *found, given)


def _me(asked: HubRequest) -> dict[str, Any]:
    caller = asked.caller
    row = asked.connection.execute(
        "SELECT name, now(), rules FROM hub.workspace WHERE ws = %s", (caller.ws,)
    ).fetchone()
    assert row is not None
    passages, slow = hub_search.read_standing(asked.connection, caller.ws)
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
    }


def _list_streams(asked: HubRequest) -> dict[str, Any]:
    """Every stream, and what else a sync must know when it has changed: role, scopes, rules and quota."""
    rules = review.read_rules(asked.connection, asked.caller.ws)
    quota = list(streams.read_limits(asked.connection, asked.caller))
    standing = {
        "role": asked.caller.role,
        "scopes": sorted(asked.caller.scopes),
        "rules": rules,
        "quota": quota,
    }
    return {"streams": streams.list_streams(asked.connection, asked.caller), "standing": standing}


def _pull(asked: HubRequest) -> bytes:
    return b"".join(
        streams.read_facts(
            asked.desk,
            epoch=asked.number("epoch", 1),
            after=asked.number("after", 0),
            chain=asked.query.get("chain", ""),
            limit=asked.number("limit", limits.MOST_FACTS),
        )
    )


def _read_push(body: bytes, path: Mapping[str, str]) -> streams.Push:
    given = streams.read_push(path["stream"], body)
    streams.check_secrets(given)
    return given


def _push(asked: HubRequest) -> dict[str, Any]:
    told = review.push_reviewed(asked.desk, asked.body)
    if any(fact.kind == "purge" for fact in asked.body.facts):
        _LOG.warning("%s", DEAD_ROWS)
    return told


def _acknowledge(asked: HubRequest) -> dict[str, Any]:
    seq, replica = asked.body.get("seq"), _replica(asked)
    if type(seq) is not int:
        raise wrong("an acknowledgement names a `seq`")
    streams.acknowledge_purge(asked.desk, seq, replica)
    return {"acknowledged": seq}


def _replica(asked: HubRequest) -> str:
    replica = asked.body.get("replica")
    if not isinstance(replica, str) or not replica.isalnum() or not 8 <= len(replica) <= 32:
        raise wrong("a `replica` has 8 to 32 letters and digits")
    return replica


def _find(asked: HubRequest) -> dict[str, Any]:
    return {"dots": streams.find_text(asked.desk, str(asked.body.get("text") or ""))}


def _begin_epoch(asked: HubRequest) -> dict[str, Any]:
    said = asked.body.get("stamp")
    stamp = streams.read_stamp(said) if isinstance(said, dict) else None
    fact = streams.read_fact(json.dumps(asked.body.get("fact")))
    if stamp is None or fact.stream != asked.path["stream"]:
        raise wrong("a fact of this stream and its stamp are needed")
    epoch = streams.begin_epoch(asked.desk, fact, stamp)
    if epoch == stamp.epoch + 1:
        members.log(
            asked.connection, asked.caller.ws, asked.caller.name, "epoch", stream=fact.stream, epoch=epoch
        )
    return {"epoch": epoch}


def _lease(asked: HubRequest) -> dict[str, Any]:
    seconds = asked.body.get("seconds", 300)
    if type(seconds) is not int:
        raise wrong("`seconds` is not a number")
    return streams.take_lease(asked.desk, _replica(asked), seconds)


def _change_member(asked: HubRequest) -> dict[str, Any]:
    return members.change_member(
        asked.connection, asked.caller, asked.path["name"], role=asked.body.get("role")
    )


def _revoke(asked: HubRequest) -> dict[str, Any]:
    only = asked.body.get("only") is True
    return members.revoke_token(asked.connection, asked.caller, asked.path["number"], only=only)


def _search(asked: HubRequest) -> dict[str, Any]:
    return search.search(asked.connection, asked.caller, asked.body or search.read_address(asked.query))


class Route(NamedTuple):
    """One request of the protocol: how its body is read, and what is done then."""

    method: str
    path: str
    work: Callable[[HubRequest], Any]
    read: Callable[[bytes, Mapping[str, str]], Any] = lambda body, _: _json(body)
    snapshot: bool = False  # whether it asks much of one state of the database, in a turn of its own


_STREAM = "/v1/streams/{stream:path}"
ROUTES = (
    Route("GET", "/v1/me", _me),
    Route("GET", "/v1/streams", _list_streams),
    Route("GET", f"{_STREAM}/facts", _pull),
    Route("POST", f"{_STREAM}/facts", _push, _read_push),
    Route("POST", f"{_STREAM}/purge/ack", _acknowledge),
    Route("GET", f"{_STREAM}/purge", lambda asked: {"purges": streams.list_purges(asked.desk)}),
    Route("POST", f"{_STREAM}/purge", _find),
    Route("POST", f"{_STREAM}/epoch", _begin_epoch),
    Route("POST", f"{_STREAM}/lease", _lease),
    Route("GET", "/v1/search", _search, snapshot=True),
    Route("POST", "/v1/search", _search, snapshot=True),
    Route("GET", "/v1/members", lambda asked: {"members": members.list_members(*asked[:2])}),
    Route("POST", "/v1/members/{name}", _change_member),
    Route("GET", "/v1/tokens", lambda asked: {"tokens": members.list_tokens(*asked[:2])}),
    Route("POST", "/v1/tokens", lambda asked: members.add_token(*asked[:4])),
    Route("DELETE", "/v1/tokens/{number}", _revoke),
    Route("POST", "/v1/invites", lambda asked: members.invite(*asked[:4])),
    Route("POST", "/v1/page", lambda asked: make_link(*asked[:3])),
    Route("GET", "/v1/audit", lambda asked: members.read_log(*asked[:2], asked.query)),
)


def _add_route(app: FastAPI, hub: Hub, route: Route) -> None:
    async def endpoint(request: Request) -> Response:
        done = await _serve(hub, request, route)
        if isinstance(done, bytes):
            return Response(done, media_type="application/x-ndjson")
        response = _answer(done)
        if route.method == "GET":
            tag = f'"{hashlib.sha256(response.body).hexdigest()[:32]}"'
            if request.headers.get("if-none-match") == tag:
                response = Response(status_code=304)
            response.headers["ETag"] = tag
        return response

    app.add_api_route(route.path, endpoint, methods=[route.method], name=route.path)


def _add_open_routes(app: FastAPI, hub: Hub) -> None:
    """What is answered without a token."""

    @app.get("/health")
    async def health() -> Response:
        """Whether the database answers."""
        async with hub.turns.take("health"):
            return _answer(await run_in_threadpool(_health, hub))

    @app.post("/v1/join")
    async def join(request: Request) -> Response:
        """A token for whoever has the code."""
        hub.buckets.take(f"join {request.client.host if request.client else ''}")
        given = _json(await limits.read_body(request))
        async with hub.turns.take("join"):
            return _answer(await run_in_threadpool(_join, hub, given))


def _add_events(app: FastAPI, hub: Hub) -> None:
    """The one answer that does not end."""

    @app.get("/v1/events")
    async def events(request: Request) -> Response:
        """Which streams have something new, as it happens."""
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
        return open_stream(hub, caller)
