"""`vade install` alone, and whether what was installed works, as the agent would start it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from vade_command import VADE
from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path


class Machine:
    """A person's home with two agents in it, and a project."""

    def __init__(self, top: Path) -> None:
        self.person, self.project, self.bin = top / "person", top / "project", top / "bin"
        for folder in (self.person, self.project / ".git", self.bin):
            folder.mkdir(parents=True)

    def has(self, *folders: str) -> None:
        for each in folders:
            (self.person / each).mkdir()

    def vade(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the program as a person's script would: without a terminal."""
        environ = {"HOME": str(self.person), "PATH": f"{self.bin}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        environ |= {"VADE_LIMITS_HOOK_START": "9s", "VADE_LIMITS_HOOK_PROMPT": "9s"}
        return subprocess.run(
            [VADE, *words],
            cwd=self.project,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def files(self) -> set[str]:
        return {str(each) for each in self.person.rglob("*") if each.is_file() and ".vade" not in each.parts}

    def checks(self) -> dict[str, dict[str, Any]]:
        """What the doctor says of agents."""
        told = json.loads(self.vade("doctor", "--json").stdout)["checks"]
        return {f"{each['check']} {each['said'].partition(':')[0]}": each for each in told}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_terminal_the_plan_is_shown_and_nothing_is_written(machine: Machine) -> None:
    machine.has(".claude", ".codex")
    done = machine.vade("install")
    assert done.returncode == 0
    assert f"change {machine.person}" not in done.stdout
    for path in (".claude.json", ".claude/settings.json", ".claude/CLAUDE.md", ".codex/hooks.json"):
        assert f"create {machine.person / path}" in done.stdout
        assert f"+++ {machine.person / path}" in done.stdout
    assert "gemini" not in done.stdout
    assert '+  "mcpServers": {' in done.stdout
    assert machine.vade("install", "--dry-run").stdout == done.stdout
    assert "`vade install --yes` writes the changes" in done.stdout
    assert not machine.files()


@pytest.mark.full
def test_all_that_are_found_are_installed_and_tried(machine: Machine) -> None:
    machine.has(".claude", ".codex")
    done = machine.vade("install", "--yes", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0, done
    assert [each["agent"] for each in told["agents"]] == ["claude-code", "codex"]
    assert {each["state"] for each in told["checks"]} == {"ok"}
    tried = {(each["agent"], each["what"]) for each in told["checks"]}
    events = {"server", "session-start", "user-prompt", "pre-compact", "stop", "session-end"}
    assert tried == {(agent, what) for agent in ("claude-code", "codex") for what in events}
    assert not (machine.person / ".vade" / "hooks" / "open").exists()  # nothing is kept of a trial
    again = machine.vade("install")
    assert "everything is already installed" in again.stdout or "nothing to change" in again.stdout
    assert machine.checks()["codex server"]["said"] == "server: the server works, 6 tools"


@pytest.mark.full
def test_what_has_to_be_allowed_is_told_as_the_next_step(machine: Machine) -> None:
    machine.has(".claude", ".gemini", ".qwen")
    (machine.person / ".config" / "opencode").mkdir(parents=True)
    said = machine.vade("install", "--yes").stdout
    assert "next, for opencode: " in said
    assert "next, for qwen-code: " in said
    assert "next, for claude-code: " in said
    assert "--allowedTools mcp__vade" in said
    assert "--yolo" in said


def test_without_any_agent_install_succeeds_and_names_what_works_without_one(machine: Machine) -> None:
    for words in ("install", "--yes"), ("install",), ("install", "--dry-run"):
        done = machine.vade(*words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "no agent found on this machine" in done.stdout
        assert "`vade add " in done.stdout
    told = json.loads(machine.vade("install", "--yes", "--json").stdout)
    assert (told["agents"], told["checks"]) == ([], [])
    assert not machine.files()
    assert not any("server" in each for each in machine.checks())


def test_the_list_describes_the_agents_found_and_only_names_the_others(machine: Machine) -> None:
    machine.has(".claude", ".codex")
    machine.vade("install", "codex")
    (machine.person / ".codex" / "hooks.json").unlink()
    shown = machine.vade("install", "--list").stdout.splitlines()
    assert shown[shown.index(f"claude-code: {machine.person / '.claude'}") + 1] == "  user: not installed"
    codex = shown.index(f"codex: {machine.person / '.codex'}")
    assert shown[codex + 1] == "  user: instruction, server installed; hooks missing"
    assert shown[-1].startswith("not found on this machine: ")
    assert "gemini" in shown[-1]
    assert not any(each.startswith("gemini") for each in shown)


def test_an_agents_broken_file_is_left_as_it_is_and_the_others_are_installed(machine: Machine) -> None:
    machine.has(".claude", ".codex")
    broken = machine.person / ".codex" / "config.toml"
    broken.write_text("[mcp_servers\nvade = ")
    done = machine.vade("install", "--yes")
    assert done.returncode == 1
    assert "codex: " in done.stdout
    assert "left unchanged" in done.stdout
    assert broken.read_text() == "[mcp_servers\nvade = "
    assert "✓ claude-code server: the server works" in done.stdout


@pytest.mark.full
def test_what_the_agent_took_out_itself_is_told_by_the_doctor(machine: Machine) -> None:
    machine.has(".claude")
    machine.vade("install", "claude-code")
    path = machine.person / ".claude.json"
    path.write_text(json.dumps({"numStartups": 3, "mcpServers": {}}))
    found = machine.checks()["claude-code files"]
    assert (found["state"], found["hint"]) == ("warning", "vade install claude-code")
    assert "no server" in found["said"]
    assert machine.vade("install", "claude-code").returncode == 0
    assert json.loads(path.read_text())["numStartups"] == 3
    assert machine.checks()["claude-code server"]["state"] == "ok"


def test_an_installation_that_was_killed_halfway_is_told_and_finished_by_the_next(machine: Machine) -> None:
    machine.has(".claude")
    machine.vade("install", "claude-code")
    (machine.person / ".claude" / "settings.json").unlink()
    for receipt in (machine.person / ".vade" / "installs").iterdir():
        receipt.unlink()
    found = machine.checks()["claude-code files"]
    assert "partly installed: no hooks" in found["said"]
    machine.vade("install", "--yes")
    assert "claude-code files" not in machine.checks()


def test_everything_taken_out_by_hand_is_told(machine: Machine) -> None:
    machine.has(".codex")
    machine.vade("install", "codex")
    for name in ("config.toml", "hooks.json", "AGENTS.md"):
        (machine.person / ".codex" / name).unlink()
    found = machine.checks()["codex files"]
    assert (found["state"], "no longer contain" in found["said"]) == ("warning", True)


def test_a_program_that_has_moved_is_an_error_with_the_command_that_mends_it(machine: Machine) -> None:
    machine.has(".claude")
    machine.vade("install", "claude-code")
    for name in (".claude.json", ".claude/settings.json"):
        path = machine.person / name
        path.write_text(path.read_text().replace(VADE, "/nowhere/vade"))
    found = machine.checks()
    for what in ("server", "session-start"):
        assert (found[f"claude-code {what}"]["state"], found[f"claude-code {what}"]["hint"]) == (
            "error",
            "vade install claude-code",
        )
    assert machine.vade("doctor").returncode == 1


def test_a_server_that_says_nonsense_is_an_error_and_not_a_hang(machine: Machine) -> None:
    machine.has(".claude")
    machine.vade("install", "claude-code")
    fake = machine.bin / "vade"
    fake.write_text("#!/bin/sh\necho hello\nexit 3\n")
    fake.chmod(0o755)
    for name in (".claude.json", ".claude/settings.json"):
        path = machine.person / name
        path.write_text(path.read_text().replace(VADE, str(fake)))
    found = machine.checks()
    assert found["claude-code server"]["said"] == "server: the server gave no valid answer"
    assert found["claude-code stop"]["said"] == "stop: the hook failed with 3"


@pytest.mark.full
def test_uninstalling_without_a_name_disconnects_every_agent(machine: Machine) -> None:
    machine.has(".claude", ".codex")
    (machine.person / ".claude.json").write_text('{"numStartups": 3}')
    before = machine.files()
    assert "not installed in any agent" in machine.vade("uninstall").stdout
    for agent in ("claude-code", "codex"):
        machine.vade("install", agent)
    installed = machine.files()
    shown = machine.vade("uninstall").stdout  # nobody can be asked
    assert f"delete {machine.person / '.codex' / 'hooks.json'}" in shown
    assert f"--- {machine.person / '.codex' / 'hooks.json'}" in shown
    assert "`vade uninstall --yes` writes the changes" in shown
    assert machine.files() == installed
    told = json.loads(machine.vade("uninstall", "--yes", "--json").stdout)
    assert [each["agent"] for each in told["agents"]] == ["claude-code", "codex"]
    assert machine.files() == before
    assert (machine.person / ".claude.json").read_text() == '{"numStartups": 3}'
    assert "not installed in any agent" in machine.vade("uninstall", "--yes").stdout


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_person_who_answers_no_has_changed_nothing_and_made_no_mistake(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(tmp_path)
    machine.has(".claude", ".codex")
    monkeypatch.setenv("HOME", str(machine.person))
    monkeypatch.chdir(machine.project)
    if command == "uninstall":
        for agent in ("claude-code", "codex"):
            run(["install", agent])
    files = machine.files()
    capsys.readouterr()
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda said, **_: asked.append(said))
    assert run([command]) == 0
    assert asked == [f"{command.title()}?"]
    assert machine.files() == files
    captured = capsys.readouterr()
    assert captured.err == "vade: nothing was changed\n"
    assert os.fspath(machine.person / ".claude.json") in captured.out
