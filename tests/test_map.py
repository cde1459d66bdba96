"""The map is of this house: drawn from its imports, every module in it, every path it names there."""

from __future__ import annotations

import re

from tools import house
from tools import map as mapping

WHERE = mapping.DOCS / "where.md"
ROOT = mapping.DOCS.parent


def test_every_package_has_its_place_in_the_drawing() -> None:
    drawn = {name for row in mapping.ROWS for name in row}
    assert mapping.packages() <= drawn


def test_the_drawing_and_the_list_of_modules_are_up_to_date() -> None:
    stale = "run `python -m tools.map`"
    assert mapping.drawing() == mapping.DRAWING.read_text("utf-8"), stale
    text = mapping.PAGE.read_text("utf-8")
    assert mapping.page(text) == text, stale


def test_all_lines_of_the_drawing_lead_down() -> None:
    height = {name: number for number, row in enumerate(mapping.ROWS) for name in row}
    assert [(a, b) for a, b in mapping.edges() if height[a] >= height[b]] == []


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
