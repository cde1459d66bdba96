"""Cursor: hooks in `hooks.json`; only the one at the beginning of a session can tell the model anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hooks.base import Event, Told, common, folder, text

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNREAD = "Cursor's transcripts are in a format that is not read here"


class Cursor:
    """Cursor's hooks."""

    name = "cursor"
    moments: Mapping[Event, str] = {Event.SESSION_START: "sessionStart"}
    missing: Mapping[Event, str] = {
        Event.USER_PROMPT: "Cursor lets this hook stop a prompt, not add to it",
        Event.PRE_COMPACT: _UNREAD,
        Event.STOP: _UNREAD,
        Event.SESSION_END: _UNREAD,
    }

    def read(self, given: Mapping[str, Any], environ: Mapping[str, str]) -> Told:
        """The first of the workspace's folders, and the conversation for a session."""
        told = common(given)
        roots = given.get("workspace_roots")
        root = folder(roots[0]) if isinstance(roots, list) and roots else ""
        return told._replace(cwd=root or told.cwd, session=told.session or text(given.get("conversation_id")))

    def render(self, event: Event, text: str) -> str:
        """`additional_context`."""
        import json

        return json.dumps({"additional_context": text})
