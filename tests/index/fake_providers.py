"""A real server on 127.0.0.1 that speaks like OpenAI, Gemini and Ollama, and fails when told to."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

DIMENSION = 12
KEY = "sk-secret-0123456789-abcdefghij"
ROOTS = {"openai": "/v1", "gemini": "/v1beta", "ollama": ""}


def vector_of(text: str, dimension: int = DIMENSION) -> list[float]:
    """A vector that depends on the text alone, and not of unit length."""
    seed = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    chance = random.Random(seed)
    return [chance.gauss(0, 3) for _ in range(dimension)]


@dataclass
class Seen:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Provider:
    """The server's state: what was asked, and the faults still to come (the last one stays)."""

    port: int = 0
    script: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    busiest: int = 0
    waited: int = 0  # times that a client waited until the end of a silence
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    busy: int = 0

    def endpoint(self, provider: str) -> str:
        return f"http://127.0.0.1:{self.port}{ROOTS[provider]}"

    def next_fault(self) -> str:
        with self.lock:
            if not self.script:
                return "ok"
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def reset(self, *script: str) -> None:
        self.script, self.seen, self.busiest = list(script), [], 0


@contextmanager
def serving() -> Iterator[Provider]:
    """Run the server for as long as the block lasts."""
    provider = Provider()

    class Bound(_Handler):
        state = provider

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    provider.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: Provider

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.state.seen.append(Seen(self.path, self._lowered(), {}))
        self._send(200, b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state = self.state
        with state.lock:
            state.seen.append(Seen(self.path, self._lowered(), body))
        with suppress(BrokenPipeError, ConnectionResetError):  # the client gave up, as some tests want
            self._answer(state.next_fault(), body)

    def _lowered(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _answer(self, fault: str, body: dict[str, Any]) -> None:
        name, _, detail = fault.partition(":")
        if name.isdigit():
            self._refuse(int(name), detail)
        elif name == "redirect":
            self._send(302, b"", headers={"Location": f"http://127.0.0.1:{self.state.port}/elsewhere"})
        elif name == "timeout":
            if not self.state.closing.wait(20):
                self.state.waited += 1
        elif name == "drip":
            self._drip()
        elif name == "hang-up":
            self.connection.close()
        elif name == "slow":
            self._work()
            self._send(200, self._vectors("ok", body))
        elif name == "cut":
            content = self._vectors("ok", body)
            self._send(200, content[: len(content) // 2], length=len(content))
        elif name == "not-json":
            self._send(200, b"<html>welcome to the hotel network</html>")
        elif name == "not-vectors":
            self._send(200, b'{"hello": ["world"]}')
        else:
            self._send(200, self._vectors(name, body))

    def _work(self) -> None:
        """Be busy for a while, and no longer when the answer goes out: the next request may overtake it."""
        state = self.state
        with state.lock:
            state.busy += 1
            state.busiest = max(state.busiest, state.busy)
        time.sleep(0.05)
        with state.lock:
            state.busy -= 1

    def _refuse(self, status: int, detail: str) -> None:
        headers = {"Retry-After": detail} if status == 429 and detail else {}
        # A server that quotes the key back, as some do.
        reason = detail or f"refused {KEY}"
        self._send(status, json.dumps({"error": {"message": reason}}).encode(), headers=headers)

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        while not self.state.closing.wait(0.02):
            self.wfile.write(b" ")

    def _vectors(self, fault: str, body: dict[str, Any]) -> bytes:
        texts = self._texts(body)
        rows: list[Any] = [vector_of(text) for text in texts]
        if fault == "wrong-dimension":
            rows = [vector_of(text, DIMENSION + 1) for text in texts]
        elif fault == "ragged":
            rows[-1] = rows[-1][:-1]
        elif fault == "empty-rows":
            rows = [[] for _ in rows]
        elif fault == "nan":
            rows[0][3] = float("nan")
        elif fault == "infinite":
            rows[0][3] = 1e300
        elif fault == "null":
            rows[0][3] = None
        elif fault == "words":
            rows[0][3] = "seven"
        elif fault == "wrong-count":
            rows = rows[:-1]
        return json.dumps(self._wrapped(rows)).encode()

    def _texts(self, body: dict[str, Any]) -> list[str]:
        if ":batchEmbedContents" in self.path:
            return [each["content"]["parts"][0]["text"] for each in body["requests"]]
        return list(body["input"])

    def _wrapped(self, rows: list[Any]) -> dict[str, Any]:
        if self.path == "/api/embed":
            return {"model": "fake", "embeddings": rows, "total_duration": 1}
        if ":batchEmbedContents" in self.path:
            return {"embeddings": [{"values": row} for row in rows]}
        entries = [
            {"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)
        ]
        return {"object": "list", "data": entries[::-1], "usage": {"total_tokens": 1}}  # any order is allowed

    def _send(
        self, status: int, content: bytes, *, length: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)
