"""Claude Code: `settings.json`, `.claude.json` or `.mcp.json`, `CLAUDE.md`, and `~/.claude`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vademecum.agents import base

if TYPE_CHECKING:
    from pathlib import Path


_FILES = "vademecum.agents.claude_code.files"


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install for a target.

    A project's hooks go into settings that git does not share, because they name a local path.
    """
    own, top = where.is_personal, _root(where, folder)
    return [
        base.JsonServer(top / (".claude.json" if own else ".mcp.json"), {"type": "stdio", **program.entry}),
        base.HookList(folder / ("settings.json" if own else "settings.local.json"), base.wrapped_command),
        base.InstructionBlock((folder if own else where.project) / "CLAUDE.md"),
    ]


def _root(where: base.InstallTarget, folder: Path) -> Path:
    """Return the home folder or project; for a person with CLAUDE_CONFIG_DIR, the folder that it names."""
    return folder if where.is_personal and where.environ.get("CLAUDE_CONFIG_DIR") else where.root


def _read_result(printed: str) -> str:
    """Return the answer in what `claude --output-format json` prints."""
    found = json.loads(printed)
    if not isinstance(found, dict) or found.get("is_error") or not isinstance(found.get("result"), str):
        raise ValueError("no result")
    return str(found["result"])


AGENT = base.Agent(
    "claude-code",
    hooks=base.Hooks(
        {
            base.HookEvent.SESSION_START: "SessionStart",
            base.HookEvent.USER_PROMPT: "UserPromptSubmit",
            base.HookEvent.PRE_COMPACT: "PreCompact",
            base.HookEvent.STOP: "Stop",
            base.HookEvent.SESSION_END: "SessionEnd",
        },
        keep_working=base.keep_working,
    ),
    setup=base.Setup(
        ("claude",),
        ".claude",
        _parts,
        headless_words=("-p", "--print"),
        headless_variables={"CLAUDE_CODE_ENTRYPOINT": "sdk"},
        variable="CLAUDE_CONFIG_DIR",
        root_of=_root,
        note="restart Claude Code; `claude -p` needs --allowedTools mcp__vade, since it cannot ask",
    ),
    instructions=base.InstructionFile(("CLAUDE.md",)),
    transcripts=base.TranscriptFormat(
        "claude-code",
        {".claude/projects": "**/*.jsonl", ".config/claude/projects": "**/*.jsonl"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=("CLAUDE_CONFIG_DIR", ("projects",)),
        rank=1,
    ),
    memories=base.lazy_function(_FILES, "memories"),
    model_command=base.ModelCommand(
        (
            *("claude", "-p", "--output-format", "json", "--no-session-persistence"),
            *("--strict-mcp-config", "--tools", "", "--setting-sources", ""),
            *("--settings", '{"disableAllHooks": true}'),
        ),
        read=_read_result,
    ),
    environment=base.Environment(
        "Claude Code", ("CLAUDECODE", "CLAUDE_CODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_IS_COWORK")
    ),
)
