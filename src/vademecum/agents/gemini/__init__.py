"""Gemini CLI: `settings.json`, which has both servers and hooks, `GEMINI.md`, and `~/.gemini`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.agents.base import (
    NAME,
    SECONDS,
    Agent,
    HookEvent,
    HookList,
    Hooks,
    InstructionFile,
    JsonServer,
    Setup,
    TranscriptFormat,
    Words,
    folder_or_project,
    later,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.base import Part, Program, Where

_FILES = "vademecum.agents.gemini.files"


def _parts(where: Where, folder: Path, program: Program) -> list[Part]:
    return [
        JsonServer(folder / "settings.json", program.entry),
        HookList(folder / "settings.json", _wrapped),
        Words(folder_or_project(where, folder) / "GEMINI.md"),
    ]


def _wrapped(command: str) -> Any:
    """Its times are milliseconds."""
    return {"hooks": [{"name": NAME, "type": "command", "command": command, "timeout": SECONDS * 1000}]}


def _chats(folder: Path, pattern: str) -> Iterator[Path]:
    """Every chat of a project; for one without any, its checkpoints and logs."""
    for project in sorted(folder.glob(pattern)):
        chats = [*project.glob("chats/**/*.json"), *project.glob("chats/**/*.jsonl")]
        yield from chats or [*project.glob("checkpoint-*.json"), *project.glob("logs.json")]


AGENT = Agent(
    "gemini",
    hooks=Hooks(
        {
            HookEvent.SESSION_START: "SessionStart",
            HookEvent.USER_PROMPT: "BeforeAgent",
            HookEvent.PRE_COMPACT: "PreCompress",
            HookEvent.STOP: "AfterAgent",
            HookEvent.SESSION_END: "SessionEnd",
        }
    ),
    setup=Setup(("gemini",), ".gemini", _parts, root_of=folder_or_project),
    instructions=InstructionFile(("GEMINI.md",)),
    transcripts=TranscriptFormat(
        "gemini-cli",
        {".gemini/tmp": "*"},
        later(_FILES, "recognises"),
        later(_FILES, "read"),
        files=_chats,
        rank=4,
    ),
)
