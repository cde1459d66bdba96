"""Standard output carries the protocol and nothing else, and the process leaves with its client."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from mcp_door.talking import HANG, home_of
from vade_command import VADE
from vademecum.memory import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A server whose memory prints, warns and logs as careless libraries do.
NOISY = """
import logging, os, subprocess, sys, warnings
from vademecum import memory
from vademecum.interfaces.cli.app import run
search = memory.Memory.search
def noisy(self, *args, **more):
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run(["echo", "echoed"], check=True)
    warnings.warn("warned")
    logging.getLogger("x").warning("logged")
    return search(self, *args, **more)
memory.Memory.search = noisy
sys.exit(run(sys.argv[1:]))
"""
# A server that waits for its last calls however slow the machine is.
PATIENT = """
import sys
from vademecum.interfaces.cli.app import run
from vademecum.interfaces.mcp import stdio
stdio.PATIENCE = stdio.GRACE = 60
sys.exit(run(sys.argv[1:]))
"""
SETTLED = 2.0  # seconds within which a server is gone


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


class Wire:
    """A server's pipes, spoken to line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.number = 0
        self.lines = 0

    def send(self, method: str, params: dict[str, Any] | None = None, *, notify: bool = False) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if not notify:
            self.number += 1
            message["id"] = self.number
        self.raw(json.dumps(message).encode() + b"\n")
        return self.number

    def raw(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next line, which must be a message."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], HANG)
        assert ready, "no answer came"
        line = self.process.stdout.readline()
        assert line, "the server closed its output"
        self.lines += 1
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0", line
        assert {"result", "error", "method"} & set(message), line
        return dict(message)

    def greet(self) -> None:
        begin = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        self.send("initialize", begin)
        assert self.receive()["result"]["serverInfo"]["name"] == "vademecum"
        self.send("notifications/initialized", notify=True)

    def call(self, name: str, **given: Any) -> dict[str, Any]:
        asked = self.send("tools/call", {"name": name, "arguments": given})
        while True:
            message = self.receive()
            if message.get("id") == asked:
                return dict(message["result"])


@contextlib.contextmanager
def wired(folder: Path, *words: str, command: tuple[str, ...] = (VADE,)) -> Iterator[Wire]:
    process = subprocess.Popen(
        [*command, "mcp", "--home", str(home_of(folder)), *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )
    try:
        yield Wire(process)
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        process.wait(HANG)


def chatter(wire: Wire, calls: int, seed: int) -> None:
    """Calls of every kind, good and bad, and lines that are no messages."""
    choose = random.Random(seed)
    wire.greet()
    for number in range(calls):
        kind = choose.randrange(8)
        if kind == 0:
            wire.call("memory_store", content=f"Fact {number}: {choose.random()}", key=f"fact-{number % 20}")
        elif kind == 1:
            assert wire.call("memory_store", content=number)["isError"]
        elif kind == 2:
            wire.raw(
                choose.choice([b"no json\n", b"{}\n", b"\xff\xfe\n", b'{"jsonrpc": "1"}\n', b"[1]\n", b"\n"])
            )
        elif kind == 3:
            wire.raw(
                b'{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"memory_note",'
                b'"arguments":{"content":"half \\ud800 a character"}}}\n'
            )
        elif kind == 4:
            wire.call(
                "memory_get", path=choose.choice(["fact-1", "../x", "\u2028", "memory/global/MEMORY.md"])
            )
        elif kind == 5:
            wire.send("nothing/such")
        else:
            wire.call("memory_search", query=f"fact {number} \u202e\x1b[31m")
    assert not wire.call("memory_search", query="fact").get("isError")


def test_every_line_of_output_is_a_message_whatever_is_printed_beside_it(folder: Path) -> None:
    with wired(folder, command=(sys.executable, "-c", NOISY)) as wire:
        chatter(wire, 300, seed=7)
        assert wire.lines > 200


@pytest.mark.soak
def test_ten_thousand_calls_leave_only_messages_on_the_wire(folder: Path) -> None:
    with wired(folder, command=(sys.executable, "-c", NOISY)) as wire:
        chatter(wire, 10_000, seed=11)


def test_requests_from_a_file_are_all_answered(folder: Path) -> None:
    begin = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    store = {"name": "memory_store", "arguments": {"content": "Said and closed.", "key": "said"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": store},
    ]
    done = subprocess.run(
        [sys.executable, "-c", PATIENT, "mcp", "--home", str(home_of(folder))],
        cwd=folder,
        input="".join(json.dumps(each) + "\n" for each in lines),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["id"] for each in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["outcome"] == "created"


@pytest.mark.parametrize("words", [["--home", "a-file"], ["--tools", "none"]])
def test_a_server_that_cannot_begin_says_why_and_writes_nothing_to_the_wire(
    folder: Path, words: list[str]
) -> None:
    (folder / "a-file").write_text("no folder")
    done = subprocess.run(
        [VADE, "mcp", *words], cwd=folder, input="", capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert done.stderr.startswith("vade: ")
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- leaving

# A client that starts a server, says so, and waits to be killed; `held` keeps the server's input open.
CLIENT = """
import subprocess, sys, time
held = sys.argv[1] == "held"
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
                   b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\\n')
server.stdin.flush()
server.stdout.readline()
fd, other = server.stdin.fileno(), None
if held:
    other = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, pass_fds=[fd])
print(server.pid, other.pid if other else 0, flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except FileNotFoundError:
        return False


def gone_after(pid: int, *, most: float) -> float:
    begun = time.monotonic()
    while alive(pid):
        assert time.monotonic() - begun < most, "the server stays behind"
        time.sleep(0.01)
    return time.monotonic() - begun


def cycle(folder: Path, *, held: bool, most: float) -> float:
    """Start a client with a server, kill the client, and see how long the server stays."""
    client = subprocess.Popen(
        [
            *(sys.executable, "-c", CLIENT, "held" if held else "alone"),
            *(VADE, "mcp", "--home", str(home_of(folder))),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert client.stdout is not None
    server, other = map(int, client.stdout.readline().split())
    try:
        client.send_signal(signal.SIGKILL)
        client.wait(HANG)
        return gone_after(server, most=most)
    finally:
        client.stdout.close()
        if other:
            os.kill(other, signal.SIGKILL)


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")


@pytest.mark.full(but=1)
@linux
@pytest.mark.parametrize("held", [False, True])
def test_a_server_is_gone_soon_after_its_client_was_killed(folder: Path, held: bool) -> None:
    cycle(folder, held=held, most=HANG)


def test_a_server_leaves_when_its_input_ends_even_if_nobody_reads_its_output(folder: Path) -> None:
    with wired(folder) as wire:
        wire.greet()
        pipe = wire.process.stdin
        assert pipe is not None
        for _ in range(60):  # more answers than a pipe holds
            if not select.select([], [pipe], [], 0.5)[1]:
                break
            wire.send("tools/list")
        pipe.close()
        assert wire.process.wait(HANG) == 0


@linux
@pytest.mark.soak
def test_two_hundred_cycles_leave_no_orphan_and_none_takes_long(folder: Path) -> None:
    longest = 0.0
    for number in range(200):
        if number % 2:
            longest = max(longest, cycle(folder, held=number % 4 == 1, most=HANG))
            continue
        with wired(folder) as wire:
            wire.greet()
            wire.send("tools/call", {"name": "memory_search", "arguments": {"query": "anything"}})
            assert wire.process.stdin is not None
            wire.process.stdin.close()
            begun = time.monotonic()
            wire.process.wait(HANG)
            longest = max(longest, time.monotonic() - begun)
    assert longest <= SETTLED


def test_a_client_that_disconnects_mid_write_leaves_whole_writes_or_none(folder: Path) -> None:
    """Cut off at any moment, by a closed pipe or by a kill: each record is all there or was never begun."""
    choose = random.Random(3)
    sent: dict[str, str] = {}
    for round_ in range(2):
        with wired(folder) as wire:
            wire.greet()
            for number in range(12):
                key, text = f"cut-{round_}-{number}", f"Round {round_}, {number}: " + "whole " * 2000
                sent[key] = text.strip()
                wire.send("tools/call", {"name": "memory_store", "arguments": {"content": text, "key": key}})
            time.sleep(choose.random() * 0.3)
            assert wire.process.stdin is not None
            if round_ % 2:
                wire.process.kill()
            wire.process.stdin.close()
            wire.process.wait(HANG)
    memory = connect(home=home_of(folder), cwd=folder, environ={})
    listing = memory.list()
    assert not listing.findings
    for record in listing.records:
        assert [each.text for each in record.entries] == [sent[record.key]]
    assert memory.audit.verify().problems == ()
