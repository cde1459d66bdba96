"""How long `vade chat` takes until it accepts input, as a ratio to importing pydantic-ai alone."""

from __future__ import annotations

import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vademecum.memory import Memory

ROUNDS = 9
IMPORT = "import pydantic_ai"
PROMPT = "›".encode()
HANG = 60.0


def measure() -> list[dict[str, object]]:
    times: dict[str, list[float]] = {IMPORT: [], "vade chat, empty": [], "vade chat, 200 records": []}
    with tempfile.TemporaryDirectory() as folder:
        full, empty = Path(folder, "full"), Path(folder, "empty")
        _fill(full)
        for round_ in range(ROUNDS + 1):  # in turn, so that a noisy moment hits all; one to warm up
            taken = {
                IMPORT: _imported(),
                "vade chat, empty": _prompted(empty, folder),
                "vade chat, 200 records": _prompted(full, folder),
            }
            for name, seconds in taken.items():
                times[name] += [seconds] if round_ else []
    alone = statistics.median(times[IMPORT])
    return [
        {
            "until": name,
            "p50 ms": round(statistics.median(each) * 1000, 1),
            "x importing pydantic-ai": round(statistics.median(each) / alone, 2),
        }
        for name, each in times.items()
    ]


def _fill(home: Path) -> None:
    with Memory.open(home) as memory:
        for number in range(200):
            memory.store(
                f"Fact {number}: the answer is {number * 7919}.", key=f"fact-{number}", scope="global"
            )


def _environ() -> dict[str, str]:
    # Bytecode must be cached, as it is for anyone who has installed the package.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {
        **environment,
        "TERM": "xterm-256color",
        "VADE_MODEL": "openai:gpt-5-mini",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }


def _imported() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORT], env=_environ(), check=True)
    return time.perf_counter() - begun


def _prompted(home: Path, cwd: str) -> float:
    """Start a chat in a terminal of its own and wait for the prompt."""
    vade = str(Path(sys.executable).with_name("vade"))
    ours, theirs = pty.openpty()
    begun = time.perf_counter()
    process = subprocess.Popen(
        [vade, "chat", "--home", str(home)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=_environ(),
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    try:
        while PROMPT not in seen:
            ready, _, _ = select.select([ours], [], [], HANG)
            if not ready:
                raise TimeoutError("no prompt came")
            seen += os.read(ours, 4096)
        return time.perf_counter() - begun
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(ours)
