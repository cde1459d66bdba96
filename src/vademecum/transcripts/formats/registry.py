"""Every format there is, and which one a file is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import UnknownName
from vademecum.transcripts.formats.claude_code import ClaudeCode
from vademecum.transcripts.formats.clio import Clio
from vademecum.transcripts.formats.codex import Codex
from vademecum.transcripts.formats.gemini_cli import GeminiCli
from vademecum.transcripts.formats.lines import head_of
from vademecum.transcripts.formats.message_list import MessageList
from vademecum.transcripts.formats.openclaw import OpenClaw

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.transcripts.formats.base import Format


def known() -> list[Format]:
    """All formats; those with the plainest marks first, and last the one that takes any list of messages."""
    return [ClaudeCode(), Codex(), OpenClaw(), GeminiCli(), Clio(), MessageList()]


def named(name: str) -> Format:
    """The format of that name."""
    for each in known():
        if each.name == name:
            return each
    names = ", ".join(each.name for each in known())
    raise UnknownName(f"there is no transcript format {name!r}", hint=f"use one of {names}")


def recognise(path: Path) -> Format | None:
    """The format a file is in, by its first bytes and its name; None when nobody knows it."""
    if not path.is_file():
        return None
    head = head_of(path)
    return next((each for each in known() if each.recognises(head, path)), None)
