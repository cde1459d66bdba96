"""Tell whether an agent runs without a person: in a script, on a schedule, or in continuous integration.

Agents do not say so to their hooks. Their environment tells it, or the command line of the agent, which is a
process above this one. Where processes cannot be read (systems without `/proc`), the environment alone does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vademecum.agents.base import Agent

_AUTOMATIC = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE")  # set where nobody sits
_OFF = ("", "0", "false")
_DEEPEST = 8  # processes above a hook: a shell or two, the agent, and what started it
_LONGEST = 65_536  # bytes of a command line
_PROGRAM_WORDS = 4  # of a command line, one of which names the program: `node --flag /usr/bin/gemini -p`


def is_headless(agent: Agent, environ: Mapping[str, str]) -> bool:
    """Return whether an agent runs without a person who reads along."""
    if any(environ.get(name, "").lower() not in _OFF for name in _AUTOMATIC):
        return True
    setup = agent.setup
    if setup is None:
        return False
    if any(environ.get(name, "").startswith(value) for name, value in setup.headless_variables.items()):
        return True
    return any(_has_word(words, setup.programs, setup.headless_words) for words in _command_lines())


def _has_word(words: Sequence[str], programs: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether a command line starts one of the programs with one of the wanted words."""
    names = [os.path.basename(word).removesuffix(".js") for word in words[:_PROGRAM_WORDS]]
    at = next((at for at, name in enumerate(names) if name in programs), None)
    return at is not None and any(word.partition("=")[0] in wanted for word in words[at + 1 :])


def _command_lines() -> Iterator[list[str]]:
    """Yield the command lines of the processes above this one; none where they cannot be read."""
    pid = os.getppid()
    for _ in range(_DEEPEST):
        if pid <= 1:
            return
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read(_LONGEST)
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read(4096).rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
        yield line.decode(errors="replace").split("\0")
