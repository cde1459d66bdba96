"""Every agent that can be installed into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import UnknownName
from vademecum.interfaces.install.claude_code import ClaudeCode
from vademecum.interfaces.install.codex import Codex
from vademecum.interfaces.install.cursor import Cursor
from vademecum.interfaces.install.gemini import Gemini
from vademecum.interfaces.install.kiro import Kiro
from vademecum.store import names

if TYPE_CHECKING:
    from vademecum.interfaces.install.base import Installer


def known() -> list[Installer]:
    """All of them, by name."""
    return [ClaudeCode(), Codex(), Cursor(), Gemini(), Kiro()]


def named(name: str) -> Installer:
    """The one of that name."""
    for each in known():
        if each.name == name:
            return each
    listed = ", ".join(each.name for each in known())
    raise UnknownName(f"{names.shown(name)} is not an agent that is known here", hint=f"one of {listed}")
