"""What a search promises beside finding: a question is read as it was typed, or the answer says how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import UnknownName
from vademecum.memory import Memory, connect
from vademecum.search import query as querying
from vademecum.types import Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.search.answer import Answer

NOTES = {
    "ferry": "The ferry to the island leaves at eight.",
    "deadlock": "The deadlock in the order table came from two transactions.",
    "lunch": "Lunch is at noon in the garden.",
}


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    given.setdefault("environ", {"VADE_EMBEDDER": "none"})
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, **given)


def keys(answer: Answer) -> list[str | None]:
    return [passage.key for passage in answer.results]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A store that tests only read."""
    memory = opened(tmp_path_factory.mktemp("notes"))
    for key, text in NOTES.items():
        memory.store(text, key=key)
    yield memory
    memory.close()


# --- filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found", "choices"),
    [
        ("type:bogus deadlock", "deadlock", "the types are project, user, feedback"),
        ("scope:bogus deadlock", "deadlock", "the scopes are session, project, agent, global, federated"),
        ("ferry after:yesterday", "ferry", "a date is written as 2026-11-15"),
        ("ferry before:2026-13-45", "ferry", "a date is written as 2026-11-15"),
        ("after:lunch", "lunch", "a date is written as 2026-11-15"),
        ('ferry tag:""', "ferry", "`tag:` needs a value"),
    ],
)
def test_a_filter_that_is_none_is_searched_as_words_and_the_answer_says_so(
    notes: Memory, asked: str, found: str, choices: str
) -> None:
    answer = notes.search(asked, min_score=0.0)
    assert keys(answer)[0] == found
    (note,) = answer.notes
    assert "is not a filter and was searched as words" in note
    assert choices in note
    assert answer.degraded == notes.search(found, min_score=0.0).degraded


def test_a_question_without_filters_or_with_good_ones_has_no_notes(notes: Memory) -> None:
    for asked in ("ferry", "ferry type:project scope:project after:2020 path:ferry", "at 8:30: ferry", ""):
        assert notes.search(asked).notes == ()


def test_many_wrong_filters_are_told_of_a_few_times(notes: Memory) -> None:
    asked = " ".join(f"type:t{number}" for number in range(1_000))
    assert len(notes.search(asked).notes) == querying.MOST_NOTES


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2026-11", "2026-11-01T00:00:00Z"),
        ("2026", "2026-01-01T00:00:00Z"),
        ("2026-11-15", "2026-11-15T00:00:00Z"),
        ("2026-11-15T08:00:00+02:00", "2026-11-15T06:00:00Z"),
        ("2026-13", None),
        ("2026-1", None),
        ("0000", None),
        ("lunch", None),
    ],
)
def test_a_month_or_a_year_means_its_beginning(typed: str, meant: str | None) -> None:
    assert querying.beginning(typed) == meant
    assert querying.parse(f"ferry after:{typed}").after == meant


def test_a_month_filters_by_its_beginning(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    folder = (memory.home.path / memory.store("Nothing.", key="nothing").path).parent
    for month in ("2026-10", "2026-11"):
        (folder / f"ferry-{month}.md").write_text(
            f"---\ntype: project\n---\n# ferry\n\n## {month}-20T10:00:00Z\nThe ferry of {month}.\n"
        )
    assert keys(memory.search("ferry after:2026-11 before:2026-12", min_score=0.0)) == ["ferry-2026-11"]
    assert keys(memory.search("ferry after:2026-10 before:2026-11", min_score=0.0)) == ["ferry-2026-10"]


# --- options ------------------------------------------------------------------------------------------------


def test_an_unknown_source_is_refused_with_those_there_are(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "one.md").write_text("# One\n\nThe heron.\n")
    with pytest.raises(UnknownName, match="'vault' is not a source"):
        memory.search("heron", sources=["vault"])
    memory.add_source(vault)
    assert memory.search("heron", sources=["vault", "memory"], min_score=0.0).results
    with pytest.raises(UnknownName) as refused:
        memory.search("heron", sources=["memory", "bogus"])
    assert refused.value.hint == "the sources are memory, journal, pinned, transcript, vault"
    group = opened(tmp_path, audience="group")
    with pytest.raises(UnknownName) as refused:  # a group is not told what is attached
        group.search("heron", sources=["vault"])
    assert refused.value.hint == "the sources are memory, journal, pinned, transcript"


def test_every_name_of_a_scope_and_a_type_is_a_filter() -> None:
    for scope in Scope:
        assert querying.parse(f"x scope:{scope}").scope is scope
    for kind in RecordType:
        assert querying.parse(f"x type:{kind}").type == str(kind)
