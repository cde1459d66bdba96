"""Kiro: `settings/mcp.json`, a file of hooks in a workspace, and a steering file.

Kiro has no hook for the start of a session, so the first prompt's hook returns the memory that other agents
get at the start.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_PROMPT = "UserPromptSubmit"
_NONE = "Kiro has no such hook"


def _read(raw: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """Return the hook's fields; the editor passes the prompt in an environment variable."""
    found = base.read_common(raw, environ)
    return found if found.prompt else found._replace(prompt=environ.get("USER_PROMPT", ""))


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; hooks and steering are in files of this program alone."""
    found: list[base.Part] = [base.JsonServer(folder / "settings" / "mcp.json", program.entry)]
    if not where.is_personal:
        found.append(base.OwnFile(base.HOOKS, folder / "hooks" / "vade.json", _hooks(program)))
    steering = f"---\ninclusion: always\n---\n\n{base.INSTRUCTION}"
    return [*found, base.OwnFile(base.INSTRUCTION_KIND, folder / "steering" / "vade.md", steering)]


def _hooks(program: base.Program) -> str:
    one = {
        "name": "vade-memory",
        "trigger": _PROMPT,
        "action": {"type": "command", "command": program.hook("kiro", base.HookEvent.USER_PROMPT)},
        "timeout": base.SECONDS,
        "enabled": True,
    }
    return json.dumps({"version": "v1", "hooks": [one]}, indent=2) + "\n"


AGENT = base.Agent(
    "kiro",
    hooks=base.Hooks(
        {base.HookEvent.USER_PROMPT: _PROMPT},
        {
            base.HookEvent.SESSION_START: f"{_NONE}; memory comes with the first prompt of a session",
            base.HookEvent.PRE_COMPACT: _NONE,
            base.HookEvent.STOP: "Kiro does not give a transcript",
            base.HookEvent.SESSION_END: _NONE,
        },
        _read,
        lambda event, words: words,  # all output goes to the model
    ),
    setup=base.Setup(
        ("kiro-cli", "kiro"),
        ".kiro",
        _parts,
        headless_words=("--no-interactive",),
        note="allow the tools when Kiro asks, or list them under the server's autoApprove",
        missing={base.HOOKS: "Kiro has hooks for a workspace only; use --scope project there"},
    ),
    instructions=base.InstructionFile((".kiro", "steering", "vade-memory.md")),
    environment=base.Environment(
        "Kiro", ("KIRO_AGENT", "KIRO_SESSION_ID", "AGENT_CONTEXT_OUT"), editor=("KIRO_AGENT_PATH",)
    ),
)
