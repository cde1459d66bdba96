"""Windsurf: `mcp_config.json`, `hooks.json`, rules, and the transcripts that it writes for a hook.

Windsurf passes no output of a hook to its model. Its own history is encrypted, but it writes the transcript
of a conversation to `~/.windsurf/transcripts` for a hook that asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_FILES = "vademecum.agents.windsurf.files"
_FRONT = "---\ntrigger: always_on\n---\n\n"
_UNHEARD = "Windsurf passes no output of a hook to its model"
_NONE = "Windsurf has no such hook"


def _read(raw: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """Return the session, which Windsurf calls a trajectory, and the transcript; no other field is given."""
    info = raw.get("tool_info")
    path = info.get("transcript_path") if isinstance(info, dict) else ""
    return base.HookInput(session=base.text(raw.get("trajectory_id")), transcript=base.text(path))


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; a project has hooks and a rule, but no servers of its own."""
    if where.is_personal:
        return [
            base.JsonServer(folder / "mcp_config.json", program.entry),
            base.HookList(folder / "hooks.json", _entry),
            base.InstructionBlock(folder / "memories" / "global_rules.md"),
        ]
    project = where.project / ".windsurf"
    return [
        base.HookList(project / "hooks.json", _entry),
        base.OwnFile(base.INSTRUCTION_KIND, project / "rules" / "vade.md", _FRONT + base.INSTRUCTION),
    ]


def _entry(command: str) -> Any:
    """Return a hook entry in Windsurf's format, which has no time limit."""
    return {"command": command, "show_output": False}


AGENT = base.Agent(
    "windsurf",
    hooks=base.Hooks(
        {base.HookEvent.STOP: "post_cascade_response_with_transcript"},
        {
            base.HookEvent.SESSION_START: _NONE,
            base.HookEvent.USER_PROMPT: _UNHEARD,
            base.HookEvent.PRE_COMPACT: _NONE,
            base.HookEvent.SESSION_END: _NONE,
        },
        _read,
    ),
    setup=base.Setup(
        ("windsurf",),
        ".codeium/windsurf",
        _parts,
        root_of=base.containing_folder,
        missing_in_project={base.SERVER: "Windsurf has MCP servers for a person only; use --scope user"},
        note="refresh the servers in Windsurf under Settings > Cascade > MCP Servers",
    ),
    instructions=base.InstructionFile((".windsurf", "rules", "vade-memory.md"), _FRONT),
    transcripts=base.TranscriptFormat(
        "windsurf",
        {".windsurf/transcripts": "*.jsonl"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        rank=3,
    ),
    memories=base.lazy_function("vademecum.agents.editor_rules", "read_windsurf"),
    keeps=(".windsurf", ".windsurfrules"),
    environment=base.Environment(
        "Windsurf", ("WINDSURF_CASCADE_TERMINAL",), editor=("CODEIUM_EDITOR_APP_ROOT",)
    ),
)
