"""How soon a server over stdio answers from nothing, as a ratio to a bare interpreter."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vademecum.memory import connect

ROUNDS = 15
RECORDS = 300
BARE = "python -c pass"
_GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
# From the start of the process to the answer; each after the greeting and the list, as agents ask for them.
ASKED: dict[str, dict[str, Any] | None] = {
    "initialize and tools/list": None,
    "first memory_search by words": {
        "name": "memory_search",
        "arguments": {"query": "port of service 7", "mode": "bm25"},
    },
    "first memory_search (hybrid)": {
        "name": "memory_search",
        "arguments": {"query": "where does service 7 write its log"},
    },
}
MOST = dict(zip(ASKED, (5, 20, 30), strict=True))  # times a bare interpreter


def measure() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        _fill(home, folder)
        # Bytecode must be cached, as it is for anyone who has installed the package.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        times: dict[str, list[float]] = {BARE: [], **{name: [] for name in ASKED}}
        for round_ in range(ROUNDS + 2):  # in turn, so that a noisy moment hits all of them; two to warm up
            for name, measured in times.items():
                seconds = (
                    _bare(environment)
                    if name == BARE
                    else _time_question(home, folder, environment, call=ASKED[name])
                )
                if round_ >= 2:
                    measured.append(seconds)
    bare = statistics.median(times[BARE])
    return [
        {
            "until the answer to": name,
            "p50 ms": round(statistics.median(seconds) * 1000, 1),
            "x bare interpreter": round(statistics.median(seconds) / bare, 1),
            "at most": MOST.get(name, ""),
        }
        for name, seconds in times.items()
    ]


def _fill(home: Path, folder: str) -> None:
    memory = connect(home=home, cwd=folder, environ={})
    for number in range(RECORDS):
        memory.store(f"Service {number} listens on port {8000 + number} and logs to disk.", key=f"s{number}")
    memory.search("service")
    memory.close()


def _bare(environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)
    return time.perf_counter() - begun


def _time_question(
    home: Path, folder: str, environment: dict[str, str], *, call: dict[str, Any] | None
) -> float:
    words = [str(Path(sys.executable).with_name("vade")), "mcp", "--home", str(home)]
    begun = time.perf_counter()
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout

        def ask(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]  # seen above
            process.stdin.flush()  # type: ignore[union-attr]
            answer = json.loads(process.stdout.readline())  # type: ignore[union-attr]
            assert answer["id"] == method, answer
            return dict(answer["result"])

        ask("initialize", _GREETING)
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        assert ask("tools/list")["tools"]
        if call is not None:
            found = ask("tools/call", call)
            assert not found["isError"], found
            assert found["structuredContent"]["results"], found
        return time.perf_counter() - begun
