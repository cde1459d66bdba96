"""How long a command takes from nothing, as a ratio to a bare interpreter."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

ROUNDS = 25
BARE = "python -c pass"


def measure(only: Container[str] | None = None) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        home = ["--home", str(Path(folder, "home"))]
        vade = str(Path(sys.executable).with_name("vade"))
        commands = {
            BARE: [sys.executable, "-c", "pass"],
            "python -c 'import click'": [sys.executable, "-c", "import click"],
            "vade --version": [vade, "--version"],
            "vade add (keyed)": [vade, "add", "The answer is NUMBER.", "--key", "answer", *home],
            "vade add (no key)": [vade, "add", "The answer is NUMBER.", *home],
            "vade show": [vade, "show", "answer", *home],
            "vade list": [vade, "list", *home],
            "vade search --mode bm25": [vade, "search", "answer", "--mode", "bm25", *home],
            "vade search": [vade, "search", "answer", *home],
        }
        commands = {name: each for name, each in commands.items() if only is None or name in only}
        # Bytecode must be cached, as it is for anyone who has installed the package.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        times: dict[str, list[float]] = {name: [] for name in commands}
        for round_ in range(ROUNDS + 2):  # in turn, so that a noisy moment hits all of them; two to warm up
            for name, command in commands.items():
                words = [word.replace("NUMBER", str(round_)) for word in command]
                begun = time.perf_counter()
                subprocess.run(words, env=environment, cwd=folder, stdout=subprocess.DEVNULL, check=True)
                if round_ >= 2:
                    times[name].append(time.perf_counter() - begun)
    bare = statistics.median(times[BARE])
    return [
        {
            "command": name,
            "p50 ms": round(statistics.median(seconds) * 1000, 1),
            "x bare interpreter": round(statistics.median(seconds) / bare, 1),
        }
        for name, seconds in times.items()
    ]
