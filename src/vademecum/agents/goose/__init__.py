"""Goose: `config.yaml`, `.goosehints`, a plugin with a hook, and exported sessions.

Goose passes no output of a hook to its model, and stores its sessions in a database. Our hook runs
`goose session export` after each turn, and reads the exported file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.agents import base
from vademecum.errors import InvalidKey
from vademecum.text.names import check_id

if TYPE_CHECKING:
    from collections.abc import Mapping


_FILES = "vademecum.agents.goose.files"
_WINDOWS = "AppData/Roaming/Block/goose"
_BELOW = f"{_WINDOWS}/config" if os.name == "nt" else ".config/goose"
_EXPORTS = f"{_WINDOWS}/data/vade" if os.name == "nt" else ".local/share/goose/vade"
_MOVED = ("XDG_DATA_HOME", "goose/vade")
_PATIENCE = 20.0  # seconds in which goose must export a session
_UNHEARD = "Goose passes no output of a hook to its model"
_STOP = "Stop"


def _read(raw: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """Return the hook's fields; after a turn, also the file to which the session was exported."""
    found = base.read_common(raw, environ)
    exported = _export(found.session, environ) if found.session and raw.get("event") == _STOP else ""
    return found._replace(
        cwd=base.absolute(raw.get("working_dir")) or found.cwd,
        prompt=base.text(raw.get("message")),
        transcript=exported or found.transcript,
    )


def _export(session: str, environ: Mapping[str, str]) -> str:
    """Have goose export a session to a file; return the file's path, or an empty string if it cannot."""
    program = shutil.which("goose", path=environ.get("PATH"))
    try:
        check_id(session, "a session")
        folder = _export_folder(environ)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{session}.json"
        if program is None:
            return ""
        command = (program, "session", "export", "--session-id", session, "--format", "json")
        subprocess.run(
            (*command, "--output", str(path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (InvalidKey, OSError, subprocess.SubprocessError):
        return ""
    return str(path)


def _export_folder(environ: Mapping[str, str]) -> Path:
    variable, below = _MOVED
    moved = environ.get(variable, "")
    return Path(moved, below) if os.path.isabs(moved) else Path.home() / _EXPORTS


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; the hook is a plugin, which goose finds in `.agents/plugins`."""
    found: list[base.Part] = []
    if where.is_personal:
        found.append(base.YamlServer(folder / "config.yaml", _entry(program), "extensions"))
    if where.is_personal and not folder.is_relative_to(where.root):
        return [*found, base.InstructionBlock(folder / ".goosehints")]
    plugin = where.root / ".agents" / "plugins" / base.NAME
    instruction = folder / ".goosehints" if where.is_personal else where.project / "AGENTS.md"
    return [
        *found,
        base.OwnFile(base.HOOKS, plugin / "plugin.json", _manifest(program)),
        base.OwnFile(base.HOOKS, plugin / "hooks" / "hooks.json", _hooks(program)),
        base.InstructionBlock(instruction),
    ]


def _entry(program: base.Program) -> dict[str, Any]:
    first, *rest = program.server
    return {
        "enabled": True,
        "type": "stdio",
        "name": base.NAME,
        "description": "Long-term memory",
        "cmd": first,
        "args": rest,
        "envs": {},
    }


def _manifest(program: base.Program) -> str:
    about = f"Copies goose's sessions into memory, with `vade hook goose {base.HookEvent.STOP}`"
    return json.dumps({"name": base.NAME, "version": "1.0.0", "description": about}, indent=2) + "\n"


def _hooks(program: base.Program) -> str:
    rule = base.wrapped_command(program.hook("goose", base.HookEvent.STOP))
    return json.dumps({"hooks": {_STOP: [rule]}}, indent=2) + "\n"


AGENT = base.Agent(
    "goose",
    hooks=base.Hooks(
        {base.HookEvent.STOP: _STOP},
        {
            base.HookEvent.SESSION_START: _UNHEARD,
            base.HookEvent.USER_PROMPT: _UNHEARD,
            base.HookEvent.PRE_COMPACT: "Goose has no such hook",
            base.HookEvent.SESSION_END: "a session is copied after each turn",
        },
        _read,
    ),
    setup=base.Setup(
        ("goose",),
        _BELOW,
        _parts,
        variable="XDG_CONFIG_HOME" if os.name != "nt" else "",
        variable_below="goose",
        root_of=base.containing_folder,
        missing_in_project={base.SERVER: "Goose reads extensions of a person only; use --scope user"},
        note="start a new session: goose loads extensions and hooks when a session starts",
    ),
    instructions=base.InstructionFile(("AGENTS.md",)),
    transcripts=base.TranscriptFormat(
        "goose",
        {_EXPORTS: "*.json"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=(_MOVED[0], (_MOVED[1],)),
        rank=3,
    ),
    environment=base.Environment("Goose", ("GOOSE_TERMINAL",)),
)
