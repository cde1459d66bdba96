"""Make tests, and the programs they start, take the code of this checkout.

Several checkouts may share one environment, in which one of them is installed. So the source of this checkout
comes first on the path of every Python that a test starts. Its distributions are described there too, since
`vade` finds the commands of `vademecum-hub` by their entry points.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from shlex import quote

import pytest

import vademecum

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PROJECTS = (ROOT / "pyproject.toml", SOURCE / "vademecum_hub/pyproject.toml")
_DESCRIBED = "TESTS_DESCRIBED"  # the folder of the descriptions, which a worker is told


def use() -> None:
    """Put this checkout first on the path, here and for all that tests start; stop a run of other code."""
    if not Path(vademecum.__file__).is_relative_to(SOURCE):
        pytest.exit(
            f"vademecum comes from {vademecum.__file__}, not from this checkout: {SOURCE}", returncode=2
        )
    if _DESCRIBED in os.environ:
        sys.path.insert(0, os.environ[_DESCRIBED])
        return
    described = tempfile.mkdtemp(prefix="vade-tests-")
    atexit.register(_remove, described, os.getpid())
    for project in PROJECTS:
        describe(project, Path(described))
    write_program(Path(described))
    os.environ[_DESCRIBED] = described
    given = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCE), described, *([given] if given else [])])
    sys.path.insert(0, described)


def _remove(folder: str, owner: int) -> None:
    """Remove a folder when the process that made it ends, not when a process forked from it does."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def python_path() -> str:
    """Return the `PYTHONPATH` of a program that is started without this process's variables."""
    return os.pathsep.join([os.fspath(SOURCE), *filter(None, [os.environ.get(_DESCRIBED)])])


def write_program(folder: Path) -> None:
    """Write a `vade` that runs this checkout whatever the environment variables are."""
    program = folder / "bin" / "vade"
    program.parent.mkdir()
    code = program.with_suffix(".py")
    lines = [
        "import sys",
        f"sys.path[:0] = [{os.fspath(SOURCE)!r}, {os.fspath(folder)!r}]",
        f"sys.argv[0] = {os.fspath(program)!r}",
        "from vademecum.interfaces.cli import main",
        "sys.exit(main())",
    ]
    code.write_text("\n".join(lines), "utf-8")
    # Not `#!python`: the path of an interpreter in a first line cannot have a space.
    program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} {quote(os.fspath(code))} "$@"\n', "utf-8")
    program.chmod(0o755)


def program() -> str:
    """Return the path of the `vade` of this checkout."""
    return os.path.join(os.environ[_DESCRIBED], "bin", "vade")


def describe(project: Path, folder: Path) -> None:
    """Write the name, the version and the entry points of a distribution, as its installation has them."""
    table = tomllib.loads(project.read_text("utf-8"))["project"]
    name = table["name"].replace("-", "_")
    made = folder / f"{name}-{vademecum.__version__}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {table['name']}\nVersion: {vademecum.__version__}\n", "utf-8"
    )
    groups = {"console_scripts": table.get("scripts", {}), **table.get("entry-points", {})}
    lines = []
    for group, rows in groups.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in rows.items())]
    (made / "entry_points.txt").write_text("\n".join(lines), "utf-8")
