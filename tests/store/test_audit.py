"""What was done to the audit stays visible, however much is written after it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from vademecum.store import audit, files
from vademecum.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write(home: Home, times: int, *, day: int = 15, operation: str = "note") -> None:
    for _ in range(times):
        audit.write(home, at=datetime(2026, 11, day, tzinfo=UTC), actor="test", operation=operation)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    write(home, 3, day=14)
    write(home, 3)
    return home


def cut(logs: list[Path]) -> None:
    logs[-1].write_bytes(b"".join(logs[-1].read_bytes().splitlines(keepends=True)[:-1]))


def empty(logs: list[Path]) -> None:
    logs[-1].write_bytes(b"")


def delete_the_newest(logs: list[Path]) -> None:
    logs[-1].unlink()


def delete_all(logs: list[Path]) -> None:
    for log in logs:
        log.unlink()


def replace_the_last(logs: list[Path]) -> None:
    """Take the last line away and write another, rightly chained to what is left."""
    cut(logs)
    head = logs[-1].with_name(audit.HEAD)
    there = head.read_bytes()
    head.write_bytes(audit._head_block(0, audit._GENESIS))
    write(Home(head.parent.parent), 1, operation="forged")
    head.write_bytes(there)


def delete_the_head(logs: list[Path]) -> None:
    logs[-1].with_name(audit.HEAD).unlink()


@pytest.mark.parametrize(
    "damage", [cut, empty, delete_the_newest, delete_all, replace_the_last, delete_the_head]
)
def test_a_damage_is_an_alarm_also_after_further_writes(
    home: Home, damage: Callable[[list[Path]], None]
) -> None:
    damage(sorted((home.path / "audit").glob("*.jsonl")))
    for more in (0, 1, 1, 20):
        write(home, more)
        assert audit.verify(home).problems, f"after {more} more"


def test_writers_killed_before_they_moved_the_head_are_no_alarm(home: Home) -> None:
    with mock.patch.object(files, "overwrite_block"):
        write(home, 3)
    assert audit.verify(home).problems == ()
    write(home, 2, day=16)
    assert audit.verify(home).problems == ()
    assert audit.verify(home).lines == 11


def test_a_log_is_read_whatever_its_length(home: Home) -> None:
    with mock.patch.object(files, "LARGEST", 200):
        assert audit.verify(home).problems == ()
        assert len(list(audit.lines(home))) == 6
