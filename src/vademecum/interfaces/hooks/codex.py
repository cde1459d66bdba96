"""Codex: hooks in `hooks.json` beside its configuration, in the shape of Claude Code's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.base import Event, Told, additional_context, common

if TYPE_CHECKING:
    from collections.abc import Mapping


class Codex:
    """Codex's hooks, each of which a person has to trust once, with `/hooks`."""

    name = "codex"
    moments: Mapping[Event, str] = {
        Event.SESSION_START: "SessionStart",
        Event.USER_PROMPT: "UserPromptSubmit",
        Event.PRE_COMPACT: "PreCompact",
        Event.STOP: "Stop",
        Event.SESSION_END: "SessionEnd",
    }
    missing: Mapping[Event, str] = {}

    def read(self, given: Mapping[str, Any], environ: Mapping[str, str]) -> Told:
        """The fields as they are; a session that is not written down has no transcript."""
        return common(given)

    def render(self, event: Event, text: str) -> str:
        """`additionalContext`; a key that Codex does not know would be an error there."""
        return additional_context(self.moments[event], text)
