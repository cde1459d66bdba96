"""Agents, commands, hooks and an editor in one home at once, two agents in one session, changing zones.

Real processes for everything but the editor, which is a thread that saves as editors do.
"""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import allowing
from faults import operations
from faults.operations import Ground
from mcp_door.talking import call as tool
from mcp_door.talking import home_of, over_stdio, talk
from vade_command import VADE
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HANG = 300


class Together:
    """What happened to one home: all that was acknowledged, and all that went wrong."""

    def __init__(self, top: Path) -> None:
        self.top, self.project = top, top / "project"
        (self.project / ".git").mkdir(parents=True)
        (top / "person").mkdir()
        self.home = allowing.allow(home_of(self.project))
        self.kept: list[str] = []
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def environ(self, **more: str) -> dict[str, str]:
        own = {"HOME": str(self.top / "person"), "VADE_HOME": str(self.home), "VADE_EMBEDDER": "none"}
        return {**os.environ, **own, "VADE_LIMITS_HOOK_START": "9s", "VADE_LIMITS_HOOK_PROMPT": "9s", **more}

    def vade(self, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [VADE, *words],
            cwd=self.project,
            env=self.environ(**more),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )

    def acknowledge(self, text: str) -> None:
        with self._lock:
            self.kept.append(text)

    def complain(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)

    def text(self) -> str:
        """All that any file of the home says but what is derived, and as it was before it was escaped."""
        folders = ("memory", "archive", "transcripts")
        found = (path for name in folders for path in (self.home / name).rglob("*") if path.is_file())
        return "\n".join(path.read_text("utf-8", "replace") for path in found)

    def lost(self) -> list[str]:
        held = self.text()
        return [text for text in self.kept if text not in held]


# -------------------------------------------------------------------- who takes part


def typing(here: Together, number: int, chance: random.Random) -> None:
    """A person saves the shared record: over it, beside it and renamed, or deleted and made again."""
    path = here.home / "memory/global/records/shared.md"
    line = f"Line {number} was typed by hand."
    old = path.read_text()
    new = f"{old.rstrip()}\n{line}\n"
    how = chance.randrange(2)
    if how == 0:
        with path.open("w") as file:
            file.write(new)
    else:
        beside = path.with_name(f"{path.name}~")
        beside.write_text(new)
        os.replace(beside, path)
    here.acknowledge(line)
    time.sleep(0.15)


def commanding(here: Together, number: int, chance: random.Random) -> None:
    text = f"Command {number} says {chance.getrandbits(40)}."
    words = [
        ["add", text, "--key", "shared", "--scope", "global"],
        ["add", text, "--key", f"own-{number % 5}"],
        ["add", "--journal", text],
    ][number % 3]
    done = here.vade(*words)
    if done.returncode == 0:
        here.acknowledge(text)
    else:
        here.complain(f"{words}: {done.stderr}")


def hooking(here: Together, number: int, chance: random.Random) -> None:
    path = here.top / "person/.claude/projects/-p/s.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = f"Prompt {number} is about {chance.getrandbits(40)}."
    message = {"role": "user", "content": said}
    line = {
        "type": "user",
        "uuid": f"s-{number}",
        "sessionId": "s",
        "cwd": str(here.project),
        "message": message,
    }
    with path.open("a") as file:
        file.write(
            json.dumps({**line, "timestamp": f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}Z"})
            + "\n"
        )
    given = {"session_id": "s", "cwd": str(here.project), "transcript_path": str(path), "prompt": said}
    event = ("session-start", "user-prompt", "session-end")[number % 3]
    done = here.vade("hook", "claude-code", event, stdin=json.dumps(given))
    if done.returncode or (done.stdout and not json.loads(done.stdout)):
        here.complain(f"the hook {event}: {done}")


def looking(here: Together, number: int, chance: random.Random) -> None:
    words = (["search", "says"], ["status"], ["list"], ["inject"], ["check"])[number % 5]
    done = here.vade(*words)
    if done.returncode not in (0, 1) or "Traceback" in done.stderr or "internal error" in done.stderr:
        here.complain(f"{words}: {done.returncode} {done.stderr}")


def serving(here: Together, until: Callable[[], bool]) -> None:
    """An agent that stores and asks over a connection of its own."""

    async def conversation() -> None:
        async with over_stdio(here.project, "--agent", "main") as client:
            number = 0
            while not until():
                text = f"Agent says {number} of {random.Random(number).getrandbits(40)}."
                key = "shared" if number % 3 == 0 else f"agent-{number % 7}"
                scope = "global" if key == "shared" else "project"
                try:
                    await tool(client, "memory_store", content=text, key=key, scope=scope)
                    here.acknowledge(text)
                    await tool(client, "memory_search", query=f"agent {number}")
                except AssertionError as error:
                    here.complain(f"the server: {error}")
                number += 1

    talk(conversation)


def run_together(here: Together, seconds: float) -> None:
    end = time.monotonic() + seconds
    memory = connect(home=here.home, cwd=here.project, agent="main", origin=Origin.USER)
    memory.store("Everybody writes here.", key="shared", scope="global")

    def over() -> bool:
        return time.monotonic() > end

    def again(who: Callable[[Together, int, random.Random], None]) -> None:
        chance, number = random.Random(who.__name__), 0
        while not over():
            who(here, number, chance)
            number += 1

    work: list[Callable[[], None]] = [
        functools.partial(again, each) for each in (typing, commanding, hooking, looking)
    ]
    work.append(lambda: serving(here, over))

    def guarded(each: Callable[[], None]) -> None:
        try:
            each()
        except BaseException as error:
            here.complain(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=guarded, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive()


@pytest.mark.full
@pytest.mark.parametrize("seconds", [8, pytest.param(120, marks=pytest.mark.soak)])
def test_an_agent_commands_hooks_and_an_editor_lose_nothing_of_each_other(
    tmp_path: Path, seconds: int
) -> None:
    here = Together(tmp_path)
    run_together(here, seconds)
    assert here.wrong == []
    assert here.lost() == []
    kinds = {text.split()[0] for text in here.kept}
    assert kinds == {"Line", "Command", "Agent"}
    memory = connect(home=here.home, cwd=here.project, agent="main", origin=Origin.USER)
    memory.store("This came after everything else.", key="shared", scope="global")
    ground = Ground(here.top)
    ground.home = here.home
    assert [*operations.alarms(ground)] == []
    assert [*operations.unreadable(memory)] == []
    assert [*operations.litter(dict.fromkeys(str(each) for each in here.home.rglob("*")))] == []
    assert memory.care.index(check=True).findings == []
    print(f"{seconds} s: {len(here.kept)} acknowledged")


def test_two_agents_in_one_session_see_and_keep_what_the_other_says(tmp_path: Path) -> None:
    here = Together(tmp_path)

    async def conversation() -> None:
        same = ("--session", "pair", "--agent", "main", "--tools", "all")
        async with over_stdio(here.project, *same) as one, over_stdio(here.project, *same) as other:
            for number in range(6):
                for name, client, beside in (("one", one, other), ("other", other, one)):
                    text = f"{name} found part {number}."
                    await tool(client, "memory_store", content=text, key="parts", scope="session")
                    here.acknowledge(text)
                    seen = await tool(beside, "memory_search", query=f"part {number}", scope="session")
                    assert text in json.dumps(seen), (text, seen)
            for name, client in (("one", one), ("other", other)):
                await tool(client, "todo", operation="add", title=f"{name} writes tests")
            listed = await tool(one, "todo", operation="list")
            assert sorted(each["title"] for each in listed["items"]) == [
                "one writes tests",
                "other writes tests",
            ]

    talk(conversation)
    assert here.lost() == []
    record = connect(home=here.home, cwd=here.project, agent="main", session="pair", origin=Origin.USER).show(
        "parts", scope="session"
    )
    assert sorted(entry.text for entry in record.entries) == sorted(here.kept)


ZONES = (
    "Europe/Berlin",
    "Pacific/Kiritimati",
    "America/Los_Angeles",
    "Asia/Kathmandu",
    "Pacific/Pago_Pago",
    "UTC",
)


@pytest.mark.full
def test_commands_in_changing_time_zones_keep_their_order_and_lose_nothing(tmp_path: Path) -> None:
    here = Together(tmp_path)
    for number, zone in enumerate(ZONES):
        for words in (
            ["add", f"Stored {number} in {zone}.", "--key", "zones"],
            ["add", f"Noted {number} in {zone}.", "--journal"],
        ):
            done = here.vade(*words, TZ=zone)
            assert done.returncode == 0, done.stderr
            here.acknowledge(words[1])
    assert here.lost() == []
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        assert here.vade("audit", "verify", TZ=zone).returncode == 0
        assert "Noted" in here.vade("search", "noted in", TZ=zone).stdout
        assert here.vade("tidy", "--only", "sweep", TZ=zone).returncode == 0
    memory = connect(home=here.home, cwd=here.project, agent="main", origin=Origin.USER)
    texts = [entry.text for entry in memory.show("zones").entries]
    assert texts == [f"Stored {number} in {zone}." for number, zone in enumerate(ZONES)]


REPEATED = """
import os, sys, time
from datetime import UTC, datetime, timedelta
os.environ["TZ"] = "Europe/Berlin"
time.tzset()
from vademecum.memory import connect
from vademecum.types import Origin
start = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 by the wall, for the first time
for step in range(5):  # 02:30, 02:50, 02:10 and 02:30 again, 02:50 again
    now = start + timedelta(minutes=20 * step)
    memory = connect(home=sys.argv[1], cwd=sys.argv[2], agent="main", origin=Origin.USER, now=lambda: now)
    memory.store(f"Step {step} of the night.", key="night")
    memory.note(f"Note {step} of the night.")
"""


def test_an_hour_that_comes_twice_keeps_what_was_said_in_both(tmp_path: Path) -> None:
    here = Together(tmp_path)
    subprocess.run(
        [sys.executable, "-c", REPEATED, str(here.home), str(here.project)], env=here.environ(), check=True
    )
    memory = connect(home=here.home, cwd=here.project, agent="main", origin=Origin.USER)
    record: Any = memory.show("night")
    assert [entry.text for entry in record.entries] == [f"Step {step} of the night." for step in range(5)]
    assert len({entry.time for entry in record.entries}) == 5
    (journal,) = here.home.rglob("journal/2026-10-25.md")
    said = journal.read_text()
    places = [said.index(f"Note {step} of the night.") for step in range(5)]
    assert places == sorted(places)
    assert [*operations.unreadable(memory)] == []
