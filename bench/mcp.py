"""Calls per second over stdio, one after the other, as one agent makes them."""

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

RECORDS = 300
ROUNDS = 300
WARM_UP = 20


def measure() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        home = Path(folder, "home")
        memory = connect(home=home, cwd=folder, environ={})
        for number in range(RECORDS):
            memory.store(
                f"Service {number} listens on port {8000 + number} and logs to disk.", key=f"s{number}"
            )
        memory.close()
        begun = time.perf_counter()
        with serve(home, Path(folder)) as process:
            talk = Talk(process)
            started = time.perf_counter() - begun
            calls: dict[str, Any] = {
                "ping": lambda _: talk.ask("ping", {}),
                "memory_get": lambda n: talk.call("memory_get", key=f"s{n % RECORDS}"),
                "memory_search (bm25)": lambda n: talk.call(
                    "memory_search", query=f"port {8000 + n % RECORDS}", mode="bm25"
                ),
                "memory_search (hybrid)": lambda n: talk.call(
                    "memory_search", query=f"where does service {n} log"
                ),
                "memory_store": lambda n: talk.call(
                    "memory_store", content=f"New fact {n}.", key=f"n{n % 50}"
                ),
                "memory_store with a key for retries": lambda n: talk.call(
                    "memory_store", content=f"Again {n}.", key=f"r{n % 50}", idempotency_key=f"k{n}"
                ),
                "memory_note": lambda n: talk.call("memory_note", content=f"Note {n}."),
            }
            rows = [_row(name, call) for name, call in calls.items()]
            assert process.stdin is not None
            process.stdin.close()
            begun = time.perf_counter()
            process.wait(60)
            left = time.perf_counter() - begun
    return [
        *rows,
        {
            "call": "start to the first answer",
            "per second": "",
            "p50 ms": round(started * 1000),
            "p99 ms": "",
        },
        {"call": "end of input to exit", "per second": "", "p50 ms": round(left * 1000), "p99 ms": ""},
    ]


def serve(home: Path, folder: Path, environ: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start `vade mcp` on a home, in a folder; its process runs the code that this one runs."""
    words = [sys.executable, "-m", "vademecum", "mcp", "--home", str(home)]
    given = None if environ is None else {**os.environ, **environ}
    return subprocess.Popen(words, cwd=folder, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _row(name: str, call: Any) -> dict[str, object]:
    seconds = []
    for number in range(-WARM_UP, ROUNDS):
        begun = time.perf_counter()
        call(number + WARM_UP)
        if number >= 0:
            seconds.append(time.perf_counter() - begun)
    seconds.sort()
    return {
        "call": name,
        "per second": round(len(seconds) / sum(seconds)),
        "p50 ms": round(statistics.median(seconds) * 1000, 2),
        "p99 ms": round(seconds[len(seconds) * 99 // 100] * 1000, 2),
    }


class Talk:
    """Lines over two pipes, without a client library whose time would count too."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._number = 0
        begin = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self.ask("initialize", begin)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._number, answer
        return dict(answer["result"])

    def call(self, name: str, **given: Any) -> dict[str, Any]:
        result = self.ask("tools/call", {"name": name, "arguments": given})
        assert not result.get("isError"), result
        return result
