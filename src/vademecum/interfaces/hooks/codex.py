"""Codex: hooks in `hooks.json` beside its configuration, in the shape of Claude Code's."""

from __future__ import annotations

from vademecum.interfaces.hooks.claude_code import ClaudeCode


class Codex(ClaudeCode):
    """Codex's hooks, each of which a person has to trust once, with `/hooks`."""

    name = "codex"
