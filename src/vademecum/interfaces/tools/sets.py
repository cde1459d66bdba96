"""The sets of tools by name: the default one, those of other systems, and all of them together.

A server loads the set that it offers, and not the modules of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.tools.declaration import Tool

ALL = "all"
# For each set the module that has it, and its name there.
_MODULES = {
    "core": ("core", "CORE"),
    "cao": ("cao", "CAO"),
    "clio": ("clio", "CLIO"),
    "co-cli": ("co_cli", "CO_CLI"),
    "openclaw": ("openclaw", "OPENCLAW"),
}
# Of the tools of one name the first counts: those of the core understand the arguments of the families.
_IN_ALL = (
    _MODULES["core"],
    ("more", "MORE"),
    *(_MODULES[name] for name in ("cao", "co-cli", "clio", "openclaw")),
)


class _ToolSets(Mapping[str, "tuple[Tool, ...]"]):
    """The sets by name; a set is imported when it is first read."""

    def __getitem__(self, name: str) -> tuple[Tool, ...]:
        return _load_all() if name == ALL else _load(*_MODULES[name])

    def __iter__(self) -> Iterator[str]:
        return iter((*_MODULES, ALL))

    def __len__(self) -> int:
        return len(_MODULES) + 1


TOOL_SETS = _ToolSets()


@cache
def _load(module: str, name: str) -> tuple[Tool, ...]:
    tools: tuple[Tool, ...] = getattr(import_module(f"vademecum.interfaces.tools.{module}"), name)
    return tools


@cache
def _load_all() -> tuple[Tool, ...]:
    found: dict[str, Tool] = {}
    for each in (tool for at in _IN_ALL for tool in _load(*at)):
        found.setdefault(each.name, each)
    return tuple(found.values())


def every_tool() -> tuple[Tool, ...]:
    """Return all tools of all sets, once by their texts."""
    return tuple({each.text: each for tools in TOOL_SETS.values() for each in tools}.values())
