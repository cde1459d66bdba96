"""An agent that another package brings is taken by every command, and no file of ours is touched for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MODULE = '''
"""Owl: an agent that nobody here has heard of."""

import json

from vademecum.agents.base import (
    Agent, HookEvent, HookList, Hooks, InstructionFile, JsonServer, Setup, TranscriptFormat, InstructionBlock,
)


def parts(where, folder, program):
    return [
        JsonServer(folder / "mcp.json", program.entry),
        HookList(folder / "hooks.json", lambda command: {"command": command}),
        InstructionBlock(folder / "OWL.md"),
    ]


def recognises(head, path):
    return head.startswith(b'{"owl":')


def read(path, seen=None):
    from vademecum.transcripts import Message, Role, Text
    from vademecum.transcripts.foreign import SessionFacts

    yield SessionFacts(id=path.stem)
    for line in path.read_text().splitlines():
        yield Message(Role.USER, (Text(json.loads(line)["owl"]),), time="2026-11-15T08:00:00Z")


def memories(tree, here):
    from vademecum.agents.memory_files import reference
    from vademecum.types import Scope

    for name in tree.names():
        file = tree.read(name)
        yield reference(name, name, file.text, Scope.GLOBAL, when=file.changed)


AGENT = Agent(
    "owl",
    hooks=Hooks({HookEvent.SESSION_START: "dusk", HookEvent.STOP: "dawn"}),
    setup=Setup(("owl",), ".owl", parts, note="wake it once"),
    instructions=InstructionFile(("OWL.md",)),
    transcripts=TranscriptFormat("owl", {".owl/nights": "*.jsonl"}, recognises, read),
    memories=memories,
)
'''


class Machine:
    """A person's home and project, and a package of somebody else's beside ours."""

    def __init__(self, top: Path) -> None:
        self.person, self.project, self.packages = top / "person", top / "project", top / "packages"
        for folder in (self.person, self.project / ".git", self.packages):
            folder.mkdir(parents=True)

    def bring(self, module: str, entry: str = "owl = owl:AGENT") -> None:
        """Install a package that names an agent."""
        (self.packages / "owl.py").write_text(module)
        about = self.packages / "owl-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: owl\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[vademecum.agents]\n{entry}\n")

    def vade(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        environ = {
            **os.environ,
            "HOME": str(self.person),
            "PYTHONPATH": os.pathsep.join((str(self.packages), os.environ["PYTHONPATH"])),
            "VADE_LIMITS_HOOK_START": "9s",
            "VADE_LIMITS_HOOK_PROMPT": "9s",
        }
        return subprocess.run(
            [sys.executable, "-m", "vademecum", *words],
            capture_output=True,
            text=True,
            input=given,
            cwd=self.project,
            env=environ,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def owl(machine: Machine) -> Machine:
    machine.bring(MODULE)
    return machine


def test_its_memory_is_imported(owl: Machine) -> None:
    theirs = owl.project / "theirs"
    theirs.mkdir()
    (theirs / "mice.md").write_text("# Mice\nMice are in the barn.\n")
    done = owl.vade("import", "owl", str(theirs), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["record"] == 1
    assert "owl" in owl.vade("import", "--help").stdout


def test_it_is_installed_and_taken_away_again(owl: Machine) -> None:
    done = owl.vade("install", "owl")
    assert done.returncode == 0, done.stderr
    assert "wake it once" in done.stderr
    folder = owl.person / ".owl"
    assert "vade" in json.loads((folder / "mcp.json").read_text())["mcpServers"]
    hooks = json.loads((folder / "hooks.json").read_text())["hooks"]
    assert sorted(hooks) == ["dawn", "dusk"]
    assert "hook owl session-start" in hooks["dusk"][0]["command"]
    listed = json.loads(owl.vade("install", "--list", "--json").stdout)["agents"]
    mine = next(each for each in listed if each["agent"] == "owl")
    assert mine["installed"]["user"] == {"server": True, "hooks": True, "instruction": True}
    assert owl.vade("uninstall", "owl").returncode == 0
    assert not folder.exists()


def test_its_hooks_are_answered_and_its_transcripts_kept(owl: Machine) -> None:
    owl.vade("add", "The barn has mice.", "--key", "barn", "--scope", "global")
    said = owl.vade("hook", "owl", "session-start", given=json.dumps({"cwd": str(owl.project)}))
    told = json.loads(said.stdout)["hookSpecificOutput"]
    assert told["hookEventName"] == "dusk"
    assert "The barn has mice." in told["additionalContext"]
    night = owl.person / ".owl" / "nights" / "one.jsonl"
    night.parent.mkdir(parents=True)
    night.write_text('{"owl": "where do the mice sleep at noon?"}\n')
    done = owl.vade("sessions", "import", "--all", "--json")
    assert done.returncode == 0, done.stderr
    assert "mice sleep" in owl.vade("sessions", "search", "mice sleep noon", "--all").stdout


def test_its_instruction_file_is_kept(owl: Machine) -> None:
    owl.vade("add", "The barn has mice.", "--key", "barn", "--scope", "project")
    done = owl.vade("inject", "--write", "owl")
    assert done.returncode == 0, done.stderr
    assert "The barn has mice." in (owl.project / "OWL.md").read_text()


@pytest.mark.parametrize(
    ("module", "why"),
    [("import nothing_of_that_name\n", "cannot be loaded"), ("AGENT = 7\n", "is not an agent named owl")],
)
def test_a_package_that_is_broken_is_told_of_when_it_is_named_and_hinders_nobody(
    machine: Machine, module: str, why: str
) -> None:
    machine.bring(module)
    done = machine.vade("install", "owl")
    assert done.returncode == 1
    assert why in done.stderr
    assert machine.vade("install", "codex", "--dry-run").returncode == 0
    assert "owl" not in machine.vade("install", "--list").stdout


def test_a_name_of_ours_stays_ours(machine: Machine) -> None:
    machine.bring(MODULE.replace('"owl",\n    hooks', '"codex",\n    hooks'), "codex = owl:AGENT")
    machine.vade("install", "codex")
    assert (machine.person / ".codex" / "config.toml").exists()
    assert not (machine.person / ".owl").exists()
