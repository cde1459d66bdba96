"""What a program may import: the names at the root and the adapters, and nothing else."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vademecum
from cases import every_case
from vademecum import errors

ROOT = Path(__file__).parent.parent
PUBLIC = ("vademecum.adapters.", "vademecum.agents.base")
NAMES = [name for name in vademecum.__all__ if name != "__version__"]
ERRORS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and kind.__module__ == errors.__name__
}


def seen_by_type_checkers() -> set[str]:
    """The names that the root declares for editors and type checkers."""
    tree = ast.parse((ROOT / "src/vademecum/__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found = {each.asname for node in block.body if isinstance(node, ast.ImportFrom) for each in node.names}
    found |= {
        each.id
        for node in block.body
        if isinstance(node, ast.Assign)
        for each in node.targets
        if isinstance(each, ast.Name)
    }
    return {name for name in found if name} | ERRORS


@every_case("name", NAMES)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(vademecum, name).__name__ in (name, name.partition("_")[0])
    assert name in dir(vademecum)


def test_type_checkers_see_what_is_there() -> None:
    assert seen_by_type_checkers() == set(NAMES)


def test_every_error_can_be_caught_by_a_name_of_the_root() -> None:
    assert set(NAMES) >= ERRORS


def test_the_root_names_about_thirty_nouns() -> None:
    assert len(set(NAMES) - ERRORS) <= 40


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Memories'"):
        _ = vademecum.Memories  # type: ignore[attr-defined]  # the point of the test


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = "import sys, vademecum; print(*(name for name in sys.modules if name.startswith('vademecum')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["vademecum"]


def shown() -> dict[str, str]:
    """Every piece of Python that the pages and the examples show."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {str(page.relative_to(ROOT)): page.read_text() for page in pages}
    blocks = {
        name: "\n".join(re.findall(r"```(?:python|py)\n(.*?)```", text, flags=re.DOTALL))
        for name, text in found.items()
    }
    return blocks | {path.name: path.read_text() for path in (ROOT / "examples").glob("*.py")}


def test_pages_and_examples_import_only_what_is_public() -> None:
    for name, code in shown().items():
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                modules = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
                if node.module == "vademecum":
                    assert {each.name for each in node.names} <= set(vademecum.__all__), name
            else:
                continue
            for module in modules:
                if module.split(".")[0] == "vademecum":
                    assert module == "vademecum" or module.startswith(PUBLIC), f"{name}: {module}"
                    importlib.import_module(module)
