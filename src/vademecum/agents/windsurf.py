"""Windsurf: the rules that it reads from a project."""

from __future__ import annotations

from vademecum.agents import base

AGENT = base.Agent(
    "windsurf",
    memories=base.later("vademecum.agents.rules", "of_windsurf"),
    keeps=(".windsurf", ".windsurfrules"),
)
