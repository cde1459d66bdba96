"""The oracle over real homes: files, logs and locks on disk, real commands, and bugs that need files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tiers
from sync.homes import failures
from sync.world import CHANGED_KEY
from vademecum import types
from vademecum.sync.stream_log import DiskLog
from vademecum.sync.stream_sync import SyncStream
from vademecum.sync.stream_window import Remembered, Tail, render_line
from vademecum.text import document

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from vademecum.sync.facts import SyncFact
    from vademecum.sync.stream_sync import Synced

LIVES, SEARCHED = 40, 100

Patch = pytest.MonkeyPatch


@pytest.mark.full
@pytest.mark.parametrize("part", range(2))
def test_real_homes_agree_and_nothing_is_lost_doubled_or_brought_back(part: int, tmp_path: Path) -> None:
    assert list(failures(range(part * LIVES // 2, (part + 1) * LIVES // 2), tmp_path)) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_real_homes_agree_in_two_thousand_lives(part: int, tmp_path: Path) -> None:
    assert list(failures(range(1_000 + part * 100, 1_000 + (part + 1) * 100), tmp_path)) == []


def files_hold_what_no_log_knows_yet(patch: Patch) -> None:
    """Others' facts reach the log only when the files have been written."""
    append, finish = DiskLog.append, DiskLog.finish

    def late(self: DiskLog, facts: Iterable[SyncFact], *, own: bool) -> None:
        if own:
            append(self, facts, own=True)
            return
        waiting: list[SyncFact] = self.__dict__.setdefault("waiting", [])
        for fact in facts:
            waiting.append(fact)
            self._lines.add(render_line(fact, own=False))

    def at_last(self: DiskLog, applied: int, left: Collection[str] = ()) -> None:
        for fact in self.__dict__.pop("waiting", []):
            self._write(render_line(fact, own=False))
        finish(self, applied, left)

    patch.setattr(DiskLog, "append", late)
    patch.setattr(DiskLog, "finish", at_last)
    patch.setattr(DiskLog, "begin", lambda self, paths: None)


def a_lost_base_is_read_as_removals(patch: Patch) -> None:
    applied, look = DiskLog.applied, SyncStream._read_changes

    def all_of_it(self: DiskLog) -> int:
        return applied(self) or len(self._lines)

    def sure(self: SyncStream, done: Synced, *, deletions: bool | None) -> Any:
        if isinstance(self.log, DiskLog) and not applied(self.log):
            self._pull(Tail(self.log.read(), Remembered()), done)
        return look(self, done, deletions=deletions)

    patch.setattr(DiskLog, "applied", all_of_it)
    patch.setattr(SyncStream, "_read_changes", sure)


def an_unknown_origin_is_the_person(patch: Patch) -> None:
    real = types.parse_origin
    known = set(types.Origin)
    for holder in (types, document):
        patch.setattr(holder, "parse_origin", lambda name: real(name) if name in known else types.Origin.USER)


BUGS: list[Callable[[Patch], None]] = [
    files_hold_what_no_log_knows_yet,
    a_lost_base_is_read_as_removals,
    an_unknown_origin_is_the_person,
]


@pytest.mark.full(but=1)
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_bug_planted_in_real_homes_is_found(
    plant: Callable[[Patch], None], monkeypatch: Patch, tmp_path: Path
) -> None:
    plant(monkeypatch)
    assert next(failures(range(SEARCHED), tmp_path), None) is not None, "the oracle does not see this bug"


@pytest.mark.scaled
def test_real_homes_lose_nothing_when_the_key_is_changed_and_a_thief_writes_into_no_file(
    tmp_path: Path,
) -> None:
    assert list(failures(range(100, 100 + tiers.few(2, 12)), tmp_path, more=CHANGED_KEY)) == []
