"""Gemini CLI: installed from npm, a session with memory, resumed, compressed and ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World
from vademecum.transcripts.events import Summary

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"disableAutoUpdate": True},
}
SHARE = 0.011  # of its window: less than two prompts have left behind, more than it takes without them


def test_gemini_with_memory(tmp_path: Path) -> None:
    gemini = str(programs.program("gemini"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, _environ(server))
        play.prepared(world)
        settings = world.write(".gemini/settings.json", SETTINGS)
        world.vademecum("install", "gemini")
        # Without --yolo it offers no tool of a server; another model would ask a router first.
        words = [gemini, "-m", "gemini-2.5-flash", "--yolo", "-p"]
        for number, prompt in enumerate((play.REMEMBER, play.ASK, play.AGAIN)):
            if prompt == play.AGAIN:
                assert _summaries(world) == 0, "it calls its hook before every request"
                tight = {**json.loads(settings.read_text("utf-8")), "model": {"compressionThreshold": SHARE}}
                settings.write_text(json.dumps(tight), "utf-8")
            done = world.run([*words, prompt, *(["--resume", "latest"] if number else [])])
            assert done.code == 0, done.err
            world.settled(str(play.SCRIPT[prompt][-1]))
        play.check_tools(server)
        play.check_told(server)
        play.check_prompted(world, server)
        play.check_hooks(world, {"session-start", "user-prompt", "pre-compact", "stop", "session-end"})
        play.check_kept(world)
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN)
        assert 0 < _summaries(world) <= len(world.hooks("stop")), "one for what was really compressed"
        play.check_found(world)
        assert world.run([*words, play.FOLLOW]).code == 0
        play.check_read_on(server)
        world.check_uninstall("gemini")


def _summaries(world: World) -> int:
    memory = world.memory()
    return sum(
        isinstance(event, Summary)
        for each in memory.sessions.list()
        for event in memory.sessions.open(each.id).events()
    )


def _environ(server: ModelServer) -> dict[str, str]:
    return {
        "GEMINI_API_KEY": "scripted",
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
