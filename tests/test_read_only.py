"""A home that may only be read still answers: at the command line, to a server's client and in hooks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hooks.calls import World
from vade_command import VADE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/mounts").exists(), reason="needs a Linux mount")
PORT = "The billing database is on port 5544"
GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "reader", "version": "1"},
}


@contextlib.contextmanager
def read_only(home: Path) -> Iterator[None]:
    mount = ["mount", "--bind", "-o", "ro", str(home), str(home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


class Server:
    """`vade mcp`, asked a line at a time."""

    def __init__(self, world: World) -> None:
        self._process = subprocess.Popen(
            [VADE, "mcp"],
            cwd=world.project,
            env=environ(world),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._last = 0
        self.ask("initialize", GREETING)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        said = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._last:
                return dict(answer["result"])

    def call(self, tool: str, **given: Any) -> tuple[bool, str]:
        found = self.ask("tools/call", {"name": tool, "arguments": given})
        return bool(found.get("isError")), str(found["content"][0]["text"])

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def environ(world: World) -> dict[str, str]:
    return {**os.environ, "HOME": str(world.person), "VADE_HOME": str(world.home)}


def check(world: World) -> None:
    """Everything that only reads answers with what is there, and nothing is a traceback."""
    for words in (
        ["search", "billing port"],
        ["search", "--records", "billing"],
        ["list"],
        ["show", "billing"],
        ["inject"],
    ):
        done = subprocess.run(
            [VADE, *words], cwd=world.project, env=environ(world), capture_output=True, text=True, check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (words, done.stderr)
        assert "5544" in done.stdout
    for event in ("session-start", "user-prompt"):
        prompt = {"session_id": event, "prompt": "Which port has the billing database?"}
        said = world.call("claude-code", event, prompt)
        assert (said.code, said.err) == (0, b"")
        assert "5544" in said.context


def check_server(server: Server) -> None:
    for tool in ("memory_search",):
        failed, text = server.call(tool, query="billing port")
        assert not failed, text
        assert "5544" in text
    assert server.call("memory_search", query="billing port", sources=["transcript"])[0] is False
    failed, text = server.call("memory_store", content="Something new that cannot be kept")
    assert failed
    assert "internal error" not in text


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World.at(tmp_path)
    made.memory().store(PORT, key="billing")
    return made


def test_a_home_that_was_never_indexed_answers(world: World) -> None:
    with read_only(world.home):
        check(world)
        server = Server(world)
        check_server(server)
        server.kill()


def test_an_index_that_a_killed_server_left_open_answers(world: World) -> None:
    server = Server(world)
    server.call("memory_search", query="billing")
    server.call("memory_search", query="billing", sources=["transcript"])
    server.kill()
    assert list((world.home / "index").glob("*-wal"))
    world.memory().store("The train leaves on Tuesdays", key="train")  # newer than the index
    with read_only(world.home):
        check(world)
        server = Server(world)
        check_server(server)
        server.kill()


def test_a_server_whose_home_becomes_read_only_goes_on_answering(world: World) -> None:
    server = Server(world)
    server.call("memory_search", query="billing")
    world.memory().store("The train leaves on Tuesdays", key="train")
    with read_only(world.home):
        check_server(server)
        server.kill()
