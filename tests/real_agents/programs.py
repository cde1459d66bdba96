"""The agents themselves, from npm, in a cache folder: installed once, each apart from the others.

`VADE_AGENTS` names the folder (default `.venv/agents`). Node comes from npm too where this machine's is too
old. What cannot be installed is skipped, and says why.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Its package has the machine in its name, and so has the program.
GOOSE = f"goose-binary-{sys.platform}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"
PACKAGES = {
    "amp": "@ampcode/cli",
    "claude": "@anthropic-ai/claude-code",
    "copilot": "@github/copilot",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "qwen": "@qwen-code/qwen-code",
    "cline": "cline",
    GOOSE: f"@aaif/{GOOSE}",
}
NODE = 22
_MINUTES = 20
_ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("VADE_AGENTS") or _ROOT / ".venv" / "agents")


def program(name: str, version: str = "") -> Path:
    """The agent's program, the newest or of a version; skips the test that asks when it cannot be had."""
    found = _installed(name, PACKAGES[name], version)
    if isinstance(found, str):
        pytest.skip(f"{PACKAGES[name]} cannot be installed: {found}")
    return found


def version(name: str) -> str:
    """Which version was installed."""
    folder = CACHE / name / "node_modules" / PACKAGES[name] / "package.json"
    return str(json.loads(folder.read_text("utf-8"))["version"])


def node_folder() -> str:
    """The folder of a Node that is new enough; empty when this machine's is."""
    if _major(shutil.which("node")) >= NODE:
        return ""
    found = _installed("node", "node")
    if isinstance(found, str):
        pytest.skip(f"Node {NODE} or newer is needed: {found}")
    return str(found.parent)


def search_path() -> str:
    """PATH with that Node first."""
    return os.pathsep.join(filter(None, (node_folder(), os.environ.get("PATH", ""))))


@functools.cache
def _installed(name: str, package: str, version: str = "") -> Path | str:
    """The program in the cache, or why it is not there."""
    folder, wanted = CACHE / name, package
    if version:
        folder, wanted = CACHE / f"{name}-{version}", f"{package}@{version}"
    made = folder / "node_modules" / ".bin" / name
    if made.exists():
        return made if _starts(made) else "it does not start"
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm"
    path = os.environ.get("PATH", "") if name == "node" else search_path()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n', "utf-8")
    done = subprocess.run(
        [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", wanted],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=_MINUTES * 60,
        check=False,
    )
    if not made.exists():
        return (done.stderr.strip() or done.stdout.strip() or "npm said nothing").splitlines()[-1]
    return made if _starts(made) else "it does not start"


def _starts(program: Path) -> bool:
    """Whether it is a program; some agents install a text in its place on machines that they do not know."""
    try:
        subprocess.run(
            [program, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except OSError:
        return False
    return True


def _major(node: str | None) -> int:
    if node is None:
        return 0
    version = subprocess.run(
        [node, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    found = re.match(r"v(\d+)", version)
    return int(found[1]) if found else 0
