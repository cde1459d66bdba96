"""Claude Code: hooks in `settings.json`, one JSON object in and one out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.base import Event, Told, additional_context, common

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClaudeCode:
    """Claude Code's hooks."""

    name = "claude-code"
    moments: Mapping[Event, str] = {
        Event.SESSION_START: "SessionStart",
        Event.USER_PROMPT: "UserPromptSubmit",
        Event.PRE_COMPACT: "PreCompact",
        Event.STOP: "Stop",
        Event.SESSION_END: "SessionEnd",
    }
    missing: Mapping[Event, str] = {}

    def read(self, given: Mapping[str, Any], environ: Mapping[str, str]) -> Told:
        """The fields as they are."""
        return common(given)

    def render(self, event: Event, text: str) -> str:
        """`additionalContext`, which only two events take."""
        return additional_context(self.moments[event], text)
