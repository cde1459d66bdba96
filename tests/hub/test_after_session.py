"""A sync after an agent's session: real hook processes, a real hub, and one that never answers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from hub.test_commands import vade
from hub.test_sync import Machine, two  # noqa: F401
from vademecum.errors import Locked
from vademecum.interfaces.hooks import session_sync, work
from vademecum.interfaces.hooks.deadline import Channel, Job
from vademecum.store import hook_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hub.hubs import World
    from hub.test_sync import Pair

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="sessions of signals and sockets differ there"
)
PATIENCE = 60.0  # seconds for a process of its own, on however busy a machine


def end_session(machine: Machine, event: str = "session-end", **environ: str) -> None:
    """Call the hook as Claude Code does when a session is over."""
    home = machine.base / "home"
    done = subprocess.run(
        [sys.executable, "-m", "vademecum", "hook", "claude-code", event, "--home", str(home)],
        input=json.dumps({"cwd": str(machine.base / "project"), "session_id": "s"}),
        env={
            **os.environ,
            "HOME": str(machine.base),
            "VADE_LIMITS_HOOK_START": "9s",
            "VADE_LIMITS_HOOK_PROMPT": "9s",
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def wait_for(holds: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def ended(machine: Machine) -> hook_log.BackgroundSync | None:
    return hook_log.last_sync(machine.base / "home", machine.joined.workspace)


@pytest.mark.full
def test_what_a_session_saved_is_on_the_other_machine_without_a_command(
    two: Pair,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, other = two
    one.memory().store("Said in the session.", key="said", scope="global")
    end_session(one, "stop")
    assert ended(one) is None  # a turn is over, the session is not
    end_session(one)
    wait_for(lambda: ended(one))
    state = vade(capsys, one.base / "home", "hub", "status")["workspaces"][0]
    assert (state["unsent"], state["background_problem"]) == (0, "")
    assert state["background"]
    end_session(other)
    wait_for(lambda: ended(other))
    assert "global/records/said.md" in other.files()


def starts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, agent: str = "claude-code", **environ: str
) -> int:
    """How many processes the end of a session starts, without starting them."""
    started: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda *given, **_: started.append(given))
        for name, value in environ.items():
            patched.setenv(name, value)
        given = json.dumps({"cwd": str(machine.base / "project"), "session_id": "s"}).encode()
        for event in ("stop", "session-end"):
            with contextlib.suppress(work.HookFailed):  # some agents have no such moment
                work.run(Job(agent, event, given, str(machine.base / "home")), Channel())
    return len(started)


def test_incognito_turned_off_or_without_a_hub_no_process_is_started(
    two: Pair,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _ = two
    assert starts(one, monkeypatch) == 1
    assert starts(one, monkeypatch, VADE_INCOGNITO="true") == 0
    assert starts(one, monkeypatch, VADE_SYNC_AFTER_SESSION="false") == 0
    assert starts(one, monkeypatch, "opencode") == 1  # it says when it is idle, and never that it ends
    assert starts(Machine(tmp_path, "alone"), monkeypatch) == 0


def is_locked(machine: Machine) -> bool:
    """Whether a sync waits for another one."""
    try:
        with machine.home._replace(lock_seconds=0.0).lock(session_sync.NEXT):
            return False
    except Locked:
        return True


class Silent:
    """A hub that takes every connection and never says a word."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(8)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"


def move_to(machine: Machine, url: str) -> None:
    told = machine.folder / "workspace.json"
    told.write_text(json.dumps({**json.loads(told.read_text()), "url": url}))


@pytest.mark.full
def test_a_hook_does_not_wait_for_a_hub_that_never_answers(two: Pair) -> None:  # noqa: F811
    one, _ = two
    silent = Silent()
    move_to(one, silent.url)
    end_session(one)  # returns although nobody has accepted anything yet
    silent.socket.settimeout(PATIENCE)
    asked, _ = silent.socket.accept()
    asked.settimeout(PATIENCE)
    assert b"GET /v1/streams" in asked.recv(4096)
    assert ended(one) is None  # it waits still, and the hook is long gone
    end_session(one)  # another session ends meanwhile: its sync waits for the first
    wait_for(lambda: is_locked(one))
    session_sync.run(str(one.base / "home"))  # and a third one has nothing to do: it returns
    silent.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        silent.socket.accept()
    silent.socket.close()
    asked.close()
    wait_for(lambda: ended(one))
    problem = ended(one)
    assert problem is not None
    assert "cannot be reached" in problem.problem
    wait_for(lambda: len((one.base / "home/hooks/sync.log").read_text().splitlines()) == 2)
    wait_for(lambda: not is_locked(one))


def test_a_folder_is_synced_after_a_session_too_and_status_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Machine(tmp_path, "one")
    (tmp_path / "shared").mkdir()
    home = one.base / "home"
    vade(capsys, home, "sync", "--folder", str(tmp_path / "shared"))
    one.memory().store("Said in the session.", key="said", scope="global")
    end_session(one)
    wait_for(lambda: hook_log.last_sync(home, "folder"))
    assert vade(capsys, home, "sync", "status")["background_problem"] == ""
    assert b"Said in the session." in b"".join(
        path.read_bytes() for path in (tmp_path / "shared").rglob("*.jsonl")
    )


@pytest.mark.full
def test_the_hub_of_another_machine_that_answers_again_is_told_as_done(
    world: World,
    two: Pair,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, _ = two
    move_to(one, "http://127.0.0.1:1")
    session_sync.run(str(one.base / "home"))
    state = vade(capsys, one.base / "home", "hub", "status")["workspaces"][0]
    assert "cannot be reached" in state["background_problem"]
    move_to(one, world.url)
    session_sync.run(str(one.base / "home"))
    assert vade(capsys, one.base / "home", "hub", "status")["workspaces"][0]["background_problem"] == ""
