"""Where an agent runs: a person's home folder, a project under git, a memory, and a record of every hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import checkout
from real_agents import programs
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from real_agents.model_server import ModelServer

MINUTES = 5  # for one run of an agent, on a machine that has other things to do
_CONFIGURED = (
    *(".claude.json", "settings.json", "config.toml", "hooks.json", "opencode.json", "vade.js"),
    *("mcp-config.json", "vade.json", "vade.ts"),
    *("CLAUDE.md", "AGENTS.md", "GEMINI.md", "QWEN.md", ".goosehints", "config.yaml"),
    *("cline_mcp_settings.json", "vade.md"),
)
_KEPT = ("LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "PYTHONPATH")

# `vade` as the agent starts it: hooks are written down, what goes in and what comes out, and everything else
# is the program itself.
_SHIM = """\
#!{python}
import json, os, subprocess, sys
os.environ["PYTHONPATH"] = {path!r}
sys.path[:0] = {path!r}.split(os.pathsep)
REAL = [{python!r}, "-m", "vademecum"]
# An agent that a test starts has no terminal, and no person before it.
SEATED = "from vademecum.interfaces.hooks import headless; headless.is_headless = lambda *_: False;"
SEATED += "from vademecum.interfaces.cli import main; main()"
if sys.argv[1:2] == ["hook"]:
    given = sys.stdin.buffer.read()
    words = [*REAL, *sys.argv[1:]]
    if os.path.exists({seated!r}):
        words = [sys.executable, "-c", SEATED, *sys.argv[1:]]
    done = subprocess.run(words, input=given, capture_output=True)
    line = {{"words": sys.argv[2:4], "in": given.decode("utf-8", "replace"), "code": done.returncode,
            "out": done.stdout.decode("utf-8", "replace"), "err": done.stderr.decode("utf-8", "replace")}}
    with open({record!r}, "a") as file:
        file.write(json.dumps(line) + "\\n")
    sys.stdout.buffer.write(done.stdout)
    sys.exit(done.returncode)
if "install" in sys.argv or "uninstall" in sys.argv:
    from vademecum.interfaces.cli import main
    sys.exit(main())
os.execv(REAL[0], [*REAL, *sys.argv[1:]])
"""


class HookCall(NamedTuple):
    """One hook that an agent called: for which event, with what, and what came of it."""

    event: str
    given: dict[str, Any]
    out: str
    code: int
    err: str

    @property
    def context(self) -> str:
        """What the model is told."""
        return str(json.loads(self.out)["hookSpecificOutput"]["additionalContext"]) if self.out else ""


class Ran(NamedTuple):
    """What a run of an agent left behind."""

    code: int
    out: str
    err: str


@dataclass
class World:
    """One agent's world."""

    top: Path
    server: ModelServer
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.person, self.project, self.home = (
            self.top / "person",
            self.top / "project",
            self.top / "person/.vade",
        )
        for folder in (self.person, self.project):
            folder.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.project)], check=True)
        (self.project / "README.md").write_text("# Harbour\n\nCranes and trains.\n", "utf-8")
        self.vade = self.top / "bin" / "vade"
        self.vade.parent.mkdir(exist_ok=True)
        self.vade.write_text(
            _SHIM.format(
                python=sys.executable,
                path=checkout.python_path(),
                record=str(self.top / "hooks.jsonl"),
                seated=str(self.top / "seated"),
            ),
            "utf-8",
        )
        self.vade.chmod(0o755)

    def seat_person(self) -> None:
        """From now on, let hooks take the agent for one that a person talks to."""
        (self.top / "seated").touch()

    @property
    def variables(self) -> dict[str, str]:
        """What the agent and its children see."""
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        path = os.pathsep.join((str(self.vade.parent), programs.search_path()))
        return {
            **environment,
            "HOME": str(self.person),
            "PATH": path,
            **self.environ,
        }

    def run(self, words: Sequence[str], *, given: str = "", minutes: float = MINUTES) -> Ran:
        """Run one program in the project."""
        done = subprocess.run(
            words,
            input=given,
            env=self.variables,
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=minutes * 60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def vademecum(self, *words: str) -> Ran:
        """Run `vade` as a person would."""
        done = self.run([str(self.vade), *words])
        assert done.code == 0, textwrap.shorten(done.err + done.out, 2000)
        return done

    def memory(self, **given: Any) -> Memory:
        """Its memory, as the person has it."""
        return connect(home=self.home, cwd=self.project, origin=Origin.USER, actor="human:ada", **given)

    def hooks(self, event: str = "") -> list[HookCall]:
        """The hooks that were called, in order."""
        record = self.top / "hooks.jsonl"
        lines = map(json.loads, record.read_text("utf-8").splitlines()) if record.exists() else ()
        found = [
            HookCall(each["words"][1], json.loads(each["in"] or "{}"), each["out"], each["code"], each["err"])
            for each in lines
        ]
        return [each for each in found if not event or each.event == event]

    def write(self, name: str, value: Mapping[str, Any] | str) -> Path:
        """A file below the person's home folder."""
        path = self.person / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2), "utf-8")
        return path

    def settled(self, last: str = "", *, seconds: float = 60) -> None:
        """Wait until what hooks do after their answer is done: the copy has the last words, and its end."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            logs = [each.read_bytes() for each in sorted((self.home / "transcripts").rglob("*.jsonl"))]
            whole = all(b'"kind":"ended"' in each.splitlines()[-1] for each in logs)
            if whole and any(last.encode() in each for each in logs) and self._quiet():
                return
            time.sleep(0.5)

    def _quiet(self) -> bool:
        """Whether no child of a hook is at work: it holds the lock of its import."""
        newest = max(each.stat().st_mtime for each in (self.home / "transcripts").rglob("*.jsonl"))
        return time.time() - newest > 2

    def check_uninstall(self, agent: str) -> None:
        """What was installed goes again, all of it."""
        self.vademecum("uninstall", agent)
        for path in self.person.rglob("*"):
            if path.is_file() and path.name in _CONFIGURED and ".vade" not in path.parts:
                assert str(self.vade) not in path.read_text("utf-8"), path
                assert "vade:begin" not in path.read_text("utf-8"), path
