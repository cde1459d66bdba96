"""Zed: `settings.json`, which holds servers, and `AGENTS.md`.

Zed has no hooks, and stores its threads in a database of its own.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from vademecum.agents import base

if TYPE_CHECKING:
    from pathlib import Path


_BELOW = "AppData/Roaming/Zed" if os.name == "nt" else ".config/zed"
_NO_HOOKS = {base.HOOKS: "Zed has no hooks"}


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; a project has its settings in `.zed`, its instructions in its root."""
    settings = (folder if where.is_personal else where.project / ".zed") / "settings.json"
    return [
        base.JsonServer(settings, program.entry, "context_servers"),
        base.InstructionBlock(base.folder_or_project(where, folder) / "AGENTS.md"),
    ]


AGENT = base.Agent(
    "zed",
    setup=base.Setup(
        ("zed", "zeditor"),
        _BELOW,
        _parts,
        variable="XDG_CONFIG_HOME" if sys.platform == "linux" else "",
        variable_below="zed",
        root_of=base.containing_folder,
        missing=_NO_HOOKS,
        missing_in_project=_NO_HOOKS,
        note="allow the tools when Zed asks; for a project, Zed must also trust the folder",
    ),
    instructions=base.InstructionFile(("AGENTS.md",)),
    environment=base.Environment("Zed", editor=("ZED_TERM",)),
)
