"""Kiro: hooks in files of a workspace; what they print is put before the model as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.base import Event, Told, common

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNREAD = "Kiro names no transcript that could be read"


class Kiro:
    """Kiro's hooks: none begins a session, so that the first prompt brings what others get at the start."""

    name = "kiro"
    moments: Mapping[Event, str] = {Event.USER_PROMPT: "UserPromptSubmit"}
    missing: Mapping[Event, str] = {
        Event.SESSION_START: "Kiro has no such hook; the first prompt of a session brings the block",
        Event.PRE_COMPACT: "Kiro has no such hook",
        Event.STOP: _UNREAD,
        Event.SESSION_END: "Kiro has no such hook",
    }

    def read(self, given: Mapping[str, Any], environ: Mapping[str, str]) -> Told:
        """The fields as they are; the editor has the prompt in a variable."""
        told = common(given)
        return told if told.prompt else told._replace(prompt=environ.get("USER_PROMPT", ""))

    def render(self, event: Event, text: str) -> str:
        """Plain text: all that is printed goes to the model."""
        return text
