"""Agents of which only environment variables are known.

When such an agent gets its own module, its row moves there.
"""

from __future__ import annotations

from vademecum.agents.base import Environment

OTHER_AGENTS = (
    Environment(
        "GitHub Copilot",
        ("COPILOT_CLI", "COPILOT_AGENT", "COPILOT_AGENT_SESSION_ID", "VSCODE_COPILOT_TERMINAL"),
        editor=("COPILOT_MODEL",),
    ),
    Environment("Amp", ("AMP_CURRENT_THREAD_ID", "AMP_THREAD_ID")),
    Environment("Augment", ("AUGMENT_AGENT",)),
    Environment("Roo Code", ("ROO_ACTIVE",)),
    Environment("Crush", ("CRUSH",)),
    Environment("Trae", ("TRAE_AI_SHELL_ID",)),
    Environment("Antigravity", ("ANTIGRAVITY_AGENT",)),
    Environment("Pi", ("PI_CODING_AGENT",)),
    Environment("Aider", editor=("AIDER_MODEL",)),
    Environment("an agent", ("AI_AGENT",)),  # set by several; it stands last, so that a name of its own wins
)
