"""Cursor: `mcp.json`, `hooks.json` and, in a project, a rule; one hook alone can tell the model anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_UNREAD = "Cursor's transcript format is not supported"
_FRONT = "---\ndescription: {}\nalwaysApply: true\n---\n\n"


def _read(given: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """The first of the workspace's folders, and the conversation for a session."""
    told = base.read_common(given, environ)
    roots = given.get("workspace_roots")
    root = base.absolute(roots[0]) if isinstance(roots, list) and roots else ""
    return told._replace(
        cwd=root or told.cwd, session=told.session or base.text(given.get("conversation_id"))
    )


def _parts(where: base.Where, folder: Path, program: base.Program) -> list[base.Part]:
    """A person's rules are in the editor's settings, which are no file of ours to write."""
    found: list[base.Part] = [
        base.JsonServer(folder / "mcp.json", program.entry),
        base.HookList(
            folder / "hooks.json",
            lambda command: {"command": command, "timeout": base.SECONDS},
            also={"version": 1},
        ),
    ]
    if not where.is_personal:
        words = _FRONT.format("When to use long-term memory") + base.INSTRUCTION
        found.append(base.OwnFile(base.WORDS, folder / "rules" / "vade.mdc", words))
    return found


AGENT = base.Agent(
    "cursor",
    hooks=base.Hooks(
        {base.HookEvent.SESSION_START: "sessionStart"},
        {
            base.HookEvent.USER_PROMPT: "in Cursor this hook can stop a prompt, not add to it",
            base.HookEvent.PRE_COMPACT: _UNREAD,
            base.HookEvent.STOP: _UNREAD,
            base.HookEvent.SESSION_END: _UNREAD,
        },
        _read,
        lambda event, words: json.dumps({"additional_context": words}),
    ),
    setup=base.Setup(
        ("cursor", "cursor-agent"),
        ".cursor",
        _parts,
        note="enable the server in Cursor under Settings > MCP, and allow its tools",
        missing={base.WORDS: "Cursor keeps user rules in its own settings; use --scope project"},
    ),
    instructions=base.InstructionFile(
        (".cursor", "rules", "vade-memory.mdc"), _FRONT.format("Memory of earlier sessions")
    ),
    memories=base.later("vademecum.agents.rules", "of_cursor"),
    keeps=(".mdc", ".cursor", ".cursorrules"),
)
