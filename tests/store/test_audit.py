"""What was done to the audit stays visible, however much is written after it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from vademecum.memory import connect
from vademecum.store import audit, files
from vademecum.store.home import Home
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vademecum.memory import Memory


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


def test_deleting_the_whole_audit_is_told_until_it_is_known_why(tmp_path: Path) -> None:
    memory = opened_by_a_person(tmp_path)
    memory.store("One.", key="one")
    memory.store("Two.", key="two")
    shutil.rmtree(tmp_path / "home/audit")
    [problem] = memory.audit.verify().problems
    assert "is missing" in problem.why
    assert [each.severity for each in memory.status().findings if each.what == "audit"] == ["error"]
    memory.store("Three.", key="three")  # a new chain begins, and says what it follows
    report = memory.audit.verify()
    assert report.lines == 2
    assert "was deleted before" in report.problems[0].why
    assert [line["op"] for line in memory.audit.lines()] == ["lost", "created"]
    assert [each.severity for each in memory.status().findings if each.what == "audit"] == ["warning"]
    (tmp_path / "home/audit-started").unlink()
    assert not [each for each in memory.status().findings if each.what == "audit"]
    [problem] = memory.audit.verify().problems  # the line itself stays
    assert problem.why == "the audit before this line was deleted"


def test_a_home_without_the_mark_that_lost_its_audit_is_told_before_and_after_the_next_write(
    tmp_path: Path,
) -> None:
    memory = opened_by_a_person(tmp_path)
    memory.store("One.", key="one")
    memory.store("Two.", key="two")
    shutil.rmtree(tmp_path / "home/audit")
    for name in ("format", "audit-started"):  # deleted as well
        (tmp_path / "home" / name).unlink()
    memory = opened_by_a_person(tmp_path)
    assert "is missing" in memory.audit.verify().problems[0].why
    memory.note("A note.")
    assert "was deleted before" in memory.audit.verify().problems[0].why


def test_a_home_that_nobody_has_written_to_has_no_audit_and_that_is_no_alarm(tmp_path: Path) -> None:
    by_hand = tmp_path / "home/memory/global/records/topic.md"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_text("# topic\n\nBy hand.\n")
    memory = opened_by_a_person(tmp_path)
    assert memory.audit.verify().problems == ()
    assert memory.status().findings == ()
    memory.store("One.", key="one", scope="global")
    assert memory.audit.verify().problems == ()


def opened_by_a_person(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, environ={})
