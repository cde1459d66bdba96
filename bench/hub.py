"""The hub: a sync with nothing new, changed documents against git, many clients, and room in the database.

Starts a PostgreSQL of its own. `HUB_CLIENTS` and `HUB_SECONDS` make the load larger; 200 and 120 are a whole
run. The exchange of facts alone is measured, and a whole `vade sync` with its diff and its files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
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

from bench import sync
from vademecum.memory import connect
from vademecum.memory import sync as syncing
from vademecum.store.files import Disk
from vademecum.sync.facts import NOTHING, SyncFact, render
from vademecum.sync.hub_client import HubClient, HubRefused, Remote
from vademecum_hub import administration, listen
from vademecum_hub.authorization import derive_keys
from vademecum_hub.cluster import Cluster
from vademecum_hub.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        with listen.connect(cluster.url) as connection:
            migrate(connection)
        with served(cluster) as (url, server):
            found = [
                *_exchange(cluster, url),
                _room(cluster),
                *_whole(cluster, url),
                *_load(cluster, url, server),
            ]
        return [{"what": row.pop("what"), "figures": _describe_row(row)} for row in found]
    finally:
        cluster.stop()


def _describe_row(row: dict[str, object]) -> str:
    return ", ".join(f"{name} {figure}" for name, figure in row.items())


@contextlib.contextmanager
def served(cluster: Cluster) -> Iterator[tuple[str, int]]:
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
            yield f"http://127.0.0.1:{port}", server.pid
        finally:
            server.terminate()
            server.wait()


def _token(cluster: Cluster, url: str) -> str:
    """A new workspace, and a token of its owner."""
    database = cluster.url_of("postgres", user="hub_migrate")
    code = administration.create_workspace(database, KEYS, "bench", kind="team", owner="anna")["code"]
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
        based_on = (before[number].id,) if before else ()
        made.append(
            SyncFact(
                stream,
                replica,
                last.n + 1 if last else 1,
                last.hash if last else NOTHING,
                last.lamport + 1 if last else 1,
                doc,
                "put",
                "e1",
                based_on,
                value={"raw": f"{number} {TEXT}"},
                origin="user",
                interface="cli",
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
        pulled = _sync(Remote(two, there, lambda _: []), {}, [])
        begun = time.perf_counter()
        _sync(Remote(one, here, lambda _: second), {"aaaaaaaa": 2 * DOCUMENTS}, [*first, *second])
        pulled += _sync(Remote(two, there, lambda _: []), {"aaaaaaaa": DOCUMENTS}, [])
        hub = time.perf_counter() - begun
        assert len(pulled) == 2 * DOCUMENTS
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


def _whole(cluster: Cluster, url: str) -> Rows:
    """The same change as `vade sync` makes it on two machines: from files, over the hub, to files."""
    found: Rows = []
    for where, folder in sync.places():
        with tempfile.TemporaryDirectory(dir=folder) as top:
            took = sync.against_git(Path(top), _through_hub(cluster, url, Path(top)))
        found.append(
            {"what": f"{DOCUMENTS} changed documents by `vade sync`, files to files, {where}", **took}
        )
    return found


def _through_hub(cluster: Cluster, url: str, top: Path) -> Callable[[str], None]:
    """Two homes that joined a new workspace, and how one of them is synced."""
    database = cluster.url_of("postgres", user="hub_migrate")
    code = administration.create_workspace(database, KEYS, "bench", kind="personal", owner="anna")["code"]
    # Without a sweep, which would archive most of so many records.
    homes = {
        name: connect(home=top / name, cwd=top, environ={"VADE_SWEEP": "off"}) for name in ("one", "two")
    }
    key = syncing.new_key()
    for memory in homes.values():
        joined = syncing.membership.join_hub(memory.home, url, code)
        syncing.hub_key.keep_hub_key(memory.home, joined, key)
        client = syncing.membership.client_of(memory.home, joined)
        code = client.ask("POST", "/v1/invites", b"{}").json()["code"]
        client.close()
    return lambda name: sync.void(syncing.run_hub(homes[name], "", None))


def _sync(remote: Remote, known: dict[str, int], own: list[SyncFact]) -> list[SyncFact]:
    remote.begin()
    pulled = list(remote.pull("global", known))
    remote.push("global", own)
    return pulled


def _git() -> float:
    """`git push` and `git pull` of the same texts in as many files, committed already."""
    with tempfile.TemporaryDirectory() as folder:
        return sync.time_git(Path(folder))


def _load(cluster: Cluster, url: str, server: int) -> Rows:
    """Clients that ask and push as fast as they are let, and a workspace that only asks now and then.

    Everybody is a process of their own: threads beside each other would wait for one another's interpreter.
    """
    quiet = _token(cluster, url)
    found: Rows = []
    for crowd in (1, 10):
        alone = _idle(url, quiet, min(SECONDS, 10)).communicate()[0]
        tokens = [_tokens(cluster, url, CLIENTS // crowd) for _ in range(crowd)]
        mixed = [token for each in zip(*tokens, strict=True) for token in each]
        flooding = [_flood(url, mixed[part::2]) for part in range(2)]
        time.sleep(1)  # until all of them are at it
        before = used(server)
        crowded = _idle(url, quiet, SECONDS).communicate()[0]
        spent = used(server) - before
        reports = [json.loads(each.communicate("stop")[0]) for each in flooding]
        found += [_describe_load(reports, crowd, spent), _told_idle(json.loads(alone), json.loads(crowded))]
    return found


def used(pid: int) -> float:
    """The seconds of a processor that a process has used, where that can be looked up."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _tokens(cluster: Cluster, url: str, count: int) -> list[str]:
    """So many tokens of one new workspace: the machines of its owner."""
    client = HubClient(url, _token(cluster, url))
    made = []
    for number in range(count):
        label = f'{{"label": "{number}", "scopes": ["read", "write", "person"]}}'.encode()
        made.append(str(client.ask("POST", "/v1/tokens", label).json()["token"]))
    client.close()
    return made


def _describe_load(reports: list[dict[str, Any]], crowd: int, used: float) -> dict[str, object]:
    seen = sum((Counter(each["seen"]) for each in reports), Counter[str]())
    times = sorted(took for each in reports for took in each["times"])
    wrong = {status: count for status, count in seen.items() if status not in ("200", "304", "429")}
    without = sum(each["without"] for each in reports)
    return {
        "what": f"{CLIENTS} clients for {SECONDS:g} s, workspaces: {crowd}",
        "answered/s": round((seen["200"] + seen["304"]) / SECONDS),
        "429": seen["429"],
        "429 without Retry-After": without,
        "errors": wrong or 0,
        "p50 ms": round(statistics.median(times) * 1000, 1),
        "p95 ms": round(times[int(len(times) * 0.95)] * 1000, 1),
        "server's processor": f"{used / SECONDS:.2f}, {used * 1000 / sum(seen.values()):.1f} ms each",
    }


def _told_idle(alone: list[float], crowded: list[float]) -> dict[str, object]:
    def at(times: list[float], share: float) -> float:
        return sorted(times)[int(len(times) * share)] * 1000

    return {
        "what": "an idle workspace meanwhile",
        "p50 ms alone": round(at(alone, 0.5), 1),
        "p50 ms then": round(at(crowded, 0.5), 1),
        "p50 x": round(at(crowded, 0.5) / at(alone, 0.5), 1),
        "p95 ms alone": round(at(alone, 0.95), 1),
        "p95 ms then": round(at(crowded, 0.95), 1),
        "p95 x": round(at(crowded, 0.95) / at(alone, 0.95), 1),
        "asked": len(crowded),
    }


def _idle(url: str, token: str, seconds: float) -> subprocess.Popen[str]:
    return _another("idle", url, str(seconds), token)


def _flood(url: str, tokens: list[str]) -> subprocess.Popen[str]:
    # Behind everybody else for the processor: clients are on machines of their own.
    return _another("flood", url, *tokens, before=["nice", "-n", "19"])


def _another(*words: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-m", "bench.hub", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _be_flood(url: str, *tokens: str) -> dict[str, Any]:
    """A client for each token, until something is said on standard input."""
    seen: Counter[int] = Counter()
    times: list[float] = []
    without: list[int] = []
    report = {"seen": seen, "times": times, "without": without}
    stop = threading.Event()
    mark = hashlib.sha256("".join(tokens).encode()).hexdigest()[:6]
    clients = [
        threading.Thread(target=_client, args=(url, token, f"{mark}{n:05}", stop), kwargs=report)
        for n, token in enumerate(tokens)
    ]
    for each in clients:
        each.start()
    sys.stdin.read()
    stop.set()
    for each in clients:
        each.join()
    return {"seen": seen, "times": times, "without": len(without)}


def _client(
    url: str,
    token: str,
    replica: str,
    stop: threading.Event,
    *,
    seen: Counter[int],
    times: list[float],
    without: list[int],
) -> None:
    client = HubClient(url, token, patience=0)
    stream = f"project/{replica}"
    head, sent, requests = f'{{"epoch": 1, "replica": "{replica}"}}\n'.encode(), 0, 0
    made = _facts(replica, 200, stream=stream)
    while not stop.is_set():
        begun = time.perf_counter()
        requests += 1
        try:
            if requests % 5 or sent >= len(made):
                status = client.ask("GET", "/v1/streams").status
            else:
                status = client.ask("POST", f"/v1/streams/{stream}/facts", head + render(made[sent])).status
                sent += 1
        except HubRefused as error:
            status = error.status
            if status == 429 and not error.told.get("retry_after"):
                without.append(status)
        seen[status] += 1
        times.append(time.perf_counter() - begun)
        if status == 429:
            stop.wait(0.2)  # a client that does not do as it is told
    client.close()


def _be_idle(url: str, seconds: str, token: str) -> list[float]:
    client = HubClient(url, token)
    took, end = [], time.perf_counter() + float(seconds)
    client.ask("GET", "/v1/streams")
    while time.perf_counter() < end:
        begun = time.perf_counter()
        client.ask("GET", "/v1/streams")
        took.append(time.perf_counter() - begun)
        time.sleep(0.1)
    client.close()
    return took


def _room(cluster: Cluster) -> dict[str, Any]:
    """What a fact takes in the database, indexes included."""
    with listen.connect(cluster.url) as connection:
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


if __name__ == "__main__":
    _what, _url, *_words = sys.argv[1:]
    print(json.dumps(_be_idle(_url, *_words) if _what == "idle" else _be_flood(_url, *_words)))
