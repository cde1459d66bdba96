"""What is gone comes back: forgotten, deleted by hand, cut by an editor, or with its whole folder."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import Collision, NotFound
from vademecum.memory import Memory, connect
from vademecum.types import Origin, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def ticking() -> Callable[[], datetime]:
    """A clock on which every look is a second later."""
    at = [datetime(2026, 11, 14, 8, 0, tzinfo=UTC)]

    def now() -> datetime:
        at[0] += timedelta(seconds=1)
        return at[0]

    return now


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return opened(tmp_path, now=ticking())


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", **{"origin": Origin.USER, **given})


def file_of(base: Path, memory: Memory, key: str) -> Path:
    path = memory.show(key).path
    return (base / "work" if path.startswith(".vade/") else base / "home") / path


def without(path: Path, *texts: str) -> None:
    """Take the entries with these texts out, as an editor would."""
    head, *entries = path.read_text().split("\n## ")
    left = [entry for entry in entries if entry.split("\n")[1] not in texts]
    path.write_text("\n## ".join([head, *left]))


def said(memory: Memory, key: str) -> list[tuple[str, bool]]:
    return [(entry.text, entry.live) for entry in memory.show(key).entries]


# --- entries ------------------------------------------------------------------------------------------------


def test_a_superseded_entry_comes_back_superseded_and_in_its_place(tmp_path: Path, memory: Memory) -> None:
    memory.store("old way", key="topic")
    memory.store("new way", key="topic", mode="replace")
    memory.store("and more", key="topic")
    path = file_of(tmp_path, memory, "topic")
    before = path.read_text()
    for gone in (["old way"], ["new way"], ["old way", "new way"], ["old way", "and more"]):
        without(path, *gone)
        assert [entry.text for entry in memory.archive.lost_entries("topic")] == gone
        assert memory.restore("topic").text == "and more"
        assert said(memory, "topic") == [("old way", False), ("new way", True), ("and more", True)]
        assert path.read_text() == before


def test_an_entry_superseded_by_a_near_duplicate_comes_back_superseded(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    stored = memory.store("The nightly build runs at two in the morning on the big server")
    again = memory.store("The nightly builds run at two in the morning on the big server")
    assert again.outcome is Outcome.CONSOLIDATED
    without(
        file_of(tmp_path, memory, stored.key),
        "The nightly build runs at two in the morning on the big server",
    )
    memory.restore(stored.key)
    assert sorted(live for _, live in said(memory, stored.key)) == [False, True]
    assert "builds" in memory.show(stored.key).text


def test_a_log_from_before_supersession_was_logged_still_reads(tmp_path: Path, memory: Memory) -> None:
    memory.store("old way", key="topic")
    memory.store("new way", key="topic", mode="replace")
    (log,) = (tmp_path / "home" / "archive" / "kept").rglob("topic.md.jsonl")
    log.write_text("".join(line for line in log.read_text().splitlines(True) if "superseded" not in line))
    without(file_of(tmp_path, memory, "topic"), "old way")
    assert [entry.text for entry in memory.archive.lost_entries("topic")] == ["old way"]


# --- whole records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["key", "number", "id"])
@pytest.mark.parametrize("scope_folder", ["home", "repository"])
def test_a_record_deleted_by_hand_is_rebuilt_from_its_log(tmp_path: Path, by: str, scope_folder: str) -> None:
    memory = opened(tmp_path, now=ticking())
    if scope_folder == "repository":
        memory.projects.init()
    stored = memory.store("first", key="topic")
    memory.store("second\n## 2026-01-01\nthird", key="topic")
    path = file_of(tmp_path, memory, "topic")
    path.unlink()
    name = {"key": "topic", "number": str(stored.num), "id": str(stored.id)}[by]
    record = memory.restore(name)
    assert (record.key, record.id, record.num, record.type) == ("topic", stored.id, stored.num, "project")
    assert [(entry.text, entry.origin) for entry in record.entries] == [
        ("first", Origin.USER),
        ("second\n## 2026-01-01\nthird", Origin.USER),
    ]
    assert path.read_text().startswith("---\ntype: project\n")
    assert memory.archive.lost_entries("topic") == []


def test_a_record_deleted_by_hand_comes_back_with_its_labels_and_all_its_entries(
    tmp_path: Path, memory: Memory
) -> None:
    memory.store("old", key="topic", type="rule", tags=["a"])
    memory.store("new", key="topic", mode="replace")
    memory.store("newer", key="topic")
    file_of(tmp_path, memory, "topic").unlink()
    record = memory.restore("topic")
    assert (record.type, record.tags) == ("rule", ("a",))
    assert [(entry.text, entry.live) for entry in record.entries][1:] == [("new", True), ("newer", True)]
    assert record.text == "newer"


def test_a_forgotten_record_comes_back_byte_for_byte_and_its_successor_by_its_own_log(
    tmp_path: Path, memory: Memory
) -> None:
    memory.store("the first of that name", key="topic")
    path = file_of(tmp_path, memory, "topic")
    before = path.read_bytes()
    memory.forget("topic")
    memory.restore("topic")
    assert path.read_bytes() == before
    memory.forget("topic")
    later = memory.store("the second of that name", key="topic")
    path.unlink()
    record = memory.restore("topic")
    assert (record.id, [entry.text for entry in record.entries]) == (later.id, ["the second of that name"])


def test_a_record_renamed_by_hand_is_not_gone(tmp_path: Path, memory: Memory) -> None:
    stored = memory.store("text", key="topic")
    path = file_of(tmp_path, memory, "topic")
    path.rename(path.with_name("other.md"))
    with pytest.raises(Collision):
        memory.restore("topic")
    with pytest.raises(NotFound):
        memory.restore(str(stored.id))
    assert [record.key for record in memory.list().records] == ["other"]


def test_a_file_moved_by_hand_to_the_repository_is_not_gone_from_the_home(
    tmp_path: Path, memory: Memory
) -> None:
    memory.store("first", key="topic")
    old = file_of(tmp_path, memory, "topic")
    memory.projects.init()
    new = tmp_path / "work" / ".vade" / "records" / "topic.md"
    new.parent.mkdir(exist_ok=True)
    old.rename(new)
    memory.store("second", key="topic")
    without(new, "second")
    assert [entry.text for entry in memory.restore("topic").entries] == ["first", "second"]
    assert not old.exists()


def test_a_mark_that_a_person_lifts_in_an_edit_stays_lifted(tmp_path: Path, memory: Memory) -> None:
    memory.store("old way", key="topic")
    memory.store("new way", key="topic", mode="replace")
    _, text = memory.care.editable("topic")
    memory.care.edited("topic", text, re.sub(r" \| superseded: \S+", "", text))
    without(file_of(tmp_path, memory, "topic"), "old way")
    memory.restore("topic")
    assert said(memory, "topic") == [("old way", True), ("new way", True)]


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_record_deleted_by_hand_can_be_purged(tmp_path: Path, memory: Memory, mode: str) -> None:
    memory.store("CANARY one", key="topic")
    memory.store("CANARY two", key="topic", mode=mode)
    file_of(tmp_path, memory, "topic").unlink()
    assert memory.archive.purge("topic")
    left = [
        path for path in (tmp_path / "home").rglob("*") if path.is_file() and b"CANARY" in path.read_bytes()
    ]
    assert left == []
    for act in (memory.restore, memory.archive.purge):
        with pytest.raises(NotFound):
            act("topic")


def test_a_record_comes_back_when_its_folder_is_gone_too(tmp_path: Path, memory: Memory) -> None:
    memory.store("text", key="topic")
    path = file_of(tmp_path, memory, "topic")
    memory.forget("topic")
    path.parent.rmdir()
    assert memory.restore("topic").text == "text"
    shutil.rmtree(path.parent.parent)
    assert memory.restore("topic").text == "text"


def test_an_archived_version_that_cannot_be_read_hides_no_other(tmp_path: Path, memory: Memory) -> None:
    memory.store("text", key="topic")
    memory.store("other", key="other")
    memory.forget("topic")
    memory.forget("other")
    (image,) = (tmp_path / "home" / "archive" / "project").rglob("records/other.md/*.md")
    image.write_bytes(b"\xff")
    assert memory.restore("topic").text == "text"
