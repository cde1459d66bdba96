"""Prompts and tools: the set is what it claims to be, and ranking counts what stands first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bench import tool_texts as tools
from bench.small_sets import HELD, TUNE, half

from vademecum.interfaces.mcp.protocol import OFFER


def test_the_set_has_each_prompt_once_and_names_the_tools_that_the_older_ones_became() -> None:
    prompts = tools.read_prompts()
    assert len({each.id for each in prompts}) == len({each.prompt for each in prompts}) == len(prompts)
    named = {name for each in prompts for name in each.tools}
    assert named == set(tools.read_texts(Path(OFFER)))
    assert named == set(tools.merge(dict.fromkeys(tools.read_texts(tools.BEFORE), 1.0)))


def test_of_tools_that_became_one_the_best_counts_and_one_that_is_gone_does_not() -> None:
    before = {
        "memory_recall": 1.0,
        "memory_search": 2.0,
        "session_search": 3.0,
        "todo": 9.0,
        "memory_get": 0.5,
    }
    assert tools.merge(before) == {"memory_search": 3.0, "memory_get": 0.5}


def test_the_set_is_large_enough_in_both_halves_and_has_prompts_that_no_tool_fits() -> None:
    prompts = tools.read_prompts()
    fitting = Counter(half(each.id) for each in prompts if each.tools)
    none = Counter(half(each.id) for each in prompts if not each.tools)
    assert fitting.total() >= 80
    assert none.total() >= 15
    assert min(fitting[TUNE], fitting[HELD]) >= 40
    assert min(none[TUNE], none[HELD]) >= 5


def test_a_right_tool_that_only_ties_with_another_does_not_stand_first() -> None:
    assert tools.place({"one": 2.0, "two": 1.0, "three": 0.0}, ["one"]) == 1
    assert tools.place({"one": 2.0, "two": 2.0, "three": 0.0}, ["one"]) == 2
    assert tools.place({"one": 0.0, "two": 0.0, "three": 0.0}, ["one"]) == 3


def test_of_several_right_tools_the_best_counts_and_the_others_are_not_in_its_way() -> None:
    assert tools.place({"one": 1.0, "two": 3.0, "three": 2.0}, ["one", "two"]) == 1
    assert tools.place({"one": 2.0, "two": 2.0, "three": 3.0}, ["one", "two"]) == 2


def test_prompts_for_no_tool_count_apart_from_those_that_have_one() -> None:
    def ranked(id_: str, right: tuple[str, ...], **scores: float) -> tools.Ranked:
        return tools.Ranked(tools.Prompt(id_, id_, right), scores)

    counted = tools.count(
        [
            ranked("a", ("one",), one=3.0, two=1.0, three=0.0),
            ranked("b", ("one",), one=1.0, two=2.0, three=0.0),
            ranked("c", ("one",), one=0.0, two=1.0, three=0.5),
            ranked("d", ("three",), one=0.0, two=0.0, three=1.0),
            ranked("e", (), one=1.0, two=0.0, three=0.0),
        ]
    )
    assert counted == {
        "prompts": 4,
        "first": 0.5,
        "first two": 0.75,
        "for none": 1,
        "told from none": 0.75,  # two above it, two the same
    }


def test_words_that_few_tools_have_count_more_and_underscores_part_words() -> None:
    texts = {"file_read": "read a file", "file_drop": "drop a file", "file_list": "list files in a folder"}
    (scores,) = tools.by_words(texts, ["Please drop that file"])
    assert tools.place(scores, ["file_drop"]) == 1
    assert 0 < scores["file_list"] < scores["file_drop"]
    assert tools.by_words({"a": "memory_store", "b": "other"}, ["store"])[0]["a"] > 0


def test_what_is_said_of_arguments_is_read_only_when_it_is_wanted() -> None:
    assert "The first line" not in tools.read_texts(tools.BEFORE)["memory_get"]
    assert "The first line" in tools.read_texts(tools.BEFORE, explained=True)["memory_get"]


@pytest.mark.parametrize("way", tools.RANKERS)
def test_every_way_ranks_a_text_first_for_its_own_words(way: str) -> None:
    texts = {"cook": "Cook soup from fresh vegetables.", "drive": "Drive the car to the garage."}
    scores = tools.RANKERS[way](texts, list(texts.values()))
    assert [tools.place(each, [name]) for name, each in zip(texts, scores, strict=True)] == [1, 1]
