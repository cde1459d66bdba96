"""The table of promises and threats names each once, and tests that are there."""

from __future__ import annotations

from tools import safety


def test_every_promise_and_every_threat_has_one_row_in_order() -> None:
    assert [*safety.mapping()] == safety.IDS
    rows = [line.split("|")[1].strip() for line in safety.table().splitlines()[2:]]
    assert rows == safety.IDS


def test_a_row_names_tests_that_exist_or_says_what_is_missing() -> None:
    for name, row in safety.mapping().items():
        assert safety.unknown(row["tests"]) == [], name
        assert row["what"], name
        assert row["tests"] or row.get("missing"), name
        assert all(sum(safety.counts()[test].values()) for test in row["tests"]), name


def test_every_row_that_has_tests_is_guarded_by_make_test() -> None:
    rows = [name for name, row in safety.mapping().items() if row["tests"]]
    assert [name for name in rows if not safety.count_row(name)["test"]] == []


def test_the_page_has_the_table_as_it_would_be_made_now() -> None:
    page = safety.PAGE.read_text("utf-8")
    assert page.count(safety.BEGIN) == page.count(safety.END) == 1
    shown = page.partition(safety.BEGIN)[2].partition(safety.END)[0].strip()
    assert shown == safety.table()


def test_a_name_that_stands_for_no_test_is_seen() -> None:
    wrong = ["faults/test_nothing.py", "faults/test_kill.py::test_nothing"]
    assert safety.unknown(["faults/test_kill.py", *wrong]) == wrong
