"""Honest clients beside a crowd of strangers (`crowd.py`), who have no token and never finish."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CROWD = Path(__file__).parent / "crowd.py"
CLIENTS = 20
PAUSE = 0.05  # seconds between two requests of a client
HANG = 60  # seconds after which a request is stuck, on however slow a machine
SIZES = [120, pytest.param(1500, marks=pytest.mark.full)]


class Door(NamedTuple):
    """A server, an honest request for each client, and a path that asks for no token."""

    port: int
    path: str
    headers: Sequence[Mapping[str, str]]
    status: int
    open_path: str

    def ask(self, client: int) -> float:
        """Send the honest request of a client on a new connection; return how long the answer took."""
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)
        try:
            connection.request("GET", self.path, headers=dict(self.headers[client % len(self.headers)]))
            response = connection.getresponse()
            text = response.read()
            assert response.status == self.status, text
            return time.monotonic() - begun
        finally:
            connection.close()


def check_beside_a_crowd(door: Door, count: int) -> None:
    """Every honest request is answered beside so many strangers; print how long the slowest one took."""
    strangers = crowd_of(count)
    words = [sys.executable, str(CROWD), str(door.port), str(strangers), door.open_path]
    arrived = threading.Event()

    def ask(client: int) -> list[float]:
        took = [door.ask(client)]
        while not arrived.is_set() or len(took) < 3:
            time.sleep(PAUSE)
            took.append(door.ask(client))
        return took

    with subprocess.Popen(words, stdout=subprocess.PIPE) as crowd, ThreadPoolExecutor(CLIENTS) as clients:
        try:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == b"coming\n"
            asked = [clients.submit(ask, each) for each in range(CLIENTS)]
            assert crowd.stdout.readline() == b"were all here\n"
            arrived.set()
            took = sorted(seconds for each in asked for seconds in each.result())
            assert crowd.poll() is None
        finally:
            arrived.set()
            crowd.kill()
    print(
        f"\n{strangers} strangers, {len(took)} honest requests: median {took[len(took) // 2]:.3f} s,"
        f" slowest {took[-1]:.2f} s"
    )


def crowd_of(count: int) -> int:
    """As many strangers as one process may have on this machine."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return count if hard == resource.RLIM_INFINITY else min(count, hard - 300)
