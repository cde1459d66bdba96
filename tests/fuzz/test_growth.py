"""Twice the text takes about twice the time, in every function that takes text and in every pattern.

Only `make test-all` and `make soak` run these tests: CPU time is measured, and a busy machine makes it noisy.
A doubling counts only when it was too slow in three looks.
"""

from __future__ import annotations

import importlib
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
PACKAGES: dict[str, list[growth.Reader]] = {}
for _reader in READERS:
    PACKAGES.setdefault(".".join(_reader.name.split(".")[:2]), []).append(_reader)


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
        "text.document.parse",
        "text.statement.split",
    } <= names
    assert len(growth.UNITS) == len(set(growth.UNITS)) >= 100


def test_every_exception_names_something_that_is_there() -> None:
    modules = {each.name.removeprefix("vademecum.") for each in growth.modules()}
    missing = [name for name in growth.OUTSIDE if name not in modules]
    for name in growth.ALONE:
        module, _, function = name.rpartition(".")
        if module not in modules or not hasattr(importlib.import_module(f"vademecum.{module}"), function):
            missing.append(name)
    assert missing == []


def test_a_quadratic_pattern_is_noticed() -> None:
    slow = re.compile(r"\[\[([^\]|#\n]{1,120})(?:#[^\]|\n]*)?(?:\|[^\]\n]*)?\]\]")
    planted = growth.Reader("planted", slow.findall)
    assert growth.grows_too_fast(planted, "[[a#", (5_000, 10_000)) is not None


# In `make test-all` each function meets ten of the units, chosen by its name.
@pytest.mark.parametrize("package", PACKAGES)
def test_time_grows_with_the_text(package: str) -> None:
    slow = [
        growth.grows_too_fast(reader, unit, growth.SIZES[:2])
        for reader in PACKAGES[package]
        for unit in random.Random(reader.name).sample(growth.UNITS, len(growth.UNITS) // 15)
    ]
    assert [message for message in slow if message] == []


@pytest.mark.soak
@pytest.mark.parametrize("package", PACKAGES)
def test_time_grows_with_the_text_for_every_unit(package: str) -> None:
    slow = [growth.grows_too_fast(reader, unit) for reader in PACKAGES[package] for unit in growth.UNITS]
    assert [message for message in slow if message] == []
