"""Report the size and shape of the code base: modules, lines, names, imports.

`python -m tools.house` prints the figures and how they differ from the last commit; `--base main~20` compares
with another revision. The figures limit nothing. Tests fail only for package cycles, shared class names and
untyped functions (`tests/test_house.py`), and for imports that break the layers (`tests/test_layers.py`).
"""

from __future__ import annotations

import argparse
import ast
import functools
import io
import statistics
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "vademecum"
HUB = "vademecum_hub"  # the second distribution; its folder lies beside the first one's
UNCOUNTED = ("/embed/model/", "/english.txt", "/software.txt")  # shipped vectors, lists of words
TEXT = {".py", ".txt", ".md", ".json", ".toml", ".jsonl", ".csv", ".html", ".css", ".js"}
INTERFACES = ("interfaces", "adapters")
# What an interface may import beside Memory and the names at the root: plain values that everybody shares.
SHARED = {
    "memory",
    "types",
    "errors",
    "fields",
    "lazy",
    "named_tuple",
    "tokens",
    "progress",
    "text",
    "config",
    *INTERFACES,
}


class Import(NamedTuple):
    """One module that another one imports."""

    source: str
    target: str
    typing: bool  # only while types are checked


class Function(NamedTuple):
    """A function's name, its length and its cyclomatic complexity."""

    name: str
    lines: int
    complexity: int


@functools.cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module by its dotted name below the package; names in the hub's package begin with its own."""
    found = {_dotted(path.relative_to(source)): path for path in sorted(source.rglob("*.py"))}
    hub = source.with_name(HUB)
    return found | {_dotted(path.relative_to(hub.parent)): path for path in sorted(hub.rglob("*.py"))}


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def lines(source: Path = SOURCE) -> int:
    """Lines of code and of text data; the shipped model and lists of words are not counted."""
    folders = (source, source.with_name(HUB))
    files = (path for top in folders for path in top.rglob("*") if path.suffix in TEXT and path.is_file())
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
    tree = parse(path)
    for node, typing in _walk(tree, typing=False):
        for target in _modules_named(node, known):
            if target != name:
                yield Import(name, target, typing)


def _modules_named(node: ast.AST, known: Container[str]) -> set[str]:
    """Our modules that a statement imports: `from store import files` is of `store.files` alone."""
    found = set()
    for target in named_by(node):
        inner = target.removeprefix("vademecum.")
        if target.startswith(("vademecum.", HUB)) and inner in known:
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
        for node in parse(path).body:
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
        for node in ast.walk(parse(path))
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


def untyped(source: Path = SOURCE) -> list[str]:
    """Return every function with a parameter or a result that has no type, as `module:line name`."""
    found = []
    for name, path in modules(source).items():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_typed(node):
                found.append(f"{name}:{node.lineno} {node.name}")
    return found


def _is_typed(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the result and every parameter except `self` and `cls` has a type."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    if named and named[0].arg in ("self", "cls", "mcs"):
        del named[0]
    parameters = [*named, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return function.returns is not None and all(each is None or each.annotation for each in parameters)


def past_store(source: Path = SOURCE) -> list[Import]:
    """Return the imports of other packages that reach past the front of `store` into its modules."""
    subjects = {f"store.{name}" for name in _front_modules(source / "store" / "__init__.py")}
    return [
        each
        for each in imports(source)
        if each.target.startswith("store.")
        and each.target not in subjects
        and not each.source.startswith("store")
    ]


def _front_modules(front: Path) -> list[str]:
    """Return the modules that a package's front names in `SUBJECTS`."""
    for node in parse(front).body if front.is_file() else ():
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SUBJECTS":
            return list(ast.literal_eval(node.value))
    return []


def figures(source: Path = SOURCE) -> dict[str, int]:
    """Return the figures of a package by name."""
    all_functions = functions(source)
    lengths = sorted(each.lines for each in all_functions)
    complex_functions = sum(each.complexity > 10 for each in all_functions)
    return {
        "modules": len(modules(source)),
        "lines": lines(source),
        "shared_class_names": len(shared_classes(source)),
        "package_cycles": len(cycles(source)),
        "untyped_functions": len(untyped(source)),
        "imports_past_memory": len(past_memory(source)),
        "imports_past_store": len(past_store(source)),
        "functions": len(all_functions),
        "function_lines_p90": int(statistics.quantiles(lengths, n=10)[-1]) if len(lengths) > 1 else 0,
        "functions_over_50_lines": sum(length > 50 for length in lengths),
        "complexity_over_10_per_1000": round(1000 * complex_functions / max(1, len(all_functions))),
    }


def report(source: Path = SOURCE, base: Path | None = None) -> str:
    """Return the report on a package as text; with a base, the report says what changed since."""
    found = []
    before = figures(base) if base else {}
    for name, value in figures(source).items():
        change = value - before.get(name, value)
        found.append(f"{name:28} {value:7}" + (f" {change:+7}" if change else ""))
    found += [f"cycle: {' '.join(ring)}" for ring in cycles(source)]
    found += [f"class {name}: {', '.join(places)}" for name, places in shared_classes(source).items()]
    found += [f"no types: {place}" for place in untyped(source)]
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for each in past_memory(source):
        counted[package_of(each.source), package_of(each.target)] += 1
    for (here, there), count in sorted(counted.items(), key=lambda item: -item[1]):
        found.append(f"past memory: {here} -> {there} {count}")
    return "\n".join([*found, *(_changes(source, base) if base else ())])


def _changes(source: Path, base: Path) -> Iterator[str]:
    """Name the modules that came and went, the packages that changed in size and the new long functions."""
    now, before = modules(source), modules(base)
    yield from (f"new module: {name}" for name in now.keys() - before.keys())
    yield from (f"removed module: {name}" for name in before.keys() - now.keys())
    sizes, earlier = package_lines(source), package_lines(base)
    for package in sorted({*sizes, *earlier}):
        change = sizes.get(package, 0) - earlier.get(package, 0)
        if change:
            yield f"lines: {package:20} {sizes.get(package, 0):7} {change:+7}"
    known = {each.name for each in functions(base) if each.lines > 50}
    for each in functions(source):
        if each.lines > 50 and each.name not in known:
            yield f"long function: {each.name} {each.lines}"


def package_lines(source: Path) -> dict[str, int]:
    """Return the lines of Python of every package."""
    found: dict[str, int] = defaultdict(int)
    for name, path in modules(source).items():
        found[package_of(name)] += path.read_bytes().count(b"\n")
    return dict(found)


def extract(revision: str, folder: Path) -> Path:
    """Write the source of a git revision below a folder and return the package."""
    command = ["git", "archive", "--format=tar", revision, "src"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(f"tools.house: {archive.stderr.decode().strip() or 'git failed'}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src" / "vademecum"


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m tools.house", description="Report on the code base.")
    parser.add_argument("--base", default="HEAD", metavar="REVISION", help="compare with this git revision")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the package to measure")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(report(chosen.source, extract(chosen.base, Path(folder))))


if __name__ == "__main__":
    main()
