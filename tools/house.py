"""Measure the house: modules, lines, names, imports. `python -m tools.house` prints the figures.

The figures that may only fall are kept in `tests/house.toml`; `tests/test_house.py` compares.
"""

from __future__ import annotations

import ast
import functools
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

SOURCE = Path(__file__).parent.parent / "src" / "vademecum"
UNCOUNTED = ("/embed/model/", "/english.txt", "/software.txt")  # shipped vectors, lists of words
TEXT = {".py", ".txt", ".md", ".json", ".toml", ".jsonl", ".csv", ".html", ".css", ".js"}
INTERFACES = ("interfaces", "adapters")
# What an interface may import beside Memory and the names at the root: plain values that everybody shares.
SHARED = {"memory", "types", "errors", "stand_ins", "tokens", "progress", "text", "config", *INTERFACES}


class Import(NamedTuple):
    """One module that another one imports."""

    source: str
    target: str
    typing: bool  # only while types are checked


class Function(NamedTuple):
    """How long a function is, and how many ways lead through it."""

    name: str
    lines: int
    complexity: int


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module by its dotted name below the package."""
    return {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(source.rglob("*.py"))
    }


def lines(source: Path = SOURCE) -> int:
    """Lines of code and of text data; the shipped model and lists of words are not counted."""
    files = (path for path in source.rglob("*") if path.suffix in TEXT and path.is_file())
    counted = (path for path in files if not any(part in path.as_posix() for part in UNCOUNTED))
    return sum(path.read_bytes().count(b"\n") for path in counted)


@functools.cache
def imports(source: Path = SOURCE) -> list[Import]:
    """Every import of one of our modules by another, wherever in the file it stands."""
    known = modules(source)
    found = {each for name, path in known.items() for each in imports_of(name, path, known)}
    return sorted(found)


def imports_of(name: str, path: Path, known: Container[str]) -> Iterator[Import]:
    """What one module imports of those that are known."""
    tree = ast.parse(path.read_text("utf-8"))
    for node, typing in _walk(tree, typing=False):
        for target in _modules_named(node, known):
            if target != name:
                yield Import(name, target, typing)


def _modules_named(node: ast.AST, known: Container[str]) -> set[str]:
    """Our modules that a statement imports: `from store import files` is of `store.files` alone."""
    found = set()
    for target in named_by(node):
        inner = target.removeprefix("vademecum.")
        if target.startswith("vademecum.") and inner in known:
            found.add(inner)
    if isinstance(node, ast.ImportFrom) and len(found) > len(node.names):
        found.discard((node.module or "").removeprefix("vademecum."))
    return found


def _walk(node: ast.AST, *, typing: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it stands under `if TYPE_CHECKING`."""
    yield node, typing
    guarded = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, typing=typing or guarded)


def named_by(node: ast.AST) -> Iterable[str]:
    """The modules that a statement names; `LazyModule("…")` and `import_module("…")` name one too."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        inner = [f"{node.module}.{each.name}" for each in node.names]
        return [node.module, *inner]
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and getattr(called, "id", getattr(called, "attr", "")) in (
        "LazyModule",
        "import_module",
    ):
        return [
            each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
    return []


def shared_classes(source: Path = SOURCE) -> dict[str, list[str]]:
    """Public class names that stand in more than one module, with those modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in modules(source).items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


def package_of(module: str) -> str:
    """The package that a module belongs to; every interface is one of its own."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "interfaces" and len(parts) > 1 else parts[0]


def cycles(source: Path = SOURCE) -> list[tuple[str, ...]]:
    """Packages that import each other, be it in a circle of several; imports for types alone count too."""
    graph: dict[str, set[str]] = defaultdict(set)
    for each in imports(source):
        here, there = package_of(each.source), package_of(each.target)
        if here != there and not there.startswith(f"{here}.") and there != "interfaces":
            graph[here].add(there)
    reach = {name: _reachable(graph, name) for name in list(graph)}
    rings = {
        tuple(sorted(o for o in reach[name] if name in reach.get(o, ())))
        for name in graph
        if name in reach[name]
    }
    return sorted(rings)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(graph.get(start, ()))
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += graph.get(name, ())
    return seen


def past_memory(source: Path = SOURCE) -> list[Import]:
    """Imports of interfaces that go past `Memory` and the names at the root into what lies below."""
    found = {
        Import(each.source, each.target, typing=False)
        for each in imports(source)
        if each.source.split(".")[0] in INTERFACES and each.target.split(".")[0] not in SHARED
    }
    return sorted(found)


def functions(source: Path = SOURCE) -> list[Function]:
    """Every function with its length and its complexity."""
    return [
        Function(f"{name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1, _complexity(node))
        for name, path in modules(source).items()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.Assert,
    ast.match_case,
)


def _complexity(function: ast.AST) -> int:
    """Ways through a function, those of functions inside it included."""
    count = 1
    for node in ast.walk(function):
        count += isinstance(node, _BRANCHES)
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        count += len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return count


def figures(source: Path = SOURCE) -> dict[str, int]:
    """The figures that may only fall."""
    all_functions = functions(source)
    lengths = sorted(each.lines for each in all_functions)
    dense = sum(each.complexity > 10 for each in all_functions)
    return {
        "modules": len(modules(source)),
        "lines": lines(source),
        "shared_class_names": len(shared_classes(source)),
        "package_cycles": len(cycles(source)),
        "imports_past_memory": len(past_memory(source)),
        "function_lines_p90": int(statistics.quantiles(lengths, n=10)[-1]),
        "functions_over_50_lines": sum(length > 50 for length in lengths),
        "complexity_over_10_per_1000": round(1000 * dense / len(all_functions)),
    }


def main() -> None:
    """Print the figures, and what they are made of."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    for name, value in figures(source).items():
        print(f"{name:28} {value}")
    for ring in cycles(source):
        print("cycle:", " ".join(ring))
    for name, places in shared_classes(source).items():
        print(f"class {name}: {', '.join(places)}")
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for each in past_memory(source):
        counted[package_of(each.source), package_of(each.target)] += 1
    for (here, there), count in sorted(counted.items(), key=lambda item: -item[1]):
        print(f"past memory: {here} -> {there} {count}")


if __name__ == "__main__":
    main()
