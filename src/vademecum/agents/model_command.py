"""Ask a language model through the command of an agent that a person uses, such as `claude -p`.

The agent answers one prompt in an empty folder. Its hooks, tools and servers are off, and memory is incognito
for any program that it starts nevertheless. Its session is never imported, because the prompt begins with
`OWN_REQUEST`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, NoReturn

from vademecum.agents import registry
from vademecum.errors import ModelFailed, ModelNonsense, ModelTimeout, UnknownName
from vademecum.llm.base import Limits, ModelAnswer, ModelUsage, estimate
from vademecum.transcripts.messages import OWN_REQUEST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import Popen

    from vademecum.agents.base import ModelCommand
    from vademecum.llm.base import Json, Prompt, Stream, Typed

PREFIX = "agent:"
_MOST = 1 << 20  # characters of an answer


def find_command(name: str) -> ModelCommand:
    """Return the command of the agent in a name such as `agent:claude-code`."""
    able = {each.name: each.model_command for each in registry.known() if each.model_command is not None}
    found = able.get(name.removeprefix(PREFIX))
    if found is None:
        hint = f"one of {', '.join(PREFIX + each for each in sorted(able))}"
        raise UnknownName(f"{name!r} names no agent that can be asked", hint=hint)
    return found


class AgentModel:
    """A model behind an agent's command; it answers text alone."""

    def __init__(self, name: str, *, seconds: float) -> None:
        self.name, self._command, self._seconds = name, find_command(name), seconds

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Ask for text; the token usage is an estimate."""
        assert isinstance(prompt, str)
        whole = f"{OWN_REQUEST}\n{system}\n\n{prompt}"
        seconds = (limits.seconds if limits else None) or self._seconds
        with tempfile.TemporaryDirectory(prefix="vade-") as folder:
            answer = self._run(whole, folder, seconds)
        usage = ModelUsage(estimate(whole), estimate(answer), counted=False)
        return ModelAnswer(answer, usage, self.name)

    def typed(self, prompt: Prompt, kind: type[Any], **_: Any) -> Typed[Any]:
        """Raise ModelFailed: an agent's command gives no typed answers."""
        self._refuse()

    def stream(self, prompt: Prompt, **_: Any) -> Stream:
        """Raise ModelFailed: an agent's command gives no streamed answers."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelFailed(f"{self.name} answers with text alone")

    def _run(self, prompt: str, folder: str, seconds: float) -> str:
        """Run the command in an empty folder, and return the answer that it prints."""
        words = self._command.words
        program = shutil.which(words[0])
        if program is None:
            raise ModelFailed(f"{self.name} cannot be asked: there is no program {words[0]}")
        try:
            child = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**os.environ, **self._command.environ, "VADE_INCOGNITO": "1"},
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise ModelFailed(f"{self.name} cannot be asked: {error.strerror}") from error
        try:
            printed, _ = child.communicate(prompt, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ModelTimeout(f"{self.name} did not answer in {seconds:.0f} s") from None
        finally:
            _end(child)
        if child.returncode:
            raise ModelFailed(f"{self.name} failed: {words[0]} ended with {child.returncode}")
        try:
            return self._command.read(printed[:_MOST])
        except ValueError:
            raise ModelNonsense(f"{self.name} gave an answer that cannot be read") from None


def _end(child: Popen[str]) -> None:
    """End a child with everything that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (OSError, AttributeError):
        child.kill()
    child.wait()
