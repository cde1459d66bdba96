"""The block in the files that agents read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.agents import registry
from vademecum.errors import OutsideMemory, UnknownName
from vademecum.inject import injection
from vademecum.inject.injection import BEGIN, END, insert_block
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory

BLOCK = "<vade-memory>\nwords\n</vade-memory>\n"
OTHER = "<vade-memory>\nother\n</vade-memory>\n"


@given(st.text(st.sampled_from("ab\n\r #"), max_size=60))
def test_all_else_stays_and_a_second_time_changes_nothing(text: str) -> None:
    once = insert_block(text, BLOCK)
    assert once.startswith(text)
    assert insert_block(once, BLOCK) == once
    assert insert_block(insert_block(once, OTHER), BLOCK) == once


@given(
    st.lists(
        st.sampled_from([BEGIN, END, "text", "more", "", "<vade-memory>", "</vade-memory>"]), max_size=12
    )
)
def test_broken_marks_are_mended_and_no_text_goes(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    once = insert_block(text, BLOCK)
    assert once.count(BEGIN) == once.count(END) == 1
    assert BLOCK in once
    assert insert_block(once, BLOCK) == once


def test_text_behind_a_lost_end_stays() -> None:
    once = insert_block(f"mine\n{BEGIN}\nold words\nmine too\n", BLOCK)
    assert "mine\nold words\nmine too\n" in once


def test_somebodys_text_between_a_copy_of_the_marks_stays() -> None:
    text = f"{BEGIN}\n{BLOCK}{END}\nmine\n{BEGIN}\nmy own words\n{END}\n{BEGIN}\n{OTHER}{END}\n"
    once = insert_block(text, BLOCK)
    assert "my own words" in once
    assert "other" not in once
    assert once.count(BEGIN) == 1


def test_an_empty_block_takes_it_away_again() -> None:
    text = "# Mine\n"
    assert insert_block(insert_block(text, BLOCK), "").strip() == "# Mine"


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    (tmp_path / "work").mkdir()
    found = connect(
        home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER, environ={}, session="s"
    )
    found.store("Always use pytest.", key="testing")
    found.store("A private thing.", key="private", scope="global")
    found.store("A session thing.", key="now", scope="session")
    return found


FILES = {
    name: agent.instructions for name, agent in registry.having("instructions").items() if agent.instructions
}


@pytest.mark.parametrize("agent", sorted(FILES))
def test_each_agents_file_gets_what_a_group_may_see(agent: str, memory: Memory, tmp_path: Path) -> None:
    path = (tmp_path / "work").joinpath(*FILES[agent].parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not FILES[agent].opening:
        path.write_text("# Rules\n\nMine.\n")
    kept = memory.injection.write_file(agent)
    assert kept.path == path
    assert kept.changed
    text = path.read_text()
    assert FILES[agent].opening in text
    assert "Always use pytest." in text
    assert "private thing" not in text
    assert "session thing" not in text
    assert not memory.injection.write_file(agent).changed
    memory.injection.write_file(agent, audience="private")
    assert "private thing" in path.read_text()


def test_a_link_inside_the_project_is_followed_and_one_out_of_it_is_not(
    memory: Memory, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    (work / "AGENTS.md").write_text("# Rules\n")
    (work / "CLAUDE.md").symlink_to("AGENTS.md")
    memory.injection.write_file("claude-code")
    assert (work / "CLAUDE.md").is_symlink()
    assert "pytest" in (work / "AGENTS.md").read_text()
    (tmp_path / "elsewhere.md").write_text("not mine\n")
    (work / "GEMINI.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(OutsideMemory):
        memory.injection.write_file("gemini")
    assert (tmp_path / "elsewhere.md").read_text() == "not mine\n"


def test_an_unknown_agent_is_refused(memory: Memory) -> None:
    with pytest.raises(UnknownName):
        memory.injection.write_file("emacs")


def test_windows_line_ends_stay(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "work" / "CLAUDE.md"
    path.write_bytes(b"# Mine\r\n\r\ntext\r\n")
    memory.injection.write_file("claude-code")
    content = path.read_bytes()
    assert content.startswith(b"# Mine\r\n\r\ntext\r\n")
    assert content.count(b"\n") == content.count(b"\r\n")
    assert injection.BEGIN.encode() in content
