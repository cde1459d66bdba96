"""GitHub Copilot CLI: `mcp-config.json`, a file of hooks, an instruction file, and `~/.copilot`.

Copilot puts the block of a session's start in front of the conversation in each process and does not save it,
so a resumed session gets the whole block again.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_FILES = "vademecum.agents.copilot.files"
_HOME = "COPILOT_HOME"
_SESSIONS = "session-state"


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; a project's hooks go into settings that git does not share.

    The instruction has a file of its own, since Copilot reads all files in `instructions`.
    """
    own = where.is_personal
    hooks = folder / "hooks" / "vade.json" if own else folder / "copilot" / "settings.local.json"
    text = base.INSTRUCTION if own else f'---\napplyTo: "**"\n---\n\n{base.INSTRUCTION}'
    return [
        base.JsonServer(folder / ("mcp-config.json" if own else "mcp.json"), program.entry),
        base.HookList(hooks, _wrapped, also={"version": 1} if own else base.NOTHING),
        base.OwnFile(base.INSTRUCTION_KIND, folder / "instructions" / "vade.instructions.md", text),
    ]


def _wrapped(command: str) -> Any:
    return {"type": "command", "command": command, "timeoutSec": base.SECONDS}


def _read(raw: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """Return the hook's fields; a missing path of the transcript is derived from the session's id.

    A resumed session counts as a started one.
    """
    found = base.read_common(raw, environ)
    top = environ.get(_HOME) or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".copilot")
    named = found.session and os.sep not in found.session
    path = os.path.join(top, _SESSIONS, found.session, "events.jsonl") if named else ""
    return found._replace(
        transcript=found.transcript or base.absolute(path),
        source="startup" if found.source == "resume" else found.source,
    )


AGENT = base.Agent(
    "copilot",
    hooks=base.Hooks(
        {
            base.HookEvent.SESSION_START: "SessionStart",
            base.HookEvent.USER_PROMPT: "UserPromptSubmit",
            base.HookEvent.PRE_COMPACT: "PreCompact",
            base.HookEvent.STOP: "Stop",
            base.HookEvent.SESSION_END: "SessionEnd",
        },
        read=_read,
        render=lambda event, text: json.dumps({"additionalContext": text}),
        keep_working=base.keep_working,
    ),
    setup=base.Setup(
        ("copilot",),
        ".copilot",
        _parts,
        headless_words=("-p", "--prompt"),
        variable=_HOME,
        project_below=".github",
        note="restart Copilot CLI; it asks before it uses a tool, and `copilot -p` needs --allow-tool=vade; a"
        " project's own files are read in a trusted folder only",
    ),
    instructions=base.InstructionFile(
        (".github", "instructions", "vade-memory.instructions.md"), '---\napplyTo: "**"\n---\n\n'
    ),
    transcripts=base.TranscriptFormat(
        "copilot",
        {f".copilot/{_SESSIONS}": "*/events.jsonl"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=(_HOME, (_SESSIONS,)),
        rank=1,
    ),
    environment=base.Environment(
        "Copilot",
        ("COPILOT_CLI", "COPILOT_AGENT", "COPILOT_AGENT_SESSION_ID", "VSCODE_COPILOT_TERMINAL"),
        editor=("COPILOT_MODEL",),
    ),
)
