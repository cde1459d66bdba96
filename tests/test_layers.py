"""Imports point down, foreign libraries stay where they belong, nothing is loaded before its time."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tools import house

from cases import every_case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# From the top down; a module may import from its own package and from the layers below it, not from siblings.
LAYERS = [
    ["vademecum_hub"],  # another distribution, which the core never imports
    ["interfaces", "adapters"],
    ["memory"],
    ["context", "lifecycle", "inject"],
    ["search", "agents"],
    ["index", "transcripts", "knowledge", "sync"],
    ["store", "llm"],
    ["text", "config"],
    ["types", "errors", "fields", "lazy", "named_tuple", "tokens", "progress"],
]

# The same inside the interfaces: the command line starts all others, what they share knows none of them.
INTERFACES = [
    ["interfaces.cli"],
    ["interfaces.http"],  # serves `/mcp` too, behind the guards of that server
    [
        "interfaces.mcp",
        "interfaces.chat",
        "interfaces.hooks",
        "interfaces.install",
        "interfaces.importers",
        "adapters",
    ],
    ["interfaces.tools", "interfaces.web"],
    ["interfaces.present", "interfaces.connections", "interfaces"],
]
BOTTOM = {
    "types",
    "errors",
    "fields",
    "lazy",
    "named_tuple",
    "tokens",
    "progress",
}  # nouns and words that may know each other

# Inside the store: what may not be known.
FORMAT = ("text.document", "text.frontmatter")
BLIND = {
    "folders": {"files", "records", "scopes", "home", *FORMAT},
    "view": {"files", "records", "scopes", "home", "catalogue", *FORMAT},
    "files": {"records", "scopes", "home", "archive", "audit", *FORMAT},
    # Which project this is, is told here too: by git's files, and by nothing that a record says.
    "scopes": {"records", "journal", "pinned", "merge", "catalogue", "workspace", *FORMAT},
}

# Where a library from outside may be imported; everything else is the standard library or our own.
FOREIGN = {
    "Stemmer": ("index/languages",),
    "agents": ("adapters/openai_agents",),
    "anthropic": ("adapters/anthropic_memory",),
    "anyio": ("interfaces/mcp/", "interfaces/http/"),
    "apsw": ("index/pages", "index/sqlite", "store/state"),
    "click": ("interfaces/cli", "interfaces/present", "vademecum_hub/hub_commands", "vademecum_hub/hub_demo"),
    "fastapi": ("interfaces/http/", "vademecum_hub/"),
    "httpx2": ("llm/net", "llm/remote_model"),
    "jinja2": ("interfaces/web/pages",),
    "langgraph": ("adapters/langgraph_store",),
    "markdown_it": ("transcripts/export", "interfaces/web/markdown"),
    "markupsafe": ("interfaces/web/",),
    "mcp": ("interfaces/mcp/",),
    "mcp_types": ("interfaces/mcp/",),
    "nh3": ("interfaces/web/markdown",),
    "numpy": ("index/", "search/", "vademecum_hub/postgres_index"),
    "onnxruntime": ("index/embed/local",),
    "prompt_toolkit": ("interfaces/chat/terminal",),
    "psycopg": ("vademecum_hub/",),
    "psycopg_pool": ("vademecum_hub/",),
    "pydantic": ("llm/base", "llm/remote_model", "interfaces/http/api/"),
    "pydantic_ai": ("adapters/pydantic_ai", "llm/net", "llm/remote_model"),
    "rich": ("interfaces/chat/terminal", "interfaces/cli", "interfaces/present"),
    "starlette": ("interfaces/mcp/", "interfaces/http/", "interfaces/web/", "vademecum_hub/"),
    "tomlkit": ("interfaces/install", "memory/settings_file"),
    "tokenizers": ("index/embed/",),
    "h11": ("interfaces/connections",),
    "uvicorn": ("interfaces/connections", "interfaces/mcp/", "vademecum_hub/"),
    "watchfiles": ("index/freshness", "interfaces/http/file_events"),
    "yaml": ("text/frontmatter", "interfaces/install/yaml_edit"),
}

# What the hub's package may import of the core: the fronts of the index and of search with the modules that
# belong to them, facts and their meaning, and the parts of the interfaces that several of them share.
HUB_USES = (
    "errors",
    "types",
    "text.names",
    "text.outgoing",
    "text.secrets",
    "sync.blocks",
    "sync.edits",
    "sync.facts",
    "sync.folder_sync",
    "sync.projection",
    "sync.team_signing",
    "sync.team_trust",
    "sync.workspace_key",
    "memory.sync",
    "index",
    "index.languages",
    "index.similar",
    "search",
    "search.base",
    "search.relevance",
    "interfaces.connections",
    "interfaces.web.headers",
    "interfaces.web.markdown",
    "interfaces.web.pages",
    "interfaces.present.output",
    "interfaces.present.to_json",
    "interfaces.cli.options",
    "interfaces.cli.hub",  # for the words in which every command shows a code to join with
    "interfaces.cli.demo",
)


def layer_of(module: str) -> int | None:
    part = module.split(".", maxsplit=1)[0]
    return next((index for index, names in enumerate(LAYERS) if part in names), None)


def wrong(each: house.Import) -> str:
    """What is wrong with an import, or nothing."""
    own, other = layer_of(each.source), layer_of(each.target)
    here, there = house.package_of(each.source), house.package_of(each.target)
    if own is None or other is None or here == there:
        return ""  # the package's front door and `python -m` know everything
    if own == other == layer_of("interfaces"):
        own, other = (
            next(n for n, names in enumerate(INTERFACES) if each in names) for each in (here, there)
        )
    if other < own:
        return f"{each.source} is below {each.target} and must not know it"
    if here == house.HUB and each.target not in HUB_USES:
        return f"{each.source} uses {each.target}, which HUB_USES does not name"
    if other > own or here in BOTTOM:
        return ""
    return f"{each.source} and {each.target} stand side by side and must not know each other"


def misplaced(module: str, path: Path) -> Iterator[str]:
    """Foreign libraries that a module imports and that do not belong there."""
    place = module.replace(".", "/")
    for top in sorted({each.split(".")[0] for each in imported(path)}):
        ours = top in sys.stdlib_module_names or top in ("vademecum", house.HUB, "__future__")
        if not ours and not place.startswith(FOREIGN.get(top, ())):
            yield f"{top} does not belong into {place}"


def imported(path: Path) -> list[str]:
    """Every module a file imports, wherever in the file it does."""
    return [name for node in ast.walk(house.parse(path)) for name in house.named_by(node)]


def test_imports_point_down_and_siblings_do_not_know_each_other() -> None:
    assert [said for each in house.imports() if (said := wrong(each))] == []


def test_foreign_libraries_stay_where_they_belong() -> None:
    assert [said for name, path in house.modules().items() for said in misplaced(name, path)] == []


@every_case("name", sorted(BLIND))
def test_the_lowest_parts_of_the_store_know_nothing_of_the_rest(name: str) -> None:
    own = {each.target for each in house.imports() if each.source == f"store.{name}"}
    assert f"store.{name}" in house.modules(), "the table names a module that is not there"
    assert not own & {other if "." in other else f"store.{other}" for other in BLIND[name]}


PLANTED = {
    "an import that points up": ("store.planted", "def f():\n    from vademecum.memory import Memory\n"),
    "a sibling": ("context.planted", "from vademecum.lifecycle import sweep\n"),
    "another interface": ("interfaces.mcp.planted", "from vademecum.interfaces.cli import app\n"),
    "the hub's package in the core": ("memory.planted", "from vademecum_hub import streams\n"),
    "a part of the core that the hub has no use for": (
        "vademecum_hub.planted",
        "from vademecum.lifecycle import sweep\n",
    ),
    "a lazy sibling": ("inject.planted", 'x = LazyModule("vademecum.context.engine")\n'),
}


@pytest.mark.parametrize("kind", sorted(PLANTED))
def test_the_check_sees_what_is_planted(kind: str, tmp_path: Path) -> None:
    name, text = PLANTED[kind]
    path = tmp_path / "planted.py"
    path.write_text(text)
    assert [each for each in house.imports_of(name, path, house.modules()) if wrong(each)]


def test_the_check_sees_a_library_in_the_wrong_place(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text("import numpy\nimport yaml\n")
    assert list(misplaced("index.planted", path)) == ["yaml does not belong into index/planted"]


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


WEB = {"fastapi", "starlette", "jinja2", "nh3", "markdown_it", "uvicorn"}  # of `vade serve` alone


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (
            ("--version",),
            {"numpy", "onnxruntime", "mcp", "pydantic_ai", "apsw", "rich", "yaml", "vademecum.memory", *WEB},
        ),
        (
            ("add", "hello", "--key", "hello"),
            {"numpy", "apsw", "rich", "rapidfuzz", "subprocess", "asyncio", *WEB},
        ),
        (("list",), {"numpy", "apsw", "rich", "rapidfuzz", *WEB}),
        (("token", "list"), {"numpy", "apsw", "rich", "rapidfuzz", *WEB}),
    ],
)
def test_a_command_loads_only_what_it_needs(words: tuple[str, ...], absent: set[str], tmp_path: Path) -> None:
    loaded = loaded_by(*words, home=tmp_path / "home")
    assert not absent & loaded
    assert not {name for name in loaded if name.startswith(("vademecum.search", "vademecum.index"))}


FRONTS = ("store", "index", "search", "transcripts", "knowledge")


@pytest.mark.parametrize("package", FRONTS)
def test_every_name_of_a_front_is_there_and_loads_nothing_before_it_is_read(package: str) -> None:
    code = f"import sys, vademecum.{package} as front;"
    code += f"print(sum(each.startswith('vademecum.{package}.') for each in sys.modules));"
    code += "from importlib import import_module; subjects = getattr(front, 'SUBJECTS', ());"
    code += "names = [name for name in front.__all__ if name not in subjects];"
    code += "print(*names); [getattr(front, name) for name in names];"
    code += f"[import_module(f'vademecum.{package}.{{name}}') for name in subjects]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, named = done.stdout.strip().split("\n")
    assert loaded == "0"
    assert named.split() == sorted(typed_names(package), key=named.split().index)


def typed_names(package: str) -> list[str]:
    """The names of a front that a type checker sees."""
    tree = house.parse(house.SOURCE / package / "__init__.py")
    modules = f"vademecum.{package}."
    return [
        each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(modules)
        for each in node.names
    ]
