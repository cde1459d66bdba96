"""How the tests reach `vade serve`: a real process at a terminal of its own, and real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pexpect

from vade_command import VADE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HANG = 60  # seconds after which something is stuck, on however slow a machine


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served(NamedTuple):
    """A server, and the link that it showed at its terminal."""

    port: int
    link: str  # path and query
    home: Path
    folder: Path
    process: pexpect.spawn[str]

    def ask(self, path: str, *, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        """Ask with exactly these headers; underscores in their names are dashes."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if content is not None and "Content-Type" not in sent:
            sent["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)
        try:
            connection.request(method, path, body=content, headers=sent)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def enter(self) -> Browser:
        """Open the link, as a browser does."""
        got = self.ask(self.link, Accept="text/html")
        assert got.status == 200, got.text
        cookie = got.headers["set-cookie"].partition(";")[0]
        found = re.search(r'data-door="([^"]+)"', got.text)
        assert found
        first = self.ask(f"{found[1]}/status", Accept="text/html", Cookie=cookie)
        secret = re.search(r'name="vade-page" content="([^"]+)"', first.text)
        assert secret
        return Browser(self, found[1], cookie, secret[1])


class Browser(NamedTuple):
    """A browser that was let in."""

    server: Served
    door: str
    cookie: str
    secret: str

    def read(self, path: str, **headers: str) -> Answer:
        """Go to a page, as a click does."""
        return self.server.ask(self.door + path, Cookie=self.cookie, Accept="text/html", **headers)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Call the API, as a script of the page does."""
        sent = {"Cookie": self.cookie, "Vade-Page": self.secret, "Sec-Fetch-Site": "same-origin", **headers}
        return self.server.ask(f"{self.door}/api/v1{path}", method=method, body=body, **sent)


@contextlib.contextmanager
def served(folder: Path, *options: str, home: Path | None = None, **environ: str) -> Iterator[Served]:
    """`vade serve` on a free port, started by a person at a terminal."""
    where = home or folder.parent / f"{folder.name}-home"
    folder.mkdir(parents=True, exist_ok=True)
    process = pexpect.spawn(
        VADE,
        ["--home", str(where), "serve", "--port", "0", *options],
        cwd=str(folder),
        env={"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **environ},
        encoding="utf-8",
        timeout=HANG,
        dimensions=(24, 400),
    )
    try:
        process.expect(r"http://127\.0\.0\.1:(\d+)(/enter\?key=\S+)")
        assert isinstance(process.match, re.Match)
        yield Served(int(process.match[1]), process.match[2], where, folder, process)
    finally:
        process.close(force=True)
