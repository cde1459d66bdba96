"""The table of promises and threats names each once, and tests that are there."""

from __future__ import annotations

import pytest
from tools import safety


def test_every_promise_and_every_threat_has_one_row_in_order() -> None:
    assert [*safety.mapping()] == safety.IDS
    rows = [line.split("|")[1].strip() for line in safety.table().splitlines()[2:]]
    assert rows == safety.IDS


@pytest.mark.parametrize("name", safety.IDS)
def test_a_row_names_tests_that_exist_or_says_what_is_missing(name: str) -> None:
    row = safety.mapping()[name]
    assert safety.unknown(row["tests"]) == []
    assert row["what"]
    assert row["tests"] or row.get("missing")
    counted = safety.results()
    assert all(counted[each]["usual"] + counted[each]["soak"] > 0 for each in row["tests"])


def test_the_page_has_the_table_as_it_would_be_made_now() -> None:
    page = safety.PAGE.read_text("utf-8")
    assert page.count(safety.BEGIN) == page.count(safety.END) == 1
    shown = page.partition(safety.BEGIN)[2].partition(safety.END)[0].strip()
    assert shown == safety.table()


def test_a_name_that_stands_for_no_test_is_seen() -> None:
    wrong = ["faults/test_nothing.py", "faults/test_kill.py::test_nothing"]
    assert safety.unknown(["faults/test_kill.py", *wrong]) == wrong
