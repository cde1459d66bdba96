"""What commands cost in a repository whose `.vade/` came with a clone and is large or made to be slow.

The folder holds 3,000 records, one record of 20 MB and 27,000 more files; nobody has trusted it. Each command
runs in a process of its own, with a fresh home and again with what it left there. CPU seconds and peak memory
are those of that process, held against the limits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    Rows = list[dict[str, object]]

CPU, MEMORY = 2.0, 256  # seconds, MiB
RECORDS, NOTES, HUGE = 3_000, 27_000, 20 * 1024 * 1024
COMMANDS = (
    "status",
    "list",
    "list --limit 20",
    "show record-1",
    "get .vade/records/a-huge.md",
    "search 'which port has service 7'",
    "recall 'which port has service 7' --include-related",
    "recall",
    "inject",
    "inject --query 'which port has service 7'",
    "index",
    "graph",
    "lint",
    "heal",
    "sweep",
    "merge",
    "promote",
    "review",
    "verify --list",
    "knowledge",
    "audit",
    "project",
    "sources",
    "config",
    "doctor",
    "export okf OUT",
    "store 'The service listens on 8080' --scope global",
    "note 'A note of today' --scope global",
)

_START = """import os, sys
child = os.fork()
if not child:
    said = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1), os.dup2(said, 2)
    os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--only", nargs="+", default=(), help="commands that begin with these words alone")
    parser.add_argument("--folder", type=Path, help="where the clone is made, and found again")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Make the clone, run every command in it, and hold what it cost against the limits."""
    folder = (chosen.folder or Path(tempfile.mkdtemp(prefix="vade-clone-"))).resolve()
    make_clone(folder / "clone")
    rows: Rows = []
    for command in COMMANDS:
        if not chosen.only or command.startswith(tuple(chosen.only)):
            for home in ("fresh", "again"):
                rows.append(_run(folder, command, home))
    return {f"commands in an untrusted clone, at most {CPU:g} s and {MEMORY} MiB": rows}


def make_clone(top: Path) -> None:
    """A repository with a `.vade/` that a stranger filled; one that is there already stays."""
    records = top / ".vade/records"
    if records.is_dir():
        return
    records.mkdir(parents=True)
    (top / ".git").mkdir()
    for number in range(1, RECORDS + 1):
        (records / f"record-{number}.md").write_text(_record(number), encoding="utf-8")
    line = "A long line about deployments, services and ports.\n"
    huge = _record(0) + "\n## 2026-11-02T10:00:00Z\n" + line * (HUGE // len(line))
    (records / "a-huge.md").write_text(huge, encoding="utf-8")
    for number in range(NOTES):
        text = f"# Extra {number}\n\nNote {number} says that something is so.\n"
        (records / f"x-extra-{number}.md").write_text(text, encoding="utf-8")


def _record(number: int) -> str:
    return f"""---
type: project
id: 01900000-0000-7000-8000-{number:012x}
num: {number}
key: record-{number}
title: Record {number}
scope: project
tags: [services, team-{number % 50}]
created: 2026-11-01T10:00:00Z
updated: 2026-11-01T10:00:00Z
---
# record-{number}

## 2026-11-01T10:00:00Z
Service {number} listens on port {number + 1000}, and team {number % 17} deploys it on Fridays. See
src/service_{number}.py:{number} and [[record-{number * 7 % RECORDS}]].
<!-- origin: user -->
"""


def _run(folder: Path, command: str, home: str) -> dict[str, object]:
    """One command in a process of its own: what it cost, and whether that is within the limits."""
    at = folder / f"home-{COMMANDS.index(command)}"
    if home == "fresh":
        for left in (at, folder / "out-fresh", folder / "out-again"):
            shutil.rmtree(left, ignore_errors=True)
    environ = {**os.environ, "HOME": str(folder), "VADE_HOME": str(at)}
    words = f"exec {sys.executable} -m vademecum {command.replace('OUT', str(folder / f'out-{home}'))}"
    # A process begins with the memory of the one that started it, so that one has to be small.
    started = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _START, words, str(folder / "said")],
        cwd=folder / "clone",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    code, seconds, memory = started.stdout.split()
    is_left_out = b"left out" in (folder / "said").read_bytes()
    return {
        "command": command,
        "home": home,
        "exit": int(code),
        "CPU s": round(float(seconds), 2),
        "MiB": round(int(memory) / 1024),
        "within": "yes" if float(seconds) <= CPU and int(memory) <= MEMORY * 1024 else "NO",
        "says what was left out": "yes" if is_left_out else "",
    }
