"""An agent's command as a model: it answers without hooks and our tools, and leaves no session to import."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from real_agents import programs
from real_agents.model_server import ModelServer
from real_agents.with_unsaved import AGENTS
from real_agents.world import World
from vademecum.agents.model_command import AgentModel
from vademecum.transcripts.messages import OWN_REQUEST

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = '{"proposals": []}'


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_an_agent_answers_without_hooks_and_tools_and_leaves_no_session_to_import(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves, program = AGENTS[name], programs.program(name)
    with ModelServer({}, log=tmp_path / "requests.jsonl", aside=ANSWER) as server:
        world = World(tmp_path, server, moves.environ(server))
        world.memory().store("Deploys run at ten", key="deploys")
        moves.prepare(world, server)
        world.vademecum("install", moves.name)
        world.seat_person()
        for variable in [*os.environ]:
            monkeypatch.delenv(variable)
        for variable, value in world.variables.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv("PATH", os.pathsep.join((str(program.parent), os.environ["PATH"])))
        answer = AgentModel(f"agent:{moves.name}", seconds=180).text("What is worth it?", system="Judge.")
        assert answer.text.endswith(ANSWER), answer
        assert answer.usage.tokens
        asked = [each for each in server.requests if OWN_REQUEST in each.text]
        assert asked
        assert not [each for each in asked if each.tools or "Deploys run" in each.text]
        assert world.hooks() == []
        done = subprocess.run(
            [str(world.vade), "sessions", "import", "--all"], capture_output=True, text=True, check=False
        )
        assert not list((world.home / "transcripts").rglob("*.jsonl")), done.stdout
