"""Cursor: `mcp.json`, `hooks.json` and, in a project, a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.cursor import Cursor as Hooks
from vademecum.interfaces.install.base import USER, Command, Where
from vademecum.interfaces.install.parts import (
    INSTRUCTION,
    SECONDS,
    WORDS,
    Part,
    hooks,
    own_file,
    server,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FRONT = "---\ndescription: When to use long-term memory\nalwaysApply: true\n---\n\n"


class Cursor:
    """Cursor's configuration."""

    name = "cursor"
    programs = ("cursor", "cursor-agent")

    def folder(self, where: Where) -> Path:
        """`~/.cursor`, or the project's own."""
        return where.root / ".cursor"

    def root(self, where: Where) -> Path:
        """Its folder."""
        return self.folder(where)

    def parts(self, where: Where, command: Command) -> list[Part]:
        """A person's rules are in the editor's settings, which are no file of ours to write."""
        folder = self.folder(where)
        first, *rest = command.server
        found = [
            server(folder / "mcp.json", {"command": first, "args": rest}),
            hooks(
                folder / "hooks.json",
                Hooks(),
                _wrapped,
                lambda event: command.hook(self.name, event),
                also={"version": 1},
            ),
        ]
        if where.scope != USER:
            found.append(own_file(WORDS, folder / "rules" / "vade.mdc", _FRONT + INSTRUCTION))
        return found

    def without(self, where: Where) -> Mapping[str, str]:
        """A person's rules have no file."""
        if where.scope == USER:
            return {WORDS: "Cursor keeps a person's rules in its own settings; use --scope project"}
        return {}


def _wrapped(name: str, command: str) -> Any:
    return {"command": command, "timeout": SECONDS}
