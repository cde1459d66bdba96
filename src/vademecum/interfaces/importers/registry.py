"""The systems that can be imported, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import UnknownName
from vademecum.interfaces.importers.base import Here
from vademecum.interfaces.importers.cao import Cao
from vademecum.interfaces.importers.claude_code import ClaudeCode
from vademecum.interfaces.importers.clio import Clio
from vademecum.interfaces.importers.co_cli import CoCli
from vademecum.interfaces.importers.codex import Codex
from vademecum.interfaces.importers.okf import Okf
from vademecum.interfaces.importers.openclaw import OpenClaw
from vademecum.interfaces.importers.tree import open_tree
from vademecum.knowledge.intake import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.interfaces.importers.base import Importer
    from vademecum.knowledge.intake import Piece


def known() -> list[Importer]:
    """All of them, in the order in which they are named."""
    return [Clio(), Cao(), OpenClaw(), CoCli(), ClaudeCode(), Codex(), Okf()]


def named(name: str) -> Importer:
    """The reader of that system."""
    for each in known():
        if each.name == name:
            return each
    systems = ", ".join(each.name for each in known())
    raise UnknownName(f"{name!r} is no system that can be imported", hint=f"the systems are {systems}")


def read(name: str, path: Path, here: Here = Here()) -> Iterator[Piece]:  # noqa: B008  # a frozen value
    """Everything a system keeps at a path, and what is passed over."""
    importer, tree = named(name), open_tree(path)
    yield from tree.passed()
    anything = False
    for piece in importer.read(tree, here):
        anything = anything or not isinstance(piece, Skipped)
        yield piece
    if not anything:
        yield Skipped(str(path), f"nothing that {name} keeps is here")
