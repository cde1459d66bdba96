"""What each hook does, for each agent, as its own documentation wants it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from cases import every_case
from hooks.calls import World, wait_until
from vademecum.agents import registry
from vademecum.agents.base import HookEvent as Event
from vademecum.transcripts.events import Checkpoint, MessageEvent, Summary
from vademecum.transcripts.log import Log, LogFile

if TYPE_CHECKING:
    from pathlib import Path

PYTEST = "Always use pytest for testing in this project"


@pytest.fixture
def remembered(world: World) -> World:
    world.memory().store(PYTEST, key="testing-framework")
    world.memory().store("The staging database lives on port 5544", key="staging-database")
    return world


def events_of(world: World, path: Path) -> list[object]:
    home = world.memory().home
    return list(Log(path.stem, LogFile(home, path.parent.name, path.stem)).events())


@pytest.mark.parametrize(
    ("agent", "name"),
    [("claude-code", "SessionStart"), ("codex", "SessionStart"), ("gemini", "SessionStart")],
)
def test_a_session_that_begins_gets_the_block_in_the_shape_its_agent_takes(
    remembered: World, agent: str, name: str
) -> None:
    said = remembered.call(agent, "session-start", {"session_id": "s", "source": "startup"})
    found = json.loads(said.out)
    assert set(found) == {"hookSpecificOutput"}
    assert found["hookSpecificOutput"]["hookEventName"] == name
    assert found["hookSpecificOutput"]["additionalContext"] == remembered.memory().injection.block().text
    assert said.code == 0
    assert not said.err


def test_cursor_gets_its_own_shape_for_the_first_folder_of_the_workspace(remembered: World) -> None:
    given = {"conversation_id": "c", "workspace_roots": [str(remembered.project)], "cwd": "/"}
    said = remembered.call("cursor", "session-start", given)
    assert json.loads(said.out) == {"additional_context": remembered.memory().injection.block().text}


def test_a_session_gets_its_own_records(remembered: World) -> None:
    remembered.memory(session="mine").store("We are in the middle of the move", key="here", scope="session")
    assert "in the middle" in remembered.call("claude-code", "session-start", {"session_id": "mine"}).context
    assert (
        "in the middle"
        not in remembered.call("claude-code", "session-start", {"session_id": "other"}).context
    )


def test_a_prompt_brings_what_answers_it_and_nothing_else(remembered: World) -> None:
    said = remembered.call("claude-code", "user-prompt", {"prompt": "Which port has the staging database?"})
    assert json.loads(said.out)["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert "port 5544" in said.context
    assert "pytest" not in said.context


@pytest.mark.parametrize(
    "prompt",
    ["", "ok", "/clear", "Write a poem about the moon over the sea", "```\nport staging database\n```"],
)
def test_a_prompt_that_nothing_answers_brings_nothing(remembered: World, prompt: str) -> None:
    said = remembered.call("claude-code", "user-prompt", {"prompt": prompt})
    assert (said.code, said.out, said.err) == (0, b"", b"")


def test_gemini_is_told_before_its_agent_begins(remembered: World) -> None:
    said = remembered.call("gemini", "user-prompt", {"prompt": "Which port has the staging database?"})
    assert json.loads(said.out)["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"


def test_a_prompt_repeats_nothing_its_session_has_been_told(remembered: World) -> None:
    prompt = {"session_id": "s", "prompt": "Which port has the staging database?"}
    remembered.call("claude-code", "session-start", {"session_id": "s"})
    assert remembered.call("claude-code", "user-prompt", prompt).out == b""
    remembered.memory().store(
        "The staging database moved to port 6655", key="staging-database", mode="replace"
    )
    assert "6655" in remembered.call("claude-code", "user-prompt", prompt).context
    assert remembered.call("claude-code", "user-prompt", prompt).out == b""
    assert "6655" in remembered.call("claude-code", "user-prompt", {**prompt, "session_id": "t"}).context


def test_a_window_that_begins_anew_is_told_again(remembered: World) -> None:
    first = remembered.call("claude-code", "session-start", {"session_id": "s"})
    assert (
        remembered.call("claude-code", "session-start", {"session_id": "s", "source": "compact"}).out
        == first.out
    )


def test_kiro_gets_the_block_with_its_first_prompt_and_as_plain_text(remembered: World) -> None:
    prompt = {"session_id": "k", "prompt": "Which port has the staging database?"}
    first = remembered.call("kiro", "user-prompt", prompt)
    assert first.out.decode().startswith("<vade-memory>\n")
    assert b"pytest" in first.out
    assert remembered.call("kiro", "user-prompt", prompt).out == b""


def test_a_reminder_stays_within_its_budget(world: World) -> None:
    for number in range(30):
        text = f"The payment gateway rule {number}: " + "retry the payment gateway slowly. " * 20
        world.memory().store(text, key=f"gateway-{number}")
    block = world.memory().injection.remind("How does the payment gateway retry?", budget=600)
    assert 0 < block.tokens <= 600


@pytest.mark.parametrize("event", ["stop", "session-end"])
def test_a_turn_that_ends_is_kept_and_only_what_is_new_is_added(world: World, event: str) -> None:
    path = world.transcript()
    given = {"session_id": "one", "transcript_path": str(path)}
    assert world.call("claude-code", event, given).out == b""
    (log,) = wait_until(world.logs)
    wait_until(lambda: b'"kind":"ended"' in log.read_bytes())
    world.transcript("one", ("user", "And the renderer?"), ("assistant", "In render.py."))
    world.call("claude-code", event, given)
    wait_until(lambda: log.read_bytes().count(b'"kind":"ended"') == 2)
    texts = [each.message.text for each in events_of(world, log) if isinstance(each, MessageEvent)]
    assert texts == ["Where is the parser?", "In parse.py.", "And the renderer?", "In render.py."]
    before = log.read_bytes()
    world.memory().sessions.import_transcript(path, agent="claude-code")
    assert log.read_bytes() == before


def test_before_a_compaction_a_summary_and_a_checkpoint_are_written(world: World) -> None:
    turns = [("user", "Please move the parser to the new tokenizer, step by step.")]
    for number in range(60):
        turns += [
            ("assistant", f"Step {number} is done. " + "words " * 300),
            ("user", f"Go on with {number}."),
        ]
    path = world.transcript("long", *turns)
    said = world.call("claude-code", "pre-compact", {"transcript_path": str(path), "trigger": "auto"})
    assert (said.code, said.out) == (0, b"")
    (log,) = wait_until(world.logs)
    wait_until(lambda: any(isinstance(each, Summary) for each in events_of(world, log)))
    found = events_of(world, log)
    assert any(isinstance(each, Checkpoint) for each in found)
    assert any("new tokenizer" in each.text for each in found if isinstance(each, Summary))
    assert sum(isinstance(each, MessageEvent) for each in found) == len(turns)
    world.transcript("long", ("assistant", "All steps are done now."))
    wait_until(
        lambda: world.memory().sessions.import_transcript(path, agent="claude-code").outcome == "grown"
    )
    assert sum(isinstance(each, MessageEvent) for each in events_of(world, log)) == len(turns) + 1


def test_a_session_that_ends_is_open_no_longer_and_can_be_resumed_for_a_month(remembered: World) -> None:
    hooks = remembered.home / "hooks"
    remembered.call("claude-code", "session-start", {"session_id": "s"})
    (marks,) = [each for each in hooks.iterdir() if each.is_file()]
    assert list((hooks / "open").iterdir())
    remembered.call("claude-code", "session-end", {"session_id": "s"})
    wait_until(lambda: not list((hooks / "open").iterdir()))
    assert marks.is_file()
    os.utime(marks, (0, 0))
    remembered.call("claude-code", "session-start", {"session_id": "t"})
    wait_until(lambda: not marks.exists())


# What each of them sends when a person goes on with an earlier session, as its documentation shows it.
RESUMED = {
    "claude-code": {"hook_event_name": "SessionStart", "source": "resume", "permission_mode": "default"},
    "codex": {"hook_event_name": "SessionStart", "source": "resume", "model": "gpt", "turn_id": "t"},
    "gemini": {"hook_event_name": "SessionStart", "source": "resume", "timestamp": "2026-11-15T10:00:00Z"},
}


@pytest.mark.full(but=1)
@pytest.mark.parametrize("agent", RESUMED)
def test_a_resumed_session_is_told_only_what_is_new(remembered: World, agent: str) -> None:
    first = remembered.call(agent, "session-start", {"session_id": "s", "source": "startup"})
    assert "pytest" in first.context
    remembered.call(agent, "session-end", {"session_id": "s", "reason": "exit"})
    wait_until(lambda: not list((remembered.home / "hooks" / "open").iterdir()))
    assert remembered.call(agent, "session-start", {"session_id": "s", **RESUMED[agent]}).out == b""
    remembered.memory().store("The release train leaves on Tuesdays", key="train")
    again = remembered.call(agent, "session-start", {"session_id": "s", **RESUMED[agent]}).context
    assert "Tuesdays" in again
    assert "pytest" not in again
    assert "5544" not in again
    assert remembered.call(agent, "session-start", {"session_id": "s", **RESUMED[agent]}).out == b""
    prompt = {"session_id": "s", "prompt": "When does the release train leave?"}
    assert remembered.call(agent, "user-prompt", prompt).out == b""
    fresh = remembered.call(agent, "session-start", {"session_id": "s", "source": "compact"}).context
    assert "Tuesdays" in fresh
    assert "pytest" in fresh


def test_an_agent_that_forgets_its_blocks_gets_them_again_as_they_are_now(remembered: World) -> None:
    given = {"session_id": "s", "source": "resume"}
    first = remembered.call("opencode", "session-start", given)
    remembered.memory().store("The zebra dashboard is at grafana/zebra", key="zebra")
    remembered.memory().store("The osprey runbook lies in docs/osprey.md", key="osprey")
    (remembered.home / "config.toml").write_text("[inject]\nmax_per_scope = 2\n")
    for name in ("zebra", "osprey"):
        said = remembered.call(
            "opencode", "user-prompt", {"session_id": "s", "prompt": f"Where is the {name}?"}
        )
        assert name in said.out.decode()
    remembered.memory().store("The zebra dashboard moved to grafana/z2", key="zebra", mode="replace")
    remembered.memory().forget("osprey")
    for number in range(3):
        remembered.memory().store(f"Never paint crane {number}", key=f"else-{number}")
    again = remembered.call("opencode", "session-start", given).out.decode()
    assert again.startswith(first.out.decode()[:20])
    assert "grafana/z2" in again
    assert "osprey" not in again
    prompt = {"session_id": "s", "prompt": "Where is the zebra?"}
    assert remembered.call("opencode", "user-prompt", prompt).out == b""
    said = remembered.call("opencode", "session-start", {**given, "source": "compact"})
    assert "zebra" not in said.out.decode()


def test_a_session_that_is_resumed_and_not_known_gets_the_whole_block(remembered: World) -> None:
    said = remembered.call("claude-code", "session-start", {"session_id": "old", "source": "resume"})
    assert "pytest" in said.context
    future = {"session_id": "new", "source": ["resume"], "later": {"version": 9}}
    assert "pytest" in remembered.call("claude-code", "session-start", future).context


def test_incognito_neither_tells_nor_keeps_anything(remembered: World) -> None:
    path = remembered.transcript()
    said = remembered.call("claude-code", "session-start", {"session_id": "s"}, VADE_INCOGNITO="true")
    assert said.out == b""
    remembered.call("claude-code", "pre-compact", {"transcript_path": str(path)}, VADE_INCOGNITO="true")
    assert not remembered.logs()


@every_case("name", registry.having("hooks"))
def test_every_moment_is_used_or_said_to_be_missing(name: str) -> None:
    found = registry.find(name)
    agent = found and found.hooks
    assert agent is not None
    assert set(agent.moments) | set(agent.missing) == set(Event)
    assert not set(agent.moments) & set(agent.missing)


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (("claude-code", "session-start"), {"apsw", "vademecum.search.engine"}),
        (("claude-code", "user-prompt"), set()),
        (("claude-code", "pre-compact"), set()),
    ],
)
def test_a_cold_hook_loads_no_server_no_model_and_no_colours(
    remembered: World, words: tuple[str, str], absent: set[str]
) -> None:
    import os
    import subprocess
    import sys

    code = (
        "import sys; from vademecum.interfaces.hooks import deadline as door, work\n"
        "work.run(door.Job(*sys.argv[1:3], sys.stdin.buffer.read()), door.Channel()); print(*sys.modules)"
    )
    given = {"cwd": str(remembered.project), "prompt": "Which port has the staging database?"}
    given["transcript_path"] = str(remembered.transcript())
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        input=json.dumps(given).encode(),
        env={**os.environ, "HOME": str(remembered.person), "VADE_HOME": str(remembered.home)},
        capture_output=True,
        check=True,
    )
    loaded = set(done.stdout.decode().split())
    assert "vademecum.memory" in loaded
    heavy = {
        "mcp",
        "pydantic",
        "pydantic_ai",
        "numpy",
        "onnxruntime",
        "rich",
        "click",
        "asyncio",
        "tokenizers",
    }
    assert not (heavy | absent) & loaded
