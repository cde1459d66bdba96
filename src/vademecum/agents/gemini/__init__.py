"""Gemini CLI: `settings.json`, which holds servers and hooks, `GEMINI.md`, and `~/.gemini`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.agents import base
from vademecum.lazy import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


_FILES = "vademecum.agents.gemini.files"


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    return [
        base.JsonServer(folder / "settings.json", program.entry),
        base.HookList(folder / "settings.json", _wrapped),
        base.InstructionBlock(base.folder_or_project(where, folder) / "GEMINI.md"),
    ]


def _wrapped(command: str) -> Any:
    """Return a hook entry in Gemini's format, with the time limit in milliseconds."""
    return {
        "hooks": [{"name": base.NAME, "type": "command", "command": command, "timeout": base.SECONDS * 1000}]
    }


HOOK_CONTEXT, _HOOK_CONTEXT_END = "<hook_context>", "</hook_context>"
_SPACE = lazy_pattern(r"\s*")


def split_hook_context(text: str) -> tuple[list[str], str]:
    """Return the hook contexts in a text, and the text without them; an unclosed context stays in."""
    contexts, rest, at = [], "", 0
    while (begin := text.find(HOOK_CONTEXT, at)) >= 0 and (end := text.find(_HOOK_CONTEXT_END, begin)) >= 0:
        contexts.append(text[begin + len(HOOK_CONTEXT) : end])
        rest += text[at:begin]
        at = end + len(_HOOK_CONTEXT_END)
        at += len(_SPACE.match(text, at)[0])  # type: ignore[index]  # the pattern matches everywhere
    return contexts, rest + text[at:]


def _read(raw: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """Return the hook's fields; the session start's contexts at the beginning of a prompt are removed."""
    found = base.read_common(raw, environ)
    return found._replace(prompt=split_hook_context(found.prompt)[1])


def _chats(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield every chat of a project; if it has no chats, its checkpoints and logs."""
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
        keep_working=base.keep_working,
    ),
    setup=base.Setup(
        ("gemini",),
        ".gemini",
        _parts,
        headless_words=("-p", "--prompt"),
        root_of=base.folder_or_project,
        note="restart Gemini CLI; without a terminal it offers tools only with --yolo",
    ),
    instructions=base.InstructionFile(("GEMINI.md",)),
    transcripts=base.TranscriptFormat(
        "gemini-cli",
        {".gemini/tmp": "*"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        files=_chats,
        rank=4,
    ),
    environment=base.Environment("Gemini CLI", ("GEMINI_CLI",)),
)
