"""The map is of this house: drawn from its imports, every module in it, every path it names there."""

from __future__ import annotations

import re

from tools import house
from tools import map as mapping

WHERE = mapping.DOCS / "where.md"
ROOT = mapping.DOCS.parent


def test_every_package_has_its_place_on_one_of_nine_floors() -> None:
    assert len(mapping.FLOORS) <= 9
    assert mapping.packages() <= {name for floor in mapping.FLOORS for name in floor}
    assert mapping.interfaces() <= {*mapping.INTERFACES}


def test_the_drawing_and_the_list_of_modules_are_up_to_date() -> None:
    stale = "run `python -m tools.map`"
    assert mapping.drawing() == mapping.DRAWING.read_text("utf-8"), stale
    text = mapping.PAGE.read_text("utf-8")
    assert mapping.page(text) == text, stale


def test_imports_lead_from_each_floor_to_a_lower_one_and_few_must_be_drawn() -> None:
    height = {name: number for number, row in enumerate(mapping.FLOORS) for name in row}
    assert [(a, b) for a, b in mapping.edges() if height[a] >= height[b]] == []
    assert len(mapping.arrows()) <= 30


def test_every_module_begins_with_a_sentence() -> None:
    assert [row for row in mapping.listing().splitlines() if row.endswith("|  |")] == []


def test_the_page_of_changes_names_places_that_exist_and_two_at_most() -> None:
    rows = [row for row in WHERE.read_text("utf-8").splitlines() if row.startswith("| **")]
    assert len(rows) >= 10
    for row in rows:
        change, files = row.split("|")[1:3]
        named = re.findall(r"`(src/[^`]+)`", files)
        assert 1 <= len(named) <= 2, f"{change} touches {len(named)} files"
        for path in named:
            there = ROOT / path.partition("NAME")[0]
            assert there.exists(), f"{path} is not there"


def test_the_houses_figures_are_told_without_a_cycle() -> None:
    assert house.cycles() == []
