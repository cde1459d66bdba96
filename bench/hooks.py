"""How long an agent waits for each of its hooks, as a ratio to a bare interpreter."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vademecum.memory import connect
from vademecum.types import Origin

ROUNDS = 25
RECORDS = 40
BARE = "python -c pass"


LOAD = 4  # busy processes
CORES = 2


def measure() -> list[dict[str, object]]:
    """Each hook alone, and from outside while two cores have four other things to do."""
    quiet, loaded = _measure(), _loaded()
    beside = {each["hook"]: each for each in loaded}
    names = ("max ms", "over 1 s", "answered")
    return [
        {**each, **{f"load {LOAD} {name}": beside[each["hook"]][name] for name in names}} for each in quiet
    ]


def _loaded() -> list[dict[str, object]]:
    """The same on two cores with a load of four."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:CORES])
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    try:
        return _measure()
    finally:
        for each in busy:
            each.kill()
            each.wait()
        os.sched_setaffinity(0, cores)


def _measure() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a hook may go on by itself
        _fill(Path(folder))
        vade = str(Path(sys.executable).with_name("vade"))
        given = json.dumps(
            {
                "cwd": folder,
                "prompt": "How often is the payment gateway number 7 retried?",
                "transcript_path": str(_transcript(Path(folder))),
            }
        ).encode()
        commands = {BARE: [sys.executable, "-c", "pass"]}
        for event in ("session-start", "user-prompt", "stop", "pre-compact"):
            commands[event] = [vade, "hook", "claude-code", event]
        # Bytecode must be cached, as it is for anyone who has installed the package.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"HOME": folder, "VADE_HOME": str(Path(folder, "home"))}
        times: dict[str, list[float]] = {name: [] for name in commands}
        answered = dict.fromkeys(commands, 0)
        for round_ in range(ROUNDS + 2):
            for name, command in commands.items():
                begun = time.perf_counter()
                done = subprocess.run(
                    command, env=environment, cwd=folder, input=given, stdout=subprocess.PIPE, check=True
                )
                if round_ >= 2:
                    times[name].append(time.perf_counter() - begun)
                    answered[name] += bool(done.stdout)
                if name == "stop":
                    time.sleep(0.3)  # what goes on by itself must not be in the way of the next
    bare = statistics.median(times[BARE])
    return [
        {
            "hook": name,
            "p50 ms": round(statistics.median(seconds) * 1000, 1),
            "max ms": round(max(seconds) * 1000, 1),
            "over 1 s": sum(each > 1 for each in seconds),
            "answered": f"{answered[name]} of {len(seconds)}",
            "x bare interpreter": round(statistics.median(seconds) / bare, 1),
        }
        for name, seconds in times.items()
    ]


def _fill(folder: Path) -> None:
    memory = connect(home=folder / "home", cwd=folder, origin=Origin.USER, actor="human:bench")
    for number in range(RECORDS):
        text = f"The payment gateway number {number} is retried {number % 7} times before it gives up."
        memory.store(text, key=f"gateway-{number}", tags=["payment"])
    memory.search("payment gateway")
    memory.close()


def _transcript(folder: Path) -> Path:
    path = folder / ".claude" / "projects" / "bench" / "session.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for number in range(200):
            role = "assistant" if number % 2 else "user"
            line = {
                "type": role,
                "uuid": f"u{number}",
                "sessionId": "bench",
                "cwd": str(folder),
                "timestamp": f"2026-11-15T10:{number // 60:02}:{number % 60:02}.000Z",
                "message": {"role": role, "content": [{"type": "text", "text": f"Turn {number}. " * 20}]},
            }
            file.write(json.dumps(line) + "\n")
    return path
