"""Memory on several machines: the folder that they share, as a caller of memory may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.sync import folder as shared
from vademecum.sync.folder import FolderSync, PlaceSynced
from vademecum.sync.membership import spell_key

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory.core import Memory

__all__ = ["FolderSync", "PlaceSynced"]


def join(memory: Memory, path: Path | None, key: str | None) -> tuple[FolderSync, str]:
    """The folder that is named, or the one that was; beside it the key, when it was made now."""
    memory.workspace.may_write()
    if path is None:
        return shared.find_folder(memory.home), ""
    joined, made = shared.join_folder(memory.home, path, key)
    return joined, spell_key(joined.key) if made else ""


def needs_key(memory: Memory, path: Path) -> bool:
    """Whether the key of that folder must be typed here."""
    return shared.needs_key(memory.home, path)


def run(memory: Memory, joined: FolderSync, deletions: bool | None) -> tuple[list[PlaceSynced], list[str]]:
    """Sync every place; beside what was done, the names in the folder that were ignored."""
    memory.workspace.may_write()
    with memory.workspace.reported("sync"):
        return shared.sync_folder(
            memory.home,
            joined,
            actor=memory.caller.actor,
            now=memory.workspace.now,
            deletions=deletions,
        )


def status(memory: Memory) -> tuple[FolderSync, int]:
    """The folder, and how many changes are not in it yet."""
    joined = shared.find_folder(memory.home)
    return joined, shared.count_unsent(memory.home, joined)


def leave(memory: Memory) -> FolderSync:
    """Stop syncing through the folder."""
    memory.workspace.may_write()
    return shared.leave_folder(memory.home)
