"""Every entry that is written has an id of its own; what a person typed is never rewritten to get one."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from vademecum.memory import connect
from vademecum.text import document, names
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory

ID = re.compile(r"<!-- origin: \w+ \| id: ([0-9a-hjkmnp-tv-z]{10})(?: \| [^\n]*)? -->")


def opened(base: Path, origin: Origin = Origin.USER) -> Memory:
    (base / "project").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "project", origin=origin, session="s", environ={})


def file_of(base: Path, key: str) -> Path:
    [found] = (base / "home/memory").rglob(f"{key}.md")
    return found


def test_each_door_writes_an_id_that_is_unique_in_its_document(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Use pytest.", key="testing")
    memory.store("Use tox too.", key="testing")
    opened(tmp_path, Origin.AGENT).store("Run ruff.", key="testing")
    memory.note("A note.")
    memory.note("Another note.")
    memory.knowledge.learn("discovery", fact="The cache is warm")
    for path in (tmp_path / "home/memory").rglob("*.md"):
        entries = document.parse(path.read_text()).entries
        ids = ID.findall(path.read_text())
        assert [each.id for each in entries] == ids
        assert len(set(ids)) == len(ids) == len(entries)


def test_an_entry_is_found_again_by_its_id_after_edits_and_marks(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Use pytest.", key="testing")
    path = file_of(tmp_path, "testing")
    [mark] = ID.findall(path.read_text())
    path.write_text(path.read_text().replace("Use pytest.", "Use pytest 9."))
    memory.store("Use unittest.", key="testing", mode="replace")
    first, second = document.parse(path.read_text()).entries
    assert first.id == mark
    assert first.text == "Use pytest 9."
    assert not first.live
    assert second.id not in (None, mark)


def test_a_signature_keeps_its_id_when_origin_and_marks_change() -> None:
    text = document.append("", Entry("Use pytest.", "2026-01-01T00:00:00Z", Origin.AGENT, id="7k3m9q2x4w"))
    assert "<!-- origin: agent | id: 7k3m9q2x4w -->" in text
    signed = document.sign(document.parse(text), 0, origin=Origin.USER, superseded="2026-01-02T00:00:00Z")
    assert "<!-- origin: user | id: 7k3m9q2x4w | superseded: 2026-01-02T00:00:00Z -->" in signed


def test_an_id_that_is_taken_in_a_document_is_not_given_again() -> None:
    entry = Entry("Use pytest.", "2026-01-01T00:00:00Z", Origin.USER, id="7k3m9q2x4w")
    text = document.append(document.append("", entry), entry)
    first, second = document.parse(text).entries
    assert first.id == "7k3m9q2x4w"
    assert second.id not in (None, first.id)


def test_what_was_typed_by_hand_is_never_rewritten_to_get_an_id(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Use pytest.", key="testing")
    path = file_of(tmp_path, "testing")
    old = "## 2020-01-01T00:00:00Z\nOld words.\n<!-- origin: agent -->\n\n## 2020-01-02\nTyped by hand.\n\n"
    path.write_text(path.read_text().replace("# testing\n\n", f"# testing\n\n{old}"))
    memory.store("Use tox.", key="testing")
    memory.store("Use nox.", key="testing", mode="replace")
    memory.review.protect("testing")
    assert old in path.read_text()


def test_a_forgotten_record_comes_back_with_the_ids_it_had(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Use pytest.", key="testing")
    before = ID.findall(file_of(tmp_path, "testing").read_text())
    memory.forget("testing")
    memory.archive.restore("testing")
    assert ID.findall(file_of(tmp_path, "testing").read_text()) == before


def test_an_entry_that_an_editor_took_out_comes_back_with_its_id(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Use pytest.", key="testing")
    path = file_of(tmp_path, "testing")
    before = path.read_text()
    memory.store("Use tox.", key="testing")
    _, second = ID.findall(path.read_text())
    path.write_text(before)  # an editor saves an old buffer
    memory.archive.restore("testing")
    assert second in ID.findall(path.read_text())


def test_a_copied_block_and_a_copied_file_are_told(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Use pytest.", key="testing")
    path = file_of(tmp_path, "testing")
    assert [each for each in memory.care.lint() if each.what == "copy"] == []
    block = path.read_text()[path.read_text().index("## 2") :]
    path.write_text(f"{path.read_text()}\n{block}")
    [told] = [each for each in memory.care.lint() if each.what == "copy"]
    assert "has the id of the entry in line" in told.why
    shutil.copy(path, path.with_name("another.md"))
    told_of = [each.why for each in memory.care.lint() if each.what == "copy"]
    assert any("and the id of" in why for why in told_of)


@pytest.mark.parametrize("word", ["7k3m9q2x4w", "origin: user | id: 7k3m9q2x4w"])
def test_a_purge_of_a_text_leaves_the_ids_of_entries(tmp_path: Path, word: str) -> None:
    memory = opened(tmp_path)
    memory.store("The word is here.", key="testing")
    path = file_of(tmp_path, "testing")
    [mark] = ID.findall(path.read_text())
    memory.archive.purge_text(word.replace("7k3m9q2x4w", mark))
    assert ID.findall(path.read_text()) == [mark]


def test_an_id_is_of_letters_that_nobody_mixes_up() -> None:
    drawn = {names.new_mark() for _ in range(500)}
    assert len(drawn) == 500
    assert all(re.fullmatch("[0-9a-hjkmnp-tv-z]{10}", each) for each in drawn)
    assert len(set("".join(drawn))) == 32
