"""Qwen Code: installed from npm, a session with memory, resumed and compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path


# What npm installs with Node 20; it reads the time limits of hooks in milliseconds, the newest in seconds.
OLD = "0.15.10"


@pytest.mark.parametrize("version", ["", OLD], ids=["newest", OLD])
def test_qwen_with_memory(tmp_path: Path, version: str) -> None:
    qwen = str(programs.program("qwen", version))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, _environ(server))
        play.prepared(world)
        world.write(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}}})
        world.vademecum("install", "qwen-code")
        for number, prompt in enumerate((play.REMEMBER, play.ASK, "/compress", play.AGAIN)):
            done = world.run([qwen, "--yolo", *(["--continue"] if number else []), "-p", prompt])
            assert done.code == 0, done.err
        play.check_tools(server, hidden=True)
        play.check_told(server)
        play.check_prompted(world, server)
        # Without a terminal it ends without a word.
        play.check_hooks(world, {"session-start", "user-prompt", "pre-compact", "stop"})
        play.check_kept(world)
        world.settled(play.LAST)
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN)
        play.check_compacted(world, server)
        play.check_found(world)
        assert world.run([qwen, "--yolo", "-p", play.FOLLOW]).code == 0
        play.check_read_on(server)
        world.check_uninstall("qwen-code")


def _environ(server: ModelServer) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "scripted",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_MODEL": "scripted",
    }
