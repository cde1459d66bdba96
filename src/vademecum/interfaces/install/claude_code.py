"""Claude Code: `.claude.json` or `.mcp.json`, `settings.json` and `CLAUDE.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.claude_code import ClaudeCode as Hooks
from vademecum.interfaces.install.base import USER, Command, Where, moved
from vademecum.interfaces.install.parts import SECONDS, Part, hooks, server, words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ClaudeCode:
    """Claude Code's configuration."""

    name = "claude-code"
    programs = ("claude",)

    def folder(self, where: Where) -> Path:
        """`~/.claude`, or the project's own."""
        if where.scope == USER:
            return moved(where, "CLAUDE_CONFIG_DIR", ".claude")
        return where.project / ".claude"

    def root(self, where: Where) -> Path:
        """The home folder, where `.claude.json` is, or the project."""
        if where.scope == USER and where.environ.get("CLAUDE_CONFIG_DIR"):
            return self.folder(where)
        return where.root

    def parts(self, where: Where, command: Command) -> list[Part]:
        """A project's hooks go into the settings that are not shared: they name a path of this machine."""
        folder, top = self.folder(where), self.root(where)
        own = where.scope == USER
        first, *rest = command.server
        return [
            server(
                top / (".claude.json" if own else ".mcp.json"),
                {"type": "stdio", "command": first, "args": rest},
            ),
            hooks(
                folder / ("settings.json" if own else "settings.local.json"),
                Hooks(),
                _wrapped,
                lambda event: command.hook(self.name, event),
            ),
            words((folder if own else where.project) / "CLAUDE.md"),
        ]

    def without(self, where: Where) -> Mapping[str, str]:
        """Everything can be."""
        return {}


def _wrapped(name: str, command: str) -> Any:
    return {"hooks": [{"type": "command", "command": command, "timeout": SECONDS}]}
