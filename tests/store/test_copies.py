"""Copies under keys of their own: two records with one number or id are told apart, and get their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import Ambiguous, NotFound, VadeError
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.store import short_numbers
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

COPIES = ("other.md", "third.md", "ver-2.md", "ver-backup.md")


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", **{"origin": Origin.USER, "environ": {}, **given})


def copied(memory: Memory, key: str, *names: str) -> None:
    """Copy a record's file under another key, as a person does, with another text in it."""
    path = memory.home.path / memory.show(key).path
    for number, name in enumerate(names):
        (path.parent / name).write_text(path.read_text().replace("Version", f"Copy {number} of version"))


def labels(memory: Memory) -> list[tuple[int | None, str | None]]:
    return [(each.num, each.id) for each in memory.list().records]


def is_settled(memory: Memory) -> bool:
    found = labels(memory)
    nums, ids = {num for num, _ in found}, {id for _, id in found}
    return len(nums) == len(ids) == len(found) and None not in nums | ids


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = opened(tmp_path)
    memory.store("Something else.", key="else")
    memory.store("Version three is out.", key="ver")
    copied(memory, "ver", *COPIES)
    return memory


def test_lint_finds_every_copy_and_says_whose_it_is(memory: Memory) -> None:
    found = [each for each in memory.care.lint() if each.what == "copy"]
    assert {each.where.rpartition("/")[2] for each in found} == set(COPIES)
    for each in found:
        assert "has the number #2 and the id of " in each.why
        assert "/ver.md" in each.why


def test_a_number_of_several_is_never_quietly_one_of_them_and_what_is_said_works(memory: Memory) -> None:
    for name in (2, "#2", memory.show("ver").id):
        with pytest.raises(Ambiguous, match="names 5 records") as refused:
            memory.show(str(name))
    named = str(refused.value).partition("records: ")[2].split(", ")
    assert len(named) == 5
    texts = {memory.show(each).text for each in named}
    assert texts == {
        "Version three is out.",
        *(f"Copy {number} of version three is out." for number in range(4)),
    }
    with pytest.raises(Ambiguous):
        memory.forget(2)
    for each in named:
        if each != "ver":
            memory.forget(each)
    assert [each.key for each in memory.list().records] == ["else", "ver"]
    assert memory.show(2).key == "ver"


@pytest.mark.parametrize(
    "write", ["the original", "a copy", "another", "a new one", "without a key", "a note"]
)
def test_the_next_write_settles_them(memory: Memory, write: str) -> None:
    original = memory.show("ver")
    if write == "a note":  # which has no number, and so settles nothing
        memory.note("A note.")
        assert not is_settled(memory)
        return
    key = {"the original": "ver", "a copy": "ver-2", "another": "else", "a new one": "new"}.get(write)
    stored = memory.store("More of it.", key=key)
    assert is_settled(memory)
    assert (memory.show("ver").num, memory.show("ver").id) == (original.num, original.id)
    assert memory.show(stored.num or "").id == stored.id
    assert [each for each in memory.care.lint() if each.what == "copy"] == []
    assert memory.audit.verify().problems == ()


def test_settling_changes_no_word(memory: Memory) -> None:
    before = {each.path: [entry.text for entry in each.entries] for each in memory.list().records}
    memory.store("More of it.", key="else")
    after = {each.path: [entry.text for entry in each.entries] for each in memory.list().records}
    assert {**after, memory.show("else").path: before[memory.show("else").path]} == before


def test_a_number_typed_ahead_of_the_counter_is_not_given_again(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    path = memory.home.path / memory.store("One.", key="one").path
    (path.parent / "mine.md").write_text("---\ntype: project\nnum: 7\n---\n# mine\n\nBy hand.\n")
    assert memory.store("Two.", key="two").num == 8
    assert memory.show(7).key == "mine"


def test_a_number_typed_twice_stays_with_the_older_record(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    path = memory.home.path / memory.store("One.", key="one").path
    (path.parent / "mine.md").write_text("---\ntype: project\nnum: 1\n---\n# mine\n\nBy hand.\n")
    stored = memory.store("More by hand.", key="mine")
    assert stored.num == memory.show("mine").num == 2
    assert memory.show(1).key == "one"


def test_a_copy_in_another_scope_is_a_copy_too(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    path = memory.home.path / memory.store("One.", key="one").path
    other = memory.home.path / "memory/global/records/one.md"
    other.parent.mkdir(parents=True)
    other.write_bytes(path.read_bytes())
    with pytest.raises(Ambiguous) as refused:
        memory.forget(1)
    assert "one --scope project" in str(refused.value)
    assert "one --scope global" in str(refused.value)
    assert memory.show("one").place.scope == "project"  # by its key the nearest one answers, as ever
    memory.store("Two.", key="two")
    assert is_settled(memory)


def test_two_files_of_one_key_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    folder = (memory.home.path / memory.store("One.", key="one").path).parent
    (folder / "My Note.md").write_text("# a\n\nFirst.\n")
    (folder / "my_note.md").write_text("# b\n\nSecond.\n")
    with pytest.raises(VadeError, match="have the same key") as refused:
        memory.show("my-note")
    assert "its path" in refused.value.hint
    paths = re.findall(r"memory/\S+?/records/[^/]+?\.md", str(refused.value))
    assert {memory.show(each).text for each in paths} == {"First.", "Second."}


@pytest.mark.parametrize("name", ["memory/../../etc/passwd.md", "records/one.md", "/etc/one.md", "a/b"])
def test_a_path_that_is_no_records_finds_nothing(tmp_path: Path, name: str) -> None:
    memory = opened(tmp_path)
    memory.store("One.", key="one")
    with pytest.raises(NotFound):
        memory.show(name)


def test_in_a_very_large_store_a_write_does_not_look_for_copies_and_lint_does(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_numbers, "MOST", 3)
    memory.store("More of it.", key="else")
    assert not is_settled(memory)
    assert [each for each in memory.care.lint() if each.what == "copy"]


def test_the_command_line_says_what_to_type(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    assert run(["show", "2"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ver-2" in said
    assert run(["show", "ver-2"]) == 0
    assert "Copy 2" in capsys.readouterr().out
    path = next(each.path for each in memory.list().records if each.path.endswith("ver-backup.md"))
    assert run(["forget", path, "--yes"]) == 0
    assert not (tmp_path / "home" / path).exists()
