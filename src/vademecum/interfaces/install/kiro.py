"""Kiro: `settings/mcp.json`, a file of hooks and one of steering."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vademecum.interfaces.hooks.base import Event
from vademecum.interfaces.hooks.kiro import Kiro as Hooks
from vademecum.interfaces.install.base import USER, Command, Where
from vademecum.interfaces.install.parts import (
    HOOKS,
    INSTRUCTION,
    SECONDS,
    WORDS,
    Part,
    own_file,
    server,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Kiro:
    """Kiro's configuration; hooks are a workspace's alone."""

    name = "kiro"
    programs = ("kiro-cli", "kiro")

    def folder(self, where: Where) -> Path:
        """`~/.kiro`, or the project's own."""
        return where.root / ".kiro"

    def root(self, where: Where) -> Path:
        """Its folder."""
        return self.folder(where)

    def parts(self, where: Where, command: Command) -> list[Part]:
        """Hooks and steering have files of their own."""
        folder = self.folder(where)
        first, *rest = command.server
        found = [server(folder / "settings" / "mcp.json", {"command": first, "args": rest})]
        if where.scope != USER:
            found.append(own_file(HOOKS, folder / "hooks" / "vade.json", _hooks(command)))
        found.append(
            own_file(WORDS, folder / "steering" / "vade.md", f"---\ninclusion: always\n---\n\n{INSTRUCTION}")
        )
        return found

    def without(self, where: Where) -> Mapping[str, str]:
        """A person has no hooks of their own."""
        if where.scope == USER:
            return {HOOKS: "Kiro has hooks for a workspace only; use --scope project there"}
        return {}


def _hooks(command: Command) -> str:
    name = Hooks.moments[Event.USER_PROMPT]
    one = {
        "name": "vade-memory",
        "trigger": name,
        "action": {"type": "command", "command": command.hook(Kiro.name, Event.USER_PROMPT)},
        "timeout": SECONDS,
        "enabled": True,
    }
    return json.dumps({"version": "v1", "hooks": [one]}, indent=2) + "\n"
