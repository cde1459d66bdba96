"""Hooks called as agents call them: a process, an object on standard input, what comes out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vademecum.memory import Memory

HANG = 60  # seconds after which a call counts as hung; no call comes near it
# A busy machine must not make a test of something else fail.
PATIENT = {"VADE_LIMITS_HOOK_START": "9s", "VADE_LIMITS_HOOK_PROMPT": "9s"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a hook left behind."""

    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def context(self) -> str:
        """What the model is told, in the shape that most agents take."""
        if not self.out:
            return ""
        return str(json.loads(self.out)["hookSpecificOutput"]["additionalContext"])


@dataclass(frozen=True, slots=True)
class World:
    """A person's home folder, a project and a memory."""

    person: Path
    project: Path
    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, top: Path) -> World:
        """Make one in an empty folder."""
        person, project = top / "person", top / "project"
        person.mkdir()
        project.mkdir()
        return cls(person, project, person / ".vade")

    def memory(self, **given: Any) -> Memory:
        """Its memory, as the person has it."""
        return connect(home=self.home, cwd=self.project, origin=Origin.USER, actor="human:ada", **given)

    def call(
        self,
        agent: str,
        event: str,
        given: Mapping[str, Any] | bytes | None = None,
        *,
        before: Sequence[str] = (),
        **environ: str,
    ) -> Said:
        """Call one hook, with all the time in the world unless said otherwise; an empty variable is none."""
        content = (
            given
            if isinstance(given, bytes)
            else json.dumps({"cwd": str(self.project), **(given or {})}).encode()
        )
        environment = {**os.environ, "HOME": str(self.person), "VADE_HOME": str(self.home), **self.environ}
        words = [*before, sys.executable, "-m", "vademecum", "hook", agent, event]
        # A tracer keeps pipes open until the last child has gone, which no agent would wait for.
        pipes = (subprocess.PIPE, subprocess.PIPE) if not before else (tempfile.TemporaryFile(),) * 2  # noqa: SIM115  # closed below
        begun = time.monotonic()
        done = subprocess.run(
            words,
            input=content,
            stdout=pipes[0],
            stderr=pipes[1],
            env={name: value for name, value in {**environment, **PATIENT, **environ}.items() if value},
            cwd=self.project,
            timeout=HANG,
            check=False,
        )
        seconds = time.monotonic() - begun
        if isinstance(pipes[0], int):
            return Said(done.returncode, done.stdout, done.stderr, seconds)
        with pipes[0] as file:
            file.seek(0)
            return Said(done.returncode, file.read(), b"", seconds)

    def vade(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `vade` as the person does."""
        return subprocess.run(
            [sys.executable, "-m", "vademecum", *words],
            env={**os.environ, "HOME": str(self.person), "VADE_HOME": str(self.home)},
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )

    def transcript(self, name: str = "one", *turns: tuple[str, str]) -> Path:
        """A transcript as Claude Code keeps them, or more turns of one that is there."""
        folder = self.person / ".claude" / "projects" / "-project"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.jsonl"
        number = path.read_text().count("\n") if path.exists() else 0
        with path.open("a") as file:
            for role, text in turns or (("user", "Where is the parser?"), ("assistant", "In parse.py.")):
                number += 1
                file.write(json.dumps(self._line(name, number, role, text)) + "\n")
        return path

    def _line(self, session: str, number: int, role: str, text: str) -> dict[str, Any]:
        return {
            "type": role,
            "uuid": f"{session}-{number}",
            "parentUuid": f"{session}-{number - 1}" if number > 1 else None,
            "sessionId": session,
            "cwd": str(self.project),
            "timestamp": f"2026-11-15T10:{number // 60 % 60:02}:{number % 60:02}.000Z",
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
        }

    def logs(self) -> list[Path]:
        """The logs that imports have made."""
        return sorted((self.home / "transcripts").rglob("*.jsonl"))

    def failures(self) -> list[str]:
        """The lines of the log of failures."""
        path = self.home / "hooks.log"
        return path.read_text().splitlines() if path.exists() else []


def wait_until(true: Any, *, seconds: float = HANG) -> Any:
    """What a child that goes on by itself brings about, once it has."""
    until = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)
    return found
