"""What is published installs into an empty environment, by every tool people use, and works there."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
from typing import TYPE_CHECKING

import pytest
from bench import install as bench
from bench.install import Built, World, uv, world

from vademecum import __version__
from vademecum.interfaces.install import program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FACT = bench.FACT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return bench.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def here(tmp_path: Path, built: Built) -> World:
    """A person's folder where the package's dependencies can be had; else the test is skipped."""
    made = world(tmp_path)
    words = [uv(), "pip", "install", "--quiet", "--dry-run", "--python", sys.executable, "--target", "x"]
    done = subprocess.run(
        [*words, str(built.wheel)], env=dict(made.environ), cwd=tmp_path, capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("neither the package index nor a cache has the package's dependencies")
    return made


def works(here: World, *vade: str | Path) -> None:
    """Its version, a memory saved and found, and an agent connected that is told it."""
    assert here.run(*vade, "--version").stdout.startswith("vade ")
    here.run(*vade, "add", FACT)
    assert "heron" in here.run(*vade, "search", "who inspects the heron's nest").stdout
    here.run(*vade, "install", "claude-code")
    assert FACT in bench.told_at_start(here)


def environment(here: World, *packages: str | Path) -> Path:
    here.run(uv(), "venv", "--quiet", here.person / "venv")
    here.run(uv(), "pip", "install", "--quiet", "--python", here.person / "venv", *packages)
    return here.person / "venv" / "bin"


def command_of(here: World) -> str:
    """The program that Claude Code was told to start."""
    told = json.loads((here.person / ".claude.json").read_text())
    return str(told["mcpServers"]["vade"]["command"])


@pytest.mark.parametrize("name", ["wheel", "sdist"])
def test_a_built_package_works_in_an_empty_environment(name: str, built: Built, here: World) -> None:
    scripts = environment(here, getattr(built, name))
    works(here, scripts / "vade")
    assert command_of(here) == str(scripts / "vade")
    # Nothing of the clone is needed, and both names of the program are there.
    where = here.run(scripts / "python", "-c", "import vademecum; print(vademecum.__file__)").stdout
    assert where.startswith(str(here.person))
    assert here.run(scripts / "vademecum", "--version").stdout.startswith("vade ")


def test_both_distributions_have_one_version_and_require_each_other_in_it() -> None:
    core = tomllib.loads((bench.HERE / "pyproject.toml").read_text())["project"]
    hub = tomllib.loads((bench.HERE / "src" / "vademecum_hub" / "pyproject.toml").read_text())["project"]
    assert core["optional-dependencies"]["hub"] == [f"vademecum-hub=={__version__}"]
    assert core["optional-dependencies"]["hub-demo"] == [f"vademecum-hub[demo]=={__version__}"]
    assert f"vademecum=={__version__}" in hub["dependencies"]
    assert {name for name, needs in core["optional-dependencies"].items() if "psycopg" in str(needs)} == {
        "dev"
    }
    licence = (bench.HERE / "src" / "vademecum_hub" / "LICENSE").read_text()
    assert licence == (bench.HERE / "LICENSE").read_text()


@pytest.mark.parametrize("name", ["hub_wheel", "hub_sdist"])
def test_the_hubs_server_is_added_by_its_own_package(name: str, built: Built, here: World) -> None:
    scripts = environment(here, built.wheel)
    with pytest.raises(RuntimeError, match=r"needs the package vademecum-hub.*'vademecum\[hub\]'"):
        here.run(scripts / "vade", "hub", "serve", "--database", "postgresql://127.0.0.1:1/hub")
    assert "no hub joined" in here.run(scripts / "vade", "hub", "status").stdout
    with pytest.raises(RuntimeError, match="ModuleNotFoundError"):
        here.run(scripts / "python", "-c", "import vademecum_hub")

    here.run(uv(), "pip", "install", "--quiet", "--python", scripts.parent, built.wheel, getattr(built, name))
    listed = here.run(scripts / "vade", "hub", "--help").stdout.partition("Commands:")[2]
    added = {"create", "demo", "export", "index", "migrate", "serve"}
    assert added <= {line.split()[0] for line in listed.splitlines() if line.strip()}
    with pytest.raises(RuntimeError, match="the database cannot be reached"):
        here.run(scripts / "vade", "hub", "serve", "--database", "postgresql://127.0.0.1:1/hub")
    code = "from vademecum_hub.page.routes import _PAGES;"
    code += "print(_PAGES.render('hub_problem.html', title='t', problem={'detail': '', 'hint': ''}))"
    assert "/static/style.css" in here.run(scripts / "python", "-c", code).stdout


def test_the_sdist_has_what_its_own_tests_need(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "requirements.txt", "tests/conftest.py", "bench/__main__.py", "tools/map.py"} <= names
    assert {"src/vademecum/py.typed", "docs/install.md", "examples/claude_memory_tool.py"} <= names
    assert {"src/vademecum_hub/pyproject.toml", "src/vademecum_hub/schema/0001_streams.sql"} <= names


def by_uvx(here: World, package: Path) -> tuple[str | Path, ...]:
    return (uv(), "tool", "run", "--quiet", "--from", package, "vademecum")


def by_uv_tool(here: World, package: Path) -> tuple[str | Path, ...]:
    here.run(uv(), "tool", "install", "--quiet", package)
    return ("vade",)


def by_pip(here: World, package: Path) -> tuple[str | Path, ...]:
    here.run(sys.executable, "-m", "venv", here.person / "venv")
    here.run(here.person / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", package)
    return (here.person / "venv" / "bin" / "vade",)


def by_pipx(here: World, package: Path) -> tuple[str | Path, ...]:
    pipx = (uv(), "tool", "run", "--quiet", "pipx")
    if subprocess.run(
        [*pipx, "--version"], env=dict(here.environ), capture_output=True, check=False
    ).returncode:
        pytest.skip("neither the package index nor a cache has pipx")
    here.run(*pipx, "install", "--quiet", package)
    return ("vade",)


WAYS = {"uvx": by_uvx, "uv tool install": by_uv_tool, "pip": by_pip, "pipx": by_pipx}


@pytest.mark.soak
@pytest.mark.parametrize("name", ["wheel", "sdist"])
@pytest.mark.parametrize("way", WAYS)
def test_a_built_package_works_by_every_way_to_install_it(
    way: str, name: str, built: Built, here: World
) -> None:
    by: Callable[[World, Path], tuple[str | Path, ...]] = WAYS[way]
    works(here, *by(here, getattr(built, name)))


@pytest.mark.soak
def test_an_agent_connected_by_uvx_is_told_of_a_program_that_stays(built: Built, here: World) -> None:
    done = here.run(*by_uvx(here, built.wheel), "install", "claude-code", "--dry-run")
    assert f"would run `{uv()} tool install --compile-bytecode file://" in done.stderr
    assert not (here.person / ".local" / "bin" / "vade").exists()
    done = here.run(*by_uvx(here, built.wheel), "install", "claude-code")
    assert f"ran `{uv()} tool install --compile-bytecode file://" in done.stderr
    assert command_of(here) == str(here.person / ".local" / "bin" / "vade")
    again = here.run(*by_uvx(here, built.wheel), "install", "claude-code")
    assert "tool install" not in again.stderr
    assert "nothing to change" in again.stdout
    works(here, command_of(here))


@pytest.mark.soak
def test_an_install_is_as_small_as_promised_and_a_new_users_way_as_short(
    tmp_path: Path, built: Built
) -> None:
    rows = bench._size(tmp_path, built)
    megabytes, packages = (float(str(row["is"])) for row in rows[:2])
    assert megabytes <= bench.MOST_MEGABYTES, rows
    assert packages <= bench.MOST_PACKAGES, rows
    way = bench._way(tmp_path, built)
    assert len(way) - 1 <= bench.MOST_COMMANDS


@pytest.mark.parametrize(
    ("prefix", "is_one"),
    [
        ("cache/uv/archive-v0/ab12", True),
        (".local/share/pipx/.cache/ab12", True),
        ("Library/Caches/pipx/ab12", True),
        (".local/share/uv/tools/vademecum", False),
        (".local/share/pipx/venvs/vademecum", False),
        (".cache/pypoetry/virtualenvs/mine-py3.11", False),
        ("project/.venv", False),
    ],
)
def test_only_what_uv_and_pipx_delete_by_themselves_is_temporary(
    tmp_path: Path, prefix: str, is_one: bool
) -> None:
    folder = tmp_path / prefix
    folder.mkdir(parents=True)
    (folder / "CACHEDIR.TAG").touch()  # uv marks environments themselves, too
    if is_one and "uv" in folder.parts:
        (tmp_path / "cache" / "uv" / "CACHEDIR.TAG").touch()
    assert program.is_temporary(str(folder)) is is_one
