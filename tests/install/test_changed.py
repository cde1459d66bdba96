"""An agent writes its own configuration too: what it changed stays, and nothing of ours is there twice."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from install.test_check import Machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Settings = dict[str, Any]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def commands(value: Any) -> list[str]:
    """Every command of a hook below a value."""
    if isinstance(value, dict):
        own = [value["command"]] if isinstance(value.get("command"), str) else []
        return own + [each for inner in value.values() for each in commands(inner)]
    return [each for inner in value for each in commands(inner)] if isinstance(value, list) else []


def ours(value: Any) -> list[str]:
    return [each for each in commands(value) if " hook " in each]


# -------------------------------------------------------------------- what agents do to their files


def claude(settings: Settings) -> None:
    """It counts its starts, knows projects, and fills in what an entry may have."""
    settings["numStartups"] = 7
    settings["projects"] = {"/home/ada/project": {"allowedTools": ["mcp__vade__memory_search"]}}
    settings["mcpServers"]["vade"]["env"] = {"VADE_LOG": "1"}
    settings["mcpServers"]["other"] = {"command": "x"}


def claude_hooks(settings: Settings) -> None:
    """Somebody's own command has come into our group, and the groups have a matcher."""
    settings["permissions"] = {"allow": ["mcp__vade"]}
    for groups in settings["hooks"].values():
        groups[0]["matcher"] = ""
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "echo mine"})


def gemini(settings: Settings) -> None:
    """It writes everything anew, in its own order."""
    settings["security"] = {"auth": {"selectedType": "oauth"}}
    settings["mcpServers"]["vade"]["trust"] = True
    settings["hooks"] = dict(reversed(settings["hooks"].items()))


def opencode(settings: Settings) -> None:
    settings["$schema"] = "https://opencode.ai/config.json"
    settings["mcp"]["vade"]["timeout"] = 9000


def copilot(settings: Settings) -> None:
    settings["mcpServers"]["vade"]["tools"] = ["memory_search"]
    settings["mcpServers"]["github"] = {"type": "http", "url": "https://example.com"}


def amp(settings: Settings) -> None:
    settings["amp.mcpServers"]["vade"]["includeTools"] = ["memory_*"]
    settings["amp.showCosts"] = False


CHANGES: dict[str, list[tuple[str, Callable[[Settings], None]]]] = {
    "claude-code": [(".claude.json", claude), (".claude/settings.json", claude_hooks)],
    "gemini": [(".gemini/settings.json", gemini)],
    "qwen-code": [(".qwen/settings.json", gemini)],
    "opencode": [(".config/opencode/opencode.json", opencode)],
    "copilot": [(".copilot/mcp-config.json", copilot)],
    "amp": [(".config/amp/settings.json", amp)],
}


def without_ours(settings: Settings) -> Settings:
    """What must be left when ours is taken out."""
    left = json.loads(json.dumps(settings))
    for below in ("mcpServers", "mcp", "amp.mcpServers"):
        if below in left:
            del left[below]["vade"]
            left = {name: each for name, each in left.items() if name != below or each}
    for name, groups in list(left.get("hooks", {}).items()):
        for group in groups:
            group["hooks"] = [each for each in group["hooks"] if " hook " not in each["command"]]
        left["hooks"][name] = [each for each in groups if each["hooks"]]
    if "hooks" in left:
        left["hooks"] = {name: each for name, each in left["hooks"].items() if each}
    return {name: each for name, each in left.items() if name != "hooks" or each}


@pytest.mark.full(but=1)
@pytest.mark.parametrize("agent", CHANGES)
def test_what_an_agent_wrote_itself_stays_through_install_doctor_and_uninstall(
    machine: Machine, agent: str
) -> None:
    assert machine.vade("install", agent).returncode == 0
    changed: dict[Path, Settings] = {}
    for name, change in CHANGES[agent]:
        path = machine.person / name
        settings = json.loads(path.read_text())
        change(settings)
        path.write_text(json.dumps(settings, indent=1))
        changed[path] = settings
    checks = machine.checks()
    assert checks[f"{agent} server"]["state"] == "ok"
    assert f"{agent} files" not in checks
    again = machine.vade("install", agent)
    assert again.returncode == 0
    for path, settings in changed.items():
        assert json.loads(path.read_text()) == settings, "an installation took something of the agent's"
        assert len(ours(settings)) == len(set(ours(settings)))
    for command in {each for settings in changed.values() for each in ours(settings)}:
        done = subprocess.run(
            shlex.split(command),
            input=b"{}",
            env={"HOME": str(machine.person), "PATH": os.defpath},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b""), command
    assert machine.vade("uninstall", agent).returncode == 0
    for path, settings in changed.items():
        assert json.loads(path.read_text()) == without_ours(settings)
    assert f"{agent} server" not in machine.checks()


def test_codex_trusts_a_folder_and_keeps_what_it_wrote(machine: Machine) -> None:
    machine.has(".codex")
    path = machine.person / ".codex" / "config.toml"
    path.write_text('model = "o3"  # the best\n')
    machine.vade("install", "codex")
    theirs = '\n[projects."/home/ada/project"]\ntrust_level = "trusted"\n\n[hooks.state]\nseen = ["a1"]\n'
    text = path.read_text().replace('command = "', 'enabled = true\nstartup_timeout_sec = 20\ncommand = "')
    path.write_text(text + theirs)
    before = path.read_bytes()
    assert machine.checks()["codex server"]["state"] == "ok"
    assert machine.vade("install", "codex").returncode == 0
    assert path.read_bytes() == before
    assert tomllib.loads(path.read_text())["mcp_servers"]["vade"]["startup_timeout_sec"] == 20
    assert machine.vade("uninstall", "codex").returncode == 0
    left = tomllib.loads(path.read_text())
    assert left == {
        "model": "o3",
        "projects": {"/home/ada/project": {"trust_level": "trusted"}},
        "hooks": {"state": {"seen": ["a1"]}},
    }
    assert "# the best" in path.read_text()


@pytest.mark.full
def test_a_program_that_moved_is_mended_in_an_entry_that_the_agent_filled(machine: Machine) -> None:
    machine.vade("install", "claude-code")
    path = machine.person / ".claude.json"
    settings = json.loads(path.read_text())
    command = settings["mcpServers"]["vade"]["command"]
    settings["mcpServers"]["vade"] |= {"command": "/gone/vade", "env": {"A": "b"}}
    path.write_text(json.dumps(settings))
    hooks = machine.person / ".claude" / "settings.json"
    moved = json.loads(hooks.read_text())
    group = moved["hooks"]["Stop"][0]
    group["hooks"][0]["command"] = "/gone/vade hook claude-code stop"
    group["hooks"].append({"type": "command", "command": "echo mine"})
    hooks.write_text(json.dumps(moved))
    assert machine.checks()["claude-code server"]["state"] == "error"
    assert machine.vade("install", "claude-code").returncode == 0
    entry = json.loads(path.read_text())["mcpServers"]["vade"]
    assert (entry["command"], entry["env"]) == (command, {"A": "b"})
    found = json.loads(hooks.read_text())["hooks"]["Stop"]
    assert sorted(each for each in commands(found) if "gone" in each or "mine" in each) == ["echo mine"]
    assert len(ours(found)) == 1
    assert {each["state"] for name, each in machine.checks().items() if "claude-code" in name} == {"ok"}
