"""Codex: `config.toml`, `hooks.json` beside it, and `AGENTS.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.codex import Codex as Hooks
from vademecum.interfaces.install.base import USER, Command, Where, moved
from vademecum.interfaces.install.parts import SECONDS, Part, hooks, toml_server, words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Codex:
    """Codex's configuration; it runs a hook once a person has trusted it with `/hooks`."""

    name = "codex"
    programs = ("codex",)

    def folder(self, where: Where) -> Path:
        """`~/.codex`, or the project's own."""
        return moved(where, "CODEX_HOME", ".codex") if where.scope == USER else where.project / ".codex"

    def root(self, where: Where) -> Path:
        """Its folder; a project's `AGENTS.md` stands beside it."""
        return self.folder(where) if where.scope == USER else where.project

    def parts(self, where: Where, command: Command) -> list[Part]:
        """The server in TOML, the hooks in JSON."""
        folder = self.folder(where)
        return [
            toml_server(folder / "config.toml", command.server),
            hooks(
                folder / "hooks.json",
                Hooks(),
                _wrapped,
                lambda event: command.hook(self.name, event),
            ),
            words((folder if where.scope == USER else where.project) / "AGENTS.md"),
        ]

    def without(self, where: Where) -> Mapping[str, str]:
        """Everything can be."""
        return {}


def _wrapped(name: str, command: str) -> Any:
    return {"hooks": [{"type": "command", "command": command, "timeout": SECONDS}]}
