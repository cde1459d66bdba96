"""Cursor: `mcp.json`, `hooks.json` and, in a project, a rule.

Only one of Cursor's hooks can pass text to the model.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_UNREAD = "Cursor's transcript format is not supported"
_FRONT = "---\ndescription: {}\nalwaysApply: true\n---\n\n"


def _read(raw: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """Return the hook's fields, with the first workspace folder, and the conversation's id as session id."""
    found = base.read_common(raw, environ)
    roots = raw.get("workspace_roots")
    root = base.absolute(roots[0]) if isinstance(roots, list) and roots else ""
    return found._replace(
        cwd=root or found.cwd, session=found.session or base.text(raw.get("conversation_id"))
    )


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; a person's rules are in the editor's settings, which cannot be edited."""
    found: list[base.Part] = [
        base.JsonServer(folder / "mcp.json", program.entry),
        base.HookList(
            folder / "hooks.json",
            lambda command: {"command": command, "timeout": base.SECONDS},
            also={"version": 1},
        ),
    ]
    if not where.is_personal:
        text = _FRONT.format("When to use long-term memory") + base.INSTRUCTION
        found.append(base.OwnFile(base.INSTRUCTION_KIND, folder / "rules" / "vade.mdc", text))
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
        missing={base.INSTRUCTION_KIND: "Cursor keeps user rules in its own settings; use --scope project"},
    ),
    instructions=base.InstructionFile(
        (".cursor", "rules", "vade-memory.mdc"), _FRONT.format("Memory of earlier sessions")
    ),
    memories=base.lazy_function("vademecum.agents.editor_rules", "read_cursor"),
    keeps=(".mdc", ".cursor", ".cursorrules"),
    environment=base.Environment("Cursor", ("CURSOR_AGENT",), editor=("CURSOR_TRACE_ID",)),
)
