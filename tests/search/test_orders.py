"""The order of answers: what it says it is, the same however things were written, and told in numbers."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from cases import every_case
from vademecum.errors import UnknownName
from vademecum.index.base import Mark
from vademecum.memory import Memory, connect
from vademecum.search import rank, relevance
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from vademecum.search.base import Answer

NOW = datetime.now(UTC)


def opened(base: Path, *, environ: dict[str, str] | None = None, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    environ = {"VADE_EMBEDDER": "local", **(environ or {})}
    return connect(home=base / "home", cwd=base / "work", environ=environ, origin=Origin.USER, **given)


def written(
    base: Path, days: dict[str, float], text: str = "The heron stands in the pond.", **given: Any
) -> Memory:
    """A memory whose records were each written so many days ago."""
    for key, age in days.items():
        moment = NOW - timedelta(days=age)
        with opened(base, now=lambda moment=moment: moment, **given) as memory:
            memory.store(text, key=key)
    return opened(base, **given)


def keys(answer: Answer) -> list[str | None]:
    return [each.key for each in answer.results]


def use(memory: Memory, key: str, times: int) -> None:
    """Show a record as often, a minute apart."""
    item = memory.show(key).path
    for number in range(times):
        memory.workspace.state.used([item], at=NOW + timedelta(minutes=number))


# --- sort_by ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["heron", ""])
def test_recency_puts_the_newest_first(tmp_path: Path, query: str) -> None:
    with written(tmp_path, {"b-old": 90, "c-new": 1, "a-middle": 30, "d-oldest": 400}) as memory:
        found = memory.search(query, sort_by="recency", mode="bm25", min_score=0.0)
        assert keys(found) == ["c-new", "a-middle", "b-old", "d-oldest"]
        assert keys(memory.recall(query, sort_by="recency", limit=2)) == ["c-new", "a-middle"]


@pytest.mark.parametrize("query", ["heron", ""])
def test_usage_puts_what_was_shown_most_often_first(tmp_path: Path, query: str) -> None:
    with written(tmp_path, {"a": 1, "b": 2, "c": 3, "d": 4}) as memory:
        use(memory, "c", 3)
        use(memory, "d", 2)
        found = memory.recall(query, sort_by="usage", mode="bm25")
        assert keys(found) == ["c", "d", "a", "b"]  # those never used by their age
        assert [each.score for each in found.results] == [3.0, 2.0, 0.0, 0.0]


def test_a_use_is_counted_once_a_minute_and_only_when_shown(tmp_path: Path) -> None:
    with written(tmp_path, {"a": 1, "b": 2}) as memory:
        for _ in range(5):
            memory.search("heron", max_results=1)
        shown = memory.search("heron", max_results=1).results[0].key
        found = memory.search("heron", sort_by="usage", max_results=5)
        assert {each.key: each.score for each in found.results} == {
            each.key: float(each.key == shown) for each in found.results
        }
        assert len(found.results) == 2


def test_a_group_leaves_no_trace_in_the_counts(tmp_path: Path) -> None:
    written(tmp_path, {"a": 1}).close()
    with opened(tmp_path, audience="group") as group:
        assert keys(group.search("heron")) == ["a"]
    with opened(tmp_path) as memory:
        assert memory.workspace.state.uses([memory.show("a").path]) == {}


def test_without_a_question_the_most_used_of_all_comes_first_however_old_it_is(tmp_path: Path) -> None:
    with written(tmp_path, {"oldest": 300, **{f"key-{number}": number for number in range(1, 9)}}) as memory:
        use(memory, "oldest", 5)
        assert keys(memory.recall("", sort_by="usage", limit=1)) == ["oldest"]
        assert keys(memory.recall("", sort_by="usage", limit=3))[0] == "oldest"


def test_score_is_the_three_factors_as_they_are_documented(tmp_path: Path) -> None:
    with written(tmp_path, {"a": 60, "b": 10, "c": 1, "d": 200}) as memory:
        use(memory, "a", 40)
        use(memory, "d", 3)
        found = memory.search("heron", sort_by="score", mode="bm25", min_score=0.0)
        uses = {"a": 40, "b": 0, "c": 0, "d": 3}
        days = {"a": 60, "b": 10, "c": 1, "d": 200}
        wanted = {key: rank.three_factors(keywords=1.0, days=days[key], uses=uses[key]) for key in days}
        assert keys(found) == sorted(wanted, key=lambda key: -wanted[key])
        assert keys(found)[0] == "c"
        for each in found.results:
            assert each.score == pytest.approx(wanted[str(each.key)], abs=0.002)


@every_case(
    ("keywords", "days", "uses", "wanted"),
    [
        (1.0, 0.0, 100, 1.0),
        (0.0, float("inf"), 0, 0.0),
        (0.5, 30.0, 0, 0.25 + 0.15),
        (9.0, -5.0, 10**9, 1.0),
        (-1.0, 0.0, -3, 0.3),
    ],
)
def test_three_factors_stay_between_nothing_and_one(
    keywords: float, days: float, uses: int, wanted: float
) -> None:
    assert rank.three_factors(keywords=keywords, days=days, uses=uses) == pytest.approx(wanted)


@pytest.mark.parametrize("odd", ["newest", "", "RECENCY", "score; drop", "\0"])
def test_an_order_that_is_none_is_refused_with_the_ones_there_are(tmp_path: Path, odd: str) -> None:
    with opened(tmp_path) as memory:
        for ask in (memory.search, memory.recall):
            with pytest.raises(UnknownName) as raised:
                ask("heron", sort_by=odd)
            assert "recency, score, usage" in str(raised.value.hint)


def test_include_related_is_taken_and_changes_nothing(tmp_path: Path) -> None:
    with written(tmp_path, {"a": 1, "b": 2}) as memory:
        assert memory.recall("heron", include_related=True) == memory.recall("heron")


# --- ties ---------------------------------------------------------------------------------------------------

MOMENT = datetime(2026, 3, 2, 8, tzinfo=UTC)
SCOPES = ["session", "project", "agent", "global"]
WANTED = [("session", "m"), ("project", "b"), ("project", "x"), ("agent", "k"), ("global", "a")]
WAYS: list[dict[str, Any]] = [
    {"query": "heron", "mode": "bm25"},
    {"query": "heron", "mode": "hybrid"},
    {"query": "heron", "mode": "vector"},
    {"query": "heron", "mode": "hybrid", "sort_by": "recency"},
    {"query": "heron", "mode": "hybrid", "sort_by": "usage"},
    {"query": "heron", "mode": "hybrid", "sort_by": "score"},
    {"query": ""},
    {"query": "", "sort_by": "recency"},
    {"query": "", "sort_by": "usage"},
    {"query": "", "sort_by": "score"},
]


def tied(base: Path, order: Iterable[tuple[str, str]]) -> Memory:
    """Records of one moment, one title and one text, written in some order and taken in one by one."""
    memory = opened(base, session="monday", now=lambda: MOMENT)
    for scope, key in order:
        path = base / "home" / memory.store("The heron stands in the pond.", key=key, scope=scope).path
        path.write_text(
            path.read_text().replace(f"title: {key.upper()}", "title: Heron").replace(f"# {key}\n", "")
        )
        memory.search("heron")
    return memory


@pytest.mark.parametrize(
    "rearrange",
    [list, lambda all_: all_[::-1], lambda all_: all_[2:] + all_[:2]],
    ids=["as", "back", "mixed"],
)
def test_what_scores_the_same_goes_by_scope_then_by_path_however_it_was_written(
    tmp_path: Path, rearrange: Callable[[list[Any]], list[Any]]
) -> None:
    wrong = []
    with tied(tmp_path, rearrange(WANTED)) as memory:
        for given in WAYS:
            found = memory.search(**given, min_score=0.0).results
            assert len({each.score for each in found}) == 1, given
            order = [(str(each.place.scope), str(each.key)) for each in found]
            assert sorted(order) == sorted(WANTED)
            if order != sorted(order, key=lambda each: (SCOPES.index(each[0]), each[1])):
                wrong.append((given, order))
    assert wrong == []


# --- the arithmetic -----------------------------------------------------------------------------------------


def worked_out(numbers: Any) -> float:
    """The score, from nothing but the numbers that are told."""
    parts = (
        numbers["vector_factor"] * max(0.0, numbers["cosine"] - numbers["mean_cosine"])
        + numbers["narrow_factor"] * numbers["bm25_narrow"]
        + numbers["wide_factor"] * numbers["bm25_wide"]
        + numbers["exact_factor"] * numbers["exact"]
    )
    assert parts == pytest.approx(numbers["sum"], abs=1e-6)
    speech_gain = sum(numbers[name] for name in ("own", "named", "asking", "when", "how_many"))
    added = sum(numbers.get(name, 0.0) for name in ("stage", "of_its_time"))
    own = (parts + speech_gain + added) * numbers["not_by_reading"] + numbers["by_reading"]
    lifted = own * numbers["superseded"] + numbers["above_superseded"]
    return float(lifted * numbers.get("crowding", 1.0) + numbers["raised"])


def vault(base: Path, memory: Memory) -> None:
    folder = base / "vault"
    folder.mkdir()
    section = "The {0} stands in the pond and waits for {1}. " * 20
    for bird in ("heron", "stork", "owl"):
        text = "".join(f"## {food}\n\n{section.format(bird, food)}\n\n" for food in ("frogs", "mice", "fish"))
        (folder / f"{bird}.md").write_text(f"# {bird}\n\n{text}")
    memory.sources.add(folder)


HISTORY = """---
id: 01K00000000000000000000000
num: 7
---
# Database

## 2025-01-10T08:00:00Z
The heron is kept in a Firebird cluster.
<!-- origin: user | superseded: 2025-06-01T08:00:00Z -->

## 2025-06-01T08:00:00Z
The heron is kept in a PostgreSQL cluster.
<!-- origin: user -->
"""


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "vector"])
@pytest.mark.parametrize(
    "question", ["heron", "which bird waits for mice in the pond?", '"stands in the pond" E40']
)
def test_the_score_can_be_worked_out_from_the_numbers_that_explain_it(
    tmp_path: Path, mode: str, question: str
) -> None:
    with written(tmp_path, {"a": 1, "b": 2}) as memory:
        memory.store("The error E4017 comes from the heron.", key="error")
        results = memory.search(question, mode=mode, explain=True, min_score=0.0, max_results=20).results
        own = [(each.arithmetic or {})["relevance"] for each in results]
        assert relevance.falling(own) == pytest.approx([each.relevance for each in results], abs=1e-4)
        for each in results:
            assert each.arithmetic is not None
            assert worked_out(each.arithmetic) == pytest.approx(each.score, abs=1e-4)
            assert sum(list(each.components.values())[:4]) == pytest.approx(
                each.components["score"], abs=3e-4
            )


def test_the_score_of_a_further_chunk_of_a_file_can_be_worked_out(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        vault(tmp_path, memory)
        found = memory.search("heron pond mice", explain=True, min_score=0.0, max_results=20).results
        assert len({each.path for each in found}) < len(found)
        for each in found:
            assert worked_out(each.arithmetic) == pytest.approx(each.score, abs=1e-4), each.arithmetic


@pytest.mark.parametrize("as_of", [None, "2025-03-01"])
def test_the_score_of_a_superseded_entry_can_be_worked_out(tmp_path: Path, as_of: str | None) -> None:
    with opened(tmp_path, environ={"VADE_CHUNK_TOKENS": "50"}) as memory:
        path = tmp_path / "home" / memory.store("placeholder", key="database").path
        path.write_text(HISTORY)
        found = memory.search("heron Firebird cluster", explain=True, min_score=0.0, as_of=as_of).results
        old = [each for each in found if each.superseded]
        assert old
        for each in found:
            assert worked_out(each.arithmetic) == pytest.approx(each.score, abs=1e-4), each.arithmetic


def test_nothing_is_explained_unless_asked_for(tmp_path: Path) -> None:
    with written(tmp_path, {"a": 1}) as memory:
        assert [each.arithmetic for each in memory.search("heron").results] == [None]


# --- quotas -------------------------------------------------------------------------------------------------


def test_a_source_makes_room_for_others_and_leaves_no_place_empty(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        folder = tmp_path / "vault"
        folder.mkdir()
        for number in range(12):
            (folder / f"{number:02}.md").write_text(f"Heron, heron, heron and heron {number}.\n")
        memory.sources.add(folder)
        every = memory.search("heron", mode="bm25", max_results=6, min_score=0.0)
        assert [each.source for each in every.results] == ["vault"] * 6  # nobody else has anything to say
        memory.store("Long before noon a grey heron was standing there in the water among reeds.", key="own")
        memory.note("In the evening somebody saw a heron fly over the house towards the wide river.")
        found = memory.search("heron", mode="bm25", max_results=6, min_score=0.0)
        sources = [each.source for each in found.results]
        assert len(sources) == 6
        assert sources.count("vault") == 4
        assert {"memory", "journal"} <= set(sources)
        assert [each.score for each in found.results] == sorted(
            (each.score for each in found.results), reverse=True
        )
        one = memory.search("heron", mode="bm25", max_results=1, min_score=0.0)
        assert len(one.results) == 1


@every_case(
    ("sources", "limit", "wanted"),
    [
        ("aaaaaaaa", 6, [0, 1, 2, 3, 4, 5]),
        ("aaaaaabb", 6, [0, 1, 2, 3, 6, 7]),
        ("aaaaaab", 6, [0, 1, 2, 3, 4, 6]),
        ("mmmmmmaa", 6, [0, 1, 2, 3, 4, 5]),
        ("aaaaabbbbb", 6, [0, 1, 2, 3, 5, 6]),
        ("ab", 6, [0, 1]),
        ("aab", 1, [0]),
        ("aab", 2, [0, 1]),
        ("aaab", 3, [0, 1, 3]),
        ("", 6, []),
        ("aaa", 0, []),
    ],
)
def test_a_quota_holds_while_others_are_there_and_the_order_stays(
    sources: str, limit: int, wanted: list[int]
) -> None:
    marks = {
        at: Mark(at, 0, "memory" if each == "m" else each, superseded=False, alone=True)
        for at, each in enumerate(sources)
    }
    assert rank.take_turns([*marks], marks, limit, free=frozenset({"memory"})) == wanted


def test_a_file_of_many_matching_chunks_does_not_fill_the_page(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        vault(tmp_path, memory)
        found = memory.search("pond", mode="bm25", max_results=3, min_score=0.0).results
        assert len({os.path.basename(each.path) for each in found}) == 3
