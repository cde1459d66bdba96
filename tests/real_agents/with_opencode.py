"""opencode: installed from npm, a session with memory, resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path


def test_opencode_with_memory(tmp_path: Path) -> None:
    opencode = str(programs.program("opencode"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, {"OPENCODE_DISABLE_AUTOUPDATE": "1"})
        play.prepared(world)
        world.write(".config/opencode/opencode.json", _config(server))
        world.vademecum("install", "opencode")
        for number, prompt in enumerate((play.REMEMBER, play.ASK, play.AGAIN)):
            done = world.run([opencode, "run", *(["--continue"] if number else []), prompt])
            assert done.code == 0, done.err
        play.check_tools(server)
        play.check_told(server)
        play.check_hooks(world, {"session-start", "user-prompt", "stop"})
        play.check_kept(world)
        world.settled()
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN, named=False)
        play.check_found(world)
        world.check_uninstall("opencode")


def _config(server: ModelServer) -> dict[str, object]:
    model = {"name": "scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{server.url}/v1", "apiKey": "scripted"},
        "models": {"scripted": model},
    }
    return {
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
    }
