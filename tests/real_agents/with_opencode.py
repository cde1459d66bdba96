"""opencode: installed from npm, a session with memory, resumed and compacted."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from typing import TYPE_CHECKING

from real_agents import play, programs
from real_agents.model_server import SUMMARY, ModelServer
from real_agents.world import MINUTES, World

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
            if prompt == play.AGAIN:
                _compact(opencode, world)
            done = world.run([opencode, "run", *(["--continue"] if number else []), prompt])
            assert done.code == 0, done.err
        play.check_tools(server)
        play.check_told(server)
        play.check_prompted(world, server)
        play.check_hooks(world, {"session-start", "user-prompt", "pre-compact", "stop"})
        play.check_kept(world)
        world.settled(play.LAST)
        play.check_copy(world, play.REMEMBER, play.ASK, play.AGAIN, named=False)
        play.check_compacted(world, server)
        play.check_found(world)
        assert world.run([opencode, "run", play.FOLLOW]).code == 0
        play.check_read_on(server)
        world.check_uninstall("opencode")


def _compact(opencode: str, world: World) -> None:
    """What `/compact` does in its terminal, through its own server: `opencode run` has no word for it."""
    listed = world.run([opencode, "session", "list", "--format", "json"])
    (session,) = json.loads(listed.out)
    words = [opencode, "serve", "--port", "0"]
    with subprocess.Popen(
        words, env=world.variables, cwd=world.project, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = next(filter(None, (re.search(r"http://\S+", line) for line in process.stdout)))
        body = json.dumps({"providerID": "scripted", "modelID": "scripted"}).encode()
        address = f"{found[0]}/session/{session['id']}/summarize"
        http_request = urllib.request.Request(
            address, data=body, headers={"content-type": "application/json"}
        )
        with urllib.request.urlopen(http_request, timeout=MINUTES * 60) as answer:
            assert json.load(answer) is True
        world.settled(SUMMARY)
        process.terminate()


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
