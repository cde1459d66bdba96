"""A hook that misses its time limit: the answer comes with the next prompt, once, and is counted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hooks.calls import PATIENT, wait_until
from vademecum import config
from vademecum.agents import registry
from vademecum.agents.base import (
    ANSWERED_EVENTS,
    HOOKS,
    PROJECT,
    SECONDS,
    HookEvent,
    HookList,
    InstallTarget,
    OwnFile,
    Program,
)
from vademecum.interfaces.hooks import deadline
from vademecum.store import hook_counts, hook_sessions

if TYPE_CHECKING:
    from pathlib import Path

    from hooks.calls import Said, World

RULE = "Always answer in British English"
PORT = "The staging database lives on port 5544"
START = "start of the session. It was not ready then"
SOON = {"VADE_LIMITS_HOOK_START": "5ms", "VADE_LIMITS_HOOK_PROMPT": "5ms"}
ASKED = {"session_id": "s", "prompt": "Which port has the staging database?"}


@pytest.fixture
def remembered(world: World) -> World:
    world.memory().store(RULE, key="language", type="feedback")
    return world


def counts(world: World, event: str = "session-start") -> hook_counts.HookCounts:
    return hook_counts.last_day(world.home)[event]


def miss_start(world: World, session: str = "s", agent: str = "claude-code") -> None:
    """Call a session start that is too late, and wait until its answer is ready."""
    said = world.call(agent, "session-start", {"session_id": session, "source": "startup"}, **SOON)
    assert (said.code, said.out) == (0, b"")
    wait_until(lambda: any("ready after" in line for line in world.failures()))
    (world.home / "hooks.log").unlink()


def test_a_missed_start_comes_with_the_next_prompt_once_and_says_what_it_is(remembered: World) -> None:
    miss_start(remembered)
    assert wait_until(lambda: counts(remembered) == (1, 1, 0))
    first = remembered.call("claude-code", "user-prompt", {"session_id": "s", "prompt": "Add a button"})
    assert RULE in first.context
    assert START in first.context
    assert wait_until(lambda: counts(remembered) == (1, 1, 1))
    again = remembered.call("claude-code", "user-prompt", {"session_id": "s", "prompt": "British English?"})
    assert again.out == b""
    assert wait_until(lambda: counts(remembered, "user-prompt") == (2, 0, 0))


def test_the_prompt_brings_its_own_records_too_and_none_twice(remembered: World) -> None:
    miss_start(remembered)
    remembered.memory().store(PORT, key="staging", scope="global")
    said = remembered.call("claude-code", "user-prompt", ASKED)
    assert said.context.count(PORT) == said.context.count(RULE) == 1
    assert remembered.call("claude-code", "user-prompt", ASKED).out == b""


def test_the_records_of_a_late_prompt_come_with_the_next(remembered: World) -> None:
    remembered.call("claude-code", "session-start", {"session_id": "s"})
    remembered.memory().store(PORT, key="staging")
    remembered.memory().search("port")  # its index is up to date
    assert remembered.call("claude-code", "user-prompt", ASKED, **SOON).out == b""
    wait_until(lambda: any("ready after" in line for line in remembered.failures()))
    said = remembered.call("claude-code", "user-prompt", {"session_id": "s", "prompt": "Now add a button"})
    assert PORT in said.context
    assert "about an earlier prompt" in said.context
    assert wait_until(lambda: counts(remembered, "user-prompt") == (2, 1, 1))
    assert remembered.call("claude-code", "user-prompt", ASKED).out == b""


def test_a_prompt_that_comes_while_the_start_is_late_waits_for_it(remembered: World) -> None:
    with holding(remembered, "s"):
        said = remembered.call("claude-code", "session-start", {"session_id": "s"}, **SOON)
        assert said.out == b""
        assert remembered.call("claude-code", "user-prompt", ASKED, **SOON).out == b""
    prompts: list[Said] = []
    wait_until(lambda: sum("ready after" in line for line in remembered.failures()) >= 1)
    for _ in range(2):
        prompts.append(remembered.call("claude-code", "user-prompt", ASKED))
    assert [said.context.count(RULE) for said in prompts] == [1, 0]


def test_of_two_prompts_at_once_one_brings_the_start(remembered: World) -> None:
    miss_start(remembered)
    said: list[Said] = []
    threads = [
        threading.Thread(target=lambda: said.append(remembered.call("claude-code", "user-prompt", ASKED)))
        for _ in range(3)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.context.count(RULE) for each in said) == [0, 0, 1]


def test_a_compaction_and_a_clear_begin_with_the_newest_start(remembered: World) -> None:
    miss_start(remembered)
    given = {"session_id": "s", "source": "compact"}
    assert RULE in remembered.call("claude-code", "session-start", given).context
    assert wait_until(lambda: counts(remembered) == (2, 1, 1))
    assert remembered.call("claude-code", "user-prompt", {**ASKED, "prompt": "British English?"}).out == b""


def test_a_resumed_session_gets_a_missed_start_whole_and_later_only_what_is_new(remembered: World) -> None:
    miss_start(remembered)
    given = {"session_id": "s", "source": "resume"}
    assert RULE in remembered.call("claude-code", "session-start", given).context
    remembered.memory().store(PORT, key="staging")
    assert remembered.call("claude-code", "session-start", given, **SOON).out == b""
    wait_until(lambda: any("ready after" in line for line in remembered.failures()))
    said = remembered.call("claude-code", "user-prompt", {"session_id": "s", "prompt": "Add a button"})
    assert PORT in said.context
    assert RULE not in said.context


def test_two_agents_with_one_session_id_are_made_up_each(remembered: World) -> None:
    miss_start(remembered)
    assert RULE in remembered.call("codex", "session-start", {"session_id": "s"}).context
    said = remembered.call("codex", "user-prompt", {"session_id": "s", "prompt": "British English?"})
    assert said.out == b""
    assert RULE in remembered.call("claude-code", "user-prompt", ASKED).context


def test_a_session_whose_start_was_never_called_gets_its_block_with_the_first_prompt(
    remembered: World,
) -> None:
    assert RULE in remembered.call("claude-code", "user-prompt", ASKED).context
    assert wait_until(lambda: counts(remembered, "user-prompt") == (1, 0, 0))
    assert counts(remembered) == (0, 0, 0)


def test_an_agent_without_such_a_hook_gets_a_late_start_with_its_next_prompt(remembered: World) -> None:
    assert remembered.call("kiro", "user-prompt", ASKED, **SOON).out == b""
    wait_until(lambda: any("ready after" in line for line in remembered.failures()))
    assert RULE in remembered.call("kiro", "user-prompt", ASKED).out.decode()
    assert wait_until(lambda: counts(remembered, "user-prompt") == (2, 1, 1))
    assert remembered.call("kiro", "user-prompt", ASKED).out == b""


def test_what_is_purged_is_not_in_a_late_answer(remembered: World) -> None:
    miss_start(remembered)
    memory = remembered.memory()
    assert any(RULE in path.read_text() for path in states(remembered))
    memory.archive.purge("language")
    assert not any(RULE in path.read_text() for path in states(remembered))
    assert RULE not in remembered.call("claude-code", "user-prompt", ASKED).out.decode()


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_after_a_jump_of_the_clock_the_start_is_made_anew(remembered: World, jump: int) -> None:
    miss_start(remembered)
    with hook_sessions.lock_session(remembered.home, agent="claude-code", session="s") as file:
        (late,) = file.state.late
        file.save(file.state._replace(late=(late._replace(text="old", at=late.at + jump),)))
    said = remembered.call("claude-code", "user-prompt", ASKED)
    assert said.context.count(RULE) == 1
    assert "old" not in said.context.split()
    assert remembered.call("claude-code", "user-prompt", ASKED).out == b""


# -------------------------------------------------------------------- killed, stopped, full


def start_and(world: World, action: str) -> Said:
    """Call a session start whose work does something before it offers its answer."""
    code = (
        "import os, signal, sys, time; from vademecum.interfaces.hooks import deadline, work\n"
        "offer = work._Answers.offer\n"
        f"def act(self, answers):\n    {action}\n    offer(self, answers)\n"
        "work._Answers.offer = act\n"
        "deadline.answer('claude-code', 'session-start')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps({"session_id": "s", "cwd": str(world.project)}).encode(),
        capture_output=True,
        env={**os.environ, **PATIENT, "VADE_HOME": str(world.home), "VADE_LIMITS_HOOK_START": "1s"},
        cwd=world.project,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return done  # type: ignore[return-value]  # only its being there counts


@pytest.mark.parametrize(
    "action",
    ["os.kill(os.getpid(), signal.SIGKILL)", "raise ValueError('x')"],
    ids=["killed", "failed"],
)
def test_what_a_killed_or_failing_child_did_not_answer_is_counted_and_made_up(
    remembered: World, action: str
) -> None:
    start_and(remembered, action)
    wait_until(lambda: counts(remembered) == (1, 1, 0))
    assert RULE in remembered.call("claude-code", "user-prompt", ASKED).context
    assert wait_until(lambda: counts(remembered) == (1, 1, 1))


def test_a_stopped_child_holds_nobody_up_and_is_counted(remembered: World) -> None:
    """A disk that hangs looks like this: the child does not come back, and holds its lock."""
    path = remembered.home / "pid"
    action = f"open({str(path)!r}, 'w').write(str(os.getpid())); os.kill(os.getpid(), signal.SIGSTOP)"
    start_and(remembered, action)
    try:
        wait_until(lambda: counts(remembered) == (1, 1, 0))
        assert remembered.call("claude-code", "user-prompt", ASKED, **SOON).out == b""
        assert wait_until(lambda: counts(remembered, "user-prompt").missed == 1)
    finally:
        os.kill(int(path.read_text()), signal.SIGCONT)
    wait_until(lambda: any("ready after" in line for line in remembered.failures()))
    said = remembered.call("claude-code", "user-prompt", ASKED)
    assert said.context.count(RULE) == 1
    assert remembered.call("claude-code", "user-prompt", ASKED).out == b""


def test_an_answer_that_its_agent_did_not_wait_for_comes_with_the_next_prompt(remembered: World) -> None:
    words = [sys.executable, "-m", "vademecum", "hook", "claude-code", "session-start"]
    with holding(remembered, "s"):
        child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **PATIENT, "VADE_HOME": str(remembered.home)},
            cwd=remembered.project,
        )
        assert child.stdin is not None
        child.stdin.write(json.dumps({"session_id": "s", "cwd": str(remembered.project)}).encode())
        child.stdin.close()
        wait_until(lambda: len(waiting(remembered)) > 0 or child.poll() is not None)
        child.kill()
        child.wait()
    assert child.stdout is not None
    child.stdout.close()
    wait_until(lambda: counts(remembered) == (1, 1, 0))
    assert RULE in remembered.call("claude-code", "user-prompt", ASKED).context


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk to try")
def test_on_a_full_disk_nothing_is_given_twice(remembered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    for _ in range(2):
        with hook_sessions.lock_session(remembered.home, agent="claude-code", session="s") as file:
            state = file.state
            file.save(hook_sessions.HookState(marks=frozenset({"a"})))
    assert state.started
    assert not state.is_owed


def test_a_state_of_nonsense_is_a_session_that_was_told(remembered: World) -> None:
    remembered.call("claude-code", "session-start", {"session_id": "s"})
    (path,) = states(remembered)
    for content in (
        b"",
        b"\0\xff",
        b"[]",
        b'{"started": 0}',
        b'{"late": [[1]], "marks": 3}',
        b'{"started": 1, "owed": 1, "late": [[1, 2, 3, [], 5, []]]}',
    ):
        path.write_bytes(content)
        assert START not in remembered.call("claude-code", "user-prompt", ASKED).out.decode()


# -------------------------------------------------------------------- counts


def test_doctor_fails_while_an_answer_is_lost_and_says_how_to_mend_it(remembered: World) -> None:
    hook_counts.add(remembered.home, "P" * 500)
    miss_start(remembered)
    wait_until(lambda: counts(remembered).missed == 1)
    lost = remembered.vade("doctor")
    assert lost.returncode == 1
    (line,) = [each for each in lost.stdout.splitlines() if each.split()[1] == "hook"]
    assert line.startswith("✗")
    assert "1 of 501 hooks" in line
    assert "did not reach the agent yet" in line
    assert "vade config set limits.hook_start 6s" in line
    shown = json.loads(remembered.vade("status", "--json").stdout)
    assert shown["hooks"]["session-start"] == {"calls": 1, "missed": 1, "made_up": 0, "lost": 1}
    assert "error" in [each["severity"] for each in shown["findings"] if each["what"] == "hook"]
    remembered.call("claude-code", "user-prompt", ASKED)
    wait_until(lambda: counts(remembered).made_up == 1)
    mended = remembered.vade("doctor")
    assert "later prompts brought all" in mended.stdout
    assert "✗ hook" not in mended.stdout
    hook_counts.add(remembered.home, "pV" * 6)  # more than one in a hundred
    assert "✗ hook" in remembered.vade("doctor").stdout


def test_counts_are_of_one_day_and_survive_hooks_at_once(world: World) -> None:
    world.home.mkdir()
    code = "from vademecum.store import hook_counts\nfor _ in range(100):\n    hook_counts.add({!r}, 'Ss')"
    code = code.format(str(world.home))
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [each.wait(timeout=60) for each in running] == [0] * 4
    assert counts(world) == (800, 400, 0)
    (path,) = (world.home / "hooks" / "calls").iterdir()
    for hours in (-25, -72, 1, 72):
        (path.parent / str(int(path.name) + hours)).write_text("s" * 7)
    assert counts(world) == (800, 400, 0)
    path.rename(path.with_name(str(int(path.name) - 3)))  # a new hour forgets the old days
    hook_counts.add(world.home, "S")
    assert counts(world) == (801, 400, 0)
    assert len(list(path.parent.iterdir())) == 4
    for _ in range(3):
        hook_counts.add(world.home, "P" * 70_000)
    assert sum(each.stat().st_size for each in path.parent.iterdir()) < 150_000


def test_every_limit_is_below_what_its_agent_waits(tmp_path: Path) -> None:
    assert deadline.MOST == config.LONGEST_HOOK < SECONDS
    own = config.LimitSettings()
    assert deadline.LIMITS["session-start"][0] == own.hook_start
    assert deadline.LIMITS["user-prompt"][0] == own.hook_prompt
    target, program = InstallTarget(PROJECT, tmp_path, tmp_path, {}), Program(("vade",))
    units = {"gemini": 1000, "opencode": 1000, "amp": 1000}  # milliseconds
    # Qwen Code has a minute by itself, and our plugin for Cline does not end a hook.
    without = {"qwen-code", "cline"}
    for name, agent in registry.having("hooks").items():
        assert agent.setup is not None
        if agent.hooks is None or not ANSWERED_EVENTS & agent.hooks.moments.keys():
            continue
        for part in agent.setup.parts(target, tmp_path, program):
            entry = ""
            if isinstance(part, HookList):
                entry = json.dumps(part.entry(HookEvent.SESSION_START, "vade hook"))
            elif isinstance(part, OwnFile) and part.what == HOOKS:
                entry = part.content
            waited = re.search(r'timeout(?:Sec)?"?: (\d+)', entry)
            assert name in without or not entry or waited, name
            if waited:
                assert int(waited[1]) / units.get(name, 1) == SECONDS, name


# -------------------------------------------------------------------- helpers


def states(world: World) -> list[Path]:
    return [each for each in (world.home / "hooks").iterdir() if each.is_file()]


def waiting(world: World) -> list[str]:
    """The processes that wait for the lock of a session."""
    files = {str(each.stat().st_ino) for each in (world.home / "hooks").rglob("*")}
    with open("/proc/locks", encoding="ascii") as file:
        return [line for line in file if "->" in line and line.split()[6].rpartition(":")[2] in files]


class holding:
    """Another hook of the session is at work, and holds its lock."""

    def __init__(self, world: World, session: str) -> None:
        self._lock = hook_sessions.lock_session(world.home, agent="claude-code", session=session)

    def __enter__(self) -> None:
        file = self._lock.__enter__()
        file.save(hook_sessions.HookState(started=False))

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)
