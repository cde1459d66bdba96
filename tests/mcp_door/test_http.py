"""Over HTTP: on this machine only, to who holds the token, and to no page of a browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from starlette.datastructures import Headers

from mcp_door.talking import HANG, Address, home_of, served
from vade_command import VADE
from vademecum.interfaces import connections
from vademecum.interfaces.mcp.http import (
    RequestGuard,
    token_of,
)
from vademecum.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def post(address: Address, headers: list[tuple[str, str]]) -> int:
    """The status of a request with exactly these headers."""
    where = urlsplit(address.url)
    assert where.hostname
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=HANG)
    connection.putrequest("POST", where.path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Accept", "application/json, text/event-stream")
    connection.putheader("Content-Length", str(len(PING)))
    connection.endheaders(PING.encode())
    status = connection.getresponse().status
    connection.close()
    return status


def test_host_then_origin_then_token_decide_before_anything_else(folder: Path) -> None:
    with served(folder) as address:
        port = urlsplit(address.url).port
        host, token = ("Host", f"127.0.0.1:{port}"), ("Authorization", f"Bearer {address.token}")
        # 400 is the protocol's own answer to a message before its greeting: the door was passed.
        assert post(address, [host, token]) == 400
        assert post(address, [("Host", f"localhost:{port}"), token]) == 400
        assert post(address, [host, ("Origin", f"http://localhost:{port}"), token]) == 400
        for wrong in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1",
            f"127.0.0.1:{port}.evil",
            "127.0.0.1:1",
        ):
            assert post(address, [("Host", wrong), token]) == 421
            assert post(address, [("Host", wrong), ("Origin", "http://evil.example")]) == 421
        assert post(address, [token]) in (400, 421)  # without any Host
        for wrong in (
            "http://evil.example",
            f"http://evil.example:{port}",
            "null",
            f"http://localhost:{port}.evil",
        ):
            assert post(address, [host, ("Origin", wrong), token]) == 403
            assert post(address, [host, ("Origin", wrong)]) == 403
        for given in (
            "",
            "Bearer",
            "Bearer ",
            f"Basic {address.token}",
            f"Bearer {address.token}x",
            address.token,
        ):
            assert post(address, [host, ("Authorization", given)]) == 401
        assert post(address, [host]) == 401
        assert post(address, [host, token, token]) == 401
        with socket.socket() as other:  # no other address of this machine is listened to
            other.settimeout(HANG)
            assert other.connect_ex(("127.0.0.2", port or 0)) != 0
    assert address.process.returncode == 0


def test_two_hosts_or_origins_are_refused_whichever_comes_first() -> None:
    guard = RequestGuard(lambda *_: None, port=8377, token="t" * 20)  # type: ignore[arg-type]  # never called
    good, bad = (b"host", b"localhost:8377"), (b"host", b"evil.example")
    held = (b"authorization", b"Bearer " + b"t" * 20)
    assert guard.refusal(Headers(raw=[good, held])) is None
    for raw in ([good, bad, held], [bad, good, held], [good, good, held]):
        assert (guard.refusal(Headers(raw=raw)) or (0,))[0] == 421
    origins = [(b"origin", b"http://localhost:8377"), (b"origin", b"http://evil.example")]
    for pair in (origins, origins[::-1]):
        assert (guard.refusal(Headers(raw=[good, *pair, held])) or (0,))[0] == 403
    assert (guard.refusal(Headers(raw=[good, (b"authorization", b"Bearer \xff")])) or (0,))[0] == 401


def test_the_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    made = token_of(home)
    assert len(made) >= 40
    assert token_of(home) == made
    if sys.platform != "win32":
        assert (tmp_path / "home" / "mcp-token").stat().st_mode & 0o777 == 0o600


@pytest.mark.full(but=1)
@pytest.mark.parametrize("content", ["", "  \n", "\0\0", "short", "two words that are long enough"])
def test_a_token_that_is_none_refuses_to_start(folder: Path, content: str) -> None:
    home = home_of(folder)
    home.mkdir(mode=0o700)
    (home / "mcp-token").write_text(content)
    (home / "mcp-token").chmod(0o600)
    done = subprocess.run(
        [VADE, "mcp", "--http", "--port", "0", "--home", str(home)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 1
    assert "has no token" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of other systems")
def test_a_token_that_others_can_read_refuses_to_start(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    token_of(home)
    os.chmod(tmp_path / "home" / "mcp-token", 0o644)
    with pytest.raises(Exception, match="can be read by others"):
        token_of(home)


def test_a_port_that_is_taken_and_options_that_do_not_go_together_are_told(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words, code, said in (
            (["--http", "--port", port], 1, "cannot be used"),
            (["--port", port], 2, "--port requires --http"),
        ):
            done = subprocess.run(
                [VADE, "mcp", *words, "--home", str(home_of(folder))],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=HANG,
                check=False,
            )
            assert (done.returncode, said in done.stderr) == (code, True), done.stderr


# A shell that starts a server in the background, says its id, and waits to be killed.
SHELL = """
import signal, subprocess, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "nohup" else signal.SIG_DFL)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
line = b""
while not line.rstrip().endswith(b"}"):
    line += server.stdout.readline()
print(server.pid, flush=True)
time.sleep(600)
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except FileNotFoundError:
        return False


@pytest.mark.full(but=1)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
@pytest.mark.parametrize("how", ["plain", "nohup"])
def test_a_server_leaves_with_the_process_that_started_it_unless_told_to_stay(folder: Path, how: str) -> None:
    command = [VADE, "mcp", "--http", "--port", "0", "--json", "--home", str(home_of(folder))]
    parent = subprocess.Popen(
        [sys.executable, "-c", SHELL, how, *command], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    parent.kill()
    parent.wait(HANG)
    parent.stdout.close()
    try:
        if how == "nohup":
            time.sleep(4)
            assert _alive(server)
            os.kill(server, signal.SIGTERM)
        until = time.monotonic() + HANG
        while _alive(server):
            assert time.monotonic() < until, "the server stays behind"
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)


def connected(address: Address, sent: bytes) -> socket.socket:
    """A socket on which this much was said."""
    where = urlsplit(address.url)
    made = socket.create_connection((where.hostname, where.port), timeout=HANG)
    made.sendall(sent)
    return made


def dropped(client: socket.socket) -> bool:
    """Whether the server has closed a connection; what it said before counts as well."""
    client.settimeout(HANG)
    try:
        while client.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def head(address: Address, *more: str) -> bytes:
    host = f"Host: 127.0.0.1:{urlsplit(address.url).port}"
    return "\r\n".join(["POST /mcp HTTP/1.1", host, *more, "", ""]).encode()


HALF: dict[str, Callable[[Address], bytes]] = {
    "nothing": lambda address: b"",
    "half a line": lambda address: b"POST /mc",
    "half a head": lambda address: head(address)[:-2],
    "half a body": lambda address: head(address, "Content-Length: 100") + b"{",
    "half a chunk": lambda address: head(address, "Transfer-Encoding: chunked") + b"40\r\n{",
}


@pytest.mark.full
def test_four_hundred_clients_that_never_finish_are_dropped_and_keep_nobody_out(folder: Path) -> None:
    with served(folder) as address:
        port = urlsplit(address.url).port
        own = [("Host", f"127.0.0.1:{port}"), ("Authorization", f"Bearer {address.token}")]
        with contextlib.ExitStack() as clients:
            kinds = [*HALF.values()]
            held = [
                clients.enter_context(contextlib.closing(connected(address, kinds[n % len(kinds)](address))))
                for n in range(400)
            ]
            before = time.monotonic()
            assert post(address, own) == 400  # served beside them
            open_now = len(os.listdir(f"/proc/{address.process.pid}/fd")) if sys.platform == "linux" else 0
            assert open_now < connections.LOCAL.total
            assert all(map(dropped, held))
            assert time.monotonic() - before < HANG  # none was waited for until its own limit
        assert post(address, own) == 400


@pytest.mark.full
def test_a_client_that_sends_a_byte_now_and_then_is_dropped_too(folder: Path) -> None:
    with served(folder) as address:
        client = connected(address, head(address)[:-2])
        begun = time.monotonic()
        try:
            while time.monotonic() - begun < HANG:
                client.sendall(b"X")
                time.sleep(0.2)
        except ConnectionError:
            return
        finally:
            client.close()
        pytest.fail("it was listened to without end")


@pytest.mark.full(but=1)
@pytest.mark.parametrize("kept", [False, True])
def test_what_is_too_large_is_refused_before_the_token_is_looked_at(folder: Path, kept: bool) -> None:
    with served(folder) as address:
        token = f"Authorization: Bearer {address.token if kept else 'none-of-ours-at-all'}"
        large = f"X-Large: {'x' * (connections.LARGEST_HEAD + 1)}"
        for sent, status in (
            (head(address, token, large), (400, 431)),
            (head(address, token, *(f"X-{n}: y" for n in range(5_000))), (400, 431)),
            (head(address, token, f"Content-Length: {connections.LOCAL.body + 1}"), (413,)),
            (head(address, token, f"Content-Length: {'9' * 400}"), (400, 413)),
        ):
            with contextlib.closing(connected(address, sent)) as client:
                assert int(client.recv(65_536).split()[1]) in status
        with contextlib.closing(
            connected(address, head(address, token, "Transfer-Encoding: chunked"))
        ) as much:
            with contextlib.suppress(ConnectionError):
                for _ in range(connections.LOCAL.body // (1 << 16) + 8):
                    much.sendall(b"10000\r\n" + b" " * (1 << 16) + b"\r\n")
            assert dropped(much)
