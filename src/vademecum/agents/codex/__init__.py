"""Codex: `config.toml`, `hooks.json` in Claude Code's format, `AGENTS.md`, and `~/.codex`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.agents import base, claude_code

if TYPE_CHECKING:
    from pathlib import Path


_FILES = "vademecum.agents.codex.files"


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install: the server in TOML, the hooks in JSON."""
    return [
        base.TomlServer(folder / "config.toml", program.server),
        base.HookList(folder / "hooks.json", base.wrapped_command, wrapped_end=_wrapped_end),
        base.InstructionBlock(base.folder_or_project(where, folder) / "AGENTS.md"),
    ]


def _wrapped_end(command: str) -> Any:
    """Return the entry of the hook at a session's end; Codex warns about more than three seconds for it."""
    return {"hooks": [{"type": "command", "command": command, "timeout": 3}]}


AGENT = base.Agent(
    "codex",
    hooks=claude_code.AGENT.hooks,
    setup=base.Setup(
        ("codex",),
        ".codex",
        _parts,
        headless_words=("exec", "e", "review"),
        variable="CODEX_HOME",
        root_of=base.folder_or_project,
        note="open /hooks in Codex once: it runs a hook only after you have trusted it there; for a"
        " project, Codex must also trust the folder, or it ignores its server and hooks",
    ),
    instructions=base.InstructionFile(("AGENTS.md",)),
    transcripts=base.TranscriptFormat(
        "codex",
        {".codex/sessions": "**/rollout-*.jsonl", ".codex/archived_sessions": "**/rollout-*.jsonl"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=("CODEX_HOME", ("sessions", "archived_sessions")),
        rank=2,
    ),
    memories=base.lazy_function(_FILES, "memories"),
    environment=base.Environment(
        "Codex", ("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_CI")
    ),
)
