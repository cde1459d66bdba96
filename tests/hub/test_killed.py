"""Server and PostgreSQL are killed while facts are pushed: what was acknowledged is there, and once."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hub.databases import GIVEN
from hub.hubs import KEYS, World, Writer, ask, listening
from vademecum.sync.facts import FactId
from vademecum_hub.cluster import Cluster
from vademecum_hub.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hub.databases import Server

DOWN = "the hub's database does not answer"
SECRET = "a key for tests, of at least 32 characters"


class Pusher(threading.Thread):
    """A machine that pushes until it is told to stop, and sends again whatever was not acknowledged."""

    def __init__(self, url: str, token: str, replica: str) -> None:
        super().__init__(daemon=True)
        self.url, self.token, self.writer = url, token, Writer(replica, f"project/{replica}")
        self.acknowledged: dict[FactId, int] = {}
        self.stop = threading.Event()
        self.wrong: list[Any] = []

    def run(self) -> None:
        sent = 0
        while not self.stop.is_set():
            while len(self.writer.made) < sent + 3:
                self.writer.fact(target=f"e{len(self.writer.made)}", value={"raw": "x" * 200})
            body = self.writer.body(*self.writer.made[sent:])
            try:
                path = f"/v1/streams/{self.writer.stream}/facts"
                answer = ask(self.url, "POST", path, self.token, body)
            except (OSError, http.client.HTTPException):  # killed before or amid its answer
                time.sleep(0.02)
                continue
            if answer.status == 200:
                stamps = answer.json["stamps"]
                for fact, stamp in zip(self.writer.made[sent:], stamps, strict=True):
                    self.acknowledged[fact.id] = stamp["seq"]
                sent += len(stamps)
            elif answer.status in (429, 503):
                time.sleep(0.02)
            else:
                self.wrong.append(answer.body)
                return


def hold(rows: list[tuple[Any, ...]], pushers: list[Pusher]) -> None:
    """Every acknowledged fact is there, at its place, and no dot twice."""
    there = {(stream, FactId(replica, n)): seq for stream, replica, n, seq in rows}
    assert len(there) == len(rows)
    for each in pushers:
        assert each.wrong == []
        assert each.acknowledged
        stream = each.writer.stream
        assert {fact_id: there.get((stream, fact_id)) for fact_id in each.acknowledged} == each.acknowledged
        own = sorted(seq for (name, _), seq in there.items() if name == stream)
        assert own == list(range(1, len(own) + 1))


def while_pushing(pushers: list[Pusher], times: int, kill: Callable[[], None], seed: int) -> None:
    rng = random.Random(seed)
    for each in pushers:
        each.start()
    for _ in range(times):
        before = sum(len(each.acknowledged) for each in pushers)
        until = time.monotonic() + 60
        while sum(len(each.acknowledged) for each in pushers) <= before and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.2)
        kill()
    before = sum(len(each.acknowledged) for each in pushers)
    until = time.monotonic() + 60
    while sum(len(each.acknowledged) for each in pushers) <= before and time.monotonic() < until:
        time.sleep(0.01)
    for each in pushers:
        each.stop.set()
    for each in pushers:
        each.join(120)


def serve(database: str, port: int, key: Path) -> subprocess.Popen[bytes]:
    words = ["hub", "serve", "--database", database, "--port", str(port), "--key-file", str(key)]
    server = subprocess.Popen(
        [sys.executable, "-m", "vademecum", *words],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ},
    )
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return server
        except OSError:
            assert server.poll() is None
            time.sleep(0.05)


ROWS = "SELECT stream, replica, n, seq FROM hub.fact"


def killed_server(world: World, postgres: Server, tmp_path: Path, times: int) -> None:
    key = tmp_path / "hub.key"
    key.write_text(SECRET)
    key.chmod(0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    database = postgres.as_role(world.database, "hub_app")
    running = [serve(database, port, key)]
    pushers = [Pusher(f"http://127.0.0.1:{port}", world.anna, name) for name in ("aaaaaaaa", "bbbbbbbb")]

    def kill() -> None:
        running[0].kill()
        running[0].wait()
        running[0] = serve(database, port, key)

    try:
        while_pushing(pushers, times, kill, seed=7)
    finally:
        running[0].send_signal(signal.SIGKILL)
        running[0].wait()
    hold(world.sql(ROWS), pushers)


def killed_postgres(times: int) -> None:
    """On a cluster of its own, which writes to the disk as it should."""
    cluster = Cluster()
    try:
        cluster.start()
        with psycopg.connect(cluster.url) as connection:
            migrate(connection)

        class Own:
            def as_role(self, url: str, user: str) -> str:
                return cluster.url_of("postgres", user=user)

        world = World(Own(), cluster.url)  # type: ignore[arg-type]  # what it needs of a server
        with listening(cluster.url_of("postgres", user="hub_app"), KEYS) as (url, _):
            pushers = [Pusher(url, world.anna, name) for name in ("aaaaaaaa", "bbbbbbbb")]

            def kill() -> None:
                cluster.kill()
                assert ask(url, "GET", "/health").status == 200
                down = ask(url, "GET", "/ready")
                assert (down.status, down.json["error"]["message"]) == (503, DOWN)
                assert ask(url, "GET", "/v1/me", world.anna).json["error"]["message"] == DOWN
                cluster.start()
                while ask(url, "GET", "/ready").status != 200:
                    pass  # it is asked again after a second

            while_pushing(pushers, times, kill, seed=11)
        hold(world.sql(ROWS), pushers)
    finally:
        cluster.stop()


def test_a_killed_server_loses_nothing_that_it_acknowledged(
    world: World, postgres: Server, tmp_path: Path
) -> None:
    killed_server(world, postgres, tmp_path, 3)


@pytest.mark.skipif(bool(GIVEN), reason="VADE_TEST_DATABASE is not ours to kill")
def test_a_killed_postgresql_loses_nothing_that_was_acknowledged_and_the_hub_goes_on() -> None:
    killed_postgres(2)


@pytest.mark.soak
def test_a_server_that_is_killed_often_loses_nothing(world: World, postgres: Server, tmp_path: Path) -> None:
    killed_server(world, postgres, tmp_path, 300)


@pytest.mark.soak
@pytest.mark.skipif(bool(GIVEN), reason="VADE_TEST_DATABASE is not ours to kill")
def test_a_postgresql_that_is_killed_often_loses_nothing() -> None:
    killed_postgres(200)


# ------------------------------------------------------------------------------- backup


@pytest.mark.skipif(bool(GIVEN), reason="pg_dump is known of our own PostgreSQL alone")
def test_a_dump_that_is_restored_serves_the_same_and_a_role_under_row_security_cannot_make_one(
    world: World, postgres: Server
) -> None:
    from vademecum.errors import StorageFailed

    assert postgres.cluster is not None
    writer = Writer("aaaaaaaa")
    for n in range(5):
        writer.fact(target=f"e{n}")
    assert world.push(writer).status == 200
    before = world.pull().body
    name, file = world.database.rsplit("/", 1)[1], str(postgres.cluster.folder / "hub.dump")
    with pytest.raises(StorageFailed, match="pg_dump failed"):
        postgres.cluster.run("pg_dump", "-Fc", "-f", file, postgres.as_role(world.database, "hub_app"))
    postgres.cluster.run("pg_dump", "-Fc", "-f", file, world.database)
    other = postgres.database(template="template0")
    postgres.cluster.run("pg_restore", "--exit-on-error", "-d", postgres.url(other), file)
    assert other != name
    with listening(postgres.url(other, user="hub_app"), KEYS) as (url, _):
        assert ask(url, "GET", "/v1/streams/global/facts", world.anna).body == before
        late = writer.fact(target="late")
        assert ask(url, "POST", "/v1/streams/global/facts", world.anna, writer.body(late)).status == 200
    with psycopg.connect(postgres.url(other)) as connection:
        forced = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'hub'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT (relrowsecurity AND relforcerowsecurity)"
        ).fetchone()
    assert forced == (0,)
    postgres.drop(other)
    assert json.loads(before.splitlines()[0])["stamp"]["author"] == "anna"
