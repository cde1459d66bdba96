"""What a sync remembers for the next one: it saves work, and never changes what is done."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from sync import world
from sync.test_folder import Machine, meet
from vademecum.store import view
from vademecum.sync import stream_log as logs
from vademecum.sync.projection import FactSet, project
from vademecum.sync.stream_window import LogLines, Remembered, StreamWindow
from vademecum.text import document
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Machine, Machine]:
    """Two machines that have met; whatever they wrote may be remembered at once."""
    monkeypatch.setattr(view, "RACY", -60_000_000_000)
    (tmp_path / "carrier").mkdir()
    one = Machine(tmp_path, "one", tmp_path / "carrier")
    for number in range(12):
        one.memory().store(f"Fact {number} stays.", key=f"key-{number}", scope="global")
    other = Machine(tmp_path, "two", tmp_path / "carrier", one.joined.key)
    meet(one, other)
    one.sync()
    return one, other


def base(machine: Machine) -> Path:
    return machine.base / "home/hub/folder" / machine.joined.workspace / "global/base.json"


def looked_at(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The files that the next sync looks at."""
    windows: list[StreamWindow] = []
    real = StreamWindow.open

    def opened(self: StreamWindow, read: Callable[..., dict[str, str]], unsure: Collection[str]) -> None:
        windows.append(self)
        real(self, read, unsure)

    with monkeypatch.context() as patch:
        patch.setattr(StreamWindow, "open", opened)
        machine.sync()
    return set(windows[-1].files)


def test_a_sync_with_nothing_new_looks_at_no_file_and_writes_nothing(
    two: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = base(two[0]).stat()
    assert looked_at(two[0], monkeypatch) == set()
    after = base(two[0]).stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )


def test_only_the_files_that_changed_are_looked_at(
    two: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    file = one.top / "records/key-3.md"
    file.write_text(file.read_text().replace("Fact 3 stays.", "Fact 3 is new."))
    assert looked_at(one, monkeypatch) == {"records/key-3.md"}
    assert looked_at(other, monkeypatch) == {"records/key-3.md"}
    assert one.files() == other.files()


def _die(*given: object) -> None:
    raise KeyboardInterrupt


def test_after_an_interrupted_sync_only_what_it_was_about_to_write_is_looked_at(
    two: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    for number in (3, 5):
        file = one.top / f"records/key-{number}.md"
        file.write_text(file.read_text().replace("stays.", "is new."))
    one.sync()
    with monkeypatch.context() as patch:
        patch.setattr(logs.HomeFiles, "write", _die)
        with pytest.raises(KeyboardInterrupt):
            other.sync()
    assert looked_at(other, monkeypatch) == {"records/key-3.md", "records/key-5.md"}
    assert one.files() == other.files()


def test_an_edit_of_the_same_length_under_the_old_time_is_seen(two: tuple[Machine, Machine]) -> None:
    one, other = two
    file = one.top / "records/key-5.md"
    state = file.stat()
    file.write_text(file.read_text().replace("Fact 5 stays.", "Fact 5 moves."))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    meet(one, other)
    assert b"Fact 5 moves." in other.files()["records/key-5.md"]


def test_a_file_that_is_too_young_is_read_each_time(
    two: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two
    monkeypatch.setattr(view, "RACY", 1 << 62)
    with one.memory().home.disk("hub", "folder", one.joined.workspace, "global") as folder:
        kept = logs.DiskLog(folder).remembered()
    assert kept is not None
    assert all(each.stamp for each in kept.files.values())
    assert one.sync()[0].done.sent == 0  # each was read, and is what it was
    with one.memory().home.disk("hub", "folder", one.joined.workspace, "global") as folder:
        kept = logs.DiskLog(folder).remembered()
    assert kept is not None
    assert not any(each.stamp for each in kept.files.values())


@pytest.mark.parametrize("damage", ["lost", "garbage", "another version", "cut", "not of this log"])
def test_without_what_was_remembered_a_sync_does_the_same(two: tuple[Machine, Machine], damage: str) -> None:
    one, other = two
    file = base(one)
    if damage == "lost":
        file.unlink()
    elif damage == "garbage":
        file.write_bytes(b"\xff\x00{")
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:100])
    else:
        told = json.loads(file.read_bytes())
        told |= {"version": 0} if damage == "another version" else {"digest": "0" * 128, "files": {}}
        file.write_text(json.dumps(told))
    (one.top / "records/key-2.md").unlink()
    other.memory().store("More of four.", key="key-4", scope="global")
    other.sync()
    assert one.sync()[0].done.removed == []
    meet(other, one)
    assert one.files() == other.files()
    assert "records/key-2.md" not in other.files()
    assert b"More of four." in one.files()["records/key-4.md"]


def test_a_log_that_was_changed_is_read_as_a_whole(two: tuple[Machine, Machine]) -> None:
    one, _ = two
    with one.memory().home.disk("hub", "folder", one.joined.workspace, "global") as folder:
        assert logs.DiskLog(folder).remembered() is not None
    file = base(one).with_name(logs.LINES)
    file.write_bytes(file.read_bytes().replace(b'"door":"file"', b'"door":"hand"', 1))
    with one.memory().home.disk("hub", "folder", one.joined.workspace, "global") as folder:
        assert logs.DiskLog(folder).remembered() is None


def test_a_line_that_is_no_fact_is_found_even_if_the_lines_before_it_are_proven(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    file = base(one).with_name(logs.LINES)
    file.write_bytes(file.read_bytes() + b'{"own": true, "fact": {"doc":"x"}}\n')
    meet(one, other)
    assert one.files() == other.files()
    assert list(file.parent.glob("log.*.aside"))


def test_a_segment_of_the_folder_that_was_lost_or_cut_is_written_again(two: tuple[Machine, Machine]) -> None:
    one, _ = two
    [segment] = (one.carrier / "vade-sync/global").glob(f"{_replica(one)}.*.jsonl")
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    one.sync()
    assert segment.read_bytes() == whole
    segment.unlink()
    one.sync()
    assert segment.read_bytes() == whole


def _replica(machine: Machine) -> str:
    with machine.memory().home.disk("hub", "folder", machine.joined.workspace, "global") as folder:
        return logs.DiskLog(folder).replica


def test_what_is_remembered_is_what_all_facts_show(two: tuple[Machine, Machine]) -> None:
    one, _ = two
    with one.memory().home.disk("hub", "folder", one.joined.workspace, "global") as folder:
        log = logs.DiskLog(folder)
        kept, every = log.remembered(), FactSet(each.fact for each in log.read())
    assert kept is not None
    assert isinstance(log.read(), LogLines)
    assert {path: each.docs for path, each in kept.files.items()} == {
        path: shows.docs for path, shows in project(every).items()
    }
    assert Remembered.parse(json.loads(json.dumps(kept.render()))) == kept


def test_a_place_of_which_all_was_forgotten_is_remembered_as_one_that_has_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(world, "TWINS", 1)  # each sync is held against one that remembers nothing
    one = world.Replica("a", world.MemoryFolder())
    text = document.append("# topic\n\n", Entry("Old.", "2026-01-01T00:00:00Z", Origin.USER, id="1111111111"))
    for files in ({"records/topic.md": text}, {}, {"records/topic.md": text}):
        one.files.texts = dict(files)
        one.sync()
    assert [line.fact.kind for line in one.log.lines].count("name") == 1
