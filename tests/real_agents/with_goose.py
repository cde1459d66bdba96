"""Goose: its program from npm, a session with memory, resumed twice; its hooks tell the model nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
# mine
GOOSE_TELEMETRY_ENABLED: false
extensions:
  # my tools
  developer:
    enabled: true
    type: platform
    name: developer
    description: files and commands
    bundled: true
"""


def test_goose_with_memory(tmp_path: Path) -> None:
    goose = programs.program(programs.GOOSE)
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        # The hook starts goose by its name.
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "goose").symlink_to(goose)
        world = World(tmp_path, server, _environ(server))
        play.prepared(world)
        config = world.write(".config/goose/config.yaml", CONFIG)
        world.vademecum("install", "goose")
        world.vademecum("uninstall", "goose")
        assert config.read_text("utf-8") == CONFIG
        world.vademecum("install", "goose")
        for number, prompt in enumerate((play.REMEMBER, play.ASK, play.AGAIN)):
            words = [os.fspath(world.vade.parent / "goose"), "run", *(["--resume"] if number else [])]
            done = world.run([*words, "--text", prompt])
            assert done.code == 0, done.err
        play.check_tools(server)
        assert "## Memory" in server.conversation[0].text
        play.check_hooks(world, {"stop"})
        play.check_kept(world)
        world.settled(play.LAST)
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN, named=False)
        play.check_found(world)
        world.check_uninstall("goose")


def _environ(server: ModelServer) -> dict[str, str]:
    return {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "gpt-4o",
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "1",
        "OPENAI_API_KEY": "scripted",
        "OPENAI_HOST": server.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
    }
