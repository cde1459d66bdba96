"""Codex: installed from npm, a session with memory, resumed and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "workspace-write"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""


def test_codex_with_memory(tmp_path: Path) -> None:
    codex = str(programs.program("codex"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, {"OPENAI_API_KEY": "scripted"})
        play.prepared(world)
        world.write(".codex/config.toml", CONFIG.format(url=server.url))
        world.vademecum("install", "codex")
        trusted = "--dangerously-bypass-hook-trust"  # what a person does once in /hooks
        for words in ([play.REMEMBER], ["resume", "--last", play.ASK], ["resume", "--last", play.AGAIN]):
            done = world.run([codex, "exec", trusted, "--json", *words])
            assert done.code == 0, done.err
            assert "clamping" not in done.out + done.err
        play.check_tools(server, first=False)  # it does not wait for servers
        play.check_told(server)
        play.check_hooks(world, {"session-start", "user-prompt", "stop", "session-end"})
        play.check_kept(world)
        world.settled()
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN)
        play.check_found(world)
        world.check_uninstall("codex")
