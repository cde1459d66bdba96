"""People: who speaks and whether they may decide, and what of theirs a change would take away.

Whoever changes a file for somebody trusted less than a person asks here first: entries a person wrote or
verified and their records' labels stay. Text that stands beside a person's takes nothing away.
"""

from __future__ import annotations

import os
import re
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, PersonsText
from vademecum.store import archive, decisions, document
from vademecum.store.document import decode
from vademecum.store.merge import is_guarded, is_persons, read_tags
from vademecum.text import names, normalise
from vademecum.types import Entry, Origin, RecordType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.store.home import Home
    from vademecum.store.merge import Verified
    from vademecum.store.scopes import Caller

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
    agent: str = ""  # inside of which it runs


def speaker(environ: Mapping[str, str], *, terminal: bool, scripts: Sequence[str] = ()) -> Speaker:
    """Who speaks: a person, or the agent whose environment this is.

    A person decides at a terminal, or through a script that the user allowed by name. An agent never does, so
    that a name it can read in the settings does not make it one.
    """
    variable = inside(environ, terminal=terminal)
    if variable is not None:
        agent = AGENTS.get(variable) or EDITORS[variable]
        return Speaker(
            Origin.AGENT,
            f"this command line runs inside {agent} ({variable} is set)",
            _OWN_TERMINAL,
            "" if variable == "AI_AGENT" else agent.lower(),
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
        "this is not a terminal",
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


WHY = "the user wrote or verified this, and only the user can change it"
_LABELS = ("title", "key", "scope", "status", "stale_after")


def is_bound(caller: Caller) -> bool:
    """Whether a caller has to leave a person's words as they are."""
    return caller.origin is not Origin.USER and not caller.approved


def taken(before: bytes, after: bytes | None, *, kind: str, verified: Verified) -> str:
    """What of a person's is in a file before a change and not after it; empty when nothing is."""
    try:
        values, entries = _read(before, kind)
    except Malformed:
        return "a file that cannot be read"  # whose it is nobody can say
    guarded = is_guarded(values)
    own = [each for each in entries if each.live and (guarded or is_persons(each, verified))]
    if not own and not guarded:
        return ""
    if after is None:
        return "the whole record"
    try:
        changed, left = _read(after, kind)
    except Malformed:
        return "the whole record"
    standing = {(normalise(each.text), each.origin or Origin.USER) for each in left if each.live}
    if any((normalise(each.text), each.origin or Origin.USER) not in standing for each in own):
        return "an entry"
    return _relabelled(values, changed)


def check_taken(
    home: Home, caller: Caller, before: bytes | None, after: bytes | None, *, kind: str = archive.RECORDS
) -> None:
    """Refuse a change that takes something of a person's away, unless a person makes it."""
    gone = barred(home, caller, before, after, kind=kind)
    if gone:
        raise PersonsText(f"{WHY} ({gone})")


def barred(
    home: Home, caller: Caller, before: bytes | None, after: bytes | None, *, kind: str = archive.RECORDS
) -> str:
    """What a caller may not take away with this change; empty when it may be made."""
    if before is None or before == after or not is_bound(caller):
        return ""
    return taken(before, after, kind=kind, verified=lambda text: decisions.verified(home, text))


def _read(content: bytes, kind: str) -> tuple[Mapping[str, Any], Sequence[Entry]]:
    text = decode(content)
    if kind == archive.PINNED:
        return {}, document.blocks(text)
    parsed = document.parse(text)
    return parsed.front.values, parsed.entries


def _relabelled(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Which label of a person's record a change would set to something else."""
    default = str(RecordType.PROJECT)
    if str(before.get("type") or default) != str(after.get("type") or default):
        return "its type"
    if read_tags(before.get("tags")) != read_tags(after.get("tags")):
        return "its tags"
    if (before.get("protected") is True) != (after.get("protected") is True):
        return "its protection"
    for name in _LABELS:
        if before.get(name) not in (None, after.get(name)):
            return f"its {name.replace('_', ' ')}"
    return ""
