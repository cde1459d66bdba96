"""Windsurf: the rules that it reads from a project."""

from __future__ import annotations

from vademecum.agents import base

AGENT = base.Agent(
    "windsurf",
    memories=base.lazy_function("vademecum.agents.editor_rules", "read_windsurf"),
    keeps=(".windsurf", ".windsurfrules"),
)
