"""Sources: folders and files of Markdown that a person attached, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vademecum.errors import NotVisible, SecretFound, UsageError
from vademecum.memory import Memory, connect
from vademecum.store import decisions
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    (tmp_path / "work").mkdir()
    return connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER)


@pytest.mark.parametrize("name", ["passwd", "notes.txt", ".env", "md"])
def test_a_file_that_is_not_markdown_is_refused(memory: Memory, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("root:x:0:0")
    with pytest.raises(UsageError):
        memory.add_source(tmp_path / name, name="file")
    assert memory.sources() == []


@pytest.mark.parametrize("name", ["CLAUDE.md", "notes.Markdown"])
def test_one_markdown_file_can_be_attached(memory: Memory, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("text")
    assert list(memory.add_source(tmp_path / name).markdown()) == [tmp_path / name]


def test_a_file_that_was_attached_by_other_means_is_not_read(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0")
    decision = {"path": str(tmp_path / "passwd"), "scope": "global", "inject": True, "at": ""}
    decisions.put(memory.home, "sources", "passwd", decision)
    (source,) = memory.sources()
    assert list(source.markdown()) == []


def test_a_name_that_holds_a_secret_is_refused(memory: Memory, tmp_path: Path) -> None:
    token = "sk-ant-api03-" + "a8f3k2j9x7q1m4z6b5" * 2
    for folder, name in ((tmp_path / "vault", token), (tmp_path / token, None)):
        folder.mkdir()
        (folder / "a.md").write_text("text")
        with pytest.raises(SecretFound):
            memory.add_source(folder, name=name)
    assert memory.sources() == []


@pytest.mark.parametrize("caller", [{"origin": Origin.AGENT}, {"origin": Origin.USER, "audience": "group"}])
def test_only_a_person_attaches_and_detaches(
    tmp_path: Path, memory: Memory, caller: dict[str, object]
) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "a.md").write_text("text")
    memory.add_source(tmp_path / "vault", name="vault", scope="project")
    other = connect(home=memory.home.path, cwd=tmp_path / "work", **caller)  # type: ignore[arg-type]  # mixed
    with pytest.raises(NotVisible):
        other.add_source(tmp_path / "vault", name="more", scope="project")
    with pytest.raises(NotVisible):
        other.remove_source("vault")
    assert [source.name for source in memory.sources()] == ["vault"]
