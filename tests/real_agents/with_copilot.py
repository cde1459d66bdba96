"""GitHub Copilot CLI: installed from npm, a session with memory, resumed, compacted and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path


def test_copilot_with_memory(tmp_path: Path) -> None:
    copilot = str(programs.program("copilot"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, _environ(server))
        play.prepared(world)
        world.vademecum("install", "copilot")
        assert "vade (local)" in world.run([copilot, "mcp", "list"]).out
        for number, prompt in enumerate((play.REMEMBER, play.ASK, "/compact", play.AGAIN)):
            again = ["--continue"] if number else []
            done = world.run([copilot, "-p", prompt, "--allow-tool=vade", *again])
            assert done.code == 0, done.err
        play.check_tools(server)
        play.check_told(server)
        play.check_prompted(world, server)
        # Copilot does not save the block of a session's start, so every process gets it again.
        starts = [each.out for each in world.hooks("session-start")]
        assert len(starts) >= 3
        assert all(play.OSPREY in each for each in starts)
        play.check_hooks(world, {"session-start", "user-prompt", "pre-compact", "stop", "session-end"})
        play.check_kept(world)
        world.settled(play.LAST)
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN)
        play.check_compacted(world, server)
        play.check_found(world)
        world.check_uninstall("copilot")


def test_copilot_reads_what_is_installed_for_a_project(tmp_path: Path) -> None:
    copilot = str(programs.program("copilot"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, _environ(server))
        play.prepared(world)
        world.vademecum("install", "copilot", "--scope", "project")
        done = world.run([copilot, "-p", play.REMEMBER, "--allow-tool=vade", "--trust-folder"])
        assert done.code == 0, done.err
        play.check_tools(server)
        play.check_told(server)
        play.check_kept(world)
        world.vademecum("uninstall", "copilot", "--scope", "project")
        assert not (world.project / ".github").exists()


def _environ(server: ModelServer) -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_MODEL": "scripted",
        "COPILOT_PROVIDER_API_KEY": "scripted",
        "COPILOT_PROVIDER_BASE_URL": f"{server.url}/v1",
    }
