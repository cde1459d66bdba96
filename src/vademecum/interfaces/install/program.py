"""The program that agents start: this one, or one that lasts where this one runs from a cache.

`uvx` and `pipx run` put a program into an environment that they delete when they like; a path into it that is
written into an agent's configuration would stop working one day. There, the package is installed as a tool.
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
_TAG = "CACHEDIR.TAG"  # which uv puts into its cache, and into an environment itself
_BY_HAND = "install it first: `uv tool install vademecum` or `pipx install vademecum`, then `vade install`"


def this_program(home: str = "") -> Program:
    """What agents are told to start: a script by its whole path, or this Python and the module."""
    if is_temporary(sys.prefix):
        return Program((_lasting_script(os.environ),), home)
    script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.basename(script) in _NAMES and os.access(script, os.X_OK):
        return Program((script,), home)
    return Program((sys.executable, "-m", PACKAGE), home)


def is_temporary(prefix: str) -> bool:
    """Whether an environment lies in the cache of uv or pipx; other tools keep theirs in one for good."""
    path = Path(prefix)
    by_pipx = "pipx" in path.parts and not _CACHES.isdisjoint(path.parts)
    return by_pipx or any((each / _TAG).is_file() for each in path.parents)


def missing_tool() -> tuple[str, ...]:
    """The command that installs the program for good; nothing where this one stays, or one is there."""
    if not is_temporary(sys.prefix) or os.access(_lasting_script(os.environ), os.X_OK):
        return ()
    words = _installer(os.environ)
    compiled = ("--compile-bytecode",) if words[-1] == "tool" else ()
    return (*words, "install", *compiled, requirement())


def install_tool(command: tuple[str, ...]) -> None:
    """Install the program for good, by the command that `missing_tool` found."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or missing_tool():
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Refused(f"`{' '.join(command)}` failed: {said}", hint=_BY_HAND)


def compile_modules() -> None:
    """Compile this package, which uv leaves to the first start: a hook has no time for that."""
    if not sys.dont_write_bytecode:
        compileall.compile_dir(Path(__file__).parents[2], quiet=2)


def requirement() -> str:
    """The very package that runs: the file or folder it was installed from, or this version of it."""
    try:
        origin = metadata.distribution(PACKAGE).read_text("direct_url.json")
        url = str(json.loads(origin)["url"]) if origin else ""
    except (metadata.PackageNotFoundError, ValueError, KeyError):
        url = ""
    return url or f"{PACKAGE}=={__version__}"


def _installer(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What installs tools here: uv, which tells its programs where it is, or pipx."""
    uv = environ.get("UV") or shutil.which("uv")
    if uv:
        return (uv, "tool")
    pipx = shutil.which("pipx")
    if pipx:
        return (pipx,)
    raise Refused("vade runs from a temporary folder, which agents cannot rely on", hint=_BY_HAND)


def _lasting_script(environ: Mapping[str, str]) -> str:
    """Where the script is, or will be, once the package is installed as a tool."""
    words = _installer(environ)
    asked = ("dir", "--bin") if words[-1] == "tool" else ("environment", "--value", "PIPX_BIN_DIR")
    done = subprocess.run([*words, *asked], capture_output=True, text=True, check=False)
    folder = done.stdout.strip()
    if done.returncode or not folder:
        raise Refused("vade runs from a temporary folder, which agents cannot rely on", hint=_BY_HAND)
    return os.path.join(folder, "vade.exe" if os.name == "nt" else "vade")
