"""Cline's command line, from npm: two sessions with memory, whose plugin brings the block and the records.

Without a terminal it goes on with no session, so the second prompt begins a session of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING

from real_agents import play, programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path

PROVIDER = ("--provider", "openai-compatible", "--model", "scripted", "--key", "scripted")


def test_cline_with_memory(tmp_path: Path) -> None:
    cline = str(programs.program("cline"))
    with ModelServer(play.SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = World(tmp_path, server)
        play.prepared(world)
        world.vademecum("install", "cline")
        try:
            auth = ("-p", "openai-compatible", "-k", "scripted", "-m", "scripted", "-b", f"{server.url}/v1")
            assert world.run([cline, "auth", *auth]).code == 0
            done = world.run([cline, *PROVIDER, play.REMEMBER])
            assert done.code == 0, done.err
            play.check_tools(server)
            play.check_told(server)
            play.check_kept(world)
            world.settled("It is kept: teal")
            play.check_copy(world, play.REMEMBER)
            play.check_found(world)
            done = world.run([cline, *PROVIDER, play.ASK])
            assert done.code == 0, done.err
            play.check_prompted(world, server)
            play.check_hooks(world, {"session-start", "user-prompt", "stop"})
            world.check_uninstall("cline")
        finally:
            _stop_hub(world)


def _stop_hub(world: World) -> None:
    """End the background process that Cline left behind."""
    for path in (world.person / ".cline" / "data" / "locks" / "hub").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            os.kill(int(json.loads(path.read_text("utf-8"))["pid"]), signal.SIGTERM)
