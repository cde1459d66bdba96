"""R19: in whatever state the memory is, a hook is over in time, with 0, and with JSON or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hooks.calls import PATIENT, wait_until
from vademecum.store import hook_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hooks.calls import Said, World

    State = Callable[[World], contextlib.AbstractContextManager[list[str]]]

CAP = 1.5  # seconds: the limit of 1 s, starting up, and what a busy machine takes to notice
EVENTS = ("session-start", "user-prompt", "stop", "pre-compact", "session-end")

_HOLD = """
import os, signal, sys, apsw
connections = []
for path in sys.argv[1:]:
    connection = apsw.Connection(path)
    connection.execute("begin exclusive")
    connections.append(connection)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextlib.contextmanager
def normal(world: World) -> Iterator[list[str]]:
    yield []


@contextlib.contextmanager
def locked(world: World) -> Iterator[list[str]]:
    """Every database is held by a process that has been stopped."""
    databases = [str(path) for path in (*(world.home / "index").glob("*.db"), world.home / "state.db")]
    assert len(databases) >= 2
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, *databases], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield []
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()


@contextlib.contextmanager
def unwritable(world: World) -> Iterator[list[str]]:
    """The home cannot be written to; for root, who can write everywhere, it is not there."""
    aside = world.home.with_name("aside")
    if os.geteuid() == 0:
        world.home.rename(aside)
        yield []
        shutil.rmtree(world.home, ignore_errors=True)
        aside.rename(world.home)
        return
    folders = [world.home, *(path for path in world.home.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o500)
    yield []
    for path in folders:
        path.chmod(0o700)


@contextlib.contextmanager
def damaged(world: World) -> Iterator[list[str]]:
    for path in (*(world.home / "index").glob("*.db"), world.home / "state.db"):
        content = bytearray(path.read_bytes())
        content[100:] = b"\xff" * (len(content) - 100)
        path.write_bytes(bytes(content))
    yield []


@contextlib.contextmanager
def slow(world: World) -> Iterator[list[str]]:
    """Every fsync takes two seconds longer; without a way to slow it down, a lock is never given."""
    tracer = shutil.which("strace")
    words = ["-D", "-f", "-qq", "-o", os.devnull, "--seccomp-bpf", "-e", "trace=fsync,fdatasync"]
    words += ["-e", "inject=fsync,fdatasync:delay_enter=2s"]
    if tracer and subprocess.run([tracer, *words, "true"], capture_output=True, check=False).returncode == 0:
        yield [tracer, *words]
        return
    with locked(world):
        yield []


STATES: dict[str, State] = {
    "normal": normal,
    "locked": locked,
    "unwritable": unwritable,
    "damaged": damaged,
    "slow": slow,
}


def ready(world: World) -> World:
    memory = world.memory()
    for number in range(20):
        memory.store(
            f"The payment gateway number {number} is retried {number} times", key=f"gateway-{number}"
        )
    memory.search("payment gateway")
    memory.sessions.import_transcript(world.transcript("first"), agent="claude-code")
    memory.sessions.search("parser")
    memory.close()
    return world


def calls(world: World, state: str, count: int, limit: str = "1s") -> Iterator[Said]:
    with STATES[state](world) as before:
        for number in range(count):
            path = world.transcript("first", ("user", f"Round {number}?"), ("assistant", f"Yes, {number}."))
            given = {
                "session_id": f"s{number}",
                "prompt": f"How often is the payment gateway number {number % 20} retried?",
                "transcript_path": str(path),
            }
            event = EVENTS[number % len(EVENTS)]
            yield world.call("claude-code", event, given, before=before, **limits(limit))


def limits(limit: str) -> dict[str, str]:
    return {"VADE_LIMITS_HOOK_START": limit, "VADE_LIMITS_HOOK_PROMPT": limit}


def check(said: Said) -> None:
    assert said.code == 0
    assert b"\x1b" not in said.out
    if said.out:
        assert set(json.loads(said.out)) == {"hookSpecificOutput"}


@pytest.mark.full(but=1)
@pytest.mark.parametrize("state", STATES)
def test_no_state_of_the_memory_makes_a_hook_fail(world: World, state: str) -> None:
    answers = 0
    for said in calls(ready(world), state, 10, "9s" if state == "normal" else "1s"):
        check(said)
        answers += bool(said.out)
    if state == "normal":
        assert answers == 4


@pytest.mark.soak
@pytest.mark.parametrize("state", STATES)
def test_a_thousand_hooks_in_each_state_are_over_in_time(world: World, state: str) -> None:
    for said in calls(ready(world), state, 1000):
        check(said)
        assert said.seconds <= CAP


@pytest.mark.parametrize("limit", ["", "5ms"], ids=["file", "variable"])
def test_a_hook_that_takes_too_long_says_nothing_and_is_written_down(world: World, limit: str) -> None:
    """While another hook of the session is at work, the answer is nothing, not a wait."""
    ready(world)
    (world.home / "config.toml").write_text('[limits]\nhook_prompt = "5ms"\n')
    given = {"prompt": "How often is the payment gateway retried?", "session_id": "s"}
    with hook_sessions.lock_session(world.home, agent="claude-code", session="s"):
        said = world.call("claude-code", "user-prompt", given, **limits(limit))
    assert (said.code, said.out) == (0, b"")
    wait_until(lambda: [each for each in world.failures() if "no answer within the time limit" in each])


def test_an_agent_that_never_closes_its_end_is_not_waited_for(world: World) -> None:
    ready(world)
    child = subprocess.Popen(
        [sys.executable, "-m", "vademecum", "hook", "claude-code", "session-start"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "VADE_HOME": str(world.home)},
        cwd=world.project,
    )
    try:
        assert child.stdin is not None
        child.stdin.write(b'{"session_id": "s"')
        child.stdin.flush()
        assert child.wait(timeout=60) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        child.communicate()


@pytest.mark.full
def test_an_agent_that_does_not_listen_is_not_waited_for(world: World) -> None:
    memory = world.memory()
    for number in range(200):  # one record has no more than some thousand characters of the block
        memory.store(f"Gateway {number} is retried " + "slowly and again " * 28, key=f"gateway-{number}")
    limits = "scope_chars = 200000\nmax_per_scope = 200\ntotal_tokens = 100000\n"
    (world.home / "config.toml").write_text(f"[inject]\n{limits}")
    child = subprocess.Popen(
        [sys.executable, "-m", "vademecum", "hook", "claude-code", "session-start"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, **PATIENT, "VADE_HOME": str(world.home)},
        cwd=world.project,
    )
    try:
        assert child.wait(timeout=60) == 0
        assert child.stdout is not None
        assert len(child.stdout.read()) >= 65536  # a pipe was filled, and nobody read from it
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        child.communicate()


def test_a_worker_that_dies_is_an_empty_answer(world: World) -> None:
    ready(world)
    code = (
        "import os, sys; from vademecum.interfaces.hooks import deadline as door\n"
        "door._work = lambda job, channel: os.kill(os.getpid(), 9)\n"
        "door.answer('claude-code', 'session-start')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=b"{}",
        capture_output=True,
        env={**os.environ, "VADE_HOME": str(world.home)},
        cwd=world.project,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
