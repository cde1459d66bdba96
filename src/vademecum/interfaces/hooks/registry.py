"""Every agent whose hooks are known, imported when it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vademecum.interfaces.hooks.base import Agent

NAMES = ("claude-code", "codex", "cursor", "gemini", "kiro")


def named(name: str) -> Agent | None:
    """The agent of that name, or None."""
    if name == "claude-code":
        from vademecum.interfaces.hooks.claude_code import ClaudeCode

        return ClaudeCode()
    if name == "codex":
        from vademecum.interfaces.hooks.codex import Codex

        return Codex()
    if name == "cursor":
        from vademecum.interfaces.hooks.cursor import Cursor

        return Cursor()
    if name == "gemini":
        from vademecum.interfaces.hooks.gemini import Gemini

        return Gemini()
    if name == "kiro":
        from vademecum.interfaces.hooks.kiro import Kiro

        return Kiro()
    return None
