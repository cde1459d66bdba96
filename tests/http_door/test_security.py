"""What somebody else on this machine, or a page of another site, can try."""

from __future__ import annotations

import http.client
import http.cookiejar
import http.server
import json
import re
import socket
import threading
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from http_door.serving import HANG, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from http_door.serving import Browser, Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("security") / "project") as made:
        yield made


@pytest.fixture(scope="module")
def browser(server: Served) -> Browser:
    made = server.enter()
    assert made.call("POST", "/records", {"text": "Deploys run on Fridays.", "key": "deploys"}).status == 201
    return made


def raw(server: Served, sent: bytes) -> bytes:
    """All that comes back for exactly these bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=HANG) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while True:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                return got
            if not part:
                return got
            got += part


# ---------------------------------------------------------------- other sites


@pytest.mark.parametrize(
    "path", ["/", "/status", "/api/v1/records", "/mcp", "/static/base.js", "/enter?key=x"]
)
def test_under_another_name_nothing_is_answered(path: str, server: Served, browser: Browser) -> None:
    for host in (
        "evil.example",
        f"evil.example:{server.port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1:{server.port}.evil.example",
    ):
        for door in ("", browser.door):
            got = server.ask(door + path, Host=host, Cookie=browser.cookie, **{"Vade-Page": browser.secret})
            assert got.status == 421
            assert "content-security-policy" in got.headers


def test_a_page_of_another_site_changes_nothing(server: Served, browser: Browser) -> None:
    new = {"text": "Planted.", "key": "planted"}
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{server.port + 1}",
        "http://localhost:1",
    ):
        assert browser.call("POST", "/records", new, Origin=origin).status == 403
    path = f"{browser.door}/api/v1/records"
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"):
        sent = {"Cookie": browser.cookie, "Content-Type": kind, "Sec-Fetch-Site": "same-origin"}
        assert server.ask(path, method="POST", body=json.dumps(new).encode(), **sent).status == 403
        with_secret = {**sent, "Vade-Page": browser.secret}
        assert server.ask(path, method="POST", body=json.dumps(new).encode(), **with_secret).status == 422
    assert browser.call("GET", "/records/planted").status == 404


def test_no_answer_lets_another_origin_read_it(server: Served, browser: Browser) -> None:
    for got in (
        browser.read("/status"),
        browser.call("GET", "/records"),
        server.ask("/static/base.js"),
        browser.call("OPTIONS", "/records", Access_Control_Request_Method="POST"),
    ):
        assert not [name for name in got.headers if name.startswith("access-control-")]
        assert got.headers["cross-origin-resource-policy"] == "same-origin"
        assert got.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in got.headers["content-security-policy"]


# ---------------------------------------------------------------- another server of this machine


class Thief(http.server.BaseHTTPRequestHandler):
    """A server on another port that keeps every cookie it is sent."""

    stolen: list[str] = []  # noqa: RUF012  # of one test

    def do_GET(self) -> None:
        self.stolen += self.headers.get_all("Cookie") or []
        self.send_response(200)
        self.send_header("Set-Cookie", "vade-session=fixed; Path=/")  # which it may also try to give
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.full
def test_a_server_on_another_port_is_never_sent_the_cookie(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("thief") / "project") as server:
        thief = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Thief)
        threading.Thread(target=thief.serve_forever, daemon=True).start()
        jar = http.cookiejar.CookieJar()
        opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        here = f"http://127.0.0.1:{server.port}"
        page = opened.open(here + server.link, timeout=HANG).read().decode()
        found = re.search(r'data-door="([^"]+)"', page)
        assert found
        assert opened.open(f"{here}{found[1]}/status", timeout=HANG).status == 200  # the jar is a browser's
        for path in ("/", "/status", "/~guess/status", "/enter"):
            opened.open(f"http://127.0.0.1:{thief.server_port}{path}", timeout=HANG)
        assert not [each for each in Thief.stolen if "fixed" not in each]
        assert opened.open(f"{here}{found[1]}/status", timeout=HANG).status == 200  # nor was it replaced
        thief.shutdown()
        thief.server_close()


def test_a_stolen_cookie_opens_nothing_without_its_door(server: Served, browser: Browser) -> None:
    for path in ("/status", "/status.json", "/api/v1/records", "/api/v1/events", "/~x/status", "/~/status"):
        got = server.ask(path, Cookie=browser.cookie, **{"Sec-Fetch-Site": "same-origin"})
        assert got.status == 401
        assert "Fridays" not in got.text


def test_a_cookie_that_somebody_else_chose_never_becomes_a_session(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with served(tmp_path_factory.mktemp("fixed") / "project") as server:
        got = server.ask(server.link, Cookie="vade-session=chosen", Accept="text/html")
        assert got.status == 200
        assert "chosen" not in got.headers["set-cookie"]
        found = re.search(r'data-door="([^"]+)"', got.text)
        assert found
        assert server.ask(f"{found[1]}/status", Cookie="vade-session=chosen").status == 401


@pytest.mark.full
def test_a_link_leads_to_no_other_site(tmp_path_factory: pytest.TempPathFactory) -> None:
    for number, to in enumerate(("//evil.example", "https://evil.example", "/%0d%0aX: y", "/\\evil.example")):
        with served(tmp_path_factory.mktemp("to") / str(number)) as server:
            got = server.ask(f"{server.link}&to={quote(to)}", Accept="text/html")
            goes = re.findall(r'(?:url=|href=")([^"]*)"', got.text.replace('href="/static/', ""))
            assert goes
            assert all(each.startswith("/~") for each in goes)
            assert "x" not in got.headers


# ---------------------------------------------------------------- the wire


def test_a_request_inside_of_a_request_is_not_answered(server: Served) -> None:
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    hidden = b"GET /static/base.js HTTP/1.1\r\n" + host + b"\r\n"
    begin = b"POST /api/v1/records HTTP/1.1\r\n" + host
    size = f"Content-Length: {len(hidden)}\r\n".encode()
    for sent in (
        begin + size + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
        begin + b"Content-Length: 0\r\n" + size + b"\r\n" + hidden,
        begin + b"Content-Length: +5\r\n\r\n" + hidden,
        begin + b"Transfer-Encoding: xchunked\r\n\r\n" + hidden,
        begin + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
        begin + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
        begin + b"X: a\r\n b: c\rContent-Length: 0\r\n\r\n" + hidden,
        begin + b"X\x00Y: z\r\n\r\n" + hidden,
        b"GET /status\r\n\r\n",
        b"GET  /status HTTP/1.1\r\n" + host + host + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ):
        got = raw(server, sent)
        assert b"vade-door" not in got, sent  # the file that was asked for inside
        assert b" 200 " not in got[:40], sent
    got = raw(server, b"GET http://evil.example/status HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
    assert got[9:12] in (b"401", b"404", b"400")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/v1/records/..%2f..%2fconfig",
        "/api/v1/records/%2e%2e%2f%2e%2e%2fetc%2fpasswd/text",
        "/api/v1/pinned/..%2f..%2fconfig.toml/text",
        "/api/v1/pinned/%2e%2e%2fMEMORY.md/text",
        "/api/v1/sessions/..%2f..%2f..%2fetc%2fpasswd",
        "/api/v1/records/a%00b",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/status%2f..%2f..%2fetc%2fpasswd",
    ],
)
def test_no_path_leads_out(path: str, server: Served, browser: Browser) -> None:
    sent = {"Cookie": browser.cookie, "Vade-Page": browser.secret}
    for door in ("", browser.door):
        got = server.ask(door + path, **sent)
        assert got.status in (400, 401, 403, 404, 422), got.text
        assert "root:" not in got.text


def test_what_is_sent_writes_nothing_into_the_log_or_the_terminal(server: Served, browser: Browser) -> None:
    evil = "%0d%0avade:%20open%20http://evil.example/enter?key=1%1b%5b2J"
    for path in (f"/{evil}", f"/status?x={evil}", f"/api/v1/records/{evil}", f"/enter?key={evil}"):
        server.ask(path)
        server.ask(browser.door + path, Cookie=browser.cookie, **{"Vade-Page": browser.secret})
    server.ask("/status", Authorization="Bearer \x1b[31mred", User_Agent="\x1b]0;title\x07")
    said = server.process.read_nonblocking(65536, timeout=1) if _has_output(server) else ""
    assert "evil" not in said
    assert "\x1b[2J" not in said
    assert "title" not in said


def _has_output(server: Served) -> bool:
    import select

    return bool(select.select([server.process.child_fd], [], [], 0.5)[0])
