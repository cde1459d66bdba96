"""What a reader of another system is: a name, and a function from a tree of files to pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.interfaces.importers.tree import Tree
    from vademecum.knowledge.intake import Piece


class Here(NamedTuple):
    """Who imports: the root of their project, and whether they named a scope for everything."""

    root: Path | None = None
    scoped: bool = False


class Importer(Protocol):
    """One system's files, read and never written."""

    @property
    def name(self) -> str:
        """What the system is called on the command line, and in `source`."""
        ...

    def read(self, tree: Tree, here: Here) -> Iterator[Piece]:
        """Every piece of it, and what is left out and why."""
        ...
