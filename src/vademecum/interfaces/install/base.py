"""What it takes to install into an agent: where its configuration is, and what is kept in it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.interfaces.install.parts import Part

USER, PROJECT = "user", "project"


class Where(NamedTuple):
    """For whom it is installed: the person, or one project."""

    scope: str
    person: Path
    project: Path
    environ: Mapping[str, str]

    @property
    def root(self) -> Path:
        """The folder nothing is written outside of."""
        return self.person if self.scope == USER else self.project


class Command(NamedTuple):
    """How this very program is started."""

    words: tuple[str, ...]
    home: str = ""

    @property
    def server(self) -> tuple[str, ...]:
        """The words that start the server."""
        return (*self.words, *(("--home", self.home) if self.home else ()), "mcp")

    def hook(self, agent: str, event: str) -> str:
        """The line that answers a hook."""
        words = [*self.words, "hook", agent, event, *(("--home", self.home) if self.home else ())]
        return " ".join(words) if os.name == "nt" else shlex.join(words)


class Installer(Protocol):
    """One agent's configuration."""

    @property
    def name(self) -> str:
        """As it is called on the command line."""

    @property
    def programs(self) -> Sequence[str]:
        """What it is called on a path."""

    def folder(self, where: Where) -> Path:
        """Where it keeps its configuration; it may not be there."""

    def root(self, where: Where) -> Path:
        """The folder that everything it gets lies in."""

    def parts(self, where: Where, command: Command) -> list[Part]:
        """What is installed there."""

    def without(self, where: Where) -> Mapping[str, str]:
        """What cannot be installed there, and why."""


def running(home: str = "") -> Command:
    """The program that runs now: its script by its whole path, or this Python and the module."""
    script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.basename(script) in ("vade", "vade.exe") and os.access(script, os.X_OK):
        return Command((script,), home)
    return Command((sys.executable, "-m", "vademecum"), home)


def moved(where: Where, variable: str, usual: str) -> Path:
    """A person's folder of an agent, which a variable may have moved."""
    given = where.environ.get(variable, "")
    return Path(given) if os.path.isabs(given) else where.person / usual
