"""The tools for models. Each tool is declared once, and MCP, the chat and the adapters use it.

This module handles workspaces and imports almost nothing, because an agent's first request waits for it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

_PLAIN_NAME = re.compile(r"\w[\w.-]{0,59}")


def read_workspaces(home: str | os.PathLike[str]) -> tuple[tuple[str, str], ...]:
    """Return the workspaces that a home has joined, with their kinds, without loading memory.

    A model reads these names, and other people chose them: a name that is not a single word is replaced by
    the workspace's id.
    """
    top, found = os.path.join(home, "hub"), []
    try:
        listed = sorted(os.listdir(top))
    except OSError:
        return ()
    for workspace in listed:
        try:
            with open(os.path.join(top, workspace, "workspace.json"), "rb") as file:
                state = json.load(file)
            name, kind = str(state["name"]), str(state["kind"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # the shared folder, a workspace that was left, or an unreadable file
        found.append((name if _PLAIN_NAME.fullmatch(name) else workspace, kind))
    return tuple(found)


def add_workspace_arguments(
    schema: dict[str, Any], where_joined: dict[str, dict[str, Any]], found: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Return a tool's input schema with arguments added that name a joined workspace."""
    more = {}
    for name, each in where_joined.items():
        if names := [known for known, kind in found if each["kind"] in ("", kind)]:
            more[name] = {**each["schema"], "enum": names}
    return {**schema, "properties": {**schema["properties"], **more}} if more else schema
