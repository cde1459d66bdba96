"""Amp: installed from npm, and what it reads without its server, which it needs for everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from real_agents import programs
from real_agents.model_server import ModelServer
from real_agents.world import World

if TYPE_CHECKING:
    from pathlib import Path


def test_amp_lists_our_server_and_loads_our_plugin(tmp_path: Path) -> None:
    amp = str(programs.program("amp"))
    with ModelServer({}) as server:
        world = World(tmp_path, server, {"AMP_API_KEY": "none", "AMP_URL": server.url})
        if world.run([amp, "--version"]).code:
            pytest.skip("npm has no Amp for this machine")
        world.vademecum("install", "amp")
        world.vademecum("install", "amp", "--scope", "project")
        listed = world.run([amp, "mcp", "list"]).out
        assert f"Global ~/.config/amp/settings.json\n  vade  command  {world.vade} " in listed
        assert f"Workspace .amp/settings.json\n  vade  command  {world.vade} " in listed
        for plugin in (world.person / ".config/amp/plugins/vade.ts", world.project / ".amp/plugins/vade.ts"):
            thread = '{"thread": {"id": "T-5f1d0a3e-2f0f-4d0e-9e3a-0d9f6d1a0001"}}'
            done = world.run([amp, "plugins", "exec", str(plugin), "session.start", "--data", thread])
            assert (done.code, "rror" in done.out + done.err) == (0, False), done.out + done.err
        world.vademecum("uninstall", "amp", "--scope", "project")
        assert not (world.project / ".amp").exists()
        world.check_uninstall("amp")
