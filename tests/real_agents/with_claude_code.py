"""Claude Code: installed from npm, a session with memory, resumed, compacted and ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tools import claude_plugin

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path


def test_claude_code_with_memory(tmp_path: Path) -> None:
    claude = str(programs.program("claude"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, _environ(server))
        play.prepared(world)
        world.vademecum("install", "claude-code")
        words = ["--output-format", "json", "--allowedTools", "mcp__vade"]
        first = world.run([claude, "-p", play.REMEMBER, *words])
        assert first.code == 0, first.err
        session = json.loads(first.out)["session_id"]
        for prompt in (play.ASK, "/compact", play.AGAIN):
            done = world.run([claude, "-p", prompt, "--resume", session, *words])
            assert done.code == 0, done.err
        play.check_tools(server, hidden=True)
        play.check_told(server)
        play.check_prompted(world, server)
        play.check_hooks(world, {"session-start", "user-prompt", "pre-compact", "stop", "session-end"})
        play.check_kept(world)
        world.settled(play.LAST)
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN)
        play.check_compacted(world, server)
        play.check_found(world)
        assert world.run([claude, "-p", play.FOLLOW, *words]).code == 0
        play.check_read_on(server)
        world.check_uninstall("claude-code")


def test_claude_code_with_the_plugin_of_its_own_marketplace(tmp_path: Path) -> None:
    claude = str(programs.program("claude"))
    prefix = "mcp__plugin_vademecum_vade__"
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl", prefix=prefix) as server:
        world = World(tmp_path, server, _environ(server))
        play.prepared(world)
        plugin = [claude, "plugin"]
        for words in (
            ["validate", "--strict", str(claude_plugin.ROOT / claude_plugin.PLUGIN)],
            ["marketplace", "add", str(claude_plugin.ROOT)],
            ["install", "vademecum@vademecum"],
        ):
            done = world.run([*plugin, *words])
            assert done.code == 0, done.out + done.err
        words = ["--output-format", "json", "--allowedTools", prefix.removesuffix("__")]
        for number, prompt in enumerate((play.REMEMBER, play.ASK)):
            again = ["--continue"] if number else []
            done = world.run([claude, "-p", prompt, *again, *words])
            assert done.code == 0, done.err
        play.check_tools(server, hidden=True)
        first = server.conversation[0].text
        assert "Notes from earlier sessions" in first
        assert "Long-term memory that outlives this session" in first, "the skill is listed"
        play.check_prompted(world, server)
        play.check_hooks(world, {"session-start", "user-prompt", "stop", "session-end"})
        play.check_kept(world)
        world.settled("At grafana.internal/zebra; teal.")
        play.check_copy(world, play.REMEMBER, play.ASK)
        play.check_found(world)
        done = world.run([*plugin, "uninstall", "vademecum@vademecum"])
        assert done.code == 0, done.err


def _environ(server: ModelServer) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "scripted",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
