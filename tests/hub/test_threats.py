"""What strangers, other sites and other members can try at a hub: S10 to S14, S20 and S21 over a real one."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import random
import re
import socket
import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from hub.hubs import DOC, KEYS, Writer, ask
from hub.pages import STREAM, Machine, browse, entry, link_of
from hub.test_team import Member, meet, unsigned
from vademecum.errors import VadeError
from vademecum.memory import connect
from vademecum.store.home import Home
from vademecum.sync import hub_client, hub_sync, membership
from vademecum.sync.hub_client import HubClient
from vademecum.types import Origin
from vademecum_hub import members
from vademecum_hub.authorization import HubKeys, derive_keys, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hub.hubs import Answer, World
    from hub.pages import Browser

# Answered without a token or cookie.
OPEN = {
    "/",
    "/health",
    "/ready",
    "/static/{name:path}",
    "/enter",
    "/v1/join",
}  # answered without a token or cookie
FILLED = {"{stream:path}": "global", "{name}": "anna", "{number}": "1", "{name:path}": "base.js"}


def routes(world: World, door: str = "/~0") -> list[tuple[str, str, str]]:
    """Every method and address that the application answers, and the address with something in its places."""
    found = []
    for route in world.app.routes:
        path = route.path
        for place, value in FILLED.items():
            path = path.replace(place, value)
        path = path.replace("/~{session}", door)
        found += [(method, route.path, path) for method in sorted(route.methods - {"HEAD"})]
    return sorted(found)


def fresh(world: World) -> None:
    """Nobody has asked too often: these tests ask far more often than anybody may."""
    world.app.state.hub.buckets._left.clear()


def raw(world: World, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b"{}") -> Answer:
    """A request with exactly these headers."""
    from hub.hubs import Answer

    fresh(world)
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(body)))
    try:
        connection.endheaders(body)
        response = connection.getresponse()
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return Answer(response.status, response.headers, b"")
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def allowed(world: World, page: Browser | None = None) -> list[tuple[str, str]]:
    """The headers of who may do everything, by both ways in."""
    host = ("Host", urlsplit(world.url).netloc)
    made = [host, ("Vade-Protocol", "1"), ("Authorization", f"Bearer {world.anna}")]
    return made + ([("Cookie", page.cookie), ("Vade-Page", page.secret)] if page else [])


# ------------------------------------------------------------------------------- S10: another site's page


def state_of(world: World) -> list[Any]:
    """What a change would show in."""
    tables = ("fact", "member", "token", "invite", "lease", "purge_ack", "admin_log", "stream")
    counts: list[Any] = [world.sql(f"SELECT count(*) FROM hub.{each}") for each in tables]
    return [*counts, world.sql("SELECT rules FROM hub.workspace"), world.sql("SELECT role FROM hub.member")]


@pytest.mark.full(but=1)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://{host}"])
def test_a_page_of_another_site_gets_nothing_done_at_any_address(world: World, origin: str) -> None:
    assert (
        Machine(world, "aaaaaaaa", world.anna).write("records/a.md", entry("A text.", "aaaa")).status == 200
    )
    page = browse(world)
    host = urlsplit(world.url).netloc
    before = state_of(world)
    for method, route, path in routes(world, page.door):
        for more in ([("Origin", origin.format(host=host))], [("Sec-Fetch-Site", "cross-site")]):
            if more[0][0] == "Sec-Fetch-Site" and method == "GET" and route in OPEN:
                continue  # a link that somebody follows
            kinds = [("Content-Type", "application/json")]
            got = raw(world, method, path, [*allowed(world, page), *kinds, *more])
            assert got.status in (401, 403), (method, path, more, got.status)
            assert b"A text." not in got.body
    assert state_of(world) == before


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_what_a_form_can_send_is_refused_at_every_address_that_changes_something(
    world: World, kind: str
) -> None:
    page = browse(world)
    before = state_of(world)
    for method, _, path in routes(world, page.door):
        if method == "GET":
            continue
        for headers in (allowed(world, page), allowed(world, page)[:1]):
            got = raw(world, method, path, [*headers, ("Content-Type", kind)])
            assert got.status in (403, 415), (method, path, got.status)
    assert state_of(world) == before


def test_no_answer_allows_another_origin_to_read_it(world: World) -> None:
    page = browse(world)
    for method, _, path in routes(world, page.door):
        for asked in (method, "OPTIONS"):
            got = raw(world, asked, path, [*allowed(world, page), ("Access-Control-Request-Method", "POST")])
            assert not [each for each in got.headers if each.lower().startswith("access-control-")], path


# ------------------------------------------------------------------------------- S11: a rebound name


@pytest.mark.full(but=2)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "", "0.0.0.0"]
)
def test_under_another_name_no_address_answers(world: World, host: str) -> None:
    assert (
        Machine(world, "aaaaaaaa", world.anna).write("records/a.md", entry("A text.", "aaaa")).status == 200
    )
    page = browse(world)
    named = host.format(port=urlsplit(world.url).port)
    for method, _, path in [*routes(world, page.door), ("GET", "", "/nowhere"), ("GET", "", "/openapi.json")]:
        got = raw(world, method, path, [("Host", named), *allowed(world, page)[1:]])
        assert got.status == 421, (method, path, got.status)
        assert b"A text." not in got.body


def test_there_is_no_socket_that_stays_open_for_a_page_of_another_site(world: World) -> None:
    page = browse(world)
    for path in ("/", "/v1/events", f"{page.door}/api/v1/events", "/ws"):
        more = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Origin", "http://evil.example")]
        more += [("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
        assert raw(world, "GET", path, [*allowed(world, page), *more]).status in (401, 403, 404)


# ------------------------------------------------------------------------------- S12: nothing is open


WRONG = ("", "Bearer", "Bearer ", "Bearer vade_", "Basic {token}", "{token}", "Bearer {token}x")


@pytest.mark.full(but=1)
@pytest.mark.parametrize("given", WRONG)
def test_no_address_answers_without_the_right_token(world: World, given: str) -> None:
    assert (
        Machine(world, "aaaaaaaa", world.anna).write("records/a.md", entry("A text.", "aaaa")).status == 200
    )
    page = browse(world)
    host, before = ("Host", urlsplit(world.url).netloc), state_of(world)
    header = [("Authorization", given.format(token=world.anna))] if given else []
    seen = set()
    for method, route, path in routes(world, page.door):
        if route in OPEN:
            seen.add(route)
            continue
        cookies: tuple[list[tuple[str, str]], ...] = (
            [],
            [("Cookie", f"vade-hub={'10'[page.cookie[9] == '1']}{page.cookie[10:]}")],
            [("Cookie", "vade-hub=")],
        )
        for cookie in cookies:
            got = raw(world, method, path, [host, ("Vade-Protocol", "1"), *header, *cookie])
            assert got.status == 401, (method, path, got.status)
            assert b"A text." not in got.body
    assert seen == OPEN  # and there is no further one
    assert state_of(world) == before


def test_an_open_address_tells_nothing_of_anybody(world: World) -> None:
    writer = Writer("aaaaaaaa", "project/quicksilver")
    writer.fact(value={"raw": "A text with mercury."})
    assert world.push(writer).status == 200
    for _, route, path in routes(world):
        if route in OPEN:
            for method in ("GET", "POST"):
                got = raw(world, method, path, [*allowed(world)[:2]], b'{"code": "ZZZZZZ00000000"}')
                assert not re.search(rb"mercury|quicksilver|anna|team", got.body.replace(b"steam", b"")), path
    assert set(ask(world.url, "GET", "/health").json) == {"protocol", "version"}


# ------------------------------------------------------------------------------- S13: one decision


class Role(NamedTuple):
    """Who asks: a member's role, and what their token may do."""

    role: str
    scopes: tuple[str, ...]

    def at_least(self, role: str) -> bool:
        order = ("reader", "writer", "editor", "owner")
        return order.index(self.role) >= order.index(role)


ALL = ("read", "write", "person")
WHO = [Role(role, ALL) for role in ("reader", "writer", "editor", "owner")]
WHO += [
    Role("owner", ("read", "write")),
    Role("owner", ("read", "person")),
    Role("owner", ("write", "person")),
]
# What is asked: the role it needs, and whether a person has to.
NEEDED = {
    "add": ("writer", False), "edit": ("writer", True), "remove": ("writer", True),
    "verify": ("editor", True), "protect": ("editor", True), "purge": ("owner", True),
    "invite": ("owner", True), "role": ("owner", True), "revoke": ("owner", True), "rule": ("owner", True),
    "read": ("reader", False), "search": ("reader", False), "log": ("owner", True),
}  # fmt: skip
READS = ("read", "search", "log")


def decides(who: Role, what: str) -> bool:
    """What the table of roles in docs/hub.md says."""
    role, person = NEEDED[what]
    scope = "read" if what in READS else "write"
    return who.at_least(role) and scope in who.scopes and (not person or "person" in who.scopes)


def by_protocol(world: World, token: str, what: str) -> bool | None:
    """Whether the protocol lets it happen."""
    if what in ("add", "edit", "remove", "verify", "protect", "purge"):
        return _pushed(world, token, what)
    asked: dict[str, tuple[str, str, dict[str, Any] | None]] = {
        "invite": ("POST", "/v1/invites", {"name": "zoe"}),
        "role": ("POST", "/v1/members/carl", {"role": "editor"}),
        "revoke": ("DELETE", f"/v1/tokens/{_token_of(world, 'carl')}", None),
        "read": ("GET", f"/v1/streams/{quote(STREAM)}/facts?epoch=1", None),
        "search": ("POST", "/v1/search", {"query": "deploy"}),
        "log": ("GET", "/v1/audit", None),
    }
    if what not in asked:
        return None
    method, path, body = asked[what]
    return world.ask(method, path, token, body).status == 200


def _token_of(world: World, name: str) -> str:
    rows = world.sql(
        "SELECT t.token::text FROM hub.token t JOIN hub.member m USING (ws, member) WHERE m.name = %s", name
    )
    return str(rows[0][0])


def _pushed(world: World, token: str, what: str) -> bool:
    lines = world.pull(STREAM, epoch=1).lines
    put = next(each["fact"] for each in lines if each["fact"]["kind"] == "put")
    lamport = max(each["fact"]["lam"] for each in lines) + 1
    me = world.ask("GET", "/v1/me", token).json["member"] if what == "verify" else ""
    fact_id = {"doc": put["doc"], "target": put["target"], "based_on": (_dot(put),)}
    origin = "user" if "person" in _scopes(world, token) else "agent"
    facts: dict[str, tuple[str, dict[str, Any]]] = {
        "add": ("put", {"doc": put["doc"], "target": "new1", "value": {"raw": "More."}}),
        "edit": ("put", {**fact_id, "value": {"raw": "Edited."}}),
        "remove": ("drop", {**fact_id, "removes": fact_id["based_on"], "value": None}),
        "verify": ("vouch", {"doc": put["doc"], "target": f"{'0' * 64} {me}", "value": True}),
        "protect": ("protected", {"doc": put["doc"], "target": "", "value": True}),
        "purge": ("purge", {"doc": "", "target": "", "value": {"dots": [str(_dot(put))]}}),
    }
    kind, given = facts[what]
    writer = Writer("bbbbbbbb", STREAM)
    answer = world.push(writer, writer.fact(kind, lamport, origin=origin, **given), token=token)
    assert answer.status in (200, 403), answer.body
    return answer.status == 200


def _scopes(world: World, token: str) -> list[str]:
    rows = world.sql("SELECT scopes FROM hub.token WHERE hash = %s", KEYS.hash_token(token))
    return list(rows[0][0])


def _dot(fact: dict[str, Any]) -> Any:
    from vademecum.sync.facts import FactId

    return FactId(fact["replica"], fact["n"])


def by_page(world: World, token: str, what: str) -> bool | None:
    """Whether the page lets it happen; an agent has none."""
    answer = world.ask("POST", "/v1/page", token, {})
    if answer.status != 200:
        return False
    page = browse(world, token)
    shown = page.document("records/deploy.md")
    if what in READS:
        told = page.json("/members") if what == "log" else shown
        return bool(told["log"]) if what == "log" else what == "read" or None
    done = {
        "add": lambda: page.change("/entries", shown, 0, entry="", text="More."),
        "edit": lambda: page.change("/entries", shown, 0, text="Edited."),
        "remove": lambda: page.change("/entries", shown, 0, text=""),
        "verify": lambda: page.change("/vouches", shown, 0, yes=True),
        "rule": lambda: page.post("/rules", {"two_person": True}),
        "revoke": lambda: page.post("/revoke", {"id": _token_of(world, "carl")}),
    }
    return done[what]().status == 200 if what in done else None


@pytest.mark.full
@pytest.mark.parametrize("who", WHO, ids=lambda who: f"{who.role}-{'-'.join(who.scopes)}")
def test_the_protocol_and_the_page_decide_as_the_table_of_roles_says(
    world: World, postgres: Any, who: Role
) -> None:
    assert Machine(world, "aaaaaaaa", world.anna).write(
        "records/deploy.md", entry("Deploy on Mondays.", "aaaa1111")
    ).status == 200  # fmt: skip
    world.member("carl", "writer")
    token = world.member("bert", who.role, *who.scopes)
    kept = world.sql("SELECT count(*) FROM hub.fact")
    for what in NEEDED:
        for name, tried in (("protocol", by_protocol), ("page", by_page)):
            fresh(world)
            with undone(world):
                got = tried(world, token, what)
            wanted = decides(who, what) and (name == "protocol" or {"person", "read"} <= set(who.scopes))
            assert got is None or got == wanted, (what, name)
    assert world.sql("SELECT count(*) FROM hub.fact") == kept


@contextlib.contextmanager
def undone(world: World) -> Iterator[None]:
    """Whatever is done is taken back, so that each question is asked of the same workspace."""
    with psycopg.connect(world.database, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'hub'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition AND relname <> 'migration'"
        ).fetchall()
        tables = [name for (name,) in rows]
        for each in tables:
            connection.execute(f"CREATE TEMP TABLE kept_{each} AS TABLE hub.{each}")
        try:
            yield
        finally:
            connection.execute("SET session_replication_role = replica")
            for each in tables:
                connection.execute(f"DELETE FROM hub.{each}")
                connection.execute(f"INSERT INTO hub.{each} SELECT * FROM kept_{each}")
                connection.execute(f"DROP TABLE kept_{each}")


# ------------------------------------------------------------------------------- S14: tokens and handles


def test_a_token_of_another_audience_opens_nothing(world: World, tmp_path: Path) -> None:
    from vademecum.interfaces.mcp.http import token_of

    other = derive_keys(b"the key of another hub, of 32 characters")
    with world.owner() as connection:
        from vademecum_hub.authorization import enter

        enter(connection, world.ws)
        member = connection.execute("SELECT member FROM hub.member").fetchone()
        assert member is not None
        foreign = _make(connection, other, world.ws, str(member[0]))
        expired = _make(connection, KEYS, world.ws, str(member[0]))
        connection.execute(
            "UPDATE hub.token SET expires = now() WHERE hash = %s", (KEYS.hash_token(expired),)
        )
    local = token_of(Home(tmp_path / "home"))  # of `vade mcp --http` on this machine
    jwt = "eyJhbGciOiJub25lIn0.eyJhdWQiOiJodWIiLCJzdWIiOiJhbm5hIn0."
    for token in (foreign, expired, local, jwt, new_token(), f"vade_{local}"):
        for method, route, path in routes(world):
            if route not in OPEN and route.startswith("/v1/"):
                fresh(world)
                assert world.ask(method, path, token, {}).status == 401, path


def _make(connection: Any, keys: HubKeys, ws: int, member: str) -> str:
    made, _ = members.make_token(
        connection, keys, ws=ws, member=member, scopes=ALL, label="", replica=None
    )  # fmt: skip
    return made


def test_what_belongs_to_another_member_or_workspace_is_no_handle(world: World) -> None:
    """Cookies, links, doors, sessions, ids of tokens and machines: each is its holder's alone."""
    ws, _ = world.workspace("team")
    eve, bert = world.member("eve", "owner", ws=ws), world.member("bert", "writer", replica="bbbbbbbb")
    anna, hers, his = browse(world), browse(world, eve), browse(world, bert)
    for thief in (hers, his):
        for cookie, door in ((thief.cookie, anna.door), (anna.cookie, thief.door)):
            mixed = type(anna)(world, door, cookie, thief.secret)
            assert mixed.get("/members").status == 401
            assert mixed.post("/rules", {"two_person": True}).status == 401
        stolen = type(anna)(world, anna.door, anna.cookie, thief.secret)  # another page's secret
        assert stolen.post("/rules", {"two_person": True}).status == 403
    link = link_of(world, bert)
    for changed in (
        link.replace(f"{world.ws}.", f"{ws}.", 1),
        link.replace(his.door[2:], anna.door[2:]),
        f"{link}0",
    ):
        got = ask(world.url, "GET", changed, Vade_Protocol="")
        assert got.status in (200, 403)
        assert got.status == 403 or changed == link
    number = world.ask("GET", "/v1/tokens").json["tokens"][0]["id"]
    for token in (eve, bert):
        assert world.ask("DELETE", f"/v1/tokens/{number}", token).status in (403, 404)
    assert his.post("/revoke", {"id": number}).status == 404
    writer = Writer("aaaaaaaa")
    first = writer.fact()
    writer.fact("purge", doc="", target="", value={"dots": [str(first.id)]})
    assert world.push(writer).status == 200
    ack = {"seq": 2, "replica": "aaaaaaaa"}
    assert world.ask("POST", "/v1/streams/global/purge/ack", bert, ack).status == 422  # for another machine
    stranger = Writer("aaaaaaaa")  # in the name of another member's machine
    stranger.made = list(writer.made)
    fact = stranger.fact(value={"raw": "Forged."}, doc=DOC, target="e9")
    got = world.push(stranger, fact, token=bert)
    assert (got.status, got.code) == (409, "forked")


class Listener(http.server.BaseHTTPRequestHandler):
    """A server that keeps what it is sent, and may lead on to another."""

    to = ""

    def do_GET(self) -> None:
        self.server.heard.append((self.path, dict(self.headers)))  # type: ignore[attr-defined]
        self.send_response(307 if self.server.to else 200)  # type: ignore[attr-defined]
        if self.server.to:  # type: ignore[attr-defined]
            self.send_header("Location", self.server.to + self.path)  # type: ignore[attr-defined]
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def listener(to: str = "") -> Iterator[Any]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    server.heard, server.to = [], to  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def test_no_token_is_led_on_to_another_server(world: World) -> None:
    with listener() as thief, listener(f"http://127.0.0.1:{thief.server_port}") as leads:
        client = HubClient(f"http://127.0.0.1:{leads.server_port}", world.anna, patience=0)
        for method, path in (("GET", "/v1/streams"), ("POST", "/v1/streams/global/facts"), ("GET", "/v1/me")):
            with contextlib.suppress(VadeError):
                client.ask(method, path, b"{}" if method == "POST" else None).json()
        assert len(leads.heard) == 3
        assert thief.heard == []


@pytest.mark.full
def test_each_hub_is_sent_its_own_token_and_the_hub_calls_nobody(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, bert = Member(tmp_path, "anna", world, "owner"), Member(tmp_path, "bert", world, "editor")
    called: list[tuple[str, Any]] = []
    sent: list[tuple[str, str]] = []
    reach, send = socket.socket.connect, hub_client.HubClient._send

    def noted(self: socket.socket, address: Any) -> None:
        called.append((threading.current_thread().name, address))
        reach(self, address)

    def heard(self: HubClient, method: str, path: str, body: Any, headers: Any) -> Any:
        sent.append((self._parts.netloc, self._token))
        return send(self, method, path, body, headers)

    monkeypatch.setattr(socket.socket, "connect", noted)
    monkeypatch.setattr(hub_client.HubClient, "_send", heard)
    anna.memory().store("Deploys happen on Fridays.", key="deploys", team="ours")
    meet(anna, bert)
    assert world.ask("POST", "/v1/search", body={"query": "deploys"}).status == 200
    here = urlsplit(world.url).netloc
    assert {where for where, _ in sent} == {here}
    assert {f"{at[0]}:{at[1]}" for _, at in called if isinstance(at, tuple)} == {here}
    assert not [name for name, _ in called if "AnyIO" in name or "worker" in name.lower()]  # the hub's own
    rows = json.dumps(world.sql("SELECT row_to_json(t)::text FROM hub.token t"))
    assert world.anna not in rows


# ------------------------------------------------------------------------------- S20: nobody else's memory


PEOPLE, DOORS = ("anna", "bert", "cleo"), ("facts", "search", "page")


class Canaries:
    """Three people in two teams, each with a workspace of their own, and which word is whose."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.words: dict[str, str] = {}
        self.tokens: dict[tuple[str, str], str] = {}
        self.publics: dict[str, str] = {}
        self.streams: dict[str, list[str]] = {}
        teams = {"one": ("anna", "bert"), "two": ("bert", "cleo")}
        spaces = {**teams, **{f"own-{who}": (who,) for who in PEOPLE}}
        for space, there in spaces.items():
            ws, self.publics[space] = world.workspace("personal" if space.startswith("own") else "team")
            for who in there:
                self.tokens[space, who] = world.member(who, "owner", ws=ws)
            for stream in ("global", f"project/{space}", "project/shared"):
                word = f"canary{len(self.words):02}x{space.replace('-', '')}"
                self.words[word] = space
                self.streams.setdefault(space, []).append(stream)
                machine = Machine(world, "aaaaaaaa", self.tokens[space, there[0]], stream)
                text = f"---\ntitle: {word}\ntags: [{word}]\n---\n" + entry(
                    f"Shared word: {word}.", "aaaa1111"
                )
                fresh(world)
                assert machine.write(f"records/{word}.md", text).status == 200
        self.pages = {key: browse(world, token) for key, token in self.tokens.items()}

    def foreign(self, space: str) -> list[str]:
        return [word for word, where in self.words.items() if where != space]


def read_through(canaries: Canaries, door: str, key: tuple[str, str], choose: random.Random) -> bytes:
    """One random read in one workspace, as one person."""
    world, token = canaries.world, canaries.tokens[key]
    fresh(world)
    stream = choose.choice([each for all_ in canaries.streams.values() for each in all_])
    word = choose.choice([*canaries.words])
    if door == "facts":
        path = choose.choice(
            ["/v1/streams", f"/v1/streams/{quote(stream)}/facts?epoch=1&limit=1000", "/v1/members",
             "/v1/tokens", "/v1/audit", f"/v1/streams/{quote(stream)}/purge", "/v1/me"]
        )  # fmt: skip
        return world.ask("GET", path, token).body
    if door == "search":
        query = choose.choice(["shared word", word, "deploy", f'title:"{word}"', stream])
        body: dict[str, Any] = {"query": query, "mode": choose.choice(["hybrid", "bm25", "vector"])}
        body |= {"max_results": 100, "min_score": 0, "max_weak": 100}
        found = world.ask("POST", "/v1/search", token, body)
        return found.body.replace(word.encode(), b"") if word in query else found.body
    page = canaries.pages[key]
    path = choose.choice(["/activity", "/documents", "/review", "/members", "/document"])
    other = choose.choice([*canaries.pages])  # the id of a document that may be another workspace's
    rows = (
        canaries.pages[other].json("/documents", stream=stream) if path == "/document" else {"documents": []}
    )
    doc = rows["documents"][0]["doc"] if rows["documents"] else ""
    answer = page.get(path, stream=stream, doc=doc, q=word)
    return answer.body.replace(word.encode(), b"")


def reads(world: World, times: int) -> None:
    canaries, choose = Canaries(world), random.Random(times)
    found = 0
    for turn in range(times):
        key = choose.choice([*canaries.tokens])
        door = DOORS[turn % 3]
        got = read_through(canaries, door, key, choose)
        own = [word for word, where in canaries.words.items() if where == key[0]]
        found += any(word.encode() in got for word in own)
        leaked = [word for word in canaries.foreign(key[0]) if word.encode() in got]
        assert not leaked, (door, key, leaked, got[:500])
    assert found > times / 20  # there is something to be seen


@pytest.mark.full
def test_three_people_in_two_teams_read_nothing_of_anybody_else_through_any_door(world: World) -> None:
    reads(world, 600)


@pytest.mark.soak
def test_ten_thousand_random_reads_show_nothing_of_anybody_else(world: World) -> None:
    reads(world, 10_000)


@pytest.mark.full
def test_a_home_has_the_files_of_its_own_teams_alone_and_its_doors_show_no_other(
    world: World, tmp_path: Path
) -> None:
    canaries = Canaries(world)
    for who in PEOPLE:
        (tmp_path / who / "project").mkdir(parents=True)
        home = Home(tmp_path / who / "home")
        mine = [space for space, other in canaries.tokens if other == who and not space.startswith("own")]
        memory = connect(home=home.path, cwd=tmp_path / who / "project", origin=Origin.USER,
                         environ={"VADE_PROJECT_ID": "shared"})  # fmt: skip
        memory.store("My own words.", key="own")
        for space in mine:
            fresh(world)
            membership.join_with_token(home, world.url, canaries.tokens[space, who])
            joined = membership.find_membership(home, canaries.publics[space])
            hub_sync.HubSync(home, joined, b"", f"human:{who}", memory.workspace.now).run()
        memory.care.index()
        foreign = [word for word, space in canaries.words.items() if space not in mine]
        own = [word for word, space in canaries.words.items() if space in mine]
        everything = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())
        seen = everything.decode(errors="replace")
        assert [word for word in own if word not in seen] == []
        assert [word for word in foreign if word in seen] == []
        got = repr([memory.search("shared word canary", max_results=100, min_score=0), memory.list()])
        assert any(word in got for word in own)
        for word in foreign:
            got += repr(memory.search(word, max_results=100, min_score=0).results)
            got += memory.injection.block(query=word).text + memory.injection.remind(word, budget=5000).text
            with contextlib.suppress(VadeError):
                got += repr(memory.show(word))
        assert [word for word in foreign if word in got] == []


# ------------------------------------------------------------------------------- S21: an altered database


def logged(world: World, lines: int) -> None:
    """A log of so many lines."""
    with world.owner() as connection:
        from vademecum_hub.authorization import enter

        enter(connection, world.ws)
        for number in range(lines):
            members.append_log(connection, world.ws, "anna", "invited", member=f"member-{number}")


Rows = list[tuple[int, dict[str, Any], bytes, bytes]]


def edit(rows: Rows, at: int) -> tuple[Rows, int]:
    seq, line, prev, hashed = rows[at]
    return [*rows[:at], (seq, {**line, "by": "eve"}, prev, hashed), *rows[at + 1 :]], at + 1


def delete(rows: Rows, at: int) -> tuple[Rows, int]:
    return rows[:at] + rows[at + 1 :], at + 1


def swap(rows: Rows, at: int) -> tuple[Rows, int]:
    at = min(at, len(rows) - 2)
    one, two = rows[at], rows[at + 1]
    return [*rows[:at], (one[0], *two[1:]), (two[0], *one[1:]), *rows[at + 2 :]], at + 1


def insert(rows: Rows, at: int) -> tuple[Rows, int]:
    new = (rows[at][0], {"by": "eve", "did": "invited", "at": ""}, rows[at][2], rows[at][3])
    return [*rows[:at], new, *((row[0] + 1, *row[1:]) for row in rows[at:])], at + 1


def truncate(rows: Rows, at: int) -> tuple[Rows, int]:
    return rows[:at], at + 1


def rewrite(rows: Rows, at: int) -> tuple[Rows, int]:
    """Another past from there on, rightly chained to what is left."""
    import hashlib

    made, chain = rows[:at], rows[at - 1][3] if at else bytes(32)
    for seq, line, _, _ in rows[at:]:
        forged = {**line, "by": "eve"}
        hashed = hashlib.sha256(chain + json.dumps(forged, sort_keys=True).encode()).digest()
        made = [*made, (seq, forged, chain, hashed)]
        chain = hashed
    return made, len(rows)  # what was seen last is the first line that is known to be another one


@pytest.mark.full(but=1)
@pytest.mark.parametrize("tamper", [edit, delete, swap, insert, truncate, rewrite])
def test_every_alteration_of_the_log_is_told_with_its_first_line(
    world: World, tamper: Callable[[Rows, int], tuple[Rows, int]]
) -> None:
    logged(world, 40)
    choose = random.Random(tamper.__name__)
    whole = world.ask("GET", "/v1/audit").json
    assert (whole["whole"], whole["broken"], whole["seq"]) == (True, None, 40)
    caller = _caller(world)
    with psycopg.connect(world.database) as connection:
        rows: Rows = connection.execute(
            "SELECT seq, line, prev, hash FROM hub.admin_log WHERE ws = %s ORDER BY seq", (world.ws,)
        ).fetchall()
        for _ in range(200):
            changed, first = tamper(rows, choose.randrange(len(rows)))
            with connection.transaction(force_rollback=True):
                connection.execute("DELETE FROM hub.admin_log WHERE ws = %s", (world.ws,))
                connection.cursor().executemany(
                    "INSERT INTO hub.admin_log (ws, seq, line, prev, hash) VALUES (%s, %s, %s, %s, %s)",
                    [(world.ws, seq, json.dumps(line), prev, hashed) for seq, line, prev, hashed in changed],
                )
                seen = {"seq": str(whole["seq"]), "head": whole["head"]}
                told = members.read_log(connection, caller, seen)
            assert (told["whole"], told["broken"]) == (False, first)


def _caller(world: World) -> Any:
    from vademecum_hub.authorization import authenticate

    with world.owner() as connection:
        return authenticate(connection, KEYS, f"Bearer {world.anna}")


def test_an_owner_is_told_by_status_that_the_end_of_the_log_is_gone(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hub.test_commands import vade

    anna = Member(tmp_path, "anna", world, "owner")
    logged(world, 5)
    home = anna.base / "home"
    assert vade(capsys, home, "hub", "status")["workspaces"][0]["problem"] == ""
    logged(world, 2)
    assert vade(capsys, home, "hub", "status")["workspaces"][0]["problem"] == ""
    world.sql("DELETE FROM hub.admin_log WHERE seq > 5 RETURNING 1")
    for _ in range(2):  # it is not forgotten by being told once
        problem = vade(capsys, home, "hub", "status")["workspaces"][0]["problem"]
        assert problem == "somebody altered the hub's log of members (line 6): tell whoever runs the hub"


FACTS = {
    "edit": "UPDATE hub.fact SET value = convert_to(replace(convert_from(value, 'UTF8'), 'Friday', 'Monday'),"
    " 'UTF8') WHERE value IS NOT NULL AND position('Friday'::bytea IN value) > 0",
    "origin": "UPDATE hub.fact SET origin = 'import' WHERE kind = 'put'",
    "target": "UPDATE hub.fact SET target = 'other1' WHERE kind = 'put'",
    "swap": "UPDATE hub.fact SET n = n + 1000 WHERE n < 3;"
    " UPDATE hub.fact SET n = CASE n WHEN 1001 THEN 2 ELSE 1 END WHERE n > 1000",
    "chain": "UPDATE hub.fact SET chain = sha256(chain) WHERE kind = 'put'",
    "delete": "DELETE FROM hub.fact WHERE seq = 2",
    "cut": "DELETE FROM hub.fact WHERE seq = (SELECT max(seq) FROM hub.fact)",
}


@pytest.mark.full(but=2)
@pytest.mark.parametrize("how", sorted(FACTS))
def test_an_altered_change_is_taken_by_no_machine_and_told_with_its_number(
    world: World, tmp_path: Path, how: str
) -> None:
    anna = Member(tmp_path, "anna", world, "owner")
    anna.memory().store("Deploys happen on Fridays.", key="deploys", team="ours")
    meet(anna)
    before = anna.texts()
    with psycopg.connect(world.database, autocommit=True) as connection:
        connection.execute(FACTS[how])
    bert = Member(tmp_path, "bert", world, "editor")
    with pytest.raises(VadeError, match=r"somebody altered the hub's database: change \d+ of project/api"):
        bert.sync()
    assert bert.texts() == {}
    bert.memory().store("Works on.", key="works-on", scope="project")
    assert anna.texts() == before


@pytest.mark.full
def test_what_the_hub_lost_or_was_rewritten_is_sent_again_and_stands_in_the_log(
    world: World, tmp_path: Path
) -> None:
    anna, bert = Member(tmp_path, "anna", world, "owner"), Member(tmp_path, "bert", world, "editor")
    anna.memory().store("Deploys happen on Fridays.", key="deploys", team="ours")
    meet(anna, bert)
    anna.memory().store("Ask Bert first.", key="ask", team="ours")
    meet(anna, bert)
    world.sql("DELETE FROM hub.fact WHERE seq > 5 RETURNING 1")
    world.sql(
        "UPDATE hub.stream s SET head = 5, chain = (SELECT chain FROM hub.fact f WHERE f.stream = s.stream"
        " AND f.seq = 5) RETURNING 1"
    )
    meet(bert, anna)
    assert {path: unsigned(text) for path, text in anna.texts().items()} == {
        path: unsigned(text) for path, text in bert.texts().items()
    }
    assert "Ask Bert first." in str(world.sql("SELECT convert_from(value, 'UTF8') FROM hub.fact"
                                              " WHERE value IS NOT NULL"))  # fmt: skip
    assert "epoch" in [each["did"] for each in world.ask("GET", "/v1/audit").json["lines"]]
