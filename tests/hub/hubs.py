"""A hub for tests: the real application on a real socket, a real database, and a plain client."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import psycopg

from vademecum.interfaces import connections
from vademecum.sync import facts
from vademecum.sync.facts import NOTHING, SyncFact
from vademecum_hub import listen, members
from vademecum_hub.authorization import HubKeys, derive_keys, enter
from vademecum_hub.protocol import create_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hub.databases import Server

KEYS = derive_keys(b"a key for tests, of at least 32 characters")
DOC = "11111111-2222-3333-4444-555555555555"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]


def ask(
    url: str,
    method: str,
    path: str,
    token: str = "",
    body: bytes | dict[str, Any] | None = None,
    **headers: str,
) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    given = {"Vade-Protocol": "1", **({"Authorization": f"Bearer {token}"} if token else {})}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    sent = json.dumps(body).encode() if isinstance(body, dict) else body
    try:
        connection.request(method, path, sent, {name: value for name, value in given.items() if value})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


@dataclass
class Writer:
    """One machine that makes facts, chained as they must be."""

    replica: str
    stream: str = "global"
    made: list[SyncFact] = field(default_factory=list)

    def fact(self, kind: str = "put", lamport: int | None = None, **given: Any) -> SyncFact:
        last = self.made[-1] if self.made else None
        given = {"doc": DOC, "target": "e1", "value": {"raw": "A text."}, "origin": "user", **given}
        fact = SyncFact(
            stream=self.stream, replica=self.replica, n=last.n + 1 if last else 1,
            prev=last.hash if last else NOTHING,
            lamport=lamport if lamport is not None else (last.lamport + 1 if last else 1),
            kind=kind, interface="cli", **given,
        )  # fmt: skip
        facts.parse(facts.render(fact))
        self.made.append(fact)
        return fact

    def body(self, *made: SyncFact, epoch: int = 1, **head: Any) -> bytes:
        lines = [json.dumps({"epoch": epoch, "replica": self.replica, **head}).encode()]
        return b"\n".join([*lines, *map(facts.render, made or self.made)])


class World:
    """A served database with a team workspace whose owner is anna, and another workspace beside it."""

    def __init__(self, postgres: Server, database: str) -> None:
        self.postgres, self.database, self.keys = postgres, database, KEYS
        self.url = ""
        self.app: Any = None
        self.ws, self.public = self.workspace("team")
        self.anna = self.member("anna", "owner")

    def owner(self) -> contextlib.AbstractContextManager[psycopg.Connection[Any]]:
        """A transaction with the rights of whoever runs the hub's commands."""
        return operating(self.postgres.as_role(self.database, "hub_migrate"))

    def workspace(self, kind: str) -> tuple[int, str]:
        with self.owner() as connection:
            return members.make_workspace(connection, kind, kind=kind)

    def member(self, name: str, role: str, *scopes: str, ws: int = 0, replica: str | None = None) -> str:
        """The token of a new member."""
        with self.owner() as connection:
            enter(connection, ws or self.ws)
            row = connection.execute(
                "INSERT INTO hub.member (ws, member, name, role) VALUES (%s, gen_random_uuid(), %s, %s)"
                " RETURNING member",
                (ws or self.ws, name, role),
            ).fetchone()
            assert row is not None
            return self.token(connection, str(row[0]), *scopes, ws=ws, replica=replica)

    def token_of(self, name: str, *scopes: str, ws: int = 0) -> str:
        """Another token of a member who is there."""
        with self.owner() as connection:
            enter(connection, ws or self.ws)
            row = connection.execute("SELECT member FROM hub.member WHERE name = %s", (name,)).fetchone()
            assert row is not None
            return self.token(connection, str(row[0]), *scopes, ws=ws)

    def token(
        self, connection: Any, member: str, *scopes: str, ws: int = 0, replica: str | None = None
    ) -> str:
        given = scopes or ("read", "write", "person")
        made, _ = members.make_token(
            connection, KEYS, ws=ws or self.ws, member=member, scopes=given, label="", replica=replica
        )
        return made

    def ask(
        self, method: str, path: str, token: str | None = None, body: Any = None, **headers: str
    ) -> Answer:
        return ask(self.url, method, path, self.anna if token is None else token, body, **headers)

    def push(self, writer: Writer, *made: SyncFact, token: str | None = None, **head: Any) -> Answer:
        path = f"/v1/streams/{quote(writer.stream)}/facts"
        return self.ask("POST", path, token, writer.body(*made, **head))

    def pull(self, stream: str = "global", token: str | None = None, **query: Any) -> Answer:
        parameters = "&".join(f"{name}={value}" for name, value in query.items())
        return self.ask("GET", f"/v1/streams/{quote(stream)}/facts?{parameters}", token)

    def sql(self, query: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a superuser sees, whom row-level security does not bind."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            done = connection.execute(query, given)
            return done.fetchall() if done.description else []


@contextlib.contextmanager
def operating(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE hub_owner")
        yield connection


@contextlib.contextmanager
def listening(url: str, keys: HubKeys = KEYS) -> Iterator[tuple[str, Any]]:
    """The application in a thread, on a port of its own."""
    app = create_hub(listen.open_pool(url), keys)
    server = connections.Server(listen.make_config(app, listen.Listening(port=0)))
    bound = server.config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}", app
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


@contextlib.contextmanager
def world_of(postgres: Server, database: str) -> Iterator[World]:
    made = World(postgres, database)
    with listening(postgres.as_role(database, "hub_app")) as (made.url, made.app):
        yield made
