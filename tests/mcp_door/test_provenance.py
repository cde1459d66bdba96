"""Who wrote it: the program it came through, and the conversation it was said in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import Implementation

from cases import every_case
from hooks.calls import World
from mcp_door.talking import ERAS, call, home_of, in_process, over_stdio, read_record, talk
from vade_command import VADE
from vademecum.memory import connect
from vademecum.store import hook_log
from vademecum.text import names
from vademecum.transcripts.paths import imported_id
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = "The release train leaves on Tuesdays"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@every_case(
    ("told", "label"),
    [
        (("claude-code", "claude-code", "2.1.3"), "claude-code/2.1.3"),
        (("codex", "codex-mcp-client", "0.166.0"), "codex codex-mcp-client/0.166.0"),
        (("gemini", "", ""), "gemini"),
        (("", "some client", "1 (beta)"), "some-client/1-beta"),
        (("", "", "9"), ""),
        (("", "}\n- admin: yes", "\x1b[31m"), "admin-yes/31m"),
        (("", "x" * 10_000, "y" * 10_000), f"{'x' * 40}/{'y' * 40}"),
        (("", "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "1"), ""),
        (("", "\u202e🙂", "\u200e"), ""),
    ],
)
def test_a_client_is_named_by_plain_words_whatever_it_says_of_itself(
    told: tuple[str, str, str], label: str
) -> None:
    found = names.client_label(*told)
    assert found == label


@pytest.mark.parametrize("era", ERAS)
def test_what_a_client_saves_names_the_client_and_leaves_the_agent_as_it_is(folder: Path, era: str) -> None:
    async def conversation() -> None:
        async with over_stdio(
            folder,
            "--client",
            "codex",
            era=era,
            client_info=Implementation(name="codex-mcp-client", version="0.166"),
        ) as client:
            await call(client, "memory_store", content=TRAIN, key="train")

    talk(conversation)
    assert "by: process:main, client: codex codex-mcp-client/0.166, at: " in read_record(folder, "train")
    memory = connect(home=home_of(folder), cwd=folder)
    *_, line = memory.audit.lines()
    assert (line["actor"], line["client"]) == ("process:main", "codex codex-mcp-client/0.166")
    assert not memory.audit.verify().problems
    assert memory.show("train").place.scope == "project"


def test_an_approval_names_the_client_and_so_does_what_was_approved(folder: Path) -> None:
    async def conversation() -> None:
        named = {"client": "gemini"}
        async with in_process(folder, **named) as client:
            answer = await call(client, "memory_store", content=TRAIN, key="train", scope="federated")
            assert answer["outcome"] == "waiting"

    talk(conversation)
    person = connect(home=home_of(folder), cwd=folder, origin=Origin.USER, actor="human:ada")
    (waiting,) = person.review.approvals()
    assert waiting.request is not None
    assert (waiting.request.agent, waiting.request.client) == ("main", "gemini mcp/0.1.0")
    person.review.approve(waiting.id)
    assert person.show("train").fields["generated"]["client"] == "gemini mcp/0.1.0"


def test_a_person_and_a_home_of_before_have_no_client(folder: Path) -> None:
    person = connect(home=home_of(folder), cwd=folder, origin=Origin.USER, actor="human:ada")
    person.store(TRAIN, key="train")
    assert "client" not in person.show("train").fields["generated"]
    assert all("client" not in each for each in person.audit.lines())


def test_a_command_line_inside_an_agent_names_that_agent(folder: Path) -> None:
    environ = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "GEMINI_CLI": "1"}
    words = [VADE, "add", TRAIN, "--key", "train", "--home", str(home_of(folder))]
    subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True)
    assert "client: gemini-cli" in read_record(folder, "train")


# ---------------------------------------------------------------- the conversation

AGENT = """
import json, os, shlex, subprocess, sys
home, project, vade, session = sys.argv[1:]
environ = {**os.environ, "VADE_HOME": home, "VADE_LIMITS_HOOK_START": "9s", "VADE_LIMITS_HOOK_PROMPT": "9s"}

def hook(event, session):
    given = json.dumps({"session_id": session, "cwd": project})
    words = f"{shlex.quote(sys.executable)} -m vademecum hook claude-code {event}"
    quiet = {"env": environ, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["sh", "-c", words], input=given.encode(), **quiet)

def ask(method, params, id=None):
    said = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": id} if id else {})}
    server.stdin.write(json.dumps(said) + "\\n")
    server.stdin.flush()
    while id:
        if json.loads(server.stdout.readline()).get("id") == id:
            return

def store(key, text, id):
    ask("tools/call", {"name": "memory_store", "arguments": {"content": text, "key": key}}, id)

hook("session-start", session)
server = subprocess.Popen([vade, "mcp", "--home", home, "--client", "claude-code"], cwd=project, env=environ,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
own = {"name": "claude-code", "version": "2.1"}
info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": own}
ask("initialize", info, 1)
ask("notifications/initialized", {})
store("train", "The release train leaves on Tuesdays", 2)
hook("session-start", session + "-after-clear")
store("plane", "The release plane leaves on Fridays", 3)
server.stdin.close()
server.wait()
"""


def run_agent(world: World, session: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", AGENT, str(world.home), str(world.project), VADE, session]
    return subprocess.Popen(words, env={**os.environ, "HOME": str(world.person)})


def sessions_of(world: World, key: str) -> set[str]:
    memory = world.memory()
    return {each for said in memory.workspace.records.said(memory.show(key)).values() for each in said}


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are told apart by /proc")
def test_what_an_agent_saves_leads_to_the_conversation_its_hooks_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.at(tmp_path)
    world.memory().store("Somebody was here before", key="before")
    assert run_agent(world, "s-1").wait() == 0
    assert sessions_of(world, "train") == {"main:s-1"}
    assert sessions_of(world, "plane") == {"main:s-1-after-clear"}  # a new window is another conversation
    path = world.transcript("s-1")
    monkeypatch.setenv("HOME", str(world.person))
    done = world.memory().sessions.import_transcript(path, agent="claude-code")
    assert done.session == imported_id("claude-code", "s-1")
    environ = {**os.environ, "HOME": str(world.person), "VADE_HOME": str(world.home)}
    said = subprocess.run(
        [VADE, "show", "train"], cwd=world.project, env=environ, capture_output=True, text=True, check=True
    )
    assert f"from session: `vade sessions show {done.session}`" in said.stdout
    assert "last saved through claude-code/2.1" in said.stdout
    shown = subprocess.run(
        [VADE, "sessions", "show", done.session],
        cwd=world.project,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Where is the parser?" in shown.stdout
    told = json.loads(
        subprocess.run(
            [VADE, "show", "train", "--json"], cwd=world.project, env=environ, capture_output=True, check=True
        ).stdout
    )
    assert told["entries"][0]["sessions"] == [done.session]
    assert told["generated"]["client"] == "claude-code/2.1"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are told apart by /proc")
def test_two_agents_at_once_are_not_taken_for_each_other(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.memory().store("Somebody was here before", key="before")
    agents = [run_agent(world, "one"), run_agent(world, "two")]
    assert [each.wait() for each in agents] == [0, 0]
    assert sessions_of(world, "train") == {"main:one", "main:two"}


def test_without_a_hook_the_connection_is_the_session(folder: Path) -> None:
    async def conversation() -> None:
        async with over_stdio(folder, "--client", "codex") as client:
            await call(client, "memory_store", content=TRAIN, key="train")

    talk(conversation)
    memory = connect(home=home_of(folder), cwd=folder)
    (said,) = memory.workspace.records.said(memory.show("train")).values()
    assert said[0].startswith("main:mcp-")


class Processes:
    """Stands for the processes above: none, as on systems where they cannot be looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, above: list[str]) -> None:
        monkeypatch.setattr(hook_log, "_processes_above", lambda most: above[:most])


def told(home: Path, session: str, folder: str = "/work", agent: str = "codex") -> None:
    hook_log.open_session(home, agent=agent, session=session, folder=folder)


def test_where_processes_cannot_be_seen_the_only_open_session_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Processes(monkeypatch, [])
    told(tmp_path, "one")
    told(tmp_path, "elsewhere", folder="/other")
    told(tmp_path, "another-agents", agent="gemini")
    assert hook_log.find_session(tmp_path, agent="codex", folder="/work") == "one"
    told(tmp_path, "two")
    assert hook_log.find_session(tmp_path, agent="codex", folder="/work") == ""
    hook_log.close_session(tmp_path, agent="codex", session="one")
    assert hook_log.find_session(tmp_path, agent="codex", folder="/work") == "two"
    assert hook_log.find_session(tmp_path, agent="", folder="/work") == ""


def test_damaged_and_foreign_files_among_open_sessions_are_passed_over(tmp_path: Path) -> None:
    told(tmp_path, "one")
    inside = tmp_path / "hooks" / "open"
    (inside / "torn").write_bytes(b'{"agent": "co')
    (inside / "list").write_bytes(b"[]")
    (inside / "folder").mkdir()
    (inside / "number").write_text('{"agent": 1, "session": 2, "folder": 3, "above": 4}')
    hook_log.find_session(tmp_path, agent="codex", folder="/work")
    assert any(each.session == "one" for each in hook_log._open_sessions(tmp_path))


def test_sessions_that_never_end_do_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_log, "_FULL", 5)
    for number in range(20):
        told(tmp_path, f"s{number}")
    assert len(list((tmp_path / "hooks" / "open").iterdir())) <= 6


def test_a_home_that_is_not_there_is_not_made_for_it(tmp_path: Path) -> None:
    told(tmp_path / "nowhere", "one")
    assert not (tmp_path / "nowhere").exists()
    given: dict[str, Any] = {"agent": "codex", "folder": "/work"}
    assert hook_log.find_session(tmp_path / "nowhere", **given) == ""
