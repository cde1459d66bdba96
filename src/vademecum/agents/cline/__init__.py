"""Cline: `cline_mcp_settings.json`, a plugin that calls our hooks, rules, and `~/.cline/data/sessions`.

Cline also runs hook files, such as `~/Documents/Cline/Hooks/TaskStart`, but its current versions drop what
they print at the start of a task and for a prompt. A plugin's text reaches the model. The editor's extension
loads no plugins, so it gets the tools and the instruction only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Iterator


_FILES = "vademecum.agents.cline.files"
_SETTINGS = "settings/cline_mcp_settings.json"
_UNTOLD = "Cline has no such hook for plugins"
_EDITORS = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}
_EXTENSION = "Code/User/globalStorage/saoudrizwan.claude-dev"


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; a project has the plugin and the instruction, but no servers."""
    plugin = base.OwnFile(base.HOOKS, folder / "plugins" / "vade.js", _plugin(program))
    if not where.is_personal:
        return [plugin, base.InstructionBlock(where.project / "AGENTS.md")]
    return [
        *(base.JsonServer(path, program.entry) for path in _settings(where, folder)),
        plugin,
        base.OwnFile(base.INSTRUCTION_KIND, folder / "rules" / "vade.md", base.INSTRUCTION),
    ]


def _settings(where: base.InstallTarget, folder: Path) -> Iterator[Path]:
    """Yield the server file of the command line, and that of the editor's extension if it is installed."""
    yield folder / "data" / _SETTINGS
    extension = extension_folder(where.person)
    if folder.is_relative_to(where.root) and extension.is_dir():
        yield extension / _SETTINGS


def extension_folder(person: Path) -> Path:
    """Return the folder in which VS Code stores the files of Cline's extension; it may not exist."""
    return person / _EDITORS.get(sys.platform, ".config") / _EXTENSION


def _plugin(program: base.Program) -> str:
    """Return the text of the plugin, which starts this program."""
    text = Path(__file__).with_name("plugin.js").read_text("utf-8")
    home = ["--home", program.home] if program.home else []
    return text.replace("__WORDS__", json.dumps(program.words)).replace("__HOME__", json.dumps(home))


AGENT = base.Agent(
    "cline",
    hooks=base.Hooks(
        {
            base.HookEvent.SESSION_START: "beforeRun",
            base.HookEvent.USER_PROMPT: "beforeRun",
            base.HookEvent.STOP: "afterRun",
        },
        {base.HookEvent.PRE_COMPACT: _UNTOLD, base.HookEvent.SESSION_END: _UNTOLD},
        render=lambda event, text: text,
    ),
    setup=base.Setup(
        ("cline",),
        ".cline",
        _parts,
        variable="CLINE_DIR",
        root_of=base.containing_folder,
        missing_in_project={base.SERVER: "Cline has MCP servers for a person only; use --scope user"},
        note="restart Cline; the extension of an editor loads no plugins, so it gets the tools only",
    ),
    instructions=base.InstructionFile(("AGENTS.md",)),
    transcripts=base.TranscriptFormat(
        "cline",
        {".cline/data/sessions": "*/*.messages.json"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=("CLINE_DIR", ("data/sessions",)),
        rank=3,
    ),
    environment=base.Environment("Cline", ("CLINE_ACTIVE",)),
)
