"""No package cycle, no shared class name, no untyped function; every other figure is only reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools import house

if TYPE_CHECKING:
    from pathlib import Path


def test_no_packages_import_each_other() -> None:
    assert house.cycles() == []


def test_a_public_class_name_stands_in_one_module() -> None:
    assert house.shared_classes() == {}


def test_every_function_has_types() -> None:
    assert house.untyped() == []


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


def test_a_function_without_types_is_found_and_self_needs_none(tmp_path: Path) -> None:
    source = small(
        tmp_path,
        store__a="class A:\n    def ok(self, x: int) -> int: ...\n    def bad(self, x): ...\n",
        store__b="def no_result(x: int): ...\ndef rest(*words, **keys) -> None: ...\n",
    )
    assert house.untyped(source) == ["store.a:3 bad", "store.b:1 no_result", "store.b:2 rest"]


def test_the_report_tells_what_changed_and_refuses_nothing(tmp_path: Path) -> None:
    base = small(tmp_path / "base", store__a="def f() -> None: ...\n", store__gone="x = 1\n")
    grown = "def long() -> None:\n" + "    x = 1\n" * 60
    source = small(tmp_path / "now", store__a="def f() -> None: ...\n", store__new=grown)
    told = house.report(source, base)
    assert "lines                             62     +60" in told
    assert "new module: store.new" in told
    assert "removed module: store.gone" in told
    assert "long function: store.new.long 61" in told
