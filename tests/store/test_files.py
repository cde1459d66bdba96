"""Nothing that somebody saved or still types is lost by a write, and no write makes its file unreadable."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from vademecum.errors import InvalidText
from vademecum.store import files
from vademecum.store.folders import Folder
from vademecum.text import filenames
from vademecum.text.filenames import is_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

NAME = "topic.md"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / NAME).write_bytes(b"begin\n")
    with Folder.at(tmp_path) as folder:
        yield folder


def save(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "aside~").write_bytes(text)
    os.replace(tmp_path / "aside~", tmp_path / NAME)


def kept(tmp_path: Path) -> bytes:
    """All that stands in visible files."""
    return b"".join(each.read_bytes() for each in tmp_path.iterdir() if not each.name.startswith("."))


def conflicts(tmp_path: Path) -> list[str]:
    return [each.name for each in tmp_path.iterdir() if filenames.is_conflict(each.name)]


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux who has a file open")
@pytest.mark.parametrize("act", ["update", "remove"])
def test_a_line_typed_into_a_file_held_open_is_kept(tmp_path: Path, folder: Folder, act: str) -> None:
    with mock.patch.object(files, "_PATIENCE_OPEN", 0.05), open(tmp_path / NAME, "ab") as typing:
        if act == "update":
            files.update(folder, NAME, lambda now: (now or b"") + b"ours\n")
        else:
            files.remove(folder, NAME, lambda content: None)
        typing.write(b"typed late\n")
    assert b"typed late" in kept(tmp_path)
    assert len(conflicts(tmp_path)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux who has a file open")
def test_a_reader_does_not_hold_up_a_write(
    tmp_path: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("vademecum.store.files.time.sleep", waits.append)
    with open(tmp_path / NAME, "rb"):
        files.update(folder, NAME, lambda now: (now or b"") + b"ours\n")
    assert waits == []
    assert conflicts(tmp_path) == []


def test_a_save_made_before_a_refused_change_is_undone_is_kept(tmp_path: Path, folder: Folder) -> None:
    calls = []

    def change(now: bytes | None) -> bytes:
        calls.append(now)
        if len(calls) == 1:
            save(tmp_path, b"begin\nfirst save\n")
            return b"ours\n"
        save(tmp_path, b"begin\nsecond save\n")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        files.update(folder, NAME, change)
    assert b"first save" in kept(tmp_path)
    assert b"second save" in kept(tmp_path)


def test_a_displaced_save_is_kept_when_the_change_was_made_on_another_one(
    tmp_path: Path, folder: Folder
) -> None:
    calls = []

    def change(now: bytes | None) -> bytes:
        calls.append(now)
        if len(calls) == 1:
            save(tmp_path, b"begin\nfirst save\n")
        if len(calls) == 2:
            (tmp_path / NAME).unlink()
        return (now or b"") + b"ours\n"

    def recreate(folder: Folder, name: str) -> None:
        save(tmp_path, b"second save\n")

    with mock.patch.object(files, "_await", recreate):
        files.update(folder, NAME, change)
    assert b"first save" in kept(tmp_path)
    assert b"second save" in (tmp_path / NAME).read_bytes()


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, folder: Folder) -> None:
    with pytest.raises(InvalidText) as refused:
        files.update(folder, NAME, lambda now: b"x" * (files.LARGEST + 1))
    assert "new record" in refused.value.hint
    with pytest.raises(InvalidText):
        files.create(folder, "other.md", b"x" * (files.LARGEST + 1))
    assert [each.name for each in tmp_path.iterdir()] == [NAME]
    assert kept(tmp_path) == b"begin\n"


def test_a_conflict_file_is_known_by_its_name_and_is_no_record() -> None:
    name = "topic.conflict-20261115T045914-1643ff4369bc6c08.md"
    assert filenames.is_conflict(name)
    assert not is_record(name)
    for other in (NAME, "the.conflict-of-interests.md", "conflict-20261115.md"):
        assert not filenames.is_conflict(other)
        assert is_record(other)
