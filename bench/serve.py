"""`vade serve` over large homes: the first page, search beside the engine's own time, memory, and load.

A real server, started at a terminal of its own. CPU milliseconds are those of its process for one request, so
that a busy machine changes them little; what a client waits for on loopback stands beside them. The load is
made by wrk, where it is installed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import catalogue
from vademecum.memory import connect, tokens
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    Rows = list[dict[str, object]]

SIZES = (10_000, 100_000)
SECONDS, CONNECTIONS, SLOW = 60, 50, 500
QUESTIONS = ("payload parser", "how is the cache cleared", "database migration", "who reviews releases")
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_SCRIPT = """
local count = 0
request = function()
  count = count + 1
  if count %% 5 == 0 then
    local text = string.format('{"text": "Load of %%d %%d is kept as one.", "key": "load-%%d-%%d"}',
                               count, math.random(1e9), count, math.random(1e9))
    return wrk.format("POST", "/api/v1/records", {["Content-Type"] = "application/json",
                      ["Authorization"] = "Bearer %(token)s"}, text)
  end
  local paths = {"records?limit=50", "search?q=payload+parser", "records/%(key)s", "journal"}
  return wrk.format("GET", "/api/v1/" .. paths[count %% 4 + 1], {["Authorization"] = "Bearer %(token)s"})
end
done = function(summary, latency, requests)
  local errors = summary.errors
  print(string.format('{"requests": %%d, "failed": %%d, "p50": %%.1f, "p99": %%.1f}', summary.requests,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""


class Running(NamedTuple):
    """A server, and a person's and a program's way into it."""

    pid: int
    port: int
    door: str
    cookie: str
    token: str

    def ask(self, path: str, **headers: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        connection.request("GET", path, headers=headers)
        got = connection.getresponse()
        body = got.read()
        connection.close()
        if got.status != 200:
            raise SystemExit(f"{path}: {got.status} {body[:200]!r}")
        return body

    def page(self, path: str) -> bytes:
        return self.ask(self.door + path, Cookie=self.cookie, Accept="text/html")

    def api(self, path: str) -> Any:
        return json.loads(self.ask(f"/api/v1{path}", Authorization=f"Bearer {self.token}"))

    def cpu(self) -> float:
        """CPU seconds of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def resident(self) -> float:
        """Megabytes of memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else 0.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of records")
    parser.add_argument("--rounds", type=int, default=20, help="of each request (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of load (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the homes are made, and found again")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Serve each home; the smallest one is searched and put under load, the others are browsed."""
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="vade-serve-"))
    found: dict[str, Rows] = {}
    try:
        for size in sorted(chosen.sizes):
            first = size == min(chosen.sizes)
            home = catalogue.made(folder.resolve() / str(size), size, indexed=first)
            with running(home) as server:
                title = f"{size:,} records, load of the machine {os.getloadavg()[0]:.1f}"
                found[title] = [_row(each) for each in _measured(server, home, chosen, searched=first)]
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder)
    return found


def _row(measured: dict[str, object]) -> dict[str, object]:
    figures = ", ".join(f"{value} {name}" for name, value in measured.items() if name != "what")
    return {"what": measured["what"], "measured": figures}


def _measured(server: Running, home: catalogue.Home, chosen: argparse.Namespace, *, searched: bool) -> Rows:
    rows = [
        _timed(server, "Memories, first page", lambda: server.page("/memories"), chosen.rounds),
        _timed(server, "API, 50 records", lambda: server.api("/records?limit=50"), chosen.rounds),
        _timed(server, "API, one record", lambda: server.api(f"/records/{home.keys[0]}"), chosen.rounds),
    ]
    if searched:
        rows += _searches(server, home, chosen.rounds)
    rows.append({"what": "memory of the server", "MB": round(server.resident())})
    if searched:
        rows.append(
            {"what": f"{SLOW} slow clients, requests answered beside them", "answered": _slow(server)}
        )
        rows.append(_load(server, home, chosen.seconds))
        rows.append({"what": "memory of the server after the load", "MB": round(server.resident())})
    return rows


def _timed(server: Running, what: str, do: Callable[[], object], rounds: int) -> dict[str, object]:
    do()
    do()
    waited, cpu = [], server.cpu()
    for _ in range(rounds):
        begun = time.perf_counter()
        do()
        waited.append(time.perf_counter() - begun)
    spent = (server.cpu() - cpu) / rounds
    return {"what": what, "CPU ms": round(spent * 1000), "p50 ms": round(statistics.median(waited) * 1000)}


def _searches(server: Running, home: catalogue.Home, rounds: int) -> Rows:
    """The same questions to the server and to the engine itself, in turn."""
    with connect(home=home.folder / "home", cwd=home.folder) as memory:
        for each in QUESTIONS:  # both are warm then
            memory.search(each)
            server.api(f"/search?q={each.replace(' ', '+')}")
        own, theirs = 0.0, 0.0
        waited: list[float] = []
        for number in range(rounds):
            question = QUESTIONS[number % len(QUESTIONS)]
            begun = time.process_time()
            memory.search(question)
            own += time.process_time() - begun
            cpu, at = server.cpu(), time.perf_counter()
            server.api(f"/search?q={question.replace(' ', '+')}")
            theirs += server.cpu() - cpu
            waited.append(time.perf_counter() - at)
    row = {
        "what": "search",
        "CPU ms": round(theirs / rounds * 1000),
        "p50 ms": round(statistics.median(waited) * 1000),
    }
    return [row | {"× engine": f"{theirs / own:.2f}"}]


def _slow(server: Running) -> str:
    """Open many connections that never finish asking, and ask beside them."""
    sockets = []
    answered, requests = 0, 20
    try:
        for _ in range(SLOW):
            each = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            with contextlib.suppress(OSError):
                each.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: ")
            sockets.append(each)
        for _ in range(requests):
            with contextlib.suppress(OSError, http.client.HTTPException):
                server.api("/records?limit=5")
                answered += 1
            for each in sockets:
                with contextlib.suppress(OSError):
                    each.sendall(b"x")
    finally:
        for each in sockets:
            each.close()
    return f"{answered} of {requests}"


def _load(server: Running, home: catalogue.Home, seconds: int) -> dict[str, object]:
    what = f"{CONNECTIONS} connections for {seconds} s, one write in five"
    if shutil.which("wrk") is None:
        return {"what": what, "requests": "wrk is not installed"}
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT % {"token": server.token, "key": home.keys[0]})
        script.flush()
        address = f"http://127.0.0.1:{server.port}"
        words = [
            "wrk",
            "-t2",
            f"-c{CONNECTIONS}",
            f"-d{seconds}s",
            "--timeout",
            "60s",
            "-s",
            script.name,
            address,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        "what": what,
        "requests": report["requests"],
        "failed": report["failed"],
        "p50 ms": round(report["p50"]),
        "p99 ms": round(report["p99"]),
    }


@contextlib.contextmanager
def running(home: catalogue.Home) -> Iterator[Running]:
    """`vade serve` at a terminal of its own, entered by its link."""
    outer, inner = pty.openpty()
    vade = str(Path(sys.executable).with_name("vade"))
    process = subprocess.Popen(
        [vade, "serve", "--port", "0"],
        env=home.environment,
        cwd=home.folder,
        stdin=inner,
        stderr=inner,
        stdout=inner,
    )
    try:
        output = ""
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)(/enter\?key=[\w-]+) ", output)) is None:
            output += os.read(outer, 4096).decode("utf-8", "replace")
        with connect(
            home=home.folder / "home", cwd=home.folder, origin=Origin.USER, actor="human:bench"
        ) as memory:
            token = tokens.add(memory, f"bench-{time.time_ns()}", scopes=("write",), expires="1h")[1]
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=900)
        connection.request("GET", found[2])
        got = connection.getresponse()
        door = re.search(r'data-door="([^"]+)"', got.read().decode())
        assert door
        cookie = str(got.headers["set-cookie"]).partition(";")[0]
        yield Running(process.pid, int(found[1]), door[1], cookie, token)
    finally:
        process.terminate()
        process.wait(30)
        os.close(outer)
        os.close(inner)
