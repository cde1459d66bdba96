"""Amp: `settings.json`, a plugin that calls our hooks, `AGENTS.md`, and threads that the plugin saves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.agents import base

_FILES = "vademecum.agents.amp.files"
_PROMPT = "agent.start"

if TYPE_CHECKING:
    from collections.abc import Iterator


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> Iterator[base.Part]:
    """Yield the parts to install; Amp reads a project's `AGENTS.md` from its root."""
    with_comments = folder / "settings.jsonc"
    config = with_comments if with_comments.exists() else folder / "settings.json"
    yield base.JsonServer(config, program.entry, "amp.mcpServers")
    text = Path(__file__).with_name("plugin.ts").read_text("utf-8")
    yield base.OwnFile(base.HOOKS, folder / "plugins" / "vade.ts", base.fill_plugin(text, program))
    yield base.InstructionBlock(base.folder_or_project(where, folder) / "AGENTS.md")


def _root(where: base.InstallTarget, folder: Path) -> Path:
    """Return the home folder (in which `.config` may not exist yet), or for a project the project's root."""
    return where.root


AGENT = base.Agent(
    "amp",
    hooks=base.Hooks(
        {
            base.HookEvent.SESSION_START: _PROMPT,
            base.HookEvent.USER_PROMPT: _PROMPT,
            base.HookEvent.STOP: "agent.end",
        },
        {
            base.HookEvent.PRE_COMPACT: "Amp does not notify plugins of a compaction",
            base.HookEvent.SESSION_END: "Amp does not notify plugins when a thread ends",
        },
        render=lambda event, text: text,
    ),
    setup=base.Setup(
        ("amp",),
        ".config/amp",
        _parts,
        headless_words=("-x", "--execute"),
        root_of=_root,
        project_below=".amp",
        note="restart Amp; in a project, approve the server once with `amp mcp approve vade`",
    ),
    instructions=base.InstructionFile(("AGENTS.md",)),
    transcripts=base.TranscriptFormat(
        "amp",
        {".local/share/amp/vade": "*.json"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=("XDG_DATA_HOME", ("amp/vade",)),
        rank=3,
    ),
    environment=base.Environment("Amp", ("AMP_CURRENT_THREAD_ID", "AMP_THREAD_ID")),
)
