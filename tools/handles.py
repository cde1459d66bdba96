"""How many folders a question opens: `python -m tools.handles` makes a memory of ten records and counts.

Each handle is counted that a process of `vade` opens on a folder, its interpreter's own left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDS = (
    "Deploys go out on Tuesdays",
    "The database is PostgreSQL 17",
    "Use ruff for linting",
    "Tests run with pytest",
    "Staging lives at staging.example.org",
    "Tokens expire after one hour",
    "The cache is Redis",
    "Backups run at night",
    "Anna owns the billing service",
    "Logs go to Loki",
)
# Python's own `import` lists folders by other calls than `os.open` and `os.dup`.
_COUNTING = """
import os, stat, sys
from vademecum.interfaces.cli.app import run
from vademecum.store import folders  # before `os.open` is another one: it asks what the system's can do

opened, plain_open, plain_dup = [], os.open, os.dup

def noted(fd):
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        opened.append(os.readlink(f"/proc/self/fd/{fd}") if os.path.isdir("/proc/self/fd") else str(fd))
    return fd

os.open = lambda *given, **named: noted(plain_open(*given, **named))
os.dup = lambda fd: noted(plain_dup(fd))
try:
    run(sys.argv[2:])
except SystemExit:
    pass
finally:
    with open(sys.argv[1], "w") as report:
        report.write("\\n".join(opened))
"""


def fill(home: Path, project: Path) -> None:
    """Save the ten records, and ask once, so that there is an index."""
    for text in RECORDS:
        run(home, project, "add", text)
    run(home, project, "search", "deploys")


def run(home: Path, project: Path, *words: str) -> list[str]:
    """Run a command and return the folders that it opened, once for each handle."""
    report = home.parent / "handles.txt"
    subprocess.run(
        [sys.executable, "-c", _COUNTING, str(report), *words],
        check=True,
        capture_output=True,
        cwd=project,
        env={**os.environ, "VADE_HOME": str(home)},
    )
    return report.read_text().split("\n") if report.stat().st_size else []


def main() -> None:
    """Print the number for a few commands, or for the one that is given, and with it each folder."""
    with tempfile.TemporaryDirectory() as scratch:
        home, project = Path(scratch) / "home", Path(scratch) / "project"
        project.mkdir()
        fill(home, project)
        given = sys.argv[1:]
        for words in [given] if given else [["search", "deploys"], ["list"], ["status"], ["add", "One more"]]:
            found = run(home, project, *words)
            print(f"{len(found)} folder handles: vade {' '.join(words)}")
            for path in sorted(found) if given else ():
                print(f"  {path.removeprefix(scratch)}")


if __name__ == "__main__":
    main()
