"""Codex: installed from npm, a session with memory, resumed, compacted and ended."""

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
LIMIT = 17_500  # tokens: less than two prompts have left behind, more than it takes without them


def test_codex_with_memory(tmp_path: Path) -> None:
    codex = str(programs.program("codex"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, {"OPENAI_API_KEY": "scripted"})
        play.prepared(world)
        world.write(".codex/config.toml", CONFIG.format(url=server.url))
        world.vademecum("install", "codex")
        words = [codex, "exec", "--dangerously-bypass-hook-trust", "--json"]  # what is done once in /hooks
        tight = ["-c", f"model_auto_compact_token_limit={LIMIT}"]
        resume = ["resume", "--last"]
        for more in ([play.REMEMBER], [*resume, play.ASK], [*tight, *resume, play.AGAIN]):
            done = world.run([*words, *more])
            assert done.code == 0, done.err
            assert "clamping" not in done.out + done.err
        play.check_tools(server)
        play.check_told(server)
        play.check_prompted(world, server)
        play.check_hooks(world, {"session-start", "user-prompt", "pre-compact", "stop", "session-end"})
        play.check_kept(world)
        world.settled(play.LAST)
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN)
        play.check_compacted(world, server)
        play.check_found(world)
        assert world.run([*words, play.FOLLOW]).code == 0
        play.check_read_on(server)
        world.check_uninstall("codex")
