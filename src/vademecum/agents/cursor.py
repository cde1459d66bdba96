"""Cursor: `mcp.json`, `hooks.json` and, in a project, a rule; one hook alone can tell the model anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import (
    INSTRUCTION,
    SECONDS,
    WORDS,
    Agent,
    HookEvent,
    HookList,
    Hooks,
    InstructionFile,
    JsonServer,
    OwnFile,
    Setup,
    absolute,
    read_common,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vademecum.agents.base import HookInput, Part, Program, Where

_UNREAD = "Cursor's transcripts are in a format that is not read here"
_FRONT = "---\ndescription: {}\nalwaysApply: true\n---\n\n"


def _read(given: Mapping[str, Any], environ: Mapping[str, str]) -> HookInput:
    """The first of the workspace's folders, and the conversation for a session."""
    told = read_common(given, environ)
    roots = given.get("workspace_roots")
    root = absolute(roots[0]) if isinstance(roots, list) and roots else ""
    return told._replace(cwd=root or told.cwd, session=told.session or text(given.get("conversation_id")))


def _parts(where: Where, folder: Path, program: Program) -> list[Part]:
    """A person's rules are in the editor's settings, which are no file of ours to write."""
    found: list[Part] = [
        JsonServer(folder / "mcp.json", program.entry),
        HookList(
            folder / "hooks.json",
            lambda command: {"command": command, "timeout": SECONDS},
            also={"version": 1},
        ),
    ]
    if not where.is_personal:
        words = _FRONT.format("When to use long-term memory") + INSTRUCTION
        found.append(OwnFile(WORDS, folder / "rules" / "vade.mdc", words))
    return found


AGENT = Agent(
    "cursor",
    hooks=Hooks(
        {HookEvent.SESSION_START: "sessionStart"},
        {
            HookEvent.USER_PROMPT: "Cursor lets this hook stop a prompt, not add to it",
            HookEvent.PRE_COMPACT: _UNREAD,
            HookEvent.STOP: _UNREAD,
            HookEvent.SESSION_END: _UNREAD,
        },
        _read,
        lambda event, words: json.dumps({"additional_context": words}),
    ),
    setup=Setup(
        ("cursor", "cursor-agent"),
        ".cursor",
        _parts,
        missing={WORDS: "Cursor keeps a person's rules in its own settings; use --scope project"},
    ),
    instructions=InstructionFile(
        (".cursor", "rules", "vade-memory.mdc"), _FRONT.format("Memory of earlier sessions")
    ),
)
