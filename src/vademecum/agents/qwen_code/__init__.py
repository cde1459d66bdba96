"""Qwen Code: `settings.json`, which holds servers and hooks, `QWEN.md`, and `~/.qwen`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.agents import base, claude_code

if TYPE_CHECKING:
    from pathlib import Path


_FILES = "vademecum.agents.qwen_code.files"


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    return [
        base.JsonServer(folder / "settings.json", program.entry),
        base.HookList(folder / "settings.json", _wrapped),
        base.InstructionBlock(base.folder_or_project(where, folder) / "QWEN.md"),
    ]


def _wrapped(command: str) -> Any:
    """Return a hook entry without a time limit, which is then a minute.

    Version 0.15 reads a limit in milliseconds and version 0.24 in seconds, and both may be installed.
    """
    return {"hooks": [{"type": "command", "command": command}]}


AGENT = base.Agent(
    "qwen-code",
    hooks=claude_code.AGENT.hooks,
    setup=base.Setup(
        ("qwen",),
        ".qwen",
        _parts,
        headless_words=("-p", "--prompt"),
        variable="QWEN_HOME",
        root_of=base.folder_or_project,
        note="restart Qwen Code; without a terminal it cannot ask, and uses tools only with --yolo; `qwen"
        " --continue` continues a session",
    ),
    instructions=base.InstructionFile(("QWEN.md",)),
    transcripts=base.TranscriptFormat(
        "qwen-code",
        {".qwen/projects": "*/chats/*.jsonl"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=("QWEN_HOME", ("projects",)),
        rank=0,
    ),
    environment=base.Environment("Qwen Code", ("QWEN_CODE",)),
)
