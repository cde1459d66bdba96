"""Kiro: `settings/mcp.json`, a file of hooks in a workspace, and one of steering.

None of its hooks begins a session, so that the first prompt brings what others get at the start.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import (
    HOOKS,
    INSTRUCTION,
    SECONDS,
    WORDS,
    Agent,
    HookEvent,
    Hooks,
    InstructionFile,
    JsonServer,
    OwnFile,
    Setup,
    read_common,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vademecum.agents.base import HookInput, Part, Program, Where

_PROMPT = "UserPromptSubmit"


def _read(given: Mapping[str, Any], environ: Mapping[str, str]) -> HookInput:
    """The fields as they are; the editor has the prompt in a variable."""
    told = read_common(given, environ)
    return told if told.prompt else told._replace(prompt=environ.get("USER_PROMPT", ""))


def _parts(where: Where, folder: Path, program: Program) -> list[Part]:
    """Hooks and steering have files of their own."""
    found: list[Part] = [JsonServer(folder / "settings" / "mcp.json", program.entry)]
    if not where.is_personal:
        found.append(OwnFile(HOOKS, folder / "hooks" / "vade.json", _hooks(program)))
    steering = f"---\ninclusion: always\n---\n\n{INSTRUCTION}"
    return [*found, OwnFile(WORDS, folder / "steering" / "vade.md", steering)]


def _hooks(program: Program) -> str:
    one = {
        "name": "vade-memory",
        "trigger": _PROMPT,
        "action": {"type": "command", "command": program.hook("kiro", HookEvent.USER_PROMPT)},
        "timeout": SECONDS,
        "enabled": True,
    }
    return json.dumps({"version": "v1", "hooks": [one]}, indent=2) + "\n"


AGENT = Agent(
    "kiro",
    hooks=Hooks(
        {HookEvent.USER_PROMPT: _PROMPT},
        {
            HookEvent.SESSION_START: "Kiro has no such hook; the first prompt of a session brings the block",
            HookEvent.PRE_COMPACT: "Kiro has no such hook",
            HookEvent.STOP: "Kiro names no transcript that could be read",
            HookEvent.SESSION_END: "Kiro has no such hook",
        },
        _read,
        lambda event, words: words,  # all that is printed goes to the model
    ),
    setup=Setup(
        ("kiro-cli", "kiro"),
        ".kiro",
        _parts,
        missing={HOOKS: "Kiro has hooks for a workspace only; use --scope project there"},
    ),
    instructions=InstructionFile((".kiro", "steering", "vade-memory.md")),
)
