"""Sources: folders and files of Markdown that a person attached, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vademecum.errors import NotVisible, OutsideMemory, SecretFound, UsageError
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
        memory.sources.add(tmp_path / name, name="file")
    assert memory.sources.list() == []


@pytest.mark.parametrize("name", ["CLAUDE.md", "notes.Markdown"])
def test_one_markdown_file_can_be_attached(memory: Memory, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("text")
    assert list(memory.sources.add(tmp_path / name).markdown()) == [tmp_path / name]


def test_a_file_that_was_attached_by_other_means_is_not_read(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0")
    decision = {"path": str(tmp_path / "passwd"), "scope": "global", "inject": True, "at": ""}
    decisions.put(memory.home, "sources", "passwd", decision)
    (source,) = memory.sources.list()
    assert list(source.markdown()) == []


def test_a_name_that_holds_a_secret_is_refused(memory: Memory, tmp_path: Path) -> None:
    token = "sk-ant-api03-" + "a8f3k2j9x7q1m4z6b5" * 2
    for folder, name in ((tmp_path / "vault", token), (tmp_path / token, None)):
        folder.mkdir()
        (folder / "a.md").write_text("text")
        with pytest.raises(SecretFound):
            memory.sources.add(folder, name=name)
    assert memory.sources.list() == []


@pytest.mark.parametrize("caller", [{"origin": Origin.AGENT}, {"origin": Origin.USER, "audience": "group"}])
def test_only_a_person_attaches_and_detaches(
    tmp_path: Path, memory: Memory, caller: dict[str, object]
) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "a.md").write_text("text")
    memory.sources.add(tmp_path / "vault", name="vault", scope="project")
    other = connect(home=memory.home.path, cwd=tmp_path / "work", **caller)  # type: ignore[arg-type]  # mixed
    with pytest.raises(NotVisible):
        other.sources.add(tmp_path / "vault", name="more", scope="project")
    with pytest.raises(NotVisible):
        other.sources.remove("vault")
    assert [source.name for source in memory.sources.list()] == ["vault"]


FOREIGN = [
    "node_modules/left-pad",
    "packages/app/node_modules/@scope/x",
    ".git",
    ".obsidian/plugins",
    ".venv/lib",
    ".tox/py311",
    "venv/lib/python3.11",
    "lib/python3.11/site-packages/numpy",
    "src/__pycache__",
    "rust/target/doc",
    "java/target/site",
    "web/dist",
    "tool/build/lib",
    "go/vendor/github.com/x",
    "env/share",
    "cache/pages",
]
OWN = [
    "",
    "notes",
    "target",
    "dist",
    "build/diary",
    "vendor",
    "env-notes",
    "packages/app",
    "rust",
    "web/docs",
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder in which people and programs have written."""
    for folder in (*FOREIGN, *OWN):
        (tmp_path / "ws" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "ws" / folder / "read.md").write_text(f"# Read {folder}\n\nThe heron of {folder}.\n")
    for name in (
        *("rust/Cargo.toml", "java/pom.xml", "web/package.json", "tool/pyproject.toml", "go/go.mod"),
        *("env/pyvenv.cfg", "cache/CACHEDIR.TAG"),
    ):
        (tmp_path / "ws" / name).write_text("")
    return tmp_path / "ws"


def test_what_programs_fetch_or_build_is_no_part_of_a_source(memory: Memory, workspace: Path) -> None:
    source = memory.sources.add(workspace)
    own = {workspace / folder / "read.md" for folder in OWN}
    assert set(source.markdown()) == own
    assert source.count_files() == (len(own), len(FOREIGN))
    answer = memory.search("heron", sources=[source.name], max_results=100, min_score=0.0)
    assert {each.path for each in answer.results} == {str(path) for path in own}
    assert answer.coverage.files == len(own)


def test_what_is_left_out_cannot_be_read_by_its_path_either(memory: Memory, workspace: Path) -> None:
    memory.sources.add(workspace)
    for folder in OWN:
        assert "heron" in memory.get(str(workspace / folder / "read.md")).text
    for folder in FOREIGN:
        with pytest.raises(OutsideMemory):
            memory.get(str(workspace / folder / "read.md"))


def test_a_folder_is_read_when_it_is_itself_what_was_attached(memory: Memory, workspace: Path) -> None:
    source = memory.sources.add(workspace / "node_modules", name="modules")
    assert list(source.markdown()) == [workspace / "node_modules" / "left-pad" / "read.md"]
    source = memory.sources.add(workspace / "env", name="env")
    assert list(source.markdown()) == [workspace / "env" / "share" / "read.md"]


def test_a_folder_that_becomes_somebody_elses_leaves_the_answers(memory: Memory, workspace: Path) -> None:
    source = memory.sources.add(workspace)
    asked = {"sources": [source.name], "max_results": 100, "min_score": 0.0}
    before = {each.path for each in memory.search("heron", **asked).results}  # type: ignore[arg-type]
    (workspace / "dist" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    after = {each.path for each in memory.search("heron", **asked).results}  # type: ignore[arg-type]
    assert before - after == {str(workspace / "dist" / "read.md")}
