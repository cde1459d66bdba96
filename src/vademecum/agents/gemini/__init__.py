"""Gemini CLI: `settings.json`, which has both servers and hooks, `GEMINI.md`, and `~/.gemini`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


_FILES = "vademecum.agents.gemini.files"


def _parts(where: base.Where, folder: Path, program: base.Program) -> list[base.Part]:
    return [
        base.JsonServer(folder / "settings.json", program.entry),
        base.HookList(folder / "settings.json", _wrapped),
        base.Words(base.folder_or_project(where, folder) / "GEMINI.md"),
    ]


def _wrapped(command: str) -> Any:
    """Its times are milliseconds."""
    return {
        "hooks": [{"name": base.NAME, "type": "command", "command": command, "timeout": base.SECONDS * 1000}]
    }


TOLD, _TOLD_END = "<hook_context>", "</hook_context>"
_SPACE = re.compile(r"\s*")


def split_told(text: str) -> tuple[list[str], str]:
    """What hooks told in a text, and the text without it; what has no end was not told."""
    told, said, at = [], "", 0
    while (begin := text.find(TOLD, at)) >= 0 and (end := text.find(_TOLD_END, begin)) >= 0:
        told.append(text[begin + len(TOLD) : end])
        said += text[at:begin]
        at = end + len(_TOLD_END)
        at += len(_SPACE.match(text, at)[0])  # type: ignore[index]  # it matches everywhere
    return told, said + text[at:]


def _read(given: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """What it says; a prompt comes with what hooks told at the beginning in front of it."""
    found = base.read_common(given, environ)
    return found._replace(prompt=split_told(found.prompt)[1])


def _chats(folder: Path, pattern: str) -> Iterator[Path]:
    """Every chat of a project; for one without any, its checkpoints and logs."""
    for project in sorted(folder.glob(pattern)):
        chats = [*project.glob("chats/**/*.json"), *project.glob("chats/**/*.jsonl")]
        yield from chats or [*project.glob("checkpoint-*.json"), *project.glob("logs.json")]


AGENT = base.Agent(
    "gemini",
    hooks=base.Hooks(
        {
            base.HookEvent.SESSION_START: "SessionStart",
            base.HookEvent.USER_PROMPT: "BeforeAgent",
            base.HookEvent.PRE_COMPACT: "PreCompress",
            base.HookEvent.STOP: "AfterAgent",
            base.HookEvent.SESSION_END: "SessionEnd",
        },
        read=_read,
        announces=False,
    ),
    setup=base.Setup(
        ("gemini",),
        ".gemini",
        _parts,
        root_of=base.folder_or_project,
        note="restart Gemini CLI; without a terminal it offers tools only with --yolo",
    ),
    instructions=base.InstructionFile(("GEMINI.md",)),
    transcripts=base.TranscriptFormat(
        "gemini-cli",
        {".gemini/tmp": "*"},
        base.later(_FILES, "recognises"),
        base.later(_FILES, "read"),
        files=_chats,
        rank=4,
    ),
)
