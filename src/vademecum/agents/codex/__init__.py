"""Codex: `config.toml` and `hooks.json` in the shape of Claude Code's, `AGENTS.md`, and `~/.codex`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.agents import claude_code
from vademecum.agents.base import (
    Agent,
    HookList,
    InstructionFile,
    Setup,
    TomlServer,
    TranscriptFormat,
    Words,
    folder_or_project,
    later,
    wrapped_command,
)

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.agents.base import Part, Program, Where

_FILES = "vademecum.agents.codex.files"


def _parts(where: Where, folder: Path, program: Program) -> list[Part]:
    """The server in TOML, the hooks in JSON."""
    return [
        TomlServer(folder / "config.toml", program.server),
        HookList(folder / "hooks.json", wrapped_command),
        Words(folder_or_project(where, folder) / "AGENTS.md"),
    ]


AGENT = Agent(
    "codex",
    hooks=claude_code.AGENT.hooks,
    setup=Setup(
        ("codex",),
        ".codex",
        _parts,
        variable="CODEX_HOME",
        root_of=folder_or_project,
        note="open /hooks in Codex once: it runs a hook only after you have trusted it there",
    ),
    instructions=InstructionFile(("AGENTS.md",)),
    transcripts=TranscriptFormat(
        "codex",
        {".codex/sessions": "**/rollout-*.jsonl", ".codex/archived_sessions": "**/rollout-*.jsonl"},
        later(_FILES, "recognises"),
        later(_FILES, "read"),
        moved=("CODEX_HOME", ("sessions", "archived_sessions")),
        rank=2,
    ),
    memories=later(_FILES, "memories"),
)
