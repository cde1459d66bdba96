"""Claude Code: `settings.json`, `.claude.json` or `.mcp.json`, `CLAUDE.md`, and `~/.claude`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.agents.base import (
    Agent,
    HookEvent,
    HookList,
    Hooks,
    InstructionFile,
    JsonServer,
    Setup,
    TranscriptFormat,
    Words,
    later,
    wrapped_command,
)

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.agents.base import Part, Program, Where

_FILES = "vademecum.agents.claude_code.files"


def _parts(where: Where, folder: Path, program: Program) -> list[Part]:
    """A project's hooks go into the settings that are not shared: they name a path of this machine."""
    own, top = where.is_personal, _root(where, folder)
    return [
        JsonServer(top / (".claude.json" if own else ".mcp.json"), {"type": "stdio", **program.entry}),
        HookList(folder / ("settings.json" if own else "settings.local.json"), wrapped_command),
        Words((folder if own else where.project) / "CLAUDE.md"),
    ]


def _root(where: Where, folder: Path) -> Path:
    """The home folder, where `.claude.json` is, or the project."""
    return folder if where.is_personal and where.environ.get("CLAUDE_CONFIG_DIR") else where.root


AGENT = Agent(
    "claude-code",
    hooks=Hooks(
        {
            HookEvent.SESSION_START: "SessionStart",
            HookEvent.USER_PROMPT: "UserPromptSubmit",
            HookEvent.PRE_COMPACT: "PreCompact",
            HookEvent.STOP: "Stop",
            HookEvent.SESSION_END: "SessionEnd",
        }
    ),
    setup=Setup(("claude",), ".claude", _parts, variable="CLAUDE_CONFIG_DIR", root_of=_root),
    instructions=InstructionFile(("CLAUDE.md",)),
    transcripts=TranscriptFormat(
        "claude-code",
        {".claude/projects": "**/*.jsonl", ".config/claude/projects": "**/*.jsonl"},
        later(_FILES, "recognises"),
        later(_FILES, "read"),
        moved=("CLAUDE_CONFIG_DIR", ("projects",)),
        rank=1,
    ),
    memories=later(_FILES, "memories"),
)
