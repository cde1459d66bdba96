"""Twice the text takes about twice the time, in every function that takes text and in every pattern."""

from __future__ import annotations

import os
import random
import re
import signal
from typing import TYPE_CHECKING

import pytest

from fuzz import growth

if TYPE_CHECKING:
    from collections.abc import Iterator

READERS = growth.readers()


def _process() -> tuple[object, ...]:
    """What a reader of text leaves alone, and the tests after it would suffer from."""
    caught = {each: signal.getsignal(each) for each in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM)}
    given = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return signal.getitimer(signal.ITIMER_REAL), os.nice(0), os.getcwd(), given, caught


@pytest.fixture(autouse=True)
def _unchanged_process() -> Iterator[None]:
    before = _process()
    yield
    assert _process() == before


def test_functions_and_patterns_are_found_by_themselves() -> None:
    names = {each.name for each in READERS}
    assert len(READERS) > 400
    assert {
        "knowledge.graph.WIKI",
        "text.secrets.find",
        "store.document.parse",
        "text.statement.split",
    } <= names
    assert len(growth.UNITS) == len(set(growth.UNITS)) >= 100


def test_a_quadratic_pattern_is_noticed() -> None:
    slow = re.compile(r"\[\[([^\]|#\n]{1,120})(?:#[^\]|\n]*)?(?:\|[^\]\n]*)?\]\]")
    planted = growth.Reader("planted", slow.findall)
    assert growth.grows_too_fast(planted, "[[a#", (5_000, 10_000)) is not None


# In the ordinary run each function meets ten of the units, chosen by its name.
@pytest.mark.parametrize("at", range(len(READERS)), ids=[each.name for each in READERS])
def test_time_grows_with_the_text(at: int) -> None:
    units = random.Random(READERS[at].name).sample(growth.UNITS, len(growth.UNITS) // 15)
    slow = [growth.grows_too_fast(READERS[at], unit, growth.SIZES[:2]) for unit in units]
    assert [said for said in slow if said] == []


@pytest.mark.soak
@pytest.mark.parametrize("at", range(len(READERS)), ids=[each.name for each in READERS])
def test_time_grows_with_the_text_for_every_unit(at: int) -> None:
    slow = [growth.grows_too_fast(READERS[at], unit) for unit in growth.UNITS]
    assert [said for said in slow if said] == []
