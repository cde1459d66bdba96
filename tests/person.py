"""A person at a machine, for tests of what happened when: one clock for the program and for edits by hand."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vademecum.memory import connect
from vademecum.sync import folder_sync
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.memory import Memory

BEGIN = datetime(2026, 11, 14, 8, 0, tzinfo=UTC)


class Person:
    """A person on a machine with a clock that runs a minute between two looks, as the times of files do."""

    def __init__(self, base: Path, minutes: Iterator[int] | None = None) -> None:
        (base / "work").mkdir(parents=True)
        self.base, self.minutes = base, minutes or itertools.count(1)
        self.memory = self.opened(Origin.USER)

    def opened(self, origin: Origin) -> Memory:
        actor = "human:user" if origin is Origin.USER else None
        home, work = self.base / "home", self.base / "work"
        return connect(home=home, cwd=work, origin=origin, actor=actor, environ={}, now=self.now)

    def now(self) -> datetime:
        return BEGIN + timedelta(minutes=next(self.minutes))

    def file(self, key: str, *, scope: str | None = None) -> Path:
        return self.base / "home" / self.memory.show(key, scope=scope).path

    def change_by_hand(self, key: str, old: str, new: str, *, scope: str | None = None) -> str:
        """Edit a file as an editor does; return the time of the edit."""
        path, at = self.file(key, scope=scope), self.now()
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        os.utime(path, (at.timestamp(), at.timestamp()))
        return f"{at:%Y-%m-%dT%H:%M:%SZ}"

    def edit(self, key: str, old: str, new: str, *, scope: str | None = None) -> None:
        path, text = self.memory.care.editable(key, scope=scope)
        assert old in text, path
        self.memory.care.edited(key, text, text.replace(old, new), scope=scope)


class SyncedPerson(Person):
    """A person's machine that syncs through a folder."""

    def __init__(self, base: Path, minutes: Iterator[int], carrier: Path, key: str | None = None) -> None:
        super().__init__(base, minutes)
        self.joined, _ = folder_sync.join_folder(self.memory.home, carrier, key)

    def sync(self) -> None:
        folder_sync.sync_folder(self.memory.home, self.joined, actor="human:user", now=self.now)
