"""Vademecum: long-term memory for AI agents, kept in plain Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vademecum.errors import VadeError
    from vademecum.memory import Memory

__version__ = "0.1.0"
__all__ = ["Memory", "VadeError", "__version__"]

# Imported when asked for, so that `vade --version` loads none of it.
_HOMES = {"Memory": "vademecum.memory", "VadeError": "vademecum.errors"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
