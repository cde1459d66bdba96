"""Qwen Code: installed from npm, a session with memory, resumed and compressed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World
from vademecum.transcripts import ASIDE

if TYPE_CHECKING:
    from pathlib import Path


# What npm installs with Node 20, and what reaches no model with Node 22. It reads the time limits of hooks in
# milliseconds, the newest in seconds.
OLD = "0.15.10"


def test_qwen_with_memory(tmp_path: Path) -> None:
    qwen = str(programs.program("qwen"))
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


def test_qwen_of_node_20_with_memory(tmp_path: Path) -> None:
    if not programs.node_folder():
        pytest.skip(f"this machine's own Node is too new for version {OLD}")
    qwen = str(programs.program("qwen", OLD))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server, _environ(server))
        world.environ["PATH"] = os.pathsep.join((str(world.vade.parent), os.environ["PATH"]))
        play.prepared(world)
        world.write(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}}})
        world.vademecum("install", "qwen-code")
        for number, prompt in enumerate((play.REMEMBER, play.ASK)):
            done = world.run([qwen, "--yolo", *(["--continue"] if number else []), "-p", prompt])
            assert done.code == 0, done.err
        play.check_tools(server, hidden=True)
        play.check_told(server)
        play.check_prompted(world, server)
        play.check_hooks(world, {"user-prompt", "stop"})  # it has no hook at the start without a terminal
        play.check_kept(world)
        world.settled("At grafana.internal/zebra; teal.")
        # It puts what a hook answers behind the prompt, into the same text.
        play.check_copy(world, *(f"{prompt}\n{ASIDE}" for prompt in (play.REMEMBER, play.ASK)))
        world.check_uninstall("qwen-code")


def _environ(server: ModelServer) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "scripted",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_MODEL": "scripted",
    }
