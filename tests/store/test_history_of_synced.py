"""A text that a sync brought is kept too when a person replaces it in the file itself."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from person import SyncedPerson

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ada(tmp_path: Path) -> SyncedPerson:
    """Return a machine to which a text of another machine has just come."""
    (carrier := tmp_path / "carrier").mkdir()
    minutes = itertools.count(1)
    other = SyncedPerson(tmp_path / "other", minutes, carrier)
    other.memory.store("The gate opens at nine.", key="gate", scope="global")
    other.sync()
    here = SyncedPerson(tmp_path / "here", minutes, carrier, other.joined.key)
    here.sync()
    return here


def test_a_text_that_arrived_and_was_reworded_by_hand_can_be_restored(ada: SyncedPerson) -> None:
    ada.change_by_hand("gate", "nine", "ten", scope="global")
    for _ in range(2):
        ada.sync()
    arrived, hand = ada.memory.archive.events("gate")
    assert (arrived.what, hand.what) == ("arrived", "by hand")
    assert "at nine" in (hand.before or "")
    assert "at ten" in (hand.after or "")
    [version] = ada.memory.archive.versions("gate")
    assert version.id == hand.version
    assert ada.memory.archive.forgotten() == []
    assert [each.text for each in ada.memory.restore(version.id).live] == ["The gate opens at nine."]


def test_a_record_that_arrived_and_whose_file_was_deleted_can_be_restored(ada: SyncedPerson) -> None:
    ada.file("gate", scope="global").unlink()
    ada.sync()
    [gone] = ada.memory.archive.forgotten()
    assert (gone.key, gone.why) == ("gate", "deleted by hand")
    assert [each.text for each in ada.memory.restore("gate").live] == ["The gate opens at nine."]
    ada.sync()
    assert ada.memory.archive.forgotten() == []


@pytest.mark.parametrize("how", ["append", "edit", "rename", "move"])
def test_it_can_be_restored_too_if_a_command_changes_the_file_before_the_next_sync(
    ada: SyncedPerson, how: str
) -> None:
    ada.change_by_hand("gate", "nine", "ten", scope="global")
    if how == "append":
        ada.memory.store("And closes at six.", key="gate", scope="global")
    elif how == "edit":
        ada.edit("gate", "ten", "eleven", scope="global")
    elif how == "rename":
        ada.memory.care.rename("gate", "door", scope="global")
    else:
        ada.memory.care.move(["gate"], to="project", scope="global")
    ada.sync()
    key = "door" if how == "rename" else "gate"
    assert any("at nine" in each.text for each in ada.memory.archive.history(key))
    assert [each.what for each in ada.memory.archive.events(key)].count("by hand") == 1
    assert ada.memory.archive.forgotten() == []


def test_a_text_that_a_command_replaced_is_archived_once(ada: SyncedPerson) -> None:
    ada.edit("gate", "nine", "ten", scope="global")
    ada.memory.care.rename("gate", "door", scope="global")
    before = ada.memory.archive.versions("door")
    ada.sync()
    assert ada.memory.archive.versions("door") == before


def test_a_purged_text_does_not_come_back_into_the_archive(ada: SyncedPerson) -> None:
    ada.change_by_hand("gate", "nine", "ten", scope="global")
    ada.memory.archive.purge_text("The gate opens at nine.")
    ada.sync()
    assert not any(b"at nine" in path.read_bytes() for path in (ada.base / "home").rglob("*.md"))
