"""Memory to look through: a table with facets and cursors, and whose word each entry is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import UsageError
from vademecum.memory import connect
from vademecum.memory.browse import parse_cursor, render_cursor
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vademecum.memory import Memory


def opened(folder: Path, **given: Any) -> Memory:
    project = folder / "atlas"
    project.mkdir(exist_ok=True)
    (project / ".git").mkdir(exist_ok=True)
    return connect(home=folder / "home", cwd=project, environ={}, **given)


def person(folder: Path) -> Memory:
    return opened(folder, origin=Origin.USER, actor="human:ada")


def agent(folder: Path, name: str = "claude-code 2.1", conversation: str = "one") -> Memory:
    return opened(folder, client=name, conversation=conversation)


def keys(memory: Memory, chosen: Mapping[str, list[str]] | None = None, **asked: Any) -> list[str]:
    return [each.record.key for each in memory.browse.table(chosen, **asked).rows]


@pytest.fixture
def filled(tmp_path: Path) -> Memory:
    """Records of a person and of two agents, in two scopes."""
    memory = person(tmp_path)
    memory.store("Deploys run at ten.", key="deploys", tags=["ops"])
    memory.store("I like short answers.", key="answers", type="user", scope="global", tags=["ops", "style"])
    agent(tmp_path).store("The retry test is flaky.", key="flaky", type="discovery")
    agent(tmp_path, "codex 1").store("The cache is Redis.", key="cache", tags=["ops"])
    return memory


def test_a_table_knows_of_each_record_whose_word_it_is(filled: Memory) -> None:
    rows = {each.record.key: each for each in filled.browse.table().rows}
    assert {key: (each.origin, each.trust, each.agent) for key, each in rows.items()} == {
        "deploys": ("user", "user", "you"),
        "answers": ("user", "user", "you"),
        "flaky": ("agent", "unverified", "claude-code"),
        "cache": ("agent", "unverified", "codex"),
    }


def test_a_facet_counts_what_the_other_facets_leave(filled: Memory) -> None:
    page = filled.browse.table({"scope": ["project"]})
    assert sorted(each.record.key for each in page.rows) == ["cache", "deploys", "flaky"]
    assert (page.matching, page.total) == (3, 4)
    assert page.facets["scope"] == {"project": 3, "global": 1}, "its own choice does not count for itself"
    assert page.facets["type"] == {"project": 2, "discovery": 1}
    assert page.facets["age"] == {"today": 3}
    assert page.facets["agent"] == {"you": 1, "claude-code": 1, "codex": 1}


def test_of_values_any_may_hold_and_of_tags_all_must(filled: Memory) -> None:
    assert sorted(keys(filled, {"type": ["user", "discovery"]})) == ["answers", "flaky"]
    assert keys(filled, {"tag": ["ops", "style"]}) == ["answers"]
    assert filled.browse.table({"tag": ["style"]}).facets["tag"] == {"ops": 1, "style": 1}


def test_what_a_person_verifies_is_verified_in_the_table_at_once(filled: Memory) -> None:
    assert keys(filled, {"trust": ["verified"]}) == []
    filled.review.verify("flaky")
    assert keys(filled, {"trust": ["verified"]}) == ["flaky"]


def test_what_two_sessions_found_is_confirmed(tmp_path: Path, filled: Memory) -> None:
    agent(tmp_path, conversation="two").store("The retry test is flaky.", key="flaky")
    assert keys(filled, {"trust": ["confirmed"]}) == ["flaky"]


@pytest.mark.parametrize("sort", ["updated", "created", "key", "number"])
def test_pages_of_any_size_give_every_record_once_in_one_order(filled: Memory, sort: str) -> None:
    whole = keys(filled, sort=sort)
    for size in (1, 3):
        after, found = "", []
        while True:
            page = filled.browse.table(sort=sort, limit=size, after=after)
            found += [each.record.key for each in page.rows]
            after = page.next
            if not after:
                break
        assert found == whole
    assert len(whole) == 4


def test_a_page_goes_on_where_it_was_when_records_come_and_go(filled: Memory) -> None:
    first = filled.browse.table(sort="key", limit=2)
    assert [each.record.key for each in first.rows] == ["answers", "cache"]
    filled.store("A new one.", key="another")
    filled.forget("cache")
    assert keys(filled, sort="key", limit=2, after=first.next) == ["deploys", "flaky"]


def test_a_secret_in_a_file_is_not_in_the_table(tmp_path: Path, filled: Memory) -> None:
    path = tmp_path / "home" / filled.show("deploys").path
    path.write_text(path.read_text("utf-8").replace("at ten", "with AKIA" + "IOSFODNN7EXAMPLQ"), "utf-8")
    (row,) = filled.browse.table({"tag": ["ops"], "origin": ["user"], "scope": ["project"]}).rows
    assert "AKIA" not in row.record.text


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_shown(tmp_path: Path, filled: Memory) -> None:
    folder = (tmp_path / "home" / filled.show("deploys").path).parent
    (folder / "broken.md").write_bytes(b"---\ntype: [\n---\n")
    page = filled.browse.table()
    assert len(page.rows) == 4
    assert [each.where.rpartition("/")[2] for each in page.findings] == ["broken.md"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"chosen": {"colour": ["red"]}}, "no facet colour"),
        ({"sort": "luck"}, "cannot be sorted by luck"),
        ({"after": "x"}, "no place in the list"),
        ({"after": "WzEsMl0"}, "no place in the list"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(
    filled: Memory, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        filled.browse.table(**given)


@given(st.text(), st.text())
def test_a_cursor_is_read_as_it_was_written(place: str, path: str) -> None:
    assert parse_cursor(render_cursor((place, path))) == (place, path)


@given(st.text())
def test_no_text_breaks_a_cursor(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_cursor(text)


def test_each_entry_tells_who_wrote_it_through_which_program(tmp_path: Path, filled: Memory) -> None:
    agent(tmp_path).store("The cache is Redis, port 6380.", key="cache")
    one, two = filled.browse.entries(filled.show("cache"))
    assert (one.client, two.client) == ("codex 1", "claude-code 2.1")
    assert (one.trust.level, two.by) == ("unverified", "process:main")
    (own,) = filled.browse.entries(filled.show("deploys"))
    assert (own.by, own.client, own.trust.level) == ("", "", "user")


def test_a_superseded_entry_names_the_one_that_stands_in_its_place(tmp_path: Path, filled: Memory) -> None:
    filled.store("Deploys run at eleven.", key="deploys", mode="replace")
    old, new = filled.browse.entries(filled.show("deploys"))
    assert not old.entry.live
    assert old.replaced_by == 1
    assert new.replaced_by is None


def test_a_claim_comes_with_the_code_that_it_means_and_how_it_stands(tmp_path: Path, filled: Memory) -> None:
    source = tmp_path / "atlas" / "src" / "db.py"
    source.parent.mkdir()
    source.write_text("import os\n\ndef open_pool(size):\n    return size\n")
    filled.store("`open_pool` in `src/db.py` opens the pool.", key="pool")
    (entry,) = filled.browse.entries(filled.show("pool"))
    told = {each.cited: each for each in entry.claims}
    assert told["open_pool"].standing == "verified"
    assert told["open_pool"].code == "def open_pool(size):\n    return size"
    source.write_text("import os\n")
    (entry,) = filled.browse.entries(filled.show("pool"))
    assert {each.cited: each.standing for each in entry.claims}["open_pool"] == "gone"
