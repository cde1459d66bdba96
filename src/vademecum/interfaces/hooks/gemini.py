"""Gemini CLI: hooks in `settings.json`, with names of its own for the same moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.hooks.base import Event
from vademecum.interfaces.hooks.claude_code import ClaudeCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class Gemini(ClaudeCode):
    """Gemini CLI's hooks."""

    name = "gemini"
    moments: Mapping[Event, str] = {
        Event.SESSION_START: "SessionStart",
        Event.USER_PROMPT: "BeforeAgent",
        Event.PRE_COMPACT: "PreCompress",
        Event.STOP: "AfterAgent",
        Event.SESSION_END: "SessionEnd",
    }
