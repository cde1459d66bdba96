"""Select the tests of `make test`, of `make test-all` and of `make soak`.

`--tier=test` runs every test without a mark, with at most 20 examples of a property.
`--tier=full` runs the rest of `make test-all`: what has the mark `full`, the files in `FULL_FILES`, and
again, with all their cases, the properties and the tests that have the mark `scaled`.
`--tier=soak` runs what is marked `soak`. Without the option everything but `soak` runs.

`@pytest.mark.full(but=2)` leaves the first two cases of a parametrized test to `make test`, `but="name"` the
case with this id, and a tuple of ids these cases.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

T = TypeVar("T")
TESTS = Path(__file__).parent
CHOSEN: list[str] = []  # the tier of this run, when there is one
EXAMPLES = 20  # of each property in `make test`

# Files of which `make test` runs nothing; it does not import them, so that collecting stays quick.
FULL_FILES = {
    "fuzz/test_growth.py",  # time in each function that takes text
    "hub/test_demo.py",
    "hub/test_killed.py",
    "hub/test_processes.py",
    "install/test_packages.py",  # builds packages and installs them
    "knowledge/test_claims_set.py",
    "llm/test_real_model.py",  # fetches a model and llama.cpp
    # Pages in Chromium: `make test` looks at hostile texts, in lists, in the editor and on a record's page.
    "web/test_briefing.py",
    "web/test_care.py",
    "web/test_everyday.py",
    "web/test_hub_page.py",
    "web/test_memories.py",
    "web/test_projects.py",
    "web/test_record.py",
    "web/test_rest.py",
    "web/test_review.py",
    "web/test_search.py",
    "web/test_sessions.py",
}


def add_option(parser: pytest.Parser) -> None:
    """Add `--tier` to pytest's options."""
    parser.addoption("--tier", choices=("test", "full", "soak"), help="the tests of one target of make")


def configure(config: pytest.Config) -> None:
    """Remember the chosen tier for `few`."""
    CHOSEN[:] = filter(None, [config.getoption("--tier")])


def few(some: T, all_of_them: T) -> T:
    """Return the first argument in `make test`, else the second; the test has the mark `scaled`."""
    return some if CHOSEN == ["test"] else all_of_them


def is_ignored(path: Path, config: pytest.Config) -> bool:
    """Return whether a file needs no import for the chosen tier."""
    return config.getoption("--tier") == "test" and _name(path) in FULL_FILES


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the chosen tier in the list, and give properties the examples of that tier."""
    tier = config.getoption("--tier")
    if tier is None and config.option.markexpr:
        return
    own = tiers_of(items)
    chosen = [item for item in items if own[item] == tier or _runs_too(item, own[item], tier)]
    if tier == "test":
        for item in chosen:
            limit_examples(item)
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen


def tiers_of(items: Sequence[pytest.Item]) -> dict[pytest.Item, str]:
    """Return the tier of every test."""
    found: dict[pytest.Item, str] = {}
    cases: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("full")
        if item.get_closest_marker("soak"):
            found[item] = "soak"
        elif _name(item.path) in FULL_FILES:
            found[item] = "full"
        elif mark is None:
            found[item] = "test"
        else:
            function = item.nodeid.partition("[")[0]
            found[item] = "test" if _is_excepted(item, mark.kwargs.get("but", 0), cases[function]) else "full"
            cases[function] += 1
    return found


def _is_excepted(item: pytest.Item, but: int | str | tuple[str, ...], number: int) -> bool:
    """Return whether the mark `full` leaves this case of a test to `make test`."""
    if isinstance(but, int):
        return number < but
    names = (but,) if isinstance(but, str) else but
    return item.nodeid.endswith(tuple(f"[{name}]" for name in names))


def _runs_too(item: pytest.Item, own: str, tier: str | None) -> bool:
    """Return whether a test runs in a tier that is not its own.

    Without a tier everything but `soak` runs. A property or a scaled test of `test` runs again in `full`.
    """
    if tier is None:
        return own != "soak"
    more = item.get_closest_marker("scaled") is not None or examples_of(item) > EXAMPLES
    return tier == "full" and own == "test" and more


def examples_of(item: pytest.Item) -> int:
    """Return how many examples a property has of its own; 0 for a test that is no property."""
    chosen = _settings_of(item)
    return chosen.max_examples if chosen else 0


def limit_examples(item: pytest.Item) -> None:
    """Give a property as many examples as `make test` runs."""
    chosen = _settings_of(item)
    if chosen and chosen.max_examples > EXAMPLES:
        method: Any = getattr(item, "obj", None)
        function = getattr(method, "__func__", method)
        function._hypothesis_internal_use_settings = settings(chosen, max_examples=EXAMPLES)


def _settings_of(item: pytest.Item) -> settings | None:
    found = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
    return found if isinstance(found, settings) else None


def _name(path: Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
