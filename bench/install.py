"""How large an install from a wheel is, how soon its commands start, and how long a new user's way takes.

Needs uv (a package for development has it) and the package index, or a cache that holds what is asked for.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from uv import find_uv_bin

if TYPE_CHECKING:
    from collections.abc import Mapping

    Rows = list[dict[str, object]]

HERE = Path(__file__).parent.parent
MOST_MEGABYTES, MOST_PACKAGES = 150, 44  # docs/decisions.md says what fewer packages would cost
MOST = {"vade --help": 4.5, "vade add": 8}  # times a bare interpreter
MOST_COMMANDS, MOST_SECONDS = 3, 60
ROUNDS = 15
_PERSON = Path.home()  # asked at once: tests have another
LARGE = 2_000_000  # bytes of a part that is listed
FACT = "The heron's nest is inspected every second Tuesday."


class Built(NamedTuple):
    """The files of both distributions that are published."""

    wheel: Path
    sdist: Path
    hub_wheel: Path
    hub_sdist: Path


class World(NamedTuple):
    """A person's empty folder, and the environment of a program that runs there."""

    person: Path
    environ: Mapping[str, str]

    def run(self, *words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program, which must not fail."""
        done = subprocess.run(
            [*map(str, words)],
            cwd=self.person,
            env=dict(self.environ),
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done


def uv() -> str:
    """The program that comes with the packages for development."""
    return str(find_uv_bin())


def build(folder: Path) -> Built:
    """Build wheel and sdist of both distributions from this clone, without a network."""
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    for project in (HERE, HERE / "src" / "vademecum_hub"):
        subprocess.run(words, cwd=project, check=True, capture_output=True)
    wheel, hub_wheel = sorted(folder.glob("*.whl"))
    sdist, hub_sdist = sorted(folder.glob("*.tar.gz"))
    return Built(wheel, sdist, hub_wheel, hub_sdist)


def world(folder: Path) -> World:
    """A person's folder with nothing in it but a cache of packages, which is the machine's own."""
    person = folder / "person"
    person.mkdir(parents=True)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VADE_", "XDG_", "PYTHON", "CLAUDE", "CODEX")) and name != "VIRTUAL_ENV"
    }
    at_home = environment | {"HOME": str(_PERSON)}
    cache = subprocess.check_output([uv(), "cache", "dir"], env=at_home, text=True).strip()
    pip = _PERSON / ".config" / "pip" / "pip.conf"
    pip_settings = (
        {"PIP_CONFIG_FILE": str(pip)} if pip.exists() and "PIP_CONFIG_FILE" not in environment else {}
    )
    path = os.pathsep.join(
        (str(person / ".local" / "bin"), str(Path(uv()).parent), environment.get("PATH", ""))
    )
    own = {"HOME": str(person), "UV_CACHE_DIR": cache, "PATH": path, "UV_PYTHON": sys.executable}
    return World(person, environment | pip_settings | own)


def measure() -> dict[str, Rows]:
    """All three tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build(folder / "dist")
        return {
            "install": _size(folder, built),
            "install start": _start(folder, built),
            "install way": _way(folder, built),
        }


# ---------------------------------------------------------------- how large


def _size(folder: Path, built: Built) -> Rows:
    here = world(folder / "size")
    site = _installed(here, built.wheel, "--no-compile")
    sizes = {each.name: _bytes(each) for each in site.iterdir()}
    megabytes = round(sum(sizes.values()) / 1e6, 1)
    packages = sum(name.endswith(".dist-info") for name in sizes)
    rows: Rows = [
        {"what": "all of it, MB", "is": megabytes, "at most": MOST_MEGABYTES},
        {"what": "packages, with ours", "is": packages, "at most": MOST_PACKAGES},
    ]
    large = sorted(((size, name) for name, size in sizes.items() if size > LARGE), reverse=True)
    rows += [{"what": f"{name}, MB", "is": round(size / 1e6, 1), "at most": ""} for size, name in large]
    return rows


def _installed(here: World, wheel: Path, *more: str) -> Path:
    here.run(uv(), "venv", "--quiet", here.person / "venv")
    here.run(uv(), "pip", "install", "--quiet", *more, "--python", here.person / "venv", wheel)
    (site,) = (here.person / "venv" / "lib").glob("python*/site-packages")
    return site


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files if each.is_file() and not each.is_symlink())


# ---------------------------------------------------------------- how soon


def _start(folder: Path, built: Built) -> Rows:
    here = world(folder / "start")
    _installed(here, built.wheel, "--compile-bytecode")
    scripts = here.person / "venv" / "bin"
    commands: dict[str, list[str | Path]] = {
        "python -c pass": [scripts / "python", "-c", "pass"],
        "vade --help": [scripts / "vade", "--help"],
        "vade add": [scripts / "vade", "add"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(ROUNDS + 2):  # in turn, so that a noisy moment hits all of them; two to warm up
        for name, words in commands.items():
            more = [f"Fact {turn}: {FACT}"] if name == "vade add" else []
            begun = time.perf_counter()
            here.run(*words, *more)
            if turn >= 2:
                times[name].append(time.perf_counter() - begun)
    bare = statistics.median(times["python -c pass"])
    return [
        {
            "command": name,
            "p50 ms": round(statistics.median(seconds) * 1000, 1),
            "x bare interpreter": round(statistics.median(seconds) / bare, 1),
            "at most": MOST.get(name, ""),
        }
        for name, seconds in times.items()
    ]


# ---------------------------------------------------------------- a new user's way


def _way(folder: Path, built: Built) -> Rows:
    """From nothing to a memory in an agent's context: three commands, and what the agent then runs itself."""
    here = world(folder / "way")
    (here.person / ".claude").mkdir()
    rows: Rows = []
    for words in (
        (uv(), "tool", "install", "--quiet", built.wheel),
        ("vade", "install", "--yes"),
        ("vade", "add", FACT),
    ):
        begun = time.perf_counter()
        here.run(*words)
        label = " ".join(Path(each).name for each in words[:3])
        rows.append({"command": label, "s": round(time.perf_counter() - begun, 1), "at most": ""})
    if FACT not in told_at_start(here):
        raise RuntimeError("the agent was not told what was saved")
    total = round(sum(float(str(row["s"])) for row in rows), 1)
    return [
        *rows,
        {"command": f"{len(rows)} of at most {MOST_COMMANDS}", "s": total, "at most": MOST_SECONDS},
    ]


def told_at_start(here: World) -> str:
    """What the hook that stands in Claude Code's own file tells a new session."""
    settings = json.loads((here.person / ".claude" / "settings.json").read_text(encoding="utf-8"))
    (command,) = [hook["command"] for each in settings["hooks"]["SessionStart"] for hook in each["hooks"]]
    event = {
        "session_id": "s",
        "cwd": str(here.person),
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    patient = here._replace(
        environ={**here.environ, "VADE_LIMITS_HOOK_START": "9s", "VADE_LIMITS_HOOK_PROMPT": "9s"}
    )  # on however busy a machine
    return patient.run("sh", "-c", command, given=json.dumps(event)).stdout
