"""The tools that models get, each declared once: MCP, the chat and the adapters render them.

What is said here of workspaces imports next to nothing: an agent's first request waits for it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

_PLAIN_NAME = re.compile(r"\w[\w.-]{0,59}")


def read_joined(home: str | os.PathLike[str]) -> tuple[tuple[str, str], ...]:
    """The workspaces that a home has joined, with their kinds, before anything of memory is loaded.

    A model reads these names, and others gave them: one that is more than a word is told by its id.
    """
    top, found = os.path.join(home, "hub"), []
    try:
        listed = sorted(os.listdir(top))
    except OSError:
        return ()
    for workspace in listed:
        try:
            with open(os.path.join(top, workspace, "workspace.json"), "rb") as file:
                told = json.load(file)
            name, kind = str(told["name"]), str(told["kind"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # the shared folder, one that was left, or one that cannot be read
        found.append((name if _PLAIN_NAME.fullmatch(name) else workspace, kind))
    return tuple(found)


def add_joined(
    schema: dict[str, Any], where_joined: dict[str, dict[str, Any]], found: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """The input schema of a tool with those of its arguments that name a workspace which was joined."""
    more = {}
    for name, each in where_joined.items():
        if names := [known for known, kind in found if each["kind"] in ("", kind)]:
            more[name] = {**each["schema"], "enum": names}
    return {**schema, "properties": {**schema["properties"], **more}} if more else schema
