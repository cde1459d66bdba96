"""Gemini CLI: `settings.json`, which has both servers and hooks, and `GEMINI.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.gemini import Gemini as Hooks
from vademecum.interfaces.install.base import USER, Command, Where
from vademecum.interfaces.install.parts import NAME, SECONDS, Part, hooks, server, words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Gemini:
    """Gemini CLI's configuration."""

    name = "gemini"
    programs = ("gemini",)

    def folder(self, where: Where) -> Path:
        """`~/.gemini`, or the project's own."""
        return where.root / ".gemini"

    def root(self, where: Where) -> Path:
        """Its folder; a project's `GEMINI.md` stands beside it."""
        return self.folder(where) if where.scope == USER else where.project

    def parts(self, where: Where, command: Command) -> list[Part]:
        """Its times are milliseconds."""
        folder = self.folder(where)
        first, *rest = command.server
        return [
            server(folder / "settings.json", {"command": first, "args": rest}),
            hooks(
                folder / "settings.json",
                Hooks(),
                _wrapped,
                lambda event: command.hook(self.name, event),
            ),
            words((folder if where.scope == USER else where.project) / "GEMINI.md"),
        ]

    def without(self, where: Where) -> Mapping[str, str]:
        """Everything can be."""
        return {}


def _wrapped(name: str, command: str) -> Any:
    return {"hooks": [{"name": NAME, "type": "command", "command": command, "timeout": SECONDS * 1000}]}
