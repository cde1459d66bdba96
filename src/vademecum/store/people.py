"""Who speaks at a command line, and whether they may decide for the user.

Knows variables of the environment and whether there is a terminal; knows nothing of records. What it cannot
know is said in docs/safety.md: a process that runs as the user can take a variable away, and can edit files.
"""

from __future__ import annotations

import os
import re
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vademecum.store import names
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRIPT = "VADE_SCRIPT"  # by which a script says its name

# Variables that agents set for the commands they run. A new agent is a new line.
AGENTS: Mapping[str, str] = MappingProxyType(
    {
        "CLAUDECODE": "Claude Code",
        "CLAUDE_CODE": "Claude Code",
        "CLAUDE_CODE_ENTRYPOINT": "Claude Code",
        "CLAUDE_CODE_IS_COWORK": "Claude Code",
        "CODEX_SANDBOX": "Codex",
        "CODEX_SANDBOX_NETWORK_DISABLED": "Codex",
        "CODEX_THREAD_ID": "Codex",
        "CODEX_CI": "Codex",
        "GEMINI_CLI": "Gemini CLI",
        "QWEN_CODE": "Qwen Code",
        "CURSOR_AGENT": "Cursor",
        "OPENCODE": "opencode",
        "OPENCODE_CLIENT": "opencode",
        "KIRO_AGENT": "Kiro",
        "KIRO_SESSION_ID": "Kiro",
        "AGENT_CONTEXT_OUT": "Kiro",
        "COPILOT_CLI": "GitHub Copilot",
        "COPILOT_AGENT": "GitHub Copilot",
        "COPILOT_AGENT_SESSION_ID": "GitHub Copilot",
        "VSCODE_COPILOT_TERMINAL": "GitHub Copilot",
        "AMP_CURRENT_THREAD_ID": "Amp",
        "AMP_THREAD_ID": "Amp",
        "AUGMENT_AGENT": "Augment",
        "CLINE_ACTIVE": "Cline",
        "ROO_ACTIVE": "Roo Code",
        "GOOSE_TERMINAL": "Goose",
        "CRUSH": "Crush",
        "TRAE_AI_SHELL_ID": "Trae",
        "ANTIGRAVITY_AGENT": "Antigravity",
        "PI_CODING_AGENT": "Pi",
        "OPENCLAW_SHELL": "OpenClaw",
        "AI_AGENT": "an agent",
    }
)
# Editors that have agents set these in a person's terminal too: there they say nothing.
EDITORS: Mapping[str, str] = MappingProxyType(
    {
        "CURSOR_TRACE_ID": "Cursor",
        "KIRO_AGENT_PATH": "Kiro",
        "COPILOT_MODEL": "GitHub Copilot",
        "AIDER_MODEL": "Aider",
    }
)
_OFF = frozenset({"", "0", "false", "no"})


class Speaker(NamedTuple):
    """Whose word a command line is; `undecided` says why it may not decide, and is empty when it may."""

    origin: Origin
    undecided: str = ""
    hint: str = ""


def speaker(environ: Mapping[str, str], *, terminal: bool, scripts: Sequence[str] = ()) -> Speaker:
    """Who speaks: a person, or the agent whose environment this is.

    A person decides at a terminal, or through a script that the user allowed by name. An agent never does, so
    that a name it can read in the settings does not make it one.
    """
    variable = inside(environ, terminal=terminal)
    if variable is not None:
        agent = AGENTS.get(variable) or EDITORS[variable]
        return Speaker(
            Origin.AGENT, f"this command line runs inside {agent} ({variable} is set)", _OWN_TERMINAL
        )
    if terminal:
        return Speaker(Origin.USER)
    script = environ.get(SCRIPT, "").strip()
    if script and script in scripts:
        return Speaker(Origin.USER)
    if script:
        return Speaker(
            Origin.USER,
            f"the script {names.shown(script)} is not allowed to decide",
            "name it in `scripts` under [approval] in your own config.toml, or use a terminal",
        )
    return Speaker(
        Origin.USER,
        "there is no terminal here to decide at",
        "use a terminal, or allow a script by name: `scripts` under [approval] in your own config.toml",
    )


_OWN_TERMINAL = "use a terminal of your own"


def inside(environ: Mapping[str, str], *, terminal: bool) -> str | None:
    """The variable that tells whose environment this is; None for a person's own."""
    known = AGENTS if terminal else {**AGENTS, **EDITORS}
    return next((name for name in known if environ.get(name, "").strip().lower() not in _OFF), None)


def login() -> str:
    """The user's name on this machine, for the audit."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME") or os.environ.get("USERNAME") or ""
    return re.sub(r"[^A-Za-z0-9._-]", "", name)[:64] or "user"


def has_terminal() -> bool:
    """Whether somebody can read what this process says and answer it."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
