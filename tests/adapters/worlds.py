"""What the tests of all adapters begin with: a memory in an empty folder, and the same one opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum import Memory


def opened(folder: Path, *, origin: Origin = Origin.AGENT, **more: str) -> Memory:
    """The memory of a project in this folder."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    return connect(home=folder / "home", cwd=project, origin=origin, **more)  # type: ignore[arg-type]  # by name


def origins(memory: Memory) -> set[str]:
    """The doors that all entries of all records came through."""
    return {str(entry.origin) for record in memory.list().records for entry in record.entries}
