"""Find the program that agents start: this program, or an installed program if this one is in a cache.

`uvx` and `pipx run` put a program into an environment that they may delete at any time, so an agent's
configuration must not name a path in it. In this case the package is installed as a tool.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum import __version__
from vademecum.agents.base import Program
from vademecum.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "vademecum"
_NAMES = ("vade", "vade.exe", PACKAGE, f"{PACKAGE}.exe")
_CACHES = {".cache", "Caches", "Cache"}
_TAG = "CACHEDIR.TAG"  # a file that uv puts into its cache, and into an environment itself
_BY_HAND = "install it first: `uv tool install vademecum` or `pipx install vademecum`, then `vade install`"


def this_program(home: str = "") -> Program:
    """Return the command that agents run: the script with its full path, or this Python with the module.

    For a temporary environment, it is the script of the permanent installation.
    """
    if is_temporary(sys.prefix):
        return Program((_installed_script(os.environ),), home)
    script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.basename(script) in _NAMES and os.access(script, os.X_OK):
        return Program((script,), home)
    return Program((sys.executable, "-m", PACKAGE), home)


def is_temporary(prefix: str) -> bool:
    """Return whether an environment is in a cache of uv or pipx, which may delete it at any time.

    Other tools keep permanent environments in folders named `cache`, so that name counts only with `pipx`;
    else a parent folder must be marked as a cache by the file `CACHEDIR.TAG`.
    """
    path = Path(prefix)
    by_pipx = "pipx" in path.parts and not _CACHES.isdisjoint(path.parts)
    return by_pipx or any((each / _TAG).is_file() for each in path.parents)


def missing_tool() -> tuple[str, ...]:
    """Return the command that installs the program permanently; empty if it is permanent already."""
    if not is_temporary(sys.prefix) or os.access(_installed_script(os.environ), os.X_OK):
        return ()
    words = _installer(os.environ)
    compiled = ("--compile-bytecode",) if words[-1] == "tool" else ()
    return (*words, "install", *compiled, requirement())


def install_tool(command: tuple[str, ...]) -> None:
    """Install the program permanently, by running the command that `missing_tool` returned."""
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode or missing_tool():
        message = (completed.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Refused(f"`{' '.join(command)}` failed: {message}", hint=_BY_HAND)


def compile_modules() -> None:
    """Compile the modules of this package, so that the first run of a hook does not have to.

    uv compiles modules only at their first use.
    """
    if not sys.dont_write_bytecode:
        compileall.compile_dir(Path(__file__).parents[2], quiet=2)


def requirement() -> str:
    """Return the requirement that installs the running package again.

    It names the file or folder from which the package was installed, or else its version.
    """
    try:
        origin = metadata.distribution(PACKAGE).read_text("direct_url.json")
        url = str(json.loads(origin)["url"]) if origin else ""
    except (metadata.PackageNotFoundError, ValueError, KeyError):
        url = ""
    return url or f"{PACKAGE}=={__version__}"


def _installer(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command of uv or pipx that installs tools on this machine; raise Refused without both."""
    uv = environ.get("UV") or shutil.which("uv")
    if uv:
        return (uv, "tool")
    pipx = shutil.which("pipx")
    if pipx:
        return (pipx,)
    raise Refused("vade runs from a temporary folder, which agents cannot rely on", hint=_BY_HAND)


def _installed_script(environ: Mapping[str, str]) -> str:
    """Return the path that the script has after the package was installed as a tool."""
    words = _installer(environ)
    query = ("dir", "--bin") if words[-1] == "tool" else ("environment", "--value", "PIPX_BIN_DIR")
    completed = subprocess.run([*words, *query], capture_output=True, text=True, check=False)
    folder = completed.stdout.strip()
    if completed.returncode or not folder:
        raise Refused("vade runs from a temporary folder, which agents cannot rely on", hint=_BY_HAND)
    return os.path.join(folder, "vade.exe" if os.name == "nt" else "vade")
