"""Vademecum: long-term memory for AI agents, kept in plain Markdown."""

__version__ = "0.1.0"
