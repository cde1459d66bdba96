"""A purged text is gone from what people wrote; what gives a file its meaning stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import UsageError
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


def opened(base: Path, origin: Origin = Origin.USER, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=origin, **given)


@pytest.mark.parametrize(
    "wanted",
    ["origin: agent", "agent", "<!-- origin: agent -->", "superseded", "## 20", "num: ", "type", "id:"],
)
def test_a_text_that_only_stands_in_structure_changes_nothing_and_is_reported(
    tmp_path: Path, wanted: str
) -> None:
    agent = opened(tmp_path, Origin.AGENT)
    agent.store("first words", key="topic")
    agent.store("second words", key="topic", mode="replace")
    path = tmp_path / "home" / agent.show("topic").path
    before = path.read_bytes()
    found = opened(tmp_path).purge_text(wanted)
    assert path.read_bytes() == before
    assert [each.gone for each in found if each.where.endswith("records/topic.md")] == [False]


def test_a_text_across_two_entries_goes_and_the_entries_stay(tmp_path: Path) -> None:
    opened(tmp_path, Origin.AGENT).store("first\nCANARY one", key="topic")
    memory = opened(tmp_path)
    memory.store("CANARY two\nlast", key="topic")
    source = (tmp_path / "home" / memory.show("topic").path).read_text()
    memory.purge_text(source[source.index("CANARY one") : source.index("\nlast")])
    entries = memory.show("topic").entries
    assert [(each.text, each.origin) for each in entries] == [
        ("first\n[purged]", Origin.AGENT),
        ("[purged]\nlast", Origin.USER),
    ]


def test_signatures_of_a_pinned_document_stay(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    text = "# One\nagent words\n<!-- origin: agent -->\n\n# Two\nmore agent words\n<!-- origin: agent -->\n"
    memory.edited("MEMORY.md", "", text, scope="global")
    memory.purge_text("agent")
    now = (tmp_path / "home" / "memory" / "global" / "MEMORY.md").read_text()
    assert now.count("<!-- origin: agent -->") == 2
    assert "[purged] words" in now
    assert "more [purged] words" in now


def test_titles_tags_and_a_persons_own_labels_are_cleaned(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("words", key="topic", tags=["CANARY", "kept"])
    path = tmp_path / "home" / memory.show("topic").path
    path.write_text(path.read_text().replace("title: Topic", "title: CANARY bird\nmine: a CANARY"))
    found = memory.purge_text("CANARY")
    assert "CANARY" not in path.read_text()
    assert all(each.gone for each in found)
    record = memory.show("topic")
    assert (record.title, record.tags) == ("[purged] bird", ("[purged]", "kept"))


def test_decisions_and_settings_are_reported_and_stay(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    (tmp_path / "work" / ".git").mkdir()
    memory = opened(tmp_path)
    memory.init()
    found = memory.purge_text("path")
    assert opened(tmp_path).status().trusted is True
    assert [each.gone for each in found if each.where.startswith("decisions/trusted/")] == [False]


def test_a_file_that_cannot_be_read_is_cleaned_byte_by_byte(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    records = tmp_path / "home" / "memory" / "global" / "records"
    records.mkdir(parents=True)
    (records / "torn.md").write_bytes(b"---\nno: [end\n---\n\xff CAN\xc3\x84RY \xff\n")
    memory.purge_text("CANÄRY")
    assert (records / "torn.md").read_bytes() == b"---\nno: [end\n---\n\xff [purged] \xff\n"


@pytest.mark.parametrize("wanted", ["a", "id", " x ", "purged"])
def test_a_text_too_short_to_mean_anything_is_refused(tmp_path: Path, wanted: str) -> None:
    with pytest.raises(UsageError):
        opened(tmp_path).purge_text(wanted)
