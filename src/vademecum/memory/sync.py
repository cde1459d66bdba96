"""Memory on several machines: the folder or the hub where they meet, as a caller of memory may use it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vademecum.index import freshness
from vademecum.sync import folder as shared
from vademecum.sync import hub as hubs
from vademecum.sync.folder import FolderSync, PlaceSynced
from vademecum.sync.hub import read_standing
from vademecum.sync.membership import spell_key

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.memory.core import Memory
    from vademecum.sync.membership import Membership

__all__ = ["FolderSync", "PlaceSynced", "read_standing"]


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


def has_hub(memory: Memory) -> bool:
    """Whether this home has joined a personal workspace of a hub."""
    return hubs.has_hub(memory.home)


def run_hub(memory: Memory, workspace: str, deletions: bool | None) -> tuple[Membership, list[PlaceSynced]]:
    """Sync every place with the hub that was joined."""
    memory.workspace.may_write()
    joined, key = hubs.find_hub(memory.home, workspace)
    with memory.workspace.reported("sync"):
        now = memory.workspace.now
        return joined, hubs.HubSync(memory.home, joined, key, memory.caller.actor, now, deletions).run()


def wakings(memory: Memory, every: float, stop: threading.Event) -> Iterator[str]:
    """Say that it is time to sync: at once, when a file of memory has changed, and every so many seconds."""
    memory.workspace.may_write()
    memory.home.folder("memory", create=True).close()
    top = os.path.join(memory.home.path, "memory")
    yield from freshness.wakings([top], ignore=lambda _: False, stop=stop, every=every)
