"""The sets of tools by name: the default one, those of other systems, and all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.tools.cao import CAO
from vademecum.interfaces.tools.clio import CLIO
from vademecum.interfaces.tools.co_cli import CO_CLI
from vademecum.interfaces.tools.core import CORE
from vademecum.interfaces.tools.more import MORE
from vademecum.interfaces.tools.openclaw import OPENCLAW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vademecum.interfaces.tools.declaration import Tool


def _by_name(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return the first tool of each name: those of the core understand the arguments of the families."""
    found: dict[str, Tool] = {}
    for each in tools:
        found.setdefault(each.name, each)
    return tuple(found.values())


TOOL_SETS: Mapping[str, tuple[Tool, ...]] = {
    "core": CORE,
    "cao": CAO,
    "clio": CLIO,
    "co-cli": CO_CLI,
    "openclaw": OPENCLAW,
    "all": _by_name((*CORE, *MORE, *CAO, *CO_CLI, *CLIO, *OPENCLAW)),
}
EVERY_TOOL = tuple({each.text: each for tools in TOOL_SETS.values() for each in tools}.values())
