"""Gemini CLI: hooks in `settings.json`, with names of its own for the same moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.base import Event, Told, additional_context, common

if TYPE_CHECKING:
    from collections.abc import Mapping


class Gemini:
    """Gemini CLI's hooks."""

    name = "gemini"
    moments: Mapping[Event, str] = {
        Event.SESSION_START: "SessionStart",
        Event.USER_PROMPT: "BeforeAgent",
        Event.PRE_COMPACT: "PreCompress",
        Event.STOP: "AfterAgent",
        Event.SESSION_END: "SessionEnd",
    }
    missing: Mapping[Event, str] = {}

    def read(self, given: Mapping[str, Any], environ: Mapping[str, str]) -> Told:
        """The fields as they are."""
        return common(given)

    def render(self, event: Event, text: str) -> str:
        """`additionalContext`."""
        return additional_context(self.moments[event], text)
