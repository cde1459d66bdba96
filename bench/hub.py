"""The hub: a sync with nothing new, changed documents against git, many clients, and room in the database.

Starts a PostgreSQL of its own. `HUB_CLIENTS` and `HUB_SECONDS` make the load larger; 200 and 120 are a whole
run. What is measured is the exchange of facts; diff and projection to files are not in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hub import operate, serve
from vademecum.interfaces.hub.access import derive_keys
from vademecum.interfaces.hub.cluster import Cluster
from vademecum.interfaces.hub.migrate import migrate
from vademecum.store.files import Disk
from vademecum.sync.facts import NOTHING, SyncFact, render
from vademecum.sync.remote import HubClient, HubRefused, Remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    Rows = list[dict[str, object]]

DOCUMENTS = 1_000
CLIENTS, SECONDS = int(os.environ.get("HUB_CLIENTS", "40")), float(os.environ.get("HUB_SECONDS", "8"))
TEXT = "The staging database is restored from the nightly dump before each release. " * 5
SECRET = "a key for a measurement, of 32 characters"
KEYS = derive_keys(SECRET.encode())


def measure() -> Rows:
    """All of it, on one cluster."""
    cluster = Cluster()
    try:
        cluster.start()
        with serve.connected(cluster.url) as connection:
            migrate(connection)
        with _served(cluster) as url:
            found = [
                *_exchange(cluster, url),
                _room(cluster),
                *_load(cluster, url, max(2, CLIENTS // 20)),
                *_load(cluster, url, 1),
            ]
        return [{"what": row.pop("what"), "figures": _told(row)} for row in found]
    finally:
        cluster.stop()


def _told(row: dict[str, object]) -> str:
    return ", ".join(f"{name} {figure}" for name, figure in row.items())


@contextlib.contextmanager
def _served(cluster: Cluster) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        key = Path(folder) / "hub.key"
        key.write_text(SECRET)
        key.chmod(0o600)
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        words = ["hub", "serve", "--database", cluster.url_of("postgres", user="hub_app")]
        words += ["--port", port, "--key-file", str(key)]
        # A process of its own: the clients' threads would share its interpreter otherwise.
        server = subprocess.Popen([sys.executable, "-m", "vademecum", *words], stderr=subprocess.DEVNULL)
        try:
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", int(port)), 1).close()
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def _token(cluster: Cluster, url: str) -> str:
    """A new workspace, and a token of its owner."""
    database = cluster.url_of("postgres", user="hub_migrate")
    code = operate.create_workspace(database, KEYS, "bench", kind="team", owner="anna")["code"]
    body = f'{{"code": "{code}", "replica": "aaaaaaaa"}}'.encode()
    client = HubClient(url)
    token = str(client.ask("POST", "/v1/join", body).json()["token"])
    client.close()
    return token


def _facts(
    replica: str, count: int, before: list[SyncFact] | None = None, *, stream: str = "global"
) -> list[SyncFact]:
    """An entry in each of so many documents, or a new text over each of those."""
    made = list(before or [])
    for number in range(count):
        last = made[-1] if made else None
        doc = "n-" + hashlib.sha256(str(number).encode()).hexdigest()[:32]
        over = (before[number].dot,) if before else ()
        made.append(
            SyncFact(
                stream,
                replica,
                last.n + 1 if last else 1,
                last.hash if last else NOTHING,
                last.lam + 1 if last else 1,
                doc,
                "put",
                "e1",
                over,
                value={"raw": f"{number} {TEXT}"},
                origin="user",
                door="cli",
            )
        )
    return made[len(before or []) :]


def _exchange(cluster: Cluster, url: str) -> Rows:
    token = _token(cluster, url)
    first = _facts("aaaaaaaa", DOCUMENTS)
    second = _facts("aaaaaaaa", DOCUMENTS, first)
    with tempfile.TemporaryDirectory() as folder:
        one, two = HubClient(url, token), HubClient(url, token)
        here = Disk(Path(folder) / "one").open(create=True)
        there = Disk(Path(folder) / "two").open(create=True)
        _sync(Remote(one, here, lambda _: first), {"aaaaaaaa": DOCUMENTS}, first)
        taken = _sync(Remote(two, there, lambda _: []), {}, [])
        begun = time.perf_counter()
        _sync(Remote(one, here, lambda _: second), {"aaaaaaaa": 2 * DOCUMENTS}, [*first, *second])
        taken += _sync(Remote(two, there, lambda _: []), {"aaaaaaaa": DOCUMENTS}, [])
        hub = time.perf_counter() - begun
        assert len(taken) == 2 * DOCUMENTS
        before, begun = two.requests, time.perf_counter()
        _sync(Remote(two, there, lambda _: []), {"aaaaaaaa": 2 * DOCUMENTS}, [])
        idle, requests = time.perf_counter() - begun, two.requests - before
        for each in (one, two):
            each.close()
        for folder_ in (here, there):
            folder_.close()
    git = _git()
    return [
        {"what": "a sync with nothing new", "requests": requests, "ms": round(idle * 1000, 1)},
        {
            "what": f"{DOCUMENTS} changed documents, pushed and pulled",
            "hub s": round(hub, 2),
            "git s": round(git, 2),
            "x git": round(hub / git, 2),
        },
    ]


def _sync(remote: Remote, known: dict[str, int], own: list[SyncFact]) -> list[SyncFact]:
    remote.begin()
    taken = list(remote.pull("global", known))
    remote.push("global", own)
    return taken


def _git() -> float:
    """`git push` and `git pull` of the same texts in as many files, committed already."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)

        def git(*words: str, cwd: Path) -> None:
            given = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0", *words]
            subprocess.run(given, cwd=cwd, check=True, capture_output=True)

        git("init", "-q", "--bare", "-b", "main", "hub.git", cwd=top)
        address = f"file://{top / 'hub.git'}"  # through git's own protocol, and not a copy of files
        git("clone", "-q", address, "one", cwd=top)
        for turn in range(2):
            for number in range(DOCUMENTS):
                (top / "one" / f"{number}.md").write_text(f"{turn} {number} {TEXT}\n")
            git("add", ".", cwd=top / "one")
            git("commit", "-qm", "x", cwd=top / "one")
            if not turn:
                git("push", "-q", "origin", "HEAD:main", cwd=top / "one")
                git("clone", "-q", address, "two", cwd=top)
        begun = time.perf_counter()
        git("push", "-q", "origin", "HEAD:main", cwd=top / "one")
        git("pull", "-q", "--ff-only", "origin", "main", cwd=top / "two")
        took = time.perf_counter() - begun
        shutil.rmtree(top / "two")
        return took


def _load(cluster: Cluster, url: str, workspaces: int) -> Rows:
    """Many clients that ask and push as fast as they are let, and a workspace that only asks now and then."""
    quiet = _token(cluster, url)
    alone = _ask_often(url, quiet, 2.0)
    tokens = [_token(cluster, url) for _ in range(workspaces)]
    seen: Counter[int] = Counter()
    times: list[float] = []
    stop = threading.Event()
    threads = [
        threading.Thread(
            target=_client,
            args=(url, tokens[n % len(tokens)], f"bench{n:05}", seen, times),
            kwargs={"stop": stop},
        )
        for n in range(CLIENTS)
    ]
    begun = time.perf_counter()
    for each in threads:
        each.start()
    crowded = _ask_often(url, quiet, SECONDS)
    stop.set()
    for each in threads:
        each.join()
    took = time.perf_counter() - begun
    wrong = {status: count for status, count in seen.items() if status not in (200, 304, 429)}
    return [
        {
            "what": f"{CLIENTS} clients, workspaces: {workspaces}",
            "requests/s": round(sum(seen.values()) / took),
            "429": seen[429],
            "errors": wrong or 0,
            "p50 ms": round(statistics.median(times) * 1000, 1),
            "p95 ms": round(sorted(times)[int(len(times) * 0.95)] * 1000, 1),
        },
        {
            "what": "another workspace meanwhile",
            "p50 ms alone": round(statistics.median(alone) * 1000, 1),
            "p50 ms then": round(statistics.median(crowded) * 1000, 1),
            "asked": len(crowded),
        },
    ]


def _client(
    url: str, token: str, replica: str, seen: Counter[int], times: list[float], *, stop: threading.Event
) -> None:
    client = HubClient(url, token, patience=0)
    stream = f"project/{replica}"
    made = _facts(replica, 2_000, stream=stream)
    head, sent, asked = f'{{"epoch": 1, "replica": "{replica}"}}\n'.encode(), 0, 0
    while not stop.is_set() and sent < len(made):
        begun = time.perf_counter()
        asked += 1
        try:
            if asked % 5:
                status = client.ask("GET", "/v1/streams").status
            else:
                status = client.ask("POST", f"/v1/streams/{stream}/facts", head + render(made[sent])).status
                sent += 1
        except HubRefused as error:
            status = error.status
        seen[status] += 1
        times.append(time.perf_counter() - begun)
        if status == 429:
            time.sleep(0.2)
    client.close()


def _ask_often(url: str, token: str, seconds: float) -> list[float]:
    client = HubClient(url, token)
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        client.ask("GET", "/v1/streams")
        took.append(time.perf_counter() - begun)
        time.sleep(0.1)
    client.close()
    return took


def _room(cluster: Cluster) -> dict[str, Any]:
    """What a fact takes in the database, indexes included."""
    with serve.connected(cluster.url) as connection:
        connection.execute("VACUUM hub.fact")
        row = connection.execute(
            "SELECT (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
            " WHERE inhparent = 'hub.fact'::regclass), count(*), avg(length(value)) FROM hub.fact"
        ).fetchone()
    assert row is not None
    size, count, value = row
    empty = 64 * 5 * 8192  # pages of partitions without a row
    return {
        "what": "room in the database",
        "facts": count,
        "bytes per fact": round((float(size) - empty) / count),
        "of it its text": round(float(value)),
    }
