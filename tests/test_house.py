"""The house does not grow rooms by itself: what was counted once may only fall."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tools import house

LIMITS = tomllib.loads((Path(__file__).parent / "house.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    return house.figures()


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_a_figure_of_the_house_has_not_grown(name: str, figures: dict[str, int]) -> None:
    assert figures[name] <= LIMITS[name], f"see `python -m tools.house`, and make {name} smaller again"


def test_every_figure_has_a_limit(figures: dict[str, int]) -> None:
    assert set(figures) == set(LIMITS)


def test_every_file_that_a_tier_of_tests_names_is_there() -> None:
    here = Path(__file__).parent
    tiers = tomllib.loads((here / "tiers.toml").read_text("utf-8"))
    assert [name for names in tiers.values() for name in names if not (here / name).is_file()] == []


def small(folder: Path, **files: str) -> Path:
    """A package with these modules."""
    for name, text in files.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_class_name_in_two_modules_is_counted_once(tmp_path: Path) -> None:
    source = small(
        tmp_path,
        store__a="class Kept: ...\nclass _Own: ...\n",
        search__b="class Kept: ...\nclass _Own: ...\n",
    )
    assert house.shared_classes(source) == {"Kept": ["search.b", "store.a"]}


def test_packages_that_import_each_other_in_a_ring_are_found(tmp_path: Path) -> None:
    source = small(
        tmp_path,
        store__a="def f():\n    from vademecum.index import b\n",
        index__b="if TYPE_CHECKING:\n    from vademecum.search.c import C\n",
        search__c="from vademecum.store import a\nclass C: ...\n",
        text__d="import re\n",
    )
    assert house.cycles(source) == [("index", "search", "store")]


def test_an_import_past_memory_is_counted_and_one_of_memory_is_not(tmp_path: Path) -> None:
    source = small(
        tmp_path,
        interfaces__cli__app="from vademecum.store import records\nfrom vademecum.memory import whole\n",
        store__records="",
        memory__whole="from vademecum.store import records\n",
    )
    assert house.past_memory(source) == [house.Import("interfaces.cli.app", "store.records", typing=False)]


def test_data_beside_the_code_counts_as_lines(tmp_path: Path) -> None:
    source = small(tmp_path, store__a="x = 1\ny = 2\n")
    (source / "store" / "phrases.txt").write_text("one\ntwo\nthree\n")
    assert house.lines(source) == 5
